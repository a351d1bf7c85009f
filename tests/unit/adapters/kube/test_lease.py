"""One of many: however long requests take and whatever other machines' clocks say."""

from collections.abc import Iterator
from functools import partial
from operator import truediv

import pytest
from helpers.apiclients import asked, client_of
from helpers.apiserver import ApiServer
from helpers.fakes import FakeTimer

from knp_py.adapters.kube.client import ApiError, Client, UnreachableError
from knp_py.adapters.kube.lease import LASTS, RENEW, Lease

NOW = 1_796_000_000.0


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with ApiServer() as api:
        yield api


@pytest.fixture
def api(server: ApiServer) -> Iterator[ApiServer]:
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})
    server.requests.clear()
    yield server
    server.no_more_failures()
    if server.state("Lease"):
        server.delete("Lease", "kube-system", "knp-status")


@pytest.fixture
def client(api: ApiServer) -> Iterator[Client]:
    with client_of(api) as client:
        yield client


def lease_of(client: Client, who: str, timer: FakeTimer, *, skew: float = 0.0) -> Lease:
    return Lease(
        client, "kube-system", "knp-status", who,
        clock=timer.now, wall=lambda: NOW + timer.now() + skew, chance=lambda: 0.0,
    )  # fmt: skip


def is_held(lease: Lease) -> bool:
    """Asked anew: mypy believes that a property stays as it was."""
    return lease.held


def spec(api: ApiServer) -> dict[str, object]:
    found: dict[str, object] = api.get("Lease", "kube-system", "knp-status")["spec"]
    return found


def test_the_first_one_gets_it_and_keeps_it_by_one_request_each_time(
    api: ApiServer, client: Client
) -> None:
    timer = FakeTimer()
    lease = lease_of(client, "a", timer)
    assert not is_held(lease)
    assert lease.step() == RENEW
    assert is_held(lease)
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    assert asked(api) == [f"GET {path}/knp-status", f"POST {path}"]
    assert spec(api)["leaseDurationSeconds"] == LASTS
    first = spec(api)["renewTime"]
    for _ in range(3):
        timer.pass_by(RENEW)
        assert lease.step() == RENEW
    assert asked(api) == [f"PUT {path}/knp-status"] * 3
    assert is_held(lease)
    assert str(spec(api)["renewTime"]) > str(first)
    assert spec(api)["acquireTime"] == first


@pytest.mark.parametrize("skew", [-86_400.0, 0.0, 86_400.0])
def test_a_clock_that_is_a_day_off_makes_no_difference(
    api: ApiServer, client: Client, skew: float
) -> None:
    timer = FakeTimer()
    holder = lease_of(client, "a", timer, skew=skew)
    other = lease_of(client, "b", timer)
    assert holder.step() == RENEW
    for _ in range(12):  # two minutes of renewals
        other.step()
        assert not is_held(other)
        timer.pass_by(RENEW)
        holder.step()
        assert is_held(holder)
    # It dies. Another one waits for as long as the Lease lasts from when it saw it renewed.
    other.step()
    timer.pass_by(LASTS - 1)
    assert other.step() == 1.0  # when it will have run out
    assert not is_held(other)
    timer.pass_by(1)
    assert other.step() == RENEW
    assert is_held(other)
    assert not is_held(holder)
    assert other.holder == spec(api)["holderIdentity"] == "b"
    assert spec(api)["leaseTransitions"] == 1


def test_who_cannot_renew_stops_before_another_may_begin(api: ApiServer, client: Client) -> None:
    timer = FakeTimer()
    holder, other = lease_of(client, "a", timer), lease_of(client, "b", timer)
    holder.step()
    other.step()
    api.fail(500, 2, method="PUT")
    for _ in range(2):
        timer.pass_by(RENEW)
        with pytest.raises(ApiError):
            holder.step()
    assert not is_held(holder)
    other.step()
    assert not is_held(other)  # 20 s only
    timer.pass_by(RENEW)
    other.step()
    assert is_held(other)
    # The first one finds out by the version that it had.
    assert holder.step() < RENEW
    holder.step()
    assert not is_held(holder)
    assert holder.holder == "b"


def test_one_that_comes_back_in_time_still_has_it(api: ApiServer, client: Client) -> None:
    timer = FakeTimer()
    holder = lease_of(client, "a", timer)
    holder.step()
    with api.outage():
        timer.pass_by(25)
        with pytest.raises(UnreachableError):
            holder.step()
        assert not is_held(holder)
    assert holder.step() == RENEW
    assert is_held(holder)


def test_of_two_who_want_it_at_once_one_gets_it(client: Client) -> None:
    timer = FakeTimer()
    first = lease_of(client, "a", timer)
    first.step()
    b, c = lease_of(client, "b", timer), lease_of(client, "c", timer)
    b.step(), c.step()
    timer.pass_by(LASTS)
    stale = c._client.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/knp-status")
    b.step()
    # What c read before b wrote it is what c goes by.
    c._look = lambda: c._saw(Lease._decoded(stale))  # type: ignore[method-assign]
    assert c.step() < RENEW
    assert (b.held, c.held) == (True, False)


def test_one_that_is_edited_by_hand_is_found_again(api: ApiServer, client: Client) -> None:
    timer = FakeTimer()
    lease = lease_of(client, "a", timer)
    lease.step()
    api.patch("Lease", "kube-system", "knp-status", {"metadata": {"labels": {"x": "y"}}})
    timer.pass_by(RENEW)
    assert lease.step() < RENEW  # a conflict is a loss
    assert not is_held(lease)
    assert lease.step() == RENEW
    assert is_held(lease)
    assert api.get("Lease", "kube-system", "knp-status")["metadata"]["labels"] == {"x": "y"}
    assert "leaseTransitions" not in spec(api)


def test_one_that_is_deleted_is_made_again(api: ApiServer, client: Client) -> None:
    timer = FakeTimer()
    lease = lease_of(client, "a", timer)
    lease.step()
    api.delete("Lease", "kube-system", "knp-status")
    api.fail(404, 1, method="PUT")  # some servers do not make one by an update
    timer.pass_by(RENEW)
    lease.step()
    assert lease.step() == RENEW
    assert is_held(lease)


def test_a_released_one_is_free_at_once(api: ApiServer, client: Client) -> None:
    timer = FakeTimer()
    holder, other = lease_of(client, "a", timer), lease_of(client, "b", timer)
    holder.step()
    other.step()
    holder.release()
    assert not is_held(holder)
    assert "holderIdentity" not in spec(api)
    assert other.step() == RENEW
    assert is_held(other)
    holder.release()  # it is not its own any more
    assert spec(api)["holderIdentity"] == "b"


def test_it_is_released_also_when_nobody_hears_that(api: ApiServer, client: Client) -> None:
    lease = lease_of(client, "a", FakeTimer())
    lease.step()
    with api.outage():
        lease.release()
    assert not is_held(lease)


def test_without_its_namespace_there_is_none(client: Client) -> None:
    lease = Lease(client, "nowhere", "knp-status", "a")
    with pytest.raises(ApiError, match="nowhere"):
        lease.step()
    assert not is_held(lease)


def test_others_do_not_ask_all_at_once(client: Client) -> None:
    timer = FakeTimer()
    lease_of(client, "a", timer).step()
    pauses = []
    for number in range(10):
        other = Lease(
            *(client, "kube-system", "knp-status", "b"),
            clock=timer.now,
            chance=partial(truediv, number, 10),
        )
        pauses.append(other.step())
    assert pauses == [20.0 + number for number in range(10)]
