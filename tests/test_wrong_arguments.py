"""Every argument of every public call is checked: a wrong value is a ParameterError that names it and says what to give.

`ARGUMENTS` has the wrong values of arguments that mean the same in every call, `CALLS` those of one call. A new call or argument
without rows fails. Wrong records and tables have their own tests beside `add_many`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from cases import one_test
from support import SETS, WORDS
from wrong_compute import COMPUTE_CALLS, SIGNATURES
from wrong_values import (
    ANYTHING,
    ARGUMENTS,
    EXPIRY,
    FLAG,
    FRACTION,
    FUNCTION,
    GROUP,
    KEY,
    LEFT_OUT,
    MANY,
    METADATA,
    NAME,
    OPTIONAL_KEY,
    PART,
    TEXT,
    TTL,
    Wrong,
    choice,
    codes,
    given,
    inside,
    integer,
    told,
    wrong,
)

import neardup_db
from neardup_db import (
    ANY_GROUP,
    BinaryCode,
    BitSampling,
    BottomK,
    Index,
    MinHash,
    ParameterError,
    Passages,
    SimHash,
    compute,
    frames,
)
from neardup_db.schemes import SCHEMES

# ---- arguments of one call ---------------------------------------------------------------------------------------------------

RULES = wrong("give a TextRules, e.g. TextRules.words", "words", MinHash())
COLUMN = wrong("^key=.*, text=.*: the fields of records are named together: say which hold the keys and the texts", "x", 5)
OTHER_KEY = OPTIONAL_KEY + wrong("is key_a too", "k")
CODE_BOUNDS = {
    "max_distance": wrong("give an integer from 0 to 4096", -1, 1.5, True) + wrong("is above 3, the one that the index was", 4),
    "threshold": FRACTION + wrong("is below 0.953125", 0.9),
}
BOUNDS = {
    "max_distance": wrong("MinHash has no distance; use threshold", 3, -1),
    "threshold": FRACTION + wrong("is below 0.5", 0.4),
}
PAIR = {"key_a": inside("key", KEY), "key_b": inside("key", KEY)}
TEXT_OF = inside("text", given(TEXT))
NO_TOKEN = ["", "-1\n", "-1-1-1"]
ENDS = [{"expires_at": 1_900_000_000, "ttl": 5}, {"expires_at": None, "ttl": 5}, {"ttl": None}]


def changes(name: str, rows: list[Wrong]) -> list[Wrong]:
    """Rows of a keyword argument of `update`."""
    return [Wrong(LEFT_OUT, told(name, row), {name: row.value}) for row in rows if not row.more]


INDEX = {
    "Index": {"text": RULES},
    "add": {"group": GROUP, "limit": integer(0) + wrong("give an integer", None)},
    "add_code": {"group": GROUP, "limit": integer(0) + wrong("give an integer", None)},
    "add_code_if_new": {"group": GROUP, "limit": integer(1)},
    "add_codes": {
        "keys": MANY + wrong("^2 keys for 3 codes: give one key for each code", [1, 2]),
        "codes": codes("record 2: code") + wrong("^3 keys for 2 codes: give one key for each code", [1, 2]),
        "group": inside("record 0: group", GROUP, lambda value: [value] * 3),
        "expires_at": inside("record 0: expires_at", EXPIRY, lambda value: [value] * 3),
        "ttl": inside("record 0: ttl", TTL, lambda value: [value] * 3),
        "part": inside("record 0: part", PART, lambda value: [value] * 3),
        "metadata": wrong("^record 0: metadata cannot be written as JSON", *([row.value] * 3 for row in METADATA)),
        "only_new": wrong("^only_new=True does not go with part=.*add_code_if_new", True, part=["a"] * 3),
    },
    "add_if_new": {"group": GROUP, "limit": integer(1)},
    "add_many": {
        "records": wrong(r"is of type .*: give pairs \(key, text\), mappings, or a table", "posts.parquet", b"ab", 5, None),
        "key": COLUMN,
        "text": COLUMN,
        "group": COLUMN,
        "metadata": COLUMN + wrong("give a list of the names", "x", key="a", text="b"),
    },
    "allow": {
        "text": given(TEXT)
        + wrong("^give either a text or the key=", LEFT_OUT)
        + wrong("^give either a text or the key=", "some words", key="k")
        + wrong("^the text has no shingle, and so it matches nothing anyway: give a text with words", ""),
        "key": OPTIONAL_KEY,
        "note": wrong("give text, or leave note= out", 1, text="some words"),
    },
    "changes": {
        "since": wrong(
            "give the token of an earlier call of changes", "", "x", 5, b"", *("0123456789abcdef-1" + one for one in NO_TOKEN)
        ),
        "limit": integer(1),
    },
    "count": BOUNDS,
    "count_code": CODE_BOUNDS,
    "delete": {"part": PART + wrong("only an index of BinaryCode keeps several codes under a key", "a")},
    "delete_group": {"name": inside("group", given(GROUP))},
    "disallow": {
        "text": given(TEXT) + wrong("^give either a text or the key=", LEFT_OUT),
        "key": OPTIONAL_KEY,
        "id": integer(0) + wrong("does not go with text= or key=: give one of the three", 1, key="k"),
    },
    "dismiss": {"key_b": OTHER_KEY},
    "explain": {"group": GROUP, "threshold": BOUNDS["threshold"]},
    "explain_match": {
        **PAIR,
        "text_a": TEXT_OF + wrong("^text_a is not the text of 'k'", "other words"),
        "text_b": TEXT_OF + wrong("^text_b is not the text of 'other'", "other words"),
    },
    "follow": {
        "table": NAME + wrong("the database that holds the index has no table", "t"),
        "key": NAME,
        "text": NAME,
        "group": given(NAME),
    },
    "import_fingerprints": {
        "paths": wrong("is of type .*: give a list", 5, None)
        + wrong("give the path of a Parquet file", [])
        + wrong("^paths has 5", [5])
        + wrong("^'.*none' is no file: give the path", "none")
    },
    "matches": {
        "group": wrong("give ANY_GROUP, or None for the group of the document", "g", 1.5),
        "threshold": BOUNDS["threshold"],
    },
    "pairs": {"threshold": BOUNDS["threshold"]},
    "pairs_with": {"threshold": BOUNDS["threshold"]},
    "passages": {"key": OPTIONAL_KEY, "group": GROUP},
    "passages_of": PAIR,
    "query": {
        "max_distance": BOUNDS["max_distance"] + wrong("containment has no distance", 3, measure="containment"),
        "threshold": BOUNDS["threshold"] + wrong("give a number above 0 and at most 1", 0, 1.5, True, measure="containment"),
        "group": OPTIONAL_KEY + wrong(".*one group", ANY_GROUP, measure="containment"),
    },
    "query_code": CODE_BOUNDS,
    "query_codes": CODE_BOUNDS,
    "query_many": {"text": wrong("names a column of a data frame, and texts is none: leave text= out", "body", 5), **BOUNDS},
    "rebuild": {"text": RULES},
    "sync": {"limit": integer(1)},
    "undismiss": {"key_b": OTHER_KEY},
    "update": {
        "changes": wrong("^nothing to update: give metadata=, expires_at= or ttl=", LEFT_OUT)
        + wrong("^'text' cannot be updated: give metadata=, .*if_exists='replace'", LEFT_OUT, text="x")
        + changes("expires_at", EXPIRY)
        + changes("ttl", TTL)
        + changes("metadata", METADATA)
        + [Wrong(LEFT_OUT, "^ttl=.*: give a time, and no expires_at=; expires_at=None clears the expiry", both) for both in ENDS]
    },
}

BITS = wrong(r"give an integer from 8 to 4096 \(a multiple of 8\)", 0, 4104, "64") + wrong("give a multiple of 8, e.g. ", 12)
DISTANCE = wrong("give an integer from 0 to", -1, 4096, 1.5)
SCHEME_CALLS = {
    "SimHash": {
        "bits": BITS,
        "max_distance": DISTANCE + wrong("give an integer from 0 to 63", 64, bits=64),
        "blocks": wrong("give more than max_distance=3, e.g. 5", 3)
        + wrong("give an integer from 1 to 64", 0)
        + wrong("^blocks is 30; with max_distance 20 that would need more than 4096 tables", 30, bits=64, max_distance=20),
    },
    "MinHash": {
        "num_perm": ARGUMENTS["num_perm"] + wrong("^num_perm=an integer of 16,610 bits: give", 10**5000),
        "threshold": FRACTION + wrong(r"^recall=0\.99 cannot be reached at threshold=0\.01", 0.01),
        "bands": wrong("give an integer from 1 to 65536", 0)
        + wrong("of rows=10 take 200 slots, but num_perm=128: raise num_perm, or give rows=6", 20, rows=10)
        + wrong("of rows=60 find a pair .*, below recall=0.9: leave bands and rows out", 2, rows=60, recall=0.9),
        "rows": wrong("give an integer from 1 to 65536", 0, bands=1),
        "exact": FLAG,
    },
    "BottomK": {
        "k": wrong("give an integer from 1 to 65536", 0, 65537, 1.5),
        "measure": choice("give 'fingerprint' or 'estimate'"),
        "containment": FLAG,
    },
    "BitSampling": {
        "bits": BITS,
        "max_distance": DISTANCE,
        "chunks": wrong("give an integer from 4 to 256", 3) + wrong("give an integer from 1 to 256", 0, 257),
    },
    "BinaryCode": {"bits": BITS, "max_distance": DISTANCE},
    "Passages": {"shortest": integer(3, r"1000 \(tokens in the shortest passage\)")},
    "TextRules": {
        "normalize": choice("give None, 'NFC' or 'NFKC'"),
        "case": choice("give None, 'lower' or 'fold'"),
        "tokens": choice("give 'words', 'chars' or a callable"),
        "shingle": wrong(r"give an integer from 1 to 1000 \(consecutive tokens in a shingle\)", 0, 1001, 2.0, True),
        "joiner": wrong("give a str, or None", b" ", 5) + wrong("has a lone surrogate, which a file cannot hold", "\ud800"),
        "nonword": choice("give 'space', 'keep' or 'drop'"),
        "short": choice("give 'whole' or 'drop'"),
        "stopwords": wrong(r"give a list of words \(str\)", "the") + wrong("^stopwords has 1: give a list", [1]),
        "filter": FUNCTION,
        "strip_accents": FLAG,
        "hash": choice("give 'xxh3_64', .*'sha256' or a callable"),
        "hash_seed": ARGUMENTS["seed"] + wrong("goes with hash='xxh3_64' only, not 'md5': leave it out", 1, hash="md5"),
        "min_tokens": wrong("give an integer from 0 to 1000000 ", -1, 1_000_001, 2.0),
    },
    "fingerprints": {
        "texts": wrong(r"give a list of texts, or an Arrow array; fingerprint\(text\) takes one", "one", b"one", 5, None)
        + wrong(r"^texts\[1\]=.* is of type \w+: give str", ["a", None], ["a", 1.5], ["a", ["b"]])
        + wrong(r"^texts\[3000\]=5 is of type int: give str", ["x"] * 3000 + [5])
    },
}

TUNE_CALL = {
    "texts": wrong("is of type .*: give a list", "some text", 5)
    + wrong("^[01] texts with a word: give two or more", [], ["one", "!"])
    + wrong(r"^text 1: text=5 is of type int", ["a", 5])
    + wrong(r"^text 1: \('k', 'b', 'c'\): give a text, or a pair", ["a", ("k", "b", "c")])
    + wrong("^text 1: key=None is of type", [("a", "b"), (None, "c")]),
    "sample": integer(2),
    "truth": wrong("is of type str: give pairs of keys", "ab")
    + wrong(r"^truth has \(0, 1, 2\)", [(0, 1, 2)])
    + wrong("^truth: none of 1 pairs is among the texts", [("x", "y")]),
}

FRAME = polars.DataFrame({"id": [1, 2], "body": ["a b c", "a b d"], "place": [1, 2]})
PANDAS = FRAME.to_pandas()
NO_FRAME = [
    *wrong(
        "^.* is of type (list|Series): give (an Index, or )?a data frame of pandas, polars, pyarrow or DuckDB", [1], FRAME["body"]
    ),
    *wrong("^.*cannot be exported to Arrow", pandas.DataFrame({"body": ["a", 1]})),
    *wrong("^.*columns of one name: .*'id'", FRAME.to_arrow().append_column("id", FRAME.to_arrow()["id"])),
    *wrong("^.*columns of one name: .*'body'", PANDAS.rename(columns={"id": "body"})),
]
NO_COLUMN = wrong("is no column of (frame|source), which has 'id', 'body', 'place'", "x")
ANY_FRAME = {
    "frame": NO_FRAME,
    "source": NO_FRAME,
    "text": NO_COLUMN
    + wrong("is of type int: give the name of a column", 0)
    + wrong("is a column of int64: give one of strings", "place"),
    "threshold": FRACTION + wrong("goes without a scheme", 0.5, scheme=SETS),
    "keep": choice("give 'first', 'last' or 'longest'"),
    "order_by": NO_COLUMN
    + wrong("is of type int: give a list", 5)
    + wrong("has values that", "x", frame=PANDAS.assign(x=[[1]] * 2)),
    "group": NO_COLUMN,
    "key": NO_COLUMN,
    "connected": ANYTHING,
    "scheme": wrong("give a scheme", "MinHash") + wrong("^.*takes codes: give one that takes texts", BinaryCode()),
    "rules": wrong("give a TextRules", "words"),
    "backend": wrong("give None, 'pandas', 'polars' or 'pyarrow'", "numpy", 5),
    "against": wrong("^text='body' is no column of against", FRAME.drop("body"))
    + wrong("^against is of type int: give an Index, or a data frame", 5),
}
LISTS = {"text": ANY_FRAME["text"][:1] + wrong("^.*name the column of texts, as in (pairs|clusters)_frame", LEFT_OUT, text=None)}
FRAME_CALLS = {
    "drop_near_duplicates": ANY_FRAME,
    "mark_near_duplicates": ANY_FRAME,
    "pairs_frame": ANY_FRAME | LISTS,
    "clusters_frame": ANY_FRAME | LISTS,
}

# ---- all calls ---------------------------------------------------------------------------------------------------------------

SIMILARITIES = {"MinHash": MinHash(), "BottomK": BottomK(k=2), "SimHash": SimHash(64)}
NO_SIGNATURE = wrong(r"^[ab] is .*: give uint16\[128\], a fingerprint of this scheme", np.zeros(64, np.uint16), -1, 1.5)
NO_SIGNATURE += wrong(r"is a text, not a fingerprint: give scheme.fingerprint\(text\)", "some text", b"some text")
NO_HASHES = [np.array(one, np.uint64) for one in ([2, 1], [1, 1], [1, 2, 3])]
NO_SET = [
    *wrong(r"^[ab] is .*: give uint64\[n\] or uint32\[n\]", np.zeros(64, np.uint16), np.array([1.0]), -1, 1.5),
    *wrong("^[ab] is no fingerprint: give at most k=2 distinct hashes in ascending order", *NO_HASHES),
    *wrong(r"is a text, not a fingerprint: give scheme.fingerprint\(text\)", "some text"),
]
NO_CODE = [row for row in given(ARGUMENTS["code"]) if not row.says.startswith("^")]
OTHER_CALLS = {
    "load": {"connection": wrong("give one of apsw, sqlite3 or pysqlite3", 5, None)},
    "tune": TUNE_CALL,
    "MinHash.similarity": {"a": NO_SIGNATURE, "b": NO_SIGNATURE},
    "BottomK.similarity": {"a": NO_SET, "b": NO_SET},
    "SimHash.similarity": {"a": NO_CODE, "b": NO_CODE},
}

CALLS: dict[str, dict[str, list[Wrong]]] = {**INDEX, **SCHEME_CALLS, **COMPUTE_CALLS, **FRAME_CALLS, **OTHER_CALLS}
METHODS = {name: getattr(Index, name) for name in dir(Index) if callable(getattr(Index, name)) and not name.startswith("_")}
PUBLIC: dict[str, Callable[..., Any]] = {
    **METHODS,
    "__contains__": Index.__contains__,
    **{name: call for name, call in inspect.getmembers(compute, inspect.isfunction) if name in compute.__all__},
    **{name: call for name, call in vars(frames).items() if name.endswith(("_frame", "_near_duplicates"))},
    **{name: getattr(neardup_db, name) for name in ("Index", "TextRules", "load", "tune")},
    **{scheme.__name__: scheme for scheme in SCHEMES.values()},
    "fingerprint": MinHash().fingerprint,
    "fingerprints": MinHash().fingerprints,
    **{f"{name}.similarity": scheme.similarity for name, scheme in SIMILARITIES.items()},
}
"""Every call that takes arguments, by its name: those of an index are methods."""

VALID: dict[str, Any] = {
    "a": [1], "b": [1], "bands": 2, "bits": 64, "blocks": 4, "chunk": "010", "chunks": 2, "code": 1, "codes": [1], "connection":
    None, "data": b"", "distance": 2, "fingerprints": [[1]], "frame": FRAME, "hashes": [1], "k": 1, "key": "k", "key_a": "k",
    "key_b": "other", "keys": ["new"], "max_distance": 3, "n": 1, "name": "g", "num_perm": 128, "radius": 1, "recall": 0.9,
    "records": [("new", "some words")], "rows": 2, "scheme": MinHash(), "signature": [0] * 8, "similarity": 0.5, "source":
    FRAME, "table": "t", "target": ":memory:", "text": "a b c", "texts": ["some words", "some other words"], "threshold": 0.8,
    "wanted": "some words", "weight": len, "window": None,
}  # fmt: skip
"""A value for each argument that has to be given."""

VALID_OF: dict[str, dict[str, Any]] = {
    "band_buckets": {"fingerprints": SIGNATURES},
    "hamming_distance": {"a": bytes(8), "b": bytes(8)},
    "neighbours": {"bits": 3},
    "permute": {"table": compute.block_tables(64, 4, 2)[-1]},
    "split_chunks": {"code": "01"},
    "MinHash.similarity": {"a": SIGNATURES[0], "b": SIGNATURES[0]},
    "BottomK.similarity": {"a": np.array([1], np.uint64), "b": np.array([1], np.uint64)},
    "SimHash.similarity": {"a": 0, "b": 0},
    **{name: {"key": "new"} for name in ("add", "add_if_new", "add_code", "add_code_if_new")},
    **{name: {"text": "body"} for name in FRAME_CALLS},
    "update": {"metadata": 1},
    "add_codes": {"keys": range(3), "codes": range(3)},
}


def arguments_of(call: str) -> dict[str, inspect.Parameter]:
    """The parameters of a call by name."""
    found = inspect.signature(PUBLIC[call]).parameters
    return {name: one for name, one in found.items() if name not in ("self", "changes") or call == "update" and name == "changes"}


def needed_by(call: str, values: dict[str, Any]) -> dict[str, Any]:
    """Right values of the arguments that a call cannot do without."""
    empty = inspect.Parameter.empty
    needed = {name: values[name] for name, one in arguments_of(call).items() if one.default is empty and name != "changes"}
    return needed | VALID_OF.get(call, {})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Index], dict[str, Any]]]:
    """An index of texts, one of codes and one of passages, with two documents each; right values of all arguments."""
    path = tmp_path_factory.mktemp("wrong") / "some.parquet"
    with (
        Index(":memory:", SETS, text=WORDS) as texts,
        Index(":memory:", BinaryCode(64, 3)) as codes,
        Index(":memory:", Passages(shortest=3)) as passages,
        Index(":memory:", SETS, text=WORDS) as other,
    ):
        texts.add_many([("k", "some words"), ("other", "some more words")])
        codes.add_codes(["k", "other"], [0, 1])
        passages.add_many([("k", "some words and many more of them"), ("other", "some words and many more words")])
        other.add("another", "some words")
        other.export_fingerprints(path)
        values = VALID | {"other": other, "paths": path, "path": path.with_name("new")}
        yield {"texts": texts, "codes": codes, "passages": passages}, values


@one_test(("call", "argument"), [(call, argument) for call in PUBLIC for argument in arguments_of(call)])
def test_a_wrong_argument_is_named_with_the_remedy(made: Any, call: str, argument: str) -> None:
    """Every wrong value is refused by the name of the argument, with the value and what to give, before anything is written."""
    rows = CALLS.get(call, {}).get(argument, ARGUMENTS.get(argument))
    assert rows is not None, f"{call}({argument}=): add wrong values to CALLS, or to ARGUMENTS"
    indexes, values = made
    index = indexes["codes" if "code" in call else "passages" if "passages" in call else "texts"]
    of_index = [index] if call in METHODS or call == "__contains__" else []
    needed = needed_by(call, values)
    if argument == "changes":
        del needed["metadata"]
    for row in rows:
        given = needed | row.more | ({} if row.value is LEFT_OUT else {argument: row.value})
        try:
            PUBLIC[call](*of_index, **given)
        except ParameterError as error:
            assert re.search(told(argument, row), str(error), re.DOTALL), f"{call}({argument}={row.value!r}): {error}"
        else:
            pytest.fail(f"{call}({argument}={row.value!r}) is taken")
    assert list(index) == ["k", "other"] and index.check().ok


def test_rows_are_of_arguments_that_there_are() -> None:
    """No call and no argument of the table has another name by now."""
    assert set(CALLS) <= set(PUBLIC)
    named = {argument for call in PUBLIC for argument in arguments_of(call)}
    assert set(ARGUMENTS) <= named
    for call in set(CALLS) - set(FRAME_CALLS):
        assert set(CALLS[call]) <= set(arguments_of(call)), call


def takes(*names: str) -> list[str]:
    """The methods that need an argument of one of these names."""
    return [call for call in METHODS if any(name in arguments_of(call) for name in names)]


NEEDS_TEXT = [
    call for call in takes("texts", "records", "text") if call not in ("rebuild", "allow", "disallow", "follow", "passages")
]


@one_test(
    ("call", "scheme", "says"),
    [
        *((call, scheme, "takes texts, not codes") for call in takes("code", "codes") for scheme in (MinHash(), BottomK())),
        *((call, BinaryCode(64, 3), "add_code and query_code") for call in NEEDS_TEXT),
        *((call, MinHash(), r"make an index with Passages\(\)") for call in ("passages", "passages_of", "common_passages")),
        *((call, scheme, "measure='containment'.*containment") for call in takes("measure")
          for scheme in (MinHash(), BottomK(), SimHash(), BitSampling())),
        ("nearest", MinHash(), r"MinHash\(exact=True\) or BottomK\(\)"),
    ],
)  # fmt: skip
def test_a_scheme_that_cannot_serve_a_call_is_named(call: str, scheme: Any, says: str) -> None:
    """Codes for an index of texts, texts for one of codes, passages and containment for others: the error says what can."""
    with Index(":memory:", scheme) as index:
        index.add_code("k", 0) if scheme.name == "binarycode" else index.add("k", "some words and some more")
        measure = {"measure": "containment"} if "containment" in says else {}
        with pytest.raises(ParameterError, match=says):
            getattr(index, call)(**needed_by(call, VALID), **measure)
        assert list(index) == ["k"]
