"""Where a statement ends that nobody reads: one that is refused, which a branch that never runs may hold.

It ends before a word that only begins statements, unless its own grammar has that word there. Where that does not tell, the
batch fails: behind a MERGE without a semicolon, and behind a WITH whose list cannot be read.
Source: the grammar of each statement under https://learn.microsoft.com/sql/t-sql/statements/statements
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emulators.sqlserver.tsql.errors import keyword_syntax, not_first, unterminated_merge
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.tokens import END, Token

_MODULES = frozenset(("PROCEDURE", "FUNCTION", "TRIGGER", "VIEW"))
"""CREATE of these takes the rest of the batch."""
_STOPS = STARTS - {"WITH"}
_SOURCES = frozenset(("SELECT", "EXEC", "EXECUTE", "VALUES"))
_BEFORE_SELECT = frozenset(("UNION", "EXCEPT", "INTERSECT", "FOR", "AS"))
"""Words that no statement ends with, and that a query stands behind."""
_DROPPED = "( BLOCK COLUMN CONSTRAINT CONTRACT ENCRYPTION FILE FILTER HIDDEN MASKED MEMBER NOT PERIOD PERSISTED ROWGUIDCOL SPARSE TARGET"
_PARTS = frozenset(_DROPPED.split())
"""What ALTER drops and alters of its object, and no statement of its own does."""
_FULLTEXT = frozenset(("CHANGE_TRACKING", "STOPLIST", "SEARCH"))
"""What ALTER FULLTEXT INDEX sets."""
_ACTIONS = frozenset(("CASCADE", "NO", "SET"))


def pass_over(reader: Reader, begin: int, words: int) -> None:
    """From where the parser of the statement at `begin` gave up to the next statement. `words`: how many it begins with.

    What was read already belongs to it. Raises 111 and 156 for a module that does not stand first, 102, 10713.
    """
    mark, reader.position = reader.position, begin
    if reader.here.key in ("CREATE", "ALTER") and _module(reader) in _MODULES:
        _past_module(reader)
        return
    if reader.at("WITH"):
        past_common_tables(reader)
    verb = reader.here.key if words == 1 else ""
    reader.position += words
    if verb == "INSERT" and reader.accept("TOP") and reader.at("("):
        reader.skip_parentheses()
    body = reader.position
    depth = cases = 0
    while reader.here.kind != END:
        key = reader.here.key
        ends = key in (";", ")") or (key in _STOPS and not _goes_on(verb, reader.tokens, body, reader.position))
        if ends and depth == 0 and cases == 0 and reader.position >= mark:
            break
        if reader.at("FOR", "WITH"):  # a cursor's query
            reader.advance()
            past_common_tables(reader)
            reader.expect("SELECT")
            continue
        depth += (key == "(") - (key == ")")
        cases += (key == "CASE") - (key == "END" and cases > 0)
        reader.position += 1
    if verb == "MERGE" and not reader.at(";"):
        raise unterminated_merge()


def past_common_tables(reader: Reader) -> None:
    """WITH name AS (...), ... up to the statement that follows. Raises 102 and 156."""
    reader.expect("WITH")
    while True:
        if reader.accept("XMLNAMESPACES", "("):
            reader.position -= 1
            reader.skip_parentheses()
        else:
            reader.name()
            if reader.at("("):
                reader.skip_parentheses()
            reader.expect("AS")
            if not reader.at("("):
                raise reader.unexpected()
            reader.skip_parentheses()
        if not reader.accept(","):
            return


def misplaced(reader: Reader, begin: int, kind: str) -> Exception:
    """What CREATE of a module is that does not stand first: 111 between statements, and no statement at all within another one."""
    return keyword_syntax(reader.tokens[begin + 1].text) if reader.depth else not_first(kind)


def _past_module(reader: Reader) -> None:
    begin = reader.position
    if begin:
        kind = _module(reader)
        raise misplaced(reader, begin, f"CREATE{'/ALTER' if kind == 'PROCEDURE' else ''} {kind}")
    reader.position = len(reader.tokens) - 1


def _module(reader: Reader) -> str:
    """The word behind CREATE, ALTER or CREATE OR ALTER."""
    key = reader.peek(3 if reader.peek().key == "OR" else 1).key
    return "PROCEDURE" if key == "PROC" else key


def _goes_on(verb: str, tokens: Sequence[Token], body: int, at: int) -> bool:
    """Whether a word that begins statements stands inside the one of this verb. `body`: where that one's first clause begins."""
    key, before = tokens[at].key, tokens[at - 1].key
    if key == "SELECT" and (before in _BEFORE_SELECT or (before == "ALL" and tokens[at - 2].key == "UNION")):
        return True
    if key == "REVERT" and before == "NO":  # EXECUTE AS ... WITH NO REVERT
        return True
    inside = _INSIDE.get(verb)
    return inside is not None and inside(tokens, body, at)


def _in_cursor(tokens: Sequence[Token], body: int, at: int) -> bool:
    return tokens[at].key == "UPDATE" and tokens[at - 1].key == "FOR"


def _in_insert(tokens: Sequence[Token], body: int, at: int) -> bool:
    """Its source, once."""
    return tokens[at].key in _SOURCES and not any(token.key in _SOURCES for token in tokens[body:at])


def _in_update(tokens: Sequence[Token], body: int, at: int) -> bool:
    return tokens[at].key == "SET" and not any(token.key == "SET" for token in tokens[body:at])


def _in_merge(tokens: Sequence[Token], body: int, at: int) -> bool:
    key, before = tokens[at].key, tokens[at - 1].key
    return (key in ("INSERT", "UPDATE", "DELETE") and before == "THEN") or (key == "SET" and before == "UPDATE")


def _in_permissions(tokens: Sequence[Token], body: int, at: int) -> bool:
    """The permissions, up to whom they are given to or taken from; and WITH GRANT OPTION behind."""
    listed = not any(token.key in ("TO", "FROM") for token in tokens[body:at])
    return (listed and tokens[at].key not in ("END", "ELSE", "IF", "BEGIN", "COMMIT")) or (
        tokens[at].key == "GRANT" and tokens[at - 1].key == "WITH"
    )


def _in_definition(tokens: Sequence[Token], body: int, at: int) -> bool:
    """Of CREATE and ALTER: what a foreign key does ON DELETE and ON UPDATE, when a security policy looks, IF EXISTS."""
    key, before = tokens[at].key, tokens[at - 1].key
    if key in ("DELETE", "UPDATE") and before == "ON":
        return tokens[at + 1].key in _ACTIONS
    if key == "SET" and before in ("DELETE", "UPDATE"):
        return tokens[at - 2].key == "ON"
    if key in ("INSERT", "UPDATE", "DELETE") and before in ("AFTER", "BEFORE"):
        return tokens[body].key == "SECURITY"
    return _if_exists(tokens, body, at)


def _in_alter(tokens: Sequence[Token], body: int, at: int) -> bool:
    key, before, after = tokens[at].key, tokens[at - 1].key, tokens[at + 1].key
    if key == "SET" and (after == "(" or before in ("CONFIGURATION", "SECONDARY")):
        return True
    if key in ("ALTER", "DROP"):
        return after in _PARTS or (after == "EVENT" and tokens[at + 2].key not in ("SESSION", "NOTIFICATION"))
    if key == "ROLLBACK" and before == "WITH":
        return True
    return _begins_clause(tokens, body, at) or _in_definition(tokens, body, at)


def _begins_clause(tokens: Sequence[Token], body: int, at: int) -> bool:
    """Whether a clause begins here, of ALTER of the kind of object at `body`, as a statement of its own does."""
    kind, key = tokens[body].key, tokens[at].key
    if kind == "AVAILABILITY":  # GROUP name GRANT CREATE ANY DATABASE
        begin = at - (key == "CREATE")
        return begin == body + 3 and tokens[begin].key in ("GRANT", "DENY")
    if kind == "EXTERNAL":  # DATA SOURCE name SET
        return key == "SET" and at == body + 4 and tokens[body + 1].key == "DATA"
    if kind == "FULLTEXT":
        return key == "SET" and tokens[at + 1].key in _FULLTEXT
    if kind == "PARTITION":
        return key == "MERGE" and tokens[at + 1].key == "RANGE"
    return kind == "RESOURCE" and key == "RECONFIGURE" and at == body + 2 and tokens[at - 1].key == "GOVERNOR"


def _if_exists(tokens: Sequence[Token], body: int, at: int) -> bool:
    """IF EXISTS of a name, and not of a query."""
    return tokens[at].key == "IF" and tokens[at + 1].key == "EXISTS" and tokens[at + 2].key != "("


_INSIDE: dict[str, Callable[[Sequence[Token], int, int], bool]] = {
    "DECLARE": _in_cursor,
    "SET": _in_cursor,
    "INSERT": _in_insert,
    "UPDATE": _in_update,
    "MERGE": _in_merge,
    "GRANT": _in_permissions,
    "DENY": _in_permissions,
    "REVOKE": _in_permissions,
    "CREATE": _in_definition,
    "ALTER": _in_alter,
    "DROP": _if_exists,
}
"""The words that begin statements and stand within one, by its verb."""
