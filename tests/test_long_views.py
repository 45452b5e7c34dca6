"""What is shown of a long text agrees with its weights."""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from attnviz import Settings, Trace, trace
from attnviz.cli import messages
from attnviz.errors import AttnvizError, Note
from attnviz.machine import memory
from attnviz.renderers.look import Look
from attnviz.renderers.picture.items import Words
from attnviz.renderers.picture.long_map import LongMapDrawing
from attnviz.renderers.picture.page_kinds import page_layout
from attnviz.renderers.picture.still_pictures import view_captions
from attnviz.renderers.picture.text import Lettering
from attnviz.tokens.tokens import tokens_of_words
from attnviz.traces.matrices import Matrices
from attnviz.views.grids.grid import pool_grid
from attnviz.views.grids.long_map import LongMap, round_positions, thinned_marks
from attnviz.views.heads.grid import measured_head
from attnviz.views.heads.passages import paragraph_starts, passage
from tests.conftest import Attnviz
from tests.refusals import assert_refused

STORY = Path("sample_texts/story.txt")
TOKENS = 600
NEEDLE = 420


def needle_trace(tokens: int = TOKENS, needle: int = NEEDLE, **settings: Any) -> Trace:
    """A causal text in which every query after one token attends to it, and most others evenly."""
    generator = torch.Generator().manual_seed(3)
    queries = torch.randn(1, tokens, 8, generator=generator) * 0.3
    keys = torch.randn(1, tokens, 8, generator=generator) * 0.3
    queries[..., 0], keys[..., 0] = 1.0, 0.0
    keys[0, needle, 0] = 30.0
    values = torch.randn(1, tokens, 4, generator=generator)
    matrices = Matrices(queries=queries, keys=keys, values=values)
    text = " ".join(f"w{number}" for number in range(tokens))
    return trace(text, tokenizer="spaces", causal=True, given=matrices, stream=True, **settings)


def test_a_needle_is_the_title_the_first_token_listed_and_the_brightest_block() -> None:
    long_trace = needle_trace(resolution=60)
    view = long_trace.view()
    head = measured_head(long_trace, long_trace.layers[0], 0)
    [long_map] = [panel for panel in view.picture.panels if isinstance(panel, LongMap)]
    blocks = long_map.grid.values.copy()
    np.fill_diagonal(blocks, 0)

    assert re.fullmatch(
        r'"w420", token 421, receives \d+\xa0% of the attention of 600 tokens, [\d,]+ times an '
        "even spread",
        view.headline,
    )
    assert head.most_read(1) == [NEEDLE]
    assert np.unravel_index(blocks[30:].argmax(), blocks[30:].shape)[1] == NEEDLE // 10
    assert "421 w420" in view.render(".txt").decode()


@pytest.mark.parametrize("variant", ["plain", "scaled", "causal", "multi-head", "average"])
def test_a_streamed_text_has_the_weights_of_a_whole_one(variant: str) -> None:
    text = STORY.read_text(encoding="utf-8")[:1500]
    without_matrices, with_matrices = (
        trace(text, variant=variant, stream=each) for each in (True, False)
    )
    layer, stored_layer = without_matrices.layers[0], with_matrices.layers[0]

    for head in range(layer.heads):
        weights = stored_layer.weights.head(head)
        long_head = measured_head(without_matrices, layer, head)
        assert torch.allclose(layer.weights.head(head), weights, atol=1e-6)
        assert np.allclose(long_head.received, weights.sum(0), atol=1e-4)
        assert np.allclose(long_head.numbers("on_first"), weights[:, 0], atol=1e-6)
    assert torch.allclose(layer.context, stored_layer.context, atol=1e-5)


def test_a_second_layer_reads_the_context_vectors_of_a_streamed_first_one() -> None:
    without_matrices, with_matrices = (
        trace("a b c d e f g", layers=2, heads=2, stream=each) for each in (True, False)
    )

    assert torch.allclose(
        without_matrices.layers[1].outputs, with_matrices.layers[1].outputs, atol=1e-5
    )


def test_texts_are_streamed_from_the_memory_budget_on() -> None:
    text = "a b c d " * 100

    with pytest.warns(Note) as notes:
        long_trace = trace(text, tokenizer="spaces", memory_budget="1MB", resolution=100)

    assert str(notes[0].message) == (
        "all weights of 400 tokens would take 4.9 MB: they are computed only where they are shown, "
        "and a block of the map stands for 4 × 4 tokens ('memory_budget' keeps more of them)"
    )
    assert long_trace.layers[0].weights_on_demand is not None
    assert trace(text, tokenizer="spaces").layers[0].weights_on_demand is None


def test_the_budget_is_1_gb_or_a_quarter_of_what_is_free() -> None:
    budgets = [memory.memory_budget(None, free) for free in (None, 10**9, 10**11)]

    assert budgets == [10**9, 250_000_000, 10**9]
    assert memory.memory_budget("4GB", 10**9) == 4 * 10**9


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        (
            ["--stream", "--dropout", "0.1"],
            "--stream computes weights where they are shown, and dropout needs all of them at once",
            "leave --stream out",
        ),
        (
            ["--resolution", "1"],
            "--resolution is 1, and must be from 2 to 4,096",
            "try --resolution 2",
        ),
        (
            ["--memory-budget", "much"],
            "--memory-budget is 'much', and must be a size",
            "try --memory-budget 100MB",
        ),
        (
            ["--log"],
            "--log colours the map of a long text, and this shows something else",
            "leave --log out, or add --stream",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_odd_options_are_refused(
    attnviz: Attnviz, arguments: list[str], problem: str, hint: str
) -> None:
    assert_refused(attnviz("run", "I am learning this", *arguments), problem, hint)


@pytest.mark.slow("formats")
def test_every_kind_of_file_has_the_same_numbers(attnviz: Attnviz, tmp_path: Path) -> None:
    files = [
        tmp_path / f"a{suffix}" for suffix in (".json", ".npz", ".csv", ".png", ".svg", ".html")
    ]
    result = attnviz(
        *("run", "--file", str(STORY), "--causal", "--stream", "--resolution", "50"),
        *(part for file in files for part in ("-o", str(file))),
    )
    assert result.status == 0, result.err

    data = json.loads(files[0].read_text(encoding="utf-8"))
    archive = np.load(files[1])
    lines = [*csv.DictReader(files[2].read_text(encoding="utf-8").splitlines())]
    received = np.array([float(line["received"]) for line in lines])
    layer = data["maps"]["L0"]
    pooled = np.array(layer["map"][0])
    assert pooled.shape == (50, 50)
    assert np.allclose(received.sum(), len(lines), rtol=1e-4)
    assert np.allclose(archive["maps.L0.received"][0], received, atol=1e-4)
    assert np.allclose(pooled.sum(1), 1, atol=1e-4)
    assert layer["queries_per_row"] == -(-len(lines) // 50)


def test_maps_of_several_heads_have_one_size_and_scale_and_share_their_numbers() -> None:
    view = trace(STORY.read_text(encoding="utf-8"), heads=4, causal=True, stream=True).view()
    look = Look()
    layout = page_layout(view.picture.groups, look, view_captions(view, look))
    boxes = [panel.box for panel in layout.panels]
    texts = [words.text for words in layout.words]

    assert len(boxes) == 4
    assert len({(round(width, 6), round(height, 6)) for *_, width, height in boxes}) == 1
    assert len({panel.grid.scale for panel in layout.panels}) == 1
    assert texts.count("1,000") == 4  # beside two rows of maps, and below two columns
    assert any(text.startswith("head 2: ") for text in texts)


@pytest.mark.parametrize(
    ("pool", "note"),
    [
        ("mean", "one cell = 12 × 20 tokens: weights summed over keys, averaged over queries"),
        (
            "max",
            "one cell = 12 × 20 tokens, averaged over blocks of 4 × 4 tokens (the largest weight)",
        ),
    ],
)
def test_blocks_that_are_pooled_again_say_how_many_tokens_they_are(pool: Any, note: str) -> None:
    text = "a b c d " * 100
    grid = trace(text, tokenizer="spaces", stream=True, resolution=100, pool=pool).view().grids()[0]

    assert pool_grid(grid, 3, 5).pool_note == note
    assert pool_grid(grid, 3, 5).cell_size == (12, 20)


def test_blocks_of_vectors_are_tokens_times_dimensions() -> None:
    [grid] = trace("a b c d e f", stream=True).view(show=["context"]).grids()

    assert pool_grid(grid, 3, 1).pool_note == "one cell = 3 tokens × 1 dimension, averaged"


def test_text_files_of_a_map_have_at_most_32_blocks_on_a_side() -> None:
    text = STORY.read_text(encoding="utf-8")[:4000]
    view = trace(text, stream=True, resolution=300).view()
    table = view.render(".md").decode()

    assert "## \n" not in table
    assert len(table.splitlines()[4].split("|")) <= 32 + 3
    assert "one cell = " in table
    assert max(map(len, view.render(".txt").decode().splitlines())) < 32 * 12


def test_maps_of_two_texts_have_their_own_numbers() -> None:
    picture = LongMapDrawing(tuple(long_map_of(tokens) for tokens in (range(200), range(40))))
    texts = [
        item.text for item in picture.items((0, 0, 13, 7), Lettering()) if isinstance(item, Words)
    ]

    assert texts.count("key (is read)") == texts.count("query (reads)") == 2


def long_map_of(keys: range) -> LongMap:
    grid = trace("a b", stream=True).view().grids()[0]
    return LongMap(grid=grid, row_tokens=range(200), column_tokens=keys)


def test_paragraphs_begin_after_empty_lines_or_else_after_breaks() -> None:
    text = "one two\n\nthree\nfour\n \n five"

    paragraphs, lines = (trace(each).tokens for each in (text, "one two\nthree"))

    assert [paragraphs[position] for position in paragraph_starts(paragraphs)] == [
        "one", "three", "five",
    ]  # fmt: skip
    assert [lines[position] for position in paragraph_starts(lines)] == ["one", "three"]
    assert paragraph_starts(tokens_of_words(["a", "b"])) == ()


def test_a_passage_has_the_token_in_brackets() -> None:
    tokens = trace("one two three four five six seven eight nine ten eleven").tokens

    assert passage(tokens, 0) == "[one] two three four five…"
    assert passage(tokens, 5) == "…two three four five [six] seven eight nine ten…"
    assert passage(tokens, 10) == "…seven eight nine ten [eleven]"


@given(first=some.integers(0, 10**6), count=some.integers(1, 10**6), most=some.integers(1, 9))
def test_axes_name_the_first_and_round_numbers(first: int, count: int, most: int) -> None:
    positions = round_positions(range(first, first + count), most)
    steps = {after - before for before, after in pairwise(positions[1:])}

    assert positions == sorted({*positions})
    assert all(first <= position < first + count for position in positions)
    assert len(positions) <= most + 1
    assert len(steps) <= 1


@given(positions=some.lists(some.integers(0, 999), unique=True).map(sorted))
def test_marks_are_at_most_so_many_and_evenly_chosen(positions: list[int]) -> None:
    marks, step = thinned_marks(positions, range(100, 900), 10)

    inside = [position for position in positions if 100 <= position < 900]
    assert marks == inside[::step]
    assert len(marks) <= 10


def test_a_setting_of_a_long_text_is_in_its_command() -> None:
    long_trace = trace("I am", Settings(stream=True, resolution=64, pool="max"))
    command = long_trace.view().command

    assert command is not None
    assert command.line == "attnviz run 'I am' --stream --resolution 64 --pool max"


@pytest.mark.parametrize(
    ("text", "settings", "title"),
    [
        ("I", {}, '"I" is the only token, and receives all attention'),
        (
            "I am learning this",
            {"window": 1},
            "Attention is as broad as the mask allows, an even spread over 1.0 of 4 tokens",
        ),
        (
            "I am learning this",
            {"variant": "average"},
            "Attention is as broad as the mask allows, an even spread over 2.2 of 4 tokens",
        ),
        (
            "I am learning this",
            {"variant": "average", "causal": False},
            "Attention is as broad as an even spread over all 4 tokens",
        ),
        (
            "I am learning this",
            {"causal": True},
            "Attention is as broad as an even spread over 1.7 of 4 tokens; the mask alone allows "
            "2.2",
        ),
        (
            "I am learning this",
            {},
            "Attention is as broad as an even spread over 3.0 of 4 tokens",
        ),
    ],
    ids=["one token", "window of one", "even and causal", "even", "causal", "random"],
)
def test_titles_are_true_of_short_texts(text: str, settings: dict[str, Any], title: str) -> None:
    assert trace(text, stream=True, **settings).view().headline == title


def test_a_query_says_which_keys_tie_and_that_all_are_masked() -> None:
    even_trace_view = trace("I am learning this", variant="average", stream=True).view(query=3)
    masked_matrices = Matrices(
        embeddings=torch.eye(2), visible=torch.tensor([[1, 0], [0, 0]]).bool()
    )
    blind_trace = trace("a b", tokenizer="spaces", given=masked_matrices, stream=True)

    assert even_trace_view.headline == (
        '"this" (token 4) attends most to 4 tokens, equally: 25.0\xa0% each, as with an even spread'
    )
    assert blind_trace.view(query=1).headline == (
        '"b" (token 2) attends to nothing: every key is masked'
    )
    assert "each row sums to 1" not in blind_trace.view().grids()[0].note


def test_a_head_that_is_off_is_marked_and_noted() -> None:
    view = trace("I am learning this", heads=2, without="L0H1", stream=True).view()

    assert [all(grid.off) and bool(grid.off) for grid in view.grids()[:2]] == [False, True]
    assert view.notes[0].startswith("head 1 is switched off: its output is replaced by 0")


@pytest.mark.parametrize("name", ["agreement", "minilm"])
def test_models_stream_too(name: str, attnviz: Attnviz) -> None:
    result = attnviz("run", "the dogs near the tree", "--model", name, "--stream")

    assert result.status == 0, result.err


def test_a_mask_that_does_not_fit_is_refused_and_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    long_trace = trace("a b c d " * 60, stream=True)
    monkeypatch.setattr("attnviz.machine.memory.free_bytes", lambda: 5000)

    with pytest.raises(AttnvizError, match=r"^the mask of 241 tokens as a matrix takes about"):
        long_trace.layers[0].visible.sum()


def test_the_row_of_a_query_is_exact_and_lists_what_it_attends_to() -> None:
    long_trace = needle_trace()
    view = long_trace.view(query=500)
    weights = long_trace.layers[0].weights.head(0)[500]
    text = view.render(".txt").decode()

    share = re.escape(f"{100 * weights[NEEDLE]:.1f}")
    assert re.fullmatch(
        rf'"w500" \(token 501\) attends most to "w420" \(token 421\): {share}\xa0%, '
        r"[\d,]+ times an even spread",
        view.headline,
    )
    assert "421 w420" in text


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_many_rows_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = FakeTerminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")

    with messages.showing_row_progress(quiet=False):
        trace("a b c d " * 300, tokenizer="spaces", stream=True)

    assert "1,200 of 1,200 rows of weights" in terminal.getvalue()
    assert "left" in terminal.getvalue()
