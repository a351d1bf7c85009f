"""Clocks: time since boot goes on, a lab may move it forward and never back."""

import os
import time
from pathlib import Path

import pytest

from knp_py.adapters.clocks import BootClock


def test_time_since_boot() -> None:
    clock = BootClock()
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= clock.now() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_the_wall_clock_and_one_to_measure_with() -> None:
    clock = BootClock()
    assert abs(clock.wall_ns() - time.time_ns()) < 60e9
    first = clock.monotonic_ns()
    assert clock.monotonic_ns() >= first


def ahead(clock: BootClock) -> float:
    """Seconds by which it is ahead, rounded: two clocks are not read at once."""
    return round(clock.now() - time.clock_gettime(time.CLOCK_BOOTTIME), 1)


def write(path: Path, text: str, *, number: int) -> None:
    path.write_text(text)
    os.utime(path, ns=(number, number))  # two writes within a tick of the file system's clock


def test_a_file_moves_it_forward(tmp_path: Path) -> None:
    offset = tmp_path / "clock"
    clock = BootClock(offset)
    assert ahead(clock) == 0.0
    write(offset, "90", number=1)
    assert ahead(clock) == 0.0  # only when asked: the file is not read for every packet
    clock.reread()
    assert ahead(clock) == 90.0
    write(offset, "300.5", number=2)
    clock.reread()
    assert ahead(clock) == 300.5
    assert ahead(BootClock(offset)) == 300.5


def test_it_never_moves_back(tmp_path: Path) -> None:
    offset = tmp_path / "clock"
    write(offset, "90", number=1)
    clock = BootClock(offset)
    write(offset, "10", number=2)
    clock.reread()
    assert ahead(clock) == 90.0
    offset.unlink()
    clock.reread()
    assert ahead(clock) == 90.0


@pytest.mark.parametrize("text", ["", "soon"])
def test_a_file_that_is_being_written_is_read_later(tmp_path: Path, text: str) -> None:
    offset = tmp_path / "clock"
    write(offset, text, number=1)
    clock = BootClock(offset)
    assert ahead(clock) == 0.0
    write(offset, "90", number=2)
    clock.reread()
    assert ahead(clock) == 90.0
