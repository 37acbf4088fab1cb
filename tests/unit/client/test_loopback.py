"""The real transport, against a server of its own on 127.0.0.1."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from duebook_client import Duebook, Forbidden, NoAnswer, Request, RetryPolicy, Unavailable, Urllib3Transport
from tests.unit.client.fakes import BOOKING, REGION, FixedSession

pytestmark = [pytest.mark.loopback, pytest.mark.usefixtures("socket_enabled")]


class Server:
    """Keeps what it was sent; answers from `script`: a status, `hang` or `drop`; then 200."""

    def __init__(self) -> None:
        self.script: list[int | str] = []
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.connections: set[Any] = set()
        self.released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.seen.append((self.command, self.path, dict(self.headers.items()), body))
                server.connections.add(self.client_address)
                step = server.script.pop(0) if server.script else 200
                if step == "hang":
                    server.released.wait(10)
                    self.close_connection = True
                elif step == "drop":
                    self.close_connection = True
                elif isinstance(step, int):
                    self._answer(step)

            def _answer(self, status: int) -> None:
                content = json.dumps(BOOKING if status == 200 else {"message": "Forbidden"}).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = _any  # noqa: N815

            def log_message(self, *args: Any) -> None:
                """Quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.port = self._http.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.released.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server(socket_enabled: None) -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def transport() -> Iterator[Urllib3Transport]:
    transport = Urllib3Transport(connect=1.0, read=0.3)
    yield transport
    transport.close()


def _client(url: str, transport: Urllib3Transport, **more: Any) -> Duebook:
    policy = RetryPolicy(attempts=2, first=0.0)
    return Duebook(url, region=REGION, session=FixedSession(), transport=transport, retries=policy, **more)


def test_the_host_header_given_arrives_in_place_of_the_urls(server: Server, transport: Urllib3Transport) -> None:
    _client(server.url, transport, host_header="abc123.execute-api.localhost").accept("b1", idempotency_key="k-1")
    ((method, path, headers, body),) = server.seen
    assert (method, path, body) == ("POST", "/bookings/b1/accept", b"{}")
    assert headers["Host"] == "abc123.execute-api.localhost"
    assert headers["Idempotency-Key"] == "k-1"
    assert headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=")


def test_the_urls_host_is_sent_otherwise(server: Server, transport: Urllib3Transport) -> None:
    _client(server.url, transport).booking("b1")
    assert server.seen[0][2]["Host"] == f"127.0.0.1:{server.port}"


def test_a_connection_is_kept(server: Server, transport: Urllib3Transport) -> None:
    caller = _client(server.url, transport)
    caller.booking("b1")
    caller.booking("b1")
    assert len(server.connections) == 1


@pytest.mark.parametrize("trouble", ["hang", "drop", 503])
def test_a_call_survives_a_server_that_fails_once(server: Server, transport: Urllib3Transport, trouble: Any) -> None:
    server.script = [trouble]
    assert _client(server.url, transport).accept("b1").booking_id == "b1"
    first, second = (headers["Idempotency-Key"] for _, _, headers, _ in server.seen)
    assert first == second


def test_a_server_that_never_answers_is_given_up(server: Server, transport: Urllib3Transport) -> None:
    server.script = ["hang", "hang"]
    with pytest.raises(Unavailable) as raised:
        _client(server.url, transport).booking("b1")
    assert (raised.value.status, raised.value.code, raised.value.attempts) == (None, "no_answer", 2)
    assert isinstance(raised.value.__cause__, NoAnswer)


def test_a_port_where_nobody_listens_is_no_answer(transport: Urllib3Transport) -> None:
    gone = Server()
    gone.close()
    with pytest.raises(NoAnswer, match=f"127.0.0.1:{gone.port}"):
        transport.send(Request("GET", gone.url, {}))


def test_a_redirect_is_not_followed(server: Server, transport: Urllib3Transport) -> None:
    server.script = [302]
    assert transport.send(Request("GET", server.url, {})).status == 302
    assert len(server.seen) == 1


def test_the_gateways_own_refusal_is_told(server: Server, transport: Urllib3Transport) -> None:
    server.script = [403]
    with pytest.raises(Forbidden) as raised:
        _client(server.url, transport).booking("b1")
    assert raised.value.message == "Forbidden"
