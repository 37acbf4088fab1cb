"""The EventBridge bus in memory."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from duebook.adapters.bus import LARGEST_REQUEST, entry_of, size_of
from duebook.adapters.memory.hook import Hook, Twin, no_fault
from duebook.domain.errors import DuebookError

Now = Callable[[], datetime]


class MemoryBus(Twin):
    """`events` is what was accepted, in order, as a rule's target gets it, but for the bus's own `id`, and for `time`
    where there is no clock.

    `fail` holds what happens to the next entries, one each: an error code, or None to accept. An error of the hook
    befalls a whole call: `before`, no entry is accepted; `after`, all are, but the answer says otherwise.
    """

    name = "bus"

    def __init__(self, now: Now | None = None, *, hook: Hook = no_fault) -> None:
        super().__init__(hook)
        self._now = now
        self.events: list[dict[str, Any]] = []
        self.fail: list[str | None] = []

    def publish(self, events: Sequence[Mapping[str, Any]]) -> Sequence[str | None]:
        found = [entry_of(event, "memory") for event in events]
        if not found:
            return []
        try:
            self._before("publish")
            answers = [self._accept(entry) for entry in found]
            self._after("publish")
        except DuebookError as error:
            return [str(error.details.get("aws_code", error.code))] * len(found)
        return answers

    def _accept(self, entry: Mapping[str, str]) -> str | None:
        if size_of(entry) > LARGEST_REQUEST:
            return "ValidationException"
        failure = self.fail.pop(0) if self.fail else None
        if failure is None:
            time = {"time": self._now().strftime("%Y-%m-%dT%H:%M:%SZ")} if self._now else {}
            self.events.append(
                {
                    "version": "0",
                    "source": entry["Source"],
                    "detail-type": entry["DetailType"],
                    "account": "000000000000",
                    "region": "eu-west-1",
                    "resources": [],
                    "detail": json.loads(entry["Detail"]),
                    **time,
                }
            )
        return failure
