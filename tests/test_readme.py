"""Every command of the README is run, in order, in one directory, as a reader would.

What cannot run here is stood in for by scripts of the same name: ``kubectl``, which needs a
cluster, prints the examples' objects and a verdict log; ``tcpdump``, which would run until
stopped, writes the example capture (the real one runs in ``tests/rooted``). ``make`` is run
for ``demo`` with the environment the tests run in; ``make test`` is what runs this test.
Commands after ``sudo`` are run in a network namespace of their own, where that is possible.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from helpers.nodes import MISSING

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)

# Exit codes other than 0 that the README says: what changes, what lint found.
EXPECTED = {"knp replay node.pcap --manifests cluster.json --diff cluster-new.json": {1}}

KUBECTL = """\
#!/bin/sh
case "$*" in
  logs*) cat "{logs}" ;;
  *clusternetworkpolicies*) cat "{policies}" ;;
  *) cat "{cluster}" ;;
esac
"""
LOG = (
    'I1129 20:38:00.123456       1 engine.go:45] "Evaluating packet" id=303 direction="Egress"'
    ' srcPod="sandbox-team-a/agent" dstPod="external" packet=<\n'
    "\t[303] 10.244.1.6:37368 172.66.147.243:443 TCP\n >\n"
    'I1129 20:38:00.123556       1 controller.go:280] "Finished syncing packet" id=303'
    ' duration="171.516µs" verdict="drop"\n'
)


def commands() -> list[str]:
    """Command lines with continuation lines joined and comments gone."""
    lines = "".join(BLOCKS).replace("\\\n", " ").splitlines()
    return [re.sub(r"\s+#.*$", "", re.sub(r" +", " ", line)).strip() for line in lines if line]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of sorts, with the scripts that stand in for a cluster."""
    from knp_py.adapters.documents import read_documents  # noqa: PLC0415

    desk = tmp_path_factory.mktemp("desk")
    for name in ("examples", "Makefile", "pyproject.toml"):
        (desk / name).symlink_to(ROOT / name)
    tools = desk / "tools"
    tools.mkdir()
    cluster: list[object] = []
    policies: list[object] = []
    for document in read_documents([str(ROOT / "examples" / "agent-sandbox" / "manifests")]):
        value = document.value
        assert isinstance(value, dict)
        if value["kind"] == "ClusterNetworkPolicy":
            policies.append(value)
        else:
            cluster.extend(value["items"] if value["kind"] == "List" else [value])
    for name, items in (("cluster", cluster), ("policies", policies), ("new", cluster)):
        listed = {"apiVersion": "v1", "kind": "List", "items": items}
        (tools / f"{name}.json").write_text(msgspec.json.encode(listed).decode())
    shutil.copy(tools / "new.json", desk / "cluster-new.json")
    new = json.loads((tools / "new.json").read_text())
    new["items"] = [i for i in new["items"] if i["kind"] != "SandboxTemplate"]
    (desk / "cluster-new.json").write_text(json.dumps(new))
    (tools / "kube.log").write_text(LOG)
    script = KUBECTL.format(
        logs=tools / "kube.log", policies=tools / "policies.json", cluster=tools / "cluster.json"
    )
    (tools / "kubectl").write_text(script)
    capture = ROOT / "examples" / "agent-sandbox" / "phase4.pcap"
    (tools / "tcpdump").write_text(
        f'#!/bin/sh\nfor file; do :; done\n[ "$file" = - ] && exec cat "{capture}"\n'
        f'cp "{capture}" "$file"\n'
    )
    for name in ("kubectl", "tcpdump"):
        (tools / name).chmod(0o755)
    (desk / "policies").mkdir()
    shutil.copy(tools / "policies.json", desk / "policies")
    environment = desk / ".venv"
    (environment).mkdir()
    (environment / "bin").symlink_to(Path(sys.executable).parent)
    for stamp in (".demo", ".dev", ".agent"):
        (environment / stamp).touch()
    (desk / "verdicts.jsonl").write_text("")
    return desk


def environ_of(desk: Path) -> dict[str, str]:
    """Where the commands are found: stand-ins first, then those of the tests' environment."""
    path = os.pathsep.join((str(desk / "tools"), str(Path(sys.executable).parent)))
    return {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}


def test_there_is_something_to_run() -> None:
    assert {line.split()[0] for line in commands()} >= {
        "make",
        "knp",
        "kubectl",
        "tcpdump",
        "sudo",
    }


def test_every_command_of_the_readme_works(desk: Path) -> None:
    environ = environ_of(desk)
    for line in commands():
        if line == "make test" or line.startswith("sudo "):
            continue  # this very test, and the next one
        ended = subprocess.run(
            ["sh", "-c", line],
            cwd=desk,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode in EXPECTED.get(line, {0}), f"{line}\n{ended.stdout}{ended.stderr}"
        assert "Traceback" not in ended.stderr, line


@pytest.mark.needs_root
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make network namespaces")
@pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)} (.ci/run installs it)")
def test_every_command_for_root_works(desk: Path) -> None:
    environ = environ_of(desk)
    space = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec sh -c "$0"']
    for line in commands():
        if not line.startswith("sudo "):
            continue
        if line.startswith("sudo knp agent --"):
            process = subprocess.Popen(
                [*space, f"exec {line.removeprefix('sudo ')}"],
                cwd=desk,
                env=environ,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert process.stderr is not None
            with process.stderr:
                said = iter(process.stderr)
                assert any("enforcing" in each for each in said), line
                process.terminate()
                assert "stopped" in list(said)[-1], line
            assert process.wait(30) == 0, line
            continue
        # A lab brings its own namespaces; the rest must not come near those of this machine.
        prefix = ["sh", "-c"] if " lab" in line else space
        ended = subprocess.run(
            [*prefix, line.removeprefix("sudo ")],
            cwd=desk,
            env=environ,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert ended.returncode == 0, f"{line}\n{ended.stdout}{ended.stderr}"
        assert "Traceback" not in ended.stderr, line


def test_the_record_fields_are_those_of_a_record(desk: Path) -> None:
    from helpers.command import knp  # noqa: PLC0415

    capture = str(desk / "examples" / "agent-sandbox" / "phase4.pcap")
    manifests = str(desk / "examples" / "agent-sandbox" / "manifests")
    ended = knp("replay", capture, "-m", manifests, "-o", "jsonl")
    section = README.split("## Verdict records")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    documented = {field for row in rows for field in re.findall(r"`(\w+)`", row)}
    seen = {key for line in ended.out.splitlines() for key in json.loads(line)}
    assert seen <= documented
    assert documented - seen == {"unidentified", "enforced", "again", "shadow"}
