"""What each status means, and how long a busy receiver is left alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from common.errors import EntityMissing
from router.outputs.webhook.answers import MOST_WAIT, Meaning, meaning, seconds_of, unavailable

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
REFUSED = (400, 413, 422)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *[(each, Meaning.ACCEPTED) for each in (200, 201, 202, 204, 207, 299)],
        *[(each, Meaning.REFUSED) for each in REFUSED],
        (429, Meaning.BUSY),
        *[(each, Meaning.AGAIN) for each in (408, 409, 421, 423, 425, 500, 502, 503, 504, 599)],
        *[(each, Meaning.MISSING) for each in (404, 410)],
        *[(each, Meaning.UNAVAILABLE) for each in (100, 301, 302, 307, 401, 403, 405, 407, 411, 415, 418, 451)],
    ],
)
def test_each_status_has_one_meaning(status: int, expected: Meaning) -> None:
    assert meaning(status, refused=REFUSED) is expected


def test_a_server_that_names_a_time_is_busy_and_not_broken() -> None:
    assert meaning(503, refused=REFUSED, retry_after="5") is Meaning.BUSY


def test_the_refused_statuses_are_the_operators_choice() -> None:
    assert meaning(422, refused=()) is Meaning.UNAVAILABLE
    assert meaning(409, refused=(409,)) is Meaning.REFUSED


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, 0),
        ("", 0),
        ("0", 0),
        (" 120 ", 120),
        ("999999999999", MOST_WAIT),
        ("-5", 0),
        ("1.5", 0),
        ("soon", 0),
        ("٣", 0),
        ("Mon, 23 Nov 2026 12:00:30 GMT", 30),
        ("Mon, 23 Nov 2026 11:00:00 GMT", 0),
        ("Tue, 24 Nov 2026 12:00:00 GMT", MOST_WAIT),
    ],
)
def test_retry_after_is_read_in_both_forms(text: str | None, seconds: float) -> None:
    assert seconds_of(text, NOW) == seconds


def test_an_error_names_the_status_and_never_what_a_redirect_carries() -> None:
    error = unavailable("https://a/b", 302, "https://login.example.com/?token=secret")
    assert "302 Found" in str(error)
    assert "login.example.com" in str(error)
    assert "secret" not in str(error)
    assert isinstance(unavailable("https://a/b", 410, None), EntityMissing)
