"""Clearing marks, message by message. With connections of a real kernel: tests/rooted."""

import errno
import socket
import struct

import pytest
from helpers.netlink import (
    Attribute,
    FakeNetlink,
    attributes,
    done,
    error,
    message,
    messages,
    read_attributes,
)

from knp_py.adapters.conntrack import adopt_connection, clear_marks
from knp_py.errors import KernelError
from knp_py.model.net import parse_address

NEW, GET = 0x100, 0x101  # IPCTNL_MSG_CT_*
TUPLE, STATUS, MARK, ZONE, MASK = 1, 3, 8, 18, 21  # CTA_*
NESTED = 0x8000
REQUEST, DUMP = 1, 0x300
V4, V6 = socket.AF_INET, socket.AF_INET6


def entry(family: int, tuple_: bytes, mark: int | None, zone: bytes | None = None) -> bytes:
    """A connection, as a dump has it."""
    pairs: list[Attribute] = [(TUPLE | NESTED, tuple_), (2 | NESTED, tuple_), (STATUS, bytes(4))]
    if mark is not None:
        pairs.append((MARK, struct.pack(">I", mark)))
    if zone is not None:
        pairs.append((ZONE, zone))
    return message(NEW, attributes(*pairs), family=family)


class Kernel(FakeNetlink):
    """Answers a dump with ``dump``, every update with what ``refuse`` says of it."""

    def __init__(self, *dump: bytes, refuse: int = 0) -> None:
        super().__init__(self._answer)
        self._dump = dump
        self._refuse = refuse
        self.updates: list[bytes] = []

    def _answer(self, data: bytes) -> list[bytes]:
        answers: list[bytes] = []
        for kind, flags, body in messages(data):
            if kind == GET:
                assert flags == REQUEST | DUMP
                return list(self._dump)
            assert (kind, flags) == (NEW, REQUEST)  # made nowhere, and no answer if all is well
            self.updates.append(body)
            if self._refuse:
                answers.append(error(self._refuse))
        return answers


def cleared(kernel: FakeNetlink, monkeypatch: pytest.MonkeyPatch, mask: int = 0xFF00) -> int:
    monkeypatch.setattr(socket, "socket", lambda *_: kernel)
    number = clear_marks(mask)
    assert kernel.closed
    return number


def test_only_connections_with_a_bit_of_ours_are_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = Kernel(
        entry(V4, b"one", 0x0100),
        entry(V4, b"another's", 0x00FF),
        entry(V6, b"two..", 0xFFFF_FFFF),
        entry(V4, b"none", 0),
        entry(V4, b"nothing said", None) + done(),
    )
    assert cleared(kernel, monkeypatch) == 2
    assert [update[0] for update in kernel.updates] == [V4, V6]
    for update, tuple_ in zip(kernel.updates, (b"one", b"two.."), strict=True):
        found = read_attributes(update[4:])
        assert found == {
            TUPLE: tuple_,
            MARK: struct.pack(">I", 0),
            MASK: struct.pack(">I", 0xFF00),  # and no other bit changes
        }


def test_a_zone_is_part_of_who_a_connection_is(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(entry(V4, b"same", 0x0100, zone=b"\0\7"), done())
    assert cleared(kernel, monkeypatch) == 1
    assert read_attributes(kernel.updates[0][4:])[ZONE] == b"\0\7"


def test_several_messages_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths that are no multiple of four included."""
    listed = b"".join(entry(V4, bytes(n), 0x0100) for n in range(1, 9))
    assert cleared(Kernel(listed, done()), monkeypatch) == 8


def test_one_that_has_ended_meanwhile_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(entry(V4, b"gone", 0x0100), done(), refuse=errno.ENOENT)
    assert cleared(kernel, monkeypatch) == 1


def test_any_other_refusal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(entry(V4, b"no", 0x0100), done(), refuse=errno.EPERM)
    with pytest.raises(KernelError, match=r"^conntrack: .*Operation not permitted$"):
        cleared(kernel, monkeypatch)


def test_a_dump_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KernelError, match="conntrack"):
        cleared(Kernel(error(errno.EPERM)), monkeypatch)


def test_none_to_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(done())
    assert cleared(kernel, monkeypatch) == 0
    assert kernel.updates == []


def test_many_are_cleared_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [entry(V4, f"{n:040}".encode(), 0x0100) for n in range(5000)]
    kernel = Kernel(*listed, done())
    assert cleared(kernel, monkeypatch) == 5000
    assert len(kernel.updates) == 5000
    pieces = [data for data in kernel.sent if next(messages(data))[0] == NEW]
    assert len(pieces) > 1
    assert max(map(len, pieces)) < 64 * 1024


def test_an_acknowledgement_in_the_dump_is_no_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cleared(Kernel(error(0) + entry(V4, b"one", 0x0100), done()), monkeypatch) == 1


def test_what_is_no_message_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """A length of zero must not be read for ever."""
    assert cleared(Kernel(bytes(32), done()), monkeypatch) == 0
    odd = message(NEW, bytes(8), family=V4)  # an attribute of length zero
    assert cleared(Kernel(odd, done()), monkeypatch) == 0


def test_without_conntrack_in_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> FakeNetlink:
        raise OSError(errno.EPROTONOSUPPORT, "Protocol not supported")

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(KernelError, match="Protocol not supported"):
        clear_marks(1)


# -- connections whose beginning it did not see ----------------------------------------------


def adopt(kernel: FakeNetlink, monkeypatch: pytest.MonkeyPatch, src: str, dst: str) -> None:
    monkeypatch.setattr(socket, "socket", lambda *_: kernel)
    adopt_connection(parse_address(src), 40000, parse_address(dst), 443, mark=0x1234)
    assert kernel.closed


@pytest.mark.parametrize(
    ("family", "src", "dst", "kinds"),
    [(V4, "10.0.0.1", "10.0.0.2", (1, 2)), (V6, "fd00::1", "fd00::2", (3, 4))],
)
def test_a_connection_is_made_known_in_its_direction(
    monkeypatch: pytest.MonkeyPatch, family: int, src: str, dst: str, kinds: tuple[int, int]
) -> None:
    kernel = FakeNetlink(lambda _: [error(0)])
    adopt(kernel, monkeypatch, src, dst)
    ((kind, flags, body),) = messages(kernel.sent[0])
    assert (kind, flags) == (NEW, 0x605)  # make it, unless it is there, and say so
    assert body[0] == family
    found = read_attributes(body[4:])
    here, there = socket.inet_pton(family, src), socket.inet_pton(family, dst)
    for which, ends, ports in (
        (TUPLE, (here, there), (40000, 443)),
        (2, (there, here), (443, 40000)),
    ):
        parts = read_attributes(found[which])
        assert read_attributes(parts[1]) == dict(zip(kinds, ends, strict=True))
        protocol = read_attributes(parts[2])
        assert protocol[1] == b"\x06"
        assert tuple(int.from_bytes(protocol[each], "big") for each in (2, 3)) == ports
    assert read_attributes(read_attributes(found[4])[1]) == {1: b"\x03"}  # established
    assert found[MARK] == struct.pack(">I", 0x1234)


def test_a_connection_that_is_known_already_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    adopt(FakeNetlink(lambda _: [error(errno.EEXIST)]), monkeypatch, "10.0.0.1", "10.0.0.2")


def test_a_connection_that_the_kernel_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = FakeNetlink(lambda _: [error(errno.ENOMEM)])
    with pytest.raises(KernelError, match="memory"):
        adopt(kernel, monkeypatch, "10.0.0.1", "10.0.0.2")
