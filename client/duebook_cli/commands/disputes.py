"""`dispute list|show|decide`: what waits for a mediator, and the decision."""

from typing import Annotated, Literal, cast, get_args

import typer
from rich.console import RenderableType

from duebook_cli import options, words
from duebook_cli.command import Run, command, facts, group, row, table
from duebook_cli.exits import Usage
from duebook_client import Actor, Dispute

DisputeId = Annotated[str, typer.Argument(metavar="DISPUTE", help="The dispute's id, such as wedding-1.d1.")]

Kind = Literal["in_review", "needs_attention", "awaiting_chef"]

_KINDS = get_args(Kind)


def add_to(app: typer.Typer) -> None:
    disputes = group("dispute", "See disputes, and decide them.")
    command(disputes, "list", needs=["disputes"])(list_)
    command(disputes, "show", needs=["disputes"])(show)
    command(disputes, "decide", needs=["disputes"])(decide)
    app.add_typer(disputes)


def list_(run: Run, kind: Annotated[str, typer.Option(help=", ".join(_KINDS))] = "in_review") -> None:
    """Disputes that wait for someone, the longest first."""
    if kind not in _KINDS:
        raise Usage(f"--kind: {kind!r} is none of {', '.join(_KINDS)}")
    found = list(run.client.disputes(cast(Kind, kind)))
    shown = table("dispute", "status", "opened", "until", "claimed", "reason", right=["claimed"])
    for each in found:
        claimed = words.money(each.claimed_minor, each.currency)
        row(
            shown, each.dispute_id, each.status, run.when(each.opened_at), run.when(each.deadline), claimed, each.reason
        )
    run.show({"kind": kind, "disputes": [each.raw for each in found]}, *([shown] if found else []))
    run.say(f"{words.count(len(found), 'dispute')} {kind.replace('_', ' ')}")


def show(run: Run, dispute_id: DisputeId) -> None:
    """A dispute as it stands, and its timeline."""
    dispute, history = run.client.dispute(dispute_id), run.client.dispute_history(dispute_id)
    timeline = table("when", "what", "from")
    for each in history.entries:
        source = each.source if each.run is None else f"{each.source} {each.run}"
        row(timeline, words.instant(each.at) if each.at else None, each.text, source)
    document = {"dispute": dispute.raw, "history": [each.raw for each in history.entries]}
    run.show(document, _facts(run, dispute), "", timeline)


def decide(
    run: Run,
    dispute_id: DisputeId,
    refund_minor: Annotated[int, typer.Option(min=0, help="What the customer gets back, in minor units.")],
    mediator: Annotated[str, typer.Option(help="The mediator's opaque id; an appeal takes another one.")],
    reason: Annotated[str, typer.Option(help="Why, for both parties.")],
    yes: options.Yes = False,
) -> None:
    """Decide a dispute: it is settled by this, once."""
    dispute = run.client.dispute(dispute_id)
    refund = words.money(refund_minor, dispute.currency)
    claimed = words.money(dispute.claimed_minor, dispute.currency)
    run.confirm(f"Decide {dispute_id}: {refund} of the {claimed} claimed go back to the customer?", yes=yes)
    decided = run.client.decide(dispute_id, actor=Actor("mediator", mediator), refund_minor=refund_minor, reason=reason)
    run.show({"dispute": decided.raw}, _facts(run, decided))
    run.say("Decided." if decided.applied is not False else "It was decided so already.")


def _facts(run: Run, dispute: Dispute) -> RenderableType:
    def amount(minor: int | None) -> str | None:
        return None if minor is None else words.money(minor, dispute.currency)

    return facts(
        dispute=dispute.dispute_id,
        booking=dispute.booking_id,
        status=dispute.status,
        until=run.when(dispute.deadline) if dispute.deadline else None,
        opened=run.when(dispute.opened_at),
        claimed=amount(dispute.claimed_minor),
        reason=dispute.reason,
        text=dispute.text,
        reply=dispute.reply,
        reply_text=dispute.reply_text,
        offer=amount(dispute.offer_minor),
        offer_answer=dispute.offer_answer,
        refund=amount(dispute.refund_minor),
        decided_by=dispute.decided_by,
        decision_reason=dispute.decision_reason,
        console=dispute.console_url,
    )
