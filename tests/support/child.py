"""The child process of tests.support.processes: ``python -m tests.support.child module:function '["json", "args"]'``.

Sets Django up with the settings of the test that started it, prints ``ready``, calls the function, and prints
``done`` with its JSON result.
"""

from __future__ import annotations

import json
import os
import sys


def print_line(*words: object) -> None:
    """Print a line for the test, in one write, so that the lines of threads do not mix."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def main() -> None:
    import django

    from tests.support.forks import load

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    function = load(sys.argv[1])
    args = json.loads(sys.argv[2]) if len(sys.argv) > 2 else []
    print_line("ready")
    result = function(*args)
    print_line("done", json.dumps(result))


if __name__ == "__main__":
    main()
