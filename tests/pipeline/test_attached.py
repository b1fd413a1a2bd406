"""The demo on a database where it has run before, as `--attach` finds it: no key and no Version of the earlier run comes again."""

from __future__ import annotations

import json

from dstream.demo.ledger import Ledger
from dstream.demo.schema import TABLES, create_or_continue
from dstream.demo.verdict import of_an_earlier_workload
from dstream.demo.workload import Pace, Workload
from dstream.emulators import Login


def versions(ledger: Ledger) -> set[int]:
    rows = [change.row["Version"] for table in TABLES for change, _, _ in ledger.entries(table)]
    return {version for version in rows if isinstance(version, int)}


def run(login: Login, after: int) -> Ledger:
    ledger = Ledger()
    workload = Workload(login, ledger, Pace(changes=200, seconds=0, large=20), seed=1, after=after)
    workload.start()
    workload.join()
    return ledger


def test_a_second_run_on_the_same_tables_is_told_from_the_first(login: Login) -> None:
    assert create_or_continue(login) == 0
    assert create_or_continue(login) == 0, "nothing was written yet"
    first = versions(run(login, 0))
    after = create_or_continue(login)
    # With the same seed: rows with a key of the first run would be refused.
    second = versions(run(login, after))
    assert max(first) <= after < min(second)
    for found, earlier in ((first, True), (second, False)):
        bodies = [json.dumps({"metadata": {"OperationType": "Insert"}, "data": {"Version": each}}) for each in found]
        assert {of_an_earlier_workload(body.encode(), after) for body in bodies} == {earlier}


def test_a_server_that_answers_has_no_refusal_and_one_that_is_away_has_a_reason(login: Login) -> None:
    assert login.refusal() is None
    refused = Login(login.host, 1, login.user, login.password, login.database).refusal()
    assert refused is not None
    assert login.password not in refused
