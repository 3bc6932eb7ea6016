"""Sphinx configuration: `make docs` builds the site into .data/site, and every warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent / "_extensions")]

import django  # noqa: E402
from django.conf import settings  # noqa: E402

import django_redis_components  # noqa: E402

settings.configure(
    INSTALLED_APPS=[
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django.contrib.sessions",
        "django_redis_components",
    ],
    USE_TZ=True,
)
django.setup()

project = "django-redis-components"
author = "django-redis-components contributors"
copyright = author
version = release = django_redis_components.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "cell_labels",
    "component_reference",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_extensions"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist", "attrs_inline"]
myst_heading_anchors = 4
# The examples are Python with `await` at the top level, or shortened signatures: nothing that a strict lexer accepts.
# ref.python: the type `bytes` of a signature is also the name of several attributes.
suppress_warnings = ["misc.highlighting_failure", "ref.python"]

# In the docstrings `name` is code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
# The fields of a NamedTuple are members too: as attributes they would be described twice.
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"{project} {version}"
html_static_path = ["_static"]
html_css_files = ["narrow.css"]
html_show_sphinx = False
html_search_scorer = str(Path(__file__).parent / "_extensions" / "search_order.js")
