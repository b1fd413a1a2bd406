"""What an operator's condition may be, before the server compiles it."""

from __future__ import annotations

import pytest

from common.errors import PermanentError
from ingester.sqlserver.history.condition import MOST_CHARACTERS, refusal, refuse

GOOD = [
    "Country = N'DE' AND Age > 18",
    "[select] = 1 AND [a ]] ; -- b] = 2",
    '"exec" = 1 AND "a"" ;" = 2',
    "Name = 'it''s; -- (' OR Name = N'/* [ \" */'",
    "((A = 1) OR (B = 2))",
    "Selected = 1 AND INTOx = 2 AND go_ = 3",
    "A = -1 AND B = - -1",
    "A / B * C > 1.5e3",
    "Name LIKE N'[a-z]%'",
    "Straße = N'x'",
    "Name = N'😀'",
    "A = 1\r\n\tAND B = 2",
    "A#b$ = 1",
    "A = 0x1F AND B > 1.5e-3 AND C = .5 AND D IN (1,2)",
]
BAD = {
    "": "it is empty",
    " \n": "it is empty",
    "A = 1;": "a semicolon at character 6",
    "A = 1)": "closes a parenthesis at character 6",
    "A = 1) OR (B = 2": "closes a parenthesis at character 6",
    "(A = 1": "the parenthesis at character 1 is not closed",
    "A = 'x": "a ' that is not closed at character 5",
    "A = N'it's'": "a ' that is not closed at character 11",
    "[a = 1": r"a \[ that is not closed at character 1",
    '"a = 1': 'a " that is not closed at character 1',
    "A = 1 -- B": "a comment at character 7",
    "A = 1 /* B */": "a comment at character 7",
    "A = 1 */ B": "a comment at character 7",
    "A IN (SELECT 1)": "the word SELECT at character 7",
    "A = 1 sElEcT B": "the word SELECT",
    "A = (sElEcT 1)": "the word SELECT",
    "A = 1 EXEC('x')": "the word EXEC",
    "A = 1 execute x": "the word EXECUTE",
    "A = OPENROWSET('x')": "the word OPENROWSET",
    "A = openquery(x, 'y')": "the word OPENQUERY",
    "A = OPENDATASOURCE('x', 'y').a.b.c": "the word OPENDATASOURCE",
    "A = 1 INTO B": "the word INTO",
    "A = 1\nGO\n": "the word GO",
    "A = 1 DECLARE x int": "the word DECLARE",
    "A = 1 UNION B": "the word UNION",
    "A = 1SELECT 2": "a number that a letter follows at character 5",
    "A = 1e5SELECT 2": "a number that a letter follows",
    "A = 1eSELECT 2": "a number that a letter follows",
    "A = 0x1FSELECT 2": "a number that a letter follows",
    "A = 1.SELECT 2": "a number that a letter follows",
    "A = .5SELECT 2": "a number that a letter follows",
    "A = @p1": "a variable at character 5",
    "A = @@ROWCOUNT": "a variable at character 5",
    "A = 1 \x00": "character 7 is a control character",
    "A = '\ud83d'": "control character",
    "A = {fn NOW()}": "a { at character 5",
    "A" * (MOST_CHARACTERS + 1): "more than 4000 characters",
}


@pytest.mark.parametrize("where", GOOD)
def test_a_condition_on_a_row_is_left_to_the_server(where: str) -> None:
    assert refusal(where) is None


@pytest.mark.parametrize(("where", "said"), BAD.items())
def test_what_may_get_out_of_its_parentheses_is_refused(where: str, said: str) -> None:
    with pytest.raises(PermanentError, match=said) as caught:
        refuse("dbo.T", where)
    assert caught.value.message.startswith("the condition for dbo.T is refused: ")
