"""A network in which policy alone says what comes of a packet, at a time that is told.

Every packet that a pod would have to send is judged by the engine, and every DNS answer is
overheard by the snooper, exactly as live.
"""

from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.snapshot import Snapshot
from knp_py.engine.snoop import DnsSnooper
from knp_py.model.decision import Verdict
from knp_py.model.net import is_v4
from knp_py.model.objects import Pod
from knp_py.model.packet import Packet, Proto
from knp_py.replay.directory import Answer, Directory
from knp_py.replay.dnswire import question_and_answer
from knp_py.replay.shell import Asked, Attempt, Call, Trial, unserved

_SOURCE_PORT = 40000  # any: source ports never matter (semantics §4)
_ECHO, _ECHO_V6 = 8, 128  # ICMP message types


class JudgedNetwork:
    """``now`` is the time of everything, in seconds."""

    def __init__(self, engine: PolicyEngine, snooper: DnsSnooper, directory: Directory) -> None:
        self.now = 0.0
        self._engine = engine
        self._snooper = snooper
        self._directory = directory
        self._asked = 0

    def load(self, snapshot: Snapshot) -> None:
        """The cluster as it is from now on."""
        self._engine.load(snapshot)
        self._snooper.load(snapshot)

    def connect(self, call: Call) -> Trial:
        """What policy says; of a Service's backends what it says of all of them."""
        service = call.place.service
        if service is None:
            attempt = self.judge(call)
            return Trial(attempt.decision.verdict, attempt)
        if not call.backends:
            return Trial(Verdict.DENY, reason=unserved(service, call.protocol, call.port))
        attempts = [self._attempt(call, each.address, each.port) for each in call.backends]
        verdicts = {attempt.decision.verdict for attempt in attempts}
        if len(verdicts) == 1:
            return Trial(verdicts.pop(), attempts[0])
        words = ", ".join(f"{each.pod} {each.decision.verdict.value}" for each in attempts)
        return Trial(
            Verdict.UNKNOWN, reason=f"the backends of the Service {service.key} differ: {words}"
        )

    def ask(self, call: Call, pod: Pod, name: str) -> Asked:
        """What the resolver says if policy lets the question through, and that it was heard."""
        trial = self.connect(call)
        if trial.verdict is not Verdict.ALLOW or trial.attempt is None:
            return Asked(trial)
        server = trial.attempt.packet.dst
        answer = self._directory.answer(name, pod, call.place, server)
        if answer is None:
            return Asked(trial)
        return Asked(trial, answer, self._teach(pod, server, answer))

    def judge(self, call: Call) -> Attempt:
        """What policy says of the packet to the very address, whatever is behind it."""
        return self._attempt(call, call.place.address or 0, call.port)

    def _attempt(self, call: Call, address: int, port: int) -> Attempt:
        protocol, icmp_type = call.protocol, -1
        if protocol == Proto.ICMP:
            v4 = is_v4(address)
            protocol, icmp_type = (int(Proto.ICMP), _ECHO) if v4 else (int(Proto.ICMPV6), _ECHO_V6)
        sport = _SOURCE_PORT if port else 0
        packet = Packet(call.source, address, protocol, sport, port, icmp_type=icmp_type)
        pod = self._engine.snapshot.pod_at(address)
        decision = self._engine.evaluate(packet, now=self.now)
        return Attempt(packet, decision, "" if pod is None else pod.key)

    def _teach(self, pod: Pod, server: int, answer: Answer) -> str:
        """Let the snooper overhear question and answer; why it learned nothing, if it did not."""
        addresses = [place.address for place in answer.places if place.address is not None]
        before = self._snooper.counts.copy()
        for v6 in (False, True):
            wanted = [address for address in addresses if is_v4(address) is not v6]
            if not wanted:
                continue
            self._asked += 1
            question, reply = question_and_answer(
                self._asked, answer.name, wanted, ttl=answer.ttl, v6=v6
            )
            flow = ("lookup", self._asked)
            self._snooper.query(flow, pod, server, question, self.now)
            self._snooper.answer(flow, pod, server, reply, self.now)
        gained = self._snooper.counts - before
        if gained["learned"]:
            return ""
        return next((reason for reason in sorted(gained) if reason != "empty"), "")
