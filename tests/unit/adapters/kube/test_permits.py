"""What is allowed is asked first; the server's own rules answer."""

from collections.abc import Iterator

import pytest
from helpers.apiclients import asked, client_of
from helpers.apiserver import USER, ApiServer
from helpers.apiserver_types import Doc

from knp_py.adapters.kube.client import ApiError
from knp_py.adapters.kube.permits import Permits
from knp_py.adapters.kube.resources import WRITTEN


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as api:
        yield api


@pytest.fixture
def permits(api: ApiServer) -> Iterator[Permits]:
    with client_of(api) as client:
        yield Permits(client, "kube-system", WRITTEN)


def allowed_to_ask() -> list[Doc]:
    """What every cluster gives to everybody."""
    rule = {
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews"],
        "verbs": ["create"],
    }
    metadata = {"name": "system:basic-user"}
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"kind": "ClusterRole", "name": "system:basic-user"},
        "subjects": [{"kind": "User", "name": USER}],
    }
    return [{"kind": "ClusterRole", "metadata": metadata, "rules": [rule]}, binding]


def roles() -> list[Doc]:
    """As little as is enough, from the list that says what is needed."""
    documents = allowed_to_ask()
    for kind, own in (("ClusterRole", False), ("Role", True)):
        metadata = {"name": "w"} | ({"namespace": "kube-system"} if own else {})
        rules = []
        for need in WRITTEN:
            if need.own == own:
                rule = {
                    "apiGroups": [need.group],
                    "resources": [need.resource],
                    "verbs": [need.verb],
                }
                rules.append(rule | ({"resourceNames": [need.name]} if need.name else {}))
        documents.append({"kind": kind, "metadata": metadata, "rules": rules})
        _, _, namespace, account = USER.split(":")
        documents.append(
            {
                "kind": f"{kind}Binding",
                "metadata": metadata,
                "roleRef": {"kind": kind, "name": "w"},
                "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
            }
        )
    return documents


def test_nothing_is_allowed_that_was_not_asked_for(permits: Permits) -> None:
    assert permits.missing == WRITTEN


def test_the_least_that_is_enough(api: ApiServer, permits: Permits) -> None:
    api.use_rbac(roles())
    permits.ask()
    assert permits.missing == ()
    assert len(asked(api)) == len(WRITTEN)
    permits.ask_again()
    assert asked(api) == []


def test_each_of_them_is_needed(api: ApiServer, permits: Permits) -> None:
    for need in WRITTEN:
        api.forbid(need.verb, need.resource)
        permits.ask()
        assert permits.missing == (need,)
        api.allow()


def test_what_is_missing_is_asked_for_by_one_request(api: ApiServer, permits: Permits) -> None:
    api.use_rbac(allowed_to_ask())
    permits.ask()
    assert permits.missing == WRITTEN
    asked(api)
    permits.ask_again()
    assert len(asked(api)) == 1
    api.use_rbac(roles())
    permits.ask_again()
    assert permits.missing == ()


def test_a_server_that_fails_changes_nothing(api: ApiServer, permits: Permits) -> None:
    permits.ask()
    api.fail(500, 1)
    with pytest.raises(ApiError):
        permits.ask()
    assert permits.missing == ()


def test_a_right_to_another_namespace_is_none(api: ApiServer, permits: Permits) -> None:
    documents = roles()
    for each in documents:
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = "elsewhere"
    api.use_rbac(documents)
    permits.ask()
    assert [str(need) for need in permits.missing] == [
        "get leases",
        "create leases",
        "update leases",
    ]
