"""docs/api/openapi.json is current, valid, and true: its examples work, and what it says of a route, the route does."""

import json
from typing import Any

import pytest
import schemathesis
from jsonschema import Draft202012Validator

from duebook.domain.errors import AwsFailure, Throttled
from duebook.handlers.api.body import LARGEST_BODY
from stacks import openapi
from stacks.components.routes import ROUTES
from stacks.openapi import reference
from stacks.openapi.examples import EXAMPLES, PARAMETERS
from tests import api_contract
from tests.unit.builders import AUGUST, DAY, HOUR
from tests.unit.handlers.api_events import Answer, call
from tests.unit.world import World

DOCUMENT = api_contract.document()
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for method, path, operation in openapi.operations(DOCUMENT)
}
WITH_BODY = [name for name, (_, _, operation) in OPERATIONS.items() if "requestBody" in operation]


def send(name: str, body: Any = None, **more: Any) -> Answer:
    """Call an operation with the document's own example values."""
    method, path, operation = OPERATIONS[name]
    query = {
        parameter["name"]: str(PARAMETERS[parameter["name"]])
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query" and parameter["required"] and parameter["name"] in PARAMETERS
    }
    return call(method, path.format(**PARAMETERS), body, query={**query, **more.pop("query", {})}, **more)


# --- the file ------------------------------------------------------------------------------------------------------


def test_the_committed_document_is_the_one_that_the_code_makes() -> None:
    assert openapi.FILE.read_text(encoding="utf-8") == openapi.text(), "run `make openapi` and commit what it writes"


def test_the_committed_reference_is_made_from_it_and_names_every_route_and_shape() -> None:
    page = reference.PAGE.read_text(encoding="utf-8")
    assert page == reference.render(DOCUMENT), "run `make openapi` and commit what it writes"
    assert not [path for method, path, _ in OPERATIONS.values() if f"`{method} {path}`" not in page]
    assert not [name for name in DOCUMENT["components"]["schemas"] if f"\n### {name}\n" not in page]


def test_it_is_valid_openapi_3_1_and_every_schema_in_it_is_valid() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    schemathesis.openapi.from_dict(DOCUMENT).validate()
    for name, schema in DOCUMENT["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert f"schemas/{name}" in json.dumps(DOCUMENT), name


def test_every_route_of_the_gateway_is_in_it_under_its_group_and_asks_for_a_signature() -> None:
    described = {(operation["tags"][0], method, path) for method, path, operation in OPERATIONS.values()}
    assert described == {(group, method, path) for group, routes in ROUTES.items() for method, path in routes}
    assert [tag["name"] for tag in DOCUMENT["tags"]] == list(ROUTES)
    assert DOCUMENT["security"] == [{"sigv4": []}]
    assert not [name for name, (_, _, operation) in OPERATIONS.items() if "security" in operation]


def test_it_names_no_machine_and_every_operation_and_parameter_is_told_in_words() -> None:
    assert [server["url"] for server in DOCUMENT["servers"]] == ["https://{api}.execute-api.{region}.amazonaws.com"]
    for _, _, operation in OPERATIONS.values():
        assert operation["summary"]
        assert all(parameter["description"] for parameter in operation.get("parameters", ()))


@pytest.mark.parametrize("name", WITH_BODY)
def test_every_body_has_an_example_that_fits_its_schema(name: str) -> None:
    content = OPERATIONS[name][2]["requestBody"]["content"][openapi.JSON_TYPE]
    assert content["examples"]
    validator = Draft202012Validator({**content["schema"], "components": DOCUMENT["components"]})
    for example in content["examples"].values():
        validator.validate(example["value"])


def test_no_link_leads_to_an_operation_that_is_not_there() -> None:
    links = [
        link
        for _, _, operation in OPERATIONS.values()
        for response in operation["responses"].values()
        for link in response.get("links", {}).values()
    ]
    assert {link["operationId"] for link in links} <= OPERATIONS.keys()
    assert len(links) > 20


# --- what it says is so --------------------------------------------------------------------------------------------


def test_the_examples_are_a_story_that_the_service_accepts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the document's own words, with the ids of its parameters: booked, moved, disputed, appealed, decided, paid."""
    played: list[str] = []

    def play(*names: str, **more: Any) -> Answer:
        for name in names:
            body = next(iter(EXAMPLES[name].values())) if name in EXAMPLES else None
            answer = send(name, body, **more)
            assert answer.status in (200, 202), (name, answer)
            played.append(name)
        return answer

    monkeypatch.setenv("RECONCILER_FUNCTION", "reconciler")
    world.use_external_payments()
    play("put_booking", "put_job", "put_chef", "accept", "pay_booking", "move", "get_due", "get_summary")
    assert play("explain_job").body["verdict"] == "waits"
    assert play("redrive").body["generation"] > 1
    play("delete_job", "release_payout")
    world.travel_to(AUGUST + 106 * DAY + 20 * HOUR)
    play("open_dispute")
    world.disputes.look("wedding-77.d1", 1)
    assert play("reply").body["status"] == "awaiting_customer"
    play("answer_offer", "get_dispute", "get_dispute_history")
    play("decide")
    assert play("appeal").body["status"] == "in_appeal"
    play("get_disputes", query={"kind": "in_review"})
    send("decide", {"refund_minor": 0, "reason": "no", "actor": {"role": "mediator", "id": "mediator-2"}})
    world.travel_to(AUGUST + 109 * DAY)
    world.disputes.settle("wedding-77.d1")
    play("hold", "unhold", "pause", "resume", "get_payouts", "get_chef", "get_parked")
    world.travel_to(AUGUST + 112 * DAY)
    play("get_booking", "get_jobs", "get_payments", "get_payment", "payment_result", "get_ledger", "get_history")
    play("start_reconcile")
    world.functions.invoked.clear()
    world.reconcile()
    play("get_reconcile", "get_trial_balance", "get_reconciliation", "get_dead_letters")
    assert OPERATIONS.keys() - set(played) == {"decline", "withdraw", "cancel", "retry_payment"}


def test_where_the_story_ends_otherwise_the_examples_are_accepted_too(world: World) -> None:
    booking = next(iter(EXAMPLES["put_booking"].values()))
    for end in ("decline", "cancel"):
        for number, body in enumerate(EXAMPLES[end].values()):
            path = f"/bookings/{end}-{number}"
            assert call("PUT", path, booking).status == 200
            assert call("POST", f"{path}/{end}", body).status in (200, 422)


@pytest.mark.parametrize("name", WITH_BODY)
def test_a_command_reads_the_idempotency_key_exactly_where_the_document_has_it(world: World, name: str) -> None:
    parameters = OPERATIONS[name][2].get("parameters", [])
    answer = send(name, next(iter(EXAMPLES[name].values())), headers={"Idempotency-Key": "not a key"})
    is_read = answer.status == 422 and answer.error[0] == "bad_idempotency_key"
    assert is_read == ("Idempotency-Key" in [parameter["name"] for parameter in parameters])


MALFORMED: dict[int, dict[str, Any]] = {
    400: {"body": "{"},
    413: {"body": '"' + "x" * LARGEST_BODY + '"'},
    415: {"body": "a=1", "headers": {"content-type": "application/x-www-form-urlencoded"}},
    422: {"body": {"unknown": 1}},
}


@pytest.mark.parametrize("status", MALFORMED)
@pytest.mark.parametrize("name", [name for name, (method, _, _) in OPERATIONS.items() if method in ("PUT", "POST")])
def test_a_malformed_body_is_answered_as_documented(world: World, name: str, status: int) -> None:
    """Where no body is wanted, it still may not be too large, or said to be something else than JSON."""
    answer = send(name, **MALFORMED[status]) if name in WITH_BODY or status in (413, 415) else None
    assert answer is None or answer.status == status


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(
    ("error", "status"), [(Throttled("slow down"), 429), (AwsFailure("no"), 503), (OSError(), 500)]
)
def test_what_aws_refuses_is_answered_as_documented(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, error: Exception, status: int
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise error

    world.use_external_payments()
    for call_ in ("get", "query", "query_index", "write"):
        monkeypatch.setattr(world.table, call_, refuse)
    monkeypatch.setattr(world.functions, "invoke", refuse)
    monkeypatch.setenv("RECONCILER_FUNCTION", "reconciler")
    query = {"kind": "in_review"} if name == "get_disputes" else {}
    body = next(iter(EXAMPLES[name].values())) if name in EXAMPLES else None
    assert send(name, body, query=query).status == status
