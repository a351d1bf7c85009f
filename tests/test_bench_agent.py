"""The bench of the node agent: its sums, and that it says what it needs. No rates here."""

import json
import os

import pytest

from bench.agent import parts
from bench.agent.__main__ import NOT_PERMITTED, main
from bench.agent.busy import Moment, between, moment
from bench.agent.figures import added, document, ratios, table
from bench.agent.rounds import Sample


def sample(rate: float, p50: float = 30.0, memory: tuple[float, float] | None = None) -> Sample:
    return Sample(rate, 40.0, (p50, 2 * p50), (900.0, 2000.0), 1.0, 0, 0, None, memory, 0.0)


MEASURED = {
    "none": [sample(100.0), sample(90.0), sample(80.0)],
    "c": [sample(50.0, 50.0), sample(45.0, 52.0), sample(10.0, 54.0)],
    "off": [sample(30.0, 70.0, (40.0, 30.0)), sample(36.0, 75.0, (42.0, 31.0)), sample(9.0, 72.0)],
}


def test_a_ratio_is_of_the_same_round() -> None:
    found = {(r.limit.side, r.limit.reference): (r.value, r.enough) for r in ratios(MEASURED)}
    assert found == {("off", "c"): (0.8, True), ("c", "none"): (0.5, None)}
    slow = {**MEASURED, "off": [sample(10.0)] * 3}
    assert [r.enough for r in ratios(slow)] == [False, None]
    assert "at least 0.65)  MISSED" in table(slow)


def test_what_a_first_packet_takes_longer() -> None:
    assert added(MEASURED, "off", 0) == 42.0
    assert added(MEASURED, "off", 1) == 84.0
    assert added({"c": MEASURED["c"]}, "c", 0) is None


def test_the_table_has_a_line_a_side_and_the_json_everything() -> None:
    lines = table(MEASURED).splitlines()
    assert len({len(line) for line in lines[:4]}) == 1
    assert lines[3].split()[-2:] == ["41", "30"]
    found = json.loads(json.dumps(document(MEASURED)))
    assert found["sides"]["off"]["rounds"][0]["per_second"] == 30.0
    assert [r["ratio"] for r in found["ratios"]] == [0.8, 0.5]


def test_whose_time_it_was() -> None:
    spent = between(Moment(100.0, 50.0, 20.0), Moment(104.0, 53.0, 22.0))
    assert spent == (2.0, 0.25)
    now = moment([os.getpid()])
    assert 0 < now.ours < now.everybody < now.machine


def test_it_needs_root_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["--rounds", "1"]) == NOT_PERMITTED
    assert "needs root" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--sides", "none,nobody"])


def test_every_part_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_TIMES", 200)
    names = [name for name, nanoseconds in parts.figures() if nanoseconds > 0]
    assert "judge and record, walkthrough" in names
    assert len(names) == len(set(names)) == 13
