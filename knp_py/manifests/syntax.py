"""The API's rules for names, labels, ports, addresses and networks.

Every ``bad_*`` function answers None when the text is fine, else what was expected, in
words that fit after "expected". Source of the rules: the validation functions of
``k8s.io/apimachinery/pkg/util/validation`` and of the ``networking.k8s.io`` API group, and
the ClusterNetworkPolicy CRD.
"""

import re
from collections.abc import Mapping

from knp_py.manifests.problems import Report, quote
from knp_py.model.net import Cidr, parse_address, parse_cidr
from knp_py.model.packet import Proto

PROTOCOLS: Mapping[str, int] = {
    "TCP": int(Proto.TCP),
    "UDP": int(Proto.UDP),
    "SCTP": int(Proto.SCTP),
}

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(rf"{_LABEL}(?:\.{_LABEL})*").fullmatch
_is_name_part = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]").fullmatch
_is_port_name = re.compile(r"(?=.*[a-z])[a-z0-9]+(?:-[a-z0-9]+)*").fullmatch
_is_cidr = re.compile(r"[0-9A-Fa-f:.]+/(?:0|[1-9][0-9]{0,2})").fullmatch
_leading_zero = re.compile(r"(?<![0-9])0+(?=[0-9])")
# The CRD's own pattern, its ``A-z`` included: what the API server accepts is accepted.
_is_domain = re.compile(
    r"(\*\.)?([a-zA-z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\.)+"
    r"[a-zA-z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\.?"
).fullmatch


def bad_label_name(text: str) -> str | None:
    """DNS-1123 label: names of namespaces and Services."""
    if len(text) <= 63 and _is_label(text):
        return None
    return "a DNS label (at most 63 of a-z, 0-9 and '-', letter or digit at both ends)"


def bad_subdomain(text: str) -> str | None:
    """DNS-1123 subdomain: names of most objects."""
    if len(text) <= 253 and _is_subdomain(text):
        return None
    return "a DNS name (at most 253 of a-z, 0-9, '-' and '.', letter or digit at both ends)"


def bad_label_key(text: str) -> str | None:
    """Qualified name: ``[prefix/]name``."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or not _is_subdomain(prefix)):
        return "a label key (its prefix before '/' must be a DNS name)"
    if len(name) <= 63 and _is_name_part(name):
        return None
    return (
        "a label key (at most 63 letters, digits, '-', '_' and '.', "
        "letter or digit at both ends, one '/' after a prefix)"
    )


def bad_label_value(text: str) -> str | None:
    """Label value: may be empty."""
    if not text or (len(text) <= 63 and _is_name_part(text)):
        return None
    return (
        "a label value (at most 63 letters, digits, '-', '_' and '.', "
        "letter or digit at both ends, or empty)"
    )


def bad_port_name(text: str) -> str | None:
    """IANA service name (RFC 6335 §5.1), lower case."""
    if len(text) <= 15 and _is_port_name(text):
        return None
    hint = " (a port number is written without quotes)" if text.isdecimal() else ""
    return f"a port name: at most 15 of a-z, 0-9 and single '-', with a letter{hint}"


def bad_domain(text: str) -> str | None:
    """A ``domainNames`` entry."""
    if _is_domain(text):
        return None
    if text.startswith("*") and not text.startswith("*."):
        return "a domain name; '*' stands only for whole labels, as in '*.example.com'"
    if "*" in text[1:]:
        return "a domain name; '*.' may only be its beginning"
    return "a domain name of at least two labels, such as 'example.com' or '*.example.com'"


def read_address(report: Report, path: str, text: str) -> int | None:
    """An IP address; None after reporting that it is none."""
    try:
        return parse_address(text)
    except ValueError:
        report.error(path, f"found {quote(text)}, expected an IP address")
        return None


def read_cidr(report: Report, path: str, text: str, *, sloppy: bool = False) -> Cidr | None:
    """A network; None after reporting that it is none.

    ``sloppy``: NetworkPolicy accepts IPv4 numbers with leading zeros, read as decimal.
    """
    plain = text
    if sloppy and ":" not in text and "/" in text:
        address, _, prefix = text.partition("/")
        plain = f"{_leading_zero.sub('', address)}/{prefix}"
    try:
        if not _is_cidr(plain):
            raise ValueError
        cidr = parse_cidr(plain)
    except ValueError:
        hint = ", for one address add /32 or /128" if _is_address(text) else ""
        report.error(path, f"found {quote(text)}, expected a CIDR such as 10.0.0.0/8{hint}")
        return None
    if plain != text:
        report.warn(path, f"{text} has leading zeros; it is read as {plain}")
    return cidr


def _is_address(text: str) -> bool:
    try:
        parse_address(text)
    except ValueError:
        return False
    return True
