"""From changes to a world in force: the kernel first, then the judge, and what if it refuses."""

from collections.abc import Callable, Iterable
from functools import partial

import msgspec
import pytest
from helpers.builders import (
    accept,
    address,
    addresses,
    cnp,
    deny,
    namespace,
    netpol,
    networks,
    node,
    pod,
)
from helpers.fakes import FakeKernel
from helpers.judging import snapshot_of
from helpers.rules_text import Table, installed, updated

from knp_py.agent.judge import World
from knp_py.agent.layout import Layout, Queues
from knp_py.agent.marks import Marks
from knp_py.agent.world import WorldKeeper, is_here, members_of
from knp_py.errors import KernelError
from knp_py.model.changes import Change, ClusterObject, Verb
from knp_py.model.net import parse_cidr
from knp_py.model.objects import Pod

A = pod("x/a", "10.1.0.5", "fd00:1::5", node="n1")
B = pod("y/b", "10.1.0.6", node="n1")
FAR = pod("x/far", "10.2.0.5", node="n2")
N1 = node("n1", "192.168.0.1", pod_cidrs=["10.1.0.0/24", "fd00:1::/64"])
N2 = node("n2", "192.168.0.2", pod_cidrs=["10.2.0.0/24"])
POLICY = netpol("x/closed", ingress=[])
OPENED = cnp("open", egress=[accept(networks("0.0.0.0/0"))])
CLOSED = cnp("open", egress=[deny(networks("0.0.0.0/0"))])
WRAP_SOON = Marks(connection=0xF)  # fifteen generations


def applied(*objects: ClusterObject) -> list[Change]:
    return [Change(Verb.APPLIED, obj) for obj in objects]


class Node:
    """A keeper of n1's world, with what it did to the kernel and what it told the judge."""

    def __init__(
        self,
        *,
        strict: bool = False,
        marks: Marks = Marks(),  # noqa: B008
        told: bool = False,
    ) -> None:
        self.happened: list[str] = []
        self.kernel = FakeKernel(self.happened)
        self.worlds: list[World] = []
        self.sweep: Callable[[], object] = partial(self.happened.append, "sweep")
        self.layout = Layout(
            "knp", marks, Queues((100, 100), 100, 101), False, True, strict, native=False
        )
        self.forgotten: list[frozenset[int]] = []
        self.links: dict[int, str] = {}
        self.own: frozenset[int] = frozenset()
        self.keeper = WorldKeeper(
            self.layout,
            self.kernel,
            node="n1",
            load=self._load,
            sweep=self._swept,
            forget=self.forgotten.append,
            links=self._links_of,
            own=lambda: self.own,
            told=told,
        )

    def knows(self, text: str) -> bool:
        """Whether an address is in the node's pod networks, as the judge has them."""
        networks = self.worlds[-1].networks
        return any(first <= address(text) <= last for first, last in networks)

    def _links_of(self, addresses: Iterable[int]) -> frozenset[str]:
        return frozenset(self.links[each] for each in addresses if each in self.links)

    def _swept(self) -> None:
        self.sweep()

    def _load(self, world: World) -> None:
        self.happened.append(f"load {world.generation}")
        self.worlds.append(world)

    def start(self, *objects: ClusterObject) -> "Node":
        self.worlds.append(self.keeper.prepare(applied(*objects)))
        self.keeper.install()
        return self

    @property
    def table(self) -> Table:
        """What the kernel has after all transactions."""
        table = Table("knp")
        for text in self.kernel.transactions:
            if "delete table" in text or "flush table" in text:
                table = installed(text)
            else:
                updated(table, text)
        return table

    def generation_in_force(self) -> int:
        """The generation that the rules remember verdicts of."""
        rule = self.table.chains["learn"][0]
        number = int(rule.split("!= ")[1].split()[0], 16)
        return number >> 8


@pytest.fixture
def n1() -> Node:
    return Node().start(A, B, FAR, N1, N2, POLICY)


# -- the order -------------------------------------------------------------------------------


def test_at_first_nothing_is_in_force() -> None:
    """The judge has its world before a packet can come."""
    node_ = Node()
    world = node_.keeper.prepare(applied(A, N1, POLICY))
    assert node_.happened == []
    assert (world.generation, world.snapshot) == (1, node_.keeper.snapshot)
    assert world.networks == tuple(
        sorted(parse_cidr("10.1.0.0/24").ranges + parse_cidr("fd00:1::/64").ranges)
    )
    node_.keeper.install()
    assert node_.happened == ["install"]
    assert node_.generation_in_force() == 1


def test_the_kernel_comes_before_the_judge(n1: Node) -> None:
    """A verdict between the two is of the old world, and says so: nobody remembers it."""
    assert n1.keeper.change(applied(OPENED))
    assert n1.happened == ["install", "update", "load 2"]
    assert n1.generation_in_force() == 2
    assert n1.worlds[-1].snapshot is n1.keeper.snapshot
    assert n1.keeper.change(applied(CLOSED))
    assert n1.happened[3:] == ["update", "load 3"]
    assert n1.generation_in_force() == 3


def test_nothing_changed_nothing_done(n1: Node) -> None:
    assert not n1.keeper.change([])
    assert n1.happened == ["install"]
    assert n1.keeper.generation == 1


def test_sets_follow_pods_and_policies(n1: Node) -> None:
    assert n1.table.elements["managed4"] == {"10.1.0.5"}
    assert n1.table.elements["managed6"] == {"fd00:1::5"}
    assert n1.table.elements["open4"] == {"10.1.0.6"}
    n1.keeper.change(applied(netpol("y/closed", ingress=[])))
    assert n1.table.elements["managed4"] == {"10.1.0.5", "10.1.0.6"}
    assert n1.table.elements["open4"] == set()
    n1.keeper.change([Change(Verb.DELETED, A), Change(Verb.DELETED, POLICY)])
    assert n1.table.elements["managed4"] == {"10.1.0.6"}
    assert n1.table.elements["managed6"] == set()
    assert n1.keeper.managed_pods == 1


def test_an_update_leaves_what_an_install_would(n1: Node) -> None:
    other = Node().start(A, B, FAR, N1, N2, POLICY, OPENED)
    n1.keeper.change(applied(OPENED))
    assert n1.table.elements == other.table.elements
    assert n1.table.sets == other.table.sets


def test_another_process_takes_in_what_is_in_force_already(n1: Node) -> None:
    """Workers judge by the same world and generation; only one process changes the kernel."""
    worker = Node()
    worker.keeper.prepare(applied(A, B, FAR, N1, N2, POLICY))
    n1.keeper.change(applied(OPENED))
    world = worker.keeper.absorb(applied(OPENED), n1.keeper.generation)
    assert worker.happened == []
    theirs = n1.worlds[-1]
    assert (world.generation, world.networks) == (theirs.generation, theirs.networks)
    assert world.snapshot is worker.keeper.snapshot
    assert worker.keeper.members == n1.keeper.members


# -- refusals --------------------------------------------------------------------------------


def test_an_update_that_is_refused_is_made_whole(n1: Node) -> None:
    """Somebody has removed the table: what is added to has to be there."""
    n1.kernel.refuses = ["flush chain"]
    assert n1.keeper.change(applied(OPENED))
    assert n1.happened == ["install", "refused update", "install", "load 2"]
    assert n1.generation_in_force() == 2
    n1.kernel.refuses = []
    n1.keeper.change(applied(CLOSED))
    assert n1.happened[4:] == ["update", "load 3"]


def test_when_all_is_refused_the_old_world_goes_on(n1: Node) -> None:
    n1.kernel.refuses = ["knp"]
    with pytest.raises(KernelError):
        n1.keeper.change(applied(OPENED))
    nothing = ["refused install", "refused replace"]
    assert n1.happened == ["install", "refused update", *nothing]
    assert len(n1.worlds) == 1  # the judge has not heard of it
    # The next change tries again, all of it.
    with pytest.raises(KernelError):
        n1.keeper.change(applied(netpol("y/closed", ingress=[])))
    assert n1.happened[4:] == nothing
    n1.kernel.refuses = []
    assert n1.keeper.change([])  # also when there is nothing new
    assert n1.happened[6:] == ["install", f"load {n1.keeper.generation}"]
    assert n1.table.elements["managed4"] == {"10.1.0.5", "10.1.0.6"}
    assert n1.worlds[-1].snapshot is n1.keeper.snapshot
    assert n1.generation_in_force() == n1.worlds[-1].generation
    assert not n1.keeper.change([])


def test_no_generation_stands_for_two_worlds(n1: Node) -> None:
    """One that the kernel refused may be in a verdict already when the next one comes."""
    n1.kernel.refuses = ["knp"]
    with pytest.raises(KernelError):
        n1.keeper.change(applied(OPENED))
    refused = n1.keeper.generation
    n1.kernel.refuses = []
    n1.keeper.change(applied(CLOSED))
    assert n1.worlds[-1].generation > refused


def test_rules_that_are_gone_are_put_back_with_a_generation_of_their_own(n1: Node) -> None:
    n1.keeper.heal()
    assert n1.happened == ["install", "install", "load 2"]
    assert n1.generation_in_force() == 2
    assert n1.worlds[-1].snapshot is n1.worlds[0].snapshot


def test_healing_that_is_refused_is_tried_again(n1: Node) -> None:
    n1.kernel.refuses = ["knp"]
    with pytest.raises(KernelError):
        n1.keeper.heal()
    n1.kernel.refuses = []
    assert n1.keeper.change([])
    assert n1.happened[-2] == "install"


def test_a_table_that_is_too_different_is_replaced() -> None:
    node_ = Node()
    node_.keeper.prepare(applied(A, POLICY, N1))
    node_.kernel.refuses = ["flush table"]
    node_.keeper.install()
    assert node_.happened == ["refused install", "replace"]
    assert node_.table.elements["managed4"] == {"10.1.0.5"}
    assert not node_.keeper.behind


def test_a_start_that_is_refused_says_so() -> None:
    node_ = Node()
    node_.keeper.prepare(applied(A))
    node_.kernel.refuses = ["knp"]
    with pytest.raises(KernelError, match="no replace today"):
        node_.keeper.install()


# -- generations that come round -------------------------------------------------------------


def changes(node_: Node, number: int) -> None:
    for turn in range(number):
        node_.keeper.change(applied(CLOSED if turn % 2 else OPENED))


def test_marks_of_another_round_are_swept_before_their_number_is_used_again() -> None:
    strict = Node(strict=True, marks=WRAP_SOON).start(A, N1, POLICY)
    changes(strict, 14)
    assert "sweep" not in strict.happened
    changes(strict, 1)
    assert strict.keeper.generation == 16
    assert strict.happened[-3:] == ["sweep", "update", "load 16"]
    changes(strict, 15)
    assert strict.happened.count("sweep") == 2


def test_healing_counts_too() -> None:
    strict = Node(strict=True, marks=WRAP_SOON).start(A, N1, POLICY)
    changes(strict, 14)
    strict.keeper.heal()
    assert strict.keeper.generation == 16
    assert strict.happened[-3:] == ["sweep", "install", "load 16"]


def test_without_strict_mode_nobody_asks_for_the_number() -> None:
    node_ = Node(marks=WRAP_SOON).start(A, N1, POLICY)
    changes(node_, 40)
    assert "sweep" not in node_.happened


def test_a_sweep_that_fails_keeps_the_old_world_and_is_tried_again() -> None:
    strict = Node(strict=True, marks=WRAP_SOON).start(A, N1, POLICY)
    changes(strict, 14)

    def refuse() -> None:
        raise KernelError("conntrack: no")

    sweep, strict.sweep = strict.sweep, refuse
    with pytest.raises(KernelError, match="conntrack"):
        strict.keeper.change(applied(OPENED))
    assert strict.happened[-1] == "load 15"
    strict.sweep = sweep
    assert strict.keeper.change([])
    assert strict.happened[-3:] == ["sweep", "update", "load 16"]


# -- members ---------------------------------------------------------------------------------


def members(*objects: ClusterObject, here: str | None = "n1") -> tuple[set[int], set[int]]:
    snapshot = snapshot_of(objects)
    found = members_of(
        snapshot, here, [pod for pod in snapshot.pods.values() if is_here(pod, here)]
    )
    return set(found.managed), set(found.open_)


def ints(*texts: str) -> set[int]:
    return set(addresses(texts))


def test_a_pod_that_a_policy_selects_is_managed() -> None:
    assert members(A, B, POLICY) == (ints("10.1.0.5", "fd00:1::5"), ints("10.1.0.6"))
    assert members(A, B, OPENED) == (ints("10.1.0.5", "fd00:1::5", "10.1.0.6"), set())
    assert members(A, B) == (set(), ints("10.1.0.5", "fd00:1::5", "10.1.0.6"))


@pytest.mark.parametrize(
    "policy",
    [
        netpol("x/p", egress=[]),
        netpol("x/p", ingress=[]),
        cnp("p", egress=[deny(networks("0.0.0.0/0"))]),
    ],
)
def test_whatever_direction_the_policy_is_about(policy: ClusterObject) -> None:
    managed, _ = members(A, policy)
    assert address("10.1.0.5") in managed


def test_pods_elsewhere_are_other_nodes_business() -> None:
    assert members(FAR, A, POLICY)[0] == ints("10.1.0.5", "fd00:1::5")
    assert members(FAR, A, POLICY, here="n2")[0] == ints("10.2.0.5")
    everywhere = members(FAR, A, POLICY, here=None)[0]
    assert everywhere == ints("10.1.0.5", "fd00:1::5", "10.2.0.5")


@pytest.mark.parametrize(
    "gone",
    [
        pod("x/a", "10.1.0.5", node="n1", host_network=True),
        pod("x/a", "10.1.0.5", node="n1", phase="Succeeded"),
        pod("x/a", "10.1.0.5", node="n1", phase="Failed"),
        pod("x/a", node="n1"),
    ],
)
def test_a_pod_without_an_address_of_its_own_is_in_no_set(gone: Pod) -> None:
    assert members(gone, POLICY) == (set(), set())


def test_a_pod_that_has_not_started_yet_is() -> None:
    pending = pod("x/a", "10.1.0.5", node="n1", phase="Pending")
    assert members(pending, POLICY)[0] == ints("10.1.0.5")


def test_an_address_is_the_later_pods() -> None:
    """Two objects, one address: policy of the one that has it now (semantics §1)."""
    early = pod("x/old", "10.1.0.5", "10.1.0.9", node="n1", created="2026-01-01T00:00:00Z")
    late = pod("y/new", "10.1.0.5", node="n1", created="2026-01-02T00:00:00Z")
    assert members(early, late, POLICY) == (ints("10.1.0.9"), ints("10.1.0.5"))


def test_an_address_that_went_to_another_node_is_not_ours() -> None:
    early = pod("x/old", "10.1.0.5", node="n1", created="2026-01-01T00:00:00Z")
    late = pod("x/new", "10.1.0.5", node="n2", created="2026-01-02T00:00:00Z")
    assert members(early, late, POLICY) == (set(), set())


def test_the_nodes_networks_are_those_that_its_object_names() -> None:
    own = members_of(snapshot_of([N1, N2]), "n1", ()).local
    assert own == {*parse_cidr("10.1.0.0/24").ranges, *parse_cidr("fd00:1::/64").ranges}
    everybodys = members_of(snapshot_of([N1, N2]), None, ()).local
    assert everybodys == own | {*parse_cidr("10.2.0.0/24").ranges}
    assert members_of(snapshot_of([N1]), "n3", ()).local == frozenset()


def test_who_is_here() -> None:
    assert is_here(A, "n1")
    assert is_here(A, None)
    assert not is_here(A, "n2")
    assert not is_here(pod("x/a", "10.1.0.5", node="n1", host_network=True), "n1")
    assert not is_here(pod("x/a", "10.1.0.5"), "n1")


def test_connections_of_pods_that_are_gone_end(n1: Node) -> None:
    """Whoever gets the address next is another pod, also under the same name."""
    n1.keeper.change([Change(Verb.DELETED, B)])
    assert n1.forgotten == [frozenset(B.ips)]
    again = msgspec.structs.replace(A, uid="another")
    n1.keeper.change([Change(Verb.DELETED, A), *applied(again)])
    assert n1.forgotten[1:] == [frozenset(A.ips)]
    n1.keeper.change(applied(msgspec.structs.replace(again, labels={"other": "labels"})))
    assert len(n1.forgotten) == 2


def test_the_nodes_own_address_in_its_pod_network_is_no_unknown_pods() -> None:
    """A bridge's or a gateway's: what a pod says to it is judged as to any node's."""
    node_ = Node()
    node_.own = frozenset(map(address, ("10.1.0.1", "192.168.0.1", "fd00:1::1")))
    node_.start(A, N1, POLICY)
    networks = node_.worlds[-1].networks
    assert node_.keeper.members.local == frozenset(networks)
    assert [node_.knows(text) for text in ("10.1.0.0", "10.1.0.2", "fd00:1::2")] == [True] * 3
    assert [node_.knows(text) for text in ("10.1.0.1", "fd00:1::1")] == [False] * 2
    assert not node_.keeper.links_changed()
    node_.own = frozenset()
    assert node_.keeper.links_changed()
    assert node_.keeper.change(())
    assert node_.knows("10.1.0.1")


def test_whose_the_nodes_addresses_are(n1: Node) -> None:
    """Other nodes' pods are other nodes' business."""
    n1.keeper.change(applied(FAR))
    assert n1.keeper.owners() == dict.fromkeys(A.ips, A.uid) | dict.fromkeys(B.ips, B.uid)
    n1.keeper.change([Change(Verb.DELETED, B)])
    assert n1.keeper.owners() == dict.fromkeys(A.ips, A.uid)


def test_pods_whose_namespace_is_not_known_come_by() -> None:
    """Who selects them by its labels is not known either (each kind has a watch of its own)."""
    keeper = Node(told=True).start(A, B, FAR, N1, namespace("y"))
    assert keeper.worlds[-1].nameless == frozenset(A.ips + FAR.ips)
    assert keeper.keeper.members.managed == frozenset(A.ips)
    assert keeper.keeper.members.open_ == frozenset(B.ips)
    keeper.keeper.change(applied(namespace("x")))
    assert keeper.worlds[-1].nameless == frozenset()
    assert keeper.keeper.members.open_ == frozenset(A.ips + B.ips)


def test_manifests_need_no_namespaces(n1: Node) -> None:
    assert n1.worlds[-1].nameless == frozenset()
