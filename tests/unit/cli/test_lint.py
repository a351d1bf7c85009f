import json
from pathlib import Path

import pytest
from helpers.command import knp, run_knp

from knp_py.audit.findings import CATALOGUE

POLICY = """\
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: guard}
spec:
  tier: Admin
  priority: 10
  subject: {namespaces: {}}
  egress:
    - name: everything
      action: Deny
      to: [{networks: ["0.0.0.0/0", "::/0"]}]
    - action: Accept
      to: [{networks: [192.0.2.0/24]}]
"""
CLEAN = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: shop}
spec: {podSelector: {}}
"""
INVALID = CLEAN.replace("podSelector: {}", "podSelector: {}, ingress: [{ports: [{port: 0}]}]")


@pytest.fixture
def shadowed(tmp_path: Path) -> str:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return str(path)


@pytest.fixture
def clean(tmp_path: Path) -> str:
    path = tmp_path / "clean.yaml"
    path.write_text(CLEAN)
    return str(path)


def test_findings_as_text(shadowed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(shadowed).parent)
    ended = knp("lint", "policy.yaml")
    assert ended.code == 1
    assert ended.err == ""
    assert (
        ended.out
        == """\
ClusterNetworkPolicy guard (policy.yaml)
  warning  shadowed-rule  spec.egress[1]
    never decides: spec.egress[0] 'everything' denies every flow it matches first
    fix: move it before spec.egress[0], or delete it

input
  info  no-pods
    no pods in the input: what policies and peers select was not checked
    fix: lint the workloads too, or all of `kubectl get
         pods,ns,nodes,svc,netpol,clusternetworkpolicies -A -o json`

1 warning and 1 info in 1 policy and 0 pods
"""
    )


def test_text_fits_100_columns(shadowed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = Path(shadowed).parent
    path = f"{'policies-of-the-platform/' * 2}regulated/policy.yaml"
    (directory / path).parent.mkdir(parents=True)
    guard = "egress-restrictions-for-regulated-workloads"
    (directory / path).write_text(POLICY.replace("guard", guard))
    monkeypatch.chdir(directory)
    lines = knp("lint", path).out.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[:2] == [f"ClusterNetworkPolicy {guard}", f"    ({path})"]


def test_a_fields_path_that_leaves_no_room_has_a_line_of_its_own(tmp_path: Path) -> None:
    values = ", ".join(["a"] * 10 + ["not/a/value"])
    wrong = ["{key: a, operator: Exists}"] * 10 + [f"{{key: a, operator: In, values: [{values}]}}"]
    selector = f"{{matchExpressions: [{', '.join(wrong)}]}}"
    peers = ["{podSelector: {}}"] * 10 + [f"{{namespaceSelector: {selector}}}"]
    rules = ["{}"] * 100 + [f"{{from: [{', '.join(peers)}]}}"]
    text = CLEAN.replace(
        "{podSelector: {}}", f"{{podSelector: {{}}, ingress: [{', '.join(rules)}]}}"
    )
    (tmp_path / "deep.yaml").write_text(text)
    lines = knp("lint", str(tmp_path / "deep.yaml")).out.splitlines()
    field = "spec.ingress[100].from[10].namespaceSelector.matchExpressions[10].values[10]"
    assert lines[1:3] == ["  error  invalid-object", f"    {field}"]
    assert max(len(line) for line in lines if "deep.yaml" not in line) <= 100


def test_the_catalogue_fits_100_columns() -> None:
    assert max(len(line) for line in knp("lint", "--list").out.splitlines()) <= 100


def test_a_terminal_gets_colours(shadowed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\033[33mwarning\033[0m" in knp("lint", shadowed, terminal=True).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in knp("lint", shadowed, terminal=True).out


def test_jsonl(shadowed: str) -> None:
    ended = knp("lint", shadowed, "-o", "jsonl", "--severity", "warning")
    assert ended.code == 1
    [line] = ended.out.splitlines()
    assert json.loads(line) == {
        "id": "shadowed-rule",
        "severity": "warning",
        "object": "ClusterNetworkPolicy guard",
        "file": shadowed,
        "document": None,
        "derived_from": None,
        "path": "spec.egress[1]",
        "message": "never decides: spec.egress[0] 'everything' denies every flow it matches first",
        "fix": "move it before spec.egress[0], or delete it",
    }


def test_json_is_one_document(shadowed: str, clean: str) -> None:
    found = json.loads(knp("lint", shadowed, "-o", "json").out)
    assert [finding["id"] for finding in found] == ["shadowed-rule", "no-pods"]
    assert json.loads(knp("lint", clean, "-o", "json", "--severity", "error").out) == []


def test_clean_input_is_exit_code_0(clean: str) -> None:
    ended = knp("lint", clean, "--severity", "warning")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "1 info in 1 policy and 0 pods (1 not shown)\n"
    assert knp("lint", clean, "--ignore", "no-pods").out == (
        "nothing found in 1 policy and 0 pods\n"
    )


def test_what_fails_can_be_chosen(shadowed: str, clean: str) -> None:
    assert knp("lint", clean, "--fail-on", "info").code == 1
    assert knp("lint", shadowed, "--fail-on", "error").code == 0
    # What is not shown still counts.
    assert knp("lint", shadowed, "--severity", "error").code == 1


def test_ignored_findings_do_not_fail(shadowed: str) -> None:
    assert knp("lint", shadowed, "--ignore", "shadowed-rule").code == 0


def test_an_unknown_check_is_a_usage_error(shadowed: str) -> None:
    ended = knp("lint", shadowed, "--ignore", "shadowed-rules")
    assert ended.code == 2
    assert ended.err == (
        "knp: --ignore: no check is called 'shadowed-rules', did you mean 'shadowed-rule'?\n"
    )


def test_what_the_api_server_would_reject_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "invalid.yaml"
    path.write_text(f"{INVALID}---\n{INVALID.replace('name: deny', 'name: two')}")
    ended = knp("lint", str(path), "-o", "jsonl", "--severity", "error")
    found = [json.loads(line) for line in ended.out.splitlines()]
    assert ended.code == 1
    assert [(f["id"], f["object"], f["document"]) for f in found] == [
        ("invalid-object", "NetworkPolicy shop/deny", 1),
        ("invalid-object", "NetworkPolicy shop/two", 2),
    ]


@pytest.mark.parametrize("text", ["a: [", "\0"])
def test_what_is_no_yaml_is_exit_code_2(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    ended = knp("lint", str(path))
    assert ended.code == 2
    assert ended.out == ""
    assert str(path) in ended.err


def test_a_missing_file_or_no_file_is_exit_code_2(tmp_path: Path) -> None:
    missing, empty = tmp_path / "nothing.yaml", tmp_path / "empty"
    empty.mkdir()
    then = "give a file, a directory or - for standard input"
    for path, why in (
        (missing, "no such file or directory"),
        (empty, "no *.yaml, *.yml, *.json file in it"),
    ):
        ended = knp("lint", str(path))
        assert (ended.code, ended.err) == (2, f"knp: {path}: {why}; {then}\n")
    assert knp("lint").code == 2


def test_standard_input() -> None:
    ended = knp("lint", "-", stdin=POLICY.encode())
    assert ended.code == 1
    assert "ClusterNetworkPolicy guard (-)" in ended.out


def test_list() -> None:
    out = knp("lint", "--list").out
    assert [line.split()[0] for line in out.splitlines()[1:]] == list(CATALOGUE)
    records = [json.loads(line) for line in knp("lint", "--list", "-o", "jsonl").out.splitlines()]
    assert [record["id"] for record in records] == list(CATALOGUE)


def test_the_list_has_every_severity_that_is_printed() -> None:
    records = {r["id"]: r for r in json.loads(knp("lint", "--list", "-o", "json").out)}
    assert records["names-without-dns"]["severity"] == "warning"
    assert records["names-without-dns"]["severities"] == ["warning", "info"]
    assert records["unknown-field"]["severities"] == ["error"]
    lines = {line.split()[0]: line for line in knp("lint", "--list").out.splitlines()}
    assert " warning or info " in lines["unknown-namespace"]
    assert " info " in lines["no-pods"]


def test_the_real_command(shadowed: str) -> None:
    ended = run_knp("lint", shadowed, "--severity", "warning")
    assert ended.code == 1
    assert "shadowed-rule" in ended.out
    assert ended.err == ""
