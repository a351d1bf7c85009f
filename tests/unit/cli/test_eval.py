import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.command import knp, run_knp

from knp_py.engine.chains import ISOLATED

MANIFESTS = """\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: u1, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: c}]}
status: {phase: Running, podIPs: [{ip: 10.244.1.6}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, uid: u2, labels: {app: db}}
spec: {nodeName: n1, containers: [{name: c, ports: [{name: sql, containerPort: 5432}]}]}
status: {phase: Running, podIPs: [{ip: 10.244.1.7}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  policyTypes: [Ingress]
  ingress:
    - from: [{podSelector: {matchLabels: {app: web}}}]
      ports: [{port: 5432}]
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: names}
spec:
  tier: Admin
  priority: 10
  subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}
  egress:
    - name: in-cluster
      action: Accept
      to: [{namespaces: {}}]
    - name: github
      action: Accept
      to: [{domainNames: [github.com]}]
      protocols: [{tcp: {destinationPort: {number: 443}}}]
    - name: rest
      action: Deny
      to: [{networks: ["0.0.0.0/0", "::/0"]}]
"""


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("manifests") / "shop.yaml"
    path.write_text(MANIFESTS)
    return str(path)


@pytest.fixture
def probes(tmp_path: Path) -> Path:
    return tmp_path / "probes.jsonl"


def ask(manifests: str, *argv: str) -> dict[str, Any]:
    code, out, err = knp("eval", "--manifests", manifests, *argv, "-o", "json")
    assert (code, err) == (0, "")
    document: dict[str, Any] = json.loads(out)
    return document


def test_one_flow_as_json(manifests: str) -> None:
    document = ask(manifests, "--from", "shop/web", "--to", "shop/db", "--port", "sql")
    rule = {
        "direction": "ingress",
        "tier": "NetworkPolicy",
        "policy": "shop/db",
        "rule": 0,
        "rule_name": None,
        "action": "Accept",
    }
    assert document == {
        "verdict": "allow",
        "from": {"ip": "10.244.1.6", "pod": "shop/web"},
        "to": {"ip": "10.244.1.7", "pod": "shop/db"},
        "protocol": "TCP",
        "port": 5432,
        "decided_by": rule,
        "egress": {
            "direction": "egress",
            "tier": "Admin",
            "policy": "names",
            "rule": 0,
            "rule_name": "in-cluster",
            "action": "Accept",
            "allowed": True,
        },
        "ingress": rule | {"allowed": True},
    }


def test_isolation_says_who_isolates_and_why(manifests: str) -> None:
    document = ask(manifests, "--from", "203.0.113.9", "--to", "shop/db", "--port", "5432")
    assert document["verdict"] == "deny"
    assert document["egress"] is None
    assert document["ingress"]["rule"] is None
    assert document["ingress"]["action"] == "Deny"
    assert document["ingress"]["isolated_by"] == ["shop/db"]
    assert document["ingress"]["reason"] == document["reason"] == ISOLATED
    assert list(document["decided_by"]) == [
        "direction", "tier", "policy", "rule", "rule_name", "action",
    ]  # fmt: skip


def test_the_default_port_is_443(manifests: str) -> None:
    assert ask(manifests, "--from", "shop/web", "--to", "github.com")["port"] == 443


def test_one_flow_for_people(manifests: str) -> None:
    code, out, err = knp("eval", "-m", manifests, "--from", "shop/web", "--to", "1.2.3.4")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "verdict     deny",
        "flow        shop/web (10.244.1.6) to 1.2.3.4, TCP 443",
        'decided by  egress: Admin names, rule 2 "rest"',
        'egress      deny: Admin names, rule 2 "rest"',
        "ingress     not judged, since egress denies",
    ]


WORKLOADS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: shop}
spec:
  clusterIP: 10.96.0.9
  selector: {app: api}
  ports: [{port: 80, targetPort: http}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: api, namespace: shop}
spec:
  podSelector: {matchLabels: {app: api}}
  policyTypes: [Egress]
  egress:
    - to: [{ipBlock: {cidr: 10.244.0.0/16}}]
    - to: [{podSelector: {matchLabels: {app: api}}}]
      ports: [{port: 8080}]
"""


@pytest.fixture
def workloads(tmp_path: Path) -> str:
    path = tmp_path / "all.yaml"
    path.write_text(f"{MANIFESTS}---\n{WORKLOADS}")
    return str(path)


def shown(manifests: str, *argv: str) -> dict[str, str]:
    code, out, err = knp("eval", "-m", manifests, *argv)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 100
    rows = [line.partition("  ") for line in re.sub(r"\n +", " ", out).splitlines()]
    return {head: text.strip() for head, _, text in rows}


def test_a_workload_stands_for_its_pods_and_their_addresses_are_made_up(workloads: str) -> None:
    rows = shown(workloads, "--from", "shop/api", "--to", "shop/db", "--port", "5432")
    assert re.fullmatch(
        r"shop/api-0 \([0-9.]+, made up\) to shop/db \(10\.244\.1\.7\), TCP 5432", rows["flow"]
    )
    assert rows["note"] == (
        "shop/api is judged as its pod api-0; selectors do not tell it from api-1"
    )
    document = ask(workloads, "--from", "shop/web", "--to", "shop/api", "--port", "http")
    assert document["to"]["pod"] == "shop/api-0"
    assert document["to"]["assumed"] is True
    assert document["port"] == 8080


def test_a_rule_about_networks_is_said_to_have_judged_a_made_up_address(workloads: str) -> None:
    argv = ("--from", "shop/api-0", "--to", "shop/api-1")
    assert shown(workloads, *argv, "--port", "22")["note"] == (
        "the address of shop/api-1 is made up, and rules about networks judge it:"
        " egress: NetworkPolicy shop/api, rule 0"
    )
    assert "note" not in shown(workloads, *argv, "--port", "8080")


def test_probes_name_pods_and_nothing_else(workloads: str, probes: Path) -> None:
    probes.write_text(
        '{"from": "shop/api", "to": "1.2.3.4"}\n{"from": "shop/web", "to": "shop/db:80"}\n'
    )
    code, out, _ = knp("eval", "-m", workloads, "--probes", str(probes), "-o", "jsonl")
    first, second = (json.loads(line)["error"] for line in out.splitlines())
    assert code == 2
    assert first == "from: there is no pod shop/api; namespace shop has api-0, api-1"
    assert second == "to: 'shop/db:80' ends in a port; give it apart, as port"


@pytest.mark.parametrize("argv", [["shop/db:5432"], ["shop/db:sql"], ["10.244.1.7:5432"]])
def test_the_port_may_be_part_of_the_destination(manifests: str, argv: list[str]) -> None:
    document = ask(manifests, "--from", "shop/web", "--to", *argv)
    assert (document["port"], document["to"]["pod"]) == (5432, "shop/db")
    assert ask(manifests, "--from", "shop/web", "--to", "github.com:80")["verdict"] == "deny"
    again = ask(manifests, "--from", "shop/web", "--to", "shop/db:5432", "--port", "5432")
    assert again["port"] == 5432


@pytest.mark.parametrize("service", ["shop/front", "10.96.0.9"])
def test_how_many_backends_a_service_has_is_said(workloads: str, service: str) -> None:
    argv = ("--from", "shop/web", "--to", f"{service}:80", "--resolve-services")
    assert re.search(
        r"to shop/api-0 \(.*, made up\), first of 2 backends of Service shop/front, TCP 8080$",
        shown(workloads, *argv)["flow"],
    )
    Path(workloads).write_text(Path(workloads).read_text().replace("replicas: 2", "replicas: 1"))
    assert "up), the only backend of Service shop/front" in shown(workloads, *argv)["flow"]
    judged = shown(workloads, "--from", "shop/web", "--to", "10.96.0.9:80")
    assert judged["flow"].endswith("to Service shop/front (10.96.0.9), TCP 80")


def test_backends_that_differ_are_shown_with_who_decided(workloads: str) -> None:
    text = Path(workloads).read_text()
    Path(workloads).write_text(
        f"{text}---\n"
        "apiVersion: v1\n"
        "kind: Pod\n"
        "metadata: {name: api-x, namespace: shop, labels: {app: api, old: x}}\n"
        "spec: {containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}\n"
        "status: {phase: Running, podIPs: [{ip: 10.244.1.9}]}\n"
        "---\n"
        "apiVersion: networking.k8s.io/v1\n"
        "kind: NetworkPolicy\n"
        "metadata: {name: old, namespace: shop}\n"
        "spec: {podSelector: {matchLabels: {old: x}}, policyTypes: [Ingress]}\n"
        "---\n"
        "apiVersion: v1\n"
        "kind: Pod\n"
        "metadata: {name: api-y, namespace: shop, labels: {app: api}}\n"
        "spec: {containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}\n"
        "status: {phase: Running, podIPs: [{ip: 10.244.1.10}]}\n"
    )
    argv = ("--from", "shop/web", "--to", "shop/front:80", "--resolve-services")
    out = knp("eval", "-m", workloads, *argv).out
    words = " ".join(out.split())
    assert "to Service shop/front, 2 backends, TCP 80 " in words
    assert (
        "backend shop/api-x 10.244.1.9:8080: deny, ingress: NetworkPolicy shop/old: isolates,"
        " no rule matches" in words
    )
    assert "backend shop/api-y 10.244.1.10:8080: allow, egress: Admin names, rule 0" in words
    assert max(map(len, out.splitlines())) <= 100


def test_explain_names_every_rule(manifests: str) -> None:
    argv = ("--from", "shop/web", "--to", "1.2.3.4", "--explain")
    lines = knp("eval", "-m", manifests, *argv).out.splitlines()
    assert "egress of shop/web, every policy considered:" in lines
    assert lines[-4:] == [
        "  Admin 10 names",
        '    rule 0    Accept  no peer matches                       "in-cluster"',
        '    rule 1    Accept  no such name is learned for it        "github"',
        '    rule 2    Deny    decided                               "rest"',
    ]
    (steps,) = ask(manifests, *argv)["considered"]
    assert steps["policies"][0]["rules"][1]["rule_name"] == "github"
    assert knp(
        "eval", "-m", manifests, "--from", "shop/db", "--to", "1.2.3.4", "--explain"
    ).out.endswith("egress of shop/db, every policy considered: none selects it\n")


@pytest.mark.parametrize(("word", "code"), [("deny", 0), ("allow", 1), ("unknown", 1)])
def test_expecting_a_verdict(manifests: str, word: str, code: int) -> None:
    ended = knp("eval", "-m", manifests, "--from", "shop/web", "--to", "1.2.3.4", "--expect", word)
    assert ended.code == code
    assert ended.err == ("" if code == 0 else f"knp: the verdict is deny, expected is {word}\n")


def test_probes_are_answered_in_order_one_a_line(manifests: str, probes: Path) -> None:
    probes.write_text(
        '\ufeff{"id": "p1", "from": "shop/web", "to": "140.82.112.3", "names": ["github.com"]}\n'
        "\n"
        '{"id": 2, "from": "shop/web", "to": "140.82.112.3"}\n'
        '{"from": "shop/web", "to": "shop/db", "port": 5432}\n'
    )
    code, out, err = knp("eval", "--manifests", manifests, "--probes", str(probes), "-o", "jsonl")
    answers = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [(a["id"], a["verdict"]) for a in answers] == [
        ("p1", "allow"),
        (2, "deny"),
        (None, "allow"),
    ]
    array = json.loads(knp("eval", "-m", manifests, "--probes", str(probes), "-o", "json").out)
    assert array == answers


def test_a_bad_probe_is_an_error_of_its_line(manifests: str, probes: Path) -> None:
    probes.write_text(
        '{"id": "p1", "from": "shop/nobody", "to": "1.2.3.4"}\n'
        "not json\n"
        '{"id": "p3", "from": "shop/web", "to": "1.2.3.4", "expect": "allow"}\n'
    )
    code, out, err = knp("eval", "-m", manifests, "--probes", str(probes), "-o", "jsonl")
    first, second, third = map(json.loads, out.splitlines())
    assert code == 2
    assert first == {
        "id": "p1",
        "error": "from: there is no pod shop/nobody; namespace shop has db, web",
    }
    assert second["id"] is None
    assert second["error"].startswith("not JSON")
    assert third["verdict"] == "deny"
    lines = err.splitlines()
    assert lines[0] == "knp: 1 of 3 probes differ from what they expect"
    assert lines[1] == "knp: p3: expected allow, got deny"
    assert lines[2] == "knp: 2 of 3 probes have no answer"
    assert lines[4].startswith("knp: line 2: not JSON")


def test_a_verdict_that_is_not_the_expected_one(manifests: str, probes: Path) -> None:
    probes.write_text('{"id": "p3", "from": "shop/web", "to": "1.2.3.4", "expect": "allow"}\n')
    code, out, _ = knp("eval", "-m", manifests, "--probes", str(probes), "-o", "jsonl")
    assert (code, json.loads(out)["expect"]) == (1, "allow")


def test_probes_for_people(manifests: str, probes: Path) -> None:
    probes.write_text(
        '{"id": "p1", "from": "shop/web", "to": "github.com"}\n'
        '{"from": "shop/web", "to": "1.2.3.4", "protocol": "ICMP", "expect": "allow"}\n'
        '{"id": "p3", "from": "shop/web", "to": "shop/nobody"}\n'
    )
    code, out, _ = knp("eval", "-m", manifests, "--probes", str(probes))
    assert code == 2
    heads = [line[:6].strip() for line in out.splitlines()]
    assert [head for head in heads if head] == ["ID", "p1", "line 2", "p3"]
    assert all(len(line) <= 100 for line in out.splitlines())
    assert "there is no pod shop/nobody" in " ".join(out.split())
    assert "deny, not allow" in " ".join(out.split())
    explained = knp("eval", "-m", manifests, "--probes", str(probes), "--explain").out
    assert explained.count("every policy considered") == 2


@pytest.fixture
def wordy(tmp_path: Path) -> str:
    """Names as long as Deployments, namespaces and policies of a company have them."""
    text = MANIFESTS.replace("shop", "payments-production").replace("name: names", f"name: {LONG}")
    text = text.replace("name: web", "name: checkout-frontend-7d9f8b6c5d-x2x4q")
    text = text.replace("name: db", "name: settlement-database-5c6f7d8b9f-abcde")
    path = tmp_path / "wordy.yaml"
    path.write_text(text.replace("name: in-cluster", f"name: {LONG}"))
    return str(path)


LONG = "egress-restrictions-of-the-platform-for-regulated-workloads"
WEB = "payments-production/checkout-frontend-7d9f8b6c5d-x2x4q"
DB = "payments-production/settlement-database-5c6f7d8b9f-abcde"


def test_a_table_of_probes_fits_100_columns_and_cuts_no_name(wordy: str, probes: Path) -> None:
    probes.write_text(
        f'{{"id": "p1", "from": "{WEB}", "to": "{DB}", "port": 22, "expect": "allow"}}\n'
        f'{{"id": "checkout-to-{LONG}", "from": "{WEB}", "to": "github.com"}}\n'
        f'{{"id": 3, "from": "{WEB}", "to": "{DB}x"}}\n'
    )
    code, out, _ = knp("eval", "-m", wordy, "--probes", str(probes), "--explain")
    assert code == 2
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    indent = " " * 39
    assert lines[:11] == [
        "ID                    VERDICT          CONNECTION",
        f"p1                    deny, not allow  {WEB}",
        f"{indent}→ {DB}",
        f"{indent}TCP 22",
        f"{indent}ingress: NetworkPolicy",
        f"{indent}{DB}:",
        f"{indent}isolates, no rule matches",
        f"checkout-to-{LONG}  allow",
        f"{indent}{WEB}",
        f"{indent}→ 203.0.113.77 (github.com) TCP 443",
        f"{indent}egress: Admin",
    ]
    assert "there is no pod" in out


def test_explaining_fits_100_columns_and_cuts_no_name(wordy: str) -> None:
    lines = knp(
        "eval", "-m", wordy, "--from", WEB, "--to", "1.2.3.4", "--explain"
    ).out.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[-5:] == [
        f"  Admin 10 {LONG}",
        "    rule 0    Accept  no peer matches",
        f'              "{LONG}"',
        '    rule 1    Accept  no such name is learned for it        "github"',
        '    rule 2    Deny    decided                               "rest"',
    ]


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--to", "1.2.3.4"], "--from and --to, or --probes, are needed (see knp eval --help)"),
        (
            ["--probes", "x", "--from", "shop/web"],
            "--probes takes the place of --from, --to, --port and --expect",
        ),
        (["--from", "shop/nobody", "--to", "1.2.3.4"],
         "from: there is no pod shop/nobody; namespace shop has db, web"),
        (["--from", "shop/web", "--to", "1.2.3.4", "--expect", "maybe"],
         "--expect: 'maybe' is not one of allow, deny, unknown"),
        (["--probes", "/nowhere"], "/nowhere: no such file or directory"),
        (["--from", "shop/web", "--to", "shop/db:1", "--port", "2"],
         "--to shop/db:1 and --port 2 are two ports, expected one"),
        (["--from", "shop/web:1", "--to", "shop/db"],
         "from: 'shop/web:1' ends in a port; leave it out, it decides nothing"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(manifests: str, argv: list[str], line: str) -> None:
    assert knp("eval", "-m", manifests, *argv) == (2, "", f"knp: {line}\n")


def test_not_everything_can_be_standard_input() -> None:
    ended = knp("eval", "-m", "-", "--probes", "-")
    assert ended == (2, "", "knp: --manifests and --probes cannot both be standard input\n")


def test_bad_options_of_all_commands_are_noticed(manifests: str) -> None:
    ended = knp(
        "eval",
        "-m",
        manifests,
        "--from",
        "shop/web",
        "--to",
        "x.example",
        "--trusted-resolvers",
        "?",
    )
    assert (ended.code, ended.out) == (2, "")


def test_for_real(manifests: str) -> None:
    ended = run_knp(
        "eval", "-m", manifests, "--probes", "-", "-o", "jsonl",
        stdin=b'{"id": "p1", "from": "shop/web", "to": "github.com"}\n',
    )  # fmt: skip
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)["to"]["assumed"] is True


def test_the_process_imports_no_more_than_it_needs(manifests: str) -> None:
    ended = run_knp(
        "eval", "-m", manifests, "--from", "shop/web", "--to", "github.com", "-o", "json",
        env={"PYTHONPROFILEIMPORTTIME": "1"},
    )  # fmt: skip
    modules = {line.rpartition("|")[2].strip() for line in ended.err.splitlines()}
    assert "knp_py.cli.cluster" in modules
    assert not modules & {"pydantic", "rich", "scapy", "dnslib", "asyncio", "socket"}
