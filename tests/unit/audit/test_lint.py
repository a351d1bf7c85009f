"""The checks together, on manifests as people write them."""

from pathlib import Path

import pytest
from helpers.findings import at, ids
from helpers.manifests import load_text

from knp_py.audit.findings import Finding, Severity
from knp_py.audit.lint import lint

PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: c}]}
status: {phase: Running, podIPs: [{ip: 10.244.1.6}]}
---
"""
CLUSTER_POLICY = """\
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: c}
spec:
  tier: Admin
  priority: 10
  subject: {namespaces: {}}
"""


def lint_text(text: str) -> list[Finding]:
    loaded = load_text(text)
    return lint(loaded.objects, loaded.problems, loaded.warnings)


def test_nothing_at_all() -> None:
    assert [finding.id for finding in lint([])] == ["no-policies"]


def test_everything_the_api_server_would_reject_is_an_error() -> None:
    found = lint_text(
        """\
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: p, namespace: shop}
        spec:
          podSelector: {}
          ingress:
            - from:
                - ipBlock: {cidr: 10.0.0.0/8, except: [192.168.0.0/16, "fd00::/8"]}
              ports:
                - {port: 70000}
        """
    )
    errors = [finding for finding in found if finding.id == "invalid-object"]
    assert [at(finding) for finding in errors] == [
        "shop/p spec.ingress[0].from[0].ipBlock.except[0]",
        "shop/p spec.ingress[0].from[0].ipBlock.except[1]",
        "shop/p spec.ingress[0].ports[0].port",
    ]
    assert all(finding.severity is Severity.ERROR for finding in errors)
    assert all(finding.origin.source == "m.yaml" for finding in errors)


@pytest.mark.parametrize(
    ("rule", "check"),
    [
        ("{action: Deny, to: [{futurePeer: {}}]}", "unknown-peer"),
        ("{action: Accept, to: [{}]}", "unknown-peer"),
        ("{action: Ponder, to: [{namespaces: {}}]}", "unknown-action"),
        ("{action: Deny, to: [{domainNames: [example.com]}]}", "names-outside-accept"),
        ("{action: Deny, to: [{namespaces: {}}], protocols: [{quic: {}}]}", "unknown-port"),
    ],
)
def test_what_fails_closed_is_said_once(rule: str, check: str) -> None:
    found = lint_text(f"{PODS}{CLUSTER_POLICY}  egress:\n    - {rule}\n")
    assert [finding.id for finding in found] == [check]
    assert found[0].severity is Severity.ERROR


def test_other_warnings_of_the_loader_are_findings() -> None:
    rule = "{action: Deny, to: [{pods: {podSelector: {}}}]}"
    policy = f"{CLUSTER_POLICY}  egres: []\n  egress:\n    - {rule}\n"
    found = lint_text(PODS + policy)
    assert [(finding.id, finding.path) for finding in found] == [("unknown-field", "spec.egres")]
    assert "did you mean 'egress'" in found[0].message


def test_an_unknown_field_is_told_beside_an_error_in_the_field_that_was_meant() -> None:
    found = lint_text(
        """\
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: p, namespace: shop}
        spec:
          podSelector: {}
          ingres: []
          ingress: [{ports: [{port: 70000}]}]
        """
    )
    assert [(finding.id, finding.path) for finding in found] == [
        ("unknown-field", "spec.ingres"),
        ("invalid-object", "spec.ingress[0].ports[0].port"),
    ]


def test_kinds_that_policy_does_not_read() -> None:
    other = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n"
    calico = "---\napiVersion: projectcalico.org/v3\nkind: NetworkPolicy\nmetadata: {name: n}\n"
    found = lint_text(PODS + other + calico)
    assert {finding.id: finding.severity for finding in found} == {
        "ignored-object": Severity.INFO,
        "suspicious-input": Severity.WARNING,
        "no-policies": Severity.INFO,
    }


def test_ignored_checks_do_not_come() -> None:
    loaded = load_text(f"{CLUSTER_POLICY}")
    assert [finding.id for finding in lint(loaded.objects)] == ["no-rules", "no-pods"]
    assert lint(loaded.objects, ignore=["no-rules", "no-pods"]) == []


def test_findings_do_not_depend_on_the_order_of_objects() -> None:
    text = (
        f"{PODS}{CLUSTER_POLICY}"
        """\
  egress:
    - {action: Deny, to: [{networks: [0.0.0.0/0]}]}
    - {action: Accept, to: [{networks: [10.0.0.0/8]}, {namespaces: {matchLabels: {a: b}}}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: p, namespace: shop}
spec: {podSelector: {matchLabels: {app: wbe}}, egress: [{}, {}]}
"""
    )
    loaded = load_text(text)
    found = lint(loaded.objects)
    assert len(found) > 3
    assert lint(loaded.objects[::-1]) == found


USER_STORIES = ("story-1", "story-2", "story-3", "story-5")


@pytest.mark.parametrize("story", USER_STORIES)
def test_the_apis_own_user_stories_are_clean(shared: Path, story: str) -> None:
    path = shared / "cases" / "npapi-user-stories" / story / "manifests.yaml"
    loaded = load_text(path.read_text())
    assert ids(loaded.objects, loaded.problems, loaded.warnings) == []


def test_a_whole_example_is_clean_but_for_the_pod_that_shows_it() -> None:
    root = Path(__file__).resolve().parents[3] / "examples" / "agent-sandbox" / "manifests"
    text = "\n---\n".join(path.read_text() for path in sorted(root.rglob("*.yaml")))
    loaded = load_text(text)
    found = lint(loaded.objects, loaded.problems, loaded.warnings)
    # The sandbox without a template has no NetworkPolicy that would let its DNS out.
    assert [finding.id for finding in found] == ["names-without-dns"]
    assert found[0].severity is Severity.INFO
