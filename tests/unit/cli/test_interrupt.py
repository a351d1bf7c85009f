"""Ctrl-C on a capture that streams in; real processes, real signals."""

import fcntl
import json
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
status: {phase: Running, podIP: 10.244.1.6}
"""


def test_ctrl_c_ends_the_capture_and_keeps_the_answer(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    packet = Ether() / IP(src="10.244.1.6", dst="203.0.113.9") / UDP(sport=1, dport=2)
    wrpcap(str(tmp_path / "c.pcap"), [packet])
    argv = [sys.executable, "-m", "knp_py", "replay", "-", "-m", str(tmp_path), "-o", "jsonl"]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write((tmp_path / "c.pcap").read_bytes())
        process.stdin.flush()
        while _waiting_bytes(process.stdin.fileno()) or _state(process.pid) != "S":
            time.sleep(0.01)  # it waits for more once all is read
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert [json.loads(line)["verdict"] for line in out.splitlines()] == ["allow"]
    assert b"1 connection in 1 packet " in err


def _waiting_bytes(pipe: int) -> int:
    """How much in a pipe nobody has read yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_a_verdict_is_shown_when_it_is_made(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    packet = Ether() / IP(src="10.244.1.6", dst="203.0.113.9") / UDP(sport=1, dport=2)
    wrpcap(str(tmp_path / "c.pcap"), [packet])
    argv = [sys.executable, "-m", "knp_py", "replay", "-", "-m", str(tmp_path)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write((tmp_path / "c.pcap").read_bytes())
        process.stdin.flush()
        lines = [process.stdout.readline() for _ in range(3)]  # while the capture goes on
        assert b"shop/web:1" in lines[2]
        process.stdin.close()
        assert b"1 connection in 1 packet " in process.stdout.read()
