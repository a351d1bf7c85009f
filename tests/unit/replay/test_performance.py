"""What a stage is told, in which order; the engine's own stage is in ``test_rehearsal``."""

from collections.abc import Iterable, Sequence

from helpers.scenarios import CLUSTER, DENY_ALL, decoded, read

from knp_py.engine.snapshot import Snapshot
from knp_py.errors import ScenarioError
from knp_py.manifests.document import Document
from knp_py.model.changes import Change
from knp_py.model.decision import Verdict
from knp_py.model.net import format_address
from knp_py.model.objects import Pod
from knp_py.replay.directory import Directory
from knp_py.replay.performance import Check, Performance, Result
from knp_py.replay.scenario import Step
from knp_py.replay.shell import Asked, Call, Outcome, Trial
from knp_py.replay.timeline import Timeline

SCENARIO = f"""\
resolve: {{github.com: [140.82.121.3, 140.82.121.4]}}
steps:
  - {{name: one, expect: [{{from: a/client, connect: 1.1.1.1, verdict: allow}}]}}
  - name: two
    apply: {DENY_ALL}
    wait: 5
    expect: [{{from: a/public, connect: github.com, verdict: allow}}]
"""


class Script:
    """A stage, and its network, whose outcomes are written down before."""

    def __init__(self, *trials: Trial) -> None:
        self.network = self
        self.said: list[str] = []
        self._trials = list(trials)
        self.refused = ""

    def complete(self, document: Document) -> Document:
        return document

    def change(self, changes: Sequence[Change], timeline: Timeline, snapshot: Snapshot) -> None:
        self.said.append(f"{len(changes)} of {len(timeline.documents)}, {len(snapshot.pods)} pods")
        if self.refused and len(changes) == 1:
            raise ScenarioError(self.refused)

    def wait(self, seconds: float) -> None:
        self.said.append(f"wait {seconds}")

    def why(self, outcome: Outcome) -> Iterable[str]:
        return (f"because of {outcome.stage}",)

    def connect(self, call: Call) -> Trial:
        self.said.append(f"{format_address(call.source)} to {call.place.text}:{call.port}")
        return self._trials.pop(0)

    def ask(self, call: Call, pod: Pod, name: str) -> Asked:
        self.said.append(f"{pod.key} asks {call.place.text} for {name}")
        trial = self._trials.pop(0)
        return Asked(trial, directory.public(name, "connect") if trial.verdict is ALLOW else None)


ALLOW = Verdict.ALLOW
directory = Directory(read(SCENARIO).resolve)


def perform(stage: Script) -> tuple[Result, list[Check]]:
    told: list[Check] = []

    def tell(step: Step, check: Check) -> None:
        assert step.name in {"one", "two"}
        told.append(check)

    performance = Performance(read(SCENARIO), {}, stage, directory, told=tell)
    result = performance.run(decoded(CLUSTER, "cluster.yaml"))
    assert told == result.checks
    return result, told


def test_changes_then_time_then_what_is_expected() -> None:
    allow, deny = Trial(Verdict.ALLOW), Trial(Verdict.DENY)
    stage = Script(allow, deny, allow, deny, allow)
    result, checks = perform(stage)
    assert stage.said == [
        "8 of 8, 4 pods",
        "10.244.1.6 to 1.1.1.1:443",
        "1 of 9, 4 pods",
        "wait 5.0",
        "a/public asks 8.8.8.8 for github.com",
        "a/public asks 1.1.1.1 for github.com",
        "10.244.1.7 to 140.82.121.3:443",
        "10.244.1.7 to 140.82.121.4:443",
    ]
    assert all(check.met for check in checks)
    assert [step.at for step in result.steps] == [0.0, 5.0]


def test_an_address_that_lets_the_client_through_is_the_last_it_tries() -> None:
    allow = Trial(Verdict.ALLOW)
    stage = Script(allow, allow, allow)
    perform(stage)
    assert stage.said[-1] == "10.244.1.7 to 140.82.121.3:443"


def test_what_contradicts_itself_is_not_met_whatever_was_expected() -> None:
    odd = Trial(Verdict.ALLOW, fault="the log says deny")
    _, checks = perform(Script(odd, odd, Trial(Verdict.DENY, fault="lost"), Trial(Verdict.ALLOW)))
    assert [check.faults for check in checks] == [
        ("the log says deny",),
        ("the log says deny", "lost"),
    ]
    assert checks[0].why == ("because of connect",)


def test_what_the_stage_cannot_do_ends_the_scenario() -> None:
    stage = Script(Trial(Verdict.ALLOW))
    stage.refused = "no room"
    result, checks = perform(stage)
    assert [str(problem) for problem in result.problems] == [
        's.yaml: step "two": steps[1]: no room'
    ]
    assert len(checks) == 1
