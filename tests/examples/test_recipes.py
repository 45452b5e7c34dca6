"""What a recipe draws is what torch draws; and what is made of it is what torch makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional, init

from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.wings.examples import example as examples
from attnviz.wings.examples.constructions import CONSTRUCTIONS, construct_matrix, construction_shape
from attnviz.wings.examples.draws import (
    DRAW_KINDS,
    MAX_SKIPPED_AT_ONCE,
    MatrixDraw,
    Recipe,
    draw_recipe,
)
from attnviz.wings.examples.example_files import read_example
from tests.conftest import Attnviz
from tests.refusals import refusal_lines

SEEDS = st.integers(0, 2**63 - 1)


def draw_single(recipe: Recipe) -> Tensor:
    (name,) = recipe.shapes_by_name
    return draw_recipe(recipe)[name]


TORCH_INITIALISERS: dict[str, tuple[str, dict[str, Any], Callable[[Tensor], Tensor]]] = {
    "xavier_uniform": ("xavier_uniform", {}, init.xavier_uniform_),
    "xavier_uniform with a gain": (
        "xavier_uniform",
        {"gain": 2.0},
        lambda tensor: init.xavier_uniform_(tensor, gain=2.0),
    ),
    "xavier_normal": ("xavier_normal", {}, init.xavier_normal_),
    "kaiming_uniform": ("kaiming_uniform", {}, init.kaiming_uniform_),
    "kaiming_uniform of nn.Linear": (
        "kaiming_uniform",
        {"a": 5**0.5},
        lambda tensor: nn.Linear(tensor.shape[1], tensor.shape[0], bias=False).weight.detach(),
    ),
    "kaiming_normal": ("kaiming_normal", {}, init.kaiming_normal_),
    "kaiming_normal for ReLU": (
        "kaiming_normal",
        {"mode": "fan_out", "nonlinearity": "relu"},
        lambda tensor: init.kaiming_normal_(tensor, mode="fan_out", nonlinearity="relu"),
    ),
    "uniform": ("uniform", {"a": -0.1, "b": 0.1}, lambda tensor: tensor.uniform_(-0.1, 0.1)),
    "normal": ("normal", {"std": 0.02}, lambda tensor: init.normal_(tensor, std=0.02)),
    "randn, as nn.Embedding begins": (
        "randn",
        {},
        lambda tensor: nn.Embedding(*tensor.shape).weight.detach(),
    ),
}


@pytest.mark.parametrize("name", TORCH_INITIALISERS)
@given(seed=SEEDS, rows=st.integers(1, 6), columns=st.integers(1, 6))
def test_matrices_are_those_that_torch_initialises(
    name: str, seed: int, rows: int, columns: int
) -> None:
    kind, options, torch_initialiser = TORCH_INITIALISERS[name]

    matrix = draw_single(
        Recipe(
            seed=seed,
            draws=(MatrixDraw(name="w", kind=kind, shape=(rows, columns), options=options),),
        )
    )

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        assert torch.equal(matrix, torch_initialiser(torch.empty(rows, columns)))


def test_a_module_of_torchs_own_is_drawn_with_all_its_matrices() -> None:
    recipe = Recipe(
        seed=7,
        draws=(
            MatrixDraw(name="w_out", kind="linear", shape=(8, 8)),
            MatrixDraw(name="in_proj", kind="xavier_uniform", shape=(24, 8), transposed=True),
        ),
    )
    matrices = draw_recipe(recipe)

    with torch.random.fork_rng():
        torch.manual_seed(7)
        module = nn.MultiheadAttention(8, 2)
    assert torch.equal(matrices["w_out"], module.out_proj.weight.T)
    for number, matrix in enumerate(module.in_proj_weight.chunk(3), start=1):
        assert torch.equal(
            construct_matrix({"columns": ["in_proj", number, 3]}, matrices), matrix.T
        )


@given(seed=SEEDS, second_seed=SEEDS, skip=st.integers(0, 30), second_skip=st.integers(0, 30))
def test_a_second_seed_begins_anew_and_what_is_skipped_is_drawn(
    seed: int, second_seed: int, skip: int, second_skip: int
) -> None:
    draws = (
        MatrixDraw(name="x", kind="rand", shape=(2, 3)),
        MatrixDraw(name="y", kind="randn", shape=(4, 4), seed=second_seed, skip=second_skip),
        MatrixDraw(name="z", kind="rand", shape=(3, 2), transposed=True, skip=second_skip),
    )
    matrices = draw_recipe(Recipe(seed=seed, skip=skip, draws=draws))

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        torch.rand(skip)
        assert torch.equal(matrices["x"], torch.rand(2, 3))
        torch.manual_seed(second_seed)
        torch.rand(second_skip)
        assert torch.equal(matrices["y"], torch.randn(4, 4))
        torch.rand(second_skip)
        assert torch.equal(matrices["z"], torch.rand(3, 2).T)


def test_numbers_are_skipped_some_at_a_time() -> None:
    skip = MAX_SKIPPED_AT_ONCE + 5
    generator = torch.Generator().manual_seed(1)
    torch.rand(skip, generator=generator)

    numbers = draw_single(
        Recipe(seed=1, skip=skip, draws=(MatrixDraw(name="x", kind="rand", shape=(3,)),))
    )

    assert torch.equal(numbers, torch.rand(3, generator=generator))


@pytest.mark.parametrize(
    ("name", "bias"),
    [
        ("w_query", "b_query"),
        ("cross_w_key", "cross_b_key"),
        ("layers.1.cross_w_out", "layers.1.cross_b_out"),
        ("new_weights", "b_new_weights"),
    ],
)
def test_a_bias_is_called_after_its_matrix(name: str, bias: str) -> None:
    recipe = Recipe(draws=(MatrixDraw(name=name, kind="linear", shape=(3, 2)),))

    assert set(draw_recipe(recipe)) == {name, bias}


@given(
    kind=st.sampled_from(sorted(DRAW_KINDS)),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    transposed=st.booleans(),
)
def test_the_shapes_of_what_is_drawn_are_known_before(
    kind: str, shape: tuple[int, int], transposed: bool
) -> None:
    recipe = Recipe(draws=(MatrixDraw(name="w", kind=kind, shape=shape, transposed=transposed),))

    assert {
        name: tuple(each.shape) for name, each in draw_recipe(recipe).items()
    } == recipe.shapes_by_name


def dropout_draw(p: float, *, intel: bool) -> MatrixDraw:
    return MatrixDraw(name="kept", kind="dropout", shape=(6, 6), options={"p": p, "intel": intel})


@pytest.fixture(scope="module")
def uses_intel() -> bool:
    """Whether torch on this machine draws dropout by Intel's library."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        mask = functional.dropout(torch.ones(6, 6)) > 0
    return not torch.equal(mask, draw_single(Recipe(draws=(dropout_draw(0.5, intel=False),))) > 0)


@given(seed=SEEDS, p=st.floats(0, 0.99))
def test_dropout_keeps_what_torch_keeps(uses_intel: bool, seed: int, p: float) -> None:
    next_draw = MatrixDraw(name="after", kind="rand", shape=(3,))
    matrices = draw_recipe(Recipe(seed=seed, draws=(dropout_draw(p, intel=uses_intel), next_draw)))

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        mask = functional.dropout(torch.ones(6, 6), p)
        assert torch.equal(matrices["kept"] > 0, mask > 0)
        assert torch.equal(matrices["after"], torch.rand(3))


# torch.manual_seed(123), torch.nn.Dropout(0.5), a 6 × 6 of ones: False as a book on language models
# prints it (from an Apple processor), True as notes on that book do (from an Intel one).
TUTORIAL_MASKS = {
    False: "110110 000101 111101 011001 010101 011110",
    True: "111111 010000 001010 110001 100001 010000",
}
# Such notes also print a second call with the same generator, on and below the diagonal.
SECOND_MASK = "1 00 001 0101 01111 110011"


@pytest.mark.parametrize("uses_intel", TUTORIAL_MASKS)
def test_dropout_keeps_what_tutorials_printed_on_any_processor(uses_intel: bool) -> None:
    mask = draw_single(Recipe(seed=123, draws=(dropout_draw(0.5, intel=uses_intel),)))

    rows = ["".join(str(int(each)) for each in row) for row in mask]
    assert " ".join(rows) == TUTORIAL_MASKS[uses_intel]


def test_a_second_call_of_dropout_goes_on_where_the_first_stopped() -> None:
    first_call = dropout_draw(0.5, intel=True)
    second_call = MatrixDraw(name="second", kind="dropout", shape=(6, 6), options={"intel": True})
    mask = draw_recipe(Recipe(seed=123, draws=(first_call, second_call)))["second"]

    rows = ["".join(str(int(each)) for each in row[: place + 1]) for place, row in enumerate(mask)]
    assert " ".join(rows) == SECOND_MASK


@given(seed=st.integers(0, 2**31 - 1), p=st.floats(0.05, 0.95))
def test_intels_dropout_keeps_as_many_as_it_should(seed: int, p: float) -> None:
    draw = MatrixDraw(name="kept", kind="dropout", shape=(20_000,), options={"p": p, "intel": True})

    mask = draw_single(Recipe(seed=seed, draws=(draw,)))

    assert abs(mask.mean().item() - (1 - p)) < 0.03


NUMBERS: Mapping[str, Tensor] = {
    "table": torch.arange(12.0).reshape(4, 3),
    "ids": torch.tensor([3.0, 0.0]),
    "x": torch.randn(2, 3, generator=torch.Generator().manual_seed(1)),
    "heads": torch.randn(5, 4, 2, generator=torch.Generator().manual_seed(2)),
    "bias": torch.tensor([1.0, 2.0, 3.0]),
}
SHAPES = {name: tuple(each.shape) for name, each in NUMBERS.items()}
CONSTRUCTION_CASES: dict[str, tuple[dict[str, Any], Callable[[Mapping[str, Tensor]], Tensor]]] = {
    "product": (
        {"product": ["table", [[1.0], [0.0], [2.0]]]},
        lambda n: n["table"][:, [0]] + 2 * n["table"][:, [2]],
    ),
    "product of each head": ({"product": ["heads", "x"]}, lambda n: n["heads"] @ n["x"]),
    "sum": ({"sum": ["x", "bias", "x"]}, lambda n: 2 * n["x"] + n["bias"]),
    "rows by drawn ids": ({"rows": ["table", "ids"]}, lambda n: n["table"][[3, 0]]),
    "rows by given ids": (
        {"rows": ["table", [0, 2, 2]]},
        lambda n: functional.embedding(torch.tensor([0, 2, 2]), n["table"]),
    ),
    "rows of a batch": ({"rows": ["table", [[0], [3]]]}, lambda n: n["table"][[0, 3]][:, None]),
    "columns": ({"columns": ["table", 2, 3]}, lambda n: n["table"].chunk(3, dim=1)[1]),
    "columns of a bias": ({"columns": ["bias", 3, 3]}, lambda n: n["bias"][2:]),
    "beside": ({"beside": ["x", "x"]}, lambda n: torch.cat([n["x"], n["x"]], dim=1)),
    "heads beside each other": (
        {"beside": ["heads"]},
        lambda n: torch.cat(list(n["heads"]), dim=1),
    ),
    "biases beside each other": (
        {"beside": ["bias", "ids"]},
        lambda n: torch.cat([n["bias"], n["ids"]]),
    ),
    "one in another": (
        {"sum": [{"rows": ["table", "ids"]}, {"columns": [{"beside": ["x", "x"]}, 1, 2]}]},
        lambda n: n["table"][[3, 0]] + n["x"],
    ),
}


@pytest.mark.parametrize("name", CONSTRUCTION_CASES)
def test_what_is_made_of_draws_is_what_torch_makes(name: str) -> None:
    value, torch_construction = CONSTRUCTION_CASES[name]

    matrix = construct_matrix(value, NUMBERS)

    assert torch.allclose(matrix, torch_construction(NUMBERS))
    assert tuple(matrix.shape) == construction_shape(value, SHAPES)


def test_every_way_is_tried() -> None:
    assert {next(iter(value)) for value, _ in CONSTRUCTION_CASES.values()} == set(CONSTRUCTIONS)


SIDES = st.lists(st.integers(1, 3), min_size=1, max_size=4).map(tuple)


@given(
    way=st.sampled_from(["product", "sum", "beside"]),
    shapes=st.lists(SIDES, min_size=2, max_size=2),
)
def test_what_does_not_fit_is_known_by_its_shapes(way: str, shapes: list[tuple[int, ...]]) -> None:
    matrices = {name: torch.ones(shape) for name, shape in zip("ab", shapes, strict=True)}
    value = {way: ["a", "b"]}

    try:
        expected = construction_shape(
            value, {name: tuple(each.shape) for name, each in matrices.items()}
        )
    except AttnvizError:
        expected = None
    assert expected is None or tuple(construct_matrix(value, matrices).shape) == expected
    if way == "sum":  # a sum is refused exactly where torch refuses it
        assert (expected is None) == (not can_be_added(*matrices.values()))


def can_be_added(one: Tensor, other: Tensor) -> bool:
    try:
        return bool((one + other).numel())
    except RuntimeError:
        return False


DRAWS = """\
[recipe]
draws = [
  { name = "table", rand = [4, 3] },
  { name = "ids", randint = [2], low = 3, high = 9 },
]
"""
REFUSED_CONSTRUCTIONS = {  # what is said of embeddings
    "{ rows = ['table', [0, 4]] }": "there is no row 4 in a table of 4",
    "{ rows = ['table', ['I']] }": "this is not a number",
    "{ rows = ['table', [0.5]] }": "'0.5' is not an id",
    "{ rows = ['ids', [0]] }": "2 and 1 number are not a table and ids",
    "{ rows = ['table'] }": "'rows' takes 2 parts, and 1 are given",
    "{ product = ['table', 'table'] }": "4 × 3 and 4 × 3 numbers cannot be multiplied",
    "{ sum = ['table', 'ids'] }": "4 × 3 and 2 numbers do not fit each other",
    "{ beside = ['table', [[1]]] }": "cannot be placed side by side",
    "{ columns = ['table', 4, 3] }": "there is no part 4 of 3",
    "{ columns = ['table', 1, 2] }": "do not split into 2 equal parts",
    "{ rwos = ['table', 'ids'] }": "this way to make a matrix is not known",
    "{ rows = ['table', 'ids'], sum = ['table'] }": "this way to make a matrix is not known",
    "{ sum = ['table', [[1], [2, 3]]] }": "differ in length",
    "{ sum = ['table', inf] }": "this is not a number",
    f"{'{ sum = [' * 9}'table'{'] }' * 9}": "matrices are nested 8 deep, which is too deep",
}


@pytest.mark.parametrize("construction", REFUSED_CONSTRUCTIONS)
def test_what_cannot_be_made_is_refused_with_its_line(
    attnviz: Attnviz, tmp_path: Path, construction: str
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        f'title = "Bad"\n{DRAWS}[given]\nembeddings = {construction}\n[[expect]]\n'
        'claim = "loops agree"\n'
    )

    result = attnviz("example", "check", str(path))

    problem, _ = refusal_lines(result, out=result.out)
    assert problem.startswith(f"line 8 of '{path}': 'embeddings': ")
    assert REFUSED_CONSTRUCTIONS[construction] in problem


def test_an_id_that_is_drawn_beyond_the_table_is_refused(attnviz: Attnviz, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        f'title = "Bad"\n{DRAWS}[given]\nembeddings = {{ rows = ["table", "ids"] }}\n'
        '[[expect]]\nclaim = "loops agree"\n'
    )

    result = attnviz("example", "check", str(path))

    assert result.status == 2
    assert result.err.startswith(f"error: line 8: 'embeddings' in '{path}': there is no row ")


REFUSED_DRAWS = {
    "rand = [2], seed = -1": "'seed' is not a whole number from 0",
    "rand = [2], skip = 0.5": "'skip' is not a whole number from 0",
    "rand = [2, 2], transposed = 1": "'transposed' is not true or false",
    "rand = [2], transposed = true": "the draw 'x' has one dimension",
    "xavier_uniform = [4]": "'x' has 1 dimension, but xavier_uniform fills a matrix",
    "linear = [4, 2, 2]": "'x' has 3 dimensions, but linear fills a matrix",
    "xavier_uniform = 4": "the draw 'x' has no shape",
    "xavier_normal = [4, 2], gain = -1": "'gain' is not a number from 0",
    "kaiming_normal = [4, 2], mode = 'fan'": "'mode' is not one of fan_in, fan_out",
    "normal = [4], std = nan": "'std' is not a number from 0",
    "normal = [4], mean = 1e999": "'mean' is not a number",
    "uniform = [4], a = 1, b = 0.5": "uniform draws from a to b, but here from 1 to 0.5",
    "dropout = [4], p = 1": "'p' is not a number from 0 and below 1",
    "dropout = [4], intel = 'yes'": "'intel' is not true or false",
    f"randint = [4], low = 0, high = {10**22}": "'high' is not a whole number of at most",
    "xavier_uniform = [4, 2], std = 1": "no key of a draw with xavier_uniform 'std'",
}


@pytest.mark.parametrize("draw", REFUSED_DRAWS)
def test_an_odd_draw_is_refused_with_its_line(tmp_path: Path, draw: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f'title = "Bad"\n[recipe]\ndraws = [\n  {{ name = "x", {draw} }},\n]\n')

    with pytest.raises(AttnvizError) as error:
        read_example(path)

    assert str(error.value).startswith(f"line 4 of '{path}': ")
    assert REFUSED_DRAWS[draw] in str(error.value)


def test_the_line_of_a_draw_is_found_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    draws = '  { name = "it\'s", rand = [2] },\n  { name = "its", rand = [2], low = 1 },\n'
    path.write_text(f'title = "Bad"\n[recipe]\ndraws = [\n{draws}]\n')

    with pytest.raises(AttnvizError, match=r"^line 5 of .*no key of a draw with rand 'low'"):
        read_example(path)


LARGE_RECIPES = {
    "draws": ("draws = [{ name = 'x', rand = [10000, 1000] }]", ""),
    "a product": (
        "draws = [{ name = 'x', rand = [1000, 1] }, { name = 'y', rand = [1, 1000] }]",
        "[given]\nscores = { product = ['x', 'y'] }",
    ),
    "rows on the way": (
        "draws = [{ name = 'x', rand = [2, 1000] }]",
        "[given]\nscores = { columns = [{ rows = ['x', [" + "1," * 1000 + "]] }, 1, 1000] }",
    ),
}


@pytest.mark.parametrize("name", LARGE_RECIPES)
def test_what_there_is_no_memory_for_is_refused_before_it_is_drawn(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    draws, given_lines = LARGE_RECIPES[name]
    path = tmp_path / "large.toml"
    path.write_text(
        f'title = "L"\n[recipe]\n{draws}\n{given_lines}\n[[expect]]\nclaim = "loops agree"\n'
    )
    monkeypatch.setattr(memory, "free_bytes", lambda: 20_000_000)
    monkeypatch.setattr(examples, "draw_recipe", lambda recipe: pytest.fail("it was drawn"))

    result = attnviz("example", "check", str(path))

    problem, hint = refusal_lines(result, out=result.out)
    assert problem.startswith(f"line 3: the random numbers of '{path}' take ")
    assert problem.endswith(" and 20 MB are free")
    assert hint == "draw fewer numbers"
