"""What tests of methods and datasets ask of validation: they need no building themselves."""

from __future__ import annotations

from collections.abc import Sequence

from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.registry import build_method
from bench.validation.dataset import audit
from bench.validation.method import check_method


def assert_conforms(method: str | Spec, dataset: Dataset, skipped: Sequence[str] | None = None) -> None:
    """Fail if a method, named by its spec, fails a conformance check, or if other checks than `skipped` are skipped."""
    checks = list(check_method(lambda: build_method(method), dataset))
    assert {check.name: check.problem for check in checks if check.problem} == {}
    if skipped is not None:
        assert [check.name.partition(":")[0] for check in checks if check.skipped] == [*skipped]


def count_findings(dataset: Dataset) -> dict[str, int]:
    """Check of the audit -> what it counts."""
    return {finding.check: finding.count for finding in audit(dataset)}
