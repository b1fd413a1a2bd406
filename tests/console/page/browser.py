"""Chromium for all tests of the page: one process; each test has a window of its own, which notes all that must not happen."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

DESKTOP, PHONE = (1280, 860), (360, 740)
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_WAIT = 20_000
"""Milliseconds, for machines that have other things to do."""
_WATCH = """
document.addEventListener("securitypolicyviolation",
    (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
"""


def chromium() -> str:
    """Its path. Skips where there is none."""
    found = os.environ.get("DSTREAM_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None or not Path(found).exists():
        pytest.skip("needs Chromium: make chromium, or DSTREAM_TEST_CHROMIUM=/path/to/chromium")
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield started
        started.close()


@dataclass(slots=True)
class Window:
    """A page, and what it did that no page of the console may do. `allowed`: errors that a test brings about itself."""

    page: Page
    url: str
    faults: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def go(self, address: str = "") -> Page:
        """Open a view; the page itself is loaded only once."""
        if self.page.url.startswith(self.url):
            self.page.evaluate("address => { location.hash = address }", f"#/{address}")
        else:
            self.page.goto(f"{self.url}#/{address}")
        self.page.locator("main h1").first.wait_for(state="attached")
        self.page.locator("main .empty", has_text="Reading …").wait_for(state="detached")
        return self.page

    def said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.fault(f"console: {message.text} ({message.location.get('url', '')})")

    def asked(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc and not request.url.startswith("blob:"):
            self.faults.append(f"asks another host: {request.url}")

    def fault(self, text: str) -> None:
        if not any(re.search(each, text) for each in self.allowed):
            self.faults.append(text)


@contextmanager
def window(
    browser: Browser,
    url: str,
    *,
    size: tuple[int, int] = DESKTOP,
    colours: Literal["light", "dark"] = "light",
    **more: Any,
) -> Iterator[Window]:
    """Raises at its end when the page did what it must not."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=colours,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="Europe/Stockholm",
        **more,
    )
    context.set_default_timeout(_WAIT)
    expect.set_options(timeout=_WAIT)
    context.add_init_script(_WATCH)
    page = context.new_page()
    found = Window(page, url)
    page.on("console", lambda message: found.said(message))
    page.on("pageerror", lambda error: found.fault(f"error: {error}"))
    page.on("request", lambda request: found.asked(request))
    try:
        yield found
    finally:
        context.close()
    assert not found.faults, found.faults
