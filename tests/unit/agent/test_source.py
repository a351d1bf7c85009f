"""Following files: what changes, what stays as it was, and what is said."""

import pytest
from helpers.followed import MemoryFiles

from knp_py.agent.source import Batch, ManifestSource
from knp_py.errors import ManifestError
from knp_py.manifests.listing import printable
from knp_py.model.changes import Change, Verb
from knp_py.model.objects import Pod

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {}}}\n"
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: a, uid: {uid}, labels: {{app: {app}}}}}
status: {{phase: Running, podIP: {ip}}}
"""
TEMPLATE = """\
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {{namespace: a, name: t}}
spec:
  podTemplate: {{metadata: {{labels: {{app: {app}}}}}, spec: {{containers: [{{name: c}}]}}}}
"""
CLAIM = """\
apiVersion: extensions.agents.x-k8s.io/v1alpha1
kind: SandboxClaim
metadata: {namespace: a, name: agent}
spec: {sandboxTemplateRef: {name: t}}
"""


def namespace(*names: str) -> str:
    return "---\n".join(NAMESPACE.format(name) for name in names)


def pod(name: str = "p", *, app: str = "x", ip: str = "10.0.0.1", uid: str = "u1") -> str:
    return POD.format(name=name, app=app, ip=ip, uid=uid)


def begun(files: MemoryFiles) -> ManifestSource:
    """A source that has taken in what there is at first."""
    source = ManifestSource(files, files.clock)
    source.scan()
    files.later()
    return source


def told(changes: list[Change]) -> list[str]:
    """Changes as ``+Kind key``, sorted."""
    return sorted(map(_text, changes))


def _text(change: Change) -> str:
    obj = change.obj
    sign = "+" if change.verb is Verb.APPLIED else "-"
    return f"{sign}{type(obj).__name__} {getattr(obj, 'key', None) or obj.name}"


def quiet(batch: Batch) -> list[str]:
    """The changes of a scan without problems."""
    assert batch.problems == ()
    return told(batch.changes)


def test_the_first_scan_brings_everything() -> None:
    files = MemoryFiles(a=namespace("a"), b=pod())
    batch = ManifestSource(files, files.clock).scan()
    assert quiet(batch) == ["+Namespace a", "+Pod a/p"]
    assert batch.objects == {"Namespace": 1, "Pod": 1}
    assert batch.scan_started_ns == files.now


def test_the_first_scan_refuses_every_problem_there_is() -> None:
    files = MemoryFiles(a="a: [", b="kind: Pod\n---\n" + namespace("B") + "---\na: {", c=pod())
    files.write("d.yaml", pod(ip="10.0.0.2"))
    files.unreadable.add("e.yaml")
    files.write("e.yaml", namespace("e"))
    files.torn.add("f.yaml")
    files.write("f.yaml", namespace("f"))
    files.unseen["gone"] = "gone: no such file or directory"
    files.barren = ("empty: no manifests in it",)
    source = ManifestSource(files, files.clock)
    for _ in range(2):  # until one has succeeded, every scan is the first
        with pytest.raises(ManifestError) as caught:
            source.scan()
        lines = caught.value.problems
        assert [line.split(":")[0].split(" ")[0] for line in lines] == [
            *("gone", "a.yaml", "b.yaml", "b.yaml", "b.yaml", "e.yaml", "f.yaml", "d.yaml"),
            "empty",
        ]
    for path in ("a.yaml", "b.yaml", "d.yaml"):
        files.delete(path)
    files.unreadable.clear()
    files.torn.clear()
    files.unseen.clear()
    files.barren = ()
    assert quiet(source.scan()) == ["+Namespace e", "+Namespace f", "+Pod a/p"]


def test_only_what_changed_is_read() -> None:
    files = MemoryFiles(a=namespace("a"), b=pod())
    source = begun(files)
    files.read_ones.clear()
    assert quiet(source.scan()) == []
    files.write("b.yaml", pod(app="w"))
    files.later()
    assert quiet(source.scan()) == ["+Pod a/p"]
    assert quiet(source.scan()) == []
    assert files.read_ones == ["b.yaml"]


def test_what_says_the_same_is_no_change() -> None:
    files = MemoryFiles(a=namespace("a", "b"), b=pod())
    source = begun(files)
    files.write("a.yaml", "# moved\n" + namespace("x", "b", "a"))
    files.rename("b.yaml", "c.yaml")
    assert quiet(source.scan()) == ["+Namespace x"]


def test_files_that_come_and_go() -> None:
    files = MemoryFiles(a=namespace("a"))
    source = begun(files)
    files.write("b.yaml", namespace("b"))
    assert quiet(source.scan()) == ["+Namespace b"]
    files.delete("a.yaml")
    batch = source.scan()
    assert quiet(batch) == ["-Namespace a"]
    assert batch.objects == {"Namespace": 1}


def test_a_file_that_breaks_keeps_its_last_good_version() -> None:
    files = MemoryFiles(a=namespace("a", "b"))
    source = begun(files)
    for broken in (
        "a: [",
        namespace("a", "B"),
        "kind: Pod\n",
        namespace("c") + "---\n" + pod()[:40],
    ):
        files.write("a.yaml", broken)
        files.later()
        for _ in range(2):
            batch = source.scan()
            assert batch.changes == []
            assert len(batch.problems) == 1
            assert batch.problems[0].startswith("a.yaml")
            assert batch.objects == {"Namespace": 2}
    files.write("a.yaml", namespace("b", "c"))
    assert quiet(source.scan()) == ["+Namespace c", "-Namespace a"]


def test_a_new_file_that_is_broken_brings_nothing() -> None:
    files = MemoryFiles(a=namespace("a"))
    source = begun(files)
    files.write("b.yaml", "a: [")
    assert len(source.scan().problems) == 1
    files.delete("b.yaml")
    assert quiet(source.scan()) == []


def test_a_file_that_may_not_be_read_is_tried_again() -> None:
    """Its permission changes, its stamp does not."""
    files = MemoryFiles(a=namespace("a"))
    source = begun(files)
    files.unreadable.add("a.yaml")
    files.write("a.yaml", namespace("b"))
    files.later()
    batch = source.scan()
    assert batch.changes == []
    assert batch.problems == ("a.yaml: cannot be read: permission denied",)
    files.unreadable.clear()
    assert quiet(source.scan()) == ["+Namespace b", "-Namespace a"]


def test_what_cannot_be_looked_at_stays_as_it_was() -> None:
    files = MemoryFiles(z=namespace("z"))
    files.write("dir/a.yaml", namespace("a"))
    files.write("dir/sub/b.yaml", namespace("b"))
    files.write("directory.yaml", namespace("c"))
    source = begun(files)
    for unseen in ("dir", "dir/", "dir/sub", "dir/a.yaml"):
        files.unseen = {unseen: f"{unseen}: no such file or directory"}
        for _ in range(2):
            batch = source.scan()
            assert batch.changes == []
            assert batch.problems == (f"{unseen}: no such file or directory",)
    files.unseen.clear()
    files.delete("dir/a.yaml")
    assert quiet(source.scan()) == ["-Namespace a"]


def test_a_directory_without_manifests_is_said() -> None:
    files = MemoryFiles(a=namespace("a"))
    source = begun(files)
    files.delete("a.yaml")
    files.barren = ("dir: no manifests in it",)
    files.warnings = ("x: is no regular file",)
    batch = source.scan()
    assert quiet(batch) == ["-Namespace a"]
    assert batch.warnings == ("x: is no regular file", "dir: no manifests in it")


def test_a_directory_that_was_emptied_keeps_its_last_good_objects() -> None:
    """A volume that fell off looks like that, and ``rm -r *``."""
    files = MemoryFiles(z=namespace("z"))
    files.write("dir/a.yaml", namespace("a"))
    files.write("dir/sub/b.yaml", namespace("b", "c"))
    files.write("dir/good.yaml", namespace("d"))
    source = begun(files)
    files.write("dir/good.yaml", "a: [")
    files.delete("dir/a.yaml")
    assert told(source.scan().changes) == ["-Namespace a"]  # others are left
    files.delete("dir/sub/b.yaml")
    files.delete("dir/good.yaml")
    files.delete("z.yaml")  # not in it
    files.barren = ("dir: no manifests in it", "other: no manifests in it")
    for expected in (["-Namespace z"], [], []):
        batch = source.scan()
        assert told(batch.changes) == expected
        assert batch.objects == {"Namespace": 3}
        (line,) = (problem for problem in batch.problems if problem.startswith("dir: "))
        assert line.startswith("dir: no manifest is left in it; to take its objects out of force")
        assert "knp agent cleanup" in line
        assert batch.warnings == ("other: no manifests in it",)
    files.write("dir/sub/b.yaml", namespace("b"))
    files.barren = ()
    assert quiet(source.scan()) == ["-Namespace c", "-Namespace d"]


@pytest.mark.parametrize("given", ["dir", "dir/", ".", "./", "/", "/dir", "odd\n", "a: b"])
def test_an_emptied_directory_however_it_was_given(given: str) -> None:
    files = MemoryFiles()
    path = f"{given.rstrip('/')}/a.yaml"
    files.write(path, namespace("a"))
    source = begun(files)
    files.delete(path)
    line = f"{printable(given)}: no *.yaml file in it"
    files.barren = (line,)
    batch = source.scan()
    assert batch.changes == []
    assert [p.split(": no")[0] for p in batch.problems] == [printable(given)]
    assert batch.warnings == ()
    files.write(path, "# nothing on purpose\n")
    files.barren = ()
    assert quiet(source.scan()) == ["-Namespace a"]
    files.delete(path)
    files.barren = (line,)
    batch = source.scan()  # nothing was in force of it
    assert quiet(batch) == []
    assert batch.warnings == (line,)


def test_files_that_come_back_after_their_directory_was_emptied() -> None:
    files = MemoryFiles()
    files.write("dir/a.yaml", pod())
    source = begun(files)
    files.delete("dir/a.yaml")
    files.barren = ("dir: no manifests in it",)
    assert source.scan().changes == []
    files.barren = ()
    files.write("dir/a.yaml", pod(app="w"))
    assert quiet(source.scan()) == ["+Pod a/p"]


def test_a_file_that_was_cut_down_to_nothing_keeps_its_last_good_version() -> None:
    files = MemoryFiles(a=namespace("a"), b="", c="# to come\n")
    source = begun(files)
    for data in ("", " \n\n"):
        files.write("a.yaml", data)
        batch = source.scan()
        assert batch.changes == []
        assert batch.problems[0].startswith("a.yaml: is empty, expected YAML or JSON")
    files.write("a.yaml", "# nothing on purpose\n")
    assert quiet(source.scan()) == ["-Namespace a"]
    files.write("a.yaml", "")
    assert quiet(source.scan()) == []
    files.named.add("d.yaml")
    files.write("d.yaml", "")
    assert len(source.scan().problems) == 1


def test_a_file_that_somebody_is_writing_is_left_for_later() -> None:
    files = MemoryFiles(a=namespace("a"))
    source = begun(files)
    for unready in (files.unfinished, files.torn):
        files.write("a.yaml", namespace("b"))
        files.write("new.yaml", namespace("m"))
        unready |= {"a.yaml", "new.yaml"}
        files.later()
        assert quiet(source.scan()) == []
        unready.clear()
        assert quiet(source.scan()) == ["+Namespace b", "+Namespace m", "-Namespace a"]
        files.write("a.yaml", namespace("a"))
        files.delete("new.yaml")
        assert quiet(source.scan()) == ["+Namespace a", "-Namespace b", "-Namespace m"]


def test_at_first_a_file_that_somebody_is_writing_is_read_all_the_same() -> None:
    files = MemoryFiles(a=namespace("a"))
    files.unfinished.add("a.yaml")
    assert quiet(ManifestSource(files, files.clock).scan()) == ["+Namespace a"]


def test_two_writes_within_one_tick_of_the_clock() -> None:
    files = MemoryFiles(a=namespace("a"))
    source = begun(files)
    files.write("a.yaml", namespace("b"), renamed=False)
    assert quiet(source.scan()) == ["+Namespace b", "-Namespace a"]
    files.write("a.yaml", namespace("c"), renamed=False)  # the same inode, size and stamp
    assert quiet(source.scan()) == ["+Namespace c", "-Namespace b"]
    files.later()
    files.read_ones.clear()
    source.scan()
    source.scan()
    assert files.read_ones == ["a.yaml"]  # once more, then the stamp is old enough


def test_the_same_text_is_not_understood_again() -> None:
    files = MemoryFiles(a=namespace("a"), b="")
    source = begun(files)
    files.write("b.yaml", "a: [")
    assert len(source.scan().problems) == 1
    files.decoded.clear()
    files.write("a.yaml", namespace("a"))
    files.write("b.yaml", "a: [")
    assert len(source.scan().problems) == 1
    assert files.decoded == []


def test_a_pod_that_comes_back_as_another_goes_first() -> None:
    files = MemoryFiles(a=pod())
    source = begun(files)
    files.write("a.yaml", pod(uid="u2"))
    gone, come = source.scan().changes
    assert (gone.verb, come.verb) == (Verb.DELETED, Verb.APPLIED)
    assert isinstance(gone.obj, Pod)
    assert isinstance(come.obj, Pod)
    assert (gone.obj.uid, come.obj.uid) == ("u1/a/p", "u2/a/p")


def test_what_follows_from_other_files_comes_and_goes_with_them() -> None:
    files = MemoryFiles(claim=CLAIM, template=TEMPLATE.format(app="x"))
    source = begun(files)
    files.write("template.yaml", TEMPLATE.format(app="w"))
    assert quiet(source.scan()) == ["+Pod a/agent"]
    files.write("template.yaml", "a: [")
    assert source.scan().changes == []
    files.write("real.yaml", pod("agent"))
    assert told(source.scan().changes) == ["+Pod a/agent", "-Pod a/agent"]
    files.delete("real.yaml")
    files.delete("template.yaml")
    batch = source.scan()
    assert quiet(batch) == ["-NetworkPolicy a/t-network-policy", "-Pod a/agent"]
    (line,) = batch.warnings
    assert line.startswith("claim.yaml: SandboxClaim a/agent: SandboxTemplate t is not in the")


def test_warnings_are_said_as_long_as_they_hold() -> None:
    files = MemoryFiles(kustomization="resources: []\n", secret="apiVersion: v1\nkind: Secret\n")
    source = begun(files)
    for _ in range(2):
        batch = source.scan()
        assert batch.warnings == (
            "kustomization.yaml: no Kubernetes object; ignored",
            "secret.yaml: Secret: v1 kind, which policy does not depend on; ignored",
        )
    files.delete("secret.yaml")
    assert len(source.scan().warnings) == 1


# One object in two files.


def test_an_object_that_stands_twice_and_is_the_same() -> None:
    files = MemoryFiles(a=pod(), b=pod())
    source = begun(files)
    batch = source.scan()
    assert batch.warnings == ("b.yaml: Pod a/p: stands twice and is the same; first in a.yaml",)
    files.delete("a.yaml")
    batch = source.scan()
    assert quiet(batch) == []
    assert batch.warnings == ()


@pytest.mark.parametrize(("old", "new"), [("m", "n"), ("n", "m")])
def test_who_has_an_object_keeps_it(old: str, new: str) -> None:
    """Whatever the files are called."""
    files = MemoryFiles(**{old: pod()})
    source = begun(files)
    files.write(f"{new}.yaml", pod(ip="10.0.0.2") + "---\n" + namespace("x"))
    for _ in range(2):
        batch = source.scan()
        assert batch.changes == []
        assert batch.problems == (
            f"{new}.yaml document 1: Pod a/p: stands twice and differs; first in {old}.yaml",
        )
    files.delete(f"{old}.yaml")
    assert quiet(source.scan()) == ["+Namespace x", "+Pod a/p"]


@pytest.mark.parametrize(("old", "new"), [("m", "o"), ("o", "m")])
def test_who_has_an_object_may_change_it_while_another_brings_it(old: str, new: str) -> None:
    files = MemoryFiles(**{old: pod()})
    source = begun(files)
    files.write(f"{old}.yaml", pod(app="w"))
    files.write(f"{new}.yaml", pod(app="v"))
    batch = source.scan()
    assert told(batch.changes) == ["+Pod a/p"]
    assert batch.problems == (
        f"{new}.yaml: Pod a/p: stands twice and differs; first in {old}.yaml",
    )


def test_an_object_that_moves_and_changes_at_once() -> None:
    files = MemoryFiles(a=pod(), b=namespace("b"))
    source = begun(files)
    files.write("a.yaml", namespace("a"))
    files.write("b.yaml", pod(app="w") + "---\n" + namespace("b"))
    assert quiet(source.scan()) == ["+Namespace a", "+Pod a/p"]


def test_two_objects_that_change_places() -> None:
    files = MemoryFiles(a=pod("p"), b=pod("q", ip="10.0.0.2"))
    source = begun(files)
    files.write("a.yaml", pod("q", ip="10.0.0.2", app="w"))
    files.write("b.yaml", pod("p", app="w"))
    assert quiet(source.scan()) == ["+Pod a/p", "+Pod a/q"]


def test_an_object_that_moves_and_its_old_place_is_late() -> None:
    files = MemoryFiles(a=pod(), b=namespace("b"))
    source = begun(files)
    files.write("b.yaml", pod(app="w"))
    assert source.scan().changes == []
    files.write("a.yaml", namespace("a"))
    assert quiet(source.scan()) == ["+Namespace a", "+Pod a/p", "-Namespace b"]


def test_two_files_that_both_had_it_and_differ_now() -> None:
    files = MemoryFiles(a=pod(), b=pod())
    source = begun(files)
    files.write("a.yaml", pod(app="w"))
    batch = source.scan()
    assert batch.changes == []
    assert batch.problems == ("a.yaml: Pod a/p: stands twice and differs; first in b.yaml",)
    files.write("b.yaml", pod(app="z"))
    batch = source.scan()
    assert batch.changes == []
    assert len(batch.problems) == 2  # neither gives way
    files.write("b.yaml", pod(app="w"))
    assert quiet(source.scan()) == ["+Pod a/p"]


def test_who_is_held_back_may_hold_others_back() -> None:
    """``b`` takes p from nobody and gives q away; ``c`` takes q, which ``b`` still has then."""
    files = MemoryFiles(a=pod("p"), b=pod("q", ip="10.0.0.2"), c=namespace("c"))
    source = begun(files)
    files.write("b.yaml", pod("p", app="w"))
    files.write("c.yaml", pod("q", app="w"))
    batch = source.scan()
    assert batch.changes == []
    assert [problem.split(":")[0] for problem in batch.problems] == ["b.yaml", "c.yaml"]
    files.delete("a.yaml")
    assert quiet(source.scan()) == ["+Pod a/p", "+Pod a/q", "-Namespace c"]
