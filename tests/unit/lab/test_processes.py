import os
import subprocess
import sys
import time

from knp_py.lab.processes import Process, end, process

SLEEP = "import time; print(1, flush=True); time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"


def start(program: str = SLEEP) -> subprocess.Popen[bytes]:
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"1\n"
    return child


def test_a_process_is_its_id_and_when_it_started() -> None:
    own = process(os.getpid())
    assert own is not None
    assert own.alive
    assert not Process(own.pid, own.started - 1).alive


def test_processes_end_one_way_or_the_other() -> None:
    began = time.monotonic()
    with start() as tame, start(STUBBORN) as stubborn:
        both = [process(each.pid) for each in (tame, stubborn)]
        end(each for each in both if each is not None)
        assert (tame.wait(), stubborn.wait()) == (-15, -9)
        assert process(tame.pid) is None
        end(each for each in both if each is not None)  # nothing is left to do
    assert 2 <= time.monotonic() - began < 10


def test_a_stranger_with_the_same_id_is_left_alone() -> None:
    with start() as child:
        found = process(child.pid)
        assert found is not None
        end([Process(found.pid, found.started - 1)])
        assert child.poll() is None
        child.kill()


def test_one_that_is_not_buried_yet_has_ended() -> None:
    with start() as child:
        found = process(child.pid)
        assert found is not None
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not found.alive
