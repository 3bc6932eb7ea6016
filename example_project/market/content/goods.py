"""The initial items on sale, and random names for further ones."""

from __future__ import annotations

import random
from typing import NamedTuple

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
        "Sabre of the harbour watch",
        240,
        "Light, straight, with salt stains from ten years of night rounds.",
    ),
    _good(Kind.LIGHT, "Lantern that never smokes", 65, "Burns clear for nine hours on a thimble of oil."),
    _good(Kind.POTION, "Bottle of slow fall", 38, "One sip before the jump. The cork is new."),
    _good(Kind.SCROLL, "Map of the drowned quarter", 120, "Two streets are missing; the owner says they always were."),
    _good(Kind.RING, "Ring of small luck", 310, "Finds lost buttons, sometimes coins."),
    _good(Kind.BOOTS, "Boots for wet stairs", 54, "Cork soles, double seams, size 42."),
    _good(Kind.MUSIC, "Lute with a borrowed voice", 180, "Sings the second part by itself when it likes the player."),
    _good(Kind.SHIELD, "Round shield, one dent", 95, "The dent has a story. It comes with the shield."),
    _good(Kind.BLADE, "Letter knife of a spy", 44, "Opens seals without breaking them."),
    _good(Kind.POTION, "Ink that shows at dusk", 27, "For letters that should wait until evening."),
    _good(Kind.LIGHT, "Storm candle, set of six", 18, "Wind does not bother them, draughts do."),
    _good(Kind.SCROLL, "Tide tables for seven moons", 72, "Six of the moons are accurate."),
    _good(Kind.RING, "Charm against mosquitoes", 22, "Works on the small ones."),
    _good(Kind.BOOTS, "Cloak with eleven pockets", 88, "The twelfth is yours to find."),
    _good(Kind.MUSIC, "Fiddle in the northern tuning", 145, "Rosin and a spare string in the case."),
    _good(Kind.SHIELD, "Buckler of glazed clay", 61, "Prettier than it is strong."),
    _good(Kind.BLADE, "Two-handed bread knife", 130, "Made for the baker of a giant. Sharp."),
    _good(Kind.POTION, "Cure for hiccups", 9, "Also cures whistling, for a day."),
    _good(Kind.SCROLL, "Recipe book of the third tower", 54, "Soups mostly. Page 40 is not a soup."),
    _good(Kind.LIGHT, "Glass jar with a tame spark", 76, "Feed it a dry leaf on Sundays."),
    _good(Kind.RING, "Signet of an unknown house", 205, "The wax comes out blue, whatever color you use."),
    _good(Kind.BOOTS, "Slippers of the silent library", 47, "They squeak everywhere else."),
    _good(Kind.MUSIC, "Drum for calling cows", 33, "Range: two valleys."),
    _good(Kind.SHIELD, "Tower shield, fits a doorway", 160, "Used as a door for some years; hinges included."),
]

_ADJECTIVES = ("Old", "Quiet", "Painted", "Traveling", "Borrowed", "Patient", "Northern", "Half-finished", "Lucky")
_NOUNS = {
    Kind.BLADE: ("dagger", "sickle", "sabre"),
    Kind.SHIELD: ("buckler", "shield", "targe"),
    Kind.POTION: ("tonic", "elixir", "bottle"),
    Kind.SCROLL: ("map", "almanac", "scroll"),
    Kind.LIGHT: ("lantern", "lamp", "candle"),
    Kind.RING: ("ring", "charm", "brooch"),
    Kind.BOOTS: ("boots", "cloak", "mittens"),
    Kind.MUSIC: ("flute", "lute", "drum"),
}


def invented(rng: random.Random) -> Good:
    """Return a random item."""
    kind = rng.choice(list(Kind))
    title = f"{rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS[kind])}"
    return Good(title, kind.value, rng.randrange(8, 260), "")
