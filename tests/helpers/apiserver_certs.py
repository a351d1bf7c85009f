"""Certificates for a server of the tests, made by openssl for as long as the test lasts."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_NAMES = (
    "IP:127.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, PEM files."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority in a directory."""

    def __init__(self, directory: Path, name: str = "tests-ca") -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.pair = Pair(directory / f"{name}.crt", directory / f"{name}.key")
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-addext", "keyUsage=critical,keyCertSign,digitalSignature"),
            *("-keyout", str(self.pair.key), "-out", str(self.pair.cert)),
        )

    def server(self, name: str = "apiserver") -> Pair:
        """For 127.0.0.1, and the names a pod calls the server by."""
        return self._sign(name, f"/CN={name}", f"subjectAltName={_NAMES}\n")

    def client(self, user: str, group: str = "") -> Pair:
        """For a user, as Kubernetes reads it: CN is the user, O the group."""
        subject = (f"/O={group}" if group else "") + f"/CN={user}"
        return self._sign(f"client-{user.replace(':', '-')}", subject, "")

    def _sign(self, file: str, subject: str, extension: str) -> Pair:
        pair = Pair(self.directory / f"{file}.crt", self.directory / f"{file}.key")
        request = self.directory / f"{file}.csr"
        extensions = self.directory / f"{file}.ext"
        extensions.write_text(
            f"{extension}keyUsage=critical,digitalSignature\n"
            "extendedKeyUsage=serverAuth,clientAuth\nauthorityKeyIdentifier=keyid\n"
        )
        _openssl(
            *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-subj", subject, "-keyout", str(pair.key), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-days", "2", "-CAcreateserial"),
            *("-CA", str(self.pair.cert), "-CAkey", str(self.pair.key)),
            *("-extfile", str(extensions), "-out", str(pair.cert)),
        )
        return pair


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"openssl {arguments[0]}: {done.stderr.strip()}")
