"""MiniStack's modules are put back after each test, so that every test starts from what ships."""

from collections.abc import Iterator

import pytest
from ministack import app
from ministack.core import iam_actions, lambda_runtime, sigv4
from ministack.services import cloudwatch, eventbridge, lambda_svc, scheduler, stepfunctions

_SHIMMED = (
    app,
    iam_actions,
    lambda_runtime,
    lambda_runtime.Worker,
    sigv4,
    cloudwatch,
    eventbridge,
    lambda_svc,
    scheduler,
    stepfunctions,
)


@pytest.fixture(autouse=True)
def as_shipped() -> Iterator[None]:
    saved = [(place, dict(vars(place))) for place in _SHIMMED]
    yield
    for place, names in saved:
        for name, value in names.items():
            if vars(place)[name] is not value:
                setattr(place, name, value)
    scheduler.reset()
    scheduler._schedule_last_fired.clear()
    stepfunctions.reset()
    lambda_runtime.reset()
