from helpers.builders import allow, cnp, deny, netpol, networks, packet, pod, pods
from helpers.judging import engine_of
from msgspec.structs import replace

from knp_py.lab.attempts import Seen
from knp_py.lab.testimony import denies, is_nobodys, trial_of, unwatched_trial
from knp_py.lab.verdictfeed import Found
from knp_py.model.changes import ClusterObject
from knp_py.model.decision import Decision, Verdict
from knp_py.replay.shell import Trial
from knp_py.verdicts.record import FlowFacts, Record, record

CLIENT, SERVER = pod("a/client", "10.0.0.1"), pod("a/server", "10.0.0.2")
SYN = packet("10.0.0.1", "10.0.0.2")
SHUT = cnp("shut", egress=[deny(networks("0.0.0.0/0"), name="all")])
OPEN = netpol("a/open", ingress=[allow(pods())])
OUT = netpol("a/out", egress=[allow(pods())])


def decided(*policies: ClusterObject) -> Decision:
    return engine_of([CLIENT, SERVER, *policies]).evaluate(SYN, now=0.0)


def logged(decision: Decision, *, own: bool = True, **other: object) -> Found:
    facts = FlowFacts(0, 1, SYN.src, SYN.dst, SYN.protocol, SYN.sport, SYN.dport)
    entry: Record = replace(record(decision, facts), **other)
    return Found(entry, own)


def heard(seen: Seen | None, found: Found | None, foreseen: Decision) -> Trial:
    return trial_of(seen, found, SYN, "a/server", foreseen)


def test_two_witnesses_who_agree() -> None:
    allowed, denied = decided(OPEN, OUT), decided(SHUT)
    trial = heard(Seen(), logged(allowed), allowed)
    assert (trial.verdict, trial.fault) == (Verdict.ALLOW, "")
    assert trial.attempt is not None
    # The log names one ruling; that it is the engine's makes the other end's known too.
    assert trial.attempt.decision == allowed
    assert trial.attempt.decision.egress is not None
    trial = heard(None, logged(denied), denied)
    assert (trial.verdict, trial.fault) == (Verdict.DENY, "")
    assert trial.attempt is not None
    assert trial.attempt.pod == "a/server"


def test_who_decided_is_what_the_log_says_not_what_the_engine_would() -> None:
    trial = heard(None, logged(decided(SHUT)), decided(OPEN))
    assert (trial.verdict, trial.fault) == (Verdict.DENY, "")
    assert trial.attempt is not None
    ruling = trial.attempt.decision.decided_by
    assert ruling is not None
    assert (ruling.policy, ruling.rule_name, ruling.allowed) == ("shut", "all", False)
    isolated = decided(netpol("a/none", ingress=[]))
    trial = heard(None, logged(isolated), decided(OPEN))
    assert trial.attempt is not None
    assert trial.attempt.decision.ingress is not None
    assert trial.attempt.decision.ingress.isolated_by == ("a/none",)


def test_witnesses_who_contradict_each_other() -> None:
    allowed, denied = decided(OPEN), decided(SHUT)
    through = heard(Seen(), logged(denied), denied)
    assert (through.verdict, through.fault) == (
        Verdict.ALLOW,
        'it was answered, but the agent\'s log says deny: egress: Admin shut, rule 0 "all"',
    )
    lost = heard(None, logged(allowed, own=False), allowed)
    assert lost.verdict is Verdict.DENY
    assert lost.fault.startswith("it was not answered, but the agent's log says allow: ingress")


def test_a_dry_run_denies_in_the_log_alone() -> None:
    found = logged(decided(SHUT), enforced=False)
    assert heard(Seen(), found, decided(SHUT)).fault == ""
    assert not denies(found)
    assert denies(logged(decided(SHUT)))
    assert not denies(logged(decided(OPEN)))


def test_a_verdict_that_is_not_in_the_log() -> None:
    fault = "it was answered, and the agent's log has no verdict on it"
    assert heard(Seen(), None, decided(OPEN)).fault == fault
    assert "was not answered, and" in heard(None, None, decided()).fault
    # Nobody has to be asked about pods that no policy selects.
    trial = heard(Seen(), None, decided())
    assert (trial.verdict, trial.fault) == (Verdict.ALLOW, "")
    assert trial.attempt is not None


def test_nobodys_business() -> None:
    assert is_nobodys(decided())
    assert not is_nobodys(decided(OPEN))
    assert not is_nobodys(decided(SHUT))


def test_a_refusal_is_no_verdict() -> None:
    trial = heard(Seen("connection refused"), None, decided(OPEN))
    assert trial == Trial(Verdict.UNKNOWN, reason="no verdict, but: connection refused")
    assert unwatched_trial(Seen("connection refused")) == trial


def test_without_an_agent_only_the_socket_is_heard() -> None:
    assert unwatched_trial(Seen()).verdict is Verdict.ALLOW
    assert unwatched_trial(None).verdict is Verdict.DENY
