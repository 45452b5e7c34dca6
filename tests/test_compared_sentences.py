"""Two sentences read by a trained model: how the attention of each head changes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from attnviz import compare, compare_sentences, from_weights, trace
from attnviz.analysis.inspection import two_sentences as analysis
from attnviz.analysis.inspection.two_sentences import TraceComparison, pair_tokens
from attnviz.errors import AttnvizError
from attnviz.renderers.picture.page_frame import Captions
from attnviz.renderers.picture.panel_rows import panel_orders
from attnviz.renderers.picture.panels import lay_out
from attnviz.renderers.picture.text import SLIDE
from attnviz.tokens.tokens import tokens_of_words
from attnviz.views.grids.grid import Grid
from attnviz.views.inspection.two_sentences import only_different_words
from tests.conftest import Attnviz
from tests.small_transformers import KINDS, Saved, save
from tests.test_compared_models import jensen_shannon

TIRED = "The animal didn't cross the street because it was too tired"
WIDE = "The animal didn't cross the street because it was too wide"
LONGER = "The big animal didn't cross the street because it was tired"


@pytest.fixture(scope="module")
def both() -> TraceComparison:
    return compare_sentences(TIRED, WIDE, model="minilm")


@pytest.fixture(scope="module")
def uneven() -> TraceComparison:
    return compare_sentences(TIRED, LONGER, model="minilm")


def grids_of(comparison: TraceComparison) -> list[Grid]:
    return [each for each in comparison.view().screen.panels if isinstance(each, Grid)]


def paired_words(one: str, other: str) -> list[tuple[str, str]]:
    """The pairs of words of two sentences; a word has the same id in both."""
    letters = sorted({*one.split(), *other.split()})
    tokens, others = (
        tokens_of_words(letters + text.split()) for text in (one, other)
    )  # so that a word has one id in both
    pairs, count = pair_tokens(tokens, others), len(letters)
    return [
        (tokens.labels[a], others.labels[b])
        for a, b in zip(pairs.first, pairs.second, strict=True)
        if a >= count
    ]


def test_words_are_paired_as_they_are_the_same_or_stand_in_their_place() -> None:
    assert paired_words("a b c", "a x c") == [("a", "a"), ("b", "x"), ("c", "c")]
    assert paired_words("a b c", "a c") == [("a", "a"), ("c", "c")]
    assert paired_words("a b c", "a x y c") == [("a", "a"), ("c", "c")]
    assert paired_words("b c d", "a b c d") == [("b", "b"), ("c", "c"), ("d", "d")]


@given(st.lists(st.sampled_from("abc"), min_size=1), st.lists(st.sampled_from("abc"), min_size=1))
def test_pairs_are_in_order_and_none_is_in_two(one: list[str], other: list[str]) -> None:
    tokens = tokens_of_words(["a", "b", "c", *one])
    others = tokens_of_words(["a", "b", "c", *other])
    pairs = pair_tokens(tokens, others)

    for side, count in ((pairs.first, len(tokens)), (pairs.second, len(others))):
        assert [*side] == sorted({*side})
        assert {*side} <= {*range(count)}
    replaced_pairs = {*pairs.replaced}
    for number, (a, b) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        assert (tokens.ids[a] == others.ids[b]) == (number not in replaced_pairs)
    assert pair_tokens(tokens, tokens).first == tuple(range(len(tokens)))


def test_how_far_apart_a_head_is_is_the_mean_divergence_of_its_rows(both: TraceComparison) -> None:
    first, second = (each.layers for each in (both.first, both.second))
    assert len(both.heads) == 72
    for head in both.heads[::7]:
        layer, number = divmod(int(head.name[1]) * 12 + int(head.name.partition("H")[2]), 12)
        one, other = (
            layers[layer].attended.weights[number].double().numpy() for layers in (first, second)
        )
        assert_allclose(head.divergence, jensen_shannon(one, other), atol=1e-7)
        change = abs(other - one)
        assert_allclose(head.largest.size, change.max(), atol=1e-9)
        assert change[head.largest.query, head.largest.key] == change.max()


def test_a_change_stands_beside_what_other_tokens_change(both: TraceComparison) -> None:
    first, second = (
        side_trace.layers[3].attended.weights[1].double()
        for side_trace in (both.first, both.second)
    )
    link = both.link(both.heads[0])
    others = [row for row in range(1, 14) if row not in (link.query, link.key)]  # no [CLS], [SEP]
    expected = float((second - first)[others, link.key].abs().mean())

    assert both.heads[0].name == "L3H1"
    head = json.loads(both.view().render(".json"))["heads"][0]
    assert head["others"] == pytest.approx(expected, abs=1e-7)
    sentence = (
        f'Other tokens change what they give "animal" by {100 * expected:.0f}\u00a0% on average.'
    )
    assert sentence in both.view().closing


def test_what_is_read_of_words_without_a_partner_is_one_number(uneven: TraceComparison) -> None:
    rows = uneven.rows
    assert (len(rows), len(rows.tokens), len(rows.others)) == (14, 15, 15)
    head = uneven.heads[0]
    layer, number = int(head.name[1]), int(head.name.partition("H")[2])
    rows_of_sides = []
    for side_trace, side in ((uneven.first, rows.first), (uneven.second, rows.second)):
        weights = side_trace.layers[layer].attended.weights[number].double().numpy()
        paired_weights = weights[np.ix_(side, side)]
        unpaired_weights = np.delete(weights[list(side)], side, axis=1).sum(axis=1)
        rows_of_sides.append(np.column_stack([paired_weights, unpaired_weights]))

    assert_allclose(head.divergence, jensen_shannon(*rows_of_sides), atol=1e-7)


def test_a_token_before_the_first_difference_is_refused_where_models_read_from_left_to_right(
    small_transformer: Saved,
) -> None:
    model = str(small_transformer("gpt2"))
    one, other = "the dog saw it was red", "the dog saw it was big"

    with pytest.raises(AttnvizError) as error:
        compare_sentences(one, other, model=model, query="it")
    with pytest.raises(AttnvizError) as unseen_error:
        compare_sentences("the dog saw it", "the dog saw it run", model=model)
    comparison = compare_sentences(one, other, model=model)  # the last token sees what differs
    position = len(comparison.first.tokens) - 1

    assert str(error.value) == (
        "the sentences differ only after 'it', and the model reads from left to right: what 'it' "
        "attends to is the same in both"
    )
    advice = "ask for a token that sees the difference, such as the last"
    assert error.value.hint == f"{advice}: query={position}"
    assert unseen_error.value.hint == "give sentences that differ in an earlier word"
    assert compare_sentences(one, other, model=model, query=position).changes
    encoder = str(small_transformer("bert"))
    assert compare_sentences(one, other, model=encoder, query="it").changes


def test_a_change_names_the_positions_that_query_takes(uneven: TraceComparison) -> None:
    """Also where sentences have different lengths, so that pairs are numbered differently."""
    assert any(link.query != link.row for link in map(uneven.link, uneven.heads))
    for head in uneven.heads:
        link = uneven.link(head)
        assert uneven.first[head.name][link.query, link.key] == pytest.approx(link.before)
    head = next(head for head in uneven.heads if uneven.link(head).query != uneven.link(head).row)
    link = uneven.link(head)
    comparison_of_head = compare_sentences(
        uneven.first, uneven.second, head=head.name, query=link.query
    )
    assert (
        comparison_of_head.query,
        comparison_of_head.link(comparison_of_head.heads[0]).query,
    ) == (link.row, link.query)


def test_heads_are_ranked_by_the_change_between_shared_tokens_that_are_not_special(
    both: TraceComparison,
) -> None:
    words = range(1, 13)  # [CLS] is 0, tired and wide are 13, [SEP] is 14
    changes = {}
    for layer, (one, other) in enumerate(zip(both.first.layers, both.second.layers, strict=True)):
        pair = zip(one.attended.weights, other.attended.weights, strict=True)
        for head, (a, b) in enumerate(pair):
            change = abs(b.double() - a.double()).numpy()
            changes[f"L{layer}H{head}"] = change[np.ix_(words, words)].max()

    assert both.shared
    assert [each.name for each in both.heads] == sorted(changes, key=lambda name: -changes[name])
    for each in both.heads:
        assert_allclose(both.link(each).size, changes[each.name], atol=1e-9)


def test_a_few_rows_at_a_time_come_to_the_same(
    both: TraceComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "CELLS_PER_BAND", 40)
    banded_comparison = compare_sentences(both.first, both.second)

    assert [each.name for each in banded_comparison.heads] == [each.name for each in both.heads]
    for one, other in zip(both.heads, banded_comparison.heads, strict=True):
        assert_allclose(one.divergence, other.divergence, atol=1e-12)
        assert (one.largest, one.largest_shared) == (other.largest, other.largest_shared)


SHARES = '"it" gives "animal" 64\u00a0% of its attention with "tired", 27\u00a0% with "wide"'


@pytest.mark.parametrize("query", [None, "it"])
def test_a_shared_token_is_what_two_sentences_are_compared_by(
    both: TraceComparison, query: str | None
) -> None:
    comparison = both if query is None else compare_sentences(both.first, both.second, query=query)
    view = comparison.view()
    scope = "in 72 heads, between" if query is None else 'for "it" in 72 heads, among'

    assert view.headline == f"In L3H1, {SHARES}"
    assert view.closing[0] == f"{view.headline}."
    assert view.closing[1] == (
        f"This is the largest change {scope} tokens that both sentences have, special tokens aside."
    )
    expected = '"tired" and "wide" are compared because they are at the same position.'
    assert view.closing[-1] == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("so tired.", "so very wide.", None),
        ("too tired to go", "too wide to fly", None),
        ("wide and tired", "wide and wide", None),  # the other word is there, too
        ("it was tired.", "it was wide!", ("tired", "wide")),
        ("it was too.", "it was too!", None),
    ],
)
def test_a_sentence_is_called_by_the_only_word_that_differs(
    one: str, other: str, expected: tuple[str, str] | None
) -> None:
    assert only_different_words(one, other) == expected


def test_of_one_token_three_rows_stand_below_each_other_and_name_their_keys_once(
    both: TraceComparison,
) -> None:
    """At 16:9, letters and the numbers of the difference are large enough for a slide."""
    comparison = compare_sentences(both.first, both.second, query="it")
    picture = comparison.view().picture
    layout = lay_out(panel_orders(picture.groups), SLIDE, Captions(comparison.view().headline))
    rows = [each.box for each in layout.panels]

    assert len({box[0] for box in rows}) == len({box[2] for box in rows}) == 1
    assert [each.text for each in layout.words].count("street") == 1
    assert min(each.fitting for each in layout.panels) >= 14
    (maps,) = both.view().picture.groups
    assert [each.title for each in maps.panels if isinstance(each, Grid)] == [
        'L3H1 · with "tired"',
        'L3H1 · with "wide"',
    ]


def test_a_small_screen_has_the_first_heads_alone(both: TraceComparison) -> None:
    view = both.view()
    assert view.excerpt is not None
    (table,) = view.excerpt.panels
    assert isinstance(table, Grid)
    assert len(table.rows) == 5
    assert "--full" in view.excerpt.hint
    assert table.rows.names[0] == "L3H1 it → animal"


def test_the_closing_sentence_on_layers_is_true_of_the_numbers(both: TraceComparison) -> None:
    layers = [
        np.mean([each.divergence for each in both.heads if each.name.startswith(f"L{layer}H")])
        for layer in range(6)
    ]

    assert both.view().closing[3] == (
        f"On average, heads change most in layer {np.argmax(layers)} ({max(layers):.3f} bits) and "
        f"least in layer {np.argmin(layers)} ({min(layers):.3f})."
    )


def test_a_decoder_reads_what_stands_before_the_change_as_ever(tmp_path: Path) -> None:
    model = str(save(KINDS["gpt2"], tmp_path / "gpt2"))
    comparison = compare_sentences("it was too tired", "it was open too", model=model)
    rows = comparison.rows
    token_pairs = zip(rows.tokens.ids, rows.others.ids, strict=False)
    first_change = next(place for place, (one, other) in enumerate(token_pairs) if one != other)

    assert first_change > 1
    assert not compare_sentences("it was to a", "it was to b", model=model).shared
    for head in comparison.heads:
        assert head.largest.query >= first_change


def test_two_models_are_compared_on_one_sentence_by_their_names(tmp_path: Path) -> None:
    """Checkpoints with the same name are told apart by their folders; token ids may differ."""
    one, same_model, other = (
        trace("it was too tired", model=save(KINDS[kind], tmp_path / folder))
        for kind, folder in (("gpt2", "a/last"), ("gpt2", "b/last"), ("bert", "bert"))
    )
    comparison = compare_sentences(one, other)
    view = comparison.view()

    assert view.title == "one sentence, read by last and bert"
    assert re.search(r" gives .* of its attention in last, .*% in bert$", view.headline)
    assert comparison.rows.replaced == ()
    assert comparison.first.tokens.ids == one.tokens.ids  # and not those that they were paired by
    trace_without_head = trace(
        "it was too tired", model=same_model.origin.settings.model, without="L0H0"
    )
    assert compare_sentences(one, trace_without_head).names == ("a/last", "b/last")
    assert (
        compare_sentences(one, trace_without_head).view().title
        == "one sentence, read by a/last and b/last"
    )
    closing = compare_sentences(one, same_model).view().closing
    assert closing == ("No head differs: all 8 heads have the same weights in both.",)


def test_weights_of_two_sentences_keep_their_names() -> None:
    before, after = (
        from_weights(np.eye(3)[rows], ["a", "b", last], name=name)
        for rows, last, name in (([0, 1, 2], "c", "step 0"), ([1, 0, 2], "d", "step 9"))
    )
    view = compare_sentences(before, after).view()

    assert view.title == "two sentences, in step 0 and step 9"
    change = '"a" gives itself 100\u00a0% of its attention in step 0, 0\u00a0% in step 9.'
    assert view.closing[0].endswith(change)


def test_the_same_tokens_are_read_alike() -> None:
    comparison = compare_sentences("The cat sat", "the CAT sat", model="minilm")

    assert not comparison.changes
    assert comparison.view().closing == ("No head attends differently in the second.",)


def test_the_difference_is_that_of_paired_tokens(uneven: TraceComparison) -> None:
    *_, first, second, difference = grids_of(uneven)
    rows = uneven.rows
    expected = (
        second.values[np.ix_(rows.second, rows.second)]
        - (first.values[np.ix_(rows.first, rows.first)])
    )

    assert_allclose(difference.values, expected, atol=1e-7)
    assert difference.rows.labels == difference.columns.labels


def test_one_layer_one_head_and_one_token_can_be_asked_for() -> None:
    comparison = compare_sentences(TIRED, WIDE, model="minilm", layer=3, head=1, query="tired")

    assert [each.name for each in comparison.heads] == ["L3H1"]
    assert comparison.query == 13
    assert {len(each.rows) for each in grids_of(comparison)} == {1}


def test_data_holds_every_head(tmp_path: Path, attnviz: Attnviz) -> None:
    json_file, csv_file = tmp_path / "both.json", tmp_path / "both.csv"
    result = attnviz(
        "compare", TIRED, WIDE, "--model=minilm", "-o", str(json_file), "-o", str(csv_file)
    )
    document = json.loads(json_file.read_text())
    lines = csv_file.read_text().splitlines()

    assert result.status == 0
    assert len(document["heads"]) == 72
    assert document["pairs"] == [[n, n] for n in range(1, 16)]
    assert document["attnviz"]["command"].startswith("attnviz compare 'The animal didn")
    assert lines[0] == "layer,head,name,query,key,apart,first,second,others"
    assert len(lines) == 73


def test_one_sentence_in_two_precisions(attnviz: Attnviz) -> None:
    result = attnviz("compare", "The cat sat", "--model=minilm", "--by=dtype")

    output = " ".join(result.out.split())
    assert output.startswith("Hardly any head changes: rows are under 0.001 bits apart on average ")
    assert re.search(r"In L\dH\d+, .* of its attention in float32, .* in bfloat16\.", output)
    assert "differs most of 72 heads: its rows are under 0.001 bits apart" in result.out


@pytest.mark.slow("formats")
def test_a_saved_trace_is_compared(tmp_path: Path, attnviz: Attnviz) -> None:
    file = str(tmp_path / "trace.npz")
    trace(TIRED, model="minilm").view().save(file)
    result_of_saved = attnviz("compare", "--trace", file, WIDE, "--query=it")
    result_of_text = attnviz("compare", TIRED, WIDE, "--model=minilm", "--query=it")

    assert result_of_saved.status == 0, result_of_saved.err
    assert result_of_saved.out == result_of_text.out


@pytest.mark.parametrize(
    ("arguments", "expected", "hint"),
    [
        (["a", "--model=minilm"], "no second sentence to compare with", "give both: attnviz compa"),
        (["a", "a", "--model=minilm"], "both sentences are the same", "give another one"),
        (
            ["a", "--by=temperature", "--model=minilm"],
            "--by temperature changes how attention is computed",
            "give a second sentence, or --by dtype or --by device",
        ),
        (["a", "--by=nonsense", "--model=minilm"], "no way to compare by 'nonsense'", "known:"),
        (
            ["a", "b", "--by=dtype", "--model=minilm"],
            "--by dtype cannot be combined with a second sentence",
            "leave one of them out: two sentences are compared with the same settings",
        ),
        (
            ["a", "--by=dtype", "--values=float32", "--model=minilm"],
            "compared in two ways, but --by dtype has only float32",
            "give two, such as --values float32,bfloat16",
        ),
        (["a", "b", "--curves", "--model=minilm"], "--curves changes how", "leave --curves out"),
        (
            ["a", "b", "--heads=2", "--model=minilm"],
            "--heads is given, but the trained model",
            "leave",
        ),
        (["a", "b", "--head=1"], "--head is about the heads of a trained model", "leave --head"),
        (["a", "b", "--layer=9", "--model=minilm"], "there is no layer 9", "try --layer 5"),
        (["a", "b", "--head=12", "--model=minilm"], "there is no head 12", "try --head 11"),
        (["a", "b", "--query=x", "--model=minilm"], "no token of the sentence is 'x'", "the tok"),
        (
            ["a cat", "one more old dog", "--query=cat", "--model=minilm"],
            "'cat' has no counterpart in the other sentence",
            "name another token",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(
    attnviz: Attnviz, arguments: list[str], expected: str, hint: str
) -> None:
    result = attnviz("compare", *arguments)

    assert (result.status, result.out) == (2, "")
    problem, advice = result.err.splitlines()
    assert expected in problem
    assert hint in advice


def test_sentences_with_nothing_in_common_are_refused(tmp_path: Path) -> None:
    model = str(save(KINDS["gpt2"], tmp_path / "gpt2"))

    with pytest.raises(AttnvizError, match="no token in common"):
        compare_sentences("b", "quiz", model=model)


def test_the_library_says_which_function_compares_sentences_of_a_transformer() -> None:
    with pytest.raises(AttnvizError, match="with both sentences") as error:
        compare("The animal was tired", other="The animal was wide", model="minilm")

    assert 'compare_sentences("…", "…"' in error.value.hint
