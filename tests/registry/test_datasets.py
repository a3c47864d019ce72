"""Datasets by name: lookups, options, the cache of normalised tables, counts, added ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import BenchError, DataError, UnavailableError, UsageError
from bench.base.paths import data_folder
from bench.data.card import MANIFEST, Card, ExpectedCounts, UnitSizes
from bench.data.dataset import Dataset
from bench.data.parquet import write_dataset
from bench.data.tables import Edge, Query, Tables, Tool
from bench.registry import broken_datasets, dataset_entries, dataset_entry, load_dataset
from bench.registry.datasets import check_counts, resolve


class Notes:
    """Progress that keeps its notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    @contextmanager
    def stage(self, title: str, total: int | None = None, unit: str = "") -> Iterator[Any]:
        yield self

    def advance(self, amount: int = 1) -> None:
        pass

    def note(self, message: str) -> None:
        self.notes.append(message)


# Names --------------------------------------------------------------------------------------------------------------


def test_entries_are_sorted_and_each_has_its_folder_and_loader() -> None:
    entries = dataset_entries()
    assert list(entries) == sorted(entries)
    assert {"starter", "apibank", "metatool", "metatool-single", "rectools", "toollens"} < entries.keys()
    entry = entries["metatool-single"]
    assert (entry.folder.name, entry.module) == ("metatool_single", "bench.datasets.metatool_single.loader")
    assert (entry.folder / "card.toml").is_file()


def test_a_dataset_that_is_asked_for_is_the_one_that_is_listed() -> None:
    # One whose folder has its name is read alone.
    assert {name: dataset_entry(name) for name in dataset_entries()} == dataset_entries()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("metatool", "metatool"),
        ("MetaTool", "metatool"),
        ("METATOOL-MULTI", "metatool"),
        ("api-bank", "apibank"),
        ("rectools", "rectools"),
        ("i1-inst", "toolbench-i1-inst"),
        ("g1_INSTRUCTION", "toolbench-i1-inst"),
    ],
)
def test_a_dataset_is_found_by_id_or_alias_in_any_letter_case(name: str, found: str) -> None:
    assert dataset_entry(name).card.id == found


@pytest.mark.parametrize("entry", dataset_entries().values(), ids=lambda entry: entry.card.id)
def test_every_alias_leads_to_its_dataset(entry: Any) -> None:
    for alias in entry.card.aliases:
        assert dataset_entry(alias).card.id == entry.card.id
        assert dataset_entry(alias.swapcase()).card.id == entry.card.id


@pytest.mark.parametrize(
    ("name", "hint"),
    [("startr", " (did you mean 'starter'?)"), ("rec-tools", " (did you mean 'rectools'?)"), ("qqqqqqq", "")],
)
def test_an_unknown_name_is_told_with_the_nearest_one(name: str, hint: str) -> None:
    for use in (dataset_entry, resolve, load_dataset):
        with pytest.raises(UsageError) as caught:
            use(name)
        assert str(caught.value) == (
            f"there is no dataset {name!r}{hint}; `bench list datasets` lists them, and `bench data add` adds your own."
        )


# Options ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [
        ("starter", "starter"),
        ("MetaTool", "metatool"),
        ("MetaTool(seed=3, split=bundle-disjoint)", "metatool(seed=3, split=bundle-disjoint)"),
        ("metatool(test_share=0.2, seed=0)", "metatool"),
    ],
)
def test_a_spec_is_shown_with_the_id_and_what_differs_from_the_defaults(spec: str, canonical: str) -> None:
    assert resolve(spec)[2] == canonical


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            "starter(split=x)",
            "dataset starter has no parameter 'split'; its parameters: gold, distractors, tools, seed, duplicates, "
            "no_tool.",
        ),
        (
            "MetaTool(sed=1)",
            "dataset metatool has no parameter 'sed' (did you mean 'seed'?); its parameters: split, seed, test_share, "
            "distractors, tools, duplicates, no_tool.",
        ),
        ("metatool(split=odd)", "parameter 'split' of dataset metatool is 'odd': input should be 'random' or"),
        ("metatool(seed=1.5)", "parameter 'seed' of dataset metatool is 1.5: "),
        ("metatool(test_share=1)", "parameter 'test_share' of dataset metatool is 1: input should be less than 1."),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_read(spec: str, sentence: str, own_cache: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_dataset(spec)
    assert str(caught.value).startswith(sentence)
    assert not own_cache.exists()


def test_a_dataset_that_the_user_must_bring_says_what_and_how() -> None:
    with pytest.raises(UnavailableError) as caught:
        load_dataset("apibank-full")
    text = str(caught.value)
    assert text.startswith("apibank-full is not available: ")
    assert text.endswith("Then run `bench data add apibank-full --from FOLDER`.")
    assert "github.com/AlibabaResearch/DAMO-ConvAI" in text


# The cache of normalised tables -------------------------------------------------------------------------------------


def cached(cache: Path, name: str) -> list[Path]:
    return sorted((cache / "datasets").glob(f"{name}-*"))


@pytest.fixture
def metatool_mirror(mirror: Path, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the part of the mirror that metatool needs, and a cache that knows nothing of it."""
    monkeypatch.setenv("BENCH_MIRROR", str(tmp_path / "mirror"))
    for name in dataset_entry("metatool").card.files():
        (tmp_path / "mirror" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(mirror / name, tmp_path / "mirror" / name)
    return tmp_path / "mirror"


def test_a_second_load_needs_no_file_of_upstream(metatool_mirror: Path) -> None:
    first = load_dataset("metatool")
    shutil.rmtree(metatool_mirror)
    second = load_dataset("MetaTool(seed=0)")
    assert (second.spec, second.card, second.content_hash) == ("metatool", first.card, first.content_hash)
    assert (second.tools, second.queries, second.edges) == (first.tools, first.queries, first.edges)
    # Other options are other tables.
    with pytest.raises(UnavailableError, match=r"the mirror .* has no file"):
        load_dataset("metatool(seed=1)")


def test_each_set_of_options_is_cached_for_itself(metatool_mirror: Path, own_cache: Path) -> None:
    hashes = {load_dataset(f"metatool(seed={seed})").content_hash for seed in (0, 1, 0, 2)}
    assert len(hashes) == len(cached(own_cache, "metatool")) == 3


@pytest.mark.parametrize("name", ["tools.parquet", "queries.parquet", "gold.parquet", "edges.parquet", MANIFEST])
def test_a_truncated_file_in_the_cache_is_noted_and_made_again(own_cache: Path, name: str) -> None:
    progress = Notes()
    first = load_dataset("starter", progress)
    assert progress.notes == []
    (folder,) = cached(own_cache, "starter")
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2])
    second = load_dataset("starter", progress)
    assert second.content_hash == first.content_hash
    assert len(progress.notes) == 1
    assert name in progress.notes[0]
    assert progress.notes[0].endswith("Building it again.")
    assert (folder / name).read_bytes() == whole
    # Now it is whole: no further note.
    load_dataset("starter", progress)
    assert len(progress.notes) == 1


def test_a_file_missing_from_the_cache_is_made_again(own_cache: Path) -> None:
    load_dataset("starter")
    (folder,) = cached(own_cache, "starter")
    (folder / "gold.parquet").unlink()
    assert load_dataset("starter").gold.counts.sum() > 0


# Counts -------------------------------------------------------------------------------------------------------------

DEPENDENCE = UnitSizes(queries=1, units=1, largest=1, effective=1.0)
COUNTS = ExpectedCounts(
    tools=3, parents=2, train=1, dev=0, test=2, no_gold=1, edges=1, gold_min=1, gold_max=2, dependence=DEPENDENCE
)
CARD = Card(id="made", title="", summary="", licence="", redistribution=True, template="description", counts=COUNTS)
TABLES = Tables(
    [Tool("a", "", "", "one", "p"), Tool("b", "", "", "one", "p"), Tool("c", "", "", "two", "p")],
    [Query("1", "", {"a": 1, "b": 2}, "train"), Query("2", "", {"c": 1}), Query("3", "", {})],
    [Edge("a", "b", "result")],
)


def test_counts_that_are_right_or_not_stated_pass() -> None:
    check_counts(Dataset.build("made", CARD, TABLES))
    check_counts(Dataset.build("made", CARD.model_copy(update={"counts": None}), TABLES))


@pytest.mark.parametrize("key", [key for key in ExpectedCounts.model_fields if key != "dependence"])
def test_a_count_that_is_wrong_is_told_by_its_name(key: str) -> None:
    right = getattr(COUNTS, key)
    card = CARD.model_copy(update={"counts": COUNTS.model_copy(update={key: right + 1})})
    with pytest.raises(DataError) as caught:
        check_counts(Dataset.build("made", card, TABLES))
    assert str(caught.value) == f"made does not match its card: {key} {right} instead of {right + 1}."


@pytest.mark.parametrize("key", list(UnitSizes.model_fields))
def test_units_that_are_wrong_are_told(key: str) -> None:
    stated = DEPENDENCE.model_copy(update={key: 7})
    card = CARD.model_copy(update={"counts": COUNTS.model_copy(update={"dependence": stated})})
    with pytest.raises(DataError) as caught:
        check_counts(Dataset.build("made", card, TABLES))
    assert str(caught.value) == f"made does not match its card: dependence {DEPENDENCE} instead of {stated}."


def test_units_that_nobody_counted_are_not_checked() -> None:
    card = CARD.model_copy(update={"counts": COUNTS.model_copy(update={"dependence": None})})
    check_counts(Dataset.build("made", card, TABLES))


def test_every_wrong_count_is_told() -> None:
    dataset = Dataset.build("made", CARD, replace(TABLES, edges=[], queries=TABLES.queries[:2]))
    with pytest.raises(DataError, match="test 1 instead of 2, no_gold 0 instead of 1, edges 0 instead of 1"):
        check_counts(dataset)


# Datasets that the user added ---------------------------------------------------------------------------------------


@pytest.fixture
def added() -> Path:
    """An added dataset."""
    folder = data_folder() / "datasets" / "made"
    write_dataset(Dataset.build("made", CARD, TABLES), folder)
    return folder


def test_an_added_dataset_is_listed_and_loaded(added: Path) -> None:
    assert dataset_entries()["made"].card == CARD
    assert load_dataset("made").tools == tuple(TABLES.tools)
    with pytest.raises(UsageError, match="dataset made has no parameter 'split'; its parameters: view, distractors"):
        load_dataset("made(split=x)")
    shutil.rmtree(added)
    assert "made" not in dataset_entries()


@pytest.mark.parametrize(
    "damage",
    [
        lambda manifest: b"",
        lambda manifest: b"[]",
        lambda manifest: b"null",
        lambda manifest: b"\xff\xfe",
        lambda manifest: json.dumps({**manifest, "card": None}).encode(),
        lambda manifest: json.dumps({**manifest, "card": "made"}).encode(),
        lambda manifest: json.dumps({**manifest, "card": []}).encode(),
        lambda manifest: json.dumps({**manifest, "card": {"variants": {}}}).encode(),
        lambda manifest: json.dumps({**manifest, "card": {"id": "made"}}).encode(),
        lambda manifest: json.dumps({key: value for key, value in manifest.items() if key != "card"}).encode(),
    ],
    ids=["empty", "list", "null", "not utf-8", "null card", "text card", "list card", "no variant", "short", "no card"],
)
def test_a_damaged_added_dataset_is_told_with_its_file(added: Path, damage: Callable[[Any], bytes]) -> None:
    path = added / MANIFEST
    path.write_bytes(damage(json.loads(path.read_text())))
    with pytest.raises(DataError) as caught:
        dataset_entry("made")
    assert str(path) in str(caught.value)
    # The others can still be used.
    assert "made" not in dataset_entries()
    assert "starter" in dataset_entries()
    assert list(broken_datasets()) == ["made"]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that even root cannot read from its start")
def test_an_added_dataset_that_cannot_be_read_does_not_stop_the_others(added: Path) -> None:
    other = added.with_name("other")
    write_dataset(Dataset.build("other", CARD.model_copy(update={"id": "other"}), TABLES), other)
    (added / MANIFEST).unlink()
    (added / MANIFEST).symlink_to("/proc/self/mem")
    assert list(broken_datasets()) == ["made"]
    assert {"starter", "other"} <= dataset_entries().keys()
    assert load_dataset("other").tools == tuple(TABLES.tools)
    with pytest.raises(
        DataError, match=rf"{added / MANIFEST} is damaged or cannot be read \(.*\); remove {added} and add"
    ):
        load_dataset("made")


def test_an_added_dataset_whose_rows_are_not_those_of_its_hash_is_told(added: Path) -> None:
    before = load_dataset("made").content_hash
    path = added / MANIFEST
    manifest = json.loads(path.read_text())
    # Another query's text, with every checksum made to fit.
    queries = [replace(TABLES.queries[0], text="another text"), *TABLES.queries[1:]]
    write_dataset(Dataset.build("made", CARD, replace(TABLES, queries=queries)), added)
    assert load_dataset("made").content_hash != before
    forged = {**json.loads(path.read_text()), "content_hash": manifest["content_hash"]}
    path.write_text(json.dumps(forged))
    with pytest.raises(DataError, match=r"^made does not match its stored content hash; add it again\.$"):
        load_dataset("made")


def test_a_dataset_set_aside_whose_place_is_empty_is_the_dataset(added: Path) -> None:
    aside = added.rename(added.with_name(".old-made"))
    assert load_dataset("made").tools == tuple(TABLES.tools)
    # With the new one in its place it is only what is left of the old one.
    changed = Dataset.build("made", CARD, replace(TABLES, edges=[]))
    write_dataset(changed, added)
    assert load_dataset("made").content_hash == changed.content_hash
    assert aside.is_dir()
    assert broken_datasets() == {}


def test_an_added_dataset_comes_before_a_built_in_one_of_its_name(added: Path) -> None:
    card = CARD.model_copy(update={"id": "metatool"})
    write_dataset(Dataset.build("metatool", card, TABLES), added.with_name("metatool"))
    assert dataset_entry("metatool") == dataset_entries()["metatool"]
    assert dataset_entry("metatool").module is None


def test_other_things_in_the_folder_of_added_datasets_are_left_alone(added: Path) -> None:
    (added.parent / "notes.txt").write_text("mine")
    (added.parent / "empty").mkdir()
    (added.parent / ".new-made").mkdir()
    (added.parent / ".new-made" / MANIFEST).write_text("half")
    assert "made" in dataset_entries()


# Files of upstream --------------------------------------------------------------------------------------------------


def test_a_corrupt_file_of_the_mirror_is_refused_whatever_the_loader_makes_of_it(
    metatool_mirror: Path, own_cache: Path
) -> None:
    name = min(dataset_entry("metatool").card.files())
    (metatool_mirror / name).write_bytes(b"{}")
    with pytest.raises(BenchError, match="in the mirror has sha256"):
        load_dataset("metatool")
    assert cached(own_cache, "metatool") == []


# Libraries of other sizes --------------------------------------------------------------------------------------------


@pytest.fixture
def extra() -> Path:
    """An added catalogue of nine tools."""
    folder = data_folder() / "datasets" / "extra"
    tools = [Tool(f"x/{i}", f"n{i}", f"Says {i}.", parent="x") for i in range(9)]
    card = CARD.model_copy(update={"id": "extra", "counts": None})
    write_dataset(Dataset.build("extra", card, Tables(tools, [])), folder)
    return folder


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [
        ("livemcpbench(distractors=toucan, tools=1000)", "livemcpbench(distractors=mcp-servers, tools=1000)"),
        ("livemcpbench(duplicates=drop, seed=0)", "livemcpbench"),
        ("starter(seed=1, tools=179)", "starter(seed=1, tools=179)"),
        ("metatool(seed=3)", "metatool(seed=3)"),
    ],
)
def test_options_of_the_library_are_part_of_the_spec(spec: str, canonical: str) -> None:
    assert resolve(spec)[2] == canonical


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("starter(distractors=nothing)", "there is no dataset 'nothing'"),
        ("starter(distractors=starter)", "starter has its own tools already; name another dataset in distractors=."),
        ("mcp-servers(distractors=toucan)", "mcp-servers has its own tools already"),
        ("starter(tools=0)", "parameter 'tools' of dataset starter is 0: input should be greater than or equal to 1."),
        ("starter(tools=many)", "parameter 'tools' of dataset starter is 'many': input should be a valid integer"),
        ("starter(seed=1)", "seed=1 of starter has nothing to draw; add tools=N, or leave it out."),
        ("starter(duplicates=right)", "duplicates=right of starter is about distractors; add"),
        ("starter(duplicates=some, distractors=toucan)", "parameter 'duplicates' of dataset starter is 'some': "),
        ("starter(tools=3)", "tools=3 is too small for starter: its queries name 179 tools"),
        ("starter(tools=180)", "tools=180 is too large for starter(tools=180): there are 179 tools; set fewer, or add"),
    ],
)
def test_a_library_that_cannot_be_is_refused(spec: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_dataset(spec)
    assert str(caught.value).startswith(sentence)


def test_a_drawn_library_is_kept_and_made_again_when_its_parts_change(extra: Path, own_cache: Path) -> None:
    drawn = load_dataset("starter(distractors=extra)")
    assert (len(drawn.tools), drawn.spec) == (188, "starter(distractors=extra)")
    assert drawn.content_hash != load_dataset("starter").content_hash
    kept = {path.name: path.stat().st_mtime_ns for path in (own_cache / "datasets").iterdir()}
    again = load_dataset("starter(distractors=extra)")
    assert again.content_hash == drawn.content_hash
    assert {path.name: path.stat().st_mtime_ns for path in (own_cache / "datasets").iterdir()} == kept
    tools = [Tool("x/only", "only", "Says one thing.", parent="x")]
    card = CARD.model_copy(update={"id": "extra", "counts": None})
    shutil.rmtree(extra)
    write_dataset(Dataset.build("extra", card, Tables(tools, [])), extra)
    assert len(load_dataset("starter(distractors=extra)").tools) == 180


def test_an_added_dataset_takes_views_and_distractors_at_once(extra: Path) -> None:
    folder = data_folder() / "datasets" / "asked"
    query = Query("q", "long request", {"a": 1}, searches=("short",))
    card = CARD.model_copy(update={"id": "asked", "counts": None})
    write_dataset(Dataset.build("asked", card, Tables([Tool("a", "a", "A."), Tool("b", "b", "B.")], [query])), folder)
    drawn = load_dataset("asked(view=search, distractors=extra, tools=5)")
    assert (drawn.queries[0].text, len(drawn.tools)) == ("short", 5)
    assert {"a", "b"} < set(drawn.tool_codes)
    assert drawn.spec == "asked(distractors=extra, tools=5, view=search)"
    # As it is used: the entry of a dataset without files of upstream.
    assert load_dataset("asked(tools=1)").tools[0].tool_id == "a"


def test_a_damaged_copy_of_a_drawn_library_is_made_again(extra: Path, own_cache: Path) -> None:
    notes = Notes()
    drawn = load_dataset("starter(distractors=extra, tools=183)", notes)
    for path in (own_cache / "datasets").rglob("tools.parquet"):
        path.write_bytes(b"damaged")
    assert load_dataset("starter(distractors=extra, tools=183)", notes).content_hash == drawn.content_hash
    assert any("Building it again." in note for note in notes.notes)
