"""What the dispute's workflow calls. Inputs carry only ids, so that last month's executions call today's code.

Unknown fields of the input are ignored, and a missing `run` means the first one. A failure is raised as it is: the
state machine retries it, then fails, and `watch_dispute` starts the next run.
"""

from typing import Any

from duebook import wiring
from duebook.handlers.support import logger, metrics
from duebook.service.dispute import shown


@metrics.log_metrics
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """`{action: look|notify|settle, dispute_id, run, stage?, token?}` → `{next, until, deadline}` or `{}`."""
    disputes = wiring.dispute_steps()
    dispute_id, run = str(event["dispute_id"]), int(event.get("run", 1))
    said: dict[str, Any] = {"dispute_id": dispute_id, "run": run, "action": event["action"]}
    match event["action"]:
        case "look":
            answer = shown(disputes.look(dispute_id, run))
            logger.info("looked", extra={**said, "next": answer["next"]})
            return answer
        case "notify":
            reason = disputes.notify(dispute_id, run, str(event["stage"]), str(event["token"]))
            logger.info("notified", extra={**said, "stage": event["stage"], "reason": reason})
            return {}
        case "settle":
            disputes.settle(dispute_id)
            logger.info("settled", extra=said)
            return {}
        case other:
            raise ValueError(f"unknown action {other!r}")
