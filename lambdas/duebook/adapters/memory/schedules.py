"""EventBridge Scheduler in memory: one group of one-shot schedules that fire at their minute and are then deleted."""

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from duebook.adapters.memory.hook import FailingTwin, Hook, no_fault
from duebook.adapters.schedules import check_request
from duebook.domain.errors import AwsFailure, QuotaExceeded, ScheduleConflict
from duebook.domain.names import LANES
from duebook.service.ports import ScheduleRequest

Now = Callable[[], datetime]
PAGE = 100
SOON = timedelta(minutes=1)


class MemorySchedules(FailingTwin):
    """A schedule is replaced as a whole, and its name is free again once it fired.

    Stricter than AWS on purpose: an instant that is past or within a minute raises ValueError. AWS accepts it, and
    whether it then fires is undocumented, so our code must never ask for it; with `strict=False` it is accepted and
    fires at once (for clocks that disagree). Either way it is kept in `late`. `quota`: schedules the account may have.
    """

    name = "schedules"

    def __init__(
        self,
        now: Now,
        *,
        lanes: Sequence[str] = LANES,
        strict: bool = True,
        quota: int = 10_000_000,
        hook: Hook = no_fault,
    ) -> None:
        super().__init__(hook)
        self._now = now
        self._lanes = lanes
        self._strict = strict
        self._quota = quota
        self._has_group = True
        self._names: list[str] = []
        self._heap: list[tuple[datetime, str]] = []
        self.requests: dict[str, ScheduleRequest] = {}
        self.late: list[ScheduleRequest] = []

    def create(self, request: ScheduleRequest) -> bool:
        self._check(request)
        self._before("create")
        self._check_group()
        made = request.name not in self.requests
        if made:
            if len(self.requests) >= self._quota:
                raise QuotaExceeded(aws_code="ServiceQuotaExceededException")
            insort(self._names, request.name)
            self._put(request)
        self._after("create")
        return made

    def replace(self, request: ScheduleRequest) -> bool:
        self._check(request)
        self._before("replace")
        found = request.name in self.requests
        if found:
            self._put(request)
        self._after("replace")
        return found

    def delete(self, name: str) -> bool:
        self._before("delete")
        found = name in self.requests
        if found:
            self._drop(name)
        self._after("delete")
        return found

    def get(self, name: str) -> ScheduleRequest | None:
        self._before("get")
        found = self.requests.get(name)
        self._after("get")
        return found

    def names(self, after: str | None) -> tuple[Sequence[str], str | None]:
        self._before("names")
        self._check_group()
        start = bisect_right(self._names, after) if after is not None else 0
        found = self._names[start : start + PAGE]
        self._after("names")
        return found, found[-1] if start + PAGE < len(self._names) else None

    def due(self) -> list[ScheduleRequest]:
        """Fire what is due, in order: each is handed over once and deleted."""
        fired = []
        while (at := self.next_at()) is not None and at <= self._now():
            fired.append(self.requests[self._heap[0][1]])
            self._drop(self._heap[0][1])
        return fired

    def next_at(self) -> datetime | None:
        """When the next one fires; None when there is none."""
        while self._heap and not self._stands(*self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def delete_group(self) -> None:
        """Behind the service's back: all schedules go with their group."""
        self._has_group = False
        self.requests.clear()
        self._names.clear()
        self._heap.clear()

    def _put(self, request: ScheduleRequest) -> None:
        self.requests[request.name] = request
        heapq.heappush(self._heap, (request.at, request.name))

    def _drop(self, name: str) -> None:
        del self.requests[name]
        del self._names[bisect_left(self._names, name)]

    def _stands(self, at: datetime, name: str) -> bool:
        request = self.requests.get(name)
        return request is not None and request.at == at

    def _check(self, request: ScheduleRequest) -> None:
        check_request(request)
        if request.lane not in self._lanes:
            raise KeyError(request.lane)
        if request.at <= self._now() + SOON:
            self.late.append(request)
            if self._strict:
                raise ValueError(f"{request.at} is past or within a minute: what Scheduler does then is undocumented")

    def _check_group(self) -> None:
        if not self._has_group:
            raise AwsFailure("there is no such group", aws_code="ResourceNotFoundException")


def conflict() -> ScheduleConflict:
    """What AWS may answer to an update right after a create."""
    return ScheduleConflict("Scheduler answered ConflictException", aws_code="ConflictException")
