"""The files by which a client finds a server and says who it is."""

import base64
import itertools
from pathlib import Path

import yaml
from helpers.apiserver_certs import Pair
from helpers.apiserver_types import Doc


def write_kubeconfig(path: Path, url: str, user: Doc, ca: Path | None, *, inline: bool) -> Path:
    """One with one context. ``inline``: certificates are in it, else it says their files."""
    cluster: Doc = {"server": url}
    if ca is not None:
        cluster |= _file("certificate-authority", ca, inline=inline)
    context = {"cluster": "tests", "user": "tester", "namespace": "default"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [{"name": "tester", "user": user}],
        "contexts": [{"name": "tests", "context": context}],
        "current-context": "tests",
    }
    path.write_text(yaml.safe_dump(config))
    return path


def certificate_user(pair: Pair, *, inline: bool) -> Doc:
    """A kubeconfig's user with a client certificate."""
    cert = _file("client-certificate", pair.cert, inline=inline)
    return cert | _file("client-key", pair.key, inline=inline)


def _file(key: str, path: Path, *, inline: bool) -> Doc:
    if inline:
        return {f"{key}-data": base64.b64encode(path.read_bytes()).decode()}
    return {key: str(path)}


class ServiceAccountFiles:
    """What a pod has in ``/var/run/secrets/kubernetes.io/serviceaccount``.

    The files are links through ``..data``, as the kubelet makes them, and change by exchanging
    that link.
    """

    def __init__(self, directory: Path, ca: Path, namespace: str) -> None:
        self._directory = directory
        self._ca = ca
        self._namespace = namespace
        self._mounts = itertools.count(1)
        directory.mkdir(parents=True, exist_ok=True)

    def write(self, token: str) -> None:
        """With this token from now on."""
        mount = self._directory / f"..mount-{next(self._mounts)}"
        mount.mkdir()
        (mount / "token").write_text(token)
        (mount / "ca.crt").write_bytes(self._ca.read_bytes())
        (mount / "namespace").write_text(self._namespace)
        link = self._directory / "..data_tmp"
        link.symlink_to(mount.name)
        link.replace(self._directory / "..data")
        for name in ("token", "ca.crt", "namespace"):
            file = self._directory / name
            if not file.is_symlink():
                file.symlink_to(f"..data/{name}")
