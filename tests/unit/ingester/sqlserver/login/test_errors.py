"""Which refusals of a login want a person, and which are over some time."""

from __future__ import annotations

import pytest

from common.errors import ConnectionLost, DStreamError, PermanentError
from ingester.sqlserver.login.errors import refused
from ingester.sqlserver.login.refusal import Refusal


def meaning(*refusals: Refusal, proven: bool = False, by_token: bool = False) -> DStreamError:
    return refused(refusals, "connecting to SQL Server db:1433", "user 'app'", "Shop", proven=proven, by_token=by_token)


def told(number: int, *, state: int = 1, severity: int = 14) -> Refusal:
    return Refusal(number, state, severity, "it says")


FOR_A_PERSON = {
    916: "database",
    4060: "database",
    18456: "user and password",
    18452: "mixed authentication",
    18470: "administrator",
    18486: "administrator",
    18487: "new password",
    18488: "new password",
    40531: "user@server",
    40532: "user@server",
    40615: "firewall",
    40914: "firewall",
    47073: "private endpoint",
}
"""https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues"""

_OF_DATABASES = {916, 4060}

OVER_SOME_TIME = {615, 926, 976, 978, 983, 4221, 17142, 18401, 18451} | {
    *(10928, 10929, 10936, 40143, 40166, 40197, 40501, 40540, 40613, 42108, 42109, 49918, 49919, 49920)
}
"""Those that Microsoft lists as transient among them; 4060 and 18456 may as well be a wrong name."""


@pytest.mark.parametrize("number", sorted(FOR_A_PERSON))
def test_a_first_login_that_a_person_must_help_names_the_remedy(number: int) -> None:
    found = meaning(told(number, severity=20))
    assert isinstance(found, PermanentError)
    assert f"error {number}: it says" in found.message
    assert FOR_A_PERSON[number] in (found.hint or "")


@pytest.mark.parametrize("number", sorted(FOR_A_PERSON))
def test_a_login_that_worked_before_is_tried_again_whatever_is_said(number: int) -> None:
    found = meaning(told(number), proven=True)
    assert isinstance(found, ConnectionLost)
    assert FOR_A_PERSON[number] in (found.hint or "")
    assert ("restart with the new ones" in (found.hint or "")) == (number not in _OF_DATABASES)


@pytest.mark.parametrize("by_token", [False, True])
@pytest.mark.parametrize("number", sorted(_OF_DATABASES))
def test_a_database_that_closed_meanwhile_is_looked_at_before_a_failover_is_thought_of(
    number: int, by_token: bool
) -> None:
    hint = meaning(told(number), proven=True, by_token=by_token).hint or ""
    assert hint.startswith("check the database's name, that the database is online and not in single-user mode")
    assert "a session of an ingester may hold the one place" in hint
    assert hint.endswith("; a server that fails over refuses logins, too")
    assert "password" not in hint
    assert "\n" not in hint


@pytest.mark.parametrize("number", sorted(OVER_SOME_TIME))
def test_a_server_that_is_not_ready_is_tried_again_from_the_first_login_on(number: int) -> None:
    found = meaning(told(number))
    assert isinstance(found, ConnectionLost)
    assert found.hint


def test_a_serverless_database_that_resumes_is_told_as_that() -> None:
    assert "Connect Timeout=60" in (meaning(told(40613)).hint or "")


@pytest.mark.parametrize(("severity", "kind"), [(14, PermanentError), (16, ConnectionLost), (20, ConnectionLost)])
def test_a_refusal_that_nobody_foresaw_is_judged_by_its_severity(severity: int, kind: type[Exception]) -> None:
    assert isinstance(meaning(told(54321, severity=severity)), kind)


def test_a_database_that_cannot_be_opened_is_told_before_the_login_that_failed_for_it() -> None:
    assert "cannot open database 'Shop'" in meaning(told(4060, severity=11), told(18456)).message


@pytest.mark.parametrize(
    ("state", "says"), [(1, None), (7, "disabled"), (38, "does not exist"), (58, "Windows logins only")]
)
def test_a_state_that_the_server_tells_is_put_into_words(state: int, says: str | None) -> None:
    found = meaning(told(18456, state=state))
    assert (says is None) == ("state" not in found.message)
    assert (says or "") in found.message


def test_one_that_is_let_in_when_asked_again_is_tried_again() -> None:
    assert isinstance(meaning(), ConnectionLost)


@pytest.mark.parametrize("proven", [False, True])
@pytest.mark.parametrize("number", [4060, 916, 18456, 54321])
def test_an_identity_that_is_not_let_in_is_to_be_made_a_user(number: int, proven: bool) -> None:
    found = meaning(told(number), by_token=True, proven=proven)
    assert isinstance(found, ConnectionLost if proven else PermanentError)
    assert "CREATE USER [its name] FROM EXTERNAL PROVIDER" in (found.hint or "")
    assert "password" not in str(found)


def test_a_server_that_takes_no_tokens_needs_an_administrator_of_entra() -> None:
    assert "Microsoft Entra ID administrator" in (meaning(told(18452), by_token=True).hint or "")
