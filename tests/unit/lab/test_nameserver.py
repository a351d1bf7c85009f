from collections.abc import Sequence

import pytest
from dnslib import EDNS0, DNSHeader, DNSQuestion, DNSRecord
from helpers.builders import address, pod, service
from helpers.judging import snapshot_of

from knp_py.lab.nameserver import Entry, Names, names_of, reply_to
from knp_py.model.changes import ClusterObject
from knp_py.replay.directory import Directory
from knp_py.replay.scenario import Resolved

CLUSTER_DNS = "10.96.0.10"
WEB = "web.shop.svc.cluster.local"
NAMES = Names(
    {"github.com": Entry(("140.82.121.4", "2001:db8::1"), 60)},
    {WEB: Entry(("10.96.1.1",), 30)},
    frozenset({CLUSTER_DNS}),
)


def ask(name: str, kind: str = "A", server: str = "8.8.8.8") -> tuple[int, list[str]]:
    """The response code and ``address ttl`` of every record."""
    query = DNSRecord.question(name, kind)
    data = reply_to(query.pack(), NAMES, server)
    assert data is not None
    reply = DNSRecord.parse(data)
    assert (reply.header.id, reply.header.qr, reply.header.ra) == (query.header.id, 1, 1)
    assert reply.q == query.q
    return reply.header.rcode, [f"{record.rdata} {record.ttl}" for record in reply.rr]


def test_a_name_has_the_addresses_of_the_family_that_was_asked_for() -> None:
    assert ask("github.com") == (0, ["140.82.121.4 60"])
    assert ask("GitHub.COM.", "AAAA") == (0, ["2001:db8::1 60"])
    assert ask("github.com", "TXT") == (0, [])
    assert ask("gitlab.com") == (3, [])


def test_only_the_clusters_resolvers_know_services() -> None:
    assert ask(WEB, server=CLUSTER_DNS) == (0, ["10.96.1.1 30"])
    assert ask(WEB, "AAAA", server=CLUSTER_DNS) == (0, [])
    assert ask(WEB) == (3, [])
    assert ask("github.com", server=CLUSTER_DNS) == (0, ["140.82.121.4 60"])


def many(count: int) -> Names:
    return Names({"many.example": Entry(tuple(f"192.0.2.{n}" for n in range(count)), 60)})


@pytest.mark.parametrize(
    ("edns", "count", "cut"),
    [(0, 28, False), (0, 40, True), (4096, 200, False), (4096, 255, True), (1, 40, True)],
)
def test_what_does_not_fit_is_cut_short_and_says_so(edns: int, count: int, *, cut: bool) -> None:
    query = DNSRecord.question("many.example")
    if edns:
        query.add_ar(EDNS0(udp_len=edns))
    for stream in (False, True):
        data = reply_to(query.pack(), many(count), "8.8.8.8", stream=stream)
        assert data is not None
        reply = DNSRecord.parse(data)
        assert bool(reply.header.tc) is (cut and not stream)
        assert len(reply.rr) == (0 if cut and not stream else count)
        assert reply.q == query.q


def response() -> bytes:
    forged: bytes = DNSRecord.question("github.com").reply().pack()
    return forged


def two_questions() -> bytes:
    questions: Sequence[DNSQuestion] = [DNSQuestion("a.example"), DNSQuestion("b.example")]
    packed: bytes = DNSRecord(DNSHeader(id=1), questions=questions).pack()
    return packed


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 12, b"GET / HTTP/1.0\r\n\r\n", response(), two_questions(), b"\xff" * 40]
)
def test_what_is_no_question_has_no_answer(data: bytes) -> None:
    """An answer to an answer, or an echo, would be a forgery from a resolver's port 53."""
    assert reply_to(data, NAMES, "8.8.8.8") is None


def test_the_names_of_a_scenario_and_of_a_cluster() -> None:
    objects: list[ClusterObject] = [
        pod("kube-system/dns", "10.244.0.2", labels={"k8s-app": "kube-dns"}),
        service("kube-system/kube-dns", CLUSTER_DNS, selector={"k8s-app": "kube-dns"}, port=53),
        service("shop/web", "10.96.1.1", selector={"app": "web"}),
    ]
    resolve = {"github.com": Resolved((address("140.82.121.4"), address("2001:db8::1")))}
    snapshot = snapshot_of(objects)
    directory = Directory(resolve)
    directory.load(snapshot)
    names = names_of(resolve, directory, snapshot.cluster_resolvers)
    assert names.public == NAMES.public
    assert names.cluster[WEB] == NAMES.cluster[WEB]
    assert set(names.cluster) == {WEB, "kube-dns.kube-system.svc.cluster.local"}
    assert names.resolvers == {CLUSTER_DNS, "10.244.0.2", "169.254.20.10"}
