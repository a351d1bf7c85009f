"""One lab as a whole: built, changed, taken down.

``down`` needs nothing but the lab's name: what a lab consists of is found by the names of its
namespaces, the processes in them and its folder, so it also ends what a crash left half done.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

import msgspec

from knp_py.engine.snapshot import Snapshot
from knp_py.errors import LabError, NotPermittedError
from knp_py.lab.enforcer import Enforcer, Post, agent_options
from knp_py.lab.labstate import Folder, LabState, folder_of, read_state, write_state
from knp_py.lab.manifestdir import ManifestDir
from knp_py.lab.nameserver import Names
from knp_py.lab.namespaces import NODE, remove_spaces, space_of, spaces_of
from knp_py.lab.plan import plan_of, read_plan, write_plan
from knp_py.lab.processes import end, process, processes_in
from knp_py.lab.rules import catch_all, load_rules
from knp_py.lab.services import service_rules
from knp_py.lab.serving import start_servers, tell_servers
from knp_py.lab.topology import Topology
from knp_py.manifests.document import Document
from knp_py.model.changes import Key

_TOOLS = ("ip", "nft", "unshare", "mount")
VERDICTS, AGENT_LOG = "verdicts.jsonl", "agent.log"


def check_possible() -> None:
    """Raises ``NotPermittedError`` where no lab can be."""
    if os.geteuid() != 0:
        raise NotPermittedError("knp lab needs root to make network namespaces: run it by sudo")
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise NotPermittedError(
            f"knp lab needs {', '.join(missing)}: install iproute2, nftables and util-linux"
        )


class Laboratory:
    """A lab that is there, or is about to be. Whoever changes it holds its lock."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder: Folder = folder_of(name)
        self.state = read_state(self.folder) or LabState()
        self.topology = Topology(name, read_plan(self.state.plan))
        self.manifests = ManifestDir(self.folder.manifests, self.folder.scratch)
        self.enforcer: Enforcer | None = None
        self._servers: subprocess.Popen[bytes] | None = None
        self._rules = ""
        running = self.state.processes.get("agent")
        if running is not None:
            self.enforcer = Enforcer(self._post, (), running)

    @property
    def is_up(self) -> bool:
        """Whether it was built and its server still runs."""
        servers = self.state.processes.get("servers")
        return servers is not None and servers.alive

    def build(self, agent: Sequence[str] | None) -> None:
        """An empty cluster, for ``change`` to fill.

        ``agent`` are options of the user's for ``knp agent``; with None there will be none.
        Raises ``LabError`` and ``NotPermittedError``; then call ``down``.
        """
        self.folder.make()
        self._remember(LabState(agent=None if agent is None else tuple(agent)))
        self.topology.build(plan_of(Snapshot()))
        node = space_of(self.name, NODE)
        self._servers = start_servers(self.folder.control, self.folder.file("servers.log"), node)
        self._note_process("servers", self._servers.pid)
        catch_all(self.topology.places)

    def change(self, snapshot: Snapshot, names: Names, resolv_confs: Mapping[str, str]) -> None:
        """Have the pods, Services and names of a cluster; ``resolv_confs`` by place."""
        before = set(self.topology.pods.items())
        self.topology.change(plan_of(snapshot))
        self._remember(msgspec.structs.replace(self.state, plan=write_plan(self.topology.plan)))
        new = [key for key, _ in self.topology.pods.items() - before]
        catch_all({key: space_of(self.name, key) for key in new})
        rules = service_rules(snapshot)
        if rules != self._rules:
            load_rules(rules, [space_of(self.name, NODE)])
            self._rules = rules
        tell_servers(self.folder.control, dict(self.topology.places), names)
        for place, text in resolv_confs.items():
            with open(self.folder.resolv_conf(place), "w", encoding="ascii") as file:
                file.write(text)

    def remember_source(self, source: str) -> None:
        """Which scenario's file the lab is of, empty for none."""
        path = os.path.abspath(source) if source else ""
        self._remember(msgspec.structs.replace(self.state, source=path))

    def put(self, documents: Mapping[Key, Document]) -> int | None:
        """The objects that the agent enforces; see ``ManifestDir.put``."""
        return self.manifests.put(documents)

    def start_agent(self, options: Sequence[str]) -> None:
        """Start the agent, if the lab is to have one, and wait until it enforces.

        ``options`` come before the user's. Nothing is left of what an earlier one learned.
        """
        self.stop_agent()
        if self.state.agent is None:
            return
        shutil.rmtree(self.folder.agent, ignore_errors=True)
        self.folder.make()
        post = self._post
        enforcer = Enforcer(post, agent_options(post, [*options, *self.state.agent]))
        self.enforcer = enforcer
        self._note_process("agent", enforcer.start().pid)
        enforcer.wait_ready()

    def stop_agent(self) -> None:
        """End the agent, if one runs."""
        if self.enforcer is not None:
            self.enforcer.stop()
            self.enforcer = None

    def down(self) -> None:
        """End and remove all of it, whatever state it is in. Raises ``LabError``."""
        spaces = spaces_of(self.name)
        end([*self.state.processes.values(), *processes_in(spaces)])
        for child in filter(None, (self._servers,)):
            child.wait()
        self.stop_agent()
        remove_spaces(spaces)
        self.folder.remove()
        self.state = LabState()
        left = spaces_of(self.name)
        if left or os.path.exists(self.folder.top):
            raise LabError(f"could not remove {', '.join(left) or self.folder.top}")

    # -- what is remembered ------------------------------------------------------------

    @property
    def _post(self) -> Post:
        folder = self.folder
        return Post(
            space=space_of(self.name, NODE),
            manifests=folder.manifests,
            state=folder.agent,
            verdicts=folder.file(VERDICTS),
            log=folder.file(AGENT_LOG),
            clock=folder.file("clock"),
            resolv_conf=folder.resolv_conf(NODE),
        )

    def _note_process(self, role: str, pid: int) -> None:
        started = process(pid)
        if started is not None:
            processes = {**self.state.processes, role: started}
            self._remember(msgspec.structs.replace(self.state, processes=processes))

    def _remember(self, state: LabState) -> None:
        self.state = state
        write_state(self.folder, state)
