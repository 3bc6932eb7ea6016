"""Write the heading of its column on each cell of a table, as `data-label`: narrow.css shows it on narrow screens."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


class LabelledCells(HTML5Translator):
    """The HTML of Sphinx, with the headings of columns on the cells."""

    def starttag(self, node: Any, tagname: str, suffix: str = "\n", empty: bool = False, **attributes: Any) -> str:
        """Return the start tag of a node."""
        if isinstance(node, nodes.entry) and isinstance(node.parent.parent, nodes.tbody):
            attributes["data-label"] = _heading(node)
        return super().starttag(node, tagname, suffix, empty, **attributes)


def _heading(cell: nodes.entry) -> str:
    """Return the heading of the column of a cell; empty if the table has none."""
    heads = cell.parent.parent.parent.findall(nodes.thead)
    for head in heads:
        return head[-1][cell.parent.index(cell)].astext()
    return ""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the translator."""
    app.set_translator("html", LabelledCells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
