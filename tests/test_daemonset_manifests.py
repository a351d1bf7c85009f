"""The manifests of ``daemonset/``: they build, hang together, ask for no more than is used."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from helpers.kustomized import (
    DAEMONSET,
    ROOT,
    Document,
    built,
    containers,
    documents,
    needs_kubectl,
    one,
    pod_spec,
    problems,
)

from knp_py.adapters.kube.resources import WRITTEN
from knp_py.cli.main import load

BUILT = [
    str(path.parent.relative_to(DAEMONSET))
    for path in sorted(DAEMONSET.rglob("kustomization.yaml"))
    if "components" not in path.parts
]
FILES = [
    path
    for path in sorted(DAEMONSET.rglob("*.yaml"))
    if path.name not in {"kustomization.yaml", "cluster.yaml"}
]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
CAPTURES = "captures"
AGENTS = {"base": "--fail-open", "overlays/fail-closed": "--fail-closed"}


def pods(found: list[Document]) -> Iterator[Document]:
    for each in found:
        spec = pod_spec(each)
        if spec is not None:
            yield spec


def every_container() -> Iterator[tuple[str, Document]]:
    for path in FILES:
        for spec in pods(documents(path)):
            for container in containers(spec):
                yield f"{path.relative_to(DAEMONSET)} {container['name']}", container


@needs_kubectl
@pytest.mark.parametrize("name", BUILT)
def test_what_is_built_hangs_together(name: str) -> None:
    found = built(name)
    assert found
    beside = built(f"{CAPTURES}/volume") if name.startswith(CAPTURES) else []
    assert list(problems(found, beside)) == []


def test_every_file_is_manifests() -> None:
    for path in FILES:
        for each in documents(path):
            assert {"apiVersion", "kind", "metadata"} <= each.keys() or "patches" in each, path


@needs_kubectl
@pytest.mark.parametrize("name", BUILT)
def test_every_field_is_one_the_api_has(name: str) -> None:
    """By the API's own types, as the official client has them."""
    models = pytest.importorskip("kubernetes.client.models", reason="needs the extra agent")
    for each in built(name):
        group, _, version = each["apiVersion"].rpartition("/")
        if group.endswith("agents.x-k8s.io"):
            continue  # definitions that are not here
        model = getattr(models, f"{version.capitalize()}{each['kind']}")
        check(models, model, each, f"{name}: {each['kind']}")


def check(models: Any, model: Any, value: object, at: str) -> None:
    """Every field known, of its type, and none missing that must be there."""
    if isinstance(model, str):
        if match := re.fullmatch(r"[Ll]ist\[(.*)\]", model):
            assert isinstance(value, list), at
            for number, each in enumerate(value):
                check(models, match[1], each, f"{at}[{number}]")
        elif match := re.fullmatch(r"[Dd]ict[(\[]str, ?(.*)[)\]]", model):
            assert isinstance(value, dict), at
            for key, each in value.items():
                check(models, match[1], each, f"{at}.{key}")
        elif model in {"str", "int", "bool", "float"}:
            assert type(value).__name__ == model, f"{at}: {value!r} is no {model}"
        elif model not in {"object", "datetime"}:
            check(models, getattr(models, model), value, at)
        return
    if model.__name__ == "V1IntOrString":
        return
    assert isinstance(value, dict), at
    fields = {wire: name for name, wire in model.attribute_map.items()}
    assert value.keys() <= fields.keys(), f"{at}: {value.keys() - fields.keys()} unknown"
    model(**{fields[key]: each for key, each in value.items()})  # refuses what is missing
    for key, each in value.items():
        check(models, model.openapi_types[fields[key]], each, f"{at}.{key}")


# -- rights ----------------------------------------------------------------------------------


def asked_for() -> set[tuple[str, str, str, str, str]]:
    """(group, resource, namespace, name, verb) as the API source has them."""
    resources = pytest.importorskip("knp_py.adapters.kube.resources")
    return {
        (each.group, each.plural, each.namespace, each.name, verb)
        for each in resources.WATCHED
        for verb in ("list", "watch")
    }


def granted(found: list[Document]) -> set[tuple[str, str, str, str, str]]:
    """The same of every rule that a binding gives to the agent's account."""
    roles = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in found
        if each["kind"] in {"Role", "ClusterRole"}
    }
    rights = set()
    for binding in found:
        if binding["kind"] not in {"RoleBinding", "ClusterRoleBinding"}:
            continue
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "namespace": "kube-system", "name": "knp"}
        ]
        ref, namespace = binding["roleRef"], binding["metadata"].get("namespace", "")
        role = roles.pop((ref["kind"], namespace, ref["name"]))
        for rule in role["rules"]:
            assert rule.keys() <= {"apiGroups", "resources", "resourceNames", "verbs"}
            rights |= {
                (group, resource, namespace, name, verb)
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for name in rule.get("resourceNames", [""])
                for verb in rule["verbs"]
            }
    assert not roles, f"nobody has {list(roles)}"
    return rights


STATUS = {
    (need.group, need.resource, "kube-system" if need.own else "", need.name, need.verb)
    for need in WRITTEN
}


def test_the_agent_may_read_what_it_reads_and_nothing_else() -> None:
    assert granted(documents(DAEMONSET / "base" / "rbac.yaml")) == {
        (group, resource, "", "", verb)
        for group, resource in (
            ("", "pods"),
            ("", "namespaces"),
            ("", "nodes"),
            ("networking.k8s.io", "networkpolicies"),
            ("policy.networking.k8s.io", "clusternetworkpolicies"),
        )
        for verb in ("list", "watch")
    } | {("", "services", "kube-system", "kube-dns", verb) for verb in ("list", "watch")}


def test_what_it_may_read_is_what_the_source_asks_for() -> None:
    assert granted(documents(DAEMONSET / "base" / "rbac.yaml")) == asked_for()


def test_writing_is_the_status_component_s_alone() -> None:
    found = documents(DAEMONSET / "components" / "status" / "rbac.yaml")
    assert granted(found) == STATUS


@needs_kubectl
def test_the_kind_overlay_has_both_and_no_more() -> None:
    base = granted(documents(DAEMONSET / "base" / "rbac.yaml"))
    assert granted(built("overlays/kind")) == base | STATUS


# -- the agent's pods ------------------------------------------------------------------------


def test_no_container_has_more_than_it_needs() -> None:
    names = [name for name, _ in every_container()]
    assert names
    for name, container in every_container():
        context = container["securityContext"]
        assert context["privileged"] is False, name
        assert context["allowPrivilegeEscalation"] is False, name
        assert context["readOnlyRootFilesystem"] is True, name
        assert context["capabilities"]["drop"] == ["ALL"], name
        rooted = context["runAsUser"] == 0
        assert context["capabilities"].get("add", []) == (["NET_ADMIN"] if rooted else []), name
        assert rooted or context["runAsNonRoot"] is True, name
        assert "memory" in container["resources"]["limits"], name
        assert "cpu" not in container["resources"]["limits"], name


def test_no_pod_reaches_further_than_it_must() -> None:
    for path in FILES:
        for spec in pods(documents(path)):
            assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, path
            assert not {"hostPID", "hostIPC"} & spec.keys(), path
            with_token = spec.get("automountServiceAccountToken", True)
            assert with_token is (path.parent.name == "base"), path
            hosts = [v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v]
            assert hosts in ([], ["/var/lib/knp"]), path


def test_the_agent_is_on_every_node_and_one_goes_at_a_time() -> None:
    [agent] = documents(DAEMONSET / "base" / "daemonset.yaml")
    assert agent["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
    }
    spec = pod_spec(agent)
    assert spec is not None
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert spec["hostNetwork"] is True
    assert spec["dnsPolicy"] == "Default"


def test_nothing_that_is_deleted_takes_kube_system_with_it() -> None:
    for path in FILES:
        for each in documents(path):
            assert each["kind"] != "Namespace" or each["metadata"]["name"] != "kube-system"


def test_the_image_is_this_version() -> None:
    for name, container in every_container():
        if container["image"].startswith("knp:"):
            assert container["image"] == f"knp:{VERSION}", name


# -- the agent's command line ----------------------------------------------------------------


def understood(words: list[str]) -> Any:
    """Parsed by ``knp agent`` itself, not run."""
    assert words[:2] == ["knp", "agent"]
    return load("agent").make_context("agent", list(words[2:]))


@pytest.mark.parametrize(("name", "mode"), AGENTS.items())
@needs_kubectl
def test_the_fail_mode_is_said_and_once(name: str, mode: str) -> None:
    spec = pod_spec(one(built(name), "DaemonSet"))
    assert spec is not None
    [container] = spec["containers"]
    said = [word for word in container["args"] if word.startswith("--fail")]
    assert said == [mode]
    parsed = understood([*container["command"], *container["args"]]).params
    assert parsed["fail_open"] is (mode == "--fail-open")


@needs_kubectl
@pytest.mark.parametrize("name", BUILT)
def test_every_option_is_one_the_agent_has(name: str) -> None:
    for spec in pods(built(name)):
        for container in containers(spec):
            words = [*container.get("command", []), *container.get("args", [])]
            if words[:2] == ["knp", "agent"]:
                understood([word.replace("$(NODE_NAME)", "worker-1") for word in words])


@needs_kubectl
def test_kind_is_fail_closed_with_a_record_of_everything() -> None:
    spec = pod_spec(one(built("overlays/kind"), "DaemonSet"))
    assert spec is not None
    [container] = spec["containers"]
    assert container["imagePullPolicy"] == "Never"
    assert container["args"] == [
        "--fail-closed",
        "--hostname-override=$(NODE_NAME)",
        "--metrics-bind-address=:9080",
        "--state-dir=/run/knp",
        "--log-verdicts=all",
        "--write-status=auto",
        "--remember=off",
    ]


def test_the_state_directory_is_the_mounted_one() -> None:
    [agent] = documents(DAEMONSET / "base" / "daemonset.yaml")
    [cleanup] = documents(DAEMONSET / "overlays" / "cleanup" / "daemonset.yaml")
    for each in (agent, cleanup):
        spec = pod_spec(each)
        assert spec is not None
        container = containers(spec)[0]
        [mount] = container["volumeMounts"]
        assert f"--state-dir={mount['mountPath']}" in container["args"]


def test_the_port_is_the_one_that_prometheus_is_told() -> None:
    [agent] = documents(DAEMONSET / "base" / "daemonset.yaml")
    spec = pod_spec(agent)
    assert spec is not None
    [container] = spec["containers"]
    [port] = container["ports"]
    annotations = agent["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])
    assert f"--metrics-bind-address=:{port['containerPort']}" in container["args"]


def test_cleanup_is_not_the_agent_s_own_pods() -> None:
    """Its selector must not take the agent's pods, nor the agent's take its."""
    [agent] = documents(DAEMONSET / "base" / "daemonset.yaml")
    [cleanup] = documents(DAEMONSET / "overlays" / "cleanup" / "daemonset.yaml")
    for one_, other in ((agent, cleanup), (cleanup, agent)):
        selector = one_["spec"]["selector"]["matchLabels"]
        assert not selector.items() <= other["spec"]["template"]["metadata"]["labels"].items()


def test_manifests_are_yaml_that_says_each_key_once() -> None:
    for path in sorted(DAEMONSET.rglob("*.yaml")):
        list(yaml.load_all(path.read_text(), Loader=_Strict))


class _Strict(yaml.SafeLoader):
    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"{node.start_mark}: a key twice"
        return super().construct_mapping(node, deep)


def test_versions_in_the_readme_and_scripts_are_this_one() -> None:
    for path in (DAEMONSET / "README.md", DAEMONSET / "Dockerfile", *DAEMONSET.rglob("*.sh")):
        if path.exists():
            for found in re.findall(r"\bknp:(\d+\.\d+\.\d+)", path.read_text()):
                assert found == VERSION, path
