"""The log of packets: all lines of one or none, together, and what is said of the rest."""

import os

import pytest
from helpers.builders import address, cnp, deny, networks, pod
from helpers.judging import snapshot_of

from knp_py.agent.linelog import CHUNK
from knp_py.agent.packetlog import PacketLog
from knp_py.engine.evaluate import PolicyEngine
from knp_py.model.packet import Packet
from knp_py.verdicts.klogentry import Format
from knp_py.verdicts.logs import LogReader
from knp_py.verdicts.record import FlowFacts

NS = 1_795_984_680_123_456_789
POD = pod("a/b", "10.0.0.1")
SNAPSHOT = snapshot_of([POD, cnp("p", egress=[deny(networks("9.9.9.0/24"))])])
ENGINE = PolicyEngine()
ENGINE.load(SNAPSHOT)


def put(log: PacketLog, number: int, *, to: str = "9.9.9.9", ns: int = NS) -> None:
    packet = Packet(address("10.0.0.1"), address(to), 6, 1000, 443)
    decision = ENGINE.evaluate(packet, now=0.0)
    flow = FlowFacts(ns, number, *packet[:5], POD.key, None)
    log.log(decision, flow, SNAPSHOT, accepted=to != "9.9.9.9", took_ns=1000)


def read(chunks: list[bytes]) -> tuple[list[tuple[int, str]], LogReader]:
    reader = LogReader(NS)
    lines = b"".join(chunks).splitlines(keepends=True)
    found = [(entry.id, entry.verdict) for line in lines for entry in reader.line(line)]
    assert reader.drain() == []
    assert reader.first_problem is None
    return found, reader


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_of_a_packet_stay_together(form: Format) -> None:
    chunks: list[bytes] = []
    log = PacketLog(chunks.append, form=form)
    for number in range(1, 101):
        put(log, number)
    log.flush(0.0)
    assert max(map(len, chunks)) <= CHUNK
    for chunk in chunks:
        found, reader = read([chunk])  # each chunk by itself
        assert found
        assert not reader.counts
    assert [number for chunk in chunks for number, _ in read([chunk])[0]] == list(range(1, 101))
    assert log.waiting == 0


def test_over_the_limit_packets_are_left_out_whole_and_denials_go_first() -> None:
    chunks: list[bytes] = []
    log = PacketLog(chunks.append, limit=10)
    log.flush(0.0)
    for number in range(1, 21):
        put(log, number, to="1.1.1.1")
    for number in range(21, 41):
        put(log, number)
    log.flush(2.0)
    found, reader = read(chunks)
    assert [word for _, word in found].count("allow") == 5
    assert [word for _, word in found].count("deny") == 5
    (omission,) = reader.omissions
    assert omission.omitted == {"allow": 15, "deny": 15}
    assert omission.reason == "limit"
    assert log.omitted == {("limit", "allow"): 15, ("limit", "deny"): 15}


def test_what_nobody_reads_is_counted_and_said_later() -> None:
    chunks: list[bytes] = []
    full = True

    def write(data: bytes) -> None:
        if full:
            raise BlockingIOError
        chunks.append(data)

    log = PacketLog(write, room=8192)
    log.flush(0.0)
    for number in range(1, 101):
        put(log, number)
    log.flush(1.5)
    full = False
    log.flush(3.0)
    found, reader = read(chunks)
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    (omission,) = reader.omissions
    assert (omission.reason, omission.omitted) == ("blocked", {"deny": 100 - len(found)})


def test_a_packet_that_nobody_can_read_has_an_entry() -> None:
    chunks: list[bytes] = []
    log = PacketLog(chunks.append)
    log.unreadable(NS, 7, accepted=False)
    assert log.close(0.0) == 0
    assert read(chunks)[0] == [(7, "deny")]


def test_the_process_is_the_one_that_logs() -> None:
    chunks: list[bytes] = []
    ids = iter([11, 22])
    log = PacketLog(chunks.append, pid=lambda: next(ids))
    put(log, 1)
    put(log, 2)
    put(log, 3, ns=NS + 1_000_000_000)
    log.flush(0.0)
    lines = b"".join(chunks).decode().splitlines()
    assert {line.split()[2] for line in lines if line.startswith("I")} == {"11", "22"}


def test_lines_of_several_processes_do_not_mix() -> None:
    end, write = os.pipe()
    children = []
    for child in range(3):
        pid = os.fork()
        if not pid:
            os.close(end)
            log = PacketLog(lambda data: os.write(write, data), pid=os.getpid)
            for number in range(300):
                put(log, 1 + number * 3 + child)
                if number % 7 == 0:
                    log.flush(0.0)
            log.flush(0.0)
            os._exit(0)
        children.append(pid)
    os.close(write)
    with os.fdopen(end, "rb") as pipe:
        found, _ = read([pipe.read()])
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
    assert sorted(found) == [(number, "deny") for number in range(1, 901)]
