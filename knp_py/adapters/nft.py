"""nftables rulesets into the kernel, by the ``nft`` tool: one call is one transaction."""

import json
import shutil
from collections.abc import Iterable, Mapping
from subprocess import CompletedProcess
from typing import Any

from knp_py.adapters.command import complaint, run
from knp_py.errors import KernelError, NotPermittedError


class Nft:
    """Applies rulesets and reads back what the kernel counts."""

    def __init__(self) -> None:
        path = shutil.which("nft")
        if path is None:
            raise NotPermittedError("nft is not installed: install the package nftables")
        self._nft = path

    def apply(self, ruleset: str) -> None:
        """One transaction; raises ``KernelError`` and then nothing has changed."""
        self._run(["-f", "-"], ruleset)

    def accepts(self, ruleset: str) -> bool:
        """Whether the kernel would take this; changes nothing.

        Raises ``KernelError`` when nft gives no answer: on a machine that stands still that is no
        reason to take the kernel for one that cannot.
        """
        return self._done(["-c", "-f", "-"], ruleset).returncode == 0

    def has_table(self, name: str) -> bool:
        """Whether an ``inet`` table of this name exists."""
        return name in self.tables()

    def tables(self) -> list[str]:
        """The names of all ``inet`` tables."""
        listed = self._json("list", "tables", "inet")
        return [each["table"]["name"] for each in listed if "table" in each]

    def counters(self, table: str) -> Mapping[str, int]:
        """Packets by named counter; empty when the table is not there."""
        try:
            listed = self._json("list", "counters", "table", "inet", table)
        except KernelError:
            return {}
        found = (each["counter"] for each in listed if "counter" in each)
        return {counter["name"]: counter["packets"] for counter in found}

    def set_size(self, table: str, name: str) -> int:
        """How many elements a set with time-outs holds; 0 when it is not there.

        Counted in the text: the JSON of a full set takes half a second to read.
        """
        try:
            return self._run(["list", "set", "inet", table, name], "").count(" expires ")
        except KernelError:
            return 0

    def text(self, table: str, sets: Iterable[str]) -> str:
        """The rules of a table and the elements of these sets, without what only counts.

        Equal texts, equal rules. Raises ``KernelError`` when the table is not there.
        """
        texts = [self._run(["-s", "-t", "list", "table", "inet", table], "")]
        texts += [self._run(["-s", "list", "set", "inet", table, name], "") for name in sets]
        return "".join(texts)

    def listing(self, table: str) -> list[Any]:
        """The whole table as nft's JSON has it; raises ``KernelError`` when it is not there."""
        return self._json("list", "table", "inet", table)

    def _json(self, *arguments: str) -> list[Any]:
        listed: list[Any] = json.loads(self._run(["-j", *arguments], ""))["nftables"]
        return listed

    def _run(self, arguments: list[str], text: str) -> str:
        done = self._done(arguments, text)
        if done.returncode:
            raise KernelError(f"nft: {complaint(done).removeprefix('/dev/stdin:')}")
        return done.stdout

    def _done(self, arguments: list[str], text: str) -> CompletedProcess[str]:
        done = run("nft", [self._nft, *arguments], text)
        if done.returncode and "Operation not permitted" in done.stderr:
            raise NotPermittedError("nft may not change rules here: needs root (CAP_NET_ADMIN)")
        return done
