"""`dead list|explain|redrive`: what needs a person, why, and once more."""

from itertools import chain
from typing import Annotated, Any

import typer

from duebook_cli import arguments, options, words
from duebook_cli.bulk.calls import RATE, call_each
from duebook_cli.command import Run, command, error_document, facts, group, row, table
from duebook_cli.exits import Exit, Usage
from duebook_client import DeadLetter, Job

KINDS = ("dead", "needs_attention", "outbox", "held")
WATCH_DISPUTE = "watch_dispute"

Target = Annotated[
    Any,  # (booking_id, job): a parsed tuple would be two arguments
    typer.Argument(parser=options.parsed(arguments.job_of), metavar="BOOKING/JOB", help="As `dead list` shows it."),
]


def add_to(app: typer.Typer) -> None:
    dead = group("dead", "What needs a person: see it, explain it, redrive it.")
    command(dead, "list", needs=["operations"])(list_)
    command(dead, "explain", needs=["operations"])(explain)
    command(dead, "redrive", needs=["operations"], patient=True)(redrive)
    app.add_typer(dead)


def list_(
    run: Run,
    kind: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(KINDS)}; again for more.", show_default="the first two")
    ] = None,
) -> None:
    """Dead jobs and whatever else waits for a person, the longest waiting first."""
    kinds = kind or list(KINDS[:2])
    for each in kinds:
        if each not in KINDS:
            raise Usage(f"--kind: {each!r} is none of {', '.join(KINDS)}")
    found = list(chain.from_iterable(run.client.dead_letters(kind=each) for each in kinds))
    shown = table("kind", "what", "since", "attempts", "amount", "reason", right=["attempts", "amount"])
    for letter in found:
        row(shown, letter.kind, _name(letter), run.when(letter.since), letter.attempts, _amount(letter), letter.reason)
    run.show({"kinds": kinds, "dead_letters": [each.raw for each in found]}, *([shown] if found else []))
    told = (f"{sum(letter.kind == each for letter in found):,} {each}" for each in kinds)
    run.say(", ".join(told))


def explain(run: Run, target: Target) -> None:
    """What would be decided about a job now, and why, without doing it."""
    booking_id, job = target
    told = run.client.explain(booking_id, job)
    steps = table("would happen", "planned", "reason")
    for step in told.steps:
        row(steps, step.type, run.when(step.at), step.reason)
    waiting = f"{told.next_job}, {run.when(told.next_run_at)}" if told.next_job else None
    summary = facts(
        job=f"{booking_id}/{job}",
        state=told.state,
        verdict=told.verdict,
        why=told.reason,
        status=told.row.status if told.row else "there is no such job",
        attempts=told.row.attempts or None if told.row else None,
        last_failure=told.row.reason if told.row else None,
        then=waiting,
    )
    run.show({"explanation": told.raw}, summary, *([steps] if told.steps else []))


def redrive(
    run: Run,
    targets: Annotated[
        list[Any] | None,
        typer.Argument(
            parser=options.parsed(arguments.job_of), metavar="[BOOKING/JOB]...", help="As `dead list` shows."
        ),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every dead job; their number has to be confirmed.")] = False,
    reason: options.Reason = None,
    by: options.ByOperator = options.OPERATOR,
    yes: options.Yes = False,
) -> Exit:
    """Wake dead jobs now, each under a new generation, so that what is still under way for the old one is void."""
    if bool(targets) == all_:
        raise Usage("name what to redrive (BOOKING/JOB ..., from `duebook dead list`), or give --all")
    selected: list[tuple[str, str]] = targets or []
    if all_:
        letters = list(run.client.dead_letters(kind="dead"))
        selected = [(each.booking_id, each.job) for each in letters if each.booking_id and each.job]
        unreadable = len(letters) - len(selected)
        if unreadable:
            run.say(f"{words.count(unreadable, 'message')} that nobody could read belong to no job, and stay.")
        if selected:
            run.confirm(f"Redrive {words.count(len(selected), 'dead job')}?", yes=yes, number=len(selected))
        else:
            run.say("No job is dead.")

    def wake(target: tuple[str, str]) -> Job:
        return run.client.redrive(*target, actor=by, reason=reason)

    calls = call_each(run, selected, wake, rate=RATE, doing="Redriving")
    refused = [(f"{booking_id}/{job}", error) for (booking_id, job), error in calls.refused]
    document = {
        "redriven": [each.raw for _, each in calls.done],
        "refused": [{"job": name, **error_document(error)} for name, error in refused],
        "stopped": None if calls.stopped is None else error_document(calls.stopped),
    }
    shown = table("redriven", "status", "run at")
    for _, each in calls.done:
        row(shown, f"{each.booking_id}/{each.job}", each.status, run.when(each.run_at))
    run.show(document, *([shown] if calls.done else []))
    for name, error in refused:
        run.say(f"{name}: {error}")
    if selected:
        run.say(f"{len(calls.done):,} of {words.count(len(selected), 'job')} redriven")
    return calls.exit


def _name(letter: DeadLetter) -> str:
    """`BOOKING/JOB` where it can be redriven."""
    if letter.booking_id is None:
        return f"message {letter.raw.get('message_id', '')}"
    job = letter.job
    if job is None and letter.payment_id is not None:
        job = f"pay_{letter.payment_id.rpartition('.p')[2]}"
    if job is None and letter.dispute_id is not None:
        job = WATCH_DISPUTE
    return letter.booking_id if job is None else f"{letter.booking_id}/{job}"


def _amount(letter: DeadLetter) -> str | None:
    amount, currency = letter.raw.get("amount_minor"), letter.raw.get("currency")
    return words.money(amount, currency) if isinstance(amount, int) and isinstance(currency, str) else None
