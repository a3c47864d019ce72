"""The model of `submission.json`: the result and the sha256 of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import StringConstraints

from bench.data.card import Sha256
from bench.results.manifest import Manifest
from bench.results.store import MANIFEST, METRICS, PER_QUERY, REPEATS, RUN
from bench.storage.records import StrictRecord

SUBMISSION = "submission.json"
#: The files of a result without repeats.
PARTS = (MANIFEST, METRICS, PER_QUERY, RUN)


def parts_of(manifest: Manifest) -> tuple[str, ...]:
    """The files of a result."""
    return PARTS if manifest.repeats == 1 else (*PARTS, REPEATS)


ResultId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]


class Submission(StrictRecord):
    """`submission.json`. All of it follows from the result, so the same result gives the same bytes."""

    schema_name: Literal["submission"] = "submission"
    schema_version: Literal[1] = 1
    result_id: ResultId
    protocol: str
    #: Spec and content hash of the data.
    dataset: str
    content_hash: Sha256
    method: str
    #: sha256 of every file of the result.
    files: dict[str, Sha256]

    @staticmethod
    def of(manifest: Manifest, parts: Mapping[str, bytes]) -> Submission:
        """The submission of a result.

        Args:
            manifest: the result's.
            parts: the bytes of each of its files.

        Raises:
            ValidationError: the manifest has an id or a hash that is none.
        """
        return Submission(
            result_id=manifest.result_id,
            protocol=manifest.protocol,
            dataset=manifest.dataset.spec,
            content_hash=manifest.dataset.content_hash,
            method=manifest.method.spec,
            files={name: hashlib.sha256(parts[name]).hexdigest() for name in parts_of(manifest)},
        )
