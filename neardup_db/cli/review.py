"""Commands for human review and for systems that follow an index: dismiss, undismiss, allow, disallow, changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from ..index import Index
from .options import index_command, key_type_option, open_index, parse_key
from .output import count_text, emit_result, escaped, print_note
from .wording import renaming_arguments


@index_command()
@click.argument("keys", metavar="[KEY [KEY]]", nargs=-1)
@click.option("--list", "listing", is_flag=True, help="Print the dismissed pairs instead.")
@key_type_option
def dismiss(index_path: Path, keys: tuple[str, ...], listing: bool, name: str, key_type: str, as_json: bool) -> int:
    """Declare that documents are not duplicates.

    Two KEYs: the pair is no longer a match, and its cluster is split unless other documents connect the two. One KEY: the same
    for every pair of the document with a matching one. Dismissals survive a rebuild, and end when one of the two is deleted or
    replaced. Exit code 1 if nothing changed, or no pair is listed.

    \b
    neardup dismiss articles.db a1 a2
    neardup dismiss articles.db a1
    neardup dismiss articles.db --list
    """
    if not listing:
        return _decide(Index.dismiss, index_path, keys, name, key_type, as_json, ("dismissed", "were dismissed already"))
    if keys:
        raise click.UsageError("--list cannot be combined with KEYs")
    found = 1
    with open_index(index_path, name) as index:
        for a, b in index.dismissed():
            found = 0
            emit_result({"key_a": a, "key_b": b}, f"{escaped(a)}\t{escaped(b)}", as_json=as_json)
    return found


@index_command()
@click.argument("keys", metavar="KEY [KEY]", nargs=-1)
@key_type_option
def undismiss(index_path: Path, keys: tuple[str, ...], name: str, key_type: str, as_json: bool) -> int:
    """Withdraw a dismissal.

    Two KEYs: the dismissal of their pair. One KEY: all dismissals of the document. Exit code 1 if there was none.

    \b
    neardup undismiss articles.db a1 a2
    neardup undismiss articles.db a1
    """
    return _decide(Index.undismiss, index_path, keys, name, key_type, as_json, ("no longer dismissed", "were not dismissed"))


def _decide(
    decide: Callable[..., int],
    index_path: Path,
    keys: tuple[str, ...],
    name: str,
    key_type: str,
    as_json: bool,
    told: tuple[str, str],
) -> int:
    if len(keys) not in (1, 2):
        raise click.UsageError("Give two KEYs, or the KEY of one document")
    parsed = [parse_key(key, key_type) for key in keys]
    with open_index(index_path, name, write=True) as index, renaming_arguments(key_a="the first KEY", key_b="the second KEY"):
        done = decide(index, *parsed)
    outcome = f"{count_text(done, 'pair')} {told[0]}" if len(keys) == 1 else told[0] if done else told[1]
    value = {**dict(zip(("key_a", "key_b"), parsed, strict=False)), "changed": done}
    emit_result(value, f"{' and '.join(map(escaped, parsed))}: {outcome}", as_json=as_json)
    return 0 if done else 1


@index_command()
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--key", metavar="KEY", help="Allow the text of this document.")
@click.option("--note", metavar="TEXT", help="A note for the list.")
@click.option("--list", "listing", is_flag=True, help="Print the allowed texts instead.")
@key_type_option
def allow(
    index_path: Path, text: str | None, key: str | None, note: str | None, listing: bool, name: str, key_type: str, as_json: bool
) -> int:
    """Exempt texts like TEXT from matching.

    Use it for greetings, footers and automatic replies. Stored documents like TEXT leave their clusters, and new ones are stored
    without a match. INDEX stores the fingerprint of TEXT, and TEXT itself only if it stores texts. The list has number, time,
    note and text. Exit code 1 if the list is empty.

    \b
    neardup allow chat.db "Thanks for your message, we will reply within 24 hours"
    neardup allow chat.db --key a1 --note "automatic reply"
    neardup allow chat.db --list
    """
    if listing:
        if text is not None or key is not None or note is not None:
            raise click.UsageError("--list cannot be combined with TEXT, --key or --note")
        return _list_allowed(index_path, name, as_json)
    chosen = _text_or_key(text, key, key_type)
    with open_index(index_path, name, write=True) as index, renaming_arguments(text="TEXT", key="--key", note="--note"):
        count = index.allow(**chosen, note=note)
    line = f"allowed: {count_text(count, 'stored document')} now {'matches' if count == 1 else 'match'} nothing"
    emit_result({"documents": count}, line, as_json=as_json)
    return 0


@index_command()
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--key", metavar="KEY", help="Use the text of this document.")
@click.option("--id", "number", type=int, metavar="NUMBER", help="Withdraw the text with this number in neardup allow --list.")
@key_type_option
def disallow(
    index_path: Path, text: str | None, key: str | None, number: int | None, name: str, key_type: str, as_json: bool
) -> int:
    """Withdraw the allowed texts that are like TEXT.

    Stored documents match again unless they are like another allowed text. Exit code 1 if there was no such allowed text.

    \b
    neardup disallow chat.db "Thanks for your message, we will reply within 24 hours"
    neardup disallow chat.db --id 3
    """
    if number is not None and (text is not None or key is not None):
        raise click.UsageError("Give one of TEXT, --key and --id")
    chosen = {"id": number} if number is not None else _text_or_key(text, key, key_type)
    with open_index(index_path, name, write=True) as index, renaming_arguments(text="TEXT", key="--key", id="--id"):
        count = index.disallow(**chosen)
    emit_result({"texts": count}, f"{count_text(count, 'allowed text')} withdrawn", as_json=as_json)
    return 0 if count else 1


def _text_or_key(text: str | None, key: str | None, key_type: str) -> dict[str, Any]:
    if (text is None) == (key is None):
        raise click.UsageError("Give either TEXT or --key")
    return {"text": text} if key is None else {"key": parse_key(key, key_type)}


def _list_allowed(index_path: Path, name: str, as_json: bool) -> int:
    with open_index(index_path, name) as index:
        texts = index.allowed()
    for one in texts:
        moment = datetime.fromtimestamp(one.allowed_at, timezone.utc).isoformat(" ", "seconds")
        line = f"{one.id}\t{moment}\t{escaped(one.note or '')}\t{escaped(one.text or '')}"
        emit_result(one, line, as_json=as_json)
    return 0 if texts else 1


@index_command()
@click.option("--since", metavar="TOKEN", help="The token of an earlier call; without it all documents are printed.")
@click.option("--forget", is_flag=True, help="Stop recording changes, instead of printing them.")
def changes(index_path: Path, since: str | None, forget: bool, name: str, as_json: bool) -> int:
    """Print the changes of INDEX since a token.

    Prints the removed and the added documents, the documents with an added, changed or removed code, and their cluster numbers.
    The last line is the token for the next call. The first call makes INDEX record changes. Exit code 1 if nothing changed.

    \b
    neardup changes articles.db
    neardup changes articles.db --since 41f0c6e2a9d37b58-12-340
    """
    if forget and since is not None:
        raise click.UsageError("--forget cannot be combined with --since")
    with open_index(index_path, name, write=since is None) as index:
        if forget:
            done = index.forget_changes()
            print_note("changes are no longer recorded" if done else "no changes were recorded")
            return 0 if done else 1
        found, more = 1, True
        while more:
            with renaming_arguments(since="--since"):
                page = index.changes(since)
            since, more = page.token, page.more
            for what, rows in _review_groups(page):
                for row in rows:
                    found = 0
                    line = "\t".join([what, *("none" if value is None else escaped(value) for value in row.values())])
                    emit_result({"change": what, **row}, line, as_json=as_json)
    emit_result({"change": "token", "token": since}, f"token\t{since}", as_json=as_json)
    return found


def _review_groups(page: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    return [
        ("removed", [{"key": key} for key in page.removed]),
        ("added", [{"key": key} for key in page.added]),
        ("codes", [{"key": key} for key in page.codes]),
        ("cluster", [{"key": key, "cluster": cluster} for key, cluster in page.clusters]),
    ]
