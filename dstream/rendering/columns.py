"""Text tables and words for times. Plain text by own code: rich belongs to the demo alone, and these go through pipes."""

from __future__ import annotations

from collections.abc import Sequence

_GAP = "  "


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> list[str]:
    """Lines of columns as wide as their widest cell. `right`: the heads whose columns are aligned to the right.

    Cells may hold what others wrote (a reason, a name): characters that a terminal would obey are blanks.
    """
    rows = [[_printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in (heads, *rows)) for at in range(len(heads))]
    return [
        _GAP.join(
            cell.rjust(width) if head in right else cell.ljust(width)
            for head, cell, width in zip(heads, row, widths, strict=True)
        ).rstrip()
        for row in (heads, *rows)
    ]


def _printable(cell: str) -> str:
    return "".join(each if each.isprintable() else " " for each in cell)


def duration(seconds: float | None) -> str:
    """`12s`, `5m 3s`, `2h 10m`, `2d 4h`; `-` for None; what is below 0 has passed."""
    if seconds is None:
        return "-"
    if seconds < 0:
        return f"passed {duration(-seconds)} ago"
    whole = int(seconds)
    for unit, size, smaller, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // part}{smaller}"
    return f"{whole}s"


def or_dash(text: object) -> str:
    return "-" if text is None else str(text)
