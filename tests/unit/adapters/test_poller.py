"""Waiting for descriptors, and being woken."""

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from knp_py.adapters.poller import Poller


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_what_is_readable(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    poller = Poller([ours.fileno()])
    assert poller.wait(0.0) == []
    theirs.send(b"x")
    assert poller.wait(60.0) == [ours.fileno()]
    assert poller.wait(60.0) == [ours.fileno()]  # as long as nobody reads it
    ours.recv(1)
    assert poller.wait(0.0) == []
    poller.close()


def test_a_descriptor_with_an_error_is_somebodys_turn(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """A netlink socket that had no room says so that way, not by being readable."""
    ours, theirs = pair
    poller = Poller([ours.fileno()])
    theirs.close()
    assert poller.wait(60.0) == [ours.fileno()]
    poller.close()


def test_waking_ends_one_wait() -> None:
    poller = Poller([])
    poller.wake()
    poller.wake()
    assert poller.wait(60.0) == []
    assert poller.wait(0.0) == []
    poller.close()


def test_anybody_may_wake_it() -> None:
    poller = Poller([])
    thread = threading.Thread(target=poller.wake)
    thread.start()
    assert poller.wait(60.0) == []
    thread.join()
    poller.close()


def test_no_time_left_is_no_time() -> None:
    poller = Poller([])
    assert poller.wait(-1.0) == []
    poller.close()


def test_closing_gives_the_descriptor_back() -> None:
    before = len(os.listdir("/proc/self/fd"))
    Poller([]).close()
    assert len(os.listdir("/proc/self/fd")) == before
