"""Tools that are run for the kernel's rules."""

import signal

from knp_py.adapters.command import complaint, run


def test_what_it_says_and_how_it_ends() -> None:
    done = run("tool", ["sh", "-c", "cat; echo no >&2; exit 3"], "read")
    assert (done.returncode, done.stdout, complaint(done)) == (3, "read", "no")


def test_a_ctrl_c_at_the_terminal_does_not_end_it() -> None:
    """That goes to everybody who is at the terminal, and is for us."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    done = run("tool", ["sh", "-c", "kill -INT $$; kill -HUP $$; echo alive"], "")
    assert (done.returncode, done.stdout) == (0, "alive\n")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
