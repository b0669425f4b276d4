"""`neardup report`: what is in an index, as one HTML file or as pictures."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import ParameterError
from ..show.report import figures_of, report_page
from .command import command
from .files import STDOUT, write_text
from .options import index_argument, name_option, open_index
from .output import note
from .pictures import draw


@command()
@index_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="The HTML file to write; - is standard output.",
)
@click.option("--png", type=click.Path(path_type=Path, file_okay=False), help="Write each chart as a PNG into this folder.")
@click.option(
    "--clusters", type=click.IntRange(min=0), default=20, show_default=True, help="Show so many of the largest clusters."
)
@click.option("--members", type=click.IntRange(min=2), default=10, show_default=True, help="Show so many documents of each.")
@click.option("--title", help="Title of the report.  [default: the name of the file]")
@name_option
def report(
    index_path: Path, output: Path | None, png: Path | None, clusters: int, members: int, title: str | None, name: str
) -> None:
    """Write what is in INDEX as one HTML file, or as pictures.

    Key figures, charts (similarity of matches, cluster sizes, duplicates over time, what the scheme finds), and the largest
    clusters with their documents: where texts are stored, side by side with the earliest one and with the differences marked.
    The file needs no other file and runs no script. --png needs matplotlib: pip install 'neardup-db[plot]'.

    \b
    neardup report articles.db -o report.html
    neardup report articles.db --png charts
    """
    if output is None and png is None:
        raise click.UsageError("Give -o FILE, --png FOLDER or both")
    with open_index(index_path, name) as index:
        if output is not None:
            write_page(output, report_page(index, title or index_path.name, clusters, members), index_path)
        if png is not None:
            for path in draw(figures_of(index), png):
                note(f"wrote {path}")


def write_page(path: Path, html: str, index_path: Path) -> None:
    """Writes a page, - to standard output, but not over the index that it is about."""
    if path.exists() and path.samefile(index_path):
        raise ParameterError(f"{path} is the index itself; name another file for the page")
    write_text(path, html)
    if path != STDOUT:
        note(f"wrote {path}")
