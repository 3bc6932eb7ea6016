"""Checks of permissions: of the Redis user, and of the dashboard in the database."""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.db import DatabaseError
from redis.exceptions import ExecAbortError, NoPermissionError, RedisError, ResponseError

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.client.server import explain_error, unknown_command
from django_redis_components.core.settings import conf
from django_redis_components.management.redis.doctor.findings import Finding, Report

#: Every command that the components send, or that their scripts call, with arguments of the right number. K is a key.
#: Those of `TRANSACTION_COMMANDS` are missing: a transaction refuses them, or ends by them.
COMMANDS: tuple[str, ...] = (
    "BITCOUNT K", "BITFIELD K SET u8 0 0", "BITFIELD_RO K GET u8 0", "BITOP AND K K", "BITPOS K 1", "BLPOP K 1",
    "BZPOPMIN K 1", "DBSIZE", "DECR K", "DECRBY K 1", "DEL K", "EVAL return 1 K", "EVALSHA sha 1 K",
    "EVALSHA_RO sha 1 K", "EVAL_RO return 1 K", "EXISTS K", "EXPIRE K 1", "GEOADD K 0 0 v", "GEOPOS K v",
    "GEOSEARCHSTORE K K FROMLONLAT 0 0 BYRADIUS 1 km", "GET K", "GETBIT K 0", "GETRANGE K 0 0", "HDEL K f",
    "HEXISTS K f", "HGET K f", "HGETALL K", "HINCRBY K f 1", "HINCRBYFLOAT K f 1", "HKEYS K", "HLEN K", "HMGET K f",
    "HSCAN K 0", "HSET K f v", "HSETNX K f v", "HSTRLEN K f", "INCR K", "INCRBY K 1", "INFO", "LINDEX K 0", "LLEN K",
    "LPOP K", "LPOS K v", "LPUSH K v", "LRANGE K 0 0", "LREM K 0 v", "LSET K 0 v", "LTRIM K 0 0", "MEMORY USAGE K",
    "MGET K", "PERSIST K", "PEXPIRE K 1", "PEXPIREAT K 1", "PFADD K v", "PFCOUNT K", "PFMERGE K", "PING", "PTTL K",
    "PUBSUB SHARDNUMSUB K", "RENAME K K", "RPUSH K v", "SADD K v", "SCAN 0", "SCARD K", "SET K v", "SETBIT K 0 0",
    "SETRANGE K 0 v", "SISMEMBER K v", "SMISMEMBER K v", "SPOP K", "SPUBLISH K v", "SRANDMEMBER K", "SREM K v",
    "SSCAN K 0", "SSUBSCRIBE K", "STRLEN K", "SUNSUBSCRIBE K", "TIME", "UNLINK K", "UNWATCH", "WAIT 0 1",
    "XADD K * f v", "XDEL K 1-0", "XLEN K", "XRANGE K - +", "XREVRANGE K + -", "XTRIM K MAXLEN 1", "ZADD K 0 v",
    "ZCARD K", "ZCOUNT K 0 1", "ZDIFFSTORE K 1 K", "ZINCRBY K 1 v", "ZINTERSTORE K 1 K",
    "ZLEXCOUNT K - +", "ZMSCORE K v", "ZPOPMIN K", "ZRANDMEMBER K", "ZRANGE K 0 0", "ZRANGEBYLEX K - +",
    "ZRANGEBYSCORE K 0 1", "ZRANGESTORE K K 0 0", "ZRANK K v", "ZREM K v", "ZREMRANGEBYRANK K 0 0",
    "ZREMRANGEBYSCORE K 0 1", "ZREVRANGE K 0 0", "ZREVRANGEBYSCORE K 1 0", "ZREVRANK K v", "ZSCAN K 0", "ZSCORE K v",
    "ZUNIONSTORE K 1 K",
)  # fmt: skip

#: How a right is given to the Redis user.
ALLOW = "Allow them, and add the rights to the server's file of users: ACL SETUSER lasts until the server restarts."

#: What is sent after the commands. The last transaction is empty, so EXEC executes nothing.
TRANSACTION_COMMANDS = ("DISCARD", "WATCH K", "UNWATCH", "MULTI", "EXEC")


def check_redis_user(client: SyncClient, report: Report) -> None:
    """Report the commands that the Redis user may not run.

    Redis checks permissions when a command is queued in a transaction. The transaction is discarded, so nothing is
    executed, and no permission for the command ACL is needed.
    """
    user = client.endpoint.options.get("username") or "default"
    key = f"{conf.settings().prefix}:doctor:{{doctor}}"
    try:
        connection = client.pool_for(key).open()
    except RedisError as exc:
        raise explain_error(exc, client.endpoint) from None
    try:
        connection.request(("MULTI",))
        commands = [
            tuple(key if part == "K" else part for part in command.split())
            for command in (*COMMANDS, *TRANSACTION_COMMANDS)
        ]
        replies = connection.request_many(commands)
    except NoPermissionError as exc:
        report.findings.append(_denied(user, ["MULTI"]))
        report.skipped.append(f"Permissions of the Redis user: {exc}")
        return
    except ResponseError as exc:
        report.skipped.append(f"Permissions of the Redis user: {exc}")
        return
    finally:
        connection.close()
    names = [command[0] for command in commands]
    report.findings.extend(_redis_findings(user, dict(zip(names, replies, strict=True))))


def _redis_findings(user: str, replies: dict[str, object]) -> Iterator[Finding]:
    denied = {name: str(reply) for name, reply in replies.items() if _is_denied(reply)}
    if unknown := sorted(filter(None, map(unknown_command, replies.values()))):
        text = f"The server does not have these commands, or has them disabled or renamed: {', '.join(unknown)}."
        fix = "Enable them, or use a server that has them: Managed servers in the documentation says what needs each."
        yield Finding("critical", "unknown_commands", text, fix)
    keys = [name for name, text in denied.items() if " key" in text]
    channels = [name for name, text in denied.items() if " channel" in text]
    commands = [name for name in denied if name not in keys + channels]
    if commands:
        yield _denied(user, commands)
    if keys:
        pattern = f"{conf.settings().prefix}:*"
        text = f"Redis user {user!r} may not read or write the keys {pattern}: {', '.join(keys)}."
        yield Finding("critical", "acl_keys", text, ALLOW, f"redis-cli ACL SETUSER {user} '~{pattern}'")
    if channels:
        pattern = f"{conf.settings().prefix}:*"
        text = f"Redis user {user!r} may not use the channels {pattern}: messages wake no waiter."
        yield Finding("warning", "acl_channels", text, ALLOW, f"redis-cli ACL SETUSER {user} '&{pattern}'")


def _is_denied(reply: object) -> bool:
    """Return whether a reply refuses a command. That of EXEC says so in the error of its transaction."""
    return isinstance(reply, NoPermissionError) or (isinstance(reply, ExecAbortError) and "NOPERM" in str(reply))


def _denied(user: str, commands: list[str]) -> Finding:
    return Finding(
        "critical",
        "acl_commands",
        f"Redis user {user!r} may not run {', '.join(commands)}.",
        ALLOW,
        f"redis-cli ACL SETUSER {user} {' '.join(f'+{name.lower()}' for name in commands)}",
    )


def check_database(report: Report) -> None:
    """Report permissions of the dashboard that are not in the database."""
    if not (apps.is_installed("django.contrib.auth") and apps.is_installed("django.contrib.admin")):
        return
    from django.contrib.auth.models import Permission  # its app may not be installed

    expected = expected_permissions()
    try:
        stored = Permission.objects.filter(content_type__app_label="django_redis_components", codename__in=expected)
        missing = expected - set(stored.values_list("codename", flat=True))
    except DatabaseError as exc:
        report.skipped.append(f"Permissions of the dashboard: {exc}")
        return
    if missing:
        text = f"The database has no permission {', '.join(sorted(missing))}: only superusers may do this."
        report.findings.append(
            Finding("warning", "permissions", text, "Create the permissions:", "python manage.py migrate")
        )


def expected_permissions() -> set[str]:
    """Return the codenames of the dashboard's permissions."""
    return {
        codename
        for model in apps.get_app_config("django_redis_components").get_models()
        for codename in (
            *(f"{action}_{model._meta.model_name}" for action in model._meta.default_permissions),
            *(codename for codename, _ in model._meta.permissions),
        )
    }
