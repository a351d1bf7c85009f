"""The example is a test of the whole: scenario, capture and what is said of them."""

import json
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from helpers.command import knp

EXAMPLE = Path(__file__).parents[2] / "examples" / "agent-sandbox"
MANIFESTS = EXAMPLE / "manifests"


@pytest.fixture(scope="module")
def checks() -> list[dict[str, object]]:
    ended = knp("test", str(EXAMPLE / "scenario.yaml"), "-o", "jsonl")
    assert (ended.code, ended.err) == (0, "")
    return [json.loads(line) for line in ended.out.splitlines()]


def test_every_outcome_of_every_phase(checks: list[dict[str, object]]) -> None:
    steps = Counter(str(check["step"]).partition(":")[0] for check in checks)
    assert steps == {
        "phase 1": 7,
        "phase 2": 5,
        "phase 3": 6,
        "phase 4": 7,
        "phase 5": 4,
        "phase 6": 3,
        "phase 7": 3,
        "the final state": 5,
        "names end": 2,
    }
    assert all(check["met"] for check in checks)


def test_every_policy_decides_something(checks: list[dict[str, object]]) -> None:
    deciders = set()
    for check in checks:
        decided = check["decided_by"]
        assert isinstance(decided, dict)
        deciders.add(decided["policy"])
    assert deciders >= {
        "sandbox-egress-allow-dns",
        "sandbox-egress-allow-github",
        "sandbox-egress-baseline-deny",
        "sandbox-egress-default-deny",
        "sandbox-egress-team-b-allow-pypi",
        "sandbox-team-a/agent-runtime-network-policy",
        "sandbox-team-b/agent-runtime-network-policy",
    }


def test_each_policy_file_is_needed(tmp_path: Path) -> None:
    """Without any one of them the scenario fails: no expectation holds by accident."""
    text = (EXAMPLE / "scenario.yaml").read_text().replace("manifests/", f"{MANIFESTS}/")
    for file in sorted(MANIFESTS.glob("phase-[47]/*-cnp-*.yaml")):
        path = tmp_path / file.name
        path.write_text(text.replace(f"apply: {file}", "wait: 0"))
        ended = knp("test", str(path))
        assert ended.code == 1, file.name


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    pytest.importorskip("scapy")
    spec = spec_from_file_location("make_capture", EXAMPLE / "make_capture.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_capture_is_what_its_script_makes(maker: ModuleType, tmp_path: Path) -> None:
    maker.write(tmp_path / "again.pcap", maker.traffic())
    assert (tmp_path / "again.pcap").read_bytes() == (EXAMPLE / "phase4.pcap").read_bytes()


def replayed(*arguments: str) -> list[dict[str, object]]:
    ended = knp("replay", str(EXAMPLE / "phase4.pcap"), *arguments, "-o", "jsonl")
    records = [json.loads(line) for line in ended.out.splitlines()]
    return [record for record in records if "verdict" in record]


def verdicts(*manifests: Path) -> dict[int, str]:
    arguments = [argument for path in manifests for argument in ("--manifests", str(path))]
    return {int(str(r["id"])): str(r["verdict"]) for r in replayed(*arguments)}


def test_what_was_never_answered_is_what_phase_4_denies(maker: ModuleType) -> None:
    """The capture shows phase 4 in force: every TCP request without an answer is denied."""
    records = replayed(
        *("--manifests", str(MANIFESTS / "phase-1")), *("--manifests", str(MANIFESTS / "phase-4"))
    )
    assert len(records) == 34
    for record in records:
        source = record["src"]
        assert isinstance(source, dict)
        if record["protocol"] != "TCP" or source["ip"] == maker.RAW:
            continue  # the manifests of phase 4 do not know the raw sandbox
        unanswered = record["packets"] == len(maker.RETRIES)
        assert (record["verdict"] == "deny") == unanswered, record


def test_what_the_phases_after_it_change() -> None:
    before = verdicts(MANIFESTS / "phase-1", MANIFESTS / "phase-4")
    after = verdicts(MANIFESTS)
    changed = {number: (before[number], after[number]) for number in before}
    changed = {number: pair for number, pair in changed.items() if pair[0] != pair[1]}
    assert changed == {
        19: ("deny", "allow"),  # team b, pypi.org
        21: ("deny", "allow"),  # team b, files.pythonhosted.org
        23: ("deny", "allow"),  # team b, the shared tool
        24: ("allow", "deny"),  # the raw sandbox, the shared tool
    }


def test_nothing_of_it_warns() -> None:
    ended = knp("eval", "--manifests", str(MANIFESTS), "--from", "1.2.3.4", "--to", "1.2.3.5")
    assert (ended.code, ended.err) == (0, "")
