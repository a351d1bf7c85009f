"""Opening captures: files, standard input, gzip, and one line for everything that is wrong."""

import gzip
import os
import threading
from io import BytesIO
from pathlib import Path

import pytest
from helpers.capture_bytes import Rec, pcap

from knp_py.adapters.captures import open_capture
from knp_py.errors import CaptureError
from knp_py.wire.source import CaptureProblem

PACKETS = [bytes([n % 256]) * n for n in range(1000)]
CAPTURE = pcap([Rec(packet) for packet in PACKETS])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.pcap"


def packets(path: Path | str, **options: object) -> list[bytes]:
    return [data for _, _, data, _ in open_capture(path, **options)]  # type: ignore[arg-type]


def failure(path: Path) -> str:
    """The one line that is said about a capture."""
    with pytest.raises(CaptureError) as caught:
        packets(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


def test_a_file(path: Path) -> None:
    path.write_bytes(CAPTURE)
    assert packets(path) == PACKETS
    assert packets(str(path)) == PACKETS


@pytest.mark.parametrize("members", [1, 3])
def test_gzip_is_seen_through_whatever_the_name(path: Path, members: int) -> None:
    third = len(CAPTURE) // members
    pieces = [CAPTURE[n * third : (n + 1) * third] for n in range(members - 1)]
    pieces.append(CAPTURE[(members - 1) * third :])
    path.write_bytes(b"".join(gzip.compress(piece) for piece in pieces))
    assert packets(path) == PACKETS


@pytest.mark.parametrize("data", [CAPTURE, gzip.compress(CAPTURE)], ids=["plain", "gzip"])
def test_standard_input(data: bytes) -> None:
    stdin = BytesIO(data)
    assert packets("-", stdin=stdin) == PACKETS
    assert not stdin.closed


def test_standard_input_has_a_name_in_errors() -> None:
    with pytest.raises(CaptureError, match=r"^standard input: expected a pcap .* an empty file$"):
        packets("-", stdin=BytesIO(b""))


class Trickle(BytesIO):
    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(min(1, size or 1))


@pytest.mark.parametrize("data", [CAPTURE[:5000], gzip.compress(CAPTURE)], ids=["plain", "gzip"])
def test_input_that_trickles(data: bytes) -> None:
    found = packets("-", stdin=Trickle(data), on_problem=lambda _: None)
    assert found
    assert found == PACKETS[: len(found)]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are Unix")
def test_a_named_pipe_is_opened_once_and_read_as_it_comes(path: Path) -> None:
    os.mkfifo(path)
    seen = threading.Event()

    def write() -> None:
        with path.open("wb", buffering=0) as pipe:
            pipe.write(CAPTURE[:24] + pcap([Rec(b"now")])[24:])
            assert seen.wait(10)  # the record must come before the pipe ends
            pipe.write(pcap([Rec(b"later")])[24:])

    writer = threading.Thread(target=write)
    writer.start()
    records = open_capture(path)
    assert next(records)[2] == b"now"
    seen.set()
    assert [data for _, _, data, _ in records] == [b"later"]
    writer.join()


def test_a_missing_file_and_a_directory_are_errors_at_once(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pcap"
    with pytest.raises(CaptureError, match="no such file"):
        open_capture(missing)
    with pytest.raises(CaptureError, match="is a directory, expected a capture file"):
        open_capture(tmp_path)
    with pytest.raises(CaptureError, match="null"):
        open_capture("a\0b")


def test_a_file_that_vanishes_before_it_is_read(path: Path) -> None:
    path.write_bytes(CAPTURE)
    records = open_capture(path)
    path.unlink()
    with pytest.raises(CaptureError, match="no such file"):
        next(records)


def test_what_is_no_capture(path: Path) -> None:
    path.write_bytes(b"kind: Pod\n")
    assert (
        failure(path) == "expected a pcap or pcapng capture, found text beginning 'kind: Pod\\n'"
    )
    path.write_bytes(b"")
    assert failure(path) == "expected a pcap or pcapng capture, found an empty file"
    path.write_bytes(gzip.compress(b""))
    assert failure(path) == "expected a pcap or pcapng capture, found an empty file"
    path.write_bytes(gzip.compress(gzip.compress(CAPTURE)))
    assert failure(path) == "expected a pcap or pcapng capture, found gzip data"
    path.write_bytes(b"\x1f")
    assert failure(path) == "expected a pcap or pcapng capture, found data 1f"


def test_damaged_gzip(path: Path) -> None:
    data = bytearray(gzip.compress(CAPTURE))
    data[-6] ^= 0xFF  # the checksum
    path.write_bytes(data)
    assert failure(path).startswith("gzip data is damaged: CRC check failed")
    data = bytearray(gzip.compress(CAPTURE, compresslevel=1))
    data[200:1000] = b"\xff" * 800
    path.write_bytes(data)
    assert failure(path).startswith("gzip data is damaged: ")
    path.write_bytes(b"\x1f\x8b\x07" + bytes(20))
    assert failure(path).startswith("gzip data is damaged: ")
    path.write_bytes(gzip.compress(CAPTURE) + b"no gzip")
    assert failure(path).startswith("gzip data is damaged: ")


def test_cut_gzip_gives_what_could_be_unpacked(path: Path) -> None:
    noise = pcap([Rec(os.urandom(500)) for _ in range(500)])
    data = gzip.compress(noise)
    path.write_bytes(data[: len(data) // 2])
    problems: list[CaptureProblem] = []
    found = packets(path, on_problem=problems.append)
    assert 200 < len(found) < 260
    assert [problem.kind for problem in problems] in (["gzip cut", "cut"], ["gzip cut"])
    assert failure(path).startswith("gzip data ends early, after ")


def test_a_cut_capture_is_a_problem_for_whoever_listens(path: Path) -> None:
    path.write_bytes(CAPTURE[:-1])
    problems: list[CaptureProblem] = []
    assert packets(path, on_problem=problems.append) == PACKETS[:-1]
    assert [problem.kind for problem in problems] == ["cut"]
    assert failure(path).startswith(f"capture ends mid-record at byte {len(CAPTURE) - 1}:")


def test_a_reader_that_stops_early_lets_go_of_the_file(path: Path) -> None:
    path.write_bytes(CAPTURE)
    records = open_capture(path)
    next(records)
    records.close()  # type: ignore[attr-defined]


def test_a_device_that_cannot_be_read_is_one_line() -> None:
    if not Path("/proc/self/mem").exists():
        pytest.skip("needs /proc/self/mem, a file that fails when read")
    assert failure(Path("/proc/self/mem"))
