"""Every sentence of run and steps that claims something is held against the Trace that it is about.

Settings are drawn as odd as they come; of each view every string that people read is gathered,
and each claim in it, known by its words, is worked out again from the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnviz import Trace, trace
from attnviz.analysis.checks import verify
from attnviz.attention.arithmetic import split_heads
from attnviz.attention.mistakes import MISTAKES
from attnviz.attention.variants import VARIANTS
from attnviz.cells import Whole
from attnviz.errors import AttnvizError
from attnviz.examples import shipped
from attnviz.examples.names import names
from attnviz.traces.matrices import Matrices, matrices
from attnviz.traces.parts import SHOWN
from attnviz.traces.settings import DTYPES, POSITIONS
from attnviz.traces.trace import Layer
from attnviz.views.grids.axes import SUMS, Axis
from attnviz.views.grids.description import describe
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.section import Section, opened
from attnviz.views.steps.walk import steps
from attnviz.views.view import View
from tests.conftest import Attnviz

TEXTS = ("I", "I am", "the the the", "I am learning this", "of tired it that goes on and on")
HALF = 0.006  # of the last of two digits, and what float16 rounds


@dataclass(frozen=True)
class Said:
    """A sentence, and what it is about."""

    text: str
    trace: Trace
    layer: Layer
    section: Section | None = None
    grid: Grid | None = None


Claim = Callable[[Said, "re.Match[str]"], bool]
CLAIMS: list[tuple[re.Pattern[str], Claim]] = []


def claims(pattern: str) -> Callable[[Claim], Claim]:
    """What must be so where these words stand."""

    def kept(claim: Claim) -> Claim:
        CLAIMS.append((re.compile(pattern), claim))
        return claim

    return kept


def close(one: Tensor, other: Tensor) -> bool:
    """Equal but for what their dtype rounds, of the largest of them."""
    if one.numel() == 0:
        return True
    size = max(1e-12, float(other.abs().max()), float(one.abs().max()))
    step = torch.finfo(one.dtype).eps * 32
    return float((one - other).abs().max()) <= size * step


# What stands over all.


@claims(r"^(scaled|unscaled)( plain)? attention")
def scale_of_title(said: Said, match: re.Match[str]) -> bool:
    times = said.layer.scale * said.trace.variant.temperature
    root = said.layer.head_dim**-0.5 if match[1] == "scaled" else 1.0
    return abs(times / root - 1) < 1e-6


@claims(r"^plain attention")
def plain(said: Said, match: re.Match[str]) -> bool:
    return said.layer.scale * said.trace.variant.temperature == pytest.approx(1)


@claims(r"^multi-head attention")
def multi_head(said: Said, match: re.Match[str]) -> bool:
    return said.layer.heads > 1


@claims(r"^causal attention| · causal( ·|$)|No token may read the ones after it")
def causal(said: Said, match: re.Match[str]) -> bool:
    return not bool(said.layer.visible.triu(1).any())


@claims(r"^average attention$")
def average(said: Said, match: re.Match[str]) -> bool:
    weights = said.layer.attended.weights.double()
    even = said.layer.visible / said.layer.visible.sum(-1, keepdim=True)
    return bool(((weights - even).abs() < HALF).all())


@claims(r"attention with a mistake \((.*)\)")
def mistaken(said: Said, match: re.Match[str]) -> bool:
    return said.layer.mistake == match[1]


@claims(r"with weights by hand")
def by_hand(said: Said, match: re.Match[str]) -> bool:
    return said.layer.attended.mixed_by == "hand"


@claims(r"all tokens visible|nothing is hidden")
def all_visible(said: Said, match: re.Match[str]) -> bool:
    return bool(said.layer.visible.all())


@claims(r" · window (\d+)|less than (\d+) places? away")
def window(said: Said, match: re.Match[str]) -> bool:
    rows, columns = said.layer.visible.nonzero().T
    return bool(((rows - columns).abs() < int(match[1] or match[2])).all())


@claims(r"A token reads only itself|The token reads itself")
def itself(said: Said, match: re.Match[str]) -> bool:
    return torch.equal(said.layer.visible, torch.eye(len(said.trace.tokens), dtype=torch.bool))


@claims(r" · (\d+) heads? of width (\d+)")
def heads_of_width(said: Said, match: re.Match[str]) -> bool:
    vectors = said.layer.values if said.layer.queries is None else said.layer.queries
    scored = "scores" in said.layer.given
    width = said.layer.head_dim if scored else vectors.shape[-1]
    return (len(vectors), width) == (int(match[1]), int(match[2]))


@claims(r" · width (\d+)")
def width(said: Said, match: re.Match[str]) -> bool:
    return said.trace.embeddings.shape[1] == int(match[1])


@claims(r" · dropout ([\d.e-]+)")
def dropped(said: Said, match: re.Match[str]) -> bool:
    share, mixed = (
        said.trace.variant.dropout,
        [each.attended.mixed_by for each in said.trace.attentions],
    )
    return share == pytest.approx(float(match[1]), rel=1e-5) and "dropout" in mixed


@claims(r" · (none|sinusoidal|learned|rotary|alibi) positions")
def placed(said: Said, match: re.Match[str]) -> bool:
    return {
        "rotary": said.layer.before_rotary is not None or len(said.trace.layers) > 1,
        "alibi": said.layer.attended.bias is not None,
    }.get(match[1], not torch.equal(said.layer.entering, said.trace.embeddings))


# How to read a table.


@claims("|".join(SUMS))
def rows_sum_to_one(said: Said, match: re.Match[str]) -> bool:
    if said.grid is None:
        return True  # a caption, of which below
    return bool((abs(said.grid.values.sum(axis=1, dtype=float) - 1) < HALF).all())


@claims(r"scores = query times key")
def products(said: Said, match: re.Match[str]) -> bool:
    queries, keys = said.layer.queries, said.layer.keys
    assert queries is not None
    assert keys is not None
    made, raw = queries @ keys.transpose(-2, -1), said.layer.attended.scores
    return "scores" not in said.layer.given and close(made, raw)


@claims(r"scaled scores = .* / √(\d+)$")
def by_root(said: Said, match: re.Match[str]) -> bool:
    root = int(match[1]) ** 0.5
    return close(said.layer.attended.scores / root, said.layer.attended.scaled_scores)


@claims(r"[Nn]othing is compared: every score is 0")
def all_zero(said: Said, match: re.Match[str]) -> bool:
    return not bool(said.layer.attended.scores.any())


@claims(r"^given scores|The scores are given")
def scores_given(said: Said, match: re.Match[str]) -> bool:
    return "scores" in said.layer.given


@claims(r"scores as the softmax receives them")
def received(said: Said, match: re.Match[str]) -> bool:
    return not said.layer.mistake


# The steps.


@claims(r"the score is (above|below) 0")
def side_of_zero(said: Said, match: re.Match[str]) -> bool:
    score, _ = _pair(said)
    return score > 0 if match[1] == "above" else score < 0


@claims(r"has no length: there is no angle, and the score is 0")
def no_length(said: Said, match: re.Match[str]) -> bool:
    return _pair(said) == (0, 0)


@claims(r"the score is (minus )?the product of their lengths")
def on_a_line(said: Said, match: re.Match[str]) -> bool:
    score, lengths = _pair(said)
    return score == pytest.approx(-lengths if match[1] else lengths, rel=0.02)


@claims(r"nearly at right angles: the score is small beside the product")
def upright(said: Said, match: re.Match[str]) -> bool:
    score, lengths = _pair(said)
    return abs(score) < 0.011 * lengths


@claims(r"Scores stay as they are|which is 1 and changes nothing")
def unscaled(said: Said, match: re.Match[str]) -> bool:
    hot = said.trace.variant.temperature
    attended = said.layer.attended
    return close(attended.scores / hot, attended.scaled_scores) and (
        hot == 1 or "changes nothing" in match[0]
    )


@claims(r"divided by √d_k, here √(\d+)")
def divided(said: Said, match: re.Match[str]) -> bool:
    attended, hot = said.layer.attended, said.trace.variant.temperature
    return close(attended.scores / int(match[1]) ** 0.5 / hot, attended.scaled_scores)


@claims(r"nothing where a token reads itself, one slope from a neighbour's")
def slopes(said: Said, match: re.Match[str]) -> bool:
    bias = said.layer.attended.bias
    assert bias is not None
    several = "in each head by another slope" in said.text
    if bias.shape[-1] == 1:
        return several == (said.layer.heads > 1)
    taken = -bias[:, 0, 1].double()
    distinct = len(set(taken.tolist())) == said.layer.heads
    return bool((bias.diagonal(dim1=1, dim2=2) == 0).all()) and (
        several == (said.layer.heads > 1) and distinct
    )


@claims(r"pair i at position p turns by \(p - 1\) / 10000\^\(2\(i - 1\)/d_k\)")
def turned(said: Said, match: re.Match[str]) -> bool:
    before, after = said.layer.before_rotary, said.layer.queries
    assert before is not None
    assert after is not None
    pairs = torch.view_as_complex(before.queries.double().reshape(*after.shape[:-1], -1, 2))
    place = torch.arange(1, pairs.shape[1] + 1, dtype=torch.float64)[:, None]
    pair = torch.arange(1, pairs.shape[2] + 1, dtype=torch.float64)[None, :]
    angle = (place - 1) / 10000.0 ** (2 * (pair - 1) / after.shape[-1])
    made = torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle).to(pairs))
    return close(made.flatten(-2).to(after), after)


@claims(r"A row sums to 1")
def softmax_sums(said: Said, match: re.Match[str]) -> bool:
    return bool(((said.layer.attended.weights.double().sum(-1) - 1).abs() < HALF).all())


@claims(r"A row with anything to read sums to 1")
def softmax_sums_of_readers(said: Said, match: re.Match[str]) -> bool:
    sums, reads = said.layer.attended.weights.double().sum(-1), said.layer.visible.any(-1)
    return not reads.all() and bool(((sums - reads.double()).abs() < HALF).all())


@claims(r"the others are divided by 1 - ([\d.e-]+)")
def after_dropout(said: Said, match: re.Match[str]) -> bool:
    weights, mixing = said.layer.attended.weights, said.layer.attended.mixing
    kept = weights / (1 - float(match[1]))
    return close(torch.where(mixing == 0, mixing, kept), mixing)


@claims(r"Here no weight is changed by it")
def without_effect(said: Said, match: re.Match[str]) -> bool:
    return bool(((_right(said.layer) - said.layer.attended.weights).abs() < HALF).all())


@claims(r"✗ A mistake: [^.]*\.$")
def with_effect(said: Said, match: re.Match[str]) -> bool:
    return not torch.equal(_right(said.layer), said.layer.attended.weights)


@claims(r"Neighbouring columns")
def columns_of_heads(said: Said, match: re.Match[str]) -> bool:
    layer, made = said.layer, said.layer.projections
    before = layer.before_rotary or layer
    if made is None or made.w_query is None or before.queries is None:
        return True
    joined = layer.inputs @ made.w_query + (0 if made.b_query is None else made.b_query)
    return close(split_heads(joined, layer.heads), before.queries)


@claims(r"([QKV]) = (X|Y|M|normed) W_(\w+)( \+ b_\w+)?")
def made_of(said: Said, match: re.Match[str]) -> bool:
    layer, name = said.layer, match[3]
    before = layer.before_rotary or layer
    read = layer.inputs if match[2] in ("X", "normed") else layer.key_inputs
    found = {"query": before.queries, "key": before.keys, "value": layer.values}[name]
    matrix, bias = (getattr(layer.projections, f"{kind}_{name}") for kind in "wb")
    assert read is not None
    assert found is not None
    made = read @ matrix if bias is None else read @ matrix + bias
    named = (bias is not None) == bool(match[4])
    own = (layer.memory is not None) == (match[2] == "M") or match[1] == "Q"
    return named and own and close(split_heads(made, layer.heads), found)


@claims(r"formula: ([QKV = ]*) = (X|Y|normed)$")
def themselves(said: Said, match: re.Match[str]) -> bool:
    read = said.layer.key_inputs if match[2] == "Y" else said.layer.inputs
    before = said.layer.before_rotary or said.layer
    found = {"Q": before.queries, "K": before.keys, "V": said.layer.values}
    assert read is not None
    made = split_heads(read, said.layer.heads)
    vectors = [found[letter] for letter in match[1].split(" = ")]
    return all(each is not None and torch.equal(each, made) for each in vectors)


@claims(r"There are none to use: all that would be made of them is given")
def unused(said: Said, match: re.Match[str]) -> bool:
    return said.layer.block is None and "values" in said.layer.given


@claims(r"the vectors themselves are (compared, and mixed|compared|mixed)")
def used_themselves(said: Said, match: re.Match[str]) -> bool:
    mixed = torch.equal(said.layer.values, split_heads(_read(said.layer), said.layer.heads))
    return mixed == ("mixed" in match[1])


@claims(r"to a mean of 0 and stretches it to a variance of 1")
def mean_and_variance(said: Said, match: re.Match[str]) -> bool:
    made = _normed(said).double()
    variances = made.var(-1, correction=0)
    return bool((made.mean(-1).abs() < HALF).all() and ((variances - 1).abs() < HALF).all())


@claims(r"takes from each vector its mean, and divides it")
def no_such_variance(said: Said, match: re.Match[str]) -> bool:
    made = _normed(said).double()
    variances = made.var(-1, correction=0)
    return bool((made.mean(-1).abs() > HALF / 2).any() or ((variances - 1).abs() > HALF / 2).any())


@claims(r"a matrix (widens|narrows) its vector to (\d+)|makes another vector of it, as wide")
def other_width(said: Said, match: re.Match[str]) -> bool:
    assert said.layer.block is not None
    width, hidden = said.layer.block.parameters.w_1.shape
    if match[1] is None:
        return bool(width == hidden)
    return hidden == int(match[2]) and (hidden > width) == (match[1] == "widens")


@claims(r"What layer (\d+) made of each token")
def from_below(said: Said, match: re.Match[str]) -> bool:
    return torch.equal(said.trace.layers[int(match[1])].outputs, said.layer.entering)


@claims(r"(the heads'|The heads') vectors then stand side by side")
def side_by_side(said: Said, match: re.Match[str]) -> bool:
    return said.layer.heads > 1


@claims(r"\(--query follows another\)")
def another(said: Said, match: re.Match[str]) -> bool:
    return len(said.trace.tokens) > 1


@claims(r"= ([\d,]+) numbers to learn$")
def learned(said: Said, match: re.Match[str]) -> bool:
    sides = re.findall(r"(\d[\d,]*(?: × [\d,]+)*)(?= [+=]|$)", said.text.split(" = ")[0])
    sizes = [np.prod([int(n.replace(",", "")) for n in each.split(" × ")]) for each in sides]
    return sum(sizes) == int(match[1].replace(",", ""))


# What a picture says in words.


@claims(r"^(.+?) reads (.+?) most(, and alike)? \(([\d.e-]+)( each)?\)$")
def read_most(said: Said, match: re.Match[str]) -> bool:
    assert said.grid is not None
    row = said.grid.values[said.grid.rows.names.index(match[1])]
    largest = np.nanmax(row)
    most = int((row >= largest * (1 - 1e-5)).sum())
    one = match[2] in said.grid.columns.names
    return (most == 1) == (one and not match[3]) and abs(float(match[4]) - largest) <= max(
        HALF, 0.06 * largest
    )


@claims(r"^(.+?) reads nothing$")
def reads_nothing(said: Said, match: re.Match[str]) -> bool:
    assert said.grid is not None
    return not np.nan_to_num(said.grid.values[said.grid.rows.names.index(match[1])]).any()


def _pair(said: Said) -> tuple[float, float]:
    """The score of the first query and the first key of one head, and the product of lengths."""
    queries, keys = said.layer.queries, said.layer.keys
    assert queries is not None
    assert keys is not None
    lengths = queries[0, 0].double().norm() * keys[0, 0].double().norm()
    return float(said.layer.attended.scores[0, 0, 0]), float(lengths)


def _right(layer: Layer) -> Tensor:
    return layer.attended.logits.masked_fill(~layer.visible, -torch.inf).softmax(-1)


def _read(layer: Layer) -> Tensor:
    return layer.inputs if layer.key_inputs is None else layer.key_inputs


def _normed(said: Said) -> Tensor:
    """What LayerNorm made in this section."""
    assert said.section is not None
    block, name = said.layer.block, said.section.name
    assert block is not None
    of = "cross" if "cross" in name else "feed_forward" if "feed" in name else "attention"
    residual = block.residuals[of]
    return residual.outputs if name.startswith("add-") else residual.sublayer_inputs


# What is said, and of what.


def of_view(view: View, made: Trace) -> Iterator[Said]:
    """Every string of a View of a Trace, with the attention that it is about."""
    first = made.layers[0]
    for text in (view.title, view.settings, *view.closing):
        yield Said(text, made, first)
    for page in (view.screen, view.picture):
        named = {f" {layer.name}": layer for layer in made.attentions}
        for group in page.groups:
            layer = next((named[each] for each in named if group.name.endswith(each)), first)
            for grid in opened(group.panels):
                if isinstance(grid, Grid):
                    yield from (
                        Said(each, made, layer, grid=grid) for each in grid.note.split(" · ")
                    )
                    yield from _described(grid, made, layer)
        yield from _of_caption(page.caption, page.panels, made)


def _of_caption(caption: str, panels: Any, made: Trace) -> Iterator[Said]:
    """What is said of sums under all panels must be so of all that are divided up."""
    for note in SUMS:
        for grid in opened(panels) if note in caption.split(" · ") else ():
            if isinstance(grid, Grid) and grid.share:
                yield Said(note, made, made.layers[0], grid=grid)


def _described(grid: Grid, made: Trace, layer: Layer) -> Iterator[Said]:
    if grid.share:
        told = describe([grid]).rstrip(".").split("). ", 1)[-1]
        yield from (Said(each, made, layer, grid=grid) for each in told.split("; "))


def of_steps(view: View, made: Trace, layer: Layer) -> Iterator[Said]:
    """Every string of the sections of one layer."""
    yield Said(view.title, made, made.layers[0])
    for section in view.sections:
        crossed = section.name.startswith("cross-") or section.name == "memory"
        about = layer.cross if crossed and layer.cross is not None else layer
        own = layer if section.name.endswith("-norm") else about
        texts = [section.about, *section.remarks, *re.split(r" · ", section.formula)]
        texts += [each.about for each in section.moments]
        yield from (Said(each, made, own, section) for each in texts)
        yield Said(f"formula: {section.formula}", made, own, section)
        for grid in section.grids:
            yield from (Said(n, made, own, section, grid) for n in grid.note.split(" · "))
    yield from _of_caption(view.picture.caption, view.picture.panels, made)


def false_sentences(every: Iterator[Said]) -> list[str]:
    return [
        f"{claim.__name__}: {said.text}"
        for said in every
        for pattern, claim in CLAIMS
        for match in pattern.finditer(said.text)
        if not claim(said, match)
    ]


TEMPERATURES = st.none() | st.floats(-4, 4).map(lambda power: float(f"{10**power:.3g}"))
CHOICES = st.fixed_dictionaries(
    {
        "variant": st.sampled_from([*VARIANTS]),
        "dim": st.sampled_from([1, 2, 3, 4, 8]),
        "seed": st.integers(0, 99),
    },
    optional={
        "heads": st.sampled_from([1, 2, 3]),
        "head_dim": st.sampled_from([1, 2, 4]),
        "scale": st.booleans(),
        "causal": st.booleans(),
        "window": st.sampled_from([1, 2, 9]),
        "temperature": TEMPERATURES,
        "dropout": st.sampled_from([0.0, 0.3, 0.5, 0.99]),
        "positions": st.sampled_from(POSITIONS),
        "layers": st.sampled_from([1, 2]),
        "norm": st.sampled_from(["pre", "post"]),
        "activation": st.sampled_from(["relu", "gelu"]),
        "feed_forward": st.sampled_from([1, 2, 8, 40]),
        "memory": st.sampled_from(TEXTS),
        "dtype": st.sampled_from(DTYPES),
    },
)
ROWS = [[1.0, 0.0], [0.5, -2.0], [3.0, 1.0]]
SQUARE = [[0.5, 1.5, -1.0], [40.0, 0.0, 0.25], [1.0, 1.0, 1.0]]
SHARES = [[0.2, 0.2, 0.1], [0.3, 0.3, 0.0], [0.0, 0.0, 1.0]]
TWICE = [ROWS, [[0.0, 1.0], [2.0, 2.0], [-1.0, 0.5]]]
GIVEN: dict[str, dict[str, Any]] = {
    "scores": {"scores": SQUARE},
    "scores and queries": {"scores": SQUARE, "queries": ROWS, "keys": ROWS},
    "queries, keys": {"queries": ROWS, "keys": ROWS[::-1]},
    "queries, keys, values": {"queries": ROWS, "keys": ROWS, "values": ROWS},
    "values": {"embeddings": ROWS, "values": ROWS[::-1]},
    "heads": {"queries": TWICE, "keys": TWICE, "values": TWICE},
    "heads of queries": {"embeddings": ROWS, "queries": TWICE, "keys": TWICE},
    "other keys": {"embeddings": ROWS, "key_tokens": ["you", "are"]},
    "one other key": {"queries": ROWS, "keys": ROWS[:1], "values": ROWS[1:2]},
    "other keys, values": {"embeddings": ROWS, "keys": ROWS[:2], "values": ROWS[1:]},
    "weights by hand": {"embeddings": ROWS, "weights": SHARES},
    "a mask": {"embeddings": ROWS, "visible": [[1, 0, 1], [0, 1, 0], [1, 1, 1]]},
    "a mask that hides nothing": {"embeddings": ROWS, "visible": [[1, 1, 1]] * 3},
    "dropout": {"embeddings": ROWS, "kept": [[1, 0, 1], [0, 1, 1], [1, 1, 0]]},
    "matrices": {"embeddings": ROWS, "w_query": ROWS[:2], "b_query": [1.0, -1.0]},
    "alike": {"embeddings": [[1.0, 1.0]] * 3, "w_value": [[0.0, 0.0], [0.0, 0.0]]},
}


def traced(choices: dict[str, Any], text: str, given: str, mistake: str) -> Trace | None:
    """What these settings make, if they make anything."""
    chosen = {name: value for name, value in choices.items() if value is not None}
    source = given_matrices(GIVEN[given]) if given else None
    if source is not None and "embeddings" in GIVEN[given]:
        chosen.pop("dim")
    try:
        return trace(None if source else text, given=source, mistake=mistake, **chosen)
    except AttnvizError:
        return None


VIEWS: dict[str, dict[str, Any]] = {
    "run": {},
    "run, a query": {"query": "1"},
    "run, everything": {"show": [*SHOWN]},
    "run, everything of a query": {"show": [*SHOWN], "query": "1"},
    "run, an equation": {"show": ["queries", "keys", "scores", "weights", "values", "context"]},
    "run, as lines": {"as_": "arcs"},
    "run, as a sentence": {"as_": "sentence", "query": "1"},
}


def sentences_of(
    made: Trace, view: str, query: str | None, layer: int, key: str | None
) -> Iterator[Said]:
    """Of one of the ways to show a Trace; and of the steps of one of its layers."""
    yield from of_view(made.view(**VIEWS[view]), made)
    here = made.layers[layer % len(made.layers)]
    options: dict[str, Any] = {"query": query, "layer": here.layer}
    if query is not None and key is not None and made.variant.compared:
        options |= {"key": key}
    try:
        walked = steps(made, **options)
    except AttnvizError:
        walked = steps(made, layer=here.layer)
    yield from of_steps(walked.view(), made, here)


@settings(max_examples=50)
@given(
    choices=CHOICES,
    text=st.sampled_from(TEXTS),
    given_=st.sampled_from(["", "", *GIVEN]),
    mistake=st.sampled_from(["", "", *MISTAKES]),
    query=st.sampled_from([None, "1"]),
    view=st.sampled_from([*VIEWS]),
    layer=st.integers(0, 1),
    key=st.sampled_from([None, "1"]),
)
def test_no_sentence_of_run_and_steps_is_false(
    choices: dict[str, Any],
    text: str,
    given_: str,
    mistake: str,
    view: str,
    query: str | None,
    layer: int,
    key: str | None,
) -> None:
    made = traced(choices, text, given_, mistake)
    if made is None:
        return

    assert false_sentences(sentences_of(made, view, query, layer, key)) == []
    assert [check.text for check in verify(made) if check.failed] == []


# Each sentence that was false, for the input for which it was.


def told(made: Trace, step: str = "", **asked: Any) -> str:
    """What a view, or one step, says in words."""
    if not step:
        view = made.view(**asked)
        notes = [each.note for each in opened(view.screen.panels)]
        return " | ".join([view.title, view.settings, *notes, view.picture.caption])
    (section,) = steps(made, step=step, **asked).sections
    return " | ".join([section.about, section.formula, *section.remarks])


def given_matrices(contents: Mapping[str, Any]) -> Matrices:
    """Of three tokens; what is there twice is there for each of two heads."""
    heads = 2 if contents.get("queries") is TWICE else None
    return matrices({"tokens": ["a", "b", "c"], **contents}, heads=heads)


def of_matrices(**contents: Any) -> Trace:
    return trace(None, given=given_matrices(contents))


@pytest.mark.parametrize("way", [{}, {"query": "2"}, {"as_": "arcs"}])
def test_rows_of_other_weights_than_a_softmax_s_are_not_said_to_sum_to_1(
    way: dict[str, Any],
) -> None:
    dropped = trace("I am learning this", dropout=0.5)
    by_hand = of_matrices(embeddings=ROWS, weights=SHARES)
    mistaken = trace("I am learning this", variant="causal", mistake="zero-weights")

    assert "sum" in told(trace("I am learning this"), **way)
    for made in (dropped, by_hand, mistaken):
        assert "sums to 1" not in told(made, **way)


def test_what_is_so_of_some_panels_is_not_said_below_all() -> None:
    softmax, kept = (
        steps("I am", dropout=0.5, step=step).view().picture for step in ("softmax", "softmax,8b")
    )

    assert "each row sums to 1" in softmax.caption
    assert "each row sums to 1" not in kept.caption


@pytest.mark.parametrize(
    ("choices", "title"),
    [
        ({}, "scaled attention"),
        ({"scale": False}, "unscaled attention"),
        ({"scale": False, "causal": True}, "causal attention"),
        ({"variant": "causal", "causal": False}, "scaled attention"),
        ({"variant": "causal", "scale": False}, "causal attention"),
        ({"variant": "multi-head"}, "multi-head attention"),
        ({"variant": "multi-head", "heads": 1}, "causal attention"),
        ({"variant": "plain"}, "plain attention"),
        ({"variant": "plain", "scale": True}, "scaled plain attention"),
        ({"variant": "average"}, "average attention"),
        ({"variant": "average", "positions": "alibi"}, "attention by distance alone"),
        ({"mistake": "softmax-all"}, "scaled attention with a mistake (softmax-all)"),
    ],
)
def test_the_title_is_of_what_was_done(choices: dict[str, Any], title: str) -> None:
    made = trace("I am learning this", **choices)

    assert made.view().title == title
    assert steps(made).view().title == f"{title}, step by step"


def test_a_mask_and_weights_of_one_s_own_are_in_the_title_and_the_settings() -> None:
    by_hand = of_matrices(embeddings=ROWS, weights=SHARES)
    masked = trace(
        None, given=matrices(GIVEN["a mask"]), variant="causal", window=2, dropout=0.5
    ).view()

    assert by_hand.view().title == "scaled attention with weights by hand"
    assert masked.title == "scaled attention"
    assert "mask given · dropout 0.5" in masked.settings


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({}, "scaled · all tokens visible · seed"),
        ({"window": 1}, "scaled · window 1 · seed"),
        ({"causal": True, "window": 2}, "scaled · causal · window 2 · seed"),
        ({"temperature": 1.0000001}, "all tokens visible · temperature 1.0000001 · seed"),
        ({"dropout": 0.5, "mistake": "softmax-all"}, "all tokens visible · seed"),
    ],
)
def test_the_settings_are_those_that_did_something(choices: dict[str, Any], said: str) -> None:
    assert said in trace("I am learning this", **choices).view().settings


@pytest.mark.parametrize(
    ("choices", "step", "said"),
    [
        ({"positions": "alibi"}, "alibi", "one slope from a neighbour's, two from the next"),
        ({"positions": "alibi", "heads": 2}, "alibi", "in each head by another slope"),
        ({"positions": "rotary"}, "rotary", "turns by (p - 1) / 10000^(2(i - 1)/d_k)"),
        ({"layers": 1}, "feed-forward", "widens its vector to 32"),
        ({"layers": 1, "feed_forward": 1}, "feed-forward", "narrows its vector to 1"),
        ({"layers": 1, "feed_forward": 8}, "feed-forward", "makes another vector of it, as wide"),
        ({"layers": 1}, "add-attention", "to a mean of 0 and stretches it to a variance of 1"),
        ({"layers": 1, "dim": 1}, "add-attention", "and divides it by √(variance + 1e-05)"),
        ({"layers": 1, "dim": 1, "norm": "pre"}, "norm", "and divides it by √(variance + 1e-05)"),
        ({"dim": 1}, "scaling", "here √1, which is 1 and changes nothing"),
        ({"window": 1}, "mask", "A token reads only itself."),
        ({"tokenizer": "chars"}, "tokens", "nothing else of it is read"),
        ({"variant": "plain"}, "projections", "the vectors themselves are compared, and mixed"),
        ({"layers": 1, "norm": "pre"}, "queries", "Q = normed W_query"),
        ({"mistake": "zero-scores"}, "softmax", "Here no weight is changed by it"),
    ],
)
def test_a_step_says_what_is_so(choices: dict[str, Any], step: str, said: str) -> None:
    assert said in told(trace("I am learning this", **choices), step)


def test_what_is_left_out_is_said_where_it_is_left_out() -> None:
    text = "a b c d e f g h i j k l m n o p q r s t u"
    made = trace(text, heads=2, dim=80, positions="rotary", tokenizer="words", memory="x y")
    remarks = {each.name: each.remarks for each in steps(made, query="21").sections}
    keys = ("written out: the 16 of 21 keys that weigh most in head 0", "--full writes out all")

    assert remarks["softmax"] == keys
    assert remarks["rotary"] == ("written out: the first 16 of 20 pairs", keys[1])
    assert [name for name, each in remarks.items() if each == keys] == [
        "scores",
        "scaling",
        "softmax",
        "weighted",
    ]
    of_six = {each.name: each.remarks for each in steps("a b", heads=6, dim=12, query="1").sections}
    assert of_six["queries"][0] == "written out: head 0 of 6 (--head follows another)"


def test_one_token_has_no_other_to_follow() -> None:
    assert "--query" in told(trace("I am"), "weighted")
    assert "--query" not in told(trace("I"), "weighted")


def test_given_scores_are_no_products_though_queries_are_given() -> None:
    made = of_matrices(**GIVEN["scores and queries"])
    (section,) = steps(made, step="scores", query="1").sections

    assert "The scores are given" in section.about
    assert section.sums == ()
    assert section.moments == ()
    assert "given scores, not yet scaled" in told(made, show=["scores"])
    assert {each.kind for each in made.view(show=["queries", "keys", "scores"]).picture.groups} == {
        "free"
    }
    with pytest.raises(AttnvizError, match="they are no products"):
        steps(made, query="1", key="2")


def test_vectors_that_heads_were_given_are_not_said_to_be_columns_of_others() -> None:
    assert "columns" not in told(of_matrices(**GIVEN["heads"]), "queries")
    assert "columns of values go" in told(of_matrices(**GIVEN["heads of queries"]), "queries")
    assert "columns go to each of 2" in told(trace("I am", heads=2), "queries")


def test_keys_of_other_tokens_are_made_of_their_vectors() -> None:
    made = of_matrices(**GIVEN["other keys"])

    assert "Q = X W_query · K = Y W_key · V = Y W_value" in told(made, "queries")
    assert "Keys and values are made of other tokens" in told(made, "embeddings")


def test_the_arithmetic_of_dropout_that_is_given_is_that_of_each_weight() -> None:
    made = of_matrices(embeddings=ROWS, kept=[[1, 0, 1], [0, 1, 1], [1, 1, 0]])
    (section,) = steps(made, step="dropout", query="3").sections

    assert "What dropout leaves is given" in section.about
    assert [line.text.split("·")[1].split(" ")[0] for line in section.sums] == ["1", "1", "0"]


def test_a_gain_and_a_shift_are_in_the_sum_and_in_the_formula_of_layernorm() -> None:
    made = trace("I am learning this", layers=1, dim=2, norm="pre")
    (layer,) = made.layers
    assert layer.block is not None
    gain, shift = torch.tensor([2.0, -0.5]), torch.tensor([0.25, 1.0])
    residual = layer.block.attention
    assert residual.norm is not None
    norm = replace(residual.norm, gain=gain, shift=shift)
    outputs = residual.sublayer_inputs * gain + shift
    changed = replace(residual, norm=norm, sublayer_inputs=outputs)
    block = replace(layer.block, attention=changed)
    other = replace(made, layers=(replace(layer, block=block, inputs=outputs),))

    (section,) = steps(other, step="norm", query="am").sections
    last = section.sums[-1]

    assert section.formula.endswith("/ √(variance + 1e-05) · gain + shift")
    assert "then each number is multiplied with a gain, and a shift is added" in section.about
    assert "· [2.00 -0.50] + [0.25 1.00]" in last.right
    assert last.exact
    assert "variance of 1" in section.about


def test_a_picture_in_words_calls_nothing_most_that_others_equal() -> None:
    even = trace("I am learning this", variant="average").view().picture.description

    assert "1 I reads 1 I most (1.00)" in even
    assert "2 am reads 1 I and 2 am most, and alike (0.50 each)" in even
    assert "4 this reads 4 tokens most, and alike (0.25 each)" in even


@pytest.mark.parametrize(
    ("contents", "choices", "what"),
    [
        ({"scores": [[3e38] * 3] * 3}, {"head_dim": 1, "temperature": 0.1}, "scores"),
        ({"values": [[3e38]] * 3, "weights": [[2.0] * 3] * 3}, {}, "context vectors"),
        (
            {"values": [[3e38]] * 3, "w_out": [[1.0]], "embeddings": [[3e38]] * 3},
            {"layers": 1, "norm": "pre"},
            "outputs of a block",
        ),
    ],
)
def test_what_is_too_large_is_named(
    contents: dict[str, Any], choices: dict[str, Any], what: str
) -> None:
    source = matrices({"queries": [[0.0]] * 3, "keys": [[0.0]] * 3, **contents})

    with pytest.raises(AttnvizError, match=f"the {what} are too large for float32"):
        trace(None, given=source, **choices)


@pytest.mark.parametrize("name", names())
def test_no_sentence_about_a_worked_example_is_false(name: str) -> None:
    example = shipped.example(name)
    made = example.trace()
    query = example.query or "1"

    said = sentences_of(made, "run, everything", query, 0, None)

    assert false_sentences(said) == []
    assert [check.text for check in verify(made) if check.failed] == []


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([0.2, 0.5, 0.3], "a reads b most (0.50)"),
        ([0.0, 0.0, 0.0], "a reads nothing"),
        ([-0.2, -0.1, -0.3], "a reads b most (-0.10)"),
        ([0.001, 0.0, 0.0], "a reads a most (1.0e-03)"),
        ([float("nan"), 0.0, 0.0], "a has weights that are no numbers"),
    ],
)
def test_a_picture_in_words_knows_odd_rows(weights: list[float], said: str) -> None:
    values = np.array([weights])
    axis = Axis("key", "token", ("a", "b", "c"), ("",) * 3)
    cells = Whole(values, np.zeros_like(values, dtype=bool))
    grid = Grid("", axis.part(slice(1)), axis, cells, Scale("weight", 0, 1), share=True)

    assert describe([grid]).endswith(f"{said}.")


# The self-checks.


def test_the_checks_name_the_weights_that_they_are_of() -> None:
    by_hand = [check.text for check in verify(of_matrices(embeddings=ROWS, weights=SHARES))]

    assert [text.split(":")[0] for text in by_hand] == [
        "✓ rows sum to 1, before others by hand take their place",
        "✓ hidden weights are 0, before others by hand take their place",
        "✓ torch's own attention agrees, before others by hand take their place",
        "✓ context vectors are made of the weights by hand",
    ]
    several = [check.claim for check in verify(trace("I am", layers=1, memory="you are"))]
    assert several[0] == "L0: rows sum to 1"
    assert several[3] == "L0 cross: rows sum to 1"


@pytest.mark.parametrize("name", MISTAKES)
def test_what_a_mistake_breaks_is_said_and_is_no_bug_of_ours(name: str) -> None:
    made = trace("I am learning this", variant="causal", heads=2, mistake=name)
    checks = verify(made)

    assert [check.text for check in checks if check.failed] == []
    broken = [check.text for check in checks if not check.passed]
    assert broken
    assert all(text.startswith("✗ ") and f"(the mistake: {name})" in text for text in broken)


def test_weights_after_dropout_that_are_none_are_found() -> None:
    made = trace("I am learning this", dropout=0.5)
    (layer,) = made.layers
    attended = replace(layer.attended, mixing=layer.attended.mixing + 0.01)
    checks = verify(replace(made, layers=(replace(layer, attended=attended),)))

    assert [check.claim for check in checks if check.failed] == [
        "dropout leaves 0, or what makes up for it",
        "context vectors are made of the weights after dropout",
    ]


def test_a_trace_of_a_mistake_is_verified_with_exit_0(attnviz: Attnviz, tmp_path: Path) -> None:
    path = str(tmp_path / "m.npz")
    attnviz("example", "show", "mistake-softmax-twice", "-o", path, "-q")

    result = attnviz("run", "--trace", path, "--verify")

    assert result.status == 0
    assert "✗ hidden weights are 0" in result.out
    assert "(the mistake: softmax-twice)" in result.out
