"""What is asked of a worker, and what becomes of the question when nobody answers."""

import threading
import time
from collections.abc import Callable

import pytest

pytest.importorskip("netfilterqueue", reason="needs netfilterqueue (the extra agent)")
from knp_py.cli import nodecrew
from knp_py.cli.nodecrew import Crew, Feed, _limit, _Way


def answering(way: _Way, reply: Callable[[object], object], times: int) -> threading.Thread:
    def work() -> None:
        for _ in range(times):
            way.orders.send(reply(way.orders.recv()))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_question_and_answer() -> None:
    way = _Way(100)
    answering(way, lambda question: (question, "!"), 2)
    assert way.ask("well?", 5.0) == ("well?", "!")
    assert way.ask("still?", 5.0) == ("still?", "!")
    assert not way.overdue


def test_an_answer_that_comes_late_is_not_taken_for_the_next_one() -> None:
    way = _Way(100)
    with pytest.raises(TimeoutError):
        way.ask("first", 0.01, 60.0)
    with pytest.raises(TimeoutError):  # asked nothing else meanwhile
        way.ask("second", 0.01, 60.0)
    assert not way.overdue
    worker = answering(way, lambda question: question, 2)
    assert way.ask("third", 5.0) == "third"
    worker.join(5)
    assert not way.orders.poll()


def test_who_owes_an_answer_for_too_long() -> None:
    way = _Way(100)
    with pytest.raises(TimeoutError):
        way.ask("first", 0.01)
    time.sleep(0.01)
    assert way.overdue
    answering(way, lambda question: question, 2)
    assert way.ask("second", 5.0) == "second"
    assert not way.overdue


def test_one_question_at_a_time() -> None:
    way = _Way(100)
    asked = threading.Event()
    go_on = threading.Event()

    def reply(question: object) -> object:
        asked.set()
        go_on.wait(5)
        return question

    answering(way, reply, 1)
    other = threading.Thread(target=way.ask, args=("long", 5.0), daemon=True)
    other.start()
    assert asked.wait(5)
    with pytest.raises(TimeoutError, match="is being asked something else"):
        way.ask("tally", 0.01)
    go_on.set()
    other.join(5)
    assert not way.overdue


def test_a_question_that_nobody_reads_does_not_block() -> None:
    way = _Way(100)
    _limit(way.control, 0.05)
    began = time.monotonic()
    with pytest.raises(BlockingIOError):
        way.ask(bytes(8_000_000), 0.05)
    assert time.monotonic() - began < 3


def test_whoever_waits_for_a_worker_that_is_given_up_hears_of_it() -> None:
    way = _Way(100)
    feed = Feed(way.names, print, way.obituary)
    feed.drain()
    threading.Timer(0.05, way.end).start()
    with pytest.raises(EOFError):
        way.ask("world", 5.0)
    with pytest.raises(OSError, match=r"queue 100 .* it has not answered for 5 s"):
        feed.drain()


def test_a_worker_that_does_not_take_a_world_ends_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nodecrew, "_WORLD", 0.01)
    crew = Crew([101])
    (feed,) = crew.feeds()
    with pytest.raises(SystemExit) as ended:
        crew.change(2, [])
    assert ended.value.code == 1
    with pytest.raises(OSError, match="the worker of queue 101"):
        feed.drain()


def test_names_for_a_worker_that_is_gone() -> None:
    crew = Crew([101])
    crew.feeds()
    way = crew._ways[0]
    way.heard.close()
    crew._learned.append(None)  # type: ignore[arg-type]  # what it is does not matter here
    with pytest.raises(OSError, match=r"the worker of queue 101 .* has ended"):
        crew.release()
