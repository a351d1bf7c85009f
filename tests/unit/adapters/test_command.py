"""Tools that are run for the kernel's rules."""

import os

from knp_py.adapters.command import complaint, run


def test_what_it_says_and_how_it_ends() -> None:
    done = run("tool", ["sh", "-c", "cat; echo no >&2; exit 3"], "read")
    assert (done.returncode, done.stdout, complaint(done)) == (3, "read", "no")


def test_a_ctrl_c_at_the_terminal_is_not_for_it() -> None:
    """That goes to the whole group of whoever is at the terminal."""
    done = run("tool", ["sh", "-c", "ps -o pgid= -p $$ || cut -d' ' -f5 /proc/$$/stat"], "")
    assert int(done.stdout) != os.getpgrp()
