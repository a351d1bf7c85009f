"""What the adapters hand over: one decoded document, or one that msgspec shall decode."""

import msgspec

from knp_py.model.objects import Origin


class Document(msgspec.Struct, frozen=True):
    """One document of an input.

    Either ``raw`` holds JSON text (bytes of exactly one value), decoded by kind so that
    fields nobody reads cost little, or ``value`` holds plain decoded values: ``dict`` with
    text keys, ``list``, ``str``, ``int``, ``float``, ``bool``, ``None``. Values may be shared
    (YAML aliases), so nobody may change them. ``optional`` marks what tools keep next to
    manifests (``kustomization.yaml``, a `knp test` scenario): being no Kubernetes object is
    no error there.
    """

    origin: Origin
    value: object = None
    raw: bytes | None = None
    optional: bool = False
