"""The image, built as its Dockerfile says by buildah: no engine, no registry, one directory.

What the Dockerfile begins with is made here: a Debian of the same release, by debootstrap, with
what the official image does about apt's caches and with this machine's way to PyPI. Programs that
mount things do it in a namespace of their own, which takes everything along that they start.
"""

import ast
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from helpers.kustomized import DAEMONSET, ROOT

MIRROR = "http://deb.debian.org/debian"
BASE = "localhost/knp-base"
MINUTES = 60.0

# As in the official image: what apt keeps is of no use in an image, and would be 100 MB of it.
_APT = """\
Binary::apt::APT::Keep-Downloaded-Packages "false";
APT::Keep-Downloaded-Packages "false";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::Languages "none";
"""
_TO_PYPI = ("cert", "default-timeout", "index-url", "proxy", "timeout", "trusted-host")

# One process namespace: whoever is first in it takes everybody along. What buildah remembers of
# pulls is in /var/lib, whatever storage it is given.
_APART = (
    *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"),
    *("--mount-proc", "sh", "-c", 'mount -t tmpfs tmpfs /var/lib && "$@"', "sh"),
)


class CannotBuildError(Exception):
    """It lacks here what it takes, whatever the Dockerfile says."""


class Image(NamedTuple):
    """Its files, and what it says about running them."""

    files: Path
    config: dict[str, Any]


def release() -> str:
    """Of which Debian the Dockerfile's base is."""
    found = re.search(
        r"^ARG BASE=debian:([a-z]+)-", (DAEMONSET / "Dockerfile").read_text(), re.MULTILINE
    )
    assert found is not None
    return found[1]


class Builder:
    """What the image is built with and upon. Raises ``CannotBuildError``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.base = path / "base"
        mounts = _apart("chroot", "/", "true")
        _only_if(mounts, "nothing can be mounted or changed root into here")
        self._make_debian()
        self._buildah = _Buildah(path)
        container = self._prepare("from", "scratch")
        self._prepare("add", "--quiet", container, str(self.base), "/")
        self._prepare("commit", "--quiet", container, BASE)
        self._prepare("rm", container)

    def build(self) -> Image:
        """Build ``daemonset/Dockerfile``. ``AssertionError`` if that fails."""
        files = self._path / "files"
        files.mkdir(mode=0o755)  # buildah would make it root's alone, as no root of an image is
        done = self._buildah.run(
            *("bud", "--jobs", "2", "--network", "host", *_limits()),
            *("--pull=never", "--build-arg", f"BASE={BASE}"),
            *("--file", str(DAEMONSET / "Dockerfile")),
            *("--ignorefile", str(DAEMONSET / "Dockerfile.dockerignore")),
            *("--tag", "knp:test", "--output", f"type=local,dest={files}", str(ROOT)),
        )
        said = "\n".join((done.stdout + done.stderr).splitlines()[-60:])
        assert done.returncode == 0, f"the image cannot be built:\n{said}"
        said = self._buildah.run("inspect", "--type", "image", "knp:test").stdout
        return Image(files, json.loads(said)["OCIv1"]["config"])

    def _make_debian(self) -> None:
        options = _pip_options()
        _only_if(_from_pypi("setuptools", self._path, options), "PyPI cannot be reached")
        # Before the rest: making it takes half the time where nothing waits for a disk.
        for name, text in (("dpkg/dpkg.cfg.d", "force-unsafe-io\n"), ("apt/apt.conf.d", _APT)):
            (self.base / "etc" / name).mkdir(parents=True)
            (self.base / "etc" / name / "image").write_text(text)
        made = _apart("debootstrap", "--variant=minbase", release(), str(self.base), MIRROR)
        _only_if(made, f"debootstrap cannot make a Debian from {MIRROR}")
        (self.base / "etc/resolv.conf").unlink(missing_ok=True)  # this machine's
        if "cert" in options:
            shutil.copy(options["cert"], self.base / "etc/pip.crt")
            options["cert"] = "/etc/pip.crt"
        lines = [f"{name} = {value}\n" for name, value in options.items()]
        (self.base / "etc/pip.conf").write_text("".join(["[global]\n", *lines]))

    def _prepare(self, *argv: str) -> str:
        done = self._buildah.run(*argv)
        _only_if(done, f"buildah cannot {argv[0]}")
        return done.stdout.strip()


class _Buildah:
    """With a storage of its own."""

    def __init__(self, path: Path) -> None:
        temporary = path / "tmp"
        temporary.mkdir(parents=True)
        configuration = path / "containers.conf"
        configuration.write_text(f'[network]\nnetwork_config_dir = "{path}/networks"\n')
        self._environment = {
            **os.environ,
            "BUILDAH_ISOLATION": "chroot",
            "CONTAINERS_CONF": str(configuration),
            "TMPDIR": str(temporary),
        }
        self._command = ["buildah", "--root", f"{path}/root", "--runroot", f"{path}/runroot"]
        overlay = self.run("--storage-driver", "overlay", "info")
        driver = "vfs" if overlay.returncode else "overlay"  # a file system may not bear the one
        self._command += ["--storage-driver", driver]

    def run(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        return _apart(*self._command, *argv, environment=self._environment)


def _limits() -> list[str]:
    """Those that are in force here: newer versions would raise them, which not everybody may."""
    kinds = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    found = {name: resource.getrlimit(kind) for name, kind in kinds.items()}
    return [f"--ulimit={name}={soft}:{hard}" for name, (soft, hard) in found.items()]


def _pip_options() -> dict[str, str]:
    """By which way pip goes to PyPI here, be it said by a file or by the environment."""
    done = _run([sys.executable, "-m", "pip", "config", "list"])
    found = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition("=")
        name = key.rpartition(".")[2]
        if name in _TO_PYPI:
            found[name] = str(ast.literal_eval(value))
    return found


def _from_pypi(name: str, to: Path, options: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """A package, by these options and nothing else that is set here."""
    command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check"]
    command += ["download", "--quiet", "--no-deps", "--no-cache-dir", "--dest", str(to)]
    return _run([*command, *(f"--{key}={value}" for key, value in options.items()), name])


def _apart(
    *argv: str, environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    return _run([*_APART, *argv], environment)


def _run(
    argv: list[str], environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20 * MINUTES,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said = "".join(each.decode() for each in (late.stdout, late.stderr) if each)
        return subprocess.CompletedProcess(argv, -1, said, f"{late}\n")


def _only_if(done: "subprocess.CompletedProcess[str]", otherwise: str) -> None:
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise CannotBuildError(f"{otherwise}: {''.join(said)}")
