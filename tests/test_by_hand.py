"""Models by hand: the toy does what it says, and a file of one's own is read as it stands."""

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
FAMOUS = "The animal didn't cross the street because it was too tired."
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
    used = torch.cat([toy.embeddings, toy.matrices.tensors["w_query"].T])
    assert bool((used != 0).any(0).all())  # no number means something to nobody


def most_read(traced: Trace, head: int, query: int) -> tuple[int, float]:
    """Which token a token reads most in a head, and with which weight."""
    row = traced.layers[0].attended.weights[head, query]
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


def apart(one: tuple[str, bool], other: tuple[str, bool]) -> bool:
    """Whether a pronoun tells which of the two it refers to."""
    return PRONOUNS[one] != PRONOUNS[other]


Claims = list[tuple[int, int, int]]  # in a head a token reads another: by their places


def sentences() -> Iterator[tuple[str, Claims]]:
    """Sentences of the toy's words, with who refers to whom, who does what, and what is what."""
    for (one, noun), (two, other) in itertools.permutations(NOUNS.items(), 2):
        was = "were" if one[1] else "was"
        if apart(one, two):
            yield (
                f"The old {noun} chased the {other} because {PRONOUNS[one]} {was} hungry .",
                [(DESCRIBES, 1, 2), (DOES, 3, 2), (REFERS, 7, 2), (DESCRIBES, 9, 7)],
            )
            yield (
                f"A {noun} saw the young {other} and {PRONOUNS[two]} ran to the river .",
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
    yield (FAMOUS, [(DOES, 3, 1), (REFERS, 7, 1), (DESCRIBES, 10, 7)])


SENTENCES = dict(sentences())


@pytest.mark.parametrize("text", SENTENCES)
def test_what_each_head_of_the_toy_says_is_what_it_does(text: str) -> None:
    traced = trace(text, model="toy")
    for head, query, key in SENTENCES[text]:
        found, weight = most_read(traced, head, query)
        assert found == key, (traced.tokens.labels[query], traced.tokens.labels[found])
        assert weight > 0.5


CONTENT = ("animal", "person", "action", "describes")


@pytest.mark.parametrize("text", SENTENCES)
def test_what_ends_a_sentence_gathers_what_it_was_about(text: str) -> None:
    traced = trace(text, model="toy")
    last = traced.layers[0].attended.weights[ENDS, -1]
    columns = [DIMENSIONS.index(name) for name in CONTENT]
    about = (traced.embeddings[:, columns] > 0).any(1)
    assert float(last[about].sum()) > 0.9
    assert float(last[about].min()) > float(last[~about].max())


@pytest.mark.parametrize("text", SENTENCES)
def test_a_word_that_asks_for_nothing_in_a_head_keeps_to_itself(text: str) -> None:
    traced = trace(text, model="toy")
    queries = traced.layers[0].queries
    assert queries is not None
    silent = (queries == 0).all(-1).nonzero().tolist()
    assert len(silent) > len(traced.tokens)
    assert all(most_read(traced, head, query)[0] == query for head, query in silent)


def read_again() -> Mapping[str, Any]:
    """The file of the toy, in no way but TOML's."""
    path = find_model_path("toy")
    return toml_reader.parse(path.read_text(encoding="utf-8"), str(path))


def written(table: Mapping[str, Any], rows: list[str], columns: list[str]) -> np.ndarray:
    return np.array([[table.get(row, {}).get(name, 0.0) for name in columns] for row in rows])


def weights_again(words: list[str], head: Mapping[str, Any], dimensions: list[str]) -> np.ndarray:
    """A head's weights from what is written of it, a pair of words at a time."""
    contents = read_again()
    vectors = written(contents["words"], words, dimensions)
    query = vectors @ written(head["query"], dimensions, head["asks"])
    key = vectors @ written(head["key"], dimensions, head["asks"])
    found = np.zeros((len(words), len(words)))
    for i, j in itertools.product(range(len(words)), repeat=2):
        if j <= i or head.get("sees", "all") == "all":
            score = float(query[i] @ key[j]) / math.sqrt(len(head["asks"]))
            score += head["itself"] * (i == j) - head.get("near", 0) * abs(i - j)
            found[i, j] = math.exp(score)
    shares: np.ndarray = found / found.sum(1, keepdims=True)
    return shares


@pytest.mark.parametrize("head", range(4))
def test_the_weights_of_the_toy_are_those_of_its_file(head: int) -> None:
    contents = read_again()
    traced = trace(FAMOUS, model="toy")
    words = [label.lower() for label in traced.tokens.labels]
    wanted = weights_again(words, contents["heads"][head], contents["dimensions"])
    assert np.allclose(traced.layers[0].attended.weights[head].numpy(), wanted, atol=1e-6)


def test_what_it_reads_in_the_famous_sentence_can_be_worked_out_on_paper() -> None:
    # animal: (14 + 6) / 2 = 10; street: (8 + 6) / 2 = 7; it: (-8 + 6) / 2 + 5 = 4; five others 0.
    whole = math.exp(10) + math.exp(7) + math.exp(4) + 5
    row = trace(FAMOUS, model="toy").layers[0].attended.weights[REFERS, 7].tolist()
    wanted = {1: math.exp(10), 5: math.exp(7), 7: math.exp(4), 8: 0.0, 11: 0.0}
    assert {place: row[place] for place in wanted} == pytest.approx(
        {place: each / whole for place, each in wanted.items()}
    )


SIGHTS = [
    Sight(sees=sees, itself=itself, near=near)
    for sees in ("all", "before", "after")
    for itself in (0.0, 2.0, None)
    for near in (0.0, 0.5)
]


def test_a_head_sees_and_prefers_what_its_file_says() -> None:
    found = restrict_sight(Matrices(), [SIGHTS], 5)
    assert found.hidden is not None
    assert found.mask is not None
    for head, sight in enumerate(SIGHTS):
        for query, key in itertools.product(range(5), repeat=2):
            behind = {"all": False, "before": key > query, "after": key < query}[sight.sees]
            own = query == key
            assert bool(found.hidden[head, query, key]) == (
                behind or (own and sight.itself is None)
            )
            more = (sight.itself or 0) * own - sight.near * abs(query - key)
            assert float(found.mask[head, query, key]) == pytest.approx(more)


def test_heads_that_see_everything_alike_need_no_mask() -> None:
    assert restrict_sight(Matrices(), [[FULL_SIGHT] * 3], 5).tensors == {}


def small(tmp_path: Path, text: str = SMALL) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_small_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    model = by_hand.read_written_model(small(tmp_path))
    assert model.embeddings.tolist() == [[1, 0], [0, 2]]
    assert {name: each.tolist() for name, each in model.matrices.tensors.items()} == {
        "w_query": [[3], [0]],
        "w_key": [[0], [0.5]],
        "w_value": [[1], [0]],
        "w_out": [[1, 0]],
    }
    assert model.heads == {"L0H0": "looks for b"}
    traced = trace("one two", model=str(small(tmp_path)))
    assert traced.layers[0].attended.weights[0, 0].tolist() == pytest.approx(
        [1 / (1 + math.exp(3)), math.exp(3) / (1 + math.exp(3))]
    )


REFUSED = {  # what is changed in the small file, and what is said of it: the line, and the problem
    ("dimensions = ", "dimension = "): "line 2 of '{}': there is no key 'dimension'",
    ('["a", "b"]', '["a", "a"]'): "line 2 of '{}': 'a' is in 'dimensions' twice",
    ('["a", "b"]', "3"): "line 2 of '{}': 'dimensions' is not a list of names",
    ("{ a = 1 }", "{ c = 1 }"): "line 5 of '{}': there is no column 'c'",
    ("{ a = 1 }", "{ a = true }"): "line 5 of '{}': 'one' is not a table of numbers",
    ("{ a = 1 }", "{ a = nan }"): "line 5 of '{}': 'one' is not a table of numbers",
    ("{ a = 1 }", "1"): "line 5 of '{}': 'one' is not a table of numbers",
    ("one = ", '"one two" = '): "line 5 of '{}': 'one two' is cut into one and two",
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


@pytest.mark.parametrize("change", REFUSED)
def test_what_is_wrong_with_a_file_is_said_with_its_line(
    change: tuple[str, str], tmp_path: Path
) -> None:
    before, after = change
    assert before in SMALL
    path = small(tmp_path, SMALL.replace(before, after, 1))
    with pytest.raises(AttnvizError) as refused:
        by_hand.read_written_model(path)
    assert str(refused.value).startswith(REFUSED[change].format(path))
    assert refused.value.hint
    assert "\n" not in f"{refused.value}{refused.value.hint}"


def test_heads_of_one_model_are_as_wide_as_each_other(tmp_path: Path) -> None:
    second = SMALL[SMALL.index("[[heads]]") :].replace('asks = ["b"]', 'asks = ["b", "x"]')
    with pytest.raises(AttnvizError, match=r"line 21 .* 'asks' has 2 names, but that of the first"):
        by_hand.read_written_model(small(tmp_path, f"{SMALL}\n{second}"))


@pytest.mark.parametrize("query", ["it", None])
def test_wherever_vectors_of_the_toy_are_shown_their_numbers_have_names(query: str | None) -> None:
    traced = trace(FAMOUS, model="toy")
    walked = steps(traced, query=query).view()
    shown = traced.view(show=["all"])
    panels = [*open_panels(walked.screen.panels), *shown.screen.panels, *shown.picture.panels]
    axes = [axis for each in panels for axis in (each.rows, each.columns)]  # type: ignore[union-attr]
    counting = [axis for axis in axes if axis.unit == "dimension" and axis.title]
    assert counting
    assert all(all(axis.labels) for axis in counting)
    assert {axis.labels for axis in counting if len(axis) == 8} == {DIMENSIONS}


def test_the_matrices_of_each_head_are_shown_with_their_names() -> None:
    walked = steps(trace(FAMOUS, model="toy"), step="projections", head=1)
    (section,) = walked.sections
    titles = [grid.title for grid in section.grids]
    assert titles == ["w_query · head 1", "w_key · head 1", "w_value · head 1"]
    query = section.grids[0]
    assert query.rows.labels == DIMENSIONS
    assert query.columns.labels == ("animal", "person", "pronoun", "place")
    assert query.values[DIMENSIONS.index("action")].tolist() == [24, 24, 2, -24]


def test_steps_explain_every_weight_by_its_numbers_and_say_the_sentence_of_the_head() -> None:
    (section,) = steps(trace(FAMOUS, model="toy"), step="why", query="it", head=0).sections
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


NAMED = re.compile(r"(?<=[( ])[a-z][a-z ]* (?=-?\d)")  # of a number that is multiplied


@pytest.mark.parametrize("text", [*SENTENCES][::7])
def test_what_explains_a_weight_holds(text: str) -> None:
    traced = trace(text, model="toy")
    for place in range(len(traced.tokens)):
        (section,) = why_step(build_scene(traced, StepSettings(query=place)))
        assert all(holds(NAMED.sub("", line.text)) for line in section.sums)
        for grid in section.grids:  # the products add up to the scores
            head = int(grid.title.rpartition(" ")[2])
            scores = traced.layers[0].attended.scores[head, place].numpy()
            assert np.allclose(grid.values.sum(1), scores, atol=1e-4)


def test_nothing_is_explained_by_names_where_there_are_none() -> None:
    with pytest.raises(AttnvizError) as refused:
        steps("I am here", step="why")
    assert refused.value.hint == (
        'it needs a model whose heads have named dimensions, such as model="toy"'
    )


def from_the_page(tmp_path: Path) -> str:
    """The file of the page about models, which copies."""
    page = (ROOT / "docs" / "models.md").read_text("utf-8")
    code = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert code
    assert all(
        re.search(rf"\b{key}\b", code[1]) for key in (*by_hand.MODEL_FILE_KEYS, *by_hand.HEAD_KEYS)
    )
    assert all(re.search(rf"\b{key}\b", code[1]) for key in by_hand.SETTING_DESCRIPTIONS)
    path = tmp_path / "copies.toml"
    path.write_text(code[1], encoding="utf-8")
    return str(path)


def test_the_file_on_the_page_about_models_copies_by_two_heads(tmp_path: Path) -> None:
    path, letters = from_the_page(tmp_path), "a b c a c b alpha"
    traced = trace(letters, model=path)
    below, above = traced.layers
    for place in range(1, 7):
        assert float(below.attended.weights[0, place, place - 1]) > 0.999
    assert below.hidden_rows(0) == [0]
    for place, behind in ((3, [1]), (4, [3]), (5, [2]), (6, [1, 4])):
        assert float(above.attended.weights[0, place, behind].sum()) > 0.999
    followed = above.attended.contexts[0, 3]
    assert followed.tolist() == pytest.approx([0, 1, 0], abs=1e-3)


def test_what_is_handed_on_below_is_read_above_under_its_name(tmp_path: Path) -> None:
    traced = trace("a b c a", model=from_the_page(tmp_path))
    walked = steps(traced, layer=1)
    inputs = next(each for each in walked.sections if each.name == "inputs").grids[0]
    found = dict(zip(inputs.columns.labels, inputs.values[1].tolist(), strict=True))
    assert found["b"] == 1
    assert found["after a"] == pytest.approx(1)


def test_what_the_page_says_that_the_toy_does_not_know_it_does_not() -> None:
    ran = trace("The dog chased the cat and ran", model="toy")
    assert most_read(ran, DOES, 6)[0] == 4  # the cat, for it is nearer
    he = trace("The boy asked the man because he was hungry", model="toy")
    row = he.layers[0].attended.weights[REFERS, 6]
    assert float(row[1]) == pytest.approx(float(row[4]))


def titles(traced: Trace) -> list[str]:
    """What stands over the panels of a picture."""
    return [panel.title for panel in open_panels(traced.view().picture.panels)]


def test_what_heads_do_is_not_claimed_where_somebody_changed_what_they_see() -> None:
    told = "a describing word looks at what it describes"
    own, changed = (trace(FAMOUS, model="toy", causal=each) for each in (None, True))
    assert f"head 2: {told}" in own.view().closing
    assert any(told in title for title in titles(own))
    assert f"head 2 (as written): {told}" in changed.view().closing
    assert not any(told in title for title in titles(changed))


def lines_of(view: View, width: int) -> list[str]:
    return [line.plain.rstrip() for line in view_lines(view, Screen(width))]


def test_names_over_tables_stand_level_beside_each_other_and_downwards_where_it_is_narrow() -> None:
    view = steps(trace(FAMOUS, model="toy"), step="projections").view()
    wide = lines_of(view, 80)
    first = wide.index(next(line for line in wide if line.startswith("w_value · head 0")))
    assert "w_value · head 1" in wide[first]
    assert wide[first + 1].split() == ["refers"]
    names = ["animal", "person", "place", "plural", "animal", "person", "plural", "back"]
    assert wide[first + 2].split() == names
    assert wide[first + 3].split() == ["animal", "1", "0", "0", "0", "1", "0", "0", "0"]
    narrow = lines_of(view, 36)
    assert all(cell_len(line) <= 36 for line in narrow)
    assert not any("animal person" in line for line in narrow)
