"""One agent a name; the kernel frees it, however the process ends."""

import os
import subprocess
import sys

import pytest

from knp_py.adapters.instance import InstanceLock
from knp_py.errors import NotPermittedError

NAME = f"test{os.getpid()}"
HOLD = """
import sys
from knp_py.adapters.instance import InstanceLock
lock = InstanceLock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_the_second_is_told_who_is_there() -> None:
    lock = InstanceLock(NAME)
    with pytest.raises(NotPermittedError) as refused:
        InstanceLock(NAME)
    lock.close()
    InstanceLock(NAME).close()
    assert str(refused.value) == f"an agent of the instance {NAME!r} is running here"


def test_other_names_are_free() -> None:
    one, other = InstanceLock(NAME), InstanceLock(f"{NAME}b")
    one.close()
    other.close()


def test_a_process_that_is_killed_holds_nothing() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(NotPermittedError):
            InstanceLock(NAME)
        process.kill()
        process.wait()
        InstanceLock(NAME).close()


def test_a_child_does_not_hold_it_for_its_parent() -> None:
    """What the agent starts (nft, iptables) may outlive it."""
    lock = InstanceLock(NAME)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False) as child:
        lock.close()
        InstanceLock(NAME).close()
        child.communicate()
