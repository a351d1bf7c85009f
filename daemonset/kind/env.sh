# shellcheck shell=bash
# What the kit uses, pinned. Each may be set from outside:  KIND_CLUSTER=other ./setup-all.sh

export KIND_CLUSTER="${KIND_CLUSTER:-knp}"
# The node image that kind v0.33.0 was released with; another kind wants another one.
export KIND_NODE_IMAGE="${KIND_NODE_IMAGE:-kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5}"
export KNP_IMAGE="knp:0.1.0" # the one that the manifests name
# ClusterNetworkPolicy; the experimental channel is the one that has domainNames.
export NETWORK_POLICY_API_VERSION="${NETWORK_POLICY_API_VERSION:-v0.2.0}"
export AGENT_SANDBOX_VERSION="${AGENT_SANDBOX_VERSION:-v1.0.5}"

export CNP_CRD_URL="https://raw.githubusercontent.com/kubernetes-sigs/network-policy-api/${NETWORK_POLICY_API_VERSION}/config/crd/experimental/policy.networking.k8s.io_clusternetworkpolicies.yaml"
export AGENT_SANDBOX_URL="https://github.com/kubernetes-sigs/agent-sandbox/releases/download/${AGENT_SANDBOX_VERSION}/sandbox-with-extensions.yaml"

# Seconds between applying a policy and asking what it does; how often, and how many seconds
# apart, an answer other than the expected one is asked for again.
export SETTLE="${SETTLE:-2}"
export TRIES="${TRIES:-5}"
export PAUSE="${PAUSE:-3}"
# Until something that was applied is running. Images are pulled in that time.
export PATIENCE="${PATIENCE:-300}"
