"""The embedded AWS itself: it starts, its time travels, its permissions bite, it leaves nothing behind."""

import io
import json
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.emulator import ROOT, EmbeddedAws, EmulatorError, api_url, free_port

pytestmark = pytest.mark.e2e

AUGUST = datetime(2026, 8, 1, 12, tzinfo=UTC)
ROLE_OF = '{"Statement": [{"Effect": "Allow", "Principal": {"Service": "%s"}, "Action": "sts:AssumeRole"}]}'
CODE = """
import time
import boto3

class NotNow(Exception): ...

def now(event, context):
    return time.time()

def refuse(event, context):
    raise NotNow("later")

def answer(event, context):
    boto3.client("stepfunctions").send_task_success(taskToken=event["token"], output="{}")

def stay_silent(event, context):
    pass
"""
DISPUTE = {
    "QueryLanguage": "JSONata",
    "StartAt": "Ask",
    "States": {
        "Ask": {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
            "TimeoutSeconds": "{% $states.input.seconds %}",
            "Arguments": {
                "FunctionName": "{% $states.input.function %}",
                "Payload": {"token": "{% $states.context.Task.Token %}"},
            },
            "Retry": [{"ErrorEquals": ["NotNow"], "IntervalSeconds": 1, "MaxAttempts": 1}],
            "Catch": [
                {"ErrorEquals": ["NotNow"], "Output": "refused", "Next": "Done"},
                {"ErrorEquals": ["States.Timeout"], "Output": "silent", "Next": "Reflect"},
            ],
            "Output": "answered",
            "Next": "Done",
        },
        "Reflect": {"Type": "Wait", "Seconds": 86400, "Next": "Done"},
        "Done": {"Type": "Succeed"},
    },
}


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    with EmbeddedAws(start_at=AUGUST) as running:
        yield running


@pytest.fixture(scope="module")
def travelling(aws: EmbeddedAws) -> EmbeddedAws:
    if not aws.clock.travels:
        pytest.skip("time does not travel on this machine")
    return aws


def test_it_begins_in_august(travelling: EmbeddedAws) -> None:
    assert timedelta(0) <= travelling.clock.now() - AUGUST < timedelta(days=1)


def test_it_listens_on_the_loopback_address_only(aws: EmbeddedAws) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.2", aws.port))


def test_a_schedule_75_days_out_fires_when_time_gets_there_and_not_before(travelling: EmbeddedAws) -> None:
    session = travelling.session()
    queue = _queue(travelling, name="wakeups")
    instant = (travelling.clock.now() + timedelta(days=75)).replace(second=0, microsecond=0)
    role = _role(travelling, "scheduler", allowed="sqs:SendMessage")
    scheduler = session.client("scheduler")
    scheduler.create_schedule_group(Name="duebook")
    scheduler.create_schedule(
        Name="close_event-b1",
        GroupName="duebook",
        ScheduleExpression=f"at({instant:%Y-%m-%dT%H:%M:%S})",
        FlexibleTimeWindow={"Mode": "OFF"},
        ActionAfterCompletion="DELETE",
        Target={"Arn": queue["arn"], "RoleArn": role, "Input": '{"booking_id": "b1"}'},
    )
    assert travelling.next_instant() == instant

    travelling.travel_to(instant - timedelta(minutes=1))
    assert _messages(travelling, queue) == []
    travelling.travel_to(instant)
    assert _messages(travelling, queue) == ['{"booking_id": "b1"}']
    assert scheduler.list_schedules(GroupName="duebook")["Schedules"] == []


def test_a_delayed_message_arrives_when_time_gets_there(travelling: EmbeddedAws) -> None:
    queue = _queue(travelling, name="delayed")
    sqs = travelling.session().client("sqs")
    sqs.send_message(QueueUrl=queue["url"], MessageBody="later", DelaySeconds=900)
    assert _messages(travelling, queue) == []
    travelling.travel_by(timedelta(minutes=15))
    assert _messages(travelling, queue) == ["later"]


def test_a_function_lives_at_the_same_time(travelling: EmbeddedAws) -> None:
    function = _function(travelling, handler="now")
    for _ in range(2):
        travelling.travel_by(timedelta(days=30))
        answer = travelling.session().client("lambda").invoke(FunctionName=function)
        seen = datetime.fromtimestamp(json.load(answer["Payload"]), UTC)
        assert abs(seen - travelling.clock.now()) < timedelta(minutes=1)


def test_a_silent_deadline_and_a_wait_pass_with_the_time(travelling: EmbeddedAws) -> None:
    execution = _start(travelling, handler="stay_silent", seconds=2 * 86400)
    begun = travelling.clock.now()
    travelling.settle()
    deadline = travelling.next_instant()
    assert deadline is not None
    assert abs(deadline - begun - timedelta(days=2)) < timedelta(minutes=1)
    assert _outcome(travelling, execution) == ("RUNNING", None)
    travelling.travel_by(timedelta(days=4))
    assert _outcome(travelling, execution) == ("SUCCEEDED", "silent")


def test_a_callback_answered_under_the_functions_role_ends_the_task(aws: EmbeddedAws) -> None:
    execution = _start(aws, handler="answer", seconds=3600, allowed="states:SendTaskSuccess")
    aws.settle()
    assert _outcome(aws, execution) == ("SUCCEEDED", "answered")


def test_an_error_is_retried_and_caught_by_its_class(aws: EmbeddedAws) -> None:
    execution = _start(aws, handler="refuse", seconds=3600)
    aws.travel_by(timedelta(seconds=5))  # past the retry's interval
    assert _outcome(aws, execution) == ("SUCCEEDED", "refused")


def test_a_caller_is_held_to_its_policy_and_to_its_schedule_group(aws: EmbeddedAws) -> None:
    iam = aws.session().client("iam")
    iam.create_user(UserName="planner")
    allowed = {"Effect": "Allow", "Action": "scheduler:*Schedule", "Resource": "arn:aws:scheduler:*:*:schedule/own/*"}
    iam.put_user_policy(UserName="planner", PolicyName="own", PolicyDocument=json.dumps({"Statement": [allowed]}))
    key = iam.create_access_key(UserName="planner")["AccessKey"]
    planner = aws.session(access_key=key["AccessKeyId"], secret_key=key["SecretAccessKey"]).client("scheduler")
    for group in ("own", "foreign"):
        aws.session().client("scheduler").create_schedule_group(Name=group)

    def create(group: str) -> Any:
        return planner.create_schedule(
            Name="j-b1",
            GroupName=group,
            ScheduleExpression="at(2029-01-01T00:00:00)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={"Arn": "arn:aws:sqs:eu-west-1:000000000000:q", "RoleArn": "arn:aws:iam::000000000000:role/r"},
        )

    assert create("own")["ScheduleArn"].endswith(":schedule/own/j-b1")
    planner.delete_schedule(Name="j-b1", GroupName="own")
    with pytest.raises(ClientError, match="AccessDenied"):
        create("foreign")


def test_another_process_finds_it_and_reads_its_time(aws: EmbeddedAws) -> None:
    found = EmbeddedAws.attach(port=aws.port)
    assert found.clock.travels == aws.clock.travels
    assert abs(found.clock.now() - aws.clock.now()) < timedelta(minutes=1)


def test_nothing_to_attach_to_says_so() -> None:
    with pytest.raises(EmulatorError, match="no embedded AWS answers"):
        EmbeddedAws.attach(port=free_port())


def test_a_port_in_use_is_refused_and_its_owner_unharmed(aws: EmbeddedAws) -> None:
    with pytest.raises(EmulatorError, match="in use"), EmbeddedAws(port=aws.port):
        pass
    assert aws.log.exists()
    aws.status()


def test_without_travel_time_is_real_and_is_waited_for() -> None:
    with EmbeddedAws(start_at=AUGUST, travel=False) as aws:
        assert abs(aws.clock.now() - datetime.now(UTC)) < timedelta(minutes=1)
        instant = aws.clock.now() + timedelta(seconds=1)
        aws.travel_to(instant)
        assert aws.clock.now() >= instant


def test_its_functions_and_files_end_with_it() -> None:
    with EmbeddedAws() as aws:
        aws.session().client("lambda").invoke(FunctionName=_function(aws, handler="now"))
        group = _group_of(aws)
    _assert_ended(group)
    assert not (aws.home / "tmp").exists()
    with pytest.raises(EmulatorError):
        EmbeddedAws.attach(port=aws.port)


def test_it_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    script = (
        "import time\nfrom local.emulator import EmbeddedAws\n"
        "with EmbeddedAws() as aws:\n print(aws._process.pid, flush=True)\n time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        group = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    _assert_ended(group)


@pytest.mark.parametrize(
    "outputs",
    [
        "dae87dda",
        "https://dae87dda.execute-api.eu-west-1.amazonaws.com",
        {"Table": "t", "Queue": "http://localhost:1/0/q", "ApiUrl": "http://dae87dda.execute-api.localhost:1/"},
    ],
)
def test_the_apis_address_is_one_that_works_on_this_machine(outputs: str | dict[str, str]) -> None:
    aws = EmbeddedAws(port=4566)
    assert api_url(aws, outputs) == "http://127.0.0.1:4566/_aws/execute-api/dae87dda"


def _queue(aws: EmbeddedAws, *, name: str) -> dict[str, str]:
    sqs = aws.session().client("sqs")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    return {"url": url, "arn": attributes["QueueArn"]}


def _messages(aws: EmbeddedAws, queue: dict[str, str]) -> list[str]:
    sqs = aws.session().client("sqs")
    found = sqs.receive_message(QueueUrl=queue["url"], MaxNumberOfMessages=10)
    return [message["Body"] for message in found.get("Messages", [])]


def _role(aws: EmbeddedAws, service: str, *, allowed: str | None = None, on: str = "*") -> str:
    iam = aws.session().client("iam")
    name = f"{service}-{time.monotonic_ns()}"
    trust = ROLE_OF % f"{service}.amazonaws.com"
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]
    if allowed:
        policy = json.dumps({"Statement": [{"Effect": "Allow", "Action": allowed, "Resource": on}]})
        iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=policy)
    arn: str = role["Arn"]
    return arn


def _function(aws: EmbeddedAws, *, handler: str, allowed: str | None = None) -> str:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as code:
        code.writestr("m.py", CODE)
    name = f"{handler}-{time.monotonic_ns()}"
    aws.session().client("lambda").create_function(
        FunctionName=name,
        Handler=f"m.{handler}",
        Role=_role(aws, "lambda", allowed=allowed, on=f"arn:aws:states:*:*:stateMachine:{handler}-*"),
        Runtime="python3.13",
        Timeout=30,
        Code={"ZipFile": archive.getvalue()},
    )
    return name


def _start(aws: EmbeddedAws, *, handler: str, seconds: int, allowed: str | None = None) -> str:
    workflows = aws.session().client("stepfunctions")
    role = _role(aws, "states", allowed="lambda:InvokeFunction")
    name = f"{handler}-{time.monotonic_ns()}"
    machine = workflows.create_state_machine(name=name, definition=json.dumps(DISPUTE), roleArn=role)
    given = {"seconds": seconds, "function": _function(aws, handler=handler, allowed=allowed)}
    started = workflows.start_execution(stateMachineArn=machine["stateMachineArn"], name=name, input=json.dumps(given))
    return started["executionArn"]


def _outcome(aws: EmbeddedAws, execution: str) -> tuple[str, Any]:
    found = aws.session().client("stepfunctions").describe_execution(executionArn=execution)
    output = found.get("output")
    return found["status"], None if output is None else json.loads(output)


def _group_of(aws: EmbeddedAws) -> int:
    assert aws._process is not None
    return aws._process.pid


def _assert_ended(group: int) -> None:
    end = time.monotonic() + 30
    while _lives(group):
        assert time.monotonic() < end, f"process group {group} still runs"
        time.sleep(0.1)
    left = [f"faketime_shm_{group}", f"sem.faketime_sem_{group}"]
    assert not [name for name in left if Path("/dev/shm", name).exists()]


def _lives(group: int) -> bool:
    """Whether a process of the group runs; one that only waits to be reaped doesn't."""
    table = subprocess.run(["ps", "-A", "-o", "pgid=,stat="], capture_output=True, text=True, check=True)
    rows = [line.split() for line in table.stdout.splitlines()]
    return any(int(pgid) == group and not state.startswith("Z") for pgid, state in rows)
