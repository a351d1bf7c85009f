"""What a lab leaves on disk so that others find it: its folder, its lock, who runs there.

Everything is below ``/run/knp-lab/NAME``; ``down`` removes it. The file ``state.json`` is
written before what it speaks of is made, as far as that can be, and namespaces and the
processes in them are found without it.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import msgspec

from knp_py.errors import InputError, LabError
from knp_py.lab.manifestdir import write_whole
from knp_py.lab.plan import WrittenPlan
from knp_py.lab.processes import Process

ROOT = "/run/knp-lab"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,29}[a-z0-9])?")


class LabState(msgspec.Struct, frozen=True):
    """``source`` is the file of the scenario, ``agent`` its options, None without an agent."""

    source: str = ""
    plan: WrittenPlan = WrittenPlan()
    agent: tuple[str, ...] | None = None
    processes: dict[str, Process] = {}


class Folder(NamedTuple):
    """The paths of a lab's files."""

    top: str

    @property
    def state(self) -> str:
        """What is known of the lab."""
        return f"{self.top}/state.json"

    @property
    def manifests(self) -> str:
        """The objects, which the agent watches."""
        return f"{self.top}/manifests"

    @property
    def scratch(self) -> str:
        """Where files are written before they are renamed into place."""
        return f"{self.top}/scratch"

    @property
    def agent(self) -> str:
        """The agent's own state."""
        return f"{self.top}/agent"

    @property
    def control(self) -> str:
        """The socket that the lab's server takes its tasks on."""
        return f"{self.top}/control"

    def file(self, name: str) -> str:
        """A file by name, such as ``verdicts.jsonl``, ``agent.log`` and ``servers.log``."""
        return f"{self.top}/{name}"

    def resolv_conf(self, place: str) -> str:
        """The resolv.conf of the node or of a pod."""
        return f"{self.top}/resolv.conf/{place.replace('/', '.', 1)}"

    def make(self) -> None:
        """Make the directories."""
        for path in (self.manifests, self.scratch, self.agent, f"{self.top}/resolv.conf"):
            os.makedirs(path, exist_ok=True)

    def remove(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.top, ignore_errors=True)


def folder_of(name: str) -> Folder:
    """The folder of a lab. Raises ``InputError`` for what can be no lab's name."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"--name {name!r}: expected at most 31 lower case letters, digits and dashes"
        )
    return Folder(f"{ROOT}/{name}")


def lab_names() -> list[str]:
    """Every lab that has left a folder."""
    try:
        return sorted(each for each in os.listdir(ROOT) if _NAME.fullmatch(each))
    except FileNotFoundError:
        return []


def read_state(folder: Folder) -> LabState | None:
    """What is known of a lab; None when nothing is, or nothing that can be read."""
    try:
        with open(folder.state, "rb") as file:
            return msgspec.json.decode(file.read(), type=LabState)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write_state(folder: Folder, state: LabState) -> None:
    """Remember this of a lab."""
    write_whole(folder.state, msgspec.json.encode(state), folder.scratch)


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Keep everybody else from changing the lab meanwhile.

    Raises ``LabError`` when somebody is at it, and ``InputError`` as ``folder_of`` does.

    The kernel gives the lock back when its holder is killed.
    """
    folder_of(name)  # whatever is no name is no part of a path either
    path = f"{ROOT}/.{name}.lock"
    os.makedirs(ROOT, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise LabError(f"process {holder} is at work on the lab {name}") from None
        if _is_there(path, descriptor):
            break
        os.close(descriptor)  # whoever held it before has removed it
    try:
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.unlink(path)
        os.close(descriptor)
        with suppress(OSError):  # other labs are there
            os.rmdir(ROOT)


def _is_there(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
