"""Every command for one thing: what it does, what it prints for people and for programs, and how it ends."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duebook.domain.names import LIFECYCLE_JOBS, WATCH_DISPUTE, kind
from duebook.service import rows
from duebook_cli.commands.due import BUILT_IN
from duebook_client import Actor, Duebook, Local
from tests.unit.client.fakes import REPORT, ScriptedTransport, answer
from tests.unit.client.in_process import AUGUST, InProcessService
from tests.unit.command_line.conftest import Run, connected, runner

WEDDING = Local("2026-11-14T18:00:00", "Europe/Berlin")
CHEF, CUSTOMER = Actor("chef", "ch-1"), Actor("customer", "c-1")


def book(client: Duebook, booking_id: str = "b1", *, paid: bool = True, **changes: Any) -> None:
    given: dict[str, Any] = {
        "customer_id": "c-1",
        "chef_id": "ch-1",
        "event_start": WEDDING,
        "price_minor": 50_000,
        "currency": "EUR",
    }
    client.put_booking(booking_id, **{**given, **changes})
    if paid:
        client.accept(booking_id, actor=CHEF)
        client.pay(booking_id, captured_minor=50_000, charge_ref=f"charge-{booking_id}")


def kill(service: InProcessService, booking_id: str, job: str) -> None:
    """As the recorder leaves a job that it gave up."""
    row = service.bookings.job_row(booking_id, job)
    assert row is not None
    service.table.write(rows.job_dead(row, service.now, "gave up"))


# --- due -----------------------------------------------------------------------------------------------------------


def test_due_lists_what_happens_within_a_window(client: Duebook, duebook: Run) -> None:
    client.put_job("order-1", "remind", AUGUST + timedelta(days=3))
    client.put_job("order-2", "review", AUGUST + timedelta(days=9))
    told = duebook("due", "--within", "7d")
    assert told.exit == 0
    assert "2026-08-04 10:00:00 UTC (in 3 d)" in told.out
    assert "order-2" not in told.out
    document = duebook("due", "--within", "90d", "--json").document
    assert [each["booking_id"] for each in document["jobs"]] == ["order-1", "order-2"]
    assert (document["from"], document["more"]) == ("2026-08-01T10:00:00Z", False)


def test_due_can_be_for_one_job_from_a_day_on_and_tells_that_there_is_more(client: Duebook, duebook: Run) -> None:
    for day in range(1, 5):
        client.put_job(f"order-{day}", "remind", AUGUST + timedelta(days=day))
    client.put_job("order-9", "review", AUGUST + timedelta(days=3))
    document = duebook("due", "--job", "remind", "--from", "2026-08-03", "--limit", "2", "--json").document
    assert [each["booking_id"] for each in document["jobs"]] == ["order-2", "order-3"]
    assert document["more"]


def test_a_length_that_is_none_is_a_usage_error(duebook: Run) -> None:
    told = duebook("due", "--within", "soon")
    assert (told.exit, told.out) == (2, "")
    assert "not a duration such as 75d" in told.told


def test_a_job_that_was_not_found_and_is_not_built_in_is_answered_with_the_names_that_are(
    client: Duebook, duebook: Run
) -> None:
    client.put_job("order-1", "remind", AUGUST + timedelta(days=3))
    told = duebook("due", "--job", "nope")
    assert (told.exit, told.out) == (0, "")
    assert "release_payment" in told.told
    assert "nope is none of them" in told.told
    for job in ("remind", "close_event", "own", "pay", "pay_3"):
        assert "built-in" not in duebook("due", "--job", job).told


def test_the_built_in_names_are_the_services() -> None:
    assert (*LIFECYCLE_JOBS, WATCH_DISPUTE, kind("pay_1")) == BUILT_IN


@pytest.mark.parametrize(
    "arguments",
    [
        ("due", "--within", "3000000d"),
        ("due", "--from", "9999-12-31T00:00Z"),
        ("due", "--from", "0001-01-01T00:00+05:00"),
        ("job", "put", "order-1", "remind", "--in", "99999999d"),
        ("job", "put", "order-1", "remind", "--at", "9999-12-31T23:59-05:00"),
        ("payouts", "--within", "99999999d"),
    ],
)
def test_an_instant_beyond_all_years_is_a_usage_error_of_one_sentence(
    duebook: Run, service: InProcessService, arguments: tuple[str, ...]
) -> None:
    told = duebook(*arguments, "--json")
    assert (told.exit, service.sent) == (2, [])
    assert told.document["error"]["message"] in told.told
    assert duebook(*arguments).told.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("due", "--within", "zz"), "'--within': not a duration such as 75d or 1d12h: 'zz'"),
        (("import", "release", "none.csv"), "'none.csv' does not exist"),
        (("import", "release"), "give the FILE"),
        (("due", "--whithin", "7d"), "--whithin"),
        (("booking", "cancel", "b1"), "--by"),
        (("due", "7d"), "unexpected extra argument"),
        (("dues",), "dues"),
        (("pause", "all"), "all"),
    ],
)
def test_every_usage_error_is_told_in_one_style_and_as_json(
    duebook: Run, arguments: tuple[str, ...], words: str
) -> None:
    told = duebook(*arguments)
    assert (told.exit, told.out) == (2, "")
    assert told.told.startswith("duebook: ")
    assert words in told.told
    assert told.told.count("\n") == 1
    error = duebook(*arguments, "--json").document["error"]
    assert error["code"] == "usage"
    assert f"duebook: {error['message']}\n" in duebook(*arguments, "--json").told


def test_a_group_without_a_command_shows_its_help(duebook: Run) -> None:
    told = duebook("pause")
    assert told.exit == 2
    assert "at once and for all bookings" in told.out + told.told
    assert "duebook: " not in told.told


def test_the_version_is_told_without_a_duebook() -> None:
    told = runner(None)("--version")
    assert (told.exit, told.told) == (0, "")
    assert re.fullmatch(r"duebook \d+\.\d+\.\d+\n", told.out)


@pytest.mark.parametrize("command", ["due", "payouts"])
def test_a_window_of_no_length_is_refused(duebook: Run, command: str) -> None:
    told = duebook(command, "--within", "0d")
    assert (told.exit, told.out) == (2, "")
    assert "--within" in told.told
    assert "longer than nothing" in told.told


def test_payouts_are_summed_for_a_year_at_most(duebook: Run) -> None:
    told = duebook("payouts", "--within", "400d")
    assert told.exit == 2
    assert "--within: at most 366d, not 400 d" in told.told


# --- booking -------------------------------------------------------------------------------------------------------


def test_a_booking_is_shown_with_its_jobs_and_its_history(client: Duebook, duebook: Run) -> None:
    book(client)
    told = duebook("booking", "show", "b1")
    assert "500.00 EUR" in told.out
    assert "2026-11-14 17:00:00 UTC" in told.out
    assert "2026-11-14T18:00:00 Europe/Berlin" in told.out
    assert "booking.paid" in told.out
    document = duebook("booking", "show", "b1", "--json").document
    assert document["booking"]["state"] == "paid"
    assert [each["job"] for each in document["jobs"]] == ["close_event", "complete_order", "release_payment"]
    assert [each["version"] for each in document["history"]] == [1, 2, 3]


def test_an_id_with_own_jobs_only_is_shown_too(client: Duebook, duebook: Run) -> None:
    client.put_job("order-1", "remind", AUGUST + timedelta(days=3))
    document = duebook("booking", "show", "order-1", "--json").document
    assert document["booking"] is None
    assert [each["job"] for each in document["jobs"]] == ["remind"]
    assert "own jobs only" in duebook("booking", "show", "order-1").out


def test_what_is_not_there_ends_with_3_and_says_so(duebook: Run) -> None:
    told = duebook("booking", "show", "nobody")
    assert (told.exit, told.out) == (3, "")
    assert "there is no booking nobody" in told.told
    assert duebook("booking", "show", "nobody", "--json").document["error"]["code"] == "not_found"


def test_a_booking_is_moved_and_its_jobs_with_it(client: Duebook, duebook: Run) -> None:
    book(client)
    arguments = ("booking", "move", "b1", "--start", "2026-12-05T18:00", "--zone", "Europe/Berlin", "--reason", "snow")
    document = duebook(*arguments, "--json").document
    assert document["booking"]["event_start"]["zone"] == "Europe/Berlin"
    assert document["jobs"][0]["run_at"] == "2026-12-05T21:00:00.000Z"
    assert "It stood there already" in duebook(*arguments).told
    assert [each.reason for each in client.history("b1")][-1] == "snow"


def test_a_time_without_offset_or_zone_is_a_usage_error_that_names_the_option(client: Duebook, duebook: Run) -> None:
    book(client)
    told = duebook("booking", "move", "b1", "--start", "2026-12-05T18:00")
    assert told.exit == 2
    assert "--start" in told.told
    assert client.booking("b1").version == 3


def test_a_booking_is_cancelled_only_when_it_is_confirmed(client: Duebook, duebook: Run) -> None:
    book(client)
    for said in (None, "no\n", "\n"):
        told = duebook("booking", "cancel", "b1", "--by", "customer", answers=said)
        assert told.exit == 2
        assert "nothing was done" in told.told
    assert client.booking("b1").state == "paid"
    told = duebook("booking", "cancel", "b1", "--by", "customer", "--json", answers="yes\n")
    assert (told.exit, told.document["booking"]["state"]) == (0, "cancelled")
    assert duebook("booking", "cancel", "b1", "--by", "customer", "--yes").exit == 0


def test_who_cancels_is_never_guessed(client: Duebook, duebook: Run) -> None:
    book(client)
    assert duebook("booking", "cancel", "b1", "--yes").exit == 2
    assert client.booking("b1").state == "paid"


def test_what_the_state_does_not_allow_ends_with_4(client: Duebook, duebook: Run) -> None:
    book(client)
    client.cancel("b1", actor=CUSTOMER)
    told = duebook("booking", "move", "b1", "--start", "2026-12-05T18:00Z", "--json")
    assert told.exit == 4
    assert told.document["error"]["code"] == "illegal_transition"


# --- job -----------------------------------------------------------------------------------------------------------


def test_a_job_is_put_moved_and_deleted(client: Duebook, duebook: Run, tmp_path: Path) -> None:
    payload = tmp_path / "payload.json"
    payload.write_text('{"mail": 4}')
    told = duebook("job", "put", "order-1", "remind", "--in", "3d", "--payload", f"@{payload}")
    assert told.exit == 0
    assert "(in 3 d)" in told.out
    document = duebook("job", "put", "order-1", "remind", "--at", "2026-09-01T09:00+02:00", "--json").document
    assert document["job"]["run_at"] == "2026-09-01T07:00:00.000Z"
    assert duebook("job", "delete", "order-1", "remind", "--json").document["job"]["applied"]
    again = duebook("job", "delete", "order-1", "remind")
    assert (again.exit, client.jobs("order-1")) == (0, [])
    assert "Nothing changed" in again.told


def test_a_job_can_be_tied_to_the_event(client: Duebook, duebook: Run) -> None:
    book(client)
    told = duebook("job", "put", "b1", "remind", "--anchor", "event_start", "--offset=-2d", "--json")
    assert told.document["job"]["run_at"] == "2026-11-12T17:00:00.000Z"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--in", "3d", "--at", "2026-09-01T09:00Z"),
        ("--in", "3d", "--offset", "1d"),
        ("--anchor", "lunch"),
        ("--in", "3d", "--payload", "{"),
        ("--in", "3d", "--payload", "@/nowhere"),
    ],
)
def test_a_job_that_is_not_clear_is_a_usage_error(duebook: Run, arguments: tuple[str, ...]) -> None:
    assert duebook("job", "put", "order-1", "remind", *arguments).exit == 2


def test_a_built_in_job_can_not_be_put(client: Duebook, duebook: Run) -> None:
    assert duebook("job", "put", "order-1", "release_payment", "--in", "3d").exit == 4


# --- dispute -------------------------------------------------------------------------------------------------------


def test_a_dispute_is_listed_shown_and_decided(client: Duebook, duebook: Run, service: InProcessService) -> None:
    book(client)
    opened = client.open_dispute("b1", actor=CUSTOMER, claimed_minor=4_000, reason="cold", text="\x1b[2Jcold")
    listed = duebook("dispute", "list", "--kind", "awaiting_chef", "--json")
    assert (listed.exit, listed.document["kind"]) == (0, "awaiting_chef")
    shown = duebook("dispute", "show", opened.dispute_id)
    assert "40.00 EUR" in shown.out
    assert "\x1b" not in shown.out
    assert duebook("dispute", "show", opened.dispute_id, "--json").document["dispute"]["status"] == "opened"
    decide = ("dispute", "decide", "b1.d1", "--refund-minor", "2000", "--mediator", "m-1", "--reason", "half")
    asked = duebook(*decide, answers="no\n")
    assert asked.exit == 2
    assert "20.00 EUR of the 40.00 EUR" in asked.told
    assert duebook(*decide, "--yes").exit == 4  # it is not in review yet
    assert duebook("dispute", "show", "b1.d9").exit == 3
    assert duebook("dispute", "list", "--kind", "lost").exit == 2


# --- dead ----------------------------------------------------------------------------------------------------------


def two_dead(client: Duebook, service: InProcessService) -> None:
    for booking_id in ("order-1", "order-2"):
        client.put_job(booking_id, "remind", AUGUST + timedelta(days=3))
        kill(service, booking_id, "remind")


def test_dead_jobs_are_listed_by_the_name_that_redrive_takes(
    client: Duebook, duebook: Run, service: InProcessService
) -> None:
    two_dead(client, service)
    told = duebook("dead", "list", "--kind", "dead")
    assert "order-1/remind" in told.out
    assert "2 dead" in told.told
    document = duebook("dead", "list", "--json").document
    assert sorted(each["booking_id"] for each in document["dead_letters"]) == ["order-1", "order-2"]
    assert document["kinds"] == ["dead", "needs_attention"]
    document = duebook("dead", "list", "--kind", "outbox", "--json").document
    assert {each["kind"] for each in document["dead_letters"]} == {"outbox"}
    assert duebook("dead", "list", "--kind", "gone").exit == 2


def test_what_is_named_is_redriven_and_nothing_else(client: Duebook, duebook: Run, service: InProcessService) -> None:
    two_dead(client, service)
    told = duebook("dead", "redrive", "order-1/remind", "--reason", "fixed", "--json")
    assert (told.exit, [each["booking_id"] for each in told.document["redriven"]]) == (0, ["order-1"])
    assert [each.status for each in client.jobs("order-1") + client.jobs("order-2")] == ["pending", "dead"]
    assert [each.reason for each in client.history("order-1")][-1] == "fixed"


def test_an_empty_selection_never_means_all(client: Duebook, duebook: Run, service: InProcessService) -> None:
    two_dead(client, service)
    told = duebook("dead", "redrive")
    assert told.exit == 2
    assert "--all" in told.told
    assert duebook("dead", "redrive", "--yes").exit == 2
    assert duebook("dead", "redrive", "order-1/remind", "--all").exit == 2
    assert {each.status for each in client.jobs("order-1") + client.jobs("order-2")} == {"dead"}


def test_all_are_redriven_when_their_number_is_confirmed(
    client: Duebook, duebook: Run, service: InProcessService
) -> None:
    two_dead(client, service)
    for said in (None, "yes\n", "1\n"):
        assert duebook("dead", "redrive", "--all", answers=said).exit == 2
    assert client.jobs("order-1")[0].status == "dead"
    assert duebook("dead", "redrive", "--all", answers="2\n").exit == 0
    assert {each.status for each in client.jobs("order-1") + client.jobs("order-2")} == {"pending"}
    empty = duebook("dead", "redrive", "--all", "--yes", "--json")
    assert (empty.exit, empty.document) == (0, {"redriven": [], "refused": [], "stopped": None})


def test_some_that_are_refused_end_with_5_and_are_named(
    client: Duebook, duebook: Run, service: InProcessService
) -> None:
    two_dead(client, service)
    told = duebook("dead", "redrive", "order-1/remind", "nobody/remind", "--json")
    assert told.exit == 5
    assert [each["job"] for each in told.document["refused"]] == ["nobody/remind"]
    assert duebook("dead", "redrive", "nobody/remind").exit == 3
    assert duebook("dead", "redrive", "order-1").exit == 2


def test_a_message_that_nobody_could_read_is_listed_and_stays() -> None:
    poison = {"kind": "dead", "booking_id": None, "message_id": "m-1", "since": "2026-08-01T09:00:00.000Z"}
    run = runner(connected(ScriptedTransport(answer({"dead_letters": [poison], "cursor": None}))))
    assert "message m-1" in run("dead", "list", "--kind", "dead").out
    told = run("dead", "redrive", "--all", "--yes")
    assert told.exit == 0
    assert "1 message that nobody could read" in told.told


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"payment_id": "b1.p2", "amount_minor": 4_500, "currency": "JPY"}, "b1/pay_2"),
        ({"dispute_id": "b1.d1"}, "b1/watch_dispute"),
        ({}, "b1 "),
    ],
)
def test_whatever_waits_for_a_person_has_a_name(row: dict[str, Any], name: str) -> None:
    letter = {"kind": "needs_attention", "booking_id": "b1", "since": "2026-08-01T09:00:00.000Z", **row}
    run = runner(connected(ScriptedTransport(answer({"dead_letters": [letter], "cursor": None}))))
    out = run("dead", "list", "--kind", "needs_attention").out
    assert name in out
    assert ("4,500 JPY" in out) == ("currency" in row)


def test_explain_says_what_would_happen_and_does_nothing(
    client: Duebook, duebook: Run, service: InProcessService
) -> None:
    book(client)
    service.now = client.booking("b1").event_end.instant + timedelta(minutes=1)
    before = client.booking("b1").version
    told = duebook("dead", "explain", "b1/close_event")
    assert told.exit == 0
    assert "booking.event_closed" in told.out
    document = duebook("dead", "explain", "b1/close_event", "--json").document["explanation"]
    assert [step["type"] for step in document["steps"]] == ["booking.event_closed"]
    assert client.booking("b1").version == before


# --- payouts, reconcile, clock -------------------------------------------------------------------------------------


def test_payouts_are_summed_by_day_and_currency(client: Duebook, duebook: Run) -> None:
    book(client)
    book(client, "b2", event_start=Local("2026-11-14T12:00:00", "Europe/Berlin"))
    book(client, "b3", event_start=Local("2026-11-20T12:00:00", "Europe/Berlin"))
    told = duebook("payouts", "--within", "120d")
    assert told.exit == 0
    assert "2026-11-15" in told.out or "2026-11-16" in told.out
    document = duebook("payouts", "--within", "120d", "--json").document
    assert (document["count"], document["paused"]) == (3, False)
    assert sum(each["count"] for each in document["days"]) == 3
    assert duebook("payouts", "--within", "1d", "--json").document["days"] == []


def test_payouts_of_several_currencies_are_told_each_in_its_own_units() -> None:
    day = {"day": "2026-11-14", "job": "release_payment", "count": 3, "amounts": {"EUR": 90_050, "JPY": 4_500}}
    summary = {"days": [day, {**day, "day": "2026-11-15"}], "next": None}
    switch = {"paused": True, "reason": "audit"}
    run = runner(connected(ScriptedTransport(answer(summary), answer(switch), answer(summary), answer(switch))))
    told = run("payouts")
    assert "2026-11-14        3  900.50 EUR + 4,500 JPY" in told.out
    assert "6 payouts of 1,801.00 EUR + 9,000 JPY" in told.told
    assert "paused: audit" in told.told
    assert run("payouts", "--json").document["amounts"] == {"EUR": 180_100, "JPY": 9_000}


def test_payouts_are_paused_and_resumed_and_that_is_told(client: Duebook, duebook: Run) -> None:
    assert duebook("pause", "payouts", "--reason", "audit", "--json").document["payouts"]["paused"]
    assert client.payouts().paused
    assert "paused: audit" in duebook("payouts").told
    assert "It was so already" in duebook("pause", "payouts", "--reason", "audit").told
    assert not duebook("resume", "payouts", "--json").document["payouts"]["paused"]
    assert not client.payouts().paused
    assert duebook("pause").exit == 2


def test_reconcile_waits_for_its_own_report(monkeypatch: pytest.MonkeyPatch, duebook: Run) -> None:
    monkeypatch.setattr("duebook_cli.commands.reconcile._LOOK_AGAIN_SECONDS", 0)
    later = {**REPORT, "started_at": "2100-01-01T00:00:00.000Z"}
    transport = ScriptedTransport(
        answer({"started": True, "run": "r-2"}, 202),
        answer({"error": {"code": "not_found", "message": "no reconcile run"}}, 404),
        answer({**REPORT, "started_at": "2026-01-01T00:00:00.000Z", "status": "done"}),
        answer(later),
        answer({**later, "status": "done", "differences": 2}),
    )
    told = runner(connected(transport))("reconcile", "--json")
    assert (told.exit, told.document["report"]["differences"]) == (0, 2)
    assert len(transport.sent) == 5


def test_reconcile_gives_up_waiting_but_not_the_pass() -> None:
    transport = ScriptedTransport(answer({"started": True, "run": "r-2"}, 202), answer(REPORT))
    told = runner(connected(transport))("reconcile", "--at-most", "0s")
    assert told.exit == 1
    assert "it goes on" in told.told
    assert runner(connected(transport))("reconcile", "--no-wait").exit in (0, 1)


def test_the_clock_shows_and_moves_the_embedded_awss_time(client: Duebook, duebook: Run) -> None:
    client.put_job("order-1", "remind", AUGUST + timedelta(days=3))
    shown = duebook("clock", "show", "--json").document
    assert shown == {"now": "2026-08-01T10:00:00Z", "next": "2026-08-04T10:00:00Z", "travels": True}
    assert "(in 3 d)" in duebook("clock", "show").out
    moved = duebook("clock", "next", "--json").document
    assert (moved["now"], moved["moved"]) == ("2026-08-04T10:00:00Z", True)
    assert client.jobs("order-1") == []
    assert not duebook("clock", "next", "--json").document["moved"]
    assert duebook("clock", "advance", "75d", "--json").document["now"] == "2026-10-18T10:00:00Z"
    assert duebook("clock", "advance").exit == 2


def test_only_an_embedded_awss_time_can_be_moved() -> None:
    told = runner(connected(ScriptedTransport(answer({})), env="prod"))("clock", "advance", "1d")
    assert told.exit == 2
    assert "not that of prod" in told.told
