"""Links in letters: the moderators get a mail about each one that was never sent before."""

from __future__ import annotations

import re

from django_redis_components.bloom import BloomFilter

#: Links of one letter that are looked at.
MAX_LINKS = 20

_LINK = re.compile(r"https?://[^\s<>\"']{1,300}")

#: Some 20 bits for each link, where a set would keep their text.
_seen = BloomFilter("market links", capacity=100_000, error_rate=0.001)


def unseen(text: str) -> list[str]:
    """Return the links of a text that no letter had before, and remember them.

    Of several letters with the same new link that are sent at once, one gets it. One new link in a thousand is taken
    for a known one.
    """
    found = list(dict.fromkeys(link.rstrip(".,;:!?)") for link in _LINK.findall(text)))[:MAX_LINKS]
    return [link for link, is_new in zip(found, _seen.add_many(found), strict=True) if is_new]
