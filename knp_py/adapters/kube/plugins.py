"""Exec plugins of a kubeconfig: run by the official client, for so long and no longer.

The client waits for a plugin for ever, and takes one that fails for a user without credentials.
"""

import sys
import threading
from collections.abc import Callable
from typing import Any

from kubernetes.config import kube_config
from kubernetes.config.exec_provider import ExecProvider

LONGEST = 60.0  # seconds that a plugin may take where nobody is there whom it could ask
SAY_AFTER = 5.0  # seconds after which somebody wants to know what is waited for

# Runs the command behind its first argument, which is seconds; a plugin may have begun others,
# and as long as one of them has its output open it is not at its end.
_BOUNDED = """
import os, signal, subprocess, sys
seconds, *command = sys.argv[1:]
try:
    plugin = subprocess.Popen(command, start_new_session=True)
except OSError as error:
    sys.exit(str(error))
try:
    sys.exit(plugin.wait(float(seconds)))
except subprocess.TimeoutExpired:
    os.killpg(plugin.pid, signal.SIGKILL)
    sys.exit(TOO_LONG)
"""
_TOO_LONG = 124  # as timeout(1) has it
_NOTHING = "it gave neither a token nor a certificate with its key"


class PluginError(BaseException):
    """No credentials. The client goes on without any after every ``Exception``."""


def bound_plugins(path: str, say: Callable[[str], object]) -> None:
    """Have the client's loader run plugins of the kubeconfig ``path`` so from now on.

    What is waited for is said after a while. One that gives no credentials raises
    ``PluginError`` wherever the loader wants some: as it loads, and when they have to be renewed.
    """

    class Plugin(ExecProvider):
        def run(self, previous_response: Any = None) -> Any:
            name = self.args[0]
            bound = not sys.stdout.isatty()  # else it may ask who sits there, and Ctrl-C ends it
            if bound:
                program = _BOUNDED.replace("TOO_LONG", str(_TOO_LONG))
                self.args = [sys.executable, "-I", "-c", program, str(LONGEST), *self.args]
            line = f"waiting for the exec plugin {name} of --kubeconfig {path}"
            line += f", at most {LONGEST:g} s" if bound else ""
            clock = threading.Timer(SAY_AFTER, say, [line])
            clock.daemon = True
            clock.start()
            try:
                found = super().run(previous_response)  # type: ignore[no-untyped-call]
            except Exception as error:  # noqa: BLE001 - whatever the client cannot make sense of
                raise PluginError(_reason(name, error, bound=bound)) from None
            finally:
                clock.cancel()
            if found.get("token"):
                return found
            if found.get("clientCertificateData") and found.get("clientKeyData"):
                return found
            raise PluginError(f"the exec plugin {name}: {_NOTHING}")

    kube_config.ExecProvider = Plugin  # type: ignore[attr-defined]


def _reason(name: str, error: Exception, *, bound: bool) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    if bound and said.startswith(f"exec: process returned {_TOO_LONG}"):
        return f"the exec plugin {name} gave no credentials within {LONGEST:g} s"
    return f"the exec plugin {name}: {said}"
