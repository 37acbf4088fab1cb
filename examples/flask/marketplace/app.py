"""The web application, and the two workers as commands: `flask relay` and `flask consume`."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import botocore.session
import click
from flask import Flask, abort, jsonify, request
from flask.typing import ResponseReturnValue
from sqlalchemy import create_engine, event, select
from sqlalchemy.engine import Engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.orm.exc import StaleDataError
from werkzeug.exceptions import HTTPException

from duebook_client import Duebook, EventReader

from . import bookings
from .consumer import consume_once
from .models import Base, Booking, Mail
from .outbox import relay_once

DATABASE_URL = "sqlite:///marketplace.db"


def utc_now() -> datetime:
    return datetime.now(UTC)


def database(url: str) -> Engine:
    """The engine, with every table made and foreign keys checked."""
    engine = create_engine(url)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA foreign_keys = ON"))
    Base.metadata.create_all(engine)
    return engine


def create_app(sessions: sessionmaker[Session] | None = None, *, now: Callable[[], datetime] = utc_now) -> Flask:
    """The application. Without `sessions`, the database is DATABASE_URL's."""
    app = Flask(__name__)
    begin = sessions or sessionmaker(database(os.environ.get("DATABASE_URL", DATABASE_URL)), expire_on_commit=False)

    @app.post("/bookings")
    def book() -> ResponseReturnValue:
        given = _given("guest", "event_start")
        with begin.begin() as session:
            booking = bookings.book(session, given["guest"], _instant(given["event_start"]), now())
            return jsonify(_shown(session, booking)), 201

    @app.get("/bookings/<booking_id>")
    def show(booking_id: str) -> ResponseReturnValue:
        with begin() as session:
            return jsonify(_shown(session, _found(session, booking_id)))

    @app.post("/bookings/<booking_id>/move")
    def move(booking_id: str) -> ResponseReturnValue:
        given = _given("event_start")
        with begin.begin() as session:
            booking = _found(session, booking_id)
            bookings.move(session, booking, _instant(given["event_start"]), now())
            return jsonify(_shown(session, booking))

    @app.post("/bookings/<booking_id>/cancel")
    def cancel(booking_id: str) -> ResponseReturnValue:
        with begin.begin() as session:
            booking = _found(session, booking_id)
            bookings.cancel(session, booking, now())
            return jsonify(_shown(session, booking))

    @app.errorhandler(bookings.Refused)
    def refused(error: bookings.Refused) -> ResponseReturnValue:
        return jsonify(error=str(error)), 409

    @app.errorhandler(StaleDataError)
    def outrun(_: StaleDataError) -> ResponseReturnValue:
        return jsonify(error="someone else changed the booking at the same time; try again"), 409

    @app.errorhandler(HTTPException)
    def wrong(error: HTTPException) -> ResponseReturnValue:
        return jsonify(error=error.description), error.code or 500

    @app.cli.command("relay")
    @click.option("--limit", default=100, show_default=True)
    def relay(limit: int) -> None:
        """Bring what the outbox holds to Duebook, once."""
        with duebook() as client:
            click.echo(relay_once(begin, client, now, limit=limit))

    @app.cli.command("consume")
    @click.option("--most", default=100, show_default=True)
    def consume(most: int) -> None:
        """Deal with the events that are waiting, once."""
        reader = EventReader(botocore.session.get_session(), _setting("DUEBOOK_EVENTS_QUEUE_URL"), region=_region())
        click.echo(consume_once(begin, reader, now, most=most))

    return app


def duebook() -> Duebook:
    """The client, as the environment says: DUEBOOK_API_URL, AWS_REGION, and AWS credentials as botocore finds them."""
    return Duebook(_setting("DUEBOOK_API_URL"), region=_region())


def _region() -> str:
    return _setting("AWS_REGION")


def _setting(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise click.ClickException(f"set {name}")
    return value


def _given(*names: str) -> dict[str, str]:
    body = request.get_json()
    if not isinstance(body, dict) or not all(isinstance(body.get(name), str) for name in names):
        abort(422, f"give {' and '.join(names)} as text")
    return {name: body[name] for name in names}


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        abort(422, f"{text!r} is no ISO 8601 time")
    if instant.tzinfo is None:
        abort(422, f"{text!r} has no offset")
    return instant.astimezone(UTC)


def _found(session: Session, booking_id: str) -> Booking:
    booking = session.get(Booking, booking_id)
    if booking is None:
        abort(404, "there is no such booking")
    return booking


def _shown(session: Session, booking: Booking) -> dict[str, Any]:
    mails = session.scalars(select(Mail.kind).where(Mail.booking_id == booking.id).order_by(Mail.id)).all()
    return {
        "id": booking.id,
        "guest": booking.guest,
        "event_start": booking.event_start.isoformat(),
        "state": booking.state,
        "version": booking.version,
        "mails": list(mails),
    }
