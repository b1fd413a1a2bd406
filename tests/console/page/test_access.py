"""Who may see and do what on the page, and texts that would like to be more than text."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from desk.documents.tables import Pause
from tests.console.page.browser import Window, window
from tests.console.page.world import place
from tests.fakes.desk import World

PAGE = Path(__file__).parents[3] / "desk" / "console" / "page"
HOSTILE = '<img src=x onerror="window.caught=1"><script>window.caught=1</script>'


def test_a_console_that_only_reads_says_so_and_changes_nothing(chromium: Browser) -> None:
    with place(allow_changes=False) as quiet, window(chromium, quiet.url) as view:
        page = view.go("tables/dbo.Orders")
        expect(page.get_by_role("banner")).to_contain_text("read-only")
        for name in ("Pause", "Move the offset", "Take a snapshot"):
            button = page.get_by_role("button", name=name)
            expect(button).to_have_attribute("aria-disabled", "true")
            expect(button).to_have_accessible_description(re.compile("--allow-changes"))
            button.click(force=True)
            expect(page.get_by_role("dialog")).to_be_hidden()
        expect(page.locator("#said")).to_contain_text("--allow-changes")
        view.go("dead-letters/list?entity=queue")
        expect(page.get_by_role("button", name="Replay all of them")).to_have_attribute("aria-disabled", "true")
        view.go("configuration")
        expect(page.get_by_text("It can be read here, not changed")).to_be_visible()


def _hostile(world: World) -> None:
    world.rows[0].name = f"dbo.{HOSTILE}"
    world.rows[0].owner = HOSTILE
    world.rows[3].pause = Pause(at=world.text(), by=HOSTILE, reason=HOSTILE)
    world.rows[3].topic = f"topic{HOSTILE}".replace("/", "")
    for letter in world.letters["queue"].values():
        letter.reason, letter.description = HOSTILE, f"{HOSTILE} javascript:alert(1)"


def test_hostile_texts_stay_texts(chromium: Browser) -> None:
    with place(changed=_hostile) as bad, window(chromium, bad.url) as view:
        page = view.go("tables")
        expect(page.get_by_role("link", name=f"dbo.{HOSTILE}")).to_be_visible()
        page.get_by_role("link", name=f"dbo.{HOSTILE}").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"dbo.{HOSTILE}")
        for address in (
            "",
            "tables/sales.Invoices",
            "dead-letters",
            "dead-letters/list?entity=queue",
            "messages?entity=queue",
            f"messages/one?entity=queue&dead=1&sequence={max(bad.world.letters['queue'])}",
            "queues",
            "processes",
            "story?table=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&key=%3Cb%3E%3D1",
            "configuration",
            "audit",
            "<img src=x>",
        ):
            view.allowed.append("404")  # of the table that is not there
            view.go(address)
        assert page.evaluate("window.caught") is None
        assert page.locator("main img, main script").count() == 0


def test_no_asset_makes_elements_of_strings_or_asks_others() -> None:
    for path in sorted(PAGE.rglob("*.*")):
        text = path.read_text(encoding="utf-8")
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment",
            text,
        )
        assert found == [], path
        assert [each for each in re.findall(r"(?:https?:)?//[a-z][\w.-]+\.\w+", text) if "www.w3.org" not in each] == []
        assert len(text.splitlines()) <= 300, path
        if path.suffix == ".js":
            assert text.startswith("// "), f"{path} does not say what it is for"
    frame = (PAGE / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"\sstyle=|\son\w+=|<script(?! [^>]*src=)|<style", frame) == []


def test_a_token_is_asked_for_and_an_ended_session_is_said(chromium: Browser, tmp_path: Path) -> None:
    secret = "a-token-of-enough-length"
    file = tmp_path / "token"
    file.write_text(secret)
    with place(token_file=file) as closed, window(chromium, closed.url) as view:
        view.allowed.append("40[13]")
        page = view.go("tables/dbo.Orders")
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        expect(page.get_by_label("Token")).to_be_focused()
        page.get_by_label("Token").fill("not the right one")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("the token is not right")
        page.get_by_label("Token").fill(secret)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("dbo.Orders")
        assert secret not in page.content()
        assert secret not in page.url
        file.write_text("another-token-of-enough-length")
        page.wait_for_timeout(1200)
        view.page.keyboard.press("r")
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        expect(page.get_by_text("The session has ended.")).to_be_visible()
        expect(page.get_by_text("dbo.Orders")).to_be_hidden()


def test_the_page_is_walked_by_keys_alone(view: Window) -> None:
    page = view.go()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Copy").first).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Open dbo.Persons")).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type("invoices")
    page.keyboard.press("Enter")
    expect(page.locator("tbody th")).to_have_text(["sales.Invoices"])
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search tables")).to_be_focused()
    page.keyboard.press("Escape")
    page.get_by_role("link", name="sales.Invoices").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Resume")).to_be_focused()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    for _ in range(5):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('dialog')")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Resume")).to_be_focused()
    page.keyboard.press("g")
    page.keyboard.press("d")
    expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters")
    page.keyboard.press("?")
    expect(dialog).to_contain_text("read this view again")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
