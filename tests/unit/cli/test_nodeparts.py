"""What the command line of ``knp agent`` says, once it is taken together."""

import socket

import pytest

from knp_py.cli.nodeparts import Settings


def settings(**given: object) -> Settings:
    fields = dict.fromkeys(Settings._fields) | {"all_nodes": False, "hostname": ""}
    return Settings(**(fields | given))  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["worker-1", "Worker-1", " WORKER-1\n"])
def test_a_node_is_called_as_the_kubelet_registers_it(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """Under another name no pod is here, and nothing is judged."""
    assert settings(hostname=given).node == "worker-1"
    monkeypatch.setattr(socket, "gethostname", lambda: given)
    assert settings().node == "worker-1"
    assert settings(all_nodes=True, hostname=given).node is None
