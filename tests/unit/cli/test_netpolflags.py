"""The flags of kube-network-policies, as ours, with a remark, or refused."""

import shlex

import pytest

from knp_py.cli.netpolflags import Option, translate
from knp_py.errors import InputError

OPTIONS = {
    "manifests": Option("--manifests", takes=True),
    "m": Option("--manifests", takes=True),
    "fail-open": Option("--fail-open", takes=False, off="--fail-closed"),
    "fail-closed": Option("--fail-closed", takes=False, off="--fail-open"),
    "strict-mode": Option("--strict-mode", takes=False),
    "nfqueue-id": Option("--nfqueue-id", takes=True),
    "hostname-override": Option("--hostname-override", takes=True),
    "metrics-bind-address": Option("--metrics-bind-address", takes=True),
    "logging-format": Option("--logging-format", takes=True),
    "kubeconfig": Option("--kubeconfig", takes=True),
    "priority": Option("--priority", takes=True),
    "v": Option("--v", takes=True),
    "help": Option("--help", takes=False),
    "h": Option("--help", takes=False),
}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("", ""),
        ("--v=2", "--v=2"),
        ("-v=2", "--v=2"),
        ("-v 2", "--v=2"),
        ("--v 4", "--v=4"),
        ("-v2", "-v2"),  # typer's own
        ("-nfqueue-id=98", "--nfqueue-id=98"),
        ("-nfqueue-id 98 -v 2", "--nfqueue-id=98 --v=2"),
        ("--hostname-override=", "--hostname-override="),
        ("--metrics-bind-address=:9080", "--metrics-bind-address=:9080"),
        ("-logging-format=json", "--logging-format=json"),
        ("-kubeconfig=/etc/k=1", "--kubeconfig=/etc/k=1"),
        ("--kubeconfig=", "--kubeconfig="),
        ("--fail-open", "--fail-open"),
        ("-fail-open=true", "--fail-open"),
        ("--fail-open=false", "--fail-closed"),
        ("--fail-open=F", "--fail-closed"),
        ("--fail-closed", "--fail-closed"),
        ("--fail-closed=0", "--fail-open"),
        ("--strict-mode=1", "--strict-mode"),
        ("--strict-mode=false", ""),
        ("--strict-mode --v=2 --strict-mode=false", "--v=2"),
        ("--strict-mode=false --strict-mode", "--strict-mode"),
        ("-m dir --manifests other", "--manifests=dir --manifests=other"),
        ("-mdir", "-mdir"),
        ("--priority -150", "--priority=-150"),
        ("-help", "--help"),
        ("-h", "--help"),
        ("--nfqueue-id", "--nfqueue-id"),  # typer misses the value
        ("--v=2 cleanup --instance -v", "--v=2 cleanup --instance -v"),
        ("--v=2 -- -v=3", "--v=2 -- -v=3"),
        ("- -v=3", "- -v=3"),
        # What nobody knows is typer's to complain of, by its whole name.
        ("--fail-opne=false", "--fail-opne=false"),
        ("-fail-opne=false", "--fail-opne=false"),
        ("-x", "-x"),
        ("---v=2", "---v=2"),
    ],
)
def test_spelling(theirs: str, ours: str) -> None:
    assert translate(shlex.split(theirs), OPTIONS) == (shlex.split(ours), [])


@pytest.mark.parametrize(
    ("theirs", "about"),
    [
        ("--disable-nri", "--disable-nri"),
        ("-disable-nri=false", "--disable-nri"),
        ("--netfilter-bug-1766-fix=false", "--netfilter-bug-1766-fix"),
        ("--vmodule=dns=4", "--vmodule"),
        ("-vmodule dns=4", "--vmodule"),
        ("-logtostderr", "--logtostderr"),
        ("--log_file_max_size 3", "--log-file-max-size"),
        ("--log-flush-frequency=5s", "--log-flush-frequency"),
        ("--log-json-split-stream", "--log-json-split-stream"),
    ],
)
def test_what_means_nothing_here_is_said_to_have_no_effect(theirs: str, about: str) -> None:
    argv, remarks = translate([*shlex.split(theirs), "--v=2"], OPTIONS)
    assert argv == ["--v=2"]
    assert len(remarks) == 1
    assert remarks[0].startswith(f"{about} has no effect here: ")
    assert "\n" not in remarks[0]


@pytest.mark.parametrize("name", ["admin-network-policy", "baseline-admin-network-policy"])
def test_the_older_apis_come_from_manifests_only(name: str) -> None:
    for argv in ([f"--{name}=true", "-m", "x"], ["-m", "x", f"-{name}"]):
        translated = translate(argv, OPTIONS)
        assert translated.argv == ["--manifests=x"]
        assert "in --manifests are always enforced" in translated.remarks[0]
    assert translate([f"--{name}=false"], OPTIONS).argv == []
    with pytest.raises(InputError, match=f"--{name}: knp does not watch"):
        translate([f"--{name}=true", "--v=2"], OPTIONS)


@pytest.mark.parametrize(
    ("theirs", "complaint"),
    [
        ("--ip-tracker-address=10.0.0.1:19090", "--ip-tracker-address 10.0.0.1:19090: "),
        ("-ip-tracker-ca-file /ca.pem", "--ip-tracker-ca-file /ca.pem: "),
        ("--plugin-dir=/plugins", "--plugin-dir /plugins: "),
        ("--fail-open=no", "--fail-open=no: expected true or false"),
        ("--strict-mode=", "--strict-mode=: expected true or false"),
        ("--admin-network-policy=maybe", "--admin-network-policy=maybe: expected true or false"),
    ],
)
def test_what_cannot_be_honoured_is_refused(theirs: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        translate(shlex.split(theirs), OPTIONS)
    assert str(caught.value).startswith(complaint)


def test_a_refused_flag_that_asks_for_nothing_is_harmless() -> None:
    assert translate(["--ip-tracker-address=", "--plugin-dir="], OPTIONS) == ([], [])
