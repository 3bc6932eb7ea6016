"""Titles and descriptions of the demo's own items, in the language of the page."""

from __future__ import annotations

from django import template

from example_project.market.content import goods

register = template.Library()
register.filter(goods.translated)
