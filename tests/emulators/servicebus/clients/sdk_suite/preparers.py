"""Decorators that make what a test asks for before it, hand it over by keyword, and take it away after it.

A "cached" preparer of the original shares its entity between tests; here every test has its own, so that any choice of tests
gives what all of them give.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.emulators.servicebus.clients.sdk_suite import namespace

Test = Callable[..., Any]


@dataclass(frozen=True)
class Resource:
    """What tests read of a resource."""

    name: str


class Preparer:
    """`made` is the resource's life: it yields keywords for the test. Subclasses say which they are in `supplies`."""

    def supplies(self) -> frozenset[str]:
        """Names of the keywords."""
        raise NotImplementedError

    @contextmanager
    def made(self, given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """`given`: what the decorators above have made."""
        raise NotImplementedError
        yield {}

    def __call__(self, test: Test) -> Test:
        if inspect.iscoroutinefunction(test):

            async def run_later(case: object, **given: Any) -> None:
                with self.made(given) as made:
                    await test(case, **_taken(test, {**given, **made}))

            return self._dressed(run_later, test)

        def run(case: object, **given: Any) -> None:
            with self.made(given) as made:
                test(case, **_taken(test, {**given, **made}))

        return self._dressed(run, test)

    def _dressed(self, run: Test, test: Test) -> Test:
        """pytest must see the test's marks, and of its arguments those that are left for pytest."""
        functools.update_wrapper(run, test)
        signature = inspect.signature(test)
        asked = [
            one
            for one in signature.parameters.values()
            if one.kind is one.POSITIONAL_OR_KEYWORD and one.name not in self.supplies()
        ]
        run.__signature__ = signature.replace(parameters=asked)  # type: ignore[attr-defined]
        run.takes = _names(test)  # type: ignore[attr-defined]
        return run


def _names(test: Test) -> frozenset[str] | None:
    """Keywords that the test itself takes, under all decorators; None: any."""
    if hasattr(test, "takes"):
        found: frozenset[str] | None = test.takes
        return found
    parameters = inspect.signature(test).parameters.values()
    return None if any(one.kind is one.VAR_KEYWORD for one in parameters) else frozenset(one.name for one in parameters)


def _taken(test: Test, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """A decorated test takes everything, to pass it on or use it; the test itself only what it names."""
    names = None if hasattr(test, "takes") else _names(test)
    return {name: value for name, value in keywords.items() if names is None or name in names}


class ResourceGroupPreparer(Preparer):
    """There are no resource groups: a name."""

    def __init__(self, **_: Any) -> None:
        pass

    def supplies(self) -> frozenset[str]:
        return frozenset(("resource_group", "location"))

    @contextmanager
    def made(self, given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        yield {"resource_group": Resource("group"), "location": "here"}


class PowerShellPreparer(Preparer):
    """The namespace itself by the names that tests of the administration client use; `recorded` gives the names."""

    def __init__(self, _directory: str, **recorded: str) -> None:
        self._recorded = recorded

    def supplies(self) -> frozenset[str]:
        return frozenset(self._recorded)

    @contextmanager
    def made(self, given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        yield {
            **self._recorded,
            "servicebus_connection_str": namespace.connection_string(),
            "servicebus_fully_qualified_namespace": namespace.FULL_NAME,
            "servicebus_sas_policy": namespace.ROOT,
            "servicebus_sas_key": namespace.KEY,
        }
