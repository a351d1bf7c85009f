import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from helpers.command import knp, run_knp
from helpers.scenarios import CLUSTER, DENY_ALL

MET = "{from: a/client, connect: a/server, port: 8080, verdict: allow}"
UNMET = "{from: a/client, connect: a/server, port: 8080, verdict: deny, name: shut}"
ERROR = "{from: a/nobody, connect: a/server, verdict: deny}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    return tmp_path


def scenario(folder: Path, *expectations: str, name: str = "s.yaml") -> str:
    path = folder / name
    path.write_text(
        f"name: {path.stem}\nmanifests: cluster.yaml\n"
        f"steps: [{{name: only, expect: [{', '.join(expectations)}]}}]\n"
    )
    return str(path)


def test_all_met(folder: Path) -> None:
    path = scenario(folder, MET)
    ended = knp("test", path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        f"s ({path})",
        "only",
        "ok    allow    a/client → a/server:8080",
        "               default: no policy decided",
        "",
        "1 of 1 expectations met in 1 scenario",
    ]


def test_a_scenarios_title_fits_100_columns(folder: Path) -> None:
    path = scenario(folder, MET)
    title = "the checkout front end reaches the payment gateway and nothing else at all"
    Path(path).write_text(Path(path).read_text().replace("name: s\n", f"name: {title}\n"))
    out = knp("test", path).out
    assert f"{title} ({path})" in " ".join(out.split())
    assert max(len(line) for line in out.splitlines() if path not in line) <= 100
    assert len(out.splitlines()[0]) <= 100


def test_what_is_not_met_says_why(folder: Path) -> None:
    ended = knp("test", scenario(folder, MET, UNMET))
    assert (ended.code, ended.err) == (1, "")
    lines = ended.out.splitlines()
    assert lines[4:9] == [
        "FAIL  allow    a/client → a/server:8080",
        "               default: no policy decided",
        "               shut",
        "               expected deny, got allow: default: no policy decided",
        "               considered for egress of a/client:",
    ]
    assert lines[-1] == "1 of 2 expectations met, 1 not met in 1 scenario"


def test_what_nobody_can_tell_is_exit_2_and_the_rest_is_answered(folder: Path) -> None:
    path = scenario(folder, ERROR, UNMET, MET)
    ended = knp("test", path)
    assert ended.code == 2
    assert ended.err == (
        f'knp: {path}: step "only": steps[0].expect[0].from:'
        " there is no pod a/nobody at this point\n"
    )
    assert ended.out.splitlines()[-1] == (
        "1 of 3 expectations met, 1 not met, 1 error in 1 scenario"
    )


def test_bad_scenarios_are_all_told_and_none_is_run(folder: Path) -> None:
    scenario(folder, MET, name="good.yaml")
    one = scenario(folder, "{from: 3}", name="one.yaml")
    two = folder / "two.yaml"
    two.write_text("manifests: [nowhere.yaml, empty]\nsteps: [{}]\n")
    (folder / "empty").mkdir()
    ended = knp("test", str(folder))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines() == [
        (
            f'knp: {one}: step "only": steps[0].expect[0].from: found the number 3,'
            " expected text (put it in quotes)"
        ),
        (
            f'knp: {one}: step "only": steps[0].expect[0].connect: missing, expected a name,'
            " NAMESPACE/POD or an IP address (or else lookup)"
        ),
        (
            f'knp: {one}: step "only": steps[0].expect[0].verdict: missing,'
            " expected allow, deny or unknown"
        ),
        f"knp: {two}: manifests[0]: {folder}/nowhere.yaml: no such file or directory",
        (
            f"knp: {two}: manifests[1]: {folder}/empty: no *.yaml, *.yml, *.json file in it;"
            " name a file or a directory"
        ),
    ]


def test_a_directory_and_how_many_files_are_no_scenarios(folder: Path) -> None:
    scenario(folder, MET, name="a.yaml")
    scenario(folder, MET, name="b.yaml")
    ended = knp("test", str(folder))
    assert ended.code == 0
    assert ended.err == ""  # both scenarios name the manifests
    (folder / "stray.yaml").write_text("a: 1\n")
    ended = knp("test", str(folder))
    assert ended.err == (f"knp: ignored {folder}/stray.yaml: no steps, and no scenario names it\n")
    assert ended.out.splitlines()[-1] == "2 of 2 expectations met in 2 scenarios"


def test_json_is_one_document_a_scenario(folder: Path) -> None:
    ended = knp("test", scenario(folder, MET, UNMET), "-o", "json")
    assert ended.code == 1
    (document,) = json.loads(ended.out)
    assert document["counts"] == {"expectations": 2, "met": 1, "unmet": 1, "errors": 0}
    assert [check["met"] for check in document["checks"]] == [True, False]


def test_json_lines_are_one_expectation_each(folder: Path) -> None:
    ended = knp("test", scenario(folder, MET, ERROR), "-o", "jsonl")
    assert ended.code == 2
    met, error = map(json.loads, ended.out.splitlines())
    assert (met["scenario"], met["step"], met["verdict"]) == ("s", "only", "allow")
    assert error["error"].endswith("there is no pod a/nobody at this point")


def test_junit(folder: Path) -> None:
    report = folder / "report.xml"
    ended = knp("test", scenario(folder, MET, UNMET, ERROR), "--junit", str(report))
    assert ended.code == 2
    root = ET.fromstring(report.read_bytes())
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")


def test_a_report_that_cannot_be_written(folder: Path) -> None:
    ended = knp("test", scenario(folder, MET), "--junit", str(folder / "no" / "r.xml"))
    assert ended.code == 2
    assert ended.err == f"knp: {folder}/no/r.xml: no such file or directory\n"


def test_manifests_beside_those_of_the_scenario(folder: Path) -> None:
    path = scenario(folder, UNMET)
    ended = knp("test", path, "--manifests", "-", stdin=DENY_ALL.encode())
    assert ended.code == 0


def test_trusted_resolvers_are_checked(folder: Path) -> None:
    ended = knp("test", scenario(folder, MET), "--trusted-resolvers", "all")
    assert (ended.code, ended.out) == (2, "")


def test_names_with_control_characters_do_not_reach_the_terminal(folder: Path) -> None:
    path = folder / "s.yaml"
    path.write_text('name: "\\e[31m"\nmanifests: cluster.yaml\nsteps: [{name: "\\e[2J"}]\n')
    ended = knp("test", str(path), terminal=True)
    assert "\x1b[31m" not in ended.out
    assert "\x1b[2J" not in ended.out


def test_as_a_process(folder: Path) -> None:
    ended = run_knp("test", scenario(folder, MET))
    assert ended.code == 0
    assert "1 of 1 expectations met" in ended.out
