"""A survey says of every head what single sentences say of it, and how sure that is."""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import signal
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from attnviz import AttnvizError, inspect, survey
from attnviz.analysis.inspection.patterns import COLUMN_PATTERN, PATTERN_KINDS
from attnviz.machine import files
from attnviz.renderers.terminal.lines import view_lines
from attnviz.renderers.terminal.screen import Screen
from attnviz.tokens.tokens import tokens_of_words
from attnviz.traces.settings import Settings
from attnviz.traces.trained import batches
from attnviz.traces.trained.loading import load_transformer
from attnviz.views.grids.grid import Grid
from attnviz.wings.corpora import totals as corpus_totals
from attnviz.wings.corpora.command import _showing_progress
from attnviz.wings.corpora.line_measures import KINDS, MEASURES, LineMeasures
from attnviz.wings.corpora.survey import REPEATED_TOKENS, Survey, _repeated_tokens
from attnviz.wings.corpora.survey_view import survey_headline
from attnviz.wings.corpora.totals import CorpusTotals, line_batch, valley_p_value
from tests.conftest import Attnviz
from tests.refusals import refusal_of
from tests.small_transformers import Saved

SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "It is late, and it is late again: it is late.",
    "She said that cafés are open.",
    "Yes.",
]
WORDS = "the animal street because it was too tired cat dog house ran saw very big small".split()  # noqa: SIM905


def mixed_lines(count: int = 12) -> list[str]:
    """So many lines of different words, and as many of one word again and again."""
    generator = random.Random(0)
    different_lines = [f"{' '.join(generator.choices(WORDS, k=12))}." for _ in range(count)]
    return [
        *different_lines,
        *(" ".join([generator.choice(WORDS)] * generator.randrange(10, 20)) for _ in range(count)),
    ]


@cache
def mixed_survey() -> Survey:
    return survey([*mixed_lines(), "", "  "])


@pytest.mark.usefixtures("quick")
def test_each_number_is_the_mean_of_what_single_sentences_show() -> None:
    result = survey(SENTENCES)
    line_patterns = [inspect(text).patterns for text in SENTENCES]

    for index, kind in enumerate(PATTERN_KINDS):
        scores = np.array([patterns.scores[:, index] for patterns in line_patterns])
        even_scores = np.array([patterns.even_scores[:, index] for patterns in line_patterns])
        if kind is COLUMN_PATTERN:  # in a line without a column its score is 0
            scores, even_scores = np.nan_to_num(scores), np.nan_to_num(even_scores)
        for place, head in enumerate(result.heads):
            estimate, expected = head.estimates[kind.name], scores[:, place]
            known_scores = expected[~np.isnan(expected)]
            assert estimate.lines == len(known_scores)
            assert estimate.mean == pytest.approx(known_scores.mean(), abs=1e-5)
            assert estimate.even == pytest.approx(np.nanmean(even_scores[:, place]), abs=1e-5)
            if len(known_scores) > 1:
                assert estimate.spread == pytest.approx(known_scores.std(ddof=1), abs=1e-5)
    main_kinds = [
        [patterns.kinds[head] for patterns in line_patterns] for head in range(len(result.heads))
    ]
    for kinds, head in zip(main_kinds, result.heads, strict=True):
        assert head.best is not None
        lines = head.estimates[head.best.name].lines
        assert head.often == pytest.approx(kinds.count(head.best) / lines)


def test_blank_lines_are_counted_and_examples_name_the_lines_of_the_file() -> None:
    result, lines = mixed_survey(), mixed_lines()

    assert (result.lines, result.blank_lines, result.cut_lines, result.interrupted) == (
        24,
        2,
        0,
        False,
    )
    for head in result.heads:
        scores = [example.score for example in head.examples]
        assert scores == sorted(scores, reverse=True)
        for example in head.examples:
            assert example.tokens.text == lines[example.line - 1]
    example = result["L0H2"].examples[0]
    assert example.key == example.query - 1  # this head attends to the previous token
    assert example.weight > 0.9


@pytest.mark.slow("models")
def test_a_head_with_two_groups_of_lines_names_both_with_their_lines() -> None:
    lines = mixed_lines(150)
    result = survey(lines)
    parts = {part.kind.short: part for part in result["L2H9"].parts}

    assert set(parts) == {"first", "same"}
    assert parts["same"].lines >= 100
    for part in parts.values():
        assert part.mean - part.elsewhere >= 0.25
        assert part.p_value <= 0.05
        for example in part.examples:
            assert example.tokens.text == lines[example.line - 1]
    assert not result["L0H2"].parts  # it attends to the previous token in all lines
    view = result.view()
    sentence = next(each for each in view.closing if "two groups" in each)
    name, _, rest_of_sentence = sentence.partition(
        " does different things on two groups of lines: "
    )
    first, second = result[name].parts
    numbers = ", ".join(map(str, first.first_lines))
    assert rest_of_sentence.startswith(
        f"on {first.lines} lines ({numbers}, …) {first.kind.target_phrase} "
    )
    assert f"; on {second.lines} lines (" in rest_of_sentence
    assert view.cloud is not None
    groups = {example.group for point in view.cloud.points for example in point.examples}
    for part in parts.values():
        assert f"the group of {part.lines} lines: {part.kind.name}" in groups


@pytest.mark.parametrize("shape", ["normal", "uniform", "exponential", "beta"])
def test_lines_of_one_kind_hardly_ever_have_two_groups(shape: str) -> None:
    generator = np.random.default_rng(0)
    parameters = {"beta": (0.5, 3)}.get(shape, ())
    count = 0
    for _ in range(400):
        numbers = getattr(generator, shape)(*parameters, size=200)
        is_high = numbers[::2] > np.median(numbers[::2])  # halves that differ by construction
        p_value = valley_p_value(numbers[::2][is_high], numbers[::2][~is_high], numbers[1::2])
        count += p_value <= 0.05
    assert count <= 0.05 * 400
    two_groups = np.concatenate([generator.normal(0, 0.1, 100), generator.normal(0.6, 0.1, 100)])
    numbers = generator.permutation(two_groups)
    is_high = numbers[::2] > 0.3
    assert valley_p_value(numbers[::2][is_high], numbers[::2][~is_high], numbers[1::2]) < 1e-4


def build_totals(
    scores: np.ndarray, order: Sequence[Sequence[int]], heads: int = 1
) -> CorpusTotals:
    """The totals of lines that have one score for every measure, added in batches."""
    totals = CorpusTotals(heads, seed=42)
    for numbers in order:
        lines = line_batch([(number, tokens_of_words(["a", "b"])) for number in numbers])
        values = np.broadcast_to(
            scores[list(numbers), None, None], (len(numbers), heads, len(MEASURES))
        )
        kinds = np.full((len(numbers), heads), -1)
        pairs = np.zeros((len(numbers), heads, KINDS, 3), dtype=np.float32)
        totals.add(lines, LineMeasures(values, values, kinds, pairs))
    return totals


def test_intervals_are_as_wide_as_those_of_a_mean_of_independent_lines() -> None:
    scores = np.random.default_rng(1).random(400)
    totals = build_totals(scores, [range(0, 100), range(100, 400)])

    means, spreads = totals.estimates.means()[0], totals.estimates.spreads()[0]
    low, high = totals.intervals()[:, 0, 0]

    assert means[0, 0] == pytest.approx(scores.mean())
    assert spreads[0, 0] == pytest.approx(scores.std(ddof=1))
    assert low < means[0, 0] < high
    assert high - low == pytest.approx(2 * 1.96 * scores.std(ddof=1) / 20, rel=0.01)


def test_the_interval_of_a_share_is_one_of_shares() -> None:
    low, high = build_totals(np.array([0, 0, 0, 0, 0.9, 0]), [range(6)]).intervals()[:, 0, 0]
    assert low == 0 < high <= 0.9


@pytest.mark.slow("models")
def test_lines_that_repeat_others_are_counted_and_told() -> None:
    result = survey([*SENTENCES[:2], "it is late,  and it is late again: it is late."] * 2)
    assert result.repeated_lines == 4
    sentence = "4 of 6 lines repeat an earlier one, but the intervals count them as independent."
    assert sentence in result.view().closing
    view = survey([SENTENCES[0]] * 2).view()
    assert "1 of 2 lines repeats an earlier one." in view.closing
    assert "repeat" not in " ".join(survey(SENTENCES).view().closing[2:])


def test_what_is_kept_is_the_same_in_any_order_and_does_not_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corpus_totals, "SAMPLED_LINES", 7)
    scores = np.random.default_rng(2).random(300)
    ordered_totals = build_totals(scores, [range(start, start + 50) for start in range(0, 300, 50)])
    order = np.random.default_rng(3).permutation(300)
    shuffled_totals = build_totals(scores, [part.tolist() for part in np.split(order, 10)])

    assert set(ordered_totals.sample) == set(shuffled_totals.sample)
    assert len(ordered_totals.sample) == 7
    best = np.argsort(-scores)[:3].tolist()
    assert (
        ordered_totals.top_numbers[:, 0, 0].tolist()
        == shuffled_totals.top_numbers[:, 0, 0].tolist()
        == best
    )
    assert set(ordered_totals.top_texts) == set(best)
    assert np.allclose(ordered_totals.intervals(), shuffled_totals.intervals())


@pytest.mark.slow("models")
def test_the_lines_with_most_are_found_in_a_corpus_larger_than_its_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corpus_totals, "SAMPLED_LINES", 6)
    sampled_survey, whole_survey = survey(mixed_lines()), mixed_survey()

    for sampled_head, whole_head in zip(sampled_survey.heads, whole_survey.heads, strict=True):
        assert [example.line for example in sampled_head.examples[:3]] == [
            example.line for example in whole_head.examples[:3]
        ]


@pytest.fixture
def enable_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt even where a shell runs the tests in its background."""
    previous_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous_handler)


@pytest.mark.usefixtures("enable_ctrl_c")
def test_ctrl_c_ends_a_survey_with_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "TEXTS_AT_ONCE", 4)

    def endless_lines() -> Iterator[str]:
        for number in range(10_000):
            if number == 6:
                os.kill(os.getpid(), signal.SIGINT)
            yield SENTENCES[number % 3]
        raise AssertionError("it went on")

    result = survey(endless_lines())

    assert result.interrupted
    assert 4 <= result.lines <= 8
    assert "stopped before the end of the texts" in result.view().settings


def test_random_repeats_are_tokens_of_the_model_each_there_twice() -> None:
    model = load_transformer(Settings(model="minilm"))
    texts = _repeated_tokens(model, seed=42)

    for tokens in texts:
        assert (tokens.ids[0], tokens.ids[-1]) == (101, 102)  # [CLS] and [SEP]
        first, second = tokens.ids[1 : 1 + REPEATED_TOKENS], tokens.ids[1 + REPEATED_TOKENS : -1]
        assert first == second
        assert not set(first) & set(model.tokenizer.all_special_ids)
    assert len({tokens.ids for tokens in texts}) == len(texts)


@pytest.mark.parametrize("count", [1, 4, 24])
def test_the_headline_is_true_of_any_corpus_and_the_table_fits_a_terminal(count: int) -> None:
    result = survey(mixed_lines()[:count]) if count < 24 else mixed_survey()
    view, headline = result.view(), survey_headline(result)
    top = result.ranked[0]
    assert top.best is not None
    estimate = top.estimates[top.best.name]

    outstanding_heads = [
        head
        for head in result.heads
        if head.best
        and (
            head.estimates[head.best.name].low >= 0.8
            if head.best.short == "broad"
            else head.estimates[head.best.name].low
            >= head.estimates[head.best.name].even * 0.75 + 0.25
        )
    ]
    assert [head for head in result.heads if head.stands_out] == outstanding_heads
    other_heads = [
        head
        for head in outstanding_heads
        if head.best and head.best.short not in ("first", "separators", "broad")
    ]
    assert (
        headline
        == {
            1: "A single line cannot show what stands out",
            4: "4 lines cannot show what stands out",
            24: f"{len(other_heads)} of 72 heads do more than attend broadly, to the first token "
            "or to separators",
        }[count]
    )
    assert view.closing[0].startswith(
        f"First in the table: {top.name} gives {top.best.target_phrase} "
    )
    assert list(result.ranked[: len(other_heads)]) == sorted(
        other_heads, key=lambda head: -head.excess
    )
    assert estimate.mean == max(head.estimates[top.best.name].mean for head in result.heads)
    lines = view_lines(view, Screen(width=80, height=24))
    assert len(lines) <= 23
    assert max(line.cell_len for line in lines) <= 80


def test_tokens_without_a_choice_make_no_finding(small_transformer: object) -> None:
    folder = small_transformer("gpt2")  # type: ignore[operator]
    result = survey(["a"] * 6, model=folder)
    assert survey_headline(result) == "No token has a choice of what to attend to"
    assert result.heads[0].examples == ()
    result.view().render(".json")


GIVE_TEXTS = 'give a file with one text per line: Path("texts.txt")'


@pytest.mark.parametrize(
    ("texts", "problem", "hint"),
    [
        ("It is late.", "texts is a single text, and should be several",
         'give a list, such as ["It is late."], or a file: Path("texts.txt")'),
        (["a", 3], "texts[1] is 3, and should be a text", "change texts[1], or leave it out"),
        (iter(["a", 3]), "one of the texts is of type int, and should be a string",
         'give strings, such as "It is late."'),
        ([], "there are no texts", GIVE_TEXTS),
        (["", " "], "all texts are blank", GIVE_TEXTS),
        (Path("nope.txt"), "there is no file 'nope.txt'", "check its name and folder"),
    ],
)  # fmt: skip
def test_what_is_no_corpus_is_refused(texts: object, problem: str, hint: str) -> None:
    assert refusal_of(lambda: survey(texts)) == (problem, hint)  # type: ignore[arg-type]


def test_a_model_without_attention_is_refused(small_transformer: Saved) -> None:
    problem, hint = refusal_of(
        lambda: survey(["the animal"], model=str(small_transformer("mamba")))
    )

    assert problem.startswith("no attention can be found in the model 'mamba' (mamba)")
    assert hint == "use a model with attention: a BERT, GPT-2 or Llama, for example"


def test_blank_texts_are_refused_before_the_model_is_loaded(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(batches, "model_for_texts", lambda *_: pytest.fail("it is loaded"))
    (tmp_path / "blank.txt").write_text("\n  \n\n")
    result = attnviz("survey", "--file", str(tmp_path / "blank.txt"), "--model", "minilm")
    assert result.err == (
        "error: all texts are blank\n hint: give a file with one text per line: --file texts.txt\n"
    )
    with pytest.raises(AttnvizError, match="all texts are blank"):
        survey(["", " "])


def test_a_terminal_shows_at_once_that_something_happens_and_then_how_many_lines_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("COLUMNS", "80")
    with _showing_progress(2_000, quiet=False) as count:
        assert "loading the model" in stream.getvalue()
        assert list(count(range(7))) == [*range(7)]
    last = stream.getvalue().rsplit("loading the model", 1)[-1]
    assert "7 of 2,000 lines · " in last
    assert "/s · Ctrl-C shows what is there" in last
    with _showing_progress(None, quiet=True) as count:
        assert list(count([1, 2])) == [1, 2]


def test_a_survey_takes_a_transformer_and_no_choices_about_one_sentence() -> None:
    with pytest.raises(AttnvizError, match="a survey is of a trained transformer, but 'agreement'"):
        survey(SENTENCES, model="agreement")
    with pytest.raises(AttnvizError, match="there is no keyword 'without'"):
        survey(SENTENCES, without="L0H2")  # type: ignore[call-arg]


def test_a_vocabulary_of_special_tokens_alone_is_refused(
    small_transformer: Saved, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(small_transformer("llama"), tmp_path / "special"))
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["added_tokens"] = [
        {"id": number, "content": word, "special": True}
        | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for word, number in content["model"]["vocab"].items()
    ]
    path.write_text(json.dumps(content))

    with pytest.raises(AttnvizError, match="has only special tokens, which are no words"):
        survey(SENTENCES, model=str(folder))


def test_lines_of_a_file_are_read_one_after_another_and_errors_name_theirs(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufeffone\r\n\nthree".encode() + b"\nfo\xffur\n")

    lines = files.read_lines(path)

    assert [next(lines) for _ in range(3)] == ["one", "", "three"]
    with pytest.raises(AttnvizError) as error:
        next(lines)
    assert str(error.value) == f"line 4 of '{path}' is not UTF-8: byte 3 is 0xff"


def test_the_command_writes_data_with_a_line_for_each_head_and_measure(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    path, table = tmp_path / "texts.txt", tmp_path / "heads.csv"
    path.write_text("\n".join(SENTENCES), encoding="utf-8")

    result = attnviz("survey", "--file", str(path), "-o", str(table))

    assert (result.status, result.err) == (0, f"wrote {table}\n")
    rows = table.read_text(encoding="utf-8").splitlines()
    assert rows[0] == (
        "layer,head,name,best,stands out,measure,examples,mean,spread,low,high,even,lines"
    )
    assert len(rows) == 1 + 72 * (len(MEASURES) + 1)
    assert rows[1].startswith('0,0,L0H0,broad,no,previous token,"",0.')
    assert re.search(r"L0H2,previous token,no,previous token,.?\d: line \d, ", "\n".join(rows))


@pytest.mark.usefixtures("quick")
def test_documents_count_alike_however_many_lines_they_have() -> None:
    first, second = SENTENCES[:3], SENTENCES[3:]
    result = survey([*first, "", "  ", *second, ""])
    parts = [survey(first), survey(second)]
    assert (result.lines, result.documents, result.blank_lines) == (4, 2, 3)
    assert survey(SENTENCES).documents == 1
    for place, head in enumerate(result.heads):
        estimate = head.estimates["previous token"]
        part_estimates = [part.heads[place].estimates["previous token"] for part in parts]
        assert estimate.lines == sum(each.lines for each in part_estimates)
        for name in ("mean", "even"):
            means = [getattr(each, name) for each in part_estimates if each.lines]
            assert getattr(estimate, name) == pytest.approx(np.mean(means), abs=1e-6)
    view = result.view()
    assert view.headline == "2 documents cannot show what stands out"
    assert view.closing[-1] == (
        "Blank lines separate 2 documents, each of which counts as one observation; intervals need "
        "6 or more."
    )
    assert "2 documents (blank lines separate them)" in view.settings


def test_documents_that_go_on_in_the_next_chunk_of_lines_stay_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = ["", *SENTENCES, "", *SENTENCES[:2], "", *SENTENCES[::-1], *SENTENCES]
    whole = survey(lines)
    monkeypatch.setattr(batches, "TEXTS_AT_ONCE", 3)
    parts = survey(lines)
    assert (parts.documents, parts.lines) == (whole.documents, whole.lines) == (3, 14)
    for head, other in zip(parts.heads, whole.heads, strict=True):
        for name, estimate in head.estimates.items():
            assert estimate.mean == pytest.approx(other.estimates[name].mean, abs=1e-6, nan_ok=True)


def test_lines_are_said_to_be_taken_for_independent() -> None:
    view = mixed_survey().view()
    assert view.closing[-1] == (
        "Intervals take lines for independent: if some are of one document, separate documents by "
        "blank lines."
    )
    table = view.screen.panels[0]
    assert isinstance(table, Grid)
    assert "and takes lines for independent" in table.note
