"""Read one untrusted Parquet file in a separate process: Parquet on stdin, an Arrow stream on stdout.

A few hundred bytes of Parquet can expand to terabytes, in its directory or elsewhere, and a damaged file can crash its
reader. So this process runs under limits of memory and time, imports nothing of bench, and writes only what it has
read: string columns stay dictionary-coded, so they are no larger than the file. On exit code 3, standard error says
what is wrong. `reading` starts it.

    python reader.py ROWS CELLS BYTES COLUMN...

ROWS and CELLS (of any one column) are maxima, BYTES is the memory that the process may take, COLUMN names the string
columns.

    python reader.py

Without arguments it forks a reader, as above, for each message on the socket that is its standard input: the arguments
as JSON, with the files that become the reader's standard streams. It replies with the reader's exit code.
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
        # Keep a stricter limit of the user.
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))


def _refuse(what: str) -> NoReturn:
    sys.stderr.write(what)
    sys.exit(3)


def main(arguments: list[str]) -> None:
    """Read, check and write."""
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
            _refuse(f"has {about.num_rows} rows; at most {rows} are possible")
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
            # Extension types are built from metadata, by pickle in old versions; and it may contain anything.
            if field.metadata or "dictionary<" in str(field.type):
                _refuse(f"has the column {field.name[:80]!a} with metadata or a dictionary of its own")
        # Other types stay unchanged; bench does not use them for strings.
        strings = {field.name for field in schema if field.type in (pa.string(), pa.list_(pa.string()))}
        there = {about.schema.column(column).path for column in range(about.num_columns)}
        coded = [name for name in columns if name in there and name.split(".")[0] in strings]
        table = pq.ParquetFile(pa.BufferReader(data), read_dictionary=coded).read(use_threads=False)
        table.validate(full=True)
    except Exception as error:  # whatever the error, the file caused it
        lines = str(error).splitlines()
        _refuse(f"is not a readable Parquet file ({ascii(lines[0][:160]) if lines else type(error).__name__})")
    if table.num_rows > rows:
        _refuse(f"has {table.num_rows} rows; at most {rows} are possible")
    # This drops anything else that a writer may hide in the file.
    table = table.replace_schema_metadata(None)
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    sys.stdout.buffer.write(out.getbuffer())
    sys.stdout.buffer.flush()


def serve() -> None:
    """Fork a reader for each message, one after the other, until the other end closes."""
    import pyarrow.parquet  # noqa: F401

    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit("a fork would have the locks of threads that it does not have")
    # A reader that collects garbage touches no page of its parent, and copies none.
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
    """The whole life of a reader. Its standard input replaces the socket."""
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
