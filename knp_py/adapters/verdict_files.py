"""``allowed.pcap`` and ``denied.pcap``: a capture sorted by verdict, for Wireshark."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from scapy.utils import RawPcapWriter

from knp_py.errors import InputError, reason_of
from knp_py.model.decision import Verdict
from knp_py.wire.source import Record

_ETHERNET = 1
_LATEST = (1 << 32) * 1_000_000_000 - 1  # a pcap file's times have 32 bits of seconds
_NAMES = {Verdict.ALLOW: "allowed", Verdict.DENY: "denied"}


class VerdictFiles:
    """Writes each packet, byte for byte, to the file of its connection's verdict.

    A pcap file has one link type: packets of another than the first go to a file that
    names it (``denied.link-113.pcap``). Times keep their nanoseconds. Packets of a
    connection whose verdict is unknown go nowhere; ``unknown`` counts them, ``out_of_range``
    packets whose time does not fit and was cut to what does.
    """

    def __init__(self, directory: str, inputs: Iterable[str] = ()) -> None:
        self._directory = Path(directory)
        self._inputs = [Path(name) for name in inputs]
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--write {directory}: {reason_of(error)}") from error
        self._writers: dict[tuple[Verdict, int], RawPcapWriter] = {}
        self._first_link: int | None = None
        self.unknown = 0
        self.out_of_range = 0
        for name in _NAMES.values():
            self._refuse_input(self._directory / f"{name}.pcap")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        link = self._first_link if self._first_link is not None else _ETHERNET
        with self._own_errors(), ExitStack() as open_files:
            for verdict in _NAMES:
                self._writer(verdict, link)
            for writer in self._writers.values():
                open_files.callback(writer.close)
            for writer in self._writers.values():
                if not writer.header_present:
                    writer.write_header(None)

    def write(self, verdict: Verdict, record: Record) -> None:
        """One packet of a connection with this verdict. Raises ``InputError``."""
        ts, link, data, length = record
        if self._first_link is None:
            self._first_link = link
        if verdict is Verdict.UNKNOWN:
            self.unknown += 1
            return
        if not 0 <= ts <= _LATEST:
            ts = min(max(ts, 0), _LATEST)
            self.out_of_range += 1
        seconds, fraction = divmod(ts, 1_000_000_000)
        with self._own_errors():
            writer = self._writer(verdict, link)
            if not writer.header_present:
                writer.write_header(None)
            writer.write_packet(data, sec=seconds, usec=fraction, wirelen=length)

    def _writer(self, verdict: Verdict, link: int) -> RawPcapWriter:
        writer = self._writers.get((verdict, link))
        if writer is None:
            name = _NAMES[verdict]
            if self._first_link not in {None, link}:
                name += f".link-{link}"
            path = self._directory / f"{name}.pcap"
            self._refuse_input(path)
            writer = RawPcapWriter(str(path), linktype=link, nano=True, snaplen=262_144)
            self._writers[verdict, link] = writer
        return writer

    def _refuse_input(self, path: Path) -> None:
        """Opening a capture for writing would empty it while it is being read."""
        if path.exists() and any(i.exists() and i.samefile(path) for i in self._inputs):
            raise InputError(f"--write would overwrite {path}, which is being judged")

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(f"--write {self._directory}: {reason_of(error)}") from None
