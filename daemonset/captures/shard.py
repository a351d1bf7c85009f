"""One shard of a volume of captures: replays its part, a file of records for each unit.

A *unit* is what has to be judged together: a capture file that lies directly in CAPTURES, or a
directory with all the captures below it, say everything that was captured on one node. Names that
were learned and connections that go on in the next file count within a unit only. Units are dealt
out by size, the largest first to whoever has least, so every pod that sees the same files comes
to the same division without asking another.

    CAPTURES, MANIFESTS, RECORDS   directories; RECORDS is written to
    SHARDS, JOB_COMPLETION_INDEX   how many pods there are, and which of them this is, from 0

Records of a unit appear under their name when they are complete, so a shard that is run again
does only what is missing. Exit code 0: all of its units are there, 1: some could not be replayed,
2: one of the variables is wrong.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

SUFFIXES = (".pcap", ".pcapng", ".cap", ".pcap.gz", ".pcapng.gz", ".cap.gz")


def units(captures: Path) -> dict[str, list[Path]]:
    """The captures of each unit, by its name; hidden files and other files are none."""
    found = {}
    for each in sorted(captures.iterdir()):
        if each.name.startswith("."):
            continue
        inside = sorted(each.rglob("*")) if each.is_dir() else [each]
        files = [path for path in inside if path.is_file() and path.name.endswith(SUFFIXES)]
        if files:
            found[each.name] = files
    return found


def passed_over(captures: Path, found: Mapping[str, list[Path]]) -> list[str]:
    """Files that are in no unit, hidden ones aside."""
    taken = {path for files in found.values() for path in files}
    return [
        str(path.relative_to(captures))
        for path in sorted(captures.rglob("*"))
        if path.is_file() and path not in taken and not path.name.startswith(".")
    ]


def share(sizes: Mapping[str, int], shards: int, index: int) -> list[str]:
    """The names that the shard ``index`` of ``shards`` has to do, sizes being bytes."""
    loads = [0] * shards
    mine = []
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        least = loads.index(min(loads))
        loads[least] += sizes[name]
        if least == index:
            mine.append(name)
    return mine


def replay(files: list[Path], manifests: Path, to: Path) -> bool:
    """Judge captures; their records are at ``to`` if that went well."""
    part = to.with_name(f".{to.name}.part")
    command = ["knp", "replay", *map(str, files), "--manifests", str(manifests), "-o", "jsonl"]
    with part.open("wb") as out:
        done = subprocess.run(command, stdout=out, check=False)  # noqa: S603 - our own words
    if done.returncode:
        part.unlink()
        return False
    part.replace(to)
    return True


def main() -> int:
    """Do this shard's part."""
    environment = os.environ
    try:
        captures, manifests, records = (
            Path(environment[name]) for name in ("CAPTURES", "MANIFESTS", "RECORDS")
        )
        shards, index = (int(environment[name]) for name in ("SHARDS", "JOB_COMPLETION_INDEX"))
        if not 0 <= index < shards:
            raise ValueError(f"JOB_COMPLETION_INDEX {index} is not below SHARDS {shards}")
        found = units(captures)
    except KeyError as error:
        return complain(f"{error.args[0]} is not set", 2)
    except (ValueError, OSError) as error:
        return complain(str(error), 2)
    sizes = {name: sum(path.stat().st_size for path in files) for name, files in found.items()}
    if index == 0:  # one of them says it for all
        others = passed_over(captures, found)
        if others:
            names = ", ".join(others[:3])
            complain(f"{len(others)} files are no captures by their names: {names}", 0)
        if not found:
            complain(f"no capture is in {captures}: names end in {', '.join(SUFFIXES)}", 0)
    failed = []
    for name in share(sizes, shards, index):
        to = records / f"{name}.jsonl"
        if to.exists():
            continue
        complain(f"shard {index} of {shards}: {name}, {sizes[name]:,} bytes", 0)
        if not replay(found[name], manifests, to):
            failed.append(name)
    return complain(f"could not be replayed: {', '.join(failed)}", 1) if failed else 0


def complain(message: str, code: int) -> int:
    """Say it, as one line."""
    sys.stderr.write(f"shard: {message}\n")
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    sys.exit(main())
