"""Whatever a scenario file holds is understood or complained about; acting it out never fails."""

from typing import Any

from helpers.scenarios import ALLOW_DNS, ALLOW_GITHUB, CLUSTER, DENY_ALL, decoded
from hypothesis import given
from hypothesis import strategies as st

from knp_py.engine.resolvers import Trust
from knp_py.manifests.document import Document
from knp_py.model.objects import Origin
from knp_py.replay.junit import junit_xml
from knp_py.replay.rehearsal import rehearse
from knp_py.replay.report import counts_of, scenario_document
from knp_py.replay.scenario_reader import read_scenario

BESIDE = decoded(CLUSTER, "cluster.yaml")
SCALARS = st.none() | st.booleans() | st.integers(-1, 70000) | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)


def fields(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with some of these fields, now and then with a wrong value or a strange name."""
    right = st.fixed_dictionaries({}, optional=known)
    wrong = st.dictionaries(
        st.sampled_from(sorted(known)) | st.text(max_size=6), VALUES, max_size=1
    )
    return st.builds(lambda a, b: {**a, **b}, right, wrong) | right


ENDS = st.sampled_from(
    [
        *("a/client", "a/public", "a/server", "a/web", "svc:a/web", "10.96.0.10", "10.244.1.9"),
        *("github.com", "web.a", "nobody.example", "2001:db8::1", "203.0.113.1"),
        *("kube-system/dns", "10.96.1.1"),
    ]
)
PODS = st.sampled_from(["a/client", "a/public", "kube-system/dns", "203.0.113.1", "10.244.1.6"])
VERDICTS = st.sampled_from(["allow", "deny", "unknown"])
GOOD = st.fixed_dictionaries(
    {"from": PODS, "connect": ENDS, "verdict": VERDICTS},
    optional={
        "port": st.sampled_from([53, 80, 443]),
        "tier": st.sampled_from(["Admin", "Default"]),
    },
) | st.fixed_dictionaries(
    {"from": PODS, "lookup": st.sampled_from(["github.com", "web.a", "web"]), "verdict": VERDICTS},
    optional={"via": st.sampled_from(["8.8.8.8", "10.96.0.10", "svc:a/web", "a/client"])},
)
BAD = fields(
    **{"from": ENDS},
    connect=ENDS,
    lookup=st.sampled_from(["github.com", "web.a.svc.cluster.local", "x.example"]),
    via=ENDS,
    port=st.sampled_from([53, 80, 443, 0]),
    protocol=st.sampled_from(["TCP", "UDP", "ICMP", "SCTP", "IGMP"]),
    verdict=st.sampled_from(["allow", "deny", "unknown", "perhaps"]),
    policy=st.text(max_size=4),
    tier=st.sampled_from(["Admin", "Default"]),
    name=st.text(max_size=4),
)
STEPS = fields(
    name=st.text(max_size=4),
    apply=st.lists(st.dictionaries(st.sampled_from(["kind", "metadata", "spec"]), VALUES)),
    delete=st.sampled_from(["pod/a/client", "svc/a/web", "ns/a", "pod/a/nobody"]) | st.just([]),
    wait=st.integers(0, 400),
    expect=st.lists(GOOD | BAD, max_size=4),
)
GOOD_STEPS = st.fixed_dictionaries(
    {"expect": st.lists(GOOD, max_size=5)},
    optional={
        "wait": st.integers(0, 400),
        "delete": st.sampled_from(["pod/a/server", "svc/a/web", "svc/kube-system/kube-dns", []]),
        "apply": st.sampled_from([DENY_ALL, ALLOW_DNS, ALLOW_GITHUB]).map(
            lambda text: decoded(text)[0].value
        ),
    },
)
SCENARIOS = fields(
    **{"trusted-resolvers": st.sampled_from(["auto", "any", "8.8.8.8", "none"])},
    name=st.text(max_size=8),
    resolve=st.dictionaries(
        st.sampled_from(["github.com", "x.example"]),
        st.sampled_from(["140.82.121.4", ["2001:db8::1", "10.244.1.9"], "10.96.1.1"]),
    ),
    steps=st.lists(STEPS, min_size=1, max_size=3),
)


GOOD_SCENARIOS = st.fixed_dictionaries(
    {
        "resolve": st.just({"github.com": ["140.82.121.4", "2001:db8::1"]}),
        "node-resolvers": st.just(["8.8.8.8"]),
        "steps": st.lists(GOOD_STEPS, min_size=1, max_size=4),
    }
)


@given(GOOD_SCENARIOS | SCENARIOS | VALUES)
def test_understood_or_complained_about(value: object) -> None:
    scenario, problems = read_scenario(Document(Origin("s.yaml"), value=value))
    assert (scenario is None) is bool(problems)
    for problem in problems:
        assert "\n" not in str(problem)
    if scenario is None:
        return
    documents: dict[str, list[Document]] = {path: [] for _, path in scenario.paths()}
    result = rehearse(scenario, documents, trust=Trust(), scope="pod", beside=BESIDE)
    counts = counts_of(result)
    assert counts.expectations == len(result.checks)
    assert scenario_document(result).counts == counts
    assert junit_xml([result]).startswith("<?xml")
    for problem in (*result.problems, *(c.problem for c in result.checks if c.problem)):
        assert "\n" not in str(problem)
