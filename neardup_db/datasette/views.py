"""The addresses of the pages: who may see them, what they ask, and what becomes of an error."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from datasette import Forbidden, Response
from datasette.utils import tilde_decode, tilde_encode
from markupsafe import Markup

from ..errors import NearDupError, ParameterError
from ..show.style import CSS
from . import look
from .foreign import ForeignDatabase, index_names
from .style import PAGE_CSS

PLUGIN = "neardup-db"
"""The name under which Datasette's configuration has our settings."""

TIME_LIMIT_S = 10.0

MOST_BYTES = 16 << 20
"""Of a form that is sent to us."""

TABLES = ("setting", "document", "fingerprint", "match", "group")
"""What the pages show: whoever may not see one of these tables may not see the pages."""

STYLE = CSS + PAGE_CSS
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode("utf-8")).digest()).decode("ascii")

HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
"""No script runs on these pages, whatever a document holds, and nothing is fetched for them."""


class Place(NamedTuple):
    """An index that a page is about. database: as Datasette calls it; address: of the index's own page."""

    database: str
    name: str
    address: str


async def has_indexes(db: Any) -> bool:
    """Whether a database holds an index of ours."""
    return bool(await _names(db))


async def _names(db: Any) -> list[str]:
    found: list[str] = await db.execute_fn(lambda connection: index_names(ForeignDatabase(connection)))
    return found


async def indexes(datasette: Any, request: Any) -> Any:
    """All indexes that the visitor may see."""
    await datasette.ensure_permissions(request.actor, ["view-instance"])
    found, problems = [], []
    for name, db in datasette.databases.items():
        if name == "_internal" or not await _is_visible(datasette, request, name):
            continue
        try:
            names = await _names(db)
        except NearDupError as error:
            problems.append(f"{name}: {error}")
            continue
        found += [place_of(datasette, name, index) for index in names if await _is_visible(datasette, request, name, index)]
    return await _render(datasette, request, "neardup_indexes.html", {"places": found, "problems": problems})


async def index_page(datasette: Any, request: Any) -> Any:
    """One index: figures, search box, charts, clusters by size."""
    count = _number(request.args.get("clusters"), look.CLUSTERS, look.MOST_CLUSTERS)
    return await _page(datasette, request, "neardup_index.html", lambda db, name: look.overview(db, name, count))


async def cluster_page(datasette: Any, request: Any) -> Any:
    """One cluster: its documents, and in what each differs from the first, or from the one that was chosen."""
    cluster = int(request.url_vars["cluster"])
    first = _number(request.args.get("from"), 0, look.MAX_NUMBER)
    beside = _number(request.args.get("beside"), 0, look.MAX_NUMBER)
    return await _page(
        datasette, request, "neardup_cluster.html", lambda db, name: look.cluster(db, name, cluster, first, beside)
    )


async def search_page(datasette: Any, request: Any) -> Any:
    """The near-duplicates of a text or code that was sent; by itself, the form."""
    if request.method != "POST":
        return await _page(datasette, request, "neardup_search.html", lambda db, name: look.search(db, name, None))
    if _number(request.headers.get("content-length"), 0, look.MAX_NUMBER) > MOST_BYTES:
        problem = f"What was sent is larger than {MOST_BYTES >> 20} MB: ask for such a text with neardup query."
        return await _problem(datasette, request, "Too large", problem, 413)
    body = (await request.post_body()).decode("utf-8", "replace")
    sent = {name: values[0] for name, values in parse_qs(body, errors="replace").items()}
    return await _page(datasette, request, "neardup_search.html", lambda db, name: look.search(db, name, sent))


_INDEX = r"^/-/neardup/(?P<database>[^/]+)/(?P<index>[A-Za-z][A-Za-z0-9_]{0,39})"

ROUTES: list[tuple[str, Callable[..., Any]]] = [
    (r"^/-/neardup$", indexes),
    (_INDEX + "$", index_page),
    (_INDEX + "/search$", search_page),
    (_INDEX + r"/clusters/(?P<cluster>-?[0-9]{1,19})$", cluster_page),
]


async def _page(datasette: Any, request: Any, template: str, ask: Callable[[ForeignDatabase, str], dict[str, Any]]) -> Any:
    """A page about one index. `ask` runs in one transaction, in a thread of Datasette, within the time limit."""
    try:
        db = datasette.get_database(route=tilde_decode(request.url_vars["database"]))
    except KeyError:
        return await _problem(datasette, request, "Unknown database", "No database of this name is attached.", 404)
    index = request.url_vars["index"]
    if not await _is_visible(datasette, request, db.name, index):
        raise Forbidden("view-table")
    limit_s = float((datasette.plugin_config(PLUGIN, database=db.name) or {}).get("time_limit_s", TIME_LIMIT_S))

    def in_thread(connection: Any) -> dict[str, Any]:
        foreign = ForeignDatabase(connection)
        with foreign.time_limit(limit_s), foreign.reading():
            if index not in index_names(foreign):
                raise look.Unknown(f"The database {db.name!r} holds no index named {index!r}.")
            return ask(foreign, index)

    place = place_of(datasette, db.name, index)
    try:
        context = await db.execute_fn(in_thread)
    except look.Unknown as error:
        return await _problem(datasette, request, "Not found", str(error), 404, place)
    except ParameterError as error:
        return await _problem(datasette, request, "This cannot be asked", str(error), 400, place)
    except NearDupError as error:
        return await _problem(datasette, request, "This index cannot be read", str(error), 500, place)
    return await _render(datasette, request, template, {**context, "place": place}, context.get("status", 200))


async def _problem(datasette: Any, request: Any, title: str, problem: str, status: int, place: Place | None = None) -> Any:
    context = {"title": title, "problem": problem, "place": place}
    return await _render(datasette, request, "neardup_problem.html", context, status)


async def _render(datasette: Any, request: Any, template: str, context: dict[str, Any], status: int = 200) -> Any:
    shared = {"style": Markup(STYLE), "shown": look.shown}
    html = await datasette.render_template(template, {**shared, **context}, request=request)
    return Response.html(html, status=status, headers=HEADERS)


async def _is_visible(datasette: Any, request: Any, database: str, index: str | None = None) -> bool:
    """Whether the visitor may see a database, or all that the pages of an index in it show, by Datasette's permissions."""
    shown = [[("view-table", (database, f"{index}_{table}"))] for table in TABLES] if index else [[]]
    for first in shown:
        permissions = [*first, ("view-database", database), "view-instance"]
        visible, _ = await datasette.check_visibility(request.actor, permissions=permissions)
        if not visible:
            return False
    return True


def place_of(datasette: Any, database: str, index: str) -> Place:
    """The place of an index in a database that Datasette has."""
    route = tilde_encode(datasette.get_database(database).route)
    return Place(database, index, str(datasette.urls.path(f"/-/neardup/{route}/{index}")))


def _number(text: str | None, fallback: int, most: int) -> int:
    """A number of the address, as far as it is one."""
    return min(int(text), most) if text and text.isdecimal() and len(text) < 20 else fallback
