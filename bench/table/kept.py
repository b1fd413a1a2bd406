"""The last run that was kept: `docs/measurements/last.json`, and the table of it in that folder's README. A machine is its number of cores."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from bench.table.figures import Figure, markdown

FOLDER: Final = Path(__file__).parents[2] / "docs" / "measurements"
BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"


@dataclass(frozen=True, slots=True)
class Run:
    """`load`: of the machine, as its operating system says, before the run and after it."""

    date: str
    commit: str
    cores: int
    load: tuple[float, float]
    quick: bool
    figures: tuple[Figure, ...]

    @property
    def values(self) -> dict[str, float]:
        """By name."""
        return {figure.name: figure.value for figure in self.figures}


def parsed(text: str) -> Run:
    """Raises ValueError where the text is none that `written` made."""
    try:
        fields: dict[str, Any] = json.loads(text)
        figures = tuple(Figure(**figure) for figure in fields.pop("figures"))
        before, after = fields.pop("load")
        return Run(**fields, load=(before, after), figures=figures)
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is not a kept run: {error!r}") from error


def written(run: Run) -> str:
    """As JSON, a figure a line."""
    fields = asdict(run)
    figures = ",\n".join(f"    {json.dumps(figure)}" for figure in fields.pop("figures"))
    head = json.dumps(fields, indent=2).removesuffix("\n}")
    return f'{head},\n  "figures": [\n{figures}\n  ]\n}}\n'


def merged(new: Run, old: Run | None) -> Run:
    """A run of some parts keeps the other figures of the last one, in their places. Each has its own date and commit. Raises ValueError where
    one of them is a short run and the other is not."""
    if old is None:
        return new
    if new.quick != old.quick:
        raise ValueError("figures of the short form and those of a full run cannot be mixed: keep a run of all parts")
    fresh = {figure.name: figure for figure in dated(new)}
    figures = [fresh.pop(figure.name, figure) for figure in dated(old)]
    return Run(new.date, new.commit, new.cores, new.load, new.quick, (*figures, *fresh.values()))


def dated(run: Run) -> list[Figure]:
    """The figures, those without a date and a commit with the run's."""
    return [replace(each, date=each.date or run.date, commit=each.commit or run.commit) for each in run.figures]


def last(folder: Path = FOLDER) -> Run | None:
    """None where none was kept."""
    path = folder / "last.json"
    return parsed(path.read_text(encoding="utf-8")) if path.exists() else None


def keep(run: Run, folder: Path = FOLDER) -> None:
    """Write the run and its table."""
    (folder / "last.json").write_text(written(run), encoding="utf-8")
    page = folder / "README.md"
    page.write_text(with_table(page.read_text(encoding="utf-8"), run), encoding="utf-8")


def with_table(page: str, run: Run) -> str:
    """The page with the run's table between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{described(run)}\n\n{markdown(_shown(run))}\n{END}{after}"


def _shown(run: Run) -> list[Figure]:
    """The figures; a remark says when and where those of another run were measured."""
    others = [(each, f"{each.date}, {each.commit}") for each in dated(run)]
    own = f"{run.date}, {run.commit}"
    return [
        each if of == own else replace(each, remark="; ".join(filter(None, (each.remark, of)))) for each, of in others
    ]


def described(run: Run) -> str:
    """One line about the machine and the time."""
    extent = "`make bench` in its short form" if run.quick else "`make bench`"
    before, after = run.load
    return f"{extent} on {run.date}, at {run.commit}, {run.cores} cores, a load of {before:.0f} before and {after:.0f} after."
