"""Every validation of the ClusterNetworkPolicy CRD, taken from the CRD itself.

For each constraint of the schema a document is built that is valid but for that one
place. Where semantics §4 fails closed instead, the document must load with a warning.
"""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.manifests import load_values

Schema = dict[str, Any]
Step = str | int

# Valid values where the schema alone does not give one.
SAMPLES: dict[str, Any] = {
    "key": "k",
    "operator": "Exists",
    "values": ["v"],
    "matchLabels": {"a": "b"},
    "networks": ["10.0.0.0/8"],
    "domainNames": ["example.com"],
    "destinationNamedPort": "http",
    "start": 1,
    "end": 2,
    "name": "rule",
}
# Named ports beside addresses, and names outside Accept, are rules of their own.
FAIL_CLOSED = (
    *("to[0]", "from[0]", "protocols[0]", "destinationPort", "action", "tcp", "udp", "sctp"),
)


@pytest.fixture(scope="module")
def schema(shared: Path) -> Schema:
    text = (shared / "reference/crd/clusternetworkpolicies.experimental.yaml").read_text()
    crd = yaml.safe_load(text)
    (version,) = crd["spec"]["versions"]
    found: Schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def sample(name: str, schema: Schema) -> Any:
    """A valid value of a schema."""
    if name in SAMPLES:
        return deepcopy(SAMPLES[name])
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            wanted = list(schema.get("required", []))
            if schema.get("minProperties") and not wanted:
                wanted = [next(iter(properties))]
                if name == "subject" or name in {"to", "from"}:
                    wanted = ["namespaces"]
                if name == "protocols":
                    wanted = ["tcp"]
            return {key: sample(key, properties[key]) for key in wanted}
        case "array":
            return [sample(name, schema["items"])]
        case "integer":
            return schema.get("minimum", 1)
        case _:
            return schema.get("enum", ["x"])[0]


def places(
    name: str, schema: Schema, path: tuple[Step, ...] = ()
) -> Iterator[tuple[tuple[Step, ...], Schema]]:
    """Every place of the schema, arrays at their first item."""
    yield path, schema
    for key, inner in schema.get("properties", {}).items():
        yield from places(key, inner, (*path, key))
    if schema.get("type") == "array":
        yield from places(name, schema["items"], (*path, 0))


def witness(root: Schema, path: tuple[Step, ...]) -> dict[str, Any]:
    """A valid spec in which the path is there."""
    spec: dict[str, Any] = {**sample("spec", root), "tier": "Admin"}
    value: Any = spec
    schema = root
    name = "spec"
    for step in path:
        if isinstance(step, int):
            schema = schema["items"]
            value = value[0]
            continue
        inner = schema["properties"][step]
        if schema.get("maxProperties") == 1:
            value.clear()
        if step == "values":
            value["operator"] = "In"  # the only ones that take values
        value.setdefault(step, sample(step, inner))
        value, schema, name = value[step], inner, step
    assert name
    return spec


def put(spec: dict[str, Any], path: tuple[Step, ...], bad: Any) -> dict[str, Any]:
    spec = deepcopy(spec)
    value: Any = spec
    for step in path[:-1]:
        value = value[step]
    value[path[-1]] = bad
    return spec


def violations(path: tuple[Step, ...], schema: Schema, good: Any) -> Iterator[tuple[str, Any]]:
    """Values that break one constraint of the schema each."""
    match schema.get("type"):
        case "object":
            yield from [("type", "x"), ("type", ["x"]), ("type", 1)]
            for key in schema.get("required", []):
                yield f"required {key}", {k: v for k, v in good.items() if k != key}
            if schema.get("maxProperties") == 1:
                every = {k: sample(k, s) for k, s in schema["properties"].items()}
                yield "maxProperties", every
            if schema.get("minProperties"):
                yield "minProperties", {}
        case "array":
            yield from [("type", "x"), ("type", {"a": "b"})]
            if "maxItems" in schema:
                yield "maxItems", good * (schema["maxItems"] + 1)
            if schema.get("minItems"):
                yield "minItems", []
            if schema.get("x-kubernetes-list-type") == "set":
                yield "set", good * 2
        case "integer":
            yield from [("type", "1"), ("type", 1.5), ("type", True), ("type", [1])]
            if "minimum" in schema:
                yield "minimum", schema["minimum"] - 1
            if "maximum" in schema:
                yield "maximum", schema["maximum"] + 1
        case "string":
            yield from [("type", 1), ("type", True), ("type", {})]
            if "maxLength" in schema:
                yield "maxLength", "x" * (schema["maxLength"] + 1)
            if "pattern" in schema:
                yield "pattern", "no pattern!"
            if "enum" in schema:
                yield "enum", "x"
            if "isCIDR" in str(schema.get("x-kubernetes-validations")):
                yield "isCIDR", "10.0.0.0/99"
        case _:
            raise AssertionError(f"{path}: a type this test does not know")


def load(spec: Any) -> Any:
    return load_values(
        {
            "apiVersion": "policy.networking.k8s.io/v1alpha2",
            "kind": "ClusterNetworkPolicy",
            "metadata": {"name": "c"},
            "spec": spec,
        }
    )


def text(path: tuple[Step, ...]) -> str:
    found = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return f"spec{found}"


def test_every_field_is_known_and_every_violation_is_found(schema: Schema) -> None:
    tried = 0
    for path, inner in places("spec", schema):
        spec = witness(schema, path)
        result = load(spec)
        assert len(result.objects) == 1, (path, [str(p) for p in result.problems])
        assert not result.warnings, (path, [str(w) for w in result.warnings])
        good: Any = spec
        for step in path:
            good = good[step]
        for constraint, bad in violations(path, inner, good):
            changed = put(spec, path, bad) if path else bad
            result = load(changed)
            tried += 1
            where = text(path)
            if constraint in {"minProperties", "enum"} and where.endswith(FAIL_CLOSED):
                assert result.objects, (where, constraint)
                assert len(result.warnings) == 1, (where, constraint, result.warnings)
                assert result.warnings[0].path.startswith(where)
                continue
            assert not result.objects, (where, constraint, bad)
            assert any(p.path.startswith(where) for p in result.problems), (
                where,
                constraint,
                [str(p) for p in result.problems],
            )
    assert tried > 300


def test_the_written_rules_of_the_crd_are_those_tested_by_hand(schema: Schema) -> None:
    """``x-kubernetes-validations`` are code; a new one must get a test in test_clusterpolicy."""
    rules = {
        rule["rule"]
        for _, inner in places("spec", schema)
        for rule in inner.get("x-kubernetes-validations", [])
    }
    assert {rule.split("(")[0].split(" ")[0] for rule in rules} == {
        "self.start",
        "isCIDR",
        "!",
    }
