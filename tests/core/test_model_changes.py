"""Primary keys of the ids that an index has, and that visitors send."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import models
from django.test.utils import isolate_apps

from django_redis_components.core.model_changes import key_of, stored_value

with isolate_apps("tests.core"):

    class Article(models.Model):
        slug = models.SlugField(primary_key=True)

        class Meta:
            app_label = "core"

        def __str__(self) -> str:
            return self.slug

    class Review(Article):
        class Meta:
            app_label = "core"

    class Profile(models.Model):
        user = models.OneToOneField(User, models.CASCADE, primary_key=True)

        class Meta:
            app_label = "core"

        def __str__(self) -> str:
            return str(self.user_id)


@pytest.mark.parametrize("model", [Article, Review])
def test_key_that_a_validator_of_the_site_refuses_is_one_that_an_object_may_have(model: type[models.Model]) -> None:
    assert key_of(model, "not a slug") == "not a slug"


@pytest.mark.parametrize("id_", ["", "9" * 25, "-" + "9" * 25, "9" * 5_000, "x", "1.5"])
@pytest.mark.parametrize("model", [User, Profile])
def test_number_that_the_database_cannot_store_is_no_key(model: type[models.Model], id_: str) -> None:
    assert key_of(model, "7") == 7
    assert key_of(model, id_) is None


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
@pytest.mark.parametrize("model", [Article, Review, Session])
def test_text_that_the_database_cannot_store_is_no_key(model: type[models.Model], value: Any) -> None:
    assert key_of(model, value) is None
    assert stored_value(User._meta.get_field("username"), value) is None
