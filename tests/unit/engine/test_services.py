from helpers.builders import container_port, pod, service
from helpers.judging import snapshot_of

from knp_py.engine.services import backends
from knp_py.model.net import format_address

TCP, UDP = 6, 17
PODS = [
    pod("a/one", "10.0.0.1", "fd00::1", labels={"app": "x"}, ports=[container_port("web", 8081)]),
    pod("a/two", "10.0.0.2", labels={"app": "x"}, ports=[container_port("web", 8082)]),
    pod("a/done", "10.0.0.3", labels={"app": "x"}, phase="Succeeded"),
    pod("a/other", "10.0.0.4", labels={"app": "y"}),
    pod("b/one", "10.0.0.5", labels={"app": "x"}),
]


def found(target: int | str, *, protocol: int = TCP, v4: bool = True) -> list[tuple[str, int]]:
    vip = service("a/s", "10.96.0.1", selector={"app": "x"}, port=80, target=target)
    snapshot = snapshot_of([*PODS, vip])
    behind = backends(snapshot, vip, protocol=protocol, port=80, v4=v4)
    return [(format_address(b.address), b.port) for b in behind]


def test_backends_are_the_living_pods_of_its_namespace() -> None:
    assert found(8080) == [("10.0.0.1", 8080), ("10.0.0.2", 8080)]


def test_a_named_target_is_each_pods_own() -> None:
    assert found("web") == [("10.0.0.1", 8081), ("10.0.0.2", 8082)]
    assert found("nothing") == []


def test_the_family_is_that_of_the_address_asked_for() -> None:
    assert found(8080, v4=False) == [("fd00::1", 8080)]


def test_another_protocol_or_no_selector_has_no_backends() -> None:
    assert found(8080, protocol=UDP) == []
    vip = service("a/s", "10.96.0.1", port=80)
    assert backends(snapshot_of([*PODS, vip]), vip, protocol=TCP, port=80) == ()
