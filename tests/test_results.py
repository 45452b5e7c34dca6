"""What every result answers alike: tokens, heads and Traces by number and name, in one line."""

from __future__ import annotations

import csv
import inspect as python
import io
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attnviz
from attnviz import AttnvizError
from attnviz.analysis.head_accuracy import rank
from attnviz.analysis.inspection.two_sentences import compare_two_traces
from attnviz.learning.lookup import task_of
from attnviz.learning.training import Learned
from attnviz.tokens.tokens import tokens_of_words
from attnviz.traces.result import Showable
from tests.test_calls import (
    STORY,
    WEIGHTS,
    animal_trace,
    compare_small_sentences,
    inspect_link,
    small_effects,
    small_film,
    small_pairs,
    small_survey,
    small_trace,
)


@cache
def learned_model() -> Learned:
    return attnviz.learn("reverse", steps=2)


def query_headline(result: Any, name: int | str) -> str:
    headline: str = result.view(query=name).headline
    return headline


BY_TOKEN: dict[str, Callable[[int | str], object]] = {
    "inspect(query=…)": lambda name: attnviz.inspect(animal_trace(), query=name).view().headline,
    "its command": lambda name: attnviz.inspect(animal_trace(), query=name).view().command,
    "inspect(source=…)": lambda name: (
        attnviz.inspect(animal_trace(), source=name, to=3).view().headline
    ),
    "inspect(to=…)": lambda name: (
        attnviz.inspect(animal_trace(), source="it", to=name).view().headline
    ),
    "view(query=…)": lambda name: query_headline(small_trace(), name),
    "steps(query=…)": lambda name: attnviz.steps(small_trace(), query=name).view().headline,
    "steps(key=…)": lambda name: attnviz.steps(small_trace(), query=0, key=name).view().command,
    "compare().view(query=…)": lambda name: query_headline(attnviz.compare("I am"), name),
    "compare(query=…)": lambda name: compare_two_traces(
        compare_small_sentences().first, compare_small_sentences().second, query=name
    ),
    "learn().view(query=…)": lambda name: learned_model().view(query=name).command,
    "tokens.index(…)": lambda name: small_trace().tokens.index(name),
}


@pytest.mark.slow_table("calls", keep=2)
@pytest.mark.parametrize("call", BY_TOKEN)
def test_a_whole_number_is_a_position_from_0_and_a_text_is_what_a_command_takes(call: str) -> None:
    outcome = BY_TOKEN[call]

    assert repr(outcome(1)) == repr(outcome("2"))
    assert repr(outcome(0)) == repr(outcome(np.int64(0))) == repr(outcome("1"))
    assert repr(outcome(0)) != repr(outcome(1)) or call == "compare(query=…)"


def test_a_position_below_0_counts_from_the_end() -> None:
    assert attnviz.inspect(animal_trace(), query=-1).view().headline == animal_headline("[SEP]")
    assert small_trace().tokens.index(-2) == 0


def animal_headline(name: str) -> str:
    return attnviz.inspect(animal_trace(), query=name).view().headline


def test_a_position_is_that_of_a_token_where_words_are_shown() -> None:
    trace = attnviz.trace("It didn't fit", model="minilm")
    word_view = attnviz.inspect(trace, query="fit", words=True).view()
    position_view = attnviz.inspect(trace, query=trace.tokens["fit"], words=True).view()

    assert position_view.headline == word_view.headline
    assert str(position_view.command and position_view.command.line).endswith("--words --query 4")


@given(st.lists(st.sampled_from(["1", "2", "3", "I", "the", "2 the"]), min_size=1), st.data())
def test_what_a_command_takes_for_a_token_leads_back_to_it(
    words: list[str], data: st.DataObject
) -> None:
    tokens = tokens_of_words(words)
    position = data.draw(st.integers(0, len(words) - 1))

    assert tokens.index(tokens.as_typed(position)) == position
    assert tokens.as_typed(position - len(words)) == tokens.as_typed(position)


MISSING_TOKENS: dict[str, tuple[Callable[[], object], str, str]] = {
    "a position after the last": (
        lambda: attnviz.inspect(animal_trace(), query=10).view(),
        "query=10: the text has 10 tokens, 0 to 9",
        "try query=9, or -1 for the last",
    ),
    "a position before the first": (
        lambda: attnviz.inspect(animal_trace(), source=-11, to=1).view(),
        "source=-11: the text has 10 tokens, 0 to 9",
        "try source=9, or -1 for the last",
    ),
    "a word that is not there": (
        lambda: small_trace().view(query="are"),
        "no token of the sentence is 'are'",
        "the tokens are: 0 I, 1 am",
    ),
    "a word that is there twice": (
        lambda: attnviz.trace("the cat saw the dog", tokenizer="words").tokens["the"],
        "'the' occurs 2 times in the sentence",
        "give the position of one of them: 0 or 3",
    ),
    "a link that a mask hides": (
        lambda: attnviz.inspect(attnviz.trace("I am", variant="causal"), source=0, to=1).view(),
        "'I' cannot attend to 'am': a mask hides it in every head",
        "try the other direction: source=1, to=0",
    ),
    "a query that is missing": (
        lambda: small_trace().view(as_="sentence"),
        "as_=\"sentence\" draws what one token attends to, and no 'query' is given",
        'add query=0, or use as_="heatmap" or arcs',
    ),
    "words of a layer": (
        lambda: small_trace()[0][1, "am"],
        "a head has 2 × 2 weights here, and the index names others",
        'count queries and keys from 0; a Trace knows their words: trace[5, 11, "it"]',
    ),
    "a loop over what has no items": (
        lambda: [*attnviz.compare("I am")],
        "this Comparison has no items, to be indexed or gone through",
        "its numbers are in .grids(), .to_dict() and .to_csv()",
    ),
    "a head that is not there": (
        lambda: small_survey()["L6H0"],
        "there is no layer 6: the layers are 0 to 5",
        "try 5",
    ),
    "a head without its layer": (
        lambda: animal_trace()["H3"],
        "'H3' names no layer",
        'try [5, 11], ["L5H11"], [5] for a layer, or [:, 11]',
    ),
    "a Trace of a film that is not there": (
        lambda: small_film()["middle"],
        "there is no Trace 'middle'",
        "known: before, after",
    ),
    "weights of chosen heads that are no layers × heads": (
        lambda: attnviz.inspect(animal_trace(), head=["L5H11", "L3H1", "L3H2"]).weights,
        "the layers have different numbers of heads here: their weights make no one tensor",
        'take those of one head: ["L3H1"].weights',
    ),
}


@pytest.mark.parametrize("name", MISSING_TOKENS)
def test_what_is_not_there_is_refused_with_the_numbers_of_python(name: str) -> None:
    call, problem, hint = MISSING_TOKENS[name]
    with pytest.raises(AttnvizError) as error:
        call()

    assert (str(error.value), error.value.hint) == (problem, hint)


RESULTS_ABOUT_HEADS: dict[str, Callable[[], Any]] = {
    "Survey": small_survey,
    "MinimalPairs": small_pairs,
    "CorpusEffects": small_effects,
    "TraceComparison": compare_small_sentences,
    "Ranking": lambda: rank("agreement"),
    "Inspection": lambda: attnviz.inspect(animal_trace(), layer=[4, 5]),
    "Inspection by effect": lambda: attnviz.inspect(animal_trace(), head="L5H11", by="effect"),
}


@pytest.mark.slow_table("calls", keep=3)
@pytest.mark.parametrize("name", RESULTS_ABOUT_HEADS)
def test_a_head_has_the_same_names_in_every_result(name: str) -> None:
    result = RESULTS_ABOUT_HEADS[name]()
    rows = [*result]
    layers = {row.name.partition("H")[0] for row in rows}

    assert len(rows) == len(result) == len({row.name for row in rows})
    assert result.shape[:2] == (len(layers), len(rows) // len(layers))
    for row in rows:
        layer, head = map(int, row.name[1:].split("H"))
        assert result[layer, head] is result[row.name] or result[layer, head].name == row.name
        assert row.name in {each.name for each in result[layer]}
        assert row.name in {each.name for each in result[:, head]}
    assert {row.name for row in result.ranking} == {row.name for row in rows}
    assert [row.name for row in result.top(2)] == [row.name for row in result.ranking[:2]]


def test_a_trace_is_ranked_as_inspect_ranks_it() -> None:
    assert repr(animal_trace().ranking) == repr(attnviz.inspect(animal_trace()).ranking)
    assert repr(animal_trace().top(3)) == repr(attnviz.inspect(animal_trace()).top(3))


def test_words_in_an_index_are_positions() -> None:
    trace, weights = animal_trace(), animal_trace().weights
    it, dog = trace.tokens["it"], trace.tokens["animal"]

    assert trace.tokens[it] == "it"
    assert torch.equal(trace["L5H11", "it"], weights[5, 11, it])
    assert trace[5, 11, "it", "animal"] == weights[5, 11, it, dog]
    assert torch.equal(trace[:, 11, ["it", "animal"]], weights[:, 11, [it, dog]])
    assert torch.equal(trace[..., 0], weights[..., 0])
    assert torch.equal(trace["L5H11", ..., 0], weights[5, 11, :, 0])
    assert torch.equal(trace[5][..., dog], weights[5, ..., dog])


def test_weights_of_an_inspection_are_those_after_its_options() -> None:
    inspection = attnviz.inspect(animal_trace(), layer=[4, 5], hide_special=True)
    expected = animal_trace().weights[4:, :, 1:-1, 1:-1]

    assert torch.equal(attnviz.inspect(animal_trace()).weights, animal_trace().weights)
    assert inspection.shape == tuple(expected.shape)
    torch.testing.assert_close(inspection.weights.float(), expected)
    torch.testing.assert_close(inspection[5, 11].weights.float(), expected[1, 11])
    assert np.asarray(inspection["L5H11"]).shape == inspection[5, 11].shape == expected.shape[2:]
    assert len(attnviz.inspect(animal_trace(), merge="mean")) == 1


def test_attentions_are_tensors_as_a_model_of_transformers_returns_them() -> None:
    second_trace = attnviz.from_weights(animal_trace().attentions, [*animal_trace().tokens])

    assert torch.equal(torch.stack(animal_trace().attentions), animal_trace().weights)
    assert torch.equal(second_trace.weights, animal_trace().weights)


def test_a_film_is_ranked_by_what_differs_from_its_first_trace_to_its_last() -> None:
    first, last = small_film()
    comparison = attnviz.compare(first, last)

    assert repr(small_film().ranking) == repr(comparison.ranking)
    assert torch.equal(small_film()[-1, 1, 0], last[1, 0])
    assert small_film().shape == (2, *first.shape)
    assert small_film()[:1] == (first,)


def results() -> Iterator[Any]:
    """A result of every public function, each with little to compute."""
    yield from (
        animal_trace(),
        small_trace(),
        compare_small_sentences(),
        small_survey(),
        small_pairs(),
        small_effects(),
        small_film(),
        inspect_link(),
    )
    yield attnviz.inspect(animal_trace(), head="L5H11", query="it")
    yield attnviz.inspect(animal_trace(), head=["L5H11", "L5H10"], by="effect", pairs=2)
    yield attnviz.trace("the keys near the cabinet", model="agreement")
    yield attnviz.inspect("It slept. It woke. It", segments="sentences").segments
    yield from (attnviz.compare("I am"), attnviz.steps("I am"), rank("agreement"))
    yield attnviz.from_weights(WEIGHTS, np.array(["I", "am"]))
    yield from (attnviz.example("simplified"), task_of("reverse"), attnviz.Settings())
    yield learned_model()
    yield from (animal_trace().view(), attnviz.trace(f"{STORY} " * 20))


def values_in(result: object) -> dict[int, Any]:
    """All values that public attributes lead to, by id; of several items the first two."""
    values: dict[int, Any] = {}

    def visit(value: Any, depth: int) -> None:
        if id(value) in values or depth > 5:
            return
        values[id(value)] = value
        items = value.values() if isinstance(value, Mapping) else value
        for item in [*items][:2] if isinstance(value, (tuple, list, Mapping)) else ():
            visit(item, depth + 1)
        if type(value).__module__.startswith("attnviz") and not isinstance(value, type):
            attributes = [*vars(value)] if hasattr(value, "__dict__") else []
            for name, each in python.getmembers(type(value)):
                attributes += [name] * isinstance(each, (property, cached_property))
            for name in dict.fromkeys(attributes):
                # An Inspection that is not by effect has no effects, one of a single paragraph no
                # segments, and weights in memory have no summary.
                refusing = ("effects", "segments", "summary", "map_summary", "streamed")
                if not name.startswith("_") and name not in refusing:
                    visit(getattr(value, name), depth + 1)

    visit(result, 0)
    return values


@pytest.mark.slow("calls")
@pytest.mark.filterwarnings("ignore::attnviz.errors.Note")
def test_whatever_a_result_leads_to_is_printed_in_words_of_less_than_2_kb() -> None:
    longest_texts: dict[str, str] = {}
    for result in results():
        for value in values_in(result).values():
            if type(value).__module__.startswith("attnviz"):
                name = type(value).__name__
                longest_texts[name] = max(longest_texts.get(name, ""), repr(value), key=len)

    assert len(longest_texts) > 60
    assert {name: len(text) for name, text in longest_texts.items() if len(text) > 2000} == {}
    assert [name for name, text in longest_texts.items() if " object at 0x" in text] == []
    assert [name for name, text in longest_texts.items() if "np.str_" in text] == []


def test_rows_of_heads_are_printed_in_a_line() -> None:
    """With what is known of the head first, and texts of NumPy as texts."""
    survey = attnviz.survey(np.array(["She is not here yet.", "It is late."]))

    assert repr(survey["L0H2"]) == "<L0H2: previous token 1.0, evenly .15>"
    assert repr(survey["L0H2"].examples[0].tokens).startswith("<Tokens '")
    assert repr(small_pairs()["L3H1"]).endswith("toward the meaning in 0 of 1 pair>")
    assert repr(small_effects()["L5H11"]).endswith(" without it, on average>")


TABLES: dict[str, Callable[[], Showable]] = {
    "a trace": lambda: attnviz.trace("I am", variant="multi-head"),
    "a second text": lambda: attnviz.trace("I am", memory="so are", layers=2),
    "inspect": lambda: attnviz.inspect(small_trace()),
    "a query": lambda: attnviz.inspect(small_trace(), query=1),
    "a link": inspect_link,
    "two sentences": compare_small_sentences,
    "effects": small_effects,
    "pairs": small_pairs,
    "a survey": small_survey,
    "a ranking": lambda: rank("agreement"),
    "ways": lambda: attnviz.compare("I am", by="mask"),
}


@pytest.mark.parametrize("result", TABLES.values(), ids=[*TABLES])
def test_every_table_has_the_numbers_and_the_name_of_each_head(
    result: Callable[[], Showable],
) -> None:
    rows = [*csv.DictReader(io.StringIO(result().to_csv() or ""))]
    named = [row for row in rows if row["name"].startswith("L")]

    for row in named:
        cross = " cross " if "cross" in row["name"] else ""
        assert row["name"] == f"L{int(row['layer'])}{cross}H{int(row['head'])}"
    others = {(row["layer"], row["head"]) for row in rows if row not in named}
    assert named
    assert others <= {("", "")}  # of a mean
