"""Dataset cards: strict, safe, and every built-in one valid."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.base.errors import DataError
from bench.data.card import DEFAULT_UNIT, Card, cards_from, read_cards
from bench.registry import dataset_entries

SHA = "0123456789abcdef" * 4
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CARD: dict[str, Any] = {
    "id": "made",
    "title": "Made",
    "summary": "For tests.",
    "licence": "MIT",
    "redistribution": True,
    "template": "description",
}
UPSTREAM: dict[str, Any] = {
    "repository": "owner/repo.name",
    "commit": COMMIT,
    "licence": "MIT",
    "redistribution": True,
    "files": {"data/a b.json": SHA, "größe.txt": SHA},
}
COUNTS = {"tools": 2, "parents": 1, "gold_min": 1, "gold_max": 2}
PAPER = {"title": "T", "authors": "A", "year": 2024, "bibtex": "@misc{}"}


def card(**changes: Any) -> Card:
    return cards_from({**CARD, **changes}, "card.toml")[0]


def with_upstream(**changes: Any) -> Card:
    return card(upstream=[{**UPSTREAM, **changes}])


def test_the_smallest_card_has_defaults() -> None:
    made = card()
    assert (made.split, made.aliases, made.upstream, made.counts, made.paper) == ("test", [], [], None, None)
    assert (made.obtain, made.variant, made.files()) == ("", "", {})
    assert (made.unit, made.source) == (DEFAULT_UNIT, "")


@pytest.mark.parametrize(
    ("unit", "where"),
    [
        ({"by": ["gold"]}, "unit.reason: Field required"),
        ({"reason": "Why."}, "unit.by: Field required"),
        ({"by": [], "reason": ""}, "unit.reason: String should match pattern"),
        ({"by": [], "reason": " \n"}, "unit.reason: String should match pattern"),
        ({"by": "gold", "reason": "Why."}, "unit.by: Input should be a valid list"),
        ({"by": ["none"], "reason": "Why."}, r"unit.by.0: .*, not 'none'"),
        ({"by": ["gold", "group", "gold"], "reason": "Why."}, "unit.by: a relation is named twice"),
        ({"by": ["gold"], "reason": "Why.", "level": 1}, "unit.level: Extra inputs"),
    ],
)
def test_a_unit_is_relations_and_a_reason(unit: object, where: str) -> None:
    with pytest.raises(DataError, match=rf"card.toml is not valid: {where}"):
        card(unit=unit)


def test_a_unit_may_link_no_queries() -> None:
    assert card(unit={"by": [], "reason": "Each was drawn on its own."}).unit.by == []


@pytest.mark.parametrize("source", ["toollens", "", "a.b-c_d"])
def test_a_source_is_an_id_or_nothing(source: str) -> None:
    assert card(source=source).source == source


@pytest.mark.parametrize("source", ["-x", "a b", "x" * 65, None, 3])
def test_a_source_that_is_no_id_is_refused(source: object) -> None:
    with pytest.raises(DataError, match=r"card.toml is not valid: source"):
        card(source=source)


def test_files_are_named_by_repository_commit_and_path() -> None:
    made = card(upstream=[UPSTREAM, {**UPSTREAM, "repository": "other/one", "files": {"x": "f" * 64}}])
    assert made.files() == {
        f"owner/repo.name/{COMMIT}/data/a b.json": SHA,
        f"owner/repo.name/{COMMIT}/größe.txt": SHA,
        f"other/one/{COMMIT}/x": "f" * 64,
    }


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"licnce": "MIT"}, "licnce"),
        ({"paper": {**PAPER, "pages": "1-2"}}, "paper.pages"),
        ({"counts": {**COUNTS, "querys": 3}}, "counts.querys"),
        ({"upstream": [{**UPSTREAM, "branch": "main"}]}, "upstream.0.branch"),
    ],
)
def test_an_unknown_key_is_refused_by_its_name(changes: dict[str, Any], where: str) -> None:
    with pytest.raises(DataError) as caught:
        card(**changes)
    assert str(caught.value) == f"the dataset card card.toml is not valid: {where}: Extra inputs are not permitted."


@pytest.mark.parametrize("key", list(CARD))
def test_a_missing_key_is_refused_by_its_name(key: str) -> None:
    with pytest.raises(DataError, match=f"card.toml is not valid: {key}: Field required"):
        cards_from({name: value for name, value in CARD.items() if name != key}, "card.toml")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("redistribution", "yes"),
        ("redistribution", 1),
        ("template", "name"),
        ("split", "train"),
        ("title", None),
        ("aliases", "Made"),
        ("known_issues", "none"),
        ("counts", {**COUNTS, "tools": "2"}),
        ("counts", {**COUNTS, "tools": 2.0}),
        ("counts", {"tools": 2}),
        ("paper", {**PAPER, "year": 1905}),
        ("paper", {**PAPER, "year": "2024"}),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(key: str, value: object) -> None:
    with pytest.raises(DataError, match=rf"card.toml is not valid: {key}"):
        card(**{key: value})


@pytest.mark.parametrize("name", ["", ".", "..", "-x", ".x", "a b", "a/b", "a\\b", "größe", "a\n", "x" * 65, "a(b)"])
def test_an_id_that_is_no_plain_folder_name_is_refused(name: str) -> None:
    for change in ({"id": name}, {"aliases": ["fine", name]}):
        with pytest.raises(DataError, match=r"is not valid: (id|aliases\.1): String should match pattern"):
            card(**change)


@pytest.mark.parametrize("sha", ["", SHA[:-1], SHA + "0", SHA.upper(), "g" * 64, SHA + "\n", f"sha256:{SHA}"])
def test_a_checksum_that_is_no_sha256_is_refused(sha: str) -> None:
    with pytest.raises(DataError, match=r"upstream\.0\.files\.x: String should match pattern"):
        with_upstream(files={"x": sha})


@pytest.mark.parametrize("commit", ["", "main", "v1.0", COMMIT[:7], COMMIT.upper(), COMMIT + "0", COMMIT + "\n"])
def test_a_commit_that_is_no_full_hash_is_refused(commit: str) -> None:
    with pytest.raises(DataError, match=r"upstream\.0\.commit: String should match pattern"):
        with_upstream(commit=commit)


@pytest.mark.parametrize(
    "path",
    ["..", "../x", "a/../../x", "a/..", "/etc/passwd", "//x", "a//b", "a/", "", ".", "./a", "a/./b", "a\\b", "..\\x"],
)
def test_a_path_that_does_not_stay_inside_its_repository_is_refused(path: str) -> None:
    with pytest.raises(DataError, match="does not stay inside its repository"):
        with_upstream(files={"fine": SHA, path: SHA})


@pytest.mark.parametrize("path", ["...", "a/..b", "b..", ".gitignore", "a b", "x.part", "~", "工具/№1", "a:b"])
def test_an_unusual_path_inside_the_repository_is_taken(path: str) -> None:
    assert with_upstream(files={path: SHA}).files() == {f"owner/repo.name/{COMMIT}/{path}": SHA}


@pytest.mark.parametrize("repository", ["", "owner", "owner/", "/repo", "a/b/c", "https://github.com/a/b", "a b/c"])
def test_a_repository_is_an_owner_and_a_name(repository: str) -> None:
    with pytest.raises(DataError, match=r"upstream\.0\.repository"):
        with_upstream(repository=repository)


@pytest.mark.parametrize("repository", ["../..", "..", "a/..", "../a", "./a", "a/.", "./."])
def test_a_repository_that_leads_out_of_the_cache_is_refused(repository: str) -> None:
    with pytest.raises(DataError, match=r"upstream\.0\.repository"):
        with_upstream(repository=repository)


_PIECE = st.sampled_from(["..", ".", "a", "b c", "", "/", "\\", "~", "..."])


@given(st.lists(_PIECE, min_size=1, max_size=6).map("/".join), st.lists(_PIECE, min_size=2, max_size=2).map("/".join))
@settings(deadline=None, max_examples=300)
def test_no_file_that_a_card_names_lies_outside_of_the_cache(path: str, repository: str) -> None:
    try:
        names = with_upstream(files={path: SHA}, repository=repository).files()
    except DataError:
        return
    root = Path("/cache/upstream")
    for name in names:
        depth = 0
        for part in (root / name).relative_to(root).parts:
            depth += -1 if part == ".." else 1
            assert depth > 0
        # owner, repository, commit and at least one part of a path
        assert len((root / name).relative_to(root).parts) >= 4


def test_variants_are_laid_over_the_shared_keys() -> None:
    text = """
    title = "Shared"
    summary = "Shared."
    licence = "MIT"
    redistribution = true
    template = "toolbench"
    known_issues = ["one"]

    [variants.one]
    aliases = ["First"]
    variant = "G1"

    [variants.two]
    title = "Second"
    template = "source"
    known_issues = []
    """
    one, two = cards_from(tomllib.loads(text), "card.toml")
    assert (one.id, one.title, one.template, one.variant, one.aliases) == (
        "one",
        "Shared",
        "toolbench",
        "G1",
        ["First"],
    )
    assert (two.id, two.title, two.template, two.variant, two.aliases) == ("two", "Second", "source", "", [])
    assert (one.known_issues, two.known_issues) == (["one"], [])


def test_a_fault_in_a_variant_is_told_with_its_name() -> None:
    raw = {**CARD, "variants": {"one": {}, "two": {"template": "none"}}}
    with pytest.raises(DataError, match=r"the dataset card card.toml \[variants.two\] is not valid: template: "):
        cards_from(raw, "card.toml")


@pytest.mark.parametrize("variants", ["one", ["one"], {"one": "x"}, {"one": {}, "two": []}, 3, {}])
def test_variants_that_are_no_tables_are_refused(variants: object) -> None:
    with pytest.raises(DataError, match="`variants` must be one or more tables named by id"):
        cards_from({**CARD, "variants": variants}, "card.toml")


@pytest.mark.parametrize("text", [b"id = ", b"\xff\xfe", b'id = "a"\nid = "b"', None])
def test_a_file_that_is_no_card_is_told_with_its_path(tmp_path: Path, text: bytes | None) -> None:
    path = tmp_path / "card.toml"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(DataError, match=f"cannot read the dataset card {path}: "):
        read_cards(path)


# The built-in cards -------------------------------------------------------------------------------------------------

BUILT_IN = sorted(Path(__file__).resolve().parents[2].glob("datasets/*/card.toml"))


@pytest.mark.parametrize("path", BUILT_IN, ids=lambda path: path.parent.name)
def test_a_built_in_card_is_valid_and_says_what_it_must(path: Path) -> None:
    for made in read_cards(path):
        assert made.title
        assert made.summary
        assert made.known_issues
        assert made.counts or made.obtain
        # Where files come from somewhere, someone published them.
        assert made.upstream == [] or made.paper is not None
        # Files that are fetched are named, files that the user brings are not.
        assert bool(made.files()) == (bool(made.upstream) and not made.obtain)


def test_the_registry_has_every_built_in_card() -> None:
    assert len(BUILT_IN) >= 7
    cards = [made for path in BUILT_IN for made in read_cards(path)]
    entries = dataset_entries()
    assert {made.id: made for made in cards} == {made.id: entries[made.id].card for made in cards}
    assert list(entries) == sorted(entries)


def test_ids_and_aliases_are_unique_whatever_their_letter_case() -> None:
    names: Counter[str] = Counter()
    for path in BUILT_IN:
        for made in read_cards(path):
            names.update({made.id.lower(), *(alias.lower() for alias in made.aliases)})
            assert len({alias.lower() for alias in made.aliases}) == len(made.aliases)
    assert [name for name, count in names.items() if count > 1] == []


# A list of files next to the card ------------------------------------------------------------------------------------

LISTED = """id = "x"
title = "t"
summary = "s"
licence = "MIT"
redistribution = true
template = "description"

[[upstream]]
repository = "a/b"
commit = "{commit}"
licence = "MIT"
redistribution = true
files = "sums.txt"
"""


def listed(folder: Path, sums: str) -> Card:
    (folder / "card.toml").write_text(LISTED.format(commit="0" * 40))
    (folder / "sums.txt").write_text(sums)
    return read_cards(folder / "card.toml")[0]


def test_files_may_be_listed_next_to_the_card(tmp_path: Path) -> None:
    card = listed(tmp_path, f"{'a' * 64}  folder/a file.json\n{'b' * 64}  LICENSE\n")
    assert card.upstream[0].files == {"folder/a file.json": "a" * 64, "LICENSE": "b" * 64}


@pytest.mark.parametrize(
    ("sums", "sentence"),
    [
        ("abc\n", r"sums.txt, line 1: expected a sha256, two spaces and a path that occurs once\."),
        (f"{'a' * 64}  x\n{'a' * 64}  x\n", r"sums.txt, line 2: expected"),
        ("short  x\n", r"is not valid: upstream.0.files.x"),
        (f"{'a' * 64}  ../x\n", r"does not stay inside its repository"),
    ],
)
def test_a_list_that_is_none_is_refused(tmp_path: Path, sums: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        listed(tmp_path, sums)


def test_a_list_that_is_missing_is_told(tmp_path: Path) -> None:
    (tmp_path / "card.toml").write_text(LISTED.format(commit="0" * 40))
    with pytest.raises(DataError, match=r"cannot read the list of files .*sums\.txt: "):
        read_cards(tmp_path / "card.toml")
