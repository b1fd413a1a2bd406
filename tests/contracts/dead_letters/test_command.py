"""`dstream dlq` as a person types it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from common.bus.browsing import Shelf
from common.buses import shelves_of
from common.errors import PermanentError
from dstream import printing
from dstream.cli import app
from emulators.servicebus.faults.catalogue import Mute
from emulators.servicebus.faults.silence import Stage
from tests.contracts.dead_letters.conftest import PERSONS, QUEUE, Namespace, change

Runs = Callable[..., Result]


@pytest.fixture
def runs(namespace: Namespace, tmp_path: Path) -> Runs:
    """In a router's pod: nothing of SQL Server is set."""
    path = tmp_path / "dstream.hcl"
    path.write_text(namespace.configuration(database='{{ env("NOT_SET_IN_A_ROUTERS_POD") }}'))

    def run(*arguments: str) -> Result:
        environment = {"DSTREAM_AUDIT_FILE": str(tmp_path / "audit.jsonl")}
        return CliRunner().invoke(app, ["dlq", *arguments, "--config", str(path)], env=environment)

    return run


def test_a_missing_subscription_is_unknown_and_hides_no_other(namespace: Namespace, runs: Runs) -> None:
    namespace.emulator.admin.delete(f"{PERSONS}/Subscriptions/sub1")
    began = time.monotonic()
    found = runs("list")
    assert time.monotonic() - began < 30
    assert found.exit_code == 1
    assert f"{PERSONS}/sub1" in found.output
    assert "does not exist" in found.output


def test_from_a_list_to_a_purge(namespace: Namespace, runs: Runs) -> None:
    assert "no dead letters" in runs("list").output
    namespace.bury([change(n) for n in range(1, 4)], reason="Refused")
    namespace.bury([change(4, oversize=True)], reason="Oversize")
    counted = json.loads(runs("list", "--json").output)
    assert counted["entities"][0]["reasons"] == {"Refused": 3, "Oversize": 1}
    assert "Oversize" in runs("list").output
    listed = json.loads(runs("list", "queue", "--reason", "refused", "--limit", "2", "--json").output)
    assert [each["message_id"] for each in listed["items"]] == ["event-1", "event-2"]
    sequence = str(listed["items"][1]["sequence"])
    shown = runs("show", "queue", sequence)
    assert shown.exit_code == 0
    assert "event-2" in shown.output
    assert "what to do" in shown.output
    assert "event-3" in runs("show", "queue", "--id", "event-3").output
    assert runs("show", "queue", "--id", "none").exit_code == 1
    assert runs("show", "queue").exit_code == 2

    dry = runs("replay", "queue", "--sequence", sequence, "--dry-run")
    assert (dry.exit_code, "nothing was changed" in dry.output) == (0, True)
    done = runs("replay", "queue", "--sequence", sequence, "--reason-text", "it works now")
    assert (done.exit_code, "sent again: 1" in done.output) == (0, True)
    safe = runs("replay", "queue", "--safe", "--json")
    assert (safe.exit_code, json.loads(safe.output)["left_count"]) == (1, 3)

    refused = runs("purge", "queue", "--reason", "Oversize")
    assert (refused.exit_code, "--yes" in refused.output) == (2, True)
    purged = runs("purge", "queue", "--reason", "Oversize", "--yes")
    assert (purged.exit_code, "removed: 1" in purged.output) == (0, True)
    assert len(namespace.dead) == 2


def test_one_dead_letter_is_one(namespace: Namespace, runs: Runs) -> None:
    namespace.bury([change(1)])
    assert "queue: 1 dead letter is meant" in runs("purge", "queue", "--dry-run").output
    assert "queue: 1 dead letter was meant" in runs("purge", "queue", "--yes").output


def test_a_long_look_says_that_it_goes_on(namespace: Namespace, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace.bury([change(1)])
    monkeypatch.setattr(printing, "SLOW_SECONDS", 0.001)
    for arguments in (("list",), ("list", "queue"), ("show", "queue", "--id", "event-1")):
        found = runs(*arguments)
        assert (found.exit_code, found.stderr.count("; Ctrl-C ends it\n")) == (0, 1), found.output
        assert "dstream: still" in found.stderr
    monkeypatch.setattr(printing, "SLOW_SECONDS", 60)
    assert "still" not in runs("list", "queue").stderr


def test_a_namespace_that_says_nothing_is_given_up_with_the_time_that_it_took(
    namespace: Namespace, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "SLOW_SECONDS", 0.001)
    monkeypatch.setattr("common.servicebus.operating.browser.LINK_TIMEOUT", 0.3)
    monkeypatch.setattr("desk.dead_letters.engine.FIRST_PATIENCE", 2.0)
    with namespace.emulator.inject(Mute(Stage.ACCEPT, 0)):
        for doing, arguments in (("replaying", ("replay", "queue")), ("purging", ("purge", "queue", "--yes"))):
            began = time.monotonic()
            found = runs(*arguments)
            assert time.monotonic() - began < 60
            assert (found.exit_code, found.stderr.count("still")) == (1, 1), found.output
            assert f"still {doing} dead letters of queue; Ctrl-C" in found.stderr
            assert re.search(r"did not answer within 0\.3 s; it was asked \d+ times in ", found.output)


def test_mistakes_are_named(runs: Runs) -> None:
    for arguments in (("list",), ("show", "1"), ("replay",), ("purge", "--yes")):
        unknown = runs(arguments[0], "topic/nowhere/sub", *arguments[1:])
        assert (unknown.exit_code, "topic/nowhere/sub" in unknown.output) == (2, True), unknown.output
    assert f"entities are queue, topic/{PERSONS}/sub1" in runs("list", "nothing").output
    assert f"names like it are topic/{PERSONS}/sub1" in runs("list", f"topic/{PERSONS[:-1]}/sub1").output
    late = runs("replay", "queue", "--since", "yesterday")
    assert (late.exit_code, "--since yesterday" in late.output) == (2, True)


@pytest.mark.parametrize("number", ["-1", str(2**63), str(2**64), str(10**30)])
def test_a_number_that_no_message_can_have_is_refused_at_once(runs: Runs, number: str) -> None:
    for arguments in (("replay", "queue", f"--sequence={number}"), ("purge", "queue", "--yes", f"--sequence={number}")):
        refused = runs(*arguments)
        assert (refused.exit_code, "--sequence" in refused.output) == (2, True)
    assert runs("show", "queue", "--", number).exit_code == 2


def test_a_browser_refuses_a_number_that_cannot_be_sent(namespace: Namespace) -> None:
    shelves = shelves_of(namespace.settings().source)
    with closing(shelves.browser(Shelf(QUEUE, dead=True))) as browser:
        for number in (-1, 2**63):
            with pytest.raises(PermanentError, match="sequence number"):
                browser.page(first=number, most=1)
        assert browser.page(first=2**63 - 1, most=1) == ()
