"""Children that die with their parent, and end with the code that they are told to."""

import os
import subprocess
import sys

import pytest

PARENT = """
import os, sys, time
from knp_py.adapters.forked import fork

def run():
    {body}

child = fork(run)
print(child, flush=True)
{then}
"""
WAIT = "_, status = os.waitpid(child, 0); print(os.waitstatus_to_exitcode(status), flush=True)"


def parent(body: str, then: str = WAIT) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PARENT.format(body=body, then=then)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("code", [0, 3])
def test_the_code_that_comes_back_is_the_childs_end(code: int) -> None:
    out, err = parent(f"return {code}").communicate(timeout=60)
    assert out.splitlines()[1:] == [str(code)]
    assert err == ""


def test_a_child_that_fails_says_why_and_is_not_the_parent_again() -> None:
    out, err = parent("raise ValueError('no')").communicate(timeout=60)
    assert out.splitlines()[1:] == ["70"]
    assert err.splitlines()[-1] == "ValueError: no"
    assert len(out.splitlines()) == 2  # the lines behind fork ran once


def test_leaving_python_is_no_way_around() -> None:
    out, _ = parent("sys.exit(0)").communicate(timeout=60)
    assert out.splitlines()[1:] == ["70"]


def test_a_parent_that_is_killed_takes_its_child_along() -> None:
    running = parent("time.sleep(600)", then="time.sleep(600)")
    with running:
        assert running.stdout is not None
        child = os.pidfd_open(int(running.stdout.readline()))
        try:
            running.kill()
            # Readable once it has ended; its standard output ends with it.
            assert running.stdout.read() == ""
        finally:
            os.close(child)
