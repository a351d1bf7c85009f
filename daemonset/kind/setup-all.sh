#!/usr/bin/env bash
# setup-all.sh: a kind cluster with the agent, ClusterNetworkPolicy, agent-sandbox and the demo's
# workloads. Run again, it goes on where it is, with the image built anew.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source-path=SCRIPTDIR source=env.sh
. "$here/env.sh"
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh"
needs

say "kind cluster $KIND_CLUSTER"
if has_cluster; then
  echo "is there"
else
  kind create cluster --name "$KIND_CLUSTER" --image "$KIND_NODE_IMAGE" \
    --config "$kit/cluster.yaml" --wait "${PATIENCE}s"
fi

say "image $KNP_IMAGE"
docker build -f "$root/daemonset/Dockerfile" -t "$KNP_IMAGE" "$root"
kind load docker-image "$KNP_IMAGE" --name "$KIND_CLUSTER"

say "ClusterNetworkPolicy $NETWORK_POLICY_API_VERSION, experimental channel"
k apply --server-side -f "$CNP_CRD_URL"
k wait --for=condition=Established --timeout="${PATIENCE}s" \
  crd/clusternetworkpolicies.policy.networking.k8s.io

say "knp agent, fail-closed"
again=$(k get daemonset knp -n kube-system --ignore-not-found -o name)
k apply -k "$root/daemonset/overlays/kind"
if [ -n "$again" ]; then
  k rollout restart daemonset/knp -n kube-system # the image may be another under the same name
fi
k rollout status daemonset/knp -n kube-system --timeout="${PATIENCE}s"

say "agent-sandbox $AGENT_SANDBOX_VERSION"
k apply --server-side -f "$AGENT_SANDBOX_URL"
k rollout status deployment -n agent-sandbox-system --timeout="${PATIENCE}s"

say "demo: two tenants' sandboxes and a tool server"
kustomized demo | k apply -f -
k rollout status deployment/tool-server -n shared-tools --timeout="${PATIENCE}s"
for namespace in sandbox-team-a sandbox-team-b; do
  eventually "the claim in $namespace has a sandbox" has_sandbox "$namespace"
  k wait --for=condition=Ready --timeout="${PATIENCE}s" -n "$namespace" \
    "pod/$(sandbox_of "$namespace")"
done

say "ready: ./test.sh walks through the policies, ./teardown.sh removes the demo"
