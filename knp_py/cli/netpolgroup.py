"""The command line of ``knp agent``: also what kube-network-policies' daemon is given."""

from typing import Any

from knp_py.cli.main import Group
from knp_py.cli.netpolflags import Option, translate

_REMARKS = "knp.remarks"


class NetpolGroup(Group):
    """Understands that daemon's flags, in Go's syntax, beside our own."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse; what is to be remarked is kept until the agent starts."""
        if not ctx.resilient_parsing:  # as a shell asks what could come next
            args, ctx.meta[_REMARKS] = translate(args, _options(self.get_params(ctx)))
        return super().parse_args(ctx, args)


def remarks(ctx: Any) -> list[str]:
    """What there is to say about flags that have no effect here."""
    found: list[str] = ctx.meta.get(_REMARKS, [])
    return found


def _options(params: list[Any]) -> dict[str, Option]:
    """Options by every name they have, without dashes."""
    found = {}
    for param in params:
        long = next(name for name in param.opts if name.startswith("--"))
        off = param.secondary_opts[0] if param.secondary_opts else ""
        for name in param.opts:
            found[name.lstrip("-")] = Option(long, not param.is_flag, off)
        for name in param.secondary_opts:
            found[name.lstrip("-")] = Option(off, takes=False, off=long)
    return found
