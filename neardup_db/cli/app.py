"""The `neardup` command: subcommands, one-sentence errors, and cleanup after signals."""

from __future__ import annotations

import contextlib
import errno
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Any

import apsw
import click

from .. import __version__
from ..errors import NearDupError
from ..system import is_reader_gone
from .output import afterword, emit, fail, leave_stdout, prepare_streams

ERROR, INTERRUPTED = 2, 130

COMMANDS = {
    "demo": ("demo", "Demonstrate an index on bundled real text."),
    "dedup": ("dedup", "Copy the records of IN without near-duplicates."),
    "add": ("add", "Add the records of IN to INDEX."),
    "watch": ("watch", "Pass on the new records of a stream, line by line."),
    "import": ("documents", "Add documents to INDEX by exported fingerprints."),
    "export": ("documents", "Write documents as JSON lines, or fingerprints as Parquet."),
    "passages": ("passages", "Print the passages that a text shares with documents."),
    "boilerplate": ("passages", "Print the passages that most texts of IN share."),
    "decontaminate": ("decontaminate", "Copy the records of TRAIN that share no passage with TEST."),
    "merge": ("documents", "Add the documents of other indexes to INTO."),
    "get": ("documents", "Print documents by their keys, as JSON."),
    "query": ("look", "Print the near-duplicates of TEXT, best first."),
    "delete": ("upkeep", "Delete documents by their keys, or all those of a group."),
    "pairs": ("pairs", "Print all pairs of near-duplicates."),
    "clusters": ("look", "Print the clusters, the largest first."),
    "stats": ("look", "Print counts, sizes and settings of INDEX."),
    "explain": ("explain", "Show how a query runs, or why two documents match."),
    "report": ("report", "Write INDEX as one HTML report, or its charts as SVG."),
    "serve": ("serve", "Show INDEX in a browser: clusters, a search box, charts."),
    "tune": ("tune", "Suggest text rules and a threshold for the texts of IN."),
    "curve": ("report", "Show the recall at each similarity."),
    "check": ("upkeep", "Check the integrity of INDEX."),
    "window": ("upkeep", "Print or change the window of INDEX."),
    "expire": ("upkeep", "Remove expired documents."),
    "rebuild": ("upkeep", "Rebuild the tables of INDEX."),
    "backup": ("upkeep", "Copy INDEX to FILE, even while other programs write to it."),
    "compact": ("upkeep", "Return unused space of INDEX to the file system."),
    "follow": ("follow", "Index the rows of an application's table in DATABASE."),
    "sync": ("follow", "Update INDEX with the changed rows of its followed table."),
    "unfollow": ("follow", "Stop following a table: its triggers go, documents stay."),
    "dismiss": ("review", "Declare that documents are not duplicates."),
    "undismiss": ("review", "Withdraw a dismissal."),
    "allow": ("review", "Exempt texts like TEXT from matching."),
    "disallow": ("review", "Withdraw the allowed texts that are like TEXT."),
    "changes": ("review", "Print the changes of INDEX since a token."),
    "sql": ("sql", "Run an SQL statement on INDEX; without one, an SQL shell."),
}
"""The module of each command, imported when the command runs, and the first line of its help."""


def load(name: str) -> click.Command:
    function = f"{name}_" if iskeyword(name) else name
    command: click.Command = getattr(import_module(f".{COMMANDS[name][0]}", __package__), function)
    return command


class Program(click.Group):
    """Commands return their exit code. Errors are one sentence and exit code 2, with tracebacks only in Python's development
    mode."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        extra.setdefault("windows_expand_args", False)  # commands expand patterns; %x% is no variable in SQL
        try:
            prepare_streams()
            # an ignored SIGHUP, as under nohup, stays ignored
            with handled_signals(("SIGTERM", "SIGHUP", "SIGBREAK"), _end, lambda handler: handler == signal.SIG_DFL):
                code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx else "neardup"
            message = error.format_message().rstrip(".")
            fail(f"{message}{'' if message.endswith('?') else '.'} See: {command} --help", ERROR)
        except click.ClickException as error:
            fail(error.format_message(), ERROR)
        except click.exceptions.Abort as error:
            fail("interrupted" + afterword(error.__cause__), INTERRUPTED)
        except SignalReceived as error:
            fail(f"ended by {signal.Signals(error.number).name}{afterword(error)}", 128 + error.number)
        except OSError as error:
            fail(_reason(error) + afterword(error), ERROR)
        except (NearDupError, apsw.Error) as error:
            fail(f"{error}{afterword(error)}", ERROR)
        except Exception as error:
            if sys.flags.dev_mode:
                raise
            told = f"unexpected {type(error).__name__}: {error}{afterword(error)}"
            fail(f"{told}; please report it with the output of the same command under PYTHONDEVMODE=1", ERROR)
        sys.exit(code or 0)

    def invoke(self, ctx: click.Context) -> Any:
        """A reader that closes the pipe, as `| head` does, ends the command without an error."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except OSError as error:
            if not is_reader_gone(error):
                raise
            leave_stdout()
            return 0
        return code

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name, known, rest = super().resolve_command(ctx, args)
        return name, known and load(known.name or ""), rest

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class SignalReceived(BaseException):
    """Raised in the main thread so that temporary files are deleted."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _end(number: int, before: dict[int, Any]) -> None:
    for other in before:
        signal.signal(other, signal.SIG_IGN)  # a second signal must not interrupt the cleanup
    raise SignalReceived(number)


@contextlib.contextmanager
def handled_signals(
    names: Sequence[str], handle: Callable[[int, dict[int, Any]], None], is_replaced: Callable[[Any], bool]
) -> Iterator[None]:
    """In the main thread `handle` gets the number of a signal, and the handlers that it has replaced by their numbers."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in names if is_main and hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers if is_replaced(signal.getsignal(number))}
    for number in before:
        signal.signal(number, lambda number, frame: handle(number, before))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _reason(error: OSError) -> str:
    reason = error.strerror or str(error)
    if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT):  # other outputs are written within `room_in`
        return "standard output: no room is left: make room on its disk, or redirect it to another one"
    if error.filename is None and error.errno == errno.ENOENT:  # only a call for the current folder fails without a file name
        return "the current folder is gone: change into another one"
    return f"{error.filename}: {reason}" if error.filename else reason


@click.group(
    cls=Program, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(__version__, prog_name="neardup", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Find near-duplicate texts, in one file and without a server.

    \b
    neardup demo                               show all steps on a bundled sample
    neardup dedup posts.jsonl -o unique.jsonl  remove near-duplicates from a file
    neardup add index.db posts.jsonl           add documents to an index file
    neardup query index.db "some text"         print the near-duplicates of a text

    Exit codes: 0 found or done, 1 nothing found, 2 error. With --json, results are JSON on standard output, one document a
    line; messages go to standard error.
    """
    if context.invoked_subcommand is None:
        for line in context.get_help().split("\n"):
            emit(line)


for _name, (_, _help) in COMMANDS.items():
    main.add_command(click.Command(_name, help=_help))
