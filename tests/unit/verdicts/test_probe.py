import json
from typing import Any

import msgspec
import pytest
from helpers.builders import (
    accept,
    cnp,
    container_port,
    deny,
    domains,
    in_namespace,
    networks,
    node,
    pod,
    select,
    service,
    tcp,
)
from helpers.builders import namespace as ns
from helpers.judging import snapshot_of

from knp_py.engine.snapshot import Snapshot
from knp_py.errors import ProbeError
from knp_py.verdicts.probe import Prober, parse_probe, probe_id
from knp_py.verdicts.record import as_dict

OUTSIDE: dict[str, Any] = {"from": "203.0.113.9"}
HTTP = container_port("http", 8080)


@pytest.fixture(scope="module")
def cluster() -> Snapshot:
    return snapshot_of(
        [
            ns("shop"),
            node("n1", "192.168.0.1"),
            pod("shop/web", "10.0.0.1", "fd00::1", node="n1", labels={"app": "web"}),
            pod("shop/db-0", "10.0.0.2", labels={"app": "db"}, ports=[HTTP]),
            pod("shop/db-1", "10.0.0.3", labels={"app": "db", "old": "yes"}, ports=[HTTP]),
            pod("shop/dns", "10.0.0.4", labels={"app": "dns"}),
            pod("shop/proxy", "192.168.0.1", host_network=True, node="n1"),
            service("shop/db", "10.96.0.2", selector={"app": "db"}, port=80, target="http"),
            service("shop/old", "10.96.0.3", selector={"old": "yes"}, port=80, target=8080),
            service("shop/none", "10.96.0.4", selector={"app": "none"}),
            cnp(
                "allow-names",
                priority=10,
                subject=in_namespace("shop", select({"app": "web"})),
                egress=[
                    accept(domains("github.com", "*.github.com"), ports=[tcp(443)], name="github"),
                    accept(networks("10.0.0.2/32"), name="db"),
                ],
            ),
            cnp(
                "deny-rest",
                priority=20,
                subject=in_namespace("shop", select({"app": "web"})),
                egress=[deny(networks("0.0.0.0/0", "::/0"), name="rest")],
            ),
        ]
    )


def ask(cluster: Snapshot, *, resolve: bool = False, **probe: Any) -> dict[str, Any]:
    prober = Prober(cluster, resolve_services=resolve)
    return as_dict(prober.ask(parse_probe(json.dumps({"from": "shop/web"} | probe))).answer)


def test_an_answer_is_about_the_flow_that_was_asked_for(cluster: Snapshot) -> None:
    document = ask(cluster, id="p1", to="10.0.0.7", protocol="tcp", port=80)
    assert document["id"] == "p1"
    assert document["from"] == {"ip": "10.0.0.1", "pod": "shop/web"}
    assert document["to"] == {"ip": "10.0.0.7"}
    assert (document["protocol"], document["port"], document["verdict"]) == ("TCP", 80, "deny")
    assert document["decided_by"] == {
        "direction": "egress",
        "tier": "Admin",
        "policy": "deny-rest",
        "rule": 0,
        "rule_name": "rest",
        "action": "Deny",
    }
    assert document["ingress"] is None
    assert "notes" not in document


@pytest.mark.parametrize("identity", [None, 7, "x", ["a", 1], {"k": None}])
def test_an_id_comes_back_as_it_is(cluster: Snapshot, identity: object) -> None:
    assert ask(cluster, id=identity, to="10.0.0.7")["id"] == identity


def test_names_count_for_their_probe_only(cluster: Snapshot) -> None:
    prober = Prober(cluster)
    plain = parse_probe('{"from": "shop/web", "to": "140.82.112.3"}')
    named = parse_probe('{"from": "shop/web", "to": "140.82.112.3", "names": ["API.github.com."]}')
    verdicts = [prober.ask(p).answer.verdict for p in (plain, named, plain, named)]
    assert verdicts == ["deny", "allow", "deny", "allow"]
    assert prober.ask(named).answer.destination.names == ("api.github.com",)


def test_names_of_another_port_or_pattern_open_nothing(cluster: Snapshot) -> None:
    assert ask(cluster, to="1.2.3.4", names=["github.com"], port=80)["verdict"] == "deny"
    assert ask(cluster, to="1.2.3.4", names=["github.com.evil.example"])["verdict"] == "deny"


@pytest.mark.parametrize("address", ["10.0.0.4", "192.168.0.1"])
def test_what_a_probe_says_was_learned_was_learned(cluster: Snapshot, address: str) -> None:
    assert ask(cluster, to=f"github.com={address}")["verdict"] == "allow"


@pytest.mark.parametrize("address", ["169.254.169.254", "127.0.0.1", "224.0.0.1", "0.0.0.0"])
def test_a_name_cannot_open_what_it_must_not(cluster: Snapshot, address: str) -> None:
    document = ask(cluster, to=f"github.com={address}")
    assert document["verdict"] == "deny"
    assert f"github.com cannot open {address}" in document["notes"][0]
    assert "names" not in document["to"]


def test_a_name_alone_stands_for_some_public_address(cluster: Snapshot) -> None:
    document = ask(cluster, to="github.com")
    assert document["verdict"] == "allow"
    assert document["to"] == {
        "ip": "203.0.113.77",
        "name": "github.com",
        "assumed": True,
        "names": ["github.com"],
    }
    assert "203.0.113.77 stands for a public address of github.com" in document["notes"][0]
    other = ask(cluster, to="example.com")
    assert (other["verdict"], other["to"]["assumed"]) == ("deny", True)


def test_a_name_with_an_address(cluster: Snapshot) -> None:
    document = ask(cluster, to="github.com=140.82.112.3")
    assert document["verdict"] == "allow"
    assert document["to"] == {
        "ip": "140.82.112.3",
        "name": "github.com",
        "names": ["github.com"],
    }


def test_names_need_a_pod_to_learn_them(cluster: Snapshot) -> None:
    document = ask(cluster, **OUTSIDE, to="shop/db-0", names=["github.com"])
    assert "names are learned by pods" in document["notes"][0]


@pytest.mark.parametrize(
    ("protocol", "shown", "port"),
    [
        (None, "TCP", 443),
        ("udp", "UDP", 443),
        ("SCTP", "SCTP", 443),
        ("ICMP", "ICMP", None),
        ("icmpv6", "ICMPv6", None),
        ("unknown", "unknown", None),
    ],
)
def test_protocols_and_the_default_port(
    cluster: Snapshot, protocol: str | None, shown: str, port: int | None
) -> None:
    document = ask(cluster, to="10.0.0.2", protocol=protocol)
    assert (document["protocol"], document["port"]) == (shown, port)
    assert document["verdict"] == "allow"


def test_a_port_of_our_own_choice_is_said_where_a_pod_may_have_another(cluster: Snapshot) -> None:
    assert ask(cluster, to="shop/db-0")["notes"] == [
        "no port was given, so 443 is judged; shop/db-0 has 8080 (http)"
    ]
    assert ask(cluster, to="10.0.0.4")["notes"] == ["no port was given, so 443 is judged"]
    for probe in ({"port": 443}, {"to": "1.2.3.4"}, {"protocol": "ICMP"}):
        assert "notes" not in ask(cluster, **({"to": "shop/db-0"} | probe))
    https = pod("shop/https", "10.0.0.9", ports=[container_port("https", 443)])
    served = snapshot_of([https, pod("shop/web", "10.0.0.1")])
    assert "notes" not in ask(served, to="shop/https")
    assert "so 443" in ask(served, to="shop/https", protocol="UDP")["notes"][0]


def test_icmp_between_ipv6_addresses_is_icmpv6(cluster: Snapshot) -> None:
    document = ask(cluster, to="2001:db8::1", protocol="ICMP")
    assert (document["protocol"], document["verdict"]) == ("ICMP", "deny")


@pytest.mark.parametrize("port", [8080, "8080", "http"])
def test_ports_by_number_and_by_name(cluster: Snapshot, port: int | str) -> None:
    assert ask(cluster, to="shop/db-0", port=port)["port"] == 8080


@pytest.mark.parametrize(
    ("probe", "complaint"),
    [
        ({"protocol": "GRE"}, "protocol: 'GRE' is not one of TCP, UDP, SCTP, ICMP"),
        ({"protocol": "ICMP", "port": 8}, "port: ICMP has no ports"),
        ({"port": 70000}, "port: 70000 is not between 0 and 65535"),
        ({"port": -1}, "port: -1"),
        ({"port": "https"}, "pod shop/db-0 has no TCP port called 'https', only http"),
        ({"port": "http", "protocol": "UDP"}, "has no UDP port called 'http'$"),
        ({"port": "http", "to": "1.2.3.4"}, "only a pod as destination has"),
        ({"names": ["not a name"]}, "names: 'not a name' is no domain name"),
        ({"from": "shop/nobody"}, "from: there is no pod shop/nobody"),
        ({"to": "shop/nobody"}, "to: there is no pod shop/nobody"),
        ({"from": "shop/db-0", "to": "2001:db8::1"}, "IPv4 only, 2001:db8::1 IPv6 only"),
        ({"to": "shop/db"}, "is Service shop/db, which policy never sees"),
        ({"to": "db.shop.svc.cluster.local"}, "is Service shop/db, which policy never sees"),
    ],
)
def test_probes_that_mean_no_flow(
    cluster: Snapshot, probe: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ProbeError, match=complaint) as error:
        ask(cluster, **({"to": "shop/db-0"} | probe))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "Expected `object`"),
        ('{"from": "a/b"}', "missing required field `to`"),
        ('{"from": 1, "to": "a/b"}', "Expected `str`, got `int` at `from`"),
        ('{"from": "a/b", "to": "a/b", "port": 4.5}', "port"),
        ('{"from": "a/b", "to": "a/b", "names": "x"}', "names"),
        ('{"from": "a/b", "to": "a/b", "expect": "maybe"}', "expect: 'maybe' is not one of"),
        ('{"id":' + "[" * 200_000, "not JSON"),
    ],
)
def test_lines_that_are_no_probe(line: str, complaint: str) -> None:
    with pytest.raises(ProbeError, match=complaint):
        parse_probe(line)


def test_keys_that_mean_nothing_are_allowed() -> None:
    probe = parse_probe('{"id": 1, "from": "a/b", "to": "c/d", "source": "a book", "flag": "x"}')
    assert (probe.id, probe.source, probe.destination) == (1, "a/b", "c/d")


@pytest.mark.parametrize(
    ("line", "identity"),
    [('{"id": "p9", "from": 1}', "p9"), ("{}", None), ("[1]", None), ("{", None)],
)
def test_the_id_of_a_bad_line(line: str, identity: str | None) -> None:
    assert probe_id(line) == identity


def test_a_host_network_pod_is_said_to_be_its_node(cluster: Snapshot) -> None:
    document = ask(cluster, to="shop/proxy")
    assert document["to"] == {"ip": "192.168.0.1", "pod": "shop/proxy", "node": "n1"}
    assert document["notes"] == ["pod shop/proxy is on the host network: to policy it is its node"]


def test_a_services_address_is_judged_as_written_with_a_hint(cluster: Snapshot) -> None:
    document = ask(cluster, to="10.96.0.2", port=80)
    assert document["verdict"] == "deny"
    assert document["to"]["service"] == "shop/db"
    assert "shop/db-0:8080, shop/db-1:8080; --resolve-services" in document["notes"][0]
    assert "Service shop/none" in ask(cluster, to="10.96.0.4", protocol="ICMP")["notes"][0]


def test_a_services_backends_can_be_asked_about(cluster: Snapshot) -> None:
    document = ask(cluster, to="shop/old", port=80, resolve=True)
    assert document["verdict"] == "deny"
    assert document["to"] == {"ip": "10.0.0.3", "pod": "shop/db-1", "service": "shop/old"}
    assert document["port"] == 8080
    assert document["notes"] == [
        'backend shop/db-1 10.0.0.3:8080: deny, egress: Admin deny-rest, rule 0 "rest"'
    ]


@pytest.mark.parametrize("to", ["shop/db", "10.96.0.2", "db.shop.svc"])
def test_backends_that_differ_leave_the_verdict_open(cluster: Snapshot, to: str) -> None:
    document = ask(cluster, to=to, port=80, resolve=True)
    assert (document["verdict"], document["decided_by"]) == ("unknown", None)
    assert document["reason"] == "the backends of the Service differ"
    assert document["notes"] == [
        'backend shop/db-0 10.0.0.2:8080: allow, egress: Admin allow-names, rule 1 "db"',
        'backend shop/db-1 10.0.0.3:8080: deny, egress: Admin deny-rest, rule 0 "rest"',
    ]
    asked = Prober(cluster, resolve_services=True).ask(
        parse_probe(json.dumps({"from": "shop/web", "to": to, "port": 80}))
    )
    assert asked.backends == 2


@pytest.mark.parametrize(
    ("probe", "complaint"),
    [
        ({"to": "shop/db", "port": 81}, "has no TCP port 81, only TCP 80"),
        ({"to": "shop/db", "protocol": "ICMP"}, "takes no ICMP"),
        ({"to": "shop/none", "port": 80}, "has no backend for TCP port 80"),
    ],
)
def test_services_that_lead_nowhere(
    cluster: Snapshot, probe: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ProbeError, match=complaint):
        ask(cluster, resolve=True, **probe)


def test_explaining_does_not_change_the_answer(cluster: Snapshot) -> None:
    probe = parse_probe('{"from": "shop/web", "to": "github.com"}')
    plain, explained = Prober(cluster).ask(probe), Prober(cluster, explain=True).ask(probe)
    assert plain.answer == explained.answer
    assert plain.steps == ()
    assert [step.policy for step in explained.steps[0].policies] == ["allow-names", "deny-rest"]


def test_an_address_that_was_made_up_is_said_to_be() -> None:
    made_up = msgspec.structs.replace(pod("shop/new", "198.18.0.1"), made_up=True)
    objects = [made_up, pod("shop/web", "10.0.0.1")]
    document = ask(snapshot_of(objects), to="shop/new", port=80)
    assert document["to"] == {"ip": "198.18.0.1", "pod": "shop/new", "assumed": True}
    assert "notes" not in document
    by_network = cnp("ten", egress=[deny(networks("10.0.0.0/8"))])
    document = ask(snapshot_of([*objects, by_network]), to="shop/new", port=80)
    (note,) = document["notes"]
    assert note == (
        "the address of shop/new is made up, and rules about networks judge it:"
        " egress: Admin ten, rule 0"
    )
