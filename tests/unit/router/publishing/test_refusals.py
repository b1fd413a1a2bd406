"""What the workers of a router have counted of refused messages, put together by their parent."""

from __future__ import annotations

from router.outputs.console.settings import ConsoleSettings
from router.publishing.refusals import Refusals

OUTPUT = ConsoleSettings(type="console")


def worker(refused: int, *, of: Refusals | None = None) -> Refusals:
    made = Refusals()
    if of is not None:
        made.learn(of.told())
    row = made.of(OUTPUT, "t")
    for _ in range(refused):
        row.refused()
    return made


def test_a_worker_that_sent_nothing_does_not_make_the_others_count_forgotten() -> None:
    parent = Refusals()
    for each in worker(11), worker(0), worker(3):
        parent.learn(each.told())
    assert parent.of(OUTPUT, "t").count == 11
    assert worker(1, of=parent).of(OUTPUT, "t").count == 12


def test_what_was_accepted_since_holds_whoever_leaves_first() -> None:
    refused = worker(11)
    accepted = worker(2)
    accepted.of(OUTPUT, "t").accepted()
    for order in [refused, accepted], [accepted, refused]:
        parent = Refusals()
        for each in order:
            parent.learn(each.told())
        assert parent.of(OUTPUT, "t").count == 0
