"""Keeps strangers out: whoever is not the operator's own browser, on this machine, on this page.

The console acts with the operator's AWS credentials, so it is protected against
- other users and programs of this machine: a key made at each start, in the printed address, then in a cookie;
- other web pages in the operator's browser: the `Host` header must be ours (DNS rebinding), a POST must come from our
  own origin with the token of this start (CSRF), and nobody may frame a page;
- text in what is shown: the content security policy runs no script but our own file.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_FORM = 16_384
"""Bytes."""
KEY, TOKEN = "key", "csrf_token"
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_STRANGER = (
    "This console opens with the whole address that it printed when it started: copy it from there, key and all."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Locks:
    """What lets a request in. `key`: in the address and the cookie; `token`: in every form. Both made at each start."""

    port: int
    key: str
    token: str

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset({f"127.0.0.1:{self.port}", f"localhost:{self.port}"})

    @property
    def cookie(self) -> str:
        """Cookies are shared by all ports of a host, so the port is in its name."""
        return f"duebook_console_{self.port}"


class Guard:
    """ASGI middleware around everything, so that no page can forget a check. A form's fields end in `state.form`."""

    def __init__(self, app: ASGIApp, locks: Locks) -> None:
        self._app = app
        self._locks = locks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = await self._refusal(scope, receive)
        await (refusal or self._app)(scope, receive, send_guarded)

    async def _refusal(self, scope: Scope, receive: Receive) -> Response | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._locks.hosts:
            return _refused(421, "This console answers to 127.0.0.1 and localhost alone.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refused(405, "This console knows GET and POST alone.")
        if not _same(_cookie(headers, self._locks.cookie), self._locks.key):
            return self._admitted(scope) or _refused(401, _STRANGER)
        if scope["method"] != "POST":
            return None
        if headers.get("origin") != f"http://{hosts[0]}":
            return _refused(403, "This form was sent by another page than this console's: nothing was done.")
        form = await _form(headers, receive)
        if form is None:
            return _refused(413, "This form is too large, or none of this console's: nothing was done.")
        if not _same(form.pop(TOKEN, ""), self._locks.token):
            return _refused(403, "This form is of another start of the console: reload the page, and send it again.")
        scope.setdefault("state", {})["form"] = form
        return None

    def _admitted(self, scope: Scope) -> Response | None:
        """Whoever brings the key gets it as a cookie, and an address without it."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == KEY]
        if scope["method"] != "GET" or len(given) != 1 or not _same(given[0], self._locks.key):
            return None
        rest = urlencode([(name, value) for name, value in query if name != KEY])
        path = "/" + scope["path"].lstrip("/")  # never `//host`
        answer = RedirectResponse(path + (f"?{rest}" if rest else ""), status_code=303)
        answer.set_cookie(self._locks.cookie, self._locks.key, httponly=True, samesite="strict", path="/")
        return answer


def _refused(status: int, why: str) -> Response:
    return PlainTextResponse(why + "\n", status_code=status)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


async def _form(headers: Headers, receive: Receive) -> dict[str, str] | None:
    """The fields of a form as browsers send it; None for one that is too large or none."""
    if headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        return None
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False) and message["type"] == "http.request"
        if len(body) > LARGEST_FORM:
            return None
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True))
    except ValueError:
        return None
