"""The page over the real console, beside an ingester and a router on the emulators: a pause, what waits meanwhile, a dead letter, the log of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from playwright.sync_api import Browser, Page, expect

from dstream.children import stage_command, start_stage, stop_all
from dstream.demo.processes import Service, environment, write_config
from dstream.demo.schema import CUSTOMERS, create
from dstream.emulators import Emulators
from tests.console.page.browser import window
from tests.worlds.world import wait_until

LONG = 180_000
"""Milliseconds that Spark's start may take, or a slow console rest between two looks."""


@contextmanager
def _console(folder: Path, config: Path, variables: dict[str, str]) -> Iterator[str]:
    """`dstream console` as a process; its address."""
    log = folder / "console.log"
    options = ["--config", str(config), "--port", "0", "--allow-changes", "--look-every", "1"]
    command = stage_command("console", [*options, "--audit-file", str(folder / "audit.jsonl")])
    with log.open("ab") as output:
        process = start_stage(command, variables, output=output.fileno())
    try:
        wait_until(lambda: _address(log) is not None or process.poll() is not None, "the console said its address")
        address = _address(log)
        assert address is not None, log.read_text()
        yield address
    finally:
        stop_all([process], 20)


def _address(log: Path) -> str | None:
    found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
    return None if found is None else f"{found[0]}/"


@pytest.mark.timeout(800)
def test_a_table_waits_while_it_is_paused_and_a_dead_letter_is_read(chromium: Browser, tmp_path: Path) -> None:
    with Emulators(database="demo", capture_interval=0.3) as emulators:
        create(emulators.login)
        variables = environment(emulators)
        config = write_config(tmp_path, emulators, "200ms", tasks=2, routing="workers = 1")
        services = [Service(stage, config, variables, tmp_path / f"{stage}.log") for stage in ("router", "ingester")]
        for service in services:
            service.start()
        try:
            with _console(tmp_path, config, variables) as url, window(chromium, url) as view:
                page = view.go(f"tables/{CUSTOMERS.key}")
                owner = page.locator(".facts > div", has_text="Owner").locator("dd")
                expect(owner).not_to_have_text("nobody", timeout=LONG)
                _paused(page, emulators, tmp_path / "ingester.log")
                _dead_letter(view.go("dead-letters"), emulators)
                view.go("audit")
                expect(page.get_by_role("row").filter(has_text="table.pause").first).to_contain_text("a large import")
        finally:
            for service in services:
                service.stop()


def _paused(page: Page, emulators: Emulators, log: Path) -> None:
    """A change that is committed meanwhile waits, and goes on at the end."""
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Pause").click()
    dialog.get_by_label("Reason").fill("a large import")
    dialog.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("a large import")).to_be_visible()
    wait_until(lambda: "table paused" in log.read_text(), "the ingester has noticed the pause")
    with emulators.login.connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO dbo.Customers (CustomerId, Name, Balance, Version) VALUES (4711, N'Ada', 0, 1)")
    waiting = page.locator(".figure", has_text="captured and not sent").locator(".figure-value")
    expect(waiting).to_have_text("1", timeout=LONG)
    page.get_by_role("button", name="Move the offset").click()
    dialog.get_by_label("The latest change").check()
    dialog.get_by_role("button", name="See what it would mean").click()
    expect(dialog.get_by_role("status").filter(has_text="What it would mean")).to_contain_text("Never sent")
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Resume").click()
    dialog.get_by_role("button", name="Resume").click()
    expect(waiting).to_have_text("0", timeout=LONG)


def _dead_letter(page: Page, emulators: Emulators) -> None:
    """Something that is no change, which the router sets aside; read, and purged."""
    with (
        ServiceBusClient.from_connection_string(emulators.bus_connection_string) as client,
        client.get_queue_sender("ingest-queue") as sender,
    ):
        sender.send_messages(ServiceBusMessage("<b>no change</b>", session_id="s"))
    card = page.get_by_role("listitem").filter(has_text="ingest queue")
    card.get_by_role("link", name="Read them").click(timeout=LONG)
    page.locator("tbody th a").first.click()
    expect(page.get_by_role("region", name="Body", exact=True).last).to_contain_text("<b>no change</b>")
    page.get_by_role("button", name="Purge").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="See what would happen").click()
    dialog.get_by_role("button", name="Purge 1").click()
    expect(dialog).to_contain_text("1 of 1 purged", timeout=LONG)
    dialog.get_by_role("button", name="Done").click()
    expect(page.get_by_text("There are none like that.")).to_be_visible()
