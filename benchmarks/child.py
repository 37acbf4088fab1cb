"""One handler in a fresh interpreter: its import, then events, each with its time and its AWS calls.

Run by `benchmarks.invocations`: a request as JSON on standard input, the answer as the last line of standard output.
"""

import importlib
import json
import resource
import sys
import time
from typing import Any


class Context:
    """What a handler asks of Lambda's context."""

    aws_request_id = "bench"
    function_name = "bench"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:eu-west-1:000000000000:function:bench:live"

    def get_remaining_time_in_millis(self) -> int:
        return 300_000


def main() -> None:
    request = json.load(sys.stdin)
    started = time.perf_counter()
    handler: Any = importlib.import_module(f"duebook.handlers.{request['handler']}").handler
    from duebook import wiring

    calls: list[str] = []
    for service in request["services"]:
        client = wiring.client(service)
        client.meta.events.register("provide-client-params.*.*", _counting(calls))
    ready = time.perf_counter() - started
    found = []
    for event in request["events"]:
        calls.clear()
        began = time.perf_counter()
        answer = handler(event, Context())
        found.append({"ms": (time.perf_counter() - began) * 1000, "calls": list(calls), "answer": answer})
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("\n" + json.dumps({"ready_ms": ready * 1000, "memory_mb": memory, "events": found}))


def _counting(calls: list[str]) -> Any:
    def count(params: dict[str, Any], model: Any, **_: Any) -> None:
        calls.append(model.name + ("*" if params.get("ConsistentRead") else ""))

    return count


if __name__ == "__main__":
    main()
