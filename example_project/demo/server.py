"""The server of the demo: an embedded Valkey with an append-only file, or the one that REDIS_URL names."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from example_project.demo.console import Console
from example_project.localserver import LocalServer, ServerError
from example_project.places import REDIS_DIR, URL_FILE


class DemoServer:
    """Started before everything else, stopped after everything else."""

    def __init__(self, console: Console, directory: Path = REDIS_DIR) -> None:
        self._console = console
        self._given = os.environ.get("REDIS_URL")
        self._local = LocalServer(directory=directory, appendonly=True, die_with_parent=True)

    @property
    def url(self) -> str:
        return self._given or self._local.url

    def start(self) -> None:
        """Start it, unless one was given, and leave its address for other commands of this checkout."""
        if self._given:
            self._console.say("using the server of REDIS_URL")
            return
        self._local.start()
        self._console.line("server", f"Valkey on {self.url}, files and log in {self._local.directory}")
        unready = URL_FILE.with_suffix(".new")
        unready.write_text(self.url + "\n")
        unready.replace(URL_FILE)

    def look(self) -> None:
        """Start our own server again should it have ended."""
        if self._given or self._local.running:
            return
        self._console.say("!!! the server ended; it is started again with its data")
        with contextlib.suppress(ServerError):  # said again, and tried again, at the next look
            self._local.start()
            self._console.say(f"the server runs again, process {self._local.pid}")

    def stop(self) -> None:
        """End our own server; what it accepted is on disk then."""
        if self._given:
            return
        URL_FILE.unlink(missing_ok=True)
        self._local.stop()
        self._console.say("server stopped, its data is kept")
