"""Network namespaces by name: made, entered, listed, removed.

A name is ``knplab-LAB.node``, ``knplab-LAB.internet`` or ``knplab-LAB.NAMESPACE.POD``: no
namespace of Kubernetes and no lab has a dot in its name, so nothing means two things. They
live where ``ip netns`` looks, which therefore lists and enters them too.
"""

import ctypes
import os
import socket
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha1
from typing import IO, Any

from knp_py.errors import LabError, NotPermittedError

FOLDER = "/run/netns"
NODE, INTERNET = "node", "internet"
_PREFIX = "knplab-"
_LONGEST = 200  # a file's name has 255 bytes at most; this leaves room for a hash
_CLONE_NEWNET = 0x40000000
_FORBIDDEN = ("Operation not permitted", "Permission denied", "Read-only file system")

# One system call (os.setns, from Python 3.12 on) is no reason to load all of pyroute2.
_libc = ctypes.CDLL(None, use_errno=True)


def prefix_of(lab: str) -> str:
    """What the name of every namespace of a lab begins with, and of no other lab's."""
    return f"{_PREFIX}{lab}."


def space_of(lab: str, place: str) -> str:
    """The namespace of ``node``, ``internet`` or a pod, ``namespace/name``."""
    name = place.replace("/", ".", 1)
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}-{sha1(name.encode(), usedforsecurity=False).hexdigest()[:12]}"
    return prefix_of(lab) + name


def path_of(space: str) -> str:
    """The file that holds the namespace open."""
    return f"{FOLDER}/{space}"


def spaces_of(lab: str) -> list[str]:
    """Every namespace of a lab that there is, by name."""
    prefix = prefix_of(lab)
    try:
        return sorted(name for name in os.listdir(FOLDER) if name.startswith(prefix))
    except FileNotFoundError:
        return []


def labs_with_spaces() -> list[str]:
    """Every lab that has a namespace."""
    try:
        names = os.listdir(FOLDER)
    except FileNotFoundError:
        return []
    return sorted({n.removeprefix(_PREFIX).split(".")[0] for n in names if n.startswith(_PREFIX)})


def add_spaces(spaces: Iterable[str]) -> None:
    """Make namespaces. Raises ``LabError``."""
    run_ip([f"netns add {space}" for space in spaces])


def remove_spaces(spaces: Iterable[str]) -> None:
    """Remove namespaces, also those that are only half there; what is gone is no error."""
    for space in spaces:
        argv = ["ip", "netns", "del", space]
        subprocess.run(argv, capture_output=True, check=False)  # noqa: S603 - no shell


def run_ip(lines: Sequence[str], space: str = "", *options: str) -> None:
    """Several ``ip`` commands in one go, inside a namespace if one is given.

    Measured on two cores: a pod costs 6 ms this way, 50 ms by pyroute2's IPRoute and netns.
    Raises ``LabError``, and ``NotPermittedError`` where even root may not.
    """
    if not lines:
        return
    where = [*options, *(["-n", space] if space else [])]
    argv = ["ip", *where, "-batch", "-"]
    ended = subprocess.run(  # noqa: S603 - our own arguments, no shell
        argv,
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        said = ended.stderr.strip().splitlines() or ["failed"]
        failed = said[-1].rpartition(":")[2]
        line = lines[int(failed) - 1] if failed.isdigit() and len(said) > 1 else lines[0]
        if said[0].endswith(_FORBIDDEN):
            raise _not_permitted(said[0])
        raise LabError(f"ip {' '.join([*where, line])}: {said[0]}")


@contextmanager
def inside(space: str) -> Iterator[None]:
    """Have this thread in a namespace meanwhile. Sockets made there stay there."""
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _enter(path_of(space))
        try:
            yield
        finally:
            _setns(here)
    finally:
        os.close(here)


def _enter(path: str) -> None:
    try:
        there = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        raise LabError(f"there is no network namespace {os.path.basename(path)}") from None
    try:
        _setns(there)
    finally:
        os.close(there)


def _setns(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET):
        raise _not_permitted(f"setns: {os.strerror(ctypes.get_errno())}")


def set_sysctls(space: str, values: Iterable[tuple[str, str]]) -> None:
    """Set kernel parameters below ``net/`` in a namespace; those not in this kernel are left.

    Raises ``NotPermittedError``.
    """
    with inside(space):
        for name, value in values:
            try:
                with open(f"/proc/sys/net/{name}", "w", encoding="ascii") as file:
                    file.write(value)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise _not_permitted(f"net/{name}: {error.strerror}") from None


def _not_permitted(said: str) -> NotPermittedError:
    return NotPermittedError(
        f"{said}: a lab needs all that root may do, CAP_NET_ADMIN and CAP_SYS_ADMIN included,"
        " which a container has only when it is privileged"
    )


def start_inside(
    space: str,
    argv: Sequence[str],
    *,
    stdin: int | IO[Any] = subprocess.DEVNULL,
    stdout: int | IO[Any] = subprocess.PIPE,
    stderr: int | IO[Any] = subprocess.PIPE,
    detached: bool = False,
) -> "subprocess.Popen[bytes]":
    """Start a command in a namespace. It is there from its first moment.

    ``detached``: it outlives the terminal that we were started on.
    """
    with inside(space):
        return subprocess.Popen(  # noqa: S603 - our own arguments, no shell
            argv, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=detached
        )


def socket_inside(space: str, family: int, kind: int) -> socket.socket:
    """A socket in a namespace, without this thread ever going there.

    Whoever takes a lab down ends the processes that they find inside.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_socket, space, family, kind).result()


def _socket(space: str, family: int, kind: int) -> socket.socket:
    with inside(space):
        return socket.socket(family, kind)


def enter(space: str) -> None:
    """Go there with this thread for good. Raises ``LabError`` when it is not there."""
    _enter(path_of(space))


def with_resolv_conf(argv: Sequence[str], resolv_conf: str) -> list[str]:
    """The command line that runs ``argv`` with another file in the place of resolv.conf.

    The process that is started becomes ``argv``: signals and the exit code are its own.
    """
    # A symbolic link, as systemd-resolved makes it, is followed by mount.
    script = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'
    unshare = ["unshare", "--mount", "--propagation", "private"]
    return [*unshare, "sh", "-c", script, "sh", resolv_conf, *argv]
