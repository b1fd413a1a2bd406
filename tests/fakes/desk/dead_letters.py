"""The port `DeadLetters` over the invented world: an operation takes a twentieth of a second for each dead letter."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from desk.dead_letters.copying import UNREADABLE
from desk.desk import Actor, Conflict, NotFound
from desk.documents.messages import (
    DeadLetterCount,
    DeadLetterCounts,
    DeadLetterOrder,
    DeadLetterResult,
    LeftOut,
    Operation,
)
from desk.documents.shape import Unknown
from tests.fakes.desk.audit import FakeAudit
from tests.fakes.desk.messages import FakeMessages, matches
from tests.fakes.desk.world import Letter, World

_SECONDS_EACH = 0.05


@dataclass(slots=True)
class _Running:
    operation: Operation
    stop: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class FakeDeadLetters:
    world: World
    audit: FakeAudit
    running: list[_Running] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)

    def counts(self) -> DeadLetterCounts:
        with self.world.lock:
            messages = FakeMessages(self.world)
            found = [
                DeadLetterCount(
                    entity=entity,
                    total=len(letters),
                    reasons=dict(Counter(letter.reason for letter in letters.values())),
                    tables=dict(Counter(str(messages.detail(entity, True, each).table) for each in letters)),
                    examined=len(letters),
                )
                for entity, letters in self.world.letters.items()
            ]
            return DeadLetterCounts(items=found, total=len(found), unknown=list(self.unknown))

    def plan(self, order: DeadLetterOrder) -> DeadLetterResult:
        with self.world.lock:
            chosen = self._chosen(order)
            left = self._left(order, chosen)
        return DeadLetterResult(
            entity=order.entity,
            dry_run=True,
            matched=len(chosen),
            replayed=len(chosen) - len(left),
            left_count=len(left),
            left=left[:100],
            warnings=["a subscriber sees these changes after newer ones of other rows"] if chosen else [],
            complete=True,
        )

    def _chosen(self, order: DeadLetterOrder) -> list[Letter]:
        self.world.entity(order.entity)
        messages, letters = FakeMessages(self.world), self.world.letters.get(order.entity, {})
        wanted: Iterable[int] = letters if order.sequences is None else order.sequences
        return [
            letters[each]
            for each in wanted
            if each in letters and matches(messages.detail(order.entity, True, each), order.filter)
        ]

    def _left(self, order: DeadLetterOrder, chosen: Sequence[Letter]) -> list[LeftOut]:
        found = list[LeftOut]()
        for letter in chosen:
            if letter.replays >= order.most_replays:
                found.append(LeftOut(sequence=letter.sequence, why=f"it was replayed {letter.replays} times"))
            elif order.entity == "queue" and letter.reason in UNREADABLE and not order.unreadable:
                why = f"the router could not read it ({letter.reason}); replay it with --unreadable"
                found.append(LeftOut(sequence=letter.sequence, why=why))
            elif order.safe and letter.sequence % 5 == 0:
                found.append(LeftOut(sequence=letter.sequence, why="a newer change of its row was sent"))
        return found

    def replay(self, order: DeadLetterOrder, actor: Actor) -> Operation:
        return self._begin("replay", order, actor)

    def purge(self, order: DeadLetterOrder, actor: Actor) -> Operation:
        return self._begin("purge", order, actor)

    def _begin(self, kind: Literal["replay", "purge"], order: DeadLetterOrder, actor: Actor) -> Operation:
        with self.world.lock:
            chosen = self._chosen(order)
            if any(
                each.operation.state == "running" and each.operation.entity == order.entity for each in self.running
            ):
                raise Conflict(f"an operation of {order.entity} runs already", hint="wait for it, or stop it")
            operation = Operation(
                id=f"{kind}-{len(self.running) + 1}",
                kind=kind,
                entity=order.entity,
                state="running",
                begun_at=self.world.text(),
            )
            running = _Running(operation)
            self.running.append(running)
        threading.Thread(target=self._run, args=(running, order, actor, chosen), daemon=True).start()
        return operation

    def _run(self, running: _Running, order: DeadLetterOrder, actor: Actor, chosen: Sequence[Letter]) -> None:
        left = {} if running.operation.kind == "purge" else {each.sequence: each for each in self._left(order, chosen)}
        done = 0
        for number, letter in enumerate(chosen, 1):
            if running.stop.wait(_SECONDS_EACH):
                break
            with self.world.lock:
                if letter.sequence not in left:
                    done += 1
                    if not order.dry_run:
                        self.world.letters[order.entity].pop(letter.sequence, None)
                running.operation = running.operation.model_copy(update={"examined": number, "done": done})
        key = "replayed" if running.operation.kind == "replay" else "purged"
        result = DeadLetterResult.model_validate(
            {
                "entity": order.entity,
                "dry_run": order.dry_run,
                "matched": len(chosen),
                key: done,
                "left_count": len(left),
                "left": list(left.values())[:100],
                "complete": not running.stop.is_set(),
            }
        )
        if not order.dry_run:
            action, told = (
                f"dead_letters.{running.operation.kind}",
                {"matched": len(chosen), key: done, "left": len(left)},
            )
            self.audit.write(
                actor, action, order.entity, "done", reason=order.reason, operation=running.operation.id, **told
            )
        with self.world.lock:
            state = "stopped" if running.stop.is_set() else "done"
            running.operation = running.operation.model_copy(
                update={"state": state, "ended_at": self.world.text(), "result": result}
            )

    def operations(self) -> Sequence[Operation]:
        with self.world.lock:
            return [each.operation for each in reversed(self.running)]

    def operation(self, id: str) -> Operation:
        return self._found(id).operation

    def stop(self, id: str, actor: Actor) -> Operation:
        found = self._found(id)
        if found.operation.state != "running":
            raise Conflict(f"the operation is over: it is {found.operation.state}")
        found.stop.set()
        return found.operation

    def _found(self, id: str) -> _Running:
        with self.world.lock:
            for each in self.running:
                if each.operation.id == id:
                    return each
        raise NotFound(f"there is no operation {id[:100]}", hint="a console knows those of its own process")
