"""Which User-Agents are visitors, by lists of those of browsers and of machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_redis_components.analytics.crawlers import is_crawler


def agents(name: str) -> list[str]:
    lines = (Path(__file__).parent / "agents" / f"{name}.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


#: What names neither itself as a machine nor a URL: a browser of a person cannot be told from it.
UNKNOWN = ["Fluid/0.9.6", "abuse.xmco.fr"]


@pytest.mark.parametrize("agent", agents("browsers"))
def test_browser_is_a_visitor(agent: str) -> None:
    assert not is_crawler(agent, (), ())


@pytest.mark.parametrize("agent", ["", " ", *agents("crawlers")])
def test_machine_is_no_visitor(agent: str) -> None:
    assert is_crawler(agent, (), ())


def test_machines_of_a_public_list_are_no_visitors() -> None:
    found = [agent for agent in agents("crawler_user_agents") if not is_crawler(agent, (), ())]

    assert len(agents("crawler_user_agents")) == 304
    assert [agent for agent in found if not any(part in agent for part in UNKNOWN)] == []


def test_settings_add_to_the_list_and_take_from_it() -> None:
    browser = agents("browsers")[0]

    assert is_crawler(f"{browser} Kiosk", ("kiosk",), ())
    assert not is_crawler("curl/8.5.0 for our shop", (), ("OUR SHOP",))
    assert not is_crawler(f"{browser} Kiosk", ("kiosk",), ("chrome",)), "what is counted wins"


def test_long_agent_is_looked_at_in_linear_time() -> None:
    for text in ("a" * 512, "{" * 512, "bot" * 170, "@" * 512, "a." * 256, "w" * 512, "1" * 512):
        is_crawler("windows " + text, (), ())
