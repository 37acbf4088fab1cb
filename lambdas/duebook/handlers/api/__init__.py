"""The HTTP API: a request is checked for its shape, handed to one use case, and its answer or error put into JSON.

Authorization is IAM's, route by route (stacks/components/api.py); the actor in a body is whom the caller vouches for.
"""

import json
import re
from datetime import date, datetime
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from aws_lambda_powertools.event_handler.openapi.params import Body, Path, Query

from duebook import wiring
from duebook.domain import errors, names
from duebook.domain.booking import Actor, Booking
from duebook.domain.payment import Done, Failed
from duebook.domain.times import iso, moment
from duebook.handlers.api import models, views
from duebook.handlers.api.body import JSON_TYPE, LARGEST_BODY, is_json, parsed, text_of
from duebook.handlers.support import count, logger, metrics
from duebook.service import chefs, ledger, pay, queries, reconcile
from duebook.service.bookings import Key
from duebook.service.commands import Commands, DisputeCommands, canonical_hash
from duebook.service.explain import explain
from duebook.service.ports import Item
from duebook.service.summary import summary
from duebook.settings import setting

app = APIGatewayHttpResolver(enable_validation=True, json_body_deserializer=parsed)

BookingId = Annotated[str, Path(pattern=f"^{names.BOOKING_ID}$")]
JobName = Annotated[str, Path(pattern=f"^{names.JOB_NAME}$")]
DisputeId = Annotated[str, Path(pattern=f"^{names.DISPUTE_ID}$")]
PaymentId = Annotated[str, Path(pattern=f"^{names.PAYMENT_ID}$")]
Limit = Annotated[int, Query(ge=1, le=500)]
Cursor = Annotated[str | None, Query(max_length=256)]
ChefId = Annotated[str, Path(pattern=f"^{names.OPAQUE_ID}$")]
Day = Annotated[str, Query(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
Json = dict[str, Any]

_IDEMPOTENCY_KEY = r"[0-9A-Za-z_.:@-]{1,128}"


def _commands() -> Commands:
    return Commands(wiring.bookings(), wiring.default_policy())


def _given(body: models.Request) -> Json:
    return body.model_dump(mode="json", exclude_unset=True)


def _key(body: Json) -> Key | None:
    value = app.current_event.headers.get("idempotency-key")
    if value is None:
        return None
    if not re.fullmatch(_IDEMPOTENCY_KEY, value):
        raise errors.InvalidRequest("bad_idempotency_key", "Idempotency-Key", f"must match {_IDEMPOTENCY_KEY}")
    return Key(value=value, request_hash=canonical_hash({"path": app.current_event.path, "body": body}))


def _shown(booking: Booking, applied: bool | None = None) -> Json:
    shown = views.booking(booking, queries.payments(wiring.bookings().table, booking.booking_id))
    return shown if applied is None else shown | {"applied": applied}


# --- schedules -----------------------------------------------------------------------------------------------------


@app.put("/bookings/<booking_id>/jobs/<job>", tags=["schedules"])
def put_job(booking_id: BookingId, job: JobName, body: Annotated[models.JobIn, Body()]) -> Json:
    """Make an own job, or replace its instant and payload. Works for any booking id, made here or not."""
    row, applied = _commands().put_job(booking_id, job, _given(body))
    return views.job(row) | {"applied": applied}


@app.delete("/bookings/<booking_id>/jobs/<job>", tags=["schedules"])
def delete_job(
    booking_id: BookingId, job: JobName, revision: Annotated[int | None, Query(ge=0, le=models.LARGEST_REVISION)] = None
) -> Json:
    """Remove an own job."""
    applied = _commands().delete_job(booking_id, job, revision)
    return {"booking_id": booking_id, "job": job, "applied": applied}


@app.get("/bookings/<booking_id>/jobs", tags=["schedules"])
def get_jobs(booking_id: BookingId) -> Json:
    """What is scheduled for a booking, by instant."""
    _existing(booking_id)
    return {"jobs": [views.job(row) for row in queries.jobs(wiring.bookings().table, booking_id)]}


@app.get("/jobs", tags=["schedules"])
def get_due(
    start: Annotated[str, Query(alias="from", max_length=64)],
    end: Annotated[str, Query(alias="to", max_length=64)],
    job: Annotated[str | None, Query(pattern=f"^{names.JOB_NAME}$")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Json:
    """Pending work in a window of at most 31 days, in order."""
    listing = queries.due(
        wiring.bookings().table, _query_time(start, "from"), _query_time(end, "to"), job=job, cursor=cursor, limit=limit
    )
    return {"jobs": [views.job(row) for row in listing.items], "cursor": listing.cursor}


@app.get("/jobs/summary", tags=["schedules"])
def get_summary(
    start: Annotated[str, Query(alias="from", max_length=64)],
    end: Annotated[str, Query(alias="to", max_length=64)],
    job: Annotated[str | None, Query(pattern=f"^{names.JOB_NAME}$")] = None,
    cursor: Cursor = None,
) -> Json:
    """How much is pending in a window of at most 366 days, by UTC day and job. A long answer goes on from `next`: then
    the sums of a day may be split."""
    first, last = _query_time(start, "from"), _query_time(end, "to")
    found = summary(wiring.bookings().table, first, last, job=job, cursor=cursor)
    return {"from": iso(first), "to": iso(last)} | views.summary(found)


# --- bookings ------------------------------------------------------------------------------------------------------


@app.put("/bookings/<booking_id>", tags=["bookings"])
def put_booking(booking_id: BookingId, body: Annotated[models.BookingIn, Body()]) -> Json:
    """Take on a managed booking."""
    return _shown(*_commands().put_booking(booking_id, _given(body)))


@app.get("/bookings/<booking_id>", tags=["bookings"])
def get_booking(booking_id: BookingId) -> Json:
    """A booking as it stands, with its payments and its dispute in brief."""
    return _shown(_existing(booking_id))


@app.post("/bookings/<booking_id>/accept", tags=["bookings"])
def accept(booking_id: BookingId, body: Annotated[models.AcceptIn, Body()]) -> Json:
    """The chef takes the booking; the customer has to pay before a deadline."""
    given = _given(body)
    return _shown(*_commands().accept(booking_id, given, _key(given)))


@app.post("/bookings/<booking_id>/decline", tags=["bookings"])
def decline(booking_id: BookingId, body: Annotated[models.DeclineIn, Body()]) -> Json:
    """The chef does not take the booking."""
    given = _given(body)
    return _shown(*_commands().decline(booking_id, given, _key(given)))


@app.post("/bookings/<booking_id>/pay", tags=["bookings"])
def pay_booking(booking_id: BookingId, body: Annotated[models.PayIn, Body()]) -> Json:
    """The customer's money was captured; for a booking that is off, all of it is refunded."""
    given = _given(body)
    return _shown(*_commands().pay(booking_id, given, _key(given)))


@app.post("/bookings/<booking_id>/move", tags=["bookings"])
def move(booking_id: BookingId, body: Annotated[models.MoveIn, Body()]) -> Json:
    """The event has another date; every job that is tied to it moves along."""
    given = _given(body)
    return _shown(*_commands().move(booking_id, given, _key(given)))


@app.post("/bookings/<booking_id>/cancel", tags=["bookings"])
def cancel(booking_id: BookingId, body: Annotated[models.CancelIn, Body()]) -> Json:
    """The booking is off: the refund, by the policy's tiers or as given, and what the chef keeps are decided now."""
    given = _given(body)
    return _shown(*_commands().cancel(booking_id, given, _key(given)))


@app.get("/bookings/<booking_id>/history", tags=["bookings"])
def get_history(
    booking_id: BookingId, cursor: Annotated[str | None, Query(pattern="^[0-9]{1,10}$")] = None, limit: Limit = 100
) -> Json:
    """Everything that ever happened to a booking, oldest first."""
    _existing(booking_id)
    listing = queries.history(wiring.bookings().table, booking_id, cursor=cursor, limit=limit)
    return {"history": [views.history(row) for row in listing.items], "cursor": listing.cursor}


@app.get("/bookings/<booking_id>/payments", tags=["bookings"])
def get_payments(booking_id: BookingId) -> Json:
    """A booking's payouts, refunds and reversals, in the order they were decided."""
    _existing(booking_id)
    return {"payments": [views.payment(row) for row in queries.payments(wiring.bookings().table, booking_id)]}


# --- payments ------------------------------------------------------------------------------------------------------


@app.get("/payments/<payment_id>", tags=["payments"])
def get_payment(payment_id: PaymentId) -> Json:
    """A payout, refund or reversal as it stands."""
    return _payment(payment_id)


@app.post("/payments/<payment_id>/result", tags=["payments"])
def payment_result(payment_id: PaymentId, body: Annotated[models.ResultIn, Body()]) -> Json:
    """The marketplace's answer to a payment it was asked for by event."""
    outcome: Done | Failed
    outcome = Done(body.provider_ref or "") if body.status == "done" else Failed(body.reason or "")
    _, applied = pay.result(wiring.bookings(), wiring.manner(), payment_id, outcome, body.key)
    return _payment(payment_id) | {"applied": applied}


@app.post("/payments/<payment_id>/retry", tags=["payments"])
def retry_payment(payment_id: PaymentId, body: Annotated[models.RedriveIn, Body()]) -> Json:
    """A person says: try again. Pressed twice, it is tried once."""
    actor = Actor(body.actor.role, body.actor.id) if body.actor else None
    _, applied = pay.press(wiring.bookings(), payment_id, actor, body.reason)
    return _payment(payment_id) | {"applied": applied}


@app.get("/bookings/<booking_id>/ledger", tags=["payments"])
def get_ledger(
    booking_id: BookingId,
    cursor: Annotated[str | None, Query(pattern="^[0-9]{10}#[0-9]{1,3}$")] = None,
    limit: Limit = 100,
) -> Json:
    """Every entry of a booking, oldest first, and what they come to: captured = refunded + net paid out + fee + held,
    less what the chef owes."""
    booking = _existing(booking_id)
    listing = ledger.of_booking(wiring.bookings().table, booking_id, cursor=cursor, limit=limit)
    entries = [views.entry(row) for row in listing.items]
    return {"entries": entries, "cursor": listing.cursor, "balance": views.balance(booking)}


@app.put("/chefs/<chef_id>", tags=["payments"])
def put_chef(chef_id: ChefId, body: Annotated[models.ChefIn, Body()]) -> Json:
    """The chef's connected account, and whether they are paid at all. Enabled again, what was parked goes."""
    chef, applied = chefs.put(wiring.bookings(), chef_id, body.account, body.enabled)
    return views.chef(chef) | {"applied": applied}


@app.get("/chefs/<chef_id>", tags=["payments"])
def get_chef(chef_id: ChefId) -> Json:
    """A chef as they were put, and whether a person holds their payouts."""
    return views.chef(chefs.existing(wiring.bookings().table, chef_id))


@app.post("/chefs/<chef_id>/hold", tags=["payments"])
def hold(chef_id: ChefId, body: Annotated[models.HoldIn, Body()]) -> Json:
    """No payout to this chef is sent from now on; those that come due are parked."""
    chef, applied = chefs.hold(wiring.bookings(), chef_id, body.reason)
    return views.chef(chef) | {"applied": applied}


@app.post("/chefs/<chef_id>/unhold", tags=["payments"])
def unhold(chef_id: ChefId) -> Json:
    """What is parked goes at once; again, it is paid once."""
    chef, applied = chefs.unhold(wiring.bookings(), chef_id)
    return views.chef(chef) | {"applied": applied}


@app.get("/chefs/<chef_id>/parked", tags=["payments"])
def get_parked(
    chef_id: ChefId, cursor: Annotated[str | None, Query(pattern=f"^{names.PAYMENT_ID}$")] = None, limit: Limit = 100
) -> Json:
    """Payments that wait for this chef."""
    listing = chefs.parked(wiring.bookings().table, chef_id, cursor=cursor, limit=limit)
    return {"parked": [views.parked(row) for row in listing.items], "cursor": listing.cursor}


# --- disputes ------------------------------------------------------------------------------------------------------


@app.post("/bookings/<booking_id>/disputes", tags=["disputes"])
def open_dispute(booking_id: BookingId, body: Annotated[models.DisputeIn, Body()]) -> Json:
    """The customer disputes a paid order: from this moment nobody is paid."""
    given = _given(body)
    booking, applied = _commands().open_dispute(booking_id, given, _key(given))
    return _dispute_of(booking) | {"applied": applied}


@app.get("/disputes", tags=["disputes"])
def get_disputes(
    kind: Annotated[str, Query(pattern="^(in_review|needs_attention|awaiting_chef)$")],
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> Json:
    """Disputes that wait, the longest first."""
    listing = queries.disputes(wiring.bookings().table, kind, cursor=cursor, limit=limit)
    return {"disputes": [_dispute(row) for row in listing.items], "cursor": listing.cursor}


@app.get("/disputes/<dispute_id>", tags=["disputes"])
def get_dispute(dispute_id: DisputeId) -> Json:
    """A dispute as it stands, with its texts."""
    row = queries.dispute(wiring.bookings().table, dispute_id)
    if row is None:
        raise errors.NotFound(f"there is no dispute {dispute_id}")
    return _dispute(row)


@app.get("/disputes/<dispute_id>/history", tags=["disputes"])
def get_dispute_history(dispute_id: DisputeId) -> Json:
    """One timeline: our history and what the workflow's executions did."""
    disputes = wiring.disputes()
    entries = queries.timeline(wiring.bookings().table, disputes.workflow, dispute_id)
    _, dispute = disputes.dispute(dispute_id)
    return {"history": entries, "console_url": disputes.workflow.console_url(dispute_id, dispute.run)}


@app.post("/disputes/<dispute_id>/reply", tags=["disputes"])
def reply(dispute_id: DisputeId, body: Annotated[models.ReplyIn, Body()]) -> Json:
    """The chef's answer: concede, offer or contest."""
    given = _given(body)
    return _acted(*_dispute_commands().reply(dispute_id, given, _key(given)))


@app.post("/disputes/<dispute_id>/offer-answer", tags=["disputes"])
def answer_offer(dispute_id: DisputeId, body: Annotated[models.OfferAnswerIn, Body()]) -> Json:
    """The customer accepts or refuses the chef's offer."""
    given = _given(body)
    return _acted(*_dispute_commands().answer_offer(dispute_id, given, _key(given)))


@app.post("/disputes/<dispute_id>/decision", tags=["disputes"])
def decide(dispute_id: DisputeId, body: Annotated[models.DecisionIn, Body()]) -> Json:
    """The mediator's decision."""
    given = _given(body)
    return _acted(*_dispute_commands().decide(dispute_id, given, _key(given)))


@app.post("/disputes/<dispute_id>/appeal", tags=["disputes"])
def appeal(dispute_id: DisputeId, body: Annotated[models.AppealIn, Body()]) -> Json:
    """A party appeals the decision, where the policy allows it."""
    given = _given(body)
    return _acted(*_dispute_commands().appeal(dispute_id, given, _key(given)))


@app.post("/disputes/<dispute_id>/withdraw", tags=["disputes"])
def withdraw(dispute_id: DisputeId, body: Annotated[models.WithdrawIn, Body()]) -> Json:
    """The customer takes the dispute back: everything is as if it had never been."""
    given = _given(body)
    return _acted(*_dispute_commands().withdraw(dispute_id, given, _key(given)))


# --- operations ----------------------------------------------------------------------------------------------------


@app.get("/dead-letters", tags=["operations"])
def get_dead_letters(
    kind: Annotated[str, Query(pattern="^(dead|needs_attention|outbox|held)$")] = "dead",
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Json:
    """What a person has to look at, the longest waiting first; `held`: bookings whose payout nobody released yet."""
    listing = queries.attention(wiring.bookings().table, kind, cursor=cursor, limit=limit)
    return {"dead_letters": [views.attention(row, kind) for row in listing.items], "cursor": listing.cursor}


@app.post("/bookings/<booking_id>/release-payout", tags=["operations"])
def release_payout(booking_id: BookingId, body: Annotated[models.RedriveIn, Body()]) -> Json:
    """Lift the hold with which a booking was taken on: its payout is planned again, at its ordinary instant."""
    given = _given(body)
    return _shown(*_commands().release_payout(booking_id, given, _key(given)))


@app.get("/bookings/<booking_id>/jobs/<job>/explain", tags=["operations"])
def explain_job(booking_id: BookingId, job: JobName) -> Json:
    """What a wake-up would do now, and why this job acts, waits, is blocked or is not there. Nothing is done."""
    return views.explanation(explain(wiring.bookings(), wiring.manner(), booking_id, job))


@app.post("/bookings/<booking_id>/jobs/<job>/redrive", tags=["operations"])
def redrive(booking_id: BookingId, job: JobName, body: Annotated[models.RedriveIn, Body()]) -> Json:
    """Wake a dead or pending job now, under a new generation."""
    given = _given(body)
    return views.job(_commands().redrive(booking_id, job, given, _key(given)))


@app.post("/reconcile", tags=["operations"])
def start_reconcile() -> Response[str]:
    """Compare and repair every level; after a deploy or a restore."""
    return _answer(202, {"started": True, "run": wiring.start(setting("RECONCILER_FUNCTION"))})


@app.get("/reconcile", tags=["operations"])
def get_reconcile() -> Json:
    """Where the last reconcile run stands."""
    found = reconcile.report(wiring.bookings())
    if found is None:
        raise errors.NotFound("no reconcile run has been started")
    return views.report(found)


@app.get("/ledger/trial-balance", tags=["operations"])
def get_trial_balance(day: Day) -> Json:
    """Opening, movement and closing balance of every account, by currency."""
    return views.trial_balance(ledger.trial_balance(wiring.bookings().table, _day(day)))


@app.get("/ledger/reconciliation", tags=["operations"])
def get_reconciliation(day: Day) -> Json:
    """The day's money: ours, the provider's, the difference."""
    found = ledger.reconciliation(wiring.bookings().table, _day(day))
    if found is None:
        raise errors.NotFound(f"{day} was not reconciled yet")
    return found


@app.get("/payouts", tags=["operations"])
def get_payouts() -> Json:
    """Whether all payouts are paused."""
    return views.switch(chefs.switch(wiring.bookings().table))


@app.post("/payouts/pause", tags=["operations"])
def pause(body: Annotated[models.HoldIn, Body()]) -> Json:
    """No payout is sent from now on."""
    switch, applied = chefs.pause(wiring.bookings(), True, body.reason)
    return views.switch(switch) | {"applied": applied}


@app.post("/payouts/resume", tags=["operations"])
def resume() -> Json:
    """Payouts go again: what waited goes at its next look, within the hour."""
    switch, applied = chefs.pause(wiring.bookings(), False, None)
    return views.switch(switch) | {"applied": applied}


# --- shared --------------------------------------------------------------------------------------------------------


def _existing(booking_id: str) -> Booking:
    booking = wiring.bookings().load(booking_id)
    if booking is None:
        raise errors.NotFound(f"there is no booking {booking_id}")
    return booking


def _payment(payment_id: str) -> Json:
    row = queries.payment(wiring.bookings().table, payment_id)
    if row is None:
        raise errors.NotFound(f"there is no payment {payment_id}")
    return views.payment(row)


def _dispute_commands() -> DisputeCommands:
    return DisputeCommands(wiring.disputes())


def _dispute(row: Item) -> Json:
    return views.dispute(row, wiring.disputes().workflow.console_url(row["dispute_id"], row.get("run", 1)))


def _dispute_of(booking: Booking) -> Json:
    assert booking.engagement is not None
    assert booking.engagement.dispute is not None
    return get_dispute(booking.engagement.dispute.dispute_id)


def _acted(booking: Booking, applied: bool) -> Json:
    return _dispute_of(booking) | {"applied": applied}


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise errors.InvalidRequest("bad_day", "day", f"{text} is no day") from None


def _query_time(text: str, field: str) -> datetime:
    return moment(text, field).instant


# --- errors --------------------------------------------------------------------------------------------------------

_STATUS: tuple[tuple[type[errors.DuebookError], int], ...] = (
    (errors.InvalidRequest, 422),
    (errors.NotFound, 404),
    (errors.Refused, 409),
    (errors.VersionConflict, 409),
    (errors.Throttled, 429),
    (errors.AwsFailure, 503),
    (errors.NewerRow, 503),
)


def _answer(status: int, body: Json) -> Response[str]:
    return Response(status_code=status, content_type=JSON_TYPE, body=json.dumps(body, separators=(",", ":")))


def _error(status: int, code: str, message: str, **more: Any) -> Response[str]:
    return _answer(status, {"error": {"code": code, "message": message, **more}})


@app.exception_handler(errors.DuebookError)  # type: ignore[untyped-decorator]
def _refused(error: errors.DuebookError) -> Response[str]:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    if status >= 500:
        logger.exception("request failed", extra={"code": error.code})
    shown = {name: error.details[name] for name in ("field", "state") if error.details.get(name) is not None}
    return _error(status, error.code, str(error), **shown)


_NO_FIELDS = ("body", "query", "path", "header", "LocalTime", "TimeText")
"""What pydantic and the router put into a place beside the names of fields."""


@app.exception_handler(RequestValidationError)  # type: ignore[untyped-decorator]
def _malformed(error: RequestValidationError) -> Response[str]:
    """The first thing wrong: its place as a dotted path, its kind as the code."""
    first = error.errors()[0]
    where = [str(part) for part in first["loc"] if part not in _NO_FIELDS]
    field = ".".join(part for part in where if not part.startswith(("constrained-str", "function-")))
    if first["type"] == "json_invalid":
        return _error(400, "malformed_json", f"the body is no JSON: {first['ctx']['error']}", field="body")
    return _error(422, str(first["type"]), str(first["msg"]), field=field or "body")


@app.not_found
def _no_route(error: NotFoundError) -> Response[str]:
    return _error(404, "no_such_route", "there is no such route")


@app.exception_handler(Exception)  # type: ignore[untyped-decorator]
def _bug(error: Exception) -> Response[str]:
    logger.exception("unexpected error")
    count("ApiErrors")
    return _error(500, "internal_error", "something went wrong here; the log has it")


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """API Gateway HTTP API event (payload 2.0) → response.

    A request without a body is one with an empty object, and what comes with GET or DELETE is not looked at. The
    router would also read forms: it is given JSON alone.
    """
    text, headers = "", {**event.get("headers", {}), "content-type": JSON_TYPE}
    if event["requestContext"]["http"]["method"] in ("PUT", "POST"):
        try:
            text = text_of(event)
        except ValueError:
            return _serialized(_error(400, "malformed_json", "the body is no text in UTF-8", field="body"))
        if len(text.encode(errors="surrogatepass")) > LARGEST_BODY:
            return _serialized(_error(413, "body_too_large", f"a body has at most {LARGEST_BODY} bytes", field="body"))
        if text and not is_json(event):
            return _serialized(_error(415, "unsupported_content_type", f"send {JSON_TYPE}", field="Content-Type"))
    return app.resolve({**event, "headers": headers, "body": text or "{}", "isBase64Encoded": False}, context)


def _serialized(response: Response[str]) -> dict[str, Any]:
    return {"statusCode": response.status_code, "headers": {"Content-Type": JSON_TYPE}, "body": response.body}
