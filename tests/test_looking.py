"""Heads as somebody wants to see them: tokens left out, in words, together; held against NumPy."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from attnviz import Trace, trace
from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.inspection import Inspection, inspect
from attnviz.analysis.inspection.token_query import TokenLink, build_link, build_token_query
from attnviz.cells import FULL_SLICE, unmasked_cells
from attnviz.errors import AttnvizError
from attnviz.heads.head import Head
from attnviz.options.values import Merge
from attnviz.tokens.characters import words
from attnviz.tokens.grouping import group_by_word, sentences_of_text, words_of_text
from attnviz.tokens.tokenizers import tokenize
from attnviz.tokens.tokens import Tokens, tokens_of_words
from attnviz.views.inspection.link_sentences import rollout_title
from attnviz.views.inspection.map_numbers import rollout_scale
from tests.small_transformers import Saved

TEXT = "Don't stop now, my friend: we aren't done"
TRACE_SETTINGS: dict[str, Any] = {"tokenizer": "gpt2", "heads": 3, "layers": 2, "dim": 12}


@cache
def small_trace(text: str = TEXT, special: tuple[int, ...] = (), **changes: Any) -> Trace:
    """A trace of two layers; the tokens `special` count as added by the tokenizer."""
    plain_trace = trace(text, **{**TRACE_SETTINGS, **changes})
    tokens = replace(plain_trace.tokens, special=frozenset(special))
    return replace(plain_trace, tokens=tokens, keys=tokens)


def inspect_trace(trace: Trace, **choices: Any) -> Inspection:
    return Inspection(trace=trace, options=InspectOptions(**choices))


def link_of(inspection: Inspection) -> TokenLink:
    return build_link(inspection.maps, inspection.options)


def map_values(head_map: Head) -> np.ndarray:
    return head_map.cells.window(FULL_SLICE, FULL_SLICE).values


def stacked_weights(trace: Trace) -> np.ndarray:
    """The weights of all layers: [layer head query key]."""
    return np.stack([layer.attended.weights.numpy() for layer in trace.layers])


def cut_into_tokens(text: str, cuts: list[int]) -> Tokens:
    """The tokens of a text whose words are cut in two after the bytes that `cuts` gives in turn."""
    pieces, starts_after_space = [], []
    for place, (piece, has_space) in enumerate(
        zip(words(text).pieces, words(text).spaced, strict=True)
    ):
        cut = min(cuts[place % len(cuts)], len(piece))
        parts = [part for part in (piece[:cut], piece[cut:]) if part]
        pieces += parts
        starts_after_space += [has_space or not place, *[False] * (len(parts) - 1)]
    return Tokens(text, tuple(pieces), tuple(range(len(pieces))), tuple(starts_after_space))


@given(
    text=st.text("abc '’.,-é3", min_size=1).filter(lambda text: text.strip()),
    cuts=st.lists(st.integers(0, 4), min_size=1, max_size=5),
)
def test_pieces_are_put_together_to_the_words_of_the_tokenizer_of_words(
    text: str, cuts: list[int]
) -> None:
    text = text.strip()
    tokens = cut_into_tokens(text, [2 * cut for cut in cuts])  # é has two bytes
    groups = group_by_word(tokens)

    assert [place for group in groups for place in group] == list(range(len(tokens)))
    pieces = tuple(b"".join(tokens.pieces[place] for place in group) for group in groups)
    assert pieces == words(text).pieces


def test_what_a_tokenizer_added_is_no_part_of_a_word() -> None:
    tokens = Tokens(
        "ab", (b"[CLS]", b"a", b"b", b"[SEP]"), (1, 2, 3, 4), (True, True, False, False),
        special=frozenset((0, 3)),
    )  # fmt: skip

    assert group_by_word(tokens) == ((0,), (1, 2), (3,))


def test_a_space_that_is_a_token_belongs_to_the_word_behind_it() -> None:
    tokens = Tokens(
        "a b\nc", (b"a", b" ", b"b", b"\n", b"c"), (1, 2, 3, 4, 5), (True, True, True, True, True)
    )

    assert group_by_word(tokens) == ((0,), (1, 2), (3,), (4,))


def test_spaces_behind_the_last_word_are_a_word_that_can_be_seen() -> None:
    tokens = Tokens("a   ", (b"a", b" ", b"  "), (1, 2, 3), (True, True, True))

    assert words_of_text(tokens).groups == ((0,), (1, 2))
    assert words_of_text(tokens).labels == ("a", "␣␣")


def test_signs_of_chinese_are_words_of_their_own() -> None:
    pieces = tuple(each.encode() for each in "我喜欢ab")
    tokens = Tokens("我喜欢ab", pieces, (1, 2, 3, 4, 5), (True, False, False, False, False))

    assert group_by_word(tokens) == ((0,), (1,), (2,), (3, 4))


def test_a_word_gets_the_sum_of_what_is_read_of_it_and_reads_in_the_mean() -> None:
    trace = small_trace()
    groups = group_by_word(trace.tokens)
    maps = inspect_trace(trace, words=True).maps
    head_weights = stacked_weights(trace).reshape(6, len(trace.tokens), -1)

    weights_on_words = np.stack([head_weights[:, :, list(group)].sum(-1) for group in groups], -1)
    expected = np.stack([weights_on_words[:, list(group)].mean(1) for group in groups], 1)

    assert len(groups) < len(trace.tokens)
    assert_allclose(np.stack([map_values(each) for each in maps]), expected, atol=1e-6)
    assert_allclose(expected.sum(-1), 1, atol=1e-5)
    assert maps[0].rows.labels[0] == "Don't"


def test_what_is_left_is_divided_into_the_softmax_of_what_is_left() -> None:
    trace = small_trace(special=(0, 5))
    remaining = [place for place in range(len(trace.tokens)) if place not in (0, 5)]
    maps = inspect_trace(trace, hide_special=True, renormalise=True).maps

    scores = np.stack([layer.attended.logits.numpy() for layer in trace.layers])
    exponents = np.exp(scores[..., remaining, :][..., remaining]).reshape(
        6, len(remaining), len(remaining)
    )

    assert_allclose(
        np.stack([map_values(each) for each in maps]),
        exponents / exponents.sum(-1, keepdims=True),
        atol=1e-6,
    )
    assert maps[0].columns.numbers == tuple(place + 1 for place in remaining)


def test_what_is_left_stays_as_it_was_where_nobody_asks_for_more() -> None:
    trace = small_trace()
    maps = inspect_trace(trace, hide_first=True).maps

    assert_allclose(map_values(maps[4]), stacked_weights(trace)[1, 1, 1:, 1:])


def test_words_of_what_is_left_sum_to_one_still() -> None:
    trace = small_trace(special=(0,))

    maps = inspect_trace(trace, hide_special=True, renormalise=True, words=True).maps

    assert_allclose([map_values(each).sum(-1) for each in maps], 1, atol=1e-6)


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({"merge": "mean"}, lambda w: w.mean((0, 1))),
        ({"merge": "max"}, lambda w: w.max((0, 1))),
        ({"merge": "mean", "layer": 1}, lambda w: w[1].mean(0)),
        ({"merge": "max", "head": 2}, lambda w: w[:, 2].max(0)),
        ({"merge": "mean", "layer": 0, "head": 1}, lambda w: w[0, 1]),
    ],
)
def test_heads_are_one_map_together(choices: dict[str, Any], expected: Any) -> None:
    trace = small_trace()
    (merged_map,) = inspect_trace(trace, **choices).maps

    assert_allclose(map_values(merged_map), expected(stacked_weights(trace)), atol=1e-6)


@pytest.mark.parametrize("variant", ["scaled", "causal"])
def test_rollout_is_that_of_abnar_and_zuidema(variant: str) -> None:
    trace = small_trace(variant=variant)
    (rollout,) = inspect_trace(trace, merge="rollout").maps

    expected = np.eye(len(trace.tokens))
    for layer in stacked_weights(trace).astype(float):
        with_residual = layer.mean(0) + np.eye(len(expected))
        expected = (with_residual / with_residual.sum(-1, keepdims=True)) @ expected

    assert_allclose(map_values(rollout), expected, atol=1e-6)
    assert_allclose(map_values(rollout).sum(-1), 1, atol=1e-6)
    hidden = rollout.cells.window(FULL_SLICE, FULL_SLICE).hidden
    assert hidden.sum() == (0 if variant == "scaled" else np.triu(np.ones_like(expected), 1).sum())


def test_where_sinks_take_a_share_a_rollout_divides_its_rows_and_says_so(
    small_transformer: Saved,
) -> None:
    """By what its caption says: a product of ½ mean + ½ identity, each row divided by its sum."""
    inspection = inspect("the cat sat", model=str(small_transformer("gpt-oss")), merge="rollout")
    expected = np.eye(len(inspection.trace.tokens))
    for layer in inspection.trace.weights.double().numpy():
        with_residual = layer.mean(0) / 2 + np.eye(len(expected)) / 2
        assert with_residual.sum(-1).min() < 0.99
        expected = np.diag(1 / with_residual.sum(-1)) @ with_residual @ expected

    assert_allclose(map_values(inspection.maps[0]), expected, atol=1e-6)
    formula = "of ½ mean of heads + ½ residual connection, each row divided by its sum"
    assert formula in inspection.view().picture.caption
    row_view = inspect(inspection.trace, merge="rollout", query="2").view()
    assert formula in row_view.picture.caption
    assert "divided" not in inspect_trace(small_trace(), merge="rollout").view().picture.caption


def test_colours_of_a_rollout_fit_what_does_not_come_from_a_sink_and_its_title_names_that() -> None:
    trace = small_trace("on we go now", special=(0,), tokenizer="words")
    (rollout,) = inspect_trace(trace, merge="rollout").maps
    sink_weights = np.array([[0.909, 0.031, 0.03, 0.03]] * 4)
    sink_map, even_map = (
        replace(rollout, table=unmasked_cells(each))
        for each in (sink_weights, sink_weights * 0 + 0.24)
    )

    scale = rollout_scale(sink_map, InspectOptions(merge="rollout"))
    assert (scale.low, scale.high, scale.is_exceeded) == (0.0, 0.04, True)
    assert rollout_title(sink_map) == "In the rollout, each token draws at least 90\u00a0% on on"
    assert rollout_title(even_map) == "Rollout through 2 layers"


def test_tokens_are_left_out_of_a_rollout_when_it_is_made() -> None:
    trace = small_trace(special=(0,))
    (full_map,) = inspect_trace(trace, merge="rollout").maps
    (map_without_special,) = inspect_trace(trace, merge="rollout", hide_special=True).maps

    assert_allclose(map_values(map_without_special), map_values(full_map)[1:, 1:])


@given(st.data())
def test_windows_of_a_map_are_parts_of_the_whole(data: st.DataObject) -> None:
    trace = small_trace(special=(0,))
    choices: dict[str, Any] = data.draw(
        st.sampled_from([
            {"words": True, "hide_special": True},
            {"merge": "mean", "words": True},
            {"merge": "rollout"},
            {"hide_first": True, "renormalise": True},
        ])
    )  # fmt: skip
    head_map = inspect_trace(trace, **choices).maps[0]
    top, left = (data.draw(st.integers(0, size - 1)) for size in head_map.cells.shape)
    rows, columns = slice(top, top + 2), slice(left, left + 3)

    patch = head_map.cells.window(rows, columns)

    assert_allclose(patch.values, map_values(head_map)[rows, columns])
    assert head_map.cells.row(top).values.shape == (1, head_map.cells.shape[1])


STORY = 'Mr. J. Cobb left. "Why?" It costs 3.14 dollars…\n\nChapter two\nbegins. 我来了。他走了！'
SENTENCES = [
    "Mr. J. Cobb left.",
    '"Why?"',
    "It costs 3.14 dollars…",
    "Chapter two begins.",
    "我来了。",
    "他走了！",
]


@pytest.mark.parametrize("tokenizer", ["words", "gpt2", "chars"])
def test_sentences_end_at_marks_and_empty_lines_but_not_after_initials_and_titles(
    tokenizer: str,
) -> None:
    tokens = tokenize(STORY, tokenizer)
    sentences = sentences_of_text(tokens)

    assert [label for label in sentences.labels if label.strip("↵␣")] == SENTENCES
    assert [*chain.from_iterable(sentences.groups)] == [*range(len(tokens))]
    assert sentences.numbers == tuple(range(1, len(sentences.groups) + 1))


def test_what_a_tokenizer_added_is_no_part_of_a_sentence_and_long_ones_are_shortened() -> None:
    text = "[CLS] the unbelievably tired old cat sat there . It ran . [SEP]"
    plain = tokens_of_words(text.split())
    sentences = sentences_of_text(replace(plain, special=frozenset((0, len(plain) - 1))))

    assert sentences.labels == ("[CLS]", "the unbelievably tired…", "It ran .", "[SEP]")


def test_weights_on_a_sentence_are_added_and_those_of_its_tokens_averaged() -> None:
    trace = small_trace("We go. You don't stop. Why?")
    groups = sentences_of_text(trace.tokens).groups
    maps = inspect_trace(trace, by_sentence=True).maps
    expected = np.stack([stacked_weights(trace)[..., list(group)].sum(-1) for group in groups], -1)
    expected = np.stack([expected[:, :, list(group)].mean(-2) for group in groups], -2)

    assert len(groups) == 3
    assert_allclose(np.stack([map_values(each) for each in maps]), expected.reshape(6, 3, 3), 1e-6)
    caption = inspect_trace(trace, by_sentence=True, layer=0).view().screen.groups[0].panels[0]
    assert "long ones get more" in caption.note  # type: ignore[union-attr]


def test_the_title_of_a_head_in_which_nothing_stands_out_names_what_its_rows_are() -> None:
    view = inspect("The cat sat. It ran.", layer=0, head=11, by_sentence=True).view()
    assert view.headline == "What sentences attend to in L0H11"


@given(st.data())
def test_a_part_of_a_map_is_cut_from_it_by_the_numbers_of_its_rows_and_columns(
    data: st.DataObject,
) -> None:
    trace = small_trace(special=(0,))
    choices: dict[str, Any] = data.draw(
        st.sampled_from([
            {"words": True},
            {"merge": "mean"},
            {"merge": "rollout"},
            {"weigh": "norm"},
            {"hide_first": True, "renormalise": True},
        ])
    )  # fmt: skip
    whole = inspect_trace(trace, **choices).maps[0]
    numbers = [data.draw(st.lists(st.sampled_from(side.numbers), min_size=2, max_size=2))
               for side in (whole.rows, whole.columns)]  # fmt: skip
    (top, bottom), (left, right) = map(sorted, numbers)
    part = inspect_trace(trace, **choices, part=f"{top}:{bottom},{left}:{right}").maps[0]
    first_row, first_column = whole.rows.numbers.index(top), whole.columns.numbers.index(left)

    assert part.rows.numbers == tuple(range(top, bottom + 1))
    assert part.columns.labels == whole.columns.labels[first_column:][: right - left + 1]
    assert_allclose(
        map_values(part),
        map_values(whole)[first_row:, first_column:][: bottom - top + 1, : right - left + 1],
    )


def test_small_maps_of_a_part_say_that_heads_are_described_by_the_whole_text() -> None:
    view = inspect_trace(small_trace(), part="2:3,1:4").view()
    weights = "he maps show the weights of tokens 2–3 on tokens 1–4"

    assert f"t{weights}; what heads do is said of the whole text" in view.picture.caption
    assert f"T{weights}; what heads do is said of the whole text." in view.closing


def test_without_keys_a_part_has_all_that_its_queries_can_attend_to() -> None:
    trace = small_trace(variant="causal", special=())
    assert inspect_trace(trace, part="3:4").maps[0].columns.numbers == (1, 2, 3, 4)
    assert inspect_trace(small_trace(), part="3:4").maps[0].columns.numbers == (
        *range(1, len(trace.tokens) + 1),
    )


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"part": "x"}, "'x' names no part of a text"),
        ({"part": "1:99"}, 'part="1:99" reaches beyond the text, which has 12 tokens'),
        (
            {"part": "1:99", "words": True},
            "beyond the text, which has 10 words",
        ),
        ({"part": "1", "hide_first": True}, "only tokens that are left out (hide_first=True)"),
        ({"part": "1:2", "query": "stop"}, "shows a part of a map, and 'query' one row of it"),
        (
            {"part": "1:2", "source": "it", "to": "it"},
            "a part of a map, and 'source' one row of it",
        ),
        ({"words": True, "by_sentence": True}, "words=True and by_sentence=True are both given"),
    ],
)
def test_parts_and_groups_that_are_not_there_are_refused(
    choices: dict[str, Any], message: str
) -> None:
    with pytest.raises(AttnvizError, match=re.escape(message)):
        inspect_trace(small_trace(), **choices).view()


def test_heads_are_ranked_by_one_weight() -> None:
    trace = small_trace(variant="causal")
    link = link_of(inspect_trace(trace, source="done", to="now", rank="weight"))
    row, column = len(trace.tokens) - 1, 3
    link_weights = stacked_weights(trace)[:, :, row, column].ravel()

    assert trace.tokens.labels[column] == "now"
    assert [each.weight for each in link.ranked_links] == sorted(
        link_weights.tolist(), reverse=True
    )
    assert (
        link.ranked_links[0].map.name
        == f"L{link_weights.argmax() // 3}H{link_weights.argmax() % 3}"
    )
    assert link.mean == pytest.approx(link_weights.mean())
    best = stacked_weights(trace)[link_weights.argmax() // 3, link_weights.argmax() % 3, row]
    assert link.ranked_links[0].rank == 1 + (best > link_weights.max()).sum()


def test_heads_are_ranked_by_what_they_put_on_one_token() -> None:
    trace = small_trace()
    inspection = inspect_trace(trace, query="done")
    token_query = build_token_query(inspection.maps, inspection.options, "done")
    peaks = stacked_weights(trace)[:, :, -1].max(-1).ravel()

    assert [each.peak for each in token_query.by_peak] == sorted(peaks.tolist(), reverse=True)
    assert_allclose(
        token_query.mean.patch.values[0], stacked_weights(trace)[:, :, -1].mean((0, 1)), atol=1e-6
    )


@pytest.mark.parametrize(("variant", "visible_keys"), [("causal", 4), ("scaled", 12)])
def test_an_even_weight_is_shared_by_the_keys_that_the_query_sees(
    variant: str, visible_keys: int
) -> None:
    """The fourth of twelve tokens sees itself and those before it, or all."""
    link = link_of(inspect_trace(small_trace(variant=variant), source="now", to="stop"))

    assert link.even_weight == pytest.approx(1 / visible_keys)


def test_what_a_mask_hides_in_every_head_is_refused_with_the_other_way_round() -> None:
    inspection = inspect_trace(small_trace(variant="causal"), source="now", to="done")

    with pytest.raises(AttnvizError, match="cannot attend to 'done'") as error:
        build_link(inspection.maps, inspection.options)

    assert error.value.hint == "try the other direction: source='done', to='now'"


@pytest.mark.parametrize(
    ("choices", "problem"),
    [
        ({"source": "it"}, "and needs 'to'"),
        ({"to": "it"}, "and needs 'source'"),
        ({"query": "it", "source": "it", "to": "a"}, "'query' shows everything"),
        ({"merge": "rollout", "layer": 0}, "uses all layers and heads"),
        ({"merge": "rollout", "weigh": "gradient"}, "rows that sum to 1"),
        ({"renormalise": True}, "rescales what is left when tokens are hidden"),
        ({"layer": -1}, "counting starts at 0"),
        ({"merge": "sum"}, "no way to merge heads 'sum'"),
        ({"as_": "arc"}, "no way to draw 'arc'"),
        ({"as_": "arcs", "source": "it", "to": "a"}, "'source' ranks heads by one link"),
        ({"as_": "arcs", "predict": True}, "predict=True is a table of answers"),
        ({"as_": "arcs", "weigh": "gradient"}, 'weigh="gradient" makes some numbers negative'),
        ({"as_": "arcs", "by": "effect"}, "but 'as_' is about weights"),
        ({"as_": "sentence"}, "no 'query' is given"),
        ({"as_": "heatmap", "query": "it"}, "'query' draws one sentence"),
    ],
)
def test_what_makes_no_sense_is_refused(choices: dict[str, Any], problem: str) -> None:
    with pytest.raises(AttnvizError, match=problem):
        InspectOptions(**choices)


@pytest.mark.parametrize(
    ("choices", "problem"),
    [
        ({"layer": 2}, "the model has 2 layers, 0 to 1"),
        ({"head": 3}, "the model has 3 heads, 0 to 2"),
        ({"query": "cat"}, "no token of the sentence is 'cat'"),
        ({"query": "Don", "hide_first": True}, r"'Don' is left out \(hide_first=True\)"),
        ({"source": "my", "to": "cat"}, "no token of the sentence is 'cat'"),
        ({"query": "Don", "words": True}, "no token of the sentence is 'Don'"),
        ({"query": "Don't"}, "'Don't' is 2 tokens here: Don 't"),
    ],
)
def test_what_is_not_there_is_refused(choices: dict[str, Any], problem: str) -> None:
    with pytest.raises(AttnvizError, match=problem):
        inspect_trace(small_trace(), **choices).view()


@pytest.mark.parametrize(
    ("token", "hides", "options"),
    [
        ("Don", ("hide_special",), "hide_special=True"),
        ("Don", ("hide_first",), "hide_first=True"),
        ("Don", ("hide_special", "hide_first"), "hide_special=True and hide_first=True"),
        ("stop", ("hide_special", "hide_first"), "hide_special=True"),
    ],
)
def test_a_token_is_left_out_by_the_options_that_are_given(
    token: str, hides: tuple[str, ...], options: str
) -> None:
    for choices in ({"query": token}, {"source": "my", "to": token}):
        with pytest.raises(AttnvizError) as error:
            inspect_trace(
                small_trace(special=(0, 2)), **choices, **dict.fromkeys(hides, True)
            ).view()
        assert str(error.value).splitlines()[0] == f"'{token}' is left out ({options})"
        assert error.value.hint == f"leave {options} out, or ask for another token"


@pytest.mark.parametrize("hides", ["hide_special", "hide_first"])
def test_nothing_is_left_of_a_text_of_added_tokens_alone(hides: str) -> None:
    with pytest.raises(AttnvizError, match="no tokens are left") as error:
        inspect_trace(small_trace("a", special=(0,)), **{hides: True}).view()
    assert error.value.hint == f"give a longer text, or leave {hides}=True out"


def test_the_second_of_tokens_that_read_alike_has_a_number() -> None:
    tokens = words("the cat and the dog and # 2")

    assert tokens.index("the#2", "query") == 3
    assert tokens.index("and#1", "query") == 2
    assert tokens.index("#", "query") == 6
    with pytest.raises(
        AttnvizError, match="'cat' occurs once in the sentence, so it has no number 2"
    ):
        tokens.index("cat#2", "query")


def test_the_library_looks_as_the_command_does() -> None:
    inspection = inspect(small_trace(), layer=1, head=0, words=True)

    assert [each.name for each in inspection.maps] == ["L1H0"]


@pytest.mark.parametrize("merge", ["mean", "max"])
def test_of_several_heads_a_cell_is_hidden_where_it_is_in_all(
    small_transformer: Saved, merge: Merge
) -> None:
    """Layers may see unlike far: one through a window, the next one everything."""
    inspection = inspect("a b " * 12, model=str(small_transformer("gemma2")), merge=merge)
    hidden = [each.cells.window(FULL_SLICE, FULL_SLICE).hidden for each in inspection.head_maps]
    (merged_map,) = inspection.maps

    assert any((each != hidden[0]).any() for each in hidden)
    merged_hidden = merged_map.cells.window(FULL_SLICE, FULL_SLICE).hidden
    assert (merged_hidden == np.logical_and.reduce(hidden)).all()
