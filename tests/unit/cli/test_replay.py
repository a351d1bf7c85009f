"""The replay command as a user runs it, on captures made here."""

import gzip
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.command import knp, run_knp
from scapy.layers.dns import DNS, DNSQR, DNSRR
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw
from scapy.utils import rdpcap, wrpcap

MANIFESTS = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
status: {phase: Running, podIP: 10.244.1.6}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
status: {phase: Running, podIP: 10.244.1.7}
---
apiVersion: v1
kind: Pod
metadata: {name: dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
status: {phase: Running, podIP: 10.244.1.53}
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: names}
spec:
  tier: Admin
  priority: 1
  subject: {namespaces: {matchLabels: {kubernetes.io/metadata.name: shop}}}
  egress:
  - {name: dns, action: Accept, to: [{namespaces: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}]}
  - {name: example, action: Accept, to: [{domainNames: [www.example.com]}]}
  - {name: the-rest, action: Deny, to: [{networks: [0.0.0.0/0, "::/0"]}]}
"""  # noqa: E501
SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: 10.96.0.7, selector: {app: db}, ports: [{port: 80, targetPort: 5432}]}
"""
OPEN = MANIFESTS.split("---\napiVersion: policy", maxsplit=1)[0]
WEB, DB, DNS_POD, EXAMPLE = "10.244.1.6", "10.244.1.7", "10.244.1.53", "203.0.113.9"


def at(seconds: float, packet: Packet) -> Packet:
    packet.time = 1_780_000_000 + seconds
    return packet


def syn(src: str, dst: str, sport: int, dport: int, flags: str = "S") -> Packet:
    return Ether() / IP(src=src, dst=dst) / TCP(sport=sport, dport=dport, flags=flags)


def dns_exchange(start: float) -> list[Packet]:
    question = DNSQR(qname="www.example.com")
    ends = Ether() / IP(src=WEB, dst=DNS_POD) / UDP(sport=5353, dport=53)
    back = Ether() / IP(src=DNS_POD, dst=WEB) / UDP(sport=53, dport=5353)
    record = DNSRR(rrname="www.example.com", ttl=60, rdata=EXAMPLE)
    return [
        at(start, ends / DNS(id=7, qd=question)),
        at(start + 0.01, back / DNS(id=7, qr=1, qd=question, an=record)),
    ]


PACKETS = [
    at(0.0, syn(WEB, EXAMPLE, 40000, 443)),
    *dns_exchange(1.0),
    at(1.123456, syn(WEB, EXAMPLE, 40001, 443)),
    at(1.2, syn(EXAMPLE, WEB, 443, 40001, "SA")),
    at(1.3, syn(DB, WEB, 40002, 80)),
    at(1.4, Ether() / ARP()),
    at(1.5, syn(DB, WEB, 40003, 80, "A")),
    at(1.6, Ether() / IP(src=WEB, dst=DB) / ICMP()),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "cluster.yaml").write_text(MANIFESTS)
    wrpcap(str(tmp_path / "c.pcap"), PACKETS)
    return tmp_path


def replay(place: Path, *more: str, capture: str = "c.pcap") -> list[dict[str, object]]:
    ended = knp("replay", str(place / capture), "-m", str(place / "cluster.yaml"), "-o", "jsonl",
                *more)  # fmt: skip
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


def test_a_record_is_as_the_contract_says(place: Path) -> None:
    records = replay(place)
    assert [r["verdict"] for r in records] == [
        "deny", "allow", "allow", "deny", "unknown", "deny",
    ]  # fmt: skip
    assert records[2] == {
        "ts": "2026-05-28T20:26:41.123456Z",
        "id": 3,
        "verdict": "allow",
        "direction": "egress",
        "src": {"ip": WEB, "port": 40001, "pod": "shop/web"},
        "dst": {"ip": EXAMPLE, "port": 443, "names": ["www.example.com"]},
        "family": "IPv4",
        "protocol": "TCP",
        "decided_by": {
            "direction": "egress", "tier": "Admin", "policy": "names", "rule": 1,
            "rule_name": "example", "action": "Accept",
        },
        "packets": 2,
        "bytes": 80,
        "reason": None,
    }  # fmt: skip
    assert records[4]["decided_by"] is None
    assert "midstream" in str(records[4]["reason"])


def test_the_verdict_option_keeps_numbers(place: Path) -> None:
    assert [r["id"] for r in replay(place, "--verdict", "deny")] == [1, 4, 6]


def test_midstream_is_judged_when_asked(place: Path) -> None:
    assert [r["verdict"] for r in replay(place, "--judge-midstream")][4] == "deny"


def test_the_table_names_who_decided_and_what_was_left_out(place: Path) -> None:
    ended = knp("replay", str(place / "c.pcap"), "-m", str(place / "cluster.yaml"))
    assert ended.code == 0
    assert "shop/web:40000 → 203.0.113.9:443 TCP" in ended.out
    assert 'egress: Admin names, rule 2 "the-rest"' in ended.out
    assert "6 connections in 9 packets" in ended.out
    assert "2 allow, 3 deny, 1 unknown" in ended.out
    assert "ARP 1" in ended.out
    assert "learned 1" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 100


def test_the_summary_alone_begins_with_its_first_line(place: Path) -> None:
    base = ("replay", str(place / "c.pcap"), "-m", str(place / "cluster.yaml"))
    assert knp(*base, "--summary").out.startswith("6 connections in 9 packets")
    # After a table there is a line between.
    assert "\n\n6 connections in 9 packets" in knp(*base).out


def test_a_long_capture_fits_100_columns(place: Path) -> None:
    """Its times and numbers are wider than their columns, and names fill the rest."""
    wide = "n" * (100 - 28 - len(f":40000 → {EXAMPLE}:443 TCP") - len("shop/"))
    cluster = place / "cluster.yaml"
    cluster.write_text(cluster.read_text().replace("name: web,", f"name: {wide},"))
    packets = [at(seconds, syn(WEB, EXAMPLE, 40000, 443)) for seconds in (0.0, 1000.0)]
    packets += [at(90_000.0 + n, syn(WEB, DB, 1024 + n, 80)) for n in range(3)]
    wrpcap(str(place / "long.pcap"), packets)
    lines = knp("replay", str(place / "long.pcap"), "-m", str(cluster)).out.splitlines()
    assert max(map(len, lines)) <= 100
    assert f"    1    0.000000  deny     shop/{wide}:40000 → {EXAMPLE}:443 TCP" in lines
    assert f"    2  1000.000000  deny     shop/{wide}:40000" in lines


def test_json_is_one_document_with_the_summary(place: Path) -> None:
    ended = knp("replay", str(place / "c.pcap"), "-m", str(place / "cluster.yaml"), "-o", "json")
    document = json.loads(ended.out)
    assert len(document["connections"]) == 6
    assert document["summary"]["verdicts"] == {"allow": 2, "deny": 3, "unknown": 1}
    assert document["summary"]["skipped"] == {"ARP": 1}


def test_gzip_stdin_and_several_captures(place: Path) -> None:
    data = (place / "c.pcap").read_bytes()
    (place / "c.gz").write_bytes(gzip.compress(data))
    assert replay(place, capture="c.gz") == replay(place)
    ended = knp("replay", "-", "-m", str(place / "cluster.yaml"), "-o", "jsonl", stdin=data)
    assert [json.loads(x) for x in ended.out.splitlines()] == replay(place)
    wrpcap(str(place / "1.pcap"), PACKETS[2:])
    wrpcap(str(place / "2.pcap"), PACKETS[:2])
    assert replay(place, str(place / "2.pcap"), capture="1.pcap") == replay(place)


def test_diff_prints_what_changes_and_says_so_by_exit_code(place: Path) -> None:
    (place / "open.yaml").write_text(OPEN)
    base = ("replay", str(place / "c.pcap"), "-m", str(place / "cluster.yaml"))
    ended = knp(*base, "--diff", str(place / "open.yaml"))
    assert ended.code == 1
    assert "3 of 6 connections change their verdict" in ended.out
    assert "was deny: egress: Admin names" in ended.out
    lines = knp(*base, "--diff", str(place / "open.yaml"), "-o", "jsonl").out.splitlines()
    changes = [json.loads(line) for line in lines]
    assert [(c["before"]["verdict"], c["after"]["verdict"]) for c in changes] == [
        ("deny", "allow")
    ] * 3
    document = json.loads(knp(*base, "--diff", str(place / "open.yaml"), "-o", "json").out)
    assert document["changed"] == 3
    same = knp(*base, "--diff", str(place / "cluster.yaml"))
    assert same.code == 0
    assert "0 of 6 connections change" in same.out


def test_diff_refuses_a_set_without_pods(place: Path) -> None:
    policy = "apiVersion: policy" + MANIFESTS.split("apiVersion: policy")[1]
    (place / "policy.yaml").write_text(policy)
    base = ("replay", str(place / "c.pcap"), "-m", str(place / "cluster.yaml"))
    ended = knp(*base, "--diff", str(place / "policy.yaml"))
    assert ended.code == 2
    assert "holds no pods" in ended.err


def test_what_diff_cannot_find_is_not_the_manifests(place: Path) -> None:
    base = ("replay", str(place / "c.pcap"), "-m", str(place / "cluster.yaml"))
    ended = knp(*base, "--diff", "/nowhere")
    assert ended.code == 2
    assert ended.err == (
        "knp: /nowhere: no such file or directory;"
        " give --diff a file, a directory or - for standard input\n"
    )


def test_a_service_is_judged_by_its_pods_and_a_denial_that_was_answered_is_said(
    place: Path,
) -> None:
    (place / "service.yaml").write_text(SERVICE)
    packets = [syn(WEB, "10.96.0.7", 40000, 80), syn("10.96.0.7", WEB, 80, 40000, "SA")]
    wrpcap(str(place / "vip.pcap"), packets)
    base = ("replay", str(place / "vip.pcap"), "-m", str(place / "cluster.yaml"), "-m",
            str(place / "service.yaml"))  # fmt: skip
    text = knp(*base).out
    assert "shop/web:40000 → Service shop/db (10.96.0.7:80) TCP" in text
    assert "note: judged at shop/db:5432, the pods behind the Service" in text
    assert "note: yet it was answered in the capture" in text
    assert "To a Service's address, before destination NAT: 1." in text
    [record] = [json.loads(x) for x in knp(*base, "-o", "jsonl").out.splitlines()]
    assert record["dst"] == {"ip": "10.96.0.7", "port": 80, "service": "shop/db", "names": []}
    literal = knp(*base, "--no-resolve-services").out
    assert "(--resolve-services does that)" in " ".join(literal.split())


def test_write_sorts_the_packets_by_verdict(place: Path) -> None:
    out = place / "out"
    ended = knp("replay", str(place / "c.pcap"), "-m", str(place / "cluster.yaml"), "--write",
                str(out))  # fmt: skip
    assert ended.code == 0
    allowed, denied = rdpcap(str(out / "allowed.pcap")), rdpcap(str(out / "denied.pcap"))
    assert [bytes(p) for p in allowed] == [bytes(PACKETS[n]) for n in (1, 2, 3, 4)]
    assert [bytes(p) for p in denied] == [bytes(PACKETS[n]) for n in (0, 5, 8)]
    assert [float(p.time) for p in denied] == pytest.approx(
        [float(PACKETS[n].time) for n in (0, 5, 8)]
    )
    assert "1 packets of unknown verdict" in ended.err


def test_write_makes_both_files_even_when_nothing_goes_there(place: Path) -> None:
    wrpcap(str(place / "arp.pcap"), [Ether() / ARP()])
    out = place / "out"
    knp("replay", str(place / "arp.pcap"), "-m", str(place / "cluster.yaml"), "--write", str(out))
    assert len(rdpcap(str(out / "allowed.pcap"))) == len(rdpcap(str(out / "denied.pcap"))) == 0


def test_a_capture_of_another_cluster_is_said_to_be_one(place: Path) -> None:
    wrpcap(str(place / "other.pcap"), [syn("192.0.2.1", "192.0.2.2", 1, 2)])
    ended = knp("replay", str(place / "other.pcap"), "-m", str(place / "cluster.yaml"))
    assert ended.code == 0
    assert "No address in this capture is a pod of these manifests" in ended.out


def test_a_capture_cut_short_gives_what_it_has_and_says_so(place: Path) -> None:
    data = (place / "c.pcap").read_bytes()
    (place / "cut.pcap").write_bytes(data[:-5])
    ended = knp(
        "replay", str(place / "cut.pcap"), "-m", str(place / "cluster.yaml"), "-o", "jsonl"
    )
    assert ended.code == 0
    assert len(ended.out.splitlines()) == 5
    assert "cut.pcap" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"apiVersion: v1\n", "expected a pcap or pcapng capture"),
        (b"\x1f\x8bnot gzip", "gzip"),
        (None, "No such file"),
    ],
)
def test_what_is_no_capture_is_one_line_and_exit_2(
    place: Path, content: bytes | None, words: str
) -> None:
    path = place / "bad.pcap"
    if content is not None:
        path.write_bytes(content)
    ended = knp("replay", str(path), "-m", str(place / "cluster.yaml"))
    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
    assert words.lower() in ended.err.lower()
    assert "bad.pcap" in ended.err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["c.pcap"], "--manifests"),
        (["c.pcap", "-m", "missing.yaml"], "missing.yaml"),
        (["c.pcap", "-m", "cluster.yaml", "--trusted-resolvers", "x"], "trusted resolvers"),
        (["c.pcap", "-m", "cluster.yaml", "--allow-special", "x"], "--allow-special"),
        (["-", "-m", "-"], "standard input"),
        (["c.pcap", "-m", "cluster.yaml", "--diff", "cluster.yaml", "--write", "o"], "--diff"),
        (["c.pcap", "-m", "cluster.yaml", "--write", "c.pcap"], "c.pcap"),
        (["c.pcap", "-m", "cluster.yaml", "--verdict", "maybe"], "maybe"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(
    place: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], words: str
) -> None:
    monkeypatch.chdir(place)
    ended = knp("replay", *argv)
    assert ended.code == 2, ended
    assert len(ended.err.splitlines()) == 1, ended.err
    assert words in ended.err


def test_a_linux_cooked_capture_of_any_interface(place: Path) -> None:
    from scapy.layers.l2 import CookedLinux  # noqa: PLC0415

    packets = [CookedLinux(proto=0x0800) / p[IP] for p in PACKETS if IP in p]
    for packet, original in zip(packets, (p for p in PACKETS if IP in p), strict=True):
        packet.time = original.time
    wrpcap(str(place / "any.pcap"), packets, linktype=113)
    got = [(r["verdict"], r["src"], r["dst"]) for r in replay(place, capture="any.pcap")]
    assert got == [(r["verdict"], r["src"], r["dst"]) for r in replay(place)]


def test_every_shared_capture_is_replayed(shared: Path, place: Path) -> None:
    captures = sorted(p for p in (shared / "captures").iterdir() if "pcap" in p.suffix)
    assert captures
    for path in captures:
        ended = knp("replay", str(path), "-m", str(place / "cluster.yaml"), "-o", "json")
        assert ended.code == 0, (path, ended.err)
        summary = json.loads(ended.out)["summary"]
        assert sum(summary["verdicts"].values()) == summary["connections"]


def test_the_real_process_streams_into_head(place: Path) -> None:
    ended = run_knp("replay", str(place / "c.pcap"), "-m", str(place / "cluster.yaml"))
    assert ended.code == 0
    assert "Traceback" not in ended.err


def test_a_payload_of_nonsense_never_raises(place: Path) -> None:
    odd = [
        Ether() / IP(src=WEB, dst=DNS_POD) / UDP(sport=5, dport=53) / Raw(b"\xff" * 9),
        Ether() / IP(src=DNS_POD, dst=WEB) / UDP(sport=53, dport=5) / Raw(b"\x00" * 40),
    ]
    wrpcap(str(place / "odd.pcap"), odd)
    assert [r["verdict"] for r in replay(place, capture="odd.pcap")] == ["allow"]


def test_a_capture_without_one_readable_record_is_bad_input(place: Path) -> None:
    data = (place / "c.pcap").read_bytes()
    (place / "stub.pcap").write_bytes(data[:30])
    base = ("replay", str(place / "stub.pcap"), "-m", str(place / "cluster.yaml"))
    for more in ((), ("--diff", str(place / "cluster.yaml"))):
        ended = knp(*base, *more)
        assert ended.code == 2
        assert len(ended.err.splitlines()) == 1


def test_times_that_no_pcap_file_can_hold_are_cut(place: Path) -> None:
    blocks = [
        (0x0A0D0D0A, b"\x4d\x3c\x2b\x1a\x01\x00\x00\x00" + b"\xff" * 8),
        (1, b"\x01\x00\x00\x00\x00\x00\x00\x00\x09\x00\x01\x00\x00\x00\x00\x00"),
        (6, bytes(4) + (2).to_bytes(4, "little") + bytes(4) + _packet(syn(WEB, DB, 1, 2))),
    ]
    made = b"".join(
        kind.to_bytes(4, "little") + (len(body) + 12).to_bytes(4, "little") + body
        + (len(body) + 12).to_bytes(4, "little")
        for kind, body in blocks
    )  # fmt: skip
    (place / "far.pcapng").write_bytes(made)
    out = place / "out"
    ended = knp("replay", str(place / "far.pcapng"), "-m", str(place / "cluster.yaml"), "--write",
                str(out))  # fmt: skip
    assert ended.code == 0, ended.err
    assert "1 packet times do not fit" in ended.err
    assert len(rdpcap(str(out / "denied.pcap"))) == 1


def _packet(packet: Packet) -> bytes:
    data = bytes(packet)
    length = len(data).to_bytes(4, "little")
    return length + length + data + bytes(-len(data) % 4)


def test_a_bar_on_the_terminal_takes_no_result(place: Path) -> None:
    """Standard error is a terminal, standard output a file: what a person at a shell has."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "knp_py", "replay", str(place / "c.pcap"), "-m",
            str(place / "cluster.yaml"), "-o", "jsonl"]  # fmt: skip
    with (place / "out.jsonl").open("wb") as out:
        subprocess.run(argv, stdout=out, stderr=theirs, check=True, timeout=60)
    os.close(theirs)
    os.close(ours)
    lines = (place / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [1, 2, 3, 4, 5, 6]


def test_write_refuses_to_empty_what_it_reads(place: Path) -> None:
    (place / "allowed.pcap").write_bytes((place / "c.pcap").read_bytes())
    before = (place / "allowed.pcap").read_bytes()
    ended = knp("replay", str(place / "allowed.pcap"), "-m", str(place / "cluster.yaml"),
                "--write", str(place))  # fmt: skip
    assert ended.code == 2
    assert "would overwrite" in ended.err
    assert (place / "allowed.pcap").read_bytes() == before


def test_write_to_a_full_disk_is_one_line(place: Path) -> None:
    (place / "out").mkdir()
    (place / "out" / "denied.pcap").symlink_to("/dev/full")
    ended = knp("replay", str(place / "c.pcap"), "-m", str(place / "cluster.yaml"), "--write",
                str(place / "out"), "--summary")  # fmt: skip
    assert ended.code == 2
    assert "no space left on device" in ended.err.splitlines()[-1]
    assert "Traceback" not in ended.err


def test_an_allowed_connection_that_came_to_nothing_is_not_policys_doing(place: Path) -> None:
    (place / "open.yaml").write_text(OPEN)
    packets = [
        syn(WEB, DB, 1, 80),
        syn(WEB, DB, 2, 80), syn(DB, WEB, 80, 2, "RA"),
        syn(WEB, DB, 3, 80), syn(DB, WEB, 80, 3, "SA"),
    ]  # fmt: skip
    wrpcap(str(place / "d.pcap"), packets)
    out = knp("replay", str(place / "d.pcap"), "-m", str(place / "open.yaml")).out
    assert out.count("note: no answer in the capture, though these policies allow it") == 1
    assert out.count("note: refused (RST) in the capture, though these policies allow it") == 1


def test_a_json_document_is_no_log(place: Path) -> None:
    base = ("replay", str(place / "c.pcap"), "-m", str(place / "cluster.yaml"))
    (place / "r.json").write_text(knp(*base, "-o", "json").out)
    ended = knp("logs", str(place / "r.json"))
    assert ended.code == 2
    assert "-o jsonl" in ended.err
    (place / "r.jsonl").write_text(knp(*base, "-o", "jsonl").out)
    assert knp("logs", str(place / "r.jsonl"), "--verdict", "deny").out.count("deny") == 3


def test_diff_keeps_step_when_only_one_side_knows_the_pod(place: Path) -> None:
    (place / "other.yaml").write_text(OPEN.replace("10.244.1.6", "10.244.9.9"))
    answers = [at(n * 60.0, packet) for n, packet in enumerate([dns_exchange(0)[1]] * 2)]
    wrpcap(str(place / "a.pcap"), [at(0.0, answers[0].copy()), at(60.0, answers[1].copy())])
    ended = knp("replay", str(place / "a.pcap"), "-m", str(place / "cluster.yaml"), "--diff",
                str(place / "other.yaml"), "--assume-queried")  # fmt: skip
    assert ended.code in {0, 1}, ended.err
    assert "connections change" in ended.out
