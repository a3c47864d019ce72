"""`bench` and `python -m bench`: run the command line, and turn errors into sentences and exit codes."""

from __future__ import annotations

import os
import sys

try:
    import errno
    import gc

    from bench.base.errors import EXIT_CODES, INTERNAL, INTERRUPTED, BenchError, StorageError
    from bench.base.paths import env_flag
    from bench.base.secrets import mask, mask_streams
    from bench.base.text import terminal_text
except KeyboardInterrupt:
    os.write(2, b"bench: interrupted before it began.\n")
    os._exit(130)

#: After so many new objects Python looks for garbage. At its own number, 700, a third of the time in which thousands of
#: results are read goes into looking where there is none.
NEW_OBJECTS = 10_000


def main() -> None:
    """Entry point of the command `bench`."""
    try:
        gc.set_threshold(NEW_OBJECTS)
        mask_streams()
        code = run(sys.argv[1:])
        if code and sys.stdout is not None:
            _drop_output()
    except KeyboardInterrupt:  # while the command's modules are imported, or its output is thrown away
        _say(f"{EXIT_CODES[INTERRUPTED]}.")
        code = INTERRUPTED
    # Else the interpreter looks once more for garbage in all that was imported, to no end.
    gc.freeze()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit code (`bench.base.errors.EXIT_CODES`)."""
    import click

    from bench.cli import cli

    try:
        if "_BENCH_COMPLETE" in os.environ:
            cli.main(args=arguments, prog_name="bench")
        # Not `cli.main`: it takes a closed pipe for a failure.
        with cli.make_context("bench", arguments) as context:
            cli.invoke(context)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        # Its own `show` prints the usage, too, and reads this attribute.
        error.message = terminal_text(mask(error.message))  # type: ignore[misc]
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say(f"{EXIT_CODES[INTERRUPTED]}.")
        return INTERRUPTED
    except BenchError as error:
        if _debugging():
            raise
        _say(str(error))
        return error.exit_code
    except BrokenPipeError:
        # The reader (`head`, a closed pager) has seen enough.
        _drop_output()
        return 0
    except OSError as error:
        if _debugging() or error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            return _internal(error)
        _say(f"cannot write what was asked for: {error.strerror}. Stored results are not touched by it.")
        return StorageError.exit_code
    except Exception as error:
        return _internal(error)
    return 0


def _internal(error: Exception) -> int:
    if _debugging():
        raise error
    _say(
        f"an error of bench itself: {type(error).__name__}: {error}. "
        "Please report it; BENCH_DEBUG=1 shows where it happened."
    )
    return INTERNAL


def _drop_output() -> None:
    """Throw away what is not written yet: the interpreter would try again at exit, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _debugging() -> bool:
    return env_flag("BENCH_DEBUG")


def _say(message: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"bench: {terminal_text(mask(message))}\n")


if __name__ == "__main__":
    main()
