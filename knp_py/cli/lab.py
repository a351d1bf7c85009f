"""``knp lab``: a cluster of network namespaces on this machine, with the agent in it."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from knp_py.cli.main import Command, new_app
from knp_py.cli.options import FqdnScope, Output, OutputFormat, Scope, TrustedResolvers
from knp_py.errors import InputError, ManifestError

# Everything else is imported by the command that needs it: `knp --help` lists this module.
if TYPE_CHECKING:
    from knp_py.cli.scenarios import Loaded
    from knp_py.lab.laboratory import Laboratory
    from knp_py.manifests.document import Document
    from knp_py.replay.performance import Result

UP_EXAMPLES = """\
knp lab up examples/agent-sandbox --steps 4
knp lab up --manifests cluster.json --manifests policies/ -- --fail-closed
knp lab exec sandbox-team-a/agent curl -m 2 http://github.com
knp lab down
"""
TEST_EXAMPLES = """\
knp lab test examples/agent-sandbox
knp lab test tests/ --junit report.xml -- --remember=off
"""
EXEC_EXAMPLES = """\
knp lab exec shop/web ip -brief address
knp lab exec sandbox-team-a/agent curl -m 2 http://github.com
knp lab exec node nft list ruleset
"""
STATUS_EXAMPLES = "knp lab status"
DOWN_EXAMPLES = """\
knp lab down
knp lab down --all
"""

_AGENT = "agent options"

app = new_app(
    help="A cluster of network namespaces on this machine, no Kubernetes: every pod a"
    " namespace, the agent on their node, real packets. Needs root; no traffic leaves them."
)


class _WithAgent(Command):
    """A command whose arguments after ``--`` are the agent's."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Keep the agent's to one side."""
        if "--" in args:
            where = args.index("--")
            ctx.meta[_AGENT] = args[where + 1 :]
            args = args[:where]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Say that there may be some."""
        pieces = [*self.collect_usage_pieces(ctx), "[-- AGENT OPTIONS]"]
        formatter.write_usage(ctx.command_path, " ".join(pieces))


Name = Annotated[
    str, typer.Option("--name", metavar="LAB", help="Which lab, where there is more than one.")
]
Beside = Annotated[
    list[str] | None,
    typer.Option(
        "--manifests",
        "-m",
        metavar="PATH",
        help="Manifests that are there from the beginning, besides those a scenario names.",
    ),
]
NoAgent = Annotated[
    bool,
    typer.Option("--no-agent", help="Start no agent: what a cluster does that enforces nothing."),
]


@app.command("up", cls=_WithAgent, epilog=UP_EXAMPLES)
def up(
    ctx: typer.Context,
    scenario: Annotated[
        str, typer.Argument(metavar="[SCENARIO]", help="A scenario of knp test.")
    ] = "",
    name: Name = "lab",
    manifests: Beside = None,
    steps: Annotated[
        int, typer.Option("--steps", min=0, help="Make the changes of its first steps too.")
    ] = 0,
    no_agent: NoAgent = False,
    scope: Scope = FqdnScope.POD,
    trusted: TrustedResolvers = "auto",
) -> None:
    """Build the pods of a scenario or of manifests, and leave the lab up.

    A namespace for every pod, one for the node with all nodes' addresses, and one for the
    internet, which has every other address. Servers accept TCP and echo UDP on every port
    everywhere; resolvers know the scenario's names and the cluster's Services.
    """
    from knp_py.cli.lab_status import print_status, status_of  # noqa: PLC0415
    from knp_py.engine.resolvers import parse_trust  # noqa: PLC0415
    from knp_py.lab.laboratory import Laboratory, check_possible  # noqa: PLC0415
    from knp_py.lab.labstate import locked  # noqa: PLC0415
    from knp_py.lab.livestage import perform  # noqa: PLC0415

    check_possible()
    options = _options(ctx, no_agent=no_agent)
    loaded = _one(scenario, manifests)
    with locked(name):
        lab = Laboratory(name)
        _refuse_a_second(lab)
        with _ended_by_signals(), _down_unless_it_works(lab):
            lab.build(options)
            shown = msgspec.structs.replace(
                loaded.scenario,
                steps=tuple(
                    msgspec.structs.replace(step, expect=(), wait=0.0)
                    for step in loaded.scenario.steps[:steps]
                ),
            )
            result, _ = perform(
                lab,
                shown,
                loaded.documents,
                trust=parse_trust(trusted),
                scope=scope.value,
                beside=_beside(manifests),
            )
            if result.problems:
                raise ManifestError([str(problem) for problem in result.problems])
        print_status([status_of(lab)], OutputFormat.TABLE)


@app.command("test", cls=_WithAgent, epilog=TEST_EXAMPLES)
def act_out(
    ctx: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO]...", help="As for knp test; none: that of the lab that is up."
        ),
    ] = None,
    name: Name = "lab",
    junit: Annotated[
        str, typer.Option("--junit", metavar="FILE", help="Write the results as JUnit XML too.")
    ] = "",
    manifests: Beside = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the lab up, as the last scenario left it.")
    ] = False,
    real_time: Annotated[
        bool,
        typer.Option(
            "--real-time", help="Wait where a step waits, instead of moving the agent's clock."
        ),
    ] = False,
    no_agent: NoAgent = False,
    output: Output = OutputFormat.TABLE,
    scope: Scope = FqdnScope.POD,
    trusted: TrustedResolvers = "auto",
) -> None:
    """Act out scenarios with real connections from inside the pods.

    A verdict is what a socket sees: an answer is allow, silence is deny. Who decided is what
    the agent's log says, and where the two contradict each other the expectation is not met
    whatever it was. Brings a lab up and takes it down again when none is up; one that is up
    begins from the scenario's beginning, and stays as the last step left it.

    Exit codes are those of knp test, and 3 where no lab can be.
    """
    from knp_py.cli.render import note, progress  # noqa: PLC0415
    from knp_py.cli.results import print_results  # noqa: PLC0415
    from knp_py.engine.resolvers import parse_trust  # noqa: PLC0415
    from knp_py.lab.laboratory import Laboratory, check_possible  # noqa: PLC0415
    from knp_py.lab.labstate import locked  # noqa: PLC0415
    from knp_py.lab.livestage import perform  # noqa: PLC0415

    check_possible()
    options = _options(ctx, no_agent=no_agent)
    if any(each.startswith("--log-") for each in options or ()):
        raise InputError("who decided is read from the agent's log: leave --log-verdicts as it is")
    beside = _beside(manifests)
    results: list[Result] = []
    moved = 0.0
    with locked(name), _ended_by_signals():
        lab = Laboratory(name)
        was_up = lab.is_up
        if was_up and (_AGENT in ctx.meta or no_agent):
            raise InputError(
                f"the lab {name} is up with an agent of its own: first take it down,"
                " or give this one another --name"
            )
        loaded = _load(paths or _own_scenario(lab, was_up=was_up))
        expected = sum(len(step.expect) for each in loaded for step in each.scenario.steps)
        with progress("knp lab test", expected, "checks") as bar:
            for index, each in enumerate(loaded):
                with _down_unless_it_works(lab, only_if=not was_up):
                    if not was_up:
                        if index:
                            lab.down()
                        else:
                            _refuse_a_second(lab)
                        lab.build(options)
                    result, gained = perform(
                        lab,
                        each.scenario,
                        each.documents,
                        trust=parse_trust(trusted),
                        scope=scope.value,
                        beside=beside,
                        real_time=real_time,
                        told=lambda *_: bar.advance(),
                    )
                results.append(result)
                moved += gained
        if not was_up and not keep:
            lab.down()
    code = print_results(results, output, junit)
    if moved:
        note(f"{moved:g} s were not waited for: the agent's clock was put forward (--real-time)")
    if no_agent:
        note("no agent ran: whatever was not answered was not denied by policy")
    raise typer.Exit(code)


@app.command(
    "exec",
    cls=Command,
    epilog=EXEC_EXAMPLES,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def execute(
    place: Annotated[str, typer.Argument(metavar="NS/POD", help="A pod, or node, or internet.")],
    argv: Annotated[list[str], typer.Argument(metavar="COMMAND...")],
    name: Name = "lab",
) -> None:
    """Run a command where a pod is, with its addresses and resolvers; its exit code is ours.

    Where one pod's name begins so, the beginning will do: that is its workload, most likely.
    """
    from knp_py.cli.render import note  # noqa: PLC0415
    from knp_py.lab.laboratory import Laboratory, check_possible  # noqa: PLC0415
    from knp_py.lab.namespaces import enter, spaces_of, with_resolv_conf  # noqa: PLC0415
    from knp_py.lab.placenames import place_called  # noqa: PLC0415

    check_possible()
    lab = Laboratory(name)
    if not spaces_of(name):
        raise InputError(f"no lab {name} is up (see knp lab up --help)")
    places = lab.topology.places
    given, place = place, place_called(place, places)
    if place != given.removeprefix("pod:"):
        note(f"in the pod {place}")
    if argv[0] == "--" and len(argv) > 1:
        argv = argv[1:]  # as kubectl exec wants it
    resolv_conf = lab.folder.resolv_conf(place)
    if os.path.exists(resolv_conf):
        argv = with_resolv_conf(argv, resolv_conf)
    enter(places[place])
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - what it is for
    except FileNotFoundError:
        raise InputError(f"there is no command {argv[0]}") from None


@app.command("status", cls=Command, epilog=STATUS_EXAMPLES)
def status(output: Output = OutputFormat.TABLE) -> None:
    """Which labs are up, their pods, and how their agents are."""
    from knp_py.cli.lab_status import print_status, status_of  # noqa: PLC0415
    from knp_py.lab.laboratory import Laboratory, check_possible  # noqa: PLC0415
    from knp_py.lab.labstate import lab_names  # noqa: PLC0415

    check_possible()
    print_status([status_of(Laboratory(name)) for name in lab_names()], output)


@app.command("down", cls=Command, epilog=DOWN_EXAMPLES)
def down(
    name: Name = "lab",
    everything: Annotated[bool, typer.Option("--all", help="Every lab there is.")] = False,
) -> None:
    """End and remove a lab, also what a crash left of one; processes inside it end with it."""
    from knp_py.cli.render import note  # noqa: PLC0415
    from knp_py.lab.laboratory import Laboratory, check_possible  # noqa: PLC0415
    from knp_py.lab.labstate import lab_names, locked  # noqa: PLC0415
    from knp_py.lab.namespaces import labs_with_spaces  # noqa: PLC0415

    check_possible()
    there = {*lab_names(), *labs_with_spaces()}
    names = sorted(there) if everything else [name]
    for each in names:
        if each not in there:
            note(f"no lab {each} is up")
            continue
        with locked(each):
            Laboratory(each).down()


# -- what the commands share -----------------------------------------------------------


def _load(paths: Sequence[str]) -> "list[Loaded]":
    from knp_py.cli.scenarios import load_scenarios  # noqa: PLC0415

    return load_scenarios(paths)


def _own_scenario(lab: "Laboratory", *, was_up: bool) -> list[str]:
    if was_up and lab.state.source:
        return [lab.state.source]
    why = f"the lab {lab.name} has no scenario of its own" if was_up else "no lab is up"
    raise InputError(f"{why}: say which SCENARIO (see knp lab test --help)")


def _one(path: str, manifests: Sequence[str] | None) -> "Loaded":
    """The one scenario at a path, or one without steps for manifests alone."""
    from knp_py.cli.scenarios import Loaded, load_scenarios  # noqa: PLC0415
    from knp_py.model.objects import Origin  # noqa: PLC0415
    from knp_py.replay.scenario import Scenario  # noqa: PLC0415

    if not path:
        if not manifests:
            raise InputError("say which SCENARIO or --manifests (see knp lab up --help)")
        return Loaded(Scenario(Origin(), "manifests"), {})
    loaded = load_scenarios([path])
    if len(loaded) > 1:
        files = ", ".join(str(each.scenario.origin) for each in loaded)
        raise InputError(f"{path}: a lab has one scenario at a time; here are {files}")
    return loaded[0]


def _beside(manifests: Sequence[str] | None) -> "list[Document]":
    from knp_py.adapters.documents import read_documents  # noqa: PLC0415

    return read_documents(manifests) if manifests else []


def _options(ctx: typer.Context, *, no_agent: bool) -> list[str] | None:
    options: list[str] = ctx.meta.get(_AGENT, [])
    if no_agent and options:
        raise InputError("--no-agent and options of an agent's do not go together")
    return None if no_agent else options


def _refuse_a_second(lab: "Laboratory") -> None:
    """Whatever is left of a lab of that name has to go first, and not unasked."""
    from knp_py.lab.namespaces import spaces_of  # noqa: PLC0415

    if lab.is_up or spaces_of(lab.name) or os.path.exists(lab.folder.top):
        raise InputError(f"there is a lab {lab.name} already: knp lab down --name {lab.name}")


@contextmanager
def _down_unless_it_works(lab: "Laboratory", *, only_if: bool = True) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if only_if:
            lab.down()
        raise


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Have SIGTERM and a closed terminal end the command as Ctrl-C does: tidily."""

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
