"""ObjectMeta of the kinds whose every field is read (policies, sandbox templates)."""

from collections.abc import Mapping

import msgspec

from knp_py.manifests.addresses import fnv1a
from knp_py.manifests.fields import Fields, as_object, under
from knp_py.manifests.problems import Report, quote, show
from knp_py.manifests.selectors import check_labels
from knp_py.manifests.syntax import bad_label_name, bad_subdomain

_KNOWN = frozenset(
    (
        *("name", "generateName", "namespace", "labels", "annotations", "ownerReferences"),
        *("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"),
        *("deletionGracePeriodSeconds", "finalizers", "managedFields", "selfLink"),
    )
)


def generated_name(prefix: str, report: Report) -> str:
    """A name for an object that leaves it to the API server: the same for the same place."""
    place = f"{report.origin} {report.place}".encode()
    return f"{prefix}{fnv1a(place) & 0xFFFFF:05x}"


class Metadata(msgspec.Struct, frozen=True):
    """Who an object is. ``namespace`` is empty for cluster-wide kinds.

    ``controller`` is ``Kind name`` of the owner that controls it, or empty.
    """

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = {}
    controller: str = ""


def read_metadata(document: Fields, *, namespaced: bool) -> Metadata | None:
    """The metadata, or None after reporting that there is no usable name."""
    fields = document.mapping("metadata")
    if fields is None:
        if not document.has("metadata"):
            document.missing("metadata", "an object with a name")
        return None
    fields.warn_unknown(_KNOWN)
    name = fields.text("name")
    prefix = fields.text("generateName")
    if not name and prefix:
        name = generated_name(prefix, fields.report)
    if not name and not fields.data.get("name"):
        fields.missing("name", "the object's name")
    elif name is not None:
        complaint = bad_subdomain(name)
        if complaint:
            fields.error("name", f"found {quote(name)}, expected {complaint}")
    namespace = fields.text("namespace") or ""
    if not namespaced:
        if namespace:
            fields.warn("namespace", "the kind is cluster-wide; the namespace is ignored")
        namespace = ""
    elif namespace:
        complaint = bad_label_name(namespace)
        if complaint:
            fields.error("namespace", f"found {quote(namespace)}, expected {complaint}")
    else:
        namespace = "default"
    labels = fields.mapping("labels")
    good = (
        {}
        if labels is None
        else dict(check_labels(fields.report, labels.path, labels.data.items()))
    )
    annotations = fields.mapping("annotations")
    for key, value in () if annotations is None else annotations.data.items():
        if not isinstance(value, str):
            fields.report.error(
                under(fields.at("annotations"), key),
                f"found {show(value)}, expected text (put it in quotes)",
            )
    return None if not name else Metadata(name, namespace, good, _controller(fields))


def _controller(fields: Fields) -> str:
    found = ""
    for path, item in fields.array("ownerReferences") or ():
        owner = as_object(fields.report, path, item)
        if owner is None:
            continue
        kind, name = owner.text("kind"), owner.text("name")
        if owner.data.get("controller") is True and kind and name:
            found = f"{kind} {name}"
    return found
