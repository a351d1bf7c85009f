"""The same against the real etcd and kube-apiserver, where ``KUBEBUILDER_ASSETS`` has them."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers.envtest import RealServer, needs_real_server
from helpers.following import Following, followed

from knp_py.adapters.kube.access import by_kubeconfig, in_cluster

pytestmark = [needs_real_server, pytest.mark.slow]


@pytest.fixture(scope="module")
def api() -> Iterator[RealServer]:
    with RealServer() as server:
        server.install_crd("experimental")
        yield server


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knp_py.adapters.kube.backoff.LONGEST", 1.0)
    monkeypatch.setattr("knp_py.adapters.kube.follow._ABSENT", 0.2)
    monkeypatch.setattr("knp_py.adapters.kube.follow._ABSENT_FOR", 0.5)
    monkeypatch.setattr("knp_py.adapters.kube.follow.PAGE", 20)


@pytest.fixture
def following(api: RealServer, tmp_path: Path) -> Iterator[Following]:
    config = api.kubeconfig(tmp_path / "config")
    with followed(partial(by_kubeconfig, str(config))) as found:
        found.agrees(api, seconds=60)
        yield found


def cluster_policy(name: str, action: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "kind": "ClusterNetworkPolicy",
        "metadata": {"name": name},
        "spec": {
            "tier": "Admin",
            "priority": 10,
            "subject": {"namespaces": {}},
            "egress": [{"action": action, "to": [{"networks": ["10.0.0.0/8"]}]}],
        },
    }


def test_events(api: RealServer, following: Following) -> None:
    api.churn(events=60, seed=1)
    api.apply(cluster_policy("guard", "Deny"))
    following.agrees(api)
    api.apply(cluster_policy("guard", "Pass"))
    following.agrees(api)
    api.delete("ClusterNetworkPolicy", "", "guard")
    following.agrees(api)


def test_history_that_is_lost(api: RealServer, following: Following) -> None:
    with api.outage(history=False):
        pass
    api.churn(events=40, seed=2)
    following.agrees(api, seconds=60)


def test_a_service_account(api: RealServer, tmp_path: Path) -> None:
    environment = api.service_account(tmp_path / "account")
    with followed(partial(in_cluster, str(tmp_path / "account"), environment)) as found:
        found.agrees(api, seconds=60)


@pytest.mark.parametrize("seed", range(2))
def test_any_sequence_of_troubles(api: RealServer, following: Following, seed: int) -> None:
    dice = random.Random(seed)
    troubles: list[Callable[[], object]] = [
        api.drop_watches,
        api.compact,
        lambda: api.apply(cluster_policy(f"p{dice.randrange(3)}", dice.choice(["Deny", "Pass"]))),
    ]
    for step in range(12):
        dice.choice(troubles)()
        api.churn(events=dice.randrange(12), seed=100 * seed + step)
    following.agrees(api, seconds=60)


def test_a_server_that_was_restored(api: RealServer, following: Following) -> None:
    backup = api.backup()
    api.churn(events=60, seed=3)
    following.agrees(api, seconds=60)
    api.restart(backup=backup)
    following.agrees(api, seconds=90)


def test_a_crd_that_goes_and_comes(api: RealServer, following: Following) -> None:
    api.apply(cluster_policy("guard", "Deny"))
    following.agrees(api)
    api.remove_crd()
    following.agrees(api, seconds=60)
    api.install_crd("standard")
    api.apply(cluster_policy("again", "Deny"))
    following.agrees(api, seconds=60)
