"""The dispute's methods: the requests they make, and what comes back from the service itself."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from duebook import wiring
from duebook.adapters.memory import MemoryWorkflow
from duebook.service.dispute import Disputes
from duebook_client import Actor, BadAnswer, BadArgument, Conflict, Dispute, Duebook, Local, Policy
from tests.unit.client.fakes import REGION, URL, FixedSession, ScriptedTransport, answer, body_of, client, query_of
from tests.unit.client.in_process import AUGUST, InProcessService, in_process_service

CUSTOMER, CHEF, MEDIATOR = Actor("customer", "c-1"), Actor("chef", "ch-1"), Actor("mediator", "m-1")
CUSTOMER_JSON = {"role": "customer", "id": "c-1"}
CHEF_JSON = {"role": "chef", "id": "ch-1"}
DISPUTE: dict[str, Any] = {
    "dispute_id": "b1.d1",
    "booking_id": "b1",
    "status": "opened",
    "customer_id": "c-1",
    "chef_id": "ch-1",
    "currency": "EUR",
    "claimed_minor": 4_000,
    "opened_at": "2026-11-15T10:00:00.000Z",
    "reason": "cold",
    "text": "the soup was cold",
    "evidence": ["photo-1"],
    "a_field_of_the_future": True,
}
OPENING = {"actor": CUSTOMER_JSON, "claimed_minor": 4_000, "reason": "cold", "text": "the soup was cold"}


def opening(c: Duebook, evidence: tuple[str, ...] = ()) -> Dispute:
    return c.open_dispute(
        "b1", actor=CUSTOMER, claimed_minor=4_000, reason="cold", text="the soup was cold", evidence=evidence
    )


@pytest.mark.parametrize(
    ("call", "method", "path", "body"),
    [
        (opening, "POST", "/bookings/b1/disputes", OPENING),
        (
            lambda c: opening(c, ("a", "b")),
            "POST",
            "/bookings/b1/disputes",
            OPENING | {"evidence": ["a", "b"]},
        ),
        (lambda c: c.dispute("b1.d1"), "GET", "/disputes/b1.d1", None),
        (
            lambda c: c.reply("b1.d1", "offer", actor=CHEF, offer_minor=900, evidence=["x"]),
            "POST",
            "/disputes/b1.d1/reply",
            {"actor": CHEF_JSON, "answer": "offer", "offer_minor": 900, "evidence": ["x"]},
        ),
        (
            lambda c: c.reply("b1.d1", "contest", actor=CHEF, text="it was not"),
            "POST",
            "/disputes/b1.d1/reply",
            {"actor": CHEF_JSON, "answer": "contest", "text": "it was not"},
        ),
        (
            lambda c: c.answer_offer("b1.d1", "refuse", actor=CUSTOMER),
            "POST",
            "/disputes/b1.d1/offer-answer",
            {"actor": CUSTOMER_JSON, "answer": "refuse"},
        ),
        (
            lambda c: c.decide("b1.d1", actor=MEDIATOR, refund_minor=0, reason="it was hot"),
            "POST",
            "/disputes/b1.d1/decision",
            {"actor": {"role": "mediator", "id": "m-1"}, "refund_minor": 0, "reason": "it was hot"},
        ),
        (
            lambda c: c.appeal("b1.d1", actor=CHEF, text="no"),
            "POST",
            "/disputes/b1.d1/appeal",
            {"actor": CHEF_JSON, "text": "no"},
        ),
        (
            lambda c: c.withdraw("b1.d1", actor=CUSTOMER),
            "POST",
            "/disputes/b1.d1/withdraw",
            {"actor": CUSTOMER_JSON},
        ),
    ],
)
def test_a_method_makes_the_request_of_its_route(
    call: Callable[[Duebook], Dispute], method: str, path: str, body: Any
) -> None:
    transport = ScriptedTransport(answer(DISPUTE))
    found = call(client(transport))
    (request,) = transport.sent
    assert (request.method, urlsplit(request.url).path) == (method, path)
    assert (body_of(request) if request.body else None) == body
    assert (found.dispute_id, found.claimed_minor, found.evidence) == ("b1.d1", 4_000, ("photo-1",))
    assert (found.deadline, found.reply, found.needs_attention, found.run, found.applied) == (
        None,
        None,
        False,
        1,
        None,
    )
    assert found.raw["a_field_of_the_future"] is True


def test_disputes_that_wait_are_read_page_by_page_also_past_an_empty_page() -> None:
    pages: list[dict[str, Any]] = [
        {"disputes": [DISPUTE], "cursor": "1"},
        {"disputes": [], "cursor": "2"},
        {"disputes": [DISPUTE], "cursor": None},
    ]
    transport = ScriptedTransport(*(answer(page) for page in pages))
    assert len(list(client(transport).disputes("awaiting_chef", page_size=1))) == 2
    assert query_of(transport.sent[1]) == {"kind": "awaiting_chef", "limit": "1", "cursor": "1"}


def test_an_id_that_is_no_disputes_is_not_sent() -> None:
    with pytest.raises(BadArgument):
        client(ScriptedTransport(answer(DISPUTE))).dispute("b1")
    with pytest.raises(BadArgument):
        client(ScriptedTransport(answer(DISPUTE))).decide("b1.d1", actor=MEDIATOR, refund_minor=1.5, reason="half")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"evidence": "photo"}, {"evidence": [1]}, {"claimed_minor": "4000"}])
def test_an_answer_that_breaks_the_contract_is_said_so(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadAnswer):
        client(ScriptedTransport(answer(DISPUTE | wrong))).dispute("b1.d1")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessService]:
    with in_process_service() as service:
        disputes = Disputes(service.bookings, MemoryWorkflow())
        monkeypatch.setattr(wiring, "disputes", lambda: disputes)
        yield service


def test_a_dispute_from_its_opening_to_the_appealed_decision(service: InProcessService) -> None:
    due = Duebook(URL, region=REGION, session=FixedSession(), transport=service)
    policy = Policy(appeals=1, silence="release", review_within=timedelta(days=2), escalations=1)
    booked = due.put_booking(
        "b1",
        customer_id="c-1",
        chef_id="ch-1",
        event_start=Local((AUGUST + timedelta(days=60)).replace(tzinfo=None), "Europe/Berlin"),
        price_minor=10_000,
        currency="EUR",
        policy=policy,
    )
    assert (booked.policy.appeals, booked.policy.silence, booked.policy.escalations) == (1, "release", 1)
    assert booked.policy.review_within == timedelta(days=2)
    assert booked.policy.reply_within == timedelta(days=1)
    due.accept("b1", actor=CHEF)
    due.pay("b1", captured_minor=10_000, charge_ref="ch_1")
    opened = opening(due, ("photo-1",))
    assert (opened.applied, opened.status, opened.opened_at) == (True, "opened", service.now)
    assert opening(due, ("photo-1",)).applied is False
    assert [each.dispute_id for each in due.disputes("awaiting_chef")] == ["b1.d1"]
    with pytest.raises(Conflict) as refused:
        due.cancel("b1", actor=CUSTOMER)
    assert refused.value.code == "dispute_open"
    with pytest.raises(Conflict) as refused:
        due.reply("b1.d1", "concede", actor=CUSTOMER)
    assert refused.value.code == "wrong_actor"
    offered = due.reply("b1.d1", "offer", actor=CHEF, offer_minor=1_000, text="a part", evidence=["menu"])
    assert (offered.reply, offered.offer_minor, offered.reply_evidence) == ("offer", 1_000, ("menu",))
    assert offered.deadline == service.now + timedelta(days=1)
    assert due.answer_offer("b1.d1", "refuse", actor=CUSTOMER).status == "in_review"
    decided = due.decide("b1.d1", actor=MEDIATOR, refund_minor=2_000, reason="half")
    assert (decided.refund_minor, decided.decided_by, decided.mediator_id) == (2_000, "mediator", "m-1")
    assert decided.appeal_until == decided.deadline == service.now + timedelta(days=2)
    assert due.appeal("b1.d1", actor=CUSTOMER, text="too little").appealed_by == "customer"
    assert [each.status for each in due.disputes()] == ["in_appeal"]
    final = due.decide("b1.d1", actor=Actor("mediator", "m-2"), refund_minor=3_000, reason="more")
    assert final.decision_reason == "more"
    told = due.dispute_history("b1.d1")
    assert [entry.text for entry in told.entries if entry.type == "dispute.offer_answered"] == [
        "the customer refuses the offer"
    ]
    assert told.entries[0].actor == CUSTOMER
    assert (told.entries[-1].at, told.entries[-1].source, told.entries[-1].run) == (None, "workflow", 1)
    assert told.console_url == final.console_url


def test_a_dispute_is_withdrawn(service: InProcessService) -> None:
    due = Duebook(URL, region=REGION, session=FixedSession(), transport=service)
    due.put_booking(
        "b1",
        customer_id="c-1",
        chef_id="ch-1",
        event_start=AUGUST + timedelta(days=60),
        price_minor=10_000,
        currency="EUR",
        state="paid",
        paid_at=AUGUST,
        captured_minor=10_000,
        charge_ref="ch_1",
    )
    opening(due)
    assert due.withdraw("b1.d1", actor=CUSTOMER).status == "withdrawn"
    assert {job.job for job in due.jobs("b1")} == {"close_event", "complete_order", "release_payment"}
