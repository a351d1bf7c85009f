"""Names that survive: what is written is read back, and nothing else ever is."""

import os
import random
import signal
import stat
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from helpers.builders import address, pod

from knp_py.adapters import namefile
from knp_py.adapters.namefile import Kept, NameFile, Opened, boot_id
from knp_py.engine.names import DomainCache, SavedName
from knp_py.errors import NotPermittedError
from knp_py.model.decision import NameGrant

BOOT = "6a1d2f3e"
SERVER = address("10.96.0.10")
ONE = SavedName("uid-1", "n1", "a.example", address("1.1.1.1"), SERVER, 300.25)
TWO = SavedName("uid-1", "", "b.example", address("2606:4700::1"), None, 250.5)
GRANTS = (
    NameGrant("*.example", "a.example", address("1.1.1.1"), SERVER, 99.0),
    NameGrant("a.example", "a.example", address("1.1.1.1"), None, 98.5),
)
SSH = (address("10.0.0.1"), address("1.1.1.1"), 6, 40112, 22)
DNS6 = (address("fd00::1"), address("2606:4700::1"), 17, 40112, 53)


def nothing(_: float) -> Iterable[SavedName | Opened]:
    return ()


def opened(directory: Path, *, boot: str = BOOT, **limits: int) -> NameFile:
    return NameFile(str(directory / "state"), "names", boot=boot, **limits)


def kept(directory: Path, now: float = 0.0, *, boot: str = BOOT, **limits: int) -> Kept:
    file = opened(directory, boot=boot, **limits)
    try:
        return file.load(now)
    finally:
        file.close(now)


@pytest.fixture
def file(tmp_path: Path) -> NameFile:
    """One that was begun with nothing."""
    made = opened(tmp_path)
    made.begin(nothing, 0.0)
    return made


def path(directory: Path) -> Path:
    return directory / "state" / "names"


def test_what_was_committed_is_read_back(file: NameFile, tmp_path: Path) -> None:
    file.add(ONE)
    file.add(TWO)
    file.add_connection(SSH, GRANTS)
    file.add_connection(DNS6, GRANTS[:1])
    assert kept(tmp_path) == Kept([], [])
    file.commit(0.0)
    assert kept(tmp_path) == Kept([ONE, TWO], [(SSH, GRANTS), (DNS6, GRANTS[:1])])
    assert file.size == path(tmp_path).stat().st_size


def test_a_commit_is_one_write_and_an_empty_one_none(
    file: NameFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[bytes] = []

    def write(_: int, data: bytes) -> int:
        writes.append(data)
        return len(data)

    monkeypatch.setattr(os, "write", write)
    file.commit(0.0)
    assert writes == []
    file.add(ONE)
    file.add(TWO)
    file.commit(0.0)
    assert len(writes) == 1
    assert writes[0].count(b"\n") == 2


def test_nothing_is_there_the_first_time(tmp_path: Path) -> None:
    assert kept(tmp_path) == Kept([], [])


def test_only_the_owner_may_look(file: NameFile, tmp_path: Path) -> None:
    assert stat.S_IMODE(path(tmp_path).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert os.listdir(tmp_path / "state") == ["names"]
    file.close(0.0)


def test_what_is_over_is_left_out_and_the_longest_life_counts(
    file: NameFile, tmp_path: Path
) -> None:
    for expires in (300.25, 310.0, 305.0):
        file.add(ONE._replace(expires=expires))
    file.add(TWO)
    file.commit(0.0)
    assert kept(tmp_path, 250.5).names == [ONE._replace(expires=310.0)]
    assert kept(tmp_path, 310.0).names == []


def test_of_a_connection_the_last_word_counts(file: NameFile, tmp_path: Path) -> None:
    file.add_connection(SSH, GRANTS)
    file.add_connection(DNS6, GRANTS)
    file.add_connection(DNS6, GRANTS[1:])
    file.add_connection(SSH, ())
    file.add_connection((1, 2, 3, 4, 5), ())
    file.commit(0.0)
    assert kept(tmp_path).connections == [(DNS6, GRANTS[1:])]


def test_a_new_agent_takes_over_what_is_alive(file: NameFile, tmp_path: Path) -> None:
    file.add(ONE)
    file.add(TWO)
    file.commit(0.0)
    names = DomainCache()
    names.set_patterns(frozenset({"*.example"}))
    second = opened(tmp_path)
    names.restore(second.load(260.0).names, 260.0)
    second.begin(names.saved, 260.0)
    assert path(tmp_path).read_bytes().count(b"\n") == 2  # the header and one name
    who = pod("x/p", "10.1.0.5", uid="uid-1")
    assert names.lookup(who, ONE.address, 300.0)
    assert not names.lookup(who, ONE.address, 300.25)  # never extended


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"root:x:0:0\n", "it holds no names"),
        (b"{}\n", "it holds no names"),
        (b"\xff\xfe\x00", "it holds no names"),
        (b'{"names": 2, "boot": "6a1d2f3e"}\n', "it is of version 2, this knp reads 1"),
        (b'{"names": 1, "boot": "another"}\n', "it is from before this boot"),
    ],
)
def test_a_file_of_no_use(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    path(tmp_path).write_bytes(content)
    path(tmp_path).chmod(0o600)
    found = kept(tmp_path)
    assert found == Kept([], [], f"{path(tmp_path)}: {reason}; names start empty")


def test_where_the_boot_is_not_known_nothing_can_be_trusted(
    file: NameFile, tmp_path: Path
) -> None:
    file.add(ONE)
    file.commit(0.0)
    assert "before this boot" in kept(tmp_path, boot="").remark


def test_damaged_lines_cost_themselves(file: NameFile, tmp_path: Path) -> None:
    file.add(ONE)
    file.commit(0.0)
    file.close(0.0)
    rubbish = [
        b"rubbish",
        b"[]",
        b'["name"]',
        b'["other","uid-1","","a.example","1",null,300]',
        b'["name","uid-1","","a.example","wrong",null,300]',
        b'["name","uid-1","","a.example","-1",null,300]',
        b'["name","uid-1","","a.example","1' + b"0" * 40 + b'",null,300]',
        b'["name","uid-1","","a.example","1",null,"300"]',
        b'["connection",["1","2",6,1,2],[["p","n","x",null,1]]]',
        b"[" * 100_000,
        b"\x00\xff",
    ]
    torn = b'["name","uid-1","n1","c.example","ffff01010101",null,300.0]'
    with path(tmp_path).open("ab") as raw:
        raw.write(b"\n".join([*rubbish, torn]))
    found = kept(tmp_path)
    assert found.names == [ONE]
    assert found.remark == f"{path(tmp_path)}: lines that cannot be read: {len(rubbish) + 1}"


def test_what_others_may_have_written_counts_for_nothing(file: NameFile, tmp_path: Path) -> None:
    file.close(0.0)
    path(tmp_path).chmod(0o620)
    assert "others may have written it" in kept(tmp_path).remark


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    target = tmp_path / "target"
    target.write_text("precious")
    for name in ("names", "names.new"):
        (tmp_path / "state" / name).symlink_to(target)
    file = opened(tmp_path)
    assert "names start empty" in file.load(0.0).remark
    file.begin(nothing, 0.0)
    file.add(ONE)
    file.commit(0.0)
    assert target.read_text() == "precious"
    assert not path(tmp_path).is_symlink()
    assert kept(tmp_path).names == [ONE]


@pytest.mark.parametrize("kind", ["fifo", "directory"])
def test_what_is_no_file(tmp_path: Path, kind: str) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    if kind == "fifo":
        os.mkfifo(path(tmp_path))
    else:
        path(tmp_path).mkdir()
    file = opened(tmp_path)
    assert "names start empty" in file.load(0.0).remark  # and it does not wait for a writer
    if kind == "directory":
        with pytest.raises(NotPermittedError, match="names: Is a directory"):
            file.begin(nothing, 0.0)


def test_a_directory_where_others_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o770)
    with pytest.raises(NotPermittedError, match="state: others may write there"):
        opened(tmp_path)


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "state").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotPermittedError, match=r"--state-dir .*: Not a directory"):
        opened(tmp_path)
    (tmp_path / "state").unlink()
    (tmp_path / "state").write_text("")
    with pytest.raises(NotPermittedError, match=r"--state-dir .*: File exists"):
        opened(tmp_path)


def test_the_file_stays_about_twice_as_large_as_what_is_alive(tmp_path: Path) -> None:
    names = DomainCache()
    file = opened(tmp_path, compact_at=4096)
    cache = DomainCache(on_learn=file.add)
    file.begin(cache.saved, 0.0)
    who = pod("x/p", "10.1.0.5", uid="uid-1")
    largest = 0
    now = 0.0
    for turn in range(3000):
        now = turn / 10
        for number in range(3):
            name = f"n{(turn * 3 + number) % 200}.example"
            cache.learn(who, name, ONE.address, ttl=60, now=now, source=SERVER)
        file.commit(now)
        largest = max(largest, file.size)
        assert file.size == path(tmp_path).stat().st_size
    one = path(tmp_path).stat().st_size / path(tmp_path).read_bytes().count(b"\n")
    assert largest < 3 * 200 * one
    found = kept(tmp_path, now)
    assert sorted(found.names) == sorted(cache.dump(now))
    assert names.restore(found.names, now) == len(cache) == 200
    assert (file.lost, found.remark) == (0, "")


def test_what_comes_during_a_compaction_is_in_both_files(tmp_path: Path) -> None:
    file = opened(tmp_path, compact_at=4096)
    cache = DomainCache(on_learn=file.add)
    who = [pod(f"x/p{n}", f"10.1.0.{n}", uid=f"uid-{n}") for n in range(10)]
    for each in who:
        for number in range(100):
            cache.learn(each, f"a{number}.example", ONE.address, ttl=300, now=0.0, source=None)
    file.begin(cache.saved, 0.0)
    seen = set()
    for number in range(3000):
        cache.learn(who[number % 10], f"b{number}.example", number, ttl=300, now=1.0, source=None)
        file.commit(1.0)
        seen.add((tmp_path / "state" / "names.new").exists())
        if number % 97 == 0:
            assert sorted(kept(tmp_path, 1.0).names) == sorted(cache.dump(1.0))
    assert seen == {True, False}


class FullDisk:
    """Stands for ``os.write`` on a disk with room for so many bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write

    def __call__(self, file: int, data: bytes) -> int:
        if not self.room:
            raise OSError(28, "No space left on device")
        written = self._write(file, data[: self.room])
        self.room -= written
        return written


def test_a_full_disk_costs_names_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = opened(tmp_path)
    cache = DomainCache(on_learn=file.add)
    file.begin(cache.saved, 0.0)
    who = pod("x/p", "10.1.0.5", uid="uid-1")

    def learn(number: int, now: float) -> None:
        cache.learn(who, f"n{number}.example", ONE.address, ttl=300, now=now, source=SERVER)
        file.commit(now)

    learn(1, 0.0)
    disk = FullDisk(20)
    monkeypatch.setattr(os, "write", disk)
    for number in (2, 3):
        learn(number, 1.0)
    assert (file.lost, file.problem) == (2, "No space left on device")
    disk.room = 1 << 20
    learn(4, 2.0)  # behind a line that was torn
    found = kept(tmp_path, 2.0)
    assert [each.name for each in found.names] == ["n1.example", "n4.example"]
    assert "cannot be read: 1" in found.remark
    learn(5, 11.0)  # after some seconds it is written anew, from memory
    learn(6, 11.0)
    found = kept(tmp_path, 11.0)
    assert sorted(found.names) == sorted(cache.dump(11.0))
    assert (len(found.names), found.remark, file.problem) == (6, "", "")


def test_a_disk_that_fills_during_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = opened(tmp_path, compact_at=256)
    cache = DomainCache(on_learn=file.add)
    file.begin(cache.saved, 0.0)
    who = pod("x/p", "10.1.0.5", uid="uid-1")
    room = FullDisk(1500)
    monkeypatch.setattr(os, "write", room)
    for number in range(100):
        cache.learn(who, f"n{number}.example", ONE.address, ttl=300, now=0.0, source=SERVER)
        file.commit(0.0)
    assert file.lost
    assert os.listdir(tmp_path / "state") == ["names"]
    room.room = 1 << 20
    for now in (20.0, 20.0, 20.0, 20.0):
        cache.learn(who, "last.example", ONE.address, ttl=300, now=now, source=SERVER)
        file.add(TWO)
        file.commit(now)
    found = kept(tmp_path, 20.0)
    assert len(found.names) == 102
    file.close(20.0)


def test_a_compaction_that_cannot_even_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = opened(tmp_path, compact_at=256)
    file.begin(nothing, 0.0)
    disk = FullDisk(1 << 20)
    monkeypatch.setattr(os, "write", disk)
    while not file.problem:
        disk.room = len(namefile._encoded(ONE)) + 10  # for a line and not for a header
        file.add(ONE)
        file.commit(0.0)
    assert (file.lost, file.problem) == (0, "No space left on device")
    assert os.listdir(tmp_path / "state") == ["names"]
    file.close(0.0)


def test_a_file_that_cannot_be_read(
    file: NameFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.close(0.0)

    def fail(*_: object) -> Kept:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(NameFile, "_read", fail)
    assert "Input/output error; names start empty" in kept(tmp_path).remark


def test_size_is_bounded(tmp_path: Path) -> None:
    file = opened(tmp_path, most=2000)
    file.begin(nothing, 0.0)
    for number in range(100):
        file.add(ONE._replace(name=f"n{number}.example"))
        file.commit(0.0)
    assert path(tmp_path).stat().st_size <= 2000
    assert file.lost > 50
    assert file.problem == "it would be larger than 2000 bytes"
    assert len(kept(tmp_path, most=2000).names) == 100 - file.lost
    assert "larger than 100 bytes" in kept(tmp_path, most=100).remark


def test_closing_writes_what_was_added_last(tmp_path: Path) -> None:
    file = opened(tmp_path, compact_at=64)
    names = [ONE._replace(name=f"n{n}.example") for n in range(1000)]
    file.begin(lambda _: names, 0.0)
    for number in range(2000):  # a compaction has begun and is not done
        file.add(ONE._replace(name=f"m{number}.example"))
    file.commit(0.0)
    assert (tmp_path / "state" / "names.new").exists()
    file.add(TWO)
    file.close(0.0)
    assert os.listdir(tmp_path / "state") == ["names"]
    assert kept(tmp_path).names[-1] == TWO


def test_no_complete_line_is_lost_to_sigkill(tmp_path: Path) -> None:
    """Killed at any moment, also amid a compaction: what was committed is there."""
    chance = random.Random(7)
    for _ in range(12):
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(read)
            _learn_for_ever(tmp_path, write)
        os.close(write)
        with os.fdopen(read, "rb") as acknowledged:
            acknowledged.read(4)
            time.sleep(chance.uniform(0.0, 0.05))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            last = len(acknowledged.read()) // 4
        found = kept(tmp_path, 0.0)
        assert found.remark in {"", f"{path(tmp_path)}: lines that cannot be read: 1"}
        have = {each.name for each in found.names}
        assert have >= {f"n{number}.example" for number in range(last + 1)}


def _learn_for_ever(directory: Path, write: int) -> None:
    try:
        file = opened(directory, compact_at=1000)
        cache = DomainCache(on_learn=file.add)
        cache.set_patterns(frozenset({"*.example"}))
        file.begin(cache.saved, 0.0)
        who = pod("x/p", "10.1.0.5", uid="uid-1")
        for number in range(4000):
            cache.learn(who, f"n{number}.example", number, ttl=300, now=0.0, source=None)
            cache.learn(who, f"n{number}.example", number, ttl=300, now=0.1, source=None)
            file.commit(0.1)
            os.write(write, b"%04d" % number)
    finally:
        os._exit(0)


def test_the_boot_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(boot_id()) == 36
    monkeypatch.setattr(namefile, "_BOOT_ID", Path("/nowhere"))
    assert boot_id() == ""
