"""`import FILE` and `import release`: take over bookings that exist elsewhere, their payouts held until released."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from typer.core import TyperGroup

from duebook_cli import options, words
from duebook_cli.bulk.booking_rows import COLUMNS, NEEDED, Arguments, booking_reader
from duebook_cli.bulk.calls import RATE, Calls, call_each
from duebook_cli.bulk.files import Refusal, Row, read_rows, write_refusals
from duebook_cli.bulk.journal import Journal
from duebook_cli.bulk.payout import is_past, payout_at, payout_minor
from duebook_cli.command import Run, command, error_document, facts, row, table
from duebook_cli.exits import Exit, Usage, exit_of_many
from duebook_client import Booking, DuebookError

RELEASED, IMPORTED = "released", "imported"
SHOWN = 20
"""Of many, so many are shown; the rest is in the file that is named."""
_EXPLAINED_JOB = "release_payment"


class FileOrCommand(TyperGroup):
    """`import FILE` is short for `import file FILE`; a file that is called like a command is given as `./release`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["file", *args]
        return super().parse_args(ctx, args)


def add_to(app: typer.Typer) -> None:
    imports = typer.Typer(
        name="import",
        cls=FileOrCommand,
        help="Take over bookings that exist elsewhere: `import FILE`, and when all is well `import release FILE`.",
        no_args_is_help=True,
    )
    command(imports, "file", needs=["bookings", "operations"], patient=True)(import_)
    command(imports, "release", needs=["bookings", "operations"], patient=True)(release)
    app.add_typer(imports)


def journal_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.import.jsonl")


def refused_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.refused.csv")


@dataclass(frozen=True, slots=True)
class Imported:
    """What the journal keeps of a booking that was taken over; `payout_at` None: no payout is ahead."""

    line: int
    row: str
    outcome: str
    state: str
    currency: str
    payout_at: str | None
    payout_minor: int
    past: bool


def import_(
    run: Run,
    file: options.InputFile,
    rate: options.Rate = RATE,
    skip_refused: Annotated[
        bool, typer.Option("--skip-refused", help="Import the good rows though others are refused.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check every row, and send nothing.")] = False,
) -> Exit:
    """Check every row, then take over each booking with its payout held. Killed, the same command goes on."""
    rows = read_rows(file, COLUMNS, NEEDED, booking_reader(run.now))
    if rows.number == 0:
        raise Usage(f"{file} has no rows, so there is nothing to import")
    with Journal(journal_of(file), kind="import", input=rows.digest, target=run.connection.url) as journal:
        refusals = [each for each in rows.refused if each.booking_id not in journal.entries]
        left = [each for each in rows.good if each.booking_id not in journal.entries]
        document: dict[str, Any] = {
            "file": str(file),
            "rows": rows.number,
            "dry_run": dry_run,
            "imported_before": len(journal.entries),
        }
        if journal.entries:
            run.say(f"{words.count(len(journal.entries), 'row')} were imported before, by {journal.path}.")
        if dry_run or (refusals and not skip_refused):
            return _not_sent(run, file, {**document, "good": len(left)}, refusals)
        return _import(run, file, document, left, refusals, journal, rate)


def release(
    run: Run,
    file: Annotated[
        Path | None, typer.Argument(exists=True, dir_okay=False, metavar="[FILE]", help="The file that was imported.")
    ] = None,
    booking: Annotated[list[str] | None, typer.Option(help="A booking's id, instead of FILE; again for more.")] = None,
    rate: options.Rate = RATE,
    reason: options.Reason = None,
    by: options.ByOperator = options.OPERATOR,
    yes: options.Yes = False,
) -> Exit:
    """Let the held payouts of an import go: those that are due already are paid at once."""
    if (file is None) == (not booking):
        raise Usage("give the FILE that was imported, or --booking for each booking to release")
    if file is None:
        return _release(run, booking or [], None, rate=rate, reason=reason, by=by, yes=yes)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    path, target = journal_of(file), run.connection.url
    with Journal(path, kind="import", input=digest, target=target, must_exist=True) as journal:
        left = [id_ for id_, each in _imported(journal).items() if each.outcome != RELEASED]
        return _release(run, left, journal, rate=rate, reason=reason, by=by, yes=yes)


def _not_sent(run: Run, file: Path, document: Mapping[str, Any], refusals: Sequence[Refusal]) -> Exit:
    _tell_refusals(run, file, refusals)
    refused = len({each.line for each in refusals})
    told = f"{words.count(document['rows'], 'row')}: {document['good']:,} good, {refused:,} refused. Nothing was sent."
    run.show({**document, "refused": [each.as_json() for each in refusals]}, told)
    if not refusals:
        return Exit.OK
    if not document["dry_run"]:
        run.say("Correct the file, or go on with the good rows by --skip-refused.")
    return Exit.FAILED


def _import(
    run: Run,
    file: Path,
    document: Mapping[str, Any],
    left: Sequence[Row[Arguments]],
    refusals: Sequence[Refusal],
    journal: Journal,
    rate: float,
) -> Exit:
    def send(row: Row[Arguments]) -> Booking:
        booking = run.client.put_booking(row.booking_id, hold_payout=True, **row.value)
        journal.append(row.booking_id, asdict(_entry(row, booking, run.now)))
        return booking

    calls = call_each(run, left, send, rate=rate, doing="Importing")
    refusals = [*refusals, *(Refusal.by_service(each, error) for each, error in calls.refused)]
    _tell_refusals(run, file, refusals)
    imported = _imported(journal)
    held = {id_: each for id_, each in imported.items() if each.outcome != RELEASED}
    past = [] if calls.stopped is not None else [id_ for id_, each in held.items() if each.past]
    due = [each for each in held.values() if each.payout_at and datetime.fromisoformat(each.payout_at) <= run.now]
    told = {
        **document,
        "imported": len(calls.done),
        "refused": [each.as_json() for each in refusals],
        "refused_file": str(refused_of(file)) if refusals else None,
        "journal": str(journal.path),
        "left": document["rows"] - len(imported) - len({each.line for each in refusals}),
        "payouts_due": {"count": len(due), "amounts": _sums((each.currency, each.payout_minor) for each in due)},
        "at_once": dict(_at_once(run, past, rate)),
        "stopped": None if calls.stopped is None else error_document(calls.stopped),
    }
    run.show(told, _summary(told))
    if calls.stopped is not None:
        run.say("The same command again goes on.")
    if held:
        run.say(f"Payouts are held until `duebook import release {file}`.")
    if not refusals and calls.stopped is None:
        return Exit.OK
    return Exit.PARTLY if imported else Exit.FAILED


def _entry(row: Row[Arguments], booking: Booking, now: datetime) -> Imported:
    at = payout_at(booking)
    return Imported(
        line=row.line,
        row=row.key,
        outcome=IMPORTED,
        state=booking.state,
        currency=booking.currency,
        payout_at=None if at is None else words.iso(at),
        payout_minor=payout_minor(booking),
        past=is_past(booking, row.value.get("state", "requested"), now),
    )


def _imported(journal: Journal) -> dict[str, Imported]:
    return {booking_id: Imported(**entry) for booking_id, entry in journal.entries.items()}


def _at_once(run: Run, booking_ids: Sequence[str], rate: float) -> Counter[str]:
    """What happened to them by itself since, or does at their next wake-up, by the type of its event."""

    def look(booking_id: str) -> set[str]:
        """What is to come is asked first: what is done in between is then in the history. Each happens once at most."""
        to_come = {step.type for step in run.client.explain(booking_id, _EXPLAINED_JOB).steps}
        return to_come | {each.type for each in run.client.history(booking_id) if each.due is not None}

    try:
        calls = call_each(run, booking_ids, look, rate=rate / 2, doing="Looking at what became due at once")
    except DuebookError as error:
        run.say(f"What became due at once is not known: {run.explained(error)}")
        return Counter()
    if calls.stopped is not None or calls.refused:
        run.say("Not all could be looked at: more became due at once than what is told.")
    return Counter(type_ for _, types in calls.done for type_ in types)


def _release(
    run: Run,
    booking_ids: Sequence[str],
    journal: Journal | None,
    *,
    rate: float,
    reason: str | None,
    by: Any,
    yes: bool,
) -> Exit:
    looked = call_each(run, booking_ids, run.client.booking, rate=rate, doing="Looking at what is held")
    if looked.stopped is not None:
        raise looked.stopped
    held = sorted((each for _, each in looked.done if each.raw.get("payout_held")), key=lambda each: each.booking_id)
    ours = {each.booking_id for each in held}

    def note(booking_id: str) -> None:
        if journal is not None:
            journal.append(booking_id, {**journal.entries[booking_id], "outcome": RELEASED})

    for booking_id, _ in looked.done:
        if booking_id not in ours:  # released by hand, or nothing is left to pay
            note(booking_id)
    others = sum(letter.booking_id not in ours for letter in run.client.dead_letters(kind="held"))
    due = [each for each in held if _will_pay(each) and (at := payout_at(each)) is not None and at <= run.now]
    _tell_held(run, held, due, others)
    calls: Calls[Booking, Booking] = Calls()
    if held:
        run.confirm(f"Release {words.count(len(held), 'booking')}?", yes=yes, number=len(held))

        def let_go(booking: Booking) -> Booking:
            released = run.client.release_payout(booking.booking_id, actor=by, reason=reason)
            note(booking.booking_id)
            return released

        calls = call_each(run, held, let_go, rate=rate, doing="Releasing")
    refused = [(id_, error) for id_, error in looked.refused] + [
        (each.booking_id, error) for each, error in calls.refused
    ]
    payable = [each for each, _ in calls.done if _will_pay(each)]
    document = {
        "released": sorted(each.booking_id for each, _ in calls.done),
        "not_held": len(looked.done) - len(held),
        "refused": [{"booking_id": id_, **error_document(error)} for id_, error in refused],
        "payouts": {"count": len(payable), "amounts": _payouts(payable)},
        "payouts_due": {"count": len(due), "amounts": _payouts(due)},
        "others_held": others,
        "stopped": None if calls.stopped is None else error_document(calls.stopped),
    }
    told = f"{words.count(len(calls.done), 'booking')} released"
    if calls.done:
        told += f"; {words.count(len(payable), 'payout')} to come"
    run.show(document, f"{told}: {words.sums(_payouts(payable))}" if payable else told)
    for id_, error in refused[:SHOWN]:
        run.say(f"{id_}: {error}")
    if calls.stopped is not None:
        run.say("The same command again goes on.")
    errors = [error for _, error in refused] + ([] if calls.stopped is None else [calls.stopped])
    return exit_of_many(len(calls.done), errors)


def _tell_held(run: Run, held: Sequence[Booking], due: Sequence[Booking], others: int) -> None:
    shown = table("booking", "state", "payout", "amount", right=["amount"])
    for each in held[:SHOWN]:
        amount = words.money(payout_minor(each), each.currency)
        row(shown, each.booking_id, each.state, run.when(payout_at(each)), amount)
    if held:
        run.messages.print(shown)
    if len(held) > SHOWN:
        run.say(f"and {len(held) - SHOWN:,} more")
    at_once = f", {len(due):,} of them due already: {words.sums(_payouts(due))} go at once" if due else ""
    run.say(f"{words.count(len(held), 'booking')} held{at_once}.")
    if others:
        run.say(f"{words.count(others, 'other booking')} held beside these, which are left alone.")


def _tell_refusals(run: Run, file: Path, refusals: Sequence[Refusal]) -> None:
    if not refusals:
        refused_of(file).unlink(missing_ok=True)
        return
    write_refusals(refused_of(file), refusals)
    shown = table("line", "booking", "field", "reason", right=["line"])
    for each in refusals[:SHOWN]:
        row(shown, each.line, each.booking_id, each.field, each.reason)
    run.messages.print(shown)
    more = f", {len(refusals) - SHOWN:,} more" if len(refusals) > SHOWN else ""
    run.say(f"Refused{more}: all are in {refused_of(file)}")


def _summary(document: dict[str, Any]) -> RenderableType:
    due = document["payouts_due"]
    at_once = ", ".join(f"{number:,} {type_}" for type_, number in sorted(document["at_once"].items()))
    return facts(
        imported=f"{document['imported']:,}",
        imported_before=f"{document['imported_before']:,}" if document["imported_before"] else None,
        refused=f"{len({each['line'] for each in document['refused']}):,}",
        not_tried=f"{document['left']:,}" if document["left"] else None,
        payouts_held_that_are_due=f"{due['count']:,}, {words.sums(due['amounts'])}",
        became_due_at_once=at_once or "nothing",
        journal=document["journal"],
    )


def _sums(amounts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Minor units by currency."""
    total: Counter[str] = Counter()
    for currency, amount in amounts:
        total[currency] += amount
    return dict(total)


def _will_pay(booking: Booking) -> bool:
    """Whether it has a payout to come as it stands: the customer has paid, and something is left for the chef."""
    return payout_at(booking) is not None and payout_minor(booking) > 0


def _payouts(bookings: Sequence[Booking]) -> dict[str, int]:
    return _sums((each.currency, payout_minor(each)) for each in bookings)
