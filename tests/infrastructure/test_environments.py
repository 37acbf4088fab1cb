import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from stacks.assembly import build, main
from stacks.environments import ENVIRONMENTS, SettingError, environment_from
from tests.infrastructure.conftest import STRIPE, WITHOUT_BUNDLING
from tests.infrastructure.template import Synthesized

FAKE = "http://127.0.0.1:4570"
A_BOUNDARY = "arn:aws:iam::" + "1" * 12 + ":policy/teams/bookings"
A_SECRET = "arn:aws:secretsmanager:eu-west-1:" + "1" * 12 + ":secret:stripe-AbC123"

Bound = Callable[[str], list[dict[str, Any]]]


def test_without_a_setting_the_environment_is_dev_paid_by_the_marketplace() -> None:
    environment = environment_from({})
    assert (environment.name, environment.payments) == ("dev", "external")


def test_the_embedded_aws_pays_from_the_ledger() -> None:
    assert environment_from({"env": "local"}).payments == "ledger"


def test_an_unknown_environment_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingError, match=r"staging.*local, dev, prod"):
        environment_from({"env": "staging"})


def test_an_unknown_payment_provider_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingError, match=r"cash.*external, ledger, stripe"):
        environment_from({"payments": "cash"})


@pytest.mark.parametrize("name", [name for name in ENVIRONMENTS if name != "local"])
def test_the_ledger_is_refused_outside_the_embedded_aws(name: str) -> None:
    with pytest.raises(SettingError, match=f"ledger moves no money.*{name}.*payments=external"):
        environment_from({"env": name, "payments": "ledger"})


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_stripe_may_pay_in_every_environment(name: str) -> None:
    here = {"stripe_api_base": FAKE} if name == "local" else {}
    environment = environment_from({"env": name, **STRIPE, **here})
    assert (environment.payments, environment.stripe_secret) == ("stripe", STRIPE["stripe_secret"])
    assert environment.stripe_webhook_secret == STRIPE["stripe_webhook_secret"]


@pytest.mark.parametrize("missing", ["stripe_secret", "stripe_webhook_secret"])
def test_stripe_without_one_of_its_secrets_is_refused_with_the_setting_that_is_missing(missing: str) -> None:
    with pytest.raises(SettingError, match=f"payments=stripe needs -c {missing}=, the name or ARN"):
        environment_from({name: value for name, value in STRIPE.items() if name != missing})


@pytest.mark.parametrize(
    "value", ["sk_live_4eC39Hq", "rk_test_1", "whsec_abc", "two words", "arn:aws:s3:::bucket", "a" * 600]
)
def test_a_secret_itself_or_what_names_none_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(SettingError, match="neither name nor ARN") as refused:
        environment_from({**STRIPE, "stripe_secret": value})
    assert value not in str(refused.value)


def test_a_secret_may_be_named_by_its_arn() -> None:
    assert environment_from({**STRIPE, "stripe_secret": A_SECRET}).stripe_secret == A_SECRET


def test_one_secret_for_both_is_refused() -> None:
    """Whoever finds a hole in the open function would read the key that moves money."""
    with pytest.raises(SettingError, match="name the same secret"):
        environment_from({**STRIPE, "stripe_webhook_secret": STRIPE["stripe_secret"]})


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"env": "dev", "stripe_secret": "a"}, "stripe_secret= is for -c payments=stripe"),
        ({"env": "prod", **STRIPE, "stripe_api_base": FAKE}, "for the embedded AWS only, not for 'prod'"),
        ({"env": "local", **STRIPE}, "127.0.0.1:PORT of a fake"),
        ({"env": "local", **STRIPE, "stripe_api_base": "https://api.stripe.com"}, "never calls Stripe itself"),
    ],
)
def test_settings_that_would_be_ignored_or_reach_the_wrong_stripe_are_refused(
    settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(SettingError, match=complaint):
        environment_from(settings)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("permissions_boundary", "two words"),
        ("permissions_boundary", "arn:aws:iam::12:policy/short"),
        ("permissions_boundary", A_BOUNDARY.replace(":policy/", ":role/")),
        ("permissions_boundary", "a" * 129),
        ("account", "12345"),
        ("account", "my-account"),
        ("region", "Ireland"),
        ("owner", "<script>"),
        ("cost_center", "a" * 257),
    ],
)
def test_a_setting_that_is_not_what_it_has_to_be_is_refused_with_what_that_is(setting: str, value: str) -> None:
    with pytest.raises(SettingError, match=f"-c {setting}=.*it has to be"):
        environment_from({"env": "prod", setting: value})


@pytest.mark.parametrize(("setting", "value"), [("account", "1" * 12), ("region", "eu-west-1")])
def test_the_embedded_aws_is_in_no_account_and_no_region(setting: str, value: str) -> None:
    with pytest.raises(SettingError, match=f"{setting}= is for an AWS account"):
        environment_from({"env": "local", setting: value})


def test_the_region_of_every_partition_is_one() -> None:
    for region in ("eu-west-1", "us-gov-east-1", "cn-north-1", "ap-southeast-2"):
        assert environment_from({"region": region}).region == region


@pytest.fixture(scope="module")
def bound(tmp_path_factory: pytest.TempPathFactory) -> Bound:
    """Production with a boundary and tags, by name and by ARN: every resource of all its templates."""

    def synthesized(boundary: str) -> list[dict[str, Any]]:
        folder = tmp_path_factory.mktemp("bound")
        given = {"env": "prod", "permissions_boundary": boundary, "owner": "bookings", "cost_center": "CC 42"}
        build(context={**WITHOUT_BUNDLING, **given}, outdir=folder).synth()
        templates = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("Duebook-*.template.json")]
        return [resource for template in templates for resource in template["Resources"].values()]

    return cache(synthesized)


def test_every_role_of_every_stack_gets_the_boundary_by_its_name(bound: Bound) -> None:
    roles = [r["Properties"] for r in bound("team-boundary") if r["Type"] == "AWS::IAM::Role"]
    arn = {
        "Fn::Join": [
            "",
            ["arn:", {"Ref": "AWS::Partition"}, ":iam::", {"Ref": "AWS::AccountId"}, ":policy/team-boundary"],
        ]
    }
    assert len(roles) > 10
    assert [role["PermissionsBoundary"] for role in roles] == [arn] * len(roles)


def test_every_role_of_every_stack_gets_the_boundary_by_its_arn(bound: Bound) -> None:
    roles = [r["Properties"] for r in bound(A_BOUNDARY) if r["Type"] == "AWS::IAM::Role"]
    assert {role["PermissionsBoundary"] for role in roles} == {A_BOUNDARY}


def test_without_the_setting_no_role_has_a_boundary(everywhere: Synthesized) -> None:
    assert not [role for role in everywhere.of_type("AWS::IAM::Role").values() if "PermissionsBoundary" in role]


TAGGED = ("AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::Lambda::Function", "AWS::IAM::Role", "AWS::Logs::LogGroup")


def test_everything_is_tagged_with_its_service_and_its_environment(everywhere: Synthesized) -> None:
    for kind in TAGGED:
        for resource in everywhere.of_type(kind).values():
            assert tags(resource) == {"service": "duebook", "environment": everywhere.environment.name}


def test_owner_and_cost_centre_are_tags_where_they_are_given(bound: Bound) -> None:
    tagged = [resource for resource in bound("team-boundary") if resource["Type"] in TAGGED]
    wanted = {"service": "duebook", "environment": "prod", "owner": "bookings", "cost-center": "CC 42"}
    assert {resource["Type"] for resource in tagged} == set(TAGGED)
    assert all(tags(resource) == wanted for resource in tagged)


def tags(resource: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in resource["Properties"]["Tags"]}


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        ("{", "Expecting"),
        ("[]", "one JSON object"),
        ('{"accept_wihin": 1}', "accept_wihin"),
        ('{"fee_bps": 10001}', "fee_bps"),
        ('{"pay_within": 1.5}', "pay_within"),
        ('{"cancellation": [{"after": 1}]}', "after"),
    ],
)
def test_a_policy_that_no_booking_could_have_is_refused(policy: str, complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        environment_from({"policy": policy})


def test_a_refused_setting_ends_synthesis_with_one_clear_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CDK_OUTDIR", raising=False)
    assert main(["-c", "env=dev", "-c", "payments=ledger"]) == 1
    assert capsys.readouterr().err.startswith("duebook: -c payments=ledger: the ledger moves no money")


def test_settings_reach_the_functions_that_read_them() -> None:
    environment = environment_from({"env": "local", "payments": "external", "policy": '{"pay_within": 60}'})
    assert (environment.payments, json.loads(environment.policy)) == ("external", {"pay_within": 60})


def test_who_pays_or_asks_who_paid_is_told_who_it_is(everywhere: Synthesized) -> None:
    expected = everywhere.environment.payments
    for handler in ("api", "payments_worker", "reconciler"):
        assert everywhere.functions[handler]["Properties"]["Environment"]["Variables"]["PAYMENTS"] == expected


def test_production_data_outlives_its_stack(prod: Synthesized) -> None:
    [table] = prod.of_type("AWS::DynamoDB::Table").values()
    assert table["Properties"]["DeletionProtectionEnabled"] is True
    assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("Retain", "Retain")


def test_production_stacks_refuse_to_be_deleted_and_others_do_not(prod: Synthesized, dev: Synthesized) -> None:
    def protected(assembly: Synthesized) -> set[bool]:
        manifest = json.loads((assembly.folder / "manifest.json").read_text(encoding="utf-8"))
        return {
            artifact["properties"].get("terminationProtection", False)
            for artifact in manifest["artifacts"].values()
            if artifact["type"] == "aws:cloudformation:stack"
        }

    assert (protected(prod), protected(dev)) == ({True}, {False})


def test_a_development_table_goes_with_its_stack(dev: Synthesized) -> None:
    [table] = dev.of_type("AWS::DynamoDB::Table").values()
    assert table["Properties"]["DeletionProtectionEnabled"] is False
    assert table["DeletionPolicy"] == "Delete"


def test_every_log_is_kept_for_the_environments_days_and_no_longer(everywhere: Synthesized) -> None:
    kept = {group["Properties"]["RetentionInDays"] for group in everywhere.of_type("AWS::Logs::LogGroup").values()}
    assert kept == {everywhere.environment.log_days}
