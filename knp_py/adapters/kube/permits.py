"""What the API server lets this agent do, asked before it is tried."""

from collections.abc import Sequence

import msgspec

from knp_py.adapters.kube.client import ApiError, Client
from knp_py.adapters.kube.resources import Need

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_FORBIDDEN = 403


class _Verdict(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Verdict = msgspec.field(default_factory=_Verdict)


class Permits:
    """Which of ``needs`` are ``missing``: all of them, before they were asked for.

    ``namespace`` is the agent's own.
    """

    def __init__(self, client: Client, namespace: str, needs: Sequence[Need]) -> None:
        self.missing = tuple(needs)
        self._client = client
        self._namespace = namespace
        self._needs = tuple(needs)

    def ask(self) -> None:
        """Ask for each. Raises ``ApiError`` or ``UnreachableError``, nothing being changed."""
        self.missing = tuple(need for need in self._needs if not self._allowed(need))

    def ask_again(self) -> None:
        """The same where something was missing, by one request while the first of it still is.

        Every node does so for ever in a cluster that does not want any of this.
        """
        if self.missing and self._allowed(self.missing[0]):
            self.ask()

    def _allowed(self, need: Need) -> bool:
        resource, _, subresource = need.resource.partition("/")
        asked = {
            "verb": need.verb,
            "group": need.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self._namespace if need.own else "",
            "name": need.name,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}},
        }
        try:
            answer = self._client.send("POST", _REVIEWS, review)
        except ApiError as error:
            if error.status == _FORBIDDEN:
                return False  # who may not even ask
            raise
        return msgspec.json.decode(answer, type=_Review).status.allowed
