"""One console for the tests that change nothing which others see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console.serving import Running, running


@pytest.fixture(scope="session")
def console() -> Iterator[Running]:
    with running() as found:
        yield found
