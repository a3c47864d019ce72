"""Which older code of methods gives the rankings of today's: `python benchmarks/samemethods.py`.

A change of code that changes no ranking gives a method another hash, and with it results other ids. This shows which
ones it changes alone: for the code of each method that made results in `board/results`, it checks out the commit that
made them, runs some of them again with the old code and with today's, in the same environment, and compares rankings,
tool sets and values of queries to the last bit. (Scores of embeddings may differ in their last bits, as they do between
two runs that encode other texts together.) Where every ranking is equal, `bench/results/same_methods.json` says that
today's code goes by the hash of the old, so that no result gets another id. If several old codes give today's rankings,
`bench rescore` renames the results of all but one. What the file said before stands where it led to code that is shown
now to give what today's gives. What was run before with the same code is kept.

Where a result was made with a trained model, which no repository holds, both are run with an untrained one, or the
embedded one, in its place, and where it was made with a language model in a file, with a scripted one on loopback: it
is the code around them that is compared.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import numpy as np  # noqa: E402
from kit.chatserver import Body, ChatServer  # noqa: E402
from kit.models import untrained_bert, untrained_causal  # noqa: E402

from bench.base.paths import write_text  # noqa: E402
from bench.methods.tgr.edges import LABELS  # noqa: E402
from bench.models.encoders import EMBEDDED, Encoder  # noqa: E402
from bench.registry import build_method  # noqa: E402
from bench.results.code_versions import SAME_METHODS, SameMethods, method_code, same_methods, template_hash  # noqa: E402
from bench.results.store import PER_QUERY, RUN, StoredResult, find_results  # noqa: E402

RESULTS = ROOT / "board" / "results"
BUILD = ROOT / "build" / "samemethods"
#: Rankings of a method's code that are compared.
ROWS = 5
#: Queries that are asked of a method with a stand-in for its model.
FEW = "40"
#: Of scores of at most 1 or so.
_LAST_BITS = 1e-6
_MODEL = re.compile(r"models/[\w.-]+")
_IN_A_FILE = re.compile(r"local:[^,()]+\.gguf[^,()]*")
_SCRIPTED = "scripted"
_WORDS = (
    "send letter post mail the weather in rain train ticket book find price stock query tool and or a of to".split()
)


def chosen(results: Iterable[StoredResult]) -> dict[str, list[StoredResult]]:
    """Old code -> the results of it that took least time, each on another dataset if there are so many.

    Of `bm25`, which ranks by the words of the tools' texts, there is one of each template besides.
    """
    groups: defaultdict[str, list[StoredResult]] = defaultdict(list)
    for item in results:
        if item.manifest.method.run_file is None:
            groups[item.manifest.method.code].append(item)
    by_code = {}
    for code, group in groups.items():
        group.sort(key=lambda item: sum(item.manifest.timings.values()))
        first = {item.manifest.dataset.spec: item.folder for item in reversed(group)}.values()
        by_code[code] = sorted(group, key=lambda item: item.folder not in first)[:ROWS]
        if group[0].manifest.method.spec == "bm25":
            quickest = {item.manifest.dataset.template: item for item in reversed(group)}
            by_code[code] += [item for item in quickest.values() if item not in by_code[code]]
    return by_code


def checkout(commit: str) -> Path:
    """The code of a commit."""
    folder = BUILD / commit[:12]
    if not folder.is_dir():
        subprocess.run(["git", "worktree", "add", "--force", "--detach", folder, commit], cwd=ROOT, check=True)
    return folder


def stand_in(name: str) -> None:
    """An untrained model, or the embedded one, by the name of a trained one, of the kind that its name says."""
    folder = BUILD / "data" / name
    if folder.is_dir():
        return
    if re.search("generator|aligned", name):
        untrained_causal(folder)
        return
    if "retriever" in name:
        # The scores of an untrained one are so near to each other that last bits decide.
        shutil.copytree(Encoder(EMBEDDED).folder, folder)
        return
    labels = {"reranker": ("relevant",), "classifier": ("single", "multi"), "discriminator": LABELS}
    model_labels = next((words for kind, words in labels.items() if kind in name), ())
    signs = "abcdefghijklmnopqrstuvwxyz0123456789.,:?!'-"
    words = [*signs, *(f"##{sign}" for sign in signs), *_WORDS]
    untrained_bert(folder, words, model_labels, seed=7, length=512, initializer_range=0.5 if model_labels else 0.1)
    if model_labels == LABELS:
        chosen_on = {"threshold": 0.4, "pairs": 0, "edges": 0, "precision": 0, "recall": 0, "f1": 0}
        (folder / "discriminator.json").write_text(json.dumps(chosen_on))


def answer(body: Body) -> str:
    """What stands in for a language model says: names where it may name some, an order where passages are numbered,
    else words of the prompt."""
    if "response_format" in body:
        names = re.search(r'"enum": (\[.*?\])', json.dumps(body["response_format"]))
        picked = [name for name in json.loads(names[1] if names else "[]") if zlib.crc32(name.encode()) % 3 == 0]
        return json.dumps({"tools": picked})
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    numbers = sorted(set(re.findall(r"\[(\d+)\]", prompt)), key=lambda number: zlib.crc32(f"{number}{prompt}".encode()))
    if numbers:
        return " > ".join(f"[{number}]" for number in numbers)
    words = sorted(set(re.findall(r"[a-z]{4,}", prompt)), key=lambda word: zlib.crc32(f"{word}{prompt}".encode()))
    return "\n".join(" ".join(words[start : start + 5]) for start in range(0, 15, 5))


def run(code: Path, rows: Iterable[StoredResult], results: Path, server: ChatServer) -> None:
    """Run the commands of results with the code in a folder."""
    journal = BUILD / "data" / "journal.jsonl"
    journal.parent.mkdir(parents=True, exist_ok=True)
    variables = os.environ | {"PYTHONPATH": str(code), "BENCH_LLM_URL": server.url, "BENCH_LLM_JOURNAL": str(journal)}
    together: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for item in rows:
        words = shlex.split(item.manifest.environment.command)
        place = words.index("--method")
        method = _IN_A_FILE.sub(_SCRIPTED, words[place + 1])
        rest = [*words[2:place], *words[place + 2 :]]
        if _MODEL.search(method) and "--limit" not in rest:
            rest += ["--limit", FEW]
        together[tuple(rest)].append(method)
    for options, methods in sorted(together.items()):
        words = [word for method in methods for word in ("--method", method)]
        command = [sys.executable, "-m", "bench", "run", *words, *options, "--results", str(results), "--quiet"]
        # Models are named by folders below the one where the command is given.
        done = subprocess.run(command, cwd=BUILD / "data", env=variables, capture_output=True, text=True)
        if done.returncode:
            sys.stdout.write(f"{code.name}: {shlex.join(command[3:])}\n{(done.stdout + done.stderr)[-2000:]}\n")


def named(item: StoredResult) -> tuple[str, str, str]:
    """Dataset, method as it is run, and its code."""
    method = item.manifest.method
    return item.manifest.dataset.spec, _IN_A_FILE.sub(_SCRIPTED, method.spec), method.code


def made(results: Path) -> dict[tuple[str, str, str], StoredResult]:
    """(dataset, method, its code) -> the result."""
    return {named(item): item for item in find_results(results) if isinstance(item, StoredResult)}


def main() -> int:
    """Run both, compare, and write the file; 1 if some old code gave another ranking."""
    groups = chosen(item for item in find_results(RESULTS) if isinstance(item, StoredResult))
    today = {code: method_code(build_method(group[0].manifest.method.spec)) for code, group in groups.items()}
    groups = {code: group for code, group in groups.items() if code != today[code]}
    for name in {name for group in groups.values() for item in group for name in _MODEL.findall(item.label)}:
        stand_in(name)
    items = [item for group in groups.values() for item in group]
    old, new = BUILD / "results" / "old", BUILD / "results" / "today"
    server = ChatServer()
    server.answer = answer
    run(ROOT, items, new, server)
    # A row that was renamed has the code of the commit that renamed it.
    by_commit: defaultdict[str, list[StoredResult]] = defaultdict(list)
    for item in items:
        by_commit[str(item.manifest.environment.commit)].append(item)
    # A row that kept its id when the code changed has it by the names of a later commit.
    told = ["git", "log", "-4", "--format=%H", "--", str(RESULTS), str(SAME_METHODS)]
    done = subprocess.run(told, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    for commit, its in [*by_commit.items(), *((commit, items) for commit in done.stdout.split())]:
        if missing := [item for item in its if named(item) not in made(old)]:
            run(checkout(commit), missing, old, server)
    olds, news = made(old), made(new)
    other, nearly, texts, compared = list[str](), set[str](), dict[str, str](), 0
    for code, group in groups.items():
        for item in group:
            one = olds.get(named(item))
            two = news.get((*named(item)[:2], today[code]))
            if one is None or two is None:
                other.append(f"{code} {item.label}: not run")
                continue
            if one.manifest.dataset.content_hash != two.manifest.dataset.content_hash:
                continue
            compared += 1
            differ = [table for table in (RUN, PER_QUERY) if one.manifest.files[table] != two.manifest.files[table]]
            if differ and not _equal(one, two):
                other.append(f"{code} {item.label}: another ranking")
            elif RUN in differ:
                nearly.add(code)
            texts[item.manifest.dataset.template] = template_hash(item.manifest.dataset.template)
    refused = {line.split()[0] for line in other}
    same = {code: today[code] for code in groups if code not in refused}
    before = same_methods()
    shown = set(today.values()) | set(same)
    names, renamed = dict(before.names), dict[str, str]()
    for code, todays in same.items():
        if names.setdefault(todays, code) != code:
            renamed[code] = names.get(todays, todays)
    stands = {old: renamed.get(new, new) for old, new in before.methods.items() if new in shown and old not in refused}
    kept = {template: code for template, code in before.texts.items() if template_hash(template) == code}
    record = SameMethods(
        made_by="python benchmarks/samemethods.py",
        rankings=compared or before.rankings,
        texts=dict(sorted((kept | texts).items())),
        methods=dict(sorted((stands | renamed).items())),
        names=dict(sorted((new, code) for new, code in names.items() if code not in refused)),
        nearly=sorted((nearly | set(before.nearly)) & {*stands, *same}),
        only={code: hashes for code, hashes in before.only.items() if code in {*stands, *same}},
    )
    write_text(SAME_METHODS, json.dumps(record.model_dump(mode="json"), indent=1) + "\n")
    sys.stdout.write("".join(f"{line}\n" for line in sorted(other)))
    sys.stdout.write(f"{compared} rankings compared; {len(same)} of {len(groups)} older codes give those of today's\n")
    return 1 if other else 0


def _equal(one: StoredResult, other: StoredResult) -> bool:
    """Whether values are equal to the last bit, and rankings up to the last bits of embeddings.

    These depend on which texts were encoded together, and differ between two runs of the same code, too: tools whose
    scores are that near may change places, or the last place that is kept.
    """
    known = [name for name in one.per_query.column_names if name in other.per_query.column_names]
    # Newer code may have metrics that the older had not.
    if known != one.per_query.column_names or not one.per_query.equals(other.per_query.select(known)):
        return False
    if one.manifest.files[RUN] == other.manifest.files[RUN]:
        return True
    mine, theirs = (result.run.select(["query_id", "tool_id", "score"]).to_pandas() for result in (one, other))
    if not mine["query_id"].equals(theirs["query_id"]):
        return False
    there = mine.merge(theirs, "left", ["query_id", "tool_id"])["score_y"]
    there = there.fillna(mine["query_id"].map(theirs.groupby("query_id")["score"].min()))
    return all(np.allclose(mine["score"], scores, rtol=0, atol=_LAST_BITS) for scores in (theirs["score"], there))


if __name__ == "__main__":
    sys.exit(main())
