"""Who may call what: unsigned callers nothing, others exactly what their policies say."""

import re
from datetime import timedelta
from fnmatch import fnmatchcase

import pytest
from botocore.exceptions import ClientError

from duebook_client import Duebook, Forbidden, Request, Urllib3Transport
from duebook_client.client import Method
from duebook_client.errors import DuebookApiError
from local.world import World
from stacks.components.routes import ROUTES

EVERY_ROUTE = [(method, path) for routes in ROUTES.values() for method, path in routes]


def grants(group: str, method: str, path: str) -> bool:
    """Whether a group's policy covers a request, as IAM matches it: `*` takes in `/` too."""
    patterns = [f"{granted}{re.sub('{[^}]+}', '*', to)}" for granted, to in ROUTES[group]]
    return any(fnmatchcase(f"{method}{path}", pattern) for pattern in patterns)


def is_allowed(client: Duebook, method: Method, path: str) -> bool:
    try:
        client.call(method, path, body={}) if method in ("PUT", "POST") else client.call(method, path)
    except Forbidden:
        return False
    except DuebookApiError as error:
        return error.status in (404, 409, 422)
    return True


@pytest.fixture(scope="module")
def clients(world: World) -> dict[str, Duebook]:
    return {group: world.client_of(world.user(f"only-{group}", group.capitalize())) for group in ROUTES}


@pytest.mark.parametrize(("method", "path"), EVERY_ROUTE)
def test_an_unsigned_caller_is_refused(world: World, method: str, path: str) -> None:
    transport = Urllib3Transport()
    answer = transport.send(Request(method, world.url + re.sub("{[^}]+}", "x", path), {}))
    transport.close()
    assert answer.status == 403
    assert b"booking" not in answer.body


@pytest.mark.parametrize("group", ROUTES)
def test_a_caller_with_one_policy_is_allowed_exactly_its_routes(
    world: World, clients: dict[str, Duebook], group: str
) -> None:
    names = {
        "booking_id": "nobody",
        "chef_id": "nobody",
        "dispute_id": "nobody.d1",
        "job": "nothing",
        "payment_id": "nobody.p1",
    }
    told = {}
    for method, path in EVERY_ROUTE:
        at = path.format(**names)
        told[method, path] = (is_allowed(clients[group], method, at), grants(group, method, at))  # type: ignore[arg-type]
    assert {route: found for route, (found, wanted) in told.items() if found != wanted} == {}
    assert any(wanted for _, wanted in told.values())
    assert not all(wanted for _, wanted in told.values())
    world.settle()


def test_who_may_only_schedule_can_set_a_job_but_make_no_booking(
    world: World, clients: dict[str, Duebook], booking_id: str
) -> None:
    client = clients["schedules"]
    assert client.put_job(booking_id, "remind", world.now() + timedelta(days=1)).applied
    with pytest.raises(Forbidden):
        client.booking(booking_id)
    with pytest.raises(Forbidden):
        client.put_booking(
            booking_id,
            customer_id="c",
            chef_id="c",
            event_start=world.now() + timedelta(days=9),
            price_minor=1,
            currency="EUR",
        )
    client.delete_job(booking_id, "remind")
    assert client.jobs(booking_id) == []
    world.settle()


def test_who_may_not_read_the_events_is_refused_by_the_queue(world: World) -> None:
    session = world.user("no-reader", "Bookings")
    sqs = session.client("sqs")
    with pytest.raises(ClientError, match="AccessDenied"):
        sqs.receive_message(QueueUrl=world.outputs["EventsQueueUrl"])


def test_who_reads_the_events_can_do_nothing_else(world: World) -> None:
    session = world.user("only-reader", "EventsReader")
    session.client("sqs").receive_message(QueueUrl=world.outputs["EventsQueueUrl"], VisibilityTimeout=0)
    with pytest.raises(ClientError, match="AccessDenied"):
        session.client("sqs").send_message(QueueUrl=world.outputs["LifecycleQueueUrl"], MessageBody="{}")
    with pytest.raises(ClientError, match="AccessDenied"):
        session.client("dynamodb").scan(TableName=world.outputs["TableName"])
    with pytest.raises(Forbidden):
        list(world.client_of(session).due(world.now(), world.now() + timedelta(days=1)))
