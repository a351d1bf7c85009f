"""What an instance of the agent leaves on a node, and ``knp agent cleanup``, which removes it."""

import os
import re
from contextlib import suppress

from knp_py.adapters.instance import InstanceLock
from knp_py.adapters.rules import Rules
from knp_py.agent.marks import Marks
from knp_py.agent.ruleset import remove
from knp_py.errors import InputError, NotPermittedError

_INSTANCE = re.compile(r"[a-z0-9]{1,16}")


def table_of(instance: str) -> str:
    """The nftables table of an instance; raises ``InputError`` for a name that cannot be one."""
    if not _INSTANCE.fullmatch(instance):
        raise InputError(f"--instance {instance}: expected up to 16 lower-case letters and digits")
    return "knp" if instance == "knp" else f"knp_{instance}"


def clean_up(instance: str, state_dir: str) -> str:
    """Remove an instance's rules and kept names; what was done, in one line."""
    table = table_of(instance)
    require_root()
    try:
        lock = InstanceLock(instance)
    except NotPermittedError:
        raise NotPermittedError(
            f"an agent of the instance {instance!r} is running here and would put its rules back:"
            " stop it first"
        ) from None
    rules = Rules(table, table.upper(), Marks().verdict)
    was_there = rules.leftovers()
    rules.remove(remove(table))
    if state_dir:
        for kept in ("names", "node", "owners"):
            with suppress(FileNotFoundError):
                os.unlink(f"{state_dir}/{table}.{kept}")
    lock.close()
    if was_there:
        return f"removed the rules of the instance {instance}: the pods of this node are open now"
    return f"no rules of the instance {instance} were here"


def require_root() -> None:
    """Raises ``NotPermittedError`` for whoever may not change rules."""
    if os.geteuid() != 0:
        raise NotPermittedError("knp agent needs root (CAP_NET_ADMIN): try sudo")
