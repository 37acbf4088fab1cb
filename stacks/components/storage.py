"""The one table, with its three sparse indexes and its stream."""

from collections.abc import Sequence

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from constructs import Construct

DUE = "due"
ATTENTION = "attention"
DAY = "day"
INDEXES = (DUE, ATTENTION, DAY)

PROJECTED = (
    "amount",
    "attempts",
    "booking_id",
    "currency",
    "dispute_id",
    "failing_since",
    "generation",
    "job",
    "kind",
    "lane",
    "payment_id",
    "reason",
    "run_at",
    "since",
    "status",
    "wake_at",
)
"""What a reader of `due` and `attention` sees beside the keys. At most 20 an index and 100 a table; payloads stay out.
`day` holds ledger entries alone, and all of each."""


class BookingTable(Construct):
    """Partition = the booking; on demand, recoverable to any second of the last 35 days.

    `keep`: the table refuses deletion and outlives its stack.
    """

    def __init__(self, scope: Construct, id: str, *, keep: bool) -> None:
        super().__init__(scope, id)
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=_string("pk"),
            sort_key=_string("sk"),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES,
            time_to_live_attribute="expires_at",
            deletion_protection=keep,
            removal_policy=RemovalPolicy.RETAIN if keep else RemovalPolicy.DESTROY,
        )
        for index in INDEXES:
            self.table.add_global_secondary_index(
                index_name=index,
                partition_key=_string(f"{index}_pk"),
                sort_key=_string(f"{index}_sk"),
                projection_type=dynamodb.ProjectionType.ALL if index == DAY else dynamodb.ProjectionType.INCLUDE,
                non_key_attributes=None if index == DAY else list(PROJECTED),
            )

    @property
    def stream_arn(self) -> str:
        """The stream that the projector and the publisher read: two readers, and DynamoDB allows no third."""
        arn = self.table.table_stream_arn
        assert arn is not None
        return arn

    def may(self, *verbs: str) -> iam.PolicyStatement:
        """Use the table itself: `GetItem`, `PutItem`, ...

        A transaction is authorized as the actions it is made of (DynamoDB developer guide, "Using IAM with
        transactions"): PutItem, UpdateItem, DeleteItem, ConditionCheckItem.
        """
        return iam.PolicyStatement(actions=_actions(verbs), resources=[self.table.table_arn])

    def may_on_index(self, *verbs: str, indexes: Sequence[str] = INDEXES) -> iam.PolicyStatement:
        """Read indexes: `Query`, `Scan`."""
        return iam.PolicyStatement(
            actions=_actions(verbs), resources=[f"{self.table.table_arn}/index/{index}" for index in indexes]
        )

    def may_read_stream(self) -> Sequence[iam.PolicyStatement]:
        """What Lambda's event source needs of its function's role; ListStreams knows no resource."""
        verbs = ("DescribeStream", "GetRecords", "GetShardIterator")
        return (
            iam.PolicyStatement(actions=_actions(verbs), resources=[self.stream_arn]),
            iam.PolicyStatement(actions=["dynamodb:ListStreams"], resources=["*"]),
        )


def _actions(verbs: Sequence[str]) -> list[str]:
    return [f"dynamodb:{verb}" for verb in verbs]


def _string(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
