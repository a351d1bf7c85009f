"""What kube-network-policies would have logged about a packet, had it judged as we did.

Its own entries in its own order, from the facts of its documentation and source, so that whoever
searches its log finds the same here; ``verdicts.kube_network_policies`` reads them back:

* ``Evaluating packet`` for egress, and for ingress unless egress denied, with both pods
  (``external`` for what is none) and the packet.
* ``Egress CNP evaluation`` for each ClusterNetworkPolicy tier that has policies for the pod and
  is reached: ``npolicies`` is how many of them select it, whether or not they have a rule for
  this direction; ``action`` is ``Pass`` when the next tier goes on. ``Egress NetworkPolicies``
  is the same for the tier between, where they isolate the pod; it says ``allowed`` as well.
* ``Packet denied by egress policy``, ``… ingress policy`` or ``Packet accepted by policy``.
  Here stands what they never say: who decided, and why.
* ``Finished syncing packet`` with the time it took and what became of it.

It all comes from the decision and from the profiles that it was made by: nothing is judged here.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from knp_py.engine.evaluate import OWN_ADDRESS
from knp_py.engine.snapshot import Profile, Snapshot
from knp_py.model.decision import Decision, Ruling, Verdict
from knp_py.model.net import format_address, is_v4
from knp_py.model.packet import protocol_name
from knp_py.model.policy import Direction, Tier
from knp_py.verdicts.bounded import leading, learned_names
from knp_py.verdicts.klogentry import Entry, Field, Format, duration, entry, head, pairs
from knp_py.verdicts.record import NO_PORTS, FlowFacts

LEFT_OUT: Final = "Packets left out of the log"
"""The message that says how many packets are not in the log, by verdict."""
UNREADABLE: Final = "Can not process packet, applying default policy"

_EXTERNAL = "external"
_SOME = 512  # bytes for each list that may be long: names, policies
_MOST_STORIES = 8192
_ENGINE = "networkpolicy/engine.go"
_CONTROLLER = "dataplane/controller.go"
_WORDS = {Direction.EGRESS: "Egress", Direction.INGRESS: "Ingress"}


class Step(NamedTuple):
    """A tier that was asked: how many policies of it select the pod, and what it said."""

    tier: Tier
    npolicies: int
    action: str


def steps(profile: Profile, direction: Direction, ruling: Ruling) -> Iterator[Step]:
    """The tiers that were asked for a ruling about a pod of this profile, in their order."""
    if ruling is OWN_ADDRESS:
        return  # a pod to itself: nobody was asked
    between = dict(profile.chains(direction)).get(Tier.NETWORK_POLICY)
    for tier, count in (
        (Tier.ADMIN, profile.admin),
        (Tier.NETWORK_POLICY, 0 if between is None else len(between.policies)),
        (Tier.BASELINE, profile.baseline),
    ):
        decided = tier is ruling.tier
        if count:
            yield Step(tier, count, (ruling.action or "") if decided else "Pass")
        if decided:
            return


class _Story(NamedTuple):
    """The part of a packet's entries that does not change while the same rules decide.

    It keeps the rulings that it is found by, so that no others get their identities.
    """

    rulings: tuple[Ruling | None, ...]
    egress: tuple[Entry, ...]
    ingress: tuple[Entry, ...] | None  # None: not judged
    verdict: Entry


class PacketLines:
    """Writes packets' entries in one format, for one process.

    ``pid`` is that process's id, which text entries begin with.
    """

    def __init__(self, form: Format) -> None:
        self.pid = 0
        self._form: Format = form
        self._close = "}\n" if form == "json" else "\n"  # of an entry
        self._snapshot: Snapshot | None = None
        self._stories: dict[tuple[int, int, int, int, int], _Story] = {}
        self._ends: dict[
            tuple[int, int, int, str | None, str | None], tuple[str, str, str, str, bool]
        ] = {}
        self._evaluating = {
            direction: entry(
                form, "networkpolicy/logging.go", "Evaluating packet", level=0
            )._replace(after=pairs(form, [("direction", word)]))
            for direction, word in _WORDS.items()
        }
        self._finished = entry(form, _CONTROLLER, "Finished syncing packet")
        self._verdicts = {
            Direction.EGRESS: "Packet denied by egress policy",
            Direction.INGRESS: "Packet denied by ingress policy",
        }

    def packet(
        self,
        decision: Decision,
        flow: FlowFacts,
        snapshot: Snapshot,
        *,
        accepted: bool,
        took_ns: int,
        again: bool = False,
    ) -> bytes:
        """All entries of one packet. ``snapshot`` is what it was judged by.

        ``accepted`` is what became of it, ``took_ns`` how long that took.
        """
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._stories.clear()
        story = self._story(decision, flow, snapshot)
        number = str(flow.id)
        begin = head(self._form, flow.ts_ns, self.pid)
        about = self._about(flow, number)
        before, after = self._evaluating[Direction.EGRESS]
        parts = [begin, before, number, after, about]
        for before, after in story.egress:
            parts += (begin, before, number, after)
        if story.ingress is not None:
            before, after = self._evaluating[Direction.INGRESS]
            parts += (begin, before, number, after, about)
            for before, after in story.ingress:
                parts += (begin, before, number, after)
        before, after = story.verdict
        parts += (begin, before, number, after, self._more(decision, flow, accepted, again))
        before, _ = self._finished
        parts += (begin, before, number, self._end(took_ns, accepted=accepted))
        return "".join(parts).encode()

    def unreadable(self, ns: int, number: int, *, accepted: bool) -> bytes:
        """The entry about a packet without a readable IP header."""
        before, after = entry(
            self._form, _CONTROLLER, UNREADABLE, [("failOpen", accepted)], level=0
        )
        return f"{head(self._form, ns, self.pid)}{before}{number}{after}".encode()

    def left_out(self, ns: int, counts: dict[str, int], seconds: float, reason: str) -> bytes:
        """The entry about packets that have none, ``counts`` by verdict."""
        fields: list[Field] = [*counts.items(), ("seconds", seconds), ("reason", reason)]
        before, after = entry(self._form, _CONTROLLER, LEFT_OUT, fields)
        # It is about no packet, so it has no number.
        before = before.removesuffix(" id=").removesuffix(',"id":')
        return f"{head(self._form, ns, self.pid)}{before}{after}".encode()

    def _story(self, decision: Decision, flow: FlowFacts, snapshot: Snapshot) -> _Story:
        egress, ingress, decided = decision.egress, decision.ingress, decision.decided_by
        source, target = snapshot.endpoints.get(flow.src), snapshot.endpoints.get(flow.dst)
        from_, to = source.identity if source else -1, target.identity if target else -1
        key = (id(egress), id(ingress), id(decided), from_, to)
        story = self._stories.get(key)
        if story is not None:
            return story
        if len(self._stories) >= _MOST_STORIES:
            self._stories.clear()
        outward: tuple[Entry, ...] = ()
        inward: tuple[Entry, ...] | None = ()
        if egress is not None and source is not None:
            outward = self._tiers(snapshot.profiles[from_], Direction.EGRESS, egress)
        if ingress is not None and target is not None:
            inward = self._tiers(snapshot.profiles[to], Direction.INGRESS, ingress)
        elif decided is not None and not decided.allowed:
            inward = None if decided.direction is Direction.EGRESS else ()
        story = _Story(
            (egress, ingress, decided), outward, inward, self._verdict(decision, decided)
        )
        self._stories[key] = story
        return story

    def _tiers(self, profile: Profile, direction: Direction, ruling: Ruling) -> tuple[Entry, ...]:
        entries = []
        for tier, count, action in steps(profile, direction, ruling):
            fields: list[Field] = [("tier", tier.text), ("npolicies", count), ("action", action)]
            if tier is Tier.NETWORK_POLICY:
                fields.append(("allowed", ruling.allowed))
                caller, what = "networkpolicy/networkpolicy.go", "NetworkPolicies"
            else:
                caller, what = "npa-v1alpha2/clusternetworkpolicy.go", "CNP evaluation"
            entries.append(entry(self._form, caller, f"{_WORDS[direction]} {what}", fields))
        return tuple(entries)

    def _verdict(self, decision: Decision, decided: Ruling | None) -> Entry:
        message = "Packet accepted by policy"
        if decision.verdict is not Verdict.ALLOW:
            message = self._verdicts[decided.direction if decided else Direction.EGRESS]
        fields: list[Field] = []
        if decided is not None:
            fields = [("decidedIn", _WORDS[decided.direction]), ("decidedTier", decided.tier.text)]
            if decided.policy is not None:
                fields.append(("policy", decided.policy))
            if decided.rule is not None:
                fields.append(("rule", decided.rule))
            if decided.rule_name is not None:
                fields.append(("ruleName", decided.rule_name))
            if not decided.allowed and decided.isolated_by:
                fields.append(("isolatedBy", leading(decided.isolated_by, _SOME)))
        made = entry(self._form, _ENGINE, message, fields)
        return made._replace(after=made.after.removesuffix(self._close))

    def _more(self, decision: Decision, flow: FlowFacts, accepted: bool, again: bool) -> str:
        """What of a verdict changes from packet to packet, and the entry's end."""
        fields: list[Field] = []
        decided = decision.decided_by
        reason = decision.reason or (decided.reason if decided else None)
        if reason or flow.note:
            fields.append(("reason", "; ".join(filter(None, (reason, flow.note)))))
        names = flow.names or (learned_names(decision) if decision.grants else ())
        if names:
            fields.append(("names", leading(names, _SOME)))
        if flow.service:
            fields.append(("dstService", flow.service))
        if decision.unidentified:
            fields.append(("unidentified", tuple(map(format_address, decision.unidentified))))
        if accepted and decision.verdict is Verdict.DENY:
            fields.append(("enforced", False))
        if again:
            fields.append(("again", True))
        return pairs(self._form, fields) + self._close if fields else self._close

    def _about(self, flow: FlowFacts, number: str) -> str:
        """Both pods and the packet, to the end of the entry."""
        key = (flow.src, flow.dst, flow.protocol, flow.src_pod, flow.dst_pod)
        pieces = self._ends.get(key)
        if pieces is None:
            if len(self._ends) >= _MOST_STORIES:
                self._ends.clear()
            pieces = self._ends[key] = self._pieces(*key)
        before, src, dst, after, ports = pieces
        sport, dport = (flow.sport, flow.dport) if ports else (0, 0)
        return f"{before}{number}{src}{sport}{dst}{dport}{after}"

    def _pieces(
        self, source: int, target: int, protocol: int, src_pod: str | None, dst_pod: str | None
    ) -> tuple[str, str, str, str, bool]:
        """What stands before the number, before each port and behind them; whether there are any.

        Where there are none they are 0, as in their log.
        """
        name = protocol_name(protocol)
        ports = name not in NO_PORTS
        src, dst = format_address(source), format_address(target)
        ends: list[Field] = [("srcPod", src_pod or _EXTERNAL), ("dstPod", dst_pod or _EXTERNAL)]
        pods = pairs(self._form, ends)
        if self._form == "json":
            family = "IPv4" if is_v4(target) else "IPv6"
            packet = f',"Family":"{family}","SrcIP":"{src}","DstIP":"{dst}","Proto":"{name}"'
            return f'{pods},"packet":{{"ID":', f'{packet},"SrcPort":', ',"DstPort":', "}}\n", ports
        return f"{pods} packet=<\n\t[", f"] {src}:", f" {dst}:", f" {name}\n >\n", ports

    def _end(self, took_ns: int, *, accepted: bool) -> str:
        verdict = "accept" if accepted else "drop"
        if self._form == "json":
            return f',"duration":"{duration(took_ns)}","verdict":"{verdict}"}}\n'
        return f' duration="{duration(took_ns)}" verdict="{verdict}"\n'
