"""The entry point of `zcbench`: finds the command, runs it, and turns errors into one line and an exit status."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from . import __version__
from .cli import check, check_proxy, compare, data, doctor, enter, evolve, leaderboard, results, run, search
from .cli import list as list_
from .cli.networks import rank, score
from .cli.parser import main_parser, parse
from .errors import IncompleteError, ZcbenchError, in_words, one_line

# NumPy is not imported yet. Statistics run in threads of their own, and a second thread within a product of small
# matrices waits longer than it computes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

COMMANDS = {
    "run": run,
    "leaderboard": leaderboard,
    "enter": enter,
    "compare": compare,
    "results": results,
    "check": check,
    "check-proxy": check_proxy,
    "score": score,
    "rank": rank,
    "list": list_,
    "data": data,
    "evolve": evolve,
    "search": search,
    "doctor": doctor,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Return 0 done, 1 a check failed, 2 a user error, 3 not comparable, 4 incomplete, 130 interrupted, 143 terminated.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_streams()
    is_main = threading.current_thread() is threading.main_thread()
    # SLURM and others announce with SIGTERM that they will kill a job.
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)} if is_main else {}
    for sign, handler in before.items():
        if handler not in {signal.SIG_IGN, None}:  # `nohup` and shells ignore some
            signal.signal(sign, _end)
    try:
        parser = main_parser(COMMANDS, __version__, only=given[0] if given else "")
        if not given:
            parser.print_help()
            return 0
        parsed = parse(parser, given)
        status = int(COMMANDS[given[0]].main(parsed))
        print(end="", flush=True)
        return status
    except ZcbenchError as error:
        print(f"zcbench: {one_line(str(error))}", file=sys.stderr)
        return 4 if isinstance(error, IncompleteError) else 2
    except KeyboardInterrupt as stop:
        how, number = ("terminated", signal.SIGTERM) if isinstance(stop, _TerminatedError) else ("interrupted", 2)
        print(f"zcbench: {how}; what is finished is kept, the same command goes on from there", file=sys.stderr)
        return 128 + number
    except BrokenPipeError:  # the reader of a pipe went away
        _discard_output()
        return 0
    except OSError as error:  # a full disk, for example
        _discard_output()
        print(f"zcbench: {in_words(error)}; what is finished is kept", file=sys.stderr)
        return 2
    finally:
        for sign, handler in before.items():
            if handler is not None:  # another language has set it, and Python left it alone
                signal.signal(sign, handler)


def _prepare_streams() -> None:
    """Make every stream one that can be written to."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed, as by 2>&-
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - the process has it
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without the letter rho shows a question mark


class _TerminatedError(KeyboardInterrupt):
    """The signal SIGTERM, which ends whatever runs as Ctrl-C does."""


#: Seconds after a signal in which another one changes nothing, because the run is ending already.
_PATIENCE_S = 2.0
_told_at = -_PATIENCE_S


def _end(number: int, frame: object) -> None:
    """End whatever runs; a second Ctrl-C at once does not disturb that."""
    global _told_at  # noqa: PLW0603 - a signal knows nothing else
    if time.monotonic() - _told_at >= _PATIENCE_S:
        _told_at = time.monotonic()
        raise _TerminatedError if number == signal.SIGTERM else KeyboardInterrupt


def _discard_output() -> None:
    """Send what is left in the buffer of standard output to nowhere, so that Python does not write it at its end."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console() -> NoReturn:
    """Run one command, and end the process with its exit status."""
    status = main()
    if status in {130, 128 + signal.SIGTERM}:
        # All is written and all workers have ended. Python would take two seconds more to take its modules down.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    console()
