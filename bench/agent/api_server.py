"""An API server with a large cluster in it, whose pods come and go at a rate.

    python api_server.py KUBECONFIG EVENTS_PER_SECOND

It is the tests' own server, which behaves as kube-apiserver does; the objects are those of
``bench.scenarios`` and as large as real ones. Says ``ready`` once it serves, and goes on until
its input ends.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from helpers.apiserver import ApiServer  # noqa: E402
from helpers.apiserver_load import Churn  # noqa: E402
from helpers.apiserver_pods import Place  # noqa: E402

from bench.documents import document, pod_document  # noqa: E402
from bench.scenarios import cluster  # noqa: E402
from knp_py.model.objects import Pod  # noqa: E402

PODS, NETWORK_POLICIES, CLUSTER_POLICIES = 10_000, 1_000, 100
_LONG = 3600.0  # seconds
_LIVING = 400  # pods that come and go, at a time
_FIRST = 200  # of the networks beside those of the cluster's own pods
# One of twenty is the node at hand.
_PLACES = [
    Place("node-0", "172.20.0.0"),
    *(Place(f"node-{n}", "172.20.0.9") for n in range(1, 20)),
]


def main() -> None:
    """Serve until nobody wants it any more."""
    config, rate = Path(sys.argv[1]), float(sys.argv[2])
    objects = cluster(
        pods=PODS, network_policies=NETWORK_POLICIES, cluster_policies=CLUSTER_POLICIES
    )
    with ApiServer() as api:
        api.install_crd("experimental")
        for obj in objects:
            if not isinstance(obj, Pod):
                api.apply(document(obj))
        for index in range(PODS):
            api.apply(pod_document(index))
        api.kubeconfig(config)
        churn = Churn(
            api,
            _PLACES,
            [f"team-{number}" for number in range(10)],
            rate=rate,
            seconds=_LONG,
            events=None,
            seed=1,
            living=_LIVING,
            first=_FIRST,
        )
        if rate:
            churn.start()
        print("ready", flush=True)
        sys.stdin.read()
        churn.stop()


if __name__ == "__main__":
    main()
