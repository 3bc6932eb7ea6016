"""Generate the sync client (`core/client/_sync`) from the async client (`core/client/_async`) by word substitution.

    python tools/generate_sync.py            write the sync modules (`make sync`)
    python tools/generate_sync.py --check    exit 1 and name the modules that are not current

Code that differs in more than words belongs into `core/client/transport.py`, which is written by hand for both.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).resolve().parents[1] / "django_redis_components" / "core" / "client"
HEADER = (
    "# Generated from {source} by tools/generate_sync.py. Do not edit: change the async module and run `make sync`.\n"
)

#: Applied to each line, in this order.
SUBSTITUTIONS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"^import asyncio\n", ""),
        (r"\basyncio\.sleep\b", "time.sleep"),
        (r"\basync (def|with)\b", r"\1"),
        (r"\bawait ", ""),
        (r"\bAwaitable\[(\w+)\]", r"\1"),
        (r"\bAwaitable, ", ""),
        (r"\bAsync(?=[A-Z])", "Sync"),
        (r"\basync_(?=\w)", "sync_"),
        (r"\b_async\b", "_sync"),
    ]
]


def generate(text: str, source: str) -> str:
    """Return the sync module for the text of an async one, formatted."""
    lines = text.splitlines(keepends=True)
    for pattern, replacement in SUBSTITUTIONS:
        lines = [pattern.sub(replacement, line) for line in lines]
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", "generated.py", "-"]
    code = HEADER.format(source=source) + "".join(lines)
    return subprocess.run(command, input=code, capture_output=True, text=True, check=True).stdout


def stale_modules(client: Path = CLIENT) -> dict[Path, str]:
    """Return the sync modules that differ from what their async module generates, with the text they must have."""
    stale = {}
    for source in sorted((client / "_async").glob("*.py")):
        text = source.read_text()
        target = client / "_sync" / source.name
        expected = generate(text, f"_async/{source.name}") if text else ""
        if not target.exists() or target.read_text() != expected:
            stale[target] = expected
    return stale


def main(arguments: list[str]) -> int:
    """Write the stale modules, or name them with `--check`. Return the exit code."""
    stale = stale_modules()
    for target, text in stale.items():
        if arguments == ["--check"]:
            print(f"{target} is not current: run `make sync`.")
        else:
            target.write_text(text)
            print(f"Wrote {target}")
    return 1 if stale and arguments == ["--check"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
