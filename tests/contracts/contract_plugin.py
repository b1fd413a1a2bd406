"""What a run of a contract's tests does with the known gaps, and the summary it ends with.

On the emulator a test of the known gaps must fail; on the real service a failing `unverified` test is reported, not failed,
and tests that only an emulator can run are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.contracts.claims import LABELS, Claim, Contract, strongest

COLLECTED = pytest.StashKey[set[str]]()
"""The names of the collected tests of all contracts, name[case] in every spelling, for the check of the known gaps."""


class ContractPlugin:
    """`real`: the name of the real service the tests run against, None on the emulator. `names`: a test's spellings in the list of gaps."""

    def __init__(
        self,
        contract: Contract,
        gaps: Mapping[str, str],
        real: str | None,
        names: Callable[[pytest.Function], tuple[str, ...]],
    ) -> None:
        self._contract = contract
        self._gaps = gaps
        self._real = real
        self._names = names
        self._claims: list[Claim] = []
        self._reports: list[str] = []
        self._met: set[str] = set()

    def pytest_configure(self, config: pytest.Config) -> None:
        mark = self._contract.mark
        config.addinivalue_line("markers", f"{mark}(number, label): a test of the {self._contract.title}")

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left_out = []
        collected = config.stash.setdefault(COLLECTED, set())
        for test in items:
            if not isinstance(test, pytest.Function) or (claim := self._contract.claim_of(test.function)) is None:
                continue
            collected.update(self._names(test))
            self._claims.append(claim)
            if self._real and test.get_closest_marker("emulator_only"):
                left_out.append(test)
            reason = next((self._gaps[name] for name in self._names(test) if name in self._gaps), None)
            if reason is not None and not self._real:
                self._met.add(f"{claim.number} {self._names(test)[0]}: {reason}")
                test.add_marker(pytest.mark.xfail(reason=f"known gap: {reason}", strict=True))
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [test for test in items if test not in left_out]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """What nobody has verified is news on the real service, not a failure."""
        report = yield
        if self._real and report.failed and call.excinfo is not None and isinstance(item, pytest.Function):
            claim = self._contract.claim_of(item.function)
            if claim is not None and claim.label == "unverified":
                self._reports.append(f"{claim.number} {item.name}: {call.excinfo.exconly()[:300]}")
                report.outcome, report.wasxfail = "skipped", "reported: unverified"
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        claims = set(self._claims)
        if not claims:
            return
        items, tests = Counter(strongest(claims).values()), Counter(claim.label for claim in claims)
        terminalreporter.section(self._contract.title, sep="-")
        for what, counted in (("items, by their surest test", items), ("tests", tests)):
            by_label = ", ".join(f"{counted[label]} {label}" for label in LABELS)
            terminalreporter.line(f"{counted.total()} {what}: {by_label}; on {self._real or 'the emulator'}")
        for title, lines in (("known gap", sorted(self._met)), ("REPORT", self._reports)):
            for line in lines:
                terminalreporter.line(f"{title}: {line}")


def check_gaps(gaps: Mapping[str, str], tests: set[str], config: pytest.Config) -> None:
    """Every known gap has a reason and is of a test that exists; a case is looked up where its test was collected."""
    collected = config.stash[COLLECTED]
    for gap, reason in gaps.items():
        name, bracket, _ = gap.partition("[")
        assert name in tests, f"{gap} is no test"
        assert reason
        if bracket and any(test.startswith(f"{name}[") for test in collected):
            assert gap in collected, f"{gap} is no case of it"
