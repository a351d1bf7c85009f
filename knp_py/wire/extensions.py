"""The chain of headers between the IP header and the transport (RFC 8200 §4, RFC 4302)."""

HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, NO_NEXT, DESTINATION = 0, 43, 44, 51, 59, 60
MOBILITY, HIP, SHIM6 = 135, 139, 140

# Headers of the common form: next header, length in units of 8 bytes without the first.
COMMON_FORM = frozenset({HOP_BY_HOP, ROUTING, DESTINATION, MOBILITY, HIP, SHIM6})

# More than any stack writes, and few enough that walking them costs some microseconds.
MAX_HEADERS = 64

CUT_SHORT = "extension headers cut short"
TOO_MANY = f"more than {MAX_HEADERS} extension headers"
LATER_FRAGMENT = "later fragment"

# Number of what follows, where it begins, Packet.fragment and Packet.ident, problem.
Walk = tuple[int, int, int, int, str | None]


def walk(data: bytes, pos: int, end: int, number: int, *, v6: bool = True) -> Walk:
    """Step over extension headers from ``pos``, the first being ``number``.

    With ``v6`` false only authentication headers, the one kind that IPv4 has. Stops at
    a later fragment: what follows there is the middle of something.
    """
    fragment = ident = 0
    for _ in range(MAX_HEADERS):
        if number in COMMON_FORM and v6:
            if pos + 8 > end:
                return number, pos, fragment, ident, CUT_SHORT
            size = 8 + data[pos + 1] * 8
        elif number == AUTHENTICATION:
            if pos + 8 > end:
                return number, pos, fragment, ident, CUT_SHORT
            size = 8 + data[pos + 1] * 4
        elif number == FRAGMENT and v6:
            if pos + 8 > end:
                return number, pos, fragment, ident, CUT_SHORT
            size = 8
            field = data[pos + 2] << 8 | data[pos + 3]
            if field & 0xFFF9:  # neither offset nor more: an atomic fragment is whole
                ident = int.from_bytes(data[pos + 4 : pos + 8], "big")
                fragment = 1
                if field & 0xFFF8:
                    return data[pos], pos + 8, 2, ident, LATER_FRAGMENT
        else:
            return number, pos, fragment, ident, None
        if pos + size > end:
            return number, pos, fragment, ident, CUT_SHORT
        number = data[pos]
        pos += size
    return number, pos, fragment, ident, TOO_MANY
