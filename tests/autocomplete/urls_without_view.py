"""A URLconf that forgot to include the package's."""

from __future__ import annotations

urlpatterns: list[object] = []
