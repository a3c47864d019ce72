"""Query generation: interleaving by hand, prompts, rules, an endpoint on loopback, a small local model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.chatserver import Body, ChatServer
from kit.rankings import make_queries
from kit.validation import assert_conforms

from bench.base.config import config_context
from bench.base.errors import UnavailableError, UsageError
from bench.base.parameters import ParameterSet
from bench.data.dataset import Dataset
from bench.evaluation.method_errors import check_facts
from bench.interface import Context, Library, Method, Queries, Ranking
from bench.interface.parts import is_oracle, needs_history, needs_llm, revisions
from bench.methods.query_generation.interleaving import Interleaving, interleaved, round_robin
from bench.methods.query_generation.prompts import Prompt, query_prompt
from bench.models.causal import PROMPT_KEY, Sampling, load_causal
from bench.registry import build_method

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]
Planted = Callable[[Mapping[str, Sequence[float]]], None]

TOOLS = {"book": "lends novels", "mail": "posts letters", "map": "draws roads", "pay": "moves money"}
BOOK, MAIL, MAP, PAY = range(4)
VECTORS = {
    "lends novels": (1, 0, 0, 0),
    "posts letters": (0, 1, 0, 0),
    "draws roads": (0, 0, 1, 0),
    "moves money": (0, 0, 0, 1),
    # Each of these is nearest to one tool, and second nearest to another.
    "write home and settle the rent": (0, 0.3, 0.9, 0.2),
    "write home": (0.2, 0.9, 0.1, 0),
    "settle the rent": (0, 0.2, 0.1, 0.9),
    "a service that posts letters": (0, 1, 0.1, 0.3),
    "a bank": (0.5, 0, 0.1, 1),
    "hush": (1, 0.1, 0.3, 0.2),
    "write\nhome": (0, 1, 0, 0),
    "post a letter": (0.1, 1, 0.2, 0.3),
    "send a bill": (0, 1, 0.3, 0.1),
    "post a letter and send a bill": (0.4, 1, 0, 0.1),
}
REQUEST = "write home and settle the rent"


@pytest.fixture
def method(make: Make, prepared: Prepared, planted: Planted) -> Callable[[str], Method]:
    """A method on the tools above, with planted vectors."""
    planted(VECTORS)
    data = make(TOOLS)
    return lambda spec: prepared(spec, data)


def ranked(method: Method, text: str, depth: int = 4) -> list[int]:
    row: list[int] = method.rank(make_queries(text), depth).tools[0].tolist()
    return row


# Interleaving -------------------------------------------------------------------------------------------------------


def test_every_list_gives_one_tool_a_round_and_none_twice() -> None:
    # Round 1: 1, 4, (1 again: skipped). Round 2: 2, (1: skipped), 5. Round 3: 3, 6; the third list is at its end.
    assert interleaved([[1, 2, 3], [4, 1, 6], [1, 5]], 10) == [1, 4, 2, 5, 3, 6]
    assert interleaved([[1, 2, 3], [4, 1, 6], [1, 5]], 3) == [1, 4, 2]


def test_a_list_whose_next_tool_was_taken_gives_its_next_new_one_in_the_other_reading() -> None:
    # Round 1: 1, 4, (1 is taken) 5. Round 2: 2, (1 is taken) 6; the third list is at its end. Round 3: 3.
    assert interleaved([[1, 2, 3], [4, 1, 6], [1, 5]], 10, "next-new") == [1, 4, 5, 2, 6, 3]
    assert interleaved([[1, 2, 3], [4, 1, 6], [1, 5]], 4, "next-new") == [1, 4, 5, 2]


@pytest.mark.parametrize(
    ("lists", "found"), [([], []), ([[]], []), ([[7, 8]], [7, 8]), ([[], [3]], [3]), ([[1], [1], [1]], [1])]
)
def test_few_lists(lists: list[list[int]], found: list[int]) -> None:
    assert interleaved(lists, 5) == interleaved(lists, 5, "next-new") == found


_LISTS = st.lists(st.lists(st.integers(0, 12), unique=True, max_size=8), max_size=5)


@given(_LISTS, st.integers(0, 20), st.sampled_from(get_args(Interleaving)))
def test_a_deeper_ranking_begins_with_a_shallower_one(
    lists: list[list[int]], depth: int, reading: Interleaving
) -> None:
    whole = interleaved(lists, 100, reading)
    assert set(whole) == {tool for part in lists for tool in part}
    assert len(whole) == len(set(whole))
    assert interleaved(lists, depth, reading) == whole[:depth]
    # The first k of each list are enough for the first k.
    assert interleaved([part[:depth] for part in lists], depth, reading) == whole[:depth]


@given(_LISTS)
def test_in_the_other_reading_each_list_adds_a_tool_a_round(lists: list[list[int]]) -> None:
    # By its definition, step by step: the first tool of each list in turn that is not taken.
    taken: list[int] = []
    while any(set(part) - set(taken) for part in lists):
        for part in lists:
            taken += [tool for tool in part if tool not in taken][:1]
    assert interleaved(lists, 100, "next-new") == taken


class Fickle(Method):
    """Gives tools by score, in no order; fails on queries that say so."""

    batch_size = 2

    def index(self, library: Library) -> None:
        pass

    def rank(self, queries: Queries, depth: int) -> Ranking:
        assert len(queries) <= 2
        scores = np.array([[float(sign) for sign in text.strip("!")] for text in queries.texts])
        tools = np.tile(np.arange(3, dtype=np.int32), (len(queries), 1))
        return Ranking(tools, scores, np.array([text.endswith("!") for text in queries.texts]))


def test_the_base_is_asked_in_its_own_batches_and_its_failures_are_left_out() -> None:
    base = Fickle(ParameterSet(), Context(build_method))
    requests = [("132", "321!", "123"), ("321!",), (), ("321",)]
    result, failed = round_robin(base, requests, Queries(("",) * 4, np.array([3, 4, 5, 6])), 3, 3)
    # Scores 1, 3, 2 of tools 0, 1, 2: 1, 2, 0. Scores 1, 2, 3: 2, 1, 0.
    assert result == [[1, 2, 0], [], [], [0, 1, 2]]
    assert failed == [False, True, False, False]


# Rules --------------------------------------------------------------------------------------------------------------


def test_rules_search_by_the_clauses_and_then_the_utterance(method: Callable[[str], Method]) -> None:
    chosen = method("query-generation")
    # write home: mail; settle the rent: pay; the utterance: map. Then write home's second, book.
    assert ranked(chosen, REQUEST) == [MAIL, PAY, MAP, BOOK]
    assert chosen.marks() == {"rules": "uses rules instead of a language model (llm=rules)"}
    assert not needs_llm(chosen)
    assert check_facts(chosen)["queries_generated"] == 2


def test_without_the_utterance_the_clauses_stand_alone(method: Callable[[str], Method]) -> None:
    assert ranked(method("query-generation(include_utterance=false)"), REQUEST) == [MAIL, PAY, BOOK, MAP]


def test_no_more_queries_are_used_than_asked_for(method: Callable[[str], Method]) -> None:
    # write home: mail, book; the utterance: map, mail.
    assert ranked(method("query-generation(queries=1)"), REQUEST) == [MAIL, MAP, BOOK, PAY]


def test_the_reading_of_interleaving_is_an_option(method: Callable[[str], Method]) -> None:
    # A letter: mail, pay; a bill: mail, map; the utterance: mail, book. By rank, the second round gives pay first.
    texts = "post a letter and send a bill"
    assert ranked(method("query-generation"), texts) == [MAIL, PAY, MAP, BOOK]
    assert ranked(method("query-generation(interleaving=next-new)"), texts) == [MAIL, MAP, BOOK, PAY]


def test_an_utterance_that_is_its_own_clause_is_searched_for_once(method: Callable[[str], Method]) -> None:
    assert ranked(method("query-generation"), "write home") == ranked(method("dense"), "write home")


def test_what_it_is_built_on_is_its_base() -> None:
    assert is_oracle(build_method("query-generation(base=oracle)"))
    with pytest.raises(UsageError, match="names no model"):
        build_method("query-generation(llm=local:)")
    with pytest.raises(UsageError, match="queries"):
        build_method("query-generation(queries=6)")
    assert needs_history(build_method("query-generation(base=nearest-query)"))


def test_rules_keep_the_protocol(make: Make) -> None:
    data = make(TOOLS, [("read a novel", ["book"], "dev")], test="write a letter and pay the bill")
    assert_conforms("query-generation(base=bm25)", data)


# An endpoint --------------------------------------------------------------------------------------------------------


def answer(body: Body) -> str:
    prompt: str = body["messages"][-1]["content"]
    if "unspeakable" in prompt:
        return ""
    if "hush" in prompt:
        return "Sure, here you are:"
    return 'Sure, here are the tools:\n1. "a service that posts letters"\n2. a bank\n\nLet me know if that helps!'


def test_the_reply_is_cleaned_and_searched_with(method: Callable[[str], Method], chat_server: ChatServer) -> None:
    chat_server.answer = answer
    chosen = method("query-generation(llm=some-model)")
    # letters: mail, pay; bank: pay, book; the utterance: map.
    assert ranked(chosen, REQUEST) == [MAIL, PAY, MAP, BOOK]
    assert needs_llm(chosen)
    assert chosen.marks() == {}
    assert revisions(chosen)["llm"] == f"some-model at {chat_server.url}"
    facts = check_facts(chosen)
    assert (facts["queries_generated"], facts["replies_unusable"], facts["llm_calls"]) == (2, 0, 1)
    assert REQUEST in chat_server.prompts[0]


def test_a_reply_without_a_line_leaves_the_utterance(method: Callable[[str], Method], chat_server: ChatServer) -> None:
    chat_server.answer = answer
    chosen = method("query-generation(llm=some-model, include_utterance=false)")
    assert ranked(chosen, "hush") == ranked(method("dense"), "hush")
    assert check_facts(chosen)["replies_unusable"] == 1


def test_a_query_without_a_reply_fails_and_the_others_are_answered(
    method: Callable[[str], Method], chat_server: ChatServer
) -> None:
    chat_server.answer = answer
    ranking = method("query-generation(llm=some-model)").rank(make_queries("unspeakable", REQUEST), 4)
    assert ranking.failed is not None
    assert ranking.failed.tolist() == [True, False]
    assert ranking.tools[1].tolist() == [MAIL, PAY, MAP, BOOK]


def test_a_blank_utterance_asks_nobody(
    method: Callable[[str], Method], planted: Planted, chat_server: ChatServer
) -> None:
    planted({**VECTORS, " ": (0, 0, 0, 1)})
    assert ranked(method("query-generation(llm=some-model)"), " ")[0] == PAY
    assert chat_server.requests == []


def test_the_settings_are_sent(method: Callable[[str], Method], chat_server: ChatServer) -> None:
    chat_server.answer = answer
    spec = "query-generation(llm=some-model, prompt=intent, temperature=1.3, top_p=0.8, most_tokens=64, queries=3)"
    ranked(method(spec), REQUEST)
    (body,) = chat_server.requests
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (1.3, 0.8, 64)
    assert chat_server.prompts == [query_prompt("intent", REQUEST, 3)]


def test_a_recorded_run_replays_offline(
    method: Callable[[str], Method], chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_server.answer = answer
    first = method("query-generation(llm=some-model)").rank(make_queries(REQUEST, "unspeakable"), 4)
    chat_server.close()
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    again = method("query-generation(llm=some-model)")
    assert again.rank(make_queries(REQUEST, "unspeakable"), 4).tools.tobytes() == first.tools.tobytes()
    assert check_facts(again)["llm_calls"] == 0


def test_without_an_endpoint_it_says_what_it_needs(
    method: Callable[[str], Method], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(tmp_path / "none.jsonl"))
    with pytest.raises(UnavailableError, match="BENCH_LLM_URL"):
        method("query-generation(llm=some-model)")


@pytest.mark.parametrize("prompt", get_args(Prompt))
def test_a_prompt_holds_the_utterance_whatever_is_in_it(prompt: Prompt) -> None:
    assert "a {queries} of {nothing}" in query_prompt(prompt, "a {queries} of {nothing}", 5)


@pytest.mark.parametrize(("prompt", "what"), [("paper", "API descriptions"), ("paper-intent", "intents")])
def test_the_prompt_of_the_paper_is_as_printed(
    method: Callable[[str], Method], chat_server: ChatServer, prompt: Prompt, what: str
) -> None:
    chat_server.answer = answer
    chosen = method(f"query-generation(llm=some-model, prompt={prompt}, queries=3)")
    ranked(chosen, "write\nhome")
    (sent,) = chat_server.prompts
    lines = sent.split("\n")
    # Figures 2 and 5: eight lines, five descriptions whatever is asked for.
    assert len(lines) == 8
    assert lines[3:5] == [
        "Use new line to separate multiple descriptions. Each description should be less than 20 words.",
        "Return at most 5 descriptions (lines).",
    ]
    assert lines[5:] == [
        f"Do not provide any additional explanation or examples, return just a set of {what}.",
        "Human: write home",
        "Answer:",
    ]
    assert check_facts(chosen)["prompt"] == prompt


# A local model ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model with a loose tongue."""
    folder = tmp_path_factory.mktemp("decoder")
    small_decoder = pytest.importorskip("bench.lab.training.decoder").small_decoder
    made = small_decoder(list(VECTORS), hidden=32, layers=2, heads=2, vocabulary=300, context=64, seed=3)
    for parameter in made.network.parameters():
        parameter.data *= 3
    setattr(made.network.config, PROMPT_KEY, "utterance")
    made.network.save_pretrained(folder)
    made.tokenizer.save_pretrained(folder)
    return folder


def test_a_local_model_writes_the_queries_and_keeps_the_protocol(make: Make, decoder: Path) -> None:
    data = make(TOOLS, [("read a novel", ["book"], "dev")], test="write a letter and pay the bill")
    spec = f'query-generation(llm="local:{decoder}", base=bm25, temperature=1.0, most_tokens=12)'
    assert_conforms(spec, data)
    method = build_method(spec)
    assert not needs_llm(method)
    # Under its folder, where the leak check looks for the card of its training.
    assert set(revisions(method)) == {str(decoder)}
    assert method.marks() == {}


def test_what_is_drawn_for_a_prompt_does_not_depend_on_its_batch(decoder: Path) -> None:
    model = load_causal(str(decoder))
    texts = ["write home", "settle the rent and write home", "hush", "a bank"]
    prompts = [model.prompt(str, text, 16) for text in texts]
    seeds = [(i, 5) for i in range(len(texts))]
    for sampling in (Sampling(most_tokens=16), Sampling(temperature=1.5, most_tokens=16)):
        together = model.generate(prompts, seeds, sampling)
        alone = [model.generate([prompts[i]], [seeds[i]], sampling)[0] for i in range(len(texts))]
        assert together == alone
    assert model.generate(prompts, [(9, 9)] * 4, sampling) != together


def test_a_local_model_draws_again_in_each_repeat_if_it_draws_at_all(make: Make, decoder: Path) -> None:
    data = make(TOOLS)
    library = Library.of(data, data.card.template)
    texts = ["write home", "settle the rent and write home", "hush", "a bank"]

    def written(temperature: float, repeat: int) -> list[str]:
        spec = f'query-generation(llm="local:{decoder}", base=bm25, temperature={temperature}, most_tokens=12)'
        with config_context(repeat=repeat):
            method: Any = build_method(spec)
            method.index(library)
        # Asked later, and maybe from a thread: the repeat is that in which it was indexed.
        return method._by_local_model(texts)  # type: ignore[no-any-return]

    for temperature, drawn in ((1.0, True), (0.0, False)):
        first = written(temperature, 1)
        assert written(temperature, 1) == first
        assert (written(temperature, 2) != first) is drawn


def test_drawing_follows_the_softmax_within_top_k_and_top_p() -> None:
    import torch

    from bench.models.causal import _Sampler

    logits = torch.log(torch.tensor([0.1, 0.4, 0.2, 0.3]))
    draws = 4000
    sampling = Sampling(temperature=1.0, top_p=0.7, top_k=3)
    sampler = _Sampler(sampling, [(i,) for i in range(draws)], 1, 1, torch.device("cpu"))
    chosen = sampler(torch.zeros((draws, 1), dtype=torch.long), logits.repeat(draws, 1)).argmax(dim=1)
    shares = torch.bincount(chosen, minlength=4) / draws
    # Of the three best (4, 3, 2 ninths) the first two make up 7/9 >= 0.7 of the mass: 4 to 3.
    assert shares[0] == shares[2] == 0
    assert float(shares[1]) == pytest.approx(4 / 7, abs=0.03)


def test_a_long_utterance_is_cut_and_the_end_of_the_prompt_stays(decoder: Path) -> None:
    model = load_causal(str(decoder))
    tokens = model.prompt(str, "write home " * 100, 16)
    assert len(tokens) == 64 - 16
    assert tokens[-1] == model.tokenizer.bos_token_id


def test_a_local_model_that_is_not_there_is_named(make: Make, prepared: Prepared, tmp_path: Path) -> None:
    spec: Any = f'query-generation(llm="local:{tmp_path / "none"}", base=bm25)'
    with pytest.raises(UnavailableError, match="none"):
        prepared(spec, make(TOOLS))
