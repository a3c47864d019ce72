"""Reads one untrusted Parquet file in a separate process: Parquet on stdin, an Arrow stream on stdout.

A few hundred bytes of Parquet can expand to terabytes, in its directory or in spite of it, and a damaged file can bring
its reader down. So this runs under limits of memory and time, imports nothing of bench, and writes nothing but what
it has read: columns of strings stay coded by their dictionary, which is no larger than the file. Exit code 3, with
a clause on standard error, says what is wrong.

    python reader.py ROWS CELLS BYTES COLUMN...

ROWS and CELLS (of any one column) are the most that there may be, BYTES of memory the process may take, COLUMN are
those of strings.

    python reader.py

Without arguments it forks a reader, as above, for each message at the socket that is its standard input: the arguments
as JSON, with the files that are the reader's standard streams. It answers with the reader's exit code.
"""

from __future__ import annotations

import gc
import io
import json
import os
import socket
import sys
from contextlib import suppress
from typing import NoReturn

#: Seconds of processor time.
_SECONDS = 120
_COLUMNS = 600
_CHUNKS = 100_000
_UNPACKED = 1 << 31


def _limit(size: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    limits = {resource.RLIMIT_AS: size, resource.RLIMIT_FSIZE: size, resource.RLIMIT_CPU: _SECONDS}
    for kind, most in (*limits.items(), (resource.RLIMIT_CORE, 0)):
        # A stricter limit of the user's own stays.
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))


def _refuse(what: str) -> NoReturn:
    sys.stderr.write(what)
    sys.exit(3)


def main(arguments: list[str]) -> None:
    """Read, check, write."""
    rows, cells, size = map(int, arguments[:3])
    columns = arguments[3:]
    with open(0, "rb", closefd=False) as file:
        data = file.read()
    _limit(size)
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        about = pq.ParquetFile(pa.BufferReader(data)).metadata
        if about.num_rows > rows:
            _refuse(f"has {about.num_rows} rows, where {rows} are possible")
        if about.num_columns > _COLUMNS or about.num_columns * about.num_row_groups > _CHUNKS:
            _refuse(f"has {about.num_columns} columns in {about.num_row_groups} groups")
        for column in range(about.num_columns):
            chunks = [about.row_group(group).column(column) for group in range(about.num_row_groups)]
            if sum(chunk.num_values for chunk in chunks) > cells:
                _refuse(f"has a column of more than {cells} values")
            if sum(chunk.total_uncompressed_size for chunk in chunks) > _UNPACKED:
                _refuse(f"has a column of more than {_UNPACKED} bytes")
        schema = pq.ParquetFile(pa.BufferReader(data)).schema_arrow
        for field in schema:
            # Extension types are made from it, by pickle in old versions; and it may hide anything.
            if field.metadata or "dictionary<" in str(field.type):
                _refuse(f"has the column {field.name[:80]!a} with metadata or a dictionary of its own")
        # Others than these stay as they are, and are no strings of bench.
        strings = {field.name for field in schema if field.type in (pa.string(), pa.list_(pa.string()))}
        there = {about.schema.column(column).path for column in range(about.num_columns)}
        coded = [name for name in columns if name in there and name.split(".")[0] in strings]
        table = pq.ParquetFile(pa.BufferReader(data), read_dictionary=coded).read(use_threads=False)
        table.validate(full=True)
    except Exception as error:  # whatever it is, the file is the cause
        lines = str(error).splitlines()
        _refuse(f"is not a readable Parquet file ({ascii(lines[0][:160]) if lines else type(error).__name__})")
    if table.num_rows > rows:
        _refuse(f"has {table.num_rows} rows, where {rows} are possible")
    # Anything else that a writer may hide in the file is dropped here.
    table = table.replace_schema_metadata(None)
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    sys.stdout.buffer.write(out.getbuffer())
    sys.stdout.buffer.flush()


def serve() -> None:
    """Fork a reader for each message, one after the other, until nobody is at the other end."""
    import pyarrow.parquet  # noqa: F401

    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit("a fork would have the locks of threads that it does not have")
    # A reader that looks for garbage touches no page of what is here, and copies none.
    gc.freeze()
    connection = socket.socket(fileno=0)
    while True:
        message, files, _, _ = socket.recv_fds(connection, 1 << 16, 3)
        if not message:
            return
        reader = os.fork()
        if not reader:
            _run_forked(json.loads(message), files)
        for file in files:
            os.close(file)
        _, status = os.waitpid(reader, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def _run_forked(arguments: list[str], files: list[int]) -> NoReturn:
    """A reader's whole life. The socket is closed by what takes its place."""
    code = 1
    try:
        for place, file in enumerate(files):
            os.lseek(file, 0, os.SEEK_SET)
            os.dup2(file, place)
            os.close(file)
        main(arguments)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1:])
    else:
        serve()
