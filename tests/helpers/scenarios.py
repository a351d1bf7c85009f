"""Scenario text in, results out, without files."""

from textwrap import dedent

from msgspec import json

from knp_py.adapters.documents import decode_documents
from knp_py.engine.resolvers import Trust
from knp_py.manifests.document import Document
from knp_py.replay.performance import Check, Result
from knp_py.replay.rehearsal import rehearse
from knp_py.replay.scenario import Scenario
from knp_py.replay.scenario_reader import read_scenario

# A cluster with a resolver, a client that asks it, one that asks a public one, and a server.
CLUSTER = """\
apiVersion: v1
kind: Namespace
metadata: {name: kube-system}
---
apiVersion: v1
kind: Pod
metadata: {namespace: kube-system, name: dns, labels: {k8s-app: kube-dns}}
spec: {dnsPolicy: Default, containers: [{name: c}]}
status: {phase: Running, podIPs: [{ip: 10.244.0.2}]}
---
apiVersion: v1
kind: Service
metadata: {namespace: kube-system, name: kube-dns}
spec:
  clusterIP: 10.96.0.10
  selector: {k8s-app: kube-dns}
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
---
apiVersion: v1
kind: Namespace
metadata: {name: a}
---
apiVersion: v1
kind: Pod
metadata: {namespace: a, name: client, labels: {app: client}}
spec: {containers: [{name: c}]}
status: {phase: Running, podIPs: [{ip: 10.244.1.6}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: a, name: public, labels: {app: public}}
spec:
  dnsPolicy: None
  dnsConfig: {nameservers: [8.8.8.8, 1.1.1.1]}
  containers: [{name: c}]
status: {phase: Running, podIPs: [{ip: 10.244.1.7}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: a, name: server, labels: {app: server}}
spec: {containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}
status: {phase: Running, podIPs: [{ip: 10.244.1.9}]}
---
apiVersion: v1
kind: Service
metadata: {namespace: a, name: web}
spec:
  clusterIP: 10.96.1.1
  selector: {app: server}
  ports: [{port: 80, targetPort: http}]
"""


def network_policy(name: str, pods: str, rules: str) -> str:
    """A NetworkPolicy of namespace a on one line of YAML; ``rules`` are fields of its spec."""
    return (
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy,"
        f" metadata: {{namespace: a, name: {name}}},"
        f" spec: {{podSelector: {{matchLabels: {{app: {pods}}}}}, {rules}}}}}"
    )


def cluster_policy(name: str, priority: int, rule: str, tier: str = "Admin") -> str:
    """A ClusterNetworkPolicy of all of namespace a, with one egress rule."""
    return (
        "{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy,"
        f" metadata: {{name: {name}}}, spec: {{tier: {tier}, priority: {priority},"
        " subject: {namespaces: {matchLabels: {kubernetes.io/metadata.name: a}}},"
        f" egress: [{rule}]}}}}"
    )


DENY_ALL = cluster_policy("deny", 100, "{action: Deny, to: [{networks: [0.0.0.0/0, '::/0']}]}")
ALLOW_DNS = cluster_policy(
    "dns",
    10,
    "{action: Accept, to: [{networks: [8.8.8.8/32, 10.244.0.2/32]}],"
    " protocols: [{udp: {destinationPort: {number: 53}}}]}",
)
ALLOW_GITHUB = cluster_policy(
    "github", 20, "{action: Accept, to: [{domainNames: [github.com, '*.github.com']}]}"
)


def decoded(text: str, source: str = "s.yaml") -> list[Document]:
    """The documents in the text, decoded also where they are JSON."""
    return [
        Document(each.origin, value=each.value if each.raw is None else json.decode(each.raw))
        for each in decode_documents(source, dedent(text).encode())
    ]


def read(text: str) -> Scenario:
    """The one scenario in the text, which has nothing wrong with it."""
    (document,) = decoded(text)
    scenario, problems = read_scenario(document)
    assert scenario is not None, [str(problem) for problem in problems]
    return scenario


def complaints(text: str) -> list[str]:
    """What is wrong with the scenario in the text, without the file's name."""
    (document,) = decoded(text)
    scenario, problems = read_scenario(document)
    assert (scenario is None) is bool(problems)
    return [str(problem).removeprefix("s.yaml: ") for problem in problems]


def act(text: str, *, trust: Trust | None = None, cluster: str = CLUSTER, **files: str) -> Result:
    """Act out the scenario in the text; ``files`` are manifests by path, dots as ``_``."""
    return rehearse(
        read(text),
        {name.replace("_", "."): decoded(body, name) for name, body in files.items()},
        trust=trust or Trust(),
        scope="pod",
        beside=decoded(cluster, "cluster.yaml"),
    )


def check(expectation: str, *, apply: str = "", head: str = "", cluster: str = CLUSTER) -> Check:
    """One expectation in a cluster, after applying objects; ``head`` are scenario fields."""
    applied = f"[{apply}]" if apply else "[]"
    text = f"{head}\nsteps:\n  - {{name: s, apply: {applied}, expect: [{expectation}]}}\n"
    result = act(text, cluster=cluster)
    assert not result.problems, [str(problem) for problem in result.problems]
    return result.checks[0]
