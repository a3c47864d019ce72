"""Dataset cards: description, provenance of every file, licence and known issues. The registry reads them.

A card is the file `card.toml` in the dataset's folder. It is strict: an unknown key is refused, so
that a misspelt field cannot pass for a missing one. A folder whose loader makes several datasets
from one source lists them under `[variants.ID]`; each variant's keys are laid over the shared ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, StringConstraints, ValidationError, field_validator

from bench.base.errors import DataError
from bench.base.reading import Reader
from bench.base.records import StrictRecord, faults, toml_table
from bench.data.template import NamedTemplate
from bench.show.numbers import several

#: The card in the folder of a stored dataset (`bench.data.parquet`).
MANIFEST = "dataset.json"

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
DatasetId = Annotated[str, StringConstraints(pattern=ID_PATTERN)]

#: Relations that may make two queries dependent; `bench.data.units` defines each.
Relation = Literal["gold", "group", "text", "parent"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)


class Paper(StrictRecord):
    """Where a dataset was published."""

    title: str
    authors: str
    year: int = Field(ge=1950, le=2100)
    url: str = ""
    bibtex: str


class Upstream(StrictRecord):
    """One repository at one commit, and the files read from it.

    In `card.toml`, `files` may also name a file next to the card, which lists them as `sha256sum` does: for thousands
    of files, TOML would slow down every command.
    """

    repository: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*/[A-Za-z0-9_-][A-Za-z0-9_.-]*$")
    ]
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    licence: str
    redistribution: bool
    licence_note: str = ""
    files: dict[str, Sha256]

    @field_validator("files")
    @classmethod
    def _paths_stay_inside(cls, files: dict[str, str]) -> dict[str, str]:
        for path in files:
            parts = path.split("/")
            if path.startswith("/") or "\\" in path or any(part in {"", ".", ".."} for part in parts):
                raise ValueError(f"the path {path!r} does not stay inside its repository")
        return files


class UnitSizes(StrictRecord):
    """How dependent the queries of a dataset are, from the sizes of its units of independence.

    `queries` are the judged queries of the default split, `units` their units, `largest` the queries of the largest
    unit. `effective` is the number of independent queries with the same information, to one decimal
    (`bench.stats.units.effective_units`).
    """

    queries: int
    units: int
    largest: int
    effective: float

    def __str__(self) -> str:
        return (
            f"{several(self.queries, 'judged query')} in {several(self.units, 'unit')}, at most {self.largest} in one "
            f"(effective {self.effective})"
        )


class ExpectedCounts(StrictRecord):
    """Expected counts, checked whenever the dataset is loaded with its default options."""

    tools: int
    parents: int
    train: int = 0
    dev: int = 0
    test: int = 0
    no_gold: int = 0
    edges: int = 0
    gold_min: int
    gold_max: int
    # None for a dataset that a user added: it has no expected counts.
    dependence: UnitSizes | None = None


class Unit(StrictRecord):
    """What makes queries of a dataset dependent, and the reason.

    Queries that a relation links, directly or through other queries, form one unit of independence. Tests and intervals
    resample units, not queries. With an empty `by` every query is a unit.
    """

    by: list[Relation]
    reason: Annotated[str, StringConstraints(pattern=r"\S")]

    @field_validator("by")
    @classmethod
    def _each_once(cls, by: list[Relation]) -> list[Relation]:
        if len(set(by)) < len(by):
            raise ValueError("a relation is named twice")
        return by


#: The default unit, for datasets that users add.
DEFAULT_UNIT = Unit(
    by=["gold"],
    reason="The default: queries with the same gold set ask for the same tools, so methods tend to answer all of them "
    "or none.",
)


class Card(StrictRecord):
    """The card of one dataset."""

    id: DatasetId
    aliases: list[DatasetId] = []
    title: str
    summary: str
    paper: Paper | None = None
    upstream: list[Upstream] = []
    licence: str
    redistribution: bool
    template: NamedTemplate
    split: Literal["test", "all"] = "test"
    counts: ExpectedCounts | None = None
    known_issues: list[str] = []
    unit: Unit = DEFAULT_UNIT
    # The pool of queries. Datasets with the same source share queries or draw them from one pool, so their results are
    # not independent. Empty if no other dataset has these queries.
    source: DatasetId | Literal[""] = ""
    # Non-empty if the files cannot be fetched one by one and the user must supply them: which files, and from where.
    # `bench data add ID --from FOLDER` then reads them with the folder's importer.
    obtain: str = ""
    # The variant that the folder's loader builds (`load(..., variant=...)`); empty for a folder with one dataset.
    variant: str = ""

    def files(self) -> dict[str, str]:
        """Every upstream file of the card: `owner/repo/commit/path` -> sha256."""
        return {
            f"{up.repository}/{up.commit}/{path}": digest for up in self.upstream for path, digest in up.files.items()
        }


def read_cards(path: Path) -> list[Card]:
    """The cards of one `card.toml`: one, or one per variant.

    Raises:
        DataError: the file cannot be read, is not TOML, or breaks the card's schema.
    """
    raw = toml_table(path, "the dataset card", DataError)
    upstream = raw.get("upstream")
    for table in upstream if isinstance(upstream, list) else []:
        if isinstance(table, dict) and isinstance(table.get("files"), str):
            table["files"] = _read_digests(path.parent / table["files"])
    return cards_from(raw, str(path))


def _read_digests(path: Path) -> dict[str, str]:
    """Read a list of files in the form of `sha256sum`: a digest, two spaces, a path."""
    lines = Reader(f"the list of files {path}", DataError).read_text(path).splitlines()
    files: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        digest, gap, name = line.partition("  ")
        if not gap or name in files:
            raise DataError(f"{path}, line {number}: expected a sha256, two spaces and a path that occurs once.")
        files[name] = digest
    return files


def cards_from(raw: dict[str, Any], where: str) -> list[Card]:
    """Validate a parsed card file; `where` names it in errors."""
    variants = raw.pop("variants", None)
    if variants is None:
        return [_card(raw, where)]
    tables = isinstance(variants, dict) and all(isinstance(value, dict) for value in variants.values())
    if not tables or not variants:
        raise DataError(f"the dataset card {where} is not valid: `variants` must be one or more tables named by id.")
    return [_card({**raw, "id": name, **extra}, f"{where} [variants.{name}]") for name, extra in variants.items()]


def _card(raw: dict[str, Any], where: str) -> Card:
    try:
        return Card.model_validate(raw)
    except ValidationError as error:
        problems = "; ".join(f"{fault.where or 'card'}: {fault.told}" for fault in faults(error)[:4])
        raise DataError(f"the dataset card {where} is not valid: {problems}.") from None
