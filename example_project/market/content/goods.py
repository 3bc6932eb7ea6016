"""The initial items on sale, and random names for further ones. They are stored in English, and shown translated."""

from __future__ import annotations

import random
from typing import NamedTuple

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from example_project.market.models import Kind


class Good(NamedTuple):
    title: str
    kind: str
    price: int
    description: str


def _good(kind: Kind, title: str, price: int, description: str) -> Good:
    return Good(title, kind.value, price, description)


#: Two dozen, enough for two pages of the market.
OPENING = [
    _good(
        Kind.BLADE,
        _("Sabre of the harbour watch"),
        240,
        _("Light, straight, with salt stains from ten years of night rounds."),
    ),
    _good(Kind.LIGHT, _("Lantern that never smokes"), 65, _("Burns clear for nine hours on a thimble of oil.")),
    _good(Kind.POTION, _("Bottle of slow fall"), 38, _("One sip before the jump. The cork is new.")),
    _good(
        Kind.SCROLL,
        _("Map of the drowned quarter"),
        120,
        _("Two streets are missing; the owner says they always were."),
    ),
    _good(Kind.RING, _("Ring of small luck"), 310, _("Finds lost buttons, sometimes coins.")),
    _good(Kind.BOOTS, _("Boots for wet stairs"), 54, _("Cork soles, double seams, size 42.")),
    _good(
        Kind.MUSIC, _("Lute with a borrowed voice"), 180, _("Sings the second part by itself when it likes the player.")
    ),
    _good(Kind.SHIELD, _("Round shield, one dent"), 95, _("The dent has a story. It comes with the shield.")),
    _good(Kind.BLADE, _("Letter knife of a spy"), 44, _("Opens seals without breaking them.")),
    _good(Kind.POTION, _("Ink that shows at dusk"), 27, _("For letters that should wait until evening.")),
    _good(Kind.LIGHT, _("Storm candle, set of six"), 18, _("Wind does not bother them, draughts do.")),
    _good(Kind.SCROLL, _("Tide tables for seven moons"), 72, _("Six of the moons are accurate.")),
    _good(Kind.RING, _("Charm against mosquitoes"), 22, _("Works on the small ones.")),
    _good(Kind.BOOTS, _("Cloak with eleven pockets"), 88, _("The twelfth is yours to find.")),
    _good(Kind.MUSIC, _("Fiddle in the northern tuning"), 145, _("Rosin and a spare string in the case.")),
    _good(Kind.SHIELD, _("Buckler of glazed clay"), 61, _("Prettier than it is strong.")),
    _good(Kind.BLADE, _("Two-handed bread knife"), 130, _("Made for the baker of a giant. Sharp.")),
    _good(Kind.POTION, _("Cure for hiccups"), 9, _("Also cures whistling, for a day.")),
    _good(Kind.SCROLL, _("Recipe book of the third tower"), 54, _("Soups mostly. Page 40 is not a soup.")),
    _good(Kind.LIGHT, _("Glass jar with a tame spark"), 76, _("Feed it a dry leaf on Sundays.")),
    _good(Kind.RING, _("Signet of an unknown house"), 205, _("The wax comes out blue, whatever color you use.")),
    _good(Kind.BOOTS, _("Slippers of the silent library"), 47, _("They squeak everywhere else.")),
    _good(Kind.MUSIC, _("Drum for calling cows"), 33, _("Range: two valleys.")),
    _good(Kind.SHIELD, _("Tower shield, fits a doorway"), 160, _("Used as a door for some years; hinges included.")),
]

_ADJECTIVES = (
    _("Old"),
    _("Silent"),
    _("Painted"),
    _("Traveling"),
    _("Borrowed"),
    _("Patient"),
    _("Northern"),
    _("Half-finished"),
    _("Lucky"),
)
_NOUNS = {
    Kind.BLADE: (_("dagger"), _("sickle"), _("sabre")),
    Kind.SHIELD: (_("buckler"), _("shield"), _("targe")),
    Kind.POTION: (_("tonic"), _("elixir"), _("bottle")),
    Kind.SCROLL: (_("map"), _("almanac"), _("scroll")),
    Kind.LIGHT: (_("lantern"), _("lamp"), _("candle")),
    Kind.RING: (_("ring"), _("charm"), _("brooch")),
    Kind.BOOTS: (_("boots"), _("cloak"), _("mittens")),
    Kind.MUSIC: (_("flute"), _("lute"), _("drum")),
}

#: Texts of the opening; and random titles, by their words.
_TEXTS = {text for good in OPENING for text in (good.title, good.description)}
_TITLES = {
    f"{adjective} {noun}": {"adjective": adjective, "noun": noun}
    for adjective in _ADJECTIVES
    for nouns in _NOUNS.values()
    for noun in nouns
}


def invented(rng: random.Random) -> Good:
    """Return a random item."""
    kind = rng.choice(list(Kind))
    title = f"{rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS[kind])}"
    return Good(title, kind.value, rng.randrange(8, 260), "")


def translated(text: str) -> str:
    """Return a title or description of these items in the current language; texts of members are unchanged."""
    if text in _TITLES:
        words = {name: gettext(word) for name, word in _TITLES[text].items()}
        return gettext("%(adjective)s %(noun)s") % words
    return gettext(text) if text in _TEXTS else text
