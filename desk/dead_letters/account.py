"""What a replay or purge has come to: how many, which were left and why, and what a person should know. Keeps the first of each kind; no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from common.bus.browsing import Lying
from desk.documents.messages import DeadLetterResult, LeftOut

MOST_NAMED: Final = 100


@dataclass(slots=True)
class Account:
    """Grows while the operation runs. `held`: dead letters that another consumer had locked to the end."""

    entity: str
    kind: Literal["replay", "purge"]
    dry_run: bool = False
    examined: int = 0
    matched: int = 0
    done: int = 0
    left_count: int = 0
    left: list[LeftOut] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    doubtful: list[int] = field(default_factory=list)
    doubtful_count: int = 0
    older: list[int] = field(default_factory=list)
    older_count: int = 0
    packs: int = 0
    complete: bool = True
    warnings: list[str] = field(default_factory=list)

    def leave(self, lying: Lying, why: str) -> None:
        self.left_count += 1
        if len(self.left) < MOST_NAMED:
            self.left.append(LeftOut(sequence=lying.sequence, message_id=lying.message.message_id, why=why))

    def is_doubtful(self, sequence: int) -> None:
        """It is sent, and was perhaps sent before."""
        self.doubtful_count += 1
        if len(self.doubtful) < MOST_NAMED:
            self.doubtful.append(sequence)

    def is_older(self, lying: Lying) -> None:
        """It is sent, although a newer change of its row was, or may have been."""
        self.older_count += 1
        if len(self.older) < MOST_NAMED:
            self.older.append(lying.sequence)

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def accounted(self) -> int:
        return self.done + self.left_count

    def result(self) -> DeadLetterResult:
        told = list(self.warnings)
        will = "would be" if self.dry_run else "were"
        if self.older_count:
            told.append(
                f"{_counted(self.older_count)} {will} sent although a newer change of the row was sent, or may have been "
                f"({_named(self.older)}): a consumer that keeps the newest state must compare LSN; with --safe they are left"
            )
        if self.doubtful_count:
            told.append(
                f"{_counted(self.doubtful_count)} {will} sent that an earlier run, which was killed, may have sent already "
                f"({_named(self.doubtful)}): nothing removes the second copy"
            )
        if self.packs:
            told.append(
                f"{_counted(self.packs)} {'hold' if self.packs > 1 else 'holds'} several changes, most of them delivered before: all are sent again"
            )
        return DeadLetterResult(
            entity=self.entity,
            dry_run=self.dry_run,
            matched=self.matched,
            replayed=self.done if self.kind == "replay" else 0,
            purged=self.done if self.kind == "purge" else 0,
            left_count=self.left_count,
            left=list(self.left),
            doubtful=self.doubtful_count,
            warnings=told,
            complete=self.complete,
        )


def _counted(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{count:,} dead letters"


def _named(sequences: Sequence[int]) -> str:
    shown = ", ".join(str(each) for each in sequences[:5])
    return f"sequence {shown}{', ...' if len(sequences) > 5 else ''}"
