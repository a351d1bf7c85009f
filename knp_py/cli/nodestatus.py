"""What a node says to the API server about policies, and who of the nodes does."""

import socket
from collections.abc import Callable, Mapping
from functools import partial
from uuid import uuid4

from knp_py.adapters.kube.access import own_namespace
from knp_py.adapters.kube.client import Client
from knp_py.adapters.kube.events import Notice
from knp_py.adapters.kube.resources import CLUSTER_POLICIES, NETWORK_POLICIES
from knp_py.adapters.kube.statuses import Target
from knp_py.adapters.kube.writer import Writer
from knp_py.agent.conditions import claims_of, merged, notices_of
from knp_py.agent.mirror import Mirror
from knp_py.cli.nodeparts import Settings
from knp_py.cli.nodewords import say

_KINDS = (NETWORK_POLICIES, CLUSTER_POLICIES)


class PolicyReports:
    """What there is to say of policies; ``known`` tells whether all of them are there."""

    def __init__(self, mirrors: Mapping[str, Mirror], known: Callable[[], bool]) -> None:
        self._cluster = mirrors[CLUSTER_POLICIES.kind]
        self._all = [(each, mirrors[each.kind]) for each in _KINDS]
        self._known = known

    def revision(self) -> int:
        """Another whenever they may have changed; negative while not all are known."""
        return sum(mirror.revision for _, mirror in self._all) if self._known() else -1

    def targets(self) -> list[Target]:
        """Every ClusterNetworkPolicy and what its conditions should say."""
        found = []
        for each in self._cluster.standings():
            claims = claims_of(each)
            merge = partial(merged, claims, each.generation)
            found.append(
                Target(each.key[2], each.uid, each.version, each.generation, claims, merge)
            )
        return found

    def notices(self) -> list[Notice]:
        """The Events about policies of both kinds."""
        return [
            Notice(
                *(resource.api_version, resource.kind, remark.key[1], remark.key[2]),
                *(remark.uid, remark.generation, said.reason, said.message),
            )
            for resource, mirror in self._all
            for remark in mirror.remarks()
            for said in notices_of(remark)
        ]


def writer_of(
    settings: Settings, client: Client, mirrors: Mapping[str, Mirror], known: Callable[[], bool]
) -> Writer | None:
    """Who writes, None where nobody is to: a dry run puts nothing in force."""
    if not settings.write_status or settings.dry_run:
        return None
    node = settings.node or socket.gethostname()
    return Writer(
        client,
        PolicyReports(mirrors, known),
        namespace="kube-system" if settings.kubeconfig else own_namespace(),
        identity=f"{node}_{settings.instance}_{uuid4().hex[:8]}",
        node=node,
        say=say,
    )
