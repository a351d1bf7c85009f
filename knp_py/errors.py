"""The exception tree.

::

    KnpError
    ├── InputError        the caller gave us something wrong            exit 2
    │   ├── ManifestError   carries every problem found, not the first
    │   ├── CaptureError    not a capture, or one that cannot be read on
    │   ├── ProbeError      a bad flow: unknown pod, bad port
    │   └── ScenarioError   a bad `knp test` file
    ├── PacketError       unreadable packet; only wire raises it, only the datapath catches it
    ├── DnsError          the same rule for DNS payloads
    ├── LabError          `knp lab` could not build, find or end what it should   exit 2
    └── NotPermittedError   needs root or a kernel feature               exit 3
        └── KernelError       the kernel refused rules that it should take

An exception that is not a ``KnpError`` is a bug and keeps its traceback.
"""


class KnpError(Exception):
    """Any failure that knp explains in one line."""


class InputError(KnpError):
    """The caller gave us something wrong; the message names file, object and field."""


class ManifestError(InputError):
    """One or more documents cannot be used; ``problems`` holds one line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class CaptureError(InputError):
    """The file is not a capture, or is damaged beyond reading on."""


class ProbeError(InputError):
    """A flow to judge that cannot be understood."""


class ScenarioError(InputError):
    """A `knp test` scenario that cannot be understood."""


class PacketError(KnpError):
    """No readable IP header. Everything less broken is a packet of protocol unknown."""


class DnsError(KnpError):
    """A DNS message that teaches nothing because it is malformed; carries the reason."""


class LabError(KnpError):
    """The lab could not build, find or end what it should."""


class NotPermittedError(KnpError):
    """Needs root or a kernel feature that is not there."""


class KernelError(NotPermittedError):
    """The kernel, or the tool that talks to it, refused; nothing has changed."""


def reason_of(error: Exception) -> str:
    """Why the system refused, in its words and in small letters, to go on after a colon."""
    return (getattr(error, "strerror", None) or str(error)).lower()
