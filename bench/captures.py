"""Captures of a stated size, made without scapy so that a million packets take seconds."""

import random
from pathlib import Path
from struct import Struct

from bench.scenarios import POD_BASE
from knp_py.model.packet import ACK, FIN, SYN

_FILE = Struct("<IHHiIII")
_RECORD = Struct("<IIII")
_IP = Struct("!BBHHHBBHII")
_TCP = Struct("!HHIIBBHHH")
_ETHERNET = bytes(12) + b"\x08\x00"
_LOW = 0xFFFFFFFF
_CONCURRENT = 200


def _checksum(header: bytes) -> int:
    total = sum(int.from_bytes(header[i : i + 2], "big") for i in range(0, 20, 2))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def write_capture(
    path: Path, *, packets: int, connections: int, pods: int, spacing: int = 100, seed: int = 1
) -> None:
    """TCP connections between pods of ``bench.scenarios``, some to the outside, interleaved.

    Each begins with its handshake and ends with both FINs; ``packets`` is a multiple of
    ``connections`` and each connection has at least six. ``spacing`` is microseconds from one
    packet to the next.
    """
    pick = random.Random(seed)
    each = packets // connections
    ends = [
        (
            (POD_BASE + pick.randrange(pods)) & _LOW,
            (POD_BASE + pick.randrange(pods)) & _LOW
            if pick.random() < 0.8
            else 0xCB007100 + pick.randrange(256),
            pick.randrange(32768, 60999),
            pick.choice([80, 443, 8080, 8443]),
        )
        for _ in range(connections)
    ]
    with path.open("wb") as out:
        out.write(_FILE.pack(0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        micros = 1_700_000_000_000_000
        live: list[list[int]] = []
        begun = 0
        while live or begun < connections:
            while len(live) < _CONCURRENT and begun < connections:
                live.append([begun, 0])
                begun += 1
            slot = pick.randrange(len(live))
            connection, step = live[slot]
            frame = _segment(ends[connection], connection, step, each)
            micros += spacing
            out.write(_RECORD.pack(*divmod(micros, 1_000_000), len(frame), len(frame)) + frame)
            live[slot][1] += 1
            if step + 1 == each:
                live[slot] = live[-1]
                live.pop()


def _segment(ends: tuple[int, int, int, int], connection: int, step: int, each: int) -> bytes:
    source, target, sport, dport = ends
    reply = step % 2 == 1
    if step == 0:
        flags = SYN
    elif step == 1:
        flags = SYN | ACK
    else:
        flags = FIN | ACK if step >= each - 2 else ACK
    payload = bytes(100) if 2 < step < each - 2 else b""
    if reply:
        source, target, sport, dport = target, source, dport, sport
    length = 40 + len(payload)
    header = _IP.pack(0x45, 0, length, step, 0x4000, 64, 6, 0, source, target)
    header = header[:10] + _checksum(header).to_bytes(2, "big") + header[12:]
    tcp = _TCP.pack(sport, dport, connection * 1000 + step, 0, 0x50, flags, 65535, 0, 0)
    return _ETHERNET + header + tcp + payload
