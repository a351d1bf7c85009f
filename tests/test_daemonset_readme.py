"""Every command of ``daemonset/README.md`` and ``captures/README.md``, as far as it can run here.

``docker`` does nothing; ``kubectl`` builds what it is to apply or delete with the real one, and
prints what a cluster would. The kind kit's scripts are run in ``test_daemonset_kind.py``, cleanup
in ``rooted/test_daemonset.py``, and what ``docker`` would build in ``rooted/test_image.py``.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from helpers.kustomized import DAEMONSET, KUBECTL, ROOT, containers, needs_kubectl, one, pod_spec

from knp_py.cli.main import load

PAGES = [DAEMONSET / "README.md", DAEMONSET / "captures" / "README.md"]
ELSEWHERE = ("daemonset/kind/", "sudo ")

KUBECTL_STAND_IN = """\
#!/bin/sh
printf '%s\\n' "$*" >> "{desk}/calls"
case "$*" in
  "apply -k "*|"delete -k "*) exec {kubectl} kustomize "$3" >> "{desk}/built" ;;
  apply*|delete*|rollout*|set*|patch*|wait*|cp*) ;;
  "logs -n knp-captures job/knp-captures-merge") cat "{desk}/summary.json" ;;
  logs*) cat "{desk}/records.jsonl" ;;
  *clusternetworkpolicies*) echo '{{"apiVersion": "v1", "kind": "List", "items": []}}' ;;
  *"-o json"*) cat "{desk}/shop.json" ;;
  get*) echo "NAME" ;;
  *) echo "kubectl: what is $*?" >&2; exit 1 ;;
esac
"""


def commands(page: Path) -> list[str]:
    """The commands of a page in order; a here-document goes with its command."""
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        text = block.replace("\\\n", " ")
        for here in re.findall(r"^[^\n]*<<'END'\n.*?^END\n", text, re.MULTILINE | re.DOTALL):
            text = text.replace(here, here.rstrip().replace("\n", "\0") + "\n")
        found += [line.replace("\0", "\n").strip() for line in text.splitlines() if line.strip()]
    return found


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A checkout of sorts and stand-ins for what is not here."""
    for name in ("daemonset", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in {
        "docker": "#!/bin/sh\n",
        "kubectl": KUBECTL_STAND_IN.format(desk=tmp_path, kubectl=KUBECTL),
        "knp": f'#!/bin/sh\nexec "{sys.executable}" -m knp_py "$@"\n',
        "python": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n',
    }.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    documents = list(yaml.safe_load_all((ROOT / "examples/quickstart/shop.yaml").read_text()))
    listed = {"apiVersion": "v1", "kind": "List", "items": documents}
    (tmp_path / "shop.json").write_text(json.dumps(listed))
    (tmp_path / "records.jsonl").write_text(RECORD)
    (tmp_path / "summary.json").write_text('{"entries": 1}\n')
    (tmp_path / "node-1.pcap").write_bytes(
        (ROOT / "examples/agent-sandbox/phase4.pcap").read_bytes()
    )
    return tmp_path


# A container's log is both of its outputs.
RECORD = (
    "knp agent: enforcing for the pods of node worker-1, 1 of them selected by policy; …\n"
    '{"ts":"2026-11-29T20:38:02.100000Z","id":6,"verdict":"deny","direction":"egress","src":{"ip":'
    '"10.244.1.6","port":37306,"pod":"shop/web"},"dst":{"ip":"172.66.147.243","port":443,"names"'
    ':[]},"family":"IPv4","protocol":"TCP","decided_by":{"direction":"egress","tier":"Admin",'
    '"policy":"default-deny","rule":0,"rule_name":null,"action":"Deny"},"packets":1,"bytes":60,'
    '"reason":null}\n'
)


def environ(desk: Path) -> dict[str, str]:
    known = {"PATH": f"{desk / 'tools'}:{os.environ['PATH']}"}
    return {**os.environ, **known, "PYTHONPATH": str(ROOT)}


@needs_kubectl
@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DAEMONSET)))
def test_every_command_works(desk: Path, page: Path) -> None:
    lines = commands(page)
    assert lines
    for line in lines:
        if line.startswith(ELSEWHERE):
            continue
        ended = subprocess.run(
            ["sh", "-ec", line],
            cwd=desk,
            env=environ(desk),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, f"{line}\n{ended.stdout}{ended.stderr}"
        assert "Traceback" not in ended.stderr, line


def test_scripts_that_are_run_elsewhere_are_there() -> None:
    scripts = {line.split()[0] for page in PAGES for line in commands(page) if "kind/" in line}
    assert len(scripts) == 3
    assert all(os.access(ROOT / script, os.X_OK) for script in scripts)


@needs_kubectl
def test_the_overlay_of_one_s_own_is_what_the_page_says(desk: Path) -> None:
    [line] = [line for line in commands(PAGES[0]) if "<<'END'" in line]
    subprocess.run(["sh", "-ec", f"mkdir my-knp; {line}"], cwd=desk, check=True)
    done = subprocess.run(
        [str(KUBECTL), "kustomize", "my-knp"], cwd=desk, capture_output=True, text=True, check=True
    )
    found = list(yaml.safe_load_all(done.stdout))
    spec = pod_spec(one(found, "DaemonSet"))
    assert spec is not None
    [container] = containers(spec)
    assert container["image"] == "registry.example/knp:0.1.0"
    assert container["args"][0] == "--fail-open"
    assert container["args"][-2:] == ["--dry-run", "--log-verdicts=all"]
    assert any(each["metadata"]["name"] == "knp-status" for each in found)


@needs_kubectl
def test_the_patch_for_three_in_the_morning_hits_the_fail_mode() -> None:
    [line] = [line for line in commands(PAGES[0]) if line.startswith("kubectl patch")]
    [patch] = json.loads(re.findall(r"-p '(.*)'", line)[0])
    from helpers.kustomized import built  # noqa: PLC0415

    spec = pod_spec(one(built("overlays/fail-closed"), "DaemonSet"))
    assert spec is not None
    assert patch["path"] == "/spec/template/spec/containers/0/args/0"
    assert spec["containers"][0]["args"][0] == "--fail-closed"
    assert patch["value"] == "--fail-open"


def test_every_option_it_names_is_one_of_the_agent() -> None:
    known = {
        option for each in load("agent").params for option in (*each.opts, *each.secondary_opts)
    }
    text = "".join(page.read_text() for page in PAGES)
    named = set(re.findall(r"`(--[a-z-]+)[=`]", text))
    assert named
    assert named <= known


def test_every_link_leads_somewhere() -> None:
    for page in PAGES:
        text = page.read_text()
        anchors = {
            re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
            for line in text.splitlines()
            if line.startswith("#")
        }
        for target in re.findall(r"\]\(([^)]+)\)", text):
            if target.startswith("#"):
                assert target[1:] in anchors, f"{page}: {target}"
            elif not target.startswith("http"):
                assert (page.parent / target.partition("#")[0]).exists(), f"{page}: {target}"
