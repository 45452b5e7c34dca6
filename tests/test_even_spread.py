"""Shares of long texts stand beside an even spread: even attention never sounds like a finding."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from attnviz import Trace, trace
from attnviz.renderers.look import Look
from attnviz.renderers.picture.page_kinds import page_layout
from attnviz.renderers.picture.still_pictures import view_captions
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.heads.bars import row_table
from attnviz.views.heads.findings import whole_findings
from attnviz.views.heads.grid import measured_head, profile_table
from attnviz.views.view import View
from tests import not_none
from tests.test_long_views import needle_trace

NUMBER = r"([\d.,]+)"
PERCENT = re.compile(r"([\d.]+)\xa0%")
RATIO = re.compile(rf"{NUMBER} times an even spread")
BREADTH = re.compile(
    rf"even spread over {NUMBER} of {NUMBER} tokens(?:; the mask alone allows {NUMBER})?"
)
MASKS = some.fixed_dictionaries(
    {"causal": some.booleans()}, optional={"window": some.integers(1, 50)}
)


def streamed(count: int, **settings: Any) -> Trace:
    text = " ".join(f"w{number % 7}" for number in range(count))
    return trace(text, tokenizer="spaces", stream=True, **settings)


def bars_of(result: Trace, **choices: Any) -> list[RankedBars]:
    panels = result.view(**choices).screen.panels
    return [panel for panel in panels if isinstance(panel, RankedBars)]


@given(count=some.integers(1, 60), mask=MASKS, heads=some.integers(1, 2))
def test_even_attention_is_never_a_finding(count: int, mask: dict[str, Any], heads: int) -> None:
    result = streamed(count, variant="average", heads=heads, **mask)

    headline = result.view().headline
    assert " is the only token" in headline or re.search(
        "as broad as (the mask allows|an even spread over all)", headline
    )
    for query in {0, count // 2, count - 1}:
        assert result.view(query=query).headline.endswith("as with an even spread")
        assert all_remarks_are_even(bars_of(result, query=query))
    assert all_remarks_are_even(bars_of(result))
    for head in range(heads):
        finding, *others = whole_findings(measured_head(result, result.layers[0], head))
        assert not RATIO.search(finding)
        assert all(other.endswith("as with an even spread") for other in others)
    part = result.view(part=f"{max(1, count // 3)}:{count}")
    assert "as with an even spread" in part.headline
    assert "times" not in part.headline


def all_remarks_are_even(bars: list[RankedBars]) -> bool:
    return all(remark.startswith("1.0 × even") for each in bars for remark in each.remarks)


@given(
    count=some.integers(2, 60),
    variant=some.sampled_from(["scaled", "plain", "causal", "average"]),
    positions=some.sampled_from(["none", "alibi", "rotary"]),
    mask=MASKS,
    temperature=some.sampled_from([0.05, 0.5, 1.0, 30.0]),
)
def test_ratios_and_breadths_are_those_of_the_weights(
    count: int, variant: str, positions: Any, mask: dict[str, Any], temperature: float
) -> None:
    heat = {} if variant == "average" else {"temperature": temperature}
    settings = {"variant": variant, "positions": positions, **mask, **heat}
    result = streamed(count, **settings)
    layer = trace(result.text, tokenizer="spaces", **settings).layers[0]
    weights, visible = layer.attended.weights[0].double().numpy(), layer.visible.numpy()
    even = visible / visible.sum(1, keepdims=True)

    headline = result.view().headline
    if ratio := RATIO.search(headline):
        shares = weights.sum(0) / count, even.sum(0) / count
        if "away" in headline or "itself" in headline:
            reach = re.search(rf"at most {NUMBER} away", headline)
            steps = int(reach[1]) if reach else 0
            near = abs(np.subtract.outer(range(count), range(count))) <= steps
            share, even_share = ((rows * near).sum() / count for rows in (weights, even))
        else:
            top = int(shares[0].argmax())
            share, even_share = (float(each[top]) for each in shares)
        assert float(not_none(PERCENT.search(headline))[1]) == pytest.approx(100 * share, abs=0.51)
        assert share >= 1.49 * even_share
        assert float(ratio[1].replace(",", "")) == pytest.approx(share / even_share, abs=0.51)
    else:
        breadth = BREADTH.search(headline)
        broad, allowed = (two_to_the_mean_entropy(rows) for rows in (weights, even))
        if breadth is None:
            assert "over all" in headline
            assert broad == pytest.approx(count, rel=0.06)
            return
        assert float(breadth[1].replace(",", "")) == pytest.approx(broad, abs=0.51)
        if breadth[3]:
            assert float(breadth[3].replace(",", "")) == pytest.approx(allowed, abs=0.51)


def two_to_the_mean_entropy(rows: np.ndarray[Any, Any]) -> float:
    logarithms = np.log2(rows, out=np.zeros_like(rows), where=rows > 0)
    return float(2 ** -(rows * logarithms).sum(1).mean())


def test_sums_and_means_along_a_text_stand_beside_even_ones() -> None:
    result = streamed(64, variant="causal")
    head = measured_head(result, result.layers[0], 0)
    sums, means = row_table(head.row(31)), profile_table(head)

    assert [table.columns.labels[1] for table in (sums, means)] == ["if even", "if even"]
    np.testing.assert_allclose(sums.values[:, 1], [0.25] * 4 + [0] * 4)  # 32 of 64 are visible
    entropies = np.log2(np.arange(1, 65)).reshape(8, 8)
    np.testing.assert_allclose(means.values[:, 1], entropies.mean(1))


def test_the_first_token_is_a_title_only_from_one_and_a_half_times_its_even_share_on() -> None:
    below = streamed(6, variant="causal", positions="alibi")
    above = needle_trace(tokens=20, needle=0)

    assert measured_head(below, below.layers[0], 0).received_shares[0] > 0.2
    assert "first token" not in below.view().headline
    assert re.fullmatch(
        'The first token, "w0", receives over 99.9\xa0% of the attention of 20 tokens, [0-9.]+ '
        "times an even spread",
        above.view().headline,
    )


@pytest.mark.parametrize("suffix", [".json", ".csv"])
def test_data_files_have_what_is_received_if_even(suffix: str) -> None:
    text = streamed(9, variant="average").view().render(suffix).decode()
    assert ("received_if_even" if suffix == ".json" else "received if even") in text


@pytest.mark.parametrize("choices", [{"query": 20}, {"query": 20, "part": "10:30"}])
def test_rankings_side_by_side_have_room_for_how_they_compare(choices: dict[str, Any]) -> None:
    view = streamed(60, heads=4).view(**choices)
    [*panels] = view.picture.panels

    assert len(panels) > 1
    for panel in panels:
        assert isinstance(panel, RankedBars)
        assert all(re.fullmatch("[0-9.]+ ×", remark) for remark in panel.remarks)
        assert panel.grid.note.startswith("× = times what it would receive")
    assert "×" in re.sub("× = times", "", "".join(drawn_words(view)))


def drawn_words(view: View) -> list[str]:
    look = Look()
    layout = page_layout(view.picture.groups, look, view_captions(view, look))
    return [words.text for words in layout.words]
