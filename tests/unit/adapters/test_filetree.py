"""Which files count. What reading them makes of it is in test_documents."""

import os
from pathlib import Path

from knp_py.adapters.filetree import Search, reason


def found(search: Search, path: Path) -> list[str]:
    return [os.path.relpath(file.path, path) for file in search.files(str(path))]


def test_files_in_order_and_what_was_met(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.txt", ".hidden.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "z.json").touch()
    (tmp_path / "b" / "up").symlink_to("..")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.yaml").touch()
    (tmp_path / "d.yaml").symlink_to("gone")
    os.mkfifo(tmp_path / "pipe.yaml")
    os.mkfifo(tmp_path / "pipe")
    search = Search("try again")
    assert found(search, tmp_path) == ["a.yml", "b/z.json", "b.yaml"]
    assert search.unseen == {
        str(tmp_path / "d.yaml"): f"{tmp_path}/d.yaml: no such file or directory"
    }
    assert search.special == [str(tmp_path / "pipe.yaml")]
    assert search.barren == []
    assert search.reached_again


def test_a_path_is_a_file_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    (file,) = Search("").files(str(tmp_path / "x"))
    assert file.file_id == (file.status.st_dev, file.status.st_ino)


def test_what_there_is_to_say_of_a_path_ends_with_the_hint(tmp_path: Path) -> None:
    search = Search("try again")
    assert search.files(str(tmp_path / "gone")) == search.files(str(tmp_path)) == []
    assert search.unseen == {
        str(tmp_path / "gone"): f"{tmp_path}/gone: no such file or directory; try again"
    }
    assert search.barren == [f"{tmp_path}: no *.yaml, *.yml, *.json file in it; try again"]


def test_reasons() -> None:
    assert reason(PermissionError(13, "Permission denied")) == "cannot be read: permission denied"
    assert reason(FileNotFoundError(2, "x")) == "no such file or directory"
    assert reason(OSError()) == reason(ValueError("embedded null byte")) == "cannot be read"
