"""The proof that packets come by the daemon: with rules, without, and with nobody there."""

import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from helpers.netspace import alone, needs, run

from knp_py.adapters.instance import InstanceLock
from knp_py.adapters.probe import RoundTrip
from knp_py.adapters.rules import Rules
from knp_py.agent.layout import Layout, Members, Queues
from knp_py.agent.marks import Ask, Marks
from knp_py.agent.ruleset import install, iptables
from knp_py.errors import NotPermittedError

pytest.importorskip("netfilterqueue", reason="needs netfilterqueue (the extra agent)")
from knp_py.adapters.kernelqueue import KernelQueue

pytestmark = needs("nft", "iptables-nft", "ip6tables-nft")

MARKS = Marks()
PATIENCE = 60.0
NOTHING_THERE = "a probe packet came back without going through the queue: no rules?"


@pytest.fixture(autouse=True)
def _space() -> Iterator[None]:
    with alone():
        yield


@pytest.fixture
def proof() -> Iterator[RoundTrip]:
    made = RoundTrip(MARKS.bits(Ask.PROBE))
    yield made
    made.close()


def put_rules(*, fail_open: bool, strict: bool = False) -> Rules:
    rules = Rules("knp", "KNP", MARKS.verdict)
    layout = Layout(
        "knp", MARKS, Queues((100, 100), 100, 101), fail_open, True, strict, native=rules.native
    )
    rules.apply(install(layout, Members(), 1))
    rules.apply_queue(iptables(layout, "KNP"))
    return rules


@contextmanager
def reader(seen: Callable[[bytes], object]) -> Iterator[KernelQueue]:
    """A daemon that knows one question."""

    def answer(mark: int, data: bytes) -> int:
        assert MARKS.value(mark) == Ask.PROBE
        seen(data)
        return mark & MARKS.keep

    queue = KernelQueue(100, answer)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            if select.select([queue.fileno()], [], [], 0.02)[0]:
                queue.drain()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield queue
    finally:
        stop.set()
        thread.join(PATIENCE)
        queue.close()


@pytest.mark.parametrize("fail_open", [True, False])
@pytest.mark.parametrize("strict", [True, False])
def test_through_the_queue_and_back(proof: RoundTrip, fail_open: bool, strict: bool) -> None:
    rules = put_rules(fail_open=fail_open, strict=strict)
    with reader(proof.seen) as queue:
        for number in range(1, 4):
            assert proof.check(PATIENCE) is None
            assert queue.packets == number
    # It is no connection of anybody's, so it counts as none.
    assert set(rules.counters().values()) == {0}


def test_without_rules(proof: RoundTrip) -> None:
    assert proof.check(PATIENCE) == NOTHING_THERE
    with reader(proof.seen):
        assert proof.check(PATIENCE) == NOTHING_THERE


@pytest.mark.parametrize("fail_open", [True, False])
def test_without_anybody_at_the_queue(proof: RoundTrip, fail_open: bool) -> None:
    """It comes back also in fail-closed: nobody waits for it who could not be told."""
    put_rules(fail_open=fail_open)
    assert proof.check(PATIENCE) == NOTHING_THERE


def test_with_a_daemon_that_hangs(proof: RoundTrip) -> None:
    put_rules(fail_open=True)
    queue = KernelQueue(100, lambda mark, _: mark & MARKS.keep)
    assert proof.check(0.2) == "no probe packet came back through the queue within 0.2 s"
    # What comes late does not count for the next one.
    queue.drain()
    queue.close()
    with reader(proof.seen):
        assert proof.check(PATIENCE) is None


def test_with_half_of_the_rules(proof: RoundTrip) -> None:
    put_rules(fail_open=True)
    if Rules("knp", "KNP", MARKS.verdict).native:
        pytest.skip("this kernel has nftables' own queue statement: there are no halves")
    with reader(proof.seen):
        assert proof.check(PATIENCE) is None
        run("iptables-nft", "-t", "mangle", "-F", "KNP")
        assert proof.check(PATIENCE) == NOTHING_THERE


def test_without_a_network(proof: RoundTrip) -> None:
    run("ip", "link", "set", "lo", "down")
    wrong = proof.check(0.2)
    assert wrong is not None
    assert "loopback" in wrong or "no probe packet came back" in wrong


def test_somebody_elses_packet_proves_nothing(proof: RoundTrip) -> None:
    """Only the token of this very check does."""
    put_rules(fail_open=True)
    with reader(lambda data: proof.seen(data[:-1] + b"?")):
        assert proof.check(PATIENCE) == NOTHING_THERE


def test_one_instance_a_namespace() -> None:
    """Queues and rules belong to the namespace, and so does the name."""
    lock = InstanceLock("knp")
    with pytest.raises(NotPermittedError):
        InstanceLock("knp")
    with alone():
        InstanceLock("knp").close()
    lock.close()
