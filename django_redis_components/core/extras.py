"""What to install for an optional part of this package."""

from __future__ import annotations


def missing(what: str, package: str, extra: str) -> ImportError:
    """The error for a package that is not installed.

    Args:
        what: what cannot be used without it.
        package: its name on PyPI.
        extra: the extra of this package that installs it.
    """
    return ImportError(f"{what} needs the package {package}: pip install 'django-redis-components[{extra}]'.")
