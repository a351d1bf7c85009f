"""The netfilterqueue package accepting everything: what Python costs before it judges anything.

    python accept_in_python.py QUEUE CLEAR SET

As ``accept_all.c``: the verdict carries (mark & ~CLEAR) | SET, both hexadecimal.
"""

import sys

from netfilterqueue import NetfilterQueue, Packet


def main() -> None:
    number, clear, answer = int(sys.argv[1]), int(sys.argv[2], 16), int(sys.argv[3], 16)
    keep = ~clear & 0xFFFF_FFFF

    def accept(packet: Packet) -> None:
        packet.set_mark(packet.get_mark() & keep | answer)
        packet.accept()

    queue = NetfilterQueue()
    queue.bind(number, accept)
    print("ready", flush=True)
    queue.run()


main()
