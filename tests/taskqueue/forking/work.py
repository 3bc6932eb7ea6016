"""Functions for the children of tasks. Without Django, because `spawn` imports them in a new Python."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

#: Signals that a worker, a supervisor or a poller handles.
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGCHLD")
#: Prints the handlers of a new program, which has those that it was started with.
PROGRAM = "from tests.taskqueue.forking.work import signal_handlers; print(signal_handlers())"


def signal_handlers() -> str:
    """How this process takes the signals, and whether it has a descriptor that they wake."""
    names = {
        signal.SIG_DFL: "default",
        signal.SIG_IGN: "ignored",
        signal.default_int_handler: "default",
    }
    handlers = {names.get(signal.getsignal(getattr(signal, name)), "own") for name in SIGNALS}  # type: ignore[call-overload]
    return f"{' '.join(sorted(handlers))}, wakeup fd {signal.set_wakeup_fd(-1)}"


def pipes_and_sockets() -> set[str]:
    """What this process has open, besides the three streams."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        if int(entry.name) > 2:
            try:
                found.add(str(entry.readlink()))
            except FileNotFoundError:  # the descriptor of the listing itself
                continue
    return {each for each in found if each.startswith(("pipe:", "socket:", "anon_inode:"))}


def square(number: int) -> int:
    """Something for a pool."""
    return number * number


def stay() -> NoReturn:
    """Until a signal ends the process."""
    while True:
        time.sleep(0.05)


def end(how: str) -> Any:
    """End the function that calls this, in a forked child."""
    if how == "sys.exit":
        sys.exit(3)
    if how == "exit with a text":
        sys.exit("the child has something to say")
    if how == "raise":
        raise LookupError("in the child")
    return "from the child"
