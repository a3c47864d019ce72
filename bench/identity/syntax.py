"""Syntax trees of sources, for several threads at once."""

from __future__ import annotations

import ast
import threading

#: Up to Python 3.12 the interpreter counts the depth of trees that it builds for all threads together, so two that
#: parse at the same time fail with `SystemError: AST constructor recursion depth mismatch`.
_PARSING = threading.Lock()


def syntax_tree(source: bytes) -> ast.Module:
    """The tree of a module's source; raises `SyntaxError`."""
    with _PARSING:
        return ast.parse(source)
