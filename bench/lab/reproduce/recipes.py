"""Recipes: which spec measures a table row, and how the setup differs from the paper. `reproduction` runs them.

A cell is measured by the first of its recipes that can run here. The most faithful one comes first, so a cell improves
automatically once a model, dataset or endpoint is available.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from pydantic import Field, model_validator

from bench.base.errors import DataError, UsageError
from bench.base.parameters import suggestion
from bench.base.records import Record, read_toml
from bench.base.spec import format_value
from bench.data.template import NamedTemplate
from bench.lab.reproduce.cells import PrintedCell, cell_at, table_cells
from bench.lab.reproduce.outcomes import Difference
from bench.results.settings import EvaluatedSplit

FOLDER = Path(__file__).parent / "recipes"

_ROLE = re.compile(r"\{([\w.-]+)\}")
_PLACEHOLDER = re.compile(r"\{(\w*)\}")

#: Values of `{name}` in a recipe's texts, by row or place. A list may only occur where a list is expected (`on`).
Substitutions = dict[str, str | list[str]]


class RecipeQuestion(Record):
    """What a method is run on, and in which form.

    Attributes:
        on: dataset specs; with several, the mean is over datasets or over their pooled queries.
        pool: which of the two; or the name of a slice, for the mean over the means of its values.
        slices: only queries that have these slices, as in {parent = "unseen"}.
        template: the tool text; by default the dataset's own.
        split: the queries; by default the dataset's own.
    """

    on: tuple[str, ...] = Field(min_length=1)
    pool: str = "datasets"
    slices: dict[str, str] = {}
    template: NamedTemplate | None = None
    split: EvaluatedSplit | None = None


class Standard(Record):
    """The measurement by the protocol, for recipes that follow the paper's own way."""

    method: str | None = None
    measure: dict[str, str] = {}


class PaperModel(Record):
    """A language model of a paper, by its role.

    Attributes:
        paper: the paper's name for it.
        name: the model to request from an endpoint unless the user names another.
    """

    paper: str
    name: str


#: Prefix of the name of a method's fact.
FACT = "fact:"


def is_fact(name: str) -> bool:
    """Whether a recipe's measure is a number of the whole result instead of a metric."""
    return name in {"tools", "connected_tools"} or name.startswith(FACT)


class Recipe(RecipeQuestion):
    """How to measure some rows of a table.

    Attributes:
        rows, places: which cells; `{name}` in the other fields takes its value from here. Places are datasets with
            their splits (`ToolBench I1-Inst`); empty means all.
        method: a method's spec; `$NAME` in it is the folder of an artefact.
        minus: for tables of differences, the spec that is subtracted.
        against, rival: make this a recipe for a direction: a row of the same table (or `TABLE: ROW`), and the spec
            that represents it. In a table of differences `against` describes `rival`.
        measure: printed metric -> ours, or a fact of the result; the same by default. This recipe does not measure
            metrics that are left out.
        follows: the paper's own ways that this measurement follows on purpose; `standard` shows the number without
            them.
        differences: how the measurement differs from the paper's.
        needs: what may be missing here: a model, data, an endpoint.
        runnable: false if no run of bench can give these cells: the recipe is reported and never tried. `needs`
            says why, and `commands` what comes closest.
        role: the role of a language model: the recipe is for a model other than the paper's, which the user names
            and `{given}` stands for.
        words: values of `{name}` for names without a value in row or place; from the file.
    """

    table: str
    rows: dict[str, Substitutions]
    places: dict[str, Substitutions] = {}
    method: str
    minus: str | None = None
    against: str | None = None
    rival: str | None = None
    measure: dict[str, str] = {}
    follows: tuple[Difference, ...] = ()
    differences: tuple[Difference, ...] = ()
    standard: Standard | None = None
    needs: tuple[str, ...] = ()
    runnable: bool = True
    commands: tuple[str, ...] = ()
    role: str = ""
    note: str = ""
    words: dict[str, str] = {}

    @model_validator(mode="before")
    @classmethod
    def _lists_are_without_substitutions(cls, data: object) -> object:
        if isinstance(data, dict):
            for key in ("rows", "places"):
                if isinstance(data.get(key), list):
                    data = {**data, key: {name: {} for name in data[key]}}
        return data

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Recipe:
        if (self.against is None) != (self.rival is None):
            raise ValueError("against and rival go together")
        if self.against and self.minus:
            raise ValueError("a recipe of direction subtracts nothing")
        if not self.runnable and not self.needs:
            raise ValueError("a recipe that cannot be run says in needs what is lacking")
        if self.runnable and self.commands:
            raise ValueError("commands are for a recipe that cannot be run; the others have theirs made")
        return self

    def covers(self, cell: PrintedCell) -> bool:
        """Whether this recipe measures a cell."""
        return (
            cell.table == self.table
            and cell.row in self.rows
            and (not self.places or cell.place in self.places)
            and (not self.measure or cell.metric in self.measure)
        )

    @property
    def methods(self) -> list[str]:
        """The specs that it runs."""
        return [text for text in (self.method, self.minus, self.rival) if text is not None]

    def measures(self, cells: Sequence[PrintedCell]) -> list[str]:
        """Our metric, or the fact, for each of these cells."""
        return [self.measure.get(cell.metric, cell.metric) for cell in cells]

    def asks(self, model: str) -> bool:
        """Whether it calls a language model with that role."""
        return any(f"llm={model}{end}" in text for text in self.methods for end in ",)")

    def opponent(self, cell: PrintedCell) -> PrintedCell:
        """The printed cell that a recipe of direction compares a cell with; raises `DataError` if there is none."""
        table, colon, row = (self.against or "").partition(": ")
        return cell_at(table if colon else self.table, row if colon else table, cell.place, cell.metric)

    def fill(self, cell: PrintedCell, given: Mapping[str, str] | None = None) -> Recipe:
        """The recipe for the row and place of a cell, with its texts filled in; `given`: role -> the user's model.

        Raises:
            DataError: a word is missing.
        """
        values = _substitute({**self.words, **self.rows[cell.row], **self.places.get(cell.place, {})})
        role = _fill(self.role, values)
        if role:
            model = paper_models()[role]
            values |= {"given": format_value((given or {}).get(role, model.name)), "paper": model.paper}
        values = _substitute(values)

        def fill(text: str) -> str:
            filled = _fill(text, values)
            if missing := _PLACEHOLDER.search(filled):
                raise DataError(f"the recipe of {cell} has no word for {missing[1]!r}, in {text!r}.")
            return filled

        on: list[str] = []
        for text in self.on:
            listed = values.get(text.removeprefix("{").removesuffix("}"))
            on.extend(listed if isinstance(listed, list) else [fill(text)])
        texts = {name: getattr(self, name) for name in ("method", "minus", "against", "rival", "note")}
        return self.model_copy(
            update={
                **{name: text and fill(text) for name, text in texts.items()},
                "rows": {cell.row: {}},
                "places": {cell.place: {}},
                "on": tuple(on),
                # A place without a value for a slice uses the queries of all its values.
                "slices": {name: fill(value) for name, value in self.slices.items() if fill(value)},
                "needs": tuple(fill(text) for text in self.needs if fill(text)),
                "role": role,
                "standard": self.standard
                and self.standard.model_copy(update={"method": self.standard.method and fill(self.standard.method)}),
            }
        )


class RecipeFile(Record):
    """The recipes of a paper.

    Attributes:
        words: substitutions for all recipes, also in those of rows and places.
        places: substitutions by place, for recipes that list no places of their own.
        models: the paper's language models by their roles.
    """

    words: dict[str, str] = {}
    places: dict[str, Substitutions] = {}
    models: dict[str, PaperModel] = {}
    recipe: list[Recipe]


@cache
def recipes() -> tuple[Recipe, ...]:
    """All recipes, in the order of the files."""
    return tuple(recipe for path in sorted(FOLDER.glob("*.toml")) for recipe in read_recipes(path))


def read_recipes(path: Path) -> list[Recipe]:
    """Read recipes from a TOML file; raises `DataError`."""
    file = read_toml(RecipeFile, path, "the recipes", DataError)
    made = []
    for recipe in file.recipe:
        printed = {cell.place for cell in table_cells(recipe.table)}
        places = recipe.places or {name: values for name, values in file.places.items() if name in printed}
        made.append(recipe.model_copy(update={"places": places, "words": file.words}))
    return made


def _fill(text: str, values: Substitutions) -> str:
    """A text with the value of each `{name}`; unknown names, and those of lists, are unchanged."""
    words = {name: value for name, value in values.items() if isinstance(value, str)}
    return _PLACEHOLDER.sub(lambda match: words.get(match[1], match[0]), text)


def _substitute(values: Substitutions) -> Substitutions:
    """The values, substituted in each other: a row's text may refer to a word of the place or the file."""
    return {
        name: _fill(value, values) if isinstance(value, str) else [_fill(text, values) for text in value]
        for name, value in values.items()
    }


@cache
def paper_models() -> dict[str, PaperModel]:
    """The papers' language models by their roles."""
    files = [read_toml(RecipeFile, path, "the recipes", DataError) for path in sorted(FOLDER.glob("*.toml"))]
    return {role: model for file in files for role, model in file.models.items()}


def read_roles(texts: Sequence[str]) -> dict[str, str]:
    """Role -> model, from `ROLE=MODEL`.

    A role with the paper's own model is left out, because that is the default.

    Raises:
        UsageError: a text has another form, its role does not exist, or a role comes twice.
    """
    known = paper_models()
    given: dict[str, str] = {}
    for text in texts:
        role, _, name = (part.strip() for part in text.partition("="))
        if role not in known:
            roles = ", ".join(f"{role} ({model.paper})" for role, model in known.items())
            raise UsageError(f"--model {text!r} names no role{suggestion(role, known)}; the roles are {roles}.")
        if not name:
            raise UsageError(f"--model {text!r} names no model; write {role}=MODEL, as in {role}={known[role].name}.")
        if role in given:
            raise UsageError(f"--model names the role {role} twice.")
        given[role] = name
    return {role: name for role, name in given.items() if name != known[role].name}


def recipes_of(cell: PrintedCell, given: Mapping[str, str] | None = None) -> list[Recipe]:
    """The recipes of a cell, filled in, in the order in which to try them.

    `given` are the models, by role, that stand in for the paper's; recipes for the latter are then left out.
    """
    given = given or {}
    filled = [recipe.fill(cell, given) for recipe in recipes() if recipe.covers(cell)]
    replaced = [paper_models()[role].name for role in given]
    return [
        recipe for recipe in filled if (recipe.role in given if recipe.role else not any(map(recipe.asks, replaced)))
    ]


def fill_roles(text: str, given: Mapping[str, str]) -> tuple[str, bool]:
    """A spec's text with a model for each `{ROLE}`, and whether one of them is not the paper's."""
    models = paper_models()
    roles = [role for role in _ROLE.findall(text) if role in models]
    for role in roles:
        text = text.replace(f"{{{role}}}", format_value(given.get(role, models[role].name)))
    return text, any(role in given for role in roles)
