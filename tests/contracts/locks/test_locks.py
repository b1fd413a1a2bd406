"""The promises of ingester/locks.py."""

from __future__ import annotations

from ingester.local_locks import LocalLocks


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def test_a_held_lock_is_not_handed_out_again_until_it_is_released() -> None:
    locks = LocalLocks(Clock())
    lease = locks.acquire("t")
    assert lease is not None
    assert locks.acquire("t") is None
    locks.release(lease)
    assert locks.acquire("t") is not None


def test_each_acquisition_has_a_larger_epoch_even_within_one_tick() -> None:
    locks = LocalLocks(Clock())
    epochs = []
    for _ in range(3):
        lease = locks.acquire("t")
        assert lease is not None
        epochs.append(lease.epoch)
        locks.release(lease)
    assert epochs == sorted(set(epochs))


def test_epochs_grow_over_a_restart() -> None:
    clock = Clock()
    first = LocalLocks(clock).acquire("t")
    clock.time += 0.002
    second = LocalLocks(clock).acquire("t")
    assert first is not None
    assert second is not None
    assert second.epoch > first.epoch


def test_a_lock_lost_to_another_process_is_not_fought_over() -> None:
    locks = LocalLocks(Clock())
    lease = locks.acquire("t")
    assert lease is not None
    locks.lost(lease)
    assert locks.acquire("t") is None
