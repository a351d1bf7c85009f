"""Files, directories and streams of manifests."""

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from knp_py.adapters.documents import (
    decode_documents,
    iter_documents,
    load_manifests,
    read_documents,
)
from knp_py.errors import InputError, ManifestError
from knp_py.manifests.load import load

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n"


def namespace(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def names(*paths: Path | str, stdin: bytes = b"") -> list[str]:
    result = load_manifests([str(path) for path in paths], stdin=io.BytesIO(stdin))
    return [getattr(obj, "name", "") for obj in result.objects]


def refusal(*paths: Path | str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        load_manifests([str(path) for path in paths])
    assert isinstance(caught.value, InputError)
    assert all(len(line.splitlines()) == 1 for line in caught.value.problems)
    return caught.value.problems


def test_a_file_a_directory_and_standard_input(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.yaml").write_text(NAMESPACE % "b")
    (tmp_path / "a.yml").write_text(NAMESPACE % "a")
    (tmp_path / "sub" / "c.json").write_text(json.dumps(namespace("c")))
    (tmp_path / "README.md").write_text("not: [a manifest")
    (tmp_path / "probes.jsonl").write_text("not a manifest")
    assert names(tmp_path) == ["a", "b", "c"]
    assert names(tmp_path / "b.yaml") == ["b"]
    assert names("-", stdin=(NAMESPACE % "s").encode()) == ["s"]
    assert names(tmp_path, "-", stdin=json.dumps(namespace("s")).encode()) == ["a", "b", "c", "s"]


def test_a_named_file_may_have_any_suffix(tmp_path: Path) -> None:
    path = tmp_path / "policy.txt"
    path.write_text(NAMESPACE % "t")
    assert names(path) == ["t"]
    path.write_text("  \n" + json.dumps(namespace("j")))
    assert names(path) == ["j"]
    path.write_text("{apiVersion: v1, kind: Namespace, metadata: {name: flow}}")
    assert names(path) == ["flow"]


def test_each_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(NAMESPACE % "a")
    (tmp_path / "link.yaml").symlink_to(path)
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "up").symlink_to("..")
    assert names(tmp_path) == ["a"]
    assert names(tmp_path, tmp_path, path) == ["a"]


def test_a_mounted_config_map_is_read_once(tmp_path: Path) -> None:
    real = tmp_path / "..2026_11_29"
    real.mkdir()
    (real / "a.yaml").write_text(NAMESPACE % "a")
    (tmp_path / "..data").symlink_to(real)
    (tmp_path / "a.yaml").symlink_to(Path("..data") / "a.yaml")
    assert names(tmp_path) == ["a"]


def test_special_files_in_a_directory_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NAMESPACE % "a")
    os.mkfifo(tmp_path / "pipe.yaml")
    assert names(tmp_path) == ["a"]


def test_what_is_not_there_is_said_with_the_next_step(tmp_path: Path) -> None:
    (missing,) = refusal(tmp_path / "nowhere.yaml")
    assert "nowhere.yaml: no such file or directory; give --manifests a file" in missing
    (empty,) = refusal(tmp_path)
    assert "no *.yaml, *.yml, *.json file in it; give --manifests" in empty
    (tmp_path / "dangling.yaml").symlink_to("gone")
    (dangling,) = refusal(tmp_path)
    assert "dangling.yaml: no such file" in dangling
    (odd,) = refusal("a\0b")
    assert "cannot be read" in odd


@pytest.fixture
def nobody() -> Iterator[None]:
    """Not root for the time of a test: root may read everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield
    os.seteuid(user)


@pytest.mark.usefixtures("nobody")
def test_what_may_not_be_read() -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory, "a.yaml")
        path.write_text(NAMESPACE % "a")
        path.chmod(0)
        assert refusal(directory) == [f"{path}: cannot be read: permission denied"]
        path.unlink()
        closed = Path(directory, "sub")
        closed.mkdir(0)
        assert refusal(directory) == [f"{closed}: cannot be read: permission denied"]


def test_empty_input_is_fine(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.json"):
        (tmp_path / name).write_text("")
    (tmp_path / "c.yaml").write_text("# nothing\n---\n---\n")
    (tmp_path / "d.json").write_text("\n \n")
    assert names(tmp_path) == []


def test_every_file_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.json").write_text('{"a": }')
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfea")
    (tmp_path / "d.yaml").write_text(NAMESPACE % "d" + "---\nkind: [\n")
    (tmp_path / "e.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: 1}\n")
    lines = refusal(tmp_path)
    assert len(lines) == 5
    assert [Path(line.split(":")[0]).name for line in lines] == [
        *("a.yaml", "b.json", "c.yaml", "d.yaml", "e.yaml"),
    ]


def test_what_was_read_before_an_error_still_comes(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(NAMESPACE % "a" + "---\nkind: [\n")
    problems: list[str] = []
    (document,) = iter_documents([str(path)], problems)
    assert document.origin.document == 1
    assert len(problems) == 1
    with pytest.raises(ManifestError):
        read_documents([str(path)])


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (gzip.compress(b"a: 1"), "m.yaml: is gzip"),
        (b"\xd4\xc3\xb2\xa1\x02\x00", "m.yaml: is a packet capture"),
        (b"\x0a\x0d\x0d\x0a\x1c\x00", "m.yaml: is a packet capture"),
        (b"a: b\nc: \xff", "m.yaml:2: byte 0xff is no UTF-8"),
        (b"a: \xc3", "m.yaml:1: byte 0xc3 is no UTF-8"),
        (b"a: \0", "m.yaml: is no text, byte 3 is NUL"),
        (b"\xff\xfea", "m.yaml: begins as utf-16 but is none"),
        (b"a: [", "m.yaml:2:1: "),
        (b"a: {{ .Values.x }}\n", "is it a Helm template?"),
        (b"a: 1\na: 2", "m.yaml:2:1: the key 'a' stands twice"),
    ],
)
def test_what_is_no_manifest_text(data: bytes, what: str) -> None:
    with pytest.raises(InputError) as caught:
        list(decode_documents("m.yaml", data))
    assert what in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b'{"a": 1,}', "m.json:1:9: "),
        (b'{"a": 1}\n{"b": ', "m.json:2:7: "),
        (b'{"a":\n  tru}', "m.json:2:4: "),
        (b"[" * 5000, "m.json: nested too deeply"),
        (b'{"a": NaN}', "m.json:1:7: "),
        (b"a: yaml", "m.json:1:1: "),
    ],
)
def test_what_is_no_json(data: bytes, what: str) -> None:
    with pytest.raises(InputError) as caught:
        list(decode_documents("m.json", data))
    assert str(caught.value).startswith(what)


def test_byte_order_marks() -> None:
    text = NAMESPACE % "ä"
    for data in (text.encode("utf-8-sig"), text.encode("utf-16"), text.encode("utf-32")):
        (document,) = decode_documents("m.yaml", data)
        assert document.value == namespace("ä")


def test_json_documents_one_after_another(tmp_path: Path) -> None:
    one, two = json.dumps(namespace("a")), json.dumps(namespace("b"), indent=2)
    path = tmp_path / "m.json"
    for text in (f"{one}\n{two}\n", f"{one}{two}", f"\n\n{one} {two}  \n"):
        path.write_text(text)
        assert names(path) == ["a", "b"]
        assert [d.origin.document for d in read_documents([str(path)])] == [1, 2]
    path.write_text(one)
    assert [d.origin.document for d in read_documents([str(path)])] == [0]


def test_many_json_documents_take_linear_time() -> None:
    """A hundred thousand documents and wide gaps: quadratic work would take minutes."""
    gap = b" " * 50
    data = (b'{"a":1}' + gap) * 100_000
    assert sum(1 for _ in decode_documents("m.json", data)) == 100_000


def test_many_yaml_documents_take_linear_time() -> None:
    data = b"---\na: [1, 2]\n" * 20_000
    assert sum(1 for _ in decode_documents("m.yaml", data)) == 20_000


def test_the_number_is_shown_only_where_there_are_several(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("kind: X\n")
    assert refusal(path) == [f"{path}: X: no apiVersion: expected a Kubernetes object"]
    path.write_text("kind: X\n---\nkind: Z\n")
    assert refusal(path) == [
        f"{path} document 1: X: no apiVersion: expected a Kubernetes object",
        f"{path} document 2: Z: no apiVersion: expected a Kubernetes object",
    ]


def test_files_that_tools_keep_beside_manifests(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NAMESPACE % "a")
    (tmp_path / "kustomization.yaml").write_text("resources: [a.yaml]\n")
    (tmp_path / "values-prod.yaml").write_text("replicas: 3\n")
    result = load_manifests([str(tmp_path)])
    assert [str(w).split("/")[-1] for w in result.warnings] == [
        "kustomization.yaml: no Kubernetes object; ignored",
        "values-prod.yaml: no Kubernetes object; ignored",
    ]
    (tmp_path / "other.yaml").write_text("replicas: 3\n")
    (line,) = refusal(tmp_path)
    assert line.endswith("other.yaml: no apiVersion and kind: expected a Kubernetes object")


def test_a_file_name_cannot_break_the_line(tmp_path: Path) -> None:
    (tmp_path / "a\nb.yaml").write_text("a: [")
    (tmp_path / os.fsdecode(b"c\xff.yaml")).write_text("a: [")
    for line in refusal(tmp_path):
        line.encode()


def test_yaml_is_imported_only_for_yaml() -> None:
    code = (
        "import sys; from knp_py.adapters.documents import decode_documents as d\n"
        "list(d('m.json', b'{}')); assert 'yaml' not in sys.modules\n"
        "list(d('m.yaml', b'a: 1')); assert 'yaml' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_scenario_beside_manifests_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text("name: x\nmanifests: pod.yaml\nsteps: []\n")
    (tmp_path / "pod.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    result = load(read_documents([str(tmp_path)]))
    assert result.problems == []
    assert len(result.objects) == 1
    assert result.warnings == []


def test_an_empty_file_asked_for_by_name_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NAMESPACE % "a")
    (tmp_path / "policies.json").write_bytes(b" \n")
    assert len(load_manifests([str(tmp_path)]).objects) == 1
    for paths, stdin in (([str(tmp_path / "policies.json")], b""), (["-"], b"\n")):
        with pytest.raises(ManifestError, match="is empty, expected YAML or JSON"):
            load_manifests(paths, stdin=io.BytesIO(stdin))
