"""Where a simulation puts its faults."""

from collections import Counter
from typing import Literal, Protocol


class Hook(Protocol):
    """Called around every call of a twin: `call` is `table.transact`, `schedules.create`, `queues.wake`, ...

    Raising `before` is a refusal without effect; raising `after` is an answer that was lost, or a crash.
    """

    def __call__(self, call: str, when: Literal["before", "after"], /) -> None: ...


def no_fault(call: str, when: Literal["before", "after"], /) -> None:
    """Everything goes well."""


class Twin:
    """What all twins share: `calls` counts requests by kind."""

    name: str

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self.calls: Counter[str] = Counter()

    def _before(self, kind: str) -> None:
        self.calls[kind] += 1
        self._hook(f"{self.name}.{kind}", "before")

    def _after(self, kind: str) -> None:
        self._hook(f"{self.name}.{kind}", "after")


class FailingTwin(Twin):
    """`fail` holds errors that the next calls raise, one each, without effect."""

    def __init__(self, hook: Hook) -> None:
        super().__init__(hook)
        self.fail: list[Exception] = []

    def _before(self, kind: str) -> None:
        super()._before(kind)
        if self.fail:
            raise self.fail.pop(0)
