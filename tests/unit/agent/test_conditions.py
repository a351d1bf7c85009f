"""What a policy's status and its Events say, within the API's limits."""

import json
import re
from typing import Any

import msgspec
import pytest

from knp_py.agent.conditions import Claim, claims_of, merged, notices_of
from knp_py.agent.mirror import Mirror, Remark, Standing
from knp_py.manifests.problems import Problem
from knp_py.manifests.single import SingleReader
from knp_py.model.objects import Origin

KEY = ("ClusterNetworkPolicy", "", "p")
NOW = "2026-11-30T05:00:00Z"
EARLIER = "2026-11-30T04:00:00Z"


def problem(path: str = "spec.egress[1].to[0]", message: str = "unknown field x") -> Problem:
    return Problem(Origin("cluster"), "ClusterNetworkPolicy p", path, message)


def standing(
    *,
    in_force: int | None = 3,
    problems: tuple[Problem, ...] = (),
    warnings: tuple[Problem, ...] = (),
) -> Standing:
    return Standing(KEY, "u1", "77", 3, in_force, problems, warnings)


def by_type(found: Standing) -> dict[str, Claim]:
    return {claim.type: claim for claim in claims_of(found)}


def test_one_that_is_understood() -> None:
    accepted, partly = claims_of(standing())
    assert (accepted.type, accepted.status, accepted.reason) == (
        *("knp/Accepted", "True", "Accepted"),
    )
    assert (partly.type, partly.status, partly.reason) == (
        *("knp/PartlyUnsupported", "False", "AllSupported"),
    )


def test_one_that_is_partly_unsupported_says_the_rule_and_what_follows() -> None:
    warning = problem(message="unknown field planets: the rule matches nothing")
    claims = by_type(standing(warnings=(warning,)))
    assert claims["knp/Accepted"].status == "True"
    partly = claims["knp/PartlyUnsupported"]
    assert (partly.status, partly.reason) == ("True", "NotAllSupported")
    assert partly.message == (
        "Not understood, and what follows from it:\n"
        "- spec.egress[1].to[0]: unknown field planets: the rule matches nothing"
    )


@pytest.mark.parametrize(
    ("in_force", "instead"),
    [(None, "nothing of it is in force"), (2, "generation 2 stays in force")],
)
def test_one_that_is_not_understood_says_what_is_in_force(
    in_force: int | None, instead: str
) -> None:
    claims = by_type(standing(in_force=in_force, problems=(problem(message="no"), problem(""))))
    accepted = claims["knp/Accepted"]
    assert (accepted.status, accepted.reason) == ("False", "Invalid")
    assert accepted.message == (
        f"Cannot be understood; {instead}:\n- spec.egress[1].to[0]: no\n- unknown field x"
    )
    assert claims["knp/PartlyUnsupported"].status == "Unknown"


def test_limits_of_the_api() -> None:
    many = tuple(problem(f"spec.egress[{n}]", "ü" * 2000) for n in range(1000))
    for found in (standing(problems=many), standing(warnings=many), standing()):
        for claim in claims_of(found):
            assert len(claim.message) <= 32_768
            # As the CRD has it for type and reason.
            assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", claim.reason)
            assert re.fullmatch(r"[a-z0-9]+/[A-Za-z0-9]+", claim.type)
            assert claim.message  # kube-apiserver 1.20 refuses an applied one that is empty
    few = tuple(problem(f"spec.egress[{n}]", "no") for n in range(1000))
    assert by_type(standing(problems=few))["knp/Accepted"].message.endswith("\nand 950 more")
    for each in notices_of(remark(problems=many)):
        assert len(each.message.encode()) <= 1024
        assert each.message.endswith("…")


def remark(
    *,
    kept: bool = False,
    problems: tuple[Problem, ...] = (),
    warnings: tuple[Problem, ...] = (),
) -> Remark:
    return Remark(KEY, "u1", 3, kept, problems, warnings)


def test_events() -> None:
    (said,) = notices_of(remark(problems=(problem(message="no"), problem(message="never"))))
    assert said.reason == "NotUnderstood"
    assert said.message == ("not in force: spec.egress[1].to[0]: no; spec.egress[1].to[0]: never")
    (said,) = notices_of(remark(kept=True, problems=(problem(),), warnings=(problem(),)))
    assert said.message.startswith("an earlier version stays in force: ")
    (said,) = notices_of(remark(warnings=(problem(message="odd"),)))
    assert (said.reason, said.message) == ("PartlyUnsupported", "spec.egress[1].to[0]: odd")
    assert notices_of(remark()) == ()


# -- with what is there already ----------------------------------------------------------

CLAIMS = (Claim("knp/Accepted", "True", "Accepted", "fine"),)


def present(**other: Any) -> dict[str, Any]:
    return {
        "type": "knp/Accepted",
        "status": "True",
        "reason": "Accepted",
        "message": "fine",
        "observedGeneration": 3,
        "lastTransitionTime": EARLIER,
    } | other


def test_where_there_is_nothing() -> None:
    assert merged(CLAIMS, 3, [], NOW) == [present(lastTransitionTime=NOW)]


def test_where_all_is_said() -> None:
    other = {"type": "Accepted", "status": "False"}
    assert merged(CLAIMS, 3, [other, present()], NOW) is None


@pytest.mark.parametrize(
    "change",
    [
        {"reason": "Other"},
        {"message": "other"},
        {"observedGeneration": 2},
        {"observedGeneration": None},
    ],
)
def test_the_time_stays_while_the_status_does(change: dict[str, Any]) -> None:
    assert merged(CLAIMS, 3, [present(**change)], NOW) == [present()]


@pytest.mark.parametrize(
    "there",
    [present(status="False"), present(status="Unknown"), {"type": "knp/Accepted"}],
)
def test_the_time_is_now_when_the_status_turns(there: dict[str, Any]) -> None:
    assert merged(CLAIMS, 3, [there], NOW) == [present(lastTransitionTime=NOW)]


# -- as a mirror knows it ----------------------------------------------------------------


def raw(generation: int, cidr: str, *, uid: str = "u1", version: str = "") -> msgspec.Raw:
    document = {
        "metadata": {
            "name": "p",
            "uid": uid,
            "generation": generation,
            "resourceVersion": version or str(generation),
        },
        "spec": {
            "tier": "Admin",
            "priority": 1,
            "subject": {"namespaces": {}},
            "egress": [{"action": "Deny", "to": [{"networks": [cidr]}]}],
        },
    }
    return msgspec.Raw(json.dumps(document).encode())


def test_a_mirror_knows_which_generation_is_in_force() -> None:
    reader = SingleReader("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy", "cluster")
    mirror = Mirror(reader)

    def now() -> tuple[int, int | None, bool]:
        (found,) = mirror.standings()
        assert found.key == KEY
        return found.generation, found.in_force, bool(found.problems)

    mirror.listed([raw(1, "10.0.0.0/8")])
    assert now() == (1, 1, False)
    revision = mirror.revision
    mirror.event("MODIFIED", raw(2, "10.0.0.0/8"))  # which says the same
    assert now() == (2, 2, False)
    assert mirror.revision > revision
    mirror.event("MODIFIED", raw(3, "nonsense"))
    assert now() == (3, 2, True)
    mirror.event("MODIFIED", raw(4, "more nonsense"))
    assert now() == (4, 2, True)
    mirror.event("MODIFIED", raw(5, "10.0.0.0/8"))
    assert now() == (5, 5, False)
    # Another one of that name has nothing to fall back to.
    mirror.listed([raw(1, "nonsense", uid="u2", version="9")])
    assert now() == (1, None, True)
    revision = mirror.revision
    mirror.event("DELETED", raw(1, "nonsense", uid="u2"))
    assert mirror.standings() == []
    assert mirror.revision > revision
