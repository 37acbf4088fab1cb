"""The events queue, for examples."""

import json
from typing import Any


class Queue:
    """The events queue: holds what it is given until it is deleted, and shows all of it at every new read."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self.messages = {f"r-{number}": json.dumps(event) for number, event in enumerate(events)}
        self._shown = False

    def receive_message(self, **_: Any) -> Any:
        self._shown = not self._shown
        return {
            "Messages": [{"ReceiptHandle": key, "Body": body} for key, body in self.messages.items() if self._shown]
        }

    def delete_message(self, **given: Any) -> None:
        del self.messages[given["ReceiptHandle"]]

    def change_message_visibility(self, **_: Any) -> None:
        """Every message is visible again at the next read anyway."""
