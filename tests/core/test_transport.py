"""Encoding of commands, also while a signal arrives."""

from __future__ import annotations

import enum
import random
import signal

import pytest

from django_redis_components.core.client.encoding import pack, pack_many
from tests.support.processes import Children

#: A few hundred are enough to interrupt the encoding for certain.
ROUNDS = 5_000


class Size(enum.IntEnum):
    LARGE = 7


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        ("é", "é".encode()),
        (b"\x00\xff", b"\x00\xff"),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        (0, b"0"),
        (-(2**70), b"-1180591620717411303424"),
        (Size.LARGE, b"7"),
        (0.1, b"0.1"),
        (1e22, b"1e+22"),
        ("", b""),
    ],
)
def test_part_is_encoded_as_its_text(part: object, sent: bytes) -> None:
    assert pack(("SET", part)) == b"*2\r\n$3\r\nSET\r\n$%d\r\n%s\r\n" % (len(sent), sent)


def test_commands_of_a_batch_are_concatenated() -> None:
    assert pack_many([("PING",), ("GET", "a")]) == b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n"


def interruptions_while_packing() -> int:
    """Count how often Ctrl-C interrupted the packing of numbers."""
    met = 0

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    numbers = ("EVALSHA", "sha", *range(150))
    for _ in range(ROUNDS):
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00001, 0.00005))
            for _ in range(50):
                pack(numbers)
        except KeyboardInterrupt:
            met += 1
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    return met


def test_interruption_while_packing_is_an_exception_and_no_crash(children: Children) -> None:
    child = children.call("tests.core.test_transport:interruptions_while_packing")

    met = child.result()

    assert isinstance(met, int)
    assert met > ROUNDS / 2
