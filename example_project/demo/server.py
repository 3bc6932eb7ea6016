"""The server of the demo: an embedded Valkey with an append-only file, or the one that REDIS_URL names."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from example_project.demo.console import Console
from example_project.paths import REDIS_DIR, URL_FILE
from tools.localserver import LocalServer, ServerError


class DemoServer:
    """The Redis server. Started before the processes and stopped after them."""

    def __init__(self, console: Console, directory: Path = REDIS_DIR) -> None:
        self._console = console
        self._given = os.environ.get("REDIS_URL")
        self._local = LocalServer(directory=directory, appendonly=True, die_with_parent=True)

    @property
    def url(self) -> str:
        return self._given or self._local.url

    def start(self) -> None:
        """Start the embedded server, unless REDIS_URL is set, and write its URL for other commands of this checkout."""
        if self._given:
            self._console.info("using the server of REDIS_URL")
            return
        self._local.start()
        self._console.line("server", f"Valkey on {self.url}, files and log in {self._local.directory}")
        unready = URL_FILE.with_suffix(".new")
        unready.write_text(self.url + "\n")
        unready.replace(URL_FILE)

    def check(self) -> None:
        """Restart the embedded server if it exited."""
        if self._given or self._local.running:
            return
        self._console.info("!!! the server exited; restarting it with its data")
        with contextlib.suppress(ServerError):  # reported and retried at the next check
            self._local.start()
            self._console.info(f"the server has restarted, process {self._local.pid}")

    def stop(self) -> None:
        """Stop the embedded server; its data is on disk afterwards."""
        if self._given:
            return
        URL_FILE.unlink(missing_ok=True)
        self._local.stop()
        self._console.info("server stopped, its data is kept")
