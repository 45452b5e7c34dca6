"""`compare TEXT OTHER`: two sentences in one way of attending, place by place."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.testing import assert_close

from attnviz.analysis.comparison import compare
from attnviz.errors import AttnvizError
from attnviz.traces.from_text import trace
from attnviz.views.grids.grid import Grid
from tests.conftest import Attnviz

FIRST_TEXT, SECOND_TEXT = "I am learning this", "you are teaching this"


def build_grids(
    first: str = FIRST_TEXT, second: str = SECOND_TEXT, **choices: Any
) -> dict[str, Grid]:
    panels = compare(first, other=second).view(**choices).screen.panels
    return {each.title: each for each in panels if isinstance(each, Grid)}


def test_each_sentence_is_attended_to_as_a_run_does() -> None:
    comparison = compare(FIRST_TEXT, other=SECOND_TEXT, variant="causal", seed=3)

    for each, text in zip(comparison.alternatives, (FIRST_TEXT, SECOND_TEXT), strict=True):
        result = trace(text, variant="causal", seed=3)
        assert_close(each.weights, result.layers[0].attended.weights)
        assert each.tokens.labels == result.tokens.labels


def test_the_difference_is_between_the_same_places() -> None:
    grids_by_title = build_grids()

    difference = grids_by_title["second − first"]
    np.testing.assert_allclose(
        difference.values,
        grids_by_title["second"].values - grids_by_title["first"].values,
        atol=1e-6,
    )
    assert difference.rows.labels == ("I/you", "am/are", "learning/teaching", "this")
    assert grids_by_title["first"].rows.labels == tuple(FIRST_TEXT.split())
    assert grids_by_title["second"].columns.labels == tuple(SECOND_TEXT.split())


def test_the_second_may_be_the_reference() -> None:
    comparison = compare(FIRST_TEXT, other=SECOND_TEXT, reference=SECOND_TEXT)

    assert comparison.reference == 1
    assert comparison.differences[1] is None
    assert "first − second" in [
        getattr(each, "title", "") for each in comparison.view().screen.panels
    ]


def test_the_largest_change_names_both_words() -> None:
    closing = compare(FIRST_TEXT, other=SECOND_TEXT).view().closing

    assert closing[0] == (
        "largest change from 'I am learning this' to 'you are teaching this': "
        "this → am/are: .74 → .23"
    )


def test_long_sentences_are_called_the_first_and_the_second() -> None:
    first, second = "the cat sat on the mat and slept", "the dog sat on the rug and slept"

    names = [each.name for each in compare(first, other=second).alternatives]

    assert names == ["first text", "second text"]


@pytest.mark.parametrize(
    ("query", "label"),
    [("3", "learning"), ("learning", "learning"), ("are", "am"), ("this", "this")],
)
def test_a_query_is_a_place_or_a_word_of_either(query: str, label: str) -> None:
    assert build_grids(query=query)["first"].rows.labels == (label,)


def test_a_word_at_different_places_is_asked_for_by_its_number() -> None:
    comparison = compare("this is it", other="it is that", tokenizer="words")

    with pytest.raises(AttnvizError, match="'it' is at different positions") as error:
        comparison.view(query="it")
    assert error.value.hint == "give its position: query=0 or 2"


def test_a_word_that_one_sentence_has_twice_is_asked_for_by_its_number() -> None:
    comparison = compare("the cat the dog", other="a cat the dog", tokenizer="words")

    with pytest.raises(AttnvizError, match="'the' occurs 2 times in the sentence"):
        comparison.view(query="the")


def test_a_query_is_called_by_both_words(attnviz: Attnviz) -> None:
    out = attnviz("compare", FIRST_TEXT, SECOND_TEXT, "--query", "3").out

    assert "measures of 3 learning/teaching" in out


REFUSED_ARGUMENTS: dict[str, tuple[list[str], str, str]] = {
    "another number of tokens": (
        [FIRST_TEXT, "I am here"],
        "the first sentence has 4 tokens (gpt2) and the second 3, so they cannot be compared "
        "position by position",
        "give sentences with the same number of tokens; attnviz run TEXT --show tokens counts them",
    ),
    "the same": (
        [FIRST_TEXT, FIRST_TEXT],
        "both sentences are the same",
        "give another one, or compare ways of reading it: --by",
    ),
    "no second": (
        [FIRST_TEXT, "--by", "text"],
        "there is no second sentence to compare with the first",
        'give both: attnviz compare "I am learning this" "you are teaching that"',
    ),
    "by something else": (
        [FIRST_TEXT, SECOND_TEXT, "--by", "scale"],
        "--by scale cannot be combined with a second sentence",
        "leave one of them out: two sentences are compared with the same settings",
    ),
    "values": (
        [FIRST_TEXT, SECOND_TEXT, "--values", "a,b"],
        "--values cannot be combined with a second sentence: the sentences are compared",
        "leave --values out",
    ),
    "nothing": ([FIRST_TEXT, ""], "the text is empty", ""),
    "curves": (
        [FIRST_TEXT, SECOND_TEXT, "--curves"],
        "there are no curves by text: its values are not numbers on a scale",
        "try --by dim, --by heads, --by temperature",
    ),
}


@pytest.mark.parametrize("name", REFUSED_ARGUMENTS)
def test_what_cannot_be_compared_is_refused(attnviz: Attnviz, name: str) -> None:
    arguments, problem, hint = REFUSED_ARGUMENTS[name]

    result = attnviz("compare", *arguments)

    assert result.err.startswith(f"error: {problem}")
    assert f" hint: {hint}" in result.err
    assert len(result.err.splitlines()) == 2
    assert (result.status, result.out) == (2, "")


def test_matrices_of_one_sentence_are_not_taken_for_those_of_another(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    path = tmp_path / "given.toml"
    path.write_text("embeddings = [[1, 2], [3, 4]]\n")

    result = attnviz("compare", "I am", "you are", "--given", str(path))

    assert "gives 'embeddings' for one sentence, but there are two" in result.err


def test_matrices_of_any_sentence_serve_both(attnviz: Attnviz, tmp_path: Path) -> None:
    path = tmp_path / "given.toml"
    path.write_text("w_query = [[1, 2], [3, 4]]\n")

    result = attnviz("compare", "I am", "you are", "--given", str(path))

    assert (result.status, result.err) == (0, "")


def test_a_sentence_has_the_vectors_of_its_own_words(attnviz: Attnviz, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("tea 1 0\nhot 0 1\ncold 0 -1\n")

    comparison = compare(
        "hot tea", other="cold tea", embeddings=str(vectors), tokenizer="words", variant="plain"
    )

    hot_trace, cold_trace = (each.trace for each in comparison.alternatives)
    assert hot_trace
    assert cold_trace
    assert hot_trace.embeddings.tolist() == [[0, 1], [1, 0]]
    assert cold_trace.embeddings.tolist() == [[0, -1], [1, 0]]
    trace_comparison = compare(hot_trace, other="cold tea")
    assert_close(trace_comparison.alternatives[1].weights, comparison.alternatives[1].weights)


def test_the_command_that_made_it_makes_it_again(attnviz: Attnviz, samples: Path) -> None:
    attnviz("compare", "--seed", "5", "-o", "a.json", "--", FIRST_TEXT, "- are teaching this")
    document = json.loads(Path("a.json").read_text(encoding="utf-8"))

    command = document["attnviz"]["command"]
    words = shlex.split(command)
    assert words[:2] == ["attnviz", "compare"]
    assert words[-3:] == ["--", FIRST_TEXT, "- are teaching this"]
    result = attnviz("compare", "--json", *words[2:])
    assert json.loads(result.out)["ways"] == document["ways"]


def test_the_view_knows_its_command() -> None:
    command = compare(FIRST_TEXT, other=SECOND_TEXT, seed=5).view(query="3").command

    assert command is not None
    assert command.line == (
        "attnviz compare 'I am learning this' 'you are teaching this' --seed 5 --query 3"
    )


def test_both_sentences_are_in_the_data(attnviz: Attnviz, samples: Path) -> None:
    outputs = ["-o", "a.json", "-o", "a.csv", "-o", "a.png", "-o", "a.md"]
    attnviz("compare", FIRST_TEXT, SECOND_TEXT, *outputs)
    document = json.loads(Path("a.json").read_text(encoding="utf-8"))
    with Path("a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))

    assert document["by"] == "text"
    assert [way["name"] for way in document["ways"]] == [FIRST_TEXT, SECOND_TEXT]
    assert {row["way"] for row in rows} == {FIRST_TEXT, SECOND_TEXT}
    assert [row["query"] for row in rows][5:9] == SECOND_TEXT.split()


def test_standard_input_may_be_the_first(attnviz: Attnviz) -> None:
    assert attnviz("compare", "-", SECOND_TEXT, stdin=FIRST_TEXT.encode()).status == 0
