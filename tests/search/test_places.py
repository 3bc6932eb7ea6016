"""Searching near a place: what is found, in which order, and what a changed document leaves."""

from __future__ import annotations

import math
import random

import pytest

from django_redis_components.search import SearchIndex
from tests.support import Store

BERLIN, POTSDAM, HAMBURG, SYDNEY = (13.405, 52.52), (13.0645, 52.3906), (9.9937, 53.5511), (151.2093, -33.8688)


@pytest.fixture
def shops(store: Store) -> SearchIndex:
    index = SearchIndex("shops")
    for name, place in {"berlin": BERLIN, "potsdam": POTSDAM, "hamburg": HAMBURG, "sydney": SYDNEY}.items():
        index.add(name, f"lamp shop in {name}", location=place, sort_values={"price": len(name)})
    index.add("nowhere", "lamp shop")
    return index


def kilometers(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the distance by the haversine formula, with the radius that Redis uses."""
    (x1, y1), (x2, y2) = (tuple(map(math.radians, each)) for each in (one, other))
    half = math.sin((y2 - y1) / 2) ** 2 + math.cos(y1) * math.cos(y2) * math.sin((x2 - x1) / 2) ** 2
    return 2 * 6372.797560856 * math.asin(math.sqrt(half))


@pytest.mark.contract
def test_documents_near_a_place_come_by_distance(shops: SearchIndex) -> None:
    page = shops.search("lamp", near=BERLIN, within=300, order_by="distance")

    assert page.ids == ["berlin", "potsdam", "hamburg"]
    assert [hit.score for hit in page.object_list] == pytest.approx([0, 27.2, 255.3], abs=0.1)
    assert shops.search("lamp", near=BERLIN, within=300, order_by="-distance").ids[0] == "hamburg"
    assert set(shops.search("lamp", near=BERLIN).ids) == {"berlin", "potsdam"}, "50 km by default"
    assert shops.search("lamp -berlin", near=BERLIN, order_by="price").ids == ["potsdam"]
    assert shops.search("lamp").paginator.count == 5
    weighted = shops.search("lamp", near=BERLIN, within=300, order_by={"distance": -1, "price": 100})
    assert weighted.ids[0] == "potsdam"


@pytest.mark.contract
def test_document_that_moves_or_loses_its_place_is_found_accordingly(shops: SearchIndex) -> None:
    shops.add("sydney", "lamp shop in sydney", location=BERLIN, sort_values={"price": 6})
    shops.add("potsdam", "lamp shop in potsdam", sort_values={"price": 7})
    shops.remove("berlin")

    assert shops.search("lamp", near=BERLIN, within=1).ids == ["sydney"]
    assert shops.search("lamp", near=SYDNEY, within=1).ids == []


def test_results_of_different_places_are_stored_apart(shops: SearchIndex) -> None:
    assert shops.search("lamp", near=BERLIN, within=1).ids == ["berlin"]
    assert shops.search("lamp", near=SYDNEY, within=1).ids == ["sydney"]
    assert shops.search("lamp", near=BERLIN, within=30, order_by="distance").ids == ["berlin", "potsdam"]


def test_random_places_equal_a_model(redis_server: Store) -> None:
    rng = random.Random(3)
    index = SearchIndex("places")
    places = {str(n): (rng.uniform(-179, 179), rng.uniform(-84, 84)) for n in range(200)}
    for id_, place in places.items():
        index.add(id_, "lamp", location=place)

    for _ in range(30):
        near, within = (rng.uniform(-179, 179), rng.uniform(-84, 84)), rng.uniform(100, 5_000)
        distances = {id_: kilometers(near, place) for id_, place in places.items()}
        expected = sorted((id_ for id_ in places if distances[id_] <= within), key=lambda id_: distances[id_])

        page = index.search("lamp", near=near, within=within, order_by="distance", per_page=200)

        assert page.ids == expected
        assert [hit.score for hit in page.object_list] == pytest.approx([distances[id_] for id_ in expected], abs=0.01)


def test_common_word_is_looked_for_near_the_place_only(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from django_redis_components.search import request as module

    monkeypatch.setattr(module, "MAX_CANDIDATES", 10)
    index = SearchIndex("places")
    for number in range(60):
        index.add(number, "lamp", location=(number / 10, 0))

    near = index.search("lamp", near=(0, 0), within=40, order_by="distance")
    assert (near.ids, near.is_partial) == ([str(n) for n in range(4)], False)
    bounded = index.search("lamp", near=(0, 0), within=20_000, order_by="distance")
    assert bounded.is_partial
    assert bounded.ids == [str(n) for n in range(bounded.paginator.count)], "the nearest ones"
    assert 2 <= bounded.paginator.count <= 5


def test_nearest_document_of_a_frequent_word_is_found(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from django_redis_components.search import request as module

    monkeypatch.setattr(module, "MAX_CANDIDATES", 20)
    rng = random.Random(5)
    index = SearchIndex("places")
    places = {str(n): (rng.uniform(-20, 20), rng.uniform(-20, 20)) for n in range(400)}
    for id_, place in places.items():
        index.add(id_, "lamp", location=place)

    for _ in range(20):
        near = (rng.uniform(-20, 20), rng.uniform(-20, 20))
        page = index.search("lamp", near=near, within=5_000, order_by="distance")

        nearest = sorted(places, key=lambda id_: kilometers(near, places[id_]))
        assert page.ids == nearest[: page.paginator.count]
        assert (page.is_partial, 1 <= page.paginator.count <= 10) == (True, True)
