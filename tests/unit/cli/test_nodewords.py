"""What a running agent says of itself, as lines for people or as JSON."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest
from helpers.builders import cnp, pod

from knp_py.agent.source import Batch
from knp_py.cli import nodewords
from knp_py.model.changes import Change, Verb


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    lines: list[str] = []

    class Outlet:
        def write(self, data: bytes) -> int:
            lines.append(data.decode())
            return len(data)

    monkeypatch.setattr(nodewords, "errors", Outlet)
    yield lines
    nodewords.speak("text")


def test_a_message_is_a_line_in_either_format(said: list[str]) -> None:
    nodewords.say("warning: two\nlines of somebody's")
    nodewords.speak("json")
    nodewords.say('it says "no"\nand goes')
    assert said[0].startswith("knp agent: warning: ")
    message = json.loads(said[1])
    assert said[1].count("\n") == 1
    assert (message["msg"], message["v"]) == ('it says "no"\nand goes', 0)
    assert message["ts"] > 1.7e12


def test_every_change_is_named_up_to_a_bound(said: list[str]) -> None:
    changes = [
        Change(Verb.APPLIED, pod("a/b", "10.0.0.1")),
        Change(Verb.DELETED, cnp("p")),
        *(Change(Verb.APPLIED, pod(f"a/p{n}", "10.0.0.2")) for n in range(250)),
    ]
    nodewords.say_changes(Batch(changes, (), (), 0, Counter()))
    assert said[:2] == [
        "knp agent: applied Pod a/b\n",
        "knp agent: deleted ClusterNetworkPolicy p\n",
    ]
    assert len(said) == 201
    assert said[-1] == "knp agent: 52 more changes\n"
