"""Extreme comparisons: every sentence that is printed is true of the numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from attnviz import trace
from attnviz.analysis.comparison import Comparison, compare, restrict_to_query
from attnviz.attention.mistakes import MISTAKES
from attnviz.errors import AttnvizError
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.settings import POSITIONS
from attnviz.traces.trace import Trace
from attnviz.views import comparison as views
from attnviz.views.view import View
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

DRAWS = 250  # in one test
KINDS = 20  # of claims that they make, at least
TEXTS = ("a", "a a a", "a b", "a b a c", "I am learning", "b c d", "the cat sat on")
BY = {
    "scale": 10, "mask": 5, "variant": 3, "positions": 3, "temperature": 3, "heads": 2, "dim": 2,
    "seed": 2, "dtype": 2, "tokenizer": 2, "text": 1,
}  # fmt: skip


class Draw(random.Random):
    """Everything that a comparison is made of, each as odd as it may be."""

    def rarely(self, *values: Any, usually: Any = None) -> Any:
        return self.choice(values) if self.random() < 0.3 else usually

    def settings(self) -> dict[str, Any]:
        return {
            "dim": self.choice((1, 2, 3, 4, 8, 8)),
            "temperature": self.choice((None, None, None, 1e-4, 1e-2, 0.3, 51.0, 1e4)),
            "positions": self.rarely(*POSITIONS, "alibi", usually="none"),
            "window": self.rarely(1, 2, 2, None),
            "causal": self.rarely(True, False),
            "dropout": self.rarely(0.5),
            "scale": self.rarely(True, False),
            "heads": self.rarely(1, 2),
            "variant": self.rarely("plain", "causal", "multi-head", "average", usually="scaled"),
            "dtype": self.rarely("float64", "float16", "bfloat16", usually="float32"),
            "seed": self.randrange(1000),
            **(self.others() if self.random() < 0.3 else {}),
        }

    def others(self) -> dict[str, Any]:
        """What else may be done to scores, and around attention."""
        block = {
            "layers": self.choice((1, 2)),
            "norm": self.choice(("pre", "post", "none")),
            "activation": self.choice(("relu", "gelu", "gelu-tanh")),
            "memory": self.rarely("a b"),
        }
        return {
            "soft_cap": self.rarely(0.01, 2.5, 50.0),
            "scoring": self.rarely("additive", usually="dot"),
            "kv_heads": self.rarely(1),
            **self.rarely(block, usually={}),
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

    def given(self) -> Trace:
        """Scores or vectors of one's own: all the same, far apart, or hardly."""
        count, size = self.choice((1, 2, 3)), self.choice((0.0, 1e-3, 1.0, 30.0, 1e4))
        numbers = np.random.default_rng(self.randrange(1000)).normal(size=(count, count)) * size
        name = self.choice(("scores", "embeddings", "queries"))
        found: dict[str, Any] = {name: numbers.tolist()}
        if name == "queries":  # one key more may be read by nobody
            keys = [*numbers.tolist(), *self.rarely([numbers[0].tolist()], usually=[])]
            found |= {"keys": keys, "values": keys}
        if name == "embeddings":
            found |= self.rarely({"positions": numbers[::-1].tolist()}, usually={})
        found |= self.rarely(self.mask(count, len(found.get("keys", numbers))), usually={})
        if self.random() < 0.2:
            found["weights"] = np.eye(count, len(found.get("keys", numbers))).tolist()
        elif self.random() < 0.4:  # some rows read nothing, or all do
            hidden = np.random.default_rng(self.randrange(1000)).random((count, 1)) < 0.5
            found["hidden"] = np.repeat(hidden, len(found.get("keys", numbers)), 1).tolist()
        head_dim = self.choice((1, 4, 64)) if name == "scores" else None
        return trace(None, given=parse_matrices(found), head_dim=head_dim)

    def mask(self, queries: int, keys: int) -> dict[str, Any]:
        """Which cells may be read, or what is added to them; of some rows none is."""
        cells = np.random.default_rng(self.randrange(1000))
        name = self.choice(("visible", "hidden", "mask"))
        yes = cells.integers(0, 2, size=(queries, keys))
        if name == "mask":
            yes = np.where(yes, self.choice((-np.inf, -1e9, -0.5)), 0.0)
        return {name: yes.tolist()}

    def compared(self) -> Comparison:
        by = self.choices([*BY], [*BY.values()])[0]
        if self.random() < 0.3 and by not in ("text", "tokenizer"):
            chosen = {
                name: self.settings()[name] for name in ("temperature", "positions", "causal")
            }
            return compare(self.given(), by=by, values=self.values(by), **chosen)
        text, other = self.choice(TEXTS), None
        settings = {"tokenizer": "words", **self.settings()}
        if by == "text":
            other = " ".join(self.sample(["a", "b", "c", "d", "I", "am"], text.count(" ") + 1))
        return compare(text, by=by, other=other, values=self.values(by), **settings)

    def repeats(self) -> int:
        return self.choice((1, 1, 1, 3, 10, 12))


def drawn(number: int) -> Evidence | None:
    """The comparison of this number, as it is shown; None where it cannot be made."""
    draw = Draw(number)
    try:
        made = draw.compared()
        query = draw.rarely("1", str(len(made.base.tokens)))
        with watched() as found:
            shown = views.view(made, query=query, repeats=draw.repeats())
        if query is not None:
            made = restrict_to_query(made, int(query) - 1)
    except AttnvizError:
        return None
    return Evidence(made, shown, found.get("measure_repeats"), found.get("sweep_comparison"))


@contextmanager
def watched() -> Iterator[dict[str, Any]]:
    """What is drawn over seeds on the way to a View."""
    found: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("measure_repeats", "sweep_comparison"):
            patch.setattr(views, name, _kept(found, name, getattr(views, name)))
        yield found


def _kept(found: dict[str, Any], name: str, function: Any) -> Any:
    def call(*arguments: Any) -> Any:
        found[name] = function(*arguments)
        return found[name]

    return call


def check_weights(said: Evidence) -> None:
    """Those of the softmax, and of nothing after it."""
    for way in said.comparison.alternatives:
        if not way.mistake:
            should = softmax(logits(way), way.visible.numpy())
            slack = ROUNDING[str(way.weights.dtype).removeprefix("torch.")]
            peak = float(np.abs(logits(way)).max())  # of which rounding takes its share
            off = np.abs(way.weights.double().numpy() - should).max()
            require(off <= slack * max(peak, 1), f"{way.name}: weights are {off} off")


def check_measures(said: Evidence, view: View) -> None:
    """The table of means."""
    groups = {group.name: group.panels for group in view.screen.groups}
    if not groups.get("measures"):
        return
    table: Any = groups["measures"][0]
    for row, way in enumerate(said.comparison.alternatives):
        weights = said.weights(way)
        if np.isnan(weights).any() or np.isnan(said.row_entropies(way)).all():
            continue
        expected = {
            "bits": np.nanmean(said.row_entropies(way)),
            "reads": said.effective_tokens(way),
            "peak": weights.max(-1)[~np.isnan(said.row_entropies(way))].mean(),
            "grad.": gradients(weights)[~np.isnan(said.row_entropies(way)).flatten()].mean(),
            "sum≠1": row_errors(said, way).mean(),
            "leak": (weights * ~said.visible_keys(way)).sum(-1).mean(),
        }
        for name, number in expected.items():
            column = table.columns.names.index(name)
            same = np.isclose(table.values[row, column], number, rtol=0, atol=1e-7, equal_nan=True)
            require(same, f"{way.name}: {name} is {number}")


def check_settings(said: Evidence, view: View) -> None:
    """Which weights are compared, where there are others."""
    layer = said.comparison.base.layer
    assert layer is not None
    by_hand, dropped = "weights" in layer.given, layer.attended.mixed_by == "dropout"
    require(
        ("before the given ones" in view.settings)
        == (by_hand and not said.comparison.base.mistake),
        view.settings,
    )
    require(("weights before dropout" in view.settings) == dropped, view.settings)
    require(view.settings.count("dropout") == dropped, view.settings)


def check_curves(said: Evidence, view: View) -> None:
    """What the notes of curves say they are drawn from, and their middles."""
    curves: Any = next(group.panels for group in view.screen.groups if group.name == "curves")
    require(bool(curves) == (said.sweep is not None), "curves")
    for each in curves:
        assert said.sweep is not None
        told = "one seed" if said.sweep.repeats == 1 else f"median of {said.sweep.repeats} seeds, "
        require(each.note.startswith(told), each.note)


def check(number: int) -> list[str]:
    """Which claims are made; all of them have to be true."""
    said = drawn(number)
    if said is None:
        return []
    try:
        check_weights(said)
        check_settings(said, said.view)
        check_measures(said, said.view)
        check_curves(said, said.view)
        check_title(said)
        return [check_sentence(said, each) for each in said.view.closing]
    except (FalseSentence, AssertionError, KeyError, ValueError, IndexError) as error:
        raise FalseSentence(f"comparison {number}: {error}\n{said.view.settings}") from error


@pytest.mark.draws(1000, DRAWS)
@pytest.mark.usefixtures("quick")
def test_every_sentence_of_an_extreme_comparison_is_true(first: int) -> None:
    made = {claim for number in range(first, first + DRAWS) for claim in check(number)}

    assert len(made) >= KINDS, made


# Sentences that were false once


BLIND = {"embeddings": [[1.0, 2.0], [0.5, 1.0]], "hidden": [[0, 1], [1, 1]]}


def test_of_what_reads_nothing_no_numbers_are_told() -> None:
    made = trace(None, given=parse_matrices(BLIND))

    assert compare(made).view(query="2", repeats=1).closing[-1] == (
        'There is nothing to compare: every key is masked for "x2" (2).'
    )
    assert compare(made, by="dtype").view(query="2").closing
    for by in ("positions", "variant"):
        assert "nan" not in "".join(compare(made, by=by).view(query="2", repeats=1).closing)


def test_a_row_that_reads_nothing_does_not_break_the_sums_of_others() -> None:
    made = trace(None, given=parse_matrices(BLIND))
    told = compare(made, by="mask", values=["none", "zero-scores"]).view(repeats=1).closing

    assert "hidden tokens get weight in zero-scores" in "".join(told)
    assert "do not sum" not in "".join(told)


def closing(text: str, **chosen: Any) -> str:
    query = chosen.pop("query", None)
    return "\n".join(compare(text, **chosen).view(query=query).closing)


def test_one_token_has_no_entropy_that_could_be_a_share() -> None:
    told = closing("of", by="tokenizer", values=["words", "chars"], window=1)
    assert told.endswith(
        "There is nothing to compare: a query that sees a single token gives it all its attention."
    )


@pytest.mark.parametrize("by", ["scale", "temperature", "seed", "heads", "dtype"])
@pytest.mark.parametrize(("hidden", "query"), [([1, 1], None), ([0, 1], "2")])
def test_a_query_that_reads_nothing_reads_no_token_whole(
    by: str, hidden: list[int], query: str | None
) -> None:
    given = {"embeddings": [[1, 0], [0, 1]], "hidden": [[each] * 2 for each in hidden]}
    values = {"heads": ["1", "2"], "dtype": ["float32", "float64"]}
    made = compare(trace(None, given=parse_matrices(given)), by=by, values=values.get(by))
    told = "\n".join(made.view(query=query).closing)
    who = "a query" if query is None else '"x2" (2)'
    assert told.endswith(f"There is nothing to compare: every key is masked for {who}.")
    assert "nan" not in told


def test_what_is_read_as_sharply_is_not_called_alike() -> None:
    """Both read one token whole, and not the same one."""
    told = closing("I am learning this", by="seed", values=[42, 43], temperature=1e-3)

    assert "1.0 → .00" in told
    assert told.endswith("Attention is equally sharp in both: 1.00 tokens.")


def test_tokens_that_are_all_the_same_have_scores_all_the_same() -> None:
    told = closing("the the the", tokenizer="words", by="dim", values=[2, 8])

    assert "so all scores are 0" not in told
    assert "the spread of unscaled scores stays at 0 and" in told


def test_with_a_bias_less_is_said_of_what_a_number_does() -> None:
    told = closing("a b c", tokenizer="words", by="heads", variant="average", positions="alibi")

    assert "all scores are 0 except for what ALiBi adds, whatever the number of heads is." in told


def test_how_much_is_read_says_nothing_of_how_much_weights_change() -> None:
    told = closing("I am learning this", temperature=51.0, positions="alibi")

    assert "nothing" not in told
    assert "hardly changes how many tokens a query attends to: 4.0 tokens with and" in told


def test_weights_that_move_are_not_next_to_nothing() -> None:
    """As many are read, and others."""
    made = compare("I am learning this", temperature=51.0, positions="alibi")

    assert made.view(repeats=1).closing[-1] == (
        "Scaling changes weights by up to .02, but a query attends to about as many tokens: 4.00 "
        "tokens with and without scaling."
    )


def test_a_mistake_that_does_nothing_has_no_effect_to_be_told() -> None:
    told = closing("I am", by="mask", values=["causal", "model-scale"], heads=1, positions="alibi")

    assert "flat" not in told
    assert told.endswith("model-scale cannot be told from the correct result.")


def test_a_mistake_whose_effect_shows_is_told_with_it() -> None:
    told = closing("I am", by="mask", values=["causal", "zero-scores"])

    assert "exp(0) is 1, so the future keeps weight" in told


def test_of_a_row_that_stands_alone_only_that_row_is_said() -> None:
    told = closing("a b c", tokenizer="words", by="mask", values=["causal", "none"], query="3")

    assert 'no weight of "c" (3) changes from causal to none' in told


def test_where_nothing_is_scaled_nothing_is_scaled_by_mistake() -> None:
    names = [each.name for each in compare("a b", by="mask", scale=False).alternatives]

    assert "model-scale" not in names
    with pytest.raises(AttnvizError, match="scores are not divided at all"):
        compare("a b", by="mask", values=["causal", "model-scale"], scale=False)


def test_columns_that_nobody_may_read_do_not_sum_to_one() -> None:
    given = {name: [[1.0], [2.0], [3.0]] for name in ("keys", "values")}
    made = trace(None, given=parse_matrices({"queries": [[1.0], [2.0]], **given}))
    told = compare(made, by="mask", values=["causal", "softmax-columns"]).view().closing

    assert told[0] == "✗ softmax-columns is a mistake: softmax over the wrong axis"
    assert told[-1] == "Here, rows do not sum to 1 in softmax-columns."


@pytest.mark.parametrize(
    ("name", "by"), [("visible", "mask"), ("scores", "dim"), ("tokens", "tokenizer")]
)
def test_ways_that_a_file_makes_the_same_are_refused(name: str, by: str) -> None:
    given = {"tokens": ["a", "b"], "embeddings": [[1, 2], [3, 4]]}
    given |= {"tokens": ["a", "b"]} if name == "tokens" else {name: [[1, 0], [1, 1]]}
    made = trace(None, given=parse_matrices(given), head_dim=2 if name == "scores" else None)

    with pytest.raises(AttnvizError):
        compare(made, by=by)


def test_weights_that_dropout_would_change_are_said_to_stand_before_it() -> None:
    assert "weights before dropout 0.5" in compare("I am", dropout=0.5).view().settings


def test_weights_by_hand_are_not_what_is_compared() -> None:
    made = compare(trace(None, given=parse_matrices({"weights": [[1, 0], [0, 1]]})))

    assert "weights of the softmax, before the given ones" in made.view().settings
    assert "random vectors" in made.view().screen.caption


def test_the_sizes_of_gradients_are_right_where_a_row_has_saturated() -> None:
    """1 − p is next to nothing there, and a difference would have no digit left."""
    scores = [[0.0, 40.0], [0.0, 40.0]]
    made = compare(
        trace(None, given=parse_matrices({"scores": scores}), head_dim=4), dtype="float64"
    )

    found = [float(each.gradient[0, 0]) for each in made.measures]
    expected = [2 / (2 + np.exp(each) + np.exp(-each)) for each in (40, 20)]
    assert np.allclose(found, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_picture_of_ways_that_cannot_be_subtracted_is_drawn(suffix: str) -> None:
    made = compare("tired I", by="tokenizer", values=["spaces", "bytes"], window=1)

    assert made.view().render(suffix)
