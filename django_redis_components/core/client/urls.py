"""Endpoints from connection URLs.

    redis://[user:password@]host[:port][/database][?option=value]      rediss:// is the same over TLS
    unix://[user:password@]/path/to/socket[?db=0]
    redis+sentinel://[user:password@]host[:port],host[:port]/service[/database][?sentinel_password=…]
    redis+cluster://[user:password@]host[:port],host[:port]            ?ssl=true for TLS in these two

Options are those of redis-py's connections. Its timeouts, retries and pool sizes are ignored: the settings of the
connection define them. These may have user names and passwords as keys of their own. No error contains the URL, which
may hold a password.
"""

from __future__ import annotations

import difflib
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from redis.connection import URL_QUERY_ARGUMENT_PARSERS

from django_redis_components.core.client.endpoint import Endpoint, Node, known_options, own_options
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings.sections import ConnectionSettings

#: Default port of a Sentinel.
SENTINEL_PORT = 26379
#: Default port of a server.
REDIS_PORT = 6379
#: Values of `ssl=`.
_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_PARSERS: dict[str, Any] = {
    **URL_QUERY_ARGUMENT_PARSERS,
    **dict.fromkeys(
        ("ssl", "sentinel_ssl", "ssl_validate_ocsp", "ssl_validate_ocsp_stapled"), lambda word: _BOOLEANS[word.lower()]
    ),
}
#: Options that text can give, besides those of TLS. Others are objects of Python, or redis-py's own.
_TEXT_OPTIONS = {
    "db", "username", "password", "encoding", "encoding_errors", "socket_read_size", "socket_keepalive", "lib_name",
    "lib_version",
}  # fmt: skip
_OBJECT_OPTIONS = {"ssl_ocsp_context"}
#: Transport of each scheme; None: `?ssl=true` selects TLS.
SCHEMES = {"redis": "tcp", "rediss": "tls", "unix": "unix", "redis+sentinel": None, "redis+cluster": None}


def from_url(alias: str, url: str, settings: ConnectionSettings) -> Endpoint:
    """Return the endpoint of a URL.

    Raises:
        ConfigurationError: the URL is invalid.
    """
    path = f'REDIS_COMPONENTS["CONNECTIONS"]["{alias}"]["URL"]'
    end = url.find("://")
    scheme = url[:end] if end >= 0 else ""  # and no variable for the rest, which pages about an error would show
    if scheme not in SCHEMES:
        start = f"starts with {scheme!r}" if end >= 0 else "has no scheme"
        raise ConfigurationError(f"{path} {start}: expected one of {', '.join(f'{name}://' for name in SCHEMES)}.")
    try:
        endpoint = _parse(alias, scheme, url, settings)
        endpoint.validate()
    except ValueError as exc:
        raise ConfigurationError(f"{path}: {exc}") from None  # the cause may contain a part of the password
    return endpoint


def _parse(alias: str, scheme: str, url: str, settings: ConnectionSettings) -> Endpoint:
    parts = urlsplit(url)
    options = _query(parts)
    transport = SCHEMES[scheme] or ("tls" if options.pop("ssl", False) else "tcp")
    username, _, password = parts.netloc.rpartition("@")[0].partition(":")
    if username or password:
        options |= {"username": unquote(username) or None, "password": unquote(password) or None}
    options = own_options(options) | settings.login_options()
    words = [unquote(word) for word in parts.path.split("/") if word]
    if scheme == "redis+sentinel":
        return _sentinel(alias, parts, words, options, transport, settings)
    kind = "cluster" if scheme == "redis+cluster" else "standalone"
    if scheme == "unix":
        seeds = _socket(parts)
    else:
        seeds = _seeds(parts.netloc, REDIS_PORT, several=kind == "cluster")
        _put_database(options, words)
    _refuse_unknown(options, transport)
    if kind == "cluster" and options.get("db"):
        raise ValueError("a Cluster has database 0 only")
    return Endpoint(kind, seeds, options, settings, alias, transport)


def _sentinel(
    alias: str, parts: SplitResult, words: list[str], options: dict[str, Any], transport: str, settings: Any
) -> Endpoint:
    if not words:
        raise ValueError("the service is missing: expected redis+sentinel://host:port,host:port/service/database")
    _put_database(options, words[1:])
    is_tls = options.pop("sentinel_ssl", transport == "tls")
    theirs = {name: value for name, value in options.items() if is_tls and name.startswith("ssl_")}
    for name in [name for name in options if name.startswith("sentinel_")]:
        theirs[name.removeprefix("sentinel_")] = options.pop(name)
    _refuse_unknown(options, transport)
    by = "tls" if is_tls else "tcp"
    _refuse_unknown(theirs, by, "sentinel_")
    seeds = _seeds(parts.netloc, SENTINEL_PORT, several=True)
    return Endpoint("sentinel", seeds, options, settings, alias, transport, words[0], by, theirs)


def _query(parts: SplitResult) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, values in parse_qs(parts.query).items():
        try:
            found[name] = _PARSERS.get(name, str)(values[0])
        except (KeyError, ValueError):
            raise ValueError(f"the value of {name} is not understood") from None
    return found


def _put_database(options: dict[str, Any], words: list[str]) -> None:
    if not words:
        return
    if len(words) > 1 or not words[0].isdecimal():
        raise ValueError("the path is not a database number")
    options.setdefault("db", int(words[0]))


def _refuse_unknown(options: dict[str, Any], transport: str, prefix: str = "") -> None:
    in_python = known_options(transport)
    known = {name for name in in_python - _OBJECT_OPTIONS if name in _TEXT_OPTIONS or name.startswith("ssl_")}
    for name in options:
        if name in in_python - known:
            raise ValueError(f"option {prefix + name!r} cannot be text")
        if name == "ssl":
            raise ValueError("unknown option 'ssl': the scheme of TLS is rediss://")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {prefix + near[0]!r}?" if near else ""
            raise ValueError(f"unknown option {prefix + name!r}.{hint}".removesuffix("."))


def _socket(parts: SplitResult) -> tuple[Node, ...]:
    if parts.netloc.rpartition("@")[2] or not parts.path:
        raise ValueError("the path of the socket is missing: expected unix:///path/to/socket")
    return (Node(unquote(parts.path), 0),)


def _seeds(netloc: str, default_port: int, *, several: bool) -> tuple[Node, ...]:
    places = netloc.rpartition("@")[2].split(",")
    if len(places) > 1 and not several:
        raise ValueError("expected one host")
    nodes = [_node(place, default_port) for place in places]
    if several and not all(node.host for node in nodes):
        raise ValueError("a host is missing")
    return tuple(Node(node.host or "localhost", node.port) for node in nodes)


def _node(place: str, default_port: int) -> Node:
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        return Node(place.strip("[]"), default_port)
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        # This may be the rest of a password with an unescaped / # or ?: do not show it.
        raise ValueError("the port is not a number from 1 to 65535 (write / # ? @ in a password as %2F %23 %3F %40)")
    return Node(host.strip("[]"), int(port))
