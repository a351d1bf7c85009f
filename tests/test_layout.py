"""The shape of the tree: what lies where, and what the pure layers must not do."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "knp_py"
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.name != "__init__.py")
PURE = ("model", "wire", "manifests", "engine", "verdicts", "replay", "audit")

# Test files that are about several modules, and what.
ACROSS = {
    "engine/test_cases": "the shared cases through loader and engine",
    "engine/test_field_notes": "what users of such systems run into",
    "engine/test_fqdn_rules": "one test for each rule of names",
    "engine/test_semantics": "one test for each sentence about verdicts",
    "engine/test_terminating": "namespaces that are going",
    "verdicts/test_families": "probes between dual-stack ends",
    "manifests/test_crd": "every validation of the API's own CRD",
}


def test_no_module_is_too_long_to_read() -> None:
    longest = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in MODULES}
    assert {path: n for path, n in longest.items() if n > 600} == {}


def test_no_module_is_a_drawer() -> None:
    drawers = {"utils", "common", "helpers", "misc", "manager", "base"}
    assert [p for p in MODULES if p.stem in drawers] == []


def test_every_test_file_says_what_it_tests() -> None:
    for path in sorted((ROOT / "tests" / "unit").rglob("test_*.py")):
        place = path.relative_to(ROOT / "tests" / "unit")
        name = str(place.with_suffix(""))
        module = PACKAGE / place.parent / f"{path.stem.removeprefix('test_')}.py"
        assert module.exists() or name in ACROSS, f"{place}: no such module, and not in ACROSS"
        assert not (module.exists() and name in ACROSS), f"{place}: needs no entry in ACROSS"


@pytest.mark.parametrize("layer", PURE)
def test_pure_layers_open_and_print_nothing(layer: str) -> None:
    """Built-ins need no import, so the import contracts cannot see them."""
    refused = {"open", "input", "print", "exec", "eval", "breakpoint", "__import__"}
    for path in sorted((PACKAGE / layer).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in refused, f"{path}:{node.lineno} calls {node.func.id}"


def test_every_package_says_what_it_is_for() -> None:
    for path in sorted(PACKAGE.rglob("__init__.py")):
        assert ast.get_docstring(ast.parse(path.read_text())), path
