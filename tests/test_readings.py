"""What the dimensions of given arrays count: three layouts are guessed, others must be named."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from attnviz import load, trace
from attnviz.errors import AttnvizError
from attnviz.traces.array_dimensions import possible_axes
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.parts import PARTS_BY_GIVEN_NAME
from tests.conftest import Attnviz

HEADS_FIRST, TOKENS_FIRST = ["item", "head", "token", "width"], ["item", "token", "head", "width"]
ENDS = {"queries": "token width", "keys": "key width", "values": "key head_value"}
SIZES = {"item": 2, "head": 3, "token": 4, "key": 5, "width": 6, "head_value": 7}


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def random_array(sides: str, **changes: int) -> Any:
    """An array of random numbers with these dimensions."""
    sizes = SIZES | changes
    return random(*(sizes[side] for side in sides.split()), seed=len(sides))


def vectors(leading: str = "item head", **changes: int) -> dict[str, Any]:
    """Queries, keys and values with these dimensions before tokens and width."""
    return {name: random_array(f"{leading} {end}", **changes) for name, end in ENDS.items()}


def tensors(contents: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    queries, keys, values = (torch.from_numpy(contents[name]) for name in ENDS)
    return queries, keys, values


def context(contents: dict[str, Any], item: int | None = None, **keywords: Any) -> Tensor:
    """The context vectors computed from these matrices, heads beside each other."""
    result = trace(None, dtype="float64", given=parse_matrices(contents, item=item, **keywords))
    return result.layers[0].context


def join_heads(contexts: Tensor) -> Tensor:
    return contexts.transpose(-3, -2).flatten(-2)


def mask_of_lengths(*valid: int, keys: int) -> Any:
    """A mask that shows so many first keys of each item, as courses build it."""
    return (np.arange(keys)[None] < np.array(valid)[:, None]).astype(float)


# d2l.ai, "Attention Scoring Functions": queries [2, 1, 2], keys [2, 10, 2], values [2, 10, 4].
D2L = {"queries": random(2, 1, 2), "keys": random(2, 10, 2), "values": random(2, 10, 4)}


def named(contents: dict[str, Any], leading: str) -> dict[str, Any]:
    """The contents with `axes` that say what their first dimensions are."""
    return contents | {f"axes.{name}": [*leading.split(), *ENDS[name].split()] for name in ENDS}


def refusal(contents: dict[str, Any], source: str = "", **keywords: Any) -> tuple[str, str]:
    with pytest.raises(AttnvizError) as error:
        parse_matrices(contents, source, **keywords)
    return str(error.value), error.value.hint


def unclear(name: str, shape: str, *orders: list[str], source: str = "") -> tuple[str, str]:
    """The two lines of the refusal that asks for the axes of an array."""
    in_file = f" in '{source}'" if source else ""
    return (
        f"'{name}'{in_file} is {shape}, but what its dimensions count is not clear",
        f"name them: axes.{name} = {' or '.join(map(json.dumps, orders))}; "
        "'axes' alone is for every matrix that has such dimensions",
    )


ITEMS, HEADS = ["item", "token", "width"], ["head", "token", "width"]


@pytest.mark.parametrize("mask", ["item token key", "item key"])
def test_a_batch_with_valid_lengths_is_what_the_course_computes(mask: str) -> None:
    valid = mask_of_lengths(2, 6, keys=10)
    visible = valid if mask == "item key" else valid[:, None]
    queries, keys, values = tensors(D2L)
    hidden = torch.from_numpy(valid[:, None]) > 0
    expected = scaled_dot_product_attention(queries, keys, values, attn_mask=hidden)

    for item in (1, 2):
        batch = named(D2L, "item") | {"visible": visible, "axes.visible": mask.split()}
        assert_close(context(batch, item=item), expected[item - 1])


@pytest.mark.parametrize("ndim", [2, 3, 4])
def test_vectors_are_read_by_how_many_dimensions_they_have(ndim: int) -> None:
    leading = " ".join(["item", "head"][4 - ndim :])
    contents = vectors(leading)

    assert parse_matrices(contents).tensors.keys() == ENDS.keys()
    expected = scaled_dot_product_attention(*tensors(contents))
    heads = expected if ndim > 2 else expected[None]
    assert_close(context(contents), join_heads(heads[0] if ndim == 4 else heads))


@pytest.mark.parametrize("ndim", [2, 3, 4])
@pytest.mark.parametrize("name", ["scores", "weights", "kept", "visible", "mask"])
def test_cells_are_read_by_how_many_dimensions_they_have(name: str, ndim: int) -> None:
    cells = (random(2, 3, 4, 5) > 0).astype(float)[(0, 0)[: 4 - ndim]]
    cells -= name == "mask"

    matrices = parse_matrices({name: cells})

    cells_of_item = torch.from_numpy(cells[0] if ndim == 4 else cells)
    assert matrices.items == (2 if ndim == 4 else 1)
    assert_close(matrices.tensors[name].double(), cells_of_item.view_as(matrices.tensors[name]))


def test_three_dimensions_are_heads_and_a_batch_of_them_must_be_named() -> None:
    assert parse_matrices(D2L).sizes["head"] == 2
    assert parse_matrices(named(D2L, "item")).items == 2


def test_a_mask_of_lengths_that_is_not_named_is_refused() -> None:
    contents = D2L | {"visible": mask_of_lengths(2, 6, keys=10)}

    assert refusal(contents, "d2l.json") == unclear(
        "visible", "2 × 10", ["item", "key"], source="d2l.json"
    )


def test_what_could_be_of_a_batch_or_of_heads_is_refused_beside_a_batch() -> None:
    mask = {"visible": mask_of_lengths(2, 6, keys=10)[:, None, None]}

    assert refusal(D2L | mask) == unclear("queries", "2 × 1 × 2", ITEMS, HEADS)
    assert refusal({"embeddings": random(2, 5, 8), "queries": random(2, 5, 4)}) == unclear(
        "queries", "2 × 5 × 4", ITEMS, HEADS
    )
    assert parse_matrices(mask | named(D2L, "item")).items == 2
    assert parse_matrices(mask | named(D2L, "head")).sizes["head"] == 2


def test_an_item_of_what_could_be_heads_is_refused() -> None:
    assert refusal(D2L, item=1) == unclear("queries", "2 × 1 × 2", ITEMS, HEADS)
    assert parse_matrices(named(D2L, "item"), item=2).item == 2


def test_heads_that_the_guess_does_not_have_ask_for_another_order() -> None:
    contents = vectors(key=4)

    assert parse_matrices(contents).sizes["head"] == 3
    assert parse_matrices(contents | {"axes": TOKENS_FIRST}).sizes["head"] == 4
    assert refusal(contents, heads=4) == unclear("queries", "2 × 3 × 4 × 6", TOKENS_FIRST)
    assert refusal(contents | {"tokens": list("abc")}) == unclear(
        "queries", "2 × 3 × 4 × 6", TOKENS_FIRST
    )


def test_tokens_before_heads_are_named() -> None:
    heads_first = vectors()
    tokens_first = {name: each.swapaxes(1, 2) for name, each in heads_first.items()}
    expected = join_heads(scaled_dot_product_attention(*tensors(heads_first)))

    for item in (1, 2):
        assert_close(context(heads_first, item=item), expected[item - 1])
        assert_close(context(tokens_first | {"axes": TOKENS_FIRST}, item=item), expected[item - 1])
    with pytest.raises(AttnvizError):
        context(tokens_first)


def test_the_width_of_a_head_may_come_after_the_heads_where_it_is_named() -> None:
    contents = {"embeddings": random(5, 8), "w_query": random(8, 3, 2)}

    assert refusal(contents) == unclear("w_query", "8 × 3 × 2", ["dim", "head", "width"])
    assert parse_matrices(contents | {"axes.w_query": ["dim", "head", "width"]}).heads == 3


MASKS = ["token key", "item token key", "head token key", "item head token key", "item key", "key"]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["visible", "hidden"])
def test_masks_of_all_shapes_are_read_as_torch_broadcasts_them(mask: str, name: str) -> None:
    contents = vectors()
    visible = random_array(mask) > -0.6
    visible[..., 0] = True
    sides = [*mask.split()]
    shape = [SIZES[side] if side in sides else 1 for side in ("item", "head", "token", "key")]
    torch_mask = torch.from_numpy(visible.reshape(shape))
    expected = scaled_dot_product_attention(*tensors(contents), attn_mask=torch_mask)

    for mask_array, axes in ((visible, {f"axes.{name}": sides}), (visible.reshape(shape), {})):
        given_mask = mask_array if name == "visible" else ~mask_array
        context_vectors = context(contents | {name: given_mask} | axes, item=2)
        assert_close(context_vectors, join_heads(expected)[1])


def test_a_mask_that_could_be_of_tokens_or_of_items_is_refused() -> None:
    square = {"embeddings": random(4, 4, 8), "visible": np.ones((4, 4))}

    assert refusal(square) == unclear("visible", "4 × 4", ["item", "key"], ["token", "key"])


def test_a_mask_of_one_row_is_named() -> None:
    contents = {"scores": random(3, 5), "visible": np.ones(5)}

    assert refusal(contents) == unclear("visible", "5", ["key"])
    assert parse_matrices(contents | {"axes.visible": ["key"]}).sizes["token"] == 3


def test_matrices_of_each_head_stand_side_by_side() -> None:
    head_matrices = {
        name: random(3, 8, 2, seed=place) for place, name in enumerate(("w_query", "w_key"))
    }
    embeddings, values = random(5, 8), random(3, 8, 4, seed=9)
    w_out = random(3, 4, 6, seed=7)

    other_matrices = {"embeddings": embeddings, "w_value": values, "w_out": w_out}
    context_vectors = context(
        {**head_matrices, **other_matrices, "b_query": head_matrices["w_key"][:, 0]}
    )

    inputs = torch.from_numpy(embeddings)
    query = inputs @ torch.from_numpy(head_matrices["w_query"]) + torch.from_numpy(
        head_matrices["w_key"][:, :1]
    )
    key, value = (
        inputs @ torch.from_numpy(head_matrices["w_key"]),
        inputs @ torch.from_numpy(values),
    )
    contexts = scaled_dot_product_attention(query, key, value)
    assert_close(context_vectors, (contexts @ torch.from_numpy(w_out)).sum(0))


def test_matrices_of_each_head_that_have_other_heads_than_the_rest_are_refused() -> None:
    contents = {"weights": random(2, 3, 3), "w_query": random(6, 2, 3)}
    others = {"weights": random(2, 3, 3), "w_query": random(6, 3, 4)}
    orders = ["head", "dim", "width"], ["dim", "head", "width"]

    assert refusal(contents) == unclear("w_query", "6 × 2 × 3", orders[1])
    assert refusal(others) == unclear("w_query", "6 × 3 × 4", *orders)


def test_one_item_and_one_head_are_the_same_and_nothing_is_asked() -> None:
    contents = vectors("item", item=1)

    matrices = parse_matrices(contents)

    assert (matrices.items, matrices.sizes["head"]) == (1, 1)


@given(order=st.permutations(HEADS_FIRST), data=st.data())
def test_named_sides_may_stand_in_any_order(order: list[str], data: st.DataObject) -> None:
    names = {"queries": "token", "keys": "key", "values": "key"}
    contents = vectors()
    turned_contents = {
        name: each.transpose([HEADS_FIRST.index(side) for side in order])
        for name, each in contents.items()
    }
    item = data.draw(st.integers(1, 2))

    one, other = (
        parse_matrices(contents, item=item),
        parse_matrices(turned_contents | {"axes": order}, item=item),
    )

    assert all(torch.equal(one.tensors[name], other.tensors[name]) for name in names)


@given(data=st.data())
def test_no_batch_and_no_heads_are_taken_for_something_else(data: st.DataObject) -> None:
    """Arrays of any sizes are read as what they were made as, or refused."""
    sizes = {side: data.draw(st.integers(1, 3), label=side) for side in SIZES}
    leading = data.draw(st.sampled_from(["", "item", "head", "item head"]))
    contents = vectors(leading, **sizes)
    if data.draw(st.booleans()):
        contents["scores"] = random_array(f"{leading} token key", **sizes)
    ends = {name: end for name, end in (ENDS | {"scores": "token key"}).items() if name in contents}
    expected = (
        sizes["item"] if "item" in leading else 1,
        sizes["head"] if "head" in leading else 1,
        sizes["token"],
    )

    if leading != "item":  # three dimensions are heads
        with suppress(AttnvizError):
            matrices = parse_matrices(contents)
            assert (matrices.items, matrices.sizes["head"], matrices.sizes["token"]) == expected
    axes = {name: [*leading.split(), *end.split()] for name, end in ends.items()}
    matrices = parse_matrices(contents | {"axes": axes})
    assert (matrices.items, matrices.sizes["head"], matrices.sizes["token"]) == expected


@pytest.mark.parametrize("name", PARTS_BY_GIVEN_NAME)
def test_every_matrix_can_be_given_alone_in_each_usual_order(name: str) -> None:
    """What a new part can be read as, it can be read as."""
    part = PARTS_BY_GIVEN_NAME[name]
    for ndim in range(1, 5):
        for axes in possible_axes(part, ndim):
            sizes = {side: 2 + place for place, side in enumerate(axes)}
            numbers = np.ones([sizes[side] for side in axes])
            matrices = parse_matrices({name: numbers - part.hides, f"axes.{name}": axes})
            assert matrices.items == sizes.get("item", 1)
            if "head" in axes:
                assert matrices.sizes["group" if part.grouped else "head"] == sizes["head"]


REFUSED_AXES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a word that is no side": (
        {"axes": ["item", "tokn", "dim"]},
        "there is no side 'tokn' of a matrix",
        "did you mean 'token'?",
    ),
    "sides of another": (
        {"axes.embeddings": ["item", "head", "dim"]},
        "'axes.embeddings' names item, head and dim",
        "the dimensions of 'embeddings' are token and dim; a batch also has item",
    ),
    "too few": (
        {"axes": {"embeddings": ["token", "dim"]}},
        "'axes.embeddings' names 2 dimensions, but 'embeddings' has 3",
        "name every dimension once",
    ),
    "twice": (
        {"axes": {"embeddings": ["token", "token", "dim"]}},
        "'axes.embeddings' names token, token and dim",
        "the dimensions of",
    ),
    "of nothing": (
        {"axes": {"queries": ["token", "dim"]}},
        "'axes.queries' names the dimensions of something that is not given",
        "known: embeddings",
    ),
    "for nothing": (
        {"axes": ["token", "key"]},
        "'axes' names token and key, but nothing given has these dimensions",
        "name the dimensions of one matrix: axes.queries = […]",
    ),
    "no words": ({"axes": 3}, "'axes' is not a list of words", "name every dimension"),
    "no list": (
        {"axes": {"embeddings": [["item"]]}},
        "'axes.embeddings' is not a list",
        "name every",
    ),
}


@pytest.mark.parametrize("name", REFUSED_AXES)
def test_axes_that_cannot_be_are_refused(name: str) -> None:
    axes, problem, hint = REFUSED_AXES[name]

    with pytest.raises(AttnvizError) as error:
        parse_matrices({"embeddings": random(2, 3, 4), **axes})

    assert str(error.value).startswith(problem)
    assert error.value.hint.startswith(hint)


def write_arrays(path: Path, contents: dict[str, Any], axes: dict[str, list[str]]) -> Path:
    """Write arrays with named dimensions, as each kind of file states them."""
    words: dict[str, Any] = {f"axes.{name}": np.array(each) for name, each in axes.items()}
    lists = {name: each.tolist() for name, each in contents.items()}
    if path.suffix == ".npz":
        np.savez(path, **contents, **words)
    elif path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file(contents, path, metadata={name: " ".join(each) for name, each in words.items()})
    elif path.suffix == ".json":
        path.write_text(json.dumps(lists | {"axes": axes}))
    else:
        axes_lines = [f"axes.{name} = {each!r}\n" for name, each in axes.items()]
        path.write_text(
            "".join([*axes_lines, *(f"{name} = {each!r}\n" for name, each in lists.items())])
        )
    return path


@pytest.mark.parametrize("suffix", [".toml", ".json", ".npz", ".safetensors"])
def test_sides_can_be_named_in_every_kind_of_file(
    attnviz: Attnviz, tmp_path: Path, suffix: str
) -> None:
    path = write_arrays(
        tmp_path / f"a{suffix}", {"scores": random(2, 3, 3)}, {"scores": ["item", "token", "key"]}
    )

    result = attnviz("run", "--given", str(path), "--item", "2")

    assert (result.status, result.err) == (0, "")
    assert "item 2 of 2" in " ".join(result.out.split())


@pytest.mark.parametrize("command", ["run", "steps", "compare"])
def test_who_reads_a_batch_is_told_which_item_is_shown(
    attnviz: Attnviz, tmp_path: Path, command: str
) -> None:
    path = tmp_path / "batch.npz"
    np.savez(path, embeddings=random(3, 4, 8))

    result = attnviz(command, "--given", str(path))
    quiet_result, item_result = (
        attnviz(command, "--given", str(path), *more) for more in (["-q"], ["--item", "1"])
    )

    assert result.err == "note: a batch of 3: item 1 is shown (the next with --item 2)\n"
    assert (quiet_result.err, item_result.err) == ("", "")
    assert "item 1 of 3" in " ".join(result.out.split())


LESSON = """title = "A batch"
[settings]
dtype = "float64"
[given]
axes = {axes}
queries = [[[1, 0]], [[0, 1]]]
keys = [[[1, 0], [0, 1]], [[1, 0], [0, 1]]]
values = [[[1], [2]], [[3], [5]]]
[[expect]]
step = "context"
{expected}
"""


def test_a_lesson_names_sides_and_expects_each_item(attnviz: Attnviz, tmp_path: Path) -> None:
    share = 1 / (1 + np.exp(-1 / np.sqrt(2)))
    first, second = 1 * share + 2 * (1 - share), 3 * (1 - share) + 5 * share
    items = f"""values = [[{first:.6f}]]
[[expect]]
step = "context"
item = 2
values = [[{second:.6f}]]"""
    heads = f"values = [[{first:.6f}, {second:.6f}]]"
    for axes, expected in (("item", items), ("head", heads)):
        for axes_text in (
            f'["{axes}", "token", "width"]',
            "{ " + ", ".join(f'{name} = ["{axes}", "token", "width"]' for name in ENDS) + " }",
        ):
            path = tmp_path / "lesson.toml"
            path.write_text(LESSON.format(axes=axes_text, expected=expected))
            result = attnviz("example", "check", str(path))
            assert (result.status, result.err) == (0, ""), result.out

    shown_lesson = attnviz("example", "show", str(path))
    assert "no matrix mixes them" in " ".join(shown_lesson.out.split())


def test_a_lesson_of_a_batch_says_which_item_is_shown(attnviz: Attnviz, tmp_path: Path) -> None:
    path = tmp_path / "lesson.toml"
    path.write_text(LESSON.format(axes='["item", "token", "width"]', expected="shape = [2, 1, 1]"))

    assert "a batch of 2: item 1 is shown" in attnviz("example", "show", str(path)).err
    assert attnviz("example", "check", str(path)).err == ""


def test_heads_that_are_given_are_joined_by_nothing_that_is_not(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    contents = vectors("head", head=2)
    w_out = random(14, 3)
    heads = {"axes": ["head", "token", "width"]}
    contexts = scaled_dot_product_attention(*tensors(contents))

    for variant in ("scaled", "multi-head"):
        result = trace(
            None,
            dtype="float64",
            variant=variant,
            causal=False,
            given=parse_matrices(contents | heads),
        )
        assert result.layers[0].projections is None
        assert_close(result.layers[0].context, join_heads(contexts))
    result = trace(None, dtype="float64", given=parse_matrices(contents | heads | {"w_out": w_out}))
    assert_close(result.layers[0].context, join_heads(contexts) @ torch.from_numpy(w_out))

    path = write_arrays(tmp_path / "a.npz", contents, {"queries": heads["axes"]})
    assert "joined without w_out" in " ".join(attnviz("run", "--given", str(path)).out.split())


def test_a_trace_of_an_item_comes_back(tmp_path: Path) -> None:

    contents = {"embeddings": random(2, 5, 8), "w_query": random(3, 8, 2), "w_key": random(3, 8, 2)}
    result = trace(None, given=parse_matrices(contents, item=2))
    result.view().save(tmp_path / "a.npz")

    loaded_trace = load(str(tmp_path / "a.npz"))

    assert loaded_trace.items == 2
    assert loaded_trace.layers[0].heads == 3
    assert torch.equal(loaded_trace.layers[0].context, result.layers[0].context)


def test_every_order_of_two_masks_is_one_reading() -> None:
    """Which array is looked at first changes nothing."""
    contents = vectors() | {"visible": np.ones((2, 1, 1, 5)), "kept": np.ones((2, 3, 4, 5))}
    shapes = set()
    for names in list(permutations(contents))[::20]:
        matrices = parse_matrices({name: contents[name] for name in names})
        shapes.add(tuple((name, *each.shape) for name, each in matrices.tensors.items()))
    assert len(shapes) == 1


def test_a_file_of_arrays_is_told_how_it_holds_words(attnviz: Attnviz, tmp_path: Path) -> None:
    path = tmp_path / "batch.npz"
    np.savez(path, scores=random(3, 5), visible=np.ones(5))
    result = attnviz("run", "--given", str(path))
    assert 'name them, each as an array of words: axes.visible = ["key"]' in result.err

    named: dict[str, Any] = {"axes.visible": np.array(["key"])}
    np.savez(path, scores=random(3, 5), visible=np.ones(5), **named)
    assert attnviz("run", "--given", str(path)).status == 0
