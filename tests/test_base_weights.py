"""What other queries give a key, and the key at the same distance, in bands and of all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnviz as library
from attnviz.analysis import base_weights
from attnviz.analysis.base_weights import BaseWeights
from attnviz.cells import StoredCells
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.explorer import HeadMap
from attnviz.views.trace_data import find_telling_link
from attnviz.wings.explore.subject import open_subject
from tests.base_rates import base_of, others_of
from tests.tiers import examples


def base_weights_of(weights: np.ndarray, special: tuple[int, ...]) -> BaseWeights:
    is_special = np.isin(np.arange(len(weights)), special)
    return BaseWeights(
        StoredCells(weights, weights == 0), ~is_special, np.arange(len(weights)), is_special
    )


@st.composite
def masked_weights(draw: st.DrawFn) -> np.ndarray:
    """Shares of random logits, of which some are hidden, but no token from itself."""
    tokens = draw(st.integers(1, 9))
    random = np.random.default_rng(draw(st.integers(0, 1_000)))
    weights = np.exp(random.normal(size=(tokens, tokens)))
    weights *= (random.random((tokens, tokens)) < draw(st.sampled_from([0.4, 1.0]))) | np.eye(
        tokens, dtype=bool
    )
    shares: np.ndarray = weights / weights.sum(1, keepdims=True)
    return shares


@settings(max_examples=examples(200))
@given(masked_weights(), st.sets(st.integers(0, 8), max_size=2), st.sampled_from([2, 2**18]))
def test_a_base_rate_is_the_larger_mean_of_all_others_at_that_key_or_distance(
    weights: np.ndarray, special: set[int], band: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base_weights, "CELLS_PER_BAND", band)
        bases = base_weights_of(weights, tuple(special))
        of_keys, larger = (
            np.nan_to_num(means)
            for means in (bases.of_same_key(slice(None)), bases.larger(slice(None)))
        )
    for query, key in np.ndindex(*weights.shape):
        others = others_of(weights, query, key, tuple(special))
        assert of_keys[query, key] == pytest.approx(others)
        assert larger[query, key] == pytest.approx(base_of(weights, query, key, tuple(special)))


@settings(max_examples=examples(50))
@given(masked_weights(), st.integers(1, 4))
def test_a_head_that_reads_one_distance_from_every_token_has_no_finding_by_distance(
    noise: np.ndarray, distance: int
) -> None:
    """All give 90 % to the token so far before them, or to the first if there is none."""
    tokens = len(noise)
    weights = 0.1 * noise
    for query in range(tokens):
        weights[query, max(0, query - distance)] += 0.9
    bases = base_weights_of(weights, ()).larger(slice(None))
    for query in range(distance + 1, tokens):
        has_example = any(other - distance > 0 for other in range(tokens) if other != query)
        assert not has_example or bases[query, query - distance] >= 0.9 - 1e-9


def test_a_page_opens_on_the_link_that_neither_its_key_nor_its_distance_explains() -> None:
    """Every token gives the one before it 90 %, but the last but one gives the third 60 %."""
    weights = np.full((8, 8), 0.1 / 7)
    for query in range(8):
        weights[query, max(0, query - 1)] = 0.9
    weights[6] = 0.4 / 7
    weights[6, 3] = 0.6
    axis = plain_axis("token", "abcdefgh")
    head = HeadMap(
        name="L0H0", query_axis=axis, key_axis=axis, weights=StoredCells(weights, weights < 0)
    )
    assert find_telling_link(head).query == 6
    assert find_telling_link(head).lift == pytest.approx(0.6 - base_of(weights, 6, 3))
    assert find_telling_link(head, 5).lift < 0.2, "what all do is no finding"


def test_exploring_a_trained_model_begins_with_the_link_furthest_above_its_base_rate() -> None:
    """Not with the head that attends to the token before each, which has the largest weight."""
    trace = library.trace("The trophy does not fit because it is too big", model="minilm")
    size, special = len(trace.tokens), tuple(sorted(trace.tokens.special))
    lifts = {
        (number, query, key): heads[query, key] - base_of(heads, query, key, special)
        for number, heads in enumerate(np.concatenate([each.weights for each in trace.layers]))
        for query in set(range(size)) - {*special}
        for key in set(range(size)) - {query, *special}
    }
    head, query, _ = max(lifts, key=lambda link: lifts[link])

    subject, place = open_subject(trace)

    assert (place.head, place.query) == (head, query)
    assert subject.explorer.heads[place.head].name != "L0H2"
    row = {link: lift for link, lift in lifts.items() if link[1] == 4}
    assert open_subject(trace, "5")[1].head == max(row, key=lambda link: row[link])[0]
