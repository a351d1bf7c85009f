"""Paths of the API."""

from knp_py.adapters.kube.resources import WATCHED, Resource


def test_paths_are_the_apis() -> None:
    paths = {each.kind: each.path for each in WATCHED}
    assert paths == {
        "Namespace": "/api/v1/namespaces",
        "Node": "/api/v1/nodes",
        "Pod": "/api/v1/pods",
        "Service": "/api/v1/namespaces/kube-system/services",
        "NetworkPolicy": "/apis/networking.k8s.io/v1/networkpolicies",
        "ClusterNetworkPolicy": "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies",
    }


def test_queries() -> None:
    pods = Resource("", "v1", "pods", "Pod")
    assert pods.query() == "/api/v1/pods"
    assert pods.query(limit=5, resourceVersion="", watch=None) == "/api/v1/pods?limit=5"
    one = Resource("", "v1", "services", "Service", "kube-system", "kube-dns")
    assert one.query(watch=1) == (
        "/api/v1/namespaces/kube-system/services?watch=1&fieldSelector=metadata.name%3Dkube-dns"
    )
