"""Small files that are made to be costly: every reader stops before it takes much time, or memory.

Work is counted, or memory; no test looks at a clock.
"""

from __future__ import annotations

import json
import shutil
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz import trace
from attnviz.errors import MAX_QUOTED_NAME_LETTERS, AttnvizError, Note, unknown_name_error
from attnviz.learning import grammar, grammar_files, line_tasks
from attnviz.machine import memory
from attnviz.machine.files import set_size_limit
from attnviz.traces import archive_reader, matrices, structured_text, toml_reader
from attnviz.traces.models import by_hand
from attnviz.traces.toml_reader import Table, TomlFile
from attnviz.traces.trained.model_location import read_safetensors_header
from attnviz.vectors import arrays
from tests.conftest import Attnviz
from tests.hostile import damage
from tests.hostile.files import (
    npy_file,
    places,
    replace_value,
    tensor_file,
    tensors_of,
    zip_archive,
)
from tests.small_transformers import Saved

MB = 10**6


def peak_memory(read: Callable[[], object]) -> int:
    """The peak of memory in bytes until `read` refuses its input."""
    tracemalloc.start()
    try:
        with pytest.raises(AttnvizError):
            read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


DOTS = ".a" * 5000
COSTLY = {
    "a key with dots": f"a{DOTS} = 1",
    "a key in quotes": 'a."a"' + DOTS + " = 1",
    "spaced dots": "a" + " . a" * 5000 + " = 1",
    "a heading": f"[a{DOTS}]",
    "a list of tables": f"[[a{DOTS}]]",
    "an inline table": f"x = {{a{DOTS} = 1}}",
    "behind a text with escapes": f'x = "\\\\\\""\na{DOTS} = 1',
    "behind a text of lines": f'x = """ " "" \\""" """"\na{DOTS} = 1',
    "very many names": "".join(f"a{n}=1\n" for n in range(1001)),
    "very many headings": "[[a]]\n" * 1001,
    "hexadecimal digits": "a = 0x" + "f" * 50_000,
    "digits before an error": "a = [" + ("1" * 4299 + ",") * 10 + "x]",
    "deep lists": "a = " + "[" * 101 + "]" * 101,
    "deep tables": "a = " + "{a = " * 101,
}


@pytest.mark.parametrize("name", COSTLY)
def test_toml_that_is_costly_is_refused_before_it_is_read(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = COSTLY[name]
    monkeypatch.setattr(toml_reader, "MAX_LIST_NAMES", 1000)
    monkeypatch.setattr(toml_reader, "_toml_loader", lambda: pytest.fail("it was read"))

    assert peak_memory(lambda: toml_reader.parse(text, "x.toml")) < 4 * len(text) + MB


QUOTED_TEXTS = st.text(alphabet="a.= \"'[]{}#\\\n-", max_size=60)


def quote_toml(value: str, kind: int) -> str:
    """The value in one of TOML's four kinds of quotes, without characters that it cannot hold."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"' + escaped.replace("\n", "\\n") + '"',
        f'"""\n{escaped}"""',
        "'" + value.replace("'", "").replace("\n", "") + "'",
        "'''\n" + value.replace("'", "") + "'''",
    )[kind]


@given(st.lists(st.tuples(QUOTED_TEXTS, st.integers(0, 3), QUOTED_TEXTS), max_size=5))
def test_what_stands_in_quotes_or_comments_is_no_name(rows: list[tuple[str, int, str]]) -> None:
    dots = ".a" * 30
    text = "".join(
        f"k{n} = [{quote_toml(value + dots, kind)}] # {comment}{dots}".replace("\n#", "#") + "\n"
        for n, (value, kind, comment) in enumerate(
            (value, kind, comment.replace("\n", "")) for value, kind, comment in rows
        )
    )

    assert toml_reader.parse(text, "x.toml") == toml_reader._toml_loader()(text)


def test_names_of_16_parts_are_read_and_of_17_are_not() -> None:
    name = ".".join("abcdefghijklmnop")

    assert toml_reader.parse(f"{name} = 1", "x.toml")
    with pytest.raises(AttnvizError, match=r"line 2 of 'x\.toml' has a name of more than 16"):
        toml_reader.parse(f"\n{name}.q = 1", "x.toml")


class CountedName(str):
    """A name that counts how often it is compared with another."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def find_duplicate(names: list[CountedName]) -> object:
    return structured_text._refuse_duplicate_names([(name, 1) for name in names])


def read_name_list(names: list[CountedName]) -> object:
    return Table(TomlFile(Path("x"), ""), {"names": names}).names("names")


@pytest.mark.parametrize("read", [find_duplicate, read_name_list])
def test_a_name_that_is_there_twice_is_found_without_comparing_all_with_all(
    read: Callable[[list[CountedName]], object],
) -> None:
    CountedName.compared = 0
    names = [CountedName(f"name {number}") for number in range(2000)]

    with pytest.raises((AttnvizError, structured_text._DuplicateNameError), match="name 1999"):
        read([*names, CountedName("name 1999")])

    assert CountedName.compared < 10 * len(names)


@pytest.mark.parametrize("name", ['"\\u0041"', '"A"', '"\\"\\u005c"'])
def test_the_line_of_a_name_of_json_is_found_however_it_is_written(name: str) -> None:
    with pytest.raises(AttnvizError, match=r"^line 2: 'd\.json' gives '.*' twice"):
        structured_text.parse_json_object(f'{{"x": "A",\n {name}: 1, {name}: 2}}', Path("d.json"))


@pytest.mark.parametrize("text", ["[]," * 1000, "{}," * 1000, '"ab",' * 1000, "0.1," * 1000])
def test_json_that_there_is_no_room_for_is_refused_before_it_is_read(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    json_text = f'{{"a": [{text}1]}}'
    tracemalloc.start()
    json.loads(json_text)
    bytes_needed = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    monkeypatch.setattr(memory, "free_bytes", lambda: bytes_needed)
    assert (
        peak_memory(lambda: structured_text.parse_json_object(json_text, Path("x.json")))
        < bytes_needed / 2
    )


def tokens_archive(shape: str, kind: str) -> bytes:
    return zip_archive(npy_file(shape, 0, kind), name="tokens.npy")


ARRAYS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "compressed": (".npz", lambda: zip_archive(npy_file("(1000, 4000)", 16 * MB, "<f4"))),
    "of bytes": (".npz", lambda: zip_archive(npy_file("(4000, 4000)", 16 * MB, "|i1"))),
    "a tensor of bytes": (".safetensors", lambda: tensor_file("I8", 4 * MB, (2000, 2000))),
    "words without letters": (".npz", lambda: tokens_archive("(2000000,)", "<U0")),
    "rows of no words": (".npz", lambda: tokens_archive("(2000000, 0)", "<U1")),
    "columns of nothing": (".npz", lambda: zip_archive(npy_file(f"(0, {10**18})", 0, "<f4"))),
    "a header without an end": (".npz", lambda: zip_archive(npy_file("(" + " " * 60_000, 0))),
}


@pytest.mark.parametrize("read", [matrices.read_matrices, archive_reader.load])
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_refused_by_what_their_headers_say(
    tmp_path: Path, name: str, read: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    suffix, make = ARRAYS[name]
    path = tmp_path / f"a{suffix}"
    path.write_bytes(make())
    monkeypatch.setattr(memory, "free_bytes", lambda: 30 * MB)

    assert peak_memory(lambda: read(str(path))) < MB


def test_an_archive_of_more_numbers_than_the_limit_is_refused_though_it_is_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "zeros.npz"
    path.write_bytes(zip_archive(npy_file("(1000, 1000)", 8 * 10**6)))
    monkeypatch.setattr(memory, "free_bytes", lambda: None)  # so that only the limit refuses it
    set_size_limit("1MB")
    try:
        assert path.stat().st_size < 10**5
        with pytest.raises(AttnvizError, match="has more than 1 MB, the most that a file"):
            arrays.read_numpy_arrays(path)
    finally:
        set_size_limit(None)


def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as members:
        members.writestr("scores.npy", b"")
        members.writestr("scores", b"")

    with pytest.raises(AttnvizError, match="has two arrays of one name"):
        matrices.read_matrices(str(path))


GRAMMAR = """about = "x"
teaches = "y"
watch = "the cat is"
asks = "verb"
answers = "verb"
[words.noun]
one = ["cat", "dog"]
many = ["cats", "dogs"]
[words.verb]
one = ["is"]
many = ["are"]
"""


def sentences(*patterns: str) -> str:
    return GRAMMAR + f"[[sentences]]\npatterns = {json.dumps(patterns)}\n"


def phrases(count: int, phrase: str) -> str:
    lines = "".join(f'p{n} = "{phrase.format(n + 1)}"\n' for n in range(count))
    return sentences("the {noun x} {verb x}") + f'[phrases]\n{lines}p{count} = "a"\n'


GRAMMARS = {
    "phrases of phrases": (
        phrases(15, "{{p{0}}} {{p{0}}}"),
        "this sentence has more than 1,000 words",
    ),
    "647 bytes": (phrases(22, "{{p{0}}} {{p{0}}}"), "phrases are nested more than 20 deep"),
    "a chain of phrases": (phrases(300, "{{p{0}}}"), "phrases are nested more than 20 deep"),
    "a long sentence": (
        sentences("the " * 1001 + "{noun x} {verb x}"),
        "this sentence has more than 1,000 words",
    ),
    "deep brackets": (sentences("[" * 400 + "the" + "]" * 400), r"nested more than 20 deep"),
    "many long sentences": (
        sentences(*(f"x{n} the " + "{noun x} {verb x}" for n in range(200))),
        "the patterns together have more than 1,000 words",
    ),
    "many kinds": (
        GRAMMAR + "[words.x]\n" + "".join(f'k{n} = ["w"]\n' for n in range(101)),
        "'x' has 101 kinds",
    ),
    "wide lists": (
        sentences("the {noun x} {verb x}")
        + f"[words.x]\none = {json.dumps([f'w{n}' for n in range(200)])}\n"
        + "".join(f'[words.y{n}]\none = ["w"]\n' for n in range(200)),
        "need a table of more than 20,000 numbers",
    ),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_grammar_that_becomes_far_more_than_is_written_is_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, problem = GRAMMARS[name]
    path = tmp_path / "a.toml"
    path.write_text(text if "[[sentences]]" in text else text + sentences("a")[len(GRAMMAR) :])
    steps = 0

    def count_parts(*arguments: Any) -> Iterator[str]:
        nonlocal steps
        for part in parts(*arguments):
            steps += 1
            yield part

    parts = grammar._pattern_parts
    monkeypatch.setattr(grammar, "_pattern_parts", count_parts)
    monkeypatch.setattr(grammar_files, "MAX_WAY_WORDS", 1000)
    monkeypatch.setattr(grammar_files, "MAX_LIST_CELLS", 20_000)
    with pytest.raises(AttnvizError, match=problem):
        grammar_files.read_grammar_task(path)
    assert steps < 10 * len(text) + 30_000


@pytest.mark.slow("models")
def test_matrices_that_nobody_wrote_are_not_made(tmp_path: Path) -> None:
    path, names = tmp_path / "a.toml", [f"d{n}" for n in range(5000)]
    words = "".join(f"w{n} = {{}}\n" for n in range(5000))
    head = '[[heads]]\nasks = ["d0"]\nhands = ["d0"]\n'
    path.write_text(f"dimensions = {json.dumps(names)}\n[words]\n{words}{head}")

    assert peak_memory(lambda: by_hand.read_written_model(path)) < 30 * MB  # and not 100


def test_lines_are_held_out_without_comparing_all_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [CountedName(f"line {number}") for number in range(2000)]
    CountedName.compared = 0

    training_lines, held_out_lines = line_tasks._hold_out_lines(rows, Path("x.txt"))

    assert (len(training_lines), len(held_out_lines)) == (1800, 200)
    assert CountedName.compared < 10 * len(rows)


ODD_VALUES = (*damage.ODD_VALUES, 5, "ab", "[NO]", ["x", 2], [-5, 3])


def test_an_odd_header_of_a_transformer_is_read_or_refused(tmp_path: Path) -> None:
    header = {
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [5], "data_offsets": [24, 34]},
        "__metadata__": {"format": "pt"},
    }
    path = tmp_path / "model.safetensors"
    read_count = refused_count = 0
    for place in places(header):
        for new in ODD_VALUES:
            changed_header = replace_value(header, place, new)
            path.write_bytes(tensors_of(changed_header, bytes(34)))
            try:
                header_read = read_safetensors_header(path)
            except AttnvizError:
                refused_count += 1
            else:
                read_count += 1
                assert all(min(each["shape"], default=0) >= 0 for each in header_read.values())
    assert min(read_count, refused_count) > 10


BROKEN_VALUES = [
    ("tokenizer_config.json", ("model_max_length",), [1]),
    ("tokenizer_config.json", ("model_max_length",), "x"),
    ("tokenizer_config.json", ("unk_token",), "[NO]"),
    ("tokenizer_config.json", ("unk_token",), ""),
    ("tokenizer.json", ("model", "vocab"), {"a": 0}),
]


@pytest.mark.slow("models")
def test_odd_files_of_a_transformer_are_read_or_refused(
    small_transformer: Saved, tmp_path: Path
) -> None:
    undamaged_folder, folder, dice = small_transformer("bert"), tmp_path / "odd", Random(7)
    cases = list(BROKEN_VALUES)
    for name in ("tokenizer_config.json", "tokenizer.json", "config.json"):
        value = json.loads((undamaged_folder / name).read_text())
        cases += [(name, dice.choice([*places(value)]), dice.choice(ODD_VALUES)) for _ in range(5)]
    refused_changes = []
    for name, place, new in cases:
        shutil.copytree(undamaged_folder, folder, dirs_exist_ok=True)
        value = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(replace_value(value, place, new)))
        try:
            weights = trace("The animal zzz 中", model=str(folder)).weights
        except AttnvizError:
            refused_changes.append((name, place))
        else:
            assert torch.isfinite(weights).all()
    assert ("tokenizer_config.json", ("unk_token",)) in refused_changes


@given(st.integers(0, 3000), st.sampled_from("a'./ "))
def test_an_error_names_what_is_long_by_its_beginning_and_its_end(count: int, letter: str) -> None:
    name = "begin" + letter * count + "end"

    problem = str(unknown_name_error("key", name, ["a" * 5000, "b"]))

    assert len(problem) < 2100
    assert problem.startswith("there is no key 'begin")
    assert problem.endswith("end'")
    if letter in "a. ":
        assert len(problem) <= len("there is no key ''") + MAX_QUOTED_NAME_LETTERS
    assert (name in problem) or "…" in problem


def test_a_key_of_5000_letters_is_not_told_in_full(attnviz: Attnviz, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(f'"{"k" * 5000}" = 1')

    error = attnviz("run", "--given", str(path)).err.splitlines()[0]

    assert error == f"error: line 1: there is no matrix '{'k' * 59}…{'k' * 20}' to give in '{path}'"


def test_a_lesson_that_is_too_large_is_told_of_the_option_that_allows_more(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    path = tmp_path / "large.toml"
    path.write_bytes(b"#" * 200)

    error = attnviz("example", "check", str(path), "--limit", "100B").err

    assert error.splitlines()[1] == " hint: give less, or allow more with: --limit 10MB"


@pytest.mark.parametrize("shape", ["(4294967296, 4294967296, 4)", f"({2**63 - 1},)"])
def test_a_header_that_tells_of_more_than_its_file_holds_is_refused_without_a_word_of_numpys(
    tmp_path: Path, shape: str, recwarn: pytest.WarningsRecorder
) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(npy_file(shape, 0, "<f4"))

    with pytest.raises(AttnvizError, match="is not a NumPy file"):
        trace("I am", embeddings=str(path))
    assert not recwarn.list


def test_a_name_in_a_file_has_nothing_for_a_terminal_to_obey_in_an_error_of_the_library(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"\x1b]0;x\x07": 1, "tokens": ["a"]}))

    with pytest.raises(AttnvizError) as error:
        trace(None, given=str(path))

    assert str(error.value) == rf"line 1: there is no matrix '\u001b]0;x\u0007' to give in '{path}'"
    assert str(Note("a\u202eb")) == r"a\u202eb"
