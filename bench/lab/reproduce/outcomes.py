"""The closed vocabularies of a reproduction: verdicts, outcomes and differences in setup."""

from __future__ import annotations

from typing import Literal, get_args

#: Two systems with identical answers: comparing them says nothing about a paper.
Same = Literal["not tested: both are the same here"]
SAME: Same = "not tested: both are the same here"

#: Outcomes of a cell; each has exactly one.
CellVerdict = Literal["reproduced", "not reproduced", "not decided", "direction only", "not run", Same]
CELL_VERDICTS: tuple[CellVerdict, ...] = get_args(CellVerdict)

#: Outcomes of a paired comparison with a direction in the paper.
Outcome = Literal["as published", "opposite", "undecided", "no difference", "no direction", Same]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
#: Outcomes by which cells with the verdict `direction only` are counted separately.
DIRECTION_COUNTS: tuple[Outcome, ...] = ("as published", "opposite")

#: Verdicts of a claim; `not tested`: the tests that ran are not relevant to the claim.
ClaimVerdict = Literal["holds", "does not hold", "undecided", "not tested", "not run", Same]
CLAIM_VERDICTS: tuple[ClaimVerdict, ...] = get_args(ClaimVerdict)

#: Differences in the data: agreement in spite of them is weaker evidence.
DataDifference = Literal["other query view", "other queries", "other library size", "other gold", "other split"]
OF_DATA: frozenset[DataDifference] = frozenset(get_args(DataDifference))
Difference = Literal[
    DataDifference,
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

#: Difference -> its explanation for readers.
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
