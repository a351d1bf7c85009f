from knp_py.agent.connections import NamedConnections, Tuple
from knp_py.model.decision import NameGrant

ONE = (NameGrant("*.ex", "a.ex", 1, None, 9.0),)
TWO = (NameGrant("a.ex", "a.ex", 1, 2, 9.0),)


def connection(sport: int) -> Tuple:
    return (10, 20, 6, sport, 443)


def test_what_opened_a_connection() -> None:
    connections = NamedConnections()
    connections.put(connection(1), ONE)
    connections.put(connection(1), TWO)
    assert connections.get(connection(1)) == TWO
    assert connections.get(connection(2)) == ()
    assert len(connections) == 1


def test_the_longest_unused_goes_first() -> None:
    connections = NamedConnections(3)
    for sport in (1, 2, 3):
        connections.put(connection(sport), ONE)
    connections.get(connection(1))
    connections.put(connection(2), ONE)
    connections.put(connection(4), ONE)
    assert [each[0][3] for each in connections.dump()] == [1, 2, 4]


def test_it_is_taken_back_in_order_and_nobody_is_told() -> None:
    told: list[object] = []
    connections = NamedConnections(on_put=lambda *entry: told.append(entry))
    for sport in (2, 1):
        connections.put(connection(sport), ONE)
    assert told == [(connection(2), ONE), (connection(1), ONE)]
    again = NamedConnections(on_put=lambda *entry: told.append(entry))
    again.restore(connections.dump())
    assert list(again.dump()) == list(connections.dump())
    assert len(told) == 2


def test_what_is_dumped_does_not_change() -> None:
    connections = NamedConnections()
    connections.put(connection(1), ONE)
    dump = connections.dump()
    connections.put(connection(2), ONE)
    assert [each[0][3] for each in dump] == [1]


def test_a_tuple_that_no_name_opened_is_forgotten_once() -> None:
    told: list[object] = []
    connections = NamedConnections(on_put=lambda *entry: told.append(entry))
    connections.forget(connection(1))
    assert told == []
    connections.put(connection(1), ONE)
    connections.forget(connection(1))
    connections.forget(connection(1))
    assert connections.get(connection(1)) == ()
    assert told == [(connection(1), ONE), (connection(1), ())]
    # Whoever keeps what was told can give it back as it was.
    again = NamedConnections()
    again.restore([(connection(1), ONE), (connection(2), TWO), (connection(1), ())])
    assert list(again.dump()) == [(connection(2), TWO)]


def test_another_pod_with_the_same_address_and_port_inherits_nothing() -> None:
    connections = NamedConnections()
    connections.put(connection(1), ONE, "uid-1")
    assert connections.get(connection(1), "uid-1") == ONE
    assert connections.get(connection(1), "uid-2") == ()
    back = NamedConnections()
    back.restore(connections.dump())
    assert back.get(connection(1), "uid-1") == ONE
