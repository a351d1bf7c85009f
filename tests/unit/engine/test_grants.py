"""One client's names: what is shown, and in which order it goes."""

from knp_py.engine.grants import ClientNames, Held
from knp_py.engine.patterns import PatternTrie

TRIE = PatternTrie(["*.ex", "a.ex"])


class Orders:
    """A client whose entries are numbered as they come."""

    def __init__(self, shared: dict[int, dict[str, ClientNames]] | None = None) -> None:
        self.client = ClientNames("uid", "node", shared)
        self._order = 0

    def put(self, name: str, address: int, expires: float) -> None:
        self._order += 1
        held = self.client.find(name, address) or Held(name, address, TRIE.satisfied(name))
        self.client.put(held, expires, self._order, None)

    def shown(self, address: int) -> set[tuple[str, str, float]]:
        return {(g.pattern, g.name, g.expires) for g in self.client.grants.get(address, ())}


def test_the_longest_lived_is_shown() -> None:
    orders = Orders()
    orders.put("a.ex", 1, 50.0)
    orders.put("b.ex", 1, 90.0)
    orders.put("c.ex", 1, 70.0)
    assert orders.shown(1) == {("a.ex", "a.ex", 50.0), ("*.ex", "b.ex", 90.0)}


def test_shown_until_the_last_of_them_is_over() -> None:
    orders = Orders()
    for name, expires in (("b.ex", 90.0), ("c.ex", 70.0), ("d.ex", 80.0)):
        orders.put(name, 1, expires)
    assert orders.client.expire(80.0) == 2
    assert orders.shown(1) == {("*.ex", "b.ex", 90.0)}
    assert orders.client.expire(90.0) == 1
    assert orders.client.grants == {}
    assert list(orders.client) == []


def test_eviction_goes_by_expiry_then_age() -> None:
    orders = Orders()
    for name, expires in (("b.ex", 90.0), ("c.ex", 70.0), ("d.ex", 70.0)):
        orders.put(name, 1, expires)
    assert orders.client.evict(wanted=True)
    assert orders.client.find("c.ex", 1) is None
    assert orders.shown(1) == {("*.ex", "b.ex", 90.0)}
    assert orders.client.evict(wanted=True)
    assert orders.client.evict(wanted=True)
    assert not orders.client.evict(wanted=True)
    assert orders.client.sizes == [0, 0]


def test_extending_moves_an_entry_back() -> None:
    orders = Orders()
    orders.put("b.ex", 1, 50.0)
    orders.put("c.ex", 1, 60.0)
    orders.put("b.ex", 1, 70.0)
    assert orders.client.sizes == [0, 2]
    assert orders.shown(1) == {("*.ex", "b.ex", 70.0)}
    orders.client.evict(wanted=True)
    assert [held.name for held in orders.client] == ["b.ex"]


def test_stale_items_do_not_pile_up() -> None:
    orders = Orders()
    for step in range(10_000):
        orders.put("b.ex", 1, 50.0 + step)
    assert len(orders.client._queues[True]) < 100


def test_unwanted_entries_have_a_queue_of_their_own() -> None:
    orders = Orders()
    orders.put("b.ex", 1, 50.0)
    orders.put("b.other", 1, 40.0)
    assert orders.client.sizes == [1, 1]
    assert orders.client.evict(wanted=False)
    assert [held.name for held in orders.client] == ["b.ex"]


def test_many_names_of_one_address() -> None:
    orders = Orders()
    for number in range(5):
        orders.put(f"h{number}.ex", 1, 50.0 + number)
    assert len(orders.client.at(1)) == 5
    assert orders.client.find("h3.ex", 1) is not None
    assert orders.client.find("h9.ex", 1) is None
    orders.client.expire(52.0)
    assert sorted(held.name for held in orders.client.at(1)) == ["h3.ex", "h4.ex"]


def test_reindex() -> None:
    orders = Orders()
    orders.put("b.ex", 1, 90.0)
    orders.put("c.other", 1, 70.0)
    orders.put("d.other", 1, 80.0)
    orders.client.reindex(PatternTrie(["*.other"]), {})
    assert orders.client.sizes == [1, 2]
    assert orders.shown(1) == {("*.other", "d.other", 80.0)}
    assert orders.client.evict(wanted=True)
    assert sorted(held.name for held in orders.client) == ["b.ex", "d.other"]


def test_shared_index_follows() -> None:
    shared: dict[int, dict[str, ClientNames]] = {}
    orders = Orders(shared)
    orders.put("b.ex", 1, 50.0)
    orders.put("c.other", 2, 50.0)
    assert list(shared) == [1]
    orders.client.expire(50.0)
    assert shared == {}
    orders.put("b.ex", 1, 90.0)
    orders.client.clear()
    assert shared == {}
