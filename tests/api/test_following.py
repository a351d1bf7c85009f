"""An API server that is followed: whatever goes wrong on the way, it ends where a list would.

Against a real HTTP server that behaves as kube-apiserver does. What a real kube-apiserver does
is tested by ``test_real_server.py``, where there is one.
"""

import itertools
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers.apiserver import ApiServer
from helpers.following import Following, followed
from helpers.nodes import eventually

from knp_py.adapters.kube.access import Access, by_kubeconfig, in_cluster
from knp_py.errors import InputError


def filled(api: ApiServer, cnps: int = 3) -> None:
    api.fill(pods=60, namespaces=4, nodes=3, networkpolicies=6, cnps=cnps)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody wants to wait half a minute for the next try."""
    monkeypatch.setattr("knp_py.adapters.kube.backoff.FIRST", 0.02)
    monkeypatch.setattr("knp_py.adapters.kube.backoff.LONGEST", 0.2)
    monkeypatch.setattr("knp_py.adapters.kube.follow._SHORT", 0.01)
    monkeypatch.setattr("knp_py.adapters.kube.follow._ABSENT", 0.1)
    monkeypatch.setattr("knp_py.adapters.kube.follow._ABSENT_FOR", 0.4)
    monkeypatch.setattr("knp_py.adapters.kube.follow.PAGE", 20)


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        filled(server)
        yield server


def enter(api: ApiServer, tmp_path: Path) -> Callable[[], Access]:
    return partial(by_kubeconfig, str(api.kubeconfig(tmp_path / "config")))


@pytest.fixture
def following(api: ApiServer, tmp_path: Path) -> Iterator[Following]:
    with followed(enter(api, tmp_path)) as found:
        found.agrees(api)
        yield found


def seen(api: ApiServer, plural: str, *, watch: bool) -> list[Any]:
    """Watches, or pages of lists; a page of one object is only to see how far the server is."""
    return [
        r
        for r in api.requests
        if r.path.endswith(f"/{plural}") and r.is_watch is watch and r.query.get("limit") != "1"
    ]


# -- nothing goes wrong ----------------------------------------------------------------------


def test_everything_is_listed_in_pages_then_watched(api: ApiServer, following: Following) -> None:
    pages = seen(api, "pods", watch=False)
    assert [page.query["limit"] for page in pages] == ["20", "20", "20"]
    assert len(following.batches) == 1, "half of the objects are another policy than all"
    api.wait_watches(6)
    watch = seen(api, "pods", watch=True)[0]
    assert watch.query["allowWatchBookmarks"] == "true"
    assert int(watch.query["timeoutSeconds"]) >= 300


def test_events_come_at_once_and_what_does_not_decide_not_at_all(
    api: ApiServer, following: Following
) -> None:
    api.wait_watches(6)
    api.churn(events=150, seed=1)
    following.agrees(api)
    name = next(iter(api.state("Pod").values()))["metadata"]
    following.stays()
    before = following.changed()
    api.patch("Pod", name["namespace"], name["name"], {"status": {"qosClass": "Burstable"}})
    following.stays()
    assert following.changed() == before
    assert len(seen(api, "pods", watch=False)) == 3, "listed once"


def test_only_the_cluster_resolver_is_asked_for_among_services(
    api: ApiServer, following: Following
) -> None:
    for name in ("kube-dns", "other"):
        api.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name, "namespace": "kube-system"},
                "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 53, "protocol": "UDP"}]},
            }
        )
    following.agrees(api)
    assert ("Service", "kube-system", "kube-dns") in following.world
    assert ("Service", "kube-system", "other") not in following.world


# -- the watch breaks ----------------------------------------------------------------


def test_a_connection_cut_in_the_middle_of_a_line_goes_on_from_there(
    api: ApiServer, following: Following
) -> None:
    api.wait_watches(6)
    api.churn(events=30, seed=2)
    following.agrees(api)
    api.cut_watches("pods", last=lambda: api.churn(events=1, seed=3))
    api.churn(events=30, seed=4)
    following.agrees(api)
    assert len(seen(api, "pods", watch=False)) == 3, "nothing was lost: no list"
    assert seen(api, "pods", watch=True)[-1].query["resourceVersion"] != "0"


@pytest.mark.parametrize("by_http", [False, True])
def test_history_that_is_lost_is_listed_again(
    api: ApiServer, following: Following, by_http: bool
) -> None:
    api.wait_watches(6)
    api.gone_as_http = by_http
    api.stop_listening()
    api.cut_watches("pods")
    api.churn(events=40, seed=5)
    api.compact()
    api.start_listening()
    following.agrees(api)
    api.wait_watches(6)
    assert len(seen(api, "pods", watch=False)) > 3


def test_the_same_objects_again_are_no_change(api: ApiServer, following: Following) -> None:
    api.wait_watches(6)
    before = following.changed()
    api.expire_watches()
    eventually(lambda: len(seen(api, "pods", watch=False)) >= 6, "it lists again")
    api.wait_watches(6)
    following.agrees(api)
    assert following.changed() == before


def test_a_version_that_expires_mid_watch(api: ApiServer, following: Following) -> None:
    api.wait_watches(6)
    api.expire_watches("pods", "networkpolicies")
    api.churn(events=40, seed=6)
    following.agrees(api)


def test_a_list_whose_pages_expire_starts_again(api: ApiServer, tmp_path: Path) -> None:
    api.drop_continues(3)
    with followed(enter(api, tmp_path)) as following:
        following.agrees(api)
        assert len(following.batches) == 1


def test_slow_pages_change_nothing_before_the_last(api: ApiServer, tmp_path: Path) -> None:
    api.page_delay = 0.6
    with followed(enter(api, tmp_path)) as following:
        time.sleep(0.3)
        assert not following.batches
        following.agrees(api)
        assert len(following.batches) == 1


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        (itertools.repeat("same"), "a page leads to one that was there before"),
        (itertools.cycle(["one", "two", "three"]), "a page leads to one that was there before"),
        (map(str, itertools.count()), "more than 50 pages"),
    ],
)
def test_a_list_that_never_ends_is_given_up_said_and_begun_anew(
    api: ApiServer,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tokens: Iterator[str],
    why: str,
) -> None:
    monkeypatch.setattr("knp_py.adapters.kube.follow._MOST_PAGES", 50)
    api.endless_lists("/pods$", tokens)
    with followed(enter(api, tmp_path)) as following:
        said = ""

        def is_said() -> bool:
            nonlocal said
            said += capfd.readouterr().err
            return why in said

        eventually(is_said, "it is said")
        assert f"pods: {api.url}: its list of pods does not end: {why}; nothing is known" in said
        eventually(lambda: why in following.resource("pods")["error"], "and shown")
        assert following.cluster.waits_for() == "pods"
        pages = [r.time for r in seen(api, "pods", watch=False) if "continue" not in r.query]
        assert len(pages) > 1, "it has begun anew"
        assert not following.batches
        api.no_more_failures()
        following.agrees(api)
        assert not following.resource("pods")["error"]


def test_what_is_being_listed_grows_old_meanwhile(api: ApiServer, following: Following) -> None:
    """A page more says nothing of what is there: only the whole list does."""
    api.wait_watches(6)
    world = dict(following.world)
    api.page_delay = 0.02
    api.endless_lists("/pods$", map(str, itertools.count()))
    api.expire_watches("pods")
    eventually(lambda: following.resource("pods")["age_seconds"] > 1.0, "it is seen to be old")
    assert not following.resource("pods")["error"], "it is still listing"
    assert following.world == world
    since = time.monotonic()
    api.no_more_failures()
    api.page_delay = 0.0

    def is_fresh() -> bool:
        return bool(following.resource("pods")["age_seconds"] < time.monotonic() - since)

    eventually(is_fresh, "it is as old as the list that has ended")
    following.agrees(api)


def test_bookmarks_keep_a_quiet_watch_from_expiring(api: ApiServer, following: Following) -> None:
    api.wait_watches(6)
    api.churn(events=20, seed=7)  # pods only: the other watches hear of it by bookmarks
    api.send_bookmark("networkpolicies")
    eventually(
        lambda: following.resource("networkpolicies")["resource_version"] == str(api.revision),
        "the bookmark is noted",
    )
    api.compact()
    api.cut_watches("networkpolicies")
    api.wait_watches(6)
    assert len(seen(api, "networkpolicies", watch=False)) == 1


def test_events_that_come_twice(api: ApiServer, following: Following) -> None:
    api.wait_watches(6)
    api.duplicate_events(50)
    api.churn(events=60, seed=8)
    following.agrees(api)


# -- the server says no ----------------------------------------------------------------


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_server_in_trouble_is_asked_again(api: ApiServer, tmp_path: Path, code: int) -> None:
    api.fail(code, 8, path="/pods")
    with followed(enter(api, tmp_path)) as following:
        following.agrees(api)
        api.wait_watches(6)
        api.fail(code, 3, watch=True)
        api.close_watches()
        api.churn(events=20, seed=9)
        following.agrees(api)


def test_retry_after_is_obeyed(api: ApiServer, tmp_path: Path) -> None:
    api.fail(429, 1, retry_after=1, path="/pods")
    with followed(enter(api, tmp_path)) as following:
        following.agrees(api)
    first, second = seen(api, "pods", watch=False)[:2]
    assert second.time - first.time >= 1.0


def test_a_server_that_falls_silent(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knp_py.adapters.kube.follow.SILENCE", 0.5)
    with followed(enter(api, tmp_path)) as following:
        following.agrees(api)
        api.freeze()
        api.churn(events=30, seed=10)
        eventually(lambda: following.cluster.age() > 1.0, "it is seen to be old")
        assert following.world
        api.thaw()
        following.agrees(api)
        eventually(lambda: following.cluster.age() < 1.0, "it is fresh again")


def test_an_outage_changes_nothing_whatever_happened_meanwhile(
    api: ApiServer, following: Following, capfd: pytest.CaptureFixture[str]
) -> None:
    api.wait_watches(6)
    world = dict(following.world)
    with api.outage():
        api.churn(events=40, seed=11)
        eventually(lambda: following.cluster.age() > 1.0, "it is old")
        assert following.world == world
    following.agrees(api)
    said = ""

    def is_over() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "heard again" in said

    eventually(is_over, "its end is said")
    assert said.count("Connection refused") == 1, "once, not for every resource and try"


def test_a_server_that_was_restored_from_a_backup(api: ApiServer, following: Following) -> None:
    """Its numbers are lower than those we know; nobody may wait for them to be reached."""
    api.wait_watches(6)
    backup = api.backup()
    api.churn(events=80, seed=12)
    following.agrees(api)
    api.restart(history=False, backup=backup)
    following.agrees(api)


def test_a_server_that_forgets_its_history(api: ApiServer, following: Following) -> None:
    api.wait_watches(6)
    with api.outage(history=False):
        api.churn(events=30, seed=13)
    following.agrees(api)


# -- the CRD comes and goes ----------------------------------------------------------------


def cluster_policy(name: str, action: str = "Deny", peer: str = "networks") -> dict[str, Any]:
    return {
        "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "kind": "ClusterNetworkPolicy",
        "metadata": {"name": name},
        "spec": {
            "tier": "Admin",
            "priority": 10,
            "subject": {"namespaces": {}},
            "egress": [{"action": action, "to": [{peer: ["10.0.0.0/8"]}]}],
        },
    }


def test_a_crd_that_appears_later_and_goes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with ApiServer() as api:
        filled(api, cnps=0)
        with followed(enter(api, tmp_path)) as following:
            following.agrees(api)
            assert following.resource("clusternetworkpolicies")["absent"]
            assert "the cluster has no ClusterNetworkPolicy" in capfd.readouterr().err
            api.install_crd("standard")
            api.apply(cluster_policy("guard"))
            following.agrees(api)
            assert ("ClusterNetworkPolicy", "", "guard") in following.world
            assert not following.resource("clusternetworkpolicies")["absent"]
            api.remove_crd()
            eventually(
                lambda: ("ClusterNetworkPolicy", "", "guard") not in following.world, "it is gone"
            )
            api.install_crd("experimental")
            api.apply(cluster_policy("again"))
            following.agrees(api)


def refused(api: ApiServer) -> None:
    api.fail(503, 1000, path="/namespaces$", watch=True)
    api.close_watches("namespaces")


def listing_long(api: ApiServer) -> None:
    api.page_delay = 0.05
    api.endless_lists("/namespaces$", map(str, itertools.count()))
    api.expire_watches("namespaces")


@pytest.mark.parametrize("deafen", [refused, listing_long])
def test_policies_do_not_go_while_namespaces_are_not_heard(
    api: ApiServer,
    following: Following,
    monkeypatch: pytest.MonkeyPatch,
    deafen: Callable[[ApiServer], None],
) -> None:
    """The namespace may be terminating, and then they hold until its pods are gone."""
    monkeypatch.setattr("knp_py.cli.nodeapi._AFTER_DEAF", 0.3)
    api.wait_watches(6)
    one, other = list(api.state("NetworkPolicy"))[:2]
    document = api.get("NetworkPolicy", *other)
    deafen(api)

    def is_seen() -> bool:
        namespaces = following.resource("namespaces")
        return bool(namespaces["error"] or not namespaces["resource_version"])

    eventually(is_seen, "it is seen")
    for namespace, name in (one, other):
        api.delete("NetworkPolicy", namespace, name)
    time.sleep(0.5)
    api.apply(document | {"metadata": {"namespace": other[0], "name": other[1]}})
    time.sleep(0.5)
    assert ("NetworkPolicy", *one) in following.world
    api.terminate("Namespace", "", one[0])
    api.no_more_failures()
    following.agrees(api)
    order = [(v, o.name) for batch in following.batches for v, o in batch]
    terminating = max(n for n, (_, name) in enumerate(order) if name == one[0])
    gone = max(n for n, (verb, name) in enumerate(order) if name == one[1])
    assert terminating < gone


def test_a_path_that_is_missing_for_a_moment_opens_nothing(
    api: ApiServer, following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knp_py.adapters.kube.follow._ABSENT_FOR", 30.0)
    api.wait_watches(6)
    api.fail(404, 5, path="clusternetworkpolicies")
    api.expire_watches("clusternetworkpolicies")
    following.stays(1.0)
    following.agrees(api)


@pytest.mark.parametrize("readyz", [500, 403])
def test_a_server_that_starts_does_not_know_its_own_resources_yet(
    api: ApiServer, tmp_path: Path, readyz: int
) -> None:
    """It answers 404 for what its CRDs define until it has read them; only /readyz tells."""
    api.fail(404, 10_000, path="clusternetworkpolicies")
    api.fail(readyz, 10_000, path="/readyz")
    with followed(enter(api, tmp_path)) as following:
        if readyz == 403:  # whoever may not ask believes it
            eventually(lambda: following.synced, "nothing more is waited for")
            assert following.resource("clusternetworkpolicies")["absent"]
            return
        eventually(
            lambda: following.cluster.waits_for() == "clusternetworkpolicies",
            "the others are there",
        )
        eventually(
            lambda: "is not ready" in following.resource("clusternetworkpolicies")["error"],
            "it says what it waits for",
        )
        assert not following.resource("clusternetworkpolicies")["absent"]
        assert following.cluster.waits_for()
        api.no_more_failures()
        following.agrees(api)


def test_an_event_that_is_too_long_is_gone_around(
    api: ApiServer, following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same watch would come to it again for ever, and to nothing after it."""
    monkeypatch.setattr("knp_py.adapters.kube.client._LONGEST", 20_000)
    (namespace, name), *_ = api.state("Pod")
    api.patch("Pod", namespace, name, {"metadata": {"annotations": {"a": "x" * 100_000}}})
    api.patch("Pod", namespace, name, {"metadata": {"labels": {"app": "another"}}})
    api.churn(events=10, seed=15)
    following.agrees(api)


# -- who asks ----------------------------------------------------------------


@pytest.mark.parametrize("auth", ["token", "token-file", "certificate"])
def test_kubeconfig_files(tmp_path: Path, auth: Any) -> None:
    with ApiServer(tls=True) as api:
        filled(api)
        config = api.kubeconfig(tmp_path / "config", auth=auth)
        with followed(partial(by_kubeconfig, str(config))) as following:
            following.agrees(api)


def test_a_token_that_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knp_py.adapters.kube.client._RENEW", 0.0)
    with ApiServer(tls=True) as api:
        filled(api)
        environment = api.service_account(tmp_path / "account")
        account = partial(in_cluster, str(tmp_path / "account"), environment)
        config = api.kubeconfig(tmp_path / "config", auth="token-file")
        with followed(account) as one, followed(partial(by_kubeconfig, str(config))) as other:
            for following in (one, other):
                following.agrees(api)
            api.rotate_token("another")
            api.close_watches()
            api.churn(events=30, seed=14)
            for following in (one, other):
                following.agrees(api)


def test_an_authority_that_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who vouches for the server changes while the agent runs; the kubelet renews ``ca.crt``."""
    monkeypatch.setattr("knp_py.adapters.kube.client._RENEW", 0.0)
    with ApiServer(tls=True) as api, ApiServer(tls=True) as old:
        filled(api)
        environment = api.service_account(tmp_path / "account")
        certificates = tmp_path / "account" / "ca.crt"
        right = certificates.read_bytes()
        certificates.write_bytes(Path(old.ca).read_bytes())
        with followed(partial(in_cluster, str(tmp_path / "account"), environment)) as following:
            eventually(
                lambda: "certificate" in following.resource("pods")["error"].lower(),
                "it is refused",
            )
            certificates.write_bytes(right)
            following.agrees(api)


def test_what_rbac_forbids_is_named(
    api: ApiServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    api.forbid("list", "networkpolicies")
    with followed(enter(api, tmp_path)) as following:
        eventually(
            lambda: following.cluster.waits_for() == "networkpolicies", "all but that is there"
        )
        eventually(
            lambda: "must let it list and watch networkpolicies" in capfd.readouterr().err,
            "it is said",
        )
        assert not following.batches, "nothing is put in force without them"
        api.allow("list", "networkpolicies")
        following.agrees(api)


def test_what_can_be_done_without_is_not_waited_for(
    api: ApiServer,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("knp_py.adapters.kube.follow._FORBIDDEN_FOR", 0.2)
    api.forbid("list", "services")
    with followed(enter(api, tmp_path)) as following:
        eventually(lambda: following.synced, "all else was listed")
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system"},
            "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 53, "protocol": "UDP"}]},
        }
        api.apply(service)
        following.stays()
        assert capfd.readouterr().err.count("goes on without: pods believe cluster DNS by") == 1
        api.allow("list", "services")
        following.agrees(api)


def test_a_server_that_nobody_vouches_for(tmp_path: Path) -> None:
    with ApiServer(tls=True) as api, ApiServer(tls=True) as other:
        config = tmp_path / "config"
        text = api.kubeconfig(config).read_text()
        config.write_text(text.replace(f":{api.port}", f":{other.port}"))
        with followed(partial(by_kubeconfig, str(config))) as following:
            eventually(
                lambda: "certificate" in following.resource("pods")["error"].lower(),
                "it is refused",
            )
            assert not other.requests


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "config"),
        ("not: [yaml", "config"),
        ("apiVersion: v1\nkind: Config\n", "config"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used(tmp_path: Path, text: str, expected: str) -> None:
    config = tmp_path / "config"
    config.write_text(text)
    with pytest.raises(InputError, match="--kubeconfig") as caught:
        by_kubeconfig(str(config))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_kubeconfig_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        by_kubeconfig(str(tmp_path / "config"))


@pytest.mark.parametrize(
    "server", ["", "127.0.0.1:6443", "ftp://127.0.0.1", "https://127.0.0.1:99999", "https://"]
)
def test_a_server_that_is_no_url(api: ApiServer, tmp_path: Path, server: str) -> None:
    config = api.kubeconfig(tmp_path / "config")
    config.write_text(config.read_text().replace(api.url, f"'{server}'"))
    with pytest.raises(InputError, match="config: its server is no URL as https://HOST:PORT"):
        by_kubeconfig(str(config))


def test_who_asks_is_not_shown_with_the_server(api: ApiServer, tmp_path: Path) -> None:
    config = api.kubeconfig(tmp_path / "config")
    config.write_text(config.read_text().replace("http://", "http://bob:s3cret@"))
    assert by_kubeconfig(str(config)).base == api.url
    config.write_text(config.read_text().replace("bob:s3cret@127.0.0.1", "[::1]"))
    assert by_kubeconfig(str(config)).base == f"http://[::1]:{api.port}"


def test_a_context_that_is_not_in_it(api: ApiServer, tmp_path: Path) -> None:
    config = api.kubeconfig(tmp_path / "config")
    with pytest.raises(InputError, match="nowhere"):
        by_kubeconfig(str(config), "nowhere")


def test_a_process_that_is_in_no_pod(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give --kubeconfig FILE or --manifests PATH"):
        in_cluster(str(tmp_path), {})
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(InputError, match="no service account"):
        in_cluster(str(tmp_path), environment)


# -- all of it ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_any_sequence_of_troubles_ends_in_what_is_there(
    api: ApiServer, following: Following, seed: int
) -> None:
    dice = random.Random(seed)
    troubles: list[Callable[[], object]] = [
        lambda: api.cut_watches("pods"),
        api.close_watches,
        api.expire_watches,
        api.compact,
        lambda: api.duplicate_events(5),
        lambda: api.fail(dice.choice([429, 500, 503]), 2),
        lambda: api.drop_continues(1),
        lambda: api.restart(history=dice.random() < 0.5),
        lambda: api.apply(cluster_policy(f"p{dice.randrange(3)}", dice.choice(["Deny", "Pass"]))),
        lambda: time.sleep(dice.uniform(0, 0.1)),
    ]
    for step in range(20):
        dice.choice(troubles)()
        api.churn(events=dice.randrange(12), seed=1000 * seed + step)
    following.agrees(api)


@pytest.mark.slow
def test_ten_thousand_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knp_py.adapters.kube.follow.PAGE", 250)
    with ApiServer() as api:
        api.fill(pods=10_000, networkpolicies=1_000, cnps=100)
        with followed(enter(api, tmp_path)) as following:
            following.agrees(api, seconds=60)
            api.wait_watches(6)
            churn = api.new_churn(events=2_000, seed=15)
            churn.start()
            churn.join()
            following.agrees(api, seconds=60)
            api.compact()
            api.cut_watches()
            api.churn(events=200, seed=16)
            following.agrees(api, seconds=60)
