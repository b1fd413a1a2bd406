"""Taking, renewing and sharing locks, turn by turn, by a clock that the test moves; one test looks at the thread."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator

import pytest
from structlog.testing import capture_logs

from common.clock import SteadyTime, UnixTime
from common.errors import LeaseLost, PermanentError, TransientError
from ingester.driver.fair_share import PATIENCE_SECONDS
from ingester.driver.lease_keeper import LeaseKeeper
from ingester.local.locks import LocalLocks
from ingester.locks import Lease
from tests.fakes.locks import LEASE_SECONDS, MARGIN, FakeLocks, LockService

TABLES = [f"t{number}" for number in range(6)]
PLACES = ["place 0", "place 1", "place 2"]


class World:
    """Ingesters around one lock service."""

    def __init__(self) -> None:
        self.clock = 1000.0
        self.service = LockService(lambda: SteadyTime(self.clock))
        self.keepers: list[LeaseKeeper] = []

    def ingester(
        self, *, places: list[str] | None = None, want: list[str] | None = None, chance: float = 0.0
    ) -> tuple[LeaseKeeper, FakeLocks]:
        locks = FakeLocks(self.service)
        keeper = LeaseKeeper(
            locks,
            clock=lambda: SteadyTime(self.clock),
            places=PLACES if places is None else places,
            shuffle=lambda names: None,
            chance=lambda: chance,
        )
        self.keepers.append(keeper)
        keeper.want(TABLES if want is None else want)
        return keeper, locks

    def pass_time(self, seconds: float, *keepers: LeaseKeeper) -> None:
        """Turn by turn, each of a second; tables that others are due are given back at once."""
        for _ in range(int(seconds)):
            self.clock += 1
            for keeper in keepers:
                keeper.turn()
                for name in held(keeper) if keeper.surplus() else []:
                    if keeper.surplus() and (lease := keeper.lease(name)) is not None:
                        keeper.give_back(lease)
                        keeper._releases[-1].result(5)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    for keeper in made.keepers:
        keeper.close()


def held(keeper: LeaseKeeper) -> list[str]:
    return [name for name in TABLES if keeper.lease(name) is not None]


def taken(keeper: LeaseKeeper, name: str = "t0") -> Lease:
    lease = keeper.lease(name)
    assert lease is not None
    return lease


def test_what_is_wanted_and_free_is_taken_and_told(world: World) -> None:
    keeper, _ = world.ingester()
    assert held(keeper) == []
    keeper.turn()
    assert held(keeper) == TABLES
    assert set(TABLES) <= set(keeper.news())
    assert keeper.news() == []


def test_a_lease_is_renewed_for_as_long_as_it_is_held(world: World) -> None:
    keeper, _ = world.ingester(places=[])
    keeper.turn()
    lease = taken(keeper)
    for _ in range(300):
        world.pass_time(1, keeper)
        left = keeper.seconds_left(lease)
        assert left is not None
        assert left > LEASE_SECONDS / 2


def test_a_lock_service_that_is_away_for_less_than_a_lease_disturbs_nothing(world: World) -> None:
    keeper, locks = world.ingester(places=[])
    keeper.turn()
    lease = taken(keeper)
    with capture_logs() as logs:
        locks.fail = TransientError("no answer")
        world.pass_time(LEASE_SECONDS - MARGIN - 2, keeper)
        locks.fail = None
        world.pass_time(300, keeper)
    assert keeper.seconds_left(lease)
    assert taken(keeper).epoch == lease.epoch
    told = [entry["event"] for entry in logs]
    assert told == ["lock service unavailable, retrying", "lock service available again"]


def test_a_lock_service_that_is_away_is_told_once_although_it_is_not_asked_each_second(world: World) -> None:
    keeper, locks = world.ingester()
    with capture_logs() as logs:
        locks.fail = TransientError("no answer")
        world.pass_time(60, keeper)
    assert [entry["event"] for entry in logs] == ["lock service unavailable, retrying"]


def test_a_lease_that_could_not_be_renewed_ends_at_its_local_deadline_and_says_why(world: World) -> None:
    keeper, locks = world.ingester(places=[])
    keeper.turn()
    lease = taken(keeper)
    locks.fail = TransientError("no answer from the storage account")
    world.pass_time(LEASE_SECONDS - MARGIN - 1, keeper)
    assert keeper.seconds_left(lease) == pytest.approx(1)
    world.pass_time(1, keeper)
    assert world.service.holder("t0") is not None  # it has not run out there
    with pytest.raises(LeaseLost, match="not renewed in time: no answer from the storage account"):
        keeper.seconds_left(lease)


def test_a_lease_whose_deadline_has_passed_is_not_renewed_any_more(world: World) -> None:
    """As after a pause of the whole process: it is given up, and taken again with a larger epoch."""
    keeper, _ = world.ingester(places=[])
    keeper.turn()
    lease = taken(keeper)
    world.clock += LEASE_SECONDS
    keeper.turn()
    with pytest.raises(LeaseLost):
        keeper.seconds_left(lease)
    keeper.give_back(lease)
    world.pass_time(10, keeper)
    assert taken(keeper).epoch > lease.epoch


def test_ingesters_that_lost_the_lock_service_together_do_not_come_back_to_it_together(world: World) -> None:
    """A renewal that failed is tried again at the next turn, and what is locked elsewhere is looked for at its own pace: both by chance."""
    looks: dict[float, list[float]] = {0.0: [], 0.8: []}
    began = world.clock

    class Away(FakeLocks):
        def __init__(self, chance: float) -> None:
            super().__init__(world.service)
            self._chance = chance

        def held(self, names: Collection[str]) -> frozenset[str]:
            looks[self._chance].append(world.clock - began)
            raise TransientError("no answer")

    for chance, pause in ((0.0, 1.0), (0.8, 0.6)):
        keeper = LeaseKeeper(Away(chance), clock=lambda: SteadyTime(world.clock), chance=lambda chance=chance: chance)  # type: ignore[misc]
        world.keepers.append(keeper)
        keeper.want(TABLES)
        assert keeper.pause() == pytest.approx(pause)
    world.pass_time(16, *world.keepers)
    assert looks == {0.0: [1, 6, 11, 16], 0.8: [1, 4, 7, 10, 13, 16]}


def test_a_lost_lease_is_told_and_the_lock_sought_again(world: World) -> None:
    keeper, _ = world.ingester(places=[])
    keeper.turn()
    lease = taken(keeper)
    world.service.held["t0"] = ("somebody", world.clock + 30)
    world.service.epochs["t0"] += 1
    world.pass_time(25, keeper)
    with pytest.raises(LeaseLost, match="another has it"):
        keeper.seconds_left(lease)
    keeper.give_back(lease)
    world.pass_time(30, keeper)
    assert taken(keeper).epoch > lease.epoch + 1


def test_a_lease_that_ended_before_the_loop_saw_it_is_sought_again(world: World) -> None:
    keeper, _ = world.ingester(places=[])
    keeper.turn()
    world.clock += LEASE_SECONDS
    assert keeper.lease("t0") is None
    keeper._releases[-1].result(5)
    world.pass_time(10, keeper)
    assert keeper.lease("t0") is not None


def test_a_refusal_is_raised_to_the_loop_once(world: World) -> None:
    keeper, locks = world.ingester()
    locks.fail = PermanentError("403")
    keeper.turn()
    assert set(keeper.news()) == set(TABLES)
    with pytest.raises(PermanentError, match="403"):
        keeper.lease("t0")
    assert keeper.lease("t0") is None


def test_a_refused_renewal_ends_the_lease(world: World) -> None:
    keeper, locks = world.ingester(places=[])
    keeper.turn()
    lease = taken(keeper)
    locks.fail = PermanentError("403")
    world.pass_time(21, keeper)
    with pytest.raises(PermanentError, match="403"):
        keeper.seconds_left(lease)


def test_a_standby_takes_over_within_a_lease_and_a_few_seconds(world: World) -> None:
    owner, _ = world.ingester()
    owner.turn()
    world.pass_time(7, owner)
    first = taken(owner)
    standby, _ = world.ingester()
    world.pass_time(PATIENCE_SECONDS / 2, standby)  # from here on the owner is dead
    assert held(standby) == []
    world.pass_time(LEASE_SECONDS - PATIENCE_SECONDS / 2 + 6, standby)
    assert held(standby) == TABLES
    assert taken(standby).epoch > first.epoch


def test_ingesters_that_come_later_get_their_share_and_nobody_takes_it_back(world: World) -> None:
    one, _ = world.ingester()
    one.turn()
    assert len(held(one)) == 6
    two, _ = world.ingester()
    world.pass_time(40, one, two)
    assert (len(held(one)), len(held(two))) == (3, 3)
    three, _ = world.ingester()
    world.pass_time(40, one, two, three)
    assert [len(held(keeper)) for keeper in (one, two, three)] == [2, 2, 2]
    mine = held(one)
    world.pass_time(300, one, two, three)
    assert held(one) == mine
    assert sorted(held(one) + held(two) + held(three)) == TABLES


def test_what_one_leaves_for_good_the_other_takes(world: World) -> None:
    """An ingester that is counted but cannot read must not keep its share unread."""
    one, _ = world.ingester()
    two, _ = world.ingester(want=["t0"])
    world.pass_time(PATIENCE_SECONDS + 40, one, two)
    assert sorted(held(one) + held(two)) == TABLES
    before = held(one)
    world.pass_time(300, one, two)
    assert held(one) == before


def test_after_a_stop_the_others_have_everything_at_once(world: World) -> None:
    one, _ = world.ingester()
    two, _ = world.ingester()
    world.pass_time(40, one, two)
    one.close()
    world.pass_time(16, two)
    assert held(two) == TABLES


def test_while_nothing_is_wanted_nothing_is_taken(world: World) -> None:
    keeper, _ = world.ingester(want=[])
    world.pass_time(20, keeper)
    assert world.service.held == {}


def test_a_lock_that_nobody_needs_by_the_time_it_is_taken_is_given_back(world: World) -> None:
    keeper, locks = world.ingester()
    acquire = locks.acquire

    def slow(name: str) -> Lease | None:
        if name == "t0":
            keeper.unwant("t0")
        if name == "t1":
            keeper.want(TABLES[1:3])
        if name == "t2":
            keeper.want(())
        return acquire(name)

    locks.acquire = slow  # type: ignore[method-assign]
    keeper.turn()
    assert [name for name in TABLES if world.service.holder(name)] == held(keeper)
    assert not {"t0", "t2", "t3"} & set(held(keeper))


def test_what_is_unwanted_is_given_back_and_not_taken_again(world: World) -> None:
    keeper, _ = world.ingester()
    keeper.turn()
    keeper.unwant("t3")
    keeper._releases[-1].result(60)
    world.pass_time(60, keeper)
    assert held(keeper) == [name for name in TABLES if name != "t3"]
    assert world.service.holder("t3") is None


def test_everything_can_be_left_to_others_and_is_taken_again_when_it_is_wanted(world: World) -> None:
    keeper, _ = world.ingester()
    keeper.turn()
    keeper.want(())
    keeper.give_back_all(besides=["t1"])
    for release in keeper._releases:
        release.result(60)
    world.pass_time(60, keeper)
    assert [name for name in world.service.held if world.service.holder(name)] == ["t1"]
    keeper.want(TABLES)
    world.pass_time(5, keeper)
    assert held(keeper) == TABLES
    assert world.service.holder(PLACES[0]) is not None


class _CountedNames(set[str]):
    """How often all names were gone through."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()


def test_what_is_to_be_given_back_is_known_without_going_through_the_tables(world: World) -> None:
    many = [f"n{number}" for number in range(1000)]
    keeper, _ = world.ingester(want=many)
    world.pass_time(20, keeper)
    keeper._wanted = counted = _CountedNames(keeper._wanted)
    FakeLocks(world.service).acquire(PLACES[1])
    world.pass_time(1, keeper)
    keeper._live = 2
    counted.times = 0
    for expected in range(500, 0, -1):
        assert keeper.surplus() == expected
        keeper.give_back(taken(keeper, many[expected]))
    assert (keeper.surplus(), counted.times) == (0, 0)


def test_many_locks_are_taken_in_several_turns(world: World) -> None:
    many = [f"n{number}" for number in range(200)]
    keeper, _ = world.ingester(want=many)
    world.pass_time(4, keeper)
    assert all(keeper.lease(name) for name in many)


def test_thousands_of_locks_are_taken_without_a_pause_after_one_question(world: World) -> None:
    many = [f"n{number}" for number in range(1000)]
    keeper, locks = world.ingester(want=many)
    asked = 0
    held = locks.held

    def counted(names: Collection[str]) -> frozenset[str]:
        nonlocal asked
        asked += 1
        return held(names)

    locks.held = counted  # type: ignore[method-assign]
    turns = 0
    while turns == 0 or keeper.pause() == 0:
        keeper.turn()
        turns += 1
    assert all(keeper.lease(name) for name in many)
    assert (turns, asked) == (16, 1)


def test_a_failure_while_many_locks_are_taken_leaves_the_others_for_the_next_look(world: World) -> None:
    many = [f"n{number}" for number in range(1000)]
    keeper, locks = world.ingester(want=many)
    keeper.turn()
    locks.fail = TransientError("the lock service is away")
    keeper.turn()
    assert keeper.pause() > 0
    locks.fail = None
    world.pass_time(30, keeper)
    assert all(keeper.lease(name) for name in many)


def test_of_many_locks_those_that_are_no_longer_wanted_are_not_taken(world: World) -> None:
    many = [f"n{number}" for number in range(200)]
    keeper, _ = world.ingester(want=many)
    keeper.turn()
    for name in many[100:]:
        keeper.unwant(name)
    world.pass_time(10, keeper)
    assert [name for name in many if keeper.lease(name)] == many[:100]


def test_local_locks_never_run_out(world: World) -> None:
    keeper = LeaseKeeper(LocalLocks(lambda: UnixTime(world.clock)), clock=lambda: SteadyTime(world.clock))
    world.keepers.append(keeper)
    keeper.want(TABLES)
    keeper.turn()
    world.clock += 10**6
    assert keeper.seconds_left(taken(keeper)) is None
    assert keeper.surplus() == 0


def test_the_thread_takes_what_is_wanted_and_gives_everything_back_at_the_end(world: World) -> None:
    keeper, locks = world.ingester(want=[])
    asked = threading.Event()
    acquire = locks.acquire

    def acquire_and_tell(name: str) -> Lease | None:
        lease = acquire(name)
        if name == TABLES[-1]:
            asked.set()
        return lease

    locks.acquire = acquire_and_tell  # type: ignore[method-assign]  # tells the test
    keeper.start()
    keeper.want(TABLES)
    assert asked.wait(10)
    keeper.close()
    assert world.service.held == {}


def test_a_stop_while_many_locks_are_taken_is_no_fault_and_leaves_none(world: World) -> None:
    keeper, locks = world.ingester(want=[])
    begun, goes_on = threading.Event(), threading.Event()
    acquire = locks.acquire

    def slow(name: str) -> Lease | None:
        begun.set()
        assert goes_on.wait(10)
        return acquire(name)

    locks.acquire = slow  # type: ignore[method-assign]
    with capture_logs() as said:
        keeper.start()
        keeper.want([f"t{number}" for number in range(500)])
        assert begun.wait(10)
        keeper.close(0.2)
        goes_on.set()
        keeper._thread.join(10)
        keeper._pool.shutdown()
    assert not keeper._thread.is_alive()
    assert [line["event"] for line in said if line["log_level"] == "error"] == []
    assert world.service.held == {}


def test_a_stop_is_no_sign_that_the_lock_service_is_back(world: World) -> None:
    keeper, locks = world.ingester(places=[], want=["t1", "t2"])
    keeper.turn()
    world.clock += LEASE_SECONDS / 2
    locks.fail = TransientError("no answer")
    with capture_logs() as logs:
        keeper.turn()
        keeper._stop.set()
        keeper.turn()
    assert [entry["event"] for entry in logs] == ["lock service unavailable, retrying"]


@pytest.mark.parametrize("busy_with", ["acquire", "renew"])
def test_a_stop_asks_for_no_lock_that_waits_for_its_turn(world: World, busy_with: str) -> None:
    """What is given back would wait behind each of these requests, in the same threads, and be left locked."""
    held_before = [f"t{number}" for number in range(40)]
    keeper, locks = world.ingester(places=[], want=held_before)
    keeper.turn()
    asked, begun, of = list[str](), threading.Event(), getattr(locks, busy_with)

    def until_the_stop(lock: str | Lease) -> Lease | None:
        asked.append(lock if isinstance(lock, str) else lock.name)
        begun.set()
        assert keeper._stop.wait(10)
        lease: Lease | None = of(lock)
        return lease

    setattr(locks, busy_with, until_the_stop)
    if busy_with == "renew":
        world.clock += LEASE_SECONDS / 2
    else:
        keeper.want([*held_before, *(f"n{number}" for number in range(500))])
    keeper.start()
    assert begun.wait(10)
    keeper.close()
    assert len(asked) <= 8
    assert world.service.held == {}
