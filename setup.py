"""The description that a package index shows: README.md, whose links to files of the repository an index cannot follow.

Everything else is in pyproject.toml. With a URL "Source" there, links and images become absolute; without one, links
become their text, and images are left out.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
#: A link to a file of the repository: text and path.
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)]+)\)")
PICTURE = re.compile(r"<picture>.*?</picture>\n*", re.DOTALL)
IMAGE = re.compile(r'(src|srcset)="(?!https?:)([^"]+)"')


def description(text: str, source: str, version: str) -> str:
    """Return the README for an index.

    Args:
        source: URL of the repository, or "".
        version: whose tag the links name.
    """
    if not source:
        return LINK.sub(r"\1", PICTURE.sub("", text))
    base = f"{source.rstrip('/')}/%s/v{version}/"
    text = LINK.sub(rf"[\1]({base % 'blob'}\2)", text)
    return IMAGE.sub(rf'\1="{base % "raw"}\2"', text)


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    package = (ROOT / "django_redis_components" / "__init__.py").read_text()
    [version] = re.findall(r'^__version__ = "(.+)"$', package, re.MULTILINE)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    setup(
        long_description=description(readme, project.get("urls", {}).get("Source", ""), version),
        long_description_content_type="text/markdown",
    )
