"""Settings that workers cannot route with are taken back, once, for the reason that a worker gives."""

from __future__ import annotations

import threading
from collections.abc import Callable

from common.errors import DStreamError, PermanentError, Stopped, TransientError
from router.takeover.rollout import Rollout
from tests.unit.router.test_restarts import SETTINGS

OTHER = SETTINGS.model_copy(update={"batch": 7})


def taken_over(
    rollout: Rollout, *failures: DStreamError | None, done: bool = False, gives_way: Callable[[], bool] = lambda: False
) -> DStreamError | None:
    """What the attempt ends with."""
    met = list[DStreamError]()

    def attempt() -> None:
        try:
            rollout.take_over(OTHER, lambda: done, gives_way)
        except DStreamError as error:
            met.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    while thread.is_alive() and failures and not rollout.trying:
        thread.join(0.01)
    for failure in failures:
        rollout.refused(OTHER, 1, failure, "ended with status -9")
    thread.join(10)
    assert not thread.is_alive()
    return met[0] if met else None


def test_a_lasting_refusal_puts_the_previous_settings_in_force_at_once() -> None:
    rollout, refusal = Rollout(SETTINGS), PermanentError("wrong key")
    assert taken_over(rollout, refusal) is refusal
    assert rollout.settings is SETTINGS
    assert not rollout.trying


def test_a_worker_that_is_killed_with_the_settings_again_and_again_takes_them_back() -> None:
    rollout = Rollout(SETTINGS)
    assert isinstance(taken_over(rollout, None, None), TransientError)
    assert rollout.settings is SETTINGS


def test_it_gives_way_to_a_newer_edit() -> None:
    rollout = Rollout(SETTINGS)
    assert isinstance(taken_over(rollout, gives_way=lambda: True), Stopped)
    assert rollout.settings is SETTINGS


def test_once_in_force_they_stay() -> None:
    rollout = Rollout(SETTINGS)
    assert taken_over(rollout, done=True) is None
    assert rollout.settings is OTHER
    assert not rollout.refused(OTHER, 1, PermanentError("the queue is gone"), "ended with status 1")
