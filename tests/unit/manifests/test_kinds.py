"""Kinds that are not read: named and counted, never passed over."""

from helpers.manifests import both, lines, listed


def other(kind: str, name: str = "n", version: str = "v1") -> dict[str, object]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def test_kinds_that_are_not_read_are_counted() -> None:
    result = both(
        listed(
            *[other("ConfigMap", f"c{i}") for i in range(3)],
            other("CiliumNetworkPolicy", "cnp", "cilium.io/v2"),
            other("GlobalNetworkPolicy", "g", "projectcalico.org/v3"),
            other("NetworkPolicy", "calico", "crd.projectcalico.org/v1"),
            other("ClusterNetworkPolicy", "old", "policy.networking.k8s.io/v1alpha1"),
            other("NetworkPolicy", "old", "extensions/v1beta1"),
            other("NetworkPolicy", "wrong", "v1"),
            other("Service", "knative", "serving.knative.dev/v1"),
            other("pod", "p"),
            other("AuthorizationPolicy", "a", "security.istio.io/v1"),
        )
    )
    assert not result.problems
    assert not result.objects
    policy = "is another product's policy: it is not judged, and verdicts leave it out"
    ignored = "kind, which policy does not depend on; ignored"
    assert lines(result.warnings) == [
        (
            "ClusterNetworkPolicy old: policy.networking.k8s.io/v1alpha1 is not read for "
            "this kind and has no effect; read is policy.networking.k8s.io/v1alpha2"
        ),
        (
            "NetworkPolicy old: extensions/v1beta1 is not read for this kind and has no effect; "
            "read is networking.k8s.io/v1"
        ),
        (
            "NetworkPolicy wrong: v1 is not read for this kind and has no effect; "
            "read is networking.k8s.io/v1"
        ),
        f"AuthorizationPolicy a: security.istio.io/v1 {policy}",
        f"CiliumNetworkPolicy cnp: cilium.io/v2 {policy}",
        f"GlobalNetworkPolicy g: projectcalico.org/v3 {policy}",
        f"NetworkPolicy calico: crd.projectcalico.org/v1 {policy}",
        f"ConfigMap c0: v1 {ignored} (3 such objects, this is the first)",
        f"Service knative: serving.knative.dev/v1 {ignored}",
        f"pod p: v1 {ignored}, did you mean 'Pod'?",
    ]


def test_lists_of_other_products_policies_are_policies() -> None:
    result = both({**other("CiliumNetworkPolicyList", "", "cilium.io/v2"), "items": [{}]})
    assert lines(result.warnings) == [
        (
            "CiliumNetworkPolicyList: cilium.io/v2 is another product's policy: it is not judged, "
            "and verdicts leave it out"
        )
    ]
