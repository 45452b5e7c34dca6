"""The walk: which steps there are, what they say, and that their arithmetic keeps its word."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from attnviz import steps, trace
from attnviz.attention.variants import ACTIVATIONS, NORMS, VARIANTS
from attnviz.errors import AttnvizError
from attnviz.renderers.wrapping import align_sums
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.settings import POSITIONS, POSITIONS_WITH_BASE, ROTARY_POSITIONS, Settings
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Section
from attnviz.views.steps.scene import StepSettings
from attnviz.views.steps.step_selection import refuse_unknown_step, select_steps
from attnviz.views.steps.walk import step_sections
from attnviz.wording.numbers import NumberStyle
from attnviz.wording.sums import Sum
from tests.conftest import Attnviz
from tests.evaluate import holds
from tests.tiers import examples

TEXT = "I am learning this"
TEN_STEPS = [
    "tokens",
    "embeddings",
    "projections",
    "queries",
    "scores",
    "scaling",
    "mask",
    "softmax",
    "weighted",
    "context",
]


def list_steps(query: int | None = None, **changes: Any) -> list[Section]:
    step_settings = {
        name: changes.pop(name) for name in ("digits", "head", "layer", "full") if name in changes
    }
    return step_sections(trace(TEXT, **changes), StepSettings(query=query, **step_settings))


def find_step(name: str, query: int | None = None, **changes: Any) -> Section:
    return next(each for each in list_steps(query, **changes) if each.name == name)


def sum_lines(section: Section) -> list[str]:
    """The sums of a step, a line each."""
    return [each.text for each in section.sums]


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_has_the_ten_steps_under_their_numbers(variant: str) -> None:
    sections = list_steps(variant=variant)

    assert [each.name for each in sections] == TEN_STEPS
    assert [each.number for each in sections] == [str(number) for number in range(1, 11)]
    assert all(each.about.endswith(".") for each in sections)


@pytest.mark.parametrize(
    ("changes", "number", "name"),
    [
        ({"positions": "rotary"}, "4b", "rotary"),
        ({"positions": "alibi"}, "6b", "alibi"),
        ({"dropout": 0.5}, "8b", "dropout"),
        ({"layers": 1, "norm": "pre"}, "2b", "norm"),
        ({"layers": 1}, "11", "add-attention"),
        ({"layers": 1}, "12", "feed-forward"),
        ({"memory": "who"}, "12", "memory"),
        ({"memory": "who"}, "17", "cross-softmax"),
    ],
)
def test_what_a_variant_adds_is_a_step_of_its_own(
    changes: dict[str, Any], number: str, name: str
) -> None:
    numbered_names = [(each.number, each.name) for each in list_steps(**changes)]

    assert (number, name) in numbered_names
    assert len(set(numbered_names)) == len(numbered_names)


def test_the_tables_of_the_steps_are_the_trace() -> None:
    result = trace(TEXT, variant="causal")
    (layer,) = result.layers
    grids_by_step = {each.name: each.grids for each in step_sections(result)}

    assert np.array_equal(grids_by_step["scores"][0].values, layer.attended.scores[0].numpy())
    assert np.array_equal(
        grids_by_step["scaling"][0].values, layer.attended.scaled_scores[0].numpy()
    )
    assert np.array_equal(grids_by_step["softmax"][0].values, layer.attended.weights[0].numpy())
    assert grids_by_step["mask"][0].hidden.sum() == 6
    assert np.allclose(grids_by_step["weighted"][0].values.sum(0), layer.context[3].numpy())


@pytest.mark.parametrize("query", [None, 1])
def test_one_scale_of_colour_shows_that_scaling_makes_scores_smaller(query: int | None) -> None:
    """Slide by slide, too: of a step alone a colour means what it means in the others."""
    result = trace(TEXT, variant="causal")
    sections = {each.name: each for each in step_sections(result, StepSettings(query=query))}
    grids = [grid for name in ("scores", "scaling", "mask") for grid in sections[name].grids]
    moments = [grid for each in sections["scores"].moments for grid in each.grids]

    assert len({grid.scale for grid in grids}) == 1
    assert {grid.scale for grid in moments if grid.scale.label == "score"} == {grids[0].scale}
    assert grids[0].scale.high >= float(np.abs(grids[0].values).max())


def test_sides_of_tables_are_called_what_one_of_them_is() -> None:
    walk = steps(trace("I am"))
    [section] = [each for each in walk.sections if each.name == "queries"]

    titles = {each.rows.title for each in section.tables if isinstance(each, Grid)}
    assert titles == {"query", "key", "value"}
    assert "tokens: 2 × 1 (token)." in walk.view().screen.description  # without an empty name


def test_what_a_mask_hides_is_minus_infinity_in_its_step() -> None:
    values = find_step("mask", 1, variant="causal").grids[0].values

    assert np.isneginf(values).tolist() == [[False, False, True, True]]


def test_a_query_restricts_what_reads_and_not_what_is_read() -> None:
    grids_by_step = {each.name: each.grids for each in list_steps(query=2)}

    assert grids_by_step["softmax"][0].rows.labels == ("learning",)
    assert [len(grid.rows) for grid in grids_by_step["queries"]] == [1, 4, 4]
    assert len(grids_by_step["embeddings"][0].rows) == 4


def test_without_a_query_nothing_is_written_out() -> None:
    assert all(not each.sums for each in list_steps())


def test_the_arithmetic_of_a_small_example_is_the_textbooks(attnviz: Attnviz) -> None:
    """0.2566·0.8823 + 0.7936·0.9150 + 0.9408·0.3829 = 1.3127, from 'simplified'."""
    result = attnviz("example", "show", "simplified", "--step", "5,8,10", "--digits", "4", "--full")

    assert (
        "score(learning, I)        = 0.2566·0.8823 + 0.7936·0.9150 + 0.9408·0.3829 ≈ 1.3127"
        in result.out
    )
    assert "exp(1.3127) / (exp(1.3127) + exp(1.1213) + exp(1.5807) + exp(1.3343)) = 0.2407" in (
        result.out
    )
    assert "≈ [0.5165 0.7774 0.6536]" in result.out


def test_whole_numbers_are_written_whole(attnviz: Attnviz) -> None:
    result = attnviz("example", "show", "illustrated", "--step", "5,8")

    assert "score(Input 1, Input 2) = 1·4 + 0·4 + 2·0 = 4" in result.out
    assert "exp(4) / (exp(2) + exp(4) + exp(4)) = 0.47" in result.out


SETTINGS = st.fixed_dictionaries(
    {
        "variant": st.sampled_from([*VARIANTS]),
        "dim": st.sampled_from([1, 2, 4, 6]),
        "seed": st.integers(0, 1000),
        "positions": st.sampled_from(POSITIONS),
        "causal": st.booleans() | st.none(),
        "scale": st.booleans() | st.none(),
        "temperature": st.sampled_from([None, 0.01, 0.3, 2.0, 50.0]),
        "dropout": st.sampled_from([None, 0.25, 0.5]),
        "layers": st.sampled_from([None, 1, 2]),
        "norm": st.sampled_from(NORMS),
        "activation": st.sampled_from(ACTIVATIONS),
        "position_base": st.sampled_from([1.0, 500.0, 10_000.0, 5e5]),
        "memory": st.sampled_from([None, "who goes there"]),
    }
)


PLAIN_SETTINGS = {
    "variant": "scaled",
    "dim": 4,
    "positions": "none",
    "layers": None,
    "norm": "post",
    "activation": "relu",
    "position_base": 10_000.0,
    "memory": None,
}


def possible_settings(changes: dict[str, Any]) -> dict[str, Any]:
    """These settings without those that cannot be combined."""
    changes = dict(changes)
    if not VARIANTS[changes["variant"]].projected:
        changes["memory"] = None
    if changes["layers"] is None and changes["memory"] is None:
        changes |= {"norm": "post", "activation": "relu"}
    heads = 2 if changes["variant"] == "multi-head" else 1
    if changes["positions"] not in POSITIONS_WITH_BASE:
        changes["position_base"] = Settings.position_base
    if changes["dim"] % heads or (
        changes["positions"] in ROTARY_POSITIONS and changes["dim"] // heads % 2
    ):
        changes["dim"] = 4
    return changes


@profile(max_examples=examples(80))
@given(changes=SETTINGS, digits=st.integers(1, 6), query=st.integers(0, 3))
@example(changes=PLAIN_SETTINGS | {"temperature": 0.001}, digits=2, query=1)
def test_the_arithmetic_that_is_printed_keeps_its_word(
    changes: dict[str, Any], digits: int, query: int
) -> None:
    result = trace(TEXT, **possible_settings(changes))

    for section in step_sections(result, StepSettings(query=query, digits=digits, full=True)):
        for line in sum_lines(section):
            assert line.endswith("= −∞") or holds(line), line


def cell_counts(section: Section) -> list[int]:
    """How many cells of its last table each moment shows."""
    return [int((~np.isnan(moment.grids[-1].values)).sum()) for moment in section.moments]


def test_each_moment_shows_one_cell_more_until_the_row_is_whole() -> None:
    sections = {each.name: each for each in list_steps(query=2, variant="causal", dim=4)}

    assert cell_counts(sections["scores"]) == [1, 2, 3, 4]
    # The fourth cell is masked, and comes with the third.
    assert cell_counts(sections["softmax"]) == [1, 2, 4]
    assert cell_counts(sections["weighted"]) == [4, 8, 16]
    assert cell_counts(sections["context"]) == [1, 2, 3, 4]
    last = sections["softmax"].moments[-1].grids[-1]
    assert np.array_equal(last.values, sections["softmax"].grids[0].values)
    assert [each for each in sections if sections[each].moments] == [
        "scores",
        "softmax",
        "weighted",
        "context",
    ]


def test_a_moment_of_a_score_shows_the_key_that_it_is_of() -> None:
    for place, moment in enumerate(find_step("scores", 2).moments):
        (key,) = np.flatnonzero(~np.isnan(moment.grids[1].values).any(axis=1))
        assert key == place


def test_moments_keep_their_word_too() -> None:
    for section in list_steps(query=2, variant="causal"):
        for moment in section.moments:
            assert holds(moment.sums[0].text)


def test_an_equals_sign_is_refused_where_the_digits_do_not_add_up() -> None:
    assert holds("a = 0.33·3 = 0.99")
    assert not holds("a = 0.33·3 = 1.00")
    assert holds("a = 0.33·3 ≈ 1.00")
    assert not holds("a = 0.33·3 ≈ 1.02")
    assert not holds("a = [0.10 0.20] + [1.00 1.00] = [1.10 1.21]")


def test_signs_of_several_lines_stand_below_each_other() -> None:
    lines = align_sums([Sum("a", "1", "1", True), Sum("long", "2", "3", False)])

    assert tuple(lines) == ("a    = 1 = 1", "long = 2 ≈ 3")


@pytest.mark.parametrize(
    ("values", "value", "text"),
    [
        ([1.0, 2.0], 2.0, "2"),
        ([0.5, 2.0], 2.0, "2.00"),
        ([0.004, 0.002], 0.002, "2.0e-03"),
        ([0.01, 0.002], 0.002, "0.00"),
        ([0.5, 0.002], 0.002, "0.00"),
        ([-0.001, 3.5], -0.001, "0.00"),
        ([2.5e7], 2.5e7, "2.50e+07"),
    ],
)
def test_numbers_that_belong_together_are_written_alike(
    values: list[float], value: float, text: str
) -> None:
    assert NumberStyle(2).for_values(*values)(value) == text


def test_long_sums_are_cut_and_say_so_and_full_writes_them_all() -> None:
    short_sum, whole_sum = (
        sum_lines(find_step("scores", 0, dim=40, full=full))[0] for full in (False, True)
    )

    assert "… 32 more …" in short_sum
    assert short_sum.count("·") == 8
    assert whole_sum.count("·") == 40


def test_of_many_keys_those_that_weigh_most_are_written_out() -> None:
    result = trace("the cat sat on the mat and the dog sat on the log and looked at the cat")
    section = next(
        each for each in step_sections(result, StepSettings(query=3)) if each.name == "softmax"
    )

    assert len(section.sums) == 16
    keys = [re.search(r", (?:\d+ )?(\w+)\)", line) for line in sum_lines(section)]
    heaviest_key = result.tokens.labels[int(result.layers[0].attended.weights[0, 3].argmax())]
    assert heaviest_key in {key[1] for key in keys if key}
    assert section.remarks == (
        "written out: the 16 of 18 keys with the largest weights",
        "--full writes out everything",
    )


def test_a_token_that_stands_twice_is_named_with_its_number() -> None:
    result = trace("the cat the", tokenizer="words")
    section = next(
        each for each in step_sections(result, StepSettings(query=2)) if each.name == "scores"
    )

    assert section.sums[0].text.startswith("score(3 the, 1 the) = ")
    assert section.sums[1].text.startswith("score(3 the, cat)")


def test_one_head_can_be_followed() -> None:
    both_heads = find_step("scores", 1, variant="multi-head")
    one_head = find_step("scores", 1, variant="multi-head", head=1)

    assert len(both_heads.grids) == 2
    assert [grid.title for grid in one_head.grids] == ["scores · head 1"]
    assert one_head.sums == both_heads.sums[4:]


def test_parameters_are_counted() -> None:
    remarks_by_step = {each.name: each.remarks for each in list_steps(layers=1, dim=8)}

    assert remarks_by_step["embeddings"][0].endswith("50,257 × 8 = 402,056 numbers to learn")
    assert remarks_by_step["projections"][0].endswith("= 192 numbers to learn")
    assert remarks_by_step["context"] == ("w_out 8 × 8 = 64 numbers to learn",)
    assert remarks_by_step["feed-forward"][0].endswith("= 552 numbers to learn")
    # 192 + 64 + 8·32 + 32 + 32·8 + 8, and twice 16 for LayerNorm
    assert (
        remarks_by_step["add-feed-forward"][-1] == "in total, this layer has 840 numbers to learn"
    )


@pytest.mark.parametrize(
    ("selection", "numbers"),
    [
        ("scores", ["5"]),
        ("5", ["5"]),
        ("5-8", ["5", "6", "7", "8"]),
        ("8, 4", ["4", "8"]),
        ("keys", ["4"]),
        ("scores-mask", ["5", "6", "7"]),
        ("9-", ["9", "10"]),
        ("-2", ["1", "2"]),
        ("weights", ["8"]),
        ("9-12", ["9", "10"]),
    ],
)
def test_steps_are_chosen_by_name_number_and_range(selection: str, numbers: list[str]) -> None:
    assert [each.number for each in select_steps(list_steps(), selection)] == numbers


def test_a_range_holds_what_stands_between() -> None:
    numbers = [each.number for each in select_steps(list_steps(positions="rotary"), "4-5")]

    assert numbers == ["4", "4b", "5"]


def test_a_softmax_of_large_scores_is_written_less_the_largest() -> None:
    scores = {"scores": [[900.5, 899.25], [-800.5, -802.0]]}
    result = trace(None, given=parse_matrices(scores), variant="plain")
    first_lines, second_lines = (
        sum_lines(section)
        for query in (0, 1)
        for section in step_sections(result, StepSettings(query=query))
        if section.name == "softmax"
    )

    assert "exp(899.25 - 900.50) / (exp(900.50 - 900.50) + exp(899.25 - 900.50))" in first_lines[1]
    assert "exp(-800.50 + 800.50) / (exp(-800.50 + 800.50)" in second_lines[0]
    assert all(holds(line) for line in (*first_lines, *second_lines))


@pytest.mark.parametrize("variant", ["scaled", "causal"])
def test_the_softmax_of_a_query_is_three_rows_of_bars_that_are_the_formula(variant: str) -> None:
    section = find_step("softmax", query=2, variant=variant)
    assert section.bars is not None
    scores, exps, weights = section.bars.rows
    powers = [0.0 if score is None else math.exp(score) for score in scores.values]

    assert section.bars.names == ("I", "am", "learning", "this")
    assert exps.values == pytest.approx(powers)
    assert weights.values == pytest.approx([power / sum(powers) for power in powers], rel=1e-5)
    assert (scores.values[3] is None) == (variant == "causal") == (scores.value_texts[3] == "−∞")
    assert (exps.total, weights.total) == (f"sum {sum(powers):.2f}", "sum 1")
    assert section.finding.startswith('Softmax: "I" scores highest and gets ')


def test_equal_scores_have_no_highest_and_only_one_row_of_one_head_is_bars() -> None:
    assert find_step("softmax", query=1, variant="average").finding == ""
    assert find_step("softmax").bars is None
    assert find_step("softmax", query=1, variant="multi-head", heads=2).bars is None


@pytest.mark.slow("pictures")
def test_a_width_of_thousands_takes_no_time(attnviz: Attnviz) -> None:
    result = attnviz("steps", TEXT, "--dim", "2048", "--query", "am", "--step", "4,10")

    assert result.status == 0
    assert "… 2040 more …" in result.out


REFUSED_OPTIONS = {
    "step": (["--step", "scroes"], "there is no step 'scroes'", "did you mean 'scores'?"),
    "step number": (["--step", "14"], "there is no step 14", "the steps are: 1 tokens, 2 emb"),
    "range": (["--step", "12-14"], "there are no steps 12-14", "the steps are: 1 tokens"),
    "no step": (["--step", ","], "--step is empty", "use --step scores"),
    "rotary": (["--step", "rotary"], "there is no step 'rotary' here", "it needs --positions"),
    "place": (
        ["-o", "a-{stp}.png"],
        "'{stp}' in 'a-{stp}.png' has no meaning",
        "{step} stands",
    ),
    "no memory": (["--memory", " "], "--memory: the text is blank", "give a sentence"),
    "digits": (["--digits", "20"], "--digits is 20, and must be from 1 to 12", "try --digits 12"),
    "layer": (
        ["--layer", "1"],
        "there is no layer 1: layers count from 0, and there is 1",
        "stack some with --layers 2",
    ),
    "head": (
        ["--head", "2", "-v", "multi-head"],
        "there is no head 2: there are 2 heads, numbered from 0",
        "try --head 1",
    ),
    "pace": (
        ["--seconds-per-step", "0"],
        "--seconds-per-step is 0, and must be from 0.1 to 60",
        "try --seconds-per-step 0.1",
    ),
    "memory": (
        ["--memory", "who", "-v", "plain"],
        "--memory needs queries of one sentence",
        "try --variant scaled",
    ),
    "norm alone": (["--norm", "pre"], "--norm is about transformer blocks", "give --layers 1"),
    "norm": (
        ["--layers", "1", "--norm", "per"],
        "there is no place for the norm 'per'",
        "did you mean 'pre'?",
    ),
    "activation": (
        ["--layers", "1", "--activation", "rela"],
        "there is no activation 'rela'",
        "did you mean 'relu'?",
    ),
    "layers": (["--layers", "0"], "--layers is 0, and must be from 1 to 1,000", "try --layers 1"),
    "key alone": (
        ["--key", "am"],
        "--key needs a --query: a score has a query and a key",
        "add --query TOKEN",
    ),
    "unknown key": (
        ["--query", "am", "--key", "thsi"],
        "no token of the sentence is 'thsi'",
        "did you mean 'this'?",
    ),
    "key that is not compared": (
        ["--query", "am", "--key", "am", "-v", "average"],
        "'average' attention does not compare queries with keys",
        "use --variant scaled, or leave out --key",
    ),
}


@pytest.mark.parametrize("name", REFUSED_OPTIONS)
def test_bad_input_gets_two_lines(attnviz: Attnviz, name: str) -> None:
    options, problem, hint = REFUSED_OPTIONS[name]

    result = attnviz("steps", TEXT, *options)

    assert (result.status, result.out) == (2, "")
    first, second = result.err.splitlines()
    assert first.startswith(f"error: {problem}")
    assert second.startswith(f" hint: {hint}")


def test_a_file_for_each_step(attnviz: Attnviz, tmp_path: Path) -> None:
    options = ["--positions", "rotary", "--step", "4-5", "-o"]
    result = attnviz("steps", TEXT, *options, str(tmp_path / "s-{step}.txt"))

    assert result.status == 0
    names = ["s-04-queries.txt", "s-04b-rotary.txt", "s-05-scores.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert result.err.splitlines()[0].endswith("s-04-queries.txt")
    assert "Step 5: scores" in (tmp_path / names[2]).read_text("utf-8")


def test_the_data_of_steps_is_that_of_run(attnviz: Attnviz) -> None:
    steps_data = json.loads(attnviz("steps", TEXT, "--layers", "2", "--json").out)
    run_data = json.loads(attnviz("run", TEXT, "--layers", "2", "--json").out)

    assert steps_data["layers"] == run_data["layers"]
    assert set(run_data["layers"][0]["block"]) >= {
        "norm",
        "attention",
        "feed_forward",
        "hidden",
        "w_1",
    }


def test_the_last_layer_reads_what_the_first_made() -> None:
    result = trace(TEXT, layers=2)
    section = step_sections(result, StepSettings(layer=1))[1]

    assert section.name == "inputs"
    assert np.array_equal(section.grids[0].values, result.layers[0].outputs.numpy())
    with pytest.raises(AttnvizError):
        step_sections(result, StepSettings(layer=2))


def test_course_notes_in_markdown(
    attnviz: Attnviz, tmp_path: Path, check_golden: Callable[[str, str], None]
) -> None:
    """Of whole numbers, so that the file depends on no build of torch."""
    notes = tmp_path / "notes.md"

    assert attnviz("example", "show", "illustrated", "-o", str(notes)).status == 0

    check_golden("illustrated.md", notes.read_text("utf-8"))


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "rotary"},
        {"positions": "rotary-halves", "layers": 1, "norm": "none"},
        {"positions": "alibi", "dropout": 0.1},
        {"layers": 2},
        {"memory": "I am", "norm": "pre", "dropout": 0.1},
    ],
    ids=str,
)
def test_no_step_that_there_is_can_be_refused_before_there_is_a_walk(
    changes: dict[str, Any],
) -> None:
    for section in step_sections(trace("I am", **changes)):
        refuse_unknown_step(section.name)
        refuse_unknown_step(f"{section.name}-,{section.number}")
    with pytest.raises(AttnvizError, match="there is no step 'skores'"):
        refuse_unknown_step("tokens,skores")


def test_turned_numbers_below_zero_have_one_sign_each() -> None:
    sections = list_steps(3, dim=4, positions="rotary")
    rotated_sums = [
        each.text for section in sections for each in section.sums if "·cos(" in each.text
    ]
    assert any("-" in each for each in rotated_sums)
    assert not [each for each in rotated_sums if "- -" in each or "+ -" in each]


@pytest.mark.parametrize(
    ("settings", "title"),
    [
        ({}, 'The weights of "this" mix the values into its context vector'),
        ({"heads": 2}, ""),  # joined
        ({"layers": 1}, ""),  # and projected by a matrix
        ({"without": "L0H0"}, ""),
    ],
)
def test_the_step_of_contexts_alone_says_what_mixes_one_heads_values(
    settings: dict[str, Any], title: str
) -> None:
    view = steps(TEXT, step="context", **settings).view()

    assert view.sections[0].finding == title
    assert not title or view.headline == title
