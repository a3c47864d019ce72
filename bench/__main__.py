"""`bench` and `python -m bench`: run the command line, and turn errors into sentences and exit codes."""

from __future__ import annotations

import os
import sys

from bench.errors import INTERNAL, INTERRUPTED, BenchError


def main() -> None:
    """Entry point of the command `bench`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit code (`bench.errors.EXIT_CODES`)."""
    import click

    from bench.cli import cli

    try:
        if "_BENCH_COMPLETE" in os.environ:
            cli.main(args=arguments, prog_name="bench")
        # Not `cli.main`: it takes a closed pipe for a failure.
        with cli.make_context("bench", arguments) as context:
            cli.invoke(context)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted; the same command continues where it stopped.")
        return INTERRUPTED
    except BenchError as error:
        if _debugging():
            raise
        _say(str(error))
        return error.exit_code
    except BrokenPipeError:
        # The reader (`head`, a closed pager) has seen enough. Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if _debugging():
            raise
        _say(
            f"an error of bench itself: {type(error).__name__}: {error}. "
            "Please report it; BENCH_DEBUG=1 shows where it happened."
        )
        return INTERNAL
    return 0


def _debugging() -> bool:
    return os.environ.get("BENCH_DEBUG", "") not in {"", "0"}


def _say(message: str) -> None:
    sys.stderr.write(f"bench: {message}\n")


if __name__ == "__main__":
    main()
