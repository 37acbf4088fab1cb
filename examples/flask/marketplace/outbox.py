"""The relay: brings the outbox to Duebook. It may die at any point, run twice at once, or come late.

Nothing is lost, because a row stays until it is marked. Nothing happens twice or in the wrong order, because every call
carries the booking's version as its `revision`: Duebook ignores one that it has seen or that is older than what it
knows.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker

from duebook_client import Conflict, Duebook, Invalid, Throttled, Unavailable

from .models import Outbox

VERSION_CONFLICT = "version_conflict"

_logger = logging.getLogger(__name__)


@dataclass
class Relayed:
    """What one pass did. `waiting`: rows of this pass left for the next; `trouble`: why it stopped early."""

    sent: int = 0
    refused: int = 0
    waiting: int = 0
    trouble: str | None = None


def relay_once(
    sessions: sessionmaker[Session], duebook: Duebook, now: Callable[[], datetime], *, limit: int = 100
) -> Relayed:
    """Send the oldest `limit` rows at most, each booking's in order; no transaction is open while Duebook is called.

    If Duebook is away the pass stops, and the next one starts where it stopped. A row that Duebook refuses for good is
    marked with the reason, for a person to see, and holds up nobody.
    """
    with sessions() as session:
        rows = session.scalars(select(Outbox).where(Outbox.outcome.is_(None)).order_by(Outbox.id).limit(limit)).all()
    relayed, held_up = Relayed(), set[str]()
    for position, row in enumerate(rows):
        if row.booking_id in held_up:
            relayed.waiting += 1
            continue
        try:
            outcome = send(duebook, row)
            relayed.sent += 1
        except (Throttled, Unavailable) as error:
            relayed.waiting += len(rows) - position
            relayed.trouble = str(error)
            return relayed
        except (Conflict, Invalid) as error:
            if error.code == VERSION_CONFLICT:
                held_up.add(row.booking_id)
                relayed.waiting += 1
                continue
            outcome = f"refused: {error}"
            relayed.refused += 1
            _logger.error("outbox row %s of booking %s was refused: %s", row.id, row.booking_id, error)
        _mark(sessions, row, outcome, now())
    return relayed


def send(duebook: Duebook, row: Outbox) -> str:
    """Send one row; the same row is the same request every time. Raises what the client raises."""
    if row.run_at is None:
        change = duebook.delete_job(row.booking_id, row.job, revision=row.version)
    else:
        change = duebook.put_job(row.booking_id, row.job, row.run_at, payload=row.payload, revision=row.version)
    return "applied" if change.applied else "stale"


def _mark(sessions: sessionmaker[Session], row: Outbox, outcome: str, now: datetime) -> None:
    """Whoever marks first wins; another relay's mark stays."""
    with sessions.begin() as session:
        session.execute(
            update(Outbox).where(Outbox.id == row.id, Outbox.outcome.is_(None)).values(outcome=outcome, sent_at=now)
        )
