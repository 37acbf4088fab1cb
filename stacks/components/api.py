"""The HTTP API: every route asks for AWS credentials, and each group of routes is granted by its own policy.

Stripe's webhook is the one exception.
"""

import json
import re

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.components.findings import accept, wildcard_in
from stacks.components.function import ServiceFunction, log_group
from stacks.components.routes import ROUTES, STRIPE_WEBHOOK, Route
from stacks.environments import Environment

_ACCESS_LOG = {
    name: f"$context.{value}"
    for name, value in {
        "at": "requestTimeEpoch",
        "caller": "identity.userArn",
        "error": "error.message",
        "integration_error": "integrationErrorMessage",
        "latency_ms": "responseLatency",
        "method": "httpMethod",
        "path": "path",
        "request_id": "requestId",
        "route": "routeKey",
        "status": "status",
    }.items()
}

WEBHOOK_RATE, WEBHOOK_BURST = 25, 50
"""Requests a second of Stripe's webhook; what is refused, Stripe sends again for up to three days
(docs.stripe.com/webhooks, "Retry behavior")."""


class ServiceApi(Construct):
    """An HTTP API in front of one function, with access logs and throttling on its default stage.

    `webhook`: the function behind the route that anybody can call, which has lower limits of its own, so that a flood
    there takes nothing from the callers who signed.

    `policies`: a managed policy for each group of routes. IAM matches the request's path and its `*` also matches
    `/`, so a grant of `PUT /bookings/*` takes in `PUT /bookings/*/jobs/*`: who may write a booking may set its jobs.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        function: ServiceFunction,
        environment: Environment,
        webhook: ServiceFunction | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.api = apigateway.HttpApi(
            self,
            "Api",
            description=f"Duebook ({environment.name})",
            create_default_stage=False,
            default_authorizer=authorizers.HttpIamAuthorizer(),
        )
        stage = apigateway.CfnStage(
            self,
            "Stage",
            api_id=self.api.api_id,
            stage_name="$default",
            auto_deploy=True,
            default_route_settings=apigateway.CfnStage.RouteSettingsProperty(
                throttling_rate_limit=environment.requests_per_second, throttling_burst_limit=environment.burst
            ),
            access_log_settings=apigateway.CfnStage.AccessLogSettingsProperty(
                destination_arn=log_group(self, "AccessLogs", environment=environment).log_group_arn,
                format=json.dumps(_ACCESS_LOG, separators=(",", ":")),
            ),
        )
        integration = integrations.HttpLambdaIntegration("Integration", function.alias, scope_permission_to_route=False)
        for routes in ROUTES.values():
            for method, path in routes:
                self.api.add_routes(path=path, methods=[apigateway.HttpMethod[method]], integration=integration)
        if webhook is not None:
            self._open(stage, webhook)
        self.policies = {group: self._policy(group) for group in ROUTES}

    def _open(self, stage: apigateway.CfnStage, webhook: ServiceFunction) -> None:
        method, path = STRIPE_WEBHOOK
        [route] = self.api.add_routes(
            path=path,
            methods=[apigateway.HttpMethod[method]],
            integration=integrations.HttpLambdaIntegration("StripeWebhook", webhook.alias),
            authorizer=apigateway.HttpNoneAuthorizer(),
        )
        accept(route, "AwsSolutions-APIG4", reason="Stripe signs its events, and the function checks the signature.")
        stage.route_settings = {
            f"{method} {path}": {"ThrottlingRateLimit": WEBHOOK_RATE, "ThrottlingBurstLimit": WEBHOOK_BURST}
        }
        stage.node.add_dependency(route)  # settings of a route that does not exist yet are refused

    def _policy(self, group: str) -> iam.ManagedPolicy:
        resources = [self._arn(route) for route in ROUTES[group]]
        policy = iam.ManagedPolicy(
            self,
            f"{group.capitalize()}Policy",
            description=f"Calls the {group} routes of Duebook's API.",
            statements=[iam.PolicyStatement(actions=["execute-api:Invoke"], resources=resources)],
        )
        for resource in resources:
            accept(policy, wildcard_in(self, resource), reason="A route for any booking, job or payment.")
        return policy

    def _arn(self, route: Route) -> str:
        """The route as IAM sees a request for it. The stage is left open: there is only one."""
        method, path = route
        return Stack.of(self).format_arn(
            service="execute-api",
            resource=self.api.api_id,
            resource_name=f"*/{method}{re.sub(r'{[^}]+}', '*', path)}",
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )
