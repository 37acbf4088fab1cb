"""Reading synthesized templates by meaning: queues, functions, statements, never logical ids."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from stacks.environments import Environment

Json = Any
Resource = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Template:
    """One stack's template."""

    path: Path
    body: dict[str, Any]

    def of_type(self, kind: str) -> dict[str, Resource]:
        """Logical id to resource, of one CloudFormation type."""
        return {name: resource for name, resource in self.body["Resources"].items() if resource["Type"] == kind}


@dataclass(frozen=True)
class Synthesized:
    """An environment's templates, read together: an import from another stack is followed to its resource."""

    environment: Environment
    folder: Path
    data: Template
    app: Template
    monitoring: Template

    @property
    def templates(self) -> tuple[Template, Template, Template]:
        return self.data, self.app, self.monitoring

    def of_type(self, kind: str) -> dict[str, Resource]:
        """Logical id to resource, in all templates."""
        return {name: found for template in self.templates for name, found in template.of_type(kind).items()}

    def target(self, value: Json) -> str:
        """The logical id that a reference, an ARN or an import stands for; for an ARN of several parts, the first."""
        found = next(self._references(value), None)
        assert found is not None, f"{value} refers to nothing"
        return found

    def text(self, value: Json) -> str:
        """A value in one line, references as `<LogicalId>`."""
        match value:
            case str():
                return value
            case {"Fn::Join": [separator, parts]}:
                return str(separator).join(self.text(part) for part in parts)
            case {"Ref": str(name)} if name.startswith("AWS::"):
                return f"<{name}>"
            case _:
                return f"<{self.target(value)}>"

    def _references(self, value: Json) -> Iterator[str]:
        match value:
            case {"Ref": str(name)} if not name.startswith("AWS::"):
                yield name
            case {"Fn::GetAtt": [name, *_]}:
                yield name
            case {"Fn::ImportValue": exported}:
                outputs = [*self.data.body["Outputs"].values(), *self.app.body["Outputs"].values()]
                yield from self._references(
                    next(o["Value"] for o in outputs if o.get("Export", {}).get("Name") == exported)
                )
            case dict():
                for part in value.values():
                    yield from self._references(part)
            case list():
                for part in value:
                    yield from self._references(part)

    @cached_property
    def queues(self) -> dict[str, Resource]:
        return self.of_type("AWS::SQS::Queue")

    def queue(self, *words: str) -> str:
        """The logical id of the queue whose id begins with these words, then CDK's hash."""
        pattern = re.compile("".join(words) + "[0-9A-F]{8}")
        [found] = [name for name in self.queues if pattern.fullmatch(name)]
        return found

    @cached_property
    def functions(self) -> dict[str, Resource]:
        """Handler file to function."""
        return {handler_of(resource): resource for resource in self.of_type("AWS::Lambda::Function").values()}

    @cached_property
    def aliases(self) -> dict[str, str]:
        """An alias's logical id to the handler file of its function."""
        functions = self.of_type("AWS::Lambda::Function")
        return {
            name: handler_of(functions[self.target(alias["Properties"]["FunctionName"])])
            for name, alias in self.of_type("AWS::Lambda::Alias").items()
        }

    @cached_property
    def mappings(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Each event source mapping: handler file, the source's logical id, properties."""
        return [
            (self.aliases[self.target(p["FunctionName"])], self.target(p["EventSourceArn"]), p)
            for p in (m["Properties"] for m in self.app.of_type("AWS::Lambda::EventSourceMapping").values())
        ]

    def statements(self, handler: str) -> list[dict[str, Any]]:
        """What a function's role may do."""
        return self.role_statements(self.target(self.functions[handler]["Properties"]["Role"]))

    def role_statements(self, role: str) -> list[dict[str, Any]]:
        """The statements of all policies attached to a role."""
        return [
            statement
            for policy in self.of_type("AWS::IAM::Policy").values()
            if role in [self.target(attached) for attached in policy["Properties"].get("Roles", [])]
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        ]

    @cached_property
    def identity_statements(self) -> list[dict[str, Any]]:
        """Every statement of every policy, inline or managed."""
        policies = {**self.of_type("AWS::IAM::Policy"), **self.of_type("AWS::IAM::ManagedPolicy")}
        return [s for policy in policies.values() for s in policy["Properties"]["PolicyDocument"]["Statement"]]

    def output(self, name: str) -> Json:
        """A stack output's value."""
        return {**self.data.body["Outputs"], **self.app.body["Outputs"]}[name]["Value"]


def handler_of(function: Mapping[str, Any]) -> str:
    """`duebook.handlers.api.handler` is `api`."""
    handler: str = function["Properties"]["Handler"]
    return handler.removeprefix("duebook.handlers.").removesuffix(".handler")


def many(value: Json) -> list[Json]:
    """IAM's and CloudFormation's 'one or a list' as a list."""
    return value if isinstance(value, list) else [value]


def plain(value: Json) -> str:
    """Any value as text, to look something up in it."""
    return json.dumps(value, sort_keys=True)
