"""The lab's server as its lab sees it: started, told what to answer, ended with the lab."""

import os
import socket
import subprocess
import sys
import time

import msgspec

from knp_py.errors import LabError
from knp_py.lab.nameserver import Names
from knp_py.lab.namespaces import path_of, start_inside
from knp_py.lab.servers import Spot, Task

_START = 30.0  # seconds to start, and to do as told


def start_servers(control: str, log: str, node: str) -> "subprocess.Popen[bytes]":
    """Start the process; ``control`` is where it will listen, ``log`` takes its complaints.

    It lives in the namespace ``node``, so that whoever clears that up finds it.
    """
    with open(log, "ab") as output:
        argv = [sys.executable, "-m", "knp_py.lab.servers", control]
        return start_inside(node, argv, stdout=output, stderr=output, detached=True)


def tell_servers(control: str, places: dict[str, str], names: Names) -> None:
    """Have it answer at these places (namespaces by place). Back when it does.

    Raises ``LabError``.
    """
    spots = {space: Spot(label, os.stat(path_of(space)).st_ino) for label, space in places.items()}
    with _connected(control) as sock, sock.makefile("rwb") as stream:
        stream.write(msgspec.json.encode(Task(spots, names)) + b"\n")
        stream.flush()
        try:
            line = stream.readline()
        except OSError as error:
            raise LabError(f"the lab's server does not do as told: {error}") from error
    said = msgspec.json.decode(line, type=str) if line else "it has ended"
    if said:
        raise LabError(f"the lab's server: {said}")


def _connected(control: str) -> socket.socket:
    until = time.monotonic() + _START
    while True:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(_START)
        try:
            sock.connect(control)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            sock.close()
            if time.monotonic() > until:
                raise LabError("the lab's server does not start; see servers.log") from error
            time.sleep(0.02)
        else:
            return sock
