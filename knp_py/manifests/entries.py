"""From documents to single objects: Lists unpacked, kind and name read, nothing decoded yet."""

from collections.abc import Iterator
from typing import Any

import msgspec

from knp_py.manifests.document import Document
from knp_py.manifests.kinds import KINDS, is_list
from knp_py.manifests.problems import Problem, plain, show
from knp_py.model.objects import Origin

UNREADABLE = object()
_DEEPEST_LIST = 8  # Lists inside Lists
_NO_DEFAULT = ("", "")


class _PeekMeta(msgspec.Struct, gc=False):
    name: str | None = None
    namespace: str | None = None


class _Peek(msgspec.Struct, rename="camel", gc=False):
    """What every document begins with, and the items of a List, not yet decoded."""

    api_version: str | None = None
    kind: str | None = None
    metadata: _PeekMeta | None = None
    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


_PEEK = msgspec.json.Decoder(_Peek)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One object, decoded (``value``) or not (``raw``), and who it says it is.

    ``place`` is where in its document it stands, ``items[3]`` or empty; ``version``,
    ``kind``, ``name`` and ``namespace`` are empty where it does not say.
    """

    origin: Origin
    place: str
    version: str
    kind: str
    name: str
    namespace: str
    raw: bytes | msgspec.Raw | None
    value: Any

    @property
    def label(self) -> str:
        """``Kind namespace/name``, fit for one line."""
        if not self.name or not self.kind:
            return plain(self.kind or self.name)
        known = KINDS.get(self.kind)
        namespace = self.namespace or ("default" if known and known.namespaced else "")
        if known and not known.namespaced:
            namespace = ""
        who = f"{namespace}/{self.name}" if namespace else self.name
        return plain(f"{self.kind} {who}")


class Unpacker:
    """Unpacks documents; what is no object is added to ``problems``."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems

    def entries(self, document: Document) -> Iterator[Entry]:
        """The objects of a document, in order."""
        if document.raw is not None:
            return self._raw(document.origin, "", document.raw, _NO_DEFAULT, 0)
        return self._value(document.origin, "", document.value, _NO_DEFAULT, 0)

    def decode(self, origin: Origin, place: str, raw: bytes | msgspec.Raw) -> object:
        """Plain values, or ``UNREADABLE`` after reporting why not."""
        try:
            return msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            self._error(origin, place, syntax(error))
            return UNREADABLE

    def _raw(
        self,
        origin: Origin,
        place: str,
        raw: bytes | msgspec.Raw,
        default: tuple[str, str],
        depth: int,
    ) -> Iterator[Entry]:
        try:
            peek = _PEEK.decode(raw)
        except msgspec.ValidationError:
            value = self.decode(origin, place, raw)
            if value is not UNREADABLE:
                yield from self._value(origin, place, value, default, depth)
            return
        except (msgspec.DecodeError, RecursionError) as error:
            self._error(origin, place, syntax(error))
            return
        version, kind = peek.api_version or default[0], peek.kind or default[1]
        if peek.items is not msgspec.UNSET and is_list(kind):
            inner = _defaults(version, kind)
            for index, item in enumerate(peek.items or ()):
                where = self._item(origin, place, index, depth)
                if where:
                    yield from self._raw(origin, where, item, inner, depth + 1)
            return
        meta = peek.metadata or _PeekMeta()
        yield Entry(origin, place, version, kind, meta.name or "", meta.namespace or "", raw, None)

    def _value(
        self, origin: Origin, place: str, value: object, default: tuple[str, str], depth: int
    ) -> Iterator[Entry]:
        if not isinstance(value, dict):
            self._error(origin, place, f"found {show(value)}, expected a Kubernetes object")
            return
        version = value.get("apiVersion") or default[0]
        kind = value.get("kind") or default[1]
        for key, word in (("apiVersion", version), ("kind", kind)):
            if not isinstance(word, str):
                self._error(origin, _under(place, key), f"found {show(word)}, expected text")
                return
        if "items" in value and is_list(kind):
            items = value["items"]
            if not isinstance(items, (list, type(None))):
                self._error(
                    origin, _under(place, "items"), f"found {show(items)}, expected a list"
                )
                return
            inner = _defaults(version, kind)
            for index, item in enumerate(items or ()):
                where = self._item(origin, place, index, depth)
                if where:
                    yield from self._value(origin, where, item, inner, depth + 1)
            return
        meta = value.get("metadata")
        name, namespace = (
            (meta.get("name"), meta.get("namespace")) if isinstance(meta, dict) else ("", "")
        )
        yield Entry(
            origin,
            place,
            version,
            kind,
            name if isinstance(name, str) else "",
            namespace if isinstance(namespace, str) else "",
            None,
            value,
        )

    def _item(self, origin: Origin, place: str, index: int, depth: int) -> str:
        """The place of a List's item, empty after reporting that it lies too deep."""
        where = _under(place, f"items[{index}]")
        if depth < _DEEPEST_LIST:
            return where
        self._error(origin, where, "Lists inside Lists, too deep")
        return ""

    def _error(self, origin: Origin, place: str, message: str) -> None:
        self._problems.append(Problem(origin, "", place, message))


def syntax(error: Exception) -> str:
    """What a decoder says of a text, in one line."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error).partition(" - at ")[0]  # msgspec's own path stops at what it can name


def _defaults(version: str, kind: str) -> tuple[str, str]:
    """What items of a typed List need not repeat: a PodList holds Pods."""
    return (version, kind[:-4]) if kind != "List" else _NO_DEFAULT


def _under(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key
