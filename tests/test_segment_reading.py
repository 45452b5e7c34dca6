"""Shares of segments are sums over the model's own weights; hiding one is a mask of its keys."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attnviz
from attnviz import AttnvizError, Inspection, inspect, trace
from attnviz.analysis.inspection.segment_reading import SegmentReading
from attnviz.cli.app import run_command_line
from tests.claims_of_titles import percent_matches
from tests.conftest import Attnviz
from tests.terminals import run_on_terminal

Saved = Callable[[str], Path]
PROMPT = "the animal was tired. it did cross the street.\n\nthe street was too. it\n\nit was"
NAMED = {"A": "the animal was tired.", "B": "it did cross"}


def eager_weights(folder: Path, ids: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """What transformers itself says each head of each layer attends to."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, attn_implementation="eager")
    with torch.no_grad():
        layers = model(torch.tensor([ids]), output_attentions=True).attentions
    return torch.stack([layer[0] for layer in layers]).double().numpy()


def reading_of(folder: Path, text: str = PROMPT, **options: Any) -> SegmentReading:
    options.setdefault("segments", "paragraphs")
    return inspect(text, model=str(folder), **options).segments


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "mistral", "gemma2"])
@pytest.mark.parametrize("segments", ["paragraphs", "sentences", NAMED])
def test_shares_and_base_rates_are_sums_over_the_weights_of_transformers(
    name: str, segments: Any, small_transformer: Saved
) -> None:
    folder = small_transformer(name)
    reading = reading_of(folder, segments=segments)
    traced = reading.trace
    weights = eager_weights(folder, traced.tokens.ids)
    visible = weights > 0
    groups, [query] = reading.segments.groups, reading.queries
    shares, evens, others = reading.tables
    own = {t: n for n, g in enumerate(reading.text_segments.groups, start=1) for t in g}

    heads = weights.reshape(-1, *weights.shape[2:])
    for head, (rows, seen) in enumerate(zip(heads, visible.reshape(heads.shape), strict=True)):
        for index, (group, number) in enumerate(zip(groups, reading.segments.numbers, strict=True)):
            keys = list(group)
            assert shares[0, head, index] == pytest.approx(rows[query, keys].sum(), abs=1e-5)
            even = seen[query, keys].sum() / seen[query].sum()
            assert evens[0, head, index] == pytest.approx(even, abs=1e-6)
            readers = [row for row in range(len(rows)) if row != query
                       and own.get(row, -1) != number and seen[row, keys].all()]  # fmt: skip
            mean = rows[readers][:, keys].sum(1).mean() if readers else np.nan
            assert others[head, index] == pytest.approx(mean, abs=1e-5, nan_ok=True)


WORDS = ("the", "animal", "was", ".", "\n\n", "it")


@given(st.lists(st.sampled_from(WORDS), min_size=4, max_size=24))
def test_the_shares_of_a_row_add_up_to_one_with_the_sink(words: list[str]) -> None:
    text = " ".join(words)
    with suppress(AttnvizError):  # of a single sentence
        reading = inspect(text, model="minilm", layer=0, segments="sentences").segments
        check_sums(reading)


def check_sums(reading: SegmentReading) -> None:
    shares, evens, _ = reading.tables

    assert shares.sum(-1) == pytest.approx(1, abs=1e-5)
    assert evens.sum(-1) == pytest.approx(1, abs=1e-9)
    assert 0 in reading.sinks
    members = sorted(token for group in reading.segments.groups for token in group)
    assert members == [*range(len(reading.trace.tokens))]


def test_what_a_model_gives_to_no_key_goes_to_the_sink(small_transformer: Saved) -> None:
    reading = reading_of(small_transformer("gpt-oss"))
    head = reading.heads[0]
    [query] = reading.queries
    total = float(head.cells.row(query).values.sum())

    assert total < 0.99
    assert reading.tables[0][0, 0].sum() == pytest.approx(1)
    sink = head.cells.row(query).values[0, list(reading.sinks)].sum() + 1 - total
    assert reading.tables[0][0, 0, 0] == pytest.approx(sink)


def test_the_sink_has_keys_that_most_tokens_read_most(small_transformer: Saved) -> None:
    reading = reading_of(small_transformer("bert"), segments="sentences")
    heads = len(reading.heads)
    counts = np.zeros(len(reading.trace.tokens))
    for head in reading.heads:
        weights = head.cells.window(slice(None), slice(None)).values
        tops = weights.argmax(1)
        key, count = max(
            ((key, (tops == key).sum()) for key in {*tops.tolist()}), key=lambda pair: pair[1]
        )
        counts[key] += count > len(tops) / 2
    expected = {0, *np.flatnonzero(counts >= max(1, 0.05 * heads)).tolist()}

    assert {*reading.sinks} == expected | reading.trace.tokens.special
    assert reading.segments.labels[0] == "sink"


def test_a_long_text_gives_the_shares_that_its_matrices_give(small_transformer: Saved) -> None:
    folder, text = small_transformer("llama"), PROMPT
    whole, streamed = reading_of(folder, text), reading_of(folder, text, stream=True)

    assert streamed.trace.layers[0].streamed_weights is not None
    for ours, theirs in zip(streamed.tables, whole.tables, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5, nan_ok=True)
    assert streamed.segments == whole.segments


def test_the_question_and_what_stands_around_it_is_not_asked_about(
    small_transformer: Saved,
) -> None:
    folder = small_transformer("llama")
    [own] = reading_of(folder, segments={"A": "the animal was tired.", "Q": "it was"}).own_segments
    labels = reading_of(folder, segments={"A": "the animal was tired."}).segments.labels
    [rest] = reading_of(folder, segments={"A": "the animal was tired."}).own_segments
    written = reading_of(folder, segments="paragraphs", generate=3)

    assert [*own] == [0, 3]  # the sink, and Q
    assert {labels[index] for index in rest} == {"sink", "rest"}
    names = written.segments.labels
    assert all(names[index] in ("sink", "it was", "answer")
               for each in written.own_segments for index in each)  # fmt: skip
    assert len(written.queries) == 3


# What is said

SAID_SHARE = r"((?:over |under )?[\d.]+)\xa0%"
BASE = rf"\(an even spread: {SAID_SHARE}(?:; other words: {SAID_SHARE})?\)"
STANDS_OUT = re.compile(rf'In (L\d+H\d+), (.+) reads sentence (\d+), ".+", {SAID_SHARE} {BASE}')
NOTHING = re.compile(
    rf'No sentence stands out in what (.+) reads; the closest is sentence (\d+), ".+" in '
    rf"(L\d+H\d+): {SAID_SHARE} {BASE}"
)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "minilm"])
@pytest.mark.parametrize("query", [None, "3", "5", "-2"])
def test_the_title_is_the_link_furthest_above_its_base_rates(
    name: str, query: str | None, small_transformer: Saved
) -> None:
    model = name if name == "minilm" else str(small_transformer(name))
    inspection = inspect(PROMPT, model=model, segments="sentences", query=query)
    reading, title = inspection.segments, inspection.view().headline
    shares, evens, others = (table.copy() for table in reading.tables)
    bases = np.maximum(evens[0], others)
    rank = (shares[0] - bases) / (1 - bases)
    rank[:, [*reading.own_segments[0]]] = np.nan
    rank[evens[0] == 0] = np.nan
    rank[np.isnan(others)] = np.nan
    if np.isnan(rank).all():
        assert "but its own" in title
        return
    head, index = divmod(int(np.nanargmax(rank)), rank.shape[1])
    lift = (shares[0] - bases)[head, index]
    stands_out = rank[head, index] >= 0.25 and lift >= 0.1

    match = (STANDS_OUT if stands_out else NOTHING).fullmatch(title)
    assert match, title
    says = match.groups()
    named, segment = (says[0], says[2]) if stands_out else (says[2], says[1])
    assert named == reading.heads[head].name
    assert int(segment) == reading.segments.numbers[index]
    numbers = shares[0, head, index], evens[0, head, index], others[head, index]
    assert all(
        percent_matches(text, number) for text, number in zip(says[3:], numbers, strict=True)
    )
    who = says[1] if stands_out else says[0]
    token = reading.queries[0]
    is_answer = reading.trace.prediction is not None and query is None and name != "bert"
    assert who == "the answer" if is_answer else reading.trace.tokens.labels[token] in who


def test_a_token_that_sees_its_own_segment_alone_has_no_other_to_read(
    small_transformer: Saved,
) -> None:
    inspection = inspect(
        PROMPT, model=str(small_transformer("llama")), segments="paragraphs", query="3"
    )

    [query] = inspection.segments.queries
    label = inspection.trace.tokens.labels[query]
    assert f'"{label}" (3) sees no paragraph but its own' == inspection.view().headline
    assert len(inspection.ranking) == 0


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert"])
def test_what_is_said_of_a_hidden_segment_is_what_changes(
    name: str, small_transformer: Saved
) -> None:
    folder = str(small_transformer(name))
    inspection = inspect(PROMPT, model=folder, segments="sentences", without_segment="1")
    effect = inspection.segments.effect_without("1")

    [sentence, *others] = [
        each for each in inspection.view().notes if "does not see" in each or "effect" in each
    ]

    assert 'does not see sentence 1, "the animal was tired." in any of' in sentence
    if not effect.answer:
        assert "its vector changes by" in sentence
        return
    falls = effect.likely_without < effect.likely
    assert (f'"{effect.answer}" falls from' in sentence) == falls
    assert (f'"{effect.other_answer}" is likeliest' in sentence) == bool(effect.other_answer)
    read = [link for link in inspection.segments.links[0] if link.stands_out and link.segment == 1]
    changes = abs(effect.likely - effect.likely_without) >= 0.1 or bool(effect.other_answer)
    assert any("disagree" in each for each in others) == (bool(read) != changes)


# A head that copies


@pytest.fixture(scope="module")
def copying_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that learned, here and in seconds, to go on as after the earlier copy of a letter."""
    folder = tmp_path_factory.mktemp("models") / "induction"
    call = ["learn", "induction", "--steps", "400", "--quiet", "--save", str(folder)]
    assert run_command_line(call) == 0
    return str(folder)


@pytest.mark.slow("training")
@pytest.mark.parametrize("place", [0, 2])
def test_the_segment_with_the_needle_stands_out_wherever_it_is(
    place: int, copying_model: str
) -> None:
    parts = ["bcd", "efg", "hij"]
    parts.insert(place, "kal")
    text = "".join([*parts, "a"])
    named: dict[str, str | range] = {
        f"part {number}": part for number, part in enumerate(parts)
    } | {"question": range(len(text) - 1, len(text))}

    link = inspect(text, model=copying_model, segments=named).segments.clearest
    reading = inspect(text, model=copying_model, segments=named).segments

    assert link is not None
    assert link.stands_out
    assert reading.segments.labels[link.segment] == f"part {place}"
    token = reading.passage_token(link)
    assert token is None or reading.trace.tokens.labels[token] in ("a", "l")


# A hidden segment


def test_hiding_a_segment_is_a_mask_of_its_keys_for_the_answer(small_transformer: Saved) -> None:
    from transformers import AutoModelForCausalLM

    folder = small_transformer("llama")
    reading = reading_of(folder, segments=NAMED)
    ids = torch.tensor([reading.trace.tokens.ids])
    index = reading.segments.labels.index("B")
    keys, count = list(reading.segments.groups[index]), ids.shape[1]
    mask = torch.full((count, count), 0.0).masked_fill(
        torch.ones(count, count).triu(1) > 0, torch.finfo(torch.float32).min
    )
    cut = mask.clone()
    cut[-1, keys] = torch.finfo(torch.float32).min
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    with torch.no_grad():
        before, after = (
            model(ids, attention_mask=each[None, None]).logits[0, -1].double().softmax(-1)
            for each in (mask, cut)
        )

    effect = reading.effect_without("B")

    best = int(before.argmax())
    assert effect.likely == pytest.approx(float(before[best]), abs=1e-5)
    assert effect.likely_without == pytest.approx(float(after[best]), abs=1e-5)
    bits = float((before * (before / after).log2()).sum())
    assert effect.change == pytest.approx(bits, abs=1e-4)
    assert bool(effect.other_answer) == (int(after.argmax()) != best)


def test_hiding_a_segment_in_one_head_changes_less_than_in_all(small_transformer: Saved) -> None:
    folder = small_transformer("llama")
    everywhere = reading_of(folder, segments=NAMED).effect_without("B")
    in_one = reading_of(folder, segments=NAMED, layer=1, head=0).effect_without("B")
    in_first = reading_of(folder, segments=NAMED, layer=0, head=0).effect_without("B")

    assert in_one.heads == ((1, 0),)
    assert 0 < in_one.change != everywhere.change
    assert in_first.change != in_one.change


def test_one_of_two_equal_sentences_is_hidden_by_its_number(small_transformer: Saved) -> None:
    text, folder = "it was. it was. it did", str(small_transformer("llama"))

    inspection = inspect(text, model=folder, segments="sentences", without_segment="2")

    assert any(
        note.startswith('If the answer does not see sentence 2, "it was." in')
        for note in inspection.view().notes
    )
    with pytest.raises(AttnvizError, match=r"'it was.' are 2 segments") as refusal:
        inspect(text, model=folder, segments="sentences", without_segment="it was.")
    assert refusal.value.hint.endswith("without_segment=1")
    assert inspect(text, model=folder, segments="sentences", without_segment=1).view().notes


def test_a_model_without_answers_says_how_far_the_vector_moves(small_transformer: Saved) -> None:
    effect = reading_of(small_transformer("bert"), segments="sentences").effect_without("1")

    assert effect.change > 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"without_segment": "C"}, "there is no segment 'C'"),
        ({"segments": "sentences", "without_segment": "9"}, "there is no segment '9'"),
        ({"weigh": "norm"}, "sums up what is read of each segment, and 'weigh' shows"),
        ({"by": "effect"}, "switches heads off, and 'segments' is about what they read"),
        ({"segments": "words"}, "there is no kind of segment 'words'"),
        ({"segments": "roles"}, "this text is none"),
        ({"segments": {"A": "nowhere"}}, "'A' is not in the text"),
    ],
)
def test_what_segments_cannot_show_is_refused(
    options: dict[str, Any], problem: str, small_transformer: Saved
) -> None:
    with pytest.raises(AttnvizError, match=problem.replace("(", r"\(")) as refusal:
        inspect(PROMPT, model=str(small_transformer("llama")), **({"segments": NAMED} | options))

    assert refusal.value.hint


def test_random_numbers_read_no_document() -> None:
    with pytest.raises(AttnvizError, match="the numbers here are random"):
        inspect(trace("I am. You are."), segments="sentences")


# What comes out


def test_all_ways_give_the_same_reading(small_transformer: Saved) -> None:
    traced = trace(PROMPT, model=str(small_transformer("llama")))

    from_trace = traced.segments("sentences")
    views = [from_trace.view(), traced.view(segments="sentences")]

    assert isinstance(from_trace, Inspection)
    assert len({view.headline for view in views}) == 1
    assert views[0].render(".csv") == views[1].render(".csv")
    assert [link.name for link in from_trace.ranking] == [
        link.name for link in from_trace.segments.links[0]
    ]
    excesses = [link.excess for link in from_trace.segments.links[0]]
    assert excesses == sorted(excesses, reverse=True)
    header, *rows = csv.reader(io.StringIO(from_trace.to_csv()))
    assert header == ["layer", "head", "name", "query number", "query", "segment number",
                      "segment", "share", "even", "others"]  # fmt: skip
    reading = from_trace.segments
    assert len(rows) == len(reading.heads) * len(reading.segments.groups)


def test_documents_are_joined_and_named_on_the_command_line(
    small_transformer: Saved, tmp_path: Path, attnviz: Attnviz
) -> None:
    folder = str(small_transformer("llama"))
    for name, text in {"a.txt": "the animal was tired", "b.txt": "it did cross"}.items():
        (tmp_path / name).write_text(text)
    documents = ["--document", f"{tmp_path}/a.txt", "--document", f"{tmp_path}/b.txt"]
    out = tmp_path / "shares.csv"

    result = attnviz("inspect", *documents, "it was", "--model", folder, "--out", str(out))

    assert result.status == 0, result.err
    rows = [*csv.DictReader(io.StringIO(out.read_text()))]
    names = [*dict.fromkeys(row["segment"] for row in rows)]
    assert names == ["sink", "a.txt", "b.txt", "question"]
    assert attnviz("run", *documents, "it was", "--model", folder).out.count("b.txt") > 0


@pytest.mark.slow("processes")
def test_the_first_screen_is_one_screen(small_transformer: Saved) -> None:
    folder = str(small_transformer("llama"))
    call = [sys.executable, "-m", "attnviz", "inspect", PROMPT, "--model", folder,
            "--segments", "sentences", "--without-segment", "2"]  # fmt: skip

    for height in (24, 30):
        text, status = run_on_terminal(call, {"PAGER": "cat", "NO_COLOR": "1"}, size=(height, 80))
        lines = text.splitlines()
        assert status == 0
        assert len(lines) < height
        assert any("in any of 8 heads" in " ".join(pair)
                   for pair in pairwise(lines))  # fmt: skip


def test_a_film_has_a_frame_for_each_word_with_shares_on_one_scale(
    small_transformer: Saved,
) -> None:
    folder = str(small_transformer("llama"))
    inspection = inspect(PROMPT, model=folder, segments="paragraphs", generate=4)
    reading = inspection.segments

    shots = inspection.view().shots

    assert len(shots) == len(reading.queries) == 4
    head = reading.clearest.head if reading.clearest else 0
    bars = [shot.groups[0].panels[0] for shot in shots]
    assert len({each.longest for each in bars}) == 1  # type: ignore[union-attr]
    for query, each in enumerate(bars):
        assert each.grid.values[:, 0] == pytest.approx(reading.tables[0][query, head])  # type: ignore[union-attr]


@pytest.mark.slow("formats")
def test_a_deck_has_slides_of_bars_whose_titles_are_those_of_the_slides(
    small_transformer: Saved,
) -> None:
    pytest.importorskip("pptx")
    inspection = inspect(PROMPT, model=str(small_transformer("llama")), segments="sentences")

    assert inspection.view().render(".pptx")[:2] == b"PK"


def test_json_has_the_effect_and_the_tokens_of_each_segment(small_transformer: Saved) -> None:
    inspection = inspect(
        PROMPT, model=str(small_transformer("llama")), segments=NAMED, without_segment="A"
    )

    document = json.loads(inspection.view().render(".json"))["segments"]

    assert document["without"]["name"] == "A"
    tokens = sorted(token for each in document["segments"] for token in each["tokens"])
    assert tokens == [*range(1, len(inspection.trace.tokens) + 1)]
    assert attnviz.inspect is inspect


@pytest.mark.parametrize(
    "segments", [{"A": 3}, {"A": (1, 2)}, {3: "it"}, {"A": b"it"}, {"A": range(0, 4, 2)}]
)
def test_segments_of_other_types_are_refused_in_two_lines(segments: Any) -> None:
    with pytest.raises(AttnvizError, match="should be a text or some tokens") as refusal:
        inspect("It slept. It woke.", segments=segments)

    assert refusal.value.hint


def test_segments_that_no_option_can_name_have_no_command() -> None:
    text = "It slept. It woke."
    traced = trace(text, model="minilm")

    for named in (inspect(text, segments={"A": "It slept."}), traced.segments({"A": "It slept."})):
        assert named.view().command is None
    assert traced.view(segments={"A": "It slept."}).command is None
    command = traced.segments("sentences").view().command
    assert command is not None
    assert command.line.endswith("--segments sentences")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_document_may_be_a_pipe_and_may_be_called_as_the_question_is(
    small_transformer: Saved, tmp_path: Path, attnviz: Attnviz
) -> None:
    pipe, out = tmp_path / "pipe", tmp_path / "shares.csv"
    os.mkfifo(pipe)
    (tmp_path / "question").write_text("the street was too")
    writer = threading.Thread(target=pipe.write_text, args=("the animal was tired",))
    writer.start()

    result = attnviz(
        *("inspect", "--document", str(pipe), "--document", str(tmp_path / "question")),
        *("it was", "--model", str(small_transformer("llama")), "--out", str(out)),
    )

    writer.join()
    assert result.status == 0, result.err
    names = {row["segment"] for row in csv.DictReader(io.StringIO(out.read_text()))}
    assert names == {"sink", "pipe", "question 1", "question"}
