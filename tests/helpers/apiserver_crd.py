"""ClusterNetworkPolicy's definition, made from what its API says, and what a server does by it.

``definition`` is a CustomResourceDefinition that a real server takes; ``Schema`` prunes and
validates as such a server would (without the CEL rules). The standard channel knows no
``nodes`` and no ``domainNames``: they are pruned, and a peer that held nothing else is refused
for being empty.
"""

from dataclasses import dataclass
from typing import Any, Literal

from helpers.apiserver_types import CNP_GROUP, Doc

Channel = Literal["standard", "experimental"]
CLUSTER_POLICY_CRD = f"clusternetworkpolicies.{CNP_GROUP}"


def _object(fields: dict[str, Doc], *required: str, least: int = 0, most: int = 0) -> Doc:
    made: Doc = {"type": "object", "properties": fields}
    if required:
        made["required"] = list(required)
    if least:
        made["minProperties"] = least
    if most:
        made["maxProperties"] = most
    return made


def _array(items: Doc, least: int = 0, most: int = 0, kind: str = "") -> Doc:
    made: Doc = {"type": "array", "items": items}
    if least:
        made["minItems"] = least
    if most:
        made["maxItems"] = most
    if kind:
        made["x-kubernetes-list-type"] = kind
    return made


def _text(*words: str) -> Doc:
    return {"type": "string", "enum": list(words)} if words else {"type": "string"}


def _number(lowest: int, highest: int) -> Doc:
    return {"type": "integer", "format": "int32", "minimum": lowest, "maximum": highest}


def _selector() -> Doc:
    fields = {"key": _text(), "operator": _text(), "values": _array(_text(), kind="atomic")}
    made = _object(
        {
            "matchLabels": {"type": "object", "additionalProperties": _text()},
            "matchExpressions": _array(_object(fields, "key", "operator"), kind="atomic"),
        }
    )
    return made | {"x-kubernetes-map-type": "atomic"}


def _pod_peer() -> dict[str, Doc]:
    both = {"namespaceSelector": _selector(), "podSelector": _selector()}
    return {"namespaces": _selector(), "pods": _object(both, "podSelector")}


def _protocols() -> Doc:
    number = _number(1, 65535)
    span = _object({"start": number, "end": number}, "start", "end")
    port = _object({"number": number, "range": span}, least=1, most=1)
    one = _object({"destinationPort": port}, least=1)
    fields = {"tcp": one, "udp": one, "sctp": one, "destinationNamedPort": _text()}
    return _array(_object(fields, least=1, most=1), 1, 25)


def _rules(side: str, peers: dict[str, Doc]) -> Doc:
    fields = {
        "name": _text(),
        "action": _text("Accept", "Deny", "Pass"),
        "protocols": _protocols(),
        side: _array(_object(peers, least=1, most=1), 1, 25),
    }
    return _array(_object(fields, "action", side), 0, 25)


def _schema(channel: Channel) -> Doc:
    strings = _array(_text(), 1, 25, "set")
    to = _pod_peer() | {"networks": strings}
    if channel == "experimental":
        to |= {"nodes": _selector(), "domainNames": strings}
    condition = {
        "type": _text(),
        "status": _text("True", "False", "Unknown"),
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "reason": _text(),
        "message": _text(),
    }
    needed = ("lastTransitionTime", "message", "reason", "status", "type")
    conditions = _array(_object(condition, *needed), kind="map")
    conditions["x-kubernetes-list-map-keys"] = ["type"]
    spec = {
        "tier": _text("Admin", "Baseline"),
        "priority": _number(0, 1000),
        "subject": _object(_pod_peer(), least=1, most=1),
        "ingress": _rules("from", _pod_peer()),
        "egress": _rules("to", to),
    }
    fields = {
        "apiVersion": _text(),
        "kind": _text(),
        "metadata": {"type": "object"},
        "spec": _object(spec, "priority", "subject", "tier"),
        "status": _object({"conditions": conditions}, "conditions"),
    }
    return _object(fields, "metadata", "spec")


def definition(channel: Channel) -> Doc:
    """The CustomResourceDefinition."""
    plural = CLUSTER_POLICY_CRD.partition(".")[0]
    names = {
        "kind": "ClusterNetworkPolicy",
        "listKind": "ClusterNetworkPolicyList",
        "plural": plural,
        "singular": "clusternetworkpolicy",
        "shortNames": ["cnp"],
    }
    version = {
        "name": "v1alpha2",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": _schema(channel)},
    }
    annotations = {
        # without it a real server refuses a group of its own that was not reviewed
        "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/network-policy-api",
        "policy.networking.k8s.io/channel": channel,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CLUSTER_POLICY_CRD, "annotations": annotations},
        "spec": {
            "group": CNP_GROUP,
            "scope": "Cluster",
            "names": names,
            "versions": [version],
        },
    }


@dataclass(frozen=True)
class Schema:
    """What a server knows of one version of a custom resource."""

    schema: Doc

    def prune(self, doc: Doc) -> Doc:
        """The object without the fields that nobody knows."""
        kept: Doc = _pruned(self.schema, doc)
        kept["metadata"] = doc.get("metadata", {})
        return kept

    def problems(self, doc: Doc) -> list[tuple[str, str]]:
        """Field and message of everything that is wrong."""
        found: list[tuple[str, str]] = []
        _check(self.schema, doc, "", found)
        return found


def _pruned(schema: Doc, value: Any) -> Any:
    if isinstance(value, dict):
        if isinstance(more := schema.get("additionalProperties"), dict):
            return {key: _pruned(more, item) for key, item in value.items()}
        known = schema.get("properties", {})
        return {key: _pruned(known[key], item) for key, item in value.items() if key in known}
    if isinstance(value, list) and "items" in schema:
        return [_pruned(schema["items"], item) for item in value]
    return value


_TYPES = {"object": dict, "array": list, "string": str, "integer": int}


def _check(schema: Doc, value: Any, path: str, found: list[tuple[str, str]]) -> None:
    def say(message: str) -> None:
        found.append((path, message))

    kind = schema["type"]
    if not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
        got = type(value).__name__
        say(f'Invalid value: "{got}": {path} in body must be of type {kind}: "{got}"')
        return
    if "enum" in schema and value not in schema["enum"]:
        words = ", ".join(f'"{word}"' for word in schema["enum"])
        say(f'Unsupported value: "{value}": supported values: {words}')
    if isinstance(value, int):
        if value < (lowest := schema.get("minimum", value)):
            say(f"Invalid value: {value}: {path} in body should be at least {lowest}")
        if value > (highest := schema.get("maximum", value)):
            say(f"Invalid value: {value}: {path} in body should be at most {highest}")
    elif isinstance(value, list):
        _count(schema, len(value), "Items", path, found)
        for index, item in enumerate(value):
            _check(schema["items"], item, f"{path}[{index}]", found)
    elif isinstance(value, dict):
        _count(schema, len(value), "Properties", path, found)
        known = schema.get("properties", {})
        more = schema.get("additionalProperties")
        found.extend(
            (_under(path, key), "Required value")
            for key in schema.get("required", ())
            if key not in value
        )
        for key, item in value.items():
            if key in known or more:
                _check(known.get(key, more), item, _under(path, key), found)


def _count(schema: Doc, size: int, what: str, path: str, found: list[tuple[str, str]]) -> None:
    noun = what.lower()
    if size < (least := schema.get(f"min{what}", 0)):
        text = f"{path} in body should have at least {least} {noun}"
        found.append((path, f"Invalid value: {size}: {text}"))
    if size > (most := schema.get(f"max{what}", size)):
        found.append((path, f"Too many: {size}: must have at most {most} {noun}"))


def _under(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
