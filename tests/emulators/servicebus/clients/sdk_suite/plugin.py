"""The pytest plugin of a run of the SDK's tests: puts the stand-ins in place and runs asynchronous tests.

Loaded by `-p`, before any test: the stand-in for `servicebus_preparer` has to be there before the tests' own folder is
searched for it.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Iterator

import pytest

from tests.emulators.servicebus.clients.sdk_suite import namespace

importlib.import_module("servicebus_preparer")
namespace.bring_clients_here()


@pytest.fixture(scope="session")
def test_proxy() -> None:
    """What would record and play back."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Asynchronous tests each on a loop of their own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


@pytest.fixture(scope="session", autouse=True)
def _emulator() -> Iterator[None]:
    yield
    namespace.EMULATOR.stop()
