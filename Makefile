# Everything runs in .venv and .cache; a machine needs Python 3.11 or later and make.

PYTHON ?= python3
ENV ?= dev
PORT ?= 4566
CONSOLE_PORT ?= 0
TRACE ?= local/sample_trace.csv
LIMIT ?= 300

# An environment's own settings, one NAME = value a line, so that no deployment forgets one.
-include $(ENV).mk

BIN := $(CURDIR)/.venv/bin
RUN := $(BIN)/python
READY := .venv/.ready
SETTINGS = $(if $(PAYMENTS),-c payments=$(PAYMENTS)) $(if $(POLICY),-c 'policy=$(POLICY)') \
	$(if $(STRIPE_SECRET),-c stripe_secret=$(STRIPE_SECRET)) \
	$(if $(STRIPE_WEBHOOK_SECRET),-c stripe_webhook_secret=$(STRIPE_WEBHOOK_SECRET)) \
	$(if $(PERMISSIONS_BOUNDARY),-c permissions_boundary=$(PERMISSIONS_BOUNDARY)) \
	$(if $(ACCOUNT),-c account=$(ACCOUNT)) $(if $(REGION),-c region=$(REGION)) \
	$(if $(OWNER),-c 'owner=$(OWNER)') $(if $(COST_CENTER),-c 'cost_center=$(COST_CENTER)') \
	$(if $(ALARM_EMAILS),-c 'alarm_emails=$(ALARM_EMAILS)') $(if $(SCHEDULES_QUOTA),-c schedules_quota=$(SCHEDULES_QUOTA))
COMPILE := $(BIN)/uv pip compile --quiet --no-config --no-header --no-emit-index-url --no-emit-find-links

# The virtual environment first, with its Node.
export PATH := $(BIN):$(PATH)
export VIRTUAL_ENV := $(CURDIR)/.venv
export JSII_RUNTIME_PACKAGE_CACHE_ROOT := $(CURDIR)/.cache/jsii
export PYTHONDONTWRITEBYTECODE := 1
export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/.cache/hypothesis
export UV_CACHE_DIR ?= $(CURDIR)/.cache/uv

# Compiled once, into .venv; the project's own code never leaves bytecode in the tree.
COMPILED := aws_cdk.aws_apigatewayv2_authorizers, aws_cdk.aws_apigatewayv2_integrations, aws_cdk.aws_dynamodb, \
	aws_cdk.aws_events_targets, aws_cdk.aws_scheduler, aws_lambda_powertools.event_handler, boto3, cdk_nag, hypothesis, \
	ministack.app, moto.dynamodb, moto.scheduler, moto.sqs, moto.events, pydantic, pytest, rich.progress, sqlalchemy, typer

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-unit replay simulate mutants bench cost local clock openapi synth deploy smoke fmt lint type check lock \
	sample console browser screenshots

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv and fetch everything that is pinned

$(READY): requirements-dev.txt lambdas/requirements.txt client/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Duebook needs Python 3.11 or later; set PYTHON=" if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || { echo "Making .venv ..."; $(PYTHON) -m venv .venv; }
	@test -x $(BIN)/uv || $(RUN) -m pip install --quiet --disable-pip-version-check --no-cache-dir "$$(grep '^uv==' requirements.txt)"
	@echo "Fetching what requirements-dev.txt pins ..."
	@$(BIN)/uv pip sync --quiet requirements-dev.txt
	@$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable client
	@env -u PYTHONDONTWRITEBYTECODE $(RUN) -c 'import $(COMPILED)'
	@echo "Fetching the functions' dependencies for the Lambda platform ..."
	@$(RUN) -m stacks.bundling
	@touch $@

demo: $(READY) ## The whole story, August to December, on the embedded AWS: PAYMENTS=stripe
	@$(RUN) -m local.demo $(if $(PAYMENTS),--payments $(PAYMENTS))

test: $(READY) browser ## Every test: unit, contract, infrastructure, end to end
	@$(RUN) -m pytest

test-unit: $(READY) ## The unit tests alone, in seconds
	@$(RUN) -m pytest tests/unit

replay: $(READY) ## Real bookings through the API: TRACE=file.csv[.gz] LIMIT=300
	@$(RUN) -m local.replay --trace "$(TRACE)" --limit $(LIMIT)

simulate: $(READY) ## The product for a year of virtual time, with faults: SEED= BOOKINGS= DAYS= FAULTS= TRACE= PICTURE=
	@PYTHONPATH=lambdas $(RUN) -m simulation $(if $(SEED),--seed $(SEED)) $(if $(BOOKINGS),--bookings $(BOOKINGS)) \
		$(if $(DAYS),--days $(DAYS)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(PICTURE),--picture "$(PICTURE)") \
		$(if $(filter command line,$(origin TRACE)),--trace "$(TRACE)") $(if $(PAYMENTS),--payments $(PAYMENTS))

mutants: $(READY) ## Plant faults in the product, one a guard; each must be caught: ONLY=name,name
	@$(RUN) -m simulation.mutation $(if $(ONLY),--only "$(ONLY)")

bench: $(READY) ## Cold imports, memory, duration and AWS calls of each handler
	@$(RUN) -m benchmarks.handlers

cost: $(READY) ## What a month costs, from counted AWS calls: BOOKINGS=1000 MONTHS=12 (kept) PRICES=file.json
	@$(RUN) -m benchmarks.cost --bookings $(or $(BOOKINGS),1000) --months $(or $(MONTHS),12) $(if $(PRICES),--prices "$(PRICES)")

local: $(READY) ## Run the embedded AWS, with a sample and the console, until Ctrl-C: PORT=4566 CONSOLE_PORT= SAMPLE=0
	@$(RUN) -m local up --port $(PORT) --console --console-port $(CONSOLE_PORT) $(if $(filter 0,$(SAMPLE)),,--sample)

sample: $(READY) ## Put a small marketplace into the running embedded AWS: PORT=4566
	@$(RUN) -m local sample --port $(PORT)

console: $(READY) ## A page of this machine, with your own AWS credentials: ENV=dev, or ENV=local PORT=4566; CONSOLE_PORT=
	@$(RUN) -m duebook_console --env $(ENV) $(if $(filter local,$(ENV)),--port $(PORT)) --console-port $(CONSOLE_PORT)

browser: $(READY) ## Find a Chromium for the console's tests, or get one
	@$(RUN) -m tests.browser

screenshots: $(READY) browser ## Make docs/images/console-*.png anew
	@$(RUN) -m local.screenshots

clock: $(READY) ## Move the embedded AWS's time: BY=75d, or NEXT=1 to the next instant with work
	@$(RUN) -m local clock --port $(PORT) $(if $(BY),--by "$(BY)") $(if $(NEXT),--next $(NEXT))

openapi: $(READY) ## Write the HTTP API's OpenAPI document anew: docs/api/openapi.json
	@$(RUN) -m stacks.openapi

synth: $(READY) ## Synthesize and lint the templates, offline: ENV=dev PAYMENTS= POLICY='{...}'
	@$(RUN) app.py -c env=$(ENV) $(SETTINGS)
	@$(BIN)/cfn-lint "cdk.out/Duebook-$(ENV)-*.template.json"
	@ls cdk.out/Duebook-$(ENV)-*.template.json

deploy: $(READY) ## Deploy to your AWS account: ENV=dev (all settings: docs/deploying.md)
	@$(RUN) -m stacks.deploy --env $(ENV) $(SETTINGS)

smoke: $(READY) ## Play the stories on a deployment, and ask what AWS leaves open: ENV=dev or local
	@PYTHONPATH=lambdas $(RUN) -m smoke --env $(ENV) $(if $(CONFIRM),--confirm "$(CONFIRM)") \
		$(if $(BOUNDARY),--boundary "$(BOUNDARY)")

fmt: $(READY) ## Format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --quiet .

lint: $(READY) ## Check the code's format and style
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

type: $(READY) ## Check the types, strictly
	@$(BIN)/mypy

check: lint type test ## All that a change must pass

lock: ## Pin anew what the short lists (*.in) allow
	@test -x $(BIN)/uv || { $(PYTHON) -m venv .venv && $(RUN) -m pip install --quiet uv; }
	@$(COMPILE) --upgrade --universal --python-version 3.11 requirements-dev.in --output-file requirements-dev.txt
	@$(COMPILE) --universal --python-version 3.11 --constraints requirements-dev.txt requirements.in --output-file requirements.txt
	@$(COMPILE) --python-version 3.13 --python-platform aarch64-manylinux2014 --constraints requirements-dev.txt \
		lambdas/requirements.in --output-file lambdas/requirements.txt
