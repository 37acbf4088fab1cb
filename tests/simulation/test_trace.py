"""A few bookings in the form of the real trace: each must end as its row alone says."""

from pathlib import Path

import pytest

from simulation.run import simulate
from simulation.settings import Settings

TRACE = """booking_id,hotel,booked_on,event_on,nights,amount_minor,changes,outcome,outcome_on
000001,resort,2016-03-01,2016-07-10,3,45000,0,completed,2016-07-13
000002,city,2016-03-02,2016-03-02,0,9900,0,completed,2016-03-02
000003,city,2016-03-05,2016-08-01,2,20001,2,cancelled,2016-07-20
000004,city,2016-04-01,2016-05-01,1,12000,1,no_show,2016-05-01
000005,resort,2016-04-01,2016-09-01,7,0,0,completed,2016-09-08
000006,resort,2016-04-02,2016-04-20,2,33333,0,cancelled,2016-04-18
"""


@pytest.mark.parametrize("faults", [0.0, 3.0])
def test_real_bookings_end_as_their_rows_say(tmp_path: Path, faults: float) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE, encoding="utf-8")
    result = simulate(Settings(trace=path, bookings=100, faults=faults, payments="provider", reconcile_days=30))
    assert result.violation is None, result.violation
    assert result.states == {"paid_out": 4, "cancelled": 2}
    assert result.days > 190
