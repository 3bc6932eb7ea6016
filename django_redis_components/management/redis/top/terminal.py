"""A terminal whose whole screen is drawn again and again, and which is left as it was."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterable, Iterator
from typing import Any

#: Show the alternate screen and hide the cursor; and the reverse.
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
#: Move to the first line; clear the rest of a line; clear the rest of the screen.
HOME, CLEAR_LINE, CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"


@contextlib.contextmanager
def full_screen(write: Callable[[str], None]) -> Iterator[None]:
    """Use the alternate screen, without echo of typed characters. Any exception, Ctrl-C or SIGTERM ends it."""
    before = signal.signal(signal.SIGTERM, _exit)
    modes = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None
    try:
        if modes is not None:
            tty.setcbreak(sys.stdin, termios.TCSANOW)
        write(ENTER)
        yield
    finally:
        write(LEAVE)
        if modes is not None:
            termios.tcsetattr(sys.stdin, termios.TCSANOW, modes)
        signal.signal(signal.SIGTERM, before)


def draw(write: Callable[[str], None], lines: Iterable[str]) -> None:
    """Replace the content of the screen in one write, so that it does not flicker."""
    text = "\r\n".join(f"{line}{CLEAR_LINE}" for line in lines)
    write(f"{HOME}{text}{CLEAR_REST}")


def wait_for_quit(seconds: float) -> bool:
    """Wait; return True at once if "q" is typed."""
    until = time.monotonic() + seconds
    while (left_s := until - time.monotonic()) > 0:
        if not sys.stdin.isatty():
            time.sleep(left_s)
        elif select.select([sys.stdin], [], [], left_s)[0]:
            typed = os.read(sys.stdin.fileno(), 100)
            if not typed or b"q" in typed.lower():
                return True
    return False


def _exit(number: int, _: Any) -> None:
    """End the process with the usual exit code of a signal, by way of the ``finally`` blocks."""
    sys.exit(128 + number)
