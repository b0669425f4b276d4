"""Writes every --help into docs/reference/cli.md, as the program prints it. Run it after a change of the command line."""

from pathlib import Path

from click.testing import CliRunner

from neardup_db.cli import main

PAGE = Path(__file__).parent / "reference" / "cli.md"
FIRST = "## neardup\n"
"""The heading of the printed part; the text before it is written by hand and stays."""


def page() -> str:
    """The text of the page."""
    parts = [PAGE.read_text(encoding="utf-8").partition(FIRST)[0].rstrip() + "\n"]
    for name in ("", *main.commands):
        arguments = [name, "--help"] if name else ["--help"]
        printed = CliRunner().invoke(main, arguments, prog_name="neardup", terminal_width=80).stdout
        parts.append(f"## {' '.join(['neardup', name]).strip()}\n\n```text\n{printed.rstrip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
