"""The v1alpha1 admin policies as the ClusterNetworkPolicies they are equivalent to."""

import pytest
from helpers.manifests import (
    clean,
    cluster_policies,
    cluster_policy,
    lines,
    load_text,
    load_values,
)

from knp_py.model.net import parse_cidr
from knp_py.model.policy import (
    Action,
    ClusterNetworkPolicy,
    ClusterRule,
    Direction,
    DomainPeer,
    NamedPort,
    NetworkPeer,
    NodePeer,
    PodPeer,
    PortRange,
    Tier,
    UnknownPeer,
    UnknownPort,
)

ALL: dict[str, object] = {"namespaces": {}}


def admin(**spec: object) -> dict[str, object]:
    return {
        "apiVersion": "policy.networking.k8s.io/v1alpha1",
        "kind": "AdminNetworkPolicy",
        "metadata": {"name": "a"},
        "spec": {"priority": 5, "subject": {"namespaces": {}}, **spec},
    }


def baseline(name: str = "default", **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "policy.networking.k8s.io/v1alpha1",
        "kind": "BaselineAdminNetworkPolicy",
        "metadata": {"name": name},
        "spec": {"subject": {"namespaces": {}}, **spec},
    }


def only(document: dict[str, object]) -> ClusterNetworkPolicy:
    (found,) = cluster_policies(clean(load_values(document))).values()
    return found


def egress(**fields: object) -> ClusterRule:
    return only(admin(egress=[{"action": "Allow", "to": [ALL], **fields}])).rules[
        Direction.EGRESS
    ][0]


def problems(document: dict[str, object]) -> list[str]:
    result = load_values(document)
    assert not result.objects
    return [line.partition(": ")[2] for line in lines(result.problems)]


def test_the_whole_of_one() -> None:
    result = clean(
        load_text("""
        apiVersion: policy.networking.k8s.io/v1alpha1
        kind: AdminNetworkPolicy
        metadata: {name: cluster-control}
        spec:
          priority: 34
          subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}
          ingress:
          - name: from-monitoring
            action: Allow
            from:
            - namespaces: {matchLabels: {kubernetes.io/metadata.name: monitoring}}
            ports:
            - portNumber: {protocol: TCP, port: 9090}
            - portRange: {start: 100, end: 200}
            - namedPort: metrics
          egress:
          - action: Pass
            to: [{namespaces: {}}]
          - action: Deny
            to:
            - networks: [0.0.0.0/0]
            - nodes: {}
        """)
    )
    (found,) = cluster_policies(result).values()
    assert (found.kind, found.name) == ("AdminNetworkPolicy", "AdminNetworkPolicy/cluster-control")
    assert (found.tier, found.priority) == (Tier.ADMIN, 34)
    ingress = found.rules[Direction.INGRESS][0]
    assert (ingress.name, ingress.action) == ("from-monitoring", Action.ACCEPT)
    assert ingress.ports == (
        PortRange(6, 9090, 9090),
        PortRange(6, 100, 200),
        NamedPort("metrics"),
    )
    one, two = found.rules[Direction.EGRESS]
    assert (one.action, one.peers, one.ports) == (Action.PASS, (PodPeer(),), None)
    assert two.action is Action.DENY
    assert isinstance(two.peers[0], NetworkPeer)
    assert isinstance(two.peers[1], NodePeer)


def test_a_baseline() -> None:
    found = only(baseline(ingress=[{"action": "Deny", "from": [ALL]}]))
    assert (found.kind, found.name) == (
        "BaselineAdminNetworkPolicy",
        "BaselineAdminNetworkPolicy/default",
    )
    assert (found.tier, found.priority) == (Tier.BASELINE, 0)
    assert problems(baseline("other")) == [
        "metadata.name: expected 'default': there is only one of this kind"
    ]


def test_names_do_not_collide() -> None:
    document = cluster_policy()
    document["metadata"] = {"name": "a"}
    assert set(cluster_policies(clean(load_values(admin(), document)))) == {
        "AdminNetworkPolicy/a",
        "a",
    }


def test_peers_and_ports() -> None:
    pods: dict[str, object] = {"pods": {"namespaceSelector": {}, "podSelector": {}}}
    assert egress(to=[ALL, pods, {"domainNames": ["*.a.b"]}]).peers == (
        PodPeer(),
        PodPeer(),
        DomainPeer(("*.a.b",)),
    )
    assert egress(to=[{"networks": ["10.0.0.0/8"]}]).peers == (
        NetworkPeer((parse_cidr("10.0.0.0/8"),)),
    )
    assert egress(ports=None).ports is None
    assert egress(ports=[{"portNumber": {"protocol": "UDP", "port": 53}}]).ports == (
        PortRange(17, 53, 53),
    )


@pytest.mark.parametrize(
    ("document", "what"),
    [
        (admin(priority=1001), "spec.priority: found the number 1001"),
        (admin(priority=None), "spec.priority: missing"),
        (admin(subject={"pods": {"podSelector": {}}}), "spec.subject.pods.namespaceSelector: mis"),
        (admin(egress=[{"action": "Allow", "to": [ALL]}] * 101), "spec.egress: found 101 items"),
        (admin(egress=[{"action": "Allow"}]), "spec.egress[0].to: missing"),
        (admin(egress=[{"action": "Allow", "to": []}]), "spec.egress[0].to: found an empty list"),
        (
            admin(egress=[{"action": "Allow", "to": [ALL], "ports": [{"portNumber": {}}]}]),
            "spec.egress[0].ports[0].portNumber.port: missing",
        ),
        (
            admin(egress=[{"action": "Allow", "to": [ALL], "ports": [{"namedPort": 1}]}]),
            "spec.egress[0].ports[0].namedPort: found the number 1, expected text",
        ),
        (
            admin(
                egress=[
                    {
                        "action": "Allow",
                        "to": [ALL],
                        "ports": [{"portRange": {"start": 2, "end": 1}}],
                    }
                ]
            ),
            "spec.egress[0].ports[0].portRange.end: found 1, expected more than start, which is 2",
        ),
        (
            admin(
                egress=[
                    {
                        "action": "Allow",
                        "to": [ALL],
                        "ports": [{"namedPort": "a", "portRange": {"start": 1, "end": 2}}],
                    }
                ]
            ),
            "spec.egress[0].ports[0]: found portRange and namedPort, expected exactly one field",
        ),
        (
            admin(
                egress=[
                    {
                        "action": "Allow",
                        "to": [{"networks": ["0.0.0.0/0"]}],
                        "ports": [{"namedPort": "a"}],
                    }
                ]
            ),
            "spec.egress[0].ports: found namedPort beside a networks, nodes or domainNames peer",
        ),
        ({**admin(), "spec": None}, "spec: missing, expected an object with a subject"),
    ],
)
def test_bad_policies(document: dict[str, object], what: str) -> None:
    (found,) = problems(document)
    assert found.startswith(what)


def test_what_has_no_equivalent_fails_closed() -> None:
    result = load_values(
        admin(
            egress=[
                {"action": "Allow", "to": [{"namespaces": {"sameLabels": ["team"]}}]},
                {"action": "Deny", "to": [{"pods": {"namespaces": {}, "podSelector": {}}}]},
                {"action": "Deny", "to": [ALL], "ports": [{"portNumbers": {}}]},
                {"action": "Accept", "to": [ALL]},
            ]
        )
    )
    assert not result.problems
    (found,) = cluster_policies(result).values()
    one, two, three, four = found.rules[Direction.EGRESS]
    assert one.peers == (UnknownPeer(("sameLabels",)),)
    assert two.peers == (UnknownPeer(("namespaces",)),)
    assert three.ports == (UnknownPort(("portNumbers",)),)
    assert four.action is Action.UNKNOWN
    assert [line.partition("spec.")[2].partition(": ")[0] for line in lines(result.warnings)] == [
        "egress[0].to[0].namespaces",
        "egress[1].to[0].pods",
        "egress[2].ports[0]",
        "egress[3].action",
    ]
    assert "the rule matches nothing" in lines(result.warnings)[0]


def test_a_baseline_has_no_pass_and_no_names() -> None:
    result = load_values(
        baseline(
            egress=[
                {"action": "Pass", "to": [ALL]},
                {"action": "Allow", "to": [{"domainNames": ["a.b"]}]},
            ]
        )
    )
    (found,) = cluster_policies(result).values()
    passes, names = found.rules[Direction.EGRESS]
    assert passes.action is Action.UNKNOWN
    assert names.peers == (UnknownPeer(("domainNames",)),)
    assert len(result.warnings) == 2
