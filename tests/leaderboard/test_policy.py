"""Every page has a Content-Security-Policy, and nothing in it that the policy forbids."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kit.sites import Page

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


def test_no_page_has_inline_code_or_loads_from_elsewhere(bench: Callable[..., Any], ready: Path) -> None:
    bench("leaderboard", "build", "--results", ready, "--out", "site")
    paths = sorted(Path("site").rglob("*.html"))
    assert len({path.parent.name for path in paths}) > 4
    for path in paths:
        page = Page(path)
        (policy,) = _POLICY.findall(page.text)
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        # The policy comes before what it judges.
        assert page.text.index(policy) < page.text.index("<link")
        assert "style" not in page.tags
        assert not [name for name, _ in page.attributes if name == "style" or name.startswith("on")]
        assert not re.findall(r"<script(?![^>]*\ssrc=)", page.text)


def test_a_page_of_its_own_allows_its_script_and_style_by_their_hashes(bench: Callable[..., Any], ready: Path) -> None:
    bench("tools", "bm25@starter", "--results", ready, "--html", "tools.html")
    text = Path("tools.html").read_text("utf-8")
    (policy,) = _POLICY.findall(text)
    for tag, name in (("script", "script-src"), ("style", "style-src")):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode("ascii")
        assert f"{name} 'sha256-{digest}'" in policy
