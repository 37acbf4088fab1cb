"""The HTTP side: authentication, the idempotency layer, faults, and the routes.

Keys are kept as Stripe keeps them (docs.stripe.com/api/idempotent_requests, docs.stripe.com/error-low-level): status
and body of the first request are saved once its endpoint began, errors and 500s too, and replayed with the header
`Idempotent-Replayed`; other parameters are refused; a second request while the first runs is a 409; a request that
failed authentication, rate limit or validation is not saved; a key may be forgotten once it is 24 hours old.
"""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from local.stripe_fake import shapes
from local.stripe_fake.faults import Fault, Trouble
from local.stripe_fake.state import ApiError, StripeState, invalid

KEYS_LAST = timedelta(hours=24)
LONGEST_KEY = 255
API_KEY = "sk_test_of_the_stand_in"
HANGS = "Stand-In-Hangs"
"""On an answer that stands for none at all; see `StripeFake.hang`."""


@dataclass(frozen=True, slots=True)
class Request:
    """What arrived: `parameters` with their names as they came (`metadata[reference]`)."""

    method: str
    path: str
    parameters: Mapping[str, str]
    key: str | None
    api_key: str

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: shapes.Object
    replayed: bool = False
    saved: bool = True


@dataclass(slots=True)
class Kept:
    """What is known under an idempotency key; `reply` is None while the request runs."""

    line: str
    parameters: Mapping[str, str]
    at: datetime
    reply: Reply | None = None


class StripeFake:
    """Serves on 127.0.0.1, one thread a connection. Use it with `with`, or `start` and `close`.

    `clock`: aware UTC now. `pause`: how a slow answer passes its time. `hang`: whether a time-out holds the connection
    until the caller gives up; without, it is an answer marked `Stand-In-Hangs` that a test's session turns into the
    very exception, so that nothing has to wait.
    """

    def __init__(
        self,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        port: int = 0,
        hang: bool = True,
        pause: Callable[[timedelta], None] = lambda by: time.sleep(by.total_seconds()),
    ) -> None:
        self.state = StripeState(clock)
        self.api_keys = {API_KEY}
        self.seen: list[Request] = []
        self.faults: list[Fault] = []
        self.keys: dict[str, Kept] = {}
        self.hang = hang
        self.pause = pause
        self._clock = clock
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._http = _Server(("127.0.0.1", port), _handler_of(self))
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def start(self) -> "StripeFake":
        self._thread.start()
        return self

    def close(self) -> None:
        self._closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def __enter__(self) -> "StripeFake":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve_here(self) -> None:
        """Until interrupted, in this thread."""
        self._http.serve_forever()

    def reset(self, clock: Callable[[], datetime], pause: Callable[[timedelta], None]) -> None:
        """As new, at another clock's time: the server stays, so that many short stories can follow one another."""
        with self._lock:
            self._clock, self.pause = clock, pause
            self.state = StripeState(clock)
            self.seen, self.faults, self.keys = [], [], {}

    def forget_keys(self) -> None:
        """As Stripe may at any time once they are 24 hours old; here at once, for a test of just that."""
        with self._lock:
            self.keys.clear()

    def sent(self, line: str) -> list[Request]:
        """The requests whose `METHOD /path` starts so."""
        return [request for request in self.seen if request.line.startswith(line)]

    # --- one request ----------------------------------------------------------------------------------------------

    def answer(self, request: Request) -> tuple[Reply, Trouble | None]:
        """The reply, and what keeps it from the caller if anything does."""
        if request.path.startswith("/_stand_in/"):
            return self._control(request), None
        with self._lock:
            self.seen.append(request)
            fault = next((fault for fault in self.faults if request.line.startswith(fault.on)), None)
            if fault is not None:
                self.faults.remove(fault)
        try:
            return self._faulty(request, fault), fault.trouble if fault else None
        except ApiError as error:
            return Reply(error.status, error.body, saved=error.saved), None

    def _faulty(self, request: Request, fault: Fault | None) -> Reply:
        trouble = fault.trouble if fault else None
        if trouble is Trouble.KEY_REFUSED or request.api_key not in self.api_keys:
            raise ApiError(401, "invalid_request_error", "Invalid API Key provided", saved=False)
        if trouble is Trouble.RATE_LIMIT:
            raise ApiError(429, "invalid_request_error", "Request rate limit exceeded", code="rate_limit", saved=False)
        if trouble is Trouble.UNAVAILABLE:
            raise ApiError(503, "api_error", "Stripe is temporarily unavailable", saved=False)
        if trouble in (Trouble.TIME_OUT_BEFORE, Trouble.RESET_BEFORE):
            return Reply(200, {}, saved=False)
        if request.method != "POST":
            if trouble in (Trouble.ERROR_BEFORE, Trouble.ERROR_AFTER):
                raise ApiError(500, "api_error", "An unknown error occurred", saved=False)
            self._slowly(fault)
            with self._lock:
                return Reply(200, self._read(request))
        return self._once(request, fault)

    def _once(self, request: Request, fault: Fault | None) -> Reply:
        """The idempotency layer around one POST."""
        if request.key is None:
            self._slowly(fault)
            return self._run(request, fault)
        if not 0 < len(request.key) <= LONGEST_KEY:
            raise invalid("Idempotency keys can only be up to 255 characters long.", saved=False)
        with self._lock:
            kept = self.keys.get(request.key)
            if kept is not None and kept.reply is not None and self._clock() - kept.at >= KEYS_LAST:
                del self.keys[request.key]
                kept = None
            if kept is not None:
                return self._kept(request, kept)
            mine = Kept(request.line, request.parameters, self._clock())
            self.keys[request.key] = mine
        try:
            self._slowly(fault)
            reply = self._run(request, fault)
        except BaseException:
            with self._lock:
                self.keys.pop(request.key, None)
            raise
        with self._lock:
            if reply.saved:
                mine.reply = reply
            else:
                self.keys.pop(request.key, None)
        return reply

    def _kept(self, request: Request, kept: Kept) -> Reply:
        if (kept.line, kept.parameters) != (request.line, request.parameters):
            raise ApiError(
                400,
                "idempotency_error",
                f"Keys for idempotent requests can only be used with the same parameters they were first used with."
                f" Try using a key other than '{request.key}' if you meant to execute a different request.",
                saved=False,
            )
        if kept.reply is None:
            raise ApiError(
                409,
                "idempotency_error",
                "There is currently another in-progress request using this Idempotency Key.",
                code="idempotency_key_in_use",
                saved=False,
            )
        return Reply(kept.reply.status, kept.reply.body, replayed=True)

    def _run(self, request: Request, fault: Fault | None) -> Reply:
        """The endpoint itself; an error it makes after it began is a reply like any other, and is kept."""
        trouble = fault.trouble if fault else None
        with self._lock:
            try:
                wanted = _wanted(request)
                if trouble is Trouble.ERROR_BEFORE:
                    raise ApiError(500, "api_error", "An unknown error occurred")
                if trouble is Trouble.REFUSED:
                    raise invalid("It cannot be done", "transfers_not_allowed")
                if trouble is Trouble.CARD:
                    raise ApiError(402, "card_error", "Your card was declined.", code="card_declined")
                made = self._write(request.path, wanted)
                if fault is not None and fault.lag is not None:
                    self.state.hide(made["id"], fault.lag)
                if trouble is Trouble.ERROR_AFTER:
                    raise ApiError(500, "api_error", "An unknown error occurred")
                return Reply(200, json.loads(json.dumps(made)))
            except ApiError as error:
                return Reply(error.status, error.body, saved=error.saved)

    def _slowly(self, fault: Fault | None) -> None:
        if fault is not None and fault.trouble is Trouble.SLOW:
            self.pause(fault.by)

    # --- routes ---------------------------------------------------------------------------------------------------

    def _write(self, path: str, wanted: Mapping[str, Any]) -> shapes.Object:
        match path.removeprefix("/v1/").split("/"):
            case ["transfers"]:
                return self.state.transfer(wanted)
            case ["transfers", id, "reversals"]:
                return self.state.reverse(id, wanted)
            case ["refunds"]:
                return self.state.refund(wanted)
            case _:
                raise _no_route(path)

    def _read(self, request: Request) -> shapes.Object:
        asked = dict(request.parameters)
        match request.path.removeprefix("/v1/").split("/"):
            case ["balance"]:
                return self.state.balance()
            case ["transfers" | "refunds" | "balance_transactions" as kind]:
                return self.state.list_(kind, request.path, asked)
            case ["transfers", id, "reversals"]:
                self.state.retrieve("transfer", id)
                return self.state.list_("reversals", request.path, asked | {"transfer": id})
            case ["charges" | "transfers" | "refunds" | "disputes" as kind, id]:
                return self.state.retrieve(kind.removesuffix("s"), id)
            case ["events"]:
                events = list(reversed(self.state.events))
                return shapes.listed(events, "/v1/events")
            case _:
                raise _no_route(request.path)

    def _control(self, request: Request) -> Reply:
        """For a stand-in that runs as a process of its own: what a test does directly."""
        asked = dict(request.parameters)
        with self._lock:
            try:
                match request.path.removeprefix("/_stand_in/").split("/"):
                    case ["accounts", id]:
                        return Reply(200, {"id": self.state.account(id, asked.get("enabled", "true") == "true")})
                    case ["charges", id]:
                        return Reply(200, self.state.charged(id, int(asked["amount"]), asked["currency"]))
                    case ["charges", id, "dispute"]:
                        return Reply(200, self.state.disputed(id))
                    case ["charges", id, "refund"]:
                        return Reply(200, self.state.refunded_by_hand(id, int(asked["amount"])))
                    case ["faults"]:
                        lag = timedelta(seconds=int(asked["lag"])) if "lag" in asked else None
                        by = timedelta(seconds=int(asked.get("by", "0")))
                        on = asked.get("on", "POST ")
                        self.faults.append(Fault(trouble=Trouble(asked["trouble"]), on=on, by=by, lag=lag))
                        return Reply(200, {"waiting": len(self.faults)})
                    case ["state"]:
                        names = ("charges", "transfers", "reversals", "refunds", "disputes", "events")
                        return Reply(200, {name: _values(getattr(self.state, name)) for name in names})
                    case _:
                        raise _no_route(request.path)
            except (KeyError, ValueError) as error:
                return Reply(400, shapes.error("invalid_request_error", f"{type(error).__name__}: {error}"))
            except ApiError as error:
                return Reply(error.status, error.body)

    def held(self) -> None:
        """Hold a connection until the caller gives up on it, or the server closes."""
        self._closing.wait(60)


def _values(kept: Any) -> Sequence[Any]:
    return list(kept.values()) if isinstance(kept, dict) else list(kept)


def _no_route(path: str) -> ApiError:
    return ApiError(404, "invalid_request_error", f"Unrecognized request URL ({path}).", saved=False)


_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "transfers": ("amount", "currency", "destination"),
    "refunds": ("charge",),
    "reversals": (),
}


def _wanted(request: Request) -> dict[str, Any]:
    """Form parameters as the endpoint reads them. Raises for what fails validation: that is not saved."""
    kind = request.path.rsplit("/", 1)[-1]
    wanted: dict[str, Any] = {"metadata": {}}
    for name, value in request.parameters.items():
        if name.startswith("metadata[") and name.endswith("]"):
            wanted["metadata"][name[9:-1]] = value
        elif name == "amount":
            if not value.isdigit() or int(value) < 1:
                raise invalid(
                    "Invalid integer: it must be greater than 0", "parameter_invalid_integer", name, saved=False
                )
            wanted[name] = int(value)
        elif name in ("currency", "destination", "source_transaction", "transfer_group", "charge", "description"):
            wanted[name] = value
        else:
            raise invalid(f"Received unknown parameter: {name}", "parameter_unknown", name, saved=False)
    for name in _REQUIRED.get(kind, ()):
        if name not in wanted:
            raise invalid(f"Missing required param: {name}.", "parameter_missing", name, saved=False)
    return wanted


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that went away is what the faults are about."""


def _handler_of(fake: StripeFake) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _any(self) -> None:
            reply, trouble = fake.answer(self._request())
            match trouble:
                case Trouble.TIME_OUT_BEFORE | Trouble.TIME_OUT_AFTER:
                    if fake.hang:
                        fake.held()
                        self.close_connection = True
                        return
                    self._send(reply, {HANGS: "true"})
                case Trouble.RESET_BEFORE | Trouble.RESET_AFTER:
                    self._reset()
                case _:
                    self._send(reply, {})

        def _request(self) -> Request:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            parameters = dict(parse_qsl(parts.query or body, keep_blank_values=True))
            api_key = self.headers.get("Authorization", "").removeprefix("Bearer ")
            return Request(self.command, parts.path, parameters, self.headers.get("Idempotency-Key"), api_key)

        def _send(self, reply: Reply, more: Mapping[str, str]) -> None:
            content = json.dumps(reply.body, indent=2).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Request-Id", f"req_{len(fake.seen):014d}")
            if reply.replayed:
                self.send_header("Idempotent-Replayed", "true")
            for name, value in more.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def _reset(self) -> None:
            """A close that does not linger is a reset (RST) for the other side."""
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True

        do_GET = do_POST = _any  # noqa: N815

        def log_message(self, *args: Any) -> None:
            """Quiet: a request may carry what no log should hold."""

    return Handler


@contextmanager
def running(**options: Any) -> Iterator[StripeFake]:
    """A stand-in for the length of a `with`."""
    with StripeFake(**options) as fake:
        yield fake
