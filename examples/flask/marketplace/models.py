"""The tables. The booking's row here is the truth; everything at Duebook follows from it."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, Dialect, ForeignKey, String, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

BOOKED = "booked"
CANCELLED = "cancelled"


class Instant(TypeDecorator[datetime]):
    """An aware datetime, kept as UTC text of one width, so that the database sorts it. Naive ones are refused."""

    impl = String(27)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"naive datetime {value!r}")
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


class Base(DeclarativeBase):
    type_annotation_map = {datetime: Instant, dict[str, Any]: JSON}  # noqa: RUF012


class Booking(Base):
    """`version` grows by one with every change; SQLAlchemy refuses a change that was made from an older one."""

    __tablename__ = "booking"

    id: Mapped[str] = mapped_column(String(39), primary_key=True)
    guest: Mapped[str]
    event_start: Mapped[datetime]
    state: Mapped[str] = mapped_column(default=BOOKED)
    version: Mapped[int] = mapped_column()

    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


class Outbox(Base):
    """One call that Duebook still has to get: a PUT of the job at `run_at`, or a DELETE where there is none.

    Written in the transaction of the change that asks for it. `version`: the booking's then, sent as the revision.
    `outcome`: None until it is sent; then applied, stale (Duebook knows a newer one), or why it was refused.
    """

    __tablename__ = "outbox"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    booking_id: Mapped[str] = mapped_column(ForeignKey("booking.id"))
    job: Mapped[str]
    version: Mapped[int]
    run_at: Mapped[datetime | None]
    payload: Mapped[dict[str, Any]]
    outcome: Mapped[str | None] = mapped_column(index=True)
    sent_at: Mapped[datetime | None]


class SeenEvent(Base):
    """An event that was dealt with, and how; written in the transaction that dealt with it."""

    __tablename__ = "seen_event"

    id: Mapped[str] = mapped_column(primary_key=True)
    decision: Mapped[str]
    seen_at: Mapped[datetime]


class Mail(Base):
    """A mail to send: a row, so that it is decided in the same transaction as everything else."""

    __tablename__ = "mail"

    id: Mapped[int] = mapped_column(primary_key=True)
    booking_id: Mapped[str] = mapped_column(ForeignKey("booking.id"))
    kind: Mapped[str]
    guest: Mapped[str]
