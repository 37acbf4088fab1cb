"""Import, release and move of many: all or told, nothing twice, and on from where a kill left it."""

import csv
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duebook_cli.bulk.calls import Pace, call_each
from duebook_cli.bulk.journal import Journal
from duebook_cli.bulk.payout import payout_at, payout_minor
from duebook_cli.command import Run as CommandRun
from duebook_cli.connect import Connection
from duebook_cli.exits import Exit, Failed, Usage
from duebook_client import Actor, Conflict, Duebook, NoAnswer, Request, Response, Throttled
from tests.unit.client.in_process import AUGUST, InProcessService
from tests.unit.command_line.conftest import Run, ServiceClock, connected, runner
from tests.unit.command_line.test_commands import book
from tests.unit.command_line.test_rows import GOOD, PAID, as_csv

FUTURE = {**GOOD, "booking_id": "future"}
LATE = {**GOOD, **PAID, "booking_id": "late", "event_start": "2026-07-20T18:00:00Z", "captured_minor": 50_001}
YEN = {**LATE, "booking_id": "yen", "currency": "JPY", "captured_minor": 1_000, "state": "completed"}
SILENT = {**GOOD, "booking_id": "silent", "requested_at": "2026-07-01T10:00:00Z"}
BAD = {**GOOD, "booking_id": "bad", "currency": "EUX"}


WAIT = Pace.wait
"""As it is before the tests here replace it."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return as_csv(tmp_path / "bookings.csv", FUTURE, LATE, YEN, SILENT)


# --- import --------------------------------------------------------------------------------------------------------


def test_an_import_holds_every_payout_and_tells_what_would_have_run(
    client: Duebook, duebook: Run, service: InProcessService, file: Path
) -> None:
    told = duebook("import", file, "--json")
    assert (told.exit, told.document["imported"], told.document["refused"]) == (0, 4, [])
    assert told.document["payouts_due"] == {"count": 2, "amounts": {"EUR": 45_001, "JPY": 900}}
    assert told.document["at_once"] == {
        "booking.event_closed": 1,
        "booking.completed": 1,
        "booking.rejected": 1,
    }
    service.move_by(timedelta(days=30))
    late = client.booking("late")
    assert (late.state, late.raw["payout_held"], late.payments) == ("completed", True, ())
    assert client.booking("silent").state == "rejected"


def test_it_is_told_to_people_with_each_currencys_sum(duebook: Run, file: Path) -> None:
    told = duebook("import", file)
    assert "2, 450.01 EUR + 900 JPY" in told.out
    assert f"duebook import release {file}" in told.told


def test_nothing_is_sent_while_a_row_is_refused(duebook: Run, service: InProcessService, tmp_path: Path) -> None:
    file = as_csv(tmp_path / "b.csv", FUTURE, BAD)
    told = duebook("import", file)
    assert told.exit == 1
    assert service.sent == []
    assert "1 good, 1 refused. Nothing was sent." in told.out
    with (tmp_path / "b.csv.refused.csv").open() as report:
        (row,) = csv.DictReader(report)
    assert (row["line"], row["booking_id"], row["field"]) == ("3", "bad", "currency")
    assert not (tmp_path / "b.csv.import.jsonl").exists()


def test_the_good_rows_go_on_without_the_refused_ones_when_that_is_said(
    client: Duebook, duebook: Run, tmp_path: Path
) -> None:
    told = duebook("import", as_csv(tmp_path / "b.csv", FUTURE, BAD), "--skip-refused", "--json")
    assert (told.exit, told.document["imported"]) == (5, 1)
    assert [each["line"] for each in told.document["refused"]] == [3]
    assert client.booking("future").state == "requested"


def test_what_the_service_refuses_is_reported_with_its_line(client: Duebook, duebook: Run, file: Path) -> None:
    book(client, "late")
    told = duebook("import", file, "--json")
    assert (told.exit, told.document["imported"]) == (5, 3)
    (refused,) = told.document["refused"]
    assert (refused["line"], refused["booking_id"]) == (3, "late")
    assert "another request" in refused["reason"]
    assert Path(told.document["refused_file"]).read_text().count("\n") == 2


def test_a_dry_run_checks_and_sends_nothing(
    duebook: Run, service: InProcessService, file: Path, tmp_path: Path
) -> None:
    told = duebook("import", file, "--dry-run", "--json")
    assert (told.exit, told.document["good"], service.sent) == (0, 4, [])
    assert duebook("import", as_csv(tmp_path / "b.csv", BAD), "--dry-run").exit == 1


def test_a_file_without_rows_is_a_usage_error(duebook: Run, tmp_path: Path) -> None:
    assert duebook("import", as_csv(tmp_path / "b.csv", FUTURE), "--dry-run").exit == 0
    (tmp_path / "b.csv").write_text("booking_id\n")
    assert duebook("import", tmp_path / "b.csv").exit == 2
    assert duebook("import", tmp_path / "nowhere.csv").exit == 2
    assert duebook("import").exit == 2


def test_after_a_kill_it_goes_on_and_what_was_sent_just_before_it_is_repeated_harmlessly(
    client: Duebook, duebook: Run, service: InProcessService, file: Path
) -> None:
    assert duebook("import", file).exit == 0
    journal = file.with_name("bookings.csv.import.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:2]) + lines[2][:20])  # the second row was sent, its line is cut short
    service.move_by(timedelta(minutes=5))  # its jobs have run meanwhile
    service.sent.clear()
    told = duebook("import", file, "--json")
    assert (told.exit, told.document["imported"], told.document["imported_before"]) == (0, 3, 1)
    assert len([each for each in service.sent if each.method == "PUT"]) == 3
    assert told.document["payouts_due"]["count"] == 2
    assert told.document["at_once"] == {"booking.event_closed": 1, "booking.completed": 1, "booking.rejected": 1}
    for booking_id in ("future", "late", "yen", "silent"):
        assert [each.type for each in client.history(booking_id)].count("booking.requested") == 1


def test_a_changed_file_is_refused_and_so_is_another_duebook(
    duebook: Run, service: InProcessService, file: Path
) -> None:
    assert duebook("import", file).exit == 0
    elsewhere = connected(service)
    other = replace(elsewhere, env="dev", url="https://other", clock=ServiceClock(service))
    told = runner(other)("import", file)
    assert told.exit == 2
    assert "not to https://other" in told.told
    file.write_text(file.read_text().replace("50001", "50002"))
    service.sent.clear()
    told = duebook("import", file)
    assert (told.exit, service.sent) == (2, [])
    assert "a file of their own" in told.told
    assert duebook("import", "release", file, "--yes").exit == 2


def test_what_was_taken_over_in_time_is_not_refused_when_the_file_is_run_again_later(
    client: Duebook, duebook: Run, service: InProcessService, tmp_path: Path
) -> None:
    file = as_csv(tmp_path / "b.csv", FUTURE, SILENT)
    assert duebook("import", file).exit == 0
    service.move_to(datetime(2027, 1, 1, tzinfo=UTC))
    told = duebook("import", file, "--json")
    assert (told.exit, told.document["imported_before"], told.document["refused"]) == (0, 2, [])


def test_a_service_that_is_away_stops_it_and_the_same_command_goes_on(
    duebook: Run, service: InProcessService, file: Path
) -> None:
    service.lost = [NoAnswer("gone")] * 2
    assert duebook("import", file).exit == 7
    real = service.send
    put: list[Request] = []

    def away_after_two(request: Request) -> Response:
        put.append(request)
        if len(put) > 2:
            raise NoAnswer("gone")
        return real(request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "send", away_after_two)
        told = duebook("import", file, "--json")
    assert (told.exit, told.document["imported"], told.document["left"]) == (5, 2, 2)
    assert told.document["stopped"]["code"] == "no_answer"
    assert "The same command again goes on" in told.told
    told = duebook("import", file, "--json")
    assert (told.exit, told.document["imported"], told.document["left"]) == (0, 2, 0)


# --- release -------------------------------------------------------------------------------------------------------


def test_payouts_are_held_until_they_are_released_and_then_decided_once(
    client: Duebook, duebook: Run, service: InProcessService, file: Path
) -> None:
    duebook("import", file)
    service.move_by(timedelta(minutes=5))
    assert client.payments("late") == []
    asked = duebook("import", "release", file, answers="yes\n")
    assert asked.exit == 2
    assert "2 of them due already" in asked.told
    told = duebook("import", "release", file, "--json", answers="3\n")
    assert told.exit == 0
    assert told.document["released"] == ["future", "late", "yen"]
    service.move_by(timedelta(minutes=5))
    assert [each.amount_minor for each in client.payments("late")] == [45_001]
    again = duebook("import", "release", file, "--yes", "--json")
    assert (again.exit, again.document["released"]) == (0, [])
    assert len(client.payments("late")) == 1
    told = duebook("import", file, "--json")
    assert (told.document["imported_before"], told.document["payouts_due"]["count"]) == (4, 0)
    assert "are held" not in told.told


def test_a_release_tells_bookings_and_counts_payouts_where_there_is_something_to_pay(
    client: Duebook, duebook: Run, file: Path
) -> None:
    duebook("import", file)
    asked = duebook("import", "release", file)
    assert "4 bookings held, 2 of them due already" in asked.told
    assert "Release 4 bookings?" in asked.told
    told = duebook("import", "release", file, answers="4\n")
    assert "4 bookings released; 2 payouts to come: 450.01 EUR + 900 JPY" in told.out
    assert duebook("import", "release", file, "--yes").out == "0 bookings released\n"
    again = duebook("import", "release", file, "--yes", "--json").document
    assert again["payouts"] == {"count": 0, "amounts": {}}


def test_a_release_of_what_nobody_paid_for_names_no_payout(duebook: Run, tmp_path: Path) -> None:
    file = as_csv(tmp_path / "b.csv", FUTURE)
    duebook("import", file)
    assert "1 booking released; 0 payouts to come" in duebook("import", "release", file, "--yes").out


@pytest.mark.parametrize("rate", ["0", "-1", "1001", "nan", "fast"])
def test_a_rate_that_is_none_is_refused_in_a_sentence(duebook: Run, file: Path, rate: str) -> None:
    told = duebook("import", file, f"--rate={rate}")
    assert told.exit == 2
    assert "--rate" in told.told
    assert "not a number of calls a second, from 0.1 to 1000" in told.told


def test_a_release_that_was_killed_goes_on(
    client: Duebook, duebook: Run, service: InProcessService, file: Path
) -> None:
    duebook("import", file)
    client.release_payout("late")  # released, and killed before the journal had it
    told = duebook("import", "release", file, "--yes", "--json")
    assert (told.document["released"], told.document["not_held"]) == (["future", "silent", "yen"], 1)


def test_bookings_can_be_released_by_name_and_the_others_stay_held(client: Duebook, duebook: Run, file: Path) -> None:
    duebook("import", file)
    told = duebook("import", "release", "--booking", "late", "--booking", "nobody", "--yes", "--json")
    assert (told.exit, told.document["released"], told.document["others_held"]) == (5, ["late"], 3)
    assert [each["booking_id"] for each in told.document["refused"]] == ["nobody"]
    assert client.booking("yen").raw["payout_held"]


def test_no_selection_releases_nothing(duebook: Run, service: InProcessService, file: Path) -> None:
    duebook("import", file)
    service.sent.clear()
    assert duebook("import", "release", "--yes").exit == 2
    assert duebook("import", "release", file, "--booking", "late", "--yes").exit == 2
    assert service.sent == []


def test_a_file_that_was_not_imported_releases_nothing(duebook: Run, file: Path) -> None:
    told = duebook("import", "release", file, "--yes")
    assert told.exit == 2
    assert "there is no journal" in told.told
    assert not file.with_name("bookings.csv.import.jsonl").exists()


@pytest.mark.parametrize(("fee_bps", "captured"), [(1_000, 50_001), (1_000, 5), (1_000, 15), (333, 99_999), (0, 7)])
def test_the_payout_that_is_told_is_the_one_that_is_decided(
    client: Duebook, service: InProcessService, fee_bps: int, captured: int
) -> None:
    given = {name: value for name, value in LATE.items() if name not in ("booking_id", "captured_minor")}
    body = {**given, "captured_minor": captured, "policy": {"fee_bps": fee_bps}, "event_start": "2026-09-01T18:00:00Z"}
    client.call("PUT", "/bookings/b1", body=body)
    booking = client.booking("b1")
    at = payout_at(booking)
    assert at is not None
    service.move_to(at - timedelta(seconds=1))
    assert client.payments("b1") == []
    service.move_to(at + timedelta(seconds=1))
    assert [each.amount_minor for each in client.payments("b1")] == [payout_minor(booking)]


# --- move ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def moves(client: Duebook, tmp_path: Path) -> Path:
    book(client, "b1")
    book(client, "b2")
    client.put_job("b1", "remind", AUGUST + timedelta(days=3))
    rows = [
        {"booking_id": "b1", "event_start": "2026-12-05T18:00:00", "zone": "Europe/Berlin", "reason": "snow"},
        {"booking_id": "b2", "event_start": "2026-12-06T18:00:00+01:00", "event_end": "2026-12-06T20:00:00+01:00"},
    ]
    return as_csv(tmp_path / "moves.csv", *rows)


def test_a_dry_run_shows_old_and_new_and_which_jobs_move(
    client: Duebook, duebook: Run, service: InProcessService, moves: Path
) -> None:
    told = duebook("move", "--from", moves, "--dry-run", "--json")
    assert told.exit == 0
    first, second = told.document["plan"]
    assert first["event_start"] == {"now": "2026-11-14T17:00:00Z", "then": "2026-12-05T17:00:00Z"}
    assert [(each["job"], each["then"]) for each in first["jobs"]] == [
        ("remind", None),
        ("close_event", "2026-12-05T21:00:00Z"),
        ("complete_order", "2026-12-06T00:00:00Z"),
        ("release_payment", "2026-12-07T00:00:00Z"),
    ]
    assert "moves only if it is tied to the event" in duebook("move", "--from", moves, "--dry-run").out
    assert client.booking("b1").version == 4
    told = duebook("move", "--from", moves, "--yes")
    assert told.exit == 0
    for planned in (first, second):
        now = {each.job: each.run_at for each in client.jobs(planned["booking_id"])}
        for job in planned["jobs"]:
            if job["then"] is not None:
                assert now[job["job"]] == datetime.fromisoformat(job["then"])


def test_events_are_moved_once_however_often_it_runs(client: Duebook, duebook: Run, moves: Path) -> None:
    assert duebook("move", "--from", moves, answers="yes\n").exit == 2
    assert duebook("move", "--from", moves, "--json", answers="2\n").document["moved"] == 2
    client.move("b1", event_start=datetime(2027, 1, 1, 12, tzinfo=UTC))  # somebody moves it again
    again = duebook("move", "--from", moves, "--json").document
    assert (again["moved"], again["moved_before"]) == (0, 2)
    assert client.booking("b1").event_start.instant == datetime(2027, 1, 1, 12, tzinfo=UTC)


def test_without_its_journal_the_key_of_each_row_keeps_it_from_moving_twice(
    client: Duebook, duebook: Run, moves: Path
) -> None:
    duebook("move", "--from", moves, "--yes")
    client.move("b1", event_start=datetime(2027, 1, 1, 12, tzinfo=UTC))
    moves.with_name("moves.csv.move.jsonl").unlink()  # as after a kill between the call and its line
    assert duebook("move", "--from", moves, "--yes").exit == 0
    assert client.booking("b1").event_start.instant == datetime(2027, 1, 1, 12, tzinfo=UTC)


def test_what_can_not_move_is_told_and_the_others_move(client: Duebook, duebook: Run, moves: Path) -> None:
    client.cancel("b2", actor=Actor("customer"))
    told = duebook("move", "--from", moves, "--yes", "--json")
    assert (told.exit, told.document["moved"]) == (5, 1)
    assert [(each["line"], each["booking_id"]) for each in told.document["refused"]] == [(3, "b2")]
    moves.write_text("booking_id,event_start\nnobody,2026-12-05T18:00Z\n")
    moves.with_name("moves.csv.move.jsonl").unlink()
    assert duebook("move", "--from", moves, "--dry-run").exit == 3
    assert duebook("move", "--from", moves, "--yes").exit == 3


def test_a_plan_with_an_end_beyond_all_years_is_refused_by_its_line(
    client: Duebook, duebook: Run, tmp_path: Path
) -> None:
    book(client, "b1")
    file = tmp_path / "m.csv"
    file.write_text("booking_id,event_start\nb1,9999-12-31T23:00Z\n")
    told = duebook("move", "--from", file, "--dry-run")
    assert told.exit == 2
    assert "line 2, b1: length: 4 h from 9999-12-31 23:00:00 UTC is outside the years 1 to 9999" in told.told


def test_a_refused_row_is_named_by_what_is_known_of_it(client: Duebook, duebook: Run, tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    file.write_text("booking_id,event_start\nnope,2026-12-05T18:00Z\n")
    assert "line 2, nope: " in duebook("move", "--from", file, "--dry-run").told
    file.write_text("booking_id,event_start\nnope,soon\nb2\n")
    told = duebook("move", "--from", file, "--dry-run").told
    assert "line 2, nope, event_start: " in told
    assert "line 3: has 1 cells" in told


def test_a_move_is_checked_as_a_whole_first(duebook: Run, service: InProcessService, tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    file.write_text("booking_id,event_start\nb1,2026-12-05T18:00Z\nb1,2026-12-06T18:00Z\nb2,soon\n")
    told = duebook("move", "--from", file, "--yes", "--json")
    assert (told.exit, service.sent) == (1, [])
    assert [each["line"] for each in told.document["refused"]] == [3, 4]
    file.write_text("booking_id,event_start\n")
    assert duebook("move", "--from", file, "--yes").exit == 2
    assert duebook("move", "--yes").exit == 2


# --- journal and calls ---------------------------------------------------------------------------------------------


def journal(path: Path, **changes: Any) -> Journal:
    given: dict[str, Any] = {"kind": "import", "input": "a", "target": "t", **changes}
    return Journal(path, **given)


def test_a_journal_remembers_what_was_on_disk_and_drops_a_line_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with journal(path) as first:
        first.append("b1", {"outcome": "imported"})
        first.append("b1", {"outcome": "released"})
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"booking_id": "b2", "outc')
    with journal(path) as second:
        assert second.entries == {"b1": {"outcome": "released"}}
        second.append("b3", {"outcome": "imported"})
    assert path.read_bytes().startswith(whole)
    with journal(path) as third:
        assert set(third.entries) == {"b1", "b3"}


def test_a_journal_whose_very_first_line_was_cut_short_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(b'{"journal": 1, "ki')
    with journal(path) as begun:
        begun.append("b1", {})
    with journal(path) as again:
        assert set(again.entries) == {"b1"}


def test_a_journal_in_which_nothing_was_written_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with journal(path):
        pass
    assert not path.exists()


def test_two_at_once_do_not_share_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with journal(path), pytest.raises(Failed, match="another process"), journal(path):
        pass
    with journal(path) as free:
        assert free.entries == {}


@pytest.mark.parametrize("text", ["not json\n", "{}\n", '["journal"]\n', '{"journal":1,"kind":"import"}\n'])
def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text(text)
    with pytest.raises(Usage, match="no journal"), journal(path):
        pass
    assert path.read_text() == text


def test_the_journal_of_another_command_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with journal(path, kind="move") as moved:
        moved.append("b1", {"outcome": "moved"})
    with pytest.raises(Usage, match="something else"), journal(path):
        pass


def test_calls_keep_to_their_rate() -> None:
    slept: list[float] = []
    now = [100.0]

    def sleep(seconds: float) -> None:
        slept.append(round(seconds, 6))
        now[0] += seconds

    pace = Pace(4, clock=lambda: now[0], sleep=sleep)
    for _ in range(3):
        WAIT(pace)
    now[0] += 10
    WAIT(pace)
    WAIT(pace)
    assert slept == [0.25, 0.25, 0.25]


def calls(connection: Connection, outcomes: Mapping[str, Any]) -> Any:
    def call(item: str) -> str:
        if isinstance(outcomes[item], Exception):
            raise outcomes[item]
        return str(outcomes[item])

    return call_each(CommandRun(connection, as_json=False), list(outcomes), call, rate=1000, doing="Trying")


def test_a_refusal_stops_nothing_else_and_a_throttled_service_stops_all(connection: Connection) -> None:
    refused, throttled = Conflict("no", code="state", status=409), Throttled("slow", code="throttled", status=429)
    found = calls(connection, {"a": 1, "b": refused, "c": 3})
    assert (found.done, found.refused, found.exit) == ([("a", "1"), ("c", "3")], [("b", refused)], Exit.PARTLY)
    found = calls(connection, {"a": 1, "b": throttled, "c": 3, "d": 4})
    assert (found.stopped, ("d", "4") in found.done, found.exit) == (throttled, False, Exit.PARTLY)
    with pytest.raises(Throttled):
        calls(connection, {"a": throttled, "b": 2})
    assert calls(connection, {"a": refused}).exit is Exit.CONFLICT
    assert calls(connection, {}).exit is Exit.OK


def test_ctrl_c_ends_with_130_and_keeps_what_was_done(connection: Connection, file: Path, duebook: Run) -> None:
    with pytest.MonkeyPatch.context() as patch:
        real = connection.client.put_booking
        sent: list[str] = []

        def interrupted(booking_id: str, **given: Any) -> Any:
            if sent:
                raise KeyboardInterrupt
            sent.append(booking_id)
            return real(booking_id, **given)

        patch.setattr(connection.client, "put_booking", interrupted)
        told = duebook("import", file)
    assert told.exit == 130
    assert "kept" in told.told
    assert duebook("import", file, "--json").document["imported_before"] == 1
