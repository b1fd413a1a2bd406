"""What the page shows by itself: whether something is wrong, tables that fall behind and recover, a lost connection, a thousand tables."""

from __future__ import annotations

import time

from playwright.sync_api import Browser, expect

from tests.console.page.browser import Window, window
from tests.console.page.world import Place, calm, place


def test_the_first_view_says_what_is_wrong_and_leads_there(view: Window) -> None:
    page = view.go()
    wrong = page.get_by_role("region", name="What is wrong")
    first = wrong.get_by_role("listitem").first
    expect(first).to_contain_text("critical: dbo.Persons has stopped")
    expect(first).to_contain_text("may not select from cdc.dbo_Persons_CT")
    expect(first.locator("code")).to_have_text("USE [shop]; GRANT SELECT ON SCHEMA::cdc TO dstream")
    expect(first.get_by_role("button", name="Copy")).to_be_visible()
    way = page.get_by_role("navigation", name="From SQL Server to the topics")
    expect(way.locator(".stop-bad")).to_have_count(2)
    expect(way.get_by_role("link", name="Routers")).to_have_class("stop stop-ok")
    expect(first).to_contain_text("15 min ago")
    expect(first).to_contain_text("DStreamTableStopped")
    letters = wrong.get_by_role("listitem").filter(has_text="queue ingest-queue")
    expect(letters).to_contain_text("What to do: look at their reasons")
    expect(letters).to_contain_text("alert DStreamDeadLettersWait after 1 h")
    letters.get_by_role("link", name="Read the dead letters").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters: ingest queue")
    page.go_back()
    wrong.get_by_role("link", name="Open dbo.Persons").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("dbo.Persons")
    expect(page).to_have_url(f"{view.url}#/tables/dbo.Persons")
    assert page.title() == "dbo.Persons · DStream"


def test_nothing_wrong_is_said_calmly(chromium: Browser) -> None:
    with place(desk=calm) as quiet, window(chromium, quiet.url) as view:
        page = view.go()
        verdict = page.get_by_role("region", name="Is anything wrong?")
        expect(verdict).to_contain_text("Everything arrives")
        expect(verdict).to_contain_text("12 tables; the oldest change not sent is 0.4 s old.")
        expect(page.get_by_role("img", name="Lag over the last hour: now ")).to_be_visible()


def test_a_table_falls_behind_and_recovers_without_a_reload(console: Place, view: Window) -> None:
    page = view.go("tables")
    page.evaluate("window.sameDocument = true")
    row = page.get_by_role("row").filter(has_text="dbo.OrderLines")
    link = page.get_by_role("link", name="dbo.Straße")
    link.focus()
    expect(row).to_contain_text("behind")
    console.clock.ahead = 130
    expect(row).not_to_contain_text("behind")
    console.clock.ahead = 242
    expect(row).to_contain_text("behind")
    expect(row).to_contain_text(" min ")
    expect(link).to_be_focused()
    assert page.evaluate("window.sameDocument")


def test_a_lost_connection_is_said_and_found_again(console: Place, view: Window) -> None:
    view.allowed += ["ERR_", "console: Failed to load"]
    page = view.go("tables")
    expect(page.get_by_role("banner")).to_contain_text("live")
    console.close()
    lost = page.get_by_role("status").filter(has_text="Not live since ")
    expect(lost).to_be_visible()
    expect(lost).to_contain_text("UTC")
    expect(page.get_by_role("row").filter(has_text="dbo.OrderLines")).to_be_visible()
    console.open()
    page.get_by_role("button", name="Try now").click()
    expect(lost).to_be_hidden()
    row = page.get_by_role("row").filter(has_text="dbo.OrderLines")
    console.clock.ahead += 130
    expect(row).not_to_contain_text("behind")


def test_a_thousand_tables_are_shown_and_updated_quickly(chromium: Browser) -> None:
    with place(tables=1000, look_every=3) as large, window(chromium, large.url) as view:
        began = time.monotonic()
        page = view.go("tables")
        expect(page.get_by_text("1 to 100 of 1,000 tables")).to_be_visible()
        assert time.monotonic() - began < 30
        assert page.get_by_role("row").count() == 101
        drawn = page.evaluate(
            """async () => {
                const { patch } = await import("/core/dom.js");
                const { known } = await import("/core/known.js");
                const { open } = await import("/views/tables.js");
                await open().refresh();
                const host = document.createElement("div");
                patch(host, open().draw());
                const began = performance.now();
                for (let n = 0; n < 10; n += 1) {
                    for (const [name, table] of known.tables) known.tables.set(name, { ...table, changes_per_second: n });
                    patch(host, open().draw());
                }
                return (performance.now() - began) / 10;
            }"""
        )
        assert drawn < 500, f"{drawn:.0f} ms to bring a thousand tables up to date"
        page.get_by_role("searchbox", name="Search tables").fill("vouchers1")
        expect(page.get_by_text(" of 1,000 tables")).to_be_visible()
        expect(page.get_by_role("row")).not_to_have_count(101)
        expect(page.get_by_role("searchbox", name="Search tables")).to_be_focused()
        assert "q=vouchers1" in page.url


def test_a_thousand_tables_make_no_long_list_of_topics(chromium: Browser) -> None:
    with place(tables=1000, look_every=3) as large, window(chromium, large.url) as view:
        page = view.go("queues")
        region = page.get_by_role("region", name="Topics and subscriptions")
        expect(region.get_by_text("1 to 100 of 1,003 topics and subscriptions")).to_be_visible()
        expect(region.get_by_role("row")).to_have_count(101)
        dead = region.get_by_role("row").nth(1).get_by_role("cell").nth(2)
        assert int(dead.inner_text()) > 0, "those with dead letters are the first"
        page.get_by_role("link", name="with dead letters").click()
        expect(region.get_by_role("row")).to_have_count(4)
        page.get_by_role("link", name="all", exact=True).click()
        page.get_by_role("searchbox", name="Search topics and subscriptions").fill("orders search")
        expect(region.get_by_role("row")).to_have_count(2)
        assert "q=orders" in page.url


def test_the_value_of_now_is_the_last_that_is_known(view: Window) -> None:
    said = view.go().evaluate(
        """async () => {
            const { chart } = await import("/parts/chart.js");
            const at = Date.now() / 1000;
            const shown = (...values) => chart("Lag", values.map((value, n) => ({ at: at - 5 * (values.length - n), value })), String)
                .querySelector(".chart-reading").textContent.split(",")[0];
            return [shown(7, 8, null), shown(7, null, null), shown(7, null, null, null), shown(0, 0)];
        }"""
    )
    assert said == ["now 8", "now 7", "now not known", "now 0"]


def test_tables_are_sorted_and_filtered_by_an_address_that_can_be_shared(view: Window) -> None:
    page = view.go("tables")
    names = page.locator("tbody th")
    page.get_by_role("button", name="Table", exact=True).click()
    expect(names.first).to_have_text("dbo.OrderLines")
    page.get_by_role("button", name="Table", exact=True).click()
    expect(names.first).to_have_text("stock.Ledger/2026")
    expect(page.get_by_role("columnheader", name="Table", exact=True)).to_have_attribute("aria-sort", "descending")
    page.get_by_role("link", name="paused 1").click()
    expect(names).to_have_count(1)
    shared = page.url
    page.goto("about:blank")
    page.goto(shared)
    expect(names).to_have_text(["sales.Invoices"])
    names.get_by_role("link").click()
    expect(page.get_by_text("Paused by anna@ops-laptop")).to_be_visible()
    page.go_back()
    expect(names).to_have_text(["sales.Invoices"])


_HIDE = """away => {
    Object.defineProperty(document, "hidden", { get: () => away, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_many_tabs_are_open_and_the_one_that_is_seen_is_live(console: Place, view: Window) -> None:
    """A browser has six connections to a host: one that each tab held for itself would leave none."""
    view.allowed.append("ERR_ABORTED")
    tabs = [view.go("tables")]
    for _ in range(7):
        tabs[-1].evaluate(_HIDE, True)
        tab = view.page.context.new_page()
        tab.goto(f"{view.url}#/tables")
        expect(tab.get_by_role("row").filter(has_text="dbo.OrderLines")).to_contain_text("behind")
        tabs.append(tab)
    tabs[-1].evaluate(_HIDE, True)
    tabs[0].evaluate(_HIDE, False)
    row = tabs[0].get_by_role("row").filter(has_text="dbo.OrderLines")
    console.clock.ahead = 130
    expect(row).not_to_contain_text("behind", timeout=15_000)
    expect(tabs[0].get_by_role("banner")).to_contain_text("live")


def test_a_tab_that_is_opened_in_the_background_waits_until_it_is_seen(console: Place, view: Window) -> None:
    asked = list[str]()
    view.page.on("request", lambda request: asked.append(request.url.rsplit("/", 1)[-1]))
    view.page.add_init_script('Object.defineProperty(document, "hidden", { get: () => true, configurable: true })')
    row = view.go("tables").get_by_role("row").filter(has_text="dbo.OrderLines")
    expect(row).to_contain_text("behind")
    assert "events" not in asked
    view.page.evaluate(_HIDE, False)
    console.clock.ahead = 130
    expect(row).not_to_contain_text("behind", timeout=15_000)
    assert asked.count("events") == 1
