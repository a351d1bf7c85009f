"""Services on the node: their addresses translated to a pod behind them, as kube-proxy does.

Backends take turns, so that as many connections as there are backends reach each of them.
Pure: what comes out is an nft script.
"""

from collections.abc import Iterator

from knp_py.engine.services import Backend, backends
from knp_py.engine.snapshot import Snapshot
from knp_py.model.net import format_address, is_v4
from knp_py.model.objects import Service
from knp_py.model.packet import Proto

_WORDS = {int(Proto.TCP): "tcp", int(Proto.UDP): "udp", int(Proto.SCTP): "sctp"}
_EMPTY = """\
add table inet knplab_services
delete table inet knplab_services
"""


def service_rules(snapshot: Snapshot) -> str:
    """An nft script that puts all Services of the cluster in the place of those before."""
    translations: list[str] = []
    own: dict[bool, set[str]] = {True: set(), False: set()}
    refused: dict[bool, set[str]] = {True: set(), False: set()}
    for address, service in sorted(snapshot.service_ends.items()):
        if snapshot.pod_at(address) is not None:
            continue  # whoever claims a pod's address as its external one does not get it
        refused[is_v4(address)].add(format_address(address))
        for line, found in _translations(snapshot, address, service):
            translations.append(line)
            own[is_v4(address)].update(format_address(each.address) for each in found)
    if not refused[True] and not refused[False]:
        return _EMPTY
    return f"""{_EMPTY}table inet knplab_services {{
  chain translate {{
{_indented(translations)}
  }}
  chain arriving {{
    type nat hook prerouting priority dstnat;
    jump translate
  }}
  chain from_node {{
    type nat hook output priority -100;
    jump translate
  }}
  # A port that nothing is behind: kube-proxy refuses it as well.
  chain forward {{
    type filter hook forward priority filter;
    jump refuse
  }}
  chain output {{
    type filter hook output priority filter;
    jump refuse
  }}
  chain refuse {{
{_indented(_sets("daddr", refused, "reject"))}
  }}
  # A pod that reaches itself by its Service would take its own address for a forgery.
  chain hairpin {{
    type nat hook postrouting priority srcnat;
{_indented(_hairpins(own))}
  }}
}}
"""


def _translations(
    snapshot: Snapshot, address: int, service: Service
) -> Iterator[tuple[str, tuple[Backend, ...]]]:
    """A rule for each port that has backends, and these."""
    family = "ip" if is_v4(address) else "ip6"
    for protocol, port in dict.fromkeys((each.protocol, each.port) for each in service.ports):
        found = backends(snapshot, service, protocol=protocol, port=port, v4=is_v4(address))
        if not found or protocol not in _WORDS:
            continue
        ends = ", ".join(
            f"{n} : {format_address(each.address)} . {each.port}" for n, each in enumerate(found)
        )
        yield (
            (
                f"{family} daddr {format_address(address)} {_WORDS[protocol]} dport {port}"
                f" dnat {family} addr . port to numgen inc mod {len(found)} map {{ {ends} }}"
            ),
            found,
        )


def _sets(field: str, addresses: dict[bool, set[str]], deed: str) -> list[str]:
    return [
        f"{'ip' if v4 else 'ip6'} {field} {{ {', '.join(sorted(found))} }} {deed}"
        for v4, found in addresses.items()
        if found
    ]


def _hairpins(own: dict[bool, set[str]]) -> list[str]:
    return [
        f"ct status dnat {family} saddr . {family} daddr {{ {pairs} }} masquerade"
        for family, found in (("ip", own[True]), ("ip6", own[False]))
        if (pairs := ", ".join(f"{each} . {each}" for each in sorted(found)))
    ]


def _indented(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)
