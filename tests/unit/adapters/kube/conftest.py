"""What writing to an API server is tested with."""

from collections.abc import Iterator

import pytest
from helpers.apiserver import ApiServer
from helpers.writers import StatusNode, status_nodes


@pytest.fixture
def api() -> Iterator[ApiServer]:
    """One that has some namespaces, and the CRD with everything in it."""
    with ApiServer() as api:
        for name in ("kube-system", "default", "x"):
            api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        api.install_crd("experimental")
        yield api


@pytest.fixture
def node(api: ApiServer) -> Iterator[StatusNode]:
    """The only one, so that it is the one that writes."""
    with status_nodes(api, "n1") as (node,):
        yield node
