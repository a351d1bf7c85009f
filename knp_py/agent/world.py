"""From changes of objects to a world in force: sets and generation in the kernel, then judging.

Runs on the main thread. The order of a change keeps every promise: first one kernel
transaction (sets, generation, nothing remembered any more), then the packet thread gets the
snapshot. A verdict given between the two is of the old world and carries its generation, so
that the rules obey it once and do not remember it.
"""

from collections.abc import Callable, Iterable

from knp_py.agent.judge import World
from knp_py.agent.layout import Layout, Members, Range
from knp_py.agent.ports import Kernel
from knp_py.agent.ruleset import install, refill, update
from knp_py.engine.snapshot import EMPTY, Snapshot
from knp_py.engine.state import ClusterState
from knp_py.errors import NotPermittedError
from knp_py.model.changes import Change, Verb
from knp_py.model.net import parse_cidr, subtract
from knp_py.model.objects import Pod


class WorldKeeper:
    """Keeps the cluster's state and puts what follows from it in force.

    ``node`` is this node's name, None when every pod counts as being here. ``load`` is given
    each new world once the kernel is ready for it. ``sweep`` clears the generations of other
    times from the connections' marks. ``forget`` ends the connections of addresses whose pod is
    gone: whoever has them next is another (semantics §1). ``told`` says that every namespace is
    told of: a pod whose namespace is not there is one that not all is known of. ``links`` gives
    the interfaces behind which addresses are, ``own`` the node's addresses: one in its pod
    network (a bridge's, a gateway's) is nobody's who is not known yet. ``behind`` says that the
    kernel does not have what we have.
    """

    def __init__(
        self,
        layout: Layout,
        kernel: Kernel,
        *,
        node: str | None,
        load: Callable[[World], object],
        sweep: Callable[[], object],
        forget: Callable[[frozenset[int]], object],
        links: Callable[[Iterable[int]], frozenset[str]],
        own: Callable[[], frozenset[int]],
        told: bool = False,
    ) -> None:
        self.snapshot: Snapshot = EMPTY
        self.members = Members()
        self.generation = 0
        self._layout = layout
        self._kernel = kernel
        self._node = node
        self._load = load
        self._sweep = sweep
        self._forget = forget
        self._links = links
        self._own = own
        self._own_now: frozenset[int] | None = None  # as it was looked at last
        self._told = told
        self._nameless: frozenset[int] = frozenset()
        self._gone: set[int] = set()  # addresses whose pods are gone, until that is in force
        self._state = ClusterState()
        self._here: set[str] = set()  # uids of this node's pods, and of some that were
        self.behind = True

    @property
    def managed_pods(self) -> int:
        """How many pods are judged here."""
        at = self.snapshot.pod_at
        return len({pod.uid for address in self.members.managed if (pod := at(address))})

    def owners(self) -> dict[int, str]:
        """UIDs of this node's pods by their addresses."""
        addresses = self.members.managed | self.members.open_
        at = self.snapshot.pod_at
        return {address: pod.uid for address in addresses if (pod := at(address))}

    def knows_node(self) -> bool:
        """Whether any object says that this node is there."""
        pods = self.snapshot.pods.values()
        return self._node in self.snapshot.nodes or any(p.node == self._node for p in pods)

    def prepare(self, changes: Iterable[Change]) -> World:
        """Take in what there is at first. Nothing is in force yet."""
        return self.absorb(changes, 1)

    def absorb(self, changes: Iterable[Change], generation: int) -> World:
        """The world after changes that another process has put in force in the kernel."""
        self._note(changes)
        self.snapshot = self._state.snapshot()
        self.members = self._members(self.snapshot)
        self.generation = generation
        return self._world()

    def install(self) -> None:
        """Put the whole table in force, as it should be now; raises ``NotPermittedError``."""
        try:
            self._kernel.apply(refill(self._layout, self.members, self.generation))
        except NotPermittedError:
            # Perhaps another version's table is there, or somebody has changed a set of ours.
            self._kernel.apply(install(self._layout, self.members, self.generation))
        self.behind = False

    def change(self, changes: Iterable[Change]) -> bool:
        """Put changes in force; whether anything is different now, interfaces included.

        Raises ``NotPermittedError`` when the kernel refused: then the old world goes on, and the
        next call, or ``heal``, tries to put the whole table in force.
        """
        touched = self._note(changes)
        snapshot = self._state.snapshot()
        members = self._members(snapshot)
        if snapshot is self.snapshot and members == self.members and not self.behind:
            return False
        generation = self._next_generation()
        before = self.members
        for address in touched:
            end, new = self.snapshot.endpoints.get(address), snapshot.endpoints.get(address)
            if end is not None and (new is None or new.pod.uid != end.pod.uid):
                self._gone.add(address)
        self.snapshot, self.members, self.generation = snapshot, members, generation
        if self.behind:
            self.install()
        else:
            try:
                self._kernel.apply(update(self._layout, before, members, generation))
            except NotPermittedError:
                # Perhaps somebody removed our table. Whole, it does not depend on what was.
                self.behind = True
                self.install()
        self._load(self._world())
        if self._gone:
            gone, self._gone = frozenset(self._gone), set()
            self._forget(gone)
        return True

    def _note(self, changes: Iterable[Change]) -> set[int]:
        """Take changes in; the addresses that may be another pod's now.

        Costs what changed: a cluster's pods come and go all day, few of them here.
        """
        touched: set[int] = set()
        pods = self.snapshot.pods
        for change in changes:
            self._state.apply(change)
            obj = change.obj
            if not isinstance(obj, Pod):
                continue
            if change.verb is Verb.APPLIED and is_here(obj, self._node):
                self._here.add(obj.uid)
            touched.update(obj.ips)
            for uid in {obj.uid, self.snapshot.pod_keys.get(obj.key)}:
                before = None if uid is None else pods.get(uid)
                if before is not None:
                    touched.update(before.ips)
        return touched

    def links_changed(self) -> bool:
        """Whether pods are behind other interfaces, or the node has other addresses, than before.

        Its addresses are looked at here only: there may be many, as with IPVS.
        """
        self._own_now = self._own()
        return self._members(self.snapshot) != self.members

    def heal(self) -> None:
        """The rules are not what they should be: put all of them in force again."""
        self.generation = self._next_generation()
        self.behind = True
        self.install()
        self._load(self._world())

    def _members(self, snapshot: Snapshot) -> Members:
        here = [pod for uid in self._here if (pod := snapshot.pods.get(uid)) is not None]
        here = [pod for pod in here if is_here(pod, self._node)]
        self._here = {pod.uid for pod in here}
        members = members_of(snapshot, self._node, here)
        members = members._replace(local=self._without_own(members.local))
        if self._told:
            self._nameless = self._without_namespace(snapshot)
            # Whom nobody selects as far as is known must come by all the same.
            ours = self._nameless & (members.managed | members.open_)
            members = members._replace(managed=members.managed | ours, open_=members.open_ - ours)
        isolated = [
            address
            for address in members.managed
            if (end := snapshot.endpoints.get(address)) and snapshot.profiles[end.identity].egress
        ]
        return members._replace(links=self._links(isolated))

    def _without_own(self, networks: frozenset[Range]) -> frozenset[Range]:
        if self._own_now is None:
            self._own_now = self._own()
        own = self._own_now
        holes = [(a, a) for a in own if any(first <= a <= last for first, last in networks)]
        return frozenset(subtract(list(networks), holes)) if holes else networks

    def _without_namespace(self, snapshot: Snapshot) -> frozenset[int]:
        """Addresses of pods, of any node: a rule may be about namespaces of the other end too."""
        unknown = self._state.unknown_namespaces()
        if not unknown:
            return frozenset()
        ends = snapshot.endpoints.items()
        return frozenset(address for address, end in ends if end.pod.namespace in unknown)

    def _next_generation(self) -> int:
        """Its number, once no connection's mark has it any more from another round."""
        generation = self.generation + 1
        if self._layout.strict and self._layout.marks.wraps(generation):
            self._sweep()
        return generation

    def _world(self) -> World:
        networks = tuple(sorted(self.members.local))
        return World(self.snapshot, self.generation, networks, self._nameless)


def members_of(snapshot: Snapshot, node: str | None, here: Iterable[Pod]) -> Members:
    """The rules' sets: pods of ``node`` that some policy selects, its other pods, its networks.

    ``here`` are its pods.
    """
    managed: set[int] = set()
    unselected: set[int] = set()
    for pod in here:
        for address in pod.ips:
            end = snapshot.endpoints.get(address)
            if end is None or end.pod.uid != pod.uid:
                continue  # another pod has the address now
            profile = snapshot.profiles[end.identity]
            (managed if profile.egress or profile.ingress else unselected).add(address)
    return Members(frozenset(managed), frozenset(unselected), frozenset(_networks(snapshot, node)))


def is_here(pod: Pod, node: str | None) -> bool:
    """Whether the pod is one of this node's, with addresses of its own."""
    return pod.resolves and (node is None or pod.node == node)


def _networks(snapshot: Snapshot, node: str | None) -> Iterable[Range]:
    if node is None:
        nodes = list(snapshot.nodes.values())
    else:
        own = snapshot.nodes.get(node)
        nodes = [] if own is None else [own]
    for each in nodes:
        for text in each.pod_cidrs:
            yield from parse_cidr(text).ranges
