import pytest
from helpers.scenarios import read

from knp_py.model.net import parse_address
from knp_py.replay.scenario import Ref, kind_called, parse_ref


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1", Ref("10.0.0.1", address=parse_address("10.0.0.1"))),
        ("2001:DB8::1", Ref("2001:db8::1", address=parse_address("2001:db8::1"))),
        ("::ffff:10.0.0.1", Ref("10.0.0.1", address=parse_address("10.0.0.1"))),
        ("a/client", Ref("a/client", key="a/client")),
        ("pod:a/client", Ref("pod:a/client", key="a/client", kind="Pod")),
        ("svc:a/web", Ref("svc:a/web", key="a/web", kind="Service")),
        ("GitHub.com.", Ref("GitHub.com.", name="github.com")),
        ("web", Ref("web", name="web")),
    ],
)
def test_refs(text: str, expected: Ref) -> None:
    assert parse_ref(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", " ", "a/", "/b", "a/b/c", "svc:web", "10.0.0.256", "10.0.0", "*.github.com", "https://x"],
)
def test_what_is_no_ref(text: str) -> None:
    assert parse_ref(text) is None


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("Pod", "Pod"),
        ("pods", "Pod"),
        ("NetworkPolicy", "NetworkPolicy"),
        ("networkpolicies", "NetworkPolicy"),
        ("netpol", "NetworkPolicy"),
        ("cnp", "ClusterNetworkPolicy"),
        ("sandboxtemplate", "SandboxTemplate"),
        ("manifests", None),
        ("podd", None),
    ],
)
def test_kinds_as_kubectl_calls_them(word: str, kind: str | None) -> None:
    assert kind_called(word) == kind


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ("connect: github.com", "github.com:443"),
        ("connect: 10.0.0.1, port: 53, protocol: UDP", "10.0.0.1:53/UDP"),
        ("connect: '2001:db8::1', port: 80", "[2001:db8::1]:80"),
        ("connect: a/b, protocol: ICMP", "a/b ICMP"),
        ("lookup: github.com", "lookup github.com"),
        ("lookup: github.com, via: 8.8.8.8", "lookup github.com via 8.8.8.8"),
    ],
)
def test_destination_text(fields: str, text: str) -> None:
    scenario = read(f"steps: [{{expect: [{{from: a/c, {fields}, verdict: deny}}]}}]")
    assert scenario.steps[0].expect[0].destination == text


def test_paths_in_order_with_their_places() -> None:
    scenario = read(
        """\
        manifests: [x.yaml, y/]
        steps:
          - {apply: z.yaml}
          - {delete: [x.yaml, Pod/a/b]}
        """
    )
    assert list(scenario.paths()) == [
        ("manifests[0]", "x.yaml"),
        ("manifests[1]", "y/"),
        ("steps[0].apply[0]", "z.yaml"),
        ("steps[1].delete[0]", "x.yaml"),
    ]
