"""Models written by hand: the toy does what it says, and a user's file is read as written."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.cells import cell_len

from attnviz.errors import AttnvizError
from attnviz.renderers.terminal.lines import view_lines
from attnviz.renderers.terminal.screen import Screen
from attnviz.traces import toml_reader
from attnviz.traces.from_text import trace
from attnviz.traces.matrices import Matrices
from attnviz.traces.models import by_hand
from attnviz.traces.models.model import FULL_SIGHT, Sight, restrict_sight
from attnviz.traces.models.model_names import find_model_path
from attnviz.traces.models.shipped import load_model
from attnviz.traces.trace import Trace
from attnviz.views.grids.section import open_panels
from attnviz.views.steps.scene import StepSettings, build_scene
from attnviz.views.steps.walk import steps, why_step
from attnviz.views.view import View
from tests.conftest import ROOT
from tests.evaluate import holds

DIMENSIONS = (
    *("animal", "person", "action", "place"),
    *("plural", "describes", "refers back", "ends"),
)
REFERS, DOES, DESCRIBES, ENDS = range(4)  # the heads of the toy
FAMOUS_SENTENCE = "The animal didn't cross the street because it was too tired."
SMALL = """
dimensions = ["a", "b"]

[words]
one = { a = 1 }
two = { b = 2 }

[[heads]]
does = "looks for b"
asks = ["b"]
hands = ["a"]

[heads.query]
a = { b = 3 }

[heads.key]
b = { b = 0.5 }
"""


def test_the_toy_knows_some_eighty_words_in_eight_numbers_that_have_names() -> None:
    toy = load_model("toy")
    assert toy.dimensions == DIMENSIONS
    assert 75 <= len(toy.vocabulary.words) <= 90
    assert len(toy.heads) == 4
    used_numbers = torch.cat([toy.embeddings, toy.matrices.tensors["w_query"].T])
    assert bool((used_numbers != 0).any(0).all())  # no number means something to nobody


def find_most_read(toy_trace: Trace, head: int, query: int) -> tuple[int, float]:
    """Which token a token reads most in a head, and with which weight."""
    row = toy_trace.layers[0].attended.weights[head, query]
    return int(row.argmax()), float(row.max())


NOUNS: Mapping[tuple[str, bool], str] = {  # by what they are, and whether they are several
    ("animal", False): "cat",
    ("animal", True): "horses",
    ("person", False): "girl",
    ("person", True): "children",
}
PRONOUNS: Mapping[tuple[str, bool], str] = {
    ("animal", False): "it",
    ("animal", True): "they",
    ("person", False): "she",
    ("person", True): "they",
}


def pronouns_differ(first: tuple[str, bool], second: tuple[str, bool]) -> bool:
    """Whether a pronoun tells which of the two it refers to."""
    return PRONOUNS[first] != PRONOUNS[second]


Claims = list[tuple[int, int, int]]  # in a head a token reads another: by their places


def sentences() -> Iterator[tuple[str, Claims]]:
    """Sentences of the toy's words, with their references, subjects and descriptions."""
    for (first, noun), (second, other) in itertools.permutations(NOUNS.items(), 2):
        verb = "were" if first[1] else "was"
        if pronouns_differ(first, second):
            yield (
                f"The old {noun} chased the {other} because {PRONOUNS[first]} {verb} hungry .",
                [(DESCRIBES, 1, 2), (DOES, 3, 2), (REFERS, 7, 2), (DESCRIBES, 9, 7)],
            )
            yield (
                f"A {noun} saw the young {other} and {PRONOUNS[second]} ran to the river .",
                [(DOES, 2, 1), (DESCRIBES, 4, 5), (REFERS, 7, 5), (DOES, 8, 7)],
            )
        yield (
            f"The {noun} ran and the big {other} slept .",
            [(DOES, 2, 1), (DESCRIBES, 5, 6), (DOES, 7, 6)],
        )
    for (kind, noun), place in itertools.product(NOUNS.items(), ("house", "streets")):
        yield (
            f"The {noun} near the quiet {place} waited .",
            [(DESCRIBES, 4, 5), (DOES, 6, 1)],
        )
        yield (
            f"The {noun} {'were' if kind[1] else 'was'} tired . {PRONOUNS[kind]} slept .",
            [(DESCRIBES, 3, 1), (REFERS, 5, 1), (DOES, 6, 5)],
        )
    yield ("The street was wide because it was old .", [(REFERS, 5, 1), (DESCRIBES, 7, 5)])
    yield (FAMOUS_SENTENCE, [(DOES, 3, 1), (REFERS, 7, 1), (DESCRIBES, 10, 7)])


SENTENCES = dict(sentences())


@pytest.mark.slow_table("sentences", keep=8)
@pytest.mark.parametrize("text", SENTENCES)
def test_what_each_head_of_the_toy_says_is_what_it_does(text: str) -> None:
    toy_trace = trace(text, model="toy")
    for head, query, key in SENTENCES[text]:
        key_read, weight = find_most_read(toy_trace, head, query)
        assert key_read == key, (toy_trace.tokens.labels[query], toy_trace.tokens.labels[key_read])
        assert weight > 0.5


CONTENT = ("animal", "person", "action", "describes")


@pytest.mark.slow_table("sentences", keep=8)
@pytest.mark.parametrize("text", SENTENCES)
def test_what_ends_a_sentence_gathers_what_it_was_about(text: str) -> None:
    toy_trace = trace(text, model="toy")
    last = toy_trace.layers[0].attended.weights[ENDS, -1]
    columns = [DIMENSIONS.index(name) for name in CONTENT]
    is_about_content = (toy_trace.embeddings[:, columns] > 0).any(1)
    assert float(last[is_about_content].sum()) > 0.9
    assert float(last[is_about_content].min()) > float(last[~is_about_content].max())


@pytest.mark.slow_table("sentences", keep=8)
@pytest.mark.parametrize("text", SENTENCES)
def test_a_word_that_asks_for_nothing_in_a_head_keeps_to_itself(text: str) -> None:
    toy_trace = trace(text, model="toy")
    queries = toy_trace.layers[0].queries
    assert queries is not None
    queries_of_zeros = (queries == 0).all(-1).nonzero().tolist()
    assert len(queries_of_zeros) > len(toy_trace.tokens)
    assert all(
        find_most_read(toy_trace, head, query)[0] == query for head, query in queries_of_zeros
    )


def read_toy_file() -> Mapping[str, Any]:
    """The file of the toy, read as plain TOML."""
    path = find_model_path("toy")
    return toml_reader.parse(path.read_text(encoding="utf-8"), str(path))


def matrix_from_table(table: Mapping[str, Any], rows: list[str], columns: list[str]) -> np.ndarray:
    return np.array([[table.get(row, {}).get(name, 0.0) for name in columns] for row in rows])


def weights_from_file(
    words: list[str], head: Mapping[str, Any], dimensions: list[str]
) -> np.ndarray:
    """A head's weights computed from its file, one pair of words at a time."""
    contents = read_toy_file()
    vectors = matrix_from_table(contents["words"], words, dimensions)
    query = vectors @ matrix_from_table(head["query"], dimensions, head["asks"])
    key = vectors @ matrix_from_table(head["key"], dimensions, head["asks"])
    exponentials = np.zeros((len(words), len(words)))
    for i, j in itertools.product(range(len(words)), repeat=2):
        if j <= i or head.get("sees", "all") == "all":
            score = float(query[i] @ key[j]) / math.sqrt(len(head["asks"]))
            score += head["itself"] * (i == j) - head.get("near", 0) * abs(i - j)
            exponentials[i, j] = math.exp(score)
    shares: np.ndarray = exponentials / exponentials.sum(1, keepdims=True)
    return shares


@pytest.mark.parametrize("head", range(4))
def test_the_weights_of_the_toy_are_those_of_its_file(head: int) -> None:
    contents = read_toy_file()
    toy_trace = trace(FAMOUS_SENTENCE, model="toy")
    words = [label.lower() for label in toy_trace.tokens.labels]
    expected_weights = weights_from_file(words, contents["heads"][head], contents["dimensions"])
    assert np.allclose(
        toy_trace.layers[0].attended.weights[head].numpy(), expected_weights, atol=1e-6
    )


def test_what_it_reads_in_the_famous_sentence_can_be_worked_out_on_paper() -> None:
    # animal: (14 + 6) / 2 = 10; street: (8 + 6) / 2 = 7; it: (-8 + 6) / 2 + 5 = 4; five others 0.
    total = math.exp(10) + math.exp(7) + math.exp(4) + 5
    row = trace(FAMOUS_SENTENCE, model="toy").layers[0].attended.weights[REFERS, 7].tolist()
    expected_sums = {1: math.exp(10), 5: math.exp(7), 7: math.exp(4), 8: 0.0, 11: 0.0}
    assert {place: row[place] for place in expected_sums} == pytest.approx(
        {place: each / total for place, each in expected_sums.items()}
    )


SIGHTS = [
    Sight(sees=sees, itself=itself, near=near)
    for sees in ("all", "before", "after")
    for itself in (0.0, 2.0, None)
    for near in (0.0, 0.5)
]


def test_a_head_sees_and_prefers_what_its_file_says() -> None:
    matrices = restrict_sight(Matrices(), [SIGHTS], 5)
    assert matrices.hidden is not None
    assert matrices.mask is not None
    for head, sight in enumerate(SIGHTS):
        for query, key in itertools.product(range(5), repeat=2):
            is_hidden_side = {"all": False, "before": key > query, "after": key < query}[sight.sees]
            is_itself = query == key
            assert bool(matrices.hidden[head, query, key]) == (
                is_hidden_side or (is_itself and sight.itself is None)
            )
            expected_mask = (sight.itself or 0) * is_itself - sight.near * abs(query - key)
            assert float(matrices.mask[head, query, key]) == pytest.approx(expected_mask)


def test_heads_that_see_everything_alike_need_no_mask() -> None:
    assert restrict_sight(Matrices(), [[FULL_SIGHT] * 3], 5).tensors == {}


def write_small_model(tmp_path: Path, text: str = SMALL) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_small_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    model = by_hand.read_written_model(write_small_model(tmp_path))
    assert model.embeddings.tolist() == [[1, 0], [0, 2]]
    assert {name: each.tolist() for name, each in model.matrices.tensors.items()} == {
        "w_query": [[3], [0]],
        "w_key": [[0], [0.5]],
        "w_value": [[1], [0]],
        "w_out": [[1, 0]],
    }
    assert model.heads == {"L0H0": "looks for b"}
    small_trace = trace("one two", model=str(write_small_model(tmp_path)))
    assert small_trace.layers[0].attended.weights[0, 0].tolist() == pytest.approx(
        [1 / (1 + math.exp(3)), math.exp(3) / (1 + math.exp(3))]
    )


PROBLEM_BY_CHANGE = {  # of the small file: a text and its replacement; the line and the problem
    ("dimensions = ", "dimension = "): "line 2 of '{}': there is no key 'dimension'",
    ('["a", "b"]', '["a", "a"]'): "line 2 of '{}': 'a' is in 'dimensions' twice",
    ('["a", "b"]', "3"): "line 2 of '{}': 'dimensions' is not a list of names",
    ("{ a = 1 }", "{ c = 1 }"): "line 5 of '{}': there is no column 'c'",
    ("{ a = 1 }", "{ a = true }"): "line 5 of '{}': 'one' is not a table of numbers",
    ("{ a = 1 }", "{ a = nan }"): "line 5 of '{}': 'one' is not a table of numbers",
    ("{ a = 1 }", "1"): "line 5 of '{}': 'one' is not a table of numbers",
    ("one = ", '"one two" = '): "line 5 of '{}': 'one two' is cut into 2 tokens",
    ("one = ", '"" = '): "line 5 of '{}': '' is empty",
    ('hands = ["a"]', 'hands = ["c"]'): "line 11 of '{}': 'c' is handed on, and there is no",
    ('asks = ["b"]\n', ""): "line 8 of '{}': there is no 'asks'",
    ("does = ", "says = "): "line 9 of '{}': there is no key of a head 'says'",
    ("a = { b = 3 }", "c = { b = 3 }"): "line 14 of '{}': there is no row 'c'",
    ("b = { b = 0.5 }", "b = { a = 0.5 }"): "line 17 of '{}': there is no column 'a'",
    ("[heads.key]", "near = -1\n\n[heads.key]"): "line 16 of '{}': there is no row 'near'",
    ("does = ", "near = -1\ndoes = "): "line 9 of '{}': 'near' is not a number from 0",
    (
        "does = ",
        "sees = 'left'\ndoes = ",
    ): "line 9 of '{}': 'sees' is not one of all, before, after",
    ("does = ", "itself = 'no'\ndoes = "): "line 9 of '{}': 'itself' is not true, false, or a",
    ("does = ", "layer = 1\ndoes = "): "line 9 of '{}': layer 0 has 0 heads, and layer 1 has 1",
    ("[words]", "[settings]\nscale = 3\n[words]"): "line 5 of '{}': 'scale' is not true or false",
    ("[words]", "[settings]\nheads = 3\n[words]"): "line 5 of '{}': there is no setting 'heads'",
    ("[words]", "[settings]\ntemperature = 0\n[words]"): "line 5 of '{}': temperature",
    ("[words]", "[spelled]\neins = 'on'\n[words]"): "line 5 of '{}': there is no word 'on'",
    ("[[heads]]", "[heads]"): "line 8 of '{}': 'heads' is not a list of tables",
    ("[words]\n", "[other]\n"): "line 4 of '{}': there is no key 'other'",
}


@pytest.mark.parametrize("change", PROBLEM_BY_CHANGE)
def test_what_is_wrong_with_a_file_is_said_with_its_line(
    change: tuple[str, str], tmp_path: Path
) -> None:
    before, after = change
    assert before in SMALL
    path = write_small_model(tmp_path, SMALL.replace(before, after, 1))
    with pytest.raises(AttnvizError) as error:
        by_hand.read_written_model(path)
    assert str(error.value).startswith(PROBLEM_BY_CHANGE[change].format(path))
    assert error.value.hint
    assert "\n" not in f"{error.value}{error.value.hint}"


def test_heads_of_one_model_are_as_wide_as_each_other(tmp_path: Path) -> None:
    second = SMALL[SMALL.index("[[heads]]") :].replace('asks = ["b"]', 'asks = ["b", "x"]')
    with pytest.raises(AttnvizError, match=r"line 21 .* 'asks' has 2 names, but that of the first"):
        by_hand.read_written_model(write_small_model(tmp_path, f"{SMALL}\n{second}"))


@pytest.mark.parametrize("query", ["it", None])
def test_wherever_vectors_of_the_toy_are_shown_their_numbers_have_names(query: str | None) -> None:
    toy_trace = trace(FAMOUS_SENTENCE, model="toy")
    walk = steps(toy_trace, query=query).view()
    view = toy_trace.view(show=["all"])
    panels = [*open_panels(walk.screen.panels), *view.screen.panels, *view.picture.panels]
    axes = [axis for each in panels for axis in (each.rows, each.columns)]  # type: ignore[union-attr]
    dimension_axes = [axis for axis in axes if axis.unit == "dimension" and axis.title]
    assert dimension_axes
    assert all(all(axis.labels) for axis in dimension_axes)
    assert {axis.labels for axis in dimension_axes if len(axis) == 8} == {DIMENSIONS}


def test_the_matrices_of_each_head_are_shown_with_their_names() -> None:
    walk = steps(trace(FAMOUS_SENTENCE, model="toy"), step="projections", head=1)
    (section,) = walk.sections
    titles = [grid.title for grid in section.grids]
    assert titles == ["w_query · head 1", "w_key · head 1", "w_value · head 1"]
    query = section.grids[0]
    assert query.rows.labels == DIMENSIONS
    assert query.columns.labels == ("animal", "person", "pronoun", "place")
    assert query.values[DIMENSIONS.index("action")].tolist() == [24, 24, 2, -24]


def test_steps_explain_every_weight_by_its_numbers_and_say_the_sentence_of_the_head() -> None:
    (section,) = steps(trace(FAMOUS_SENTENCE, model="toy"), step="why", query="it", head=0).sections
    assert "In head 0, a word that refers back looks for a noun before it." in section.about
    assert [line.text for line in section.sums] == [
        "match H0(it, animal) = (animal 14·1 + singular 6·1) / √4 = 10",
        "match H0(it, street) = (place 8·1 + singular 6·1) / √4 = 7",
        "match H0(it, it) = (person 8·(-1) + singular 6·1) / √4 + 5 = 4",
    ]
    assert section.remarks == (
        'head 0: "it" asks for animal 14, person 8, place 8 and singular 6',
        'head 0: "animal" (95\u00a0%) is found by animal 1 and singular 1',
        'head 0: "street" (5\u00a0%) is found by place 1 and singular 1',
    )


NAMES_OF_NUMBERS = re.compile(r"(?<=[( ])[a-z][a-z ]* (?=-?\d)")  # of a number that is multiplied


@pytest.mark.slow_table("sentences", keep=2)
@pytest.mark.parametrize("text", [*SENTENCES][::7])
def test_what_explains_a_weight_holds(text: str) -> None:
    toy_trace = trace(text, model="toy")
    for place in range(len(toy_trace.tokens)):
        (section,) = why_step(build_scene(toy_trace, StepSettings(query=place)))
        assert all(holds(NAMES_OF_NUMBERS.sub("", line.text)) for line in section.sums)
        for grid in section.grids:  # the products add up to the scores
            head = int(grid.title.rpartition(" ")[2])
            scores = toy_trace.layers[0].attended.scores[head, place].numpy()
            assert np.allclose(grid.values.sum(1), scores, atol=1e-4)


def test_nothing_is_explained_by_names_where_there_are_none() -> None:
    with pytest.raises(AttnvizError) as error:
        steps("I am here", step="why")
    assert error.value.hint == (
        'it needs a model whose heads have named dimensions, such as model="toy"'
    )


HEADS = "[[heads]]"  # of a model that is written by hand


def write_model_of_page(tmp_path: Path) -> str:
    """Write the model on the page about models, which copies; returns its path."""
    page = (ROOT / "docs" / "learning.md").read_text("utf-8")
    [code] = [code for code in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if HEADS in code]
    assert all(
        re.search(rf"\b{key}\b", code) for key in (*by_hand.MODEL_FILE_KEYS, *by_hand.HEAD_KEYS)
    )
    assert all(re.search(rf"\b{key}\b", code) for key in by_hand.SETTING_DESCRIPTIONS)
    path = tmp_path / "copies.toml"
    path.write_text(code, encoding="utf-8")
    return str(path)


def test_the_file_on_the_page_about_models_copies_by_two_heads(tmp_path: Path) -> None:
    path, letters = write_model_of_page(tmp_path), "a b c a c b alpha"
    toy_trace = trace(letters, model=path)
    lower_layer, upper_layer = toy_trace.layers
    for place in range(1, 7):
        assert float(lower_layer.attended.weights[0, place, place - 1]) > 0.999
    assert lower_layer.hidden_rows(0) == [0]
    for place, earlier_places in ((3, [1]), (4, [3]), (5, [2]), (6, [1, 4])):
        assert float(upper_layer.attended.weights[0, place, earlier_places].sum()) > 0.999
    next_letter = upper_layer.attended.contexts[0, 3]
    assert next_letter.tolist() == pytest.approx([0, 1, 0], abs=1e-3)


def test_what_is_handed_on_below_is_read_above_under_its_name(tmp_path: Path) -> None:
    toy_trace = trace("a b c a", model=write_model_of_page(tmp_path))
    walk = steps(toy_trace, layer=1)
    inputs = next(each for each in walk.sections if each.name == "inputs").grids[0]
    numbers_by_name = dict(zip(inputs.columns.labels, inputs.values[1].tolist(), strict=True))
    assert numbers_by_name["b"] == 1
    assert numbers_by_name["after a"] == pytest.approx(1)


def test_what_the_page_says_that_the_toy_does_not_know_it_does_not() -> None:
    trace_of_ran = trace("The dog chased the cat and ran", model="toy")
    assert find_most_read(trace_of_ran, DOES, 6)[0] == 4  # the cat, for it is nearer
    trace_of_he = trace("The boy asked the man because he was hungry", model="toy")
    row = trace_of_he.layers[0].attended.weights[REFERS, 6]
    assert float(row[1]) == pytest.approx(float(row[4]))


def panel_titles(toy_trace: Trace) -> list[str]:
    """The titles of a picture's panels."""
    return [panel.title for panel in open_panels(toy_trace.view().picture.panels)]


def test_what_heads_do_is_not_claimed_where_somebody_changed_what_they_see() -> None:
    claim = "a describing word looks at what it describes"
    unchanged_trace, causal_trace = (
        trace(FAMOUS_SENTENCE, model="toy", causal=each) for each in (None, True)
    )
    assert f"head 2: {claim}" in unchanged_trace.view().closing
    assert any(claim in title for title in panel_titles(unchanged_trace))
    assert f"head 2 (as written): {claim}" in causal_trace.view().closing
    assert not any(claim in title for title in panel_titles(causal_trace))


def screen_lines(view: View, width: int) -> list[str]:
    return [line.plain.rstrip() for line in view_lines(view, Screen(width))]


def test_names_over_tables_stand_level_beside_each_other_and_downwards_where_it_is_narrow() -> None:
    view = steps(trace(FAMOUS_SENTENCE, model="toy"), step="projections").view()
    wide_lines = screen_lines(view, 80)
    first = wide_lines.index(
        next(line for line in wide_lines if line.startswith("w_value · head 0"))
    )
    assert "w_value · head 1" in wide_lines[first]
    assert wide_lines[first + 1].split() == ["refers"]
    names = ["animal", "person", "place", "plural", "animal", "person", "plural", "back"]
    assert wide_lines[first + 2].split() == names
    assert wide_lines[first + 3].split() == ["animal", "1", "0", "0", "0", "1", "0", "0", "0"]
    narrow_lines = screen_lines(view, 36)
    assert all(cell_len(line) <= 36 for line in narrow_lines)
    assert not any("animal person" in line for line in narrow_lines)
