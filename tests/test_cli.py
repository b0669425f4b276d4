"""The command line: every command, its exit codes, its JSON, its errors."""

from __future__ import annotations

import csv
import functools
import gzip
import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner, Result

from neardup_db import Index, TextRules
from neardup_db.cli import main
from neardup_db.compute import shingles
from neardup_db.demo import documents
from neardup_db.show.theory import binomial, chances_of

ROOT = Path(__file__).parent.parent
COMMANDS = [
    "demo",
    "dedup",
    "add",
    "query",
    "delete",
    "pairs",
    "clusters",
    "stats",
    "explain",
    "report",
    "serve",
    "curve",
    "check",
    "expire",
    "rebuild",
    "sql",
]
FOX = "the quick brown fox jumps over the lazy dog and runs away into the dark wood"
RECORDS = [
    {"id": "a", "text": FOX, "lang": "en"},
    {"id": "b", "text": FOX + " again"},
    {"id": "c", "text": "an entirely different sentence about databases and their transactions"},
    {"id": "d", "text": ""},
]


def run(*arguments: object, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def good(*arguments: object, stdin: str | bytes | None = None) -> str:
    """Standard output of a command that must succeed."""
    result = run(*arguments, stdin=stdin)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return str(result.stdout)


def refused(*arguments: object, stdin: str | bytes | None = None) -> str:
    """The one sentence on standard error of a command that must fail."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("neardup: ") and result.stderr.count("\n") == 1
    assert result.stdout == ""
    return str(result.stderr)


def lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return lines(tmp_path / "in.jsonl", RECORDS)


@pytest.fixture
def index(tmp_path: Path, source: Path) -> Path:
    path = tmp_path / "index.db"
    good("add", path, source, "--exact", "--store-text", "--metadata")
    return path


# ---- the program ---------------------------------------------------------------------------------------------------------


def process(*arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, away from the sources."""
    code = "import sys; from neardup_db.cli import main; sys.argv[0] = 'neardup'; main()"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, input=stdin)


def test_the_program_runs_as_a_process(tmp_path: Path) -> None:
    """The installed entry point prints its version; an error is one sentence without a traceback."""
    assert process("--version", cwd=tmp_path).stdout.startswith("neardup 0.")
    failed = process("stats", "nowhere.db", cwd=tmp_path)
    assert failed.returncode == 2 and "Traceback" not in failed.stderr and "nowhere.db: no such file" in failed.stderr


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """`neardup ... | head` ends with exit code 0 and says nothing."""
    source = lines(tmp_path / "in.jsonl", [{"text": f"{number} " * 2000} for number in range(200)])
    code = "from neardup_db.cli import main; main()"
    command = [sys.executable, "-c", code, "dedup", str(source), "-o", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as program:
        assert program.stdout is not None and program.stderr is not None
        assert program.stdout.read(10) == b'{"text": "'
        program.stdout.close()
        assert program.stderr.read() == b""
    assert program.returncode == 0
    assert list(tmp_path.iterdir()) == [source]


def test_commands_are_those_of_the_design() -> None:
    """Every command is there, and nothing else."""
    assert list(main.commands) == COMMANDS


def test_without_a_command_the_help_is_printed() -> None:
    """`neardup` alone is no error."""
    assert good() == good("--help")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_help_stands_in_the_documentation(command: str) -> None:
    """docs/cli.md holds each --help as the program prints it, but for white space."""
    arguments = [command, "--help"] if command else ["--help"]
    printed = CliRunner().invoke(main, arguments, prog_name="neardup", terminal_width=80).stdout
    written = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert " ".join(printed.split()) in " ".join(written.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(command: str) -> None:
    """A help without an example is only half a help."""
    assert f"  neardup {command}" in good(command, "--help")


def test_bad_usage_is_one_sentence() -> None:
    """Unknown commands and options, missing arguments and two sources at once are named, with where to look."""
    assert "No such command 'nope'" in refused("nope")
    assert "query --help" in refused("query", "--nope", "x")
    assert "Missing argument 'INDEX'" in refused("query")
    assert "--file and --key" in refused("query", "x.db", "text", "--key", "a")


# ---- add -----------------------------------------------------------------------------------------------------------------


def test_add_creates_an_index_and_tells_what_it_did(tmp_path: Path, source: Path) -> None:
    """Four records, of which one has a near-duplicate before it."""
    told = json.loads(good("add", tmp_path / "i.db", source, "--json"))
    assert {name: told[name] for name in ("records", "added", "matched", "skipped")} == {
        "records": 4,
        "added": 4,
        "matched": 1,
        "skipped": 0,
    }
    with Index(tmp_path / "i.db") as made:
        assert list(made) == ["a", "b", "c", "d"]


def test_add_again_follows_if_exists(index: Path, source: Path) -> None:
    """A second run is an error unless it is told to replace or to ignore."""
    assert "'a' is already in the index" in refused("add", index, source)
    assert json.loads(good("add", index, source, "--if-exists", "ignore", "--json"))["ignored"] == 4
    assert json.loads(good("add", index, source, "--if-exists", "replace", "--json"))["replaced"] == 4


def test_add_keeps_metadata_texts_groups_and_expiry(tmp_path: Path, source: Path, index: Path) -> None:
    """The other fields are metadata; text, group and expiry are stored where asked for."""
    with Index(index) as made:
        assert made.get("a").metadata == {"lang": "en"} and made.get("a").text == FOX
    other = tmp_path / "other.db"
    good("add", other, source, "--group", "g", "--expires-in", "2h", "--key-type", "text")
    with Index(other) as made:
        document = made.get("a")
        assert (document.group, document.metadata, document.text) == ("g", None, None)
        assert document.expires_at is not None and 7190 < document.expires_at - document.added_at < 7210


def test_add_only_new_leaves_near_duplicates_out(tmp_path: Path, source: Path) -> None:
    """--only-new is add_if_new for every record in turn."""
    good("add", tmp_path / "i.db", source, "--only-new")
    with Index(tmp_path / "i.db") as made:
        assert list(made) == ["a", "c", "d"]


def test_one_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    """A broken record late in the file leaves the index empty; without the option what came before it stays."""
    source = lines(tmp_path / "in.jsonl", [{"id": str(i), "text": f"text number {i}"} for i in range(20)])
    with open(source, "a") as file:
        file.write("broken\n")
    assert "line 21: no JSON" in refused("add", tmp_path / "all.db", source, "--one-transaction", "--commit-every", "5")
    assert "line 21: no JSON" in refused("add", tmp_path / "some.db", source, "--commit-every", "5")
    with Index(tmp_path / "all.db") as made, Index(tmp_path / "some.db") as other:
        assert (len(made), len(other)) == (0, 20)


def test_add_takes_parameters_of_every_scheme(tmp_path: Path, source: Path) -> None:
    """Scheme and text rules of the command line are those of the file."""
    for scheme, options, found in (
        ("minhash", ("--threshold", 0.7, "--num-perm", 64), {"threshold": 0.7, "num_perm": 64}),
        ("simhash", ("--max-distance", 7), {"max_distance": 7}),
        ("bottomk", ("--k", 64, "--threshold", 0.6), {"k": 64, "threshold": 0.6}),
        ("bottomk", ("--containment",), {"containment": 1}),
        ("bitsampling", ("--bits", 128), {"bits": 128}),
    ):
        path = tmp_path / f"{scheme}{options[0]}.db"
        good("add", path, source, "--scheme", scheme, *options, "--tokens", "chars", "--shingle", 4, "--case", "none")
        with Index(path) as made:
            settings = made.scheme.settings()
            assert settings["scheme"] == scheme and found.items() <= settings.items()
            assert made.text_rules == TextRules.chars(shingle=4, case=None)


def test_containment_is_asked_for_with_a_measure(tmp_path: Path) -> None:
    """--measure finds the longer document, of a text and of a key; an index that cannot tell and a wrong mixture are errors."""
    words = "one two three four five six seven eight nine ten eleven twelve"
    records = [{"id": "long", "text": words}, {"id": "part", "text": "three four five six"}, {"id": "else", "text": "a b c d"}]
    source = lines(tmp_path / "in.jsonl", records)
    path, plain, codes = tmp_path / "i.db", tmp_path / "plain.db", tmp_path / "codes.db"
    good("add", path, source, "--scheme", "bottomk", "--containment")
    good("add", plain, source, "--scheme", "bottomk")
    good("add", codes, lines(tmp_path / "c.jsonl", [{"id": "a", "text": "00" * 32}]), "--scheme", "binarycode")
    assert good("query", path, "Two three four, five!", "--measure", "containment").split() == ["1.0000", "long"]
    asked = ("query", path, "two three four five six", "--measure", "containment", "--threshold", 0.6, "--json")
    told = json.loads(good(*asked))["matches"]
    assert [(match["key"], match["similarity"]) for match in told] == [("long", 1.0), ("part", 2 / 3)]
    assert good("query", path, "--key", "part", "--measure", "containment").split() == ["1.0000", "long"]
    assert "prefix_containment" in good("explain", path, "three four five six", "--measure", "containment", "--threshold", 1)
    told = refused("query", plain, "two three four five", "--measure", "containment")
    assert "--scheme bottomk --containment, or neardup rebuild --scheme bottomk --k 128 --threshold 0.5 --containment" in told
    assert "goes with texts" in refused("query", codes, "00" * 32, "--measure", "containment")
    assert "not with two KEYs" in refused("explain", path, "long", "part", "--measure", "containment")


def test_codes_come_in_as_hexadecimal(tmp_path: Path) -> None:
    """--scheme binarycode reads the text field as a code and answers queries with codes."""
    records = [{"id": 1, "text": "00" * 8}, {"id": 2, "text": "00" * 7 + "01"}, {"id": 3, "text": "ff" * 8}]
    source = lines(tmp_path / "in.jsonl", records)
    path = tmp_path / "i.db"
    good("add", path, source, "--scheme", "binarycode", "--bits", 64, "--max-distance", 3, "--key-type", "int")
    told = json.loads(good("query", path, "00" * 7 + "03", "--json"))
    assert [(match["key"], match["distance"]) for match in told["matches"]] == [(2, 1), (1, 2)]
    assert "do not go with codes" in refused("add", path, source, "--group", "g", "--key-type", "int")


def test_a_parameter_of_another_scheme_is_refused(tmp_path: Path, source: Path) -> None:
    """The message names the parameters that the scheme has, and no file is left."""
    told = refused("add", tmp_path / "i.db", source, "--scheme", "simhash", "--threshold", 0.8)
    assert "--threshold does not go with --scheme simhash, which has --max-distance, --bits" in told
    assert not (tmp_path / "i.db").exists()


def test_other_parameters_than_the_files_are_refused(index: Path, source: Path) -> None:
    """An index keeps the parameters that it was made with."""
    assert "0.8" in refused("add", index, source, "--threshold", 0.5)


def test_add_skips_records_that_cannot_be_used(tmp_path: Path) -> None:
    """--on-error skip goes on and tells the first of what was left out."""
    source = tmp_path / "in.jsonl"
    source.write_text('{"id": "a", "text": "one"}\n{"id": "b"}\n{"id": "c", "text": "three"}\n')
    result = run("add", tmp_path / "i.db", source, "--on-error", "skip", "--json")
    assert result.exit_code == 0 and json.loads(result.stdout)["skipped"] == 1
    assert "1 record left out" in result.stderr and "line 2: no field 'text'" in result.stderr


def test_add_reads_standard_input(tmp_path: Path, source: Path) -> None:
    """- is standard input, packed or not, and needs a format."""
    packed = gzip.compress(source.read_bytes())
    assert "add --format" in refused("add", tmp_path / "i.db", "-", stdin=packed)
    assert "4 added" in good("add", tmp_path / "i.db", "-", "--format", "jsonl", stdin=packed)


@pytest.mark.parametrize("duration", ["x", "3", "3y", "-3d"])
def test_durations_are_checked(tmp_path: Path, source: Path, duration: str) -> None:
    """What is no duration is named with an example of one."""
    assert "30d" in refused("add", tmp_path / "i.db", source, f"--expires-in={duration}")


# ---- asking ----------------------------------------------------------------------------------------------------------------


def test_query_prints_matches_best_first(index: Path, tmp_path: Path) -> None:
    """Similarity and key, from an argument, standard input, a file or a stored document."""
    assert good("query", index, FOX) == "1.0000  a\n0.9333  b\n"
    assert good("query", index, "-", stdin=FOX) == good("query", index, FOX)
    (tmp_path / "new.txt").write_text(FOX)
    assert good("query", index, "--file", tmp_path / "new.txt", "--limit", 1) == "1.0000  a\n"
    assert good("query", index, "--key", "a") == "0.9333  b\n"
    assert json.loads(good("query", index, FOX, "--threshold", "0.95", "--json")) == {
        "matches": [{"key": "a", "similarity": 1.0, "distance": None}]
    }


def test_query_without_a_match_exits_with_1(index: Path) -> None:
    """Nothing found is no error, and no output."""
    result = run("query", index, "nothing like that")
    assert (result.exit_code, result.output) == (1, "")
    assert json.loads(run("query", index, "nothing like that", "--json").stdout) == {"matches": []}


def test_query_errors_name_the_value(index: Path) -> None:
    """A threshold below the index's, a key that is not there, a key that is no integer."""
    assert "0.5" in refused("query", index, FOX, "--threshold", 0.5)
    assert "'zz'" in refused("query", index, "--key", "zz")
    assert "'a' is not an integer" in refused("query", index, "--key", "a", "--key-type", "int")


def test_pairs_are_lines_of_four_columns(index: Path) -> None:
    """The earlier key stands first; with a bound above all pairs the exit code is 1."""
    assert good("pairs", index) == "0.9333\t\ta\tb\n"
    told = json.loads(good("pairs", index, "--json"))
    assert told == {"key_a": "a", "key_b": "b", "similarity": pytest.approx(14 / 15), "distance": None}
    assert run("pairs", index, "--threshold", 0.99).exit_code == 1


def test_clusters_name_their_members(index: Path) -> None:
    """The earliest document first, the others below it; nothing of size 3 here."""
    assert good("clusters", index) == "     2  a\n        b\n"
    assert "... and 1 more" in good("clusters", index, "--members", 1)
    assert json.loads(good("clusters", index, "--json")) == {"size": 2, "representative": "a", "keys": ["a", "b"]}
    assert run("clusters", index, "--min-size", 3).exit_code == 1


def test_stats_count_documents(index: Path) -> None:
    """The figures are those of Index.stats, as a table and as JSON."""
    told = json.loads(good("stats", index, "--json"))
    assert (told["documents"], told["empty"], told["settings"]["scheme"]) == (4, 1, "minhash")
    assert "documents " in good("stats", index)


def test_keys_and_rows_cannot_move_the_cursor(tmp_path: Path) -> None:
    """Control characters of a key are shown as escapes, one line a key."""
    source = lines(tmp_path / "in.jsonl", [{"id": "a\tb\n\x1b[31m", "text": FOX}])
    good("add", tmp_path / "i.db", source)
    assert good("query", tmp_path / "i.db", FOX) == "1.0000  a\\tb\\n\\u001b[31m\n"


# ---- changing --------------------------------------------------------------------------------------------------------------


def test_delete_tells_what_was_not_there(index: Path, tmp_path: Path) -> None:
    """Exit code 0 where something was deleted, 1 where nothing was."""
    result = run("delete", index, "a", "zz")
    assert (result.exit_code, result.stdout) == (0, "1 document deleted\n") and "not there: zz" in result.stderr
    (tmp_path / "keys.txt").write_text("b\nc\n")
    assert json.loads(good("delete", index, "--file", tmp_path / "keys.txt", "--json")) == {"deleted": 2, "missing": []}
    assert run("delete", index, "zz").exit_code == 1
    assert "at least one KEY" in refused("delete", index)


def test_expire_removes_what_is_over(tmp_path: Path, source: Path, index: Path) -> None:
    """Nothing to do is exit code 1; --keep-newest removes the older documents."""
    assert run("expire", index).exit_code == 1
    assert json.loads(good("expire", index, "--keep-newest", 1, "--json")) == {"expired": 0, "older": 3}
    with Index(index) as made:
        assert list(made) == ["d"]


def test_rebuild_changes_the_scheme(index: Path) -> None:
    """With stored texts an index can become one of another scheme."""
    assert "4 documents" in good("rebuild", index, "--scheme", "simhash", "--max-distance", 5, "--compact")
    with Index(index) as made:
        assert made.scheme.settings()["scheme"] == "simhash"


def test_check_finds_damage_and_repairs_it(index: Path) -> None:
    """An index in order gives 0, a damaged one 1 and a line for each problem, a repaired one 0."""
    assert good("check", index) == "in order\n"
    good("sql", index, "--write", "DELETE FROM neardup_minhash_band")
    damaged = run("check", index, "--json")
    told = json.loads(damaged.stdout)
    assert damaged.exit_code == 1 and not told["ok"] and told["problems"]
    assert good("check", index, "--repair").endswith("in order\n")
    assert good("check", index) == "in order\n"


# ---- sql -------------------------------------------------------------------------------------------------------------------


def test_sql_runs_statements_with_the_functions_loaded(index: Path) -> None:
    """Rows as tab-separated lines under their names, or as JSON with blobs in hexadecimal."""
    assert good("sql", index, "SELECT key, metadata FROM neardup_documents WHERE key < 'c'") == (
        'key\tmetadata\na\t{"lang": "en"}\nb\t\n'
    )
    search = f"SELECT key FROM neardup_search('neardup', '{FOX}', 0.8, 10)"
    assert [json.loads(line)["key"] for line in good("sql", index, "--json", search).splitlines()] == ["a", "b"]
    assert json.loads(good("sql", index, "--json", "SELECT x'00ff' AS a, 1 AS a")) == {"a": {"hex": "00ff"}, "a:1": 1}


def test_sql_without_a_statement_is_a_shell(index: Path) -> None:
    """Statements come from standard input."""
    told = process("sql", str(index), cwd=index.parent, stdin="SELECT count(*) FROM neardup_documents;\n")
    assert (told.returncode, told.stdout.strip(), told.stderr) == (0, "4", "")


def test_sql_only_writes_when_told(index: Path) -> None:
    """Without --write the file is read-only, and the message says what to add."""
    assert "add --write" in refused("sql", index, "DELETE FROM neardup_match")
    good("sql", index, "--write", "DELETE FROM neardup_match")
    assert "syntax error" in refused("sql", index, "SELEC 1")


def test_reading_leaves_one_file(index: Path) -> None:
    """After any command the index is a single file again."""
    for arguments in (("stats", index), ("query", index, FOX), ("sql", index, "SELECT 1"), ("pairs", index)):
        good(*arguments)
        assert [path.name for path in index.parent.glob("index.db*")] == ["index.db"]


# ---- curve -----------------------------------------------------------------------------------------------------------------


def test_the_curve_of_minhash_is_that_of_its_bands() -> None:
    """P(candidate) is 1 - (1 - s^rows)^bands; with exact=True nothing below the threshold comes back."""
    settings = {"scheme": "minhash", "num_perm": 128, "bands": 9, "rows": 4, "threshold": 0.8, "exact": 1}
    for similarity in (0.5, 0.8, 0.9):
        expected = 1 - (1 - similarity**4) ** 9
        returned = expected if similarity >= 0.8 else 0.0
        assert chances_of(settings)(similarity) == (pytest.approx(expected), pytest.approx(returned))
    estimated = chances_of({**settings, "exact": 0})
    assert [round(estimated(similarity)[1], 2) for similarity in (0.8, 0.85, 0.9)] == [0.5, 0.94, 1.0]


def test_the_curves_of_codes_are_binomial() -> None:
    """One-bit samples of 256 bits within 37 find 99 % at J = 0.8; SimHash within 3 of 64 bits 1 % there and 9 % at 0.9."""
    sampled = chances_of({"scheme": "bitsampling", "bits": 256, "max_distance": 37, "plan": "scan"})
    assert sampled(0.8) == (1.0, pytest.approx(0.99, abs=0.002))
    simhash = chances_of({"scheme": "simhash", "bits": 64, "max_distance": 3, "plan": "blocks", "blocks": 4})
    assert [round(simhash(similarity)[1], 2) for similarity in (0.8, 0.9, 1.0)] == [0.01, 0.09, 1.0]
    assert binomial(4, 0.5).tolist() == pytest.approx([1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16])


def test_curve_prints_a_plot_and_json(index: Path) -> None:
    """A line a similarity, of an index or of parameters; one of both is needed."""
    told = [json.loads(line) for line in good("curve", index, "--from", 0.8, "--step", 0.1, "--json").splitlines()]
    assert [point["jaccard"] for point in told] == [0.8, 0.9, 1.0]
    assert told[0]["returned"] >= 0.99
    assert good("curve", "--scheme", "bottomk", "--from", 0.9).count("\n") == 5
    assert "Give either INDEX" in refused("curve")
    assert "binarycode" in refused("curve", "--scheme", "binarycode")


# ---- errors of files -------------------------------------------------------------------------------------------------------


def test_files_that_are_no_index_are_refused(tmp_path: Path, source: Path) -> None:
    """A missing file, a text file, a folder: the path and the reason."""
    assert "nowhere.db: no such file" in refused("query", tmp_path / "nowhere.db", "x")
    assert "in.jsonl" in refused("stats", source)
    refused("stats", tmp_path)


@pytest.mark.parametrize("command", ["add", "dedup"])
def test_broken_inputs_are_named_with_their_line(tmp_path: Path, command: str) -> None:
    """JSON that is none, a gzip file that is none, an unknown field, a missing file."""

    def fails(name: str, data: bytes, *options: str) -> str:
        (tmp_path / name).write_bytes(data)
        if command == "add":
            return refused("add", tmp_path / "i.db", tmp_path / name, *options)
        told = refused("dedup", tmp_path / name, "-o", tmp_path / f"out-{name}", *options)
        assert not list(tmp_path.glob("out*"))
        return told

    assert "in.jsonl, line 2: no JSON" in fails("in.jsonl", b'{"text": "x"}\n{"text\n')
    assert "no gzip data" in fails("in.jsonl.gz", b"plain")
    assert "no field 'body'; it has 'text'" in fails("in.jsonl", b'{"text": "x"}\n', "--text-field", "body")
    assert "no column 'body'" in fails("in.csv", b"text\nx\n", "--text-field", "body")


# ---- dedup -----------------------------------------------------------------------------------------------------------------


def sample(path: Path) -> Path:
    return lines(path, [{"id": key, "text": text} for key, text in documents()])


@functools.cache
def exact_pairs() -> dict[tuple[str, str], float]:
    """The Jaccard similarity of every two documents of the sample, by sets of shingles in plain Python."""
    sets = {key: frozenset(shingles(text)) for key, text in documents()}
    found = {}
    for a, b in combinations(sets, 2):
        common = len(sets[a] & sets[b])
        found[a, b] = common / (len(sets[a]) + len(sets[b]) - common)
    return found


def exact_clusters(threshold: float) -> tuple[dict[tuple[str, str], float], list[list[str]]]:
    """All pairs at or above the threshold and the clusters that they make: the oracle of dedup."""
    pairs = {pair: similarity for pair, similarity in exact_pairs().items() if similarity >= threshold}
    parent = {key: key for key, _ in documents()}

    def root(key: str) -> str:
        while parent[key] != key:
            key = parent[key]
        return key

    for a, b in pairs:
        parent[root(b)] = root(a)
    groups: dict[str, list[str]] = {}
    for key in parent:
        groups.setdefault(root(key), []).append(key)
    return pairs, [group for group in groups.values() if len(group) > 1]


@pytest.mark.parametrize("keep", ["first", "longest"])
def test_dedup_equals_an_exact_script_on_real_text(tmp_path: Path, keep: str) -> None:
    """Pairs, clusters and what stays are those of comparing every document with every other."""
    pairs, clusters = exact_clusters(0.8)
    texts = dict(documents())
    out, found_pairs, found_clusters = tmp_path / "out.jsonl", tmp_path / "pairs.csv", tmp_path / "clusters.jsonl"
    source = sample(tmp_path / "in.jsonl")
    options = ["--keep", keep, "--pairs", found_pairs, "--clusters", found_clusters, "--json"]
    told = json.loads(good("dedup", source, "-o", out, *options))

    with open(found_pairs, newline="") as file:
        rows = {(row["id_a"], row["id_b"]): float(row["similarity"]) for row in csv.DictReader(file)}
    assert rows == pytest.approx(pairs)
    members: dict[int, set[str]] = {}
    for line in found_clusters.read_text().splitlines():
        row = json.loads(line)
        members.setdefault(row["cluster"], set()).add(row["id"])
    assert sorted(map(sorted, members.values())) == sorted(map(sorted, clusters))

    order = list(texts)
    best = {"first": lambda key: -order.index(key), "longest": lambda key: (len(texts[key]), -order.index(key))}[keep]
    removed = {key for cluster in clusters for key in cluster} - {max(cluster, key=best) for cluster in clusters}
    raw = source.read_bytes().splitlines(keepends=True)
    assert out.read_bytes() == b"".join(line for line, key in zip(raw, order, strict=True) if key not in removed)
    assert (told["records"], told["duplicates"], told["clusters"]) == (len(order), len(removed), len(clusters))


def test_dedup_at_another_threshold(tmp_path: Path) -> None:
    """The number that stays at 0.6 is that of the exact script."""
    _, clusters = exact_clusters(0.6)
    told = json.loads(good("dedup", sample(tmp_path / "in.jsonl"), "-o", tmp_path / "o.jsonl", "--threshold", 0.6, "--json"))
    assert told["duplicates"] == sum(len(cluster) - 1 for cluster in clusters)


def test_dedup_keeps_the_bytes_of_rows(tmp_path: Path) -> None:
    """A CSV file keeps header, quoting and line ends; packed inputs and outputs go by their names."""
    data = f'id,text\r\n1,"{FOX}"\r\n2,"{FOX} again"\r\n3,"other,\r\nwords"\r\n'.encode()
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(data))
    assert "3 records: 2 kept" in good("dedup", tmp_path / "in.csv.gz", "-o", tmp_path / "out.csv.zst")
    with zstandard.open(tmp_path / "out.csv.zst", "rb") as file:
        assert file.read() == data.replace(f'2,"{FOX} again"\r\n'.encode(), b"")


def test_dedup_of_a_folder_is_a_folder(tmp_path: Path) -> None:
    """Files that stay are copied to the same relative paths."""
    for name, text in (("a.txt", FOX), ("sub/b.txt", FOX + "!"), ("sub/c.txt", "other words of no likeness")):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(text)
    good("dedup", tmp_path / "in", "-o", tmp_path / "out")
    copied = {path.relative_to(tmp_path / "out").as_posix(): path.read_text() for path in (tmp_path / "out").rglob("*.txt")}
    assert copied == {"a.txt": FOX, "sub/c.txt": "other words of no likeness"}
    assert "exists already" in refused("dedup", tmp_path / "in", "-o", tmp_path / "out")
    good("dedup", tmp_path / "in", "-o", tmp_path / "out", "--force", "--keep", "longest")
    assert not (tmp_path / "out" / "a.txt").exists() and (tmp_path / "out" / "sub" / "b.txt").exists()
    assert "lie one in the other" in refused("dedup", tmp_path / "in", "-o", tmp_path / "in" / "out")


def test_dedup_streams_from_and_to_the_terminal(source: Path) -> None:
    """- reads standard input and writes standard output; the summary goes to standard error."""
    result = run("dedup", "-", "--format", "jsonl", "-o", "-", stdin=source.read_bytes())
    assert result.exit_code == 0
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == ["a", "c", "d"]
    assert "4 records: 3 kept, 1 near-duplicate removed" in result.stderr
    assert "name a file" in refused("dedup", "-", "--format", "jsonl", "-o", "-", "--json")


def test_dedup_keeps_empty_texts_unless_told(tmp_path: Path) -> None:
    """Empty texts are near-duplicates of nothing, not of each other."""
    source = lines(tmp_path / "in.jsonl", [{"text": ""}, {"text": "x y z"}, {"text": " ... "}])
    assert json.loads(good("dedup", source, "-o", tmp_path / "a.jsonl", "--json"))["kept"] == 3
    told = json.loads(good("dedup", source, "-o", tmp_path / "b.jsonl", "--drop-empty", "--json"))
    assert (told["kept"], told["empty"], told["empty_dropped"]) == (1, 2, 2)
    assert (tmp_path / "b.jsonl").read_text() == '{"text": "x y z"}\n'


def test_dedup_takes_equal_ids(tmp_path: Path) -> None:
    """Ids in the input may repeat: records are counted, not named."""
    source = lines(tmp_path / "in.jsonl", [{"id": "same", "text": FOX}, {"id": "same", "text": "other words entirely"}])
    assert json.loads(good("dedup", source, "-o", tmp_path / "o.jsonl", "--json"))["kept"] == 2


def test_dedup_replaces_nothing_by_itself(source: Path, tmp_path: Path) -> None:
    """An existing output needs --force, the input is never the output, and a broken run leaves all as it was."""
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    assert "--force" in refused("dedup", source, "-o", out)
    assert "is the input" in refused("dedup", source, "-o", source, "--force")
    assert "must end in .jsonl" in refused("dedup", source, "-o", tmp_path / "out.csv")
    with open(source, "a") as file:
        file.write("broken\n")
    before = sorted(tmp_path.iterdir())
    assert "line 5" in refused("dedup", source, "-o", out, "--force", "--pairs", tmp_path / "p.csv")
    assert out.read_text() == "old" and sorted(tmp_path.iterdir()) == before
    result = run("dedup", source, "-o", out, "--force", "--on-error", "skip")
    assert result.exit_code == 0 and "1 record left out" in result.stderr
    assert len(out.read_text().splitlines()) == 3


def test_dedup_says_that_it_met_invalid_utf8(tmp_path: Path) -> None:
    """Wrong bytes are compared as U+FFFD, reported, and copied as they are."""
    data = b'{"text": "caf\xe9 au lait"}\n'
    (tmp_path / "in.jsonl").write_bytes(data)
    result = run("dedup", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl")
    assert result.exit_code == 0 and "1 line with invalid UTF-8" in result.stderr
    assert (tmp_path / "out.jsonl").read_bytes() == data


def test_dedup_can_keep_its_index(source: Path, tmp_path: Path) -> None:
    """--index leaves an index whose keys are running numbers and whose metadata names ids and lines."""
    good("dedup", source, "-o", tmp_path / "out.jsonl", "--index", tmp_path / "kept.db")
    with Index(tmp_path / "kept.db") as made:
        assert made.get(2).metadata == {"id": "b", "line": 2}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "kept.db", "out.jsonl"]
