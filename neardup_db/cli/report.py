"""`neardup report`: what is in an index, as one HTML file or as SVG files."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import ParameterError
from ..show.charts import charts
from ..show.report import figures_of, report_page
from .command import command
from .inputs.files import STDOUT
from .options import index_argument, name_option, open_index
from .output import note
from .outputs import write_text


@command()
@index_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="The HTML file to write; - is standard output.",
)
@click.option("--svg", type=click.Path(path_type=Path, file_okay=False), help="Write each chart as an SVG into this folder.")
@click.option(
    "--clusters", type=click.IntRange(min=0), default=20, show_default=True, help="Show this many of the largest clusters."
)
@click.option("--members", type=click.IntRange(min=2), default=10, show_default=True, help="Show this many documents of each.")
@click.option("--title", help="Title of the report.  [default: the name of the file]")
@name_option
def report(
    index_path: Path, output: Path | None, svg: Path | None, clusters: int, members: int, title: str | None, name: str
) -> None:
    """Write INDEX as one HTML report, or its charts as SVG.

    Key figures, charts (similarity of matches, cluster sizes, duplicates over time, what the scheme finds), and the largest
    clusters with their documents: where texts are stored, side by side with the earliest one and with the differences marked.
    The file needs no other file and runs no script. --svg leaves out charts that have nothing to show.

    \b
    neardup report articles.db -o report.html
    neardup report articles.db --svg charts
    """
    if output is None and svg is None:
        raise click.UsageError("Give -o FILE, --svg FOLDER or both")
    with open_index(index_path, name) as index:
        if output is not None:
            write_page(output, report_page(index, title or index_path.name, clusters, members), index_path)
        if svg is not None:
            svg.mkdir(parents=True, exist_ok=True)
            for chart_name, chart in charts(figures_of(index)).items():
                if chart.drawing:
                    write_text(svg / f"{chart_name}.svg", chart.file())
                    note(f"wrote {svg / f'{chart_name}.svg'}")


def write_page(path: Path, html: str, index_path: Path) -> None:
    """Write a page to a file, or to standard output (-). Raises ParameterError for the file of the index."""
    if path.exists() and path.samefile(index_path):
        raise ParameterError(f"{path} is the index itself; name another file for the page")
    write_text(path, html)
    if path != STDOUT:
        note(f"wrote {path}")
