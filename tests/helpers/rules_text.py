"""nftables text read back: what a transaction would leave in the kernel, as far as we write it.

Knows only the statements that ``agent.ruleset`` uses, and refuses any other.
"""

import re
from dataclasses import dataclass, field

_SET = re.compile(r"set (\w+) \{ (.*?)(?: elements = \{ (.*) \};)? \}")
_CHAIN = re.compile(r"chain (\w+) \{")
_ELEMENT = re.compile(r"(add|delete) element inet (\w+) (\w+) \{ (.+) \}")
_RULE = re.compile(r"add rule inet (\w+) (\w+) (.+)")
_FLUSH = re.compile(r"flush (set|chain) inet (\w+) (\w+)")


@dataclass
class Table:
    """A table: the declaration and elements of each set, the hook and rules of each chain."""

    name: str
    sets: dict[str, str] = field(default_factory=dict)
    elements: dict[str, set[str]] = field(default_factory=dict)
    counters: list[str] = field(default_factory=list)
    hooks: dict[str, str] = field(default_factory=dict)
    chains: dict[str, list[str]] = field(default_factory=dict)

    def rules(self) -> list[tuple[str, str]]:
        """Every rule, with its chain."""
        return [(chain, rule) for chain, rules in self.chains.items() for rule in rules]


def installed(text: str) -> Table:
    """The table that ``ruleset.install`` or ``ruleset.refill`` makes."""
    lines = [line.strip() for line in text.splitlines()]
    opened = re.fullmatch(r"table inet (\w+) \{(?: \})?", lines[0])
    assert opened is not None, lines[0]
    table = Table(opened[1])
    body = len(lines) - lines[::-1].index(f"table inet {table.name} {{")
    before = lines[: body - 1]
    assert lines[-1] == "}"
    chain: str | None = None
    for line in lines[body:-1]:
        if chain is not None:
            if line == "}":
                chain = None
            elif line.startswith("type "):
                assert table.chains[chain] == []
                table.hooks[chain] = line
            else:
                table.chains[chain].append(line)
        elif (found := _SET.fullmatch(line)) is not None:
            assert found[1] not in table.sets
            table.sets[found[1]] = found[2]
            table.elements[found[1]] = _elements(found[3] or "")
        elif (found := re.fullmatch(r"counter (\w+) \{ \}", line)) is not None:
            table.counters.append(found[1])
        else:
            found = _CHAIN.fullmatch(line)
            assert found is not None, line
            chain = found[1]
            assert chain not in table.chains
            table.chains[chain] = []
    assert chain is None
    # What was there before goes, whether or not there was anything.
    if before[0].endswith("}"):
        assert before[1:] == [f"delete table inet {table.name}"]
    else:
        declared = [found[1] for line in before if (found := _SET.fullmatch(line))]
        assert declared == list(table.sets)
        assert before[len(declared) + 1 :] == [
            "}",
            f"flush table inet {table.name}",
            *(f"flush set inet {table.name} {name}" for name in declared),
        ]
    return table


def updated(table: Table, text: str) -> None:
    """What ``ruleset.update`` makes of a table. The kernel refuses what is not there."""
    for line in text.splitlines():
        if (found := _ELEMENT.fullmatch(line)) is not None:
            verb, name, set_name, elements = found.groups()
            there, these = table.elements[set_name], _elements(elements)
            if verb == "add":
                there |= these
            else:
                assert these <= there, line
                there -= these
        elif (found := _FLUSH.fullmatch(line)) is not None:
            kind, name, what = found.groups()
            (table.elements[what] if kind == "set" else table.chains[what]).clear()
        else:
            found = _RULE.fullmatch(line)
            assert found is not None, line
            name, chain, rule = found.groups()
            table.chains[chain].append(rule)
        assert name == table.name, line


def _elements(text: str) -> set[str]:
    elements = text.split(", ") if text else []
    assert len(set(elements)) == len(elements)
    return set(elements)
