"""Files that are damaged, odd, or made to look like others: two lines, and nothing else."""

from __future__ import annotations

import json
import random
import struct
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnviz import trace
from attnviz.errors import AttnvizError
from attnviz.traces import matrices
from tests.conftest import Attnviz

NINES = "9" * 5000


def nested(depth: int) -> str:
    return "[" * depth + "1" + "]" * depth


TEXTS: dict[str, tuple[str, str, str]] = {  # suffix, what it holds, and the start of what is said
    "an empty token": (
        ".toml",
        'tokens = ["a", ""]',
        "line 1: token 2 of 'tokens' in '{}' is empty",
    ),
    "half a character": (
        ".json",
        '{"tokens": ["a\\ud800"]}',
        "line 1: token 1 of 'tokens' in '{}' is half a character",
    ),
    "9 deep": (".toml", f"scores = {nested(9)}", "line 1: 'scores' in '{}' is nested more than 8"),
    "65 deep": (".json", f'{{"scores": {nested(65)}}}', "line 1: 'scores' in '{}' is nested more"),
    "900 deep": (".toml", f"scores = {nested(900)}", "'{}' is nested too deeply"),
    "200,000 deep": (".json", f'{{"scores": {nested(200_000)}}}', "'{}' is nested too deeply"),
    "200,000 deep in TOML": (".toml", f"scores = {nested(200_000)}", "'{}' is nested too deeply"),
    "5,000 digits": (".toml", f"\nscores = [[{NINES}]]", "line 2 of '{}' has a name or a num"),
    "5,000 digits in JSON": (".json", f'{{"scores": [[{NINES}]]}}', "line 1 of '{}' has a number"),
    "400 digits": (
        ".json",
        f'{{"scores": [[1, {NINES[:400]}]]}}',
        "line 1: 'scores' in '{}' has a number at row 1, column 2 that no float can hold",
    ),
    "1e999": (".toml", "scores = [[1e999]]", "line 1: 'scores' in '{}' has infinity at row 1"),
    "beyond float32": (
        ".toml",
        "scores = [[1, 1e300]]",
        "'scores' in '{}' has 1e+300 at row 1, column 2 of part 1, but the largest number of "
        "float32 is 3.4e+38",
    ),
    "a list among numbers": (
        ".toml",
        "scores = [[1, []], [2, 3]]",
        "line 1: 'scores' in '{}' has a list at row 1, column 2, and a number before it",
    ),
    "a number among lists": (
        ".toml",
        "scores = [[1, 2], 3]",
        "line 1: 'scores' in '{}' has a number at place 2, and a list before it",
    ),
    "ragged parts": (
        ".toml",
        "scores = [[[1, 2]], [[1, 2], [3, 4]]]",
        "line 1: row 2 of 'scores' in '{}' has 2 rows, but row 1 has 1",
    ),
    "ragged rows of parts": (
        ".toml",
        "scores = [[[1, 2]], [[1]]]",
        "line 1: row 1 of part 2 of 'scores' in '{}' has 1 number, but row 1 has 2",
    ),
    "no numbers": (".toml", "scores = [[], []]", "line 1: 'scores' in '{}' is not a matrix of"),
    "a date": (".toml", "scores = [[1979-05-27]]", "line 1: 'scores' in '{}' is not a matrix of"),
    "a text": (".toml", 'scores = [["1"]]', "line 1: 'scores' in '{}' is not a matrix of numbers"),
    "one number": (".toml", "scores = 1", "line 1: 'scores' in '{}' is not a matrix of numbers"),
    "a table": (".toml", "scores = {a = 1}", "line 1: 'scores' in '{}' is not a matrix of numbers"),
    "nothing": (".json", '{"scores": [[null]]}', "line 1: 'scores' in '{}' is not a matrix of"),
    "yes and no": (
        ".toml",
        "scores = [[true, false]]",
        "line 1: 'scores' in '{}' has true or false where numbers are needed",
    ),
    "numbers with yes and no": (
        ".toml",
        "visible = [[true, 1]]",
        "line 1: 'visible' in '{}' mixes",
    ),
    "an additive mask by another name": (
        ".toml",
        "visible = [[0, -1e9]]\nscores = [[1, 2]]",
        "line 1: 'visible' in '{}' has -1e+09 at row 1, column 2, but it must say yes or no",
    ),
    "dropout's own scale": (
        ".toml",
        "kept = [[2.0, 0.0]]\nscores = [[1, 2]]",
        "line 1: 'kept' in '{}' has 2 at row 1, column 1, but it must say yes or no",
    ),
    "twice in JSON": (
        ".json",
        '{"scores": [[1]],\n "scores": [[2]]}',
        "line 1: '{}' gives 'scores' twice",
    ),
    "a vocabulary of half": (".toml", "vocabulary = 1.5", "line 1: 'vocabulary' in '{}' is no"),
    "a vocabulary that is true": (".toml", "vocabulary = true", "line 1: 'vocabulary' in '{}'"),
    "a vocabulary beyond 64 bits": (
        ".toml",
        f"vocabulary = {2**63}",
        "line 1: 'vocabulary' in '{}' is not a number of ids",
    ),
    "a bias for no matrix": (
        ".toml",
        "scores = [[1]]\nb_out = [1, 2]",
        "nothing is multiplied by w_out, but '{}' gives 'b_out'",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_an_odd_text_is_refused_in_two_lines(attnviz: Attnviz, tmp_path: Path, name: str) -> None:
    suffix, text, problem = TEXTS[name]
    path = tmp_path / f"odd{suffix}"
    path.write_text(text)

    result = attnviz("run", "--given", str(path))

    assert (result.status, result.out) == (2, "")
    first, second = result.err.splitlines()
    assert first.startswith(f"error: {problem.format(path)}")
    assert second.startswith(" hint: ")


def header(shape: str, kind: str = "<f8") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def zipped(member: bytes, *, name: str = "scores.npy", flag: int = 0, method: int = 0) -> bytes:
    """An archive of one member, which says of itself that it is encrypted, or packed somehow."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, member)
    content = bytearray(file.getvalue())
    central = content.rfind(b"PK\x01\x02")
    for place, local, value in ((8, 6, flag), (10, 8, method)):
        content[central + place] |= value
        content[local] |= value
    return bytes(content)


def tensor(kind: str, size: int) -> bytes:
    text = json.dumps({"scores": {"dtype": kind, "shape": [2, 2], "data_offsets": [0, size]}})
    return struct.pack("<Q", len(text)) + text.encode() + bytes(size)


def saved(value: Any, name: str = "scores") -> bytes:
    file = BytesIO()
    rest: dict[str, Any] = {name: value}
    np.savez(file, **rest)
    return file.getvalue()


ARCHIVES: dict[str, tuple[str, bytes, str]] = {
    "encrypted": (".npz", zipped(header("(1, 1)") + bytes(8), flag=1), "'scores' in '{}' is encr"),
    "packed somehow": (
        ".npz",
        zipped(header("(1, 1)") + bytes(8), method=99),
        "'scores' in '{}' is compressed in a way that Python does not know",
    ),
    "a name without an array": (".npz", zipped(b"hello"), "'{}' is not a NumPy file"),
    "a text": (".npz", zipped(b"hello", name="readme.txt"), "'{}' is not a NumPy file"),
    "too small": (".npz", zipped(header("(2, 2)") + bytes(30)), "'scores' in '{}' is damaged"),
    "7 terabytes": (
        ".npz",
        zipped(header("(1000000, 1000000)") + bytes(8)),
        "'scores' in '{}' is d",
    ),
    "beyond 64 bits": (
        ".npz",
        zipped(header(f"({10**20},)") + bytes(8)),
        "'scores' in '{}' is dam",
    ),
    "less than nothing": (
        ".npz",
        zipped(header("(-1, -1)") + bytes(8)),
        "'scores' in '{}' is dama",
    ),
    "half a header": (".npz", zipped(header("((((") + bytes(8)), "'{}' is not a NumPy file"),
    "complex numbers": (".npz", saved(np.ones((2, 2), complex)), "'{}' holds complex128 where"),
    "dates": (".npz", saved(np.array([["2020-01-01"]], "M8[D]")), "'{}' holds datetime64[D] where"),
    "bytes": (".npz", saved(np.array([[b"a"]])), "'{}' holds |S1 where numbers are needed"),
    "records": (".npz", saved(np.ones((2, 2), [("a", int)])), "'{}' holds [('a', '<i8')] where"),
    "words": (".npz", saved(np.array([["a"]])), "'scores' in '{}' is not a matrix of numbers"),
    "no numbers": (".npz", saved(np.ones((0, 2))), "'scores' in '{}' is not a matrix of numbers"),
    "a long double": (
        ".npz",
        saved(np.array([[np.longdouble("1e4000")]])),
        "'scores' in '{}' has i",
    ),
    "two vocabularies": (
        ".npz",
        saved(np.array([1, 2]), "vocabulary"),
        "'vocabulary' in '{}' is no",
    ),
    "a word for a number": (
        ".npz",
        saved(np.array("x"), "vocabulary"),
        "'vocabulary' in '{}' is no",
    ),
    "NaN ids": (
        ".npz",
        saved(np.array(np.nan), "vocabulary"),
        "'vocabulary' in '{}' is not a number",
    ),
    "4 bits": (
        ".safetensors",
        tensor("F4", 2),
        "'scores' in '{}' is not a tensor of plain numbers",
    ),
    "complex tensors": (
        ".safetensors",
        tensor("C64", 32),
        "'scores' in '{}' is not a tensor of plain",
    ),
    "unheard of": (".safetensors", tensor("Q7", 8), "'{}' is not a safetensors file"),
    "too few bytes": (".safetensors", tensor("F32", 16)[:-1], "'{}' is not a safetensors file"),
    "yes and no": (".safetensors", tensor("BOOL", 4), "'scores' in '{}' has true or false"),
    "empty": (".safetensors", b"", "'{}' is not a safetensors file"),
}


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.filterwarnings("error")
def test_an_odd_archive_is_refused_in_two_lines(tmp_path: Path, name: str) -> None:
    suffix, content, problem = ARCHIVES[name]
    path = tmp_path / f"odd{suffix}"
    path.write_bytes(content)

    with pytest.raises(AttnvizError) as refused:
        matrices.read_matrices(str(path))

    assert str(refused.value).startswith(problem.format(path))


@pytest.mark.parametrize("number", [np.array([10]), np.array(10), np.array(10.0)])
def test_one_number_is_a_vocabulary_however_it_is_saved(tmp_path: Path, number: Any) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(saved(number, "vocabulary"))

    assert matrices.read_matrices(str(path)).vocabulary == 10


CONTENTS: dict[str, Any] = {
    "tokens": ["a", "b"],
    "scores": [[1.5, 2], [3, 4]],
    "values": [[1, 2, 3], [4, 5, 6]],
    "vocabulary": 7,
}


def archive(save: Callable[..., Any]) -> bytes:
    file = BytesIO()
    save(file, **{name: np.array(each) for name, each in CONTENTS.items()})
    return file.getvalue()


def matrix() -> bytes:
    file = BytesIO()
    np.save(file, np.ones((2, 2)))
    return file.getvalue()


WHOLE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "npz": (".npz", lambda: archive(np.savez)),
    "compressed": (".npz", lambda: archive(np.savez_compressed)),
    "safetensors": (".safetensors", lambda: tensor("F32", 16)),
    "json": (".json", lambda: json.dumps(CONTENTS).encode()),
    "toml": (".toml", lambda: "".join(f"{k} = {v!r}\n" for k, v in CONTENTS.items()).encode()),
    "npy": (".npy", matrix),
    "words": (".txt", lambda: b"a 1 2 3\nb 4 5 6\nthe 1 1 1\n"),
}
ODD_BYTES = (b"[", b"]", b"nan", b"1e999", b'"', b"{", b"9" * 30, b"\xff", b"true", b"null", b"")


def damaged(content: bytes, dice: random.Random) -> bytes:
    """Some bytes changed, left out, put in, doubled; or an early end."""
    found = bytearray(content)
    for _ in range(dice.choice((1, 1, 2, 5))):
        place, length = dice.randrange(len(found) + 1), dice.randrange(1, 9)
        new = dice.choice((bytes([dice.randrange(256)]), found[-length:], dice.choice(ODD_BYTES)))
        end = dice.choice((place, place + length, place + 1, len(found) if length == 1 else place))
        found[place:end] = new
    return bytes(found)


@pytest.mark.parametrize("kind", WHOLE)
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, kind: str) -> None:
    suffix, make = WHOLE[kind]
    content, path, dice = make(), tmp_path / f"a{suffix}", random.Random(kind)
    refused = 0
    for _ in range(150):
        path.write_bytes(damaged(content, dice))
        try:
            if suffix in (".npy", ".txt"):
                trace("the b", embeddings=str(path), tokenizer="words")
            else:
                trace(None, given=matrices.read_matrices(str(path)))
        except AttnvizError:
            refused += 1
    assert refused > 30


def test_vectors_of_a_file_are_held_by_the_dtype_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a 1 2\nb 1e39 4\n")

    with pytest.raises(
        AttnvizError, match="has 1e\\+39 at row 2, column 1, but the largest number"
    ):
        trace("a b", tokenizer="words", embeddings=str(path))

    assert (
        trace("a b", tokenizer="words", embeddings=str(path), dtype="float64").embeddings[1, 1] == 4
    )


TOGETHER: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a matrix for other vectors": (
        {"w_query": np.ones((3, 2))},
        {"embeddings": "VECTORS"},
        "the embeddings are 2 wide, but 'a.toml' is for a width of 3",
    ),
    "a last matrix for other heads": (
        {"embeddings": np.ones((2, 4)), "w_out": np.ones((3, 2))},
        {"variant": "plain"},
        "'w_out' in 'a.toml' has 3 rows, but 'plain' mixes embeddings that are 4 wide",
    ),
    "a bias for another matrix": (
        {"embeddings": np.ones((2, 4)), "b_out": [1, 2, 3]},
        {"heads": 2},
        "'b_out' in 'a.toml' is 3 wide, but what it is added to is 4 wide",
    ),
    "heads that share out too little": (
        {"scores": np.ones((2, 3, 3)), "axes": ["head", "token", "key"]},
        {"variant": "plain", "dim": 1},
        "a width of 1 does not split into 2 equal heads",
    ),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_shapes_that_agree_in_name_agree_in_number(tmp_path: Path, name: str) -> None:
    from attnviz.traces.matrices import parse_matrices

    contents, settings, problem = TOGETHER[name]
    path = tmp_path / "a.txt"
    path.write_text("a 1 2\nb 3 4\n")
    chosen: dict[str, Any] = {
        key: str(path) if value == "VECTORS" else value for key, value in settings.items()
    }
    text = "a b" if "embeddings" in chosen else None

    with pytest.raises(AttnvizError) as refused:
        trace(text, tokenizer="words", given=parse_matrices(contents, "a.toml"), **chosen)

    assert str(refused.value) == problem


def test_two_heads_of_scores_have_values_with_any_width() -> None:
    from attnviz.traces.matrices import parse_matrices

    scores = parse_matrices({"scores": np.ones((2, 3, 3))}, heads=2)

    for dim in (1, 2, 3, 8):
        assert trace(None, given=scores, dim=dim).layers[0].context.shape == (
            3,
            2 * max(1, dim // 2),
        )


LESSON = 'title = "t"\n[given]\ntokens = ["a", "b"]\nembeddings = [[1, 0], [0, 1]]\n'
EXPECTED = {
    "a list among numbers": ("[[1, 0], [[0], 1]]", "the rows expected of 'embeddings' differ"),
    "a number among lists": ("[[1, 0], 1]", "the rows expected of 'embeddings' differ"),
    "beyond floats": ("[[1e999, 0], [0, 1]]", "the number in row 1 column 1 is too large"),
    "400 digits": (f"[[0, {NINES[:400]}], [0, 1]]", "the number in row 1 column 2 is too large"),
    "5 deep": ('[[[[["a"]]]]]', "'a' in part 1 part 1 head 1 row 1 column 1 is not a number"),
    "nothing": ("[]", "0 numbers are expected of 'embeddings', which is 2 × 2"),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_odd_expectation_is_refused_with_its_line(
    attnviz: Attnviz, tmp_path: Path, name: str
) -> None:
    values, problem = EXPECTED[name]
    path = tmp_path / "lesson.toml"
    path.write_text(f'{LESSON}[[expect]]\nstep = "embeddings"\nvalues = {values}\n')

    result = attnviz("example", "check", str(path))

    assert result.status == 2
    assert result.err.splitlines()[0].startswith(f"error: line 6 of '{path}': {problem}")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[settings]\nwindow = 9223372036854775808", "window is 9223372036854775808, and must be"),
        (
            "[settings]\ntemperature = 1e-9999999999999999999",
            "is not valid TOML: a number that is too large",
        ),
        (f"[recipe]\nseed = {2**63}", "'seed' is not a whole number from 0 to"),
    ],
)
def test_a_lesson_with_numbers_beyond_all_bounds_is_refused(
    attnviz: Attnviz, tmp_path: Path, line: str, problem: str
) -> None:
    path = tmp_path / "lesson.toml"
    path.write_text(LESSON.replace("[given]", f"{line}\n[given]"))

    result = attnviz("example", "show", str(path))

    assert result.status == 2
    assert problem in result.err.splitlines()[0]


def test_a_window_of_63_bits_is_no_window() -> None:
    wide, none = (trace("I am learning this", window=size) for size in (2**63 - 1, None))

    assert wide.layers[0].visible.equal(none.layers[0].visible)
