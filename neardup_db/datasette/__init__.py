"""A Datasette plugin: pages that show every near-duplicate index of every attached database.

Installed with `neardup-db[datasette]`. `/-/neardup` lists the indexes. The pages read through Datasette's connections (`foreign`)
and obey its permissions. Settings in Datasette's configuration:

    {"plugins": {"neardup-db": {"time_limit_s": 10, "write": {"id": "root"}}}}

time_limit_s: the time limit for the statements of one page. write: the visitors who may dismiss pairs, as a Datasette "allow"
block (true: every visitor); by default the pages are read-only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from datasette import hookimpl

from .foreign import load_functions
from .routes import ROUTES, names_in


@hookimpl
def prepare_connection(conn: Any, database: str) -> None:
    """Load the SQL functions. If this fails, only the search page is affected, and reports it."""
    if database != "_internal":
        load_functions(conn)


@hookimpl
def register_routes() -> list[tuple[str, Callable[..., Any]]]:
    return ROUTES


@hookimpl
def menu_links(datasette: Any) -> list[dict[str, str]]:
    return [{"href": datasette.urls.path("/-/neardup"), "label": "Near-duplicates"}]


@hookimpl
def database_actions(datasette: Any, database: str) -> Callable[[], Awaitable[list[dict[str, str]]]]:
    async def links() -> list[dict[str, str]]:
        found: list[dict[str, str]] = menu_links(datasette) if await names_in(datasette.get_database(database)) else []
        return found

    return links
