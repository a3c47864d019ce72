"""Run files that are refused, with the line of what is wrong; nothing is stored then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.base.errors import ResultError, UsageError
from bench.data.dataset import Dataset
from bench.data.tool_names import NameRecord
from bench.evaluation.external import score_run_file
from bench.evaluation.run_files import parse_run

GOOD = "q00 Q0 t00 1 2.5 tag\n"
#: What Python takes for a number, and who counts by ASCII digits does not.
ODD = ("1_0", "١", "１", "+5", "0x1", "nan", "-inf", "1e999")
GOOD_JSON = '{"query_id": "q00", "tools": ["t00"]}\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (GOOD + "q01 Q0 t00 1 2.5\n", "line 2: a TREC line has six values (query Q0 tool rank score tag); this has 5."),
        (GOOD + "\n\nq01 Q0 the tool 1 2.5 tag\n", "line 4: a TREC line has six values (query Q0 tool"),
        (GOOD + "q01 Q0 t00 1 high tag\n", "line 2: the score 'high' is not a finite number."),
        (GOOD + "q01 Q0 t00 1 nan tag\n", "line 2: the score 'nan' is not a finite number."),
        (GOOD + "q01 Q0 t00 1 -inf tag\n", "line 2: the score '-inf' is not a finite number."),
        (GOOD + "q01 Q0 t00 1 1e999 tag\n", "line 2: the score '1e999' is not a finite number."),
        *((GOOD + f"q01 Q0 t01 1 {score} tag\n", f"line 2: the score {score!r} is not a") for score in ODD),
        *((GOOD + f"q01 Q0 t01 {rank} 1 tag\n", f"line 2: the rank {rank!r} is") for rank in (*ODD, "1e3", "1.0")),
        (GOOD + "q01 Q1 t00 1 1 tag\n", "line 2: the second value of a TREC line is Q0, not 'Q1'."),
        (GOOD + "q99 Q0 t00 1 1 tag\n", "line 2: tiny has no query 'q99' (did you mean 'q"),
        (GOOD + "q01 Q0 zebra 1 1 tag\n", "line 2: there is no tool 'zebra'; it was"),
        (GOOD + "q01 Q0 t99 1 1 tag\n", "line 2: there is no tool 't99' (near: t09"),
        (GOOD + "q01 Q0 t01 1 1 tag\n" + GOOD, "line 3: tool t00 occurs twice for query q00; the first is in line 1."),
        (GOOD + "q30 Q0 t01 1 1 tag\n", "line 2: query q30 belongs to the train split, which is not scored"),
        (GOOD_JSON + "{", "line 2 is not JSON: "),
        (GOOD_JSON + GOOD, "line 2 is not JSON: "),
        (GOOD_JSON + '{"query_id": "q01", "tools": [], "tools": ["t01"]}', "line 2: an object has the key 'tools'"),
        (GOOD_JSON + '{"query_id": "q01", "tools": ["t01"], "scores": ["1_0"]}', "line 2: scores.0: Input should be"),
        (GOOD_JSON + '{"query_id": "q01", "tools": ["\\ud800"]}', "line 2 is not JSON: 'utf-8' codec can't encode"),
        (GOOD_JSON + '{"tools": []}', "line 2: query_id: Field required."),
        (GOOD_JSON + '{"query_id": 3}', "line 2: query_id: Input should be a valid string."),
        (GOOD_JSON + '{"query_id": "q01", "tool": []}', "line 2: tool: Extra inputs are not permitted."),
        (GOOD_JSON + '{"query_id": "q01", "tools": ["t00", 3]}', "line 2: tools.1: Input should be a valid string."),
        (GOOD_JSON + '{"query_id": "q77"}', "line 2: tiny has no query 'q77'"),
        (GOOD_JSON + '\n{"query_id": "q01", "tools": ["t00", "zebra"]}', "line 3: there is no tool 'zebra'; it was"),
        (GOOD_JSON + '{"query_id": "q01", "recommended": ["zebra"]}', "line 2: there is no tool 'zebra'; it was"),
        (GOOD_JSON + '{"query_id": "q01"}\n' + GOOD_JSON, "line 3: query q00 occurs twice; the first is in line 1."),
        (GOOD_JSON + '{"query_id": "q01", "tools": ["t02", "t01", "t02"]}', "line 2: tool t02 occurs twice."),
        (GOOD_JSON + '{"query_id": "q01", "recommended": ["t02", "t02"]}', "line 2: tool t02 occurs twice."),
        (GOOD_JSON + '{"query_id": "q01", "tools": ["t02"], "scores": [2, 1]}', "line 2: 2 scores for 1 tools."),
        (GOOD_JSON + '{"query_id": "q01", "tools": ["t02"], "scores": [1e999]}', "line 2: a score is not a finite"),
        (GOOD_JSON + '{"query_id": "q01", "tools": ["t02"], "scores": [NaN]}', "line 2: a score is not a finite"),
        (GOOD_JSON + '{"query_id": "q23", "tools": []}', "line 2: query q23 belongs to the train split"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_told_with_its_line(tiny: Dataset, tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ResultError) as caught:
        score_run_file(text.encode(), "my.run", tiny, tmp_path / "scored", name="mine", command="bench score my.run")
    assert str(caught.value).startswith(f"my.run, {sentence}")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "scored").exists()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "the run file my.run is empty."),
        (b"\n  \n", "the run file my.run is empty."),
        (b"\xef\xbb\xbf", "the run file my.run is empty."),
        (b"q00 Q0 \xff 1 1 x", "the run file my.run is not UTF-8: "),
        (b"\x00\x01\x02", "my.run, line 1: a TREC line has six values"),
        (
            b'[{"query_id": "q00"}]',
            "the run file my.run is a JSON list; write one object per line, without brackets.",
        ),
        (b"\n [\n", "the run file my.run is a JSON list; write one object per line, without brackets."),
    ],
)
def test_a_file_that_is_no_run_is_told(tiny: Dataset, data: bytes, sentence: str) -> None:
    with pytest.raises(ResultError) as caught:
        parse_run(data, "my.run", tiny, tiny.rows("test"), NameRecord(), [])
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("first", [GOOD, GOOD_JSON])
def test_half_a_line_at_the_end_is_refused(tiny: Dataset, first: str) -> None:
    with pytest.raises(ResultError, match=r"^my\.run, line 2( is not JSON)?: "):
        parse_run((first + first[: len(first) // 2]).encode(), "my.run", tiny, tiny.rows("test"), NameRecord(), [])


def test_a_split_without_queries_is_refused(tiny: Dataset, tmp_path: Path) -> None:
    rows = tiny.rows_again()
    tested = Dataset.build("tiny", tiny.card, replace(rows, queries=[q for q in rows.queries if q.split == "test"]))
    with pytest.raises(UsageError, match=r"tiny has no dev queries; choose another --split\."):
        score_run_file(GOOD.encode(), "my.run", tested, tmp_path / "scored", name="mine", command="", split="dev")
    assert not (tmp_path / "scored").exists()
