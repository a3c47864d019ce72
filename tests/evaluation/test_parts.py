"""Methods built of others: what the harness reads off their parts, and how often it builds them."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from bench.base.errors import MethodError, UsageError
from bench.base.spec import Spec, parse
from bench.data.dataset import Dataset
from bench.evaluation.contamination import LEAKED, UNKNOWN
from bench.evaluation.method_errors import check_facts, check_marks, check_parts, check_revisions
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.interface.parts import is_oracle, models, needs_history, needs_llm, revisions, tree
from bench.methods.bm25 import BM25
from bench.models.encoders import Encoder
from bench.models.trainingcard import TrainingCard, text_digest, write_card
from bench.registry import build_method, method_names
from bench.results.ids import method_hash
from bench.results.manifest import Mark
from bench.results.store import StoredResult

Run = Callable[..., StoredResult]
MakeRunner = Callable[..., Runner]


class Wrapper(Method):
    """A plug-in as one writes it: says nothing of what it wraps."""

    wrapped: ClassVar[str] = "bm25"

    def __init__(self, parameters: Any, context: Context) -> None:
        super().__init__(parameters, context)
        self._base = context.build(parse(self.wrapped))

    def fit(self, history: History) -> None:
        self._base.fit(history)

    def index(self, library: Library) -> None:
        self._base.index(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return self._base.rank(queries, depth)


def around(spec: str) -> type[Wrapper]:
    """A wrapper of a method."""
    return type("Wrapper", (Wrapper,), {"wrapped": spec, "__module__": __name__})


def made(kind: type[Method]) -> Method:
    """An instance, as the registry makes it."""
    context = Context(build_method)
    method = kind(kind.Parameters(), context)
    method.name = kind.__name__.lower()
    context.close()
    return method


# What is read off the parts -----------------------------------------------------------------------------------------


@pytest.fixture
def encoder(tiny_models: dict[str, str], tmp_path: Path) -> Path:
    """A model in a folder of its own, with the card of its training."""
    return Path(shutil.copytree(tiny_models["encoder"], tmp_path / "encoder"))


def test_a_wrapper_has_the_models_of_what_it_wraps(encoder: Path) -> None:
    kind = around(f"tgr(base=dense(encoder={encoder}))")
    before = made(kind)
    assert revisions(before) == {str(encoder): Encoder(str(encoder)).revision}
    assert check_revisions(before) == revisions(before)
    (encoder / "config.json").write_text((encoder / "config.json").read_text() + " ")
    assert revisions(made(kind)) != revisions(before)
    assert method_hash(made(kind)) != method_hash(before)


def test_a_wrapper_of_a_model_that_knew_the_test_is_marked(run: Run, tiny: Dataset, encoder: Path) -> None:
    seen = [text_digest(tiny.queries[row].text) for row in tiny.rows("test")]
    lists: dict[str, Any] = {"queries": seen, "tools": [], "evaluations": []}
    tables: dict[str, Any] = {"settings": {}, "packages": {}, "hardware": {}}
    texts = ("base", "base_revision", "dataset", "content_hash", "split", "validation", "measure", "command", "created")
    numbers = ("examples", "best_step", "steps", "seconds", "resumed")
    write_card(
        encoder,
        TrainingCard(
            kind="retriever",
            template="description",
            **dict.fromkeys(texts, ""),
            **dict.fromkeys(numbers, 1),
            **lists,
            **tables,
        ),
    )
    method = run(around(f"dense(encoder={encoder})")).manifest.method
    assert method.revisions == {str(encoder): Encoder(str(encoder)).revision}
    # The queries and tools that the card names by digests are compared exactly; those of its dataset are not at hand.
    assert [mark.kind for mark in method.marks if isinstance(mark, Mark)] == [LEAKED, UNKNOWN]


def test_a_wrapper_needs_what_its_parts_need_and_bears_their_marks() -> None:
    asking = made(around("ptr(llm=some-model, retriever=bm25)"))
    assert (asking.needs_llm, needs_llm(asking), needs_history(asking)) == (False, True, True)
    assert revisions(asking)["llm"].startswith("some-model at ")
    ruled = made(around("ptr"))
    assert (needs_llm(ruled), set(check_marks(ruled))) == (False, {"rules"})
    plain = made(around("bm25"))
    assert (needs_llm(plain), needs_history(plain), check_marks(plain)) == (False, False, {})


def test_history_that_a_part_needs_is_asked_for_before_the_run(run: Run) -> None:
    with pytest.raises(UsageError, match="method wrapper needs past queries, and tiny has none when all"):
        run(around("popularity"), split="all")


@pytest.mark.parametrize("spec", ["rrf(methods=[oracle])", "tgr(base=bm25)"])
def test_a_wrapper_of_an_oracle_is_shown_the_gold_and_marked(run: Run, spec: str) -> None:
    oracle = "oracle" in spec
    result = run(around(spec))
    assert result.manifest.method.oracle is oracle is is_oracle(made(around(spec)))
    assert any("it reads the gold" in warning for warning in result.manifest.warnings) is oracle
    assert (result.metrics.metrics["recall@5"].mean == 1.0) is oracle


def test_a_cut_of_an_oracle_s_ranking_is_learnt_with_the_gold_of_past_queries(run: Run) -> None:
    result = run(around("rrf(methods=[oracle])"), cut="size")
    assert result.manifest.method.cut == "cut=size(2)"


class Part(Encoder):
    """A model whose revision is given."""

    def __init__(self, name: str, revision: str) -> None:
        super().__init__(name)
        self.given = revision

    def revisions(self) -> dict[str, str]:
        return {"model": self.given}

    def facts(self) -> dict[str, int]:
        return {"texts": len(self.given)}


class Told(Wrapper):
    """A method with two models, and facts of its own."""

    def __init__(self, parameters: Any, context: Context) -> None:
        super().__init__(parameters, context)
        self.models = [self.include(Part("e", "one")), self.include(Part("e", "two"))]

    def facts(self) -> dict[str, str | int | float | bool]:
        return {"own": True}


def test_names_that_several_parts_use_are_told_apart() -> None:
    method = made(Told)
    assert revisions(method) == {"e.model": "one", "e-2.model": "two"}
    assert check_facts(method) == {"own": True, "e.texts": 3, "e-2.texts": 3}
    # Cards of training are looked for under the name that the model itself goes by.
    assert models(method) == {"model"}


def test_what_a_method_says_keeps_its_name_and_what_parts_agree_on_is_said_once() -> None:
    class Own(Told):
        def revisions(self) -> dict[str, str]:
            return {"model": "three"}

        def facts(self) -> dict[str, str | int | float | bool]:
            return {"texts": 9}

    assert revisions(made(Own)) == {"model": "three", "e.model": "one", "e-2.model": "two"}
    assert check_facts(made(Own)) == {"texts": 9, "e.texts": 3, "e-2.texts": 3}

    class Agreeing(Wrapper):
        def __init__(self, parameters: Any, context: Context) -> None:
            super().__init__(parameters, context)
            self.models = [self.include(Part("e", "one")), self.include(Part("f", "one"))]

    assert revisions(made(Agreeing)) == {"model": "one"}
    assert check_facts(made(Agreeing)) == {"e.texts": 3, "f.texts": 3}


# Hidden parts -------------------------------------------------------------------------------------------------------


class Holder:
    """An object of the author's own."""

    def __init__(self, inner: object) -> None:
        self.inner = inner


HIDDEN: dict[str, Callable[[object], object]] = {
    "attribute": lambda part: part,
    "list": lambda part: [1, part],
    "tuple in a dict": lambda part: {"a": (part,)},
    "bound method": lambda part: part.rank if isinstance(part, Method) else part.encode,  # type: ignore[attr-defined]
    "partial": lambda part: partial(print, part),
    "object": Holder,
}


@pytest.mark.parametrize("way", HIDDEN)
@pytest.mark.parametrize("what", ["method", "model"])
def test_a_hidden_part_is_refused_before_the_run(run: Run, way: str, what: str) -> None:
    class Hides(Wrapper):
        """Makes a part of itself and tells nobody."""

        def __init__(self, parameters: Any, context: Context) -> None:
            super().__init__(parameters, context)
            self.secret = HIDDEN[way](build_method("bm25") if what == "method" else Encoder("minilm"))

        def index(self, library: Library) -> None:
            raise AssertionError("it was run")

    kind = "BM25" if what == "method" else "Encoder"
    with pytest.raises(
        MethodError, match=rf"hides a part of itself \(self\.secret, a {kind}\): declare it in __init__"
    ):
        run(Hides)


def test_a_part_that_is_made_late_is_refused_before_anything_is_ranked(run: Run) -> None:
    class Late(Wrapper):
        """Builds what it searches with when it indexes."""

        def index(self, library: Library) -> None:
            self.late = self.context.build(Spec("bm25"))
            super().index(library)

        def rank(self, queries: Queries, depth: int) -> Ranking:
            raise AssertionError("it was asked")

    with pytest.raises(MethodError, match=r"self\.late, a BM25"):
        run(Late)


def test_a_part_cannot_be_declared_late(run: Run) -> None:
    class Late(Wrapper):
        """Declares a model when it indexes."""

        def index(self, library: Library) -> None:
            self.late = self.include(Encoder("minilm"))

    method = made(Late)
    with pytest.raises(RuntimeError, match="includes its parts in __init__"):
        method.index(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "spec",
    [
        *(name for name in method_names() if name not in {"rerank", "toolrerank"}),
        "ptr(retriever=random)",
        "ptr(llm=some-model)",
        "query-generation(llm=some-model)",
        "query-generation(llm=local:folder)",
        "rerank(reranker=folder)",
        "toolrerank(reranker=folder, classifier=folder)",
        "tgr(graph=discriminator, discriminator=folder)",
    ],
)
def test_built_in_methods_hide_nothing(spec: str) -> None:
    check_parts(build_method(spec))


# How often methods are built ----------------------------------------------------------------------------------------


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many instances of each method there have been."""
    counts: Counter[str] = Counter()
    before = Method.__init__

    def counting(self: Method, parameters: Any, context: Context) -> None:
        counts[type(self).__name__] += 1
        before(self, parameters, context)

    monkeypatch.setattr(Method, "__init__", counting)
    return counts


def test_a_run_builds_a_method_and_its_parts_once(run: Run, built: Counter[str]) -> None:
    run("tgr(base=bm25, graph=manual)")
    assert built == {"ToolGraphRetriever": 1, "BM25": 1}


def test_a_run_that_learns_a_cut_builds_them_once_more(run: Run, built: Counter[str]) -> None:
    run("tgr(base=bm25, graph=manual)", cut="size")
    assert built == {"ToolGraphRetriever": 2, "BM25": 2}


def test_the_command_builds_a_method_and_its_parts_once(built: Counter[str], tmp_path: Path) -> None:
    from click.testing import CliRunner

    from bench.cli.run import command

    words = ["-m", "tgr(base=bm25)", "-d", "starter", "--limit", "3", "--results", str(tmp_path)]
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert built == {"ToolGraphRetriever": 1, "BM25": 1}


def test_deep_nesting_is_built_level_by_level(built: Counter[str]) -> None:
    spec = "bm25"
    for _ in range(15):
        spec = f"tgr(base={spec})" if "(" in spec else f"tgr(base={spec}())"
    method = build_method(spec)
    assert built == {"ToolGraphRetriever": 15, "BM25": 1}
    method_hash(method)
    assert sum(built.values()) == 16
    assert sum(isinstance(part, Method) for part in tree(method)) == 16


def test_a_nested_spec_that_is_not_built_is_checked(built: Counter[str]) -> None:
    with pytest.raises(UsageError, match="there is no method 'bm52'"):
        build_method("ptr(retriever=rrf(methods=[bm52]))")
    with pytest.raises(UsageError, match="has no parameter 'sed'"):
        build_method("ptr(retriever=random(sed=1))")
    assert built == {}


def test_an_indexed_method_is_let_go_with_its_run(runner: MakeRunner) -> None:
    import gc
    import weakref

    alive: list[weakref.ref[Method]] = []

    class Large(BM25):
        """Remembers its instances."""

        def index(self, library: Library) -> None:
            gc.collect()
            assert not any(ref() is not None for ref in alive)
            alive.append(weakref.ref(self))
            super().index(library)

    plans = [Plan(Spec("tiny"), Spec("large"), depth=depth) for depth in (3, 4)]
    outcomes = list(runner(Large).run(plans))
    assert all(isinstance(outcome, StoredResult) for outcome in outcomes), outcomes
    assert len(alive) == len(plans)
    assert np.unique(
        [outcome.manifest.depth for outcome in outcomes if isinstance(outcome, StoredResult)]
    ).tolist() == [3, 4]
