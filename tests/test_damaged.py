"""Files that are damaged, odd, or made to look like others: two lines, and nothing else."""

from __future__ import annotations

import json
import random
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
from tests.hostile.files import npy_file, npz_archive, tensor_file, zip_archive
from tests.refusals import refusal_lines

NINES = "9" * 5000


def nested_lists(depth: int) -> str:
    return "[" * depth + "1" + "]" * depth


SCORES = "line 1: 'scores' in '{}'"
# A file (.toml where its name does not say otherwise): its contents, and how the two lines begin.
ODD_FILES: dict[str, tuple[str, ...]] = {
    "an empty token": ('tokens = ["a", ""]', "line 1: token 2 of 'tokens' in '{}' is empty"),
    "half a character.json": (
        '{"tokens": ["a\\ud800"]}',
        "line 1: token 1 of 'tokens' in '{}' is half a character",
    ),
    "9 deep": (f"scores = {nested_lists(9)}", f"{SCORES} is nested more than 8"),
    "65 deep.json": (f'{{"scores": {nested_lists(65)}}}', f"{SCORES} is nested more"),
    "900 deep": (f"scores = {nested_lists(900)}", "'{}' is nested too deeply"),
    "200,000 deep.json": (f'{{"scores": {nested_lists(200_000)}}}', "'{}' is nested too deeply"),
    "200,000 deep in TOML": (f"scores = {nested_lists(200_000)}", "'{}' is nested too deeply"),
    "5,000 digits": (f"\nscores = [[{NINES}]]", "line 2 of '{}' has a name or a num"),
    "5,000 digits.json": (f'{{"scores": [[{NINES}]]}}', "line 1 of '{}' has a number"),
    "400 digits.json": (
        f'{{"scores": [[1, {NINES[:400]}]]}}',
        f"{SCORES} has a number at row 1, column 2 that no float can hold",
    ),
    "1e999": ("scores = [[1e999]]", f"{SCORES} has infinity at row 1"),
    "beyond float32": (
        "scores = [[1, 1e300]]",
        "'scores' in '{}' has 1e+300 at row 1, column 2 of part 1, but the largest number of "
        "float32 is 3.4e+38",
    ),
    "a list among numbers": (
        "scores = [[1, []], [2, 3]]",
        f"{SCORES} has a list at row 1, column 2, and a number before it",
    ),
    "a number among lists": (
        "scores = [[1, 2], 3]",
        f"{SCORES} has a number at place 2, and a list before it",
    ),
    "ragged parts": (
        "scores = [[[1, 2]], [[1, 2], [3, 4]]]",
        "line 1: row 2 of 'scores' in '{}' has 2 rows, but row 1 has 1",
    ),
    "ragged rows of parts": (
        "scores = [[[1, 2]], [[1]]]",
        "line 1: row 1 of part 2 of 'scores' in '{}' has 1 number, but row 1 has 2",
    ),
    "no numbers": ("scores = [[], []]", f"{SCORES} is not a matrix of"),
    "a date": ("scores = [[1979-05-27]]", f"{SCORES} is not a matrix of"),
    "a text": ('scores = [["1"]]', f"{SCORES} is not a matrix of numbers"),
    "one number": ("scores = 1", f"{SCORES} is not a matrix of numbers"),
    "a table": ("scores = {a = 1}", f"{SCORES} is not a matrix of numbers"),
    "nothing.json": ('{"scores": [[null]]}', f"{SCORES} is not a matrix of"),
    "yes and no": (
        "scores = [[true, false]]",
        f"{SCORES} has true or false where numbers are needed",
    ),
    "numbers with yes and no": ("visible = [[true, 1]]", "line 1: 'visible' in '{}' mixes"),
    "an additive mask by another name": (
        "visible = [[0, -1e9]]\nscores = [[1, 2]]",
        "line 1: 'visible' in '{}' has -1e+09 at row 1, column 2, but it must say yes or no",
    ),
    "dropout's own scale": (
        "kept = [[2.0, 0.0]]\nscores = [[1, 2]]",
        "line 1: 'kept' in '{}' has 2 at row 1, column 1, but it must say yes or no",
    ),
    "twice.json": ('{"scores": [[1]],\n "scores": [[2]]}', "line 1: '{}' gives 'scores' twice"),
    "a vocabulary of half": ("vocabulary = 1.5", "line 1: 'vocabulary' in '{}' is no"),
    "a vocabulary that is true": ("vocabulary = true", "line 1: 'vocabulary' in '{}'"),
    "a vocabulary beyond 64 bits": (
        f"vocabulary = {2**63}",
        "line 1: 'vocabulary' in '{}' is not a number of ids",
    ),
    "a bias for no matrix": (
        "scores = [[1]]\nb_out = [1, 2]",
        "nothing is multiplied by w_out, but '{}' gives 'b_out'",
    ),
    "nan": (
        "\nscores = [[1, 2], [3, nan]]",
        "line 2: 'scores' in '{}' has NaN at row 2, column 2",
        "make every number finite",
    ),
    "infinity": (
        "scores = [[1, -inf], [3, 4]]",
        f"{SCORES} has infinity at row 1, column 2",
        "make every number",
    ),
    "ragged.json": (
        '{\n"w_key": [[1, 2],\n [3]]}',
        "line 2: row 2 of 'w_key' in '{}' has 1 number, but row 1 has 2",
        "give every row",
    ),
    "words for numbers": (
        "keys = [['a']]",
        "line 1: 'keys' in '{}' is not a matrix of numbers",
        "give rows of numbers",
    ),
    "an empty list": (
        "keys = []",
        "line 1: 'keys' in '{}' is not a matrix of numbers",
        "give rows",
    ),
    "a misspelt name": (
        "embedings = [[1]]",
        "line 1: there is no matrix 'embedings' to give in '{}'",
        "did you mean 'embeddings'?",
    ),
    "widths that differ": (
        "embeddings = [[1, 2]]\nw_query = [[1, 2], [3, 4]]\nw_key = [[1], [2]]",
        "queries are 2 wide in '{}' and keys 1, so every 2 heads would share keys and values, "
        "but there is 1 head",
        "try 2 heads, or another multiple of 2; or make 'w_key' and 'w_query' for the same width",
    ),
    "narrow keys": (
        "queries = [[1, 2]]\nkeys = [[1]]",
        "line 2: 'keys' in '{}' is 1 × 1, but should be 1 × 2",
        "according to 'queries' there are 2 numbers",
    ),
    "a value too few": (
        "scores = [[1, 2]]\nvalues = [[1]]",
        f"{SCORES} is 1 × 2, but should be 1 × 1",
        "according to 'values' there is 1 key",
    ),
    "a matrix of other rows": (
        "embeddings = [[1, 2]]\nw_value = [[1]]",
        "line 2: 'w_value' in '{}' is 1 × 1, but should be 2 × any",
        "according to 'embeddings' there are 2",
    ),
    "a mask of yes and no": (
        "scores = [[1, 2], [3, 4]]\nmask = [[0, 1], [0, 0]]",
        "line 2: 'mask' in '{}' is added to the scores, but contains only 0 and 1",
        "give it as 'visible' (1: may be read), as 'hidden'",
    ),
    "a mask of infinity": (
        "scores = [[1, 2], [3, 4]]\nmask = [[0, inf], [0, 0]]",
        "line 2: 'mask' in '{}' has infinity at row 1, column 2",
        "make every number finite; only 'mask'",
    ),
    "tokens and rows": (
        "tokens = ['a']\nscores = [[1], [2]]",
        "line 2: 'scores' in '{}' is 2 × 1, but should be 1 × any",
        "according to 'tokens' there is 1 token",
    ),
    "no tokens": (
        "tokens = [1, 2]",
        "line 1: 'tokens' in '{}' is not a list of words",
        "give words",
    ),
    "an open list": ("scores = [[1, 2\n", "'{}' is not valid TOML", "write each line as name"),
    "two equals signs": (
        "scores = [[1, 2]]\nkeys == 1",
        "'{}' is not valid TOML: invalid value (at line 2, column 7)",
        "write each line as name",
    ),
    "an open object.json": ("{", "line 1 of '{}' is not valid JSON", "fix that line"),
    "a list.json": ("[1]", "'{}' contains no names", "give an object"),
    "a table.csv": ("1,2", "'{}' is not a file of matrices", "give one that ends in .toml"),
    "a worked example": (
        "[given]\nscores = [[1]]",
        "'{}' is a worked example",
        "try: attnviz example show",
    ),
    "no count of tokens": (
        "w_query = [[1]]",
        "there is no text, and nothing in '{}' says how many",
        "give a sentence",
    ),
    "a vocabulary in words": (
        "vocabulary = 'all'\nscores = [[1]]",
        "line 1: 'vocabulary' in '{}' is not a number of ids",
        "give a whole number",
    ),
}


@pytest.mark.parametrize("name", ODD_FILES)
def test_an_odd_file_is_refused_in_two_lines(attnviz: Attnviz, tmp_path: Path, name: str) -> None:
    contents, expected_problem, *expected_hint = ODD_FILES[name]
    path = (tmp_path / name).with_suffix(Path(name).suffix or ".toml")
    path.write_text(contents)

    problem, hint = refusal_lines(attnviz("run", "--given", str(path)))

    assert problem.startswith(expected_problem.format(path))
    assert hint.startswith("".join(expected_hint))


ODD_ARCHIVES: dict[str, tuple[bytes, str]] = {  # .npz where the name does not say otherwise
    "encrypted": (
        zip_archive(npy_file("(1, 1)"), encryption_flag=1),
        "'scores' in '{}' is encr",
    ),
    "packed somehow": (
        zip_archive(npy_file("(1, 1)"), method=99),
        "'scores' in '{}' is compressed in a way that Python does not know",
    ),
    "a name without an array": (zip_archive(b"hello"), "'{}' is not a NumPy file"),
    "a text": (zip_archive(b"hello", name="readme.txt"), "'{}' is not a NumPy file"),
    "too small": (zip_archive(npy_file("(2, 2)", 30)), "'scores' in '{}' is damaged"),
    "7 terabytes": (
        zip_archive(npy_file("(1000000, 1000000)")),
        "'scores' in '{}' is d",
    ),
    "beyond 64 bits": (
        zip_archive(npy_file(f"({10**20},)")),
        "'scores' in '{}' is dam",
    ),
    "less than nothing": (
        zip_archive(npy_file("(-1, -1)")),
        "'scores' in '{}' is dama",
    ),
    "half a header": (zip_archive(npy_file("((((")), "'{}' is not a NumPy file"),
    "complex numbers": (
        npz_archive(scores=np.ones((2, 2), complex)),
        "'{}' holds complex128 where",
    ),
    "dates": (
        npz_archive(scores=np.array([["2020-01-01"]], "M8[D]")),
        "'{}' holds datetime64[D] where",
    ),
    "bytes": (npz_archive(scores=np.array([[b"a"]])), "'{}' holds |S1 where numbers are needed"),
    "records": (
        npz_archive(scores=np.ones((2, 2), [("a", int)])),
        "'{}' holds [('a', '<i8')] where",
    ),
    "words": (npz_archive(scores=np.array([["a"]])), "'scores' in '{}' is not a matrix of numbers"),
    "no numbers": (
        npz_archive(scores=np.ones((0, 2))),
        "'scores' in '{}' is not a matrix of numbers",
    ),
    "a long double": (
        npz_archive(scores=np.array([[np.longdouble("1e4000")]])),
        "'scores' in '{}' has i",
    ),
    "two vocabularies": (npz_archive(vocabulary=np.array([1, 2])), "'vocabulary' in '{}' is no"),
    "a word for a number": (npz_archive(vocabulary=np.array("x")), "'vocabulary' in '{}' is no"),
    "NaN ids": (
        npz_archive(vocabulary=np.array(np.nan)),
        "'vocabulary' in '{}' is not a number",
    ),
    "4 bits.safetensors": (
        tensor_file("F4", 2),
        "'scores' in '{}' is not a tensor of plain numbers",
    ),
    "complex tensors.safetensors": (
        tensor_file("C64", 32),
        "'scores' in '{}' is not a tensor of plain",
    ),
    "unheard of.safetensors": (tensor_file("Q7", 8), "'{}' is not a safetensors file"),
    "too few bytes.safetensors": (
        tensor_file("F32", 16)[:-1],
        "'{}' is not a safetensors file",
    ),
    "yes and no.safetensors": (tensor_file("BOOL", 4), "'scores' in '{}' has true or false"),
    "empty.safetensors": (b"", "'{}' is not a safetensors file"),
}


@pytest.mark.parametrize("name", ODD_ARCHIVES)
@pytest.mark.filterwarnings("error")
def test_an_odd_archive_is_refused_in_two_lines(tmp_path: Path, name: str) -> None:
    content, problem = ODD_ARCHIVES[name]
    path = (tmp_path / name).with_suffix(Path(name).suffix or ".npz")
    path.write_bytes(content)

    with pytest.raises(AttnvizError) as refusal:
        matrices.read_matrices(str(path))

    assert str(refusal.value).startswith(problem.format(path))


@pytest.mark.parametrize("number", [np.array([10]), np.array(10), np.array(10.0)])
def test_one_number_is_a_vocabulary_however_it_is_saved(tmp_path: Path, number: Any) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(npz_archive(vocabulary=number))

    assert matrices.read_matrices(str(path)).vocabulary == 10


CONTENTS: dict[str, Any] = {
    "tokens": ["a", "b"],
    "scores": [[1.5, 2], [3, 4]],
    "values": [[1, 2, 3], [4, 5, 6]],
    "vocabulary": 7,
}


def packed_archive() -> bytes:
    file = BytesIO()
    arrays: dict[str, Any] = {name: np.array(each) for name, each in CONTENTS.items()}
    np.savez_compressed(file, **arrays)
    return file.getvalue()


UNDAMAGED_FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "npz": (".npz", lambda: npz_archive(**CONTENTS)),
    "compressed": (".npz", packed_archive),
    "safetensors": (".safetensors", lambda: tensor_file("F32", 16)),
    "json": (".json", lambda: json.dumps(CONTENTS).encode()),
    "toml": (".toml", lambda: "".join(f"{k} = {v!r}\n" for k, v in CONTENTS.items()).encode()),
    "npy": (".npy", lambda: npy_file("(2, 2)", 32)),
    "words": (".txt", lambda: b"a 1 2 3\nb 4 5 6\nthe 1 1 1\n"),
}
ODD_BYTES = (b"[", b"]", b"nan", b"1e999", b'"', b"{", b"9" * 30, b"\xff", b"true", b"null", b"")


def damage(content: bytes, dice: random.Random) -> bytes:
    """Some bytes changed, left out, put in, doubled; or an early end."""
    damaged_content = bytearray(content)
    for _ in range(dice.choice((1, 1, 2, 5))):
        start, length = dice.randrange(len(damaged_content) + 1), dice.randrange(1, 9)
        replacement = dice.choice(
            (bytes([dice.randrange(256)]), damaged_content[-length:], dice.choice(ODD_BYTES))
        )
        end = dice.choice(
            (start, start + length, start + 1, len(damaged_content) if length == 1 else start)
        )
        damaged_content[start:end] = replacement
    return bytes(damaged_content)


@pytest.mark.parametrize("kind", UNDAMAGED_FILES)
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, kind: str) -> None:
    suffix, write_content = UNDAMAGED_FILES[kind]
    content, path, dice = write_content(), tmp_path / f"a{suffix}", random.Random(kind)
    refusals = 0
    for _ in range(150):
        path.write_bytes(damage(content, dice))
        try:
            if suffix in (".npy", ".txt"):
                trace("the b", embeddings=str(path), tokenizer="words")
            else:
                trace(None, given=matrices.read_matrices(str(path)))
        except AttnvizError:
            refusals += 1
    assert refusals > 30


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


DISAGREEING_SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
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


@pytest.mark.parametrize("name", DISAGREEING_SHAPES)
def test_shapes_that_agree_in_name_agree_in_number(tmp_path: Path, name: str) -> None:
    contents, settings, problem = DISAGREEING_SHAPES[name]
    path = tmp_path / "a.txt"
    path.write_text("a 1 2\nb 3 4\n")
    options: dict[str, Any] = {
        key: str(path) if value == "VECTORS" else value for key, value in settings.items()
    }
    text = "a b" if "embeddings" in options else None

    with pytest.raises(AttnvizError) as refusal:
        trace(text, tokenizer="words", given=matrices.parse_matrices(contents, "a.toml"), **options)

    assert str(refusal.value) == problem


def test_two_heads_of_scores_have_values_with_any_width() -> None:
    scores = matrices.parse_matrices({"scores": np.ones((2, 3, 3))}, heads=2)

    for dim in (1, 2, 3, 8):
        assert trace(None, given=scores, dim=dim).layers[0].context.shape == (
            3,
            2 * max(1, dim // 2),
        )


LESSON_START = 'title = "t"\n[given]\ntokens = ["a", "b"]\nembeddings = [[1, 0], [0, 1]]\n'
ODD_EXPECTATIONS = {
    "a list among numbers": ("[[1, 0], [[0], 1]]", "the rows expected of 'embeddings' differ"),
    "a number among lists": ("[[1, 0], 1]", "the rows expected of 'embeddings' differ"),
    "beyond floats": ("[[1e999, 0], [0, 1]]", "the number in row 1 column 1 is too large"),
    "400 digits": (f"[[0, {NINES[:400]}], [0, 1]]", "the number in row 1 column 2 is too large"),
    "5 deep": ('[[[[["a"]]]]]', "'a' in part 1 part 1 head 1 row 1 column 1 is not a number"),
    "nothing": ("[]", "0 numbers are expected of 'embeddings', which is 2 × 2"),
}


@pytest.mark.parametrize("name", ODD_EXPECTATIONS)
def test_an_odd_expectation_is_refused_with_its_line(
    attnviz: Attnviz, tmp_path: Path, name: str
) -> None:
    values, problem = ODD_EXPECTATIONS[name]
    path = tmp_path / "lesson.toml"
    path.write_text(f'{LESSON_START}[[expect]]\nstep = "embeddings"\nvalues = {values}\n')

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
    path.write_text(LESSON_START.replace("[given]", f"{line}\n[given]"))

    assert problem in refusal_lines(attnviz("example", "show", str(path)))[0]


def test_a_window_of_63_bits_is_no_window() -> None:
    wide_window, no_window = (
        trace("I am learning this", window=size) for size in (2**63 - 1, None)
    )

    assert wide_window.layers[0].visible.equal(no_window.layers[0].visible)
