"""Several nodes and one server: who writes what, and what that costs."""

from helpers.apiclients import asked
from helpers.apiserver import ApiServer
from helpers.nodes import eventually
from helpers.writers import (
    BROKEN,
    LEASES,
    POLICIES,
    UNKNOWN_PEER,
    StatusNode,
    conditions,
    events,
    network_policy,
    policy,
    status_nodes,
    without_schema,
)


def is_elected(node: StatusNode) -> bool:
    """Asked anew: mypy believes that a property stays as it was."""
    return node.writer.elected


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def test_what_a_start_asks_for_and_what_a_steady_state_costs(
    api: ApiServer, node: StatusNode
) -> None:
    api.apply(policy("a"))
    node.hear()
    asked(api)
    node.run(1, hear=False)
    assert asked(api) == [
        *[f"POST {REVIEWS}"] * 6,
        *(f"GET {LEASES}/knp-status", f"POST {LEASES}"),
        *(f"GET {POLICIES}/a", f"PATCH {POLICIES}/a/status"),
    ]
    assert conditions(api, "a")["knp/Accepted"]["status"] == "True"
    node.run(600)  # which hears of its own writing as well
    assert asked(api) == [f"PUT {LEASES}/knp-status"] * 60
    assert node.said == ["this node writes the status of policies (Lease kube-system/knp-status)"]


def test_of_two_nodes_one_writes(api: ApiServer) -> None:
    api.apply(policy("a"))
    with status_nodes(api, "n1", "n2") as nodes:
        for _ in range(50):
            for node in nodes:
                node.run(2)
        assert [node.writer.elected for node in nodes] == [True, False]
        assert nodes[0].writer.counts["condition", "written"] == 1
        assert not nodes[1].writer.counts
        assert nodes[1].said == []
        overview = nodes[1].writer.overview()
        assert (overview["elected"], overview["holder"]) == (False, "n1_knp_1")


def test_when_the_one_dies_another_goes_on(api: ApiServer) -> None:
    without_schema(api)
    api.apply(policy("a"))
    api.apply(policy("b", UNKNOWN_PEER))
    with status_nodes(api, "n1", "n2") as (first, second):
        first.run(5)
        second.run(5)
        before = conditions(api, "a")
        assert len(events(api)) == 1
        api.apply(policy("c"))
        second.run(24)
        assert not is_elected(second)
        second.run(15)
        assert is_elected(second)
        assert conditions(api, "c")
        # What was written already is looked at, and left as it is.
        assert conditions(api, "a") == before
        assert second.writer.counts["condition", "unchanged"] == 2
        assert second.writer.counts["event", "unchanged"] == 1
        assert len(events(api)) == 1
        # The first one comes back from a long sleep.
        first.timer.pass_by(60)
        first.run(5)
        assert not is_elected(first)
        assert first.said[-1] == "this node does not write the status of policies any more"


def test_a_node_that_stops_lets_another_at_once(api: ApiServer) -> None:
    with status_nodes(api, "n1", "n2") as (first, second):
        first.writer.start()
        eventually(lambda: first.writer.elected, "it is elected")
        first.writer.stop(5.0)
        second.run(0)
        assert is_elected(second)


def test_what_is_not_allowed_is_said_once_and_off(api: ApiServer, node: StatusNode) -> None:
    api.apply(policy("a"))
    api.forbid("patch", "clusternetworkpolicies/status")
    api.forbid("create", "events")
    node.run(3000)
    assert node.said == [
        (
            "policies get no conditions and no Events from this node: RBAC does not allow to patch"
            " clusternetworkpolicies/status, create events (--write-status off says nothing of it)"
        )
    ]
    assert node.writer.overview()["missing_permissions"] == [
        "patch clusternetworkpolicies/status",
        "create events",
    ]
    assert not conditions(api, "a")
    # All that it costs: every ten minutes one question.
    assert asked(api)[-11:] == [f"POST {REVIEWS}"] * 11
    assert not api.state("Lease")
    api.allow()
    node.run(700)
    assert node.said[1:] == [
        "RBAC lets this node write the status of policies now",
        "this node writes the status of policies (Lease kube-system/knp-status)",
    ]
    assert conditions(api, "a")


def test_without_the_lease_nothing_is_written(api: ApiServer, node: StatusNode) -> None:
    api.apply(policy("a"))
    api.forbid("update", "leases")
    node.run(100)
    assert not conditions(api, "a")
    assert not api.state("Lease")
    assert "no conditions and no Events" in node.said[0]
    assert "update leases" in node.said[0]


def test_who_may_not_even_ask(api: ApiServer, node: StatusNode) -> None:
    api.forbid("create", "selfsubjectaccessreviews")
    node.run(100)
    assert len(node.said) == 1
    assert not is_elected(node)


def test_events_alone_can_be_forbidden(api: ApiServer, node: StatusNode) -> None:
    without_schema(api)
    api.apply(policy("a", BROKEN))
    api.forbid("create", "events")
    node.run(10)
    assert conditions(api, "a")["knp/Accepted"]["status"] == "False"
    assert not events(api)
    assert node.said[0].startswith("policies get no Events from this node")


def test_a_permission_that_is_taken_away(api: ApiServer, node: StatusNode) -> None:
    api.apply(policy("a"))
    node.run(5)
    api.forbid("patch", "clusternetworkpolicies/status")
    api.apply(policy("b"))
    node.run(60)
    assert [line for line in node.said if "RBAC" in line] == [
        (
            "policies get no conditions from this node: RBAC does not allow to patch"
            " clusternetworkpolicies/status (--write-status off says nothing of it)"
        )
    ]
    assert is_elected(node)  # for the Events
    api.allow()
    node.run(700)
    assert conditions(api, "b")


def test_the_server_fails(api: ApiServer, node: StatusNode) -> None:
    api.apply(policy("a"))
    api.apply(policy("b"))
    api.fail(500, 3, method="PATCH")
    node.run(30)
    assert conditions(api, "a")
    assert conditions(api, "b")
    assert node.writer.counts["condition", "failed"] == 3
    assert [line for line in node.said if "status of policies: " in line] == [
        "status of policies: condition: PATCH " + POLICIES + "/b/status: 500 InternalError:"
        " Internal error occurred: etcdserver: leader changed; trying it again",
        "status of policies: condition: works again",
    ]


def test_the_server_is_busy_and_says_for_how_long(api: ApiServer, node: StatusNode) -> None:
    api.apply(policy("a"))
    api.fail(429, 1, method="GET", path="clusternetworkpolicies", retry_after=7)
    node.run(6.9)
    assert not conditions(api, "a")
    node.run(1)
    assert conditions(api, "a")
    assert len(node.said) == 1


def test_an_outage_costs_neither_lines_nor_conditions(api: ApiServer, node: StatusNode) -> None:
    api.apply(policy("a"))
    node.run(5)
    with api.outage():
        node.run(300)
        assert not is_elected(node)
        assert node.writer.overview()["errors"]
    api.apply(policy("b"))
    node.run(60)
    assert is_elected(node)
    assert conditions(api, "b")
    assert node.said[1:] == [
        "this node does not write the status of policies any more",
        "this node writes the status of policies (Lease kube-system/knp-status)",
    ]
    assert node.writer.overview()["errors"] == []


def test_a_server_of_nonsense(api: ApiServer, node: StatusNode) -> None:
    api.apply(policy("a"))
    api.fail(200, 5, method="GET", path="leases")  # a Status, which is no Lease
    api.fail(200, 5, method="GET", path="clusternetworkpolicies")
    node.run(300)
    assert conditions(api, "a")


def test_nothing_is_written_before_all_policies_are_known(
    api: ApiServer, node: StatusNode
) -> None:
    api.apply(policy("a"))
    node.known = False
    node.run(30)
    assert is_elected(node)
    assert not conditions(api, "a")
    node.known = True
    node.run(2)
    assert conditions(api, "a")


def test_many_policies_do_not_cost_the_lease(api: ApiServer, node: StatusNode) -> None:
    for number in range(100):
        api.apply(policy(f"p{number}"))
    node.hear()
    asked(api)
    began = node.timer.now()
    while not conditions(api, "p99"):
        node.timer.pass_by(node.writer.turn() + 0.4)  # seconds that each one takes
        assert is_elected(node)
    assert node.timer.now() - began > 30
    assert asked(api).count(f"PUT {LEASES}/knp-status") >= 3


def test_the_thread_ends_when_it_is_told(api: ApiServer, node: StatusNode) -> None:
    api.apply(policy("a"))
    node.hear()
    node.writer.stop(1.0)  # before it began
    with status_nodes(api, "n2") as (other,):
        other.hear()
        other.writer.start()

        def has_written() -> bool:
            other.timer.pass_by(1)
            return bool(conditions(api, "a"))

        eventually(has_written, "it has written")
        other.writer.stop(5.0)
        assert not other.writer._thread.is_alive()
        assert "holderIdentity" not in api.get("Lease", "kube-system", "knp-status")["spec"]


def test_events_of_network_policies_are_in_their_namespace(
    api: ApiServer, node: StatusNode
) -> None:
    api.apply(network_policy("x", "broken", port=99_999))
    node.run(5)
    (event,) = events(api)
    assert event["metadata"]["namespace"] == "x"
    assert event["involvedObject"]["name"] == "broken"
