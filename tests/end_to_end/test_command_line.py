"""The real `duebook` command against the embedded AWS, also killed halfway through an import."""

import csv
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duebook_client import Actor
from local.world import World, schedule_instant
from tests.end_to_end.conftest import PRICE, Book, only_payment, whole_minute

DUEBOOK = Path(sys.executable).with_name("duebook")
DAY = timedelta(days=1)
ROWS, LATE, KILLED_AFTER = 12, 3, 4
SHARE = PRICE - PRICE // 10


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """This process's, without what would choose another Duebook or other credentials."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DUEBOOK_"))}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **own}


def start(arguments: Sequence[object], own: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [DUEBOOK, *map(str, arguments)],
        env=environment(own or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(world: World, *arguments: object, exit_code: int = 0) -> Any:
    """The document that a command answers."""
    with start([*arguments, "--port", world.aws.port, "--json"]) as process:
        out, told = process.communicate(timeout=120)
    assert process.returncode == exit_code, told
    return json.loads(out)


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def file(world: World, booking_id: str, tmp_path: Path) -> Path:
    """Paid bookings of another system: the payouts of the first few are due already."""
    now = world.now().replace(microsecond=0)
    rows = [
        {
            "booking_id": f"{booking_id}-{number}",
            "customer_id": "customer-1",
            "chef_id": "chef-1",
            "event_start": (now - 5 * DAY if number < LATE else now + 300 * DAY).isoformat(),
            "price_minor": PRICE,
            "currency": "EUR",
            "state": "paid",
            "paid_at": (now - 30 * DAY).isoformat(),
            "captured_minor": PRICE,
            "charge_ref": f"charge-{booking_id}-{number}",
        }
        for number in range(ROWS)
    ]
    return write(tmp_path / "bookings.csv", rows)


def test_an_import_that_is_killed_goes_on_and_nothing_happens_twice_or_never(
    world: World, booking_id: str, file: Path
) -> None:
    ids = [f"{booking_id}-{number}" for number in range(ROWS)]
    journal = file.with_name("bookings.csv.import.jsonl")

    def lines() -> int:
        return journal.read_bytes().count(b"\n") if journal.exists() else 0

    with start(["import", file, "--rate", 8, "--port", world.aws.port]) as process:
        assert world.wait(lambda: lines() > KILLED_AFTER)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert KILLED_AFTER < lines() < ROWS

    told = run(world, "import", file)
    assert told["imported_before"] >= KILLED_AFTER
    assert told["imported"] + told["imported_before"] == ROWS
    assert told["payouts_due"] == {"count": LATE, "amounts": {"EUR": LATE * SHARE}}
    assert told["at_once"] == {"booking.event_closed": LATE, "booking.completed": LATE}
    world.settle()
    world.inbox.read()
    for each in ids:
        assert [entry.type for entry in world.client.history(each)].count("booking.requested") == 1
        assert Counter(event.type for event in world.inbox.of(each))["booking.requested"] == 1
        assert world.client.booking(each).raw["payout_held"]
        assert world.client.payments(each) == []

    released = run(world, "import", "release", file, "--yes")
    assert released["released"] == sorted(ids)
    assert released["payouts_due"] == {"count": LATE, "amounts": {"EUR": LATE * SHARE}}
    world.settle()
    world.inbox.read()
    for each in ids[:LATE]:
        payment = only_payment(world, each)
        assert (payment.kind, payment.status, payment.amount_minor, payment.attempt) == ("payout", "done", SHARE, 1)
        assert Counter(event.type for event in world.inbox.of(each))["booking.paid_out"] == 1
    assert {f"release_payment-{each}" for each in ids[LATE:]} <= world.schedules().keys()
    for each in ids[LATE:]:
        assert world.client.payments(each) == []
        world.client.cancel(each, actor=Actor("operator"))
    world.settle()


def test_many_events_are_moved_from_a_file_after_a_look_at_what_moves(
    world: World, booking_id: str, book: Book, tmp_path: Path
) -> None:
    ids = [f"{booking_id}-{number}" for number in range(2)]
    for each in ids:
        book(each)
    then = whole_minute(world.now() + 90 * DAY)
    file = write(
        tmp_path / "moves.csv",
        [{"booking_id": each, "event_start": then.isoformat(), "reason": "snow"} for each in ids],
    )
    before = {each: world.schedules_of(each) for each in ids}
    plan = run(world, "move", "--from", file, "--dry-run")["plan"]
    assert {each: world.schedules_of(each) for each in ids} == before
    assert run(world, "move", "--from", file, "--yes")["moved"] == len(ids)
    world.settle()
    for planned in plan:
        jobs = {job.job: job for job in world.client.jobs(planned["booking_id"])}
        told = {job["job"]: job["then"] for job in planned["jobs"]}
        assert told == {name: job.run_at.isoformat().replace("+00:00", "Z") for name, job in jobs.items()}
        assert world.schedules_of(planned["booking_id"]) == {name: schedule_instant(job) for name, job in jobs.items()}
    for each in ids:
        world.client.cancel(each, actor=Actor("operator"))
    world.settle()


def test_a_job_is_put_seen_explained_and_reached_by_the_clock(world: World, booking_id: str) -> None:
    run(world, "job", "put", booking_id, "remind", "--in", "6h", "--payload", '{"mail": 4}')
    found = run(world, "due", "--within", "1d", "--job", "remind")["jobs"]
    assert booking_id in {each["booking_id"] for each in found}
    explained = run(world, "dead", "explain", f"{booking_id}/remind")["explanation"]
    assert (explained["verdict"], explained["steps"]) == ("waits", [])
    assert run(world, "clock", "advance", "7h")["moved"]
    world.inbox.read()
    (fired,) = [event for event in world.inbox.of(booking_id) if event.type == "job.due"]
    assert fired.payload == {"mail": 4}
    assert run(world, "booking", "show", booking_id)["jobs"] == []
    assert run(world, "booking", "show", f"{booking_id}-nobody", exit_code=3)["error"]["code"] == "not_found"


def test_who_may_only_schedule_is_told_which_policy_pausing_takes(world: World) -> None:
    key = world.user("command-line", "Schedules").get_credentials()
    assert key is not None
    own = {**world.aws.env, "AWS_ACCESS_KEY_ID": key.access_key, "AWS_SECRET_ACCESS_KEY": key.secret_key}
    with start(["pause", "payouts", "--url", world.url], own) as process:
        out, told = process.communicate(timeout=60)
    assert (process.returncode, out) == (6, "")
    assert "user/command-line may not do this" in told
    assert "OperationsPolicyArn" in told
    assert "Traceback" not in told
    with start(["due", "--url", world.url, "--json"], own) as process:
        out, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    assert not world.client.payouts().paused
