"""Conditions: ours right, everybody else's as they were, and nothing written without need."""

from helpers.apiclients import asked
from helpers.apiserver import ApiServer
from helpers.writers import (
    BROKEN,
    POLICIES,
    UNKNOWN_PEER,
    StatusNode,
    conditions,
    policy,
    without_schema,
)

OTHERS = {
    "type": "Programmed",
    "status": "True",
    "reason": "Programmed",
    "message": "by another implementation",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 1,
}


def writes(api: ApiServer) -> list[str]:
    return [line for line in asked(api) if POLICIES in line]


def test_a_policy_that_is_understood(api: ApiServer, node: StatusNode) -> None:
    api.apply(policy("a"))
    node.run(5)
    found = conditions(api, "a")
    assert {each: found[each]["status"] for each in found} == {
        "knp/Accepted": "True",
        "knp/PartlyUnsupported": "False",
    }
    assert found["knp/Accepted"]["observedGeneration"] == 1
    assert found["knp/Accepted"]["lastTransitionTime"] == "2026-11-30T01:10:00Z"


def test_conditions_turn_with_the_policy(api: ApiServer, node: StatusNode) -> None:
    without_schema(api)
    api.apply(policy("a", UNKNOWN_PEER))
    node.run(5)
    partly = conditions(api, "a")["knp/PartlyUnsupported"]
    assert (partly["status"], partly["reason"]) == ("True", "NotAllSupported")
    assert (
        "spec.egress[0].to[0]: unknown field planets: the rule matches nothing"
        in (partly["message"])
    )
    first = conditions(api, "a")["knp/Accepted"]["lastTransitionTime"]

    node.timer.pass_by(100)
    api.patch("ClusterNetworkPolicy", "", "a", policy("a", BROKEN))
    node.run(5)
    accepted = conditions(api, "a")["knp/Accepted"]
    assert (accepted["status"], accepted["reason"]) == ("False", "Invalid")
    assert accepted["message"].startswith("Cannot be understood; generation 1 stays in force:\n")
    assert "- spec.egress[0].to[0].networks[0]: " in accepted["message"]
    assert accepted["observedGeneration"] == 2
    assert accepted["lastTransitionTime"] > first
    assert conditions(api, "a")["knp/PartlyUnsupported"]["status"] == "Unknown"

    api.patch("ClusterNetworkPolicy", "", "a", policy("a"))
    node.run(5)
    found = conditions(api, "a")
    assert found["knp/Accepted"]["status"] == "True"
    assert found["knp/PartlyUnsupported"]["status"] == "False"
    assert found["knp/PartlyUnsupported"]["observedGeneration"] == 3


def test_what_others_say_stays_as_it_is(api: ApiServer, node: StatusNode) -> None:
    api.apply(policy("a") | {"status": {"conditions": [OTHERS]}})
    node.run(5)
    assert conditions(api, "a")["Programmed"] == OTHERS
    assert len(conditions(api, "a")) == 3
    # And is no reason to write anything again.
    asked(api)
    said = OTHERS | {"message": "something new", "observedGeneration": 2}
    theirs = [said, *(each for each in conditions(api, "a").values() if each["type"][:3] == "knp")]
    api.patch("ClusterNetworkPolicy", "", "a", {"status": {"conditions": theirs}})
    node.run(200)
    assert writes(api) == [f"GET {POLICIES}/a"]
    assert conditions(api, "a")["Programmed"] == said


def test_who_takes_them_away_gets_them_back_but_not_at_once(
    api: ApiServer, node: StatusNode
) -> None:
    api.apply(policy("a"))
    node.run(1)
    asked(api)
    for _ in range(10):
        api.patch("ClusterNetworkPolicy", "", "a", {"status": {"conditions": [OTHERS]}})
        node.run(30)
    assert conditions(api, "a").keys() >= {"Programmed"}
    assert len(writes(api)) <= 10  # in five minutes
    node.run(130)
    assert len(conditions(api, "a")) == 3


def test_a_policy_that_is_deleted_meanwhile(api: ApiServer, node: StatusNode) -> None:
    api.apply(policy("a"))
    api.apply(policy("b"))
    node.hear()
    api.delete("ClusterNetworkPolicy", "", "a")
    node.run(5, hear=False)
    assert conditions(api, "b")
    assert node.writer.counts["condition", "gone"] == 1
    assert not node.writer.counts["condition", "failed"]
    assert len(node.said) == 1
    # It comes again, as another one.
    api.apply(policy("a"))
    node.run(5)
    assert conditions(api, "a")


def test_another_one_of_that_name_does_not_get_what_was_said_of_the_first(
    api: ApiServer, node: StatusNode
) -> None:
    api.apply(policy("a"))
    node.hear()
    api.delete("ClusterNetworkPolicy", "", "a")
    api.apply(policy("a", priority=7))
    node.run(5, hear=False)
    assert not conditions(api, "a")
    node.run(5)
    assert conditions(api, "a")


def test_one_that_is_replaced_between_reading_and_writing(
    api: ApiServer, node: StatusNode
) -> None:
    api.apply(policy("a"))
    version = api.get("ClusterNetworkPolicy", "", "a")["metadata"]["resourceVersion"]
    node.hear()
    api.fail(409, 1, method="PATCH")  # what a server says when the version is another
    node.run(0.5, hear=False)
    assert node.writer.counts["condition", "conflict"] == 1
    assert len(node.said) == 1
    (patch,) = [each for each in api.requests if each.method == "PATCH"]
    assert f'"resourceVersion":"{version}"'.encode() in patch.body
    assert patch.query == {"fieldManager": "knp", "force": "true"}
    assert patch.headers["content-type"] == "application/apply-patch+yaml"
    assert not conditions(api, "a")
    node.run(5)
    assert conditions(api, "a")


def test_a_newer_version_than_it_has_heard_of_is_left_alone(
    api: ApiServer, node: StatusNode
) -> None:
    api.apply(policy("a"))
    node.hear()
    api.patch("ClusterNetworkPolicy", "", "a", {"spec": {"priority": 9}})
    node.run(5, hear=False)
    assert not conditions(api, "a")
    node.run(5)
    assert conditions(api, "a")["knp/Accepted"]["observedGeneration"] == 2


def test_an_object_that_the_server_refuses_keeps_no_other_back(
    api: ApiServer, node: StatusNode
) -> None:
    for name in "abcd":
        api.apply(policy(name))
    api.fail(422, 50, method="PATCH", path="/[ab]/status")
    node.run(20)
    assert conditions(api, "c")
    assert conditions(api, "d")
    assert len([line for line in node.said if "422" in line]) == 1
    assert node.writer.counts["condition", "failed"] == 2
    api.no_more_failures()
    node.run(120)
    assert conditions(api, "a")
    assert conditions(api, "b")


def test_an_object_that_the_server_fails_on_keeps_no_other_back(
    api: ApiServer, node: StatusNode
) -> None:
    for name in "abcd":
        api.apply(policy(name))
    api.fail(500, 1000, method="PATCH", path="/[ab]/status")
    node.run(20)
    assert conditions(api, "c")
    assert conditions(api, "d")
    assert node.writer.elected
    api.no_more_failures()
    node.run(60)
    assert conditions(api, "a")
    assert conditions(api, "b")


def test_a_change_that_says_the_same_is_noted_with_its_generation(
    api: ApiServer, node: StatusNode
) -> None:
    api.apply(policy("a"))
    node.run(5)
    since = conditions(api, "a")["knp/Accepted"]["lastTransitionTime"]
    node.timer.pass_by(100)
    api.patch("ClusterNetworkPolicy", "", "a", {"spec": {"priority": 9}})
    node.run(5)
    accepted = conditions(api, "a")["knp/Accepted"]
    assert (accepted["observedGeneration"], accepted["lastTransitionTime"]) == (2, since)


def test_the_definition_may_be_missing(node: StatusNode, api: ApiServer) -> None:
    api.remove_crd()
    node.run(20)
    assert node.writer.elected
    assert len(node.said) == 1
    api.install_crd("standard")
    api.apply(policy("a"))
    node.run(5)
    assert conditions(api, "a")
