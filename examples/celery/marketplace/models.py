"""The tables. `Booking.clock` is what the move adds: which of the two clocks may act on the booking."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Dialect, ForeignKey, String, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

PAID, CLOSED, PAID_OUT, CANCELLED = "paid", "closed", "paid_out", "cancelled"
CELERY, DUEBOOK = "celery", "duebook"
PAY_AFTER = timedelta(hours=27)
"""Three hours to complete the order, and a day in which the customer may dispute it."""


class Instant(TypeDecorator[datetime]):
    """An aware datetime, kept as UTC text of one width, so that the database sorts it."""

    impl = String(27)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        return None if value is None else value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


class Base(DeclarativeBase):
    type_annotation_map = {datetime: Instant}  # noqa: RUF012


class Booking(Base):
    """`version` grows by one with every change; SQLAlchemy refuses a change that was made from an older one."""

    __tablename__ = "booking"

    id: Mapped[str] = mapped_column(String(39), primary_key=True)
    event_end: Mapped[datetime]
    price_minor: Mapped[int]
    state: Mapped[str] = mapped_column(default=PAID)
    clock: Mapped[str] = mapped_column(default=CELERY, index=True)
    version: Mapped[int] = mapped_column()

    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


class Payout(Base):
    """One a booking, by its key: whatever fires twice, the second insert fails."""

    __tablename__ = "payout"

    booking_id: Mapped[str] = mapped_column(ForeignKey("booking.id"), primary_key=True)
    amount_minor: Mapped[int]
    decided_at: Mapped[datetime]
