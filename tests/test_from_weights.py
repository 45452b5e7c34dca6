"""Weights that were computed elsewhere: every form they come in, and what is refused of them."""

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

WORDS = ["The", "animal", "was", "tired"]
LAYERS, HEADS, COUNT = 2, 3, len(WORDS)


def random_weights(*shape: int, causal: bool = False, seed: int = 1) -> Tensor:
    """Rows that sum to 1, of [..., query, key]."""
    scores = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    if causal:
        scores = scores.masked_fill(~torch.ones(shape[-2:]).tril().bool(), -torch.inf)
    return scores.softmax(-1)


WEIGHTS = random_weights(LAYERS, HEADS, COUNT, COUNT)
OF_HF = tuple(each[None] for each in WEIGHTS)
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
    "outputs.attentions": (OF_HF, WEIGHTS),
    "all outputs": ({"logits": 0, "attentions": OF_HF}, WEIGHTS),
    "with a gradient": (WEIGHTS.clone().requires_grad_(), WEIGHTS),
    "sparse": (WEIGHTS.to_sparse(), WEIGHTS),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_weights_comes_to_the_same_numbers(form: str) -> None:
    weights, expected = FORMS[form]

    made = from_weights(weights, WORDS)

    torch.testing.assert_close(made.weights.float(), expected)
    assert made.tokens.labels == tuple(WORDS)
    assert made.weights_alone


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_dtype_keeps_its_numbers_and_is_named(dtype: str) -> None:
    weights = WEIGHTS.to(getattr(torch, dtype))

    made = from_weights(weights, WORDS)

    assert torch.equal(made.weights.double(), weights.double())
    assert made.view().settings == (
        f"attention of given weights · 4 tokens (given) · 2 layers × 3 heads · {dtype}"
    )
    assert made.provenance.dtype == ("float64" if dtype == "float64" else "float32")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_every_float_of_numpy_will_do(dtype: Any) -> None:
    made = from_weights(np.eye(4, dtype=dtype), WORDS)

    assert torch.equal(made.weights[0, 0].double(), torch.eye(4, dtype=torch.float64))


def test_what_is_changed_afterwards_changes_no_trace() -> None:
    weights = WEIGHTS.clone()
    array = WEIGHTS.numpy().copy()
    made = (from_weights(weights, WORDS), from_weights(array, WORDS))

    weights.zero_()
    array[:] = 0

    assert all(torch.equal(each.weights, WEIGHTS) for each in made)


def test_of_a_batch_one_item_is_taken_and_named() -> None:
    batch = torch.stack([WEIGHTS, WEIGHTS.flip(-1)], dim=1)

    made = from_weights(tuple(batch), [WORDS, [*reversed(WORDS)]], item=2)

    assert torch.equal(made.weights, WEIGHTS.flip(-1))
    assert made.tokens.labels == tuple(reversed(WORDS))
    assert "item 2 of 2" in made.view().settings


def test_of_a_layer_alone_one_item_is_taken_where_one_is_asked_for() -> None:
    made = from_weights(WEIGHTS, WORDS, item=2)

    assert torch.equal(made.weights, WEIGHTS[1:2])


def test_cross_attention_has_keys_of_its_own() -> None:
    made = from_weights(random_weights(2, 3), ["a", "b"], keys=["b", "c", "d"], name="T5")

    assert made.view().settings.startswith("cross-attention of T5 · ")
    assert made.keys.labels == ("b", "c", "d")
    assert made.tokens.ids == (0, 1)
    assert made.keys.ids == (1, 2, 3)  # a word has one number on both sides


def test_the_last_step_of_a_cache_reads_all_tokens_from_the_last() -> None:
    made = from_weights(random_weights(3, 1, 4), WORDS)

    assert made.tokens.labels == ("tired",)
    assert made.keys.labels == tuple(WORDS)


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
    found = parse_tokens(["[CLS]", "tire", "##d", "[SEP]"], 4, None, None)
    ends = parse_tokens(["anim", "al</w>", "is</w>"], 3, None, None)

    assert found.special == {0, 3}
    assert found.spaced == (True, True, False, True)
    assert found.text == "tired"
    assert ends.spaced == (True, False, True)


@pytest.mark.parametrize("words", [["[CLS]", "tired", "[SEP]"], ["<s>", " tired", "</s>"]])
def test_whole_words_tell_which_a_tokenizer_added_as_well(words: list[str]) -> None:
    assert parse_tokens(words, 3, None, None).special == {0, 2}


@settings(max_examples=40)
@given(st.lists(st.text(max_size=4), min_size=1, max_size=6))
def test_any_words_make_labels_that_can_be_printed(words: list[str]) -> None:
    found = parse_tokens(words, len(words), None, None)

    assert len(found) == len(words)
    assert all(label and label.isprintable() for label in found.labels)
    assert detect_word_marking(words) is None or found.text is not None


def test_ids_are_read_by_tiktoken_too() -> None:
    class Encoding:
        def decode_single_token_bytes(self, number: int) -> bytes:
            return [b"I", b" am"][number]

    made = from_weights(torch.eye(2), torch.tensor([0, 1]), tokenizer=Encoding())

    assert made.tokens.labels == ("I", "am")
    assert made.tokens.text == "I am"


def refused(*arguments: Any, **named: Any) -> tuple[str, str]:
    with pytest.raises(AttnvizError) as error:
        from_weights(*arguments, **named)
    return str(error.value), error.value.hint


EAGER = 'load the model with attn_implementation="eager"'
ODD: dict[str, tuple[Any, Any, str, str]] = {
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
    "two kinds": ({"encoder_attentions": OF_HF, "cross_attentions": OF_HF}, WORDS,
                  "hold encoder_attentions and cross_attentions", "or keys"),
    "a dict of layers": ({"layer 0": WEIGHTS[0]}, WORDS, "are a dict", "[*weights.values()]"),
    "what torch hands back": ((torch.ones(1, 4, 8), WEIGHTS[0]), WORDS,
                              "of layer 1 are 4 × 4", "give the second"),
    "what torch hands back without": (None, WORDS, "returned none", "need_weights=True"),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD)
def test_what_cannot_be_is_refused_in_two_lines(case: str) -> None:
    weights, tokens, problem, hint = ODD[case]

    told = refused(weights, tokens)

    assert problem in told[0]
    assert hint in told[1]
    assert "\n" not in "".join(told)


def test_other_mistakes_are_refused_in_two_lines() -> None:
    batch = WEIGHTS[:, None]
    assert "item is 3, but the batch has 1" in refused(batch, WORDS, item=3)[0]
    assert "item is 3, but the batch has 2" in refused(WEIGHTS, WORDS, item=3)[0]
    assert "tokenizer is of type str" in refused(WEIGHTS, [1, 2, 3, 4], tokenizer="gpt2")[0]
    assert "given as keys" in refused(WEIGHTS, WORDS, keys=["a"])[0]
    assert "leave 'item' out" in refused(batch, WORDS, item=3)[1]
    exchanged = refused(random_weights(2, 4), WORDS, keys=["a", "b"])
    assert "2 × 4: 2 tokens read 4" in exchanged[0]
    assert "the other way round" in exchanged[0]


def test_layers_that_have_no_weights_are_left_out_and_said() -> None:
    with pytest.warns(Note, match="layer 0 has no weights: left out"):
        made = from_weights((None, WEIGHTS[0], WEIGHTS[1]), WORDS)

    assert [layer.name for layer in made.layers] == ["L1", "L2"]


def test_a_layer_of_one_head_that_has_no_weights_is_said_too() -> None:
    with pytest.warns(Note, match="layer 0 has no weights: left out"):
        made = from_weights((None, WEIGHTS[0, 0]), WORDS)

    assert [layer.name for layer in made.layers] == ["L1"]


@pytest.mark.parametrize("averaged", [True, False])
def test_of_torchs_own_attention_one_item_is_taken(averaged: bool) -> None:
    read = torch.randn(3, 4, 8)
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    _, weights = attention(read, read, read, average_attn_weights=averaged)

    made = from_weights(weights, WORDS, item=2)

    assert torch.equal(made.weights[0].squeeze(0), weights[1].detach())
    assert made.items == 3


def told_of(weights: Tensor) -> tuple[str, ...]:
    return from_weights(weights, [f"w{each}" for each in range(len(weights))]).view().closing


def test_a_triangle_of_zeros_counts_as_hidden_and_that_is_said() -> None:
    made = from_weights(random_weights(LAYERS, HEADS, 4, 4, causal=True), WORDS)

    assert torch.equal(made.layers[0].visible, torch.ones(4, 4).tril().bool())
    assert "causal" in made.view().settings
    assert any("treated as causal" in each for each in made.view().closing)


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
    made = from_weights(weights, [f"w{each}" for each in range(len(weights))])

    assert bool(made.layers[0].visible.all())
    assert not any("hidden" in each for each in made.view().closing)


def test_what_rows_sum_to_is_said_where_it_is_not_1() -> None:
    half = torch.tensor([[0.5, 0.5], [0.3, 0.4]])

    assert told_of(half) == ("1 of 2 rows does not sum to 1: the sum is .70",)
    assert told_of(half / 2) == ("none of 2 rows sums to 1: sums from .35 to .50",)
    assert told_of(torch.tensor([[0.25]])) == ("its only row does not sum to 1: the sum is .25",)
    assert told_of(torch.tensor([[0.5, 0.5], [0.4, 0.6]])) == ()
    third = torch.tensor([[0.5, 0.5, 0], [0.2, 0, 0.2], [0, 0.4, 0.2]])
    assert told_of(third) == ("2 of 3 rows do not sum to 1: sums from .40 to .60",)


def test_verify_tells_rows_that_are_no_shares() -> None:
    whole, half = (from_weights(each, ["a", "b"]) for each in (torch.eye(2), torch.eye(2) / 2))

    assert [each.passed for each in verify_trace(whole)] == [True]
    assert [each.text for each in verify_trace(half)] == [
        "✗ L0: rows sum to 1: largest difference 5.0e-01"
    ]


@pytest.fixture(scope="module")
def made() -> Trace:
    return from_weights(random_weights(LAYERS, HEADS, 4, 4, causal=True), WORDS, name="mine")


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@pytest.mark.parametrize("keys", [None, ["a", "b", "c", "d", "e"]])
def test_it_comes_back_from_a_file(tmp_path: Path, suffix: str, keys: list[str] | None) -> None:
    weights = random_weights(LAYERS, HEADS, 4, 5 if keys else 4, causal=not keys)
    before = from_weights(weights.bfloat16(), WORDS, keys=keys, name="mine")
    before.save(tmp_path / f"weights{suffix}")

    after = load_trace(str(tmp_path / f"weights{suffix}"))

    assert torch.equal(after.weights, before.weights)
    assert after.external_origin is not None
    assert (after.external_origin.name, after.external_origin.stored_as) == ("mine", "bfloat16")
    for suffix in (".txt", ".json", ".csv"):
        assert after.view().render(suffix) == before.view().render(suffix)


def test_a_file_of_it_is_shown_by_the_commands(
    made: Trace, tmp_path: Path, attnviz: Attnviz
) -> None:
    path = str(tmp_path / "weights.npz")
    made.save(path)

    assert "weights of mine" in attnviz("run", "--trace", path).out
    assert "L1H2" in attnviz("inspect", "--trace", path, "--layer", "1", "--head", "2").out
    for command in (["steps"], ["compare", "--by", "mask"]):
        found = attnviz(command[0], "--trace", path, *command[1:])
        assert found.status == 2
        assert "only weights are given" in found.err


@pytest.mark.parametrize(
    "suffix", [".svg", ".png", ".txt", ".md", ".csv", ".json", ".npz", ".html"]
)
def test_every_format_shows_it(made: Trace, suffix: str) -> None:
    assert made.view().render(suffix)


def test_a_file_holds_nothing_that_is_not_known(made: Trace) -> None:
    document = made.to_dict()

    assert "embeddings" not in document
    assert set(document["layers"][0]) == {
        "layer", "scale", "heads", "head_dim", "visible", "weights",
    }  # fmt: skip


WANTING: dict[str, Callable[[Trace], object]] = {
    "steps": lambda made: steps(made),
    "compare": lambda made: compare(made, by="mask"),
    "norm": lambda made: inspect(made, weigh="norm").view(),
    "gradient": lambda made: inspect(made, weigh="gradient").view(),
    "effect": lambda made: inspect(made, by="effect").view(),
    "predict": lambda made: made.view(predict=True),
    "scores": lambda made: made.view(show=["scores", "values"]),
    "embeddings": lambda made: made.view(show=["embeddings"]),
}


@pytest.mark.parametrize("what", WANTING)
def test_what_needs_more_than_weights_is_refused(made: Trace, what: str) -> None:
    with pytest.raises(AttnvizError, match="only weights are given"):
        WANTING[what](made)


def test_no_scores_are_shown_beside_weights_alone(made: Trace) -> None:
    heads = made.view().heads

    assert heads is not None
    assert all(each.scores is None for each in heads.heads)


def test_what_can_be_asked_of_heads_can_be_asked_of_these(made: Trace) -> None:
    linked = inspect(made, source="tired", to="animal").view()
    rolled = inspect(made, merge="rollout").view()
    words = inspect(made, query="tired", hide_first=True).view()

    link = made.weights[:, :, 3, 1] - made.weights[:, :, [0, 2], 1].mean(-1)  # of 4 tokens
    largest = int(link.flatten().argmax())
    assert linked.headline.startswith(f"In L{largest // HEADS}H{largest % HEADS}, ")
    assert rolled.headline == 'In the rollout, each token draws at least 33\u00a0% on "The"'
    assert words.headline.startswith('In the mean of 6 heads, "tired" attends most to ')


def test_weights_of_one_text_from_two_models_are_compared_head_by_head(made: Trace) -> None:
    other = from_weights(made.weights.flip(1), WORDS, name="other")

    found = compare_sentences(made, other)

    first, last = found.heads[0], found.heads[-1]
    assert found.view().title == "one sentence, in mine and other"
    assert "weights of mine and weights of other · 2 layers" in found.view().settings
    assert re.search(
        r"\d\u00a0% of its attention in mine, .*\d\u00a0% in other", found.view().closing[0]
    )
    assert found.link(first).before == made.weights[tuple(place(first, made))].item()
    assert {each.name for each in found.heads if not each.divergence} == {"L0H1", "L1H1"}
    assert not last.divergence


def place(read: HeadComparison, made: Trace) -> list[int]:
    """Where in all weights the largest change of a head is."""
    layer, head = map(int, read.name.removeprefix("L").split("H"))
    return [layer, head, read.largest.query, read.largest.key]


def test_words_of_two_texts_are_paired_by_what_they_are() -> None:
    one = from_weights(random_weights(4, 4), ["so", "the", "animal", "slept"])
    other = from_weights(random_weights(3, 3), ["the", "animal", "slept"])

    found = compare_sentences(one, other)

    assert found.rows.first == (1, 2, 3)
    assert found.rows.second == (0, 1, 2)


def test_weights_without_names_are_the_first_and_the_second(made: Trace) -> None:
    one, other = (from_weights(each, WORDS) for each in (WEIGHTS, WEIGHTS.flip(1)))
    longer = from_weights(random_weights(LAYERS, HEADS, 5, 5), [*WORDS, "!"])

    assert (
        "of its attention in the first weights, " in compare_sentences(one, other).view().closing[0]
    )
    assert (
        "of its attention in the first sentence, "
        in compare_sentences(one, longer).view().closing[0]
    )
    with pytest.raises(AttnvizError, match="heads: 6 in the first weights, up to L1H2, and 1 in "):
        compare_sentences(one, from_weights(torch.eye(4), WORDS))


Load = Callable[..., tuple[Any, Any]]


@pytest.fixture(scope="module")
def load(request: pytest.FixtureRequest) -> Load:
    """A small model and its tokenizer, with weights or without."""
    folder = request.getfixturevalue("small_transformer")

    def loaded(name: str, eager: bool = True) -> tuple[Any, Any]:
        import transformers

        kind = "AutoModelForSeq2SeqLM" if name in ("t5", "bart") else "AutoModelForCausalLM"
        kind = "AutoModelForMaskedLM" if name == "bert" else kind
        with quiet_transformers():
            model = getattr(transformers, kind).from_pretrained(
                folder(name), attn_implementation="eager" if eager else "sdpa"
            )
            return model.eval(), transformers.AutoTokenizer.from_pretrained(folder(name))

    return loaded


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_weights_of_transformers_are_those_that_attnviz_hears(
    name: str, load: Load, small_transformer: Callable[[str], Path]
) -> None:
    from attnviz import trace

    model, tokenizer = load(name)
    inputs = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs, output_attentions=True)
    heard = trace(TEXT, model=str(small_transformer(name)))

    by_ids = from_weights(outputs, inputs, tokenizer=tokenizer)
    by_pieces = from_weights(
        outputs.attentions, tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    )

    torch.testing.assert_close(by_ids.weights, heard.weights)
    assert _plain(by_ids) == _plain(heard) == _plain(by_pieces)
    assert by_ids.tokens.special == by_pieces.tokens.special == heard.tokens.special
    assert by_ids.variant.causal == heard.variant.causal


def _plain(made: Trace) -> list[str]:
    """Labels as a vocabulary without capitals has them."""
    return [label.lower() for label in made.tokens.labels]


def test_a_model_without_eager_attention_is_told_how_to_have_weights(load: Load) -> None:
    model, tokenizer = load("gpt2", eager=False)
    with quiet_transformers(), torch.no_grad():
        outputs = model(**tokenizer(TEXT, return_tensors="pt"), output_attentions=True)

    for each in (outputs, outputs.attentions):
        problem, hint = refused(each, ["a"])
        assert problem == "there are no weights: the model returned none"
        assert 'attn_implementation="eager"' in hint


WAYS_TO_WRITE: dict[str, dict[str, Any]] = {
    "with a cache": {},
    "without a cache": {"use_cache": False},
    "with room for more": {"cache_implementation": "static"},
    "by beams": {"num_beams": 3, "num_return_sequences": 2},
}


@pytest.mark.parametrize("way", WAYS_TO_WRITE)
def test_what_generate_hands_back_is_one_table_with_the_prompt_known(way: str, load: Load) -> None:
    model, tokenizer = load("llama")
    inputs = tokenizer("it was too tired", return_tensors="pt")
    with quiet_transformers(), torch.no_grad():
        outputs = model.generate(
            **inputs, max_new_tokens=4, min_new_tokens=4, do_sample=False, pad_token_id=0,
            output_attentions=True, return_dict_in_generate=True, **WAYS_TO_WRITE[way],
        )  # fmt: skip
        ids = outputs.sequences[-1:]
        whole = model(ids[:, :-1], output_attentions=True).attentions

    with pytest.warns(Note, match="the last token was written and never read: left out"):
        made = from_weights(
            outputs, ids[0], tokenizer=tokenizer, item=2 if way == "by beams" else None
        )

    torch.testing.assert_close(made.weights, torch.cat([*whole]))
    assert made.prompt == inputs["input_ids"].shape[1]
    assert len(made.tokens) == inputs["input_ids"].shape[1] + 3
    assert made.variant.causal
    assert "3 of them generated" in made.view().settings


@given(st.data())
def test_any_way_to_write_step_by_step_is_one_table(data: st.DataObject) -> None:
    """Each step has some new rows: alone, with all before them, or with room behind them."""
    first, *others = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    ends = np.cumsum([first, *others]).tolist()
    whole, done, parts = random_weights(2, 3, ends[-1], ends[-1], causal=True), 0, []
    for end in ends:
        start = 0 if data.draw(st.booleans()) else done
        room = 0 if start < done else data.draw(st.integers(0, 2))
        parts.append(
            [torch.nn.functional.pad(layer[None, :, start:end, :end], (0, room)) for layer in whole]
        )
        done = end

    made = from_weights(parts)

    assert torch.equal(made.weights, whole)
    assert made.prompt == (first if others else None)


def test_a_window_that_moves_on_stands_at_its_right_place() -> None:
    parts = [[random_weights(1, 1, 3, 3)], [random_weights(1, 1, 1, 2)]]

    made = from_weights(parts)

    assert made.weights[0, 0, 3].tolist() == [0, 0, *parts[1][0][0, 0, 0].tolist()]


def test_beams_alone_are_refused_and_say_why(load: Load) -> None:
    parts = tuple((random_weights(3, 2, queries, keys),) for queries, keys in ((2, 2), (1, 3)))

    assert "which say how beams are reordered" in refused(parts, WORDS)[1]


def test_beams_of_a_decoder_beside_an_encoder_are_given_as_the_hint_says(load: Load) -> None:
    model, tokenizer = load("bart")
    inputs = tokenizer("the animal was tired", return_tensors="pt")
    with quiet_transformers(), torch.no_grad():
        outputs = model.generate(
            **inputs, max_new_tokens=5, min_new_tokens=5, num_beams=3, num_return_sequences=2,
            output_attentions=True, return_dict_in_generate=True,
        )  # fmt: skip
        ids = outputs.sequences[1:]
        whole = model(**inputs, decoder_input_ids=ids[:, :-1], output_attentions=True)

    hint = refused(outputs, ids[0], tokenizer=tokenizer)[1]
    given = re.search(r"with its beams: (\{.*\})", hint)
    assert given is not None
    with pytest.warns(Note, match="never read"):
        own = from_weights(eval(given[1]), ids[0], tokenizer=tokenizer, item=2)
    torch.testing.assert_close(own.weights, torch.cat([*whole.decoder_attentions]))


def test_cross_attention_of_generate_is_stitched_too(load: Load) -> None:
    model, tokenizer = load("t5")
    inputs = tokenizer("the animal was tired", return_tensors="pt")
    with quiet_transformers(), torch.no_grad():
        outputs = model.generate(
            **inputs, max_new_tokens=3, min_new_tokens=3, do_sample=False,
            output_attentions=True, return_dict_in_generate=True,
        )  # fmt: skip
        whole = model(**inputs, decoder_input_ids=outputs.sequences[:, :-1], output_attentions=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        crossed = from_weights(
            outputs, outputs.sequences, tokenizer=tokenizer, keys=inputs["input_ids"]
        )
        own = from_weights(outputs.decoder_attentions, outputs.sequences, tokenizer=tokenizer)

    torch.testing.assert_close(crossed.weights, torch.cat([*whole.cross_attentions]))
    torch.testing.assert_close(own.weights, torch.cat([*whole.decoder_attentions]))
    assert own.prompt == 1


def test_steps_that_read_more_than_there_is_are_refused() -> None:
    parts = tuple((torch.ones(1, 1, queries, 5) / 5,) for queries in (2, 1))

    problem, hint = refused(parts, WORDS[:3])

    assert problem == "step 0 reads 5 keys, but there are 2 tokens by then"
    assert hint.startswith("give keys")


def test_what_there_is_no_room_for_is_refused_before_it_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("attnviz.machine.memory.free_bytes", lambda: 1000)

    assert "a copy of 480 weights takes about" in refused(torch.ones(4, 5, 24), None)[0]


def test_layers_of_other_numbers_of_heads_are_no_one_tensor() -> None:
    made = from_weights([WEIGHTS[0], WEIGHTS[1, :2]], WORDS)

    assert "2 layers × 2 or 3 heads" in made.view().settings
    assert repr(made).endswith("2 layers × 2 or 3 heads>")
    with pytest.raises(AttnvizError, match="layers have 2 and 3 heads"):
        _ = made.weights
    for suffix in (".txt", ".svg", ".html"):
        assert made.view().render(suffix)
    assert inspect(made, layer=1, head=1).view().render(".txt")
