"""The command `neardup`: its subcommands, and errors as one sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import apsw
import click

from .. import __version__
from ..errors import NearDupError
from .add import add
from .change import check, delete, expire, rebuild
from .dedup import dedup
from .demo import demo
from .explain import explain
from .look import clusters, pairs, query, stats
from .plot import curve
from .report import report
from .serve import serve
from .sql import sql

FOUND, NOT_FOUND, ERROR, INTERRUPTED = 0, 1, 2, 130


class Program(click.Group):
    """A group whose commands return their exit code, and whose errors are one sentence on standard error and exit code 2."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs a command line and, unless `standalone_mode` is False, exits."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx else "neardup"
            _fail(f"{error.format_message().rstrip('.')}. See: {command} --help")
        except click.ClickException as error:
            _fail(error.format_message())
        except click.exceptions.Abort:
            _fail("interrupted", INTERRUPTED)
        except OSError as error:
            _fail(_told(error))
        except (NearDupError, apsw.Error) as error:
            _fail(str(error))
        sys.exit(code or FOUND)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; output that nobody reads any more (as of `| head`) ends it well."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FOUND
        return code

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Commands in the order in which they were added, not of the alphabet."""
        return list(self.commands)


def _fail(message: str, code: int = ERROR) -> NoReturn:
    click.echo(f"neardup: {message}", err=True)
    sys.exit(code)


def _told(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


@click.group(cls=Program, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="neardup", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Find near-duplicate texts, in one file and without a server.

    \b
    neardup demo                               shows it on a bundled sample
    neardup dedup posts.jsonl -o unique.jsonl  removes near-duplicates from a file
    neardup add index.db posts.jsonl           makes an index that lasts
    neardup query index.db "some text"         asks it

    Exit codes: 0 found or done, 1 nothing found, 2 error. With --json, results are JSON on standard output, one document a
    line; messages go to standard error.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _command in (
    demo,
    dedup,
    add,
    query,
    delete,
    pairs,
    clusters,
    stats,
    explain,
    report,
    serve,
    curve,
    check,
    expire,
    rebuild,
    sql,
):
    main.add_command(_command)
