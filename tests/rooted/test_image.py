"""The image, built for real and run for real, as the manifests of ``daemonset/`` say.

By buildah and runc, upon a Debian that is made here: no engine and no registry is needed, and
what only a cluster has is stood in for: the node by namespaces, the API server by the tests' own.
Where this machine cannot make a base or reach PyPI the tests are skipped; that the Dockerfile
does not build upon a base is a failure.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from helpers.imagebuild import Builder, CannotBuildError, Image
from helpers.imagerun import SECCOMP, RunAgent, Runtime, container_config
from helpers.kustomized import (
    DAEMONSET,
    KUBECTL,
    ROOT,
    Document,
    built,
    containers,
    documents,
    one,
    pod_spec,
)
from helpers.nodes import eventually, on_a_node
from helpers.workers import ALSO_81, NAME, cluster, table, worker

import knp_py

TOOLS = ("buildah", "runc", "debootstrap", "unshare")
ABSENT = [tool for tool in TOOLS if shutil.which(tool) is None]
pytestmark = [
    *on_a_node,
    pytest.mark.slow,
    pytest.mark.skipif(bool(ABSENT), reason=f"needs {', '.join(ABSENT)} (.ci/run installs it)"),
    pytest.mark.skipif(not SECCOMP.exists(), reason=f"needs {SECCOMP}, which buildah comes with"),
]

BASE = DAEMONSET / "base"
NET_ADMIN = 1 << 12
MEGABYTES = 1_000_000


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    path = tmp_path_factory.mktemp("image")
    try:
        try:
            builder = Builder(path)
        except CannotBuildError as error:
            pytest.skip(str(error))
        skip_unless_runc_works(path, builder.base)
        yield builder.build()
    finally:
        mounted = Path("/proc/self/mountinfo").read_text()
        assert f" {path}" not in mounted  # what is removed may not be somebody else's
        shutil.rmtree(path)


def skip_unless_runc_works(path: Path, base: Path) -> None:
    """By what is not ours: its own configuration, a program of Debian's."""
    with Runtime(path / "runc") as runtime:
        config = runtime.plain()
        config["root"]["path"] = str(base)
        config["process"]["args"] = ["true"]
        done = runtime.run("try", config)
    if done.returncode:
        pytest.skip(f"runc cannot run a container here: {done.stderr.strip()}")


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with Runtime(tmp_path / "runc") as runtime:
        yield runtime


def spec_of(document: Document) -> Document:
    spec = pod_spec(document)
    assert spec is not None
    return spec


class Nobody:
    """Runs what is asked of it as the pods of the Job do: no root, no capability, no writing."""

    def __init__(self, runtime: Runtime, image: Image) -> None:
        self._runtime = runtime
        self._image = image
        self._runs = 0
        [self._spec] = [spec_of(each) for each in documents(DAEMONSET / "captures/job.yaml")]

    def __call__(self, *, code: int = 0, **container: object) -> str:
        """What it printed. ``container`` is put in the place of the Job's own fields."""
        [job] = containers(self._spec)
        context = {"securityContext": job["securityContext"]}
        config = container_config(
            self._runtime.plain(),
            self._image,
            self._spec,
            {**context, **container},
            volumes={"examples": ROOT / "examples"},
            node_name=NAME,
        )
        self._runs += 1
        done = self._runtime.run(f"nobody-{self._runs}", config)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def nobody(runtime: Runtime, image: Image) -> Nobody:
    return Nobody(runtime, image)


def status_of(text: str) -> dict[str, str]:
    """A process's ``/proc/…/status``."""
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def on_the_path(image: Image) -> set[str]:
    """The programs of the image, by name."""
    [path] = [each[5:] for each in image.config["Env"] if each.startswith("PATH=")]
    found = {(image.files / each[1:]).resolve() for each in path.split(":")}
    return {program.name for at in found for program in at.iterdir()}


def test_it_holds_what_it_runs_and_nothing_to_build_or_install_with(image: Image) -> None:
    programs = on_the_path(image)
    assert {"knp", "nft", "iptables-nft", "ip6tables-nft-restore", "python3", "sh"} <= programs
    installers = ("gcc", "cc", "g++", "cpp", "as", "ld", "make", "pip", "pip3", "easy_install")
    assert not programs & set(installers)
    places = [*(image.files / "usr/lib").glob("python3*"), image.files / "opt/knp"]
    found = [path for place in places for path in place.rglob("pip*")]
    assert not [path for path in found if path.name == "pip" or path.suffix == ".whl"]
    assert not (image.files / "src").exists()
    assert not list((image.files / "var/lib/apt/lists").iterdir())
    ours = [path.lstat().st_size for path in (image.files / "opt/knp").rglob("*")]
    assert sum(ours) < 100 * MEGABYTES


def test_its_programs_run_as_nobody(nobody: Nobody) -> None:
    """By name, so by the image's PATH; netpol as the foreign DaemonSet does, without a command."""
    status = status_of(nobody(command=["cat", "/proc/self/status"]))
    assert status["Uid"].split() == ["65532"] * 4
    kinds = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    assert {int(status[kind], 16) for kind in kinds} == {0}
    assert status["Seccomp"] == "2"

    assert nobody(command=["knp", "--version"]) == f"knp {knp_py.__version__}\n"
    assert "--fail-open" in nobody(args=["/bin/netpol", "--help"])
    assert nobody(command=["nft", "--version"]).startswith("nftables v")
    assert "(nf_tables)" in nobody(command=["iptables-nft", "--version"])
    assert "(nf_tables)" in nobody(command=["ip6tables-nft-restore", "--version"])
    nobody(command=["python3", "-c", "import pip"], code=1)


def test_scenarios_are_tested_as_nobody(nobody: Nobody) -> None:
    mount = {"name": "examples", "mountPath": "/examples", "readOnly": True}
    said = nobody(command=["knp", "test"], args=["/examples/quickstart"], volumeMounts=[mount])
    assert "quickstart" in said


def fail_closed() -> list[Document]:
    """The overlay as kustomize builds it; where there is none, what it does, done to the base."""
    if KUBECTL is not None:
        return built("overlays/fail-closed")
    found = [each for name in ("rbac", "daemonset") for each in documents(BASE / f"{name}.yaml")]
    [container] = containers(spec_of(one(found, "DaemonSet")))
    assert container["args"][0] == "--fail-open"
    container["args"][0] = "--fail-closed"
    return found


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_the_daemonset_s_container_enforces_and_leaves_a_closed_node_closed(
    image: Image, runtime: Runtime, tmp_path: Path
) -> None:
    """Every word that it is run with is the manifests'; ``cleanup`` opens the node again."""
    plain = runtime.plain()
    volumes = {"state": tmp_path / "state"}
    found = fail_closed()
    spec = spec_of(one(found, "DaemonSet"))
    [container] = containers(spec)
    with worker(tmp_path) as node:
        with cluster(node, found, spec["serviceAccountName"]) as (api, account, service):
            config = container_config(
                plain,
                image,
                spec,
                container,
                volumes=volumes,
                account=account,
                service=service,
                node=node,
                node_name=NAME,
            )
            agent = RunAgent(node, runtime, config)
            eventually(agent.ready, "the agent is ready")
            it_is_confined(agent)
            assert node.judges("a/client", "10.244.1.3", 80, allowed=True)
            assert node.judges("a/client", "10.244.1.3", 81, allowed=False)
            eventually(lambda: bool(agent.records()), "the denial is written")
            assert {each["verdict"] for each in agent.records()} == {"deny"}
            assert agent.metric("knp_queue_depth") == 0.0
            assert "knp_queue_depth{" in agent.get("/metrics")[1]  # /proc's file could be read
            assert agent.status()["managed_pods"] == 1
            api.apply(yaml.safe_load(ALSO_81))
            eventually(lambda: node.connects("a/client", "10.244.1.3", 81), "it is allowed now")
            assert "warning" not in agent.log
            assert "forbidden" not in agent.log
            assert "Traceback" not in agent.log
            assert agent.stop() == 0
            assert "its rules stay" in agent.log
        assert table(node)
        for port in (80, 82):  # nobody is there to judge it
            assert node.judges("a/client", "10.244.1.3", port, allowed=False)

        [document] = documents(DAEMONSET / "overlays/cleanup/daemonset.yaml")
        spec = spec_of(document)
        container = containers(spec)[0]
        config = container_config(
            plain, image, spec, container, volumes=volumes, node=node, node_name=NAME
        )
        done = runtime.run("cleanup", config)
        assert done.returncode == 0, done.stderr
        assert "open now" in done.stdout
        assert not table(node)
        assert node.judges("a/client", "10.244.1.3", 82, allowed=True)


def it_is_confined(agent: RunAgent) -> None:
    """By what the kernel says of it."""
    process = Path(f"/proc/{agent.first}")
    status = status_of((process / "status").read_text())
    for kind in ("CapPrm", "CapEff", "CapBnd"):
        assert int(status[kind], 16) == NET_ADMIN, kind
    assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert status["NSpid"].split()[-1] == "1"
    mounts = (line.split() for line in (process / "mountinfo").read_text().splitlines())
    writable = {at[4] for at in mounts if "rw" in at[5].split(",")}
    assert {at for at in writable if not at.startswith(("/dev", "/proc"))} == {
        "/run/knp",
        "/etc/resolv.conf",
    }
