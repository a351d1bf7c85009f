"""The flags of kube-network-policies' daemon, in the syntax of Go's package flag, as ours.

``knp agent`` takes the place of that daemon in a DaemonSet whose arguments stay as they are.
What it has under the same name is only spelled otherwise: one dash or two, ``-v 2`` or
``--v=2``, ``--fail-open=false``. What means nothing here is taken away, with a remark; what
would change which connections are allowed and cannot be honoured is refused. Everything else is
left as it was typed, for typer to understand or to complain of.

Names and meanings are from its documentation and the packages its command line is made of:
its own flags, those of component-base's logging and, in its older versions, those of klog.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from knp_py.errors import InputError


class Option(NamedTuple):
    """One of our options, by its long name with its dashes.

    ``takes`` is whether a value follows. ``off`` is the option that denies a switch, empty when
    leaving it away does.
    """

    name: str
    takes: bool
    off: str = ""


class Translated(NamedTuple):
    """Our arguments, and one remark for each flag that has no effect here."""

    argv: list[str]
    remarks: list[str]


class _Foreign(NamedTuple):
    """A flag of theirs that we do not have. ``why`` completes "… has no effect here: "."""

    takes: bool
    why: str


_NO_FILES = "the log goes to standard error, a line at a time"
_ONE_STREAM = "messages go to standard error, verdict records to standard output"
_TRUTH: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}

# With two dashes or one, words joined by - or _.
_HARMLESS: Final[Mapping[str, _Foreign]] = {
    "disable-nri": _Foreign(
        False,
        "knp does not ask the container runtime; until a pod's address is known, the fail mode"
        " decides about it",
    ),
    "netfilter-bug-1766-fix": _Foreign(
        False, "knp's own rules decide where DNS packets are read, on every kernel alike"
    ),
    "vmodule": _Foreign(True, "there is one verbosity for everything, --v"),
    "log-backtrace-at": _Foreign(True, "there are no source lines of Go's to name"),
    "log-dir": _Foreign(True, _NO_FILES),
    "log-file": _Foreign(True, _NO_FILES),
    "log-file-max-size": _Foreign(True, _NO_FILES),
    "logtostderr": _Foreign(False, _NO_FILES),
    "alsologtostderr": _Foreign(False, _NO_FILES),
    "stderrthreshold": _Foreign(True, _NO_FILES),
    "legacy-stderr-threshold-behavior": _Foreign(False, _NO_FILES),
    "one-output": _Foreign(False, _NO_FILES),
    "skip-log-headers": _Foreign(False, _NO_FILES),
    "add-dir-header": _Foreign(False, "lines have the header that klog gives them by default"),
    "skip-headers": _Foreign(False, "lines have the header that klog gives them by default"),
    "log-flush-frequency": _Foreign(True, "every line is written at once"),
    "log-json-info-buffer-size": _Foreign(True, "every line is written at once"),
    "log-text-info-buffer-size": _Foreign(True, "every line is written at once"),
    "log-json-split-stream": _Foreign(False, _ONE_STREAM),
    "log-text-split-stream": _Foreign(False, _ONE_STREAM),
}

# Empty, as by default, they ask for nothing.
_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "ip-tracker-address",
            "ip-tracker-ca-file",
            "ip-tracker-cert-file",
            "ip-tracker-key-file",
        ),
        "knp learns pods from manifests or the API server, not from an IP tracker,"
        " and would judge other pods than that",
    ),
    "plugin-dir": "knp cannot load plugins, and would enforce less than with them",
}

# Switches for APIs of v1alpha1, which knp reads from manifests and does not watch in a cluster.
_OLD_APIS: Final = {
    "admin-network-policy": "AdminNetworkPolicy",
    "baseline-admin-network-policy": "BaselineAdminNetworkPolicy",
}
_MANIFESTS: Final = "--manifests"


def translate(argv: Sequence[str], options: Mapping[str, Option]) -> Translated:
    """Our arguments for theirs, up to the first that is no flag: the rest is a command's.

    ``options`` are ours by name without dashes (``v``, ``fail-open``, ``m``). Raises
    ``InputError`` for a flag that cannot be honoured, and for a switch's value that is none.
    """
    out: list[str] = []
    remarks: list[str] = []
    old_apis: dict[str, bool] = {}
    rest = list(argv)
    while rest and rest[0] != "--" and len(rest[0]) > 1 and rest[0].startswith("-"):
        typed = rest.pop(0)
        name, equals, text = typed.removeprefix("-").removeprefix("-").partition("=")
        value = text if equals else None
        option = options.get(name)
        plain = name.replace("_", "-")
        if option is not None and option.takes:
            if value is None and rest:
                value = rest.pop(0)
            out.append(option.name if value is None else f"{option.name}={value}")
        elif option is not None:
            _switch(option, on=_truth(name, value), out=out)
        elif plain in _OLD_APIS:
            old_apis[plain] = _truth(plain, value)
        elif plain in _REFUSED:
            if value is None and rest:
                value = rest.pop(0)
            if value:
                raise InputError(f"--{plain} {value}: {_REFUSED[plain]}")
        elif (foreign := _HARMLESS.get(plain)) is not None:
            if foreign.takes and value is None and rest:
                rest.pop(0)
            remarks.append(f"--{plain} has no effect here: {foreign.why}")
        else:
            # With one dash typer would take it for several options of one letter.
            one_dash = len(name) > 1 and typed[1] != "-" and name[0] not in options
            out.append(f"-{typed}" if one_dash else typed)
    by_files = any(arg.partition("=")[0] == _MANIFESTS for arg in out)
    remarks += [_old_api(name, wanted=on, by_files=by_files) for name, on in old_apis.items()]
    return Translated(out + rest, remarks)


def _switch(option: Option, *, on: bool, out: list[str]) -> None:
    """The last word on a switch counts, as it does where its value can be said."""
    if on or option.off:
        out.append(option.name if on else option.off)
    else:
        out[:] = [arg for arg in out if arg != option.name]


def _truth(name: str, value: str | None) -> bool:
    if value is None:
        return True
    if value not in _TRUTH:
        raise InputError(f"--{name}={value}: expected true or false")
    return _TRUTH[value]


def _old_api(name: str, *, wanted: bool, by_files: bool) -> str:
    kind = _OLD_APIS[name]
    if wanted and not by_files:
        raise InputError(
            f"--{name}: knp does not watch {kind} objects of the API server and would not enforce"
            " them: make them ClusterNetworkPolicies, or give them by --manifests"
        )
    return (
        f"--{name} has no effect here: {kind} objects in --manifests are always enforced,"
        " those of the API server never"
    )
