"""The model of `submission.json`: the result and the sha256 of its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import StringConstraints, model_validator

from bench.base.records import StrictRecord
from bench.data.card import Sha256
from bench.results.manifest import Manifest
from bench.results.store import MANIFEST, METRICS, PER_QUERY, REPEATS, RUN

SUBMISSION = "submission.json"
#: The files of a result without repeats.
PARTS = (MANIFEST, METRICS, PER_QUERY, RUN)


def parts_of(manifest: Manifest) -> tuple[str, ...]:
    """The files of a result."""
    return PARTS if manifest.repeats == 1 else (*PARTS, REPEATS)


ResultId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]


class Submission(StrictRecord):
    """`submission.json`. It follows from the result and the code, so the same inputs give the same bytes.

    Version 2 has source files of the method. A submission without code has version 1, which older versions read.
    """

    schema_name: Literal["submission"] = "submission"
    schema_version: Literal[1, 2] = 1
    result_id: ResultId
    protocol: str
    #: Spec and content hash of the data.
    dataset: str
    content_hash: Sha256
    method: str
    #: sha256 of every file of the result.
    files: dict[str, Sha256]
    #: sha256 of every source file of the method.
    code: dict[str, Sha256] = {}

    @model_validator(mode="after")
    def _check_version(self) -> Submission:
        if (self.schema_version == 2) != bool(self.code):
            raise ValueError("version 2 is only for submissions with code")
        return self

    @staticmethod
    def of(manifest: Manifest, parts: Mapping[str, bytes], code: Mapping[str, bytes]) -> Submission:
        """The submission of a result.

        Args:
            manifest: the result's.
            parts: the bytes of each of its files.
            code: the bytes of each source file, by the name of its member.

        Raises:
            ValidationError: the manifest has an invalid id or hash.
        """
        return Submission(
            schema_version=2 if code else 1,
            result_id=manifest.result_id,
            protocol=manifest.protocol,
            dataset=manifest.dataset.spec,
            content_hash=manifest.dataset.content_hash,
            method=manifest.method.spec,
            files={name: hashlib.sha256(parts[name]).hexdigest() for name in parts_of(manifest)},
            code={name: hashlib.sha256(code[name]).hexdigest() for name in sorted(code)},
        )

    def text(self) -> str:
        """The text of the file; without the key `code` if there is no code."""
        fields = self.model_dump(mode="json", exclude=None if self.code else {"code"})
        return json.dumps(fields, indent=1, ensure_ascii=False) + "\n"
