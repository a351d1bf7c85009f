"""Who may do what: everything, until something is forbidden or roles are given."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from helpers.apiserver_types import ApiError, Doc


class Ask(NamedTuple):
    """One thing that somebody wants to do. ``resource`` may have a subresource: ``pods/log``."""

    user: str
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


class Rule(NamedTuple):
    """What is allowed or forbidden; ``*`` is any. ``namespace`` "": anywhere."""

    verbs: tuple[str, ...] = ("*",)
    groups: tuple[str, ...] = ("*",)
    resources: tuple[str, ...] = ("*",)
    names: tuple[str, ...] = ()
    namespace: str = ""

    def covers(self, ask: Ask) -> bool:
        """Whether it is about this."""
        return (
            _has(self.verbs, ask.verb)
            and _has(self.groups, ask.group)
            and _has(self.resources, ask.resource)
            and (not self.names or ask.name in self.names)
            and (not self.namespace or ask.namespace == self.namespace)
        )


# Every cluster gives this to whoever is authenticated (system:basic-user).
_FOR_ALL = (Rule(("create",), ("authorization.k8s.io",), ("selfsubjectaccessreviews",)),)


class Authorizer:
    """Decides. ``roles`` None: whatever is not forbidden is allowed."""

    def __init__(self) -> None:
        self.forbidden: list[Rule] = []
        self.roles: dict[str, list[Rule]] | None = None  # by user

    def allows(self, ask: Ask) -> bool:
        """Whether it may be done."""
        if any(rule.covers(ask) for rule in self.forbidden):
            return False
        if ask.user == "system:anonymous":
            return False
        return self.roles is None or any(
            rule.covers(ask) for rule in (*_FOR_ALL, *self.roles.get(ask.user, ()))
        )

    def check(self, ask: Ask) -> None:
        """ApiError 403, as the server words it, when it may not."""
        if not self.allows(ask):
            raise forbidden(ask)

    def use(self, documents: Iterable[Doc]) -> None:
        """From now on only what these roles and their bindings give to service accounts."""
        roles: dict[tuple[str, str, str], list[Doc]] = {}
        bindings: list[Doc] = []
        for doc in documents:
            kind = doc.get("kind")
            if kind in {"ClusterRole", "Role"}:
                namespace = doc["metadata"].get("namespace", "") if kind == "Role" else ""
                roles[kind, namespace, doc["metadata"]["name"]] = doc.get("rules") or []
            elif kind in {"ClusterRoleBinding", "RoleBinding"}:
                bindings.append(doc)
        self.roles = {}
        for doc in bindings:
            where = doc["metadata"].get("namespace", "") if doc["kind"] == "RoleBinding" else ""
            ref = doc["roleRef"]
            rules = roles[ref["kind"], where if ref["kind"] == "Role" else "", ref["name"]]
            for subject in doc.get("subjects") or ():
                self.roles.setdefault(_user(subject), []).extend(
                    _rule(rule, where) for rule in rules
                )


def forbidden(ask: Ask) -> ApiError:
    """The answer to who may not."""
    plural, _, _ = ask.resource.partition("/")
    qualified = f"{plural}.{ask.group}" if ask.group else plural
    where = f'in the namespace "{ask.namespace}"' if ask.namespace else "at the cluster scope"
    named = f' "{ask.name}"' if ask.name else ""
    message = (
        f'{qualified}{named} is forbidden: User "{ask.user}" cannot {ask.verb} resource '
        f'"{ask.resource}" in API group "{ask.group}" {where}'
    )
    found = {"name": ask.name, "group": ask.group, "kind": plural}
    return ApiError(403, "Forbidden", message, {k: v for k, v in found.items() if v})


def _has(words: tuple[str, ...], word: str) -> bool:
    return "*" in words or word in words


def _user(subject: Doc) -> str:
    if subject["kind"] == "ServiceAccount":
        return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    return str(subject["name"])


def _rule(rule: Doc, namespace: str) -> Rule:
    def words(key: str) -> tuple[str, ...]:
        found: list[Any] = rule.get(key) or []
        return tuple(map(str, found))

    return Rule(
        words("verbs"), words("apiGroups"), words("resources"), words("resourceNames"), namespace
    )
