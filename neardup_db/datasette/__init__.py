"""A Datasette plugin: pages that show every near-duplicate index of every attached database.

Found by its entry point once `neardup-db[datasette]` is installed. `/-/neardup` lists the indexes; a page of each shows its
figures, charts, clusters by size and a search box, and a page of each cluster its documents with what differs. Everything is read
through Datasette's own connections (`foreign`), under Datasette's own permissions. Settings, in Datasette's configuration:

    {"plugins": {"neardup-db": {"load_extension": false, "time_limit_s": 10}}}

load_extension: whether to load the SQLite extension where that can be done (it is, unless said otherwise); time_limit_s: how long
the statements of one page may take.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from datasette import hookimpl

from .foreign import prepare
from .views import PLUGIN, ROUTES, has_indexes


@hookimpl
def prepare_connection(conn: Any, database: str, datasette: Any) -> None:
    """Give a connection our SQL functions."""
    if database != "_internal":
        prepare(conn, (datasette.plugin_config(PLUGIN) or {}).get("load_extension", True))


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
