from pathlib import Path

import pytest

from knp_py.adapters.scenarios import find_scenarios, read_manifests, write_text
from knp_py.errors import InputError
from knp_py.replay.scenario_reader import read_scenario

SCENARIO = "name: x\nsteps: [{}]\n"
POD = "{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: p}}\n"


def found(*paths: Path) -> tuple[list[str], list[str], list[str]]:
    """Scenarios and ignored files by name, and problems with names only."""
    problems: list[str] = []
    result = find_scenarios(map(str, paths), problems)
    names = [str(document.origin).rpartition("/")[2] for document in result.documents]
    return names, [Path(file).name for file in result.ignored], problems


def test_directories_are_searched(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").mkdir()
    for name in ("b.yaml", "a.yml", "sub/c.yaml"):
        (tmp_path / name).write_text(SCENARIO)
    for name in (".d.yaml", ".hidden/e.yaml", "f.txt"):
        (tmp_path / name).write_text(SCENARIO)
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "workflow.yaml").write_text("apiVersion: x/v1\nkind: Flow\nsteps: []\n")
    assert found(tmp_path) == (["a.yml", "b.yaml", "c.yaml"], ["pod.yaml", "workflow.yaml"], [])


def test_a_template_that_is_no_yaml_is_ignored_unless_it_has_steps(tmp_path: Path) -> None:
    (tmp_path / "chart.yaml").write_text("{{- if .Values.x }}\nkind: Pod\n{{- end }}\n")
    (tmp_path / "s.yaml").write_text(SCENARIO)
    assert found(tmp_path) == (["s.yaml"], ["chart.yaml"], [])
    (tmp_path / "t.yaml").write_text("steps: [\n")
    names, ignored, problems = found(tmp_path)
    assert (names, ignored) == (["s.yaml"], ["chart.yaml"])
    assert problems[0].startswith(f"{tmp_path}/t.yaml:2:1: ")


def test_each_file_once(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(SCENARIO)
    assert found(file, tmp_path, file) == (["s.yaml"], [], [])


def test_several_scenarios_in_one_file(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"{SCENARIO}---\n{SCENARIO}")
    assert found(file) == (["s.yaml document 1", "s.yaml document 2"], [], [])


def test_a_scenario_may_be_json(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text('{"steps": [{}]}')
    assert found(file) == (["s.json"], [], [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (POD, "no scenario: expected an object with steps"),
        ("", "no scenario: expected an object with steps"),
        (f"{SCENARIO}---\n{POD}", " document 2: no scenario: expected an object with steps"),
        ("[1\n", "did not find expected"),
    ],
)
def test_a_file_given_by_name_must_be_one(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    _, _, problems = found(file)
    assert len(problems) == 1
    assert problems[0].startswith(str(file))
    assert problem in problems[0]


def test_files_and_directories_without_scenarios(tmp_path: Path) -> None:
    _, _, problems = found(tmp_path / "none.yaml", tmp_path)
    assert problems == [f"{tmp_path}/none.yaml: no such file or directory"]
    _, _, problems = found(tmp_path)
    assert problems == [f"{tmp_path}: no scenario below it: no *.yaml file with steps"]


def test_manifests_are_relative_to_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "tests" / "bad.yaml").write_text("{")
    file = tmp_path / "tests" / "s.yaml"
    file.write_text(
        "manifests: ../pod.yaml\nsteps: [{apply: [../pod.yaml, bad.yaml]}, {delete: nope/}]\n"
    )
    scenario, _ = read_scenario(find_scenarios([str(file)], []).documents[0])
    assert scenario is not None
    problems: list[str] = []
    documents = read_manifests(scenario, problems)
    assert [str(each.origin) for each in documents["../pod.yaml"]] == [f"{tmp_path}/pod.yaml"]
    assert documents["nope/"] == []
    assert problems[0].startswith(f"{file}: steps[0].apply[1]: {tmp_path}/tests/bad.yaml:")
    assert problems[1:] == [
        f"{file}: steps[1].delete[0]: {tmp_path}/tests/nope: no such file or directory"
    ]


def test_write_text(tmp_path: Path) -> None:
    write_text(str(tmp_path / "out.xml"), "ä\n")
    assert (tmp_path / "out.xml").read_bytes() == "ä\n".encode()
    with pytest.raises(InputError, match="no such file or directory"):
        write_text(str(tmp_path / "no" / "out.xml"), "")
