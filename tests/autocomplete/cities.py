"""Models for the tests of indexes: cities, kinds of cities, and visits that refer to a city by its code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, models
from django.test.utils import isolate_apps

from django_redis_components.autocomplete import ModelIndex

with isolate_apps("tests.autocomplete"):

    class City(models.Model):
        """A city. Its code is not its primary key."""

        code = models.CharField(max_length=10, unique=True)
        name = models.CharField(max_length=40, unique=True)
        country = models.CharField(max_length=2, default="de")

        class Meta:
            app_label = "autocomplete"

        def __str__(self) -> str:
            return self.name

    class Resort(City):
        """A city with its own table."""

        stars = models.IntegerField(default=3)

        class Meta:
            app_label = "autocomplete"

    class GermanCity(City):
        """A proxy of a city."""

        class Meta:
            app_label = "autocomplete"
            proxy = True

    class Visitor(models.Model):
        """A person who visits cities."""

        name = models.CharField(max_length=40)
        cities = models.ManyToManyField(City, through="Visit")
        friends = models.ManyToManyField("self", blank=True)

        class Meta:
            app_label = "autocomplete"

        def __str__(self) -> str:
            return self.name

    class Visit(models.Model):
        """A visit of a city, which it knows by its code."""

        visitor = models.ForeignKey(Visitor, models.CASCADE)
        city = models.ForeignKey(City, models.CASCADE, to_field="code")

        class Meta:
            app_label = "autocomplete"

        def __str__(self) -> str:
            return f"{self.visitor} in {self.city}"

    class Trip(models.Model):
        """A journey to a city with guests, and stops in others."""

        title = models.CharField(max_length=40)
        city = models.ForeignKey(City, models.CASCADE, to_field="code")
        guests = models.ManyToManyField(Visitor, blank=True)

        class Meta:
            app_label = "autocomplete"

        def __str__(self) -> str:
            return self.title

    class Stop(models.Model):
        """A stop of a trip."""

        trip = models.ForeignKey(Trip, models.CASCADE)
        city = models.ForeignKey(City, models.CASCADE)
        nights = models.PositiveIntegerField(default=1)

        class Meta:
            app_label = "autocomplete"

        def __str__(self) -> str:
            return str(self.city)


class Cities(ModelIndex):
    """All cities."""

    model = City
    name = "cities"
    text = "name"


class CitiesByCountry(ModelIndex):
    """Cities of the country that another field has."""

    model = City
    name = "cities-by-country"
    text = "name"
    forward = ("country",)

    def scope(self, obj: Any) -> str:
        return obj.country


@contextmanager
def tables() -> Iterator[None]:
    """Have the tables of the models."""
    made = (City, Resort, Visitor, Visit, Trip, Stop)
    with connection.schema_editor() as editor:
        for model in made:
            editor.create_model(model)
    yield
    with connection.schema_editor() as editor:
        for model in reversed(made):
            editor.delete_model(model)
