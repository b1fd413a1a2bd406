"""What errors of librdkafka mean."""

from __future__ import annotations

import pytest

from common.errors import DStreamError, EntityMissing, EntityUnavailable, TransientError
from router.outputs.kafka.errors import Fault, noted, of_topic


def meant(name: str, text: str = "words", *, proven: bool = False) -> DStreamError:
    return of_topic("sending to", "shop.Persons", Fault.of(name, text), proven=proven)


@pytest.mark.parametrize("name", ["UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"])
def test_a_missing_topic(name: str) -> None:
    error = meant(name)
    assert isinstance(error, EntityMissing)
    assert "shop.Persons" in error.message
    assert error.hint


@pytest.mark.parametrize(
    "name", ["TOPIC_AUTHORIZATION_FAILED", "SASL_AUTHENTICATION_FAILED", "_AUTHENTICATION", "_SSL"]
)
def test_a_refusal_is_permanent_unless_the_right_was_proven(name: str) -> None:
    assert isinstance(meant(name), EntityUnavailable)
    proven = meant(name, proven=True)
    assert isinstance(proven, TransientError)
    assert proven.hint == meant(name).hint


@pytest.mark.parametrize(
    "name", ["NOT_ENOUGH_REPLICAS", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "REQUEST_TIMED_OUT"]
)
def test_everything_doubtful_is_transient(name: str) -> None:
    error = meant(name)
    assert isinstance(error, TransientError)
    assert "words" in error.message


@pytest.mark.parametrize(
    "text",
    [
        "SASL PLAIN mechanism handshake failed: Local: Broker transport failure: broker's supported mechanisms: (n/a)",
        "Disconnected while requesting ApiVersion",
    ],
)
def test_a_connection_that_ends_during_the_sign_in_is_not_a_wrong_password(text: str) -> None:
    assert isinstance(meant("_AUTHENTICATION", text), TransientError)


def test_what_fails_because_of_another_message() -> None:
    assert Fault.of("_PURGE_QUEUE", "purged").is_consequence
    assert not Fault.of("MSG_SIZE_TOO_LARGE", "too large").is_consequence


def test_that_all_brokers_are_down_does_not_hide_why() -> None:
    down = Fault("_ALL_BROKERS_DOWN", "1/1 brokers are down")
    refused = Fault("_AUTHENTICATION", "invalid password")
    assert noted((1.0, refused), 2.0, down) == (2.0, refused)
    assert noted((1.0, Fault("_TRANSPORT", "connection refused")), 2.0, down)[1].text == (
        "1/1 brokers are down: connection refused"
    )
    once = noted((1.0, Fault("_TRANSPORT", "connection refused")), 2.0, down)
    assert noted(once, 3.0, down) == (3.0, once[1])
    assert noted((1.0, refused), 100.0, down) == (100.0, down)
    assert noted((1.0, down), 2.0, refused) == (2.0, refused)
