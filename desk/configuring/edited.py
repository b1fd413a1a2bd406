"""The port `Configuring` of the desk: orders into edits of one configuration, which two stages read.

An edit is made on the text that is there, the whole is checked as `dstream check` would without asking a server, and only then written. Refuses
an edit of another revision than the person saw, and values of secrets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import unified_diff
from typing import Protocol

from common.errors import ConfigurationError, DStreamError, TransientError
from common.names import TableName
from common.observability import logs
from desk.configuring import outputs, secrets, sources
from desk.configuring.allowed import NOTHING, Allowed, too_much
from desk.configuring.applying import refused
from desk.configuring.hcl.draft import Draft
from desk.configuring.hcl.original import Original
from desk.configuring.places.port import Content, Place, revision_of
from desk.configuring.revisions import Revisions
from desk.configuring.taken_over import Of, sentence
from desk.desk import Actor, Conflict
from desk.documents.configuring import Configuration, Edit, Output, OutputOrder, Revision, Source, SourceOrder
from desk.patience import given_up

_BUSY_SECONDS = 10.0
_WITHHELD = "# The file is not shown: while it cannot be read, nobody knows where its secrets are.\n"

Matches = Callable[[str], Sequence[TableName]]
"""The tables that patterns of a text match now; empty where that is not known. Takes seconds at most."""

Change = Callable[[Draft], list[str]]


class Judge(Protocol):
    """Reads a whole configuration as the stages do, without asking a server. Of one text it says the same as long as the process runs."""

    def __call__(self, text: str, /) -> Sequence[str]:
        """What a person should know, such as variables that are not set here. Raises ConfigurationError with every problem, by line."""
        ...


class EditedConfiguration:
    """Implements `desk.desk.Configuring`. `now`: in UTC, as documents have it."""

    def __init__(
        self,
        place: Place,
        revisions: Revisions,
        *,
        judge: Judge,
        matches: Matches,
        now: Callable[[], str],
        allowed: Allowed = NOTHING,
    ) -> None:
        self._allowed = allowed
        self._place = place
        self._revisions = revisions
        self._judge = judge
        self._matches = matches
        self._now = now
        self._lock = threading.Lock()
        self._last_judged: tuple[str, Sequence[str]] | None = None

    def configuration(self) -> Configuration:
        content = self._place.read()
        text, unreadable = self._shown(content)
        why_not = self._place.why_not() or unreadable
        return Configuration(
            place=self._place.name,
            revision=content.revision,
            writable=why_not is None,
            why_not=why_not,
            text=text,
            revisions=self._revisions.all(),
        )

    def sources(self) -> Sequence[Source]:
        draft = self._draft(self._place.read())
        return sources.sources(draft, self._matches(draft.raw))

    def outputs(self) -> Sequence[Output]:
        return outputs.outputs(self._draft(self._place.read()))

    def put_source(self, order: SourceOrder, revision: str | None, actor: Actor, *, new: bool) -> Edit:
        refused([why] if (why := too_much(order.settings)) is not None else [])
        what = f"{'add' if new else 'change'} the source {order.name.strip()}"

        def change(draft: Draft) -> list[str]:
            return sources.put_source(draft, order, new=new, allowed=self._allowed)

        return self._edited(change, ["source"], what, revision, actor, dry_run=order.dry_run, reason=order.reason)

    def remove_source(
        self, name: str, revision: str | None, actor: Actor, *, dry_run: bool, reason: str | None = None
    ) -> Edit:
        def change(draft: Draft) -> list[str]:
            return sources.remove_source(draft, name)

        what = f"remove the source {name.strip()}"
        return self._edited(change, ["source"], what, revision, actor, dry_run=dry_run, reason=reason)

    def put_output(self, order: OutputOrder, revision: str | None, actor: Actor, *, new: bool) -> Edit:
        refused([why] if (why := too_much([order.settings, order.routes])) is not None else [])
        what = f"{'add' if new else 'change'} the output {order.name.strip()}"

        def change(draft: Draft) -> list[str]:
            return outputs.put_output(draft, order, new=new, allowed=self._allowed)

        return self._edited(change, ["output"], what, revision, actor, dry_run=order.dry_run, reason=order.reason)

    def remove_output(
        self, name: str, revision: str | None, actor: Actor, *, dry_run: bool, reason: str | None = None
    ) -> Edit:
        def change(draft: Draft) -> list[str]:
            return outputs.remove_output(draft, name)

        what = f"remove the output {name.strip()}"
        return self._edited(change, ["output"], what, revision, actor, dry_run=dry_run, reason=reason)

    def undo(self, revision: str | None, actor: Actor, *, dry_run: bool, reason: str | None = None) -> Edit:
        with self._alone():
            content = self._seen(revision)
            text, last = self._revisions.before_last(content)
            did = last.what
            of: list[Of] = ["source"] if " source " in did else ["output"] if " output " in did else []
            what = did.removeprefix("undo: ") if did.startswith("undo: ") else f"undo: {did}"
            whose = [f"this undoes a change of {last.by} at {last.at}: {did}"]
            return self._taken(content, text, of, what, actor, dry_run=dry_run, reason=reason, warnings=whose)

    def _edited(
        self,
        change: Change,
        of: Sequence[Of],
        what: str,
        revision: str | None,
        actor: Actor,
        *,
        dry_run: bool,
        reason: str | None,
    ) -> Edit:
        with self._alone():
            content = self._seen(revision)
            draft = self._draft(content)
            warnings = change(draft)
            return self._taken(content, draft.raw, of, what, actor, dry_run=dry_run, reason=reason, warnings=warnings)

    def _taken(
        self,
        content: Content,
        text: str,
        of: Sequence[Of],
        what: str,
        actor: Actor,
        *,
        dry_run: bool,
        reason: str | None,
        warnings: Sequence[str],
    ) -> Edit:
        """The text in the place of the content, unless it is a dry run, or the same."""
        told = [*warnings, *self._exposed(content, text), *self._judged(text)]
        data = text.encode()
        same = data == content.data
        if same:
            told.append("nothing changes: the configuration says so already")
        if (why_not := self._place.why_not()) is not None and not dry_run:
            raise ConfigurationError([f"the configuration cannot be written: {why_not}"])
        if not dry_run and not same:
            shown = Revision(revision=revision_of(data), at=self._now(), by=actor.who, what=what, reason=reason)
            held = [*self._secret_lines(content.text), *self._secret_lines(text)]
            self._written(shown, content, text, held)
        if why_not is not None:
            told.append(f"it cannot be written: {why_not}")
        return Edit(
            applied=not dry_run and not same,
            dry_run=dry_run,
            revision=revision_of(data),
            difference=self._difference(content.text, text),
            taken_over="" if same else sentence(of, delay=self._place.delay),
            warnings=told,
        )

    def _written(self, shown: Revision, seen: Content, text: str, held: Sequence[str]) -> None:
        """Kept first: a change that cannot be undone is not made. One console at a time, so that each keeps what it wrote."""
        with self._revisions.alone():
            present = self._seen(seen.revision)
            self._revisions.forget_undone(present)
            self._revisions.add(shown, seen.text, text, secrets=held)
            try:
                if given_up():  # the console has answered that there was no answer
                    raise Conflict("changing the configuration: it took too long, and was not made", hint="try again")
                self._place.write(text.encode(), seen)
            except Conflict:
                self._revisions.take_out(shown)
                raise
            except TransientError:
                if not self._came(text):
                    raise

    def _came(self, text: str) -> bool:
        """After a write without an answer: whether it was made all the same."""
        try:
            return self._place.read().data == text.encode()
        except DStreamError:
            return False

    def _judged(self, text: str) -> Sequence[str]:
        """What was shown by a dry run is mostly what is written next: a long file is not read again for that."""
        if self._last_judged is None or self._last_judged[0] != text:
            self._last_judged = text, self._judge(Original.of(text).text)
        return self._last_judged[1]

    def _exposed(self, content: Content, text: str) -> list[str]:
        """A text that cannot be read hides nothing that is known: a person who undoes it must know."""
        try:
            old = self._draft(content)
        except DStreamError:
            return ["the present text cannot be read: nobody knows what the other one sends that it hid"]
        new = Draft(text, self._place.name)
        return [*sources.exposed(old, new), *outputs.exposed(old, new)]

    def _seen(self, revision: str | None) -> Content:
        content = self._place.read()
        if revision is not None and revision != content.revision:
            later = [each for each in self._revisions.all() if each.revision == content.revision]
            by = f": {later[0].by} did {later[0].what} at {later[0].at}" if later else ""
            raise Conflict(
                f"changing the configuration: it is another than the one you saw{by}", hint="look at it again"
            )
        return content

    def _draft(self, content: Content) -> Draft:
        return Draft(content.text, self._place.name)

    def _shown(self, content: Content) -> tuple[str, str | None]:
        """The text with its secrets masked, or why it cannot be edited."""
        try:
            draft = self._draft(content)
        except DStreamError as error:
            return _WITHHELD, str(error)
        return logs.masked(secrets.masked(Original.of(draft.raw).text, draft.document)), None

    def _difference(self, old: str, new: str) -> str:
        """Of the texts as they are, shown masked: a line of which only a mask differs is one that changes."""
        before, after = (_lines(Original.of(text).text, self._shown(Content(text.encode()))[0]) for text in (old, new))
        lines = list(unified_diff(before, after, self._place.name, self._place.name))
        if not lines and old != new:
            return f"--- {self._place.name}\n+++ {self._place.name}\n@@ something that is not shown @@\n"
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def _secret_lines(self, text: str) -> list[str]:
        plain = Original.of(text).text
        spans = secrets.literal_secrets(plain, self._draft(Content(text.encode())).document)
        found = list[str]()
        for start, end in spans:
            first, last = plain.rfind("\n", 0, start) + 1, plain.find("\n", end)
            found += plain[first : len(plain) if last < 0 else last].splitlines()
        return found

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=_BUSY_SECONDS):
            raise Conflict("changing the configuration: another change is under way", hint="try again")
        try:
            yield
        finally:
            self._lock.release()


class _Line(str):
    """A line as a person sees it, which is another one if what the file has is."""

    __slots__ = ("raw",)
    raw: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Line) and (self.raw, str(self)) == (other.raw, str(other))

    def __hash__(self) -> int:
        return hash(self.raw)


def _lines(text: str, shown: str) -> list[_Line]:
    raw, seen = text.splitlines(keepends=True), shown.splitlines(keepends=True)
    found = [_Line(each) for each in seen]
    for line, each in zip(found, raw if len(raw) == len(seen) else seen, strict=True):
        line.raw = each
    return found
