"""Whatever is done to a good document, loading answers; any text is read or refused."""

import string
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import msgspec
import yaml
from helpers.manifests import load_values
from hypothesis import given
from hypothesis import strategies as st

from knp_py.adapters.documents import decode_documents
from knp_py.errors import InputError
from knp_py.manifests.document import Document
from knp_py.manifests.load import LoadResult, load
from knp_py.model.objects import Origin

GOOD = """
apiVersion: v1
kind: Namespace
metadata: {name: x, labels: {team: t}}
status: {phase: Active}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {pool: one}}
spec: {podCIDR: 10.244.1.0/24, podCIDRs: [10.244.1.0/24]}
status: {addresses: [{type: InternalIP, address: 172.18.0.11}, {type: Hostname, address: n1}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: x
  uid: 0b5e0c3e
  creationTimestamp: "2026-11-29T10:00:00Z"
  labels: {app: a}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-abc, controller: true}]
spec:
  nodeName: n1
  dnsPolicy: None
  dnsConfig: {nameservers: [8.8.8.8]}
  containers: [{name: c, ports: [{name: http, containerPort: 80, protocol: TCP}]}]
  initContainers: [{name: s, restartPolicy: Always, ports: [{containerPort: 81, name: side}]}]
status:
  phase: Running
  podIP: 10.244.1.2
  podIPs: [{ip: 10.244.1.2}, {ip: "fd00::2"}]
  hostIP: 172.18.0.11
  hostIPs: [{ip: 172.18.0.11}]
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: x}
spec:
  selector: {app: a}
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1]
  externalIPs: [203.0.113.1]
  ports: [{name: http, port: 80, targetPort: http, protocol: TCP}]
status: {loadBalancer: {ingress: [{ip: 203.0.113.2}]}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: np, namespace: x, annotations: {a: b}}
spec:
  podSelector: {matchExpressions: [{key: app, operator: In, values: [a]}]}
  policyTypes: [Ingress, Egress]
  ingress:
  - from:
    - podSelector: {matchLabels: {app: b}}
      namespaceSelector: {}
    - ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}
    ports: [{protocol: UDP, port: 1, endPort: 2}, {port: http}]
  egress: [{}]
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: c}
spec:
  tier: Admin
  priority: 5
  subject: {pods: {namespaceSelector: {}, podSelector: {}}}
  ingress:
  - name: one
    action: Accept
    from: [{namespaces: {matchLabels: {team: t}}}, {pods: {podSelector: {}}}]
    protocols: [{destinationNamedPort: http}, {udp: {destinationPort: {number: 53}}}]
  egress:
  - action: Accept
    to: [{networks: [10.0.0.0/8]}, {nodes: {}}, {domainNames: ["*.example.com"]}]
    protocols: [{tcp: {destinationPort: {range: {start: 1, end: 2}}}}]
---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: a}
spec:
  priority: 5
  subject: {namespaces: {}}
  egress:
  - action: Allow
    to: [{namespaces: {}}]
    ports: [{portNumber: {port: 1, protocol: TCP}}, {namedPort: http}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: x}
spec:
  replicas: 2
  selector: {matchLabels: {app: w}}
  template: {metadata: {labels: {app: w}}, spec: {containers: []}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {name: t, namespace: x}
spec:
  podTemplate: {metadata: {labels: {a: b}}, spec: {dnsPolicy: Default}}
  networkPolicyManagement: Managed
  networkPolicy: {ingress: [{ports: [{port: 80}]}], egress: []}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {name: pool, namespace: x}
spec: {replicas: 1, sandboxTemplateRef: {name: t}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxClaim
metadata: {name: agent, namespace: x}
spec: {warmPoolRef: {name: pool}, additionalPodMetadata: {labels: {c: d}}}
status: {sandbox: {name: agent, podIPs: [10.244.1.9]}}
---
apiVersion: agents.x-k8s.io/v1beta1
kind: Sandbox
metadata: {name: raw, namespace: x}
spec: {podTemplate: {metadata: {labels: {a: b}}, spec: {}}, operatingMode: Running}
status: {podIPs: [10.244.1.8], nodeName: n1}
"""
DOCUMENTS: list[Any] = [d.value for d in decode_documents("m.yaml", GOOD.encode())]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["Ingress", "Deny", "10.0.0.0/8", "80", "a" * 300, "\n", "x y", "TCP"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every node below the root."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in inner:
        yield (*path, key)
        yield from places(item, (*path, key))


PLACES = [(number, path) for number, value in enumerate(DOCUMENTS) for path in places(value)]


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def accounted_for(result: LoadResult) -> None:
    """Every problem is a line of its own."""
    for problem in [*result.problems, *result.warnings, *result.notes]:
        line = str(problem)
        assert len(line.splitlines()) == 1, line
        line.encode()


def test_the_good_documents_are_good() -> None:
    result = load_values(*DOCUMENTS)
    assert not result.problems
    assert not result.warnings


@st.composite
def mutated(draw: st.DrawFn) -> list[Any]:
    documents = deepcopy(DOCUMENTS)
    for _ in range(draw(st.integers(1, 3))):
        number, path = draw(st.sampled_from(PLACES))
        try:
            parent = at(documents[number], path[:-1])
            match draw(st.sampled_from(["replace", "delete", "rename", "copy"])):
                case "replace":
                    parent[path[-1]] = draw(values)
                case "delete":
                    del parent[path[-1]]
                case "rename":
                    parent[draw(st.text(max_size=12))] = parent.pop(path[-1])
                case "copy":
                    other, source = draw(st.sampled_from(PLACES))
                    parent[path[-1]] = deepcopy(at(documents[other], source))
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # an earlier change took the place away
    return documents


@given(mutated())
def test_loading_never_raises(documents: list[Any]) -> None:
    accounted_for(load_values(*documents))


@given(mutated())
def test_both_ways_in_agree(documents: list[Any]) -> None:
    """JSON text, decoded by type, and the same values decoded before."""
    try:
        raw = [msgspec.json.encode(document) for document in documents]
        documents = [msgspec.json.decode(text) for text in raw]
    except (msgspec.MsgspecError, ValueError, OverflowError):
        return  # no JSON can hold it
    fast = load(Document(Origin("m.yaml"), raw=text) for text in raw)
    slow = load_values(*documents)
    accounted_for(fast)
    assert [str(p) for p in fast.problems] == [str(p) for p in slow.problems]
    assert [str(w) for w in fast.warnings] == [str(w) for w in slow.warnings]
    assert fast.objects == slow.objects


@given(values)
def test_any_value_is_answered(value: Any) -> None:
    accounted_for(load_values(value))
    accounted_for(load_values({"apiVersion": "v1", "kind": "List", "items": [value]}))
    accounted_for(load_values({"apiVersion": "v1", "kind": "Pod", "metadata": value}))


def read(data: bytes, source: str = "m.yaml") -> None:
    """Read as a file is: values, or one line."""
    try:
        documents = list(decode_documents(source, data))
    except InputError as error:
        refusal = str(error)
    else:
        accounted_for(load(documents))
        return
    assert len(refusal.splitlines()) == 1


@given(st.integers(0, len(GOOD)))
def test_every_beginning_of_a_file(end: int) -> None:
    read(GOOD[:end].encode())


@given(
    st.integers(0, len(GOOD) - 1),
    st.sampled_from([*string.printable, *"\0\x85é\ufeff", "&a ", "*a", "<<: ", "!!", "{{"]),
    st.booleans(),
)
def test_a_slip_in_a_file(position: int, slip: str, over: bool) -> None:
    read((GOOD[:position] + slip + GOOD[position + over :]).encode())


@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    read(data)
    read(data, "m.json")


@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    read(data)
    read(data, "m.json")


@given(st.integers(0, 4000), st.binary(min_size=1, max_size=3))
def test_a_slip_in_json(position: int, slip: bytes) -> None:
    text = b"\n".join(msgspec.json.encode(document) for document in DOCUMENTS)
    position %= len(text)
    read(text[:position] + slip + text[position + 1 :], "m.json")
    read(text[:position], "m.json")


yaml_text = st.text(string.ascii_letters + string.digits + " :-_./", max_size=8)
yaml_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | yaml_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(yaml_text, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(yaml_values, max_size=3))
def test_what_a_careful_writer_writes_is_read_back(found: list[Any]) -> None:
    """With every text in quotes there is nothing to disagree about, in either style."""
    flow = "".join(f"---\n{msgspec.json.encode(value).decode()}\n" for value in found)
    block = yaml.safe_dump_all(found, default_style='"', allow_unicode=True)
    for text in (flow, block):
        documents = list(decode_documents("m.yaml", f"# a comment\n{text}".encode()))
        assert [document.value for document in documents] == [v for v in found if v is not None]
