import pytest
from helpers.builders import address, pod, service
from helpers.judging import snapshot_of

from knp_py.model.changes import ClusterObject
from knp_py.model.net import format_address
from knp_py.model.objects import Pod, Service
from knp_py.replay.directory import Directory, Place, UnanswerableError
from knp_py.replay.scenario import Resolved

DNS_POD = pod("kube-system/dns", "10.244.0.2", labels={"k8s-app": "kube-dns"})
DNS = service("kube-system/kube-dns", "10.96.0.10", selector={"k8s-app": "kube-dns"}, port=53)
WEB = service("b/web", "10.96.1.1", selector={"app": "web"})
STATEFUL = Service("b", "db", selector={"app": "db"}, headless=True)
CLIENT = pod("a/client", "10.244.1.6")
PUBLIC = pod("a/public", "10.244.1.7", dns_policy="None", nameservers=["8.8.8.8", "1.1.1.1"])
ON_NODE = pod("a/on-node", "10.244.1.8", dns_policy="Default")
DB_0 = pod("b/db-0", "10.244.1.20", labels={"app": "db"})
DB_1 = pod("b/db-1", "10.244.1.21", "2001:db8::21", labels={"app": "db"})
CLUSTER = (DNS_POD, DNS, WEB, STATEFUL, CLIENT, PUBLIC, ON_NODE, DB_0, DB_1)
RESOLVE = {"github.com": Resolved((address("140.82.121.4"),), 300)}


def directory(*objects: ClusterObject, node_resolvers: tuple[int, ...] = ()) -> Directory:
    found = Directory(RESOLVE, node_resolvers)
    found.load(snapshot_of(objects or CLUSTER))
    return found


def texts(places: tuple[Place, ...]) -> list[str]:
    return [place.text for place in places]


def asked(
    name: str, who: Pod = CLIENT, resolver: str = "10.96.0.10"
) -> tuple[str, list[str]] | None:
    """Full name and addresses that a resolver answers."""
    place = Place(address(resolver))
    answer = directory().answer(name, who, place, address(resolver))
    return None if answer is None else (answer.name, texts(answer.places))


def test_resolvers_by_dns_policy() -> None:
    found = directory(*CLUSTER, node_resolvers=(address("192.0.2.53"),))
    assert texts(found.resolvers(CLIENT)) == ["10.96.0.10"]
    assert found.resolvers(CLIENT)[0].service == DNS
    assert texts(found.resolvers(PUBLIC)) == ["8.8.8.8", "1.1.1.1"]
    assert texts(found.resolvers(ON_NODE)) == ["192.0.2.53"]
    both = pod("a/both", "10.244.1.9", nameservers=["8.8.8.8"])
    assert texts(found.resolvers(both)) == ["10.96.0.10", "8.8.8.8"]


def test_cluster_dns_without_its_service_is_its_pods() -> None:
    assert texts(directory(DNS_POD, CLIENT).resolvers(CLIENT)) == ["10.244.0.2"]


@pytest.mark.parametrize(
    ("who", "message"),
    [
        (CLIENT, "the manifests have neither a Service kube-system/kube-dns nor pods labelled"),
        (ON_NODE, "has dnsPolicy Default: say under node-resolvers"),
        (pod("a/x", "10.244.1.9", dns_policy="None"), "has dnsPolicy None and no nameservers"),
    ],
)
def test_resolvers_nobody_can_tell(who: Pod, message: str) -> None:
    with pytest.raises(UnanswerableError, match=message) as caught:
        directory(CLIENT).resolvers(who)
    assert caught.value.field == "from"


def test_listed_names_are_known_to_every_resolver() -> None:
    for resolver in ("10.96.0.10", "8.8.8.8"):
        assert asked("github.com", PUBLIC, resolver) == ("github.com", ["140.82.121.4"])


@pytest.mark.parametrize("name", ["web.b.svc.cluster.local", "web.b.svc", "web.b"])
def test_services_by_the_names_cluster_dns_gives(name: str) -> None:
    assert asked(name) == ("web.b.svc.cluster.local", ["10.96.1.1"])


def test_a_bare_service_name_is_of_the_pods_own_namespace() -> None:
    assert asked("web") is None
    assert asked("web", DB_0) == ("web.b.svc.cluster.local", ["10.96.1.1"])


def test_short_names_need_the_search_list() -> None:
    assert asked("web.b", PUBLIC) is None
    assert asked("web.b.svc.cluster.local", PUBLIC) is not None


def test_other_resolvers_know_no_services() -> None:
    assert asked("web.b.svc.cluster.local", CLIENT, "8.8.8.8") is None


def test_headless_services_are_their_pods() -> None:
    every = ["10.244.1.20", "10.244.1.21", "2001:db8::21"]
    assert asked("db.b") == ("db.b.svc.cluster.local", every)
    assert asked("db-1.db.b") == ("db-1.db.b.svc.cluster.local", every[1:])
    assert asked("db-7.db.b") is None
    assert asked("web-0.web.b") is None


def test_a_service_without_an_address_is_still_a_place() -> None:
    bare = service("b/bare", selector={"app": "db"})
    (place,) = directory(*CLUSTER, bare).service_places(bare)
    assert (place.address, place.text) == (None, "the Service b/bare")


def test_names_nobody_ever_said_anything_about() -> None:
    found = directory()
    found.check_known("github.com", CLIENT, "connect")
    found.check_known("web.b", CLIENT, "connect")
    with pytest.raises(UnanswerableError, match=r"did you mean 'github\.com'"):
        found.check_known("githb.com", CLIENT, "connect")
    with pytest.raises(UnanswerableError, match=r"web\.b is neither in resolve nor .*: add it"):
        found.check_known("web.b", PUBLIC, "connect")


def test_a_service_that_is_gone_is_no_slip() -> None:
    found = directory()
    found.load(snapshot_of([CLIENT, DNS, DNS_POD]))
    found.check_known("web.b", CLIENT, "connect")
    assert found.answer("web.b", CLIENT, Place(address("10.96.0.10")), DNS_POD.ips[0]) is None


def test_an_address_is_a_services_unless_a_pod_has_it() -> None:
    assert directory().place(address("10.96.1.1")).service == WEB
    clash = pod("a/clash", "10.96.1.1")
    assert directory(WEB, clash).place(address("10.96.1.1")).service is None
    assert format_address(directory().place(address("8.8.8.8")).address or 0) == "8.8.8.8"


def test_the_names_that_a_client_asks_for_and_those_there_are() -> None:
    found = directory()
    assert found.spellings("github.com", CLIENT) == ("github.com",)
    assert found.spellings("web.b", CLIENT) == ("web.b.svc.cluster.local",)
    assert found.spellings("db-0.db.b.svc", CLIENT) == ("db-0.db.b.svc.cluster.local",)
    assert found.spellings("web.b", PUBLIC) == ()
    names = {answer.name: texts(answer.places) for answer in found.cluster_names()}
    assert names == {
        "kube-dns.kube-system.svc.cluster.local": ["10.96.0.10"],
        "web.b.svc.cluster.local": ["10.96.1.1"],
        "db.b.svc.cluster.local": ["10.244.1.20", "10.244.1.21", "2001:db8::21"],
        "db-0.db.b.svc.cluster.local": ["10.244.1.20"],
        "db-1.db.b.svc.cluster.local": ["10.244.1.21", "2001:db8::21"],
    }
    for name, places in names.items():
        assert asked(name) == (name, places)
