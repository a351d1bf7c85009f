"""YAML text to plain values, the way Kubernetes reads it.

Values are built from libyaml's events, not by a loader's constructors, because those
take the last of two equal keys, turn timestamps and base-60 numbers into other things
and follow aliases without end. What a plain scalar means is what ``sigs.k8s.io/yaml``
makes of it: YAML 1.1 booleans (``yes``, ``on``, ``y``), octal with ``0`` and ``0o``, no
base 60, timestamps stay text, and whole floats are whole numbers.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple, NoReturn

import yaml

_DEEPEST = 300  # nested collections; Kubernetes objects stay below 50
_ALIASED = 1_000_000  # nodes that aliases and merges may add to one document

_TOO_DEEP = "nested too deeply"
_CORE = "tag:yaml.org,2002:"
_WORDS: dict[str, object] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE"), True),
    **dict.fromkeys(("on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE"), False),
    **dict.fromkeys(("off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_integer = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|[1-9][0-9]*|0)"
).fullmatch
_float = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?").fullmatch
_MERGE = object()  # the key ``<<``


class YamlError(Exception):
    """What is wrong with a text and where; ``line`` and ``column`` count from 1."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class YamlDocument(NamedTuple):
    """One document; ``number`` counts from 1, ``alone`` says that there is no other."""

    number: int
    alone: bool
    value: object


class _Frame:
    """A collection under construction."""

    __slots__ = ("anchor", "items", "key", "mapping", "mark", "merged", "size")

    def __init__(self, anchor: str | None, mark: Any, *, mapping: bool) -> None:
        self.anchor = anchor
        self.mark = mark
        self.mapping: dict[str, object] | None = {} if mapping else None
        self.items: list[object] = []
        self.key: object = None  # of a mapping, None while one is due
        self.merged: list[dict[str, object]] = []
        self.size = 1


def yaml_documents(data: bytes) -> Iterator[YamlDocument]:
    """Each document as it is read. Raises ``YamlError`` where the text goes wrong."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        parser = loader(data)
        try:
            yield from _read_stream(parser)
        finally:
            parser.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = error.problem or error.context or "cannot be read"
        if "nesting depth" in message:  # libyaml's own limit, for lists in one line
            message = _TOO_DEEP
        raise YamlError(message, *_position(mark)) from None
    except yaml.YAMLError as error:
        message = str(getattr(error, "reason", None) or error).splitlines()[0]
        raise YamlError(message) from None
    except RecursionError:
        raise YamlError(_TOO_DEEP) from None


def _read_stream(parser: Any) -> Iterator[YamlDocument]:
    number = 0
    event = parser.get_event()
    while event is not None:
        if isinstance(event, yaml.DocumentStartEvent):
            number += 1
            value = _Builder().build(parser)
            try:
                parser.get_event()  # the document's end
                event = parser.get_event()
            except yaml.YAMLError:
                yield YamlDocument(number, alone=False, value=value)
                raise
            alone = number == 1 and isinstance(event, yaml.StreamEndEvent)
            yield YamlDocument(number, alone, value)
        else:
            event = None if isinstance(event, yaml.StreamEndEvent) else parser.get_event()


class _Builder:
    """Builds one document's value; iterative, so depth costs no stack."""

    def __init__(self) -> None:
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[object, int]] = {}
        self.open: set[str] = set()
        self.aliased = 0
        self.root: object = None

    def build(self, parser: Any) -> object:
        next_event = parser.get_event
        scalar, stack = yaml.ScalarEvent, self.stack
        while True:
            event = next_event()
            kind = type(event)
            if kind is scalar:
                self._add_scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._open(event, mapping=kind is yaml.MappingStartEvent)
            elif kind is yaml.AliasEvent:
                self._add_alias(event)
            else:
                self._close()
            if not stack:
                return self.root

    def _open(self, event: Any, *, mapping: bool) -> None:
        if event.tag not in {None, "!", f"{_CORE}{'map' if mapping else 'seq'}"}:
            _fail(f"the tag {_tag(event.tag)} has no meaning here", event.start_mark)
        if len(self.stack) >= _DEEPEST:
            _fail(_TOO_DEEP, event.start_mark)
        if self.stack and self.stack[-1].mapping is not None and self.stack[-1].key is None:
            _fail("a key must be a text, not a list or an object", event.start_mark)
        if event.anchor:
            self.open.add(event.anchor)
        self.stack.append(_Frame(event.anchor, event.start_mark, mapping=mapping))

    def _close(self) -> None:
        frame = self.stack.pop()
        value: object = frame.items
        if frame.mapping is not None:
            value = frame.mapping
            for merged in frame.merged:
                for key, item in merged.items():
                    frame.mapping.setdefault(key, item)
        if frame.anchor:
            self.open.discard(frame.anchor)
            self.anchors[frame.anchor] = (value, frame.size)
        self._put(value, frame.size, frame.mark)

    def _add_scalar(self, event: Any) -> None:
        tag, text = event.tag, event.value
        if tag is None:
            # Quoted and block scalars are text whatever they look like.
            value = resolve(text) if event.implicit[0] else text
        else:
            value = _tagged(tag, text, event)
        if event.anchor:
            self.anchors[event.anchor] = (value, 1)
        stack = self.stack
        if stack:
            frame = stack[-1]
            if frame.mapping is not None and frame.key is None:
                frame.size += 1
                if text == "<<" and tag is None and event.implicit[0]:
                    frame.key = _MERGE
                else:
                    key = value if type(value) is str else _key(value, event.start_mark)
                    if key in frame.mapping:
                        _fail(f"the key {key!r} stands twice", event.start_mark)
                    frame.key = key
                return
        self._put(value, 1, event.start_mark)

    def _add_alias(self, event: Any) -> None:
        name = event.anchor
        if name in self.open:
            _fail(f"the alias *{name} stands inside what it names: a cycle", event.start_mark)
        found = self.anchors.get(name)
        if found is None:
            _fail(f"the alias *{name} names nothing", event.start_mark)
        value, size = found
        self.aliased += size
        if self.aliased > _ALIASED:
            _fail(f"aliases repeat more than {_ALIASED} values", event.start_mark)
        frame = self.stack[-1] if self.stack else None
        if frame is not None and frame.mapping is not None and frame.key is None:
            key = _key(value, event.start_mark)
            if key in frame.mapping:
                _fail(f"the key {key!r} stands twice", event.start_mark)
            frame.key = key
            return
        self._put(value, size, event.start_mark)

    def _put(self, value: object, size: int, mark: Any) -> None:
        if not self.stack:
            self.root = value
            return
        frame = self.stack[-1]
        frame.size += size
        if frame.mapping is None:
            frame.items.append(value)
            return
        key, frame.key = frame.key, None
        if key is _MERGE:
            self._merge(frame, value, mark)
        else:
            frame.mapping[key] = value  # type: ignore[index]  # any other key is text

    def _merge(self, frame: _Frame, value: object, mark: Any) -> None:
        sources = value if isinstance(value, list) else [value]
        for source in sources:
            if not isinstance(source, dict):
                _fail("'<<' takes an object or a list of objects", mark)
            self.aliased += len(source)
            if self.aliased > _ALIASED:
                _fail(f"aliases repeat more than {_ALIASED} values", mark)
            frame.merged.append(source)


@lru_cache(maxsize=8192)
def resolve(text: str) -> object:
    """What a plain scalar means. Cached: keys and words repeat, and one copy will do."""
    if text in _WORDS:
        return _WORDS[text]
    if not text or text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "")
    if _integer(plain):
        return _to_integer(plain)
    if _float(plain):
        number = float(plain)
        # JSON writes a whole float without its point, and the API server reads JSON.
        return int(number) if number.is_integer() and abs(number) < 1e21 else number
    return text


def _to_integer(plain: str) -> int:
    sign = -1 if plain[0] == "-" else 1
    digits = plain.lstrip("+-").lower()
    if len(digits) > 400:
        return sign * 10**400  # longer than any number here means; Python may refuse to print it
    for prefix, base in (("0x", 16), ("0b", 2), ("0o", 8), ("0", 8)):
        if digits.startswith(prefix) and digits != "0":
            return sign * int(digits[len(prefix) :] or "0", base)
    return sign * int(digits)


def _tagged(tag: str, text: str, event: Any) -> object:
    if tag in {"!", f"{_CORE}str", f"{_CORE}timestamp"}:
        return text
    value = resolve(text)
    name = tag.removeprefix(_CORE)
    fits = {
        "null": value is None,
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, (int, float)) and not isinstance(value, bool),
    }
    if name == tag or name not in fits:
        _fail(f"the tag {_tag(tag)} has no meaning here", event.start_mark)
    if not fits[name]:
        _fail(f"{text[:40]!r} is no {name}, as its tag says", event.start_mark)
    return value


def _key(value: object, mark: Any) -> str:
    """A key as JSON has it: text; numbers and booleans become theirs."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return str(value)
    return _fail("a key must be a text", mark)


def _tag(tag: str) -> str:
    return f"!!{tag.removeprefix(_CORE)}" if tag.startswith(_CORE) else tag[:40]


def _fail(message: str, mark: Any) -> NoReturn:
    raise YamlError(message, *_position(mark))


def _position(mark: Any) -> tuple[int, int]:
    return (0, 0) if mark is None else (mark.line + 1, mark.column + 1)
