"""Before: each job is a Celery message with an `eta`, held by a worker for months.

What the move adds is one question, asked in the task's own transaction: is this booking still Celery's? A message that
comes late, twice, or out of a killed worker finds that it is not, and does nothing.
"""

from collections.abc import Callable
from datetime import datetime

from celery import Celery
from celery.result import AsyncResult
from sqlalchemy.orm import Session, sessionmaker

from .effects import CLOSE_EVENT, PAY_CHEF, act, jobs_for
from .models import CELERY, Booking


class Tasks:
    """The tasks `end_event` and `pay_chef` of one Celery app, on one database."""

    def __init__(self, app: Celery, sessions: sessionmaker[Session], now: Callable[[], datetime]) -> None:
        self._sessions = sessions
        self._now = now
        self._tasks = {
            job: app.task(name=f"marketplace.{job}", ignore_result=True)(self._task(job))
            for job in (CLOSE_EVENT, PAY_CHEF)
        }

    def schedule(self, booking: Booking) -> list[AsyncResult]:
        """What the marketplace did at every booking. Duebook's `put_job` takes its place."""
        return [self._tasks[job].apply_async((booking.id,), eta=run_at) for job, run_at in jobs_for(booking).items()]

    def fire(self, job: str, booking_id: str) -> str:
        """The task's body."""
        with self._sessions.begin() as session:
            booking = session.get(Booking, booking_id)
            if booking is None:
                return "ignored: there is no such booking"
            if booking.clock != CELERY:
                return f"ignored: {booking.clock} is this booking's clock"
            return act(session, booking, job, self._now())

    def _task(self, job: str) -> Callable[[str], str]:
        def task(booking_id: str) -> str:
            return self.fire(job, booking_id)

        return task
