"""Addresses for Services whose manifests leave them to the API server, as all in Git do."""

from collections.abc import Mapping

from knp_py.manifests.addresses import Addresses
from knp_py.manifests.document import Document
from knp_py.model.net import format_address


class ClusterIps:
    """Gives each Service the same made-up address every time."""

    def __init__(self) -> None:
        self._addresses = Addresses(())
        self._given: dict[tuple[str, str], str] = {}

    def complete(self, document: Document) -> Document:
        """The Service with an address; whatever else it is, or has one, as it is."""
        value = document.value
        if not isinstance(value, dict) or value.get("kind") != "Service":
            return document
        spec, metadata = value.get("spec"), value.get("metadata")
        if not isinstance(spec, dict) or not isinstance(metadata, dict):
            return document
        if spec.get("clusterIP") or spec.get("clusterIPs") or spec.get("type") == "ExternalName":
            return document
        address = self._address(metadata)
        filled = {**spec, "clusterIP": address, "clusterIPs": [address]}
        return Document(
            document.origin, value={**value, "spec": filled}, optional=document.optional
        )

    def _address(self, metadata: Mapping[str, object]) -> str:
        key = str(metadata.get("namespace") or "default"), str(metadata.get("name"))
        if key not in self._given:
            self._given[key] = format_address(self._addresses.give("Service", *key, 0))
        return self._given[key]
