"""Daily, and on demand after a deploy or a restore: every level compared with the one it derives from."""

import json
from datetime import datetime
from typing import Any

from duebook import wiring
from duebook.handlers.support import count, logger, metrics
from duebook.service import ledger
from duebook.service.codec import decode, encode
from duebook.service.reconcile import MOST_ROUNDS, Report, reconcile

MOST_DAYS = 7
"""Of the last closed days those without a file are compared with the provider, also when it was down meanwhile."""
ENOUGH_MS = 45_000
"""No new chunk is begun with less time left than this."""


def close_books(now: datetime) -> None:
    """The days that are over: closed, and compared with the provider.

    At the end of a run: what fails here never holds up the repair of jobs, and the next run does it.
    """
    try:
        ledger.close(wiring.bookings(), now)
        for day in ledger.unreconciled(wiring.bookings().table, MOST_DAYS):
            file = ledger.reconcile_day(wiring.bookings(), wiring.provider(), day)
            logger.info("day closed", extra={"day": file["day"], "differences": file["differences"]})
            count("LedgerDifferences", file["differences"])
    except Exception:
        logger.exception("the books were not closed")
        count("LedgerCloseFailed")


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """`{"state": …}` goes on with a run, anything else starts one; goes on by invoking itself until done."""
    now = wiring.utc_now()
    given = event.get("state")
    state = decode(Report, given) if given else Report(run=context.aws_request_id, started_at=now)
    state = reconcile(
        wiring.bookings(),
        wiring.schedules(),
        wiring.queues(),
        state,
        lambda: context.get_remaining_time_in_millis() > ENOUGH_MS,
    )
    logger.info("reconciled", extra={"run": state.run, "phase": state.phase, "differences": state.differences})
    if state.phase == "done":
        count("ReconcileDifferences", state.differences)
        count("Schedules", state.schedules_checked)
        close_books(now)
    elif state.rounds < MOST_ROUNDS:
        wiring.client("lambda").invoke(
            FunctionName=context.invoked_function_arn,
            InvocationType="Event",
            Payload=json.dumps({"state": encode(state)}).encode(),
        )
    else:
        logger.error("reconcile gave up", extra={"run": state.run, "rounds": state.rounds})
    return {"run": state.run, "phase": state.phase, "differences": state.differences}
