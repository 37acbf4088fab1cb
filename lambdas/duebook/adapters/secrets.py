"""A secret of Secrets Manager, read at its first use and kept for a while. It is in no log, no error and no repr."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from duebook.adapters import aws
from duebook.domain.errors import AwsFailure, Throttled

KEPT_FOR = timedelta(minutes=15)
"""Then it is read again, so that a rotated secret is in use within that time."""
_KINDS: Mapping[str, type[AwsFailure]] = {"ThrottlingException": Throttled}


class SecretsManagerSecret:
    """The text of one secret; `arn` its ARN or name. Raises `Throttled` or `AwsFailure`."""

    def __init__(self, client: Any, arn: str, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._arn = arn
        self._clock = clock
        self._value: str | None = None
        self._read_at: datetime | None = None

    def value(self) -> str:
        """As last read, at most 15 minutes ago."""
        if self._value is None or self._read_at is None or self._clock() - self._read_at >= KEPT_FOR:
            return self.fresh()
        return self._value

    def fresh(self) -> str:
        """Read now, whatever is kept: for when the kept one was refused."""
        answer = aws.call("Secrets Manager", _KINDS, lambda: self._client.get_secret_value(SecretId=self._arn))
        text = str(answer.get("SecretString") or "").strip()
        if not text:
            raise AwsFailure("the secret holds no text", aws_code="NoSecretString")
        self._value, self._read_at = text, self._clock()
        return text

    def __repr__(self) -> str:
        return f"SecretsManagerSecret({self._arn!r})"
