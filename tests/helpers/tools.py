"""Programs that pretend to be others, for code that runs them."""

import json
from pathlib import Path

import pytest


class Tools:
    """A directory that is the whole PATH; what was run there, and with which input."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        path.mkdir()
        monkeypatch.setenv("PATH", str(path))

    def add(self, name: str, script: str = "") -> None:
        """A program; ``script`` is shell, ``$*`` its arguments and ``$input`` what it was fed."""
        tool = self.path / name
        tool.write_text(
            "#!/bin/sh\n"
            f"cd {self.path}\n"
            'input="$(/bin/cat)"\n'
            f'echo "{name} $*" >> calls\n'
            'echo "$input" >> inputs\n'
            f"{script}\n"
        )
        tool.chmod(0o755)

    def add_json(self, name: str, *objects: object) -> None:
        """A program that prints what nft does with ``-j``."""
        (self.path / f"{name}.json").write_text(json.dumps({"nftables": objects}))
        self.add(name, f"/bin/cat {name}.json")

    @property
    def calls(self) -> list[str]:
        """Every command line so far, without the path."""
        calls = self.path / "calls"
        return calls.read_text().splitlines() if calls.exists() else []

    @property
    def inputs(self) -> str:
        """All that was fed to them."""
        return (self.path / "inputs").read_text()
