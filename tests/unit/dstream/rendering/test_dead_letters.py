"""The result of `dstream dlq list`: none is said only of what was looked at."""

from __future__ import annotations

from common.unread import Unread
from dstream.rendering.dead_letters import count_lines


def test_none_is_said_of_those_alone_that_could_be_seen() -> None:
    assert count_lines([], []) == ["no dead letters"]
    assert count_lines([], [Unread("dead letters of queue", "no answer within 6 s", "check the proxy")]) == [
        "unknown: dead letters of queue: no answer within 6 s: check the proxy",
        "no dead letters among those that could be seen",
    ]
