"""From ``--manifests`` to a cluster: what eval, replay and test begin with."""

from collections.abc import Sequence

from knp_py.adapters.documents import PATHS, load_manifests
from knp_py.cli.render import note, notes
from knp_py.engine.snapshot import Snapshot
from knp_py.engine.state import ClusterState
from knp_py.model.changes import Change, Verb

WARNINGS_SHOWN = 8


def load_cluster(paths: Sequence[str], option: str = "--manifests") -> Snapshot:
    """The compiled cluster; warnings go to standard error, the first few in full.

    ``option`` is what the paths were given by.
    Raises ``ManifestError`` with every problem of every file.
    """
    result = load_manifests(paths, hint=f"give {option} {PATHS}")
    state = ClusterState()
    state.apply_all(Change(Verb.APPLIED, obj) for obj in result.objects)
    snapshot = state.snapshot()
    lines = [*map(str, result.warnings), *snapshot.warnings]
    notes([f"warning: {line}" for line in lines], WARNINGS_SHOWN, "knp lint shows all")
    if not result.objects:
        note("warning: no object in the manifests is one that policy depends on")
    return snapshot
