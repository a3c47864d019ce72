"""Every kind of page under axe-core: the rules of WCAG 2.2 A and AA, in light and dark, on a phone and a desk."""

from __future__ import annotations

from typing import Any

import pytest
from kit.browser import KINDS, Browser


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing_wrong(kind: str, colours: str, full_site: Any, served: str, axe: Browser) -> None:
    axe.colours(colours)
    axe.window(1280 if colours == "light" else 390)
    # From the server: axe-core reads style sheets again, which a page that is a file may not.
    axe.open(f"{served}/{sorted(full_site.folder.glob(KINDS[kind]))[0].relative_to(full_site.folder)}")
    if kind == "explorer":
        axe.until(lambda: axe.all(".queries > li"))
    assert axe.violations() == []
