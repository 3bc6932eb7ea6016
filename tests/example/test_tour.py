"""The guided tour: its links work for those who may follow them, in both languages."""

from __future__ import annotations

import re


def links(text: str) -> list[str]:
    return re.findall(r'<h2><a href="([^"]+)"', text)


def test_every_step_leads_to_a_page_that_the_administrator_sees(demo):
    visitor = demo.visitor("admin")

    found = links(visitor.get("/tour/").text)

    assert len(found) == 9
    assert {url: visitor.get(url).status for url in found} == dict.fromkeys(found, 200)


def test_anonymous_visitor_is_told_who_may_sign_in(demo):
    text = demo.visitor().get("/tour/").text

    assert "user <b>admin</b>, password <b>market</b>" in text
    assert "/login/?next=/tour/" in text
    assert "user <b>admin</b>" not in demo.visitor("admin").get("/tour/").text


def test_tour_is_in_the_language_of_the_browser(demo):
    visitor = demo.visitor()
    visitor.add_header("Accept-Language", "zh-CN")

    text = visitor.get("/tour/").text

    assert '<html lang="zh-hans">' in text
    assert "五分钟导览" in text
    assert "Full-text" not in text
