"""A summary per paper: counts, and one sentence made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bench.lab.reproduce.outcomes import CELL_VERDICTS, CLAIM_VERDICTS, OUTCOMES, CellVerdict, ClaimVerdict, Outcome
from bench.lab.reproduce.report import CellReport, ClaimReport, PaperReport


def summarise(cells: Sequence[CellReport], claims: Sequence[ClaimReport]) -> list[PaperReport]:
    """A summary for each paper with a cell or a claim here. Our own questions (`ours-...`) do not count."""
    papers = dict.fromkeys([*(cell.paper for cell in cells), *(claim.paper for claim in claims)])
    return [
        _summary(
            paper,
            [cell for cell in cells if cell.paper == paper],
            Counter(one.verdict for one in claims if one.paper == paper and not one.claim.startswith("ours-")),
        )
        for paper in sorted(papers)
    ]


def count_cells(cells: Sequence[CellReport]) -> tuple[Counter[CellVerdict], Counter[Outcome]]:
    """Cells by verdict, and those whose direction was tested by outcome."""
    directions = Counter(cell.direction.outcome for cell in cells if cell.direction is not None)
    return Counter(cell.verdict for cell in cells), directions


def _summary(paper: str, cells: Sequence[CellReport], claims: Counter[ClaimVerdict]) -> PaperReport:
    verdicts, directions = count_cells(cells)
    numbers = verdicts["reproduced"] + verdicts["not reproduced"] + verdicts["not decided"]
    asked = directions.total() - directions["no direction"]
    tested = claims["holds"] + claims["does not hold"] + claims["undecided"]
    found = [
        _share(verdicts["reproduced"], numbers, "numbers", "is reproduced", "are reproduced"),
        _share(directions["as published"], asked, "directions", "is as published", "are as published"),
        _share(claims["holds"], tested, "tested claims", "holds", "hold"),
    ]
    left = [
        _share(verdicts["not run"], len(cells), "cells", "was not run", "were not run"),
        _share(
            claims.total() - tested - claims["not run"], claims.total(), "claims", "was not tested", "were not tested"
        ),
        _share(claims["not run"], claims.total(), "claims", "was not run", "were not run"),
    ]
    open_ones = ", ".join(text for text in left if text and not text.startswith("0 "))
    sentence = ", ".join(filter(None, found)) or "nothing was measured"
    return PaperReport(
        paper=paper,
        cells=len(cells),
        verdicts={name: verdicts[name] for name in CELL_VERDICTS},
        directions={name: directions[name] for name in OUTCOMES},
        claims={name: claims[name] for name in CLAIM_VERDICTS},
        sentence=f"{sentence}; {open_ones}" if open_ones else sentence,
    )


def _share(part: int, whole: int, what: str, one: str, several: str) -> str:
    """`3 of 70 numbers are reproduced`; empty if there are none."""
    return f"{part} of {whole} {what} {one if part == 1 else several}" if whole else ""
