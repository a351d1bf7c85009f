"""Manifest text in, load results out, without files."""

from collections.abc import Iterable
from textwrap import dedent

import msgspec

from knp_py.adapters.documents import decode_documents
from knp_py.manifests.document import Document
from knp_py.manifests.load import LoadResult, load
from knp_py.model.objects import Origin, Pod
from knp_py.model.policy import ClusterNetworkPolicy, NetworkPolicy


def load_text(text: str, source: str = "m.yaml") -> LoadResult:
    """Load YAML or JSON text as one file."""
    return load(decode_documents(source, dedent(text).encode()))


def load_values(*values: object) -> LoadResult:
    """Load decoded values, one document each."""
    return load(Document(Origin("m.yaml"), value=value) for value in values)


def load_raw(value: object) -> LoadResult:
    """Load a value as JSON text: the typed path."""
    return load([Document(Origin("m.yaml"), raw=msgspec.json.encode(value))])


def lines(problems: Iterable[object]) -> list[str]:
    """Problems as text, without the file name."""
    return [str(problem).removeprefix("m.yaml: ").removeprefix("m.json: ") for problem in problems]


def clean(result: LoadResult) -> LoadResult:
    """The result, which has no problems and no warnings."""
    assert not result.problems, [str(problem) for problem in result.problems]
    assert not result.warnings, [str(warning) for warning in result.warnings]
    return result


def pods(result: LoadResult) -> dict[str, Pod]:
    """Pods by namespace/name."""
    return {obj.key: obj for obj in result.objects if isinstance(obj, Pod)}


def network_policies(result: LoadResult) -> dict[str, NetworkPolicy]:
    """NetworkPolicies by namespace/name."""
    return {obj.key: obj for obj in result.objects if isinstance(obj, NetworkPolicy)}


def cluster_policies(result: LoadResult) -> dict[str, ClusterNetworkPolicy]:
    """ClusterNetworkPolicies by name."""
    return {obj.name: obj for obj in result.objects if isinstance(obj, ClusterNetworkPolicy)}


def network_policy(spec: object, **metadata: object) -> dict[str, object]:
    """A NetworkPolicy document named x/p."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "p", "namespace": "x", **metadata},
        "spec": spec,
    }


def cluster_policy(**spec: object) -> dict[str, object]:
    """A ClusterNetworkPolicy document named c, Admin tier, priority 1, every pod."""
    return {
        "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "kind": "ClusterNetworkPolicy",
        "metadata": {"name": "c"},
        "spec": {"tier": "Admin", "priority": 1, "subject": {"namespaces": {}}, **spec},
    }


def pod_document(name: str, address: str = "10.0.0.1", **metadata: object) -> dict[str, object]:
    """A running pod in namespace x."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "x", **metadata},
        "status": {"phase": "Running", "podIP": address},
    }


def listed(*items: object, kind: str = "List") -> dict[str, object]:
    """A List of documents."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {}, "items": list(items)}


def both(value: object) -> LoadResult:
    """The result of both ways in, decoded and raw, which must say the same."""
    found, raw = load_values(value), load_raw(value)
    assert lines(found.problems) == lines(raw.problems)
    assert lines(found.warnings) == lines(raw.warnings)
    assert len(found.objects) == len(raw.objects)
    return found
