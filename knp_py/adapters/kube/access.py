"""How an API server is reached: by a pod's service account or by a kubeconfig file.

HTTP and TLS are urllib3's. A service account is three files and two variables, which are read
here; a kubeconfig file, with its users, contexts and exec plugins, is read by the official
client's loader, imported only then: it costs as much memory as 3,000 pods.
"""

import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import urllib3

from knp_py.errors import InputError

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
_CONNECTIONS = 16
_ELSEWHERE = "kube-system"  # where the components of a cluster are that run outside of it


class Access(NamedTuple):
    """A way to a server. ``headers`` are asked for at each request: tokens change."""

    base: str
    pool: urllib3.PoolManager
    headers: Callable[[], Mapping[str, str]]


def is_in_cluster(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process runs in a pod that may know an API server."""
    return bool(environment.get(_HOST) and environment.get(_PORT))


def in_cluster(
    directory: str = SERVICE_ACCOUNT, environment: Mapping[str, str] = os.environ
) -> Access:
    """By the pod's service account. The token is read anew each time: the kubelet renews it.

    Raises ``InputError`` where that is not how this process runs.
    """
    if not is_in_cluster(environment):
        raise InputError(
            f"{_HOST} is not set: this is no pod of a cluster; give --kubeconfig FILE or"
            " --manifests PATH"
        )
    token = Path(directory, "token")
    certificates = Path(directory, "ca.crt")
    try:
        trust = ssl.create_default_context(cafile=str(certificates))
        _read(token)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"{directory}: no service account of a pod: {error}") from None
    host = environment[_HOST]
    where = f"[{host}]" if ":" in host else host
    return Access(
        f"https://{where}:{environment[_PORT]}",
        urllib3.PoolManager(maxsize=_CONNECTIONS, ssl_context=trust, retries=False),
        lambda: {"authorization": f"Bearer {_read(token)}"},
    )


def own_namespace(directory: str = SERVICE_ACCOUNT) -> str:
    """The namespace of the pod that this runs in; where there is none, ``kube-system``."""
    try:
        return Path(directory, "namespace").read_text().strip() or _ELSEWHERE
    except OSError:
        return _ELSEWHERE


def _read(token: Path) -> str:
    return token.read_text().strip()


def by_kubeconfig(
    path: str, context: str = "", say: Callable[[str], object] = lambda _: None
) -> Access:
    """By a kubeconfig file, or several with ``:`` between them; ``context`` other than its own.

    Raises ``InputError`` for one that cannot be used. An exec plugin that takes its time is told
    to ``say``; one that gives nothing when credentials have to be renewed makes ``headers`` raise
    ``OSError``.
    """
    missing = [name for name in path.split(os.pathsep) if not os.path.isfile(name)]
    if missing:
        raise InputError(f"--kubeconfig {missing[0]}: no such file")
    try:
        from kubernetes import client, config  # noqa: PLC0415  see above

        from knp_py.adapters.kube.plugins import PluginError, bound_plugins  # noqa: PLC0415
    except ImportError:
        raise InputError(
            "--kubeconfig needs the package kubernetes: pip install 'knp-py[agent,kubeconfig]'"
        ) from None
    settings = client.Configuration()
    bound_plugins(path, say)
    try:
        config.load_kube_config(  # type: ignore[no-untyped-call]
            path, context=context or None, client_configuration=settings, persist_config=False
        )
        api = client.ApiClient(settings)
    except PluginError as error:
        raise InputError(f"--kubeconfig {path}: {error}") from None
    except Exception as error:  # noqa: BLE001 - whatever the loader cannot make sense of
        said = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"--kubeconfig {path}: cannot be used: {said}") from None
    base = _checked(settings.host, path)
    pool = api.rest_client.pool_manager
    pool.connection_pool_kw |= {"maxsize": _CONNECTIONS, "retries": False}

    def headers() -> dict[str, str]:
        try:
            wanted: Mapping[str, Any] = settings.auth_settings()
        except PluginError as error:
            raise OSError(str(error)) from None
        return {
            each["key"]: each["value"]
            for each in wanted.values()
            if each["in"] == "header" and each["value"]
        }

    return Access(base, pool, headers)


def _checked(server: str, path: str) -> str:
    """A server's URL without a slash at its end, and without who asks: it is shown and logged."""
    try:
        url = urllib3.util.parse_url(server)
    except ValueError:
        url = None
    if url is None or url.scheme not in {"http", "https"} or not url.host:
        raise InputError(f"--kubeconfig {path}: its server is no URL as https://HOST:PORT")
    return url._replace(auth=None, query=None, fragment=None).url.rstrip("/")
