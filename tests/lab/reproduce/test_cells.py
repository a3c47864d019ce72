"""The transcribed tables: counted by hand from the papers, spot cells, and what the papers' own numbers must obey."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from bench.base.errors import DataError
from bench.lab.reproduce.cells import cell_at, cells, papers, read_cells, read_paper, table_cells, table_names
from bench.lab.reproduce.claims import claims

#: Counted on the papers' pages: rows with numbers times columns of numbers.
BY_HAND = {
    "colt-3": 2 * 2,  # of the table, the rows of one encoder at 5: without and with the second stage, two metrics
    "tgr-2": 2 * 6 * 6,  # two datasets, six methods, three metrics at two depths
    "tgr-3": 3 * 2,  # precision, recall, F1; valid and test
    "tgr-4": 3 * 2,  # total, connected, proportion; two datasets
    "tgr-5": 4 * 6,  # two bases with two graphs each; the bases' own rows are headings
    "toolrerank-3": 6 * 18,  # six methods; nine columns of two metrics
    "toolrerank-4": 7 * 2,  # the gold and six methods; pass and win rate
    "toolrerank-5": 9 * 3,  # nine pairs of thresholds; seen, unseen, all
    "toolrerank-6": 5 * 9,  # five variants; six test sets and three averages
    "toolrerank-7": 4 * 4,  # four ways to extend; three test sets and an average
    "toolrerank-text": 6,  # the first ten, seen and unseen; outside T, seen and unseen; shuffled; the classifier
    "ptr-text": 2 + 3,  # exact solving of two and of three tools; the gain on three datasets
    "ptr-1": 3,  # the test of exact solving on three datasets; the other rows are no measurements
    "ptr-2": 6 * 4 * 9 - 9,  # six retrievers, alone and with three models, on nine columns; one row is lost
    "ptr-3": 3 * 9,  # three models
    "query-generation-1": 2 * 5 * 4,  # two domains, five metrics, four methods
    "query-generation-2": 2 * 5 * 3,
    "query-generation-3": 5 * 2,  # five settings, two domains
    "query-generation-4": 3 * 2,
    "query-generation-5": 2 * 3 * 2,  # two domains, three metrics, two prompts
}


def test_every_table_has_as_many_cells_as_the_paper() -> None:
    assert Counter(cell.table for cell in cells()) == BY_HAND
    assert sorted(table_names()) == sorted(BY_HAND)
    assert len(cells()) == sum(BY_HAND.values()) == 668


@pytest.mark.parametrize(
    ("table", "row", "place", "metric", "printed"),
    [
        ("colt-3", "Contriever + COLT", "ToolLens", "pass@5", "94.08"),
        ("tgr-2", "BM25", "API-Bank", "recall@5", "0.391"),
        ("tgr-2", "ToolBench-IR+TGR", "ToolBench-I1", "pass@10", "0.730"),
        ("tgr-3", "discriminator", "TDI300K test", "f1", "0.817"),
        ("tgr-4", "discriminator's graph", "ToolBench", "tools", "10,439"),
        ("tgr-5", "ToolBench-IR+TGR-m", "API-Bank", "pass@5", "0.646"),
        ("toolrerank-3", "BM25", "ToolBench I1-Inst", "ndcg@5", "45.2"),
        ("toolrerank-3", "DPR", "ToolBench unseen average", "recall@5", "64.0"),
        ("toolrerank-3", "ToolRerank", "ToolBench average", "recall@5", "84.2"),
        ("toolrerank-4", "Oracle", "ToolBench average", "win_rate", "68.3"),
        ("toolrerank-4", "Rerank-50", "ToolBench average", "pass_rate", "59.8"),
        ("toolrerank-5", "m_s=50, m_u=10", "ToolBench unseen average", "recall@5", "71.3"),
        ("toolrerank-6", "ToolRerank-multi", "ToolBench I2-Cat", "recall@5", "66.4"),
        ("toolrerank-7", "extended seen=yes, unseen=no", "ToolBench I1-Tool", "recall@5", "86.3"),
        ("toolrerank-text", "DPR", "ToolBench unseen average", "recall@10", "70.2"),
        ("toolrerank-text", "DPR, outside T", "ToolBench single-tool, unseen tools", "recall@50", "7.7%"),
        ("ptr-text", "Exact Solving Test", "RecTools three tools", "exact_solving", "89%"),
        ("ptr-1", "Exact Solving Test", "ToolLens", "exact_solving", "6.34%"),
        ("ptr-2", "Random, bundle alone", "RecTools", "tracc", "0.097"),
        ("ptr-2", "SimCSE, PTR+GPT-3.5-turbo", "RecTools", "tracc", "0.575"),
        ("ptr-2", "TAS-B, PTR+GPT-4o", "MetaTool", "ndcg_ptr@gold", "0.941"),
        ("ptr-3", "PTR+GPT-4o", "RecTools", "recall@gold", "0.581"),
        ("query-generation-1", "Alignment", "ToolBench out-of-domain", "recall@5", "78.53%"),
        ("query-generation-1", "Zero-Shot", "ToolBench in-domain", "recall@3", "61.28%"),
        ("query-generation-2", "SFT without utterance", "ToolBench out-of-domain", "recall@5", "-21.28%"),
        ("query-generation-3", "Increased n_draft: p_top=100, r_min=0.05, n_draft=2", "ToolBench out-of-domain",
         "recall@5", "-1.43%"),
        ("query-generation-4", "reward MAP", "ToolBench in-domain", "recall@5", "-3.45%"),
        ("query-generation-5", "Intent generation", "ToolBench in-domain", "mmrr", "-0.0071"),
    ],
)  # fmt: skip
def test_a_cell_is_as_printed(table: str, row: str, place: str, metric: str, printed: str) -> None:
    assert cell_at(table, row, place, metric).printed == printed


def test_numbers_are_shares_whatever_the_paper_prints() -> None:
    assert cell_at("tgr-2", "BM25", "API-Bank", "recall@5").value == 0.391
    assert cell_at("toolrerank-3", "BM25", "ToolBench I1-Inst", "ndcg@5").value == pytest.approx(0.452)
    assert cell_at("query-generation-1", "SFT", "ToolBench in-domain", "recall@5").value == pytest.approx(0.8729)
    intent = cell_at("query-generation-5", "Intent generation", "ToolBench in-domain", "recall@5")
    assert intent.value == pytest.approx(-0.0035)
    assert intent.is_difference
    assert cell_at("tgr-4", "discriminator's graph", "ToolBench", "tools").value == 10439
    assert all(0 <= cell.value <= 1 for cell in cells() if cell.unit in {"share", "percent"})


def test_every_table_has_a_title_and_every_paper_a_source() -> None:
    for paper in papers().values():
        assert paper.title
        assert paper.url.startswith("https://")
        assert all(table.title for table in paper.tables.values())
    (lost,) = [item for paper in papers().values() for table in paper.tables.values() for item in table.unreadable]
    assert (lost.row, lost.cells) == ("SimCSE, PTR+GPT-4o", 9)


# What the papers' numbers must obey: a slip of the pen would break it ------------------------------------------------


@pytest.mark.parametrize("metric", ["ndcg@5", "recall@5"])
@pytest.mark.parametrize("row", ["BM25", "DPR", "Rerank-10", "Rerank-30", "Rerank-50", "ToolRerank"])
def test_toolrerank_s_averages_are_those_of_its_test_sets(row: str, metric: str) -> None:
    def value(split: str) -> float:
        return cell_at("toolrerank-3", row, f"ToolBench {split}", metric).value

    seen, unseen = ("I1-Inst", "I2-Inst", "I3-Inst"), ("I1-Tool", "I1-Cat", "I2-Cat")
    for name, parts in (("seen average", seen), ("unseen average", unseen), ("average", seen + unseen)):
        assert value(name) == pytest.approx(sum(map(value, parts)) / len(parts), abs=0.00101)


def test_toolrerank_s_ablations_repeat_its_main_row() -> None:
    for table, row in (("toolrerank-6", "ToolRerank"), ("toolrerank-7", "extended seen=no, unseen=yes")):
        for cell in table_cells(table):
            if cell.row == row and not cell.split.endswith("-tool average"):
                assert cell.value == cell_at("toolrerank-3", "ToolRerank", cell.place, "recall@5").value
    for split in ("seen average", "unseen average", "average"):
        best = cell_at("toolrerank-5", "m_s=10, m_u=50", f"ToolBench {split}", "recall@5")
        assert best.value == cell_at("toolrerank-3", "ToolRerank", best.place, "recall@5").value


def test_tgr_s_discriminator_rows_stand_in_two_tables() -> None:
    for base in ("PMLM-L3-v2", "ToolBench-IR"):
        for cell in table_cells("tgr-5"):
            if cell.row == f"{base}+TGR-d":
                assert cell.printed == cell_at("tgr-2", f"{base}+TGR", "API-Bank", cell.metric).printed


def test_tgr_s_pass_rates_are_whole_numbers_of_queries() -> None:
    for cell in (*table_cells("tgr-2"), *table_cells("tgr-5")):
        if cell.metric.startswith("pass"):
            queries = 100 if cell.dataset == "ToolBench-I1" else 311
            assert cell.value * queries == pytest.approx(round(cell.value * queries), abs=0.16)


def test_recall_grows_with_depth_except_where_the_paper_is_misprinted() -> None:
    levels = [cell for cell in cells() if not cell.is_difference]
    by_key = {(cell.table, cell.row, cell.place, cell.metric): cell.value for cell in levels}
    falling = [
        key
        for key, value in by_key.items()
        for metric, deeper in (("recall@3", "recall@5"), ("recall@5", "recall@10"), ("recall@5", "recall@11"))
        if key[3] == metric and by_key.get((*key[:3], deeper), 1.0) < value
    ]
    assert falling == [("query-generation-1", "Zero-Shot", "ToolBench in-domain", "recall@3")]


def test_toolrerank_s_text_on_execution_follows_from_its_table() -> None:
    """Section 4.3: DPR is below BM25, all rerankers are above both, and ToolRerank is above all of them."""
    for metric in ("pass_rate", "win_rate"):
        at = {cell.row: cell.value for cell in table_cells("toolrerank-4") if cell.metric == metric}
        assert at["DPR"] < at["BM25"] < min(at[row] for row in ("Rerank-10", "Rerank-30", "Rerank-50"))
        assert at["ToolRerank"] > max(value for row, value in at.items() if row not in {"ToolRerank", "Oracle"})


def test_what_running_the_tools_would_add_is_said() -> None:
    notes = papers()["toolrerank"].tables["toolrerank-4"].notes
    assert any("bench runs no tools" in note for note in notes)


def test_the_gains_of_ptr_s_text_lie_above_the_row_that_it_prints() -> None:
    """The lost row: random bundles with GPT-4o and the gain; SimCSE with the weaker model stays below it."""
    for gain in table_cells("ptr-text"):
        if gain.is_difference:
            random, weaker = (
                cell_at("ptr-2", f"{row}, PTR+{model}", gain.place, gain.metric).value
                for row, model in (("Random", "GPT-4o"), ("SimCSE", "GPT-3.5-turbo"))
            )
            assert weaker < random + gain.value < weaker + 0.02


def test_what_is_drawn_has_a_claim_a_command_or_a_reason_why_not() -> None:
    ids = {claim.id for claim in claims()}
    drawn = {(name, figure): here for name, paper in papers().items() for figure, (_, here) in paper.drawn.items()}
    assert {("tgr", "figure 4"), ("tgr", "table 6"), ("ptr", "figure 4"), ("toolrerank", "figure 1a")} <= set(drawn)
    for here in drawn.values():
        names = [word for word in re.findall(r"(?<![\w/-])[a-z][a-z0-9]*(?:-[a-z0-9]+){2,}", here) if word != "l1-042"]
        assert set(names) <= ids, here
        assert names or here.startswith(("`bench ", "needs ", "not measured: ")), here


def test_connected_shares_follow_from_the_counts() -> None:
    for place in ("API-Bank", "ToolBench"):
        tools, connected, share = (
            cell_at("tgr-4", "discriminator's graph", place, name).value
            for name in ("tools", "connected_tools", "connected_share")
        )
        assert share == pytest.approx(connected / tools, abs=0.0005)


def test_tracc_is_no_more_than_recall() -> None:
    for cell in cells():
        if cell.metric == "tracc":
            assert cell.value <= cell_at(cell.table, cell.row, cell.place, "recall@gold").value


# Damaged files ------------------------------------------------------------------------------------------------------

HEADER = "table\trow\tdataset\tsplit\tmetric\tprinted\tunit\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "must begin with the columns"),
        ("table\trow\n", "must begin with the columns"),
        (HEADER + "a-1\tx\td\n", "line 2 has 3 fields"),
        (HEADER + "a-1\tx\td\t\trecall@5\tabout half\tshare\n", "line 2: 'about half' is not a number"),
        (HEADER + "a-1\tx\td\t\trecall@5\t0.5\tmetres\n", "line 2: 'metres' is not one of the units"),
        (HEADER + "a-1\tx\td\t\trecall@5\t0.5\tshare\n" * 2, "line 3: the cell a-1, x, d, recall@5 occurs twice"),
    ],
)
def test_a_damaged_table_is_refused_with_its_line(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(text)
    with pytest.raises(DataError, match=sentence):
        read_cells(path)


def test_a_paper_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('title = "A"\ncitation = "B"\nurl = "https://c"\ncolour = "red"\n[tables]\n')
    with pytest.raises(DataError, match="colour"):
        read_paper(path)


def test_there_is_no_cell_of_another_name() -> None:
    with pytest.raises(DataError, match="has no cell of BM26, API-Bank, recall@5"):
        cell_at("tgr-2", "BM26", "API-Bank", "recall@5")
