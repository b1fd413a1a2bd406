"""What `dstream plan --sql` writes is enough: run as an administrator, and then `dstream check` as the user that it made."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from dstream.cli import app
from ingester.sqlserver.sql.rights import PASSWORD as VARIABLE
from tests.contracts.check.conftest import PASSWORD, Place


@pytest.mark.parametrize("mode", ["direct", "function"])
def test_the_user_of_the_plan_may_do_what_the_ingester_does(place: Place, mode: str) -> None:
    user = f"planned_{place.login.database}"
    place.settings |= {"user": user, "more": f'query_mode = "{mode}"'}
    assert place.check("--stage", "ingester").said("fail", "SQL Server")
    result = CliRunner().invoke(app, ["plan", "--sql", "--config", str(place.written())])
    assert PASSWORD not in result.stdout
    for _ in range(2):  # it may be run again
        place.execute(result.stdout.replace(VARIABLE, PASSWORD))
    report = place.check("--stage", "ingester")
    assert report.said("ok", "offsets") == "dbo.cdc_offsets may be read and written"
    assert "under CDC as dbo_Persons" in report.said("ok", "table dbo.Persons")
    assert [line for line in report.lines if line.startswith("fail")] == []
