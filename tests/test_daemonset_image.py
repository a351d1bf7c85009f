"""The image: what its Dockerfile says, and its installation done as it does it.

Nothing here needs root. ``tests/rooted/test_image.py`` builds the image and runs it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.kustomized import DAEMONSET, ROOT, containers, documents, pod_spec

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DOCKERFILE = (DAEMONSET / "Dockerfile").read_text()
COMPILERS = {"gcc", "g++", "build-essential", "libc6-dev", "python3-dev"}


class Instruction(NamedTuple):
    word: str
    text: str


def stages() -> list[list[Instruction]]:
    """The instructions of each stage, FROM first; what stands before the first is stage 0."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    found: list[list[Instruction]] = [[]]
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        found[-1].append(Instruction(word, " ".join(rest.split())))
    return found


def packages(stage: list[Instruction]) -> set[str]:
    """What apt-get installs in a stage."""
    return {
        name
        for instruction in stage
        if instruction.word == "RUN"
        for command in re.findall(r"apt-get install ([^&;]*)", instruction.text)
        for name in command.split()
        if not name.startswith("-")
    }


def test_the_base_is_pinned_by_tag_and_digest_and_the_same_in_both_stages() -> None:
    before, *rest = stages()
    assert len(rest) == 2
    [base] = [i.text for i in before if i.word == "ARG"]
    assert re.fullmatch(r"BASE=\S+:\S+@sha256:[0-9a-f]{64}", base)
    assert [stage[0].text for stage in rest] == ["${BASE} AS build", "${BASE}"]


def test_the_compiler_stays_behind() -> None:
    _, build, final = stages()
    assert packages(build) >= {"gcc", "libnetfilter-queue-dev"}
    assert not packages(final) & COMPILERS
    assert not any(name.endswith("-dev") for name in packages(final))
    assert not re.search(r"\bpip\b", " ".join(i.text for i in final))


def test_it_has_the_programs_that_the_agent_runs() -> None:
    """By name, as the adapters look for them, and from which package."""
    programs = {"nft": "nftables", "iptables-nft": "iptables", "ip6tables-nft-restore": "iptables"}
    final = packages(stages()[2])
    assert final == {*programs.values(), "python3", "libnetfilter-queue1"}
    sources = [path.read_text() for path in (ROOT / "knp_py" / "adapters").rglob("*.py")]
    asked = {name for text in sources for name in re.findall(r'which\("([\w-]+)"\)', text)}
    assert asked == {"nft"}  # besides those that iptables.py makes out of a family's name


def test_nothing_is_left_of_package_lists() -> None:
    for stage in stages()[1:]:
        for instruction in stage:
            if "apt-get install" in instruction.text:
                assert "apt-get update &&" in instruction.text
                assert "--no-install-recommends" in instruction.text
                assert instruction.text.endswith("rm -rf /var/lib/apt/lists/*")


def test_the_foreign_daemonset_s_arguments_run_as_they_stand() -> None:
    final = stages()[2]
    words = {instruction.word: instruction.text for instruction in final}
    assert "ENTRYPOINT" not in words
    assert json.loads(words["CMD"]) == ["/bin/netpol"]
    copied = [i.text for i in final if i.word == "COPY"]
    assert copied[-1] == "--chmod=0755 daemonset/netpol /bin/netpol"


def test_the_path_has_what_the_manifests_run() -> None:
    [env] = [i.text for i in stages()[2] if i.word == "ENV"]
    path = re.findall(r"PATH=(\S+)", env)[0].split(":")
    assert path[0] == "/opt/knp/bin"
    assert {"/usr/sbin", "/usr/bin"} <= set(path)  # nft and iptables; sleep, cat, sh


def test_everything_that_is_copied_is_there_and_not_ignored() -> None:
    kept = [
        line.removeprefix("!").strip()
        for line in (DAEMONSET / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    for stage in stages()[1:]:
        for instruction in stage:
            if instruction.word != "COPY" or "--from=" in instruction.text:
                continue
            *sources, _ = [w for w in instruction.text.split() if not w.startswith("--")]
            for source in sources:
                assert (ROOT / source).exists(), source
                assert source in kept, source


def netpol(tmp_path: Path, *arguments: str) -> list[str]:
    """What ``/bin/netpol`` runs: the words of it."""
    stand_in = tmp_path / "knp"
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" knp "$@"\n')
    stand_in.chmod(0o755)
    done = subprocess.run(
        [str(DAEMONSET / "netpol"), *arguments],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_netpol_is_the_agent_with_the_same_options(tmp_path: Path) -> None:
    options = ["--hostname-override=worker 1", "--v=2", "-nfqueue-id", "98", ""]
    assert netpol(tmp_path, *options) == ["knp", "agent", *options]
    assert netpol(tmp_path) == ["knp", "agent"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``/opt/knp`` of the image: the Dockerfile's sources, its script, a directory of ours."""
    source = tmp_path_factory.mktemp("src")
    (source / "daemonset").mkdir()
    for instruction in stages()[1]:
        if instruction.word == "COPY":
            *names, _ = instruction.text.split()
            for name in names:
                if (ROOT / name).is_dir():
                    ignore = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(ROOT / name, source / name, ignore=ignore)
                else:
                    shutil.copy(ROOT / name, source / name)
    [script] = [i.text for i in stages()[1] if "install.sh" in i.text and i.word == "RUN"]
    to = tmp_path_factory.mktemp("opt") / "knp"
    done = subprocess.run(
        script.replace("/opt/knp", str(to)).split(),
        cwd=source,
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode and ("netfilterqueue" in done.stderr.lower() or "gcc" in done.stderr):
        pytest.skip("the queue's binding cannot be built here (.ci/run installs what it needs)")
    assert done.returncode == 0, done.stderr
    return to


def run(installed: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        argv,
        cwd="/",
        env={"PATH": f"{installed}/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_what_is_installed_runs_and_holds_no_installer(installed: Path) -> None:
    done = run(installed, "knp", "test", str(ROOT / "examples" / "quickstart"))
    assert done.returncode == 0, done.stdout + done.stderr
    agent = run(installed, str(DAEMONSET / "netpol"), "--help")
    assert "--fail-open" in agent.stdout
    names = {path.name for path in (installed / "bin").iterdir()}
    assert "knp" in names
    assert not {name for name in names if name.startswith(("pip", "easy_install"))}
    code = (
        "import netfilterqueue, prometheus_client, knp_py\n"
        "import knp_py.cli.nodeagent, knp_py.adapters.kube.access\n"
        "print(knp_py.__file__)"
    )
    where = run(installed, "python", "-c", code)
    assert where.stdout.startswith(str(installed)), where.stderr


@pytest.mark.slow
def test_it_holds_what_the_agent_requires_and_every_package_is_pinned(installed: Path) -> None:
    code = (
        "from importlib.metadata import distributions\n"
        "print(*(f'{d.metadata[\"Name\"]}=={d.version}' for d in distributions()), sep='\\n')"
    )
    found = {plain(line) for line in run(installed, "python", "-c", code).stdout.split()}
    lines = (DAEMONSET / "requirements.txt").read_text().splitlines()
    pinned = {plain(line) for line in lines if not line.startswith("#")}
    assert found - pinned == {f"knp-py=={PROJECT['version']}"}
    assert pinned <= found

    names = {each.partition("==")[0] for each in found}
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["agent"]]
    required = {plain(re.split(r"[^\w.-]", each)[0]).rstrip("=") for each in wanted}
    assert required <= names, "put these into daemonset/requirements.txt"


def plain(requirement: str) -> str:
    """As PyPI compares names."""
    name, _, version = requirement.strip().partition("==")
    return f"{re.sub(r'[-_.]+', '-', name).lower()}=={version}"


def test_the_manifests_run_nothing_that_the_image_lacks() -> None:
    """Every command is knp, or of the essential packages of the base."""
    for path in sorted(DAEMONSET.rglob("*.yaml")):
        for each in documents(path):
            spec = pod_spec(each) if "spec" in each else None
            for container in containers(spec) if spec else ():
                if container["image"].startswith("knp:"):
                    assert container["command"][0] in {"knp", "sleep", "python3", "sh"}, path
