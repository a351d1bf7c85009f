"""``knp``: finds the command, runs it, and turns how it ended into an exit code.

A command is a module of its own name beside this one, imported only when it is asked for.
It holds either ``command``, a function whose annotated parameters are the options, and
``EXAMPLES``, the text that ends its help; or, when it has commands of its own, ``app``, a
``typer.Typer`` made by :func:`new_app`. Commands raise ``KnpError`` for what they cannot
do and ``typer.Exit`` for any exit code but 0.

Exit codes: 0 done or all as expected, 1 expectation not met or findings, 2 bad input or
usage, 3 not permitted here; 130 interrupted, 141 the reader of our output went away.
"""

import os
import re
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

import knp_py
from knp_py.cli.light import lighten
from knp_py.cli.streams import OutputError, ReaderGoneError, give_up_output, open_streams
from knp_py.errors import KnpError, ManifestError, NotPermittedError

COMMANDS: Mapping[str, str] = {
    "eval": "What would happen to this flow, and who decides",
    "replay": "Judge a capture: one record per connection",
    "test": "Unit tests for policy",
    "lint": "Problems in policies, no cluster needed",
    "audit": "Who can reach what, and what opens if an object goes",
    "diff": "What a change of policy changes",
    "logs": "Read verdict logs, ours and those of kube-network-policies",
    "agent": "Enforce policy on this node",
    "lab": "A cluster of network namespaces on this machine, no Kubernetes",
}

EXAMPLES = """\
knp eval --manifests policies/ --from shop/web --to github.com
knp replay capture.pcap --manifests policies/ --verdict deny
knp lint policies/
kubectl logs -n kube-system ds/kube-network-policies | knp logs --summary -
"""

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Ours:
    """What our commands and groups have in common."""

    epilog: str | None

    def get_help_option(self, ctx: Any) -> Any:
        """``--help``, whose value would otherwise be the one that imports pydantic."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        lighten([option])
        return option

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse, and see to it that every usage error knows whose help to point at.

        What should not be there is named before what is missing: ``knp eval policies/``
        is not about an option that was forgotten.
        """
        try:
            return super().parse_args(ctx, list(args))  # type: ignore[misc]
        except typer.TyperException as error:
            if type(error).__name__ == "MissingParameter":  # typer keeps the class to itself
                self._complain_of_extra(ctx, args)
            if getattr(error, "ctx", None) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise

    def _complain_of_extra(self, ctx: Any, args: list[str]) -> None:
        """Raise a usage error if there are arguments of a command that takes none."""
        extra = self.make_parser(ctx).parse_args(args=list(args))[1]  # type: ignore[attr-defined]
        if extra and not any(each.param_type_name == "argument" for each in ctx.command.params):
            ctx.fail(f"Got unexpected extra argument(s) ({' '.join(extra)})")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """The epilog is a block of command lines; the program is named as it was called."""
        if not self.epilog:
            return
        formatter.write("\nExamples:\n")
        program = ctx.find_root().info_name
        for line in self.epilog.splitlines():
            shown = re.sub(r"(^\s*|\| )knp\b", rf"\g<1>{program}", line)
            formatter.write(f"  {shown}\n" if line else "\n")


class Command(_Ours, TyperCommand):
    """A command whose epilog is example command lines."""


class Group(_Ours, TyperGroup):
    """A command with commands of its own."""


class _Root(Group):
    """The commands by name; a command's module is imported when it is run, not listed."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        for name, summary in COMMANDS.items():
            if find_spec(f"knp_py.cli.{name}") is not None:
                self.commands[name] = Command(name, short_help=summary)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command named first in ``args``, loaded, and the rest of ``args``."""
        if args and args[0] in self.commands:
            return args[0], load(args[0]), args[1:]
        return super().resolve_command(ctx, args)


def new_app(**settings: Any) -> typer.Typer:
    """A typer application with our settings, for a command with commands of its own.

    Register those with ``cls=Command`` and their examples as ``epilog``.
    """
    return typer.Typer(
        cls=Group,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=CONTEXT,
        **settings,
    )


def load(name: str) -> Any:
    """The command ``name``, ready to run."""
    module: ModuleType = import_module(f"knp_py.cli.{name}")
    app = getattr(module, "app", None)
    if app is None:
        app = new_app()
        app.command(name, cls=Command, epilog=module.EXAMPLES, context_settings=CONTEXT)(
            module.command
        )
    command = typer.main.get_command(app)
    command.name = name
    for each in (command, *getattr(command, "commands", {}).values()):
        lighten(each.params)
    return command


def _version(wanted: bool) -> None:
    if wanted:
        print(f"knp {knp_py.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Who decides whether this packet may pass.

    One policy engine over Kubernetes NetworkPolicy and ClusterNetworkPolicy objects: ask it
    about one flow, a capture, or a change of policy.
    """


def _program(argv0: str) -> str:
    """The name to show: as invoked, and ``kubectl knp`` when kubectl ran us."""
    name = os.path.basename(argv0).removesuffix(".exe")
    if name == "kubectl-knp":
        return "kubectl knp"
    return "knp" if not name or name == "-c" or name.endswith(".py") else name


def _complain(program: str, lines: list[str]) -> None:
    try:
        sys.stdout.flush()
    finally:
        for line in lines:
            print(f"{program}: {line}", file=sys.stderr)


def _usage(error: typer.TyperException, program: str) -> str:
    """The error as one line with the next step."""
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx is not None else program
    message = " ".join(error.format_message().split()).rstrip(".")
    return f"{message} (see {path} --help)"


def run(argv: list[str], program: str = "knp") -> int:
    """Run one command line; the exit code. Writes to standard output and error only."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback(cls=_Root, epilog=EXAMPLES, context_settings=CONTEXT)(_root)
    group = typer.main.get_command(app)
    lighten(group.params)
    # A shell's completion script needs one word; everything else shows what was typed.
    one_word = program.replace(" ", "-")
    name = one_word if any("-completion" in arg for arg in argv) else program
    try:
        result = group.main(
            args=argv or ["--help"],
            prog_name=name,
            complete_var=f"_{one_word}_COMPLETE".replace("-", "_").upper(),
            standalone_mode=False,
        )
        sys.stdout.flush()
    except typer.TyperException as error:
        _complain("knp", [_usage(error, program)])
        return 2
    except ManifestError as error:
        _complain("knp", error.problems)
        return 2
    except KnpError as error:
        _complain("knp", str(error).splitlines())
        return 3 if isinstance(error, NotPermittedError) else 2
    except typer.Abort:
        return 130
    except MemoryError:
        _complain("knp", ["out of memory: the input is larger than this machine can hold"])
        return 2
    return result if isinstance(result, int) else 0


def main(argv: list[str] | None = None) -> NoReturn:
    """The entry point: ``argv`` without the program's name, ``sys.argv`` when None."""
    open_streams()
    try:
        try:
            code = run(sys.argv[1:] if argv is None else argv, _program(sys.argv[0]))
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except ReaderGoneError:
        give_up_output()
        code = 141
    except OutputError as error:
        give_up_output()
        print(f"knp: {error}", file=sys.stderr)
        code = 2
    raise SystemExit(code)
