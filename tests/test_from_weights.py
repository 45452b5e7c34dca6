"""Weights that were computed elsewhere: every form is read, and wrong ones are refused."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnviz import compare, compare_sentences, from_weights, inspect, steps
from attnviz import load as load_trace
from attnviz.analysis.checks import verify_trace
from attnviz.analysis.inspection.two_sentences import HeadComparison
from attnviz.errors import AttnvizError, Note
from attnviz.traces.external.from_weights import detect_word_marking, parse_tokens
from attnviz.traces.trace import Trace
from attnviz.traces.trained.refusals import quiet_transformers
from tests.conftest import Attnviz
from tests.small_transformers import TEXT
from tests.tiers import examples

WORDS = ["The", "animal", "was", "tired"]
LAYERS, HEADS, COUNT = 2, 3, len(WORDS)


def random_weights(*shape: int, causal: bool = False, seed: int = 1) -> Tensor:
    """Rows that sum to 1, of [..., query, key]."""
    scores = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    if causal:
        scores = scores.masked_fill(~torch.ones(shape[-2:]).tril().bool(), -torch.inf)
    return scores.softmax(-1)


WEIGHTS = random_weights(LAYERS, HEADS, COUNT, COUNT)
LAYER_TUPLE = tuple(each[None] for each in WEIGHTS)
FORMS: dict[str, tuple[Any, Tensor]] = {
    "a row for each token": (WEIGHTS[0, 0], WEIGHTS[:1, :1]),
    "heads": (WEIGHTS[0], WEIGHTS[:1]),
    "layers": (WEIGHTS, WEIGHTS),
    "layers, each with a batch of one": (WEIGHTS[:, None], WEIGHTS),
    "nested lists": (WEIGHTS.tolist(), WEIGHTS),
    "tuples of numbers": (tuple(map(tuple, WEIGHTS[0, 0].tolist())), WEIGHTS[:1, :1]),
    "an array of NumPy": (WEIGHTS.numpy(), WEIGHTS),
    "an array that runs backwards": (WEIGHTS.numpy()[::-1], WEIGHTS.flip(0)),
    "arrays of heads in a list": ([*WEIGHTS[0].numpy()], WEIGHTS[:1]),
    "arrays of heads in lists of layers": ([list(each) for each in WEIGHTS], WEIGHTS),
    "tensors of layers in a list": ([*WEIGHTS], WEIGHTS),
    "outputs.attentions": (LAYER_TUPLE, WEIGHTS),
    "all outputs": ({"logits": 0, "attentions": LAYER_TUPLE}, WEIGHTS),
    "with a gradient": (WEIGHTS.clone().requires_grad_(), WEIGHTS),
    "sparse": (WEIGHTS.to_sparse(), WEIGHTS),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_weights_comes_to_the_same_numbers(form: str) -> None:
    weights, expected = FORMS[form]

    weights_trace = from_weights(weights, WORDS)

    torch.testing.assert_close(weights_trace.weights.float(), expected)
    assert weights_trace.tokens.labels == tuple(WORDS)
    assert weights_trace.weights_alone


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_dtype_keeps_its_numbers_and_is_named(dtype: str) -> None:
    weights = WEIGHTS.to(getattr(torch, dtype))

    weights_trace = from_weights(weights, WORDS)

    assert torch.equal(weights_trace.weights.double(), weights.double())
    assert weights_trace.view().settings == (
        "attention of given weights · 4 tokens (given) · 2 layers × 3 heads · dimensions read as "
        f"layer, head, query, key · {dtype}"
    )
    assert weights_trace.provenance.dtype == ("float64" if dtype == "float64" else "float32")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_every_float_of_numpy_will_do(dtype: Any) -> None:
    weights_trace = from_weights(np.eye(4, dtype=dtype), WORDS)

    assert torch.equal(weights_trace.weights[0, 0].double(), torch.eye(4, dtype=torch.float64))


def test_what_is_changed_afterwards_changes_no_trace() -> None:
    weights = WEIGHTS.clone()
    array = WEIGHTS.numpy().copy()
    traces = (from_weights(weights, WORDS), from_weights(array, WORDS))

    weights.zero_()
    array[:] = 0

    assert all(torch.equal(each.weights, WEIGHTS) for each in traces)


def test_of_a_batch_one_item_is_taken_and_named() -> None:
    batch = torch.stack([WEIGHTS, WEIGHTS.flip(-1)], dim=1)

    weights_trace = from_weights(tuple(batch), [WORDS, [*reversed(WORDS)]], item=2)

    assert torch.equal(weights_trace.weights, WEIGHTS.flip(-1))
    assert weights_trace.tokens.labels == tuple(reversed(WORDS))
    assert "item 2 of 2" in weights_trace.view().settings


def test_of_a_layer_alone_one_item_is_taken_where_one_is_asked_for() -> None:
    weights_trace = from_weights(WEIGHTS, WORDS, item=2)

    assert torch.equal(weights_trace.weights, WEIGHTS[1:2])


def test_cross_attention_has_keys_of_its_own() -> None:
    weights_trace = from_weights(random_weights(2, 3), ["a", "b"], keys=["b", "c", "d"], name="T5")

    assert weights_trace.view().settings.startswith("cross-attention of T5 · ")
    assert weights_trace.keys.labels == ("b", "c", "d")
    assert weights_trace.tokens.ids == (0, 1)
    assert weights_trace.keys.ids == (1, 2, 3)  # a word has one number on both sides


def test_the_last_step_of_a_cache_reads_all_tokens_from_the_last() -> None:
    weights_trace = from_weights(random_weights(3, 1, 4), WORDS)

    assert weights_trace.tokens.labels == ("tired",)
    assert weights_trace.keys.labels == tuple(WORDS)


def test_tokens_without_words_have_numbers() -> None:
    assert from_weights(WEIGHTS).tokens.labels == ("x1", "x2", "x3", "x4")


PIECES = {
    "bytes": (["The", "Ġanimal", "âĢĻ", "s", "Ċ"], ("The", "animal", "’", "s", "↵")),
    "SentencePiece": (["<s>", "▁anim", "al", "<0xE2>"], ("<s>", "anim", "al", "⟨e2⟩")),
    "WordPiece": (["[CLS]", "tire", "##d", "[SEP]"], ("[CLS]", "tire", "d", "[SEP]")),
    "ends of words": (["anim", "al</w>", "is</w>"], ("anim", "al", "is")),
    "spaces before words": (["The", " animal", ""], ("The", "animal", "⟨empty⟩")),
    "plain words": (["a#b", "##", "Ġorġ", "ħobż"], ("a#b", "##", "Ġorġ", "ħobż")),
}  # fmt: skip


@pytest.mark.parametrize("kind", PIECES)
def test_pieces_of_a_vocabulary_are_labelled_for_people(kind: str) -> None:
    pieces, labels = PIECES[kind]

    assert parse_tokens(pieces, len(pieces), None, None).labels == labels


def test_pieces_tell_where_words_begin_and_which_a_tokenizer_added() -> None:
    pieces = parse_tokens(["[CLS]", "tire", "##d", "[SEP]"], 4, None, None)
    pieces_with_ends = parse_tokens(["anim", "al</w>", "is</w>"], 3, None, None)

    assert pieces.special == {0, 3}
    assert pieces.spaced == (True, True, False, True)
    assert pieces.text == "tired"
    assert pieces_with_ends.spaced == (True, False, True)


@pytest.mark.parametrize("labels", [["[CLS]", "tired", "[SEP]"], ["<s>", " tired", "</s>"]])
def test_whole_words_tell_which_a_tokenizer_added_as_well(labels: list[str]) -> None:
    assert parse_tokens(labels, 3, None, None).special == {0, 2}


@settings(max_examples=examples(40))
@given(st.lists(st.text(max_size=4), min_size=1, max_size=6))
def test_any_words_make_labels_that_can_be_printed(texts: list[str]) -> None:
    tokens = parse_tokens(texts, len(texts), None, None)

    assert len(tokens) == len(texts)
    assert all(label and label.isprintable() for label in tokens.labels)
    assert detect_word_marking(texts) is None or tokens.text is not None


def test_ids_are_read_by_tiktoken_too() -> None:
    class Encoding:
        def decode_single_token_bytes(self, number: int) -> bytes:
            return [b"I", b" am"][number]

    weights_trace = from_weights(torch.eye(2), torch.tensor([0, 1]), tokenizer=Encoding())

    assert weights_trace.tokens.labels == ("I", "am")
    assert weights_trace.tokens.text == "I am"


def refusal_of(*arguments: Any, **keywords: Any) -> tuple[str, str]:
    with pytest.raises(AttnvizError) as error:
        from_weights(*arguments, **keywords)
    return str(error.value), error.value.hint


EAGER = 'load the model with attn_implementation="eager"'
ODD_WEIGHTS: dict[str, tuple[Any, Any, str, str]] = {
    "an empty tuple": ((), WORDS, "there are no weights: the model returned none", EAGER),
    "nothing": (None, WORDS, "there are no weights: the model returned none", EAGER),
    "no layer": ((None, None), WORDS, "there are no weights: every layer is None", EAGER),
    "outputs without": ({"logits": 1}, WORDS, "there are no weights", EAGER),
    "a text": ("I am", WORDS, "the weights cannot be read as numbers", "give a tensor"),
    "one number": (torch.tensor(1.0), WORDS, "0 dimensions", "give a tensor"),
    "too many sides": (torch.ones(1, 1, 1, 1, 1, 1), WORDS, "6 dimensions", "give a tensor"),
    "complex": (torch.ones(2, 2) * 1j, WORDS, "cannot be read as numbers", "give a tensor"),
    "objects": (np.array([["a"]]), WORDS, "cannot be read as numbers", "give a tensor"),
    "a short row": ([[1, 0], [1]], WORDS, "row 2 of 'weights' has 1 number", "give every row"),
    "too few": (WEIGHTS, WORDS[:3], "the weights are for 4 tokens, but 3 are given", "[CLS]"),
    "too many": (WEIGHTS, [*WORDS, "!"], "for 4 tokens, but 5 are given", "give exactly"),
    "a text of tokens": (WEIGHTS, "The animal", "the tokens are one text", "give the list"),
    "a number of tokens": (WEIGHTS, 4, "the tokens are of type int", "give the list"),
    "ids alone": (WEIGHTS, [1, 2, 3, 4], "the tokens are ids", "give tokenizer as well"),
    "odd tokens": (WEIGHTS, [1.5] * 4, "a list that contains float", "give the list"),
    "no tokens": (WEIGHTS, [], "there are no tokens", "give the list"),
    "NaN": (WEIGHTS.index_fill(3, torch.tensor(2), torch.nan), WORDS,
            "the weights have NaN in layer 0, head 0, at row 1, column 3", "nan_to_num"),
    "scores": (WEIGHTS.log(), WORDS, "in layer 0, head 0, at row 1, column 1", "softmax(-1)"),
    "infinity": (torch.full((2, 2), torch.inf), ["a", "b"], "have infinity in", "softmax(-1)"),
    "no keys": (random_weights(2, 3), ["a", "b"], "are 2 × 3: 2 tokens read 3", "give keys"),
    "no keys, and no tokens": (random_weights(2, 3), None, "are 2 × 3", "give keys"),
    "a batch": (WEIGHTS[:, None].expand(2, 5, 3, 4, 4), WORDS, "a batch of 5", "item=1"),
    "layers that shrink": ([WEIGHTS[0], WEIGHTS[0, :, :2, :2]], WORDS,
                           "layer 1 are 2 × 2, but those of layer 0 are 4 × 4", "the same tokens"),
    "no token at all": (torch.ones(1, 0, 0), None, "there are none", "at least one"),
    "two kinds": ({"encoder_attentions": LAYER_TUPLE, "cross_attentions": LAYER_TUPLE},
                  WORDS,
                  "hold encoder_attentions and cross_attentions", "or keys"),
    "a dict of layers": ({"layer 0": WEIGHTS[0]}, WORDS, "are a dict", "[*weights.values()]"),
    "what torch hands back": ((torch.ones(1, 4, 8), WEIGHTS[0]), WORDS,
                              "of layer 1 are 4 × 4", "give the second"),
    "what torch hands back without": (None, WORDS, "returned none", "need_weights=True"),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD_WEIGHTS)
def test_what_cannot_be_is_refused_in_two_lines(case: str) -> None:
    weights, tokens, problem, hint = ODD_WEIGHTS[case]

    messages = refusal_of(weights, tokens)

    assert problem in messages[0]
    assert hint in messages[1]
    assert "\n" not in "".join(messages)


def test_other_mistakes_are_refused_in_two_lines() -> None:
    batch = WEIGHTS[:, None]
    assert "item is 3, but the batch has 1" in refusal_of(batch, WORDS, item=3)[0]
    assert "item is 3, but the batch has 2" in refusal_of(WEIGHTS, WORDS, item=3)[0]
    assert "tokenizer is of type str" in refusal_of(WEIGHTS, [1, 2, 3, 4], tokenizer="gpt2")[0]
    assert "given as keys" in refusal_of(WEIGHTS, WORDS, keys=["a"])[0]
    assert "leave 'item' out" in refusal_of(batch, WORDS, item=3)[1]
    messages = refusal_of(random_weights(2, 4), WORDS, keys=["a", "b"])
    assert "2 × 4: 2 tokens read 4" in messages[0]
    assert "the other way round" in messages[0]


def test_layers_that_have_no_weights_are_left_out_and_said() -> None:
    with pytest.warns(Note, match="layer 0 has no weights: left out"):
        weights_trace = from_weights((None, WEIGHTS[0], WEIGHTS[1]), WORDS)

    assert [layer.name for layer in weights_trace.layers] == ["L1", "L2"]


def test_a_layer_of_one_head_that_has_no_weights_is_said_too() -> None:
    with pytest.warns(Note, match="layer 0 has no weights: left out"):
        weights_trace = from_weights((None, WEIGHTS[0, 0]), WORDS)

    assert [layer.name for layer in weights_trace.layers] == ["L1"]


@pytest.mark.parametrize("is_averaged", [True, False])
def test_of_torchs_own_attention_one_item_is_taken(is_averaged: bool) -> None:
    vectors = torch.randn(3, 4, 8)
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    _, weights = attention(vectors, vectors, vectors, average_attn_weights=is_averaged)

    weights_trace = from_weights(weights, WORDS, item=2)

    assert torch.equal(weights_trace.weights[0].squeeze(0), weights[1].detach())
    assert weights_trace.items == 3


def closing_of(weights: Tensor) -> tuple[str, ...]:
    return from_weights(weights, [f"w{each}" for each in range(len(weights))]).view().closing


def test_a_triangle_of_zeros_counts_as_hidden_and_that_is_said() -> None:
    weights_trace = from_weights(random_weights(LAYERS, HEADS, 4, 4, causal=True), WORDS)

    assert torch.equal(weights_trace.layers[0].visible, torch.ones(4, 4).tril().bool())
    assert "causal" in weights_trace.view().settings
    assert any("treated as causal" in each for each in weights_trace.view().closing)


@pytest.mark.parametrize(
    "weights",
    [
        torch.eye(4),  # a head that reads the token itself, and may read others
        torch.tensor([[1.0]]),
        torch.tensor([[1.0, 0], [1, 0]]),  # below the diagonal, too, there is a zero
        torch.tensor([[0.5, 0.5], [0.5, 0.5]]),
        torch.tensor([[1 - 1e-9, 1e-9], [0.5, 0.5]], dtype=torch.float64),
    ],
)
def test_other_zeros_hide_nothing(weights: Tensor) -> None:
    weights_trace = from_weights(weights, [f"w{each}" for each in range(len(weights))])

    assert bool(weights_trace.layers[0].visible.all())
    assert not any("hidden" in each for each in weights_trace.view().closing)


def test_what_rows_sum_to_is_said_where_it_is_not_1() -> None:
    half_sums = torch.tensor([[0.5, 0.5], [0.3, 0.4]])

    assert closing_of(half_sums) == ("1 of 2 rows does not sum to 1: the sum is .70",)
    assert closing_of(half_sums / 2) == ("none of 2 rows sums to 1: sums from .35 to .50",)
    assert closing_of(torch.tensor([[0.25]])) == ("its only row does not sum to 1: the sum is .25",)
    assert closing_of(torch.tensor([[0.5, 0.5], [0.4, 0.6]])) == ()
    zeros_and_short_rows = torch.tensor([[0.5, 0.5, 0], [0.2, 0, 0.2], [0, 0.4, 0.2]])
    assert closing_of(zeros_and_short_rows) == (
        "2 of 3 rows do not sum to 1: sums from .40 to .60",
    )


def test_verify_tells_rows_that_are_no_shares() -> None:
    sums_of_1, sums_of_half = (
        from_weights(each, ["a", "b"]) for each in (torch.eye(2), torch.eye(2) / 2)
    )

    assert [each.passed for each in verify_trace(sums_of_1)] == [True]
    assert [each.text for each in verify_trace(sums_of_half)] == [
        "✗ L0: rows sum to 1: largest difference 5.0e-01"
    ]


@pytest.fixture(scope="module")
def weights_trace() -> Trace:
    return from_weights(random_weights(LAYERS, HEADS, 4, 4, causal=True), WORDS, name="mine")


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@pytest.mark.parametrize("keys", [None, ["a", "b", "c", "d", "e"]])
def test_it_comes_back_from_a_file(tmp_path: Path, suffix: str, keys: list[str] | None) -> None:
    weights = random_weights(LAYERS, HEADS, 4, 5 if keys else 4, causal=not keys)
    original = from_weights(weights.bfloat16(), WORDS, keys=keys, name="mine")
    original.save(tmp_path / f"weights{suffix}")

    restored = load_trace(str(tmp_path / f"weights{suffix}"))

    assert torch.equal(restored.weights, original.weights)
    assert restored.external_origin is not None
    assert (restored.external_origin.name, restored.external_origin.stored_as) == (
        "mine",
        "bfloat16",
    )
    for suffix in (".txt", ".json", ".csv"):
        assert restored.view().render(suffix) == original.view().render(suffix)


def test_a_file_of_it_is_shown_by_the_commands(
    weights_trace: Trace, tmp_path: Path, attnviz: Attnviz
) -> None:
    path = str(tmp_path / "weights.npz")
    weights_trace.save(path)

    assert "weights of mine" in attnviz("run", "--trace", path).out
    assert "L1H2" in attnviz("inspect", "--trace", path, "--layer", "1", "--head", "2").out
    for command in (["steps"], ["compare", "--by", "mask"]):
        result = attnviz(command[0], "--trace", path, *command[1:])
        assert result.status == 2
        assert "only weights are given" in result.err


@pytest.mark.parametrize(
    "suffix", [".svg", ".png", ".txt", ".md", ".csv", ".json", ".npz", ".html"]
)
def test_every_format_shows_it(weights_trace: Trace, suffix: str) -> None:
    assert weights_trace.view().render(suffix)


def test_a_file_holds_nothing_that_is_not_known(weights_trace: Trace) -> None:
    document = weights_trace.to_dict()

    assert "embeddings" not in document
    assert set(document["layers"][0]) == {
        "layer", "scale", "heads", "head_dim", "visible", "weights",
    }  # fmt: skip


NEEDING_MORE_THAN_WEIGHTS: dict[str, Callable[[Trace], object]] = {
    "steps": lambda weights_trace: steps(weights_trace),
    "compare": lambda weights_trace: compare(weights_trace, by="mask"),
    "norm": lambda weights_trace: inspect(weights_trace, weigh="norm").view(),
    "gradient": lambda weights_trace: inspect(weights_trace, weigh="gradient").view(),
    "effect": lambda weights_trace: inspect(weights_trace, by="effect").view(),
    "predict": lambda weights_trace: weights_trace.view(predict=True),
    "scores": lambda weights_trace: weights_trace.view(show=["scores", "values"]),
    "embeddings": lambda weights_trace: weights_trace.view(show=["embeddings"]),
}


@pytest.mark.parametrize("name", NEEDING_MORE_THAN_WEIGHTS)
def test_what_needs_more_than_weights_is_refused(weights_trace: Trace, name: str) -> None:
    with pytest.raises(AttnvizError, match="only weights are given"):
        NEEDING_MORE_THAN_WEIGHTS[name](weights_trace)


def test_no_scores_are_shown_beside_weights_alone(weights_trace: Trace) -> None:
    heads = weights_trace.view().heads

    assert heads is not None
    assert all(each.scores is None for each in heads.heads)


def test_what_can_be_asked_of_heads_can_be_asked_of_these(weights_trace: Trace) -> None:
    linked_view = inspect(weights_trace, source="tired", to="animal").view()
    rollout_view = inspect(weights_trace, merge="rollout").view()
    words_view = inspect(weights_trace, query="tired", hide_first=True).view()

    link = weights_trace.weights[:, :, 3, 1] - weights_trace.weights[:, :, [0, 2], 1].mean(
        -1
    )  # of 4 tokens
    largest = int(link.flatten().argmax())
    assert linked_view.headline.startswith(f"In L{largest // HEADS}H{largest % HEADS}, ")
    assert rollout_view.headline == 'In the rollout, each token draws at least 33\u00a0% on "The"'
    assert words_view.headline.startswith('In the mean of 6 heads, "tired" attends most to ')


def test_weights_of_one_text_from_two_models_are_compared_head_by_head(
    weights_trace: Trace,
) -> None:
    flipped = from_weights(weights_trace.weights.flip(1), WORDS, name="other")

    comparison = compare_sentences(weights_trace, flipped)

    first_head, last_head = comparison.heads[0], comparison.heads[-1]
    assert comparison.view().title == "one sentence, in mine and other"
    assert "weights of mine and weights of other · 2 layers" in comparison.view().settings
    assert re.search(
        r"\d\u00a0% of its attention in mine, .*\d\u00a0% in other", comparison.view().closing[0]
    )
    assert (
        comparison.link(first_head).before
        == weights_trace.weights[tuple(place_of_change(first_head, weights_trace))].item()
    )
    assert {each.name for each in comparison.heads if not each.divergence} == {"L0H1", "L1H1"}
    assert not last_head.divergence


def place_of_change(comparison: HeadComparison, weights_trace: Trace) -> list[int]:
    """The layer, head, query and key of a head's largest change."""
    layer, head = map(int, comparison.name.removeprefix("L").split("H"))
    return [layer, head, comparison.largest.query, comparison.largest.key]


def test_words_of_two_texts_are_paired_by_what_they_are() -> None:
    longer = from_weights(random_weights(4, 4), ["so", "the", "animal", "slept"])
    shorter = from_weights(random_weights(3, 3), ["the", "animal", "slept"])

    comparison = compare_sentences(longer, shorter)

    assert comparison.rows.first == (1, 2, 3)
    assert comparison.rows.second == (0, 1, 2)


def test_weights_without_names_are_the_first_and_the_second(weights_trace: Trace) -> None:
    first, second = (from_weights(each, WORDS) for each in (WEIGHTS, WEIGHTS.flip(1)))
    five_tokens = from_weights(random_weights(LAYERS, HEADS, 5, 5), [*WORDS, "!"])

    assert (
        "of its attention in the first weights, "
        in compare_sentences(first, second).view().closing[0]
    )
    assert (
        "of its attention in the first sentence, "
        in compare_sentences(first, five_tokens).view().closing[0]
    )
    with pytest.raises(AttnvizError, match="heads: 6 in the first weights, up to L1H2, and 1 in "):
        compare_sentences(first, from_weights(torch.eye(4), WORDS))


Load = Callable[..., tuple[Any, Any]]


@pytest.fixture(scope="module")
def load(request: pytest.FixtureRequest) -> Load:
    """A function that loads a small model and its tokenizer, with weights or without."""
    folder = request.getfixturevalue("small_transformer")

    def load_model_and_tokenizer(name: str, eager: bool = True) -> tuple[Any, Any]:
        import transformers

        kind = "AutoModelForSeq2SeqLM" if name in ("t5", "bart") else "AutoModelForCausalLM"
        kind = "AutoModelForMaskedLM" if name == "bert" else kind
        with quiet_transformers():
            model = getattr(transformers, kind).from_pretrained(
                folder(name), attn_implementation="eager" if eager else "sdpa"
            )
            return model.eval(), transformers.AutoTokenizer.from_pretrained(folder(name))

    return load_model_and_tokenizer


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_weights_of_transformers_are_those_that_attnviz_hears(
    name: str, load: Load, small_transformer: Callable[[str], Path]
) -> None:
    from attnviz import trace

    model, tokenizer = load(name)
    inputs = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs, output_attentions=True)
    model_trace = trace(TEXT, model=str(small_transformer(name)))

    by_ids = from_weights(outputs, inputs, tokenizer=tokenizer)
    by_pieces = from_weights(
        outputs.attentions, tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    )

    torch.testing.assert_close(by_ids.weights, model_trace.weights)
    assert (
        _small_letter_labels(by_ids)
        == _small_letter_labels(model_trace)
        == _small_letter_labels(by_pieces)
    )
    assert by_ids.tokens.special == by_pieces.tokens.special == model_trace.tokens.special
    assert by_ids.variant.causal == model_trace.variant.causal


def _small_letter_labels(weights_trace: Trace) -> list[str]:
    """The labels in small letters, as a vocabulary without capitals has them."""
    return [label.lower() for label in weights_trace.tokens.labels]


def test_a_model_without_eager_attention_is_told_how_to_have_weights(load: Load) -> None:
    model, tokenizer = load("gpt2", eager=False)
    with quiet_transformers(), torch.no_grad():
        outputs = model(**tokenizer(TEXT, return_tensors="pt"), output_attentions=True)

    for each in (outputs, outputs.attentions):
        problem, hint = refusal_of(each, ["a"])
        assert problem == "there are no weights: the model returned none"
        assert 'attn_implementation="eager"' in hint


GENERATION_OPTIONS: dict[str, dict[str, Any]] = {
    "with a cache": {},
    "without a cache": {"use_cache": False},
    "with room for more": {"cache_implementation": "static"},
    "by beams": {"num_beams": 3, "num_return_sequences": 2},
}


@pytest.mark.parametrize("options_name", GENERATION_OPTIONS)
def test_what_generate_hands_back_is_one_table_with_the_prompt_known(
    options_name: str, load: Load
) -> None:
    model, tokenizer = load("llama")
    inputs = tokenizer("it was too tired", return_tensors="pt")
    with quiet_transformers(), torch.no_grad():
        outputs = model.generate(
            **inputs, max_new_tokens=4, min_new_tokens=4, do_sample=False, pad_token_id=0,
            output_attentions=True, return_dict_in_generate=True,
            **GENERATION_OPTIONS[options_name],
        )  # fmt: skip
        ids = outputs.sequences[-1:]
        expected_layers = model(ids[:, :-1], output_attentions=True).attentions

    with pytest.warns(Note, match="the last token was written and never read: left out"):
        weights_trace = from_weights(
            outputs, ids[0], tokenizer=tokenizer, item=2 if options_name == "by beams" else None
        )

    torch.testing.assert_close(weights_trace.weights, torch.cat([*expected_layers]))
    assert weights_trace.prompt == inputs["input_ids"].shape[1]
    assert len(weights_trace.tokens) == inputs["input_ids"].shape[1] + 3
    assert weights_trace.variant.causal
    assert "3 of them generated" in weights_trace.view().settings


@given(st.data())
def test_any_way_to_write_step_by_step_is_one_table(data: st.DataObject) -> None:
    """Each step has some new rows: alone, with all before them, or with room behind them."""
    prompt_length, *later_lengths = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    token_counts = np.cumsum([prompt_length, *later_lengths]).tolist()
    expected, tokens_before, steps_of_layers = (
        random_weights(2, 3, token_counts[-1], token_counts[-1], causal=True),
        0,
        [],
    )
    for token_count in token_counts:
        start = 0 if data.draw(st.booleans()) else tokens_before
        room = 0 if start < tokens_before else data.draw(st.integers(0, 2))
        steps_of_layers.append(
            [
                torch.nn.functional.pad(layer[None, :, start:token_count, :token_count], (0, room))
                for layer in expected
            ]
        )
        tokens_before = token_count

    weights_trace = from_weights(steps_of_layers)

    assert torch.equal(weights_trace.weights, expected)
    assert weights_trace.prompt == (prompt_length if later_lengths else None)


def test_a_window_that_moves_on_stands_at_its_right_place() -> None:
    steps_of_layers = [[random_weights(1, 1, 3, 3)], [random_weights(1, 1, 1, 2)]]

    weights_trace = from_weights(steps_of_layers)

    assert weights_trace.weights[0, 0, 3].tolist() == [
        0,
        0,
        *steps_of_layers[1][0][0, 0, 0].tolist(),
    ]


def test_beams_alone_are_refused_and_say_why(load: Load) -> None:
    steps_of_layers = tuple(
        (random_weights(3, 2, queries, keys),) for queries, keys in ((2, 2), (1, 3))
    )

    assert "which say how beams are reordered" in refusal_of(steps_of_layers, WORDS)[1]


def test_beams_of_a_decoder_beside_an_encoder_are_given_as_the_hint_says(load: Load) -> None:
    model, tokenizer = load("bart")
    inputs = tokenizer("the animal was tired", return_tensors="pt")
    with quiet_transformers(), torch.no_grad():
        outputs = model.generate(
            **inputs, max_new_tokens=5, min_new_tokens=5, num_beams=3, num_return_sequences=2,
            output_attentions=True, return_dict_in_generate=True,
        )  # fmt: skip
        ids = outputs.sequences[1:]
        expected_outputs = model(**inputs, decoder_input_ids=ids[:, :-1], output_attentions=True)

    hint = refusal_of(outputs, ids[0], tokenizer=tokenizer)[1]
    match = re.search(r"with its beams: (\{.*\})", hint)
    assert match is not None
    with pytest.warns(Note, match="never read"):
        decoder_trace = from_weights(eval(match[1]), ids[0], tokenizer=tokenizer, item=2)
    torch.testing.assert_close(
        decoder_trace.weights, torch.cat([*expected_outputs.decoder_attentions])
    )


def test_cross_attention_of_generate_is_stitched_too(load: Load) -> None:
    model, tokenizer = load("t5")
    inputs = tokenizer("the animal was tired", return_tensors="pt")
    with quiet_transformers(), torch.no_grad():
        outputs = model.generate(
            **inputs, max_new_tokens=3, min_new_tokens=3, do_sample=False,
            output_attentions=True, return_dict_in_generate=True,
        )  # fmt: skip
        expected_outputs = model(
            **inputs, decoder_input_ids=outputs.sequences[:, :-1], output_attentions=True
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        cross_trace = from_weights(
            outputs, outputs.sequences, tokenizer=tokenizer, keys=inputs["input_ids"]
        )
        decoder_trace = from_weights(
            outputs.decoder_attentions, outputs.sequences, tokenizer=tokenizer
        )

    torch.testing.assert_close(cross_trace.weights, torch.cat([*expected_outputs.cross_attentions]))
    torch.testing.assert_close(
        decoder_trace.weights, torch.cat([*expected_outputs.decoder_attentions])
    )
    assert decoder_trace.prompt == 1


def test_steps_that_read_more_than_there_is_are_refused() -> None:
    steps_of_layers = tuple((torch.ones(1, 1, queries, 5) / 5,) for queries in (2, 1))

    problem, hint = refusal_of(steps_of_layers, WORDS[:3])

    assert problem == "step 0 reads 5 keys, but there are 2 tokens by then"
    assert hint.startswith("give keys")


def test_what_there_is_no_room_for_is_refused_before_it_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("attnviz.machine.memory.free_bytes", lambda: 1000)

    assert "a copy of 480 weights takes about" in refusal_of(torch.ones(4, 5, 24), None)[0]


def test_layers_of_other_numbers_of_heads_are_no_one_tensor() -> None:
    weights_trace = from_weights([WEIGHTS[0], WEIGHTS[1, :2]], WORDS)

    assert "2 layers × 2 or 3 heads" in weights_trace.view().settings
    assert repr(weights_trace).endswith("2 layers × 2 or 3 heads>")
    with pytest.raises(AttnvizError, match="layers have 2 and 3 heads"):
        _ = weights_trace.weights
    for suffix in (".txt", ".svg", ".html"):
        assert weights_trace.view().render(suffix)
    assert inspect(weights_trace, layer=1, head=1).view().render(".txt")


@settings(max_examples=examples(60))
@given(
    names=st.lists(
        st.sampled_from(["layer", "batch", "item", "head"]), unique=True, max_size=3
    ).flatmap(lambda names: st.permutations([*names, "query", "key"])),
    data=st.data(),
)
def test_named_dimensions_are_read_in_any_order(names: list[str], data: st.DataObject) -> None:
    if {"batch", "item"} <= {*names}:
        return
    sizes = {"layer": 2, "batch": 3, "item": 3, "head": 2, "query": COUNT, "key": COUNT}
    wanted: list[str] = [name for name in sizes if name in names]
    ordered = random_weights(*(sizes[name] for name in wanted))
    given_weights = ordered.permute([wanted.index(name) for name in names])
    has_batch = "batch" in names or "item" in names
    item = data.draw(st.integers(1, 3)) if has_batch else None

    weights_trace = from_weights(given_weights, WORDS, axes=" ".join(names), item=item)

    place = next((wanted.index(name) for name in ("batch", "item") if name in wanted), None)
    expected = ordered if place is None else ordered.select(place, (item or 1) - 1)
    expected = expected if "head" in names else expected.unsqueeze(-3)
    expected = expected if "layer" in names else expected.unsqueeze(0)
    torch.testing.assert_close(weights_trace.weights, expected)


def test_the_settings_say_how_four_dimensions_are_read() -> None:
    layers = from_weights(WEIGHTS, WORDS)
    of_batch = from_weights(WEIGHTS, WORDS, item=2)

    assert "dimensions read as layer, head, query, key" in layers.view().settings
    assert "dimensions read as batch, head, query, key" in of_batch.view().settings
    assert torch.equal(of_batch.weights[0], WEIGHTS[1])
    assert layers.provenance.settings["axes"] == "layer head query key"
    for unambiguous in (WEIGHTS[0], WEIGHTS[0, 0], [*WEIGHTS]):
        assert "dimensions" not in from_weights(unambiguous, WORDS).view().settings


def test_a_file_does_not_write_its_own_words_into_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    from_weights(WEIGHTS, WORDS).save(path)
    path.write_text(path.read_text().replace("layer head query key", "pip install evil pkg"))
    assert "evil" not in load_trace(str(path)).view().settings


@pytest.mark.parametrize(
    ("axes", "problem"),
    [
        ("layer head query", "axes does not name 'key'"),
        ("layer head query token", "axes names 'token', and dimensions are layer, batch, head"),
        ("head head query key", "axes names a dimension twice"),
        ("head query key", "axes has 3 names, and the weights have 4 dimensions"),
        ("batch head query key", "the weights are a batch of 2, and only one item can be shown"),
    ],
)
def test_dimensions_that_do_not_fit_are_refused(axes: str, problem: str) -> None:
    with pytest.raises(AttnvizError, match=re.escape(problem)):
        from_weights(WEIGHTS, WORDS, axes=axes)


def test_a_list_of_tensors_has_no_dimensions_to_name() -> None:
    with pytest.raises(AttnvizError, match="axes names the dimensions of one array"):
        from_weights([*WEIGHTS], WORDS, axes="head query key")
