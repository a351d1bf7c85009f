"""Processes of our own making that share what was built before, and die with us."""

import ctypes
import gc
import os
import signal
import traceback
from collections.abc import Callable

_SET_PARENT_DEATH_SIGNAL = 1  # linux/prctl.h


def fork(run: Callable[[], int]) -> int:
    """Run ``run`` in a child of this process and end it with the code that comes back.

    To be called while this process has one thread. The child is killed when we end, however we
    do. Its id comes back.
    """
    gc.freeze()  # what is here already stays shared as long as nobody writes to it
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() == parent:  # it may have ended before we asked to be told
            code = run()
    except BaseException:  # noqa: BLE001 - nobody above us may go on as the parent
        traceback.print_exc()
    finally:
        os._exit(code)
