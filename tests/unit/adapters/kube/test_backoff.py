"""How long to wait before asking a server again."""

from knp_py.adapters.kube.backoff import FIRST, LONGEST, Backoff


def test_twice_as_long_each_time_up_to_a_limit() -> None:
    backoff = Backoff(lambda: 1.0)
    assert [backoff.after() for _ in range(4)] == [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST]
    for _ in range(20):
        backoff.after()
    assert backoff.after() == LONGEST
    backoff.reset()
    assert backoff.after() == FIRST


def test_nodes_do_not_come_back_together() -> None:
    assert Backoff(lambda: 0.0).after() == FIRST / 2
    assert [Backoff(lambda: 0.0).after(10.0), Backoff(lambda: 1.0).after(10.0)] == [10.0, 12.5]


def test_what_a_server_asks_for_is_obeyed_within_reason() -> None:
    backoff = Backoff(lambda: 0.0)
    assert backoff.after(7.0) == 7.0
    assert backoff.after(1e9) == 120.0
    assert backoff.after(0.0) == FIRST * 2
