"""JSON views of chats, and their events for ASGI.

The user is the signed-in one, by primary key; the permission is the membership. Responses are private. Errors are
``{"error": str}`` with 400 (invalid request), 401 (not signed in), 403 (no member, or no such chat), 429 (too many
messages or open requests of the member) or 503 (Redis is unavailable). The views of this module are sync, their twins
async; both answer the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, UnreadablePostError
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.http import parse_etags
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods
from redis.exceptions import RedisError

from django_redis_components.core import keys
from django_redis_components.core.circuit_breaker import should_log_failure
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.expected_responses import unlogged
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import arun
from django_redis_components.core.settings import conf
from django_redis_components.messaging.arguments import MAX_FETCH, MAX_ID, check_user
from django_redis_components.messaging.chat import Chat
from django_redis_components.messaging.chat_info import ChatInfo
from django_redis_components.messaging.event_stream import (
    EventStreamResponse,
    Position,
    message_row,
    unavailable_response,
)
from django_redis_components.messaging.exceptions import ChatDoesNotExist, NotMember
from django_redis_components.messaging.message import Messages
from django_redis_components.messaging.request_limits import OpenRequest, TooManyRequests, aperform, perform
from django_redis_components.messaging.user_chats import aunread_counts, unread_counts

#: Longest wait of a long poll, in seconds. Proxies close silent connections, many after 30 s.
MAX_WAIT_S = 25
#: `Retry-After` in seconds while Redis is unavailable.
RETRY_AFTER_S = 5

#: What Apache, its brotli module and Jetty add to the ETag of a compressed response, with its closing quote.
_COMPRESSED = re.compile(r'(?:-|--|;)(?:gzip|br|deflate|zstd)"$')
#: The last number of an ETag of messages.
_REVISION = re.compile(r'-(\d{1,16})"$', re.ASCII)

_Response = TypeVar("_Response", bound=HttpResponseBase)

logger = guarded_logger(__name__)

#: What a view asks of its chat: a method and its arguments, whose flow runs on the client of pages. The reply is the
#: result.
_Steps = Generator[tuple[str, dict[str, Any]], Any, HttpResponse]


class MessagingRequestError(Exception):
    """Raised to respond with a status and an error text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@require_http_methods(["GET", "HEAD", "POST"])
def chat_messages(request: HttpRequest, chat_id: str) -> HttpResponse:
    """Fetch the messages of a chat, or send one.

    GET: ``after`` (id; the last seen one by default), ``limit`` (1 to 1,000; 50), ``wait`` (seconds to wait for a
    message, an edit or a deletion, 25 at most), ``revision`` (that the client has; by default that of its ETag); or
    ``before`` (id) with ``limit``, for the messages before one.
    Response: ``{"messages": [{"id", "sender", "body", "sent_at", "edited_at"}], "is_truncated", "last_id", "last_seen",
    "revision", "epoch", "is_cut"}``, without ``before`` with an ETag; 304 if nothing has changed since
    ``If-None-Match``. ``is_cut``: there are more, because ``limit`` or about 1 MiB was reached.
    POST: JSON ``{"body": …, "key": str?}``. Response: ``{"id": int}`` with 201.
    """
    return _respond(request, chat_id, _messages_steps)


async def achat_messages(request: HttpRequest, chat_id: str) -> HttpResponse:
    """See `chat_messages`."""
    return await _arespond(request, chat_id, _messages_steps, ("GET", "HEAD", "POST"))


@require_http_methods(["POST"])
def chat_ack(request: HttpRequest, chat_id: str) -> HttpResponse:
    """Acknowledge messages. POST: JSON ``{"id": int}``. Response: ``{"unread": int, "last_seen": int}``."""
    return _respond(request, chat_id, _ack_steps)


async def achat_ack(request: HttpRequest, chat_id: str) -> HttpResponse:
    """See `chat_ack`."""
    return await _arespond(request, chat_id, _ack_steps, ("POST",))


@require_http_methods(["GET", "HEAD"])
def unread(request: HttpRequest) -> HttpResponse:
    """Return the unread messages of the user's chats: ``{"chats": {id: int}, "total": int}``, with an ETag."""
    try:
        counts = unread_counts(_user(request))
    except (MessagingRequestError, RedisError, RedisComponentsError) as exc:
        return _private(_error(exc))
    return _private(_unread_response(request, counts))


async def aunread(request: HttpRequest) -> HttpResponse:
    """See `unread`."""
    try:
        _check_method(request, ("GET", "HEAD"))
        counts = await aunread_counts(await _auser(request))
    except (MessagingRequestError, RedisError, RedisComponentsError) as exc:
        return _private(_error(exc))
    return _private(_unread_response(request, counts))


async def chat_events(request: HttpRequest, chat_id: str) -> HttpResponseBase:
    """Stream the messages of a chat as server-sent events, for ASGI; 501 under WSGI, with a warning once a minute.

    The stream starts after ``Last-Event-ID``, ``after``, or the last seen id. Events: ``message`` (JSON as in
    `chat_messages`), ``changed`` (``{"revision": int}``: messages were edited or deleted since the revision that the
    client has, by ``Last-Event-ID`` or ``revision``), ``truncated`` (messages are missing before the next one),
    ``closed`` (the user is no member any more). It ends after 10 minutes, or when the client does not take an event
    within a minute; browsers then open the next one. While Redis is unavailable an open stream stays open, and a new
    one ends at once with a ``retry`` time. A user may have ``MESSAGING["MAX_STREAMS"]`` in each process; 429 beyond.
    """
    try:
        _check_method(request, ("GET",))
        if not isinstance(request, ASGIRequest):
            if should_log_failure("event streams under WSGI"):
                logger.warning(
                    "%s is answered with 501: event streams need ASGI, and this server is WSGI.", request.path
                )
            raise MessagingRequestError(501, gettext("Event streams need ASGI."))
        user, chat = await _auser(request), _chat(chat_id)
        position = _position(request, await arun(connections.apage_client(chat.using), chat._info(user)))
        response = EventStreamResponse(chat, user, position, OpenRequest(user, conf.settings().messaging.max_streams))
    except RedisError as exc:
        if should_log_failure("event streams"):
            logger.warning("Event streams are refused for now: %s", exc)
        return _private(unavailable_response())
    except (MessagingRequestError, RedisComponentsError) as exc:
        return _private(_error(exc))
    return _private(response)


def _position(request: HttpRequest, state: ChatInfo) -> Position:
    """Return where a stream starts."""
    given = request.headers.get("Last-Event-ID")
    if given is not None:
        position = Position.parse(given)
        if position is None:
            raise MessagingRequestError(400, gettext("Last-Event-ID is not the id of an event."))
        return position
    after = _number(request.GET.get("after", str(state.last_seen)), "after", 0, MAX_ID)
    return Position(after, _number(request.GET.get("revision", str(state.revision)), "revision", 0, MAX_ID))


def _messages_steps(request: HttpRequest, user: str) -> _Steps:
    if request.method == "POST":
        data = _json(request)
        if "body" not in data:
            raise MessagingRequestError(400, gettext("The request has no body."))
        message_id = yield "send", {"sender": user, "body": data["body"], "key": data.get("key")}
        return JsonResponse({"id": message_id}, status=201)
    limit = _number(request.GET.get("limit", "50"), "limit", 1, MAX_FETCH)
    if "before" in request.GET:
        before = _number(request.GET["before"], "before", 1, MAX_ID)
        messages: Messages = yield "fetch", {"user": user, "after": None, "before": before, "limit": limit}
        return JsonResponse(_fetched(messages))
    after = None if "after" not in request.GET else _number(request.GET["after"], "after", 0, MAX_ID)
    wait_s = _number(request.GET.get("wait", "0"), "wait", 0, MAX_WAIT_S)
    known_revision = _known_revision(request)
    state: ChatInfo = yield "info", {"user": user}
    etag = _etag(state, state.last_id)
    is_edited = known_revision not in (None, state.revision)
    is_known = _has_etag(request, etag) and not is_edited
    # A cursor above the last id is that of a former chat with this id: the fetch starts at the beginning.
    is_other = state.last_id != (state.last_seen if after is None else after)
    if is_known or not (is_other or is_edited):
        known = {"after": state.last_id, "revision": state.revision}
        has_changed = wait_s > 0 and (yield "wait_for_message", {"user": user, "timeout": wait_s, **known})
        if is_known and not has_changed:
            return HttpResponse(status=304, headers={"ETag": etag})
    messages = yield "fetch", {"user": user, "after": after, "limit": limit}
    # The client sends the ETag with its next cursor. After a response that was cut it must not match, because a 304
    # would withhold the rest.
    etag = _etag(messages, messages[-1].id if messages.is_cut else messages.last_id)
    return JsonResponse(_fetched(messages), headers={"ETag": etag})


def _fetched(messages: Messages) -> dict[str, Any]:
    names = ("is_truncated", "last_id", "last_seen", "revision", "epoch", "is_cut")
    return {"messages": [message_row(one) for one in messages], **{name: getattr(messages, name) for name in names}}


def _ack_steps(request: HttpRequest, user: str) -> _Steps:
    yield "ack", {"user": user, "id": _json(request).get("id")}
    state = yield "info", {"user": user}
    return JsonResponse({"unread": state.unread, "last_seen": state.last_seen})


def _respond(request: HttpRequest, chat_id: str, steps_of: Callable[[HttpRequest, str], _Steps]) -> HttpResponse:
    try:
        chat, steps = _chat(chat_id), steps_of(request, _user(request))
        reply = None
        while True:
            name, args = steps.send(reply)
            reply = perform(chat, name, args)
    except StopIteration as stop:
        response: HttpResponse = stop.value
        return _private(response)
    except (MessagingRequestError, RedisError, RedisComponentsError, TypeError, ValueError) as exc:
        return _private(_error(exc))


async def _arespond(
    request: HttpRequest, chat_id: str, steps_of: Callable[[HttpRequest, str], _Steps], methods: tuple[str, ...]
) -> HttpResponse:
    try:
        _check_method(request, methods)
        chat, steps = _chat(chat_id), steps_of(request, await _auser(request))
        reply = None
        while True:
            name, args = _next_step(steps, reply)
            if isinstance(args, HttpResponse):
                return _private(args)
            reply = await aperform(chat, name, args)
    except (MessagingRequestError, RedisError, RedisComponentsError, TypeError, ValueError) as exc:
        return _private(_error(exc))


def _next_step(steps: _Steps, reply: Any) -> tuple[str, Any]:
    """Return the next step, or the response: a coroutine cannot receive a StopIteration."""
    try:
        return steps.send(reply)
    except StopIteration as stop:
        return "", stop.value


def _unread_response(request: HttpRequest, counts: dict[str, int]) -> HttpResponse:
    data = {"chats": counts, "total": sum(counts.values())}
    etag = f'"{keys.digest(json.dumps(data, sort_keys=True))}"'
    if _has_etag(request, etag):
        return HttpResponse(status=304, headers={"ETag": etag})
    return JsonResponse(data, headers={"ETag": etag})


def _etag(state: ChatInfo | Messages, last_id: int) -> str:
    return f'"{state.epoch}-{last_id}-{state.last_seen}-{state.revision}"'


def _given_etags(request: HttpRequest) -> list[str]:
    """Return the ETags of the responses that the client has. Compression makes them weak, or adds its name to them."""
    given = parse_etags(request.headers.get("If-None-Match", ""))
    return [_COMPRESSED.sub('"', etag.removeprefix("W/")) for etag in given]


def _has_etag(request: HttpRequest, etag: str) -> bool:
    return etag in _given_etags(request)


def _known_revision(request: HttpRequest) -> int | None:
    """Return the revision that the client has, by its query or the last number of its ETag; None if it says nothing."""
    if "revision" in request.GET:
        return _number(request.GET["revision"], "revision", 0, MAX_ID)
    found = [match for etag in _given_etags(request) if (match := _REVISION.search(etag))]
    return int(found[-1][1]) if found else None


def _chat(chat_id: str) -> Chat:
    try:
        return Chat(chat_id)
    except ValueError as exc:
        raise MessagingRequestError(400, str(exc)) from None


def _user(request: HttpRequest) -> str:
    return _id_of(getattr(request, "user", None))


async def _auser(request: HttpRequest) -> str:
    auser = getattr(request, "auser", None)
    return _id_of(getattr(request, "user", None) if auser is None else await auser())


def _id_of(user: Any) -> str:
    """Return the id of an authenticated user. Without an authentication middleware there is no user."""
    if user is None or not user.is_authenticated:
        raise MessagingRequestError(401, gettext("Sign in to read messages."))
    try:
        return check_user(str(user.pk))
    except ValueError as exc:  # a primary key of text with braces, say, which no member can have
        raise MessagingRequestError(400, str(exc)) from None


def _check_method(request: HttpRequest, methods: tuple[str, ...]) -> None:
    if request.method not in methods:
        raise MessagingRequestError(405, gettext("Method not allowed."))


def _json(request: HttpRequest) -> dict[str, Any]:
    try:
        data = json.loads(request.body)
    except (ValueError, RecursionError, UnreadablePostError):  # the last one: the client has disconnected
        data = None
    if not isinstance(data, dict):
        raise MessagingRequestError(400, gettext("The request is not a JSON object."))
    return data


def _number(value: str, name: str, low: int, high: int) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) <= 16 and low <= int(value) <= high):
        values = {"name": name, "low": low, "high": high}
        raise MessagingRequestError(400, gettext("%(name)s: expected an integer from %(low)d to %(high)d.") % values)
    return int(value)


def _error(exc: Exception) -> JsonResponse:
    if isinstance(exc, MessagingRequestError):
        response = JsonResponse({"error": exc.text}, status=exc.status)
        return unlogged(response) if exc.status >= 500 else response
    if isinstance(exc, NotMember | ChatDoesNotExist):  # the same: ids of chats of others are not disclosed
        return JsonResponse({"error": gettext("You are not a member of this chat.")}, status=403)
    if isinstance(exc, TypeError | ValueError):
        return JsonResponse({"error": str(exc)}, status=400)
    if isinstance(exc, TooManyRequests):
        return _too_many(exc.retry_after_s)
    if should_log_failure("messages"):
        logger.warning("Requests for messages fail: %s", exc)
    text = gettext("Messages are not available at the moment.")
    return unlogged(JsonResponse({"error": text}, status=503, headers={"Retry-After": str(RETRY_AFTER_S)}))


def _too_many(seconds: int) -> JsonResponse:
    text = ngettext(
        "Too many requests. Try again in %(seconds)d second.",
        "Too many requests. Try again in %(seconds)d seconds.",
        seconds,
    )
    return JsonResponse({"error": text % {"seconds": seconds}}, status=429, headers={"Retry-After": str(seconds)})


def _private(response: _Response) -> _Response:
    patch_cache_control(response, private=True, no_cache=True)
    patch_vary_headers(response, ("Cookie", "Accept-Language"))
    return response
