"""What comes of what pods send when they send it: real sockets, watched by the agent's log."""

import time
from collections.abc import Callable
from functools import partial

from knp_py.engine.snapshot import EMPTY, Snapshot
from knp_py.lab.attempts import Attempt as Try
from knp_py.lab.attempts import Question, attempt
from knp_py.lab.namespaces import INTERNET, NODE
from knp_py.lab.patience import hear
from knp_py.lab.testimony import is_nobodys, trial_of, unwatched_trial
from knp_py.lab.verdictfeed import Ends, VerdictFeed
from knp_py.model.decision import Decision, Verdict
from knp_py.model.net import format_address
from knp_py.model.objects import Pod
from knp_py.model.packet import Packet, Proto
from knp_py.replay.directory import Answer, Directory, Place, UnanswerableError
from knp_py.replay.judged import JudgedNetwork
from knp_py.replay.shell import Asked, Call, Trial, unserved

_Opened = Callable[[], Try]


class LiveNetwork:
    """The lab's network. ``space`` gives the namespace of a place."""

    def __init__(
        self, space: Callable[[str], str], foresight: JudgedNetwork, directory: Directory
    ) -> None:
        self.feed: VerdictFeed | None = None
        self._space = space
        self._foresight = foresight
        self._directory = directory
        self._snapshot: Snapshot = EMPTY

    def load(self, snapshot: Snapshot) -> None:
        """The cluster as it is from now on."""
        self._snapshot = snapshot

    def connect(self, call: Call) -> Trial:
        """One connection; to a Service as many as it has backends, which take turns."""
        self._check_node(call)
        service, address = call.place.service, call.place.address
        if address is None:
            return Trial(Verdict.UNKNOWN, reason=f"{call.place.text} has no address")
        trials = [
            self._watched(call, partial(self._open, call, address))[0]
            for _ in call.backends or (None,)
        ]
        if len({trial.verdict for trial in trials}) == 1 or service is None:
            return next((trial for trial in trials if trial.fault), trials[0])
        words = ", ".join(
            f"{each.attempt.pod if each.attempt else '?'} {each.verdict.value}" for each in trials
        )
        faults = "; ".join(trial.fault for trial in trials if trial.fault)
        reason = f"the backends of the Service {service.key} differ: {words}"
        return Trial(Verdict.UNKNOWN, reason=reason, fault=faults)

    def ask(self, call: Call, pod: Pod, name: str) -> Asked:
        """A question by each full name that the pod's resolver library would ask for."""
        foreseen = self._foresight.ask(call, pod, name)
        server = call.place.address
        if server is None:
            return Asked(Trial(Verdict.UNKNOWN, reason=f"{call.place.text} has no address"))
        trial, answer = Trial(Verdict.UNKNOWN), None
        for spelling in self._directory.spellings(name, pod) or (name,):
            trial, tried = self._watched(
                call,
                partial(Question, self._from(call), call.source, server, spelling),
            )
            if trial.verdict is not Verdict.ALLOW or not isinstance(tried, Question):
                break
            if tried.addresses:
                places = tuple(map(self._directory.place, tried.addresses))
                answer = Answer(spelling, places, tried.ttl)
                break
        return Asked(trial, answer, foreseen.untaught if answer else "")

    def _check_node(self, call: Call) -> None:
        """Refuse what one machine cannot show: traffic from another node than the pod's own."""
        snapshot = self._snapshot
        if call.who.pod is not None or call.source not in snapshot.every_node_address:
            return
        targets = [each.address for each in call.backends] or [call.place.address or 0]
        for pod in filter(None, map(snapshot.pod_at, targets)):
            node = snapshot.nodes.get(pod.node)
            own = {*pod.host_ips, *(node.ips if node else ())}
            if own and call.source not in own:
                raise UnanswerableError(
                    "from",
                    f"a lab has one machine for all nodes: what comes from {call.who.text} comes"
                    f" from the node of {pod.key} itself",
                )

    # -- one attempt -------------------------------------------------------------------

    def _from(self, call: Call) -> str:
        if call.who.pod is not None:
            return self._space(call.who.pod.key)
        on_node = call.source in self._snapshot.every_node_address
        return self._space(NODE if on_node else INTERNET)

    def _open(self, call: Call, address: int) -> Try:
        return attempt(self._from(call), call.source, address, call.protocol, call.port)

    def _watched(self, call: Call, open_attempt: _Opened) -> tuple[Trial, Try]:
        """Begin an attempt and hear both witnesses."""
        port = 0 if call.protocol == Proto.ICMP else call.port
        targets = [(each.address, each.port) for each in call.backends]
        targets = targets or [(call.place.address or 0, port)]
        feed = self.feed
        logged = feed is not None and not any(
            is_nobodys(self._foresee(call, *target)) for target in targets
        )
        began = time.time_ns()
        with open_attempt() as tried:
            ends = Ends(call.protocol, call.source, tried.sport, targets, began)
            seen, found = hear(
                tried.look,
                None if feed is None else partial(feed.find, ends),
                must_log=logged,
                wordless=feed is not None and not feed.has_spoken,
            )
            page = tried.page() if seen is not None and not seen.refused else None
        service = call.place.service
        if service is not None and not call.backends and seen is not None and seen.refused:
            reason = unserved(service, call.protocol, call.port)
            return Trial(Verdict.DENY, reason=reason), tried
        if feed is None:
            return unwatched_trial(seen), tried
        target = targets[0]
        for each in targets:
            ip = format_address(each[0])
            if (page and page.address == each[0]) or (found and found.record.dst.ip == ip):
                target = each
        packet = Packet(call.source, target[0], call.protocol, tried.sport, target[1])
        pod = self._snapshot.pod_at(target[0])
        foreseen = self._foresee(call, *target)
        return trial_of(seen, found, packet, pod.key if pod else "", foreseen), tried

    def _foresee(self, call: Call, address: int, port: int) -> Decision:
        direct = call._replace(place=Place(address), port=port, backends=())
        return self._foresight.judge(direct).decision
