from helpers.knp_logs import Flow, json_lines, old_text_lines, text_lines

from knp_py.verdicts.klog import LogLine
from knp_py.verdicts.kube_network_policies import (
    EARLIER,
    NO_VERDICT,
    OTHER,
    REEVALUATED,
    UNREADABLE,
    PacketJoiner,
)
from knp_py.verdicts.logs import LogReader
from knp_py.verdicts.read import VerdictEntry
from knp_py.verdicts.record import Decider, as_dict

NOW = 1_795_984_680_000_000_000  # 2026-11-29T20:38:00Z


def read(*lines: str, drain: bool = True) -> list[VerdictEntry]:
    reader = LogReader(NOW)
    entries = [entry for line in lines for entry in reader.line(f"{line}\n".encode())]
    return [*entries, *reader.drain()] if drain else entries


def by(direction: str, tier: str, action: str) -> Decider:
    return Decider(direction, tier, action=action)


DENIED = Flow(
    303,
    tiers=[("Egress", "Admin", "Deny")],
    denied="Egress",
)


def test_a_denied_packet_in_text() -> None:
    (entry,) = read(*text_lines(DENIED, payload=True))
    assert as_dict(entry) == {
        "ts": "2026-07-12T09:53:52.100303Z",
        "id": 303,
        "verdict": "deny",
        "direction": "egress",
        "src": {"ip": "10.244.1.6", "port": 37368, "pod": "team-a/agent"},
        "dst": {"ip": "172.66.147.243", "port": 443, "names": []},
        "family": "IPv4",
        "protocol": "TCP",
        "decided_by": {
            "direction": "egress",
            "tier": "Admin",
            "policy": None,
            "rule": None,
            "rule_name": None,
            "action": "Deny",
        },
        "packets": None,
        "bytes": None,
        "reason": None,
    }


def test_json_says_the_same_as_text() -> None:
    flows = [
        DENIED,
        Flow(1, tiers=[("Egress", "Admin", "Pass")], denied="Ingress", dst_pod="x/y"),
        Flow(2, src="fd00::1:55", dst="fd00::2:53", protocol="UDP", dst_pod="kube-system/dns"),
        Flow(3, src="10.0.0.1:0", dst="10.0.0.2:0", protocol=""),
    ]
    for flow in flows:
        (text,) = read(*text_lines(flow))
        (json,) = read(*json_lines(flow))
        assert as_dict(text) | {"ts": None} == as_dict(json) | {"ts": None}


def test_the_verdict_is_given_when_its_line_is_read() -> None:
    lines = text_lines(DENIED)
    assert len(read(*lines[:-1], drain=False)) == 1
    assert read(*lines[:-2], drain=False) == []


def test_without_headers_it_is_the_same_but_for_the_time() -> None:
    (entry,) = read(*text_lines(DENIED, header=False))
    assert entry.ts is None
    assert entry.src.pod == "team-a/agent"


def test_a_denial_that_no_cluster_policy_says_is_network_policys() -> None:
    (entry,) = read(*text_lines(Flow(1, tiers=[("Egress", "Admin", "Accept")], denied="Ingress")))
    assert entry.decided_by == by("ingress", "NetworkPolicy", "Deny")


def test_an_allowed_packet_is_decided_in_its_last_direction() -> None:
    tiers = [("Egress", "Admin", "Accept"), ("Ingress", "Baseline", "Accept")]
    (outside,) = read(*text_lines(Flow(1, tiers=tiers)))
    (inside,) = read(*text_lines(Flow(1, tiers=tiers, dst_pod="shop/db")))
    assert outside.decided_by == by("egress", "Admin", "Accept")
    assert inside.decided_by == by("ingress", "Baseline", "Accept")


def test_what_allowed_stays_open_when_the_log_does_not_say() -> None:
    (entry,) = read(*text_lines(Flow(1, tiers=[("Egress", "Admin", "Pass")])))
    assert entry.verdict == "allow"
    assert entry.decided_by is None


def test_older_versions_have_one_entry_a_packet_and_no_verdict_line() -> None:
    denied = old_text_lines(
        Flow(1, denied="Egress"),
        policies=[("Egress AdminNetworkPolicies", 0, True), ("Egress NetworkPolicies", 2, False)],
    )
    allowed = old_text_lines(Flow(2), policies=[("Egress NetworkPolicies", 0, True)])
    first, second = read(*denied, *allowed)
    assert (first.verdict, first.decided_by) == ("deny", by("egress", "NetworkPolicy", "Deny"))
    assert (second.verdict, second.decided_by) == ("allow", None)
    assert second.src.port == 37368


def test_packets_interleave() -> None:
    lines = [text_lines(Flow(number, src=f"10.0.0.{number}:1000")) for number in range(1, 6)]
    # Entries of several lines stay together, as one write of the logger.
    blocks = [[flow[0], "\n".join(flow[1:4]), "\n".join(flow[4:7]), *flow[7:]] for flow in lines]
    mixed = [
        line for turn in zip(*blocks, strict=True) for block in turn for line in block.split("\n")
    ]
    entries = read(*mixed)
    assert [(e.id, e.src.ip) for e in entries] == [(n, f"10.0.0.{n}") for n in range(1, 6)]


def test_even_lines_of_two_streams_without_prefix_are_joined_by_id() -> None:
    one, two = (text_lines(Flow(n, src=f"10.0.0.{n}:1")) for n in (1, 2))
    mixed = [line for turn in zip(one, two, strict=True) for line in turn]
    assert [(e.id, e.src.ip) for e in read(*mixed)] == [(1, "10.0.0.1"), (2, "10.0.0.2")]


def test_an_id_that_comes_again_is_another_packet() -> None:
    lost = text_lines(Flow(7, src="10.0.0.1:1"))[:4]
    entries = read(*lost, *text_lines(Flow(7, src="10.0.0.2:2")))
    assert [(e.src.ip, e.verdict, e.reason) for e in entries] == [
        ("10.0.0.1", "unknown", NO_VERDICT),
        ("10.0.0.2", "allow", None),
    ]


def test_the_table_of_open_packets_is_bounded() -> None:
    joiner = PacketJoiner(open_limit=10)
    given = []
    for number in range(25):
        packet = {
            "ID": number,
            "SrcIP": "10.0.0.1",
            "DstIP": "10.0.0.2",
            "SrcPort": 1,
            "DstPort": 2,
        }
        line = LogLine(
            None, "", "Evaluating packet", {"id": number, "srcPod": "x/y", "packet": packet}
        )
        given += joiner.entry(line)
    assert [(e.id, e.verdict) for e in given] == [(n, "unknown") for n in range(15)]
    assert len(joiner.drain()) == 10


def test_a_verdict_without_its_packet_is_counted() -> None:
    reader = LogReader(NOW)
    for line in text_lines(DENIED)[-2:]:
        assert reader.line(line.encode()) == []
    assert reader.counts == {EARLIER: 1}


def test_entries_of_the_dns_queue_are_not_taken_for_verdicts() -> None:
    # Both queues number their packets from 1.
    lines = text_lines(Flow(1))
    header = "I0712 09:53:52.000001       1 dnsagent.go:1] "
    dns = [
        f'{header}"Evaluating packet" packet=<',
        "\t[0] 10.96.0.10:53 10.244.1.6:40000 UDP",
        " >",
        f'{header}"Finished syncing packet" id=1 verdict="accept"',
    ]
    entries = read(*lines[:7], *dns, *lines[7:])
    assert [(e.id, e.dst.ip) for e in entries] == [(1, "172.66.147.243")]


def test_a_packet_that_could_not_be_read_has_a_verdict_all_the_same() -> None:
    line = (
        'E0712 09:53:52.257809       1 controller.go:244] "Can not process packet, applying'
        ' default policy" err="packet too short" id=5 failOpen={}'
    )
    opened, closed = read(line.format("true"), line.format("false"))
    assert (opened.verdict, opened.reason, opened.src.ip) == ("allow", UNREADABLE, None)
    assert closed.verdict == "deny"


def test_strict_modes_evaluations_say_that_they_are() -> None:
    (entry,) = read(*text_lines(Flow(0)))
    assert entry.reason == REEVALUATED


def test_other_entries_are_counted() -> None:
    reader = LogReader(NOW)
    for line in (
        'I0712 09:53:52.257809       1 main.go:1] "Starting controller" name="x"',
        "I0712 09:53:52.257809       1 main.go:1] a plain sentence",
        '{"ts":1.5,"msg":"Starting controller"}',
        '{"some":"json"}',
    ):
        reader.line(line.encode())
    assert reader.counts == {OTHER: 4}


def test_json_packets_may_be_texts_and_may_be_wrong() -> None:
    first, verdict = json_lines(Flow(1))[1], json_lines(Flow(1))[-2]
    start = first.index('"packet"')
    text = first[:start] + '"packet": "[1] 10.0.0.1:5 10.0.0.2:6 UDP\\n00000000  00"}'
    (entry,) = read(text, verdict)
    assert (entry.src.ip, entry.dst.port, entry.protocol) == ("10.0.0.1", 6, "UDP")
    assert read(first[:start] + '"packet": {"SrcIP": 1}}', verdict) == []
    assert read(first[:start] + '"packet": 7}', verdict) == []


def test_addresses_that_are_none_are_shown_as_written() -> None:
    (entry,) = read(*text_lines(Flow(1, src="here:1", dst="there:2")))
    assert (entry.src.ip, entry.dst.ip, entry.family) == ("here", "there", None)


def test_older_entries_whose_packet_never_comes_do_not_pile_up() -> None:
    joiner = PacketJoiner(open_limit=3)
    waiting = LogLine(None, "", "Evaluating packet", {"srcPod": "a/b"}, "packet")
    for number in range(10):
        assert joiner.entry(waiting, stream=str(number)) == []
    assert joiner.packet_line("\t[5] 10.0.0.1:1 10.0.0.2:2 TCP", "0") == (True, [])
    assert joiner.drain() == []
    assert joiner.entry(waiting._replace(open=""), "x") == []
    assert joiner.counts == {OTHER: 1}
