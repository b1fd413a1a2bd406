"""The tokens of a file while it changes, sessions under them, and limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from common.errors import ConfigurationError
from desk.console.limits import Limit, Rate
from desk.console.refusals import TooMany
from desk.console.sessions import LASTS_SECONDS, Sessions
from desk.console.tokens import TokenFile, fingerprint, tokens_of

FIRST, SECOND = "first-token-0123456789", "second-token-012345678"


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\n",
        "short",
        f"{FIRST}\nshort",
        "with spaces in a token",
        "ümläute-sind-kein-header",
        "\n".join(f"{FIRST}{number}" for number in range(51)),
    ],
)
def test_a_file_that_holds_no_good_token_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        tokens_of(text)
    assert FIRST not in str(refused.value)
    assert "short" not in str(refused.value)


WRONG = [
    (f"ada:{FIRST}\nada:{SECOND}", "line 2 has the name of line 1"),
    (f"ada:{FIRST}\n\nAda:{SECOND}", "line 3 has the name of line 1"),
    (f"ada:{FIRST}\ngrace:{FIRST}", "line 2 has the token of line 1"),
    (f"{FIRST}\n{FIRST}", "line 2 has the token of line 1"),
    ("ada:", "line 1 has a name and no token"),
    (f"{FIRST}\nada:short", "line 2 has a token of less than 16 characters"),
    (f":{FIRST}", "line 1 has no name before its colon"),
    (f"ada lovelace:{FIRST}", "line 1 has no name before its colon"),
    (f"token:{FIRST}", "line 1 has no name before its colon"),
    (f"{'a' * 65}:{FIRST}", "line 1 has no name before its colon"),
    (f"{FIRST}:ada", "line 1 has a token of less than 16 characters"),
    (f"ada:{FIRST}:{SECOND}", "line 1 has no name before its colon"),
]


SWAPPED = [
    "3f9c3f9c3f9c3f9c3f9c:ada-lovelace-1815",
    "9F86D081884C7D659A2FEAA0C55AD015:ada-lovelace-the-first-of-all-programmers",
    "dGhpcyBpcyBhIGtleQ1:ada-lovelace-1815-1852-london",
    "6ba7b810-9dad-11d1-80b4-00c04fd430c8:ada-lovelace-the-first-of-all-programmers",
    "first-token-0123456789:ada-lovelace-1815",
    "first-token:ada.lovelace@example.com",
    "ada:aaaaaaaaaaaaaaaaaaaaaaaa",
    "ada:3f9c3f9c3f9c3f9c3f9c",
]


@pytest.mark.parametrize("text", SWAPPED)
def test_a_line_that_may_be_swapped_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigurationError, match="line 2 looks swapped") as refused:
        tokens_of(f"{FIRST}\n{text}")
    said = f"{refused.value} {refused.value.hint}"
    assert not [each for each in text.split(":") if len(each) > 8 and each in said]


@pytest.mark.parametrize(
    "name", ["ada", "ada.lovelace@analytical-engines.example.com", "nightly-replay-2", "facade", "Grace_H"]
)
def test_a_name_is_one_with_any_key(name: str) -> None:
    for token in ("9f86d081884c7d659a2feaa0c55ad015", "dGhpcyBpcyBhIGtleQ1", "correct-horse-battery-staple"):
        assert tokens_of(f"{name}:{token}") == {token: name}


@pytest.mark.parametrize(("text", "what"), WRONG)
def test_a_line_with_a_name_is_judged_without_showing_the_token(text: str, what: str) -> None:
    with pytest.raises(ConfigurationError, match=what) as refused:
        tokens_of(text)
    assert FIRST not in f"{refused.value} {refused.value.hint}"


def test_a_token_is_the_person_s_whose_name_is_before_it(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", Clock()
    path.write_text(f"ada:{FIRST}\n\n {SECOND} \n")
    tokens, sessions = TokenFile(path, clock), Sessions()
    tokens.load()
    assert (tokens.person(FIRST), tokens.person(SECOND), tokens.person("ada")) == ("ada", "token", None)
    cookie = sessions.begin(fingerprint(FIRST))
    assert tokens.named(sessions.holds(cookie, tokens.known())) == "ada"
    path.write_text(f"grace: {SECOND}")
    clock.time += 2
    assert (tokens.person(FIRST), tokens.person(SECOND)) == (None, "grace")
    assert tokens.named(sessions.holds(cookie, tokens.known())) is None


def test_tokens_are_read_again_when_the_file_has_changed(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", Clock()
    path.write_text(FIRST + "\n")
    tokens = TokenFile(path, clock)
    tokens.load()
    assert tokens.matching(FIRST)
    assert not tokens.matching(SECOND)
    path.write_text(f"{FIRST}\n{SECOND}\n")
    clock.time += 2
    assert tokens.matching(FIRST)
    assert tokens.matching(SECOND)
    path.write_text(SECOND)
    clock.time += 2
    assert not tokens.matching(FIRST)


def test_a_file_that_cannot_be_read_for_a_while_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, clock = tmp_path / "token", Clock()
    path.write_text(FIRST)
    tokens = TokenFile(path, clock)
    tokens.load()
    for _ in range(3):
        path.write_text("short")
        clock.time += 2
        assert tokens.matching(FIRST)
    path.write_text(SECOND)
    clock.time += 2
    assert not tokens.matching(FIRST)
    assert tokens.matching(SECOND)
    assert FIRST not in capsys.readouterr().out


@pytest.mark.parametrize("gone", [lambda path: path.unlink(), lambda path: path.write_text("\n")])
def test_a_file_that_is_removed_or_emptied_lets_nobody_in(
    tmp_path: Path, gone: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    path, clock = tmp_path / "token", Clock()
    path.write_text(FIRST)
    tokens = TokenFile(path, clock)
    tokens.load()
    cookie = Sessions().begin(fingerprint(FIRST))
    for _ in range(2):
        gone(path) if path.exists() else None
        clock.time += 2
        assert not tokens.matching(FIRST)
        assert not Sessions().holds(cookie, tokens.known())
    path.write_text(FIRST)
    clock.time += 2
    assert tokens.matching(FIRST)


def test_a_missing_file_is_a_mistake_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        TokenFile(tmp_path / "none").load()


def test_no_token_is_in_what_is_printed_of_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(FIRST)
    tokens = TokenFile(path)
    tokens.load()
    assert FIRST not in repr(tokens)


def test_a_session_holds_until_it_is_over_or_its_token_is_gone() -> None:
    clock = Clock()
    sessions, first, second = Sessions(clock), fingerprint(FIRST), fingerprint(SECOND)
    cookie = sessions.begin(first)
    assert sessions.holds(cookie, [second, first])
    assert not sessions.holds(cookie, [second])
    assert not sessions.holds(cookie, [])
    clock.time += LASTS_SECONDS + 1
    assert not sessions.holds(cookie, [first])


def test_a_session_that_was_ended_holds_no_longer() -> None:
    sessions, token = Sessions(), fingerprint(FIRST)
    cookie, other = sessions.begin(token), sessions.begin(token)
    sessions.end(cookie)
    assert not sessions.holds(cookie, [token])
    assert sessions.holds(other, [token])


def test_a_session_of_another_process_is_none() -> None:
    token = fingerprint(FIRST)
    assert not Sessions().holds(Sessions().begin(token), [token])


@pytest.mark.parametrize(
    "change",
    [lambda c: "9" + c, lambda c: c[:-2], lambda c: c + "ü", lambda c: "", lambda c: "..", lambda c: f"{10**20}.x.y"],
)
def test_a_cookie_that_was_changed_is_none(change: object) -> None:
    sessions, token = Sessions(), fingerprint(FIRST)
    assert callable(change)
    assert not sessions.holds(change(sessions.begin(token)), [token])


def test_a_page_s_token_is_its_session_s_own() -> None:
    sessions = Sessions()
    assert sessions.is_csrf("a", sessions.csrf("a"))
    assert not sessions.is_csrf("b", sessions.csrf("a"))
    assert not sessions.is_csrf("a", "")
    assert not sessions.is_csrf("a", "ü")


def test_a_limit_is_a_burst_and_then_a_rate() -> None:
    clock = Clock()
    limit = Limit("requests", Rate(per_second=2, burst=3), now=clock)
    for _ in range(3):
        limit.take("a")
    with pytest.raises(TooMany) as refused:
        limit.take("a")
    assert refused.value.after == pytest.approx(0.5)
    limit.take("b")
    clock.time += 0.5
    limit.take("a")
    with pytest.raises(TooMany):
        limit.take("a")


def test_limits_of_many_clients_take_bounded_memory() -> None:
    limit = Limit("requests", Rate(1, 1), most=100)
    for number in range(1000):
        limit.take(str(number))
    assert len(limit._left) == 100
