"""What is said when an API server cannot be followed."""

import pytest

from knp_py.adapters.kube.troubles import Troubles

REFUSED = "https://10.0.0.1:6443: Connection refused"


class Told:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.time = 100.0
        self.troubles = Troubles(self.lines.append, lambda: self.time)


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_connection_that_breaks_once_is_nobodys_business(told: Told) -> None:
    told.troubles.note("pods", REFUSED)
    told.troubles.over("pods")
    told.time += 300
    told.troubles.note("pods", REFUSED)
    told.troubles.over("pods")
    assert told.lines == []


def test_a_watch_that_is_agreed_to_and_breaks_each_time_is_somebodys(told: Told) -> None:
    for _ in range(3):
        told.troubles.note("pods", REFUSED)
        told.troubles.over("pods")
        told.time += 1
    assert told.lines[0] == f"pods: {REFUSED}; what was known goes on"


def test_an_outage_is_said_once_for_all_and_so_is_its_end(told: Told) -> None:
    for _ in range(5):
        for resource in ("pods", "nodes", "namespaces"):
            told.troubles.note(resource, REFUSED)
    assert told.lines == [f"pods: {REFUSED}; what was known goes on"]
    told.troubles.note("services", "403 Forbidden", known=False)
    told.troubles.note("services", "403 Forbidden", known=False)
    assert told.lines.pop() == "services: 403 Forbidden; nothing is known of it yet"
    told.troubles.over("services")
    told.time += 75
    told.troubles.over("pods")
    told.troubles.over("nodes")
    assert len(told.lines) == 1
    told.troubles.over("namespaces")
    assert told.lines[1:] == ["the API server is heard again, after 75 s"]
    told.troubles.over("namespaces")
    assert len(told.lines) == 2


def test_another_reason_is_another_line(told: Told) -> None:
    for why in (REFUSED, "403 Forbidden"):
        told.troubles.note("pods", why)
        told.troubles.note("pods", why)
    assert [line.partition(";")[0] for line in told.lines] == [
        f"pods: {REFUSED}",
        "pods: 403 Forbidden",
    ]
    told.troubles.over("pods")
    told.troubles.note("pods", REFUSED)
    told.troubles.note("pods", REFUSED)
    assert len(told.lines) == 4  # after its end it is news again


def test_reasons_that_are_never_the_same_do_not_fill_the_log(told: Told) -> None:
    """A proxy's error page has a number of its own each time; an outage may last for days."""
    for number in range(1000):
        told.troubles.note("pods", f"502 Bad Gateway: Reference {number}")
    assert len(told.lines) == 20
    told.troubles.over("pods")
    assert "heard again" in told.lines[-1]
