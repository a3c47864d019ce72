"""The closed vocabularies of a reproduction: verdicts, outcomes and differences in setup."""

from __future__ import annotations

from typing import Literal, get_args

#: Two systems that answer every query alike: no comparison of them says anything about a paper.
Same = Literal["not tested: both are the same here"]
SAME: Same = "not tested: both are the same here"

#: What becomes of a cell; each has exactly one.
CellVerdict = Literal["reproduced", "not reproduced", "not decided", "direction only", "not run", Same]
CELL_VERDICTS: tuple[CellVerdict, ...] = get_args(CellVerdict)

#: What becomes of a paired comparison that a paper decides one way.
Outcome = Literal["as published", "opposite", "undecided", "no difference", "no direction", Same]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
#: Those by which cells of the verdict `direction only` are counted apart.
DIRECTION_COUNTS: tuple[Outcome, ...] = ("as published", "opposite")

#: What becomes of a claim; `not tested`: the tests that ran have not what the claim is about.
ClaimVerdict = Literal["holds", "does not hold", "undecided", "not tested", "not run", Same]
CLAIM_VERDICTS: tuple[ClaimVerdict, ...] = get_args(ClaimVerdict)

Difference = Literal[
    "other query view",
    "other queries",
    "other library size",
    "other gold",
    "other split",
    "naive tokeniser",
    "non-standard NDCG",
    "cut-off not stated",
    "test bundles in the history",
    "other model",
    "other training data",
    "other graph",
    "other prompt",
    "rules for a language model",
]

#: Difference -> what it says, for people.
DIFFERENCES: dict[Difference, str] = {
    "other query view": "the text of a query is another part of its dialogue",
    "other queries": "another number or selection of queries",
    "other library size": "another number of tools to choose from",
    "other gold": "what counts as right are other units",
    "other split": "train and test queries are divided otherwise",
    "naive tokeniser": "words are split at white space and keep their case",
    "non-standard NDCG": "the ideal ranking is that of the retrieved tools alone",
    "cut-off not stated": "the paper does not say how deep its metric looks",
    "test bundles in the history": "the paper's list of past bundles holds those of its test queries",
    "other model": "another model stands in for the paper's",
    "other training data": "the model was trained on other data",
    "other graph": "the dependency graph has another source",
    "other prompt": "the language model is asked in other words than the paper's",
    "rules for a language model": "rules stand in for the language model",
}
assert tuple(DIFFERENCES) == get_args(Difference)

#: Differences of the data: a number that agrees in spite of them says less than one on the paper's own.
OF_DATA: frozenset[Difference] = frozenset(
    {
        "other query view",
        "other queries",
        "other library size",
        "other gold",
        "other split",
    }
)
