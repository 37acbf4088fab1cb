"""Step Functions in memory, as far as our side sees it."""

from collections.abc import Mapping, Sequence
from typing import Any

from duebook.domain.names import execution_name


class MemoryWorkflow:
    """The dispute's state machine, as far as our side sees it: executions by name, and tokens that wait."""

    def __init__(self) -> None:
        self.executions: dict[str, str] = {}
        self.waiting: set[str] = set()
        self.sent: list[str] = []
        self.fail: list[Exception] = []
        """Raised by the next calls, one each."""

    def start(self, dispute_id: str, run: int) -> bool:
        self._failing()
        return self.executions.setdefault(execution_name(dispute_id, run), "RUNNING") == "RUNNING"

    def is_running(self, dispute_id: str, run: int) -> bool:
        self._failing()
        return self.executions.get(execution_name(dispute_id, run)) == "RUNNING"

    def succeed(self, token: str) -> bool:
        self._failing()
        self.sent.append(token)
        if token not in self.waiting:
            return False
        self.waiting.remove(token)
        return True

    def events(self, dispute_id: str, run: int) -> Sequence[Mapping[str, Any]] | None:
        self._failing()
        return [] if execution_name(dispute_id, run) in self.executions else None

    def console_url(self, dispute_id: str, run: int) -> str:
        return f"memory:{execution_name(dispute_id, run)}"

    def _failing(self) -> None:
        if self.fail:
            raise self.fail.pop(0)
