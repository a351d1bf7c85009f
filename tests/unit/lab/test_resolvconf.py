from helpers.builders import address, pod, service
from helpers.judging import snapshot_of

from knp_py.lab.resolvconf import resolv_confs
from knp_py.replay.directory import Directory

PODS = (
    pod("kube-system/dns", "10.244.0.2", labels={"k8s-app": "kube-dns"}, dns_policy="Default"),
    service("kube-system/kube-dns", "10.96.0.10", selector={"k8s-app": "kube-dns"}, port=53),
    pod("a/client", "10.244.1.6"),
    pod("a/public", "10.244.1.7", dns_policy="None", nameservers=["8.8.8.8", "1.1.1.1"]),
    pod("a/lost", "10.244.1.8", dns_policy="None"),
    pod("a/host", "172.18.0.2", host_network=True),
)


def texts(*node_resolvers: str) -> dict[str, list[str]]:
    snapshot = snapshot_of(PODS)
    resolvers = tuple(map(address, node_resolvers))
    directory = Directory({}, resolvers)
    directory.load(snapshot)
    found = resolv_confs(snapshot, directory, resolvers)
    return {place: text.splitlines() for place, text in found.items()}


def test_resolvers_and_search_list_are_the_pods_own() -> None:
    found = texts("192.0.2.53")
    assert found["a/client"] == [
        "nameserver 10.96.0.10",
        "search a.svc.cluster.local svc.cluster.local cluster.local",
        "options ndots:5",
    ]
    assert found["a/public"] == ["nameserver 8.8.8.8", "nameserver 1.1.1.1"]
    assert found["kube-system/dns"] == found["node"] == ["nameserver 192.0.2.53"]
    assert "a/host" not in found


def test_who_has_no_resolver_does_not_ask_itself() -> None:
    """Without a nameserver line the resolver library asks 127.0.0.1."""
    found = texts()
    for place in ("a/lost", "node", "kube-system/dns"):
        assert found[place][1] == "nameserver 0.0.0.0"
