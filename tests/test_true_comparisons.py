"""Extreme comparisons: every sentence that is printed is true of the numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnviz import trace
from attnviz.analysis.comparison import Comparison, compare
from attnviz.attention.mistakes import MISTAKES
from attnviz.errors import AttnvizError
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.settings import POSITIONS
from attnviz.traces.trace import Trace
from attnviz.views import comparison as views
from attnviz.views.view import View
from tests import not_none
from tests.claims_of_comparisons import (
    ROUNDING,
    Evidence,
    FalseSentence,
    check_sentence,
    check_title,
    gradients,
    logits,
    require,
    row_errors,
    softmax,
)

DRAWS = 250  # random comparisons in one test
MIN_CLAIM_KINDS = 20  # that they make
TEXTS = ("a", "a a a", "a b", "a b a c", "I am learning", "b c d", "the cat sat on")
ASPECT_FREQUENCIES = {
    "scale": 10, "mask": 5, "variant": 3, "positions": 3, "temperature": 3, "heads": 2, "dim": 2,
    "seed": 2, "dtype": 2, "tokenizer": 2, "text": 1,
}  # fmt: skip


class Draw(random.Random):
    """A random source of everything that a comparison is made of, as unusual as it may be."""

    def choose_rarely(self, *values: Any, default: Any = None) -> Any:
        return self.choice(values) if self.random() < 0.3 else default

    def settings(self) -> dict[str, Any]:
        return {
            "dim": self.choice((1, 2, 3, 4, 8, 8)),
            "temperature": self.choice((None, None, None, 1e-4, 1e-2, 0.3, 51.0, 1e4)),
            "positions": self.choose_rarely(*POSITIONS, "alibi", default="none"),
            "window": self.choose_rarely(1, 2, 2, None),
            "causal": self.choose_rarely(True, False),
            "dropout": self.choose_rarely(0.5),
            "scale": self.choose_rarely(True, False),
            "heads": self.choose_rarely(1, 2),
            "variant": self.choose_rarely(
                "plain", "causal", "multi-head", "average", default="scaled"
            ),
            "dtype": self.choose_rarely("float64", "float16", "bfloat16", default="float32"),
            "seed": self.randrange(1000),
            **(self.other_settings() if self.random() < 0.3 else {}),
        }

    def other_settings(self) -> dict[str, Any]:
        """Settings of what else is done to scores, and around attention."""
        block = {
            "layers": self.choice((1, 2)),
            "norm": self.choice(("pre", "post", "none")),
            "activation": self.choice(("relu", "gelu", "gelu-tanh")),
            "memory": self.choose_rarely("a b"),
        }
        return {
            "soft_cap": self.choose_rarely(0.01, 2.5, 50.0),
            "scoring": self.choose_rarely("additive", default="dot"),
            "kv_heads": self.choose_rarely(1),
            **self.choose_rarely(block, default={}),
        }

    def values(self, by: str) -> list[str] | None:
        names: dict[str, tuple[str, ...]] = {
            "mask": ("causal", "none", "window", *MISTAKES),
            "variant": ("plain", "scaled", "causal", "multi-head", "average"),
            "positions": POSITIONS,
            "temperature": ("1e-4", "0.01", "1", "51", "1e4"),
            "heads": ("1", "2", "4"),
            "dim": ("1", "2", "3", "5", "8", "16"),
            "seed": ("1", "2", "3"),
            "dtype": ("float64", "float32", "float16", "bfloat16"),
            "tokenizer": ("words", "chars", "spaces", "bytes"),
        }
        if by not in names:
            return None
        count = self.choice((2, 2, 3)) if by != "mask" else self.choice((2, 4, 9))
        return self.sample(names[by], min(count, len(names[by])))

    def given_trace(self) -> Trace:
        """A trace of given scores or vectors: all equal, far apart, or close together."""
        count, size = self.choice((1, 2, 3)), self.choice((0.0, 1e-3, 1.0, 30.0, 1e4))
        numbers = np.random.default_rng(self.randrange(1000)).normal(size=(count, count)) * size
        name = self.choice(("scores", "embeddings", "queries"))
        contents: dict[str, Any] = {name: numbers.tolist()}
        if name == "queries":  # sometimes with one key more than queries
            keys = [*numbers.tolist(), *self.choose_rarely([numbers[0].tolist()], default=[])]
            contents |= {"keys": keys, "values": keys}
        if name == "embeddings":
            contents |= self.choose_rarely({"positions": numbers[::-1].tolist()}, default={})
        contents |= self.choose_rarely(
            self.mask(count, len(contents.get("keys", numbers))), default={}
        )
        if self.random() < 0.2:
            contents["weights"] = np.eye(count, len(contents.get("keys", numbers))).tolist()
        elif self.random() < 0.4:  # every key is masked in some rows
            hidden = np.random.default_rng(self.randrange(1000)).random((count, 1)) < 0.5
            contents["hidden"] = np.repeat(hidden, len(contents.get("keys", numbers)), 1).tolist()
        head_dim = self.choice((1, 4, 64)) if name == "scores" else None
        return trace(None, given=parse_matrices(contents), head_dim=head_dim)

    def mask(self, queries: int, keys: int) -> dict[str, Any]:
        """A given mask: which cells are visible, or what is added to them; some rows have none."""
        cells = np.random.default_rng(self.randrange(1000))
        name = self.choice(("visible", "hidden", "mask"))
        entries = cells.integers(0, 2, size=(queries, keys))
        if name == "mask":
            entries = np.where(entries, self.choice((-np.inf, -1e9, -0.5)), 0.0)
        return {name: entries.tolist()}

    def build_comparison(self) -> Comparison:
        by = self.choices([*ASPECT_FREQUENCIES], [*ASPECT_FREQUENCIES.values()])[0]
        if self.random() < 0.3 and by not in ("text", "tokenizer"):
            options = {
                name: self.settings()[name] for name in ("temperature", "positions", "causal")
            }
            return compare(self.given_trace(), by=by, values=self.values(by), **options)
        text, other = self.choice(TEXTS), None
        settings = {"tokenizer": "words", **self.settings()}
        if by == "text":
            other = " ".join(self.sample(["a", "b", "c", "d", "I", "am"], text.count(" ") + 1))
        return compare(text, by=by, other=other, values=self.values(by), **settings)

    def repeats(self) -> int:
        return self.choice((1, 1, 1, 3, 10, 12))


def draw_comparison(number: int) -> Evidence | None:
    """The random comparison with this number, with its view; None where it cannot be made."""
    draw = Draw(number)
    try:
        comparison = draw.build_comparison()
        query = draw.choose_rarely("1", str(len(comparison.base.tokens)))
        with record_computations() as measurements:
            view = views.view(comparison, query=query, repeats=draw.repeats())
        if query is not None:
            comparison = replace(comparison, query=int(query) - 1)
    except AttnvizError:
        return None
    return Evidence(
        comparison, view, measurements.get("measure_repeats"), measurements.get("sweep_comparison")
    )


@contextmanager
def record_computations() -> Iterator[dict[str, Any]]:
    """Record what a View measures over many seeds, by the name of the function."""
    measurements: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("measure_repeats", "sweep_comparison"):
            patch.setattr(views, name, record_result(measurements, name, getattr(views, name)))
        yield measurements


def record_result(measurements: dict[str, Any], name: str, function: Any) -> Any:
    def compute(*arguments: Any) -> Any:
        measurements[name] = function(*arguments)
        return measurements[name]

    return compute


def check_weights(comparison_view: Evidence) -> None:
    """Check that weights are those of the softmax, and of nothing after it."""
    for way in comparison_view.comparison.alternatives:
        if not way.mistake:
            expected = softmax(logits(way), way.visible.numpy())
            tolerance = ROUNDING[str(way.weights.dtype).removeprefix("torch.")]
            peak = float(np.abs(logits(way)).max())  # rounding errors grow with it
            difference = np.abs(way.weights.double().numpy() - expected).max()
            require(
                difference <= tolerance * max(peak, 1), f"{way.name}: weights are {difference} off"
            )


def check_measures(comparison_view: Evidence, view: View) -> None:
    """Check the table of means."""
    groups = {group.name: group.panels for group in view.screen.groups}
    if not groups.get("measures"):
        return
    table: Any = groups["measures"][0]
    for row, way in enumerate(comparison_view.comparison.alternatives):
        weights = comparison_view.weights(way)
        if np.isnan(weights).any() or np.isnan(comparison_view.row_entropies(way)).all():
            continue
        expected = {
            "bits": np.nanmean(comparison_view.row_entropies(way)),
            "reads": comparison_view.effective_tokens(way),
            "peak": weights.max(-1)[~np.isnan(comparison_view.row_entropies(way))].mean(),
            "grad.": gradients(weights)[
                ~np.isnan(comparison_view.row_entropies(way)).flatten()
            ].mean(),
            "sum≠1": row_errors(comparison_view, way).mean(),
            "leak": (weights * ~comparison_view.visible_keys(way)).sum(-1).mean(),
        }
        for name, number in expected.items():
            column = table.columns.names.index(name)
            is_close = np.isclose(
                table.values[row, column], number, rtol=0, atol=1e-7, equal_nan=True
            )
            require(is_close, f"{way.name}: {name} is {number}")


def check_settings(comparison_view: Evidence, view: View) -> None:
    """Check that the settings line says which weights are compared, where there are others."""
    layer = not_none(comparison_view.comparison.base.layer)
    has_given_weights, has_dropout = "weights" in layer.given, layer.attended.mixed_by == "dropout"
    require(
        ("before the given ones" in view.settings)
        == (has_given_weights and not comparison_view.comparison.base.mistake),
        view.settings,
    )
    require(("weights before dropout" in view.settings) == has_dropout, view.settings)
    require(view.settings.count("dropout") == has_dropout, view.settings)


def check_curves(comparison_view: Evidence, view: View) -> None:
    """Check what the notes of curves say they are computed from."""
    curves: Any = next(group.panels for group in view.screen.groups if group.name == "curves")
    require(bool(curves) == (comparison_view.sweep is not None), "curves")
    for each in curves:
        assert comparison_view.sweep is not None
        start = (
            "one seed"
            if comparison_view.sweep.repeats == 1
            else f"median of {comparison_view.sweep.repeats} seeds, "
        )
        notes = {
            "entropy 0 = a row reads one token",
            "gradient near 0 = hardly any of it reaches the scores",
        }
        meaning, _, rest = each.note.partition(" · ")
        require((rest if meaning in notes else each.note).startswith(start), each.note)


def check_comparison(number: int) -> list[str]:
    """Check all claims of the comparison with this number, and return their kinds."""
    comparison_view = draw_comparison(number)
    if comparison_view is None:
        return []
    try:
        check_weights(comparison_view)
        check_settings(comparison_view, comparison_view.view)
        check_measures(comparison_view, comparison_view.view)
        check_curves(comparison_view, comparison_view.view)
        check_title(comparison_view)
        return [check_sentence(comparison_view, each) for each in comparison_view.view.closing]
    except (FalseSentence, AssertionError, KeyError, ValueError, IndexError) as error:
        raise FalseSentence(
            f"comparison {number}: {error}\n{comparison_view.view.settings}"
        ) from error


@pytest.mark.slow("sentences")
@pytest.mark.draws(1000, DRAWS)
@pytest.mark.usefixtures("quick")
def test_every_sentence_of_an_extreme_comparison_is_true(first: int) -> None:
    claims = {claim for number in range(first, first + DRAWS) for claim in check_comparison(number)}

    assert len(claims) >= MIN_CLAIM_KINDS, claims


# Sentences that were false in earlier versions.


MASKED_ROW = {"embeddings": [[1.0, 2.0], [0.5, 1.0]], "hidden": [[0, 1], [1, 1]]}


def test_of_what_reads_nothing_no_numbers_are_told() -> None:
    trace_of_masked_row = trace(None, given=parse_matrices(MASKED_ROW))

    assert compare(trace_of_masked_row).view(query="2", repeats=1).closing[-1] == (
        'There is nothing to compare: every key is masked for "x2" (2).'
    )
    assert compare(trace_of_masked_row, by="dtype").view(query="2").closing
    for by in ("positions", "variant"):
        assert "nan" not in "".join(
            compare(trace_of_masked_row, by=by).view(query="2", repeats=1).closing
        )


def test_a_row_that_reads_nothing_does_not_break_the_sums_of_others() -> None:
    trace_of_masked_row = trace(None, given=parse_matrices(MASKED_ROW))
    sentences = (
        compare(trace_of_masked_row, by="mask", values=["none", "zero-scores"])
        .view(repeats=1)
        .closing
    )

    assert "hidden tokens get weight in zero-scores" in "".join(sentences)
    assert "do not sum" not in "".join(sentences)


def closing_text(text: str, **options: Any) -> str:
    query = options.pop("query", None)
    return "\n".join(compare(text, **options).view(query=query).closing)


def test_one_token_has_no_entropy_that_could_be_a_share() -> None:
    text = closing_text("of", by="tokenizer", values=["words", "chars"], window=1)
    assert text.endswith(
        "There is nothing to compare: a query that sees a single token gives it all its attention."
    )


@pytest.mark.parametrize("by", ["scale", "temperature", "seed", "heads", "dtype"])
@pytest.mark.parametrize(("hidden", "query"), [([1, 1], None), ([0, 1], "2")])
def test_a_query_that_reads_nothing_reads_no_token_whole(
    by: str, hidden: list[int], query: str | None
) -> None:
    contents = {"embeddings": [[1, 0], [0, 1]], "hidden": [[each] * 2 for each in hidden]}
    values = {"heads": ["1", "2"], "dtype": ["float32", "float64"]}
    comparison = compare(trace(None, given=parse_matrices(contents)), by=by, values=values.get(by))
    text = "\n".join(comparison.view(query=query).closing)
    subject = "a query" if query is None else '"x2" (2)'
    assert text.endswith(f"There is nothing to compare: every key is masked for {subject}.")
    assert "nan" not in text


def test_what_is_read_as_sharply_is_not_called_alike() -> None:
    """Both read one token whole, and not the same one."""
    text = closing_text("I am learning this", by="seed", values=[42, 43], temperature=1e-3)

    assert "1.0 → .00" in text
    assert text.endswith("Attention is equally sharp in both: 1.00 tokens.")


def test_tokens_that_are_all_the_same_have_scores_all_the_same() -> None:
    text = closing_text("the the the", tokenizer="words", by="dim", values=[2, 8])

    assert "so all scores are 0" not in text
    assert "the spread of unscaled scores stays at 0 and" in text


def test_with_a_bias_less_is_said_of_what_a_number_does() -> None:
    text = closing_text(
        "a b c", tokenizer="words", by="heads", variant="average", positions="alibi"
    )

    assert "all scores are 0 except for what ALiBi adds, whatever the number of heads is." in text


def test_how_much_is_read_says_nothing_of_how_much_weights_change() -> None:
    text = closing_text("I am learning this", temperature=51.0, positions="alibi")

    assert "nothing" not in text
    assert "hardly changes how many tokens a query attends to: 4.0 tokens with and" in text


def test_weights_that_move_are_not_next_to_nothing() -> None:
    """As many are read, and others."""
    comparison = compare("I am learning this", temperature=51.0, positions="alibi")

    assert comparison.view(repeats=1).closing[-1] == (
        "Scaling changes weights by up to .02, but a query attends to about as many tokens: 4.00 "
        "tokens with and without scaling."
    )


def test_a_mistake_that_does_nothing_has_no_effect_to_be_told() -> None:
    text = closing_text(
        "I am", by="mask", values=["causal", "model-scale"], heads=1, positions="alibi"
    )

    assert "flat" not in text
    assert text.endswith("model-scale cannot be told from the correct result.")


def test_a_mistake_whose_effect_shows_is_told_with_it() -> None:
    text = closing_text("I am", by="mask", values=["causal", "zero-scores"])

    assert "exp(0) is 1, so the future keeps weight" in text


def test_of_a_row_that_stands_alone_only_that_row_is_said() -> None:
    text = closing_text("a b c", tokenizer="words", by="mask", values=["causal", "none"], query="3")

    assert 'no weight of "c" (3) changes from causal to none' in text


def test_where_nothing_is_scaled_nothing_is_scaled_by_mistake() -> None:
    names = [each.name for each in compare("a b", by="mask", scale=False).alternatives]

    assert "model-scale" not in names
    with pytest.raises(AttnvizError, match="scores are not divided at all"):
        compare("a b", by="mask", values=["causal", "model-scale"], scale=False)


def test_columns_that_nobody_may_read_do_not_sum_to_one() -> None:
    contents = {name: [[1.0], [2.0], [3.0]] for name in ("keys", "values")}
    result = trace(None, given=parse_matrices({"queries": [[1.0], [2.0]], **contents}))
    sentences = compare(result, by="mask", values=["causal", "softmax-columns"]).view().closing

    assert sentences[0] == "✗ softmax-columns is a mistake: softmax over the wrong axis"
    assert sentences[-1] == "Here, rows do not sum to 1 in softmax-columns."


@pytest.mark.parametrize(
    ("name", "by"), [("visible", "mask"), ("scores", "dim"), ("tokens", "tokenizer")]
)
def test_ways_that_a_file_makes_the_same_are_refused(name: str, by: str) -> None:
    contents = {"tokens": ["a", "b"], "embeddings": [[1, 2], [3, 4]]}
    contents |= {"tokens": ["a", "b"]} if name == "tokens" else {name: [[1, 0], [1, 1]]}
    result = trace(None, given=parse_matrices(contents), head_dim=2 if name == "scores" else None)

    with pytest.raises(AttnvizError):
        compare(result, by=by)


def test_weights_that_dropout_would_change_are_said_to_stand_before_it() -> None:
    assert "weights before dropout 0.5" in compare("I am", dropout=0.5).view().settings


def test_weights_by_hand_are_not_what_is_compared() -> None:
    comparison = compare(trace(None, given=parse_matrices({"weights": [[1, 0], [0, 1]]})))

    assert "weights of the softmax, before the given ones" in comparison.view().settings
    assert "random vectors" in comparison.view().screen.caption


def test_the_sizes_of_gradients_are_right_where_a_row_has_saturated() -> None:
    """1 − p is next to nothing there, and a difference would have no digit left."""
    scores = [[0.0, 40.0], [0.0, 40.0]]
    comparison = compare(
        trace(None, given=parse_matrices({"scores": scores}), head_dim=4), dtype="float64"
    )

    gradient_sizes = [float(each.gradient[0, 0]) for each in comparison.measures]
    expected = [2 / (2 + np.exp(each) + np.exp(-each)) for each in (40, 20)]
    assert np.allclose(gradient_sizes, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_picture_of_ways_that_cannot_be_subtracted_is_drawn(suffix: str) -> None:
    comparison = compare("tired I", by="tokenizer", values=["spaces", "bytes"], window=1)

    assert comparison.view().render(suffix)
