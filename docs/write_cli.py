"""Writes docs/cli.md: every --help as the program prints it. Run it after a change of the command line."""

from pathlib import Path

from click.testing import CliRunner

from neardup_db.cli import main

HEAD = """# The command line

Exit codes: 0 found or done, 1 nothing found (`check`: not in order), 2 error; an error is one sentence on standard error.
Results go to standard output, everything else to standard error; a progress bar appears only on a terminal.

With `--json`, `pairs`, `clusters`, `curve` and `sql` print one JSON object a line, the other commands one object. Keys of bytes
are `{"hex": "..."}`; columns of blobs as well.
"""


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for name in ("", *main.commands):
        arguments = [name, "--help"] if name else ["--help"]
        printed = CliRunner().invoke(main, arguments, prog_name="neardup", terminal_width=80).stdout
        parts.append(f"## {' '.join(['neardup', name]).strip()}\n\n```text\n{printed.rstrip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    (Path(__file__).parent / "cli.md").write_text(page(), encoding="utf-8")
