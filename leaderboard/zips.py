"""Zip files that have the same bytes whenever they have the same members. Submissions and downloads use it."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Mapping

_DATE = (1980, 1, 1, 0, 0, 0)
_MODE = (stat.S_IFREG | 0o644) << 16


def write_archive(members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """The one archive of these members, by name.

    Args:
        members: name -> content.
        compression: as of `zipfile`; only uncompressed archives have the same bytes with every version of zlib.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system = 3  # else it tells the system that packed
            entry.external_attr = _MODE
            entry.compress_type = compression
            archive.writestr(entry, members[name])
    return buffer.getvalue()
