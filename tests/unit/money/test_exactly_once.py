"""Whatever the provider, the queue and the workers do: exactly one transfer and one refund, and both sides agree.

A schedule is a story (a payout, or a refund with the payout of the rest), faults for the next calls, lists that lag up
to just under two hours, workers that die, duplicate deliveries, outages and redrives of 1, 30 and 365 days, and a
person who presses retry at any time. The schedules are the same in every run.
"""

from datetime import timedelta

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from duebook.domain.payment import LISTS_LAG
from local.stripe_fake import Fault, StripeFake, Trouble
from tests.unit.builders import DAY, MINUTE, RELEASE, SECOND, START
from tests.unit.money.drive import HALF, Paying, Point, ran

pytestmark = [pytest.mark.loopback, pytest.mark.usefixtures("socket_enabled")]

SCHEDULES = 12
"""With each trouble first, so that none is left to chance."""
REDRIVES = (1, 30, 365)

ON_SEND = st.sampled_from(["POST ", "POST /v1/transfers", "POST /v1/refunds"])
FAULTS = st.one_of(
    st.builds(
        Fault,
        trouble=st.sampled_from(Trouble),
        on=ON_SEND,
        by=st.integers(1, 400).map(lambda seconds: seconds * SECOND),
        lag=st.one_of(st.none(), st.integers(1, 119).map(lambda minutes: minutes * MINUTE)),
    ),
    st.builds(Fault, trouble=st.sampled_from(Trouble), on=st.just("GET "), by=st.just(5 * SECOND)),
)
ACTIONS = st.one_of(
    st.tuples(st.just("wait"), st.integers(1, 36 * 60).map(lambda minutes: minutes * MINUTE)),
    st.tuples(st.just("outage"), st.sampled_from(REDRIVES).map(lambda days: days * DAY)),
    st.tuples(st.just("again"), st.integers(1, 3).map(lambda times: times * SECOND)),
    st.tuples(st.just("retry"), st.just(timedelta())),
    st.tuples(st.just("forget"), st.just(DAY)),
)


@pytest.mark.parametrize("first", Trouble)
@settings(
    max_examples=SCHEDULES,
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    cancelled=st.booleans(),
    faults=st.lists(FAULTS, max_size=8),
    lag=st.integers(0, 119).map(lambda minutes: minutes * MINUTE),
    deaths=st.lists(st.sampled_from(Point), max_size=3),
    actions=st.lists(ACTIONS, max_size=8),
    redrives=st.lists(st.sampled_from(REDRIVES), min_size=1, max_size=3),
)
def test_exactly_one_transfer_and_one_refund_each(
    fake: StripeFake,
    used: requests.Session,
    first: Trouble,
    cancelled: bool,
    faults: list[Fault],
    lag: timedelta,
    deaths: list[Point],
    actions: list[tuple[str, timedelta]],
    redrives: list[int],
) -> None:
    assert lag < LISTS_LAG
    faults = [Fault(trouble=first, by=MINUTE), *faults]
    with pytest.MonkeyPatch.context() as patch:
        paying = Paying(patch, fake, used)
        world = paying.world
        world.paid(policy=HALF)
        paying.state.lists_lag = lag
        fake.faults += faults
        paying.deaths.planned += deaths
        if cancelled:
            world.travel_to(START - 5 * DAY)
            world.cancel()
            world.deliver()
        else:
            world.travel_to(RELEASE)
        for action, by in actions:
            _act(paying, action, by)
            paying.never_twice()
        met = [fault for fault in faults if fault not in fake.faults]
        fake.faults.clear()
        paying.deaths.planned.clear()
        paying.settle()
        paying.check()
        kinds = sorted(payment.kind for payment in paying.payments())
        assert kinds == (["payout", "refund"] if cancelled else ["payout"])
        requests_made = len(fake.sent("POST "))
        for days in redrives:
            world.now += days * DAY
            paying.again()
            for payment in paying.payments():
                paying.retry(payment)
            world.deliver()
            paying.check()
        assert len(fake.sent("POST ")) == requests_made
    ran.schedules += 1
    ran.faults.update(fault.trouble.value for fault in met)
    ran.faults.update(["worker died"] * len(paying.deaths.met))
    ran.gaps.update([*redrives, *(by.days for action, by in actions if action == "outage")])


def _act(paying: Paying, action: str, by: timedelta) -> None:
    world = paying.world
    match action:
        case "wait":
            world.travel_to(world.now + by)
        case "outage":
            world.now += by
            paying.back()
        case "again":
            for _ in range(by // SECOND):
                paying.again()
        case "retry":
            for payment in paying.payments():
                paying.retry(payment)
            world.deliver()
        case "forget":
            world.travel_to(world.now + DAY)
            paying.fake.forget_keys()
