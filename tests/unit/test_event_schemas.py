"""docs/events is true: every type has a schema, every schema has a type, and every event of these stories fits."""

import ast
import re
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from duebook.domain.booking import State
from duebook.domain.dispute import DisputeStatus
from duebook.domain.payment import Done, Failed, Mismatched, Uncertain
from duebook.service import chefs, outside, pay
from duebook.service.commands import DisputeCommands
from duebook.service.ports import Delete
from tests.unit.builders import AUGUST, DAY, END, HOUR, MINUTE, RELEASE
from tests.unit.event_schemas import FOLDER, check, documented, schemas
from tests.unit.test_import_directions import MODULES, nodes_of
from tests.unit.world import World

TYPE = re.compile(r"(booking|job|payment|payout|dispute)\.[a-z_]+")
CUSTOMER = {"role": "customer", "id": "c-1"}
CHEF = {"role": "chef", "id": "ch-1"}


def types_in_the_code() -> set[str]:
    """Every text in the domain and the service that is a type."""
    found = set()
    for path in MODULES:
        if {"domain", "service"} & set(path.parts):
            nodes = nodes_of(path)
            found |= {
                str(node.value) for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
    return {text for text in found if TYPE.fullmatch(text)}


def test_every_type_in_the_code_has_a_schema_and_every_schema_a_type() -> None:
    assert types_in_the_code() == documented()


@pytest.mark.parametrize("name", schemas())
def test_a_schema_is_valid_has_its_own_name_and_says_what_it_means(name: str) -> None:
    schema = schemas()[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == name
    assert schema["description"]
    if name != "envelope.schema.json":
        assert schema["properties"]["type"] == {"const": name.removesuffix(".schema.json")}


def test_the_list_names_every_type() -> None:
    text = (FOLDER / "README.md").read_text()
    assert [name for name in documented() if f"[`{name}`]({name}.schema.json)" not in text] == []


def test_the_schemas_know_every_state() -> None:
    known = schemas()["envelope.schema.json"]["$defs"]
    assert known["state"]["enum"] == list(State)
    assert known["dispute_status"]["enum"] == list(DisputeStatus)


# --- stories that tell every type ----------------------------------------------------------------------------------


def _paid_out(world: World) -> None:
    world.paid()
    world.put_job("menu", anchor="event_start", offset=-86_400, payload=[1], revision=3)
    world.commands.move("b1", {"event_start": "2026-11-15T18:00:00Z", "event_end": "2026-11-15T22:00:00Z"}, None)
    world.put_job("gone", run_at=END)
    world.commands.delete_job("b1", "gone", None)
    world.commands.delete_job("b1", "never", 2)
    world.commands.redrive("b1", "close_event", {"actor": {"role": "operator"}}, None)
    world.travel_to(RELEASE + 2 * DAY)


def _off(world: World) -> None:
    world.book("declined")
    world.commands.decline("declined", {"actor": CHEF, "reason": "no time"}, None)
    world.book("rejected")
    world.book("expired")
    world.commands.accept("expired", {}, None)
    world.paid("cancelled")
    world.cancel("cancelled", refund_minor=40_000)
    world.book("unpaid")
    world.cancel("unpaid")
    world.travel_to(AUGUST + 2 * DAY)
    world.commands.pay("expired", {"captured_minor": 1, "charge_ref": "ch"}, None)
    world.commands.pay("unpaid", {"captured_minor": 0, "charge_ref": "ch"}, None)
    world.deliver()


def _held(world: World) -> None:
    world.paid(hold_payout=True)
    world.commands.release_payout("b1", {"actor": {"role": "operator"}}, None)
    world.deliver()


def _nothing_left(world: World) -> None:
    world.paid(policy={"fee_bps": 10_000})
    world.travel_to(RELEASE + HOUR)


def _asked(world: World) -> None:
    world.use_external_payments()
    world.paid()
    world.travel_to(RELEASE)
    pay.result(world.bookings, world.provider, "b1.p1", Failed("account closed"))
    world.commands.redrive("b1", "pay_1", {}, None)
    world.deliver()
    pay.result(world.bookings, world.provider, "b1.p1", Done("tr_1"))
    world.deliver()


def _uncertain(world: World) -> None:
    world.paid()
    world.provider.send = lambda payment, now: Uncertain("HTTP 500", saved_error=True)  # type: ignore[method-assign]
    world.provider.find = lambda payment, now: None  # type: ignore[method-assign]
    world.travel_to(RELEASE + 60 * DAY)


def _replanned(world: World) -> None:
    world.paid()
    world.table.write(Delete(pk="b1", sk="job#close_event"))
    world.reconcile()


def _disputed(world: World, **policy: int) -> DisputeCommands:
    world.paid(policy=policy)
    world.travel_to(END)
    body = {"claimed_minor": 30_000, "reason": "cold", "text": "all of it", "actor": CUSTOMER}
    world.commands.open_dispute("b1", body, None)
    world.disputes.look("b1.d1", 1)
    return DisputeCommands(world.disputes)


def _look(world: World, after: Any) -> None:
    world.now += after
    dispute = world.disputes.dispute("b1.d1")[1]
    world.disputes.look("b1.d1", dispute.run)
    world.deliver()


def _offered(world: World) -> None:
    commands = _disputed(world)
    world.disputes.notify("b1.d1", 1, "remind", "token")
    commands.reply("b1.d1", {"answer": "offer", "offer_minor": 10_000, "actor": CHEF}, None)
    commands.answer_offer("b1.d1", {"answer": "accept", "actor": CUSTOMER}, None)
    world.disputes.settle("b1.d1")
    world.travel_to(RELEASE + HOUR)


def _silent(world: World) -> None:
    _disputed(world)
    _look(world, 25 * HOUR)
    world.disputes.settle("b1.d1")


def _appealed(world: World) -> None:
    commands = _disputed(world, appeals=1)
    commands.reply("b1.d1", {"answer": "offer", "offer_minor": 10_000, "actor": CHEF}, None)
    _look(world, 25 * HOUR)
    _look(world, 3 * DAY + HOUR)
    decision = {"refund_minor": 20_000, "reason": "half", "actor": {"role": "mediator", "id": "m-1"}}
    commands.decide("b1.d1", decision, None)
    commands.appeal("b1.d1", {"text": "no", "actor": CHEF}, None)
    _look(world, 9 * DAY)
    commands.decide("b1.d1", decision | {"actor": {"role": "mediator", "id": "m-2"}}, None)
    world.disputes.settle("b1.d1")


def _abandoned(world: World) -> None:
    commands = _disputed(world, escalations=0)
    commands.reply("b1.d1", {"answer": "contest", "actor": CHEF}, None)
    _look(world, 3 * DAY + HOUR)


def _withdrawn(world: World) -> None:
    _disputed(world).withdraw("b1.d1", {"actor": CUSTOMER}, None)


def _watched(world: World) -> None:
    _disputed(world)
    world.deliver()
    world.travel_to(END + 24 * HOUR + 20 * MINUTE)
    for name in world.workflow.executions:
        world.workflow.executions[name] = "FAILED"
    world.travel_to(END + 25 * HOUR)


def _charged_back(world: World) -> None:
    world.paid()
    chefs.hold(world.bookings, "ch-1", None)
    world.travel_to(RELEASE)
    chefs.unhold(world.bookings, "ch-1")
    world.deliver()
    outside.charged_back(world.bookings, "b1", "dp_1", 50_000, "fraud")
    world.deliver()
    outside.chargeback_closed(world.bookings, "b1", "dp_1", 50_000, True)
    outside.refunded_outside(world.bookings, "b1", "re_1", 10_000)
    world.deliver()
    outside.payment_came_back(world.bookings, "b1.p1", "trr_1", 1_000, "reversed by hand")


def _mismatched(world: World) -> None:
    world.paid()
    world.provider.send = lambda payment, now: Mismatched("tr_1 moved 1 EUR")  # type: ignore[method-assign]
    world.travel_to(RELEASE)


STORIES: list[Callable[[World], Any]] = [
    _paid_out,
    _off,
    _held,
    _nothing_left,
    _asked,
    _uncertain,
    _replanned,
    _offered,
    _silent,
    _appealed,
    _abandoned,
    _withdrawn,
    _watched,
    _charged_back,
    _mismatched,
]
told: dict[str, set[str]] = {}
"""Story → the types it told."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__.strip("_"))
def test_every_event_of_a_story_is_as_documented(world: World, story: Callable[[World], Any]) -> None:
    story(world)
    world.now += 5 * MINUTE
    world.deliver()
    assert world.bus.events
    for event in world.bus.events:
        check(event["detail"])
        assert event["detail-type"] == event["detail"]["type"]
    told[story.__name__] = {event["detail"]["type"] for event in world.bus.events}


def test_the_stories_tell_every_type() -> None:
    if len(told) < len(STORIES):
        pytest.skip("only some of the stories were told")
    assert documented() - set().union(*told.values()) == set()
