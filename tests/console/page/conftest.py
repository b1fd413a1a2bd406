"""One browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.console.page.browser import Window, browser, window
from tests.console.page.world import Place, place


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def console() -> Iterator[Place]:
    """A console of twelve tables that may change things."""
    with place() as found:
        yield found


@pytest.fixture
def view(chromium: Browser, console: Place) -> Iterator[Window]:
    """Its page, in a window that nothing was opened in yet."""
    with window(chromium, console.url) as found:
        yield found
