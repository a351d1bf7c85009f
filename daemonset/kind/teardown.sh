#!/usr/bin/env bash
# teardown.sh: removes what the demo made, keeps the cluster and the agent.
# teardown.sh --all: deletes the whole cluster.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source-path=SCRIPTDIR source=env.sh
. "$here/env.sh"
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh"
case "$*" in
  '' | --all) ;;
  *)
    echo "usage: teardown.sh [--all]" >&2
    exit 2
    ;;
esac
needs
if ! has_cluster; then
  echo "there is no kind cluster $KIND_CLUSTER"
  exit 0
fi
if [ "$*" = --all ]; then
  kind delete cluster --name "$KIND_CLUSTER"
  exit 0
fi
# Sandboxes first: they must not outlive the policies that hold them.
k delete sandbox raw-sandbox -n sandbox-team-a --ignore-not-found
kustomized demo | k delete --ignore-not-found -f -
for file in "$manifests"/phase-[47]/*-cnp-*.yaml; do
  k delete --ignore-not-found -f "$file"
done
