"""DNS conversations overheard: which answers teach which pod (semantics §6).

The datapath hands over what belongs to a DNS flow that a pod opened and policy allowed; here
is decided what of it counts. An answer does when its server is one of the pod's trusted
resolvers, a query with the same id, name and type is outstanding on the same flow and at
most ``MAX_AGE`` old, and it is a NOERROR response to that one question. The first answer
uses the query up: a second one is unsolicited, as is one that a race was lost to.

Nothing here raises, whatever the payload, and whatever a pod can send takes bounded memory:
outstanding queries, TCP conversations and bytes awaiting the rest of a message are bounded
for every pod by itself.

Counted, once an answer: ``learned``, ``untrusted``, ``unsolicited``, ``late``, ``malformed``,
``not-a-response``, ``not-a-query`` (opcode), ``not-internet`` (class), ``negative`` (rcode),
``unusable-name``, ``endless-chain``, ``empty`` (nothing that could be learned). Besides, not
instead: ``truncated`` (TC), ``damaged`` (records missing), ``skipped`` (malformed HTTPS or SVCB
records), ``orphan`` (records off the chain), ``overfull`` (more than 1,024 addresses, of which
1,024 count), the guard's reasons (addresses refused) and ``addresses`` (learned).
``tcp-midstream``, ``tcp-gap``, ``tcp-oversize`` and ``tcp-overflow`` count TCP conversations
given up; ``malformed-query`` queries.
"""

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

from cachetools import FIFOCache

from knp_py.engine.answers import credit
from knp_py.engine.guard import ALLOWABLE, Guard
from knp_py.engine.names import DomainCache
from knp_py.engine.resolvers import Trust, single
from knp_py.engine.snapshot import Snapshot
from knp_py.errors import DnsError
from knp_py.model.net import Cidr
from knp_py.model.objects import Pod
from knp_py.model.packet import RST, SYN
from knp_py.wire.dns import (
    CLASS_IN,
    NOERROR,
    QUERY,
    Message,
    host_name,
    parse_message,
    show_name,
)
from knp_py.wire.dns_stream import MessageStream

MAX_AGE = 10.0  # seconds that a query stays outstanding

_OUTSTANDING_PER_POD = 512
_CONVERSATIONS_PER_POD = 128
_BYTES_PER_POD = 256 * 1024
_MAX_QUERY = 4096  # bytes over TCP; padding (RFC 8467) and a signature included
_ADDRESSES_PER_ANSWER = 1024  # 64 KiB hold 4,000; learning them takes 30 ms
_MAX_PODS = 16_384
_MAX_EVENTS = 512
_EVENTS_PER_KIND = 8  # of one reason for one pod

ASSUME_QUERIED = "--assume-queried"


class DnsEvent(NamedTuple):
    """The first of its kind that was not learned.

    ``pod`` is ``namespace/name``, ``name`` the question's as far as it could be read,
    ``hint`` the flag that would change it, ``address`` the one refused.
    """

    reason: str
    pod: str | None
    server: int
    name: str = ""
    hint: str | None = None
    address: int | None = None
    detail: str | None = None


class _Asked(NamedTuple):
    """When a question was last sent, and how many answers to it are due."""

    at: float
    due: int


_Key = tuple[Hashable, int, bytes, int]  # flow, id, name, type


class _Conversation:
    """A TCP flow: what the pod sends and what the server does."""

    __slots__ = ("client", "first", "given_up", "server")

    def __init__(self) -> None:
        self.first = -1  # sequence number of the client's SYN
        self.client = MessageStream(max_message=_MAX_QUERY, max_ahead=_MAX_QUERY)
        self.server = MessageStream()
        self.given_up = False

    def superseded(self, seq: int) -> bool:
        """Whether a client's SYN of this number begins another connection on the same flow."""
        return self.given_up or (self.client.begun and self.first != seq)

    @property
    def held(self) -> int:
        """Bytes kept for it."""
        return self.client.held + self.server.held


class _Talk:
    """What is going on for one pod."""

    __slots__ = ("conversations", "held", "outstanding")

    def __init__(self) -> None:
        self.outstanding: FIFOCache[_Key, _Asked] = FIFOCache(_OUTSTANDING_PER_POD)
        self.conversations: OrderedDict[Hashable, _Conversation] = OrderedDict()
        self.held = 0


class DnsSnooper:
    """Learns from overheard answers into a ``DomainCache``.

    ``assume_queried`` lets answers count whose query was not seen, and TCP conversations
    whose beginning was not. ``allow_special`` are networks whose addresses may be learned
    although the guard would refuse them. ``autopath`` also credits the name that cluster DNS
    expanded a search path to, when it answers ``g.ex.<ns>.svc.cluster.local`` with an alias
    to ``g.ex`` itself.

    ``counts`` are explained in the module's docstring; ``events`` holds first occurrences,
    boundedly many.
    """

    def __init__(
        self,
        names: DomainCache,
        *,
        trust: Trust,
        assume_queried: bool = False,
        allow_special: tuple[Cidr, ...] = (),
        cluster_domain: str = "cluster.local",
        autopath: bool = False,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.events: list[DnsEvent] = []
        self._names = names
        self._trust = trust
        self._assume_queried = assume_queried
        self._guard = Guard(allow_special, cluster_domain=cluster_domain)
        self._search = f"svc.{cluster_domain}" if autopath else None
        self._cluster_domain = cluster_domain
        self._snapshot: Snapshot | None = None
        self._talks: OrderedDict[str, _Talk] = OrderedDict()
        self._owners: dict[Hashable, str] = {}  # TCP flow -> uid
        self._seen: set[DnsEvent] = set()
        self._seen_kinds: Counter[tuple[str, str | None]] = Counter()

    def load(self, snapshot: Snapshot) -> None:
        """Judge resolvers and addresses by this snapshot from now on."""
        self._snapshot = snapshot

    def query(self, flow: Hashable, pod: Pod, server: int, payload: bytes, now: float) -> None:
        """A datagram in the original direction of an allowed flow to port 53."""
        if not self._trust.trusted(pod, server, self._snapshot):
            return  # its answer will not count, so it need not be remembered
        try:
            message = parse_message(payload)
        except DnsError as error:
            self._note("malformed-query", pod, server, detail=str(error))
            return
        _, rtype, rclass = message.question
        if message.response or message.opcode != QUERY or rclass != CLASS_IN:
            return
        if host_name(message.question.name) is None:
            return
        outstanding = self._talk(pod.uid).outstanding
        key = (flow, message.id, message.question.name, rtype)
        before = outstanding.get(key)
        due = before.due + 1 if before is not None and now - before.at <= MAX_AGE else 1
        outstanding[key] = _Asked(now, due)

    def answer(self, flow: Hashable, pod: Pod, server: int, payload: bytes, now: float) -> None:
        """A datagram in the reply direction of such a flow."""
        try:
            message = parse_message(payload)
        except DnsError as error:
            self._note("malformed", pod, server, detail=str(error))
            return
        if message.damage is not None:
            asked = show_name(message.question.name)
            self._note("damaged", pod, server, asked, detail=message.damage)
        name = host_name(message.question.name)
        problem, hint = self._objection(flow, pod, server, message, name, now)
        if problem is not None:
            self._note(problem, pod, server, show_name(message.question.name), hint)
        elif name is not None:
            self._learn(pod, server, message, name, now)

    def segment(
        self,
        flow: Hashable,
        pod: Pod,
        server: int,
        *,
        from_server: bool,
        seq: int,
        flags: int,
        payload: bytes,
        now: float,
    ) -> None:
        """A TCP segment of either direction of such a flow."""
        if flags & RST:
            self.forget(flow)
            return
        talk = self._talk(pod.uid)
        conversation = talk.conversations.get(flow)
        if flags & SYN:
            if conversation is None or (not from_server and conversation.superseded(seq)):
                conversation = self._converse(talk, flow, pod)
            if not from_server:
                conversation.first = seq
            stream = conversation.server if from_server else conversation.client
            seq = (seq + 1) & 0xFFFFFFFF
            if not stream.begun:
                stream.begin(seq)
        if not payload:
            return
        if conversation is None:
            conversation = self._converse(talk, flow, pod)
        if conversation.given_up:
            return
        talk.conversations.move_to_end(flow)
        stream = conversation.server if from_server else conversation.client
        if not stream.begun:
            if not self._assume_queried:
                self._give_up(talk, conversation, "tcp-midstream", pod, server)
                return
            stream.begin(seq)
        held = conversation.held
        messages = stream.feed(seq, payload)
        talk.held += conversation.held - held
        for message in messages:
            if from_server:
                self.answer(flow, pod, server, message, now)
            else:
                self.query(flow, pod, server, message, now)
        if stream.broken is not None:
            self._give_up(talk, conversation, f"tcp-{stream.broken}", pod, server)
        while talk.held > _BYTES_PER_POD:
            fullest = max(talk.conversations.values(), key=lambda c: c.held)
            self._give_up(talk, fullest, "tcp-overflow", pod, server)

    def unsolicited(
        self, reason: str, pod: Pod | None, server: int, payload: bytes, now: float
    ) -> None:
        """A datagram from port 53 that is no reply in an allowed flow: only counted."""
        del now
        name, problem = "", None
        try:
            name = show_name(parse_message(payload).question.name)
        except DnsError as error:
            problem = str(error)
        hint = None if pod is None else ASSUME_QUERIED
        self._note(reason, pod, server, name, hint, detail=problem)

    def forget(self, flow: Hashable) -> None:
        """The flow has ended. Its queries, if any are left, age by themselves."""
        talk = self._talks.get(self._owners.pop(flow, ""))
        if talk is not None:
            conversation = talk.conversations.pop(flow, None)
            if conversation is not None:
                talk.held -= conversation.held

    def _objection(
        self, flow: Hashable, pod: Pod, server: int, message: Message, name: str | None, now: float
    ) -> tuple[str | None, str | None]:
        """Why an answer teaches nothing, and the flag that would change it."""
        question = message.question
        if not message.response:
            return "not-a-response", None
        if message.opcode != QUERY:
            return "not-a-query", None
        if question.rclass != CLASS_IN:
            return "not-internet", None
        if not self._trust.trusted(pod, server, self._snapshot):
            return "untrusted", f"--trusted-resolvers {single(server)}"
        if name is None:
            return "unusable-name", None
        outstanding = self._talk(pod.uid).outstanding
        key = (flow, message.id, question.name, question.rtype)
        asked = outstanding.get(key)
        if asked is None:
            if not self._assume_queried:
                return "unsolicited", ASSUME_QUERIED
        else:
            if now - asked.at > MAX_AGE:
                del outstanding[key]
                return "late", None
            if asked.due > 1:
                outstanding[key] = _Asked(asked.at, asked.due - 1)
            else:
                del outstanding[key]
        if message.rcode != NOERROR:
            return "negative", None
        return None, None

    def _learn(self, pod: Pod, server: int, message: Message, name: str, now: float) -> None:
        if message.truncated:
            self.counts["truncated"] += 1
        if message.skipped:
            self.counts["skipped"] += message.skipped
        credited = credit(message)
        if credited.endless:
            self._note("endless-chain", pod, server, name)
            return
        for record in credited.orphans:
            self._note("orphan", pod, server, name, detail=show_name(record.owner))
        if len(credited.addresses) > _ADDRESSES_PER_ANSWER:
            self._note("overfull", pod, server, name)
        names = (name, *self._expanded(pod, name, credited.alias))
        learned = 0
        for address, ttl, v6 in credited.addresses[:_ADDRESSES_PER_ANSWER]:
            for each in names:
                reason = self._guard.refusal(each, address, self._snapshot, v6=v6)
                if reason is not None:
                    hint = f"--allow-special {single(address)}" if reason in ALLOWABLE else None
                    self._note(reason, pod, server, each, hint, address)
                elif self._names.learn(pod, each, address, ttl=ttl, now=now, source=server):
                    learned += 1
        if learned:
            self.counts["learned"] += 1
            self.counts["addresses"] += learned
        else:
            self.counts["empty"] += 1

    def _expanded(self, pod: Pod, name: str, alias: bytes | None) -> tuple[str, ...]:
        """The alias, when the name is it with one of the pod's search domains appended."""
        target = None if self._search is None or alias is None else host_name(alias)
        if target is None:
            return ()
        domains = (f"{pod.namespace}.{self._search}", self._search, self._cluster_domain)
        return (target,) if name in {f"{target}.{domain}" for domain in domains} else ()

    def _talk(self, uid: str) -> _Talk:
        talk = self._talks.get(uid)
        if talk is None:
            talk = self._talks[uid] = _Talk()
            if len(self._talks) > _MAX_PODS:
                _, oldest = self._talks.popitem(last=False)
                for flow in oldest.conversations:
                    self._owners.pop(flow, None)
        else:
            self._talks.move_to_end(uid)
        return talk

    def _converse(self, talk: _Talk, flow: Hashable, pod: Pod) -> _Conversation:
        self.forget(flow)
        conversation = talk.conversations[flow] = _Conversation()
        self._owners[flow] = pod.uid
        if len(talk.conversations) > _CONVERSATIONS_PER_POD:
            self.forget(next(iter(talk.conversations)))
            self.counts["tcp-overflow"] += 1
        return conversation

    def _give_up(
        self, talk: _Talk, conversation: _Conversation, reason: str, pod: Pod, server: int
    ) -> None:
        """Read no more of it, and keep no byte of it."""
        talk.held -= conversation.held
        conversation.client = MessageStream()
        conversation.server = MessageStream()
        conversation.given_up = True
        hint = ASSUME_QUERIED if reason == "tcp-midstream" else None
        self._note(reason, pod, server, hint=hint)

    def _note(
        self,
        reason: str,
        pod: Pod | None,
        server: int,
        name: str = "",
        hint: str | None = None,
        address: int | None = None,
        detail: str | None = None,
    ) -> None:
        self.counts[reason] += 1
        key = None if pod is None else pod.key
        if len(self.events) >= _MAX_EVENTS or self._seen_kinds[reason, key] >= _EVENTS_PER_KIND:
            return
        event = DnsEvent(reason, key, server, name, hint, address, detail)
        if event not in self._seen:
            self._seen.add(event)
            self._seen_kinds[reason, key] += 1
            self.events.append(event)
