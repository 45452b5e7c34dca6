"""Tokens that options name: the last one, those that are missing, and the row of the answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.analysis.inspection.inspection import inspect
from attnviz.analysis.inspection.two_sentences import compare_models, compare_sentences
from attnviz.cells import unmasked_cells
from attnviz.errors import AttnvizError
from attnviz.renderers.page.tables_and_steps import table_markup
from attnviz.renderers.terminal.screen import Screen
from attnviz.renderers.terminal.tables import table_lines
from attnviz.tokens.tokens import tokens_of_words
from attnviz.traces.from_text import trace
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from tests.conftest import Attnviz
from tests.refusals import refusal_lines, refusal_of
from tests.small_transformers import TEXT, Saved

LAST_TOKEN_CALLS = {
    "run": ["run", "I am learning", "--query"],
    "steps": ["steps", "I am learning", "--step=scores", "--query"],
    "a key of steps": ["steps", "I am learning", "--query=am", "--step=scores", "--key"],
    "compare": ["compare", "I am learning", "--query"],
}
MISSING_WORD_CALLS: dict[str, list[str]] = {
    "run": ["run", TEXT, "--query=zebra"],
    "a part of run": ["run", TEXT, "--window=1:4", "--query=zebra"],
    "steps": ["steps", TEXT, "--query=zebra"],
    "a key of steps": ["steps", TEXT, "--query=1", "--key=zebra"],
    "inspect": ["inspect", TEXT, "--query=zebra"],
    "inspect by word": ["inspect", TEXT, "--words", "--query=zebra"],
    "the query of a link": ["inspect", TEXT, "--from=zebra", "--to=1"],
    "the key of a link": ["inspect", TEXT, "--from=1", "--to=zebra"],
    "an answer": ["inspect", TEXT, "--by=effect", "--toward=zebra#", "--instead-of=a"],
    "two sentences": ["compare", TEXT, f"{TEXT} now", "--query=zebra"],
    "two devices": ["compare", TEXT, "--by=dtype", "--query=zebra"],
}


@pytest.mark.parametrize("words", LAST_TOKEN_CALLS.values(), ids=[*LAST_TOKEN_CALLS])
@pytest.mark.parametrize("joined", [False, True])
def test_minus_one_is_the_last_token_as_its_number_is(
    attnviz: Attnviz, words: list[str], joined: bool
) -> None:
    *others, option = words

    def output_with(name: str) -> str:
        last = [f"{option}={name}"] if joined else [option, name]
        return attnviz(*others, *last).out

    assert "learning" in output_with("-1")
    assert output_with("-1") == output_with("3")


@given(st.lists(st.sampled_from(["a", "b", "-1", "-2", "2"]), min_size=1, max_size=6))
def test_a_negative_number_counts_from_the_end_unless_it_is_a_word(words: list[str]) -> None:
    tokens = tokens_of_words(words)
    for number in range(1, len(words) + 1):
        name = f"-{number}"
        if name in words:
            assert words.count(name) > 1 or tokens.index(name) == words.index(name)
        else:
            assert tokens.index(name) == len(words) - number
    if f"-{len(words) + 1}" not in words:
        with pytest.raises(AttnvizError, match="no token of the sentence is"):
            tokens.index(f"-{len(words) + 1}")


def test_the_hint_of_a_long_text_names_the_number_of_its_last_token(attnviz: Attnviz) -> None:
    words = " ".join(["on", "and"] * 30 + ["end"])
    for command in ("run", "steps"):
        problem, hint = refusal_lines(attnviz(command, words, "--query=zebra"))
        assert hint.endswith("…, 61 end (the last, also -1)")
    problem, hint = refusal_of(lambda: trace(words).tokens.index("zebra"))
    assert trace(words).tokens.index(60) == trace(words).tokens.index(-1)
    assert problem == "no token of the sentence is 'zebra'"


@pytest.fixture
def unread_model(small_transformer: Saved, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model that fails the test if it reads anything."""
    from transformers import BertForMaskedLM, BertModel

    def fail(*args: Any, **keywords: Any) -> None:
        raise AssertionError("the model ran")

    folder = small_transformer("bert")
    for each in (BertForMaskedLM, BertModel):
        monkeypatch.setattr(each, "forward", fail)
    return folder


@pytest.mark.parametrize("words", MISSING_WORD_CALLS.values(), ids=[*MISSING_WORD_CALLS])
def test_a_word_that_is_missing_is_refused_before_the_model_runs(
    attnviz: Attnviz, unread_model: Path, words: list[str]
) -> None:
    problem, _ = refusal_lines(attnviz(*words, f"--model={unread_model}"))
    assert "zebra" in problem
    reading = attnviz(words[0], TEXT, "--query=animal", f"--model={unread_model}")
    assert words[0] == "compare" or "the model ran" in reading.err


@pytest.mark.parametrize(
    "call",
    [
        lambda model: inspect(TEXT, model=model, query="zebra"),
        lambda model: compare_sentences(TEXT, f"{TEXT} now", model=model, query="zebra"),
        lambda model: compare_models(TEXT, model, model, query="zebra"),
    ],
    ids=["inspect", "compare_sentences", "compare_models"],
)
def test_the_library_refuses_a_missing_word_as_early(
    unread_model: Path, call: Callable[[str], object]
) -> None:
    with pytest.raises(AttnvizError, match="no token of the sentence is 'zebra'"):
        call(str(unread_model))


def test_a_query_may_be_a_word_of_the_second_sentence_alone(small_transformer: Saved) -> None:
    model = str(small_transformer("bert"))
    comparison = compare_sentences("the animal was", "the street was", model=model, query="street")
    assert comparison.rows.others.labels[comparison.rows.second[comparison.query or 0]] == "street"


def table_of(count: int, *, keeps_last: bool) -> Grid:
    values = np.arange(count, dtype=float)[:, None]
    rows = plain_axis("token", [f"t{number}" for number in range(count)])
    scale = Scale("probability", 0.0, float(count))
    columns = plain_axis("answer", ["1st"])
    cells = unmasked_cells(values)
    return Grid("answers", rows, columns, cells, scale, keeps_last=keeps_last)


@given(count=st.integers(1, 90), keeps_last=st.booleans())
def test_a_table_that_is_cut_keeps_the_end_that_matters_and_says_what_is_left_out(
    count: int, keeps_last: bool
) -> None:
    lines = [
        line.plain.strip()
        for line in table_lines([table_of(count, keeps_last=keeps_last)], Screen(80, 24))
    ]
    row_names = [line.split()[0] for line in lines if line.startswith("t") and line[1].isdigit()]
    names = [f"t{number}" for number in range(count)]
    assert row_names == (names[-40:] if keeps_last else names[:40])
    missing = count - len(row_names)
    words = [line for line in lines if "--full" in line]
    noun = "token" if missing == 1 else "tokens"
    kind = "earlier" if keeps_last else "more"
    assert words == ([f"and {missing} {kind} {noun} (--full shows all)"] if missing else [])


def test_the_answers_of_a_long_text_end_with_that_of_the_last_token(
    small_transformer: Saved, attnviz: Attnviz
) -> None:
    words = ("it was open. " * 12).strip()
    result = attnviz("run", words, "--predict", f"--model={small_transformer('gpt2')}")
    table = result.out[result.out.index("what follows each token") :]
    rows = [line.split() for line in table.splitlines() if line[:1].isdigit()]
    count = len(trace(words, model=str(small_transformer("gpt2"))).tokens)
    assert [int(row[0]) for row in rows] == [*range(count - 39, count + 1)]
    assert f"and {min(count, 64) - 40} earlier" in table


@pytest.mark.parametrize("keeps_last", [False, True])
def test_a_frame_of_a_page_opens_at_the_end_that_matters(keeps_last: bool) -> None:
    markup = table_markup(table_of(60, keeps_last=keeps_last))
    assert ('class="frame from-end"' in str(markup)) == keeps_last
