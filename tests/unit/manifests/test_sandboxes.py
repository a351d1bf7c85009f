"""agent-sandbox: pods and policies that its controller derives."""

from typing import Any

import pytest
from helpers.manifests import (
    clean,
    lines,
    load_raw,
    load_text,
    load_values,
    network_policies,
    pods,
)

from knp_py.manifests.sandboxes import NAME_LABEL, TEMPLATE_LABEL, name_hash
from knp_py.model.net import format_address, parse_address, parse_cidr
from knp_py.model.policy import Direction, NetworkPeer, NetworkRule, PodPeer, PortRange
from knp_py.model.selectors import LabelSelector

CORE = "agents.x-k8s.io"
POLICY = "x/agent-runtime-network-policy"


def thing(
    kind: str, name: str, spec: object, *, version: str = "v1beta1", **more: object
) -> dict[str, object]:
    group = CORE if kind == "Sandbox" else f"extensions.{CORE}"
    return {
        "apiVersion": f"{group}/{version}",
        "kind": kind,
        "metadata": {"name": name, "namespace": "x"},
        "spec": spec,
        **more,
    }


def template(name: str = "agent-runtime", **spec: object) -> dict[str, object]:
    pod: dict[str, object] = {"metadata": {"labels": {"app": "agent"}}, "spec": {}}
    return thing("SandboxTemplate", name, {"podTemplate": pod, **spec})


def pool(replicas: int = 1, name: str = "pool", ref: str = "agent-runtime") -> dict[str, object]:
    spec = {"replicas": replicas, "sandboxTemplateRef": {"name": ref}}
    return thing("SandboxWarmPool", name, spec)


def claim(name: str = "agent", **more: object) -> dict[str, object]:
    return thing("SandboxClaim", name, {"warmPoolRef": {"name": "pool"}, **more})


def owned(document: dict[str, object], kind: str, name: str) -> dict[str, object]:
    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    owners = [{"kind": kind, "name": name, "controller": True, "apiVersion": "v1", "uid": "u"}]
    return {**document, "metadata": {**metadata, "ownerReferences": owners}}


def real_pod(name: str, labels: dict[str, str] | None = None) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "x", "labels": labels or {}},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }


def policy(spec: object = None, name: str = "agent-runtime-network-policy") -> dict[str, object]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": "x"},
        "spec": {"podSelector": {}} if spec is None else spec,
    }


def test_the_hash() -> None:
    assert name_hash("agent-runtime") == "5f52e237"
    assert name_hash("") == "811c9dc5"
    assert len(name_hash("x")) == 8


def test_the_secure_default() -> None:
    found = network_policies(clean(load_values(template())))[POLICY]
    assert found.pods == LabelSelector(((TEMPLATE_LABEL, "5f52e237"),))
    assert found.rules[Direction.INGRESS] == (
        NetworkRule(
            peers=(
                PodPeer(
                    LabelSelector((("kubernetes.io/metadata.name", "agent-sandbox-system"),)),
                    LabelSelector((("app", "sandbox-router"),)),
                ),
            )
        ),
    )
    (egress,) = found.rules[Direction.EGRESS] or ()
    assert egress.ports is None
    assert egress.peers == (
        NetworkPeer(
            (parse_cidr("0.0.0.0/0"),),
            tuple(
                map(
                    parse_cidr,
                    ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"],
                )
            ),
        ),
        NetworkPeer((parse_cidr("::/0"),), (parse_cidr("fc00::/7"), parse_cidr("fe80::/10"))),
    )
    assert str(found.origin) == "m.yaml (derived from SandboxTemplate x/agent-runtime)"


def test_custom_rules_replace_it_whole() -> None:
    document = template(networkPolicy={"egress": [{"ports": [{"port": 443}]}]})
    found = network_policies(clean(load_values(document)))[POLICY]
    assert found.rules == ((NetworkRule(ports=(PortRange(6, 443, 443),)),), ())
    empty: list[dict[str, object]] = [{}, {"ingress": [], "egress": None}]
    for nothing in empty:
        found = network_policies(clean(load_values(template(networkPolicy=nothing))))[POLICY]
        assert found.rules == ((), ())


def test_unmanaged_has_none() -> None:
    result = clean(load_values(template(networkPolicyManagement="Unmanaged"), pool(), claim()))
    assert not network_policies(result)
    assert pods(result)["x/agent"].dns_policy == "ClusterFirst"
    result = load_values(template(networkPolicyManagement="Unmanaged", networkPolicy={}))
    assert lines(result.warnings) == [
        (
            "SandboxTemplate x/agent-runtime: spec.networkPolicy: ignored: "
            "networkPolicyManagement is Unmanaged"
        )
    ]


@pytest.mark.parametrize(
    ("spec", "dns_policy", "servers"),
    [
        ({}, "None", ["8.8.8.8", "1.1.1.1"]),
        ({"networkPolicy": {}}, "ClusterFirst", []),
        ({"networkPolicyManagement": "Managed"}, "None", ["8.8.8.8", "1.1.1.1"]),
        ({"podTemplate": {"spec": {"dnsPolicy": "ClusterFirst"}}}, "ClusterFirst", []),
        ({"podTemplate": {"spec": {"dnsPolicy": "Default"}}}, "Default", []),
    ],
)
def test_public_resolvers(spec: dict[str, Any], dns_policy: str, servers: list[str]) -> None:
    found = pods(clean(load_values(template(**spec), pool(), claim())))
    for pod in found.values():
        assert pod.dns_policy == dns_policy
        assert [format_address(server) for server in pod.nameservers] == servers


def test_claims_and_pools() -> None:
    extra: dict[str, Any] = {"additionalPodMetadata": {"labels": {"team": "t"}}}
    found = pods(clean(load_values(template(), pool(5), claim(**extra))))
    assert list(found) == ["x/agent", "x/pool-0", "x/pool-1", "x/pool-2"]
    assert found["x/agent"].labels == {
        "app": "agent",
        "team": "t",
        NAME_LABEL: name_hash("agent"),
        TEMPLATE_LABEL: "5f52e237",
    }
    assert found["x/pool-0"].labels == {
        "app": "agent",
        NAME_LABEL: name_hash("pool-0"),
        TEMPLATE_LABEL: "5f52e237",
    }
    assert str(found["x/agent"].origin) == "m.yaml (derived from SandboxClaim x/agent)"
    assert len({pod.ips for pod in found.values()}) == 4


def test_the_older_version() -> None:
    old = thing(
        "SandboxClaim",
        "agent",
        {"sandboxTemplateRef": {"name": "agent-runtime"}},
        version="v1alpha1",
    )
    documents = [{**template(), "apiVersion": f"extensions.{CORE}/v1alpha1"}, old]
    result = clean(load_values(*documents))
    assert list(pods(result)) == ["x/agent"]
    assert list(network_policies(result)) == [POLICY]


def test_a_sandbox_of_its_own() -> None:
    spec = {"podTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {}}}
    (pod,) = pods(clean(load_values(thing("Sandbox", "raw", spec)))).values()
    assert pod.key == "x/raw"
    assert pod.labels == {"a": "b", NAME_LABEL: name_hash("raw")}
    assert pod.dns_policy == "ClusterFirst"
    assert pod.made_up
    for off in ({"replicas": 0}, {"operatingMode": "Suspended"}):
        assert not pods(clean(load_values(thing("Sandbox", "raw", {**spec, **off}))))


def test_a_sandbox_with_an_address() -> None:
    status = {"podIPs": ["10.0.0.7"], "nodeName": "n1"}
    document = thing("Sandbox", "raw", {"podTemplate": {"spec": {}}}, status=status)
    (pod,) = pods(clean(load_values(document))).values()
    assert pod.ips == (parse_address("10.0.0.7"),)
    assert (pod.node, pod.made_up) == ("n1", False)
    bound = claim()
    bound["status"] = {"sandbox": {"name": "pool-abc", "podIPs": ["10.0.0.8"]}}
    found = pods(clean(load_values(template(), pool(), bound)))
    assert found["x/pool-abc"].ips == (parse_address("10.0.0.8"),)
    assert found["x/pool-abc"].labels[NAME_LABEL] == name_hash("pool-abc")
    assert "x/agent" not in found


def test_real_pods_win() -> None:
    result = clean(load_values(template(), pool(0), claim(), real_pod("agent")))
    assert list(pods(result)) == ["x/agent"]
    assert not pods(result)["x/agent"].made_up
    labels = {TEMPLATE_LABEL: "5f52e237"}
    result = clean(load_values(template(), pool(2), real_pod("pool-abc", labels)))
    assert list(pods(result)) == ["x/pool-abc"]
    result = clean(
        load_values(template(), pool(2), owned(real_pod("z"), "SandboxWarmPool", "pool"))
    )
    assert list(pods(result)) == ["x/z"]
    sandbox = thing("Sandbox", "raw", {"podTemplate": {"spec": {}}})
    result = clean(load_values(sandbox, owned(real_pod("adopted"), "Sandbox", "raw")))
    assert list(pods(result)) == ["x/adopted"]


def test_sandboxes_in_the_input_stand_for_their_owners() -> None:
    spec = {"podTemplate": {"metadata": {"labels": {"app": "agent"}}, "spec": {}}}
    documents = [
        template(),
        pool(2),
        claim(),
        owned(thing("Sandbox", "agent", spec), "SandboxClaim", "agent"),
        owned(thing("Sandbox", "pool-abc", spec), "SandboxWarmPool", "pool"),
    ]
    found = pods(clean(load_values(*documents)))
    assert list(found) == ["x/agent", "x/pool-abc"]
    assert all(pod.labels[TEMPLATE_LABEL] == "5f52e237" for pod in found.values())
    adopted = claim()
    adopted["status"] = {"sandbox": {"name": "pool-abc"}}
    found = pods(
        clean(load_values(template(), pool(0), adopted, thing("Sandbox", "pool-abc", spec)))
    )
    assert list(found) == ["x/pool-abc"]


def test_addresses_go_to_who_needs_them_when_a_policy_gives_way() -> None:
    """The policy stands before the pods and is not in force after all."""
    unborn = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "unborn", "namespace": "x"}}
    ours = owned(policy(), "SandboxTemplate", "agent-runtime")
    alone = pods(load_values(unborn))["x/unborn"].ips
    for documents in (
        [ours, unborn, real_pod("p")],
        [unborn, ours],
        [ours, real_pod("p"), unborn],
    ):
        found = load_values(template(), *documents)
        assert not found.problems
        assert pods(found)["x/unborn"].ips == alone
        real = pods(found).get("x/p")
        assert real is None or [format_address(ip) for ip in real.ips] == ["10.0.0.1"]


def test_a_policy_that_the_template_does_not_control() -> None:
    result = load_values(template(), policy())
    assert lines(result.warnings) == [
        (
            "SandboxTemplate x/agent-runtime: NetworkPolicy agent-runtime-network-policy is not "
            "controlled by the template and is left alone: "
            "the template's own rules are in force nowhere"
        )
    ]
    assert network_policies(result)[POLICY].origin.derived_from == ""
    other = owned(policy(), "SandboxTemplate", "another")
    assert len(load_values(template(), other).warnings) == 1
    unmanaged = template(networkPolicyManagement="Unmanaged")
    clean(load_values(unmanaged, policy()))


def test_the_derived_policy_in_the_input_is_the_one_in_force() -> None:
    custom = template(networkPolicy={"ingress": [{}], "egress": []})
    same = {
        "podSelector": {"matchLabels": {TEMPLATE_LABEL: "5f52e237"}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{}],
    }
    result = clean(load_values(custom, owned(policy(same), "SandboxTemplate", "agent-runtime")))
    assert list(network_policies(result)) == [POLICY]
    assert network_policies(result)[POLICY].origin.derived_from == ""
    assert result.controllers == {POLICY: "SandboxTemplate agent-runtime"}
    stale = {**same, "ingress": []}
    result = load_values(custom, owned(policy(stale), "SandboxTemplate", "agent-runtime"))
    assert network_policies(result)[POLICY].rules[Direction.INGRESS] != ()
    (warning,) = lines(result.warnings)
    assert "differs from what the template says; the template's is judged" in warning
    unmanaged = template(networkPolicyManagement="Unmanaged")
    result = load_values(unmanaged, owned(policy(same), "SandboxTemplate", "agent-runtime"))
    assert list(network_policies(result)) == []
    (warning,) = lines(result.warnings)
    assert "is still there: judged without it, as the controller deletes it" in warning


@pytest.mark.parametrize(
    ("documents", "what"),
    [
        (
            [template(), claim()],
            "SandboxClaim x/agent: SandboxWarmPool pool is not in the input: no pod stands for",
        ),
        (
            [pool(), claim()],
            "SandboxClaim x/agent: SandboxTemplate agent-runtime is not in the input: no pod",
        ),
        (
            [
                thing(
                    "SandboxClaim", "c", {"sandboxTemplateRef": {"name": "t"}}, version="v1alpha1"
                )
            ],
            "SandboxClaim x/c: SandboxTemplate t is not in the input: no pod stands for the claim",
        ),
        (
            [pool()],
            "SandboxWarmPool x/pool: SandboxTemplate agent-runtime is not in the input: no pod",
        ),
    ],
)
def test_what_is_missing_is_said(documents: list[dict[str, object]], what: str) -> None:
    result = load_values(*documents)
    assert not result.problems
    assert not pods(result)
    assert lines(result.warnings)[0].startswith(what)


def test_fields_of_a_template_that_are_slips() -> None:
    result = load_values(template(networkPolicies={}, networkPolicy={"ingres": []}))
    assert lines(result.warnings) == [
        (
            "SandboxTemplate x/agent-runtime: spec.networkPolicies: unknown field, it is ignored; "
            "known: envVarsInjectionPolicy, networkPolicy, networkPolicyManagement, podTemplate, "
            "service, volumeClaimTemplates"
        ),
        (
            "SandboxTemplate x/agent-runtime: spec.networkPolicy.ingres: unknown field, it is "
            "ignored; did you mean 'ingress'?"
        ),
    ]


@pytest.mark.parametrize(
    ("document", "what"),
    [
        (
            template(networkPolicyManagement="managed"),
            "spec.networkPolicyManagement: found 'man",
        ),
        (
            template(networkPolicyManagement=True),
            "spec.networkPolicyManagement: found true",
        ),
        (template(networkPolicy=[]), "spec.networkPolicy: found a list, expected an object"),
        (
            template(networkPolicy={"egress": [{"ports": [{"port": 0}]}]}),
            "spec.networkPolicy.egress[0].ports[0].port: found the number 0, expected a number",
        ),
        (template(podTemplate=None), "spec.podTemplate: missing, expected a pod template"),
        (template(podTemplate={"spec": []}), "spec.podTemplate.spec: found a list, expected an o"),
        (
            template(podTemplate={"metadata": {"labels": {"a": 1}}}),
            "spec.podTemplate.metadata.labels[a]: found the number 1, expected text",
        ),
        ({**template(), "spec": None}, "spec: missing, expected an object with a podTemplate"),
        (pool(-1), "spec.replicas: found -1, expected 0 or more"),
        (
            thing("SandboxWarmPool", "p", {"sandboxTemplateRef": {"name": "t"}}),
            "spec.replicas: missing, expected 0 or more",
        ),
        (
            thing("SandboxWarmPool", "p", {"replicas": 1}),
            "spec.sandboxTemplateRef.name: missing, expected a SandboxTemplate's name",
        ),
        (
            thing("SandboxWarmPool", "p", {"replicas": 1, "sandboxTemplateRef": {"name": "T"}}),
            "spec.sandboxTemplateRef.name: found 'T', expected a DNS name",
        ),
        (thing("SandboxClaim", "c", {}), "spec.warmPoolRef.name: missing, expected a SandboxWarm"),
        (
            claim(additionalPodMetadata={"labels": {"a": "b c"}}),
            "spec.additionalPodMetadata.",
        ),
        (thing("Sandbox", "s", {}), "spec.podTemplate: missing, expected a pod template"),
        (thing("Sandbox", "s", None), "spec: missing, expected a pod template"),
        (
            thing("Sandbox", "s", {"podTemplate": {}, "replicas": 2}),
            "spec.replicas: found 2, expected 0 or 1",
        ),
        (
            thing("Sandbox", "s", {"podTemplate": {}, "operatingMode": "Off"}),
            "spec.operatingMode: found 'Off', expected Running or Suspended",
        ),
        (
            thing("Sandbox", "s", {"podTemplate": {}}, status={"podIPs": ["x"]}),
            "status.podIPs[0]: found 'x', expected an IP address",
        ),
    ],
)
def test_bad_documents(document: dict[str, object], what: str) -> None:
    for result in (load_values(document), load_raw(document)):
        assert not result.objects
        (found,) = lines(result.problems)
        assert found.partition(": ")[2].startswith(what)


def test_the_public_example() -> None:
    """Two tenants: the secure default, and custom rules that keep its carve-outs."""
    result = clean(
        load_text("""
        apiVersion: extensions.agents.x-k8s.io/v1beta1
        kind: SandboxTemplate
        metadata: {name: agent-runtime, namespace: sandbox-team-a}
        spec: {podTemplate: {spec: {containers: [{name: agent, image: "python:3.12-slim"}]}}}
        ---
        apiVersion: extensions.agents.x-k8s.io/v1beta1
        kind: SandboxTemplate
        metadata: {name: agent-runtime, namespace: sandbox-team-b}
        spec:
          podTemplate: {spec: {containers: [{name: agent, image: "python:3.12-slim"}]}}
          networkPolicyManagement: Managed
          networkPolicy:
            egress:
            - to:
              - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shared-tools}}
              ports: [{port: 8080}]
        """)
    )
    found = network_policies(result)
    assert set(found) == {
        "sandbox-team-a/agent-runtime-network-policy",
        "sandbox-team-b/agent-runtime-network-policy",
    }
    assert len({policy.pods for policy in found.values()}) == 1
