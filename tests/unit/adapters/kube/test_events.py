"""Events: what cannot be understood, once, and never many."""

import pytest
from helpers.apiclients import asked
from helpers.apiserver import ApiServer
from helpers.fakes import FakeTimer
from helpers.writers import (
    BROKEN,
    UNKNOWN_PEER,
    StatusNode,
    events,
    network_policy,
    policy,
    status_nodes,
    without_schema,
)

from knp_py.adapters.kube.events import Allowance

NOTED = "/api/v1/namespaces/x/events"


@pytest.fixture
def api(api: ApiServer) -> ApiServer:
    """One that takes policies of which something is to be said."""
    without_schema(api)
    return api


def test_what_an_event_says(api: ApiServer, node: StatusNode) -> None:
    made = api.apply(policy("a", BROKEN))
    node.run(5)
    (event,) = events(api)
    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"] == {
        "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "kind": "ClusterNetworkPolicy",
        "name": "a",
        "uid": made["metadata"]["uid"],
    }
    assert (event["type"], event["reason"]) == ("Warning", "NotUnderstood")
    assert event["message"].startswith("not in force: spec.egress[0].to[0].networks[0]: ")
    assert event["source"] == {"component": "knp", "host": "n1"}
    assert event["firstTimestamp"] == "2026-11-30T01:10:00Z"


def test_each_is_said_once(api: ApiServer, node: StatusNode) -> None:
    api.apply(network_policy("x", "p", port=99_999))
    node.run(5)
    asked(api)
    api.apply(network_policy("x", "q"))  # something else changes
    node.run(300)
    assert f"POST {NOTED}" not in asked(api)
    api.apply(network_policy("x", "p", port=99_998))  # it is wrong otherwise
    node.run(5)
    assert asked(api).count(f"POST {NOTED}") == 1
    assert len(events(api)) == 2
    assert "in force" in events(api)[-1]["message"]


def test_what_is_read_otherwise_than_it_may_be_meant_is_said_too(
    api: ApiServer, node: StatusNode
) -> None:
    api.apply(policy("a", UNKNOWN_PEER))
    node.run(5)
    (event,) = events(api)
    assert event["reason"] == "PartlyUnsupported"
    assert "the rule matches nothing" in event["message"]


def test_too_many_are_left_out_and_said(api: ApiServer, node: StatusNode) -> None:
    for number in range(50):
        api.apply(network_policy("x", f"p{number}", port=99_999))
    node.run(10)
    assert len(events(api)) == 20
    assert node.writer.counts["event", "left_out"] == 30
    assert node.said[1:] == [
        (
            "30 Events about policies are left out: more than 20 at once or one in 5 s; /status"
            " has all there is to say"
        )
    ]
    node.run(3)
    api.apply(network_policy("x", "q0", port=99_999))
    api.apply(network_policy("x", "q1", port=99_999))
    api.apply(network_policy("x", "q2", port=99_999))
    api.apply(network_policy("x", "q3", port=99_999))
    node.run(2)
    assert len(events(api)) == 20 + 2


def test_an_event_that_is_there_is_no_error(api: ApiServer, node: StatusNode) -> None:
    api.apply(network_policy("x", "p", port=99_999))
    node.run(5)
    with status_nodes(api, "n2") as (other,):
        other.run(60)
        assert other.writer.elected
        assert other.writer.counts["event", "unchanged"] == 1
        assert len(other.said) == 1
    assert len(events(api)) == 1


def test_a_namespace_that_is_going_takes_no_events(api: ApiServer, node: StatusNode) -> None:
    api.apply(network_policy("x", "p", port=99_999))
    api.apply(policy("z", BROKEN))
    api.fail(403, 1, method="POST", path="x/events")
    node.run(20)
    assert [event["metadata"]["namespace"] for event in events(api)] == ["default"]
    assert len([line for line in node.said if "403" in line]) == 1
    assert node.writer.counts["event", "failed"] == 1


def test_a_namespace_that_is_gone(api: ApiServer, node: StatusNode) -> None:
    for number in range(3):
        api.apply(network_policy("gone", f"p{number}", port=99_999))
    node.run(20)
    assert not events(api)
    assert node.writer.counts["event", "failed"] == 3
    assert len([line for line in node.said if "404" in line]) == 1


def test_the_server_fails(api: ApiServer, node: StatusNode) -> None:
    api.apply(network_policy("x", "p", port=99_999))
    api.fail(503, 3, method="POST", path="x/events")
    node.run(30)
    assert len(events(api)) == 1


def test_a_long_name_leaves_room(api: ApiServer, node: StatusNode) -> None:
    name = ".".join(["a" * 49] * 5)
    api.apply(policy(name, BROKEN))
    node.run(5)
    (event,) = events(api)
    assert len(event["metadata"]["name"]) <= 253
    assert event["involvedObject"]["name"] == name


def test_an_allowance() -> None:
    timer = FakeTimer()
    allowance = Allowance(2, 5.0, timer.now)
    for _ in range(2):
        assert allowance.any()
        allowance.spend()
    assert not allowance.any()
    timer.pass_by(5)
    assert allowance.any()
    allowance.spend()
    timer.pass_by(1000)
    assert allowance.any()
    allowance.spend()
    allowance.spend()
    assert not allowance.any()
