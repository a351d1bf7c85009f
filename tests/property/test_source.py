"""After any edits of files, good and bad: what is in force is what the good versions say.

That is, what the offline loader makes of them when it reads them all at once, with the state
of the engine that follows from the changes alone.
"""

import string
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import pytest
from helpers.followed import MemoryFiles
from hypothesis import given, settings
from hypothesis import strategies as st

from knp_py.adapters.documents import decode_documents
from knp_py.agent.source import Batch, ManifestSource
from knp_py.engine.snapshot import Snapshot
from knp_py.engine.state import ClusterState
from knp_py.errors import InputError, ManifestError
from knp_py.manifests.document import Document
from knp_py.manifests.load import LoadResult, load
from knp_py.manifests.reading import Part, PartReader
from knp_py.model.changes import Change, ClusterObject, Verb
from knp_py.model.objects import Origin

pytestmark = pytest.mark.slow
costly = settings(max_examples=settings().max_examples * 2)

# Documents of which others follow, or that follow from others, or that take names and
# addresses others would get. ``{v}`` is what edits change.
TEXTS = {
    "namespace": "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {team: t{v}}}",
    "node": """\
apiVersion: v1
kind: Node
metadata: {name: n{v}}
status: {addresses: [{type: InternalIP, address: 172.18.0.1{v}}]}""",
    "service": """\
apiVersion: v1
kind: Service
metadata: {name: s, namespace: a}
spec: {clusterIP: 10.196.0.{v}, ports: [{port: 80}]}""",
    "pod": """\
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: a, uid: u{v}, labels: {app: web}}
status: {phase: Running, podIP: 10.0.0.{v}}""",
    "made up pod": """\
apiVersion: v1
kind: Pod
metadata: {name: agent, namespace: a, labels: {app: v{v}}}""",
    "pod on its node": """\
apiVersion: v1
kind: Pod
metadata: {name: host, namespace: a}
spec: {hostNetwork: true, nodeName: n{v}}
status: {phase: Running}""",
    "owned pod": """\
apiVersion: v1
kind: Pod
metadata:
  name: web-abc-{v}
  namespace: a
  ownerReferences: [{kind: ReplicaSet, name: web-abc, controller: true}]
status: {phase: Running, podIP: 10.0.1.{v}}""",
    "deployment": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: a}
spec:
  replicas: {v}
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}}""",
    "daemon set": """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: log, namespace: a}
spec:
  selector: {matchLabels: {app: log}}
  template: {metadata: {labels: {app: log, v: v{v}}}}""",
    "stateful set": """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: a}
spec:
  replicas: {v}
  selector: {matchLabels: {app: set}}
  template: {metadata: {labels: {app: set}}}""",
    "template": """\
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {name: t, namespace: a}
spec:
  podTemplate: {metadata: {labels: {app: t{v}}}, spec: {containers: []}}
  networkPolicyManagement: {managed}""",
    "pool": """\
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {name: pool, namespace: a}
spec: {replicas: {v}, sandboxTemplateRef: {name: t}}""",
    "claim": """\
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxClaim
metadata: {name: agent, namespace: a}
spec: {warmPoolRef: {name: pool}, additionalPodMetadata: {labels: {c: c{v}}}}""",
    "sandbox": """\
apiVersion: agents.x-k8s.io/v1beta1
kind: Sandbox
metadata: {name: raw, namespace: a}
spec: {podTemplate: {metadata: {labels: {app: s{v}}}, spec: {}}}""",
    "policy": """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: np, namespace: a}
spec: {podSelector: {}, ingress: [{ports: [{port: 8{v}}]}]}""",
    "the template's policy": """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: t-network-policy
  namespace: a
  ownerReferences: [{kind: SandboxTemplate, name: t, controller: {owned}}]
spec: {podSelector: {}, ingress: [{ports: [{port: 9{v}}]}]}""",
    "cluster policy": """\
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: c}
spec:
  {tier: Admin, priority: {v}, subject: {namespaces: {}}, egress: [{action: Deny, to: [{nodes: {}}]}]}""",  # noqa: E501
    "admin policy": """\
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: default}
spec: {priority: {v}, subject: {namespaces: {}}}""",
    "baseline policy": """\
apiVersion: policy.networking.k8s.io/v1alpha1
kind: BaselineAdminNetworkPolicy
metadata: {name: default}
spec: {subject: {namespaces: {matchLabels: {v: v{v}}}}}""",
    "of no interest": "apiVersion: v1\nkind: Secret\nmetadata: {name: s{v}, namespace: a}",
    "wrong": "apiVersion: v1\nkind: Pod\nmetadata: {name: W{v}}",
}
PATHS = ("a.yaml", "b.yaml", "dir/c.yaml", "dir/d.yaml", "e.yaml")
# Where each kind of document is at home: no object stands in two files. What others follow
# from has its neighbours elsewhere.
HOMES = {name: PATHS[number * 3 % 7 % len(PATHS)] for number, name in enumerate(TEXTS)}


def text_of(name: str, version: int) -> str:
    values = {"v": version, "managed": ("Managed", "Unmanaged")[version % 2],
              "owned": ("true", "false")[version // 2]}  # fmt: skip
    text = TEXTS[name]
    for key, value in values.items():
        text = text.replace("{" + key + "}", str(value))
    return text


@st.composite
def contents(draw: st.DrawFn, names: tuple[str, ...]) -> bytes:
    """A file with some of these documents, whole or cut short."""
    found = draw(st.lists(st.sampled_from(names), unique=True, max_size=4))
    text = "\n---\n".join(text_of(name, draw(st.integers(1, 3))) for name in found)
    match draw(st.sampled_from(("whole",) * 8 + ("cut", "slip", "empty", "comment"))):
        case "cut":
            text = text[: draw(st.integers(0, len(text)))]
        case "slip":
            at = draw(st.integers(0, len(text)))
            text = text[:at] + draw(st.sampled_from(string.printable)) + text[at:]
        case "empty":
            text = draw(st.sampled_from(("", "\n")))
        case "comment":
            text = "# nothing"
    return text.encode()


class Edit(NamedTuple):
    """One thing that happens; ``data`` is what is written."""

    what: str
    path: str
    data: bytes = b""
    other: str = ""


def read(path: str, data: bytes) -> list[Document] | None:
    """The documents of a version that is good by itself, else None."""
    try:
        documents = list(decode_documents(path, data))
    except InputError:
        return None
    return None if load(documents).problems else documents


class World:
    """Files, a source that follows them, the engine's state, and what is good of each file."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.source = ManifestSource(self.files, self.files.clock)
        self.source.scan()
        self.state = ClusterState()
        self.good: dict[str, list[Document]] = {}
        self.newest_is_good = True

    def edit(self, edit: Edit) -> None:
        files = self.files
        there = edit.path in files.contents
        match edit.what:
            case "replace":
                files.write(edit.path, edit.data)
            case "write":
                files.write(edit.path, edit.data, renamed=False)
            case "delete" if there:
                files.delete(edit.path)
            case "rename" if there and edit.other not in files.contents:
                files.rename(edit.path, edit.other)
            case "lock" if there:
                files.unreadable.add(edit.path)
            case "hide":
                files.unseen["dir"] = "dir: cannot be read"
            case "show":
                files.unreadable.clear()
                files.unseen.clear()
            case "wait":
                files.later()
        files.now += 1_000_000

    @property
    def emptied(self) -> bool:
        """Whether there is nothing below one of the paths that were given."""
        return not self.files.unseen and not any(p.startswith("dir/") for p in self.files.contents)

    def scan(self) -> Batch:
        self.files.barren = ("dir: no manifests in it",) if self.emptied else ()
        batch = self.source.scan()
        self.state.apply_all(batch.changes)
        return batch

    def expect(self) -> dict[str, list[Document]]:
        """The good version of each file, by the rules, where no object stands in two."""
        files = self.files
        for path in list(self.good):
            kept = path.startswith("dir/") and (files.unseen or self.emptied)
            if path not in files.contents and not kept:
                del self.good[path]
        for path, data in files.contents.items():
            if path in files.unreadable or (path.startswith("dir/") and files.unseen):
                continue
            documents = read(path, data)
            had_any = bool(load(self.good.get(path, [])).by_key) or self.has_sources(path)
            if documents is None or (had_any and not data.strip()):
                continue
            self.good[path] = documents
        return self.good

    def has_sources(self, path: str) -> bool:
        """Whether the good version holds what others follow from, without an object itself."""
        kinds = {
            document.value["kind"]
            for document in self.good.get(path, ())
            if isinstance(document.value, dict)
        }
        return bool(kinds - {"Secret"})


def meaning(objects: Mapping[Any, ClusterObject]) -> dict[Any, ClusterObject]:
    """Without where they were read: that is no change."""
    return {key: msgspec.structs.replace(obj, origin=Origin()) for key, obj in objects.items()}


def tables(snapshot: Snapshot) -> list[dict[Any, ClusterObject]]:
    return [
        meaning(table)
        for table in (
            *(snapshot.pods, snapshot.namespaces, snapshot.nodes, snapshot.services),
            *(snapshot.cluster_policies, snapshot.network_policies),
        )
    ]


def fresh(result: LoadResult) -> Snapshot:
    state = ClusterState()
    state.apply_all(Change(Verb.APPLIED, obj) for obj in result.objects)
    return state.snapshot()


@st.composite
def edits_at_home(draw: st.DrawFn) -> Edit:
    path = draw(st.sampled_from(PATHS))
    here = tuple(name for name, home in HOMES.items() if home == path)
    what = draw(
        st.sampled_from(
            ("replace",) * 6 + ("write",) * 3 + ("delete", "lock", "hide", "show", "show", "wait")
        )
    )
    return Edit(what, path, draw(contents(here)))


@costly
@given(st.lists(st.lists(edits_at_home(), min_size=1, max_size=3), min_size=1, max_size=8))
def test_what_is_in_force_is_what_the_good_versions_say(rounds: list[list[Edit]]) -> None:
    world = World()
    for edits in rounds:
        for edit in edits:
            world.edit(edit)
        batch = world.scan()
        good = world.expect()
        result = load(document for path in sorted(good) for document in good[path])
        assert not result.problems
        assert meaning(world.source._objects) == meaning(result.by_key)
        assert sum(batch.objects.values()) == len(result.by_key)
        assert tables(world.state.snapshot()) == tables(fresh(result))
        assert world.scan().changes == []


@st.composite
def edits_anywhere(draw: st.DrawFn) -> Edit:
    what = draw(st.sampled_from(("replace",) * 5 + ("write", "delete", "rename", "wait")))
    names = draw(st.sampled_from((("pod", "policy", "template", "claim"), tuple(TEXTS))))
    path, other = draw(st.sampled_from(PATHS)), draw(st.sampled_from(PATHS))
    return Edit(what, path, draw(contents(names)), other)


@costly
@given(st.lists(st.lists(edits_anywhere(), min_size=1, max_size=3), min_size=1, max_size=8))
def test_where_objects_stand_in_two_files(rounds: list[list[Edit]]) -> None:
    """Nobody else's rules are repeated here, only what they must come to."""
    world = World()
    versions: dict[str, list[list[Document]]] = {}
    for edits in rounds:
        for edit in edits:
            world.edit(edit)
            for path, data in world.files.contents.items():
                documents = read(path, data)
                if documents is not None:
                    versions.setdefault(path, []).append(documents)
        had = {path for path, file in world.source._files.items() if file.good is not None}
        batch = world.scan()
        # Nobody loses what it had.
        assert all(world.source._files[p].good for p in had & world.files.contents.keys())
        # Whatever is in force is a choice of versions that were good, and goes together.
        chosen = [
            document
            for path in sorted(world.source._files)
            for document in version_in_force(world, path, versions)
        ]
        result = load(chosen)
        assert not result.problems
        assert meaning(world.source._objects) == meaning(result.by_key)
        assert tables(world.state.snapshot()) == tables(fresh(result))
        # When all that is there now goes together, it is in force, and nothing is said.
        now = {path: read(path, data) for path, data in world.files.contents.items()}
        if not batch.problems:
            everything = [d for path in sorted(now) for d in now[path] or ()]
            assert None not in now.values()
            assert meaning(load(everything).by_key) == meaning(result.by_key)
        elif None not in now.values():
            everything = [d for path in sorted(now) for d in now[path] or ()]
            emptied = any("is empty" in problem for problem in batch.problems)
            assert load(everything).problems or emptied or world.emptied


def version_in_force(
    world: World, path: str, versions: dict[str, list[list[Document]]]
) -> list[Document]:
    """The newest version of a file that says what is in force of it."""
    good = world.source._files[path].good
    if good is None:
        return []
    for documents in reversed(versions.get(path, [])):
        if said(PartReader().read(documents)) == said(good):
            return documents
    raise AssertionError(f"{path}: what is in force was never there")


def said(part: Part) -> dict[Any, Any]:
    """Things of a part without where they were read."""
    return {
        key: msgspec.structs.replace(thing.found, origin=Origin())
        for key, thing in part.things.items()
    }


def test_a_world_that_begins_with_problems_does_not_begin() -> None:
    files = MemoryFiles(a="a: [")
    with pytest.raises(ManifestError):
        ManifestSource(files, files.clock).scan()
