from typing import Any

from tests.infrastructure.template import Synthesized


def table(assembly: Synthesized) -> dict[str, Any]:
    [found] = assembly.of_type("AWS::DynamoDB::Table").values()
    properties: dict[str, Any] = found["Properties"]
    return properties


def test_the_table_grows_by_itself_and_can_be_restored_to_any_second(everywhere: Synthesized) -> None:
    found = table(everywhere)
    assert found["BillingMode"] == "PAY_PER_REQUEST"
    assert found["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_the_stream_shows_rows_before_and_after(everywhere: Synthesized) -> None:
    assert table(everywhere)["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}


def test_old_rows_expire_by_an_attribute_of_their_own(everywhere: Synthesized) -> None:
    assert table(everywhere)["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}


def test_rows_are_keyed_by_booking(everywhere: Synthesized) -> None:
    assert [(key["AttributeName"], key["KeyType"]) for key in table(everywhere)["KeySchema"]] == [
        ("pk", "HASH"),
        ("sk", "RANGE"),
    ]


def test_both_indexes_carry_the_brief_and_never_a_payload(everywhere: Synthesized) -> None:
    indexes = {index["IndexName"]: index for index in table(everywhere)["GlobalSecondaryIndexes"]}
    assert set(indexes) == {"due", "attention"}
    for name, index in indexes.items():
        assert [key["AttributeName"] for key in index["KeySchema"]] == [f"{name}_pk", f"{name}_sk"]
        assert index["Projection"]["ProjectionType"] == "INCLUDE"
        projected = set(index["Projection"]["NonKeyAttributes"])
        assert {"booking_id", "job", "run_at", "wake_at", "generation"} <= projected
        assert not {"payload", "data"} & projected


def test_the_indexes_keep_within_dynamodbs_limits_for_projected_attributes(everywhere: Synthesized) -> None:
    """20 an index, 100 a table (DynamoDB developer guide, "Service quotas")."""
    counts = [len(i["Projection"]["NonKeyAttributes"]) for i in table(everywhere)["GlobalSecondaryIndexes"]]
    assert max(counts) <= 20
    assert sum(counts) <= 100
