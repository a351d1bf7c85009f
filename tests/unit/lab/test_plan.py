from helpers.builders import address, addresses, node, pod
from helpers.judging import snapshot_of

from knp_py.lab.plan import Plan, PodPlan, plan_of, read_plan, write_plan

NODES = (
    node("n1", "172.18.0.2", "fd00:18::2", other_ips=["192.0.2.2"]),
    node("n2", "172.18.0.3"),
)


def test_every_pod_with_an_address_of_its_own_and_all_nodes() -> None:
    plan = plan_of(
        snapshot_of(
            [
                *NODES,
                pod("b/two", "10.244.1.3", "fd00:1::3", node="n1"),
                pod("a/one", "10.244.1.2", node="n2"),
                pod("a/finished", "10.244.1.4", phase="Succeeded"),
                pod("a/no-address"),
                pod("a/host", "172.18.0.2", host_network=True, host_ips=["172.18.0.2"]),
                pod("a/elsewhere", "10.244.1.5", host_ips=["172.18.0.9"]),
            ]
        )
    )
    assert [each.key for each in plan.pods] == ["a/elsewhere", "a/one", "b/two"]
    assert plan.pods[1] == PodPlan("a/one", addresses(["10.244.1.2"]), addresses(["172.18.0.3"]))
    assert plan.pods[2].node == addresses(["172.18.0.2", "fd00:18::2"])
    assert plan.nodes == tuple(
        sorted(addresses(["172.18.0.2", "172.18.0.3", "172.18.0.9", "192.0.2.2", "fd00:18::2"]))
    )


def test_an_address_of_two_pods_belongs_to_the_one_that_began_later() -> None:
    old = pod("a/old", "10.244.1.2", "fd00::2", created="2026-01-01T00:00:00Z")
    new = pod("a/new", "10.244.1.2", created="2026-01-02T00:00:00Z")
    plan = plan_of(snapshot_of([old, new]))
    assert {each.key: each.addresses for each in plan.pods} == {
        "a/old": addresses(["fd00::2"]),
        "a/new": addresses(["10.244.1.2"]),
    }


def test_a_node_does_not_take_a_pods_address() -> None:
    plan = plan_of(
        snapshot_of([node("n", "10.0.0.1", other_ips=["10.244.1.2"]), pod("a/p", "10.244.1.2")])
    )
    assert plan.nodes == addresses(["10.0.0.1"])


def test_addresses_by_family() -> None:
    both = PodPlan("a/p", addresses(["10.244.1.2", "fd00::2"]))
    assert both.address(v4=True) == address("10.244.1.2")
    assert both.address(v4=False) == address("fd00::2")
    assert PodPlan("a/p", addresses(["fd00::2"])).address(v4=True) is None


def test_a_plan_survives_being_written() -> None:
    plan = plan_of(snapshot_of([*NODES, pod("b/two", "10.244.1.3", "fd00:1::3", node="n1")]))
    assert read_plan(write_plan(plan)) == plan
    assert read_plan(write_plan(Plan())) == Plan()
