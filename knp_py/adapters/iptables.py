"""The queue step as iptables rules, for kernels without nftables' ``queue`` statement.

A chain of ours in the mangle table, filled in one transaction a family, and a jump to it at
the end of POSTROUTING and INPUT: a queued packet comes back behind the whole table, so what
others have there should be before us.
"""

import shutil
from contextlib import suppress

from knp_py.adapters.command import complaint, run
from knp_py.errors import KernelError, NotPermittedError

HOOKS = ("POSTROUTING", "INPUT")
_FAMILIES = ("iptables", "ip6tables")


class QueueRules:
    """The chain ``name`` for both families; packets get there that have a bit of ``mask``."""

    def __init__(self, name: str, mask: int) -> None:
        self._name = name
        self._jump = ["-m", "mark", "!", "--mark", f"0x0/{mask:#x}", "-j", name]
        self._tools: list[tuple[str, str]] = []
        for family in _FAMILIES:
            tool, restore = _find(family), _find(f"{family}-restore")
            if tool is None or restore is None:
                raise NotPermittedError(
                    "the kernel has no nftables queue statement, and"
                    f" {family}-nft is not installed: install the package iptables"
                )
            self._tools.append((tool, restore))

    def apply(self, rules: str) -> None:
        """Put the chain in force; raises ``KernelError`` naming what the kernel lacks.

        Then nothing of it is left.
        """
        try:
            for tool, restore in self._tools:
                _run([restore, "--noflush"], rules)
                for hook in HOOKS:
                    if not _succeeds([tool, "-t", "mangle", "-C", hook, *self._jump]):
                        _run([tool, "-t", "mangle", "-A", hook, *self._jump])
        except KernelError:
            with suppress(KernelError):
                self.remove()
            raise

    def complete(self) -> bool:
        """Whether both jumps are still there, in both families. Raises ``KernelError``."""
        return all(
            _succeeds([tool, "-t", "mangle", "-C", hook, *self._jump])
            for tool, _ in self._tools
            for hook in HOOKS
        )

    def text(self) -> str:
        """Our chain and the jumps to it, in both families. Raises ``KernelError``."""
        lines = []
        for tool, _ in self._tools:
            listed = _run([tool, "-t", "mangle", "-S"]).splitlines()
            lines += [line for line in listed if self._name in line.split()]
        return "\n".join(lines)

    def remove(self) -> None:
        """Take jumps and chain away, there or not, whatever mask they were made with."""
        for tool, _ in self._tools:
            for hook in HOOKS:
                listed = _run([tool, "-t", "mangle", "-S", hook]).splitlines()
                for rule in listed:
                    words = rule.split()
                    if words[:2] == ["-A", hook] and words[-2:] == ["-j", self._name]:
                        _run([tool, "-t", "mangle", "-D", *words[1:]])
            if _succeeds([tool, "-t", "mangle", "-F", self._name]):
                _run([tool, "-t", "mangle", "-X", self._name])


def _find(name: str) -> str | None:
    """The nft flavour by its own name first: plain ``iptables`` may be the legacy one."""
    for prefix in ("iptables", "ip6tables"):
        if name == prefix or name.startswith(f"{prefix}-"):
            found = shutil.which(f"{prefix}-nft{name[len(prefix) :]}")
            if found is not None:
                return found
    return shutil.which(name)


def _run(argv: list[str], text: str = "") -> str:
    done = run(argv[0], argv, text)
    if done.returncode:
        raise KernelError(f"{argv[0]} could not change the NFQUEUE rules: {complaint(done)}")
    return done.stdout


def _succeeds(argv: list[str]) -> bool:
    return run(argv[0], argv, "").returncode == 0
