"""Actors that take turns on a virtual clock. One runs at a time, and the next one is drawn by time and by the seed, so a case repeats itself.

An actor is a thread, because the product's code waits in the middle of what it does. A killed actor raises `Killed` where it waits.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from itertools import count
from random import Random

MOST_STEPS = 400_000


class Killed(BaseException):
    """The actor is dead: nothing it does has an effect any more."""


class Stuck(AssertionError):
    """The case does not end."""


class _Runner:
    """A thread that is used by one actor after another."""

    idle: list[_Runner] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.baton = threading.Semaphore(0)
        self.actor: Actor | None = None
        threading.Thread(target=self._live, name="actor", daemon=True).start()

    def _live(self) -> None:
        while True:
            self.baton.acquire()
            assert self.actor is not None
            self.actor.live()


class Actor:
    """`kind`: what it stands for. `number`: of the life that it belongs to."""

    def __init__(self, world: Simulation, work: Callable[[], object], kind: str, life: int) -> None:
        self.world, self.kind, self.life = world, kind, life
        self.dead = self.over = False
        self.ticket = 0
        self.runner: _Runner | None = None
        self._work = work

    def live(self) -> None:
        try:
            if not self.dead:
                self._work()
        except Killed:
            pass
        except BaseException as error:  # the case fails with it
            self.world.failures.append(error)
        self.over = True
        runner, self.runner = self.runner, None
        assert runner is not None
        self.world.leave(runner)

    def resume(self) -> None:
        """Let its thread run. The thread that calls this must stop at once."""
        if self.runner is None:
            self.runner = _Runner.idle.pop() if _Runner.idle else _Runner()
            self.runner.actor = self
        self.runner.baton.release()


class _Main(Actor):
    """The test's own thread."""

    def __init__(self, world: Simulation) -> None:
        super().__init__(world, lambda: None, "main", 0)
        self.baton = threading.Semaphore(0)

    def resume(self) -> None:
        self.baton.release()


class Simulation:
    """`now`: seconds since the case began."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = Random(seed)
        self.failures: list[BaseException] = []
        self.steps = 0
        self._numbers = count()
        self._queue: list[tuple[float, float, int, Actor | Callable[[], None], int]] = []
        self._main = _Main(self)
        self.current: Actor = self._main
        self.actors: list[Actor] = []

    def at(self, seconds: float, event: Callable[[], None]) -> None:
        """`event` happens at that time; it must not wait."""
        self._push(seconds, event, 0)

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        self.at(self.now + seconds, event)

    def spawn(self, work: Callable[[], object], kind: str, life: int) -> Actor:
        actor = Actor(self, work, kind, life)
        self.actors = [known for known in self.actors if not known.over]
        self.actors.append(actor)
        self._push(self.now, actor, actor.ticket)
        return actor

    def kill(self, actor: Actor) -> None:
        """It raises where it waits, or at its next step."""
        if not actor.over and not actor.dead:
            actor.dead = True
            self.wake(actor)

    def wake(self, actor: Actor) -> None:
        actor.ticket += 1
        self._push(self.now, actor, actor.ticket)

    def sleep(self, seconds: float) -> None:
        """The current actor does nothing for so long, or until it is woken."""
        me = self.current
        if me.dead:
            raise Killed
        self._push(self.now + seconds, me, me.ticket)
        self._switch(me)
        if me.dead:
            raise Killed

    def leave(self, runner: _Runner) -> None:
        """The current actor is over; its thread is free for another."""
        following = self._next()
        _Runner.idle.append(runner)
        following.resume()

    def close(self) -> None:
        """Kill everybody, and wait until they are gone."""
        for actor in self.actors:
            self.kill(actor)
        while any(not actor.over for actor in self.actors):
            self.sleep(0.001)

    def _push(self, seconds: float, what: Actor | Callable[[], None], ticket: int) -> None:
        heapq.heappush(self._queue, (seconds, self.random.random(), next(self._numbers), what, ticket))

    def _switch(self, me: Actor) -> None:
        following = self._next()
        if following is me:
            return
        following.resume()
        (me.baton if isinstance(me, _Main) else _baton(me)).acquire()

    def _next(self) -> Actor:
        """Whose turn it is; what happens before that has happened then."""
        while True:
            self.steps += 1
            if self.steps == MOST_STEPS:
                self.failures.append(Stuck("no end after so many steps"))
            seconds, _, _, what, ticket = heapq.heappop(self._queue)
            self.now = max(self.now, seconds)
            if not isinstance(what, Actor):
                what()
            elif not what.over and what.ticket == ticket:
                what.ticket += 1
                self.current = what
                return what


def _baton(actor: Actor) -> threading.Semaphore:
    assert actor.runner is not None
    return actor.runner.baton
