"""The pages: each reads what it shows, an action is done and told on the page it came from."""

import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from duebook_cli.connect import Connection, caller
from duebook_cli.words import count, from_now, money
from duebook_client import BadArgument, Booking, Dispute, DuebookError, NoCredentials, NotManaged, Payouts
from duebook_client.models import read_dead_letter, read_dispute, read_history_entry
from duebook_console import reads, shown
from duebook_console.chart import WEEKS, charts
from duebook_console.guard import TOKEN, Guard, Locks
from duebook_console.problems import Problem, problem_of
from duebook_console.steps import steps
from duebook_console.timeline import line
from duebook_console.travel import Travel

WINDOWS: Final = {
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "90d": timedelta(days=90),
}
DISPUTES: Final = {
    "awaiting_chef": "waiting for the chef",
    "in_review": "waiting for a mediator",
    "needs_attention": "needing a person",
}
ATTENTION: Final = {
    "dead": "Dead letters",
    "needs_attention": "Payments and disputes that need a person",
    "in_review": "Disputes in review",
    "held": "Held payouts",
}
_OF_DUE: Final = ("window", "job", "after", "told")
JUMPS: Final = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
FEW = 20
"""Rows of a kind where several are on one page."""
HISTORY = 200
"""Entries of a booking's history on one page."""
_HERE = Path(__file__).parent
_JOB_NAME = r"[a-z0-9_]{1,24}"
_MOST_NOTICES = 50
_SOON = 0.3
"""Seconds: a journey that is over by then needs no progress."""


_TEMPLATES = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= {
    "clock": shown.clock,
    "count": count,
    "day": shown.day,
    "event": shown.event,
    "money": money,
    "told": shown.told,
    "what": shown.what,
    "when": shown.when,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What came of an action, told once on the page that follows it."""

    text: str
    problem: Problem | None = None


class Console:
    """All pages of one connection, for one operator."""

    def __init__(self, connection: Connection, locks: Locks) -> None:
        self.connection = connection
        self.client = connection.client
        self.travel = None if connection.clock is None else Travel(connection.clock)
        self._locks = locks
        self._notices: OrderedDict[str, Notice] = OrderedDict()

    @cached_property
    def who(self) -> str:
        """Asked once; a session that was renewed is still the same person."""
        try:
            return caller(self.connection.session)
        except NoCredentials as error:
            return f"nobody: {error}"

    # --- pages -----------------------------------------------------------------------------------------------------

    def due(self, request: Request) -> Response:
        for name in request.query_params:
            if name not in _OF_DUE:
                raise BadArgument(name, f"is not asked for here: {', '.join(_OF_DUE)}")
        window = request.query_params.get("window", "7d")
        job = request.query_params.get("job") or None
        if window not in WINDOWS:
            raise BadArgument("window", f"is one of {', '.join(WINDOWS)}")
        if job is not None and not re.fullmatch(_JOB_NAME, job):
            raise BadArgument("job", "is a job's name: a-z, 0-9 and _")
        now = self.connection.now()
        end = now + WINDOWS[window]
        page, by_job, payouts, switch = reads.together(
            lambda: reads.due(
                self.client, now - reads.OVERDUE, end, job=job, after=request.query_params.get("after") or None
            ),
            lambda: reads.counts(self.client, now - reads.OVERDUE, end),
            lambda: reads.counts(self.client, now, now + timedelta(weeks=WEEKS), job="release_payment"),
            self.client.payouts,
        )
        drawn = None
        if isinstance(payouts, reads.Counts):
            drawn = charts(((each.day, each.count, each.amounts) for each in payouts.days), now.date())
        return self._page(
            request,
            "due.html",
            title="Due",
            window=window,
            windows=WINDOWS,
            job=job,
            jobs=shown.JOBS,
            page=self._or_problem(page),
            first="after" not in request.query_params,
            by_job=self._or_problem(by_job),
            charts=self._or_problem(payouts) if drawn is None else drawn,
            counted_until=payouts.until if isinstance(payouts, reads.Counts) else None,
            switch=switch if isinstance(switch, Payouts) else None,
        )

    def bookings(self, request: Request) -> Response:
        wanted = request.query_params.get("id", "").strip()
        if wanted:
            return RedirectResponse(f"/bookings/{quote(wanted, safe='')}", status_code=303)
        return self._page(request, "bookings.html", title="Booking")

    def booking(self, request: Request) -> Response:
        booking_id: str = request.path_params["booking_id"]
        path = f"/bookings/{quote(booking_id, safe='')}/history"
        booking, jobs, history = reads.together(
            lambda: self.client.booking(booking_id),
            lambda: self.client.jobs(booking_id),
            lambda: reads.page_of(
                self.client,
                path,
                "history",
                read_history_entry,
                after=request.query_params.get("after") or None,
                limit=HISTORY,
            ),
        )
        for found in (booking, jobs, history):
            if isinstance(found, DuebookError) and not isinstance(found, NotManaged):
                raise found
        managed: Booking | None = None if isinstance(booking, NotManaged) else booking
        return self._page(
            request,
            "booking.html",
            title=f"Booking {booking_id}",
            booking_id=booking_id,
            booking=managed,
            held=managed is not None and managed.raw.get("payout_held") is True,
            dispute=None if managed is None else managed.raw.get("dispute"),
            states=shown.STATES,
            line=line(history.items, jobs, self.connection.now()),
            after=history.after,
            first="after" not in request.query_params,
            key=_fresh_key(),
        )

    def job(self, request: Request) -> Response:
        booking_id, job = request.path_params["booking_id"], request.path_params["job"]
        explanation = self.client.explain(booking_id, job)
        return self._page(
            request,
            "job.html",
            title=f"{job} of {booking_id}",
            explanation=explanation,
            verdict=shown.verdict(explanation.verdict, explanation.reason),
            can_redrive=explanation.row is not None or job.startswith("pay_"),
            key=_fresh_key(),
        )

    def disputes(self, request: Request) -> Response:
        kind = request.query_params.get("kind", "awaiting_chef")
        if kind not in DISPUTES:
            raise BadArgument("kind", f"is one of {', '.join(DISPUTES)}")
        page = reads.page_of(
            self.client,
            "/disputes",
            "disputes",
            read_dispute,
            query={"kind": kind},
            after=request.query_params.get("after") or None,
        )
        return self._page(request, "disputes.html", title="Disputes", kind=kind, kinds=DISPUTES, page=page)

    def dispute(self, request: Request) -> Response:
        dispute_id: str = request.path_params["dispute_id"]
        dispute, history = reads.together(
            lambda: self.client.dispute(dispute_id), lambda: self.client.dispute_history(dispute_id)
        )
        if isinstance(dispute, DuebookError):
            raise dispute
        assert isinstance(dispute, Dispute)
        entries = () if isinstance(history, DuebookError) else history.entries
        return self._page(
            request,
            "dispute.html",
            title=f"Dispute {dispute_id}",
            dispute=dispute,
            console_url=_aws_console(dispute.console_url),
            steps=steps(dispute, entries),
            history=self._or_problem(history),
        )

    def attention(self, request: Request) -> Response:
        kind = request.query_params.get("kind") or None
        if kind is not None and kind not in ATTENTION:
            raise BadArgument("kind", f"is one of {', '.join(ATTENTION)}")
        after = request.query_params.get("after") or None
        kinds = list(ATTENTION) if kind is None else [kind]
        limit = FEW if kind is None else reads.PAGE
        *pages, switch = reads.together(*(self._attention(each, after, limit) for each in kinds), self.client.payouts)
        return self._page(
            request,
            "attention.html",
            title="Attention",
            kinds=ATTENTION,
            sections=[(each, self._or_problem(page)) for each, page in zip(kinds, pages, strict=True)],
            only=kind,
            switch=switch if isinstance(switch, Payouts) else None,
            job_of_payment=shown.job_of_payment,
            booking_of_dispute=shown.booking_of_dispute,
        )

    def _attention(self, kind: str, after: str | None, limit: int) -> Callable[[], reads.Page[Any]]:
        if kind == "in_review":
            return lambda: reads.page_of(
                self.client, "/disputes", "disputes", read_dispute, query={"kind": kind}, after=after, limit=limit
            )
        return lambda: reads.page_of(
            self.client,
            "/dead-letters",
            "dead_letters",
            read_dead_letter,
            query={"kind": kind},
            after=after,
            limit=limit,
        )

    # --- actions ---------------------------------------------------------------------------------------------------

    def redrive(self, request: Request) -> Response:
        booking_id, job = request.path_params["booking_id"], request.path_params["job"]
        form: dict[str, str] = request.state.form

        def act() -> str:
            done = self.client.redrive(
                booking_id, job, reason=_reason(form), idempotency_key=form.get("idempotency_key") or None
            )
            if done.status == "done":
                return f"{job} of {booking_id} was due, and is done."
            return f"{job} of {booking_id} is {done.status} again, for {shown.when(done.run_at)}."

        return self._acted(f"/bookings/{booking_id}/jobs/{job}", act)

    def release(self, request: Request) -> Response:
        booking_id = request.path_params["booking_id"]
        form: dict[str, str] = request.state.form

        def act() -> str:
            self.client.release_payout(booking_id, reason=_reason(form))
            return f"The payout of {booking_id} is held no longer: it goes at its instant."

        return self._acted(f"/bookings/{booking_id}", act)

    def move_time(self, request: Request) -> Response:
        """The form of the time bar, on the embedded AWS alone."""
        form: dict[str, str] = request.state.form
        travel = self.travel
        if travel is None:
            raise HTTPException(404)
        try:
            to = form.get("to", "")
            if to == "next":
                travel.to_next()
            elif to in JUMPS:
                travel.by(JUMPS[to])
            elif to == "instant":
                travel.by(_instant(form.get("instant", "")) - self.connection.now())
            else:
                raise BadArgument("to", "is one of the bar's buttons")
            travel.wait(_SOON)
        except (BadArgument, OSError) as error:
            return self._told(_back(form.get("back", "/")), Notice(text="", problem=self.problem(error)))
        return RedirectResponse(_back(form.get("back", "/")), status_code=303)

    def time(self, request: Request) -> Response:
        """How far the journey is, for the page's script."""
        if self.travel is None:
            raise HTTPException(404)
        journey = self.travel.journey
        return JSONResponse({"moving": journey.moving, "now": shown.when(self.connection.now()), "told": journey.told})

    def _acted(self, page: str, act: Callable[[], str]) -> Response:
        try:
            notice = Notice(text=act())
        except DuebookError as error:
            notice = Notice(text="", problem=self.problem(error))
        return self._told(page, notice)

    def _told(self, page: str, notice: Notice) -> Response:
        """To the page, which tells it. The address carries a number, never the text."""
        number = secrets.token_hex(8)
        self._notices[number] = notice
        while len(self._notices) > _MOST_NOTICES:
            self._notices.popitem(last=False)
        return RedirectResponse(page + ("&" if "?" in page else "?") + urlencode({"told": number}), status_code=303)

    # --- what every page has -----------------------------------------------------------------------------------------

    def problem(self, error: Exception) -> Problem:
        return problem_of(error, self.connection)

    def failed(self, request: Request, error: Exception) -> Response:
        """The whole page is what went wrong."""
        problem = self.problem(error)
        return self._page(request, "problem.html", status=problem.status, title=problem.title, problem=problem)

    def missing(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        problem = Problem(
            title="There is no such page", what_to_do="Choose one above.", detail=request.url.path, status=status
        )
        return self._page(request, "problem.html", status=status, title=problem.title, problem=problem)

    def _or_problem(self, found: Any) -> Any:
        return self.problem(found) if isinstance(found, Exception) else found

    def _page(self, request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
        now, upcoming, unreachable = self._time()
        back = request.url.path if request.method == "GET" else "/"
        kept = [(name, value) for name, value in request.query_params.multi_items() if name not in ("told", "after")]
        values |= {
            "back": back + (f"?{urlencode(kept)}" if kept else ""),
            "connection": self.connection,
            "now": now,
            "relative": lambda at: from_now(at, now),
            "journey": self.travel.tell() if self.travel else None,
            "is_prod": (self.connection.env or "").lower().startswith("prod"),
            "is_problem": lambda value: isinstance(value, Problem),
            "notice": self._notices.pop(request.query_params.get("told", ""), None),
            "path": request.url.path,
            "token_name": TOKEN,
            "token": self._locks.token,
            "travel": self.travel,
            "unreachable": unreachable,
            "upcoming": upcoming,
            "who": self.who,
        }
        return HTMLResponse(_TEMPLATES.get_template(template).render(values), status_code=status)

    def _time(self) -> tuple[datetime, datetime | None, bool]:
        """Now, the next instant with work where time can be moved, and whether it could not be asked."""
        if self.travel is None:
            return self.connection.now(), None, False
        try:
            return self.connection.now(), self.travel.clock.upcoming(), False
        except OSError:
            return datetime.now(UTC), None, True


def create_app(connection: Connection, locks: Locks) -> Starlette:
    """The ASGI application. It is for one operator, at `http://127.0.0.1:<locks.port>`."""
    console = Console(connection, locks)
    routes: Sequence[Route | Mount] = (
        Route("/", lambda request: RedirectResponse("/due", status_code=303)),
        Route("/due", console.due),
        Route("/bookings", console.bookings),
        Route("/bookings/{booking_id}", console.booking),
        Route("/bookings/{booking_id}/release-payout", console.release, methods=["POST"]),
        Route("/bookings/{booking_id}/jobs/{job}", console.job),
        Route("/bookings/{booking_id}/jobs/{job}/redrive", console.redrive, methods=["POST"]),
        Route("/disputes", console.disputes),
        Route("/disputes/{dispute_id}", console.dispute),
        Route("/attention", console.attention),
        Route("/time", console.time),
        Route("/time", console.move_time, methods=["POST"]),
        Mount("/static", StaticFiles(directory=_HERE / "static")),
    )
    return Starlette(
        routes=list(routes),
        middleware=[Middleware(Guard, locks)],
        exception_handlers={DuebookError: console.failed, OSError: console.failed, HTTPException: console.missing},
    )


def _fresh_key() -> str:
    """An Idempotency-Key for a form: sent twice, it takes effect once."""
    return f"console-{secrets.token_hex(12)}"


def _reason(form: dict[str, str]) -> str:
    reason = form.get("reason", "").strip()
    if not reason:
        raise BadArgument("reason", "say why: it is kept in the booking's history")
    return reason


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise BadArgument("instant", "give a date and time, such as 2026-11-14T12:00 (UTC)") from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _back(page: str) -> str:
    """A page of ours, whatever the form says."""
    parts = urlsplit(page)
    if parts.scheme or parts.netloc or not page.startswith("/") or page.startswith(("//", "/\\")):
        return "/"
    return page


def _aws_console(url: str | None) -> str | None:
    """A link that is shown only if it leads to AWS's console."""
    parts = urlsplit(url or "")
    host = parts.hostname or ""
    known = host.endswith((".console.aws.amazon.com", ".console.amazonaws.cn")) or host == "console.aws.amazon.com"
    return url if parts.scheme == "https" and known else None
