"""Requests that somebody sends by mistake or on purpose: every field, parameter and path of every route, broken."""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from duebook_client import Request
from stacks import openapi
from stacks.openapi.examples import EXAMPLES, PARAMETERS
from tests.api_contract import document

_JSON = {"Content-Type": openapi.JSON_TYPE}

TIMES: tuple[Any, ...] = (
    *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00-23:59", "0000-01-01T00:00:00Z"),
    *("9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59.999999+23:59", "10000-01-01T00:00:00Z"),
    *("2026-12-31T23:59:60Z", "2026-11-14T24:00:00Z", "2026-02-30T00:00:00Z", "2026-11-14T18:00:00+24:00"),
    *("2026-11-14T18:00:00", "2026-11-14", "20261114T180000Z", "2026-W46-6T18:00:00Z", "2026-11-14T18:00:00,5Z"),
    *("2026-11-14T18:00:00+01:00:30", "1794682800", "٢٠٢٦-١١-١٤T18:00:00Z", "2026-11-14T18:00:00Z\x00"),
    *("2031-11-14T18:00:00Z", "2026-11-14T18:00:00.123456789Z"),
    {"local": "9999-12-31T23:59:59", "zone": "Pacific/Niue"},
    {"local": "0001-01-01T00:00:00", "zone": "Pacific/Kiritimati"},
    {"local": "2026-03-29T02:30:00", "zone": "Europe/Berlin"},
    {"local": "2026-10-25T02:30:00", "zone": "Europe/Berlin"},
    {"local": "2026-11-14T18:00:00Z", "zone": "Europe/Berlin"},
    *(
        {"local": "2026-11-14T18:00:00", "zone": zone}
        for zone in (
            "../../etc/passwd",
            "/etc/passwd",
            "Europe",
            "Factory",
            "x" * 64,
            "a\x00b",
            ".",
            "🕰",
            "europe/berlin",
        )
    ),
)
"""Both ends of the calendar, leap seconds, offsets at and over the edge, gaps, overlaps, zones that are none."""

VALUES: tuple[Any, ...] = (
    *(None, True, "", " ", "\x00", "a\x00b", "💥", "\ud800", "\uffff", "‮gnirts", "x" * 5_000, "x" * 60_000),
    *(0, -1, 0.5, 1.0, -0.0, 1e308, 1e-320, 10**15, 10**15 + 1, 2**53, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**99),
    *([], {}, [[]], [None], {"": None}, {"x": 1}, ["x"] * 21, {"role": "customer"}, {"role": {}}, {"$ref": "#"}),
)
"""Wrong types, both sides of every bound, text that no store or log likes."""

BODIES: tuple[bytes, ...] = (
    *(b"{", b"[]", b"null", b"1", b'"x"', b"NaN", b'{"payload":NaN}', b'{"payload":Infinity}', b'{"payload":1e999}'),
    *(b"\xff\xfe{}", b"\xef\xbb\xbf{}", b'{"a":"\xc3\x28"}', b'{"a":"\x00"}', b"{}{}", b"{'a':1}", b"a=1&b=2", b"<x/>"),
    *(b"[" * 60_000, b'{"a":' * 10_000, b'{"payload":' + b"[" * 62 + b"]" * 62 + b"}"),
    *(b'{"payload":' + b"9" * 101 + b"}", b'{"payload":' + b"9" * 5_000 + b"}", b" " * 65_536, b" " * 65_537),
    *(
        b'{"payload":"' + b"x" * 40_000 + b'"}',
        b'{"actor":{"role":"chef"},"actor":1}',
        b'{"a\\u0000":1,"__proto__":{}}',
    ),
)
"""What is no JSON, or JSON that is too much."""

TEXTS = (
    *(
        "",
        "x",
        "\x00",
        "💥",
        "%",
        "%00",
        "../",
        "' or 1=1",
        "x" * 256,
        "x" * 257,
        "x" * 5_000,
        "null",
        "1,2",
        "-1",
        "501",
    ),
    *(
        "0",
        "1e3",
        "１",
        "2026-11-14#",
        "2026-11-14T00:00:00.000Z#b#j",
        "9999-12-31",
        "0001-01-01",
        "2026-13-45",
        "0000",
    ),
    *("0000000001#1", "4294967296", "9999999999", "dead#0", "wedding-77.p1", "﷽" * 80, *map(str, TIMES[:14])),
)
"""Of parameters: cursors that are none or another listing's, numbers beside their bounds, days that are none."""

PATHS = (
    *("%00", "%2F", "..", "%2E%2E%2F", "%F0%9F%92%A5", "%C3%28", "%FF", "wedding-77%0A", "%20", "a" * 40, "a" * 5_000),
    *(
        "%25",
        "a.b",
        "wedding-77.d1",
        "wedding-77.p1",
        "wedding-77.p0",
        "-",
        "_",
        "pay_1",
        "Remind",
        "*",
        "a;b",
        "a=b",
        "~",
    ),
)
"""As they are in the URL."""


def requests(base_url: str) -> Iterator[Request]:
    """All of them, always in the same order."""
    for method, template, operation in openapi.operations(document()):
        method, name = method.upper(), operation["operationId"]
        good = base_url + template.format(**PARAMETERS)
        query = {
            parameter["name"]: str(PARAMETERS.get(parameter["name"], "in_review"))
            for parameter in operation.get("parameters", ())
            if parameter["in"] == "query"
        }
        for body in _bodies(name):
            yield Request(method, good, _JSON, body)
        for parameter in query:
            for text in TEXTS:
                yield Request(method, f"{good}?{urlencode({**query, parameter: text}, errors='surrogatepass')}", {})
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                for text in PATHS:
                    ids = {key: quote(str(value)) for key, value in PARAMETERS.items()} | {parameter["name"]: text}
                    yield Request(method, f"{base_url}{template.format(**ids)}?{urlencode(query)}", {})


def _bodies(name: str) -> Iterator[bytes]:
    if name not in EXAMPLES:
        return
    yield from BODIES
    for example in EXAMPLES[name].values():
        for place in _places(example):
            for value in VALUES + (TIMES if place[-1] in openapi.INSTANTS else ()):
                yield json.dumps(_with(example, place, value)).encode()


def _places(value: Any) -> Iterator[tuple[Any, ...]]:
    """Where something could be put instead: every key of every object, every item of every list."""
    inside = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (key,)
        yield from ((key, *more) for more in _places(item))


def _with(example: Any, place: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(example)
    inside = changed
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return changed
