"""What is done through the page: replays, pauses, offsets, snapshots, the configuration; each shown first, with a reason that the audit log keeps."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from desk.console.audited import AuditedDeadLetters
from desk.documents.shape import Unknown
from tests.console.page.browser import Window
from tests.console.page.world import Place
from tests.fakes.desk.dead_letters import FakeDeadLetters
from tests.fakes.desk.world import Letter


def _level_one(page: Page) -> Locator:
    return page.get_by_role("heading", level=1)


def test_a_dead_letter_is_read_and_replayed(console: Place, view: Window) -> None:
    page = view.go("dead-letters")
    page.get_by_role("listitem").filter(has_text="ingest queue").get_by_role("link", name="Read them").click()
    expect(_level_one(page)).to_have_text("Dead letters: ingest queue")
    good = next(
        each
        for each, letter in sorted(console.world.letters["queue"].items(), reverse=True)
        if each % 5 and not letter.replays
    )
    page.get_by_role("link", name=str(good), exact=True).click()
    expect(_level_one(page)).to_contain_text(f"Dead letter {good}")
    body = page.get_by_role("region", name="Body", exact=True).last
    expect(body).to_contain_text('"OperationType": ')
    page.get_by_role("button", name="Replay").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 chosen dead letter")
    dialog.get_by_role("button", name="See what would happen").click()
    expect(dialog.get_by_role("status").filter(has_text="What would happen")).to_contain_text("Would be replayed1")
    dialog.get_by_label("Reason").fill("the topic is larger now")
    dialog.get_by_role("button", name="Replay 1").click()
    expect(dialog).to_contain_text("1 of 1 replayed")
    dialog.get_by_role("button", name="Done").click()
    assert good not in console.world.letters["queue"]
    expect(_level_one(page)).to_have_text("Dead letters: ingest queue")
    view.go("audit")
    begun = page.get_by_role("row").filter(has_text="dead_letters.replay").first
    expect(begun).to_contain_text("the topic is larger now")
    expect(begun).to_contain_text("anna page")


def test_none_is_said_of_entities_alone_that_were_looked_at(console: Place, view: Window) -> None:
    for letters_of in console.world.letters.values():
        letters_of.clear()
    letters = console.served.desk.dead_letters
    assert isinstance(letters, AuditedDeadLetters)
    assert isinstance(letters.inner, FakeDeadLetters)
    letters.inner.unknown.append(Unknown(what="dead letters of queue", text="no answer", remedy="check the proxy"))
    page = view.go("dead-letters")
    expect(page.get_by_text("Not known: dead letters of queue")).to_be_visible()
    expect(page.get_by_text("check the proxy")).to_be_visible()
    expect(page.get_by_text("None among those that could be looked at.")).to_be_visible()
    expect(page.get_by_text("everything that was sent was taken")).to_have_count(0)


def test_all_dead_letters_of_a_reason_are_planned_with_those_that_stay(console: Place, view: Window) -> None:
    page = view.go("dead-letters/list?entity=queue&reason=FilterFailed")
    letters = {each: one for each, one in console.world.letters["queue"].items() if one.reason == "FilterFailed"}
    stay = [each for each, letter in letters.items() if each % 5 == 0 or letter.replays >= 3]
    assert 0 < len(stay) < len(letters)
    page.get_by_role("button", name="Replay all like these").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="See what would happen").click()
    plan = dialog.get_by_role("status").filter(has_text="What would happen")
    expect(plan).to_contain_text(f"Match{len(letters)}")
    expect(plan).to_contain_text(f"Would stay{len(stay)}")
    expect(plan.get_by_role("listitem").first).to_be_attached()
    dialog.get_by_role("button", name=f"Replay {len(letters) - len(stay)}").click()
    expect(dialog).to_contain_text("done", timeout=20_000)
    dialog.get_by_role("button", name="Done").click()
    expect(page.locator("tbody tr")).to_have_count(len(stay))


def test_what_the_router_could_not_read_is_sent_only_when_it_is_asked_for(console: Place, view: Window) -> None:
    letters = console.world.letters["queue"]
    for sequence in (90_001, 90_002):
        letters[sequence] = Letter(sequence, "MalformedMessage", "its body is no JSON")
    page = view.go("dead-letters/list?entity=queue&reason=FilterFailed")
    page.get_by_role("button", name="Replay all like these").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Keep the order")).to_be_checked()
    expect(dialog.get_by_label("Send also what the router could not read")).to_have_count(0)
    page.keyboard.press("Escape")
    page = view.go("dead-letters/list?entity=queue")
    page.get_by_label("Choose dead letter 90001").check()
    page.get_by_role("button", name="Replay 1 chosen dead letter").click()
    see = dialog.get_by_role("button", name="See what would happen")
    plan = dialog.get_by_role("status").filter(has_text="What would happen")
    see.click()
    expect(plan).to_contain_text("Would stay1")
    dialog.get_by_label("Send also what the router could not read").check()
    expect(plan).to_have_count(0)
    see.click()
    expect(plan).to_contain_text("Would be replayed1")
    dialog.get_by_role("button", name="Replay 1").click()
    expect(dialog).to_contain_text("1 of 1 replayed")
    assert (90_001 in letters, 90_002 in letters) == (False, True)


def test_a_table_is_paused_and_resumed(console: Place, view: Window) -> None:
    page = view.go("tables/dbo.Orders")
    page.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    dialog.get_by_label("Reason").fill("an index is built")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Pause")).to_be_focused()
    assert console.world.rows[0].pause is None
    page.get_by_role("button", name="Pause").click()
    dialog.get_by_label("Reason").fill("an index is built")
    dialog.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Paused by anna")).to_be_visible()
    expect(page.get_by_text("“an index is built”")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="dbo.Orders is paused.")).to_be_attached()
    page.get_by_role("button", name="Resume").click()
    dialog.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.get_by_text("Paused by anna")).to_be_hidden()


def test_an_offset_is_moved_after_a_dry_run_and_its_confirmations(console: Place, view: Window) -> None:
    page = view.go("tables/dbo.Orders")
    page.get_by_role("button", name="Move the offset").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Time in UTC").fill("yesterday")
    dialog.get_by_role("button", name="See what it would mean").click()
    expect(dialog.get_by_role("alert")).to_contain_text("2026-01-31 02:15:00")
    dialog.get_by_label("The latest change").check()
    expect(dialog.get_by_role("button", name="Move the offset")).to_be_hidden()
    dialog.get_by_role("button", name="See what it would mean").click()
    meaning = dialog.get_by_role("status").filter(has_text="What it would mean")
    expect(meaning).to_contain_text("Never sent")
    expect(meaning).to_contain_text("4,310 changes of 3 minutes")
    move = dialog.get_by_role("button", name="Move the offset")
    expect(move).to_have_attribute("aria-disabled", "true")
    move.click(force=True)
    assert console.world.rows[0].offset_moved is None
    dialog.get_by_label("Take the table from the ingester").check()
    dialog.get_by_label("Never send the changes in between").check()
    dialog.get_by_label("Reason").fill("a poisoned hour")
    move.click()
    expect(dialog).to_be_hidden()
    moves = page.get_by_role("region", name="Moves of the offset")
    expect(moves.get_by_role("row").nth(1)).to_contain_text("a poisoned hour")
    assert (console.world.rows[0].offset_moved or "").startswith("the newest change")


def test_a_snapshot_is_counted_taken_and_stopped(view: Window) -> None:
    view.allowed.append("422")
    page = view.go("tables/dbo.Persons")
    page.get_by_role("button", name="Take a snapshot").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Which rows").fill("Country = 'SE'; DROP TABLE x")
    dialog.get_by_role("button", name="See what it would read").click()
    expect(dialog.get_by_role("alert")).to_contain_text("semicolon")
    dialog.get_by_label("Which rows").fill("Country = 'SE'")
    dialog.get_by_role("button", name="See what it would read").click()
    expect(dialog.get_by_role("status").filter(has_text="Rows")).to_be_visible()
    dialog.get_by_role("button", name="Take the snapshot").click()
    row = page.get_by_role("region", name="Snapshots").get_by_role("row").filter(has_text="Country = 'SE'")
    expect(row).to_contain_text("waiting")
    row.get_by_role("button", name="Stop").click()
    dialog.get_by_role("button", name="Stop").click()
    expect(row).to_contain_text("stopped")


def test_a_source_is_changed_after_its_difference_and_undone(console: Place, view: Window) -> None:
    before = console.served.desk.configuring.configuration().text
    page = view.go("configuration")
    row = page.get_by_role("row").filter(has_text="poll_interval")
    row.get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Value of poll_interval").fill("5s")
    expect(dialog.get_by_role("button", name="Write it")).to_be_hidden()
    dialog.get_by_role("button", name="Show the difference").click()
    difference = dialog.get_by_role("region", name="The difference")
    expect(difference).to_contain_text("+")
    dialog.get_by_label("Reason").fill("it is a quiet table")
    dialog.get_by_role("button", name="Write it").click()
    expect(dialog).to_be_hidden()
    changed = page.get_by_role("region", name="What was changed")
    expect(changed.get_by_role("row").nth(1)).to_contain_text("it is a quiet table")
    expect(page.get_by_role("row").filter(has_text='poll_interval = "5s"')).to_be_visible()
    page.get_by_role("button", name="Undo the last change").click()
    dialog.get_by_role("button", name="Show the difference").click()
    dialog.get_by_role("button", name="Undo it").click()
    expect(page.get_by_role("row").filter(has_text='poll_interval = "2s"')).to_be_visible()
    assert console.served.desk.configuring.configuration().text == before


def test_an_output_is_added_and_another_edit_meanwhile_is_a_conflict(console: Place, view: Window) -> None:
    view.allowed.append("409")
    page = view.go("configuration")
    page.get_by_role("button", name="Add an output").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Label").fill("audit")
    dialog.get_by_label("Type").select_option("webhook")
    dialog.get_by_role("button", name="Add a setting").click()
    dialog.get_by_label("Setting", exact=True).fill("url")
    dialog.get_by_label("Value of").fill("https://audit.internal/changes")
    dialog.get_by_role("button", name="Show the difference").click()
    expect(dialog.get_by_role("region", name="The difference")).to_contain_text("https://audit.internal/changes")
    console.served.desk.configuring.configuration()
    page.evaluate(
        """async () => {
            const { post } = await import("/core/api.js");
            await post("sources", { name: "dbo.Meanwhile", settings: {}, dry_run: false });
        }"""
    )
    dialog.get_by_role("button", name="Write it").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    expect(dialog.get_by_label("Label")).to_have_value("audit")


def test_a_change_is_found_and_its_way_is_drawn(view: Window) -> None:
    page = view.go("messages?entity=queue")
    page.get_by_role("row").nth(1).get_by_role("link").click()
    page.get_by_role("link", name="The way of this change").click()
    expect(_level_one(page)).to_have_text("Where is a change?")
    expect(page.get_by_label("Event id")).not_to_have_value("")
    way = page.get_by_role("list", name="Its way")
    expect(way.get_by_role("heading").first).to_have_text("Commit: passed")
    expect(way.get_by_role("listitem")).to_have_count(6)
    page.get_by_label("Event id").fill("")
    page.get_by_label("Table", exact=True).fill("dbo.Orders")
    page.get_by_label("Key of the row").fill("ID=42")
    page.get_by_role("button", name="Find it").click()
    expect(page).to_have_url(f"{view.url}#/story?table=dbo.Orders&key=ID%3D42")
    expect(page.locator("article, details.older")).not_to_have_count(0)


def test_messages_are_filtered_and_paged(view: Window) -> None:
    page = view.go("messages?entity=queue")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    newest = int(page.locator("tbody th").first.inner_text())
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_role("link", name="First page")).to_be_visible()
    assert int(page.locator("tbody th").first.inner_text()) <= newest - 50
    page.get_by_role("combobox", name="What").select_option("dead letters")
    expect(page.get_by_role("columnheader", name="Reason")).to_be_visible()
    expect(page).to_have_url(f"{view.url}#/messages?entity=queue&dead=1")
