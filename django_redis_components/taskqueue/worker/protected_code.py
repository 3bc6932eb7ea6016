"""Code in which a thread must not be interrupted.

An exception that arrives between two instructions of such code leaves a lock taken, or the state of a connection
half changed, for all threads of the process. For example, before Python 3.13 `logging.Handler.handle` acquires its lock
in front of its `try`. Two kinds are recognized:

* the functions of modules that hold locks and connections (`MODULES`), and
* functions of any installed package that acquire or release a lock by name, such as the connection pools of redis-py,
  and the methods that enter and leave a `with` block.

The functions of this package are made to be interrupted; what they call is not.
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType, FrameType

from django_redis_components.taskqueue.stats.fingerprint import is_library

#: Modules, with their submodules, whose functions are protected.
MODULES = (
    "_weakrefset", "concurrent.futures", "contextlib", "importlib", "logging", "multiprocessing", "queue", "selectors",
    "threading", "weakref",
    "django.core.cache", "django.db.backends", "django.db.transaction", "django.db.utils", "django.utils.connection",
    "MySQLdb", "oracledb", "psycopg", "psycopg2", "psycopg_pool", "pymysql",
)  # fmt: skip
#: Names that a function uses if it acquires or releases a lock outside of `with`.
LOCK_NAMES = frozenset({"_acquireLock", "_releaseLock", "acquire", "acquire_lock", "release", "release_lock"})
#: Functions that are protected in any code: an error in them leaves a `with` block that was entered, or is not raised.
METHODS = frozenset({"__del__", "__enter__", "__exit__", "get_connection"})
#: Functions of these modules that may be interrupted. A function that is decorated by a context manager, as by
#: `transaction.atomic`, runs within `inner`. `Thread.join` handles an exception at any instruction.
INTERRUPTIBLE = frozenset({("contextlib", "inner"), ("threading", "join"), ("threading", "_wait_for_tstate_lock")})
_PACKAGE = "django_redis_components."


def is_protected(frame: FrameType | None, outermost: CodeType) -> bool:
    """Return whether a thread must not be interrupted now.

    Args:
        frame: the innermost frame of the thread.
        outermost: the code that has called the task's function; its own callers do not count.
    """
    while frame is not None and frame.f_code is not outermost:
        name = frame.f_globals.get("__name__")
        if _is_protected(frame.f_code, name if isinstance(name, str) else ""):
            return True
        frame = frame.f_back
    return False


@lru_cache(maxsize=4_096)
def _is_protected(code: CodeType, module: str) -> bool:
    if module.startswith(_PACKAGE) or module == "subprocess":  # the lock of a `Popen` belongs to the task
        return False
    if f"{module}.".startswith(tuple(f"{name}." for name in MODULES)):
        return (module, code.co_name) not in INTERRUPTIBLE
    if code.co_name in METHODS:
        return True
    return is_library(code.co_filename) and not LOCK_NAMES.isdisjoint((code.co_name, *code.co_names))
