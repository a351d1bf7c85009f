# shellcheck shell=bash
# What the kit's scripts share.

kit="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$kit/../.." && pwd)"
export manifests="$root/examples/agent-sandbox/manifests"

say() { printf '\n== %s\n' "$*"; }

# needs: the kit's tools and an engine that answers, or one line and exit code 3. Nothing has
# been changed by then.
needs() {
  local missing=() tool
  for tool in docker kind kubectl; do
    command -v "$tool" >/dev/null || missing+=("$tool (not installed)")
  done
  if command -v docker >/dev/null && ! docker info >/dev/null 2>&1; then
    missing+=("a Docker engine (docker info does not reach one)")
  fi
  if ((${#missing[@]})); then
    local listed
    listed=$(printf ', %s' "${missing[@]}")
    echo "$(basename "$0"): needs ${listed:2}; nothing was done" >&2
    exit 3
  fi
}

has_cluster() { kind get clusters 2>/dev/null | grep -xF "$KIND_CLUSTER" >/dev/null; }

# needs_cluster: the same for the scripts that come after setup-all.sh.
needs_cluster() {
  has_cluster && return
  echo "$(basename "$0"): there is no kind cluster $KIND_CLUSTER: run setup-all.sh first" >&2
  exit 3
}

# k: kubectl on the kit's cluster, whatever the current context is.
k() { kubectl --context "kind-$KIND_CLUSTER" "$@"; }

# kustomized DIRECTORY: the manifests of a directory of the kit, which are those of examples/.
kustomized() { kubectl kustomize --load-restrictor=LoadRestrictionsNone "$kit/$1"; }

# eventually WHAT COMMAND...: wait until it succeeds.
eventually() {
  local what=$1 end=$((SECONDS + PATIENCE))
  shift
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS >= end)); then
      echo "$(basename "$0"): not within $PATIENCE s: $what" >&2
      exit 1
    fi
    sleep 1
  done
}

# sandbox_of NAMESPACE: the pod that the claim got, nothing while it has none.
sandbox_of() {
  k get sandboxclaim agent -n "$1" -o "jsonpath={.status.sandbox.name}"
}

has_sandbox() { [ -n "$(sandbox_of "$1")" ]; }
