"""Failpoints: named places in the code where a crash test may kill the process.

A running site sets no hook: each failpoint then costs one check of a global variable.
"""

from __future__ import annotations

from collections.abc import Callable

#: Set by crash tests only. Called with the name of each failpoint that is reached.
hook: Callable[[str], None] | None = None


def reach(name: str) -> None:
    """Call the hook, if a test has set one.

    Args:
        name: after_fetch, before_run, after_run, before_ack, before_maintain, after_maintain, before_fire,
            after_fire; of the outbox after_commit, after_send, before_relay, after_relay, before_delete_commits or
            after_delete; of a move to another shard after_export, after_read, after_import or after_forget.
    """
    if hook is not None:
        hook(name)
