"""Write the data of each component to ``tests/stored_data/format_<n>/``: ``python -m tests.stored_data.record``.

It starts a server, runs `write` of each case with the code of the working tree, and writes the keys as JSON. A file
that exists is not written again: delete it first, which is right only if no release has written its format yet.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import redis

from tools.localserver import LocalServer

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
#: Starts no value that a component stores, so that a value with the prefix is noticed.
PREFIX = "recorded-prefix"


def main() -> int:
    """Write the missing files."""
    with tempfile.TemporaryDirectory() as directory:
        server = LocalServer(directory=Path(directory), die_with_parent=True).start()
        try:
            _set_up_site(server.url)
            _record_missing(server, Path(directory))
        finally:
            server.kill()
    return 0


def _set_up_site(url: str) -> None:
    connections = {"default": {"URL": url}}
    site = {"PREFIX": PREFIX, "CATALOG": False, "LIVE_EVENTS": False, "CONNECTIONS": connections}
    os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.settings", "TEST_REDIS_COMPONENTS": json.dumps(site)}
    import django

    django.setup()


def _record_missing(server: LocalServer, directory: Path) -> None:
    # The settings must be complete before these are imported.
    from django_redis_components import __version__
    from django_redis_components.core.stored_formats import WRITTEN
    from tests.stored_data.cases import CASES
    from tests.stored_data.dump import dump
    from tests.support import Store

    store = Store("recorded", server.url, PREFIX, redis.Redis.from_url(server.url))
    for component, case in CASES.items():
        path = FOLDER / f"format_{WRITTEN[component]}" / f"{component}.json"
        if path.exists():
            print(f"{path.relative_to(FOLDER)} exists")
            continue
        store.delete_keys()
        case.write(directory)
        path.parent.mkdir(exist_ok=True)
        content = {"release": __version__, "keys": dump(store)}
        text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True)
        path.write_text(text.replace(str(ROOT), "/srv/shop") + "\n")  # tracebacks have the paths of files
        print(f"{path.relative_to(FOLDER)} written: {len(content['keys'])} keys")


if __name__ == "__main__":
    sys.exit(main())
