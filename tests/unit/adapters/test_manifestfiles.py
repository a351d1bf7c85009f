"""Real files, looked at, read and followed."""

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from knp_py.adapters import manifestfiles
from knp_py.adapters.manifestfiles import ManifestFiles
from knp_py.adapters.watch import Watcher
from knp_py.agent.source import Batch, ManifestSource
from knp_py.errors import InputError, ManifestError
from knp_py.manifests.listing import Listing

COMES = 5.0  # seconds, far more than anything takes
COMES_NOT = 0.05


def namespace(name: str) -> str:
    return f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"


def replace(path: Path, text: str) -> None:
    """As editors and careful programs write: another file takes its place."""
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_text(text)
    beside.rename(path)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    directory = tmp_path / "manifests"
    directory.mkdir()
    (directory / "a.yaml").write_text(namespace("a"))
    return directory


def names(listing: Listing) -> list[str]:
    return [os.path.basename(path) for path in listing.files]


# Without a watcher.


def test_what_there_is(top: Path, tmp_path: Path) -> None:
    (top / "b.yaml").symlink_to("a.yaml")
    os.mkfifo(top / "pipe.yaml")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(top / "socket.json"))
    (top / "dangling.yml").symlink_to("gone")
    given = tmp_path / "given"
    given.write_text(namespace("g"))
    (tmp_path / "none").mkdir()
    paths = [top, given, top / "a.yaml", tmp_path / "none", top / "pipe.yaml", "-"]
    listing = ManifestFiles(map(str, paths)).look()
    assert names(listing) == ["a.yaml", "given"]
    assert listing.named == {str(given)}
    assert [line.removeprefix(f"{top}/") for line in listing.unseen.values()] == [
        "dangling.yml: no such file or directory",
        "pipe.yaml: is no regular file; give --manifests files or directories",
        "standard input cannot be followed; give --manifests files or directories",
    ]
    assert [line.removeprefix(f"{top}/") for line in listing.warnings] == [
        "pipe.yaml: is no regular file and is not read",
        "socket.json: is no regular file and is not read",
    ]
    assert len(listing.barren) == 1


def test_stamps_tell_versions_apart(top: Path) -> None:
    files = ManifestFiles([str(top)])
    path = str(top / "a.yaml")
    seen = {files.look().files[path]}
    for change in (
        lambda: replace(top / "a.yaml", namespace("b")),
        lambda: (top / "a.yaml").write_text(namespace("longer")),
        lambda: os.utime(top / "a.yaml", ns=(0, 0)),
    ):
        change()
        seen.add(files.look().files[path])
    assert len(seen) == 4


def test_reading(top: Path) -> None:
    files = ManifestFiles([str(top)])
    path = str(top / "a.yaml")
    data = files.read(path)
    assert data == namespace("a").encode()
    assert [document.origin.source for document in files.decode(path, data)] == [path]
    odd = top / "odd\n.yaml"
    odd.write_text("a: [")
    with pytest.raises(InputError, match=r"odd\\n.yaml':2:1"):
        list(files.decode(str(odd), b"a: ["))


def test_what_is_not_read(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ManifestFiles([str(top)])
    (top / "sub").mkdir()
    os.mkfifo(top / "pipe.yaml")
    (top / "big.yaml").write_text("#" * 100)
    monkeypatch.setattr(manifestfiles, "LARGEST", 99)
    for name, why in (
        ("sub", "cannot be read: is a directory|is no regular file"),
        ("pipe.yaml", "is no regular file"),
        ("big.yaml", "has 100 bytes, at most 99 are read"),
    ):
        with pytest.raises(InputError, match=f"{name}: (?:{why})"):
            files.read(str(top / name))


def test_a_file_that_changes_while_it_is_read(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, calls = os.fstat, count()

    def growing(descriptor: int) -> os.stat_result:
        if next(calls) == 1:
            with (top / "a.yaml").open("a") as file:
                file.write("#")
        return status(descriptor)

    monkeypatch.setattr(os, "fstat", growing)
    files = ManifestFiles([str(top)])
    assert files.read(str(top / "a.yaml")) is None
    assert files.read(str(top / "gone.yaml")) is None


# With a watcher.


class Followed:
    """A source over real files, its watcher, and how often everything was looked at."""

    def __init__(self, *paths: Path) -> None:
        texts = [str(path) for path in paths]
        self.watcher = Watcher(texts, print)
        self.files = ManifestFiles(texts, self.watcher)
        self.source = ManifestSource(self.files, time.time_ns)
        self.first = self.source.scan()

    def after(self, names: set[str]) -> Batch:
        """What is there once these namespaces are, however many scans that takes."""
        deadline = time.monotonic() + COMES
        problems: tuple[str, ...] = ()
        while time.monotonic() < deadline:
            if self.watcher.wait(COMES):
                batch = self.source.scan()
                problems = batch.problems
                if {name for _, _, name in self.source._objects} == names:
                    return batch
        raise AssertionError(f"{names} did not come; problems: {problems}")


@pytest.fixture
def followed(top: Path) -> Iterator[Followed]:
    found = Followed(top)
    yield found
    found.watcher.close()


def test_changes_of_files_become_changes_of_objects(top: Path, followed: Followed) -> None:
    assert followed.first.objects == {"Namespace": 1}
    before = time.time_ns()
    replace(top / "a.yaml", namespace("b"))
    batch = followed.after({"b"})
    assert [change.obj.name for change in batch.changes] == ["a", "b"]
    assert batch.scan_started_ns > before
    (top / "a.yaml").write_text(namespace("c"))
    followed.after({"c"})
    (top / "sub" / "deep").mkdir(parents=True)
    (top / "sub" / "deep" / "d.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "d"}})
    )
    followed.after({"c", "d"})
    (top / "e.yaml").write_text(namespace("e"))
    followed.after({"c", "d", "e"})
    (top / "a.yaml").unlink()
    followed.after({"d", "e"})
    shutil.rmtree(top / "sub")
    followed.after({"e"})


def test_a_broken_file_and_its_recovery(top: Path, followed: Followed) -> None:
    replace(top / "a.yaml", "a: [")
    assert followed.watcher.wait(COMES)
    batch = followed.source.scan()
    assert batch.changes == []
    assert len(batch.problems) == 1
    replace(top / "a.yaml", namespace("b"))
    assert followed.after({"b"}).problems == ()


def test_the_directory_is_gone_for_a_while(top: Path, followed: Followed) -> None:
    shutil.rmtree(top)
    assert followed.watcher.wait(COMES)
    batch = followed.source.scan()
    assert batch.changes == []
    assert len(batch.problems) == 1
    top.mkdir()
    (top / "b.yaml").write_text(namespace("b"))
    assert followed.after({"b"}).problems == ()


def test_the_last_file_of_a_directory_goes(top: Path, followed: Followed) -> None:
    """Which happens to volumes, not to policies: what it held stays in force."""
    (top / "a.yaml").unlink()
    assert followed.watcher.wait(COMES)
    batch = followed.source.scan()
    assert batch.changes == []
    assert "no manifest is left" in batch.problems[0]
    (top / "b.yaml").write_text(namespace("b"))
    assert followed.after({"b"}).problems == ()


def test_a_config_map_volume(tmp_path: Path) -> None:
    top = tmp_path / "mount"
    publish(top, 1)
    followed = Followed(top)
    assert followed.first.objects == {"Namespace": 2}
    for version in (2, 3):
        publish(top, version)
        followed.after({f"a{version}", f"b{version}"})
    followed.watcher.close()


def publish(top: Path, version: int) -> None:
    """What the kubelet does: another directory, and one rename that puts it in force."""
    directory = top / f"..{version}"
    directory.mkdir(parents=True)
    for name in ("a", "b"):
        (directory / f"{name}.yaml").write_text(namespace(f"{name}{version}"))
    (top / "..data_tmp").symlink_to(directory.name)
    (top / "..data_tmp").rename(top / "..data")
    for name in ("a", "b"):
        if version == 1:
            (top / f"{name}.yaml").symlink_to(f"..data/{name}.yaml")
    shutil.rmtree(top / f"..{version - 1}", ignore_errors=True)


def test_a_file_that_is_being_written_is_left_for_later(top: Path, followed: Followed) -> None:
    (top / "b.yaml").write_text(namespace("b"))
    followed.after({"a", "b"})
    with (top / "a.yaml").open("w") as file:  # cut down to nothing, to begin with
        file.write("---\n" + namespace("c"))
        file.flush()
        replace(top / "b.yaml", namespace("d"))
        followed.after({"a", "d"})
        file.write("---\n" + namespace("e"))
    followed.after({"c", "d", "e"})


def test_only_what_changed_is_looked_at(
    top: Path, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(path: object) -> object:
        raise AssertionError(f"{path} was listed")

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", never)
        replace(top / "a.yaml", namespace("b"))
        followed.after({"b"})
        (top / "c.yaml").write_text(namespace("c"))
        followed.after({"b", "c"})
        (top / "c.yaml").unlink()
        (top / "passing.yaml").write_text("")
        (top / "passing.yaml").unlink()
        followed.after({"b"})


def test_without_events_everything_is_looked_at(top: Path, followed: Followed) -> None:
    """So that a look now and then finds what no event told of."""
    assert not followed.watcher.wait(COMES_NOT)
    replace(top / "a.yaml", namespace("b"))
    followed.watcher.wait(COMES)
    followed.watcher.take()
    assert len(followed.source.scan().changes) == 2


def test_links_of_one_file_to_another(top: Path, tmp_path: Path) -> None:
    """Two paths of one file count once, and apart once they are two files."""
    os.link(top / "a.yaml", top / "b.yaml")
    (top / "c.yaml").symlink_to("a.yaml")
    followed = Followed(top, top / "a.yaml")
    assert followed.first.objects == {"Namespace": 1}
    replace(top / "a.yaml", namespace("x"))
    followed.after({"a", "x"})
    os.link(top / "a.yaml", tmp_path / "l")
    (tmp_path / "l").rename(top / "d.yaml")
    (top / "b.yaml").unlink()
    followed.after({"x"})
    followed.watcher.close()


def test_a_directory_that_links_lead_to_by_two_ways(top: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "b.yaml").write_text(namespace("b"))
    (top / "sub").mkdir()
    for link in (top / "z", top / "sub" / "y"):
        link.symlink_to(elsewhere)
    followed = Followed(top)
    for name in ("c", "d"):
        replace(elsewhere / "b.yaml", namespace(name))
        followed.after({"a", name})
    followed.watcher.close()


def test_the_first_scan_refuses(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone"):
        with pytest.raises(ManifestError):
            Followed(path)
