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
