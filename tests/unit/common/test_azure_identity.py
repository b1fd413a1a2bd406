"""What it means that a token cannot be had, and when the credential is made and closed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
from azure.identity import CredentialUnavailableError
from azure.servicebus.exceptions import ServiceBusError
from pydantic import ValidationError

import common.azure_identity
from common.azure_identity import Identity, SqlTokens
from common.errors import EntityUnavailable, PermanentError, TransientError
from common.servicebus.errors import translate
from common.servicebus.namespace import ServiceBus
from common.servicebus.settings import ServiceBusSettings

SECRET = "hunter2-hunter2"


class StandIn:
    """Gives a token, or fails, and counts."""

    made = 0
    closed = 0
    fail: Exception | None = None
    options: Mapping[str, Any] = {}
    """What it was made with."""

    def __init__(self, **options: Any) -> None:
        StandIn.made += 1
        StandIn.options = options

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        if StandIn.fail is not None:
            raise StandIn.fail
        return AccessToken(SECRET, 2_000_000_000)

    def close(self) -> None:
        StandIn.closed += 1


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.identity", SimpleNamespace(DefaultAzureCredential=StandIn))
    StandIn.made, StandIn.closed, StandIn.fail = 0, 0, None


def refused(status: int) -> ClientAuthenticationError:
    error = ClientAuthenticationError("refused")
    error.status_code = status
    return error


def test_the_credential_is_made_at_the_first_token_and_once() -> None:
    identity = Identity()
    assert StandIn.made == 0
    assert identity.get_token("scope").token == identity.get_token("scope").token == SECRET
    assert StandIn.made == 1


def test_closing_closes_the_credential_once_and_what_was_never_made_not_at_all() -> None:
    identity = Identity()
    identity.close()
    assert StandIn.closed == 0
    identity.get_token("scope")
    identity.close()
    identity.close()
    assert StandIn.closed == 1


@pytest.mark.parametrize(
    "error",
    [
        CredentialUnavailableError("no response\nfrom the IMDS endpoint"),
        ClientAuthenticationError("DefaultAzureCredential failed to retrieve a token"),
        refused(400),
        refused(401),
        ValueError("Invalid value for AZURE_TOKEN_CREDENTIALS"),
    ],
    ids=lambda error: f"{type(error).__name__}-{getattr(error, 'status_code', None)}",
)
def test_no_identity_is_a_matter_for_a_person_who_is_told_the_roles(error: Exception) -> None:
    StandIn.fail = error
    with pytest.raises(PermanentError, match="asking for a token of Microsoft Entra ID: ") as raised:
        Identity().get_token("scope")
    assert raised.value.__cause__ is error
    assert "\n" not in str(raised.value)
    for word in ("AZURE_CLIENT_ID", "Data Sender", "Data Receiver", "Data Owner"):
        assert word in str(raised.value)


@pytest.mark.parametrize(
    "error",
    [refused(408), refused(410), refused(429), refused(503), ServiceRequestError("no answer"), TimeoutError("late")],
    ids=lambda error: f"{type(error).__name__}-{getattr(error, 'status_code', None)}",
)
def test_a_token_service_that_is_away_is_asked_again(error: Exception) -> None:
    StandIn.fail = error
    with pytest.raises(TransientError, match="asking for a token"):
        Identity().get_token("scope")


def test_an_identity_that_was_there_before_will_be_there_again() -> None:
    clock = Clock()
    identity = Identity(clock=clock)
    identity.get_token("scope")
    StandIn.fail = CredentialUnavailableError("no response from the IMDS endpoint")
    clock.now = 2_000_000_000
    for known in (identity, Identity(proven=True)):
        with pytest.raises(TransientError, match="IMDS"):
            known.get_token("scope")


def test_what_the_sdk_wraps_keeps_its_remedy_and_an_identity_that_is_missing_is_no_table_s_trouble() -> None:
    for kind, wrapped in ((TransientError, TransientError), (PermanentError, EntityUnavailable)):
        inner = kind("asking for a token: no", hint="sign in")
        told = translate(ServiceBusError("Handler failed", error=inner), "opening a sender for q")
        assert type(told) is wrapped
        assert str(told) == "opening a sender for q: asking for a token: no (sign in)"


def test_a_namespace_is_reached_by_the_identity_and_shows_no_token() -> None:
    bus = ServiceBus.of(ServiceBusSettings(namespace="NS.servicebus.windows.net"))
    assert bus.address.identity is not None
    bus.address.identity.get_token("scope")
    assert (bus.address.host, bus.address.connection_string) == ("ns.servicebus.windows.net", None)
    for shown in (repr(bus), repr(bus.address), repr(bus.address.identity), repr(bus.sender("q"))):
        assert SECRET not in shown
    bus.close()
    assert StandIn.closed == 1


def test_a_key_needs_no_identity() -> None:
    key = {"connection_string": f"Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey={SECRET}"}
    bus = ServiceBus.of(ServiceBusSettings.model_validate(key))
    assert bus.address.identity is None
    bus.close()
    assert StandIn.made == 0


def test_nobody_pays_for_azure_identity_who_has_a_key() -> None:
    code = "import sys, router.app; sys.exit('azure.identity' in sys.modules)"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_a_string_that_lacks_a_part_is_refused_when_the_settings_are_made() -> None:
    with pytest.raises(ValidationError, match="has no SharedAccessKeyName; has no SharedAccessKey; it should read"):
        ServiceBus.of(ServiceBusSettings.model_validate({"connection_string": "Endpoint=sb://x"}))


def test_a_token_that_does_not_come_in_time_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(common.azure_identity, "TOKEN_TIMEOUT", 0.01)
    monkeypatch.setattr(StandIn, "get_token", lambda self, *scopes, **options: release.wait(60))
    try:
        with pytest.raises(TransientError, match="asking for a token of Microsoft Entra ID: it took more than"):
            Identity().get_token("scope")
    finally:
        release.set()


def test_what_the_credential_asks_is_bounded_as_well() -> None:
    """Its own bounds are 300 s for a connection and 300 s for an answer, each tried again."""
    Identity().get_token("scope")
    assert StandIn.options["retry_total"] <= 1
    assert StandIn.options["connection_timeout"] + StandIn.options["read_timeout"] < common.azure_identity.TOKEN_TIMEOUT


def test_a_token_that_is_still_good_bridges_a_service_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Azure's clients ask for the next token minutes before theirs runs out, and would drop their request without one."""
    release = threading.Event()
    clock = Clock()
    identity = Identity(seconds=60, clock=clock)
    monkeypatch.setattr(
        StandIn, "get_token", lambda self, *scopes, **options: AccessToken(SECRET, int(clock.now) + 200)
    )
    last = identity.get_token("scope")
    identity._seconds = 0.01
    monkeypatch.setattr(StandIn, "get_token", lambda self, *scopes, **options: release.wait(60))
    try:
        assert identity.get_token("scope") is last
        with pytest.raises(TransientError, match="took more than"):
            identity.get_token("scope", claims="{}")
        with pytest.raises(TransientError, match="took more than"):
            identity.get_token("another")
        clock.now = last.expires_on - 1
        with pytest.raises(TransientError, match="took more than"):
            identity.get_token("scope")
    finally:
        release.set()


@pytest.mark.parametrize(
    "error",
    [refused(429), refused(503), ServiceRequestError("no answer"), OSError("no route")],
    ids=lambda error: f"{type(error).__name__}-{getattr(error, 'status_code', None)}",
)
def test_a_token_that_is_still_good_bridges_a_passing_trouble(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    clock = Clock()
    identity = Identity(clock=clock)
    monkeypatch.setattr(
        StandIn, "get_token", lambda self, *scopes, **options: AccessToken(SECRET, int(clock.now) + 200)
    )
    last = identity.get_token("scope")

    def fails(*_: object, **__: object) -> AccessToken:
        raise error

    monkeypatch.setattr(StandIn, "get_token", fails)
    assert identity.get_token("scope") is last
    clock.now = last.expires_on - 1
    with pytest.raises(TransientError):
        identity.get_token("scope")


def test_a_refusal_is_not_bridged(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    identity = Identity(clock=clock)
    monkeypatch.setattr(
        StandIn, "get_token", lambda self, *scopes, **options: AccessToken(SECRET, int(clock.now) + 200)
    )
    identity.get_token("scope")

    def fails(*_: object, **__: object) -> AccessToken:
        raise refused(401)

    monkeypatch.setattr(StandIn, "get_token", fails)
    with pytest.raises(TransientError, match="refused"):
        identity.get_token("scope")


class Tokens(StandIn):
    """A new one each time, good for an hour."""

    clock = Clock()
    asked: ClassVar[list[tuple[str, ...]]] = []

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        Tokens.asked.append(scopes)
        super().get_token(*scopes)
        return AccessToken(f"token {len(Tokens.asked)}", int(Tokens.clock()) + 3600)


@pytest.fixture
def tokens() -> SqlTokens:
    Tokens.clock, Tokens.asked = Clock(), []
    return SqlTokens(Identity(credential=Tokens, hint="make it a user", clock=Tokens.clock))


def test_a_token_is_kept_for_each_scope_until_five_minutes_before_its_end() -> None:
    Tokens.clock, Tokens.asked = Clock(), []
    identity = Identity(credential=Tokens, clock=Tokens.clock)
    first = identity.get_token("bus")
    assert identity.get_token("storage") is not first
    Tokens.clock.now += 3600 - 301
    assert identity.get_token("bus") is first
    assert identity.get_token("bus", claims="revoked") is not first
    Tokens.clock.now += 2
    assert identity.get_token("bus") is not first
    assert Tokens.asked == [("bus",), ("storage",), ("bus",), ("bus",)]


def test_threads_that_want_a_token_together_ask_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, release = list[str](), threading.Event()

    def slow(self: StandIn, *scopes: str, **options: Any) -> AccessToken:
        asked.extend(scopes)
        release.wait(60)
        return AccessToken(SECRET, 2_000_000_000)

    monkeypatch.setattr(StandIn, "get_token", slow)
    identity, got = Identity(), list[str]()
    threads = [threading.Thread(target=lambda: got.append(identity.get_token("scope").token)) for _ in range(8)]
    for thread in threads:
        thread.start()
    release.set()
    for thread in threads:
        thread.join(60)
    assert (got, asked) == ([SECRET] * 8, ["scope"])


def test_a_token_for_sql_server_is_kept_until_it_is_nearly_over(tokens: SqlTokens) -> None:
    assert tokens.get() == "token 1"
    Tokens.clock.now += 3600 - 301
    assert tokens.get() == "token 1"
    Tokens.clock.now += 2
    assert tokens.get() == "token 2"
    assert Tokens.asked == [("https://database.windows.net/.default",)] * 2


def test_a_token_that_was_refused_is_not_used_again(tokens: SqlTokens) -> None:
    assert tokens.get() == "token 1"
    tokens.forget()
    assert tokens.get() == "token 2"


def test_without_an_identity_for_sql_server_the_remedy_is_sql_servers(tokens: SqlTokens) -> None:
    StandIn.fail = CredentialUnavailableError("none here")
    with pytest.raises(PermanentError, match=r"none here.*make it a user"):
        tokens.get()
