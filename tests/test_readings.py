"""What the sides of given arrays count: read as what they are, or refused with both readings."""

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


@pytest.mark.parametrize("mask", ["item token key", "item key"])
def test_a_batch_with_valid_lengths_is_what_the_course_computes(mask: str) -> None:
    valid = mask_of_lengths(2, 6, keys=10)
    visible = valid if mask == "item key" else valid[:, None]
    queries, keys, values = tensors(D2L)
    hidden = torch.from_numpy(valid[:, None]) > 0
    expected = scaled_dot_product_attention(queries, keys, values, attn_mask=hidden)

    for item in (1, 2):
        item_context = context(D2L | {"visible": visible}, item=item)
        assert_close(item_context, expected[item - 1])


def test_a_batch_that_could_be_heads_is_refused_with_both_readings() -> None:
    for contents in (D2L, D2L | {"visible": mask_of_lengths(2, 6, keys=10)[:, None]}):
        with pytest.raises(AttnvizError) as error:
            parse_matrices(contents, "d2l.json")

        assert str(error.value) == (
            "'queries' in 'd2l.json' is 2 × 1 × 2, which could be 2 items × 1 token × width 2 or "
            "2 heads × 1 token × width 2"
        )
        assert error.value.hint == (
            'say which in the file: axes.queries = ["item", "token", "width"] or axes.queries = '
            '["head", "token", "width"]; or give item=1, or heads=2'
        )


def test_each_way_to_say_it_that_the_refusal_names_is_enough() -> None:
    mask = {"visible": mask_of_lengths(2, 6, keys=10)[:, None]}
    items = {"axes": {"queries": ["item", "token", "width"]}}
    heads = {"axes": {"queries": ["head", "token", "width"]}}

    assert parse_matrices(D2L | mask | items).items == 2
    assert parse_matrices(D2L | mask, item=1).items == 2
    for matrices in (parse_matrices(D2L | mask | heads), parse_matrices(D2L | mask, heads=2)):
        assert (matrices.items, matrices.sizes["head"]) == (1, 2)


def test_heads_first_and_tokens_first_are_told_apart_by_what_else_is_given() -> None:
    heads_first, tokens_first = vectors(), vectors("item head")
    tokens_first = {name: each.swapaxes(1, 2) for name, each in tokens_first.items()}
    expected = join_heads(scaled_dot_product_attention(*tensors(heads_first)))

    for item in (1, 2):
        assert_close(context(heads_first, item=item), expected[item - 1])
        assert_close(context(tokens_first, item=item), expected[item - 1])


def test_attention_to_itself_in_four_sides_is_refused_with_both_orders() -> None:
    contents = vectors(key=4)

    with pytest.raises(AttnvizError) as error:
        parse_matrices(contents)

    assert "2 items × 3 heads × 4 tokens × width 6 or 2 items × 3 tokens × 4 heads" in str(
        error.value
    )
    assert "--" not in error.value.hint
    assert parse_matrices(contents | {"axes": HEADS_FIRST}).sizes["head"] == 3
    assert parse_matrices(contents | {"axes": TOKENS_FIRST}).sizes["head"] == 4
    assert parse_matrices(contents, heads=4).sizes["head"] == 4
    assert parse_matrices(contents | {"tokens": list("abcd")}).sizes["head"] == 3


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

    for mask_array in (visible, visible.reshape(shape)):
        given_mask = mask_array if name == "visible" else ~mask_array
        context_vectors = context(contents | {name: given_mask}, item=2)
        assert_close(context_vectors, join_heads(expected)[1])


def test_a_mask_that_could_be_of_tokens_or_of_items_is_refused() -> None:
    square = {"embeddings": random(4, 4, 8), "visible": np.ones((4, 4))}

    with pytest.raises(AttnvizError, match="could be 4 tokens × 4 keys or 4 items × 4 keys"):
        parse_matrices(square)


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
    tokens_first = leading == "item head" and data.draw(st.booleans())
    if tokens_first:
        contents = {name: each.swapaxes(1, 2) for name, each in contents.items()}
    if data.draw(st.booleans()):
        contents["scores"] = random_array(f"{leading} token key", **sizes)
    expected = (
        sizes["item"] if "item" in leading else 1,
        sizes["head"] if "head" in leading else 1,
        sizes["token"],
    )

    with suppress(AttnvizError):
        matrices = parse_matrices(contents)
        assert (matrices.items, matrices.sizes["head"], matrices.sizes["token"]) == expected
    axes = {name: [*leading.split(), *ENDS[name].split()] for name in ENDS}
    if not tokens_first:
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
            f'{{ queries = ["{axes}", "token", "width"] }}',
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
    arrays: dict[str, Any] = {name: random(2, 1, 2) for name in ENDS}
    np.savez(path, **arrays)
    result = attnviz("run", "--given", str(path))
    hint = "say which in the file, as an array of words of that name: axes.queries = "
    assert hint in result.err

    arrays["axes.queries"] = np.array(["item", "token", "width"])
    np.savez(path, **arrays)
    assert attnviz("run", "--given", str(path)).status == 0
