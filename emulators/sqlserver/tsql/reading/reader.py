"""A cursor over tokens with the few gestures that every parser of this package needs. No grammar here."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import declared_twice, keyword_syntax, syntax
from emulators.sqlserver.tsql.reading.fragments import Fragment, fragment
from emulators.sqlserver.tsql.reading.statements import DeclareTable, Name
from emulators.sqlserver.tsql.reading.tokens import END, NUMBER, QUOTED, VARIABLE, WORD, Token, identifier
from emulators.sqlserver.tsql.values.types import make_type

_WORDS = (
    "ADD ALL ALTER AND ANY AS ASC BEGIN BETWEEN BREAK BY CASE CHECK CLOSE COMMIT CONSTRAINT CONTINUE CREATE CROSS CURSOR DEALLOCATE "
    "DECLARE DEFAULT DELETE DESC DISTINCT DROP ELSE END EXEC EXECUTE EXISTS FETCH FOREIGN FROM FULL GOTO GRANT GROUP HAVING IF IN "
    "INDEX INNER INSERT INTO IS JOIN KEY LEFT LIKE MERGE NOT NULL OF ON OPEN OPTION OR ORDER OUTER PRIMARY PRINT PROCEDURE "
    "RAISERROR REFERENCES RETURN REVOKE RIGHT ROLLBACK SAVE SELECT SET TABLE THEN TO TOP TRUNCATE UNION UNIQUE UPDATE USE VALUES "
    "VIEW WAITFOR WHEN WHERE WHILE WITH"
)
RESERVED = frozenset(_WORDS.split())


class Reader:
    """Reads `tokens` of `sql` from left to right; the last token is END."""

    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        self.sql = sql
        self.tokens = tokens
        self.position = 0
        self._counted = 0, 1
        """Up to where lines were counted, and the line there: a batch of thousands of statements is counted once."""
        self.depth = 0
        """How many BEGIN, IF, WHILE and TRY the statement that is being read stands in."""
        self.declared: list[tuple[str, SqlType | DeclareTable]] = []
        """The batch's variables so far, each with its type or, of a table, its definition."""
        self.refused: list[int] = []
        """Where functions are called that the batch's statements may not reach."""

    @property
    def here(self) -> Token:
        return self.tokens[self.position]

    def peek(self, distance: int = 1) -> Token:
        return self.tokens[min(self.position + distance, len(self.tokens) - 1)]

    def line(self) -> int:
        start, (known, line) = self.here.start, self._counted
        if start < known:
            known, line = 0, 1
        self._counted = start, line + self.sql.count("\n", known, start)
        return self._counted[1]

    def advance(self) -> Token:
        token = self.tokens[self.position]
        if token.kind != END:
            self.position += 1
        return token

    def at(self, *keys: str) -> bool:
        """Whether the next tokens are these keywords or operators."""
        if len(keys) == 1:  # by far the most
            return self.tokens[self.position].key == keys[0]
        return all(self.peek(index).key == key for index, key in enumerate(keys))

    def accept(self, *keys: str) -> bool:
        if self.tokens[self.position].key != keys[0] or (len(keys) > 1 and not self.at(*keys)):
            return False
        self.position += len(keys)
        return True

    def expect(self, *keys: str) -> None:
        for key in keys:
            if not self.accept(key):
                raise self.unexpected()

    def unexpected(self, token: Token | None = None) -> SqlError:
        token = token or self.here
        if token.kind == WORD and token.key in RESERVED:
            return keyword_syntax(token.text)
        return syntax(token.text if token.kind != END else self.tokens[-2].text if len(self.tokens) > 1 else "")

    def name(self) -> str:
        token = self.here
        if token.kind not in (WORD, QUOTED) or (token.kind == WORD and token.key in RESERVED):
            raise self.unexpected()
        self.position += 1
        return identifier(token)

    def qualified(self) -> Name:
        """A name of one to four parts; `db..t` has an empty part."""
        parts = [self.name()]
        while self.at("."):
            self.advance()
            parts.append("" if self.at(".") else self.name())
        if len(parts) > 4:
            raise syntax(".")
        return tuple(parts)

    def variable(self) -> str:
        if self.here.kind != VARIABLE:
            raise self.unexpected()
        return self.advance().text.lower()

    def declare(self, name: str, kind: SqlType | DeclareTable) -> None:
        """Raises 134."""
        if any(known == name for known, _ in self.declared):
            raise declared_twice(name)
        self.declared.append((name, kind))

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        if self.here.kind != NUMBER or not self.here.text.isdigit():
            raise self.unexpected()
        return sign * int(self.advance().text)

    def type(self, default_length: int = 1) -> SqlType:
        """A data type, perhaps in brackets or under sys."""
        parts = self.qualified()
        name = parts[-1].lower()
        if name == "double" and self.accept("PRECISION"):
            return make_type("float")
        if name in ("national", "char", "nchar", "character") and self.accept("VARYING"):
            name = "nvarchar" if name.startswith("n") else "varchar"
        arguments: list[str] = []
        if self.accept("("):
            arguments.append(self.advance().text)
            while self.accept(","):
                arguments.append(self.advance().text)
            self.expect(")")
        return make_type(name, arguments, default_length)

    def names_in_parentheses(self) -> tuple[str, ...]:
        self.expect("(")
        names = [self.name()]
        while self.accept(","):
            names.append(self.name())
        self.expect(")")
        return tuple(names)

    def skip_parentheses(self) -> None:
        """Past a balanced group that begins here."""
        depth = 0
        while True:
            token = self.advance()
            if token.kind == END:
                raise self.unexpected()
            depth += (token.key == "(") - (token.key == ")")
            if depth == 0:
                return

    def until(self, stops: Collection[str], starts: Collection[str] = ()) -> list[Token]:
        """Tokens up to one of `stops` outside parentheses and CASE, or before a word of `starts` that opens a statement."""
        tokens, begin = self.tokens, self.position
        at, depth, cases = begin, 0, 0
        while tokens[at].kind != END:
            key = tokens[at].key
            if key == "(":
                depth += 1
            elif key == ")":
                if depth == 0:
                    break
                depth -= 1
            elif key == "CASE":
                cases += 1
            elif key == "END" and cases:
                cases -= 1
            elif depth == 0 and cases == 0 and (key in stops or key in starts):
                break
            at += 1
        self.position = at
        return list(tokens[begin:at])

    def fragment(self, tokens: Sequence[Token], prefix: str = "SELECT ", lift: bool = False) -> Fragment:
        if not tokens:
            raise self.unexpected()
        return fragment(self.sql, tokens, prefix, lift)

    def text(self, tokens: Sequence[Token]) -> str:
        return self.sql[tokens[0].start : tokens[-1].end] if tokens else ""
