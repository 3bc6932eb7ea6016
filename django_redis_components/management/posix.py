"""Commands that need a POSIX system say so, instead of failing at what the platform lacks."""

from __future__ import annotations

import importlib
import sys

from django.core.management.base import CommandError

#: What workers and the full-screen view use, by module. The rest of the package also works without them.
_NEEDED = {
    "fcntl": ("flock",),
    "os": ("fork", "register_at_fork", "waitpid"),
    "resource": ("getrusage",),
    "signal": ("SIGCHLD", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "pthread_sigmask"),
    "termios": ("tcgetattr",),
}


def require_posix(command: str) -> None:
    """Check that the platform has processes that fork, their signals, and terminals.

    Raises:
        CommandError: it does not.
    """
    if not all(map(_has, _NEEDED)):
        raise CommandError(
            f"manage.py {command} needs a POSIX system (Linux, macOS, BSD, WSL): this one is {sys.platform}."
        )


def _has(name: str) -> bool:
    try:
        module = importlib.import_module(name)
    except ImportError:
        return False
    return all(hasattr(module, each) for each in _NEEDED[name])
