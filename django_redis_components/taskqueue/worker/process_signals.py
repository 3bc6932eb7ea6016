"""The signals between a supervisor and its worker processes. Windows lacks them, so only workers import this."""

from __future__ import annotations

import signal

#: Signals that stop a worker.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: The supervisor sends it with SIGTERM to end the grace period. A second SIGTERM could be merged with the first.
STOP_NOW = signal.SIGQUIT
#: Fetch nothing more, finish the running tasks, and stay.
QUIET = signal.SIGUSR1
#: Signals that are blocked while a process is forked.
BLOCKED_SIGNALS = (*STOP_SIGNALS, STOP_NOW, QUIET)
