"""Who may run what: credentials that are missing, expired or not enough are told with what to do."""

import re
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from duebook_client import Actor, Duebook, NoAnswer, NoCredentials, Request, Response, Transport
from stacks.components.routes import ROUTES
from tests.unit.client.fakes import ScriptedTransport, answer, refusal
from tests.unit.client.in_process import AUGUST, InProcessService
from tests.unit.command_line.conftest import ServiceClock, connected, runner
from tests.unit.command_line.test_commands import book, kill

ARN = "arn:aws:iam::123456789012:user/ada"
DENIED = Response(403, {}, b'{"message":"Forbidden"}')

READS_AND_WRITES: Sequence[Sequence[str]] = (
    ("due",),
    ("booking", "show", "b1"),
    ("booking", "move", "b1", "--start", "2026-12-05T18:00Z"),
    ("booking", "cancel", "b1", "--by", "chef", "--yes"),
    ("job", "put", "order-1", "remind", "--in", "3d"),
    ("job", "delete", "order-1", "remind"),
    ("dispute", "list"),
    ("dispute", "show", "b2.d1"),
    ("dead", "list", "--kind", "dead", "--kind", "held"),
    ("dead", "explain", "b1/close_event"),
    ("dead", "redrive", "order-1/remind"),
    ("dead", "redrive", "--all", "--yes"),
    ("payouts",),
    ("pause", "payouts"),
    ("resume", "payouts"),
)


class Guarded:
    """Lets through what these groups of routes grant, as IAM matches it: `*` takes in `/` too."""

    def __init__(self, behind: Transport, groups: Collection[str]) -> None:
        self._behind = behind
        patterns = (
            "".join((method, re.sub("{[^}]+}", "*", path))) for group in groups for method, path in ROUTES[group]
        )
        self._granted = [re.escape(pattern).replace(r"\*", ".*") for pattern in patterns]

    def send(self, request: Request) -> Response:
        asked = request.method + unquote(urlsplit(request.url).path)
        return self._behind.send(request) if any(re.fullmatch(each, asked) for each in self._granted) else DENIED

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duebook_cli.command.caller", lambda session: ARN)


@pytest.mark.parametrize("arguments", READS_AND_WRITES, ids=" ".join)
def test_a_caller_without_a_policy_is_told_which_ones_and_those_are_enough(
    service: InProcessService, client: Duebook, arguments: Sequence[str]
) -> None:
    book(client)
    book(client, "b2")
    client.open_dispute("b2", actor=Actor("customer", "c-1"), claimed_minor=1, reason="cold", text="cold")
    client.put_job("order-1", "remind", AUGUST + timedelta(days=3))
    kill(service, "order-1", "remind")
    clock = ServiceClock(service)
    denied = runner(connected(Guarded(service, ()), clock=clock, outputs={}))(*arguments)
    assert (denied.exit, denied.out) == (6, "")
    assert ARN in denied.told
    named = {group.lower() for group in re.findall(r"(\w+)PolicyArn", denied.told)}
    assert named
    assert runner(connected(Guarded(service, named), clock=clock))(*arguments).exit == 0


def test_the_policys_own_name_is_told_where_the_outputs_have_it() -> None:
    told = runner(connected(ScriptedTransport(DENIED)))("pause", "payouts", "--json")
    assert told.exit == 6
    assert "arn:aws:iam::123456789012:policy/operations" in told.document["error"]["message"]


def test_expired_credentials_are_told_apart_from_a_missing_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    def expired(session: Any) -> str:
        raise NoCredentials("the AWS credentials have expired: sign in again (aws sso login), or set AWS_PROFILE")

    monkeypatch.setattr("duebook_cli.command.caller", expired)
    told = runner(connected(ScriptedTransport(DENIED)))("due")
    assert told.exit == 6
    assert "expired" in told.told
    assert "policy" not in told.told


@pytest.mark.parametrize(
    ("reply", "exit_code", "words"),
    [
        (NoAnswer("no answer from abc"), 7, "the same command again is safe"),
        (refusal(429, "throttled"), 7, "429"),
        (refusal(503, "unavailable"), 7, "503"),
        (refusal(422, "bad_window", field="to"), 1, "field to"),
        (Response(200, {}, b"<html>"), 1, "is no JSON"),
    ],
)
def test_what_went_wrong_is_told_without_a_traceback(reply: Any, exit_code: int, words: str) -> None:
    told = runner(connected(ScriptedTransport(reply)))("due")
    assert (told.exit, told.out) == (exit_code, "")
    assert words in told.told
    assert "Traceback" not in told.told
    assert runner(connected(ScriptedTransport(reply)))("due", "--json").document["error"]["message"]


def test_an_answer_is_one_line_of_json_and_nothing_else() -> None:
    told = runner(connected(ScriptedTransport(answer({"jobs": [], "cursor": None}))))("due", "--json")
    assert told.out.count("\n") == 1
    assert set(told.document) == {"from", "to", "jobs", "more"}
