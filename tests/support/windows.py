"""A Python without what Windows lacks: ``python tests/support/windows.py module:function``.

Calls the function in a site with the settings of the test, and prints ``done`` with its JSON result.

It is a script because ``tests.support`` imports asyncio, which chooses its functions when it is imported, as `socket`,
redis-py and Django do. ``sys.platform`` stays, and what `subprocess` and asyncio need then (`os.waitpid`,
`os.sysconf`): the standard library would otherwise import modules that exist on Windows only.
"""

from __future__ import annotations

import fnmatch
import importlib.abc
import json
import sys
from collections.abc import Sequence
from typing import Any

#: Modules that cannot be imported.
MODULES = {"fcntl", "grp", "posix_ipc", "pty", "pwd", "readline", "resource", "spwd", "syslog", "termios", "tty"}

#: What its modules do not have, by the module; a name with a star: all that start so.
NAMES = {
    "os": (
        "register_at_fork fork forkpty getuid geteuid getgid getegid getgroups getpgid getpgrp getpriority getsid"
        " setuid setgid setsid setpgid setpriority setgroups initgroups killpg nice uname getloadavg confstr pathconf"
        " wait wait3 wait4 waitid pread pwrite preadv pwritev readv writev pipe2 posix_* sched_* sendfile splice fchmod"
        " fchown chown lchown chroot fchdir mkfifo mknod openpty ctermid tcgetpgrp tcsetpgrp ttyname statvfs fstatvfs"
        " sync fdatasync lockf F_* memfd_* eventfd* pidfd_open *xattr get_blocking set_blocking O_NONBLOCK O_NDELAY"
        " O_DIRECTORY O_CLOEXEC O_NOFOLLOW O_NOCTTY O_*SYNC O_DIRECT O_PATH O_TMPFILE O_NOATIME"
    ),
    "signal": (
        "SIGQUIT SIGUSR* SIGHUP SIGCHLD SIGCLD SIGKILL SIGALRM SIGVTALRM SIGPROF SIGPIPE SIGCONT SIGSTOP SIGTSTP SIGTT*"
        " SIGWINCH SIGURG SIGIO SIGPOLL SIGSYS SIGTRAP SIGBUS SIGXCPU SIGXFSZ SIGPWR SIGRT* SIG_BLOCK SIG_UNBLOCK"
        " SIG_SETMASK ITIMER_* pthread_* alarm pause ?etitimer siginterrupt sig*wait* sigpending"
    ),
    "select": "poll epoll EPOLL* POLL* PIPE_BUF devpoll kqueue kevent",
    "_socket": "AF_UNIX socketpair MSG_DONTWAIT MSG_NOSIGNAL MSG_CMSG_CLOEXEC SO_REUSEPORT SCM_RIGHTS CMSG_*",
    "time": "clock_* pthread_getcpuclockid tzset CLOCK_*",
}


class _Refusal(importlib.abc.MetaPathFinder):
    """Refuses to import the modules."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> None:
        if fullname in MODULES:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def simulate_windows() -> None:
    """Remove what Windows lacks from this process."""
    early = sorted({"asyncio", "redis", "selectors", "socket", "django_redis_components"} & sys.modules.keys())
    if early:
        raise RuntimeError(f"{', '.join(early)} were imported already.")
    sys.meta_path.insert(0, _Refusal())
    for name in MODULES:
        sys.modules.pop(name, None)
    for module, names in NAMES.items():
        for pattern in names.split():
            _remove(importlib.import_module(module), pattern)


def _remove(module: Any, pattern: str) -> None:
    for name in fnmatch.filter(dir(module), pattern):
        delattr(module, name)


def main() -> None:
    del sys.path[0]  # the folder of this script
    simulate_windows()
    import django

    from tests import settings

    settings.MIDDLEWARE.remove("tests.support.csp.StrictContentSecurityPolicy")  # its package starts servers
    django.setup()
    module, _, function = sys.argv[1].partition(":")
    print("done", json.dumps(getattr(importlib.import_module(module), function)()))


if __name__ == "__main__":
    main()
