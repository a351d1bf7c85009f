"""Logs as kube-network-policies writes them, built from what is known of their format.

A ``Flow`` is one packet and what each tier said of it; ``text_lines`` and ``json_lines``
write it the way klog does. Everything here is made up.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

CLOCK = "I0712 09:53:52.{:06d}       1 {}:{}] "


class Flow(NamedTuple):
    """``tiers`` are (direction, tier, action) as "CNP evaluation" lines say them.

    ``denied`` is the direction that denies, None when the packet is accepted.
    """

    id: int
    src: str = "10.244.1.6:37368"
    dst: str = "172.66.147.243:443"
    protocol: str = "TCP"
    src_pod: str = "team-a/agent"
    dst_pod: str = "external"
    tiers: Sequence[tuple[str, str, str]] = ()
    denied: str | None = None

    @property
    def directions(self) -> list[str]:
        return ["Egress"] if self.denied == "Egress" else ["Egress", "Ingress"]

    @property
    def verdict(self) -> str:
        return (
            f"Packet denied by {self.denied.lower()} policy"
            if self.denied
            else "Packet accepted by policy"
        )


def _split(end: str) -> tuple[str, int]:
    address, _, port = end.rpartition(":")
    return address, int(port)


def payload_lines() -> list[str]:
    """A hex dump, as text logs have it."""
    return [
        "\t00000000  de ad be ef 00 01 02 03  04 05 06 07 08 09 0a 0b  |................|",
        '\t00000010  22 5b 37 5d 20 3e                                 |"[7] >|',
    ]


def text_lines(flow: Flow, *, header: bool = True, payload: bool = False) -> list[str]:
    """The flow's entries at -v=2 in klog's text format, without newlines."""
    lines: list[str] = []
    micros = (100_000 + flow.id) % 1_000_000

    def add(caller: str, line: str) -> None:
        lines.append((CLOCK.format(micros, caller, 42) if header else "") + line)

    add("controller.go", f'"Processing sync for packet" id={flow.id}')
    for direction in flow.directions:
        add(
            "logging.go",
            f'"Evaluating packet" id={flow.id} direction="{direction}"'
            f' srcPod="{flow.src_pod}" dstPod="{flow.dst_pod}" packet=<',
        )
        lines.append(f"\t[{flow.id}] {flow.src} {flow.dst} {flow.protocol}")
        lines.extend(payload_lines() if payload else [])
        lines.append(" >")
        for side, tier, action in flow.tiers:
            if side == direction:
                add(
                    "clusternetworkpolicy.go",
                    f'"{side} CNP evaluation" id={flow.id} tier="{tier}" npolicies=4'
                    f' action="{action}"',
                )
    add("engine.go", f'"{flow.verdict}" id={flow.id}')
    add(
        "controller.go",
        f'"Finished syncing packet" id={flow.id} duration="171.516µs"'
        f' verdict="{"drop" if flow.denied else "accept"}"',
    )
    return lines


def json_lines(flow: Flow, *, ts: float = 1_783_849_000_000.25) -> list[str]:
    """The same with --logging-format=json; ``ts`` is in milliseconds."""
    (src, sport), (dst, dport) = _split(flow.src), _split(flow.dst)
    packet = {
        "ID": flow.id,
        "Family": "IPv6" if ":" in dst else "IPv4",
        "SrcIP": src,
        "DstIP": dst,
        "Proto": flow.protocol,
        "SrcPort": sport,
        "DstPort": dport,
    }
    entries: list[dict[str, object]] = [
        {"caller": "dataplane/controller.go:240", "msg": "Processing sync for packet", "v": 2}
    ]
    for direction in flow.directions:
        entries.append(
            {
                "caller": "networkpolicy/logging.go:67",
                "msg": "Evaluating packet",
                "direction": direction,
                "srcPod": flow.src_pod,
                "dstPod": flow.dst_pod,
                "packet": packet,
            }
        )
        entries.extend(
            {
                "caller": "networkpolicy/clusternetworkpolicy.go:90",
                "msg": f"{side} CNP evaluation",
                "v": 2,
                "tier": tier,
                "npolicies": 4,
                "action": action,
            }
            for side, tier, action in flow.tiers
            if side == direction
        )
    entries.append({"caller": "networkpolicy/engine.go:57", "msg": flow.verdict, "v": 2})
    entries.append(
        {
            "caller": "dataplane/controller.go:270",
            "msg": "Finished syncing packet",
            "v": 2,
            "duration": "171.516µs",
            "verdict": "drop" if flow.denied else "accept",
        }
    )
    return [json.dumps({"ts": ts, "id": flow.id} | entry) for entry in entries]


def old_text_lines(flow: Flow, *, policies: Sequence[tuple[str, int, bool]] = ()) -> list[str]:
    """The flow as versions from before the evaluators wrote it.

    One "Evaluating packet" without an id of its own, ``none`` for no pod, then what
    ``policies`` say: (kind, how many, allowed).
    """
    lines = [
        CLOCK.format(7, "controller.go", 567)
        + f'"Evaluating packet" srcPod="{flow.src_pod}" dstPod="none" packet=<',
        f"\t[{flow.id}] {flow.src} {flow.dst} {flow.protocol}",
        " >",
    ]
    lines.extend(
        CLOCK.format(8, "controller.go", 597)
        + f'"{kind}" id={flow.id} npolicies={count} allowed={str(allowed).lower()}'
        for kind, count, allowed in policies
    )
    lines.append(
        CLOCK.format(9, "controller.go", 493)
        + f'"Finished syncing packet" id={flow.id} duration="936.461µs"'
        f' verdict="{"drop" if flow.denied else "accept"}"'
    )
    return lines
