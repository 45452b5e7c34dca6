"""listen(): what is heard of many kinds of attention, and that the program does not notice."""

from __future__ import annotations

import re
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

import attnviz
from attnviz.analysis.inspection.inspection import inspect
from attnviz.errors import Note
from attnviz.views.settings_line import settings_line
from tests.conftest import ROOT
from tests.listen.programs import DIM, HEADS, PROGRAMS, WIDTH, module_of, numbers

pytestmark = [
    pytest.mark.filterwarnings("ignore:flex_attention called without"),
    pytest.mark.filterwarnings("ignore:.*torch.jit"),
]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("mode", [nullcontext, torch.no_grad, torch.inference_mode])
def test_each_attention_is_heard_once_with_its_weights(name: str, mode: Any) -> None:
    if mode is not nullcontext and "checkpointed" in name:
        pytest.skip("nothing is computed again without a backward pass")
    expected = PROGRAMS[name]()
    items = len(expected.weights[0])

    with attnviz.listen() as heard, mode():
        expected.run()

    assert len(heard) == len(expected.weights)
    for item in range(1, items + 1):
        for trace, weights in zip(heard.with_item(item), expected.weights, strict=True):
            torch.testing.assert_close(
                trace.weights[0].double(), weights[item - 1], atol=expected.tolerance, rtol=1e-5
            )


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "dropout" not in name])
def test_weights_times_values_are_what_the_program_computed(name: str) -> None:
    expected = PROGRAMS[name]()

    with attnviz.listen() as heard:
        expected.run()

    differences = [heard.difference(each) for each in heard.traces]
    limit = max(1e-5, expected.tolerance)
    assert all(difference is None or difference < limit for difference in differences)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("mode", [nullcontext, torch.no_grad])
def test_a_program_computes_the_same_numbers_while_one_listens(name: str, mode: Any) -> None:
    """Bit by bit, but for torch's fast path, which no program takes while one listens, and in
    inference_mode, where torch itself folds some products otherwise under any mode.
    """
    if mode is not nullcontext and "checkpointed" in name:
        pytest.skip("nothing is computed again without a backward pass")
    run, fast = PROGRAMS[name]().run, torch.backends.mha.get_fastpath_enabled()

    def outputs() -> list[torch.Tensor]:
        torch.manual_seed(6)
        with mode():
            result = run()
        parts = result if isinstance(result, (tuple, list)) else [result]
        return [part.detach() for part in parts if isinstance(part, torch.Tensor)]

    torch.backends.mha.set_fastpath_enabled(False)
    before = outputs()
    torch.backends.mha.set_fastpath_enabled(fast)
    with attnviz.listen():
        during = outputs()

    assert before
    torch.testing.assert_close(during, before, atol=0, rtol=0)


@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("heads and items in one dimension", "item 1 of 2"),
        ("items and heads, with their number", "item 1 of 2"),
        ("a head by hand", "item 1 of 2"),
        ("heads and items of which nothing is known", "matrix (an item or a head) 1 of 8"),
        ("heads split before a product", "matrix (an item or a head) 1 of 8"),
        ("a single head of a module that counts several", "matrix (an item or a head) 1 of 2"),
    ],
)
def test_the_list_says_text_only_where_texts_are_known_from_heads(name: str, item: str) -> None:
    with attnviz.listen() as heard:
        PROGRAMS[name]().run()

    assert repr(heard).splitlines()[0].endswith(f"; {item}")


def test_texts_of_several_batches_are_at_hand() -> None:
    """The last batch has fewer texts than the others."""
    module = module_of(batch_first=True)
    batches = numbers(4, 5, DIM), numbers(4, 5, DIM, seed=1), numbers(2, 5, DIM, seed=2)
    with attnviz.listen(module, item=3) as heard:
        expected = [module(x, x, x, average_attn_weights=False)[1].detach() for x in batches]

    for item in (1, 2, 3, 4):
        weights = [batch[item - 1] for batch in expected if len(batch) >= item]
        traces = list(heard.with_item(item))
        torch.testing.assert_close([trace.weights[0] for trace in traces], weights)
    assert len(heard) == 2
    with pytest.raises(attnviz.AttnvizError, match="there is no item 5 in a batch of 4"):
        heard.with_item(5)[0]


def test_gradients_are_the_same_while_one_listens() -> None:
    torch.manual_seed(5)
    model = nn.Transformer(DIM, HEADS, 1, 1, 16, batch_first=True)
    x, y = numbers(2, 5, DIM), numbers(2, 7, DIM, seed=1)

    def run() -> list[torch.Tensor]:
        torch.manual_seed(6)
        model.zero_grad()
        result = model(x, y)
        result.square().sum().backward()
        return [
            result.detach(),
            *(p.grad.clone() for p in model.parameters() if p.grad is not None),
        ]

    before = run()
    with attnviz.listen(model):
        during = run()

    assert all(torch.equal(one, other) for one, other in zip(before, during, strict=True))


def test_all_is_as_before_after_an_exception() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    code, fast = flex_attention.__code__, torch.backends.mha.get_fastpath_enabled()
    module = module_of(batch_first=True)
    x = numbers(2, 5, DIM)

    def run_and_fail() -> None:
        module(x, x, x)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), attnviz.listen(module) as heard:
        run_and_fail()

    assert len(heard) == 1
    assert flex_attention.__code__ is code
    assert torch.backends.mha.get_fastpath_enabled() is fast
    module(x, x, x)
    assert len(heard) == 1


class Layers(nn.Module):
    """Two layers, one in a plain list, which has no name in the model."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([module_of(batch_first=True)])
        self.others = [module_of(batch_first=True)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for module in (*self.blocks, *self.others):
            x = module(x, x, x, need_weights=False)[0]
        return x


X = numbers(2, 5, DIM)


def test_traces_have_the_names_of_the_modules_and_the_second_call_a_number() -> None:
    model = Layers()
    with attnviz.listen(model) as heard:
        model(X)
        model(X + 1)

    names = ["blocks.0", "MultiheadAttention"]
    assert list(heard.traces) == [*names, *(f"{name}.2" for name in names)]
    assert heard["blocks.0"] is heard[0]
    assert len(heard[1:]) == 3
    assert not torch.equal(heard[0].weights, heard["blocks.0.2"].weights)


def test_names_begin_with_the_model_where_several_are_heard() -> None:
    first, second, third = Layers(), Layers(), module_of(batch_first=True)
    with attnviz.listen() as heard:
        first(X)
        third(X, X, X)
        second(X)

    assert [name for name in heard.traces if "blocks" in name] == [
        "Layers.blocks.0", "Layers#2.blocks.0",
    ]  # fmt: skip
    assert "MultiheadAttention" in heard.traces


def test_a_name_is_without_its_model_if_no_other_one_attends() -> None:
    model = Layers()
    with attnviz.listen() as heard:
        nn.Linear(DIM, DIM)(X)
        model(X)

    assert list(heard.traces) == ["blocks.0", "MultiheadAttention"]


@pytest.mark.parametrize("pattern", ["blocks.*", "Layers.blocks.*"])
def test_a_pattern_fits_the_name_of_a_module_with_its_model_and_without(pattern: str) -> None:
    other, model = module_of(batch_first=True), Layers()
    with attnviz.listen(module=pattern) as heard:
        other(X, X, X)
        model(X)

    assert list(heard.traces) == ["Layers.blocks.0"]


def test_the_list_names_a_softmax_that_was_multiplied_and_is_no_attention() -> None:
    mixing = nn.Linear(5, 5)
    with attnviz.listen() as heard:
        Layers()(X)
        for size in (1, 2):
            mixing((X[:size] @ X[:size].mT).softmax(-1))
        (X @ X.mT).softmax(-1).topk(1)

    assert [line for line in heard.lines() if "softmax" in line] == [
        "not attention: a softmax of 1 × 5 × 5 in "
        "test_the_list_names_a_softmax_that_was_multiplied_and_is_no_attention: "
        "it is multiplied with a parameter (and 1 more)"
    ]


def test_only_the_model_that_is_given_is_heard() -> None:
    model, other = Layers(), Layers()
    with attnviz.listen(model) as heard:
        other(X)
        functional.scaled_dot_product_attention(X, X, X)
        model(X)

    assert len(heard) == 2


def test_what_attends_outside_modules_has_the_name_of_its_function() -> None:
    def attend_to_all() -> None:
        functional.scaled_dot_product_attention(X, X, X)

    with attnviz.listen() as heard:
        attend_to_all()

    [name] = heard.traces
    assert name.endswith("attend_to_all")


def test_one_line_calls_the_model() -> None:
    module = module_of(batch_first=True)

    heard = attnviz.listen(module, X, X, X)

    assert heard[0].weights.shape == (1, HEADS, 5, 5)


def test_labels_stand_where_they_are_as_many_as_the_tokens() -> None:
    model = nn.Transformer(DIM, HEADS, 1, 1, 16, batch_first=True).eval()
    with attnviz.listen(model, tokens=list("abcde")) as heard:
        model(X, numbers(2, 7, DIM))

    encoder, decoder, cross = heard
    assert encoder.tokens.labels == cross.keys.labels == tuple("abcde")
    assert (
        decoder.tokens.labels
        == cross.tokens.labels
        == tuple(f"x{number}" for number in range(1, 8))
    )


def test_labels_may_be_a_function_of_the_inputs_or_a_list_for_each_text() -> None:
    words = [["one", "two"], ["three", "four"]]
    module = module_of(batch_first=True)
    x = X[:, :2]
    with attnviz.listen(module, tokens=lambda *inputs: words) as heard:
        module(x, x, x)

    assert heard[0].tokens.labels == ("one", "two")
    assert heard.with_item(2)[0].tokens.labels == ("three", "four")


def test_labels_that_fit_nothing_are_left_out_with_a_note() -> None:
    module = module_of(batch_first=True)
    heard = attnviz.listen(module, X, X, X, tokens=["one", "two"])

    with pytest.warns(Note, match="2 labels cannot stand for the 5 tokens"):
        assert heard[0].tokens.labels == ("x1", "x2", "x3", "x4", "x5")


@pytest.mark.parametrize("labels", ["a b c d e", torch.arange(5), [*range(5)], [[*"abcde"]] * 2])
def test_labels_may_be_a_text_or_numbers(labels: Any) -> None:
    module = module_of(batch_first=True)
    heard = attnviz.listen(module, X, X, X, tokens=labels)

    assert "".join(heard[0].tokens.labels) in ("abcde", "01234")


@pytest.mark.parametrize(
    ("choice", "hint"),
    [
        ({"calls": 0}, "try calls=1"),
        ({"every": -1}, "try every=1"),
        ({"item": 0}, "try item=1"),
        ({"keep": "much"}, 'try keep="100MB"'),
        ({"tokens": 5}, 'try tokens=["I", "am"], or a function of the inputs'),
    ],
)
def test_bounds_that_make_no_sense_are_refused_before_the_program_runs(
    choice: Any, hint: str
) -> None:
    with pytest.raises(attnviz.AttnvizError) as refusal:
        attnviz.listen(**choice)

    assert refusal.value.hint == hint


def test_calls_and_memory_are_bounded_and_what_is_dropped_is_counted() -> None:
    module = module_of(batch_first=True)

    def heard_of(**bounds: Any) -> attnviz.Heard:
        with attnviz.listen(module, **bounds) as heard:
            for _ in range(6):
                module(X, X, X, need_weights=False)
        return heard

    assert len(heard_of()) == 6
    assert len(heard_of(calls=2)) == 2
    assert len(heard_of(every=4)) == 2
    assert len(heard_of(module="nothing*")) == 0
    one_call = 4 * X.numel() * X.element_size()
    assert len(heard_of(keep=f"{2 * one_call // 1000 + 1}kB")) == 2
    assert "not kept: 3 calls or more (calls, every and keep bound" in repr(heard_of(calls=2))


EXPERTS = nn.Linear(DIM, 5)
unit = partial(functional.normalize, dim=-1)


def linear_attention() -> torch.Tensor:
    """Features of queries and keys by a softmax, with heads."""
    queries, keys, values = (
        each.view(2, 5, HEADS, -1).transpose(1, 2)
        for each in nn.Linear(DIM, 3 * DIM)(X).chunk(3, 2)
    )
    result: torch.Tensor = queries.softmax(-1) * 0.5 @ (keys.softmax(-2).mT @ values)
    return result


@pytest.mark.parametrize(
    ("compute", "reason"),
    [
        (lambda: X @ X.mT, "no softmax"),
        (lambda: nn.Linear(DIM, 9)(X).softmax(-1), "no product of it with a matrix was seen"),
        (lambda: (X @ X.mT).softmax(1) @ X, "sums over another dimension"),
        (lambda: X.softmax(-1) @ (X.mT.softmax(-1) @ X), "as in linear attention"),
        (lambda: X.softmax(-1) @ (X.softmax(-2).mT @ X), "as in linear attention"),
        (lambda: linear_attention(), "as in linear attention"),
        (lambda: EXPERTS(X).softmax(-1) @ X, "as that of a router"),
        (lambda: (unit(X) @ unit(EXPERTS.weight).T).softmax(-1) @ X, "as that of a router"),
        (lambda: weight_norm(nn.Linear(DIM, 5))(X).softmax(-1) @ X, "as that of a router"),
        (
            lambda: (unit(X) @ unit(EXPERTS.weight).T).softmax(-1) @ unit(EXPERTS.weight),
            "multiplied with a parameter",
        ),
        (lambda: (X @ X.mT).exp() / (X @ X.mT).exp().sum(-1, True) @ X, "rows sum to 1"),
        (lambda: nn.Parameter(torch.ones(2, 5, 5)).softmax(-1) @ X, "its input is a parameter"),
    ],
)
def test_silence_has_a_reason(compute: Any, reason: str) -> None:
    with attnviz.listen() as heard:
        compute()

    with pytest.raises(attnviz.AttnvizError) as refusal:
        heard[0]
    assert str(refusal.value) == "nothing attended"
    assert reason in refusal.value.hint


def test_a_pattern_without_a_module_is_refused_with_the_names() -> None:
    with attnviz.listen(Layers(), X, module="layers.*") as heard:
        pass
    heard = attnviz.listen(Layers(), X, module="layers.*")

    with pytest.raises(attnviz.AttnvizError) as refusal:
        heard.save("view.html")
    assert "'layers.*'" in str(refusal.value)
    assert "blocks.0" in refusal.value.hint


def test_a_page_has_all_heads_of_a_text_and_other_texts_have_pages_of_their_own(
    tmp_path: Any,
) -> None:
    model = nn.Transformer(DIM, HEADS, 2, 1, 16, batch_first=True).eval()
    heard = attnviz.listen(model, X, numbers(2, 7, DIM))

    heard.save(tmp_path / "view.html")

    assert {path.name for path in tmp_path.iterdir()} == {"view.html", "view.2.html", "view.3.html"}
    assert [len(text.trace.layers) for text in heard.texts] == [2, 1, 1]
    assert "encoder.layers.1.self_attn" in (tmp_path / "view.html").read_text()


def test_layers_with_other_numbers_of_heads_have_a_page_of_their_own() -> None:
    queries = numbers(1, HEADS, 5, WIDTH)
    with attnviz.listen() as heard:
        for heads in (HEADS, 1, HEADS):
            side = queries[:, :heads]
            functional.scaled_dot_product_attention(side, side, side)

    assert [len(text.names) for text in heard.texts] == [2, 1]


def test_the_programs_of_the_page_on_listening_run(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "listening.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)

    exec(compile("\n".join(blocks), "listening.md", "exec"), {"__name__": "listening"})

    assert len(blocks) == 3
    assert (tmp_path / "view.html").is_file()


def test_tokens_that_read_another_text_one_by_one_are_cross_attention() -> None:
    with attnviz.listen(tokens=[*"abcd"]) as heard:
        PROGRAMS["decoding that reads another text"]().run()

    assert heard[0].keys.labels == ("a", "b", "c", "d")
    assert heard[0].tokens.labels == tuple(f"x{number}" for number in range(1, 7))
    assert "cross, 6 steps" in repr(heard)


def test_names_that_would_be_alike_are_not_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    name = "a_long_name_of_a_module"
    model = nn.ModuleDict(
        {f"{name}_{at}_with_a_long_end": module_of(batch_first=True) for at in "12"}
    )
    with attnviz.listen(model) as heard:
        for each in model.values():
            each(X, X, X)

    assert all(each in repr(heard) for each in heard.traces)


def test_pages_say_how_far_the_weights_are_from_the_programs_and_that_it_drops_some() -> None:
    module = module_of(batch_first=True)
    heard = attnviz.listen(module.eval(), X, X, X)
    assert any("Weights · values" in line for line in heard.view().closing)

    with attnviz.listen() as heard:
        functional.scaled_dot_product_attention(X, X, X, dropout_p=0.5)
    assert any(line.startswith("With dropout, the weights are") for line in heard.view().closing)


def test_scores_of_positions_are_no_cross_attention() -> None:
    with attnviz.listen() as heard:
        PROGRAMS["scores of positions before those of keys"]().run()

    assert heard[0].keys is heard[0].tokens


def test_listening_inside_of_listening_hears_in_both() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    sides = numbers(3, 1, 2, 4, 8)
    with attnviz.listen() as outer:
        with attnviz.listen() as inner:
            flex_attention(*sides)
            functional.scaled_dot_product_attention(*sides)
        functional.scaled_dot_product_attention(*sides)

    assert (len(outer), len(inner)) == (3, 2)


def test_nothing_listens_after_calls_of_which_nothing_is_kept() -> None:
    module = module_of(batch_first=True)
    with attnviz.listen(calls=1) as heard:
        for _ in range(4):
            module(X, X, X)
        assert torch.utils._python_dispatch._get_current_dispatch_mode() is None

    assert len(heard) == 1


def test_linear_attention_beside_another_does_not_take_its_place() -> None:
    with attnviz.listen(calls=1) as heard:
        (X @ X.mT).softmax(-1) @ X
        X.softmax(-1) @ (X.softmax(-2).mT @ X)

    assert [trace.weights.shape for trace in heard] == [(1, 1, 5, 5)]


def test_a_sum_over_tokens_that_others_attend_to_is_heard() -> None:
    """Only the features of queries in linear attention are no product with keys."""
    learned_query, parts = nn.Parameter(numbers(3, DIM)), (X @ numbers(DIM, 3)).softmax(1).mT
    with attnviz.listen() as heard:
        pooled = torch.tanh(X @ numbers(DIM, 3)).softmax(1).mT @ X
        (X @ pooled.mT).softmax(-1) @ pooled
        (learned_query @ (parts @ X).mT).softmax(-1) @ pooled

    assert [trace.weights.shape[2:] for trace in heard] == [(3, 5), (5, 3), (3, 3)]


def test_a_softmax_that_is_used_twice_is_heard_once() -> None:
    with attnviz.listen() as heard:
        torch.func.jvp(lambda x: (x @ X.mT).softmax(-1) @ X, (X,), (X,))

    assert len(heard) == 1


@pytest.mark.parametrize("kind", ["a column that is cut off", "a temperature for each head"])
def test_only_weights_are_known_of_some(kind: str) -> None:
    queries, keys, values = numbers(3, 1, 2, 4, 8)
    sink = numbers(1, 2, 1, 1, seed=5)

    def weights() -> torch.Tensor:
        scores = queries @ keys.mT
        if kind == "a temperature for each head":
            return torch.softmax(scores * sink, -1)
        return torch.cat([scores, sink.expand(-1, -1, 4, -1)], -1).softmax(-1)[..., :-1]

    with attnviz.listen() as heard:
        weights() @ values

    torch.testing.assert_close(heard[0].weights[0], weights()[0])


def test_a_page_says_where_the_weights_are_from_and_that_nothing_is_random() -> None:
    module = module_of(batch_first=True)
    other = X + 1
    heard = attnviz.listen(module, X, other, other)

    view = heard.view()
    text = f"{view.title} {view.headline} {view.closing} {settings_line(heard[0])}"
    assert "cross-attention in MultiheadAttention" in text
    assert "computed by softmax" in text
    assert "random" not in text
    assert "seed" not in text


def test_an_encoder_that_would_take_the_fast_path_is_heard() -> None:
    """The fast path is one operator with nothing inside."""
    layer = nn.TransformerEncoderLayer(DIM, HEADS, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    with torch.profiler.profile() as profile, torch.no_grad():
        model(X)
    assert "aten::_transformer_encoder_layer_fwd" in {each.name for each in profile.events()}

    with torch.no_grad():
        heard = attnviz.listen(model, X)

    assert list(heard.traces) == ["layers.0.self_attn", "layers.1.self_attn"]


def test_shares_that_a_gate_changes_are_those_that_the_values_were_multiplied_with() -> None:
    queries, keys, values = numbers(3, 2, 2, 5, 8)
    gate = numbers(2, 1, 1, seed=1).sigmoid()
    mixed = (1 - gate) * (queries @ keys.mT).softmax(-1) + gate * (keys @ keys.mT).softmax(-1)

    with attnviz.listen() as heard:
        first, second = (queries @ keys.mT).softmax(-1), (keys @ keys.mT).softmax(-1)
        ((1 - gate) * first + gate * second) @ values

    assert len(heard) == 1
    torch.testing.assert_close(heard[0].weights[0], mixed[0])


def test_the_difference_of_two_softmaxes_is_no_attention_and_has_a_reason() -> None:
    queries, keys, values = numbers(3, 2, 2, 5, 8)
    with attnviz.listen() as heard:
        ((queries @ keys.mT).softmax(-1) - 0.5 * (keys @ keys.mT).softmax(-1)) @ values

    assert "numbers below 0" in repr(heard)


@torch.library.custom_op("flash_attn::varlen_by_hand", mutates_args=())
def varlen(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return q.clone()


def test_an_operation_of_a_package_that_cannot_be_read_is_named() -> None:
    with attnviz.listen() as heard:
        torch.ops.flash_attn.varlen_by_hand(*numbers(3, 9, HEADS, 8))

    assert "flash_attn::varlen_by_hand" in repr(heard)
    assert "cannot read" in repr(heard)


def test_a_saved_trace_still_says_what_was_heard(tmp_path: Any) -> None:
    module = module_of(batch_first=True)
    heard = attnviz.listen(module, X, X, X, need_weights=False)

    heard[0].save(tmp_path / "heard.npz")
    loaded = attnviz.load(tmp_path / "heard.npz")

    assert settings_line(loaded) == settings_line(heard[0])
    assert "computed by scaled_dot_product_attention" in settings_line(loaded)
    assert torch.equal(loaded.weights, heard[0].weights)


@pytest.mark.slow("long texts")
@pytest.mark.filterwarnings("ignore:all weights of 4,096 tokens")
def test_a_long_text_has_a_page(tmp_path: Any) -> None:
    queries, keys, values = numbers(3, 1, 7, 4096, 8)
    with attnviz.listen() as heard:
        functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)

    heard.save(tmp_path / "view.html")

    rows = inspect(heard[0]).maps[0].cells.window(slice(5, 4000, 1000), slice(0, 4096)).values
    scores = queries[0, 0, 5:4000:1000] @ keys[0, 0].T / 8**0.5
    visible = torch.arange(4096) <= torch.arange(5, 4000, 1000)[:, None]
    expected = scores.masked_fill(~visible, float("-inf")).softmax(-1)
    torch.testing.assert_close(torch.as_tensor(rows), expected, atol=1e-6, rtol=1e-4)


class Block(nn.Module):
    """A block of a GPT as the lectures write it."""

    bias: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.attn, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("bias", torch.ones(16, 16).tril()[None, None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, count, dim = x.size()
        sides = self.attn(x).split(dim, dim=2)
        q, k, v = (each.view(batch, count, HEADS, -1).transpose(1, 2) for each in sides)
        scores = (q @ k.transpose(-2, -1)) * k.size(-1) ** -0.5
        scores = scores.masked_fill(self.bias[:, :, :count, :count] == 0, float("-inf"))
        self.weights = functional.softmax(scores, dim=-1)
        y = self.drop(self.weights) @ v
        result: torch.Tensor = x + self.proj(y.transpose(1, 2).contiguous().view(batch, count, dim))
        return result


def test_a_gpt_by_hand_is_heard_while_it_trains() -> None:
    torch.manual_seed(0)
    blocks = [Block(), Block()]
    model = nn.Sequential(*blocks)
    with attnviz.listen(model) as heard:
        model(X).square().mean().backward()

    assert list(heard.traces) == ["0", "1"]
    for trace, block in zip(heard, blocks, strict=True):
        torch.testing.assert_close(trace.weights[0], block.weights[0].detach())
        assert trace.variant.causal
    assert all(call.attended.dropout for call in heard.calls.values())
