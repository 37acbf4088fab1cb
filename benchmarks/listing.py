"""What a listing reads: `GET /jobs` through the due index, with few and with very many pending jobs."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from duebook.adapters.table import DynamoTable, to_image
from duebook.domain.booking import Planned
from duebook.domain.names import LIFECYCLE_JOBS
from duebook.service import queries, rows
from local.emulator import EmbeddedAws

TABLE = "bench-bookings"
INDEXES = ("due", "attention")
FEW, MANY = 10, 100_000
SPREAD = timedelta(days=365)
"""Over which the many jobs are due."""
PAGE = 100
_TOLD_EVERY = 500
_BATCH = 25
"""Rows in a BatchWriteItem at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One call of GET /jobs: pages and index queries it took, and what DynamoDB counted."""

    what: str
    pending: int
    queries: int
    scanned: int
    count: int
    returned: int

    @property
    def passes(self) -> bool:
        """Nothing is read and thrown away by a filter."""
        return self.scanned == self.count


def make_table(dynamodb: Any) -> None:
    """The table and its indexes, as stacks/components/storage.py has them (but for what the indexes project)."""
    names = ("pk", "sk", *(f"{index}_{part}" for index in INDEXES for part in ("pk", "sk")))
    dynamodb.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
        KeySchema=_keys("pk", "sk"),
        GlobalSecondaryIndexes=[
            {
                "IndexName": index,
                "KeySchema": _keys(f"{index}_pk", f"{index}_sk"),
                "Projection": {"ProjectionType": "ALL"},
            }
            for index in INDEXES
        ],
    )


def measure(step: Callable[[str], None]) -> list[Reading]:
    """The same window with few and with many pending jobs, then a busy one. `step` is told what is done."""
    with EmbeddedAws(auth=False, travel=False) as aws:
        dynamodb: Any = aws.session().client("dynamodb")
        make_table(dynamodb)
        table = DynamoTable(dynamodb, TABLE)
        seen = {"queries": 0, "scanned": 0, "count": 0}

        def look(parsed: dict[str, Any], **_: Any) -> None:
            seen["queries"] += 1
            seen["scanned"] += parsed["ScannedCount"]
            seen["count"] += parsed["Count"]

        dynamodb.meta.events.register("after-call.dynamodb.Query", look)

        def read(what: str, pending: int, start: datetime, length: timedelta) -> Reading:
            seen.update(queries=0, scanned=0, count=0)
            page = queries.due(table, start, start + length, limit=PAGE)
            return Reading(what=what, pending=pending, returned=len(page.items), **seen)

        now = datetime.now(UTC)
        quiet = (now + 2 * SPREAD).replace(hour=0, minute=0, second=0, microsecond=0)
        step(f"{FEW} pending jobs")
        _fill(dynamodb, _jobs("few", FEW, quiet, timedelta(days=1)), lambda done: None)
        found = [read(f"a day with {FEW} jobs", FEW, quiet, timedelta(days=1))]
        _fill(dynamodb, _jobs("many", MANY - FEW, now, SPREAD), lambda done: step(f"{done + FEW:,} pending jobs"))
        found.append(read(f"a day with {FEW} jobs", MANY, quiet, timedelta(days=1)))
        found.append(read(f"a busy day, a page of {PAGE}", MANY, now + SPREAD / 2, timedelta(days=1)))
        found.append(read(f"a busy month, a page of {PAGE}", MANY, now + SPREAD / 3, timedelta(days=31)))
    return found


def steps() -> int:
    """How often `measure` says what it does."""
    return 1 + (MANY - FEW) // _TOLD_EVERY


def _jobs(name: str, count: int, start: datetime, spread: timedelta) -> Iterator[dict[str, Any]]:
    """Pending jobs of all kinds, evenly over the time, as they are written."""
    draw = random.Random(count)
    for number in range(count):
        kind = draw.randrange(len(LIFECYCLE_JOBS) + 1)
        job = LIFECYCLE_JOBS[kind] if kind < len(LIFECYCLE_JOBS) else "remind"
        run_at = start + timedelta(seconds=draw.randrange(int(spread.total_seconds())))
        write = rows.job_write(f"{name}-{number}", job, Planned(run_at, 1), datetime.now(UTC), {}, ())
        yield {"pk": write.pk, "sk": write.sk, **write.set}


def _fill(dynamodb: Any, jobs: Iterator[dict[str, Any]], done: Callable[[int], None]) -> None:
    written = 0
    while batch := list(islice(jobs, _BATCH)):
        puts = [{"PutRequest": {"Item": to_image(job)}} for job in batch]
        answer = dynamodb.batch_write_item(RequestItems={TABLE: puts})
        assert not answer.get("UnprocessedItems"), "the embedded AWS takes every row at once"
        written += len(batch)
        if written % _TOLD_EVERY == 0:
            done(written)


def _keys(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]
