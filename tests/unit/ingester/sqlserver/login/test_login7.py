"""LOGIN7 as it is written, read again, and sent on with a token; the emulator's parser reads it by rules of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulators.sqlserver.wire import login7 as emulators
from ingester.sqlserver.login.login7 import login7, read

TDS_7_4 = 0x74000004
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def written(user: str = "u", password: str = "p", server: str = "s", database: str = "d") -> bytes:
    return login7(["host", user, password, "app", server, "", "lib", "", database], TDS_7_4, 8000).written


@given(texts, texts, texts, texts)
def test_what_is_written_is_read_by_both_sides(user: str, password: str, server: str, database: str) -> None:
    body = written(user, password, server, database)
    theirs = emulators.parse(body)
    assert (theirs.request.user, theirs.request.password, theirs.request.server) == (user, password, server)
    assert (theirs.request.database, theirs.request.host, theirs.request.application) == (database, "host", "app")
    assert (theirs.packet_size, theirs.tds_version, theirs.federated) == (8000, TDS_7_4, None)
    assert read(body).written == body


@given(texts, st.booleans())
def test_a_token_takes_the_place_of_user_and_password_and_all_else_stays(token: str, echo: bool) -> None:
    sent = read(written("somebody", "hunter2", "here", "Shop")).by_token(token, "there", echo=echo)
    found = emulators.parse(sent)
    assert found.federated == emulators.Federated(token, echo, None)
    assert (found.request.user, found.request.password) == ("", "")
    assert (found.request.server, found.request.database, found.request.application) == ("there", "Shop", "app")
    assert found.packet_size == 8000


def test_a_login_that_had_a_token_may_be_given_another() -> None:
    """As after a gateway has sent its clients on."""
    once = read(written()).by_token("first", "one", echo=True)
    assert emulators.parse(read(once).by_token("second", "two", echo=False)).request.token == "second"


def test_neither_password_nor_token_is_shown() -> None:
    assert "hunter2" not in repr(read(written("u", "hunter2")))


@pytest.mark.parametrize("body", [b"", b"GET / HTTP/1.1\r\n\r\n", written()[:60]])
def test_what_is_no_login_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        read(body)
