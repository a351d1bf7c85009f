"""Things on their way out: while they are there, their policies hold (semantics §1)."""

from helpers import builders as b
from helpers.builders import allow, cnp, deny, netpol, select
from helpers.world import line, loaded

from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.names import DomainCache
from knp_py.engine.state import ClusterState
from knp_py.model.changes import Change, ClusterObject, Verb
from knp_py.model.objects import Pod

A = b.pod("x/a", "10.0.1.10", labels={"app": "a"})
EXT = "203.0.113.5"
CLOSED = netpol("x/none", ingress=[], egress=[])
DENIED = "deny: egress NetworkPolicy, isolated by x/none"
OPEN = "allow: Default"


class Watched:
    """A state that is told of changes one by one."""

    def __init__(self, *objects: ClusterObject) -> None:
        self.state = ClusterState()
        self.engine = PolicyEngine(names=DomainCache())
        self.apply(*objects)

    def apply(self, *objects: ClusterObject) -> None:
        for obj in objects:
            self.state.apply(Change(Verb.APPLIED, obj))

    def delete(self, *objects: ClusterObject) -> None:
        for obj in objects:
            self.state.apply(Change(Verb.DELETED, obj))

    def ask(self, src: str | Pod, dst: str | Pod) -> str:
        self.engine.load(self.state.snapshot())
        decision = self.engine.evaluate(b.packet(src, dst), now=0.0)
        assert decision.decided_by is not None
        return f"{decision.verdict.value}: {line(decision.decided_by)}"


def test_a_policy_deleted_in_a_living_namespace_is_gone() -> None:
    watched = Watched(b.namespace("x"), A, CLOSED)
    assert watched.ask(A, EXT) == DENIED
    watched.delete(CLOSED)
    assert watched.ask(A, EXT) == OPEN


def test_while_a_namespace_is_terminating_its_policies_hold() -> None:
    watched = Watched(b.namespace("x"), A, CLOSED)
    watched.apply(b.namespace("x", terminating=True))
    watched.delete(CLOSED)
    assert watched.ask(A, EXT) == DENIED


def test_snapshots_between_the_events_make_no_difference() -> None:
    watched = Watched(b.namespace("x"), A, CLOSED)
    assert watched.ask(A, EXT) == DENIED
    watched.apply(b.namespace("x", terminating=True))
    assert watched.ask(A, EXT) == DENIED
    watched.delete(CLOSED)
    assert watched.ask(A, EXT) == DENIED


def test_all_the_policies_it_had_hold_also_those_that_allow() -> None:
    some = netpol("x/some", egress=[allow(b.ip_block(f"{EXT}/32"))])
    watched = Watched(b.namespace("x"), A, CLOSED, some, b.namespace("x", terminating=True))
    watched.delete(CLOSED, some)
    assert watched.ask(A, EXT) == "allow: egress NetworkPolicy x/some[0]"
    assert watched.ask(A, "203.0.113.6") == (
        "deny: egress NetworkPolicy, isolated by x/none, x/some"
    )


def test_what_was_deleted_before_it_began_does_not_hold() -> None:
    watched = Watched(b.namespace("x"), A, CLOSED)
    watched.delete(CLOSED)
    watched.apply(b.namespace("x", terminating=True))
    assert watched.ask(A, EXT) == OPEN


def test_a_start_in_the_middle_takes_what_is_there() -> None:
    # A first list may tell the namespace before its policies: those still exist.
    watched = Watched(b.namespace("x", terminating=True), A, CLOSED)
    assert watched.ask(A, EXT) == DENIED
    watched.delete(CLOSED)
    assert watched.ask(A, EXT) == DENIED


def test_until_its_pods_are_gone_also_when_the_namespace_goes_first() -> None:
    watched = Watched(b.namespace("x"), A, CLOSED, b.namespace("x", terminating=True))
    watched.delete(CLOSED, b.namespace("x", terminating=True))
    assert watched.ask(A, EXT) == DENIED
    watched.delete(A)
    assert watched.ask("10.0.1.10", EXT) == "allow: Default"


def test_a_namespace_that_comes_back_begins_anew() -> None:
    watched = Watched(b.namespace("x"), A, CLOSED, b.namespace("x", terminating=True))
    watched.delete(CLOSED, A, b.namespace("x", terminating=True))
    again = b.pod("x/a", "10.0.1.10", uid="another", labels={"app": "a"})
    watched.apply(b.namespace("x"), again)
    assert watched.ask(again, EXT) == OPEN


def test_a_policys_end_told_after_its_namespaces_leaves_its_pods_closed() -> None:
    # Each kind has a watch of its own: the namespace's end may be told first.
    watched = Watched(b.namespace("x"), A, CLOSED, b.namespace("x", terminating=True))
    watched.delete(b.namespace("x", terminating=True), CLOSED)
    assert watched.ask(A, EXT) == DENIED
    watched.delete(A)
    watched.apply(b.namespace("x"), b.pod("x/a", "10.0.1.10", uid="another"))
    assert watched.ask("10.0.1.10", EXT) == OPEN


def test_nothing_is_held_when_the_last_pod_went_after_the_namespace() -> None:
    watched = Watched(b.namespace("x"), A, CLOSED, b.namespace("x", terminating=True))
    watched.delete(CLOSED, b.namespace("x", terminating=True), A)
    assert watched.state.snapshot().network_policies == {}
    watched.apply(b.pod("x/a", "10.0.1.10", uid="another"))
    assert watched.ask("10.0.1.10", EXT) == OPEN


def test_a_namespace_that_is_not_terminating_any_more_holds_nothing() -> None:
    watched = Watched(b.namespace("x"), A, CLOSED, b.namespace("x", terminating=True))
    watched.delete(CLOSED)
    watched.apply(b.namespace("x"))
    assert watched.ask(A, EXT) == OPEN


def test_other_namespaces_policies_still_go() -> None:
    other = b.pod("y/b", "10.0.2.10")
    closed = netpol("y/none", egress=[])
    watched = Watched(b.namespace("x", terminating=True), b.namespace("y"), A, other, closed)
    watched.delete(closed)
    assert watched.ask(other, EXT) == OPEN


def test_cluster_policies_are_not_in_the_namespace() -> None:
    policy = cnp("c", subject=b.in_namespace("x"), egress=[deny(b.networks("0.0.0.0/0"))])
    watched = Watched(b.namespace("x", terminating=True), A, policy)
    assert watched.ask(A, EXT) == "deny: egress Admin c[0]"
    watched.delete(policy)
    assert watched.ask(A, EXT) == OPEN


def test_what_is_held_still_follows_the_labels_of_pods() -> None:
    narrow = netpol("x/none", select({"app": "a"}), egress=[])
    watched = Watched(b.namespace("x"), A, narrow, b.namespace("x", terminating=True))
    watched.delete(narrow)
    assert watched.ask(A, EXT) == DENIED
    watched.apply(b.pod("x/a", "10.0.1.10", labels={"app": "other"}))
    assert watched.ask(A, EXT) == OPEN


def test_an_old_snapshot_keeps_its_policies() -> None:
    watched = Watched(b.namespace("x"), A, CLOSED)
    old = watched.state.snapshot()
    watched.delete(CLOSED)
    watched.state.snapshot()
    engine = PolicyEngine(names=DomainCache())
    engine.load(old)
    decision = engine.evaluate(b.packet(A, EXT), now=0.0)
    assert decision.decided_by is not None
    assert f"{decision.verdict.value}: {line(decision.decided_by)}" == DENIED


def test_a_terminating_pod_is_still_a_pod() -> None:
    objects = loaded(
        """
apiVersion: v1
kind: Pod
metadata:
  name: a
  namespace: x
  deletionTimestamp: "2026-01-01T00:00:00Z"
spec:
  containers: [{name: c, image: i}]
status: {phase: Running, podIP: 10.0.1.10}
"""
    )
    watched = Watched(*objects, CLOSED)
    assert watched.ask("10.0.1.10", EXT) == DENIED


def test_a_deleted_pod_is_nobody() -> None:
    watched = Watched(b.namespace("x"), A, CLOSED)
    watched.delete(A)
    assert watched.ask("10.0.1.10", EXT) == OPEN


def test_the_late_end_of_an_old_pod_leaves_its_successor() -> None:
    # A StatefulSet pod returns under the same name as another pod (semantics §1).
    first = b.pod("x/web-0", "10.0.1.30", uid="1")
    second = b.pod("x/web-0", "10.0.1.31", uid="2")
    watched = Watched(b.namespace("x"), first, second, CLOSED)
    watched.delete(first)
    assert watched.ask(second, EXT) == DENIED
    assert watched.ask("10.0.1.30", EXT) == OPEN


def test_a_successor_told_before_the_end_of_the_old_pod_replaces_it() -> None:
    first = b.pod("x/web-0", "10.0.1.30", uid="1")
    second = b.pod("x/web-0", "10.0.1.31", uid="2")
    watched = Watched(b.namespace("x"), first, second, CLOSED)
    assert watched.ask(second, EXT) == DENIED
    assert watched.ask("10.0.1.30", EXT) == OPEN, "one name is one pod at a time"
