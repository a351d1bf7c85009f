"""What wakes the watcher, and what it knows of the files meanwhile.

Nothing here measures time: what must come is waited for generously, what must not come for a
moment only.
"""

import errno
import os
import select
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from knp_py.adapters import watch
from knp_py.adapters.inotify import ATTRIB, CREATE, OVERFLOW, Event, Inotify
from knp_py.adapters.watch import Watcher

COMES = 5.0  # seconds
COMES_NOT = 0.05


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A directory to watch, with a file in it and room around it."""
    directory = tmp_path / "manifests"
    directory.mkdir()
    (directory / "a.yaml").write_text("a: 1\n")
    return directory


class Watching:
    """A watcher that has been asked for everything already, and what it said."""

    def __init__(self, *paths: Path | str) -> None:
        self.said: list[str] = []
        self.watcher = Watcher([str(path) for path in paths], self.said.append)
        self.watcher.take()

    def woken(self) -> bool:
        """Whether it wakes now; afterwards there is nothing left to wake it."""
        woken = self.watcher.wait(COMES)
        while self.watcher.wait(COMES_NOT):
            pass
        return woken

    def sleeps(self) -> bool:
        return not self.watcher.wait(COMES_NOT)

    def touched(self) -> list[str] | None:
        """Names of the files that may have changed, None for everything."""
        paths = self.watcher.take().paths
        return None if paths is None else sorted(os.path.basename(path) for path in paths)


@pytest.fixture
def watching(top: Path) -> Iterator[Watching]:
    found = Watching(top)
    yield found
    found.watcher.close()


def replace(path: Path, text: str = "a: 2\n") -> None:
    """As editors and careful programs write: another file takes its place."""
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_text(text)
    beside.rename(path)


def test_at_first_everything_may_have_changed(top: Path) -> None:
    watcher = Watcher([str(top)], print)
    assert watcher.take().paths is None
    assert watcher.take().paths == frozenset()
    assert not watcher.polling
    watcher.close()


def test_files_that_are_written(top: Path, watching: Watching) -> None:
    assert watching.sleeps()
    path = top / "a.yaml"
    path.write_text("a: 3\n")
    assert watching.woken()
    assert watching.touched() == ["a.yaml"]
    replace(path)
    assert watching.woken()
    assert watching.touched() == ["a.yaml"]
    path.chmod(0o600)
    assert watching.woken()
    assert watching.touched() == ["a.yaml"]


def test_files_that_come_and_go(top: Path, watching: Watching) -> None:
    (top / "b.json").write_text("{}")
    assert watching.woken()
    assert watching.touched() == ["b.json"]
    (top / "b.json").rename(top / "c.yml")
    assert watching.woken()
    assert watching.touched() == ["b.json", "c.yml"]
    (top / "c.yml").unlink()
    assert watching.woken()
    assert watching.touched() == ["c.yml"]
    os.link(top / "a.yaml", top / "d.yaml")
    assert watching.woken()
    assert watching.touched() == ["d.yaml"]


def test_an_editor_that_moves_the_old_file_out_of_the_way(top: Path, watching: Watching) -> None:
    (top / "a.yaml").rename(top / "a.yaml~")
    (top / "a.yaml").write_text("a: 4\n")
    assert watching.woken()
    assert watching.touched() == ["a.yaml"]


def test_what_is_no_manifest_wakes_nobody(top: Path, watching: Watching) -> None:
    (top / "README.md").write_text("x")
    (top / ".a.yaml.swp").write_text("x")
    (top / ".git").mkdir()
    (top / "README.md").unlink()
    assert watching.sleeps()
    assert watching.touched() == []


def test_directories_below(top: Path, watching: Watching) -> None:
    (top / "x" / "y").mkdir(parents=True)
    (top / "x" / "y" / "b.yaml").write_text("b: 1\n")
    assert watching.woken()
    assert watching.touched() is None
    replace(top / "x" / "y" / "b.yaml")
    assert watching.woken()
    assert watching.touched() == ["b.yaml"]
    (top / "x").rename(top / "z")
    assert watching.woken()
    replace(top / "z" / "y" / "b.yaml")
    assert watching.woken()
    shutil.rmtree(top / "z")
    assert watching.woken()
    assert watching.touched() is None


def test_a_directory_that_comes_whole(top: Path, watching: Watching, tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "deep"
    outside.mkdir(parents=True)
    (outside / "b.yaml").write_text("b: 1\n")
    (tmp_path / "outside").rename(top / "inside")
    assert watching.woken()
    replace(top / "inside" / "deep" / "b.yaml")
    assert watching.woken()


def test_the_directory_itself_is_made_again(top: Path, watching: Watching) -> None:
    for _ in range(2):
        shutil.rmtree(top)
        assert watching.woken()
        assert watching.touched() is None
        top.mkdir()
        assert watching.woken()
        assert watching.touched() is None
        (top / "a.yaml").write_text("a: 5\n")
        assert watching.woken()
        assert watching.touched() == ["a.yaml"]


def test_the_directories_above_are_made_again(tmp_path: Path) -> None:
    top = tmp_path / "one" / "two" / "three"
    watching = Watching(top)
    assert watching.sleeps()
    top.mkdir(parents=True)
    assert watching.woken()
    (top / "a.yaml").write_text("a: 1\n")
    assert watching.woken()
    (tmp_path / "one").rename(tmp_path / "other")
    assert watching.woken()
    (tmp_path / "other" / "two" / "three" / "a.yaml").unlink()
    assert watching.sleeps(), "what is there now is not what was asked for"
    (tmp_path / "other").rename(tmp_path / "one")
    assert watching.woken()
    replace(top / "a.yaml")
    assert watching.woken()
    watching.watcher.close()


def test_a_file_given_by_its_path(top: Path) -> None:
    path = top / "a.yaml"
    watching = Watching(path)
    (top / "b.yaml").write_text("b: 1\n")
    assert watching.sleeps(), "its neighbours are nobody's business"
    path.write_text("a: 6\n")
    assert watching.woken()
    assert watching.touched() == ["a.yaml"]
    for _ in range(2):
        replace(path)
        assert watching.woken()
        assert watching.touched() is None
    path.unlink()
    assert watching.woken()
    path.write_text("a: 7\n")
    assert watching.woken()
    path.write_text("a: 8\n")
    assert watching.woken()
    watching.watcher.close()


def test_a_mounted_config_map(tmp_path: Path) -> None:
    top = tmp_path / "mount"
    publish(top, 1)
    (top / "a.yaml").symlink_to(Path("..data") / "a.yaml")
    watching = Watching(top)
    for version in (2, 3, 4):
        publish(top, version)
        assert watching.woken()
        assert watching.touched() is None
        assert (top / "a.yaml").read_text() == f"a: {version}\n"
    watching.watcher.close()


def publish(top: Path, version: int) -> None:
    """What the kubelet does: another directory, and one rename that puts it in force."""
    directory = top / f"..{version}"
    directory.mkdir(parents=True)
    (directory / "a.yaml").write_text(f"a: {version}\n")
    (top / "..data_tmp").symlink_to(directory.name)
    (top / "..data_tmp").rename(top / "..data")
    shutil.rmtree(top / f"..{version - 1}", ignore_errors=True)


def test_links_to_elsewhere(top: Path, tmp_path: Path, watching: Watching) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "b.yaml").write_text("b: 1\n")
    (top / "b.yaml").symlink_to(elsewhere / "b.yaml")
    assert watching.woken()
    assert watching.touched() is None
    (elsewhere / "b.yaml").write_text("b: 2\n")
    assert watching.woken()
    replace(elsewhere / "b.yaml")
    assert watching.woken()
    (top / "more").symlink_to(elsewhere)
    assert watching.woken()
    (elsewhere / "c.yaml").write_text("c: 1\n")
    assert watching.woken()
    (top / "more").unlink()
    (top / "b.yaml").unlink()
    assert watching.woken()
    (elsewhere / "c.yaml").write_text("c: 2\n")
    assert watching.sleeps()


def test_links_that_lead_nowhere_or_in_circles(top: Path, tmp_path: Path) -> None:
    (top / "up").symlink_to("..")
    (top / "self.yaml").symlink_to("self.yaml")
    (top / "later.yaml").symlink_to(tmp_path / "not" / "yet")
    watching = Watching(top, top / "up", "\0")
    assert watching.sleeps()
    (tmp_path / "not").mkdir()
    assert watching.woken()
    (tmp_path / "not" / "yet").write_text("a: 1\n")
    assert watching.woken()
    watching.watcher.close()


def test_a_given_path_may_be_a_link(top: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    link = tmp_path / "link"
    link.symlink_to("manifests")
    watching = Watching(link)
    (top / "b.yaml").write_text("b: 1\n")
    assert watching.woken()
    (tmp_path / "new").symlink_to("other")
    (tmp_path / "new").rename(link)
    assert watching.woken()
    (other / "b.yaml").write_text("b: 1\n")
    assert watching.woken()
    watching.watcher.close()


def test_paths_relative_to_where_we_are(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(top)
    watching = Watching(".", "../manifests/a.yaml")
    replace(top / "a.yaml")
    assert watching.woken()
    watching.watcher.close()


def whole(path: Path) -> watch.Touched:
    """The file may have changed, and nobody is writing it."""
    return watch.Touched(frozenset([str(path)]), frozenset())


def test_a_file_that_is_being_written(top: Path, watching: Watching) -> None:
    with (top / "b.yaml").open("w") as file:
        file.write("b: 1\n")
        file.flush()
        watching.watcher.wait(COMES_NOT)
        found = os.fstat(file.fileno())
        assert watching.watcher.take().unfinished == {(found.st_dev, found.st_ino)}
    assert watching.woken()
    assert watching.watcher.take() == whole(top / "b.yaml")


def test_a_file_that_is_never_closed(
    top: Path, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "HELD_OPEN", 0.1)
    with (top / "a.yaml").open("a") as file:
        file.write("b: 1\n")
        file.flush()
        assert watching.woken()
        assert watching.watcher.take() == whole(top / "a.yaml")


def test_a_file_that_is_written_and_goes(top: Path, watching: Watching) -> None:
    with (top / "b.yaml").open("w") as file:
        file.write("b: 1\n")
        file.flush()
        (top / "b.yaml").unlink()
        assert watching.woken()
        assert watching.watcher.take().unfinished == frozenset()


def test_its_descriptor_can_be_waited_for(top: Path, watching: Watching) -> None:
    poller = select.poll()
    poller.register(watching.watcher.fileno(), select.POLLIN)
    assert not poller.poll(COMES_NOT * 1000)
    replace(top / "a.yaml")
    assert poller.poll(COMES * 1000)
    assert watching.watcher.wait(0)
    assert not poller.poll(COMES_NOT * 1000)


def test_events_that_were_lost(top: Path, watching: Watching) -> None:
    watching.watcher._note(Event(-1, OVERFLOW, 0, ""))
    replace(top / "a.yaml")
    assert watching.woken()
    assert watching.touched() is None
    watching.watcher._note(Event(999, ATTRIB, 0, "a.yaml"))  # of a watch that has ended
    watching.watcher._note_file(str(top / "gone.yaml"), CREATE, 0)
    assert watching.touched() == ["gone.yaml"]


def refuse(number: int) -> NoReturn:
    raise OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.EMFILE, "fs.inotify.max_user_instances is reached"),
        (errno.ENOSYS, "inotify: Function not implemented"),
    ],
)
def test_without_inotify_it_polls_and_says_so(
    top: Path, monkeypatch: pytest.MonkeyPatch, number: int, why: str
) -> None:
    monkeypatch.setattr(watch, "POLL", 0.01)
    monkeypatch.setattr(watch, "Inotify", lambda: refuse(number))
    watching = Watching(top)
    assert watching.said == [f"{why}: manifests are looked at every 0.01 seconds instead"]
    assert watching.watcher.polling
    for _ in range(2):
        assert watching.watcher.wait(COMES)
        assert watching.touched() is None
    watching.watcher.close()


def test_when_watches_run_out_it_polls_and_says_so(
    top: Path, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "POLL", 0.01)
    monkeypatch.setattr(Inotify, "add", lambda *_: refuse(errno.ENOSPC))
    (top / "sub").mkdir()
    assert watching.watcher.wait(COMES)
    (line,) = watching.said
    assert line.startswith("fs.inotify.max_user_watches is reached")
    assert watching.watcher.polling
    assert watching.watcher.wait(COMES)
    assert watching.touched() is None


def test_every_descriptor_is_given_back(top: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        watcher = Watcher([str(top)], print)
        (top / "sub").mkdir(exist_ok=True)
        watcher.wait(COMES_NOT)
        watcher.close()
    assert len(os.listdir("/proc/self/fd")) == before
