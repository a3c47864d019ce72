"""What is wrong inside a submission whose form and hashes are right: numbers, rows, data, words."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.submit_changes import at, column, named_as, put, reasons

from bench.base.errors import UnavailableError
from bench.data.dataset import Dataset
from bench.evaluation.external import score_run_file
from bench.leaderboard.submit.archive import pack
from bench.leaderboard.submit.check import CheckedSubmission, check_members
from bench.leaderboard.submit.check_path import check_archive
from bench.leaderboard.submit.submission import SUBMISSION
from bench.leaderboard.zips import write_archive
from bench.results.store import PER_QUERY, RUN

Checked = Callable[..., CheckedSubmission]


# Hashes and schemas -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["metrics.json", "run.parquet", "per_query.parquet", "manifest.json"])
def test_a_file_that_was_changed_after_packing_is_named(made: Any, checked: Checked, name: str) -> None:
    members = made.members()
    members[name] = members[name] + b" "
    sentences = reasons(checked(members))
    assert f"{name} was changed after packing" in sentences
    assert (f"{name} was changed: its sha256" in sentences) == (name != "manifest.json")


def test_a_result_made_without_a_tokenizer_has_no_token_counts(made: Any, checked: Checked) -> None:
    assert checked(made.members(metrics=put("tokens", value={}))).outcome == "accepted"
    assert "10 tokens of 'top_5'; counted again" in reasons(
        checked(made.members(metrics=put("tokens", value={"top_5": 10.0})))
    )


def test_an_older_result_has_no_tokens_of_definitions_and_those_of_an_answer_are_taken_as_they_are(
    made: Any, checked: Checked
) -> None:
    def older(raw: Any) -> None:
        del raw["tokens"]["definitions"], raw["tokens"]["definitions_top_5"]

    assert checked(made.members(metrics=older)).outcome == "accepted"
    assert checked(made.members(metrics=put("tokens", "answer", value=12.5))).outcome == "accepted"
    assert "fewer than 0 tokens" in reasons(checked(made.members(metrics=put("tokens", "answer", value=-1.0))))
    assert "1 tokens of 'answers'; counted again" in reasons(
        checked(made.members(metrics=put("tokens", "answers", value=1.0)))
    )
    sentences = reasons(checked(made.members(metrics=put("tokens", "definitions", value=1.0))))
    assert "1 tokens of 'definitions'; counted again" in sentences


def test_token_counts_are_taken_as_they_are_where_they_cannot_be_counted(
    made: Any, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.evaluation.scoring.can_count_tokens", lambda: False)
    assert checked(made.members()).outcome == "accepted"


@pytest.mark.parametrize("part", ["measures", "intervals", "tokens"])
def test_a_submission_cannot_name_other_code_than_made_its_numbers(made: Any, checked: Checked, part: str) -> None:
    # What it names decides which rows of a board compare with the newest.
    where = ("measures", "recall") if part == "measures" else (part,)
    sentences = reasons(checked(made.members(manifest=put("scoring", *where, value="0" * 64))))
    assert "its numbers were made by another version of the scoring code" in sentences


def test_tie_bands_are_those_of_today_s_code(made: Any, checked: Checked) -> None:
    older = "has tie bands of other code than this bench's"
    assert older in reasons(checked(made.members(metrics=put("ties", "code", value="0" * 64))))
    assert older in reasons(checked(made.members(metrics=lambda raw: raw.pop("ties") and None)))
    drawn = reasons(checked(made.members(metrics=put("ties", "draws", value={"mrr@10": 1000}))))
    assert "other draws of its tie bands" in drawn


@pytest.mark.parametrize("ranking", [True, False])
def test_lenient_means_are_checked_where_they_are(made: Any, starter: Dataset, ranking: bool) -> None:
    def faults(*change: Callable[[Any], Any]) -> str:
        members = made.members(**({"metrics": change[0]} if change else {}))
        parts = {name: data for name, data in members.items() if name != SUBMISSION and (ranking or name != RUN)}
        return "\n".join(check_members(Path("place"), parts, lambda spec: starter).reasons)

    assert faults() == ""
    assert faults(put("lenient", value=None)) == ""
    assert faults(lambda raw: raw.pop("lenient") and None) == ""
    # Means come from the ranking alone.
    means = "lenient" if ranking else ""
    assert means in faults(put("lenient", "means", "recall@5", value=0.999))
    assert means in faults(lambda raw: raw["lenient"]["means"].pop("recall@5") and None)
    assert means in faults(put("lenient", "means", "ndcg_ptr@gold", value=0.5))
    assert "lenient means of other code" in faults(put("lenient", "code", value="0" * 64))
    assert "lenient queries 1; counted again it is 0" in faults(put("lenient", "queries", value=1))
    assert "lenient judgements 3; counted again it is 0" in faults(put("lenient", "judgements", value=3))
    assert "schema" in faults(put("lenient", "more", value=1))


def test_every_reason_is_listed(made: Any, checked: Checked) -> None:
    members = made.members(
        metrics=put("metrics", "recall@5", "mean", value=0.99),
        per_query=column("ndcg@5", at(0, 0.123)),
        manifest=put("seeds", value={"bootstrap": 7}),
        submission=put("method", value="better"),
    )
    members["run.parquet"] += b"x"
    sentences = reasons(checked(members))
    for part in ("seeds", "disagree on the method", "run.parquet was changed", "run.parquet is not a readable"):
        assert part in sentences
    members = made.members(
        metrics=put("metrics", "recall@5", "mean", value=0.99), per_query=column("ndcg@5", at(0, 0.123))
    )
    sentences = reasons(checked(members))
    assert "for recall@5 mean 0.99 (scored again" in sentences
    assert "another ndcg@5 than scored again on 1 of 134 queries" in sentences


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "not a JSON file"),
        (b"\xff\xfe", "not a JSON file"),
        (b"[" * 50_000, "not a JSON file"),
        (b"1" * 6000, "not a JSON file"),
        (b'{"n": ' + b"1" * 19 + b"}", "an integer of 19 digits"),
        (b'{"result_id": "a", "result_id": "b"}', "twice"),
        (b'{"schema_version": 3}', "schema version"),
        (b'{"schema_version": {"a": "\\u001b"}}', "schema version"),
        (b"[]", "schema"),
        (b"{}", "schema"),
        (b'{"result_id": "\\ud800"}', "not a JSON file"),
    ],
)
@pytest.mark.parametrize("name", ["manifest.json", "metrics.json", "submission.json"])
def test_json_that_is_none_or_another_is_refused(
    made: Any, checked: Checked, name: str, text: bytes, reason: str
) -> None:
    members = made.members()
    members[name] = text
    assert any(name in part and reason in part for part in checked(members).reasons)
    reasons(checked(members))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_mean_that_is_no_number_is_refused(made: Any, checked: Checked, number: str) -> None:
    members = made.members()
    raw = json.loads(members["metrics.json"])
    raw["metrics"]["recall@5"]["mean"] = "HERE"
    members["metrics.json"] = json.dumps(raw).replace('"HERE"', number).encode()
    assert "recall@5.mean" in reasons(checked(members))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("files", "extra.sh", value="0" * 64), "names the file 'extra.sh'"),
        (put("result_id", value="../../../etc"), "is not twelve hexadecimal digits"),
        (put("result_id", value="0123456789ab\n"), "is not twelve hexadecimal digits"),
        (put("result_id", value="0123456789ac"), "to another result"),
        (put("unknown", value=1), "schema"),
        (put("environment", "created", value="yesterday"), "not a date with a time zone"),
        (put("environment", "created", value="2026-01-01T00:00:00"), "not a date with a time zone"),
        (put("seeds", value={}), "seeds"),
        (put("method", "hash", value="abc"), "not a sha256"),
    ],
)
def test_a_manifest_that_is_not_as_bench_writes_it_is_refused(
    made: Any, checked: Checked, change: Any, reason: str
) -> None:
    assert reason in reasons(checked(made.members(manifest=change)))


@pytest.mark.parametrize(
    "changes",
    [
        {"manifest": put("depth", value="100")},
        {"manifest": put("depth", value=100.0)},
        {"manifest": put("method", "oracle", value="no")},
        {"metrics": put("n", value="126")},
    ],
)
def test_a_value_of_another_type_is_refused_though_it_could_be_read(made: Any, checked: Checked, changes: Any) -> None:
    assert "does not follow its schema" in reasons(checked(made.members(**changes)))


@pytest.mark.parametrize("name", ["cut", "full_spec", "spec"])
@pytest.mark.parametrize("text", ["a\x1b[2Jb", "a\u202eb", "a" * 3000])
def test_no_name_of_a_method_can_spoof_a_terminal(made: Any, checked: Checked, name: str, text: str) -> None:
    assert "cannot be shown" in reasons(checked(made.members(manifest=put("method", name, value=text))))


# Numbers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["mean", "low", "high", "tie_low", "tie_expected", "tie_high"])
@pytest.mark.parametrize("value", [0.999, 0.0, None])
def test_no_number_of_a_metric_can_be_edited(made: Any, checked: Checked, field: str, value: float | None) -> None:
    sentences = reasons(checked(made.members(metrics=put("metrics", "ndcg@5", field, value=value))))
    assert ("schema" in sentences) if (field, value) == ("mean", None) else (f"for ndcg@5 {field} " in sentences)


def test_an_edit_of_a_millionth_is_seen(made: Any, checked: Checked) -> None:
    mean = made.result.metrics.metrics["map@100"].mean
    assert "map@100" in reasons(checked(made.members(metrics=put("metrics", "map@100", "mean", value=mean + 1e-6))))


@pytest.mark.parametrize("field", ["n", "n_no_gold", "n_failed", "n_tied"])
def test_no_count_can_be_edited(made: Any, checked: Checked, field: str) -> None:
    assert f"{field} 7;" in reasons(checked(made.members(metrics=put(field, value=7))))


def test_tokens_are_counted_again(made: Any, checked: Checked) -> None:
    assert "tokens of 'top_5'" in reasons(checked(made.members(metrics=put("tokens", "top_5", value=1.0))))
    assert "tokens of 'free'" in reasons(checked(made.members(metrics=put("tokens", "free", value=1.0))))


def test_a_poor_metric_cannot_be_left_out(made: Any, checked: Checked) -> None:
    sentences = reasons(checked(made.members(metrics=lambda raw: raw["metrics"].pop("recall@1") and None)))
    assert "lacks the metric recall@1" in sentences


@pytest.mark.parametrize("name", ["brilliance@5", "recall@005", "recall@5 ", "__class__", "recall@1000", "tracc"])
def test_a_metric_of_ones_own_is_refused(made: Any, checked: Checked, name: str) -> None:
    value = made.result.metrics.metrics["recall@5"].model_dump()
    assert "has the metric" in reasons(checked(made.members(metrics=put("metrics", name, value=value))))


def test_thousands_of_metrics_are_refused_before_they_are_computed(made: Any, checked: Checked) -> None:
    value = made.result.metrics.metrics["recall@5"].model_dump()
    many = {f"recall@{k}": value for k in range(1, 2000)}
    assert "2000 metrics" in reasons(
        checked(made.members(metrics=lambda raw: {**raw, "metrics": {**many, "x": value}}))
    )


def test_per_query_values_and_means_that_were_edited_together_are_refused(made: Any, checked: Checked) -> None:
    name = "pass@5"
    lifted = made.members(
        per_query=column(name, lambda values: [1.0] * len(values)),
        metrics=put("metrics", name, value={**made.result.metrics.metrics[name].model_dump(), "mean": 1.0}),
    )
    sentences = reasons(checked(lifted))
    assert "another pass@5" in sentences
    assert "for pass@5 mean 1 (scored" in sentences


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, 2.0])
def test_a_value_of_a_query_cannot_be_another(made: Any, checked: Checked, value: float | None) -> None:
    assert "recall@5" in reasons(checked(made.members(per_query=column("recall@5", at(3, value)))))


def test_an_unknown_column_is_refused(made: Any, checked: Checked) -> None:
    def more(table: pa.Table) -> pa.Table:
        return table.append_column("brilliance", pa.array([1.0] * len(table)))

    assert "'brilliance', which metrics.json does not have" in reasons(checked(made.members(per_query=more)))
    texts = made.members(per_query=lambda table: table.append_column("text", pa.array(["upstream"] * len(table))))
    assert "'text', which is not part of the format" in reasons(checked(texts))
    assert "column 'note'" in reasons(
        checked(made.members(run=lambda table: table.append_column("note", pa.array([1] * len(table)))))
    )


# Data, protocol, method ---------------------------------------------------------------------------------------------


def test_another_protocol_is_refused(made: Any, checked: Checked) -> None:
    assert "follows the protocol '0.9'" in reasons(checked(made.members(manifest=put("protocol", value="0.9"))))
    # Nor a version of its own choice, which would make a board of its own.
    said = reasons(checked(made.members(manifest=put("protocol", value="2.1"))))
    assert "follows the protocol 2.1, and results on starter follow 2.0" in said


def test_other_data_is_refused_with_the_way_to_get_it(made: Any, checked: Checked) -> None:
    sentences = reasons(checked(made.members(manifest=put("dataset", "content_hash", value="0" * 64))))
    assert "made on other data" in sentences
    assert "bench data fetch starter" in sentences


@pytest.mark.parametrize(
    "spec", ["nobody", "../../etc/passwd", "starter()", "starter(path=/etc)", "", "a(" * 500, "x" * 9999]
)
def test_a_dataset_that_is_not_known_is_refused(made: Any, checked: Checked, spec: str) -> None:
    assert "cannot load the dataset" in reasons(checked(made.members(manifest=put("dataset", "spec", value=spec))))


def test_data_that_is_not_here_is_no_verdict(made: Any, tmp_path: Path) -> None:
    def load(spec: str) -> Dataset:
        raise UnavailableError("starter is not here: it is on the moon.")

    path = tmp_path / "a.zip"
    path.write_bytes(pack(made.result))
    sentences = reasons(check_archive(path, load), "unavailable")
    assert "on the moon" in sentences
    assert "bench data fetch" in sentences


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("title", "API-Bank"),
        ("split", "all"),
        ("split", "dev"),
        ("limit", 134),
        ("limit", 50),
        ("limit", 0),
        ("limit", -3),
        ("queries", 1),
        ("judged", 1),
        ("no_gold", 1),
        ("tools", 1),
        ("history", 10**6),
        ("template", "description"),
    ],
)
def test_what_is_said_of_the_data_must_be_so(made: Any, checked: Checked, name: str, value: Any) -> None:
    reasons(checked(made.members(manifest=put("dataset", name, value=value))))


def test_a_template_of_somebody_s_own_is_not_run(made: Any, checked: Checked) -> None:
    endless = "{% for a in name %}{% for b in description %}{{ description * 99999 }}{% endfor %}{% endfor %}"
    sentences = reasons(checked(made.members(manifest=put("dataset", "template", value=endless))))
    assert "its tool text is a custom template; a submission uses one of description, name_description" in sentences


@pytest.mark.parametrize("depth", [0, -1, 5])
def test_a_depth_must_fit_the_ranking(made: Any, checked: Checked, depth: int) -> None:
    reasons(checked(made.members(manifest=put("depth", value=depth))))


def test_an_oracle_cannot_hide(made: Any, checked: Checked) -> None:
    def oracle(raw: Any) -> None:
        raw["method"].update(spec="oracle", full_spec="oracle")

    assert "the manifest hides it" in reasons(checked(made.members(manifest=oracle)))
    assert "says it is" in reasons(checked(made.members(manifest=put("method", "oracle", value=True))))


def test_nothing_that_a_submission_names_is_imported(
    made: Any, checked: Checked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass Evil: pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    for evil in (named_as("evil:Evil", "evil:Evil(base=evil:Evil)"), named_as("tgr(base=evil:Evil)")):
        assert checked(made.members(manifest=evil)).outcome == "accepted"
    sentences = reasons(checked(made.members(manifest=put("dataset", "spec", value="evil:Evil"))))
    assert "cannot load" in sentences
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("spec", ["bm25(", "bm25( k1=1.2)", "", "x" * 3000])
def test_a_method_must_be_a_spec(made: Any, checked: Checked, spec: str) -> None:
    assert "not a spec in canonical form" in reasons(checked(made.members(manifest=put("method", "spec", value=spec))))


# Run files ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def scored(starter: Dataset, tmp_path: Path) -> Any:
    """A result of a run file that answers some queries with sets, some not at all."""
    lines = []
    for query in [query for query in starter.queries if query.split == "test"][:60:2]:
        tools = list(dict.fromkeys([*sorted(query.gold)[:1], starter.tools[3].tool_id]))
        lines.append(json.dumps({"query_id": query.query_id, "tools": tools, "recommended": tools[:1]}))
    data = "\n".join(lines).encode()
    return score_run_file(data, "a.jsonl", starter, tmp_path / "results", name="mine <b>", command="bench score")


def test_a_scored_run_file_with_sets_is_accepted(scored: Any, checked: Checked) -> None:
    verdict = checked(pack(scored))
    assert verdict.outcome == "accepted", verdict.reasons
    assert "tracc" in scored.metrics.metrics


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("method", "oracle", value=True), "cannot be known"),
        (put("method", "cut", value="cut=size(3)"), "cannot be known"),
        (put("method", "run_file", value="a.jsonl sha256:0"), "cannot be known"),
        (put("depth", value=100), "longest ranking"),
        (put("dataset", "history", value=5), "history"),
        (put("dataset", "origins", value={"traces": 5}), "origins"),
        (named_as("BM25"), "which is that of a method of bench"),
    ],
)
def test_a_run_file_is_held_to_what_can_be_known_of_it(
    scored: Any, of_result: Any, checked: Checked, change: Any, reason: str
) -> None:
    assert reason in reasons(checked(of_result(scored).members(manifest=change)))


# Properties ---------------------------------------------------------------------------------------------------------

_FEW = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@_FEW
@given(data=st.data())
def test_changed_bytes_under_right_hashes_are_accepted_only_with_the_same_numbers(
    made: Any, seal: Any, load: Any, tmp_path: Path, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(["metrics.json", RUN, PER_QUERY]))
    place = data.draw(st.integers(0, len(made.parts[name]) - 1))
    changed = bytearray(made.parts[name])
    changed[place] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "flipped.zip"
    path.write_bytes(write_archive(seal({**made.parts, name: bytes(changed)})))
    verdict = check_archive(path, load)
    if verdict.outcome != "accepted":
        assert verdict.reasons
        return
    if name == "metrics.json":
        result, first = json.loads(bytes(changed)), json.loads(made.parts[name])
        assert result["metrics"].keys() == first["metrics"].keys()
        for metric, value in first["metrics"].items():
            for field, number in value.items():
                near = number if number is None else pytest.approx(number, rel=1e-8, abs=1e-8)
                assert result["metrics"][metric][field] == near
    elif name == RUN:
        # A score may change as long as the order stays: what is claimed, and scored again, is the ranking.
        result, first = (pq.ParquetFile(io.BytesIO(part)).read() for part in (bytes(changed), made.parts[name]))
        assert result.column_names == first.column_names
        assert result.num_rows == first.num_rows
