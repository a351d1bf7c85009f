"""An explanation, policy by policy and rule by rule."""

from helpers import builders as b
from helpers.builders import accept, allow, cnp, deny, netpol, pass_on, select
from helpers.oracle import Learned
from helpers.world import World, line

from knp_py.engine.explain import DirectionSteps, Outcome, explain
from knp_py.model.objects import Pod
from knp_py.model.policy import Direction, Tier

A = b.pod("x/a", "10.0.1.10", labels={"app": "a"}, node="n1")
B = b.pod("y/b", "10.0.2.10", labels={"app": "b"})
N1 = b.node("n1", "192.168.0.1")
EXT = "203.0.113.5"
CLUSTER = (b.namespace("x"), b.namespace("y"), N1, A, B)
EVERYWHERE = b.networks("0.0.0.0/0", "::/0")


def steps(world: World, src: str | Pod, dst: str | Pod, dport: int = 80) -> list[DirectionSteps]:
    return list(explain(world.engine, b.packet(src, dst, dport), now=0.0).directions)


def outcomes(direction: DirectionSteps) -> list[tuple[str, int, Outcome]]:
    return [
        (policy.policy, rule.rule, rule.outcome)
        for policy in direction.policies
        for rule in policy.rules
    ]


def test_every_outcome_up_to_the_rule_that_decides() -> None:
    rules = [
        accept(b.in_namespace("z"), name="other end"),
        accept(b.in_namespace("y"), ports=[b.tcp(443)], name="other port"),
        accept(b.in_namespace("z"), ports=[b.tcp(443)], name="both"),
        accept(b.in_namespace("y"), b.unknown_peer("future"), name="unknown"),
        accept(b.domains("example.com"), name="a name"),
        deny(b.in_namespace("y"), name="this"),
        accept(b.in_namespace("y"), name="too late"),
        accept(b.in_namespace("z"), name="never asked"),
    ]
    world = World(*CLUSTER, cnp("p", priority=7, egress=rules))
    (egress,) = steps(world, A, B)
    (policy,) = egress.policies
    assert (policy.tier, policy.policy, policy.priority) == (Tier.ADMIN, "p", 7)
    assert [rule.outcome for rule in policy.rules] == [
        Outcome.PEER,
        Outcome.PORT,
        Outcome.PEER_AND_PORT,
        Outcome.CLOSED,
        Outcome.NAME,
        Outcome.DECIDED,
        Outcome.LATER,
        Outcome.NOT_REACHED,
    ]
    assert [rule.name for rule in policy.rules] == [rule.name for rule in rules]
    assert [rule.action for rule in policy.rules] == ["Accept"] * 5 + ["Deny"] + ["Accept"] * 2
    assert line(egress.ruling) == "egress Admin p[5]"


def test_a_pass_leads_to_the_next_tier() -> None:
    world = World(
        *CLUSTER,
        cnp("one", priority=1, egress=[pass_on(EVERYWHERE)]),
        cnp("two", priority=2, egress=[deny(EVERYWHERE)]),
        netpol("x/np", egress=[allow()]),
        cnp("base", Tier.BASELINE, egress=[deny(EVERYWHERE)]),
    )
    (egress,) = steps(world, A, EXT)
    assert outcomes(egress) == [
        ("one", 0, Outcome.PASSED),
        ("two", 0, Outcome.NOT_REACHED),
        ("x/np", 0, Outcome.DECIDED),
        ("base", 0, Outcome.NOT_REACHED),
    ]


def test_an_isolated_pod_names_all_that_isolate_it() -> None:
    world = World(
        *CLUSTER,
        netpol("x/none", egress=[]),
        netpol("x/some", egress=[allow(b.in_namespace("y"))]),
        netpol("x/others", select({"app": "z"}), egress=[allow()]),
        netpol("x/in", ingress=[]),
    )
    (egress,) = steps(world, A, EXT)
    assert [policy.policy for policy in egress.policies] == ["x/none", "x/some"]
    assert outcomes(egress) == [("x/some", 0, Outcome.PEER)]
    assert egress.policies[0].note
    assert egress.ruling.isolated_by == ("x/none", "x/some")


def test_both_directions_when_egress_allows() -> None:
    world = World(*CLUSTER, netpol("y/none", ingress=[]))
    egress, ingress = steps(world, A, B)
    assert (egress.direction, egress.pod, egress.policies) == (Direction.EGRESS, "x/a", ())
    assert (ingress.direction, ingress.pod) == (Direction.INGRESS, "y/b")
    assert [policy.policy for policy in ingress.policies] == ["y/none"]


def test_only_egress_when_it_denies() -> None:
    world = World(*CLUSTER, netpol("x/none", egress=[]), netpol("y/none", ingress=[]))
    assert [side.direction for side in steps(world, A, B)] == [Direction.EGRESS]


def test_a_learned_name_decides() -> None:
    grant = Learned(A.uid, "example.com", b.address(EXT), 60.0)
    rules = [accept(b.domains("*.test")), accept(b.domains("example.com")), deny(EVERYWHERE)]
    world = World(*CLUSTER, cnp("n", egress=rules), learned=[grant])
    (egress,) = steps(world, A, EXT)
    assert [outcome for _, _, outcome in outcomes(egress)] == [
        Outcome.NAME,
        Outcome.DECIDED,
        Outcome.LATER,
    ]


def test_a_nodes_peer_decides() -> None:
    world = World(*CLUSTER, cnp("n", egress=[deny(b.nodes()), deny(EVERYWHERE)]))
    (egress,) = steps(world, A, "192.168.0.1")
    assert [outcome for _, _, outcome in outcomes(egress)] == [Outcome.DECIDED, Outcome.LATER]


def test_a_named_port_is_looked_up_at_the_destination() -> None:
    web = b.pod("y/web", "10.0.2.11", ports=[b.container_port("http", 8080)])
    named = netpol("y/np", ingress=[allow(ports=[b.named("http")])])
    world = World(*CLUSTER, web, named)
    assert outcomes(steps(world, A, web, 8080)[1]) == [("y/np", 0, Outcome.DECIDED)]
    assert outcomes(steps(world, A, web, 80)[1]) == [("y/np", 0, Outcome.PORT)]


def test_the_own_node_is_allowed_by_the_tier_not_by_a_rule() -> None:
    base = cnp("base", Tier.BASELINE, ingress=[deny(b.namespaces())])
    world = World(*CLUSTER, netpol("x/np", ingress=[allow(b.in_namespace("y"))]), base)
    (ingress,) = steps(world, "192.168.0.1", A)
    assert line(ingress.ruling) == "ingress NetworkPolicy, from its own node"
    assert Outcome.DECIDED not in {outcome for _, _, outcome in outcomes(ingress)}


def test_nothing_is_considered_for_oneself_or_between_strangers() -> None:
    world = World(*CLUSTER, netpol("x/none", ingress=[], egress=[]))
    assert steps(world, A, A) == []
    assert steps(world, EXT, "192.168.0.1") == []
