"""`neardup report`: an index as one HTML file or as SVG files."""

from __future__ import annotations

from pathlib import Path

import click

from ..show.charts import charts
from ..show.report import figures_of, report_page
from .command import command
from .inputs.files import STDOUT
from .options import Count, index_argument, index_files, name_option, open_index
from .outputs import check_output, write_page


@command()
@index_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="The HTML file to write; - is standard output.",
)
@click.option("--svg", type=click.Path(path_type=Path, file_okay=False), help="Write each chart as an SVG into this folder.")
@click.option("--clusters", type=Count(0), default=20, show_default=True, help="Show this many of the largest clusters.")
@click.option("--members", type=Count(2), default=10, show_default=True, help="Show this many documents of each.")
@click.option("--title", help="Title of the report.  [default: the name of the file]")
@click.option("--force", is_flag=True, help="Replace outputs that exist.")
@name_option
def report(
    index_path: Path,
    output: Path | None,
    svg: Path | None,
    clusters: int,
    members: int,
    title: str | None,
    force: bool,
    name: str,
) -> None:
    """Write INDEX as one HTML report, or its charts as SVG.

    The report has key figures, charts (similarity of matches, cluster sizes, duplicates over time, recall), and the largest
    clusters, with stored texts side by side with the earliest one. The file needs no other file and runs no script. --svg omits
    charts without data.

    \b
    neardup report articles.db -o report.html
    neardup report articles.db --svg charts
    """
    if output is None and svg is None:
        raise click.UsageError("Give -o FILE, --svg FOLDER or both")
    with open_index(index_path, name) as index:
        drawings: dict[Path, str] = {}
        if svg is not None:
            svg.mkdir(parents=True, exist_ok=True)
            found = charts(figures_of(index))
            drawings = {svg / f"{chart_name}.svg": chart.file() for chart_name, chart in found.items() if chart.drawing}
        for path in (output, *drawings):
            if path is not None and path != STDOUT:
                check_output(path, force, index_files(index_path))
        if output is not None:
            write_page(output, report_page(index, title or index_path.name, clusters, members))
        for path, drawing in drawings.items():
            write_page(path, drawing)
