"""The versions of packages that a result's numbers depend on."""

from __future__ import annotations

from importlib.metadata import version

from bench.evaluation.machine import package_versions
from bench.identity.versions import method_packages
from bench.registry import build_method

#: What scores; numba, where it is installed, is used by methods that count words.
ALWAYS = {"bench", "python", "numpy", "pyarrow", "scipy"}


def test_versions_are_of_what_computes_in_the_code_and_below_it() -> None:
    found = package_versions(method_packages(build_method("dense")))
    assert found["torch"] == version("torch")
    assert {"sentence-transformers", "transformers", "tokenizers"} <= found.keys()
    # What carries files and messages computes nothing.
    assert not found.keys() & {"requests", "tqdm", "huggingface-hub", "certifi", "packaging"}
    assert package_versions(method_packages(build_method("bm25"))).keys() - {"numba"} == ALWAYS


def test_a_package_is_found_by_the_name_under_which_it_is_imported() -> None:
    # Installed as PyYAML and sentence-transformers.
    found = package_versions(["yaml", "jinja2", "sentence_transformers", "nowhere"])
    assert found.keys() - ALWAYS >= {"pyyaml", "sentence-transformers", "torch"}
    assert "jinja2" not in found
    assert found["pyyaml"] == version("pyyaml")
