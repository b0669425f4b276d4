"""The command line: what each command does, its exit codes and its JSON."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from commands import FOX, good, keys_of, lines, refused, run

from neardup_db import AddReport, BitSampling, BottomK, Index, MinHash, SimHash, TextRules
from neardup_db.store.database.open import remove_unused

# ---- add -----------------------------------------------------------------------------------------------------------------


def test_add_creates_an_index_and_tells_what_it_did(tmp_path: Path, source: Path) -> None:
    """Four records, of which one has a near-duplicate before it."""
    told = json.loads(good("add", tmp_path / "i.db", source, "--json"))
    assert [told[name] for name in ("records", "added", "matched", "skipped")] == [4, 4, 1, 0]
    assert keys_of(tmp_path / "i.db") == ["a", "b", "c", "d"]


def test_add_again_follows_if_exists(index: Path, source: Path) -> None:
    """A second run replaces or ignores the documents if it is told to."""
    assert json.loads(good("add", index, source, "--if-exists", "ignore", "--json"))["ignored"] == 4
    assert json.loads(good("add", index, source, "--if-exists", "replace", "--json"))["replaced"] == 4


def test_add_keeps_metadata_texts_groups_and_expiry(tmp_path: Path, source: Path, index: Path) -> None:
    """The other fields are metadata; options store text, group and expiry."""
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
    assert keys_of(tmp_path / "i.db") == ["a", "c", "d"]


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
    assert "requires texts" in refused("query", codes, "00" * 32, "--measure", "containment")
    assert "not with two KEYs" in refused("explain", path, "long", "part", "--measure", "containment")


def test_codes_come_in_as_hexadecimal(tmp_path: Path) -> None:
    """--scheme binarycode reads the text field as a code and answers queries with codes; a wrong one is named by its line."""
    records = [{"id": 1, "text": "00" * 8}, {"id": 2, "text": "00" * 7 + "01"}, {"id": 3, "text": "ff" * 8}]
    source = lines(tmp_path / "in.jsonl", records)
    path = tmp_path / "i.db"
    good("add", path, source, "--scheme", "binarycode", "--bits", 64, "--max-distance", 3, "--key-type", "int")
    told = json.loads(good("query", path, "00" * 7 + "03", "--json"))
    assert [(match["key"], match["distance"]) for match in told["matches"]] == [(2, 1), (1, 2)]
    wrong = refused("add", path, lines(source, [{"id": 4, "text": "00"}]), "--key-type", "int")
    assert "in.jsonl, line 1: " in wrong and "record 0" not in wrong
    assert "require an index of texts" in refused("add", path, source, "--group", "g", "--key-type", "int")


def test_add_reads_standard_input(tmp_path: Path, source: Path) -> None:
    """- is standard input, packed or not, and needs a format."""
    packed = gzip.compress(source.read_bytes())
    assert "add --format" in refused("add", tmp_path / "i.db", "-", stdin=packed)
    assert "4 added" in good("add", tmp_path / "i.db", "-", "--format", "jsonl", stdin=packed)


def test_files_without_ids_do_not_collide(tmp_path: Path) -> None:
    """Keys are file and line, so two files go into one index; the same file again is an error that says so, and goes on."""
    for name in ("a", "b"):
        lines(tmp_path / f"{name}.jsonl", [{"text": f"{name} {word}"} for word in ("one", "two")])
    path = tmp_path / "i.db"
    good("add", path, tmp_path / "a.jsonl")
    good("add", path, tmp_path / "b.jsonl")
    good("add", path, tmp_path / "b.jsonl", "--source", "other")
    good("add", path, "-", "--format", "jsonl", stdin='{"text": "x"}')
    assert keys_of(path) == ["a.jsonl:1", "a.jsonl:2", "b.jsonl:1", "b.jsonl:2", "other:1", "other:2", "stdin:1"]
    told = refused("add", path, tmp_path / "a.jsonl")
    assert "'a.jsonl:1' is already in the index" in told and "--source NAME" in told
    with open(tmp_path / "a.jsonl", "a") as file:
        file.write('{"text": "a three"}\n')
    assert json.loads(good("add", path, tmp_path / "a.jsonl", "--if-exists", "ignore", "--json"))["added"] == 1


def test_a_folder_of_shards_is_read_record_by_record(tmp_path: Path) -> None:
    """Shards are read in the order of their paths; dedup puts their records into one file; a mixture names the remedy."""
    folder = tmp_path / "shards"
    (folder / "b").mkdir(parents=True)
    (folder / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "one"}\n{"text": "%s"}' % FOX.encode())
    (folder / "b" / "0.jsonl.gz").write_bytes(gzip.compress(b'\xef\xbb\xbf{"text": "two"}\n{"text": "%s!"}\n' % FOX.encode()))
    good("add", tmp_path / "i.db", folder)
    assert keys_of(tmp_path / "i.db") == ["a.jsonl:1", "a.jsonl:2", "b/0.jsonl.gz:1", "b/0.jsonl.gz:2"]
    assert "must end in .jsonl" in refused("dedup", folder, "-o", tmp_path / "out")
    assert "one is inside the other" in refused("dedup", folder, "-o", folder / "out.jsonl")
    good("dedup", folder, "-o", tmp_path / "out.jsonl")
    expected = b'\xef\xbb\xbf{"text": "one"}\n{"text": "%s"}\n{"text": "two"}\n' % FOX.encode()
    assert (tmp_path / "out.jsonl").read_bytes() == expected
    assert run("dedup", folder, "-o", "-").stdout_bytes == expected
    (folder / "README").write_text("a text")
    told = refused("add", tmp_path / "j.db", folder)
    assert "README and a.jsonl" in told and "--glob '*.jsonl'" in told and "--format" in told
    assert "4 added" in good("add", tmp_path / "j.db", folder, "--glob", "*.jsonl*")
    assert "README, line 1: not JSON" in refused("add", tmp_path / "k.db", folder, "--format", "jsonl")


def test_shards_of_csv_have_one_header(tmp_path: Path) -> None:
    """dedup writes the header once; shards with other columns do not go into one file, but into an index."""
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / "a.csv").write_text("id,text\n1,one")
    (folder / "b.csv").write_text("id,text\n2,two\n")
    good("dedup", folder, "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "id,text\n1,one\n2,two\n"
    (folder / "c.csv").write_text("text,id\nthree,3\n")
    assert "c.csv, line 1: the columns are 'text', 'id'" in refused("dedup", folder, "-o", tmp_path / "out.csv", "--force")
    assert "3 added" in good("add", tmp_path / "i.db", folder)


@pytest.mark.parametrize("every", [1, 7, 8, 11])
def test_transactions_hold_as_many_records_as_told(tmp_path: Path, every: int) -> None:
    """With --commit-every N each transaction adds N records; after an error the command says where it stands.
    With --one-transaction nothing is added."""
    count = 3 * every + 1
    source = lines(tmp_path / "in.jsonl", [{"id": str(i), "text": f"text number {i}"} for i in range(count)])
    with open(source, "a") as file:
        file.write("broken\n")
    path = tmp_path / "i.db"
    told = refused("add", path, source, "--commit-every", every, "--no-record-matches")
    done = count // every * every
    assert len(keys_of(path)) == done
    assert f"{done:,} records are committed, and the same command with --if-exists ignore goes on" in told
    told = refused("add", path, source, "--commit-every", every, "--if-exists", "ignore", "--on-error", "raise")
    assert "the same command again goes on" in told
    assert "nothing was added" in refused("add", tmp_path / "all.db", source, "--commit-every", every, "--one-transaction")
    assert not (tmp_path / "all.db").exists()


@pytest.mark.parametrize("bad", ['{"id": "a"}', '{"id": "a", "text": 3}', "no JSON"])
def test_a_first_add_that_fails_leaves_no_file(tmp_path: Path, bad: str) -> None:
    """Where there was nothing there is nothing; an index that was there stays, with what was committed."""
    bad_lines = tmp_path / "bad.jsonl"
    bad_lines.write_text(bad + "\n")
    refused("add", tmp_path / "new.db", bad_lines)
    refused("add", tmp_path / "new.db", bad_lines, "--scheme", "binarycode", "--group", "g")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.jsonl"]
    Index(tmp_path / "old.db", MinHash()).close()
    refused("add", tmp_path / "old.db", bad_lines)
    with Index(tmp_path / "old.db") as index:
        assert len(index) == 0
    bad_lines.write_text('{"id": "good", "text": "one two three"}\n' + bad + "\n")
    refused("add", tmp_path / "some.db", bad_lines, "--commit-every", 1)
    assert keys_of(tmp_path / "some.db") == ["good"]


def test_a_new_index_that_another_connection_has_open_stays(tmp_path: Path, source: Path) -> None:
    """A first add that fails does not take the file away from those who opened it meanwhile."""
    path = tmp_path / "shared.db"
    with Index(path, MinHash()) as index:
        remove_unused(str(path))
        index.add("a", FOX)
    remove_unused(str(path))
    assert keys_of(path) == ["a"]
    with Index(path) as index:
        index.delete("a")
    remove_unused(str(path))
    assert path.exists()


def test_an_interrupted_add_says_how_to_go_on(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the third transaction leaves the records of two, and the message says so; with --one-transaction none."""
    calls: list[int] = []
    real = Index.add_many

    def add_many(index: Index, records: Any, **options: Any) -> AddReport:
        calls.append(len(records))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(index, records, **options)

    monkeypatch.setattr(Index, "add_many", add_many)
    result = run("add", tmp_path / "i.db", source, "--commit-every", 1)
    assert result.exit_code == 130
    going_on = "2 records are committed, and the same command with --if-exists ignore goes on"
    assert result.stderr.strip() == f"neardup: interrupted; {going_on}"
    assert keys_of(tmp_path / "i.db") == ["a", "b"]
    calls.clear()
    result = run("add", tmp_path / "j.db", source, "--commit-every", 1, "--one-transaction")
    assert result.stderr.strip() == "neardup: interrupted; nothing was added"


def test_records_left_out_are_named(tmp_path: Path) -> None:
    """Each with its line and the reason: the first few on standard error, 100 in JSON, and all in the count."""
    source = tmp_path / "in.jsonl"
    source.write_text('{"id": "a", "text": "one"}\n' + "broken\n" * 120 + '{"id": "b"}\n')
    result = run("add", tmp_path / "i.db", source, "--on-error", "skip", "--json")
    told = json.loads(result.stdout)
    assert (told["records"], told["added"], told["skipped"], len(told["problems"])) == (122, 1, 121, 100)
    assert told["problems"][0]["line"] == 2 and told["problems"][0]["reason"].startswith("not JSON")
    assert "121 records skipped" in result.stderr and result.stderr.count(", line ") == 5
    assert "1 added, 121 skipped" in run("add", tmp_path / "j.db", source, "--on-error", "skip").stdout
    removed = run("dedup", source, "-o", tmp_path / "o.jsonl", "--on-error", "skip")
    assert "121 skipped" in removed.stdout and "line 2: not JSON" in removed.stderr


def test_an_id_that_stands_twice_is_named(tmp_path: Path) -> None:
    """The second of two records with one id is an error that names its line; skipped, it is counted, in the words of commands."""
    source = lines(tmp_path / "in.jsonl", [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}, {"id": "a", "text": "z"}])
    assert "line 3: key 'a' is already in the index" in refused("add", tmp_path / "i.db", source)
    assert "2 added, 1 skipped" in run("add", tmp_path / "i.db", source, "--on-error", "skip").stdout
    told = json.loads(run("add", tmp_path / "j.db", source, "--on-error", "skip", "--commit-every", 2, "--json").stdout)
    assert [(problem["line"], problem["key"]) for problem in told["problems"]] == [(3, "a")]
    assert "--if-exists replace" in told["problems"][0]["reason"]


def test_texts_below_min_tokens_are_told(tmp_path: Path) -> None:
    """--min-tokens leaves short texts without matches; add, query and dedup say so with the number."""
    records = [{"id": i, "text": text} for i, text in enumerate(["lol", "lol", "a b c", "a b c", "..."])]
    source, path, out = lines(tmp_path / "in.jsonl", records), tmp_path / "i.db", tmp_path / "out.jsonl"
    added = good("add", path, source, "--min-tokens", "3")
    assert "1 with a near-duplicate" in added and "3 documents with fewer than 3 tokens: they match nothing" in added
    result = run("query", path, "lol")
    assert (result.exit_code, result.stdout) == (1, "") and "one with fewer than 3 tokens" in result.stderr
    assert "3 records with fewer than 3 tokens kept" in good("dedup", source, "-o", out, "--min-tokens", "3")
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [0, 1, 2, 4]
    assert "3 empty dropped" in good("dedup", source, "-o", out, "--min-tokens", "3", "--drop-empty", "--force")
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [2]


def test_texts_without_a_word_are_told(tmp_path: Path) -> None:
    """They match nothing: the summary of add counts them, and a query for one says why it finds nothing."""
    source = lines(tmp_path / "in.jsonl", [{"id": 1, "text": "!!!"}, {"id": 2, "text": "!!!"}, {"id": 3, "text": "a word"}])
    path = tmp_path / "i.db"
    assert "2 documents without a word" in good("add", path, source)
    more = lines(tmp_path / "more.jsonl", [{"id": 4, "text": ""}])
    assert json.loads(good("add", path, more, "--json"))["without_words"] == 1
    result = run("query", path, "!!!")
    assert (result.exit_code, result.stdout) == (1, "") and "one without a word, so nothing matches it" in result.stderr
    assert run("query", path, "no such words").stderr == ""


# ---- asking ----------------------------------------------------------------------------------------------------------------


def test_query_prints_matches_best_first(index: Path, tmp_path: Path) -> None:
    """Similarity and key, from an argument, standard input, a file or a stored document; without a match exit code 1."""
    for options, output in ((), ""), (("--json",), '{"matches": []}\n'):
        result = run("query", index, "nothing like that", *options)
        assert (result.exit_code, result.output) == (1, output)
    assert good("query", index, FOX) == "1.0000  a\n0.9333  b\n"
    assert good("query", index, "-", stdin=FOX) == good("query", index, FOX)
    (tmp_path / "new.txt").write_text(FOX)
    assert good("query", index, "--file", tmp_path / "new.txt", "--limit", 1) == "1.0000  a\n"
    assert good("query", index, "--key", "a") == "0.9333  b\n"
    assert json.loads(good("query", index, FOX, "--threshold", "0.95", "--json")) == {
        "matches": [{"key": "a", "similarity": 1.0, "distance": None}]
    }


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


# ---- changing --------------------------------------------------------------------------------------------------------------


def test_delete_tells_what_was_not_there(index: Path, tmp_path: Path) -> None:
    """Exit code 0 where something was deleted, 1 where nothing was."""
    result = run("delete", index, "a", "zz")
    assert (result.exit_code, result.stdout) == (0, "1 document deleted\n") and "no document has the key zz" in result.stderr
    (tmp_path / "keys.txt").write_text("b\nc\n")
    assert json.loads(good("delete", index, "--file", tmp_path / "keys.txt", "--json")) == {"deleted": 2, "missing": []}
    assert run("delete", index, "zz").exit_code == 1
    assert "at least one KEY" in refused("delete", index)


def test_the_window_of_an_index(index: Path) -> None:
    """It is told, changed to a time or a number, and taken away; what is no window is refused."""
    documents = json.loads(good("window", index, "--json"))["there"]
    assert good("window", index) == f"all documents stay; {documents} documents are there\n"
    for size, told in (("24h", "for 24h"), ("90m", "for 90m"), ("2w", "for 14d"), ("9000.5s", "for 9000.5s")):
        assert good("window", index, size).startswith(f"documents stay {told}; ")
    assert json.loads(good("window", index, "1d", "--json")) == {"seconds": 86400.0, "documents": None, "there": documents}
    assert good("window", index, "1") == "the last document stays; 1 document is there\n"
    assert json.loads(good("window", index, "--json")) == {"seconds": None, "documents": 1, "there": 1}
    assert good("window", index, "none") == "all documents stay; 1 document is there\n"
    for wrong in ("soon", "-3h", "0", "0s"):
        refused = run("window", index, "--", wrong)
        assert refused.exit_code == 2 and "0" in refused.stderr and "timedelta" not in refused.stderr


def test_expire_removes_what_is_over(tmp_path: Path, source: Path, index: Path) -> None:
    """Nothing to do is exit code 1; --keep-newest removes the older documents."""
    assert run("expire", index).exit_code == 1
    assert json.loads(good("expire", index, "--keep-newest", 1, "--json")) == {"expired": 0, "older": 3}
    assert keys_of(index) == ["d"]


def test_rebuild_changes_what_an_error_says_it_can(index: Path, tmp_path: Path) -> None:
    """Where add refuses other settings than the file's, neardup rebuild changes them, as the error advises; the scheme too."""
    assert "4 documents" in good("rebuild", index, "--scheme", "simhash", "--max-distance", 5, "--compact")
    more = lines(tmp_path / "more.jsonl", [{"id": "new", "text": "quite other words than before"}])
    assert "change the file with neardup rebuild" in refused("add", index, more, "--no-record-matches")
    good("rebuild", index, "--no-record-matches", "--no-store-text")
    good("add", index, more, "--no-record-matches")
    with Index(index, record_matches=False, store_text=False) as made:
        assert made.get("new").text is None and len(made) == 5 and made.check().ok and isinstance(made.scheme, SimHash)
    assert "5 documents have no stored text" in refused("rebuild", index, "--store-text")
    good("rebuild", index, "--record-matches")


def test_rebuild_keeps_what_no_option_says(tmp_path: Path, source: Path) -> None:
    """Scheme and text rules are those of the index but for what is given; tables chosen by it are chosen again."""
    path = tmp_path / "i.db"
    good("add", path, source, "--exact", "--store-text", "--num-perm", 256, "--tokens", "chars", "--strip-accents")
    rules = TextRules.chars(strip_accents=True)

    def rebuilt(*options: object) -> tuple[Any, TextRules]:
        good("rebuild", path, *options)
        with Index(path) as made:
            assert made.check().ok and len(made) == 4
            return made.scheme, made.text_rules

    def exact(threshold: float, **more: Any) -> Any:
        return MinHash(threshold=threshold, num_perm=256, exact=True, **more).for_index(rules)

    assert rebuilt("--threshold", 0.7) == (exact(0.7), rules)
    assert rebuilt("--shingle", 4, "--case", "none") == (exact(0.7), rules.changed(shingle=4, case=None))
    assert rebuilt("--tokens", "words")[1] == TextRules.words(strip_accents=True, case=None)
    assert rebuilt("--no-strip-accents")[1] == TextRules.words(case=None)
    assert "cannot be used with --scheme minhash" in refused("rebuild", path, "--max-distance", 3)
    with Index(path) as made:
        made.rebuild(MinHash(threshold=0.6, bands=16, rows=2, recall=0.9, seed=7))
    seven = {"recall": 0.9, "seed": 7, "exact": True}
    assert rebuilt("--exact")[0] == MinHash(threshold=0.6, bands=16, rows=2, **seven).for_index(rules)
    assert rebuilt("--threshold", 0.8)[0] == MinHash(threshold=0.8, **seven).for_index(rules)
    assert rebuilt("--scheme", "simhash", "--max-distance", 5)[0].max_distance == 5
    assert rebuilt("--bits", 32)[0] == SimHash(bits=32, max_distance=5)
    assert rebuilt("--scheme", "bitsampling")[0] == BitSampling()
    assert rebuilt("--threshold", 0.9)[0] == BitSampling(threshold=0.9)
    assert rebuilt("--max-distance", 20)[0] == BitSampling(threshold=0.9, max_distance=20)
    assert rebuilt("--scheme", "bottomk", "--containment")[0] == BottomK(containment=True)
    assert rebuilt("--k", 64)[0] == BottomK(k=64, containment=True)


def test_check_finds_damage_and_repairs_it(index: Path) -> None:
    """An index in order gives 0, a damaged one 1 and a line for each problem, a repaired one 0."""
    assert good("check", index) == "in order\n"
    good("sql", index, "--write", "DELETE FROM neardup_minhash_band")
    damaged = run("check", index, "--json")
    told = json.loads(damaged.stdout)
    assert damaged.exit_code == 1 and not told["ok"] and told["problems"]
    assert good("check", index, "--repair").endswith("in order\n")
    assert good("check", index) == "in order\n"


def test_outputs_whose_names_promise_what_is_not_written(index: Path, source: Path) -> None:
    """A packing or a format that a command does not write is refused by its name, and no file named - is made."""
    folder = index.parent
    for arguments, reason in (
        (("backup", index, "-"), "name a file"),
        (("export", index, "-"), "name a file"),
        (("export", index, "-o", folder / "e.csv"), "-o FILE is JSON lines"),
        (("export", index, "-o", folder / "e.tsv.gz"), "-o FILE is JSON lines"),
        (("export", index, "-o", folder / "e.jsonl.bz2"), "name it .gz or .zst"),
        (("dedup", source, "-o", folder / "o.jsonl.xz"), "name it .gz or .zst"),
    ):
        names = sorted(folder.iterdir())
        assert reason in refused(*arguments)
        assert sorted(folder.iterdir()) == names and not Path("-").exists()


def test_reading_leaves_one_file(index: Path) -> None:
    """After any command the index is a single file again."""
    for arguments in (("stats", index), ("query", index, FOX), ("sql", index, "SELECT 1"), ("pairs", index)):
        good(*arguments)
        assert [path.name for path in index.parent.glob("index.db*")] == ["index.db"]
