from pathlib import Path

import pytest
from helpers.scenarios import CLUSTER, decoded

from knp_py.lab.manifestdir import ManifestDir, file_of
from knp_py.manifests.document import Document
from knp_py.manifests.load import load
from knp_py.model.changes import Key
from knp_py.model.objects import Origin
from knp_py.replay.timeline import Timeline


@pytest.fixture
def place(tmp_path: Path) -> tuple[ManifestDir, Path]:
    for name in ("manifests", "scratch"):
        (tmp_path / name).mkdir()
    return ManifestDir(str(tmp_path / "manifests"), str(tmp_path / "scratch")), tmp_path


def documents(text: str = CLUSTER) -> dict[Key, Document]:
    timeline = Timeline()
    timeline.begin(decoded(text))
    return dict(timeline.documents)


def test_one_file_an_object_and_the_same_objects(place: tuple[ManifestDir, Path]) -> None:
    there, path = place
    there.put(documents())
    files = sorted(each.name for each in (path / "manifests").iterdir())
    assert files == [
        "Namespace.a.json",
        "Namespace.kube-system.json",
        "Pod.a.client.json",
        "Pod.a.public.json",
        "Pod.a.server.json",
        "Pod.kube-system.dns.json",
        "Service.a.web.json",
        "Service.kube-system.kube-dns.json",
    ]
    assert list((path / "scratch").iterdir()) == []
    read = load(
        each for file in files for each in decoded((path / "manifests" / file).read_text())
    )
    wanted = load(documents().values())
    assert len(read.objects) == len(wanted.objects)
    assert not read.problems


def test_only_what_differs_is_written_and_what_is_gone_goes(
    place: tuple[ManifestDir, Path],
) -> None:
    there, path = place
    assert there.put(documents()) is not None
    assert there.put(documents()) is None
    kept = path / "manifests" / "Namespace.a.json"
    before = kept.stat()
    fewer = documents()
    del fewer["Pod", "a", "client"]
    assert there.put(fewer) is not None
    assert kept.stat() == before
    assert not (path / "manifests" / "Pod.a.client.json").exists()


def test_a_watcher_is_woken_after_all_of_it_is_there(place: tuple[ManifestDir, Path]) -> None:
    there, path = place
    done = there.put(documents())
    assert done is not None
    last = max(each.stat().st_ctime_ns for each in (path / "manifests").iterdir())
    # The kernel's time stamps are as coarse as its ticks.
    assert last > done - 20_000_000
    before = {each.name: each.stat().st_ino for each in (path / "manifests").iterdir()}
    fewer = documents()
    del fewer["Pod", "a", "client"]
    there.put(fewer)
    after = {each.name: each.stat().st_ino for each in (path / "manifests").iterdir()}
    assert len(set(before.items()) ^ set(after.items())) == 3  # one went, one was renewed


def test_a_scenario_beside_the_manifests_is_no_object(place: tuple[ManifestDir, Path]) -> None:
    there, path = place
    value: dict[str, list[str]] = {"steps": []}
    there.put({("", "", "1"): Document(Origin("s.yaml"), value=value, optional=True)})
    assert list((path / "manifests").iterdir()) == []
    there.put({("", "", "1"): Document(Origin("s.yaml"), value=value)})
    assert [each.name for each in (path / "manifests").iterdir()] == ["1.json"]


def test_names_that_no_file_can_have() -> None:
    odd = [file_of(("Pod", "a", name)) for name in ("x/../../etc", "x_.._.._etc", "p" * 253)]
    assert len(set(odd)) == 3
    assert all("/" not in each and len(each) < 250 for each in odd)
    assert file_of(("Node", "", "n")) == "Node.n.json"
