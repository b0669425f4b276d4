"""The addresses of the pages, the permissions that they need, and the pages for errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qs, parse_qsl

from datasette import Forbidden, Response
from datasette.utils import actor_matches_allow, tilde_decode, tilde_encode
from markupsafe import Markup

from ..errors import NearDupError, ParameterError
from ..values import Key
from . import contents, deciding
from .foreign import ForeignDatabase, index_names
from .policy import HEADERS, STYLE

PLUGIN = "neardup-db"
"""The name of our settings in Datasette's configuration."""

TIME_LIMIT_S = 10.0
"""Seconds that the statements of one page may take, unless the configuration says otherwise."""

MOST_BYTES = 16 << 20
"""The largest form that is read."""

LONGEST_FORM = 10_000
"""Bytes of the form of a button, at most."""

TABLES = ("setting", "document", "fingerprint", "match", "group")
"""The pages show these tables: a visitor who may not see one of them may see no page."""


class Place(NamedTuple):
    """An index that a page is about. database: its name in Datasette; address: of the page of the index."""

    database: str
    name: str
    address: str


async def has_indexes(db: Any) -> bool:
    """Whether a database holds an index."""
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
    count = _number(request.args.get("clusters"), contents.CLUSTERS, contents.MOST_CLUSTERS)
    done, write = _last_action(request), _writes(datasette, request)
    return await _page(
        datasette,
        request,
        "neardup_index.html",
        lambda db, name: {**contents.overview(db, name, count), "notice": contents.notice(db, name, *done), "write": write},
    )


async def cluster_page(datasette: Any, request: Any) -> Any:
    """One cluster: its documents, and how each differs from the earliest one or from the chosen one."""
    cluster = int(request.url_vars["cluster"])
    first = _number(request.args.get("from"), 0, contents.MAX_NUMBER)
    beside = _number(request.args.get("beside"), 0, contents.MAX_NUMBER)
    done, write = _last_action(request), _writes(datasette, request)
    return await _page(
        datasette,
        request,
        "neardup_cluster.html",
        lambda db, name: {
            **contents.cluster(db, name, cluster, first, beside, write),
            "notice": contents.notice(db, name, *done),
        },
    )


def _last_action(request: Any) -> tuple[str, int]:
    """What a button did just now, and to which document."""
    return request.args.get("done") or "", _number(request.args.get("document"), 0, contents.MAX_NUMBER)


def _writes(datasette: Any, request: Any) -> bool:
    db = _database(datasette, request)
    return db is not None and may_write(datasette, request, db)


async def search_page(datasette: Any, request: Any) -> Any:
    """The near-duplicates of a text or code that was sent; for a GET request the empty form."""
    if request.method != "POST":
        return await _page(datasette, request, "neardup_search.html", lambda db, name: contents.search(db, name, None))
    body = await _body(request, MOST_BYTES)
    if body is None:
        problem = f"The form is larger than {MOST_BYTES >> 20} MB: search for such a text with neardup query."
        return await _problem(datasette, request, "Too large", problem, 413)
    sent = {name: values[0] for name, values in parse_qs(body, errors="replace").items()}
    return await _page(datasette, request, "neardup_search.html", lambda db, name: contents.search(db, name, sent))


async def _body(request: Any, most: int) -> str | None:
    """What was sent; None where it is longer, whatever its headers say."""
    body, more = bytearray(), True
    while more and len(body) <= most:
        message = await request.receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body.decode("utf-8", "replace") if len(body) <= most else None


async def unknown_page(datasette: Any, request: Any) -> Any:
    """Of every other address below the list of indexes."""
    return await _problem(datasette, request, "Not found", "There is no page at this address.", 404)


async def decide_page(datasette: Any, request: Any) -> Any:
    """A decision on one or two documents or an allowed text, sent by a button; then the page of the cluster again. Where writing
    is not allowed, or the form is not of one of these pages, nothing is done."""
    db, index = _database(datasette, request), request.url_vars["index"]
    if db is None or not await _is_visible(datasette, request, db.name, index) or not may_write(datasette, request, db):
        raise Forbidden("This site only reads the index")
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.scope["headers"]}
    if request.method != "POST" or not deciding.is_own_page(headers):
        raise Forbidden("Only a button of these pages writes")
    body = await _body(request, LONGEST_FORM)
    if body is None:
        raise Forbidden("The form is longer than those of these pages")
    sent = dict(parse_qsl(body, keep_blank_values=True, errors="replace"))
    place = place_of(datasette, db.name, index)
    say = sent.get("say", "dismiss")
    if say not in deciding.COMMANDS:
        raise Forbidden("Only a button of these pages writes")
    try:
        keys = await db.execute_fn(lambda connection: _keys(connection, db.name, index, say, sent))
        await deciding.decide(say, db.path, index, keys)
        label = await db.execute_fn(lambda connection: contents.shown_cluster(ForeignDatabase(connection), index, sent))
    except contents.Unknown as error:
        return await _problem(datasette, request, "Not found", str(error), 404, place)
    except ParameterError as error:
        return await _problem(datasette, request, "Wrong value", str(error), 400, place)
    except NearDupError as error:
        return await _problem(datasette, request, "This could not be written", str(error), 500, place)
    document, first = (_number(sent.get(name), 0, contents.MAX_NUMBER) for name in ("a", "from"))
    address = place.address if label is None else f"{place.address}/clusters/{label}"
    if deciding.COMMANDS[say][1] == 2:
        return Response.redirect(address if label is None else f"{address}?beside={document}", 303)
    page = f"from={first}&" if first and label is not None else ""
    return Response.redirect(f"{address}?{page}done={say}&document={document}", 303)


def _keys(connection: Any, database: str, index: str, say: str, sent: Any) -> list[Key]:
    """The keys of the documents that a button is about, or the number of an allowed text. Raises Unknown."""
    foreign = ForeignDatabase(connection)
    with foreign.reading():
        if index not in index_names(foreign):
            raise contents.Unknown(f"The database {database!r} holds no index named {index!r}.")
        count = deciding.COMMANDS[say][1]
        numbers = [_number(sent.get(name), 0, contents.MAX_NUMBER) for name in ("a", "b")]
        if count == 0:
            return [numbers[0]]
        return [contents.key_of(foreign, index, number) for number in numbers[:count]]


def may_write(datasette: Any, request: Any, db: Any) -> bool:
    """Whether the visitor may dismiss documents and allow texts. The setting `write` is an "allow" block of Datasette's; nobody
    may without it."""
    allow = (datasette.plugin_config(PLUGIN, database=db.name) or {}).get("write", False)
    return bool(db.is_mutable and db.path and actor_matches_allow(request.actor, allow))


_INDEX = r"^/-/neardup/(?P<database>[^/]+)/(?P<index>[A-Za-z][A-Za-z0-9_]{0,39})"

ROUTES: list[tuple[str, Callable[..., Any]]] = [
    (r"^/-/neardup$", indexes),
    (_INDEX + "$", index_page),
    (_INDEX + "/search$", search_page),
    (_INDEX + "/decide$", decide_page),
    (_INDEX + r"/clusters/(?P<cluster>-?[0-9]{1,19})$", cluster_page),
    (r"^/-/neardup/[^%]*[^%/]$", unknown_page),  # the others are led by Datasette to such as its own addresses
]


def _database(datasette: Any, request: Any) -> Any:
    try:
        return datasette.get_database(route=tilde_decode(request.url_vars["database"]))
    except KeyError:
        return None


async def _page(datasette: Any, request: Any, template: str, ask: Callable[[ForeignDatabase, str], dict[str, Any]]) -> Any:
    """A page about one index. `ask` gives its contents: in one transaction, in a thread of Datasette, within the time limit."""
    db = _database(datasette, request)
    if db is None:
        return await _problem(datasette, request, "Unknown database", "No database of this name is attached.", 404)
    index = request.url_vars["index"]
    if not await _is_visible(datasette, request, db.name, index):
        raise Forbidden("view-table")
    limit_s = float((datasette.plugin_config(PLUGIN, database=db.name) or {}).get("time_limit_s", TIME_LIMIT_S))

    def in_thread(connection: Any) -> dict[str, Any]:
        foreign = ForeignDatabase(connection)
        with foreign.time_limit(limit_s), foreign.reading():
            if index not in index_names(foreign):
                raise contents.Unknown(f"The database {db.name!r} holds no index named {index!r}.")
            return ask(foreign, index)

    place = place_of(datasette, db.name, index)
    try:
        context = await db.execute_fn(in_thread)
    except contents.Unknown as error:
        return await _problem(datasette, request, "Not found", str(error), 404, place)
    except ParameterError as error:
        return await _problem(datasette, request, "Wrong value", str(error), 400, place)
    except NearDupError as error:
        return await _problem(datasette, request, "This index cannot be read", str(error), 500, place)
    return await _render(datasette, request, template, {**context, "place": place}, context.get("status", 200))


async def _problem(datasette: Any, request: Any, title: str, problem: str, status: int, place: Place | None = None) -> Any:
    context = {"title": title, "problem": problem, "place": place}
    return await _render(datasette, request, "neardup_problem.html", context, status)


async def _render(datasette: Any, request: Any, template: str, context: dict[str, Any], status: int = 200) -> Any:
    shared = {"style": Markup(STYLE), "shown": contents.value_html}
    html = await datasette.render_template(template, {**shared, **context}, request=request)
    return Response.html(html, status=status, headers=HEADERS)


async def _is_visible(datasette: Any, request: Any, database: str, index: str | None = None) -> bool:
    """Whether Datasette lets the visitor see a database; with `index`, all TABLES of that index too."""
    shown = [[("view-table", (database, f"{index}_{table}"))] for table in TABLES] if index else [[]]
    for first in shown:
        permissions = [*first, ("view-database", database), "view-instance"]
        visible, _ = await datasette.check_visibility(request.actor, permissions=permissions)
        if not visible:
            return False
    return True


def place_of(datasette: Any, database: str, index: str) -> Place:
    """The place of an index in one of Datasette's databases."""
    route = tilde_encode(datasette.get_database(database).route)
    return Place(database, index, str(datasette.urls.path(f"/-/neardup/{route}/{index}")))


def _number(text: str | None, fallback: int, most: int) -> int:
    """A number from the address, at most `most`; the fallback if it is missing or no number."""
    return min(int(text), most) if text and text.isdecimal() and len(text) < 20 else fallback
