"""``{% autocomplete %}`` in templates."""

from __future__ import annotations

import pytest
from django.template import Context, Engine, TemplateSyntaxError
from django.utils.translation import gettext_lazy

from django_redis_components.autocomplete import PrefixIndex, Suggestion, UnknownIndex, register
from tests.support import Store

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _contacts() -> None:
    register("contacts")
    register("guild", scoped=True)


def render(source: str, more: dict[str, str] | None = None, **context: object) -> str:
    templates = {"page": source, **(more or {})}
    engine = Engine(
        loaders=[("django.template.loaders.locmem.Loader", templates)],
        builtins=["django_redis_components.templatetags.redis_components"],
        libraries={"redis_components": "django_redis_components.templatetags.redis_components"},
    )
    return engine.get_template("page").render(Context(context))


def test_tag_makes_a_field_with_an_id_for_its_label() -> None:
    rendered = render('{% autocomplete name="to" index="contacts" %}')

    assert '<input type="text" name="to" autocomplete="off" maxlength="300" id="id_to">' in rendered
    assert '<input type="hidden" name="to-id">' in rendered


def test_tag_takes_html_attributes() -> None:
    rendered = render(
        '{% autocomplete name="to" index="contacts" id="x" required=True class_="wide" aria_label=label %}',
        label='"To"',
    )

    assert 'id="x" required class="wide" aria-label="&quot;To&quot;"' in rendered


def test_tag_begins_with_a_suggestion_or_an_id(redis_server: Store) -> None:
    PrefixIndex("contacts").add(1, "Émile Zola")
    source = '{% autocomplete name="to" index="contacts" value=value %}'

    for value in (1, Suggestion("1", "Émile Zola")):
        rendered = render(source, value=value)
        assert 'value="Émile Zola"' in rendered
        assert 'name="to-id" value="1"' in rendered


def test_name_index_and_attributes_may_be_lazy_texts() -> None:
    lazy = {"name": gettext_lazy("to"), "index": gettext_lazy("contacts"), "hint": gettext_lazy("A name")}

    rendered = render("{% autocomplete name=name index=index placeholder=hint %}", **lazy)

    assert '<input type="text" name="to"' in rendered
    assert 'id="id_to"' in rendered
    assert 'placeholder="A name"' in rendered


def test_empty_name_of_the_field_raises() -> None:
    with pytest.raises(ValueError, match=r"^name='': expected the name of the field"):
        render('{% autocomplete name=missing index="contacts" %}')


def test_tag_signs_a_scope() -> None:
    assert 'data-scope="7:' in render('{% autocomplete name="to" index="guild" scope=7 %}')


def test_first_tag_of_a_page_includes_script_and_style() -> None:
    tag = '{% autocomplete name="to" index="contacts" %}'

    rendered = render(
        f'{{% extends "base" %}}{{% block body %}}{tag}{{% include "part" %}}{tag}{{% endblock %}}',
        {"base": "{% block body %}{% endblock %}", "part": "{% load redis_components %}" + tag},
    )

    assert rendered.count("<redis-autocomplete") == 3
    assert rendered.count("<script") == rendered.count("<link") == 1


def test_each_rendering_includes_script_and_style() -> None:
    tag = '{% autocomplete name="to" index="contacts" %}'

    assert render(tag).count("<script") == render(tag).count("<script") == 1


def test_media_tag_includes_script_and_style_in_the_head() -> None:
    rendered = render(
        '<head>{% autocomplete_media %}</head>{% autocomplete name="to" index="contacts" %}{% autocomplete_media %}'
    )

    assert rendered.count("<script") == rendered.count("<link") == 1
    assert rendered.index("<script") < rendered.index("</head>")


def test_index_that_is_not_registered_is_an_error() -> None:
    with pytest.raises(UnknownIndex, match="Did you mean 'contacts'"):
        render('{% autocomplete name="to" index="contact" %}')


def test_tag_without_a_name_is_an_error() -> None:
    with pytest.raises(TemplateSyntaxError, match="'name'"):
        render('{% autocomplete index="contacts" %}')
