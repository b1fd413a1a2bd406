"""How often a server is asked why it refuses a login."""

from __future__ import annotations

from collections.abc import Sequence

from ingester.sqlserver.login.refusal import Refusal, Words


class Server:
    def __init__(self, number: int) -> None:
        self.number, self.asked = number, 0

    def __call__(self) -> Sequence[Refusal]:
        self.asked += 1
        return [Refusal(self.number, 1, 14, f"answer {self.asked}")]


def test_a_password_that_is_refused_is_asked_about_once_a_minute_and_again_after_it_was_taken() -> None:
    now = 0.0
    words, server = Words(lambda: now), Server(18456)
    assert words.of("a", server)[0].text == words.of("a", server)[0].text == "answer 1"
    assert words.of("b", server)[0].text == "answer 2"
    now = 60.0
    assert words.of("a", server)[0].text == "answer 3"
    words.forget("a")
    assert words.of("a", server)[0].text == "answer 4"


def test_a_refusal_that_locks_nobody_out_is_asked_about_each_time() -> None:
    words, server = Words(lambda: 0.0), Server(40613)
    assert words.of("a", server)[0].text == "answer 1"
    assert words.of("a", server)[0].text == "answer 2"


def test_a_login_that_is_refused_again_and_again_is_tried_ever_more_rarely() -> None:
    now = [0.0]
    words, said = Words(lambda: now[0]), [Refusal(18456, 1, 14, "Login failed for user 'x'.")]
    tries = 0
    while now[0] < 3600:
        if not words.held("x"):
            tries += 1
            words.refused("x", said)
        now[0] += 1
    assert tries < 24
    assert words.held("x") == said
    assert not words.held("y")
    words.forget("x")
    assert not words.held("x")


def test_a_database_that_cannot_be_opened_is_tried_on() -> None:
    words = Words(lambda: 0.0)
    for _ in range(9):
        words.refused("x", [Refusal(4060, 1, 11, "Cannot open database"), Refusal(18456, 1, 14, "Login failed")])
    assert not words.held("x")
