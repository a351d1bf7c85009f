"""The agent's own client, with the tests' API server."""

from collections.abc import Iterator
from contextlib import contextmanager

import urllib3
from helpers.apiserver import ApiServer

from knp_py.adapters.kube.access import Access
from knp_py.adapters.kube.client import Client


@contextmanager
def client_of(api: ApiServer) -> Iterator[Client]:
    """One with the server's token."""
    pool = urllib3.PoolManager(retries=False)
    client = Client(
        lambda: Access(api.url, pool, lambda: {"authorization": f"Bearer {api.token}"})
    )
    try:
        yield client
    finally:
        client.close()
        pool.clear()


def asked(api: ApiServer) -> list[str]:
    """What the server was asked since the last time: method and path."""
    with api.lock:
        requests = [f"{each.method} {each.path}" for each in api.requests]
        api.requests.clear()
    return requests
