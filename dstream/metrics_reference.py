"""The tables of metrics in docs/run.md, written from the declarations themselves.

`python -m dstream.metrics_reference docs/run.md` writes them anew between the page's two marks; a test compares.
"""

from __future__ import annotations

import sys
from pathlib import Path

from common.observability.metrics import documented
from ingester.watch.metrics import METRICS as INGESTER
from router.metrics import METRICS as ROUTER

BEGIN, END = "<!-- metrics: begin -->\n", "<!-- metrics: end -->\n"


def with_metrics(page: str) -> str:
    """`page` with the part between the two marks written anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{documented(INGESTER)}\n{documented(ROUTER)}\n{END}{after}"


def main() -> None:
    """Rewrite the page named on the command line."""
    page = Path(sys.argv[1])
    page.write_text(with_metrics(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
