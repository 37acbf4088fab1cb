"""The stand-in for Stripe as tests use it: real HTTP on 127.0.0.1 through Stripe's own library, and nothing waits."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from duebook.adapters.stripe_payments import StripePayments, http_client
from local.stripe_fake import StripeFake
from local.stripe_fake.server import API_KEY, HANGS

ACCOUNT = "acct_1"
CHARGE = "ch_1"


class Impatient(HTTPAdapter):
    """Gives up at once where a real caller would wait for the answer until its time-out."""

    def send(self, *arguments: Any, **options: Any) -> requests.Response:
        answer = super().send(*arguments, **options)
        if HANGS in answer.headers:
            answer.close()
            raise requests.exceptions.ReadTimeout("no answer in time")
        return answer


class Secret:
    """An API key that may be changed; `read` counts how often it was read anew."""

    def __init__(self, key: str = API_KEY) -> None:
        self.kept = self.stored = key
        self.read = 0

    def value(self) -> str:
        return self.kept

    def fresh(self) -> str:
        self.read += 1
        self.kept = self.stored
        return self.kept


def session() -> requests.Session:
    made = requests.Session()
    made.trust_env = False
    made.mount("http://", Impatient())
    return made


def provider_of(fake: StripeFake, used: requests.Session, secret: Secret | None = None) -> StripePayments:
    return StripePayments(secret or Secret(), api_base=fake.url, http=http_client(used))


def ready(fake: StripeFake, amount: int = 100_000) -> None:
    """A chef's account that takes transfers, and a captured charge."""
    fake.state.account(ACCOUNT)
    fake.state.charged(CHARGE, amount, "EUR")


class Clock:
    """Moved by hand; `pause` passes time instead of waiting."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def pause(self, by: timedelta) -> None:
        self.now += by


Pause = Callable[[timedelta], None]
