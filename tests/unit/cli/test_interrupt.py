"""Ctrl-C on a capture that streams in; real processes, real signals."""

import json
import signal
import subprocess
import sys
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
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write((tmp_path / "c.pcap").read_bytes())
    process.stdin.flush()
    time.sleep(1.5)  # it waits for more by now
    process.send_signal(signal.SIGINT)
    process.wait(timeout=10)
    assert process.stdout is not None
    assert process.stderr is not None
    lines = process.stdout.read().splitlines()
    assert process.returncode == 0, process.stderr.read()
    assert [json.loads(line)["verdict"] for line in lines] == ["allow"]
    assert b"1 connections in 1 packets" in process.stderr.read()
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()


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
        assert b"1 connections in 1 packets" in process.stdout.read()
