"""axe-core finds nothing serious on any view: light and dark, on a desktop and on a phone; and no view is wider than its window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.console.page.browser import DESKTOP, PHONE, window
from tests.console.page.world import place

VIEWS = (
    "", "tables", "tables/dbo.OrderLines", "tables/sales.Invoices", "queues", "dead-letters", "dead-letters/list?entity=queue",
    "messages", "messages?entity=queue&dead=1", "story?table=dbo.Orders&key=ID%3D42", "processes", "configuration", "audit",
)  # fmt: skip
ON_A_PHONE = ("", "tables", "tables/dbo.OrderLines", "queues", "dead-letters/list?entity=queue", "configuration")
"""One of each kind of layout: the others are made of the same parts."""
DIALOGS = (
    ("tables/dbo.Orders", "Move the offset", "See what it would mean"),
    ("configuration", "Add an output", "Show the difference"),
)
_COLOURS = {"resultTypes": ["violations"], "runOnly": ["color-contrast"]}
_ALL = {
    "resultTypes": ["violations"],
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}


def faults(page: Page, options: Mapping[str, Any]) -> Sequence[str]:
    """Those that are serious or critical, with where they are."""
    found = Axe().run(page, options=dict(options)).response["violations"]
    return [
        f"{each['id']}: {node['target']} {node.get('failureSummary', '')}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]


def _looked_at(page: Page, options: Mapping[str, Any], form: str) -> list[str]:
    found = [f"{form}: {each}" for each in faults(page, options)]
    return [*found, *([f"{form}: {over} pixels wider than the window"] if (over := _over(page)) > 0 else [])]


def _over(page: Page) -> int:
    """Pixels that the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_view_has_a_serious_fault(chromium: Browser, size: tuple[int, int]) -> None:
    found, forms = list[str](), [("light", _ALL)]
    if size == DESKTOP:  # colours are the same on a phone
        forms.append(("dark", _COLOURS))
    with place(look_every=30) as console, window(chromium, console.url, size=size) as view:
        letter = max(console.world.letters["queue"])
        views = VIEWS if size == DESKTOP else ON_A_PHONE
        for address in (*views, f"messages/one?entity=queue&dead=1&sequence={letter}"):
            page = view.go(address)
            for colours, options in forms:
                page.emulate_media(color_scheme=colours)  # type: ignore[arg-type]
                found += _looked_at(page, options, f"{address} {colours}")
        for address, opener, shows in DIALOGS:
            page = view.go(address)
            page.get_by_role("button", name=opener).click()
            found += _looked_at(page, _ALL, f"dialog {opener}")
            expect(page.get_by_role("dialog").get_by_role("button", name=shows)).to_be_visible()
            page.keyboard.press("Escape")
    assert found == []


def test_no_view_is_wider_than_a_phone_after_midnight(chromium: Browser) -> None:
    """Times of another day have their date beside them."""
    now = datetime(2026, 3, 2, 12, tzinfo=UTC)
    world = (now - timedelta(hours=23, minutes=59)).timestamp()
    with place(look_every=30, at=world) as console, window(chromium, console.url, size=PHONE) as view:
        view.page.clock.set_fixed_time(now)
        letter = max(console.world.letters["queue"])
        wide = {}
        for address in (*VIEWS, f"messages/one?entity=queue&dead=1&sequence={letter}"):
            page = view.go(address)
            if (over := _over(page)) > 0:
                wide[address] = over
        page = view.go("tables/dbo.OrderLines")
        expect(page.locator("main .when .at").first).to_contain_text("2026-03-01")
    assert wide == {}


def test_colours_can_be_switched_and_are_kept(chromium: Browser) -> None:
    with place(look_every=30) as console, window(chromium, console.url, colours="dark") as view:
        page = view.go()
        ground = "getComputedStyle(document.body.parentElement).backgroundColor"
        dark = page.evaluate(ground)
        page.get_by_role("button", name="Theme: auto").click()
        light = page.evaluate(ground)
        assert light != dark
        page.reload()
        page.locator("main h1").first.wait_for(state="attached")
        assert page.evaluate(ground) == light
        page.get_by_role("button", name="Theme: light").click()
        assert page.evaluate(ground) == dark
