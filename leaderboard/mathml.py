"""Metric definitions as MathML."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\d+(?:\.\d+)?|[A-Za-zΣ≤∩∪⊆∈∅≠…]+|\S")
_OPERATORS = {"≤", "∩", "∪", "⊆", "∈", "≠", "…"}


def _row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def _words(text: str) -> str:
    """Plain tokens: numbers, identifiers, operators; `a_b` is a subscript, `'word'` a word."""
    found = []
    for piece in re.split(r"('[^']*'|\w+_\w+)", text):
        if piece.startswith("'"):
            found.append(f"<mtext>{piece[1:-1]}</mtext>")
        elif re.fullmatch(r"\w+_\w+", piece):
            base, below = piece.split("_", 1)
            found.append(f"<msub>{_words(base)}{_words(below)}</msub>")
        else:
            for token in _TOKEN.findall(piece):
                kind = "mn" if token[0].isdigit() else "mi" if token.isalpha() and token not in _OPERATORS else "mo"
                found.append(f"<{kind}>{token.replace('<', '&lt;').replace('&', '&amp;')}</{kind}>")
    return _row(*found)


def _over(top: str, bottom: str) -> str:
    return f'<mfrac displaystyle="true">{top}{bottom}</mfrac>'


def _sum(below: str, body: str, above: str = "") -> str:
    sign = '<mo movablelimits="false">∑</mo>'
    limits = (
        f"<munderover>{sign}{_words(below)}{_words(above)}</munderover>"
        if above
        else f"<munder>{sign}{_words(below)}</munder>"
    )
    return _row(limits, body)


_HEAD = "{h_1, …, h_k}"
_FOUND = _words(f"| G ∩ {_HEAD} |")
_N = _words("n")
_RANKS = _sum("g ∈ G", _row("<mi>min</mi>", _words("(r_g, k + 1)")))
_DCG = _over(_words("rel_i"), _row("<msub><mi>log</mi><mn>2</mn></msub>", _words("(i + 1)")))
_CASES = '<mrow><mo>{</mo><mtable columnalign="left">%s</mtable></mrow>'


def _cases(*rows: tuple[str, str]) -> str:
    return _CASES % "".join(f"<mtr><mtd>{value}</mtd><mtd>{when}</mtd></mtr>" for value, when in rows)


_ELSE = "<mtext>otherwise</mtext>"
_FORMULAS: dict[str, str] = {
    "recall": _over(_FOUND, _N),
    "precision": _over(_FOUND, _words("k")),
    "hit": _cases((_words("1"), _words(f"G ∩ {_HEAD} ≠ ∅")), (_words("0"), _ELSE)),
    "ndcg": _over(_sum("i = 1", _DCG, "k"), _sum("i = 1", _DCG.replace("rel", "rel*"), "'min(k, n)'")),
    "map": _row(_over(_words("1"), _N), _sum("i = 1", _row("<mtext>precision@</mtext>", _words("i · rel_i")), "k")),
    "mrr": _cases((_over(_words("1"), _words("r_1")), _words("r_1 ≤ k")), (_words("0"), _ELSE)),
    "mmrr": _over(_words("(n + 1) / 2"), _row(_over(_words("1"), _N), _RANKS)),
    "pass": _cases((_words("1"), _words(f"G ⊆ {_HEAD}")), (_words("0"), _ELSE)),
    "tracc": _row(
        "<mo>(</mo>",
        _words("1 −"),
        _over(_words("| | R | − n |"), _words("| R ∪ G |")),
        "<mo>)</mo><mo>·</mo>",
        _over(_words("| R ∩ G |"), _N),
    ),
    "set_precision": _over(_words("| R ∩ G |"), _words("| R |")),
    "set_recall": _over(_words("| R ∩ G |"), _N),
    "set_f1": _over(_words("2 | R ∩ G |"), _words("| R | + n")),
    "size_diff": _words("| | R | − n |"),
    "abstained": _cases((_words("1"), _words("R = ∅")), (_words("0"), _ELSE)),
    "answered": _cases((_words("1"), _words("R ≠ ∅")), (_words("0"), _ELSE)),
    "mmrr_printed": _over(_words("n / 2"), _row(_over(_words("1"), _N), _RANKS)),
}


def formula(name: str) -> str:
    """A measure's definition as MathML; empty for one that has none here."""
    body = _FORMULAS.get(name)
    return "" if body is None else f'<math display="block">{body}</math>'
