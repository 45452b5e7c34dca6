"""One score as two arrows: their lengths, their angle, and what is said of it."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from attnviz import trace
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.trace import Trace
from attnviz.views.grids.section import Plane, Section, cosine_between, vector_length
from attnviz.views.steps.scene import StepSettings
from attnviz.views.steps.walk import step_sections, steps
from tests.conftest import Attnviz
from tests.evaluate import holds
from tests.tiers import examples

TEXT = "I am learning this"
VECTORS = st.lists(st.tuples(*[st.floats(-50, 50)] * 2), min_size=1, max_size=6)


def pair_of(
    pair_trace: Trace, query: int = 0, key: int = 1, name: str = "scores", **choices: Any
) -> Section:
    sections = step_sections(pair_trace, StepSettings(query=query, key=key, **choices))
    return next(each for each in sections if each.name == name)


def score_and_angle(query: list[float], key: list[float]) -> tuple[Section, Section]:
    """The sections on the score and on the angle of one query and one key."""
    zeros = [0.0] * len(query)
    numbers = {"queries": [query, zeros], "keys": [zeros, key], "values": [[1.0], [2.0]]}
    pair_trace = trace(None, given=parse_matrices(numbers), variant="plain")
    return pair_of(pair_trace), pair_of(pair_trace, name="angle")


def test_a_textbook_pair_has_the_angle_of_the_textbook() -> None:
    """(3, 4)·(4, 3) = 24 = 5·5·0.96, and arccos(0.96) is 16.26 degrees."""
    section, angle = score_and_angle([3.0, 4.0], [4.0, 3.0])

    assert [line.text.split(" = ", 1)[1] for line in section.sums] == [
        "3·4 + 4·3 = 24",
        "4.80·5 = 24",
    ]
    assert [line.text.split(" = ", 1)[1] for line in angle.sums] == [
        "√(3² + 4²) = 5",
        "√(4² + 3²) = 5",
        "24 / (5·5) = 0.96",
        "arccos(0.96) = 16.26°",
        "5·5·0.96 = 24",
    ]
    assert [arrow.length_text for arrow in section.planes[0].arrows] == ["5", "5"]
    assert section.planes[0].angle == "16°"
    assert section.planes[0].projection == "4.80"


def test_an_angle_reads_as_a_right_one_or_as_none_only_if_it_is() -> None:
    angles = [
        score_and_angle([1.0, 0.0], key)[0].planes[0].angle
        for key in ([0.0, 1.0], [0.004, 1.0], [1.0, 0.004], [-1.0, 0.004], [2.0, 0.0], [1.0, 1.0])
    ]

    assert angles == ["90°", "89.77°", "0.23°", "179.77°", "0°", "45°"]


@pytest.mark.parametrize(
    ("query", "key", "phrase"),
    [
        ([1.0, 1.0], [2.0, 1.0], "less than 90° apart, and the score is above 0."),
        ([1.0, 1.0], [-2.0, -1.0], "more than 90° apart, and the score is below 0."),
        ([1.0, 0.0], [0.0, 2.0], "nearly at right angles"),
        ([1.0, 2.0], [2.0, 4.0], "the same direction"),
        ([2.0], [3.0], "the same direction"),
        ([1.0, 2.0], [-2.0, -4.0], "opposite directions"),
        ([2.0], [-3.0], "opposite directions"),
        ([0.0, 0.0], [1.0, 2.0], "has length 0"),
        ([0.0], [0.0], "has length 0"),
    ],
)
def test_what_is_said_of_an_angle_is_so(query: list[float], key: list[float], phrase: str) -> None:
    section, angle = score_and_angle(query, key)

    assert phrase in angle.about
    assert all(holds(line.text) for line in (*section.sums, *angle.sums))
    assert len(angle.sums) == (2 if "length 0" in phrase else 5)


@given(VECTORS)
def test_a_plane_keeps_lengths_and_angle(pairs: list[tuple[float, float]]) -> None:
    query, key = map(list, zip(*pairs, strict=True))
    plane = Plane("", _arrows(query, key), cosine_between(query, key), "")

    first, second = plane.tips

    dot = first[0] * second[0] + first[1] * second[1]
    size = vector_length(query) * vector_length(key)
    assert math.hypot(*first) == pytest.approx(vector_length(query))
    assert math.hypot(*second) == pytest.approx(vector_length(key), abs=1e-4 * (1 + size))
    assert dot == pytest.approx(sum(x * y for x, y in pairs), rel=1e-6, abs=1e-6 * (1 + size))


def _arrows(*vectors: list[float]) -> Any:
    from attnviz.views.grids.section import Arrow

    return tuple(Arrow("", vector_length(vector), "") for vector in vectors)


@pytest.mark.slow("sentences")
@profile(max_examples=examples(40))
@given(
    seed=st.integers(0, 1000),
    dim=st.sampled_from([1, 2, 8, 40]),
    digits=st.integers(1, 6),
    places=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_the_arithmetic_of_a_pair_keeps_its_word(
    seed: int, dim: int, digits: int, places: tuple[int, int]
) -> None:
    pair_trace = trace(TEXT, seed=seed, dim=dim)
    query, key = places
    section = pair_of(pair_trace, query, key, digits=digits, full=True)
    angle = pair_of(pair_trace, query, key, "angle", digits=digits, full=True)

    assert all(holds(line.text) for line in (*section.sums, *angle.sums))
    score_match = re.search(r" ([-\d.e]+)$", section.sums[0].text)
    assert score_match is not None
    score = float(pair_trace.layers[0].attended.scores[0, query, key])
    assert float(score_match[1]) == pytest.approx(score, abs=0.5 * 10.0**-digits + 1e-5)


def test_each_head_has_a_plane_and_one_head_can_be_asked_for() -> None:
    heads_trace = trace(TEXT, variant="multi-head")

    assert [plane.title for plane in pair_of(heads_trace).planes] == ["head 0", "head 1"]
    assert [plane.title for plane in pair_of(heads_trace, head=1).planes] == ["head 1"]
    assert "90°" not in pair_of(heads_trace, name="angle").about


def test_a_key_restricts_the_arithmetic_of_the_other_steps() -> None:
    sums_by_step = {
        each.name: each.sums for each in step_sections(trace(TEXT), StepSettings(query=1, key=3))
    }

    for name in ("scaling", "softmax", "weighted"):
        assert [
            re.match(r"\w+\(am, this\)", line.text) is not None for line in sums_by_step[name]
        ] == [True]
    assert [line.left for line in sums_by_step["queries"]] == [
        "query(am)",
        "key(this)",
        "value(this)",
    ]


def test_the_mask_of_a_hidden_key_is_told() -> None:
    causal_trace = trace(TEXT, variant="causal")

    assert pair_of(causal_trace, 1, 3).remarks[0].endswith("step 7 sets the score to −∞")
    assert pair_of(causal_trace, 3, 1).remarks == ()


def test_the_command_of_a_pair_names_both_by_their_numbers() -> None:
    view = steps(TEXT, query="am", key="this", step="5").view()

    assert view.command is not None
    assert "--query 2 --key 4 --step 5" in view.command.line


def test_a_key_that_stands_twice_is_asked_for_by_its_number(attnviz: Attnviz) -> None:
    result = attnviz("steps", "a b a", "-t", "words", "--query", "b", "--key", "a")

    assert result.err.splitlines()[1] == " hint: give the number of one of them: --key 1 or 3"


def test_given_scores_have_no_vectors_to_draw() -> None:
    scores_trace = trace(None, given=parse_matrices({"scores": [[1.0, 2.0], [3.0, 4.0]]}))

    with pytest.raises(Exception, match="the scores are given, not computed from a query"):
        pair_of(scores_trace)


def test_the_angle_stands_after_the_softmax_and_the_score_reads_as_no_equation() -> None:
    sections = step_sections(trace("5 2 3", tokenizer="words"), StepSettings(query=1, key=2))
    names = [each.name for each in sections]
    score = sections[names.index("scores")]

    assert names.index("softmax") < names.index("angle") < names.index("weighted")
    assert re.fullmatch(r'score of query "2" and key "3": -?[\d.]+', score.title)
    assert len(score.sums) == 2
    assert "drawn" not in score.about


CHANGES_OF_SCORES: dict[str, tuple[dict[str, Any], str]] = {
    "ALiBi": ({"positions": "alibi"}, r"biased.* = \S+ - [\d.]+·2 \(ALiBi\) [=≈] \S+"),
    "cap": ({"soft_cap": 2.0}, r"capped.* = 2·tanh\(\S+ / 2\) [=≈] \S+"),
}


@pytest.mark.parametrize("name", CHANGES_OF_SCORES)
def test_the_mask_step_says_in_one_line_what_was_done_to_a_score(name: str) -> None:
    settings, line = CHANGES_OF_SCORES[name]
    pair_trace = trace(TEXT, **settings)
    mask = pair_of(pair_trace, 2, 0, "mask")

    assert len(mask.sums) == 1
    assert re.fullmatch(line, mask.sums[0].text)
    assert holds(mask.sums[0].text)


def test_a_number_that_a_mask_adds_is_in_the_line_and_nothing_is_said_to_be_hidden() -> None:
    toy_trace = trace("the animal crossed the street it slept", model="toy")
    mask = pair_of(toy_trace, 0, 0, "mask", head=2)

    assert [line.text for line in mask.sums] == [
        "with mask H2(1 the, 1 the) = 0 + 5 (additive mask) = 5"
    ]
    assert mask.formula == ""
    assert mask.about.endswith('The mask hides nothing from "the" (1) in head 2.')
    assert pair_of(toy_trace, 0, 0, "mask", head=0).formula.startswith("masked scores become −∞")


def test_a_weight_near_0_or_1_is_not_written_as_0_or_1() -> None:
    toy_trace = trace("the animal crossed the street it slept", model="toy")
    near_one, near_zero = (pair_of(toy_trace, 0, key, "softmax", head=2).sums for key in (0, 2))

    assert near_one[0].text.endswith(" = 0.9961")
    assert re.search(r" [=≈] 0\.0009$", near_zero[0].text)
    assert holds(near_one[0].text)
    assert holds(near_zero[0].text)


def test_scaling_speaks_of_large_scores_only_where_there_are_some() -> None:
    sentence = "nearly all the weight to the largest"
    average_trace = trace(TEXT, variant="average", scale=True)

    assert sentence not in pair_of_all(average_trace, "scaling").about
    assert sentence in pair_of_all(trace(TEXT), "scaling").about


def pair_of_all(pair_trace: Trace, name: str) -> Section:
    return next(each for each in step_sections(pair_trace, StepSettings()) if each.name == name)
