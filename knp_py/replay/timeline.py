"""The objects of a scenario over its time: documents applied and deleted, changes out.

What is kept are documents, not objects, because some objects follow from several documents
(a sandbox's pod and policy from its template) and have to come and go with them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from knp_py.manifests.document import Document
from knp_py.manifests.kinds import KINDS
from knp_py.manifests.load import Assembly
from knp_py.manifests.problems import Problem
from knp_py.manifests.reading import Part, PartReader
from knp_py.model.changes import Change, ClusterObject, Key, changes_between
from knp_py.replay.scenario import Removal

# Kinds that may follow from objects of other kinds, and those others.
_DERIVED = frozenset({"Pod", "NetworkPolicy"})
_CONTROLLERS = frozenset(KINDS) - {
    *("Pod", "NetworkPolicy", "ClusterNetworkPolicy", "AdminNetworkPolicy"),
    *("BaselineAdminNetworkPolicy", "Namespace", "Node", "Service"),
}


class Timeline:
    """What is applied at the moment. ``changes`` is what happened since it was last asked."""

    def __init__(self, complete: Callable[[Document], Document] | None = None) -> None:
        """``complete`` may fill in what documents leave to whoever runs them."""
        self._complete = complete or (lambda document: document)
        self._documents: dict[Key, Document] = {}
        self._withheld: set[Key] = set()
        self._suppressed: set[Key] = set()
        self._objects: dict[Key, ClusterObject] = {}
        self._unnamed = 0
        self._reader = PartReader()
        self._assembly = Assembly()
        self._parts: dict[Key, tuple[Document, Part]] = {}

    @property
    def documents(self) -> Mapping[Key, Document]:
        """What is applied now, each object by itself."""
        return self._documents

    @property
    def suppressed(self) -> AbstractSet[Key]:
        """What is deleted although documents that are applied stand for it."""
        return self._suppressed

    def begin(self, documents: Iterable[Document]) -> None:
        """What is there at first. An object that stands twice stays twice, to be reported."""
        for document in map(self._complete, split(documents)):
            key = key_of(document)
            if key is None or key in self._documents:
                key = self._unique()
            self._documents[key] = document

    def apply(self, documents: Iterable[Document]) -> None:
        """Add objects, or replace those of the same kind and name."""
        for document in map(self._complete, split(documents)):
            key = key_of(document) or self._unique()
            self._documents[key] = document
            # Whatever has a controller again comes back.
            again = key[0] in _CONTROLLERS
            self._withheld -= {w for w in self._withheld if w == key or (again and w[1] == key[1])}

    def delete(self, documents: Iterable[Document]) -> Iterator[str]:
        """Remove the objects these documents name; yields those that are not there."""
        for document in split(documents):
            key = key_of(document)
            if key is not None and not self._remove(key):
                yield _label(key)

    def remove(self, removal: Removal) -> bool:
        """Remove one object, also one that follows from others; whether it was there."""
        return self._remove((removal.kind, removal.namespace, removal.name))

    def changes(self) -> tuple[list[Change], list[Problem], list[Problem]]:
        """Changes since last time, problems (then nothing has changed) and warnings."""
        parts: dict[Key, tuple[Document, Part]] = {}
        for key, document in self._documents.items():
            read = self._parts.get(key)
            if read is None or read[0] is not document:
                read = document, self._reader.read([document])
            parts[key] = read
        self._parts = parts
        result = self._assembly.assemble([part for _, part in parts.values()])
        if result.problems:
            return [], result.problems, result.warnings
        objects = result.by_key
        self._suppressed = self._withheld & objects.keys()
        for key in self._suppressed:
            del objects[key]
        before, self._objects = self._objects, objects
        return changes_between(before, objects), [], result.warnings

    def _remove(self, key: Key) -> bool:
        kind, _, name = key
        found = self._documents.pop(key, None) is not None
        if kind in _DERIVED and (found or (key in self._objects and key not in self._withheld)):
            # Nor may it come back from whatever else stands for it, such as a claim.
            self._withheld.add(key)
            found = True
        if kind == "Namespace":
            # The API deletes a namespace's contents with it.
            inside = [each for each in self._documents if each[1] == name]
            for each in inside:
                del self._documents[each]
            found = found or bool(inside)
        return found

    def _unique(self) -> Key:
        self._unnamed += 1
        return "", "", str(self._unnamed)


def split(documents: Iterable[Document]) -> Iterator[Document]:
    """Each document, a List's items each by itself."""
    for document in documents:
        value = document.value
        if document.raw is not None:
            try:
                value = msgspec.json.decode(document.raw)
            except (msgspec.DecodeError, RecursionError):
                yield document  # the loader says what is wrong with it
                continue
        yield from _items(document, value, 0)


def _items(document: Document, value: object, depth: int) -> Iterator[Document]:
    fields = value if isinstance(value, dict) else {}
    kind, items = fields.get("kind"), fields.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        yield Document(document.origin, value=value, optional=document.optional)
        return
    if depth == 8:  # as deep as the loader goes
        yield document
        return
    inner = {} if kind == "List" else {"apiVersion": fields.get("apiVersion"), "kind": kind[:-4]}
    for item in items:
        whole = {**inner, **item} if isinstance(item, dict) else item
        yield from _items(document, whole, depth + 1)


def key_of(document: Document) -> Key | None:
    """Who the document says it is; None when it does not say."""
    value = document.value
    if not isinstance(value, dict):
        return None
    kind, metadata = value.get("kind"), value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    if not isinstance(kind, str) or not isinstance(name, str):
        return None
    known = KINDS.get(kind)
    if known is not None and not known.namespaced:
        return kind, "", name
    fallback = "default" if known is not None else ""
    return kind, namespace if isinstance(namespace, str) and namespace else fallback, name


def _label(key: Key) -> str:
    kind, namespace, name = key
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
