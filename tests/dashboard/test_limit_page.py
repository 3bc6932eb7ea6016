"""The page of rate limits, and the reset by an operator."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client

from django_redis_components.core import keys
from django_redis_components.core.circuit_breaker import breaker_for
from django_redis_components.core.observability import catalog
from django_redis_components.dashboard.actions.commands import log_command
from django_redis_components.dashboard.limits.key_access import without_keys
from django_redis_components.dashboard.problems import incidents
from django_redis_components.dashboard.problems.watcher import ProblemWatcher
from django_redis_components.ratelimits import HashedKey, RateLimit, hit_counts, rate_limit
from tests.dashboard.action_pages import ACTIONS
from tests.dashboard.addresses import LIMITS
from tests.dashboard.support import HOSTILE, URL, Page, browser, connect, dump, fields_of, reason_of, text_of
from tests.ratelimits.support import count_hits, send_counts_by_hand
from tests.support import Store
from tests.support.processes import Children

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogued")]

INCIDENTS = "/admin/django_redis_components/incident/"
ALL_BUT_KEYS = ("view_overview", "view_ratelimit", "view_action", "view_incident", "block_ratelimit", "reset_ratelimit")
RESET, BLOCK, UNBLOCK = (f"{LIMITS}{verb}/" for verb in ("reset", "block", "unblock"))


@pytest.fixture
def viewer() -> Client:
    return browser("view_ratelimit")


@pytest.fixture
def operator() -> Client:
    return browser("view_ratelimit", "reset_ratelimit")


def state_of(client: Client, limit: RateLimit, key: str) -> dict[str, object]:
    return client.get(LIMITS, {"format": "json", "limit": limit.policy.id, "key": key}).json()["state"]


def test_used_limits_are_listed(redis_server: Store, viewer: Client) -> None:
    login = RateLimit("login", "5/m", "50/d", penalty=(20, 600), on_error="closed")

    @rate_limit("10/s", key=None, algorithm="fixed", name="report")
    def report() -> None:
        """Nothing."""

    login.peek("ada")
    report()
    RateLimit("unused", "5/m")

    text = text_of(viewer.get(LIMITS).content.decode())

    assert "login gcra, default 5/m, 50/d 10 min 0 s block after 20 denials in 10 min 0 s deny 0 0 0" in text
    assert "report fixed, default 10/s count in each process 0 0 0" in text
    assert "unused" not in text
    assert "hits of all processes in the last hour." in text
    assert login.policy.id in {each["id"] for each in viewer.get(LIMITS, {"format": "json"}).json()["limits"]}


def test_page_names_the_connection_whose_hits_this_process_counts_for_itself(
    redis_server: Store, viewer: Client
) -> None:
    limit = RateLimit("login", "5/m")
    breaker_for("default").record_failure(reason="Redis is slow.")
    assert not limit.hit("ada").is_checked

    text = text_of(viewer.get(LIMITS).content.decode())

    assert "Connection default: this process counts hits for itself. Redis is slow." in text
    breaker_for("default").reset()
    assert "counts hits for itself" not in viewer.get(LIMITS).content.decode()


def test_limits_of_all_processes_are_listed(redis_server: Store, viewer: Client, children: Children) -> None:
    RateLimit("here", "5/m").hit("ada")
    children.call("tests.dashboard.test_limit_page:hit_in_another_process").wait_for("done")

    pages = [viewer.get(LIMITS, {"format": "json"}).json() for _ in range(3)]

    assert [[each["name"] for each in page["limits"]] for page in pages] == [["here", "there", "there"]] * 3


def hit_in_another_process() -> None:
    catalog.is_on = lambda: True
    RateLimit("there", "5/m", penalty=(20, 600)).hit("ada")
    RateLimit("there", (7, 1.5), "9/h", algorithm="sliding", on_error="closed").hit("ada")
    catalog.RECORDER.flush()


def test_page_without_limits_shows_an_example(redis_server: Store, viewer: Client) -> None:
    text = text_of(viewer.get(LIMITS).content.decode())

    assert 'No limit has been used yet. Add a decorator: @rate_limit("5/m")' in text


@pytest.mark.parametrize("algorithm", ["gcra", "sliding", "fixed"])
def test_the_state_of_a_key_is_read_and_not_changed(algorithm: str, store: Store, viewer: Client) -> None:
    limit = RateLimit("login", "3/m", "4/h", algorithm=algorithm, penalty=(5, 60))
    limit.hit("ada")
    limit.hit("ada")
    before = dump(store)

    found = state_of(viewer, limit, "ada")
    text = text_of(viewer.get(LIMITS, {"limit": limit.policy.id, "key": "ada"}).content.decode())

    assert (found["allowed"], found["remaining"]) == (True, 1)
    assert [(rate["rate"], rate["remaining"]) for rate in found["rates"]] == [("3/m", 1), ("4/h", 2)]
    assert re.search(r"login : ada The next hit is allowed\. Remaining 1 of 3 Retry in now Resets in", text)
    assert re.search(r"\d+ commands · 3 round trips", text), "the limits, their counts, and the state of the key"
    assert dump(store) == before


def test_one_hit_is_named_in_the_singular(redis_server: Store, settings, monkeypatch) -> None:
    send_counts_by_hand(monkeypatch)
    count_hits(settings)
    limit = RateLimit("login", "2/h")
    limit.hit("ada")
    hit_counts.COUNTER.flush()

    html = browser("view_ratelimit").get(LIMITS, {"limit": limit.policy.id}).content.decode()

    assert "1 hit in the last hour: 0 denied, 0 decided without Redis." in html


def test_counts_chart_and_denied_keys_are_shown(redis_server: Store, settings, monkeypatch) -> None:
    viewer = browser("view_ratelimit", "view_ratelimit_keys")
    send_counts_by_hand(monkeypatch)
    count_hits(settings, DENIED_KEYS="text")
    limit = RateLimit("<b>login", "2/h")
    for key in ("ada", "ada", "ada", "ada", "<script>", "<script>", "<script>"):
        limit.hit(key)
    hit_counts.COUNTER.flush()

    html = viewer.get(LIMITS, {"limit": limit.policy.id}).content.decode()
    found = viewer.get(LIMITS, {"format": "json"}).json()

    assert "7 hits in the last hour: 3 denied, 0 decided without Redis." in html
    assert re.search(r"Keys that were denied most in this hour Key Denied ada 2 &lt;script&gt; 1", text_of(html))
    assert "&lt;b&gt;login gcra, default 2/h count in each process 4 3 0" in text_of(html)
    [counts] = [each["last_hour"] for each in found["limits"] if each["id"] == limit.policy.id]
    assert counts == {"allowed": 4, "denied": 3, "unchecked": 0, "denied_keys": []}


def deny(limit: RateLimit, key: str, times: int = 150) -> None:
    for _ in range(times + 1):
        limit.hit(key)
    hit_counts.COUNTER.flush()


@pytest.mark.parametrize("key", ["ada@example.org", "0123456789abcdef0123456789abcdef"])
def test_viewer_without_the_permission_gets_hashes_of_denied_keys(
    key: str, redis_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_counts_by_hand(monkeypatch)
    count_hits(settings, DENIED_KEYS="text")
    monkeypatch.setattr(incidents, "WARN_AFTER_S", 0.0)
    mails_to = {"EMAILS": ["ops@example.com"], "SEVERITY": "warning"}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "NOTIFICATIONS": mails_to}
    limit = RateLimit("login", "1/h")
    deny(limit, key)
    others = browser(*ALL_BUT_KEYS)
    allowed = browser("view_ratelimit", "view_ratelimit_keys", "block_ratelimit")
    url = {"limit": limit.policy.id}

    [link] = re.findall(r'href="([^"]*/block/[^"]*)"', allowed.get(LIMITS, url).content.decode())
    confirmed = allowed.post(unescape(link), {**fields_of(allowed.get(unescape(link))), "seconds": "600"})
    log_command("ann on web-1", f"redis limits block login {key}", f"Blocked key {key!r}.", "default")
    watcher = ProblemWatcher("default")
    watcher.round()
    watcher.stop()
    texts = [
        others.get(address, {"format": wanted, **query}).content.decode()
        for address, query in ((LIMITS, url), (ACTIONS, {}), (URL, {}), (INCIDENTS, {}))
        for wanted in ("html", "fragment", "json", "csv")
    ]

    assert confirmed.status_code == 302
    mails = [str(each.body) for each in mail.outbox if "Rate limit login denied" in each.subject]
    assert mails
    assert [text for text in texts + mails if key in text] == []
    digest = f"hash:{keys.digest(key)}"
    assert digest in texts[8]
    assert digest in mails[0]
    html = texts[0]
    assert keys.digest(key) in html
    assert "You see hashes" in html
    assert f"Blocked key {digest} of rate limit login for 10 min." in text_of(texts[4])
    assert "redis limits block …" in texts[4]
    [link] = [unescape(each) for each in re.findall(r'href="([^"]*/block/[^"]*)"', html)]
    others.post(link, {**fields_of(others.get(link)), "seconds": "600"})
    assert limit.peek(key).blocked_by is not None
    assert key in allowed.get(LIMITS, url).content.decode()
    assert "You see hashes" not in allowed.get(LIMITS, url).content.decode()
    assert key in browser("view_action", "view_ratelimit_keys").get(ACTIONS).content.decode()


def test_text_that_is_left_from_before_hashes_were_stored_is_hashed(
    redis_server: Store, settings: Any, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_counts_by_hand(monkeypatch)
    count_hits(settings, DENIED_KEYS="text")
    limit = RateLimit("login", "1/h")
    deny(limit, "ada@example.org", 3)
    count_hits(settings)

    html = viewer.get(LIMITS, {"limit": limit.policy.id}).content.decode()

    assert "ada@example.org" not in html
    assert keys.digest("ada@example.org") in html


def test_limits_are_listed_while_their_counts_cannot_be_read(
    own_server: Store, redis_server: Store, settings: Any, viewer: Client
) -> None:
    connect(settings, other=own_server.url)
    limit = RateLimit("login", "2/h", using="other")
    limit.hit("ada")
    own_server.servers[0].kill()

    text = text_of(viewer.get(LIMITS, {"limit": limit.policy.id}).content.decode())

    assert "The counts of some limits cannot be read: Redis does not answer." in text


def test_denial_and_block_are_described(redis_server: Store, viewer: Client) -> None:
    limit = RateLimit("login", "1/h")
    strict = RateLimit("strict", "1/h", penalty=(1, 600))
    for each in (limit, strict):
        each.hit("ada")
        each.hit("ada")

    denied = text_of(viewer.get(LIMITS, {"limit": limit.policy.id, "key": "ada"}).content.decode())
    blocked = text_of(viewer.get(LIMITS, {"limit": strict.policy.id, "key": "ada"}).content.decode())

    assert re.search(r"The next hit is denied\. Retry in 59 min \d+ s\.", denied)
    assert re.search(r"Blocked by the penalty\. The block ends in 9 min \d+ s\.", blocked)


def test_page_ignores_cached_denials(redis_server: Store, viewer: Client) -> None:
    limit = RateLimit("login", "1/h")
    limit.hit("ada")
    assert not limit.hit("ada")
    redis_server.raw.unlink(*redis_server.raw.keys(f"{redis_server.prefix}:ratelimits:*"))

    assert not limit.peek("ada")
    assert state_of(viewer, limit, "ada")["allowed"] is True


def test_unknown_limit_is_reported(redis_server: Store, operator: Client) -> None:
    text = text_of(operator.get(LIMITS, {"limit": "f" * 16, "key": "ada"}).content.decode())

    assert "This site has used no such limit in the last 90 days." in text
    assert operator.get(RESET, {"limit": "f" * 16, "key": "ada"}).status_code == 404
    assert operator.post(RESET, {"limit": "f" * 16, "key": "ada"}).status_code == 404


def test_reset_is_written_to_the_admin_log(store: Store, operator: Client) -> None:
    limit = RateLimit("login", "1/h", penalty=(1, 600))
    limit.hit("ada")
    limit.hit("ada")
    html = operator.get(LIMITS, {"limit": limit.policy.id, "key": "ada"}).content.decode()
    link = re.findall(r'href="([^"]*/reset/\?[^"]*)"', html)[0].replace("&amp;", "&")

    asked = operator.get(link)
    fields = {each["name"]: each["value"] for each in Page(asked.content.decode()).all("input") if each.get("name")}
    done = operator.post(RESET, fields, follow=True)

    assert "Blocked by the penalty" in asked.content.decode()
    text = text_of(done.content.decode())
    assert "Reset: ada" in text
    assert "The next hit is allowed." in text
    assert limit.hit("ada")
    [entry] = LogEntry.objects.all()
    assert entry.change_message == "Reset rate limit 'login' for key 'ada': done."
    assert operator.get(entry.get_admin_url(), follow=True).redirect_chain == [(LIMITS, 302)]


@pytest.mark.parametrize("algorithm", ["gcra", "sliding", "fixed"])
def test_block_and_its_end_are_shown_and_written_to_the_admin_log(store: Store, algorithm: str) -> None:
    operator = browser("view_ratelimit", "block_ratelimit")
    limit = RateLimit("login", "5/m", algorithm=algorithm, deny_cache=False)
    limit.hit("ada")
    asked = {"limit": limit.policy.id, "key": "ada"}

    form = Page(operator.get(BLOCK, asked).content.decode())
    blocked = operator.post(BLOCK, {**asked, "seconds": "3600"}, follow=True).content.decode()

    [chosen] = [each["value"] for each in form.all("option") if "selected" in each]
    assert chosen == "3600"
    decision = limit.hit("ada")
    author = User.objects.get().get_username()
    assert (decision.blocked_by, round(decision.retry_after, -1)) == (author, 3_600)
    shown = text_of(blocked)
    assert "Blocked: ada Unblock…" in shown
    assert re.search(rf"login : ada Blocked until ([A-Z][a-z]+ \d+, )?\d\d:\d\d, by {author}\. Block… Unblock…", shown)
    assert state_of(operator, limit, "ada")["blocked_by"] == author

    ended = [text_of(operator.post(UNBLOCK, asked, follow=True).content.decode()) for _ in range(2)]

    assert "Unblocked: ada" in ended[0]
    assert "Not blocked: ada" in ended[1]
    assert "Block… Registered" in ended[1]
    assert limit.hit("ada").remaining == 3
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")] == [
        "Block key 'ada' of rate limit 'login' for 60 min: done.",
        "Unblock key 'ada' of rate limit 'login': done.",
        "Unblock key 'ada' of rate limit 'login': was not blocked.",
    ]


def test_block_until_unblocked_is_shown_without_an_end(redis_server: Store) -> None:
    operator = browser("view_ratelimit", "block_ratelimit")
    limit = RateLimit("login", "5/m")
    limit.peek("ada")

    shown = operator.post(BLOCK, {"limit": limit.policy.id, "key": "ada", "seconds": "unblocked"}, follow=True)

    assert f"Blocked until unblocked, by {User.objects.get().get_username()}." in text_of(shown.content.decode())
    assert LogEntry.objects.get().change_message == "Block key 'ada' of rate limit 'login' until unblocked: done."
    limit.block("ada", 2 * 86_400)
    asked = {"limit": limit.policy.id, "key": "ada"}
    assert re.search(
        r"Blocked until [A-Z][a-z]+ \d+, \d\d:\d\d\.", text_of(operator.get(LIMITS, asked).content.decode())
    )


@pytest.mark.parametrize("seconds", ["", "0", "-1", "61", "1h", "<b>", "600 "])
def test_wrong_time_of_a_block_is_named_with_what_is_accepted(redis_server: Store, seconds: str) -> None:
    operator = browser("view_ratelimit", "block_ratelimit")
    limit = RateLimit("login", "5/m")
    limit.peek("ada")

    response = operator.post(BLOCK, {"limit": limit.policy.id, "key": "ada", "seconds": seconds})

    named = f" “{seconds}”" if seconds else ""
    assert response.status_code == 409
    assert f"Block for{named}: expected 600, 3600, 86400 or unblocked." in unescape(response.content.decode())
    assert limit.hit("ada")
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(
    ("permissions", "status"),
    [
        ((), 403),
        (("block_ratelimit",), 403),
        (("view_ratelimit", "reset_ratelimit"), 403),
        (("view_ratelimit", "block_ratelimit"), 200),
    ],
)
def test_block_and_unblock_require_their_permission(
    permissions: tuple[str, ...], status: int, redis_server: Store
) -> None:
    limit = RateLimit("login", "5/m", deny_cache=False)
    limit.block("ada", 60)
    client, asked = browser(*permissions), {"limit": limit.policy.id, "key": "ada"}

    assert [client.get(url, asked).status_code for url in (BLOCK, UNBLOCK)] == [status] * 2
    if status == 403:
        assert client.post(BLOCK, {**asked, "seconds": "3600"}).status_code == 403
        assert client.post(UNBLOCK, asked).status_code == 403
        assert 0 < limit.hit("ada").retry_after <= 60


def test_blocks_need_a_csrf_token_and_no_read_only_dashboard(redis_server: Store, settings: Any) -> None:
    limit = RateLimit("login", "5/m", deny_cache=False)
    limit.peek("ada")
    asked = {"limit": limit.policy.id, "key": "ada", "seconds": "600"}
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    assert client.post(BLOCK, asked).status_code == 403
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"READ_ONLY": True}}

    assert browser("view_ratelimit", "block_ratelimit").post(BLOCK, asked).status_code == 403

    assert limit.hit("ada")


def test_block_whose_outcome_is_unknown_is_logged_so(own_server: Store, settings: Any) -> None:
    operator = browser("view_ratelimit", "block_ratelimit")
    limit = RateLimit("login", "5/m", using="other")
    connect(settings, other="redis://127.0.0.1:1/0")
    limit.peek("ada")

    response = operator.post(BLOCK, {"limit": limit.policy.id, "key": "ada", "seconds": "600"})

    assert response.status_code == 503
    assert "Cannot connect to Redis." in response.content.decode()
    assert ": outcome unknown, " in LogEntry.objects.get().change_message


@pytest.mark.parametrize(
    ("permissions", "page", "reset"),
    [
        ((), 403, 403),
        (("view_overview", "view_lock"), 403, 403),
        (("reset_ratelimit",), 403, 403),
        (("view_ratelimit",), 200, 403),
        (("view_ratelimit", "reset_ratelimit"), 200, 200),
    ],
)
def test_each_page_requires_its_permission(
    permissions: tuple[str, ...], page: int, reset: int, redis_server: Store
) -> None:
    limit = RateLimit("login", "1/h")
    limit.hit("ada")
    client = browser(*permissions)
    asked = {"limit": limit.policy.id, "key": "ada"}

    assert client.get(LIMITS, asked).status_code == page
    assert client.get(RESET, asked).status_code == reset
    if reset == 403:
        assert client.post(RESET, asked).status_code == 403
        assert not limit.hit("ada")
    if page == 200:
        assert ("Reset…" in client.get(LIMITS, asked).content.decode()) == (reset == 200)


def test_reset_requires_a_csrf_token(redis_server: Store) -> None:
    limit = RateLimit("login", "1/h")
    limit.hit("ada")
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))

    assert client.post(RESET, {"limit": limit.policy.id, "key": "ada"}).status_code == 403
    assert not limit.hit("ada")


@pytest.mark.parametrize("key", ["", "x" * 1_001])
def test_invalid_reset_form_returns_400(key: str, redis_server: Store, operator: Client) -> None:
    limit = RateLimit("login", "1/h")
    limit.peek("ada")

    response = operator.post(RESET, {"limit": limit.policy.id, "key": key})

    assert reason_of(response) == "Required: limit, and key of at most 1000 characters."
    if key:
        assert operator.get(LIMITS, {"limit": limit.policy.id, "key": key}).status_code == 400


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_limit_names_and_keys_are_escaped(text: str, redis_server: Store, operator: Client) -> None:
    clean = Page(operator.get(LIMITS).content.decode())
    limit = RateLimit(text.replace("{", "(").replace("}", ")"), "5/m")
    limit.peek("ada")
    asked = {"limit": limit.policy.id, "key": text}

    for url in (LIMITS, RESET):
        page = Page(operator.get(url, asked).content.decode())
        for tag in ("b", "script", "img"):
            assert len(page.all(tag)) <= len(clean.all(tag)), tag
        assert not any(word.startswith("on") for _, attributes in page.tags for word in attributes)
        assert any(each.get("value") == text for each in page.all("input"))


def test_every_page_returns_503_during_an_outage(settings, operator: Client) -> None:
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}}}
    limit = RateLimit("login", "1/h")
    asked = {"limit": limit.policy.id, "key": "ada"}

    answers = [operator.get(LIMITS, asked), operator.get(RESET, asked), operator.post(RESET, asked)]

    assert [answer.status_code for answer in answers] == [503] * 3
    assert all("Cannot connect to Redis." in answer.content.decode() for answer in answers)
    assert operator.get(LIMITS).status_code == 503


def test_denied_key_is_found_and_reset_by_its_hash(redis_server: Store, settings, monkeypatch) -> None:
    send_counts_by_hand(monkeypatch)
    count_hits(settings)
    root = browser("view_ratelimit", "reset_ratelimit")
    limit = RateLimit("login", "2/h")
    for _ in range(4):
        limit.hit("ip:203.0.113.7")
    hit_counts.COUNTER.flush()
    hashed = f"hash:{keys.digest('ip:203.0.113.7')}"

    html = root.get(LIMITS, {"limit": limit.policy.id, "key": "ip:203.0.113.7"}).content.decode()
    assert "the key that you looked up" in html
    [link] = re.findall(rf'href="(\?[^"]*{quote(hashed)})"', html)
    state = text_of(root.get(f"{LIMITS}{unescape(link)}").content.decode())
    assert f"login : {hashed}" in state
    assert "The next hit is denied." in state

    root.post(RESET, {"limit": limit.policy.id, "key": hashed})

    assert limit.peek("ip:203.0.113.7").is_allowed


def test_hash_must_be_one() -> None:
    with pytest.raises(ValueError, match=r"^digest='ada': expected 32 hexadecimal digits\.$"):
        HashedKey("ada")


@pytest.mark.parametrize("key", [r"'\x'", r"'\N{nothing}'", "'a\nb'", "'\0'"])
def test_key_of_a_foreign_entry_is_hidden_if_it_cannot_be_read(key: str) -> None:
    assert (
        without_keys(f"Reset rate limit 'login' for key {key}: done.") == "Reset rate limit 'login' for key '…': done."
    )
