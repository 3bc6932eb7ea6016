"""Formats of logs that are not read: their names, for the report of a file that was refused. Without Redis."""

from __future__ import annotations

import re

#: The name of a line that is read, but not in the format that was chosen.
OTHER_READ = "another format, which is read without --format"
_W3C = "the W3C format of IIS, Azure or CloudFront"
_METHOD = rb"(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)"
_DAY = rb"\d{4}-\d\d-\d\d"
#: Patterns of the start of a line, and the name of its format.
_FORMATS = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (rb"\xff\xfe|\xfe\xff|[ -~]\x00[ -~]\x00", "text in UTF-16; convert it to UTF-8"),
        (rb"PK\x03\x04|7z\xbc\xaf|\x1f\x9d|\x04\x22M\x18|Rar!", "an archive, or compressed by another program"),
        (rb"\xef\xbb\xbf?#|#(?:Software|Version|Date|Start-Date|Fields|Remark):", _W3C),
        (_DAY + rb"[ \t]\d\d:\d\d:\d\d[ \t][^\"]{0,200}[ \t]" + _METHOD + rb"[ \t]", _W3C),
        (
            rb".{0,200}\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d\.\d{3}\] [^\"]",
            "HAProxy's own format; `option httplog clf` writes one that is read",
        ),
        (rb".{0,100}\[" + _DAY + rb"T[\d:.]+Z\] \"", "the text format of Envoy or Istio"),
        (rb".{0,100}\bheroku\[router\]|at=info method=", "the router's log of Heroku"),
        (rb"tls \d\.\d " + _DAY, "a network load balancer's log"),
        (rb"[0-9a-f]{64} \S+ \[", "Amazon S3's log"),
        (rb"\d{9,10}\.\d{3} +\d+ ", "Squid's own format"),
        (rb"\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:.]+ \d{4}\] \[", "an error log"),
        (rb"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[[a-z]+\] ", "an error log"),
        (rb"(?:\S+ )?(?:INFO|\[INFO\]):? +\S+ - \"", "the console output of an application server, without times"),
        (rb"\[pid: \d+\|app: ", "the log of uWSGI's requests"),
        (rb"\{.*\"httpRequest\"", "the JSON of Google Cloud's logging"),
        (rb"\{.*\"(?:ClientRequest|EdgeResponse)", "the JSON of Cloudflare"),
        (rb"\{.*\"(?:response_code|downstream_remote_address)\"", "the JSON of Envoy or Istio"),
        (rb"\{.*\"(?:properties)\"", "the JSON of Azure"),
        (rb"\{", "JSON with other fields than those of nginx, Caddy and Traefik"),
        (rb"[^\x00]*\x00", "a binary file"),
    )
)  # fmt: skip
#: Most bytes of a line that are looked at.
_MAX_BYTES = 4_096


def name_of_format(line: bytes) -> str:
    """Return the name of the format of a line that is not read; "" if it is not known."""
    start = line[:_MAX_BYTES]
    return next((name for pattern, name in _FORMATS if pattern.match(start)), "")
