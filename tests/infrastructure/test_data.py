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


def indexes_of(assembly: Synthesized) -> dict[str, dict[str, Any]]:
    return {index["IndexName"]: index for index in table(assembly)["GlobalSecondaryIndexes"]}


def test_every_index_is_keyed_by_attributes_of_its_own_so_that_it_holds_only_what_has_them(
    everywhere: Synthesized,
) -> None:
    for name, index in indexes_of(everywhere).items():
        keys = [(key["AttributeName"], key["KeyType"]) for key in index["KeySchema"]]
        assert keys == [(f"{name}_pk", "HASH"), (f"{name}_sk", "RANGE")]


def test_a_day_s_ledger_entries_are_read_whole_from_their_index(everywhere: Synthesized) -> None:
    assert indexes_of(everywhere)["day"]["Projection"] == {"ProjectionType": "ALL"}


def test_the_other_indexes_carry_the_brief_and_never_a_payload(everywhere: Synthesized) -> None:
    indexes = indexes_of(everywhere)
    assert set(indexes) == {"due", "attention", "day"}
    for index in (indexes["due"], indexes["attention"]):
        assert index["Projection"]["ProjectionType"] == "INCLUDE"
        projected = set(index["Projection"]["NonKeyAttributes"])
        assert {"booking_id", "job", "run_at", "wake_at", "generation"} <= projected
        assert not {"payload", "data"} & projected


def test_the_indexes_keep_within_dynamodbs_limits_for_projected_attributes(everywhere: Synthesized) -> None:
    """20 an index, 100 a table (DynamoDB developer guide, "Service quotas")."""
    counts = [len(index["Projection"].get("NonKeyAttributes", [])) for index in indexes_of(everywhere).values()]
    assert max(counts) <= 20
    assert sum(counts) <= 100
