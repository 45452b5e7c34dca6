"""Given blocks: with the weights of torch's layers in a file, outputs are those of torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.testing import assert_close

from attnviz import trace
from attnviz.attention.variants import ACTIVATIONS
from attnviz.errors import AttnvizError
from attnviz.options.values import Activation, NormPlacement
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.matrix_names import can_be_given, group_by_layer
from attnviz.traces.origin import FromMatrices as FromFile
from attnviz.traces.parts import LEARNED_NAMES, PARTS_BY_GIVEN_NAME, TRACE_FILE_SUFFIXES
from attnviz.traces.settings import Settings
from attnviz.views.notes import random_numbers_caveat
from attnviz.views.steps.walk import step_sections
from tests.conftest import Attnviz
from tests.test_saved import find_differences, save_and_read, unexpected_differences

DIM, HEADS, HIDDEN_WIDTH = 8, 2, 20
NORMS: tuple[NormPlacement, ...] = ("post", "pre")
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
    "gelu-tanh": partial(nn.functional.gelu, approximate="tanh"),
}
TorchLayer = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
MatricesByName = dict[str, Tensor]


def random_numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def layer_of_torch(
    kind: type[TorchLayer], seed: int, norm: str = "post", activation: str = "relu"
) -> TorchLayer:
    """A layer of torch whose numbers are all random: gains, shifts and biases, too."""
    layer = kind(
        DIM,
        HEADS,
        HIDDEN_WIDTH,
        dropout=0.0,
        activation=FUNCTIONS[activation],
        batch_first=True,
        norm_first=norm == "pre",
    ).eval()
    random = torch.Generator().manual_seed(seed)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5, generator=random)
    return layer.requires_grad_(False)


def attention_matrices(attention: nn.MultiheadAttention) -> MatricesByName:
    """Matrices to the right of a vector, as attnviz multiplies; torch has them to the left."""
    matrices: MatricesByName = {
        "w_out": attention.out_proj.weight.T,
        "b_out": attention.out_proj.bias,
    }
    kinds = ("query", "key", "value")
    weights, biases = attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3)
    matrices |= {f"w_{kind}": each.T for kind, each in zip(kinds, weights, strict=True)}
    return matrices | {f"b_{kind}": each for kind, each in zip(kinds, biases, strict=True)}


def learned_matrices(layer: TorchLayer) -> MatricesByName:
    """All learned matrices of a layer of torch, by attnviz's names."""
    matrices = attention_matrices(layer.self_attn)
    norms = {"attention": layer.norm1, "feed_forward": layer.norm2}
    if isinstance(layer, nn.TransformerDecoderLayer):
        cross_matrices = attention_matrices(layer.multihead_attn)
        matrices |= {f"cross_{name}": each for name, each in cross_matrices.items()}
        norms = {"attention": layer.norm1, "cross": layer.norm2, "feed_forward": layer.norm3}
    for name, norm in norms.items():
        matrices |= {f"{name}_gain": norm.weight, f"{name}_shift": norm.bias}
    for number, linear in (("1", layer.linear1), ("2", layer.linear2)):
        matrices |= {f"w_{number}": linear.weight.T, f"b_{number}": linear.bias}
    return matrices


def matrices_of_layers(layers: list[TorchLayer]) -> MatricesByName:
    """The matrices of several layers; from the second on, names include the layer."""
    return {
        f"layers.{number}.{name}" if number else name: each.contiguous()
        for number, layer in enumerate(layers)
        for name, each in learned_matrices(layer).items()
    }


def write_npz(folder: Path, contents: Mapping[str, Any]) -> str:
    path = folder / "model.npz"
    arrays: dict[str, Any] = {name: np.asarray(each) for name, each in contents.items()}
    np.savez(path, **arrays)
    return str(path)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_two_layers_of_torchs_encoder_are_walked_through(
    norm: NormPlacement, activation: Activation, tmp_path: Path
) -> None:
    torch_layers = [
        layer_of_torch(nn.TransformerEncoderLayer, seed, norm, activation) for seed in (1, 2)
    ]
    inputs, positions = random_numbers(4, DIM), random_numbers(16, DIM, seed=5)
    file = write_npz(
        tmp_path, {"embeddings": inputs, "positions": positions} | matrices_of_layers(torch_layers)
    )

    options = Settings(given=file, layers=2, heads=HEADS, norm=norm, activation=activation)
    given_trace = trace(None, options)

    first_outputs = torch_layers[0]((inputs + positions[:4])[None])
    assert_close(given_trace.layers[0].outputs, first_outputs[0], atol=2e-5, rtol=1e-4)
    assert_close(
        given_trace.layers[1].outputs, torch_layers[1](first_outputs)[0], atol=2e-5, rtol=1e-4
    )
    assert random_numbers_caveat(given_trace, ("outputs",)) == ""


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_two_layers_of_torchs_decoder_read_a_memory_that_is_given(
    norm: NormPlacement, activation: Activation, tmp_path: Path
) -> None:
    torch_layers = [
        layer_of_torch(nn.TransformerDecoderLayer, seed, norm, activation) for seed in (3, 4)
    ]
    inputs, memory = random_numbers(4, DIM), random_numbers(5, DIM, seed=6)
    file = write_npz(
        tmp_path, {"embeddings": inputs, "memory": memory} | matrices_of_layers(torch_layers)
    )

    given_trace = trace(
        None,
        Settings(
            given=file,
            layers=2,
            variant="multi-head",
            norm=norm,
            activation=activation,
        ),
    )

    hidden, mask = inputs[None], torch.ones(4, 4, dtype=torch.bool).triu(1)
    for layer, torch_layer in zip(given_trace.layers, torch_layers, strict=True):
        hidden = torch_layer(hidden, memory[None], tgt_mask=mask)
        assert_close(layer.outputs, hidden[0], atol=2e-5, rtol=1e-4)
    assert given_trace.memory is not None
    assert given_trace.memory.labels == ("x1", "x2", "x3", "x4", "x5")
    assert random_numbers_caveat(given_trace, ("outputs",)) == ""


def write_in_form(
    folder: Path, form: str, first_layer: MatricesByName, second_layer: MatricesByName
) -> Path:
    """The path of a file with the weights of two layers, in one of the forms that files have."""
    path = folder / f"model.{form.partition(' ')[0]}"
    layers_as_lists = [
        {name: each.tolist() for name, each in layer.items()}
        for layer in (first_layer, second_layer)
    ]
    names_with_layer = first_layer | {
        f"layers.1.{name}": each for name, each in second_layer.items()
    }
    first_toml, second_toml = (
        "\n".join(f"{name} = {each}" for name, each in of.items()) for of in layers_as_lists
    )
    if form == "safetensors":
        save_file({name: each.contiguous() for name, each in names_with_layer.items()}, path)
    elif form == "npz":
        return Path(write_npz(folder, names_with_layer))
    elif form == "json of names":
        path.write_text(
            json.dumps({name: each.tolist() for name, each in names_with_layer.items()})
        )
    elif form == "json of a list":
        path.write_text(json.dumps({"layers": layers_as_lists}))
    elif form == "toml of a table":
        path.write_text(f"{first_toml}\n[layers.1]\n{second_toml}\n")
    elif form == "toml of tables":
        path.write_text(f"[[layers]]\n{first_toml}\n[[layers]]\n{second_toml}\n")
    return path


FORMS = (
    "safetensors",
    "npz",
    "json of names",
    "json of a list",
    "toml of a table",
    "toml of tables",
)


@pytest.mark.slow_table("formats", keep=2)
@pytest.mark.parametrize("form", FORMS)
def test_every_format_can_name_the_layer(form: str, tmp_path: Path, attnviz: Attnviz) -> None:
    first_weights, second_weights = (
        learned_matrices(layer_of_torch(nn.TransformerEncoderLayer, seed)) for seed in (1, 2)
    )
    path = write_in_form(tmp_path, form, first_weights, second_weights)

    given_trace = trace("I am learning this", Settings(given=str(path), layers=2, heads=HEADS))
    walk = attnviz(
        "steps", "I am", "--given", str(path), "--layers", "2", "-H", "2", "--layer", "1"
    )

    for layer, weights in zip(given_trace.layers, (first_weights, second_weights), strict=True):
        assert layer.block is not None
        assert layer.projections is not None
        assert_close(layer.block.required_feed_forward.parameters.w_1, weights["w_1"])
        assert_close(layer.projections.b_key, weights["b_key"])
        assert layer.block.required_feed_forward.residual.norm is not None
        assert_close(
            layer.block.required_feed_forward.residual.norm.gain, weights["feed_forward_gain"]
        )
    assert "(what it passes on). They are given." in " ".join(walk.out.split())
    assert "back to width 8. Both are given." in " ".join(walk.out.split())


@pytest.mark.parametrize("suffix", TRACE_FILE_SUFFIXES)
def test_what_was_given_of_every_layer_comes_back(suffix: str, tmp_path: Path) -> None:
    torch_layers = [layer_of_torch(nn.TransformerDecoderLayer, seed) for seed in (3, 4)]
    matrices = {"memory": random_numbers(3, DIM), "positions": random_numbers(4, DIM)}
    given_trace = trace(
        "I am learning this",
        layers=2,
        heads=HEADS,
        **given_option(matrices | matrices_of_layers(torch_layers)),
    )

    restored = save_and_read(given_trace, tmp_path, suffix)

    assert unexpected_differences(find_differences(given_trace, restored)) == []
    assert isinstance(restored.origin, FromFile)
    assert restored.origin.matrices.upper_layers[0].cross_gain is not None


@pytest.mark.parametrize("suffix", TRACE_FILE_SUFFIXES)
def test_what_was_given_of_an_upper_layer_alone_comes_back(suffix: str, tmp_path: Path) -> None:
    given_trace = trace(
        "I am", layers=3, **given_option({"layers.2.w_1": random_numbers(*shape_of("w_1"))})
    )

    restored = save_and_read(given_trace, tmp_path, suffix)

    assert unexpected_differences(find_differences(given_trace, restored)) == []


@pytest.mark.slow("formats")
def test_each_matrix_is_used_where_it_belongs_and_found_under_its_name() -> None:
    """If one matrix is given, an example finds it, and all others stay random."""
    random_trace = trace("I am", layers=2, memory="you are here")
    for name in LEARNED_NAMES:
        matrix = random_numbers(*shape_of(name))
        for full_name, number in ((name, 0), (f"layers.1.{name}", 1)):
            given_trace = trace(
                "I am", layers=2, memory="you are here", **given_option({full_name: matrix})
            )
            used_matrix = PARTS_BY_GIVEN_NAME[name].find(given_trace, given_trace.layers[number])
            assert used_matrix is not None
            assert_close(used_matrix, matrix, msg=full_name)
            # The same added to all keys changes every score of a row by the same: no weight.
            is_same = torch.allclose(
                given_trace.layers[1].outputs, random_trace.layers[1].outputs, atol=1e-4
            )
            assert is_same == name.endswith("b_key"), full_name


def given_option(contents: Mapping[str, Tensor]) -> dict[str, Any]:
    return {"given": parse_matrices({name: each.numpy() for name, each in contents.items()})}


def shape_of(name: str) -> list[int]:
    """The shape that one of a layer's matrices has when all is drawn."""
    return [{"hidden": 32}.get(side, 8) for side in PARTS_BY_GIVEN_NAME[name].sides.split()]


def test_layers_that_nothing_is_given_of_are_drawn_as_ever_and_said_to_be() -> None:
    random_trace = trace("I am learning this", layers=3)
    given_matrices = {"layers.2.w_1": random_numbers(8, 32)}

    given_trace = trace("I am learning this", layers=3, **given_option(given_matrices))

    assert torch.equal(given_trace.layers[1].outputs, random_trace.layers[1].outputs)
    assert not torch.equal(given_trace.layers[2].outputs, random_trace.layers[2].outputs)
    assert "random vectors" in random_numbers_caveat(given_trace, ("outputs",))


def test_one_half_of_feed_forward_may_be_given_and_the_other_is_as_wide(attnviz: Attnviz) -> None:
    given_trace = trace("I am", layers=1, **given_option({"w_2": random_numbers(5, 8)}))
    section = next(each for each in step_sections(given_trace) if each.name == "feed-forward")

    assert given_trace.layers[0].block is not None
    assert given_trace.layers[0].block.required_feed_forward.parameters.w_1.shape == (8, 5)
    assert section.about.endswith("back to width 8. w_2 is given; w_1 is random (set by the seed).")


def test_given_positions_are_added_and_said_to_be(attnviz: Attnviz, tmp_path: Path) -> None:
    positions = random_numbers(6, 8)
    file = write_npz(tmp_path, {"positions": positions})

    given_trace = trace("I am learning this", Settings(given=file))
    result = attnviz("steps", "I am learning this", "--given", file, "--step", "2", "--query", "am")

    assert_close(given_trace.layers[0].inputs, given_trace.embeddings + positions[:4])
    assert "· given positions ·" in " ".join(result.out.split())
    assert "A given vector for the position is added" in " ".join(result.out.split())
    assert "inputs = embeddings + positions" in result.out
    assert given_trace.provenance.settings["positions"] == "given"


def test_keys_of_other_tokens_stand_at_given_positions_too() -> None:
    positions = random_numbers(3, 8)
    matrices = parse_matrices(
        {"tokens": ["a", "b"], "key_tokens": ["b", "c", "d"], "positions": positions.numpy()}
    )
    given_trace = trace(None, given=matrices)
    trace_without = trace(
        None, given=parse_matrices({"tokens": ["a", "b"], "key_tokens": ["b", "c", "d"]})
    )

    inputs, inputs_without = given_trace.layers[0].key_inputs, trace_without.layers[0].key_inputs
    assert inputs is not None
    assert inputs_without is not None
    assert_close(inputs, inputs_without + positions)


def test_words_of_a_memory_are_embedded_and_its_vectors_are_as_they_are(attnviz: Attnviz) -> None:
    with_words = trace("I am", layers=1, given=parse_matrices({"memory_tokens": ["who", "goes"]}))
    vectors = random_numbers(2, 8)
    with_vectors = trace("I am", layers=1, memory="who goes", **given_option({"memory": vectors}))

    assert with_words.memory is not None
    assert with_vectors.memory is not None
    assert with_words.memory.labels == with_vectors.memory.labels == ("who", "goes")
    assert with_words.layers[0].cross is not None
    assert with_vectors.layers[0].cross is not None
    assert_close(with_vectors.layers[0].cross.memory, vectors)
    abouts = [
        next(s.about for s in step_sections(each) if s.name == "memory")
        for each in (with_words, with_vectors)
    ]
    assert [about.endswith("Its vectors are given.") for about in abouts] == [False, True]


LESSON = """
title = "Two layers"
[settings]
layers = 2
norm = "pre"
[recipe]
seed = 1
draws = [
  { name = "w_1", linear = [4, 6] },
  { name = "layers.1.cross_w_query", linear = [4, 4] },
  { name = "table", randn = [5, 4] },
]
[given]
tokens = ["a", "b"]
memory_tokens = ["c", "d", "e"]
positions = [[1, 0, 0, 0], [0, 1, 0, 0]]
memory = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
[given.layers.1]
w_1 = [[1, 2], [3, 4], [5, 6], [7, 8]]
attention_gain = [2, 2, 2, 2]
"""


def test_lessons_give_layers_and_draw_for_them(attnviz: Attnviz, tmp_path: Path) -> None:
    text = LESSON.replace("[[1, 2], [3, 4], [5, 6], [7, 8]]", "'own'").replace("table", "own")
    text = text.replace("randn = [5, 4]", "randn = [4, 6]")
    expected = """[[expect]]
step = "block.attention.gain"
values = [2, 2, 2, 2]
[[expect]]
step = "memory"
values = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
"""
    (tmp_path / "two.toml").write_text(text + expected)

    result = attnviz("example", "check", str(tmp_path / "two.toml"))

    assert result.status == 0, result.err
    assert "block.attention.gain" in result.out


def test_a_lesson_whose_layers_do_not_fit_says_so(attnviz: Attnviz, tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(LESSON + "[[expect]]\nstep = 'outputs'\nvalues = [1]\n")

    result = attnviz("example", "check", str(tmp_path / "two.toml"))

    assert result.status != 0
    assert "'layers.1.w_1'" in result.out + result.err
    assert "according to 'w_1' there are 6 numbers in a hidden vector" in result.out + result.err


ZEROS = np.zeros((8, 8)).tolist()
REFUSED_CONTENTS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "no block": ({"w_1": ZEROS}, {}, "there is no transformer block", "give layers=1, with"),
    "no second block": (
        {"layers.1.w_query": ZEROS},
        {"layers": 1},
        "gives matrices of layer 1, but there is 1 layer: they count from 0",
        "give layers=2, with",
    ),
    "memory alone": ({"memory": ZEROS}, {}, "there is no transformer block", "give layers=1"),
    "no norm": (
        {"cross_gain": [1] * 8},
        {"memory": "you", "norm": "none"},
        'norm="none" has no LayerNorm',
        'give norm="post" or pre',
    ),
    "no memory": (
        {"layers.1.cross_w_out": ZEROS},
        {"layers": 2},
        "there is no second sentence to read",
        'give memory="…"',
    ),
    "two memories": (
        {"memory": ZEROS},
        {"memory": "you"},
        "'memory' is a text of 1 token,",
        "leave one of them out",
    ),
    "no queries": (
        {"memory": ZEROS},
        {"layers": 1, "variant": "plain"},
        "'plain' has no projections",
        'try variant="scaled"',
    ),
    "feed-forward": (
        {"w_1": ZEROS},
        {"layers": 1, "feed_forward": 9},
        "feed_forward is 9",
        "leave 'feed_forward' out, or give feed_forward=8",
    ),
    "two positions": (
        {"positions": ZEROS},
        {"positions": "rotary"},
        "positions is rotary, but",
        "leave one of them out",
    ),
    "few positions": (
        {"positions": [[1.0] * 8]},
        {},
        "gives vectors for 1 position, but there are 2 tokens",
        "give a row of 'positions' for each token",
    ),
    "another width above": (
        {"w_query": ZEROS, "layers.1.w_query": [[1.0] * 8]},
        {"layers": 2},
        "'layers.1.w_query' in 'my' is 1 × 8, but should be 8 × 8",
        "according to 'w_query' there are 8 numbers in an embedding",
    ),
    "odd above": (
        {"layers.1.w_query": [["a"]]},
        {"layers": 2},
        "layer 1: 'w_query' in 'my' is not a matrix of numbers",
        "give rows of numbers",
    ),
    "twice": (
        {"w_1": ZEROS, "layers.0.w_1": ZEROS},
        {"layers": 1},
        "'w_1' of layer 0 is given twice",
        "leave one of them out",
    ),
    "scores above": (
        {"layers.1.scores": ZEROS},
        {"layers": 2},
        "only learned matrices can be given",
        "give 'scores', or for a layer: w_query",
    ),
    "far above": ({"layers.1000.w_1": ZEROS}, {}, "is for layer 1,000", "layers count from 0"),
    "misspelt above": (
        {"layers.1.w_kee": ZEROS},
        {"layers": 2},
        "layer 1: there is no matrix 'w_kee' to give",
        "did you mean 'w_key'?",
    ),
    "no table": ({"layers": 3}, {}, "'layers' is not a table of layers", "write [layers.1]"),
    "no tables": (
        {"layers": {"1": 2}},
        {},
        "'layers' is not a table of layers",
        "write [layers.1]",
    ),
}


@pytest.mark.parametrize("name", REFUSED_CONTENTS)
def test_what_does_not_go_together_is_refused(name: str) -> None:
    contents, options, problem, hint = REFUSED_CONTENTS[name]

    with pytest.raises(AttnvizError) as refusal:
        trace("I am", **options, given=parse_matrices(contents, "my"))

    assert problem in str(refusal.value)
    assert refusal.value.hint.startswith(hint)


def test_layers_count_from_0_and_the_first_needs_no_number() -> None:
    contents = {"w_1": 1, "layers.0.w_2": 2, "layers": {"2": {"w_1": 3}}}

    assert group_by_layer(contents) == {0: {"w_1": 1, "w_2": 2}, 2: {"w_1": 3}}
    assert can_be_given("layers.2.w_1")
    assert not can_be_given("layers.x.w_1")
    assert not can_be_given("layers.1.layers.2.w_1")
