"""The transformer block: numbers from paper, and agreement with torch's own layers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from attnviz import trace
from attnviz.attention import block
from attnviz.attention.variants import ACTIVATIONS, NORMS
from attnviz.errors import AttnvizError
from attnviz.options.values import Activation, NormPlacement
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.trace import Layer, Trace
from tests.conftest import Attnviz

TEXT, OTHER = "I am learning this", "You are teaching that today"
KINDS = [(norm, activation) for norm in NORMS if norm != "none" for activation in ACTIVATIONS]

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {  # torch's
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
    "gelu-tanh": partial(nn.functional.gelu, approximate="tanh"),
}


def copy_projections(torch_attention: nn.MultiheadAttention, layer: Layer) -> None:
    """Copy matrices into torch's attention, transposed: torch multiplies from the left."""
    projections = layer.projections
    assert projections is not None
    assert projections.w_query is not None
    assert projections.w_key is not None
    assert projections.w_value is not None
    assert projections.w_out is not None
    stacked_matrices = torch.cat(
        [projections.w_query.T, projections.w_key.T, projections.w_value.T]
    )
    biases = [projections.b_query, projections.b_key, projections.b_value]
    filled_biases = [
        torch.zeros(len(projections.w_out)) if each is None else each for each in biases
    ]
    torch_attention.in_proj_weight.copy_(stacked_matrices)
    torch_attention.in_proj_bias.copy_(torch.cat(filled_biases))
    torch_attention.out_proj.weight.copy_(projections.w_out.T)
    torch_attention.out_proj.bias.copy_(
        projections.b_out if projections.b_out is not None else torch.zeros(8)
    )


def copy_feed_forward(
    torch_layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer, layer: Layer
) -> None:
    assert layer.block is not None
    parameters = layer.block.required_feed_forward.parameters
    torch_layer.linear1.weight.copy_(parameters.w_1.T)
    torch_layer.linear1.bias.copy_(parameters.b_1)
    torch_layer.linear2.weight.copy_(parameters.w_2.T)
    torch_layer.linear2.bias.copy_(parameters.b_2)


def encode_with_torch(
    trace_of_layers: Trace, norm: str, activation: str, mask: Tensor | None = None
) -> Tensor:
    """The outputs of torch's encoder layers with the Trace's inputs and matrices."""
    hidden = trace_of_layers.layers[0].block.attention.inputs[None]  # type: ignore[union-attr]
    for layer in trace_of_layers.layers:
        torch_layer = nn.TransformerEncoderLayer(
            8,
            layer.heads,
            32,
            dropout=0.0,
            activation=FUNCTIONS[activation],
            batch_first=True,
            norm_first=norm == "pre",
        ).eval()
        with torch.no_grad():
            copy_projections(torch_layer.self_attn, layer)
            copy_feed_forward(torch_layer, layer)
            hidden = torch_layer(hidden, src_mask=mask)
    return hidden[0]


@pytest.mark.parametrize(("norm", "activation"), KINDS)
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_layers_agree_with_torchs_encoder(
    norm: NormPlacement, activation: Activation, heads: int
) -> None:
    block_trace = trace(TEXT, layers=3, heads=heads, norm=norm, activation=activation)

    assert_close(
        block_trace.layers[-1].outputs,
        encode_with_torch(block_trace, norm, activation),
        atol=1e-5,
        rtol=1e-5,
    )


@pytest.mark.parametrize("norm", ["post", "pre", "none"])
def test_attention_only_is_attention_in_a_residual(norm: NormPlacement) -> None:
    block_trace = trace(TEXT, layers=2, heads=2, norm=norm, attention_only=True)
    hidden = block_trace.embeddings
    for layer in block_trace.layers:
        torch_attention = nn.MultiheadAttention(8, 2, batch_first=True)
        with torch.no_grad():
            copy_projections(torch_attention, layer)
            inputs = nn.functional.layer_norm(hidden, (8,)) if norm == "pre" else hidden
            with_residual = hidden + torch_attention(inputs, inputs, inputs)[0]
        hidden = nn.functional.layer_norm(with_residual, (8,)) if norm == "post" else with_residual
        assert layer.block is not None
        assert layer.block.feed_forward is None

    assert_close(block_trace.layers[-1].outputs, hidden, atol=1e-5, rtol=1e-5)


def test_attention_only_is_said_and_counted(attnviz: Attnviz) -> None:
    output = attnviz("steps", TEXT, "--layers", "1", "--attention-only", "--step", "11-").out

    assert " 1 layer (post-norm) · no feed-forward" in " ".join(output.split())
    assert output.endswith("in total, this layer has 272 numbers to learn\n")  # 4 · 8 · 8 + 2 · 8


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        (
            (),
            "--attention-only is about transformer blocks, but there is none",
            "give --layers 1",
        ),
        (
            ("--layers", "1", "--feed-forward", "3"),
            "--feed-forward is about feed-forward, which --attention-only leaves out",
            "leave one of them out",
        ),
    ],
)
def test_attention_only_leaves_out_what_feed_forward_would_need(
    attnviz: Attnviz, arguments: tuple[str, ...], problem: str, hint: str
) -> None:
    result = attnviz("run", TEXT, "--attention-only", *arguments)

    assert (result.status, result.err) == (2, f"error: {problem}\n hint: {hint}\n")


def test_a_matrix_of_feed_forward_is_not_ignored_where_there_is_none() -> None:
    given = parse_matrices({"w_1": [[1.0] * 3] * 8})

    with pytest.raises(
        AttnvizError, match=r"attention_only=True leaves feed-forward out, but .*'w_1'"
    ):
        trace(TEXT, given=given, layers=1, attention_only=True)


def test_causal_layers_agree_with_torchs_encoder_and_its_mask() -> None:
    block_trace = trace(TEXT, layers=2, variant="multi-head", positions="sinusoidal")

    mask = torch.ones(4, 4, dtype=torch.bool).triu(1)
    assert_close(
        block_trace.layers[-1].outputs,
        encode_with_torch(block_trace, "post", "relu", mask),
        atol=1e-5,
        rtol=1e-5,
    )


@pytest.mark.parametrize(("norm", "activation"), KINDS)
def test_layers_with_memory_agree_with_torchs_decoder(
    norm: NormPlacement, activation: Activation
) -> None:
    block_trace = trace(TEXT, variant="multi-head", memory=OTHER, norm=norm, activation=activation)
    (layer,) = block_trace.layers
    assert layer.cross is not None
    assert layer.block is not None
    assert layer.cross.memory is not None
    torch_decoder = nn.TransformerDecoderLayer(
        8,
        2,
        32,
        dropout=0.0,
        activation=FUNCTIONS[activation],
        batch_first=True,
        norm_first=norm == "pre",
    ).eval()

    with torch.no_grad():
        copy_projections(torch_decoder.self_attn, layer)
        copy_projections(torch_decoder.multihead_attn, layer.cross)
        copy_feed_forward(torch_decoder, layer)
        expected = torch_decoder(
            layer.block.attention.inputs[None],
            layer.cross.memory[None],
            tgt_mask=torch.ones(4, 4, dtype=torch.bool).triu(1),
        )[0]

    assert_close(layer.outputs, expected, atol=1e-5, rtol=1e-5)


def test_rows_of_cross_attention_are_the_sentences_and_columns_the_others() -> None:
    block_trace = trace(TEXT, memory=OTHER)
    cross = block_trace.layers[0].cross

    assert cross is not None
    assert cross.attended.weights.shape == (1, 4, 5)
    assert block_trace.keys_of(cross).text == OTHER
    assert block_trace.keys_of(block_trace.layers[0]).text == TEXT
    assert cross.visible.all()


def test_a_token_has_the_same_vector_in_the_memory() -> None:
    block_trace = trace("I am", memory="am I")
    cross = block_trace.layers[0].cross

    assert cross is not None
    assert cross.memory is not None
    embeddings = trace("am I").embeddings
    assert torch.equal(cross.memory, embeddings)


def test_the_first_layer_of_many_is_the_only_one_of_one() -> None:
    single_layer, three_layers = trace(TEXT, layers=1).layers[0], trace(TEXT, layers=3).layers

    assert torch.equal(single_layer.outputs, three_layers[0].outputs)
    assert not torch.equal(three_layers[0].attended.weights, three_layers[1].attended.weights)
    assert len({float(layer.projections.w_query[0, 0]) for layer in three_layers}) == 3  # type: ignore[union-attr, index]


def test_attention_in_a_block_reads_as_attention_alone_does() -> None:
    layer_alone, layer_in_block = trace(TEXT).layers[0], trace(TEXT, layers=1).layers[0]

    assert torch.equal(layer_alone.attended.weights, layer_in_block.attended.weights)


def test_layer_norm_of_one_and_three() -> None:
    """Mean 2, variance 1: (1 - 2) / 1 and (3 - 2) / 1; then stretched by 10 and moved by 1."""
    norm = block.Norm(torch.tensor([10.0, 10.0]), torch.tensor([1.0, 1.0]))

    assert_close(
        block.layer_norm(torch.tensor([[1.0, 3.0]]), norm),
        torch.tensor([[-9.0, 11.0]]),
        atol=1e-4,
        rtol=0,
    )


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_torchs(name: Activation) -> None:
    numbers = torch.linspace(-4, 4, 50)

    assert_close(block.FEED_FORWARD_ACTIVATIONS[name](numbers), FUNCTIONS[name](numbers))


def test_every_activation_of_the_settings_is_there() -> None:
    assert set(block.FEED_FORWARD_ACTIVATIONS) == set(ACTIVATIONS)


def test_a_post_norm_block_hands_on_vectors_of_mean_0_and_variance_1() -> None:
    outputs = trace(TEXT, layers=2).layers[-1].outputs

    assert_close(outputs.mean(-1), torch.zeros(4), atol=1e-5, rtol=0)
    assert_close(outputs.var(-1, correction=0), torch.ones(4), atol=1e-3, rtol=0)


def test_a_block_without_a_norm_only_adds() -> None:
    block_trace = trace(TEXT, layers=2, norm="none", memory=OTHER, activation="gelu")
    for layer in block_trace.layers:
        assert layer.block is not None
        for residual in layer.block.residuals.values():
            assert residual.norm is None
            assert torch.equal(residual.sublayer_inputs, residual.inputs)
            assert_close(residual.outputs, residual.inputs + residual.sublayer_outputs)


def test_steps_of_a_block_without_a_norm_speak_of_none(attnviz: Attnviz) -> None:
    walk = attnviz("steps", TEXT, "--layers", "1", "--norm", "none", "--query", "am").out

    assert "1 layer (no norm)" in " ".join(walk.split())
    assert "outputs = x + f(x)" in walk
    assert "Step 11: add   input" in walk
    assert not {"LayerNorm", "gain", "normed"} & {*walk.replace("(", " ").split()}
    # 3 matrices and w_out, 8 × 8 each; 8 × 32 + 32 + 32 × 8 + 8: and no gains and shifts.
    assert f"in total, this layer has {4 * 64 + 552} numbers to learn" in walk


@pytest.mark.parametrize("name", ["plain", "average"])
def test_memory_needs_queries_and_keys(name: str) -> None:
    with pytest.raises(AttnvizError, match="'memory' needs queries"):
        trace(TEXT, variant=name, memory=OTHER)
