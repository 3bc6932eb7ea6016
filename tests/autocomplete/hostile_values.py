"""What a visitor may send as any parameter."""

from __future__ import annotations

#: What a visitor may send as any parameter.
HOSTILE = [
    "", " ", "0", "00000000199", "9" * 5_000, "-1", "1.0", "1e3", "²", "٣", "{", "}", "{}", "{a}{b}", "\x00", "\n",
    "\x7f", "\u0085", "\u200b", "\u202e", "\ud800", "\ufffd", "\U0010ffff", "a" * 300, "a" * 20_000, "é" * 101, "[]",
    "[1]", "a:b", "%", "%00", "%s", "..", "../", "'", '"', "<b>", "None", "null", "\\", "*", "?", "\xff", "1\x002",
    "Infinity",
]  # fmt: skip
