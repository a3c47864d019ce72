"""Sources are parsed in several threads at once."""

from __future__ import annotations

import ast
import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.identity.reach import syntax_tree

SOURCE = Path(ast.__file__).read_bytes()


@pytest.fixture
def other_threads_run_while_garbage_is_collected() -> Iterator[None]:
    """As they do where a finalizer is written in Python."""

    def yields(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    gc.callbacks.append(yields)
    yield
    gc.callbacks.remove(yields)


@pytest.mark.usefixtures("other_threads_run_while_garbage_is_collected")
def test_threads_that_parse_at_the_same_time_get_their_trees() -> None:
    with ThreadPoolExecutor(4) as pool:
        trees = list(pool.map(syntax_tree, [SOURCE] * 20))
    assert {len(tree.body) for tree in trees} == {len(ast.parse(SOURCE).body)}


def test_what_is_not_python_is_an_error() -> None:
    with pytest.raises(SyntaxError):
        syntax_tree(b"def")
