"""Code and infrastructure name the same things: routes, settings, handlers."""

import re
from datetime import UTC, datetime

from duebook.service import rows
from stacks import ROOT
from stacks.components.routes import ROUTES
from tests.infrastructure.template import Synthesized

SOURCE = ROOT / "lambdas" / "duebook"
OPTIONAL = {"POLICY", "STRIPE_API_BASE"}
STRIPE = {"STRIPE_SECRET_ARN", "STRIPE_WEBHOOK_SECRET_ARN"}
BY_POWERTOOLS = {"LOG_LEVEL", "POWERTOOLS_SERVICE_NAME"}


def test_the_gateway_routes_exactly_what_the_api_answers_and_grants_it_under_the_same_group() -> None:
    from duebook.handlers.api import app

    paths = app.get_openapi_schema().paths
    assert paths is not None
    answered = {
        (operation.tags[0], method.upper(), path)
        for path, item in paths.items()
        for method in ("get", "put", "post", "delete")
        if (operation := getattr(item, method)) is not None and operation.tags
    }
    assert answered == {(group, method, path) for group, routes in ROUTES.items() for method, path in routes}


def test_every_handler_file_that_the_functions_name_is_there(everywhere: Synthesized) -> None:
    for handler in everywhere.functions:
        place = SOURCE / "handlers" / handler
        assert place.with_suffix(".py").exists() or (place / "__init__.py").exists(), handler


def test_every_setting_that_code_reads_is_set_and_every_set_one_is_read(everywhere: Synthesized) -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    read = set(re.findall(r'\bsetting\("([A-Z_]+)"\)', code))
    told = {name for f in everywhere.functions.values() for name in f["Properties"]["Environment"]["Variables"]}
    assert told - BY_POWERTOOLS - OPTIONAL == (read if everywhere.environment.payments == "stripe" else read - STRIPE)
    assert read >= STRIPE
    assert all(f'"{name}"' in code for name in OPTIONAL)


def test_every_new_history_row_wakes_the_publisher_and_a_published_one_does_not() -> None:
    """What the filters of the stream's readers let through is what the service writes (see test_delivery)."""
    assert rows.JOB_PREFIX == "job#"
    assert rows.history_sk(1).startswith("history#")
    assert rows.attention_keys(rows.OUTBOX, "b1#1", datetime.now(UTC))["attention_pk"].startswith("outbox#")
    assert "attention_pk" in rows.published({"pk": "b1", "sk": rows.history_sk(1)}, datetime.now(UTC)).remove
