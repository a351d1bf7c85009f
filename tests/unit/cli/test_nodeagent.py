"""What ``knp agent``'s main thread does with a change; the rest of its life needs a kernel."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.builders import pod

from knp_py.agent.source import Batch
from knp_py.cli.nodeagent import NodeAgent
from knp_py.errors import NotPermittedError
from knp_py.model.changes import Change, Verb


def test_candidates_miss_no_change_that_the_kernel_refuses(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The rules catch up by themselves; what the candidates are not told they never learn."""
    agent: Any = NodeAgent.__new__(NodeAgent)
    told: list[Change] = []

    def refuse(changes: object) -> bool:
        raise NotPermittedError(f"no memory for {changes!r:.8}")

    agent._pending = []
    agent._keeper = SimpleNamespace(change=refuse)
    agent._candidates = SimpleNamespace(follow=lambda batch: told.extend(batch.changes))
    change = Change(Verb.APPLIED, pod("x/a", "10.1.0.5"))
    agent._take(Batch([change], (), (), 0, Counter()))
    assert "not in force" in capfd.readouterr().err
    assert told == [change]
    assert agent._pending == [change]
