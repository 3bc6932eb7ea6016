"""Templates and static files: nothing inline, nothing from other hosts, small."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import django
import pytest
from django.core.management import call_command
from django.template import Context, engines
from django.test import Client

import django_redis_components
from tests.dashboard.support import URL, client_of, write_queue
from tests.support import Store
from tests.support.csp import POLICY

PACKAGE = Path(django_redis_components.__file__).parent
TEMPLATES = sorted((PACKAGE / "templates" / "django_redis_components" / "dashboard").rglob("*.html"))
SCRIPT = PACKAGE / "static" / "django_redis_components" / "dashboard.js"
SHEET = SCRIPT.with_suffix(".css")

#: Largest script, in bytes.
MAX_SCRIPT = 8_000


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_templates_have_no_inline_code(template: Path) -> None:
    text = template.read_text()

    assert re.findall(r"\sstyle\s*=", text) == []
    assert re.findall(r"\son\w+\s*=", text) == []
    assert re.findall(r"<style|javascript:|https?://|\|safe|autoescape|mark_safe", text) == []
    assert all(" src=" in tag for tag in re.findall(r"<script[^>]*>", text))


def test_script_writes_no_markup_and_uses_no_other_host() -> None:
    text = SCRIPT.read_text()

    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|https?://|sourceMappingURL", text)
        == []
    )
    assert SCRIPT.stat().st_size < MAX_SCRIPT


def test_stylesheet_loads_nothing_and_has_no_important() -> None:
    text = SHEET.read_text()

    assert re.findall(r"url\(|@import|!important|sourceMappingURL", text) == []
    assert text.count("{") == text.count("}")


def test_every_color_of_the_admin_has_a_fallback() -> None:
    ours = set(re.findall(r"(--drc-[\w-]+):", SHEET.read_text()))

    used = re.findall(r"var\((--[\w-]+)(,?)", SHEET.read_text())

    assert {name for name, fallback in used if not fallback} <= ours


def test_colors_of_ours_have_a_light_and_a_dark_value() -> None:
    found = re.findall(r"#[0-9a-fA-F]{3,8}\b", SHEET.read_text())

    pairs = re.findall(r"--drc-[\w-]+: light-dark\((#\w{3,8}), (#\w{3,8})\);", SHEET.read_text())
    assert len(found) == 2 * len(pairs)
    assert all(light != dark for light, dark in pairs)


@pytest.mark.django_db
def test_the_page_is_served_with_the_strict_policy_and_its_own_files(redis_server: Store) -> None:
    write_queue(redis_server, "mail", ready=1)

    response = client_of("superuser").get(URL)

    html = response.content.decode()
    assert response["Content-Security-Policy"] == POLICY
    assert '<script src="/static/django_redis_components/dashboard.js" defer></script>' in html
    assert '<link rel="stylesheet" href="/static/django_redis_components/dashboard.css">' in html
    main = html[html.index('id="content-main"') :]
    assert not re.search(r"\sstyle\s*=|<style|<script", main)


class Nonce:
    """Django's own is false until it has been rendered once."""

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return "abc123"


def test_nonce_of_any_csp_middleware_is_used() -> None:
    template = engines["django"].get_template("django_redis_components/dashboard/nonce.html").template

    def rendered(**values: object) -> str:
        return template.render(Context(values)).strip()

    assert rendered(csp_nonce=Nonce()) == 'nonce="abc123"'
    assert rendered(request=type("Request", (), {"csp_nonce": Nonce()})()) == 'nonce="abc123"'
    assert rendered(request=type("Request", (), {})()) == ""
    assert rendered() == ""


@pytest.mark.skipif(django.VERSION < (6, 0), reason="Django has its own policy from 6.0 on")
@pytest.mark.django_db
def test_the_files_carry_the_nonce_of_djangos_own_policy(redis_server: Store, settings) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE[1:], "django.middleware.csp.ContentSecurityPolicyMiddleware"]
    settings.SECURE_CSP = {"script-src": ["<CSP_NONCE_SENTINEL>", "'strict-dynamic'"], "style-src": ["'self'"]}
    [engine] = copy.deepcopy(settings.TEMPLATES)
    engine["OPTIONS"]["context_processors"].append("django.template.context_processors.csp")
    settings.TEMPLATES = [engine]

    response = client_of("superuser").get(URL)

    nonce = re.search(r"'nonce-([^']+)'", response["Content-Security-Policy"])[1]
    html = response.content.decode()
    assert f'dashboard.js" defer nonce="{nonce}"></script>' in html
    assert f'dashboard.css" nonce="{nonce}">' in html


@pytest.mark.django_db
def test_the_files_can_be_collected_with_names_by_content(settings, tmp_path: Path) -> None:
    settings.STATIC_ROOT = str(tmp_path)
    settings.STORAGES = {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"},
    }

    call_command("collectstatic", interactive=False, verbosity=0)

    names = [path.name for path in (tmp_path / "django_redis_components").iterdir()]
    assert any(re.fullmatch(r"dashboard\.\w{12}\.js", name) for name in names)
    assert any(re.fullmatch(r"dashboard\.\w{12}\.css", name) for name in names)


@pytest.mark.django_db
def test_without_javascript_refresh_is_a_link_and_nothing_else_is_missing(redis_server: Store) -> None:
    client: Client = client_of("superuser")

    html = client.get(URL).content.decode()

    assert f'<a class="drc-refresh" href="{URL}">' in html
    assert re.search(r"<button[^>]*data-drc-pause[^>]* hidden>", html)
