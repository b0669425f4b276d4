"""A Datasette plugin: pages that show every near-duplicate index of every attached database.

Datasette finds it by its entry point once `neardup-db[datasette]` is installed. `/-/neardup` lists the indexes. The page of an
index has its figures, charts, largest clusters and a search box; the page of a cluster has its documents and their differences.
The pages read through Datasette's own connections (`foreign`), under Datasette's own permissions. Settings, in its configuration:

    {"plugins": {"neardup-db": {"time_limit_s": 10, "write": {"id": "root"}}}}

time_limit_s: how long the statements of one page may take. write: who may dismiss pairs, an "allow" block of Datasette's (true =
every visitor); nobody may without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from datasette import hookimpl

from .foreign import load_functions
from .routes import ROUTES, has_indexes


@hookimpl
def prepare_connection(conn: Any, database: str) -> None:
    """Load our SQL functions. Where that is impossible, the search page says so, and everything else works."""
    if database != "_internal":
        load_functions(conn)


@hookimpl
def register_routes() -> list[tuple[str, Callable[..., Any]]]:
    """Our pages."""
    return ROUTES


@hookimpl
def menu_links(datasette: Any) -> list[dict[str, str]]:
    """A link in the menu of every page."""
    return [{"href": datasette.urls.path("/-/neardup"), "label": "Near-duplicates"}]


@hookimpl
def database_actions(datasette: Any, database: str) -> Callable[[], Awaitable[list[dict[str, str]]]]:
    """A link in the menu of a database that has an index."""

    async def links() -> list[dict[str, str]]:
        if not await has_indexes(datasette.get_database(database)):
            return []
        return [{"href": datasette.urls.path("/-/neardup"), "label": "Near-duplicates"}]

    return links
