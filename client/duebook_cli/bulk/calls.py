"""Many calls at a bounded rate, some at once, with their progress shown."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from duebook_cli.command import Run
from duebook_cli.exits import Exit, exit_of, exit_of_many
from duebook_client import DuebookError

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 8
"""Calls in flight."""
MANY = 20
"""From so many calls on, their progress is told also where there is no terminal."""
RATE = 20.0
"""Calls a second where nothing else is said: a fifth of what the API of `dev` lets through."""


class Pace:
    """At most `rate` calls a second, evenly: each `wait` returns when the next call may go."""

    def __init__(
        self,
        rate: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._every = 1 / rate
        self._clock = clock
        self._sleep = sleep
        self._next = clock()

    def wait(self) -> None:
        now = self._clock()
        if self._next > now:
            self._sleep(self._next - now)
        self._next = max(self._next, now) + self._every


@dataclass(slots=True)
class Calls(Generic[T, R]):
    """What became of many calls. `stopped`: why the rest was not tried (not reached, throttled, not allowed)."""

    done: list[tuple[T, R]] = field(default_factory=list)
    refused: list[tuple[T, DuebookError]] = field(default_factory=list)
    stopped: DuebookError | None = None

    @property
    def exit(self) -> Exit:
        errors = [error for _, error in self.refused] + ([] if self.stopped is None else [self.stopped])
        return exit_of_many(len(self.done), errors)


def call_each(run: Run, items: Sequence[T], call: Callable[[T], R], *, rate: float, doing: str) -> Calls[T, R]:
    """Call for each item, in no order; a refused one stops no other, but a service that is away stops all.

    A service that is away from the first call on is raised, as is what `call` raises beside DuebookError, and Ctrl-C;
    those in flight are waited for.
    """
    calls: Calls[T, R] = Calls()
    pace = Pace(rate)
    flying: dict[Future[R], T] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool, _progress(run, doing, len(items)) as advance:

        def land(some: bool) -> None:
            landed = (
                wait(flying, return_when=FIRST_COMPLETED).done if some else {each for each in flying if each.done()}
            )
            for future in landed:
                item = flying.pop(future)
                try:
                    calls.done.append((item, future.result()))
                except DuebookError as error:
                    if exit_of(error) in (Exit.NOT_ALLOWED, Exit.NOT_REACHED):
                        calls.stopped = error
                    else:
                        calls.refused.append((item, error))
                advance()

        for item in items:
            pace.wait()
            land(some=len(flying) >= AT_ONCE)
            if calls.stopped is not None:
                break
            flying[pool.submit(call, item)] = item
        while flying:
            land(some=True)
    if calls.stopped is not None:
        if not calls.done and not calls.refused:
            raise calls.stopped
        run.say(f"Stopped: {run.explained(calls.stopped)}")
    return calls


@contextmanager
def _progress(run: Run, doing: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal; elsewhere a line for every tenth of many."""
    if run.messages.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=run.messages) as progress:
            task = progress.add_task(doing, total=total)
            yield lambda: progress.advance(task)
        return
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if total >= MANY and (done == total or done % (total // 10) == 0):
            run.say(f"{doing}: {done:,} of {total:,}")

    yield advance
