"""`attnviz explore`: what keys do, what the screen says, and that the terminal is as before."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.style import Style

from attnviz import trace
from attnviz.cli import explore
from attnviz.cli.explorer import subject
from attnviz.cli.explorer.application import Explorer
from attnviz.cli.explorer.frame import (
    MARK_STYLE,
    MIN_SIZE,
    body_height,
    matrix_layout,
    sheet_layout,
)
from attnviz.cli.explorer.keys import ALL_PANES, KEYS, MOVES, Key, last_line_words
from attnviz.cli.explorer.place import Place, keep_in_sight, step_layer
from attnviz.cli.explorer.session import ACTIONS, Job, Session
from attnviz.cli.explorer.subject import Subject, open_subject
from attnviz.cli.output_options import OutputOptions, PictureOptions, screen_from_options
from attnviz.errors import AttnvizError
from attnviz.renderers.terminal.screen import ColorDepth, Screen, marker_color
from attnviz.traces.inputs import build_source
from attnviz.traces.trace import Trace
from attnviz.views.conclusions.weight_titles import head_weights_title
from attnviz.wording.commands import parse_command
from tests import LONGEST
from tests.conftest import ROOT, Attnviz
from tests.terminals import reply_once, run_on_terminal

SENTENCE = "the old dogs near the table"
WIDE = "日本語 🙂 e\u0301te\u0301 and a long sentence about attention , heads and tokens . " * 3
DOWN, RIGHT = "down", "right"
ABILITIES = frozenset(("heads", "layers", "changes", "settings", "scores", "text", "continues"))


@cache
def traced(text: str = SENTENCE, **settings: object) -> Trace:
    return trace(text, **settings)  # type: ignore[arg-type]


@cache
def opened(text: str = SENTENCE, **settings: object) -> tuple[Subject, Place]:
    return open_subject(traced(text, **settings))


def session(
    text: str = SENTENCE,
    *,
    size: tuple[int, int] = (80, 24),
    colors: ColorDepth = "truecolor",
    **settings: object,
) -> Session:
    """A session on a model that learned agreement, or on what the settings name."""
    subject, place = opened(text, **(settings or {"model": "agreement"}))
    return Session(subject, place, Screen(*size, colors), PictureOptions())


def press(on: Session, *keys: str) -> list[str]:
    """Press keys, do the jobs that they set, and return the screen as text."""
    for key in keys:
        on.press(key)
        if on.job is not None:
            job = on.job
            try:
                result = job.work()
            except AttnvizError as error:
                result = error
            on.finish(job, result)
    return screen(on)


def screen(on: Session) -> list[str]:
    """The lines, with plain spaces in place of those that hold a number and its unit together."""
    return [line.plain.replace("\xa0", " ").rstrip() for line in on.frame().lines]


def foot(shown: list[str]) -> str:
    """The last lines as one text: a message may take several."""
    return " ".join(shown[-6:])


def weights(subject: Subject, head: int) -> np.ndarray:
    return subject.grid(head).values


# The colours and the marker.

LONG = "one two three four five six seven eight nine ten " * 3


@pytest.mark.parametrize("colors", ["16", "256", "truecolor"])
@pytest.mark.parametrize("keys", [(), ("up",), ("up", "left"), ("up", "home")])
def test_half_of_a_cell_is_marked_in_a_colour_of_its_own(
    keys: tuple[str, ...], colors: ColorDepth
) -> None:
    on = session(LONG, colors=colors, seed=42)
    press(on, *keys)
    layout = matrix_layout(on.subject, on.place, on.screen)
    frame = on.frame()
    line = frame.lines[frame.body.start + 1 + (on.place.query - on.place.top) // 2]
    at = layout.label_width + on.place.key - on.place.left
    [style] = [span.style for span in line.spans if span.start <= at < span.end]

    assert layout.form.cells == "halves"
    assert line.plain[at] == "▀▄"[on.place.query % 2]
    assert isinstance(style, Style)
    assert style.color == marker_color(on.screen) != style.bgcolor


def test_of_two_names_on_a_line_that_of_the_query_is_marked() -> None:
    on = session(LONG, seed=42)
    names = on.subject.grid(0).rows.names
    for query in (on.place.query, on.place.query - 1):
        [marked] = [
            line.plain[span.start : span.end]
            for line in on.frame().lines
            for span in line.spans
            if span.style == MARK_STYLE and not line.plain[span.start : span.end].isdigit()
        ]
        assert marked.strip() == names[query]
        press(on, "up")


def test_words_have_the_colours_of_their_cells() -> None:
    on = session()
    frame, layout = on.frame(), matrix_layout(on.subject, on.place, on.screen)
    words = [span.style.bgcolor for span in frame.lines[2].spans if span.style.bgcolor]  # type: ignore[union-attr]
    row = frame.lines[frame.body.start + layout.heading_lines + on.place.query]
    cells = [style.bgcolor for span in row.spans if isinstance(style := span.style, Style)]

    assert {*words} == {*filter(None, cells)}


def test_words_from_right_to_left_are_kept_in_place_and_no_mark_is_spelled() -> None:
    on = session("我 爱 学习 שלום עולם", seed=42, tokenizer="words")
    for _ in range(5):
        text = "\n".join(screen(on))
        assert "u200e" not in text
        assert "\u200e\u200e" not in text
        press(on, "up")


def test_long_words_are_cut_and_the_numbers_of_the_cell_kept() -> None:
    words = "Donaudampfschifffahrtsgesellschaft pneumonoultramicroscopicsilico of"
    for size in ((60, 16), (80, 24)):
        on = session(words, seed=42, tokenizer="words", size=size)
        for keys in (("up", "up"), ("right",), ("right",)):
            line = press(on, *keys)[-2]
            weight = float(weights(on.subject, 0)[on.place.query, on.place.key])
            assert f"weight {weight:.4f}   scaled score" in line
            assert re.search(r"scaled score -?\d+\.\d\d$", line)


def test_only_the_answers_that_change_are_named_each_with_its_position() -> None:
    brackets = "( [ { } ] ) ( ( [ ] ) ) [ { } ]"
    on = session(brackets, model="brackets", size=(200, 40))
    shown = press(on, *"x]x]x")
    now, before = (each.prediction for each in (on.subject.trace, on.subject.base))
    assert now is not None
    assert before is not None
    changed = []
    for at in now.asked_positions:
        old, new = (each.answers[int(each.probabilities[at].argmax())] for each in (before, now))
        if old != new:
            changed.append(f'at {at + 1} "{on.subject.trace.tokens.labels[at]}": {old} → {new}')
    start = f"{len(changed)} of {len(now.asked_positions)} answers change"

    assert len(changed) > 1
    assert shown[-2].startswith(f"{start}: {', '.join(changed)}"[:199])


def test_a_change_of_less_than_a_thousandth_is_not_said_to_be_one() -> None:
    on = session()
    now = on.subject.trace.prediction
    assert now is not None
    earlier = replace(now, probabilities=now.probabilities - 0.0005)
    tokens = on.subject.trace.tokens

    assert "was" not in subject._changed_answers_text(tokens, now, earlier, 6)


def test_the_sentence_takes_lines_that_are_free_and_says_where_words_are_left_out() -> None:
    on = session(LONG, seed=42, size=(80, 24))
    assert len(on.frame().sentence) == 3  # the last of them is the legend
    assert "…" not in "".join(screen(on)[2:4])

    on = session(LONG * 4, seed=42, size=(80, 24))
    on.place = replace(on.place, query=60)
    on.resize(80, 24)
    *lines, _ = screen(on)[on.frame().sentence.start : on.frame().sentence.stop]
    before = lines[0]
    assert before.startswith("… ")
    assert lines[-1].endswith(" …")
    on.click(before.index(before.split()[2]), on.frame().sentence.start)
    assert on.subject.trace.tokens.labels[on.place.query] == before.split()[2]


# The keys.


def test_every_key_has_an_action_and_every_action_a_key() -> None:
    assert {key.names[0] for key in KEYS} == ACTIONS.keys()


def test_no_key_means_two_things_in_a_pane() -> None:
    for pane in ALL_PANES:
        names = [name for key in KEYS if pane in key.panes for name in key.names]
        assert len(names) == len(set(names))


def test_the_page_about_explore_has_the_table_of_keys() -> None:
    page = (ROOT / "docs" / "explore.md").read_text("utf-8")
    listed = re.findall(r"^\| `(.+)` \| (.+) \| (.+) \|$", page, re.MULTILINE)

    assert listed == [(key.label, where(key), key.does) for key in KEYS]


def where(key: Key) -> str:
    """The panes in which a key does something, as the page names them."""
    results = {"matrix", "overview", "arithmetic"}
    return "everywhere" if results <= {*key.panes} else " and ".join(key.panes)


def test_keys_that_a_page_has_too_mean_the_same() -> None:
    script = (ROOT / "attnviz/renderers/page/script/shortcuts.js").read_text("utf-8")
    of_page = dict(re.findall(r'^  "?(\S)"?: \{ does: "([^"]+)"', script, re.MULTILINE))
    ours = {name: key.does for key in KEYS for name in key.names}

    assert {"[", "]", "/", "?"} <= of_page.keys()
    for name, does in of_page.items():
        if name in ours:
            first = does.split(" ")[0]
            assert first in ours[name]


@pytest.mark.parametrize("pane", ALL_PANES)
def test_the_last_line_fits_and_begins_with_what_matters(pane: str) -> None:
    for room in (60, 80, 120, 240):
        words = last_line_words(pane, room, ABILITIES)  # type: ignore[arg-type]
        line = "  ".join(f"{key} {word}" for key, word in words)

        assert len(line) <= room
        assert {"q", "?"} <= {key for key, _ in words}


def test_keys_that_a_model_has_no_use_for_are_not_listed() -> None:
    learned, single = session(size=(240, 40)), session("I am", seed=42, size=(240, 40))

    assert "scale" in screen(learned)[-1]
    assert "next word" not in screen(learned)[-1]
    assert "all heads" not in screen(single)[-1]
    assert "next word" in screen(session("abcab", model="induction", size=(240, 40)))[-1]


# Moves.


def test_a_move_takes_the_title_the_cell_and_the_sentence_along() -> None:
    on = session()
    layer, number = on.subject.attention[on.place.head]
    shown = press(on, "up", "left")

    assert on.place.query == 5
    assert on.place.key == 1
    title = head_weights_title(on.subject.trace, layer, number, 5)
    assert shown[0] == title.replace("\xa0", " ")
    weight = float(on.subject.trace.weights[1, 0, 5, 1])
    assert f"6 table → 2 old   weight {weight:.4f}" in shown[-3]
    sentence = on.frame().lines[2]
    [start] = [span.start for span in sentence.spans if "underline" in str(span.style)]
    assert sentence.plain[start:].startswith("table")


def test_a_hidden_cell_is_said_to_be_hidden() -> None:
    assert "1 the → 7 ?   hidden by the mask" in press(session(), *["up"] * 6, "end")[-3]


def test_heads_and_layers_follow_one_another_in_a_circle() -> None:
    on = session()
    names = [on.subject.name(on.place.head)]
    for key in "]]]]}[{":
        on.press(key)
        names.append(on.subject.name(on.place.head))

    assert names == ["L1H0", "L1H1", "L0H0", "L0H1", "L1H0", "L0H0", "L1H1", "L0H1"]


@given(st.integers(0, 40), st.integers(1, 40), st.integers(1, 20), st.sampled_from([1, 2]))
def test_a_cell_is_always_in_sight(query: int, count: int, rows: int, per_line: int) -> None:
    query, rows = min(query, count - 1), rows * per_line
    place = keep_in_sight(Place(query=query, top=7), rows, 4, (count, 4), per_line)

    assert place.top <= query < place.top + rows
    assert place.top % per_line == 0


@given(st.integers(0, 8), st.sampled_from([1, -1]))
def test_a_layer_with_fewer_heads_is_entered_at_its_last(head: int, step: int) -> None:
    cells = [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4)]
    layer, number = cells[step_layer(Place(head=head), step, cells).head]

    assert layer == (cells[head][0] + step) % 3
    assert number == min(cells[head][1], [2, 0, 4][layer])


MANY_KEYS = st.lists(
    st.sampled_from(
        [*"[]{}o?d+-0", *MOVES, "home", "end", "pageup", "pagedown", "enter", "escape"]
    ),
    max_size=8,
)


@given(
    keys=MANY_KEYS,
    size=st.tuples(st.integers(60, 240), st.integers(16, 70)),
    colors=st.sampled_from(["none", "16", "truecolor"]),
    is_wide=st.booleans(),
)
def test_whatever_is_pressed_the_screen_is_full_and_no_line_is_broken(
    keys: list[str], size: tuple[int, int], colors: ColorDepth, is_wide: bool
) -> None:
    text, settings = (WIDE, {"heads": 2}) if is_wide else (SENTENCE, {"model": "agreement"})
    on = session(text, size=size, colors=colors, **settings)
    press(on, *keys)
    frame = on.frame()

    assert len(frame.lines) == size[1]
    assert max(line.cell_len for line in frame.lines) <= size[0]
    if on.place.pane == "matrix":
        layout = matrix_layout(on.subject, on.place, on.screen)
        assert on.place.query in range(on.place.top, on.place.top + layout.rows)
        assert on.place.key in range(on.place.left, on.place.left + layout.columns)


def test_without_colours_there_are_none() -> None:
    for keys in ("", "-", "--", "o", "d"):
        on = session(colors="none")
        press(on, *keys)
        styles = [span.style for line in on.frame().lines for span in line.spans]
        assert not any(getattr(style, "color", None) for style in styles)


def test_a_small_screen_says_how_large_it_has_to_be() -> None:
    on = session()
    on.resize(30, 8)

    assert " ".join(screen(on)) == (
        f"attnviz explore needs {MIN_SIZE[0]} columns and {MIN_SIZE[1]} lines; q quits"
    )
    before = replace(on.place, top=0)
    press(on, DOWN, "]", "o", "d", "e", "x", "?")
    on.turn_wheel(1)
    on.click(3, 2)
    on.resize(80, 24)
    assert (on.place, on.prompt, on.subject.changes) == (before, None, "")
    assert len(screen(on)) == 24
    press(on, "e")
    on.resize(MIN_SIZE[0] - 1, 24)
    press(on, "q")
    assert on.is_over


def test_zoom_goes_from_numbers_to_half_blocks_and_back() -> None:
    on, forms = session(), []
    for key in ("", "-", "-", "-", "+", "0"):
        press(on, *([key] if key else []))
        forms.append(matrix_layout(on.subject, on.place, on.screen).form.cells)

    assert forms == ["numbers", "blocks", "halves", "halves", "blocks", "numbers"]


def test_a_click_on_a_cell_follows_it() -> None:
    on = session()
    frame = on.frame()
    line = next(number for number in frame.body if frame.lines[number].plain.startswith("4 near"))
    column = frame.lines[line].plain.index(".00")
    on.click(column, line)

    assert (on.place.query, on.place.key) == (3, 0)


def test_a_click_on_a_name_goes_to_its_row_or_its_column() -> None:
    on = session()
    frame = on.frame()
    row = next(number for number in frame.body if frame.lines[number].plain.startswith("4 near"))
    on.click(2, row)
    assert (on.place.query, on.place.key) == (3, 2)
    on.click(screen(on)[frame.body.start].index("old"), frame.body.start)
    assert (on.place.query, on.place.key) == (3, 1)
    on.click(79, row)
    on.click(0, frame.body.start)
    on.click(30, frame.body.stop - 1)
    assert (on.place.query, on.place.key) == (3, 1)


def test_of_two_names_on_a_line_the_one_that_is_clicked_is_followed() -> None:
    on = session(LONG, seed=42)
    names = on.subject.grid(0).rows.names
    top = on.frame().body.start + 1
    line = screen(on)[top]
    upper = on.place.top
    for query in (upper, upper + 1):
        on.click(line.index(names[query].split()[-1]), top)
        assert on.place.query == query


def test_a_click_on_a_key_of_the_last_line_presses_it() -> None:
    on = session()
    last = len(screen(on)) - 1

    def click(words: str, letter: int = 0) -> None:
        on.click(screen(on)[last].index(words) + letter, last)

    click("[ ] head", 2)
    assert on.subject.name(on.place.head) == "L1H1"
    click("[ ] head")
    assert on.subject.name(on.place.head) == "L1H0"
    before = on.place
    click("arrows")
    click("  o all")
    assert on.place == before
    click("o all heads", 4)
    assert "Enter open" in screen(on)[last]
    click("Esc back")
    click("? keys")
    assert on.place.pane == "keys"
    click("scroll")
    assert on.place.scroll == 1
    click("Esc back")
    click("e edit")
    assert on.prompt is not None
    click("Ctrl-U")
    assert on.prompt.text == ""
    click("Esc leave")
    assert on.prompt is None
    click("q quit")
    assert on.is_over


MESSAGES = st.lists(st.text("abcdefghij", min_size=1, max_size=14), min_size=1, max_size=15)


@given(words=MESSAGES, pane=st.sampled_from(["", "o", "d", "?"]), is_typing=st.booleans())
def test_no_word_of_a_message_is_lost_and_the_next_key_gives_the_room_back(
    words: list[str], pane: str, is_typing: bool
) -> None:
    on, message = session(), " ".join(words)
    before, body = press(on, *pane), len(on.frame().body)
    is_typing = is_typing and pane != "?"  # where there is nothing to type
    if is_typing:
        press(on, "e")
        assert on.prompt is not None
        on.prompt = replace(on.prompt, problem=message)
    else:
        on.message = message
    shown = screen(on)

    assert len(shown) == 24
    assert message in " ".join(shown[-5:])
    assert shown[:5] == before[:5]
    assert ("text the old" in " ".join(shown)) == is_typing
    press(on, "escape" if is_typing else "pageup")
    assert len(on.frame().body) == body


def test_a_long_problem_stands_below_the_line_that_is_typed() -> None:
    on = session()
    press(on, "e", "ctrl+u", *"the unheardof", "enter")
    assert on.prompt is not None
    problem = on.prompt.problem
    shown = screen(on)

    assert len(problem) > 80
    assert " ".join(shown).endswith(problem)
    assert any(line.startswith("text the unheardof") for line in shown)


def test_a_message_of_more_than_four_lines_ends_in_an_ellipsis() -> None:
    on = session(size=MIN_SIZE)
    on.message = "word " * 60
    shown = screen(on)

    assert len(shown) == MIN_SIZE[1]
    assert [line.startswith("word") for line in shown].count(True) == 4
    assert shown[-3].endswith("…")


def test_a_click_on_a_word_follows_it_and_the_wheel_goes_on() -> None:
    on = session()
    on.click(screen(on)[2].index("near"), 2)
    assert on.place.query == 3
    on.turn_wheel(2)
    assert on.place.query == 5
    on.turn_wheel(-2, sideways=True)
    assert on.place.key == 0


def test_all_heads_are_opened_by_enter_and_by_a_click() -> None:
    on = session()
    shown = press(on, "o", "left")
    assert on.place.pane == "overview"
    assert all(any(name in line for line in shown) for name in ("L0H0", "L0H1", "L1H0", "L1H1"))
    press(on, "enter")
    assert on.subject.name(on.place.head) == "L0H1"
    assert "d arithmetic" in screen(on)[-1]

    press(on, "o")
    top = on.frame().body.start
    on.click(screen(on)[top].index("L0H0"), top)
    assert on.subject.name(on.place.head) == "L0H0"
    on.click(screen(on)[top].index("L0H0"), top)
    assert "d arithmetic" in screen(on)[-1]


@pytest.mark.parametrize("size", [(80, 24), (240, 70)])
def test_small_maps_are_as_large_as_all_heads_fit(size: tuple[int, int]) -> None:
    on = session(size=size)
    shown = press(on, "o")
    layout, frame = sheet_layout(on.subject, on.place, on.screen), on.frame()
    cell_lines, tokens = layout.form.cell_lines, len(on.subject.trace.tokens)
    top = frame.body.start
    below = next(line for line in frame.body if shown[line].startswith("L1H0"))

    assert layout.form.cell_columns == 2 * cell_lines
    assert below - top == 1 + tokens * cell_lines + 1  # a name, the rows, an empty line
    assert 2 * (1 + tokens * cell_lines) <= len(frame.body) < 2 * (1 + tokens * (cell_lines + 1))
    assert "in sight" not in shown[1]
    on.click(layout.map_columns + 3, below - 2)
    assert on.subject.name(on.place.head) == "L0H1"


@pytest.mark.parametrize("text", [SENTENCE, LONG * 2])  # of whole cells, and of half ones
@pytest.mark.parametrize("colors", ["16", "256", "truecolor"])
def test_the_small_map_of_a_head_that_is_off_is_grey_and_its_name_struck_through(
    colors: ColorDepth, text: str
) -> None:
    model: dict[str, object] = {"model": "agreement"} if text == SENTENCE else {"heads": 4}
    on = session(text, colors=colors, size=(120, 50), without="L0H1", **model)
    press(on, "o")
    layout, frame = sheet_layout(on.subject, on.place, on.screen), on.frame()
    title, first = frame.lines[frame.body.start], frame.lines[frame.body.start + 1]
    columns = (0, layout.map_columns + layout.form.gap)
    console = Console()
    names, cells = (
        [line.get_style_at_offset(console, column) for column in columns] for line in (title, first)
    )
    with_all = on.subject.with_settings(without=None)
    on = Session(with_all, on.place, on.screen, PictureOptions())
    beside = on.frame().lines[frame.body.start + 1]
    usual = [beside.get_style_at_offset(console, column) for column in columns]

    assert layout.form.halves == (text != SENTENCE)
    assert [bool(style.strike) for style in names] == [False, True]
    assert [ours == theirs for ours, theirs in zip(cells, usual, strict=True)] == [True, False]


@pytest.mark.parametrize("width", range(60, 241, 20))
def test_settings_are_written_whole_and_those_that_keys_change_come_first(width: int) -> None:
    on = session(size=(width, 30))
    line, parts = screen(on)[1], on.subject.about
    name, *shown = line.removesuffix(" …").split(" · ")

    assert name == "L1H0, one of 4 heads"
    assert shown[:4] == ["model agreement", "scaled", "causal", "temperature 0.5"][: len(shown)]
    assert shown == list(parts[: len(shown)])
    assert line.endswith(" …") == (len(shown) < len(parts))
    assert len(shown) == len(parts) or len(f"{line[:-2]} · {parts[len(shown)]} …") > width
    assert set(parts) >= {"7 tokens (words)", "learned positions", "cpu float32"}


def test_without_colours_a_cell_of_a_small_map_is_one_line_high() -> None:
    on = session(size=(240, 70), colors="none")
    press(on, "o")
    assert sheet_layout(on.subject, on.place, on.screen).form.cell_lines == 1


def test_of_many_tokens_as_many_are_apart_as_there_is_room_for() -> None:
    sides = []
    for size in ((60, 16), (80, 24), (120, 40), (240, 70)):
        on = session(LONG * 2, size=size, seed=42, heads=4)
        press(on, "o")
        sides.append(sheet_layout(on.subject, on.place, on.screen).side)
        assert on.subject.small_map(0, sides[-1]).cells.shape[0] <= sides[-1]

    assert sides == sorted(sides)
    assert sides[-1] > sides[0] == subject.SMALL_MAP_SIDE


def test_where_not_all_heads_fit_those_in_sight_are_numbered() -> None:
    on = session("abcde" * 4, model="induction", size=(60, 16))
    shown = press(on, "o")
    [(first, last)] = re.findall(r"one of 8 heads · heads (\d)–(\d) in sight", shown[1])
    names = [on.subject.name(head) for head in range(8)]
    in_sight = [name for name in names if any(name in line for line in shown[2:])]

    assert in_sight == names[int(first) - 1 : int(last)]
    assert len(in_sight) < 8


def test_the_list_of_keys_is_that_of_the_pane_below() -> None:
    on = session()
    shown = "\n".join(press(on, "o", "?"))
    assert "open the head" in shown
    assert "larger cells" not in shown
    press(on, "?")
    assert on.place.pane == "overview"


# What is found of a token.


def test_find_goes_to_the_next_of_a_word_and_to_a_number() -> None:
    on = session()
    found = []
    for name in ("the", "the", "the", "4"):
        press(on, "/", *name, "enter")
        found.append(on.place.query)

    assert found == [0, 4, 0, 3]


def test_find_says_what_is_not_there() -> None:
    on = session()
    shown = press(on, "/", *"cow", "enter")

    assert "cow" in foot(shown)
    assert on.place.query == 6
    assert "weight" in press(on, "up")[-3]


def test_a_line_is_edited_where_its_caret_is() -> None:
    on = session()
    keys = ("left", "left", "X", "home", "delete", "end", "backspace", "right")
    press(on, "/", *"abcd", *keys)
    assert on.prompt is not None
    assert on.prompt.text == "bXc"
    press(on, "ctrl+u", *"é 日本")
    on.type("pasted\ntext")
    assert on.prompt.text == "é 日本pasted text"
    assert "é 日本pasted text" in screen(on)[-3]
    press(on, "escape")
    assert on.prompt is None


# Changes.


def test_a_head_that_is_switched_off_changes_the_answer_as_without_does() -> None:
    on = session()
    shown = press(on, "x")
    after = traced(model="agreement", without="L1H0")
    assert after.prediction is not None
    wanted = after.prediction.probabilities
    ours = on.subject.trace.prediction
    assert ours is not None

    assert torch.equal(ours.probabilities, wanted)
    assert shown[0] == 'In L1H0, "?" gives "dogs" 100 % of its attention'
    assert shown[1].startswith("L1H0 (off), one of 4 heads")
    assert "changed: --without L1H0" in shown[1]
    assert press(on, "up")[0].startswith('In L1H0, "table"')
    answer = ours.answers.index("are")
    share = 100 * float(wanted[6, answer])
    assert f"are {share:.0f} % (was over 99.9 %)" in shown[-2]
    press(on, "x")
    assert on.subject.trace is on.subject.base


def test_scale_mask_and_temperature_compute_what_torch_computes() -> None:
    on = session("I am learning this", seed=42)
    press(on, "s", "m", "t", "t")
    layer = on.subject.trace.layers[0]
    assert layer.queries is not None
    assert layer.keys is not None
    scores = layer.queries[0] @ layer.keys[0].T / 4  # two temperatures of 2, and no √8
    wanted = scores.masked_fill(torch.ones(4, 4).triu(1) > 0, -torch.inf).softmax(-1)

    torch.testing.assert_close(torch.from_numpy(weights(on.subject, 0)), wanted)
    assert "changed: --no-scale --causal --temperature 4 " in screen(on)[1]
    press(on, "s", "m", "T", "T")
    assert on.subject.trace is on.subject.base
    assert "changed" not in screen(on)[1]


def test_the_temperature_has_limits() -> None:
    assert "stays between 1/64 and 64" in press(session(), *"ttttttttt")[-3]


def test_an_edited_sentence_is_what_a_run_shows() -> None:
    on = session()
    old = len("dogs near the table ?")
    press(on, "e", *["backspace"] * old, *"dog near the tables ?", "enter")
    wanted = traced("the old dog near the tables ?", model="agreement")

    torch.testing.assert_close(on.subject.trace.weights, wanted.weights)
    assert screen(on)[-2] == 'At "?" the model answers: is (over 99.9 %)'


def test_a_word_that_the_model_does_not_know_is_named_and_nothing_changes() -> None:
    on = session()
    shown = press(on, "e", *" cow", "enter")

    assert "never seen 'cow'" in foot(shown)
    assert on.subject.trace is on.subject.base


def test_the_next_word_of_a_model_that_continues_is_its_likeliest_answer() -> None:
    on = session("abcdeab", model="induction")
    press(on, "g", "g")

    assert on.subject.trace.text == "abcdeabcd"
    assert (on.place.query, weights(on.subject, on.place.head)[8].argmax()) == (8, on.place.key)
    assert "only a model that continues a text" in foot(press(session(), "g"))


def test_a_head_of_a_second_sentence_has_its_own_words_and_no_arithmetic_here() -> None:
    on = session("I am here", memory="go there now", layers=1)
    press(on, "{", "[", "]", "d", "]")
    names = [on.subject.name(head) for head in range(2)]

    assert names == ["L0H0", "L0 cross H0"]
    on.place = replace(on.place, head=0, pane="arithmetic")
    shown = press(on, "]")
    assert on.place.pane == "matrix"
    assert "written by another command" in foot(shown)
    assert shown[2] == "go there now"
    assert "cannot be switched off" in foot(press(on, "x"))


def test_a_token_is_found_in_every_pane() -> None:
    on = session()
    press(on, "o", "/", *"old", "enter")
    assert (on.place.pane, on.place.query) == ("overview", 1)

    press(on, "d", "/", *"near", "enter")
    assert (on.place.pane, on.place.query) == ("arithmetic", 3)
    row = weights(on.subject, on.place.head)[3]
    assert on.place.key == row.argmax()


def test_a_key_without_a_meaning_in_a_pane_says_so() -> None:
    on = session()
    assert "+ − 0 does nothing here (? lists the keys)" in press(on, "o", "+")[-3]
    assert "no key of attnviz explore" in press(on, "z")[-3]
    assert "/ does nothing here (? or Esc goes back)" in press(on, "?", "/")[-3]
    assert "as large as they can be" in press(on, "escape", "enter", "+")[-3]


def test_a_single_head_that_is_off_is_named_the_head() -> None:
    off = traced("3 1 2", model="sort", without="L0H0")
    assert head_weights_title(off, off.attention_layers[0], 0) == "The head is switched off"

    on = session("3 1 2", model="sort")
    before = press(on, "home")[0]
    assert press(on, "x")[0] == before
    assert "--without L0H0" in screen(on)[1]


def test_a_head_whose_output_nothing_reads_cannot_be_switched_off() -> None:
    single = session("I am", seed=42, size=(240, 40))
    assert "off" not in screen(single)[-1]
    assert "all weights stay as they are" in press(single, "x")[-2]
    two = session("I am", seed=42, layers=2)
    press(two, "{")
    lower = two.subject.cells.index((0, 0))
    two.place = replace(two.place, head=lower)
    press(two, "x")
    assert two.subject.trace is not two.subject.base


def test_weights_that_are_no_softmax_have_no_scale() -> None:
    on = session("I am here", variant="average", size=(240, 40))
    assert "scale" not in screen(on)[-1]
    assert "no scores to scale" in press(on, "s")[-2]


@pytest.mark.parametrize(("text", "model"), [("3 1 2", "sort")])
def test_an_answer_as_long_as_its_question_is_complete(text: str, model: str) -> None:
    on = session(text, model=model)
    assert "complete" not in press(on, "g", "g")[-3]
    assert "it is complete" in press(on, "g")[-3]
    assert on.subject.trace.text == "3 1 2 → 1 2 3"
    longest = on.subject.trace.model.facts["tokens"][1]  # type: ignore[union-attr]
    assert f"at most {longest} tokens" in press(on, *"g" * (longest - 6))[-3]


def test_all_changes_are_undone_and_flipped() -> None:
    on = session()
    assert "nothing is changed" in press(on, "b")[-3]
    press(on, "x", "t")
    changed = on.subject
    press(on, "b")
    assert on.subject is on.first
    press(on, "b")
    assert on.subject is changed
    assert "undone" in press(on, "u")[-3]
    assert on.subject is on.first


# What one takes away.


def test_a_text_from_a_file_is_copied_as_its_file() -> None:
    subject, place = opened(model="agreement")
    on = Session(subject, place, Screen(80, 24), PictureOptions(), Path("dogs.txt"))
    press(on, "y")
    assert on.copied.startswith("attnviz inspect --model agreement")
    assert on.copied.endswith("--file dogs.txt")
    press(on, "e", *["backspace"] * 8, "enter", "y")
    assert "dogs.txt" not in on.copied


def test_a_file_is_replaced_only_after_a_second_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    on = session()
    shown = press(on, "w", *"notes.txt", "enter")
    assert "notes.txt exists: Enter again to replace it" in shown[-1]
    assert "Esc leave it" in press(on, "left")[-1]
    press(on, "escape")
    assert notes.read_text() == "mine"

    assert "wrote notes.txt" in press(on, "w", *"notes.txt", "enter", "enter")[-3]
    assert "weight" in notes.read_text("utf-8")


def test_a_free_name_is_suggested_and_replaced_by_the_first_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heads.png").touch()
    on = session()
    assert "write to heads-2.png" in press(on, "o", "w")[-3]
    assert "write to x.png" in press(on, *"x.png")[-3]
    press(on, "escape", "w", "left", "left", "left", "left", "X")
    assert on.prompt is not None
    assert on.prompt.text == "heads-2X.png"


def test_a_line_is_edited_as_in_a_shell() -> None:
    on = session()
    press(on, "e", "ctrl+a", "ctrl+k", *"the dogs near", "ctrl+w", "ctrl+a", "a", "ctrl+e", "b")
    assert on.prompt is not None
    assert on.prompt.text == "athe dogs b"
    on.type("one\rtwo\r\nthree")
    assert on.prompt.text == "athe dogs bone two three"


def test_tab_completes_a_word_that_the_model_knows() -> None:
    on = session()
    press(on, "e", "ctrl+u", *"the cab", "tab")
    assert on.prompt is not None
    assert on.prompt.text == "the cabinet"
    assert press(on, "tab")[-1] == "cabinet cabinets"
    assert press(on, *" qq", "tab")[-1].startswith("Enter do it")


def test_the_caret_is_behind_the_unknown_word() -> None:
    on = session()
    press(on, "e", "home", *"teh ", "enter")
    assert on.prompt is not None
    assert (on.prompt.caret, on.prompt.text[:4]) == (3, "teh ")
    assert "did you mean 'the'" in foot(screen(on))
    press(on, "backspace", "backspace", "backspace", *"the", "enter")
    assert on.prompt is None
    assert on.subject.trace.text == f"the {SENTENCE} ?"


def test_the_copied_command_makes_the_same_weights() -> None:
    on = session("I am learning this", seed=42)
    press(on, "s", "t", "y")
    command = parse_command(on.copied)
    assert command is not None
    assert command.name == "run"
    wanted = trace("I am learning this", scale=False, temperature=2.0)
    torch.testing.assert_close(torch.from_numpy(weights(on.subject, 0)), wanted.weights[0, 0])


def test_the_copied_command_names_the_head_or_the_cell() -> None:
    on = session()
    press(on, "y")
    text = "attnviz inspect 'the old dogs near the table ?' --model agreement"
    assert on.copied == f"{text} --layer 1 --head 0 --query 7"
    assert "sent to the clipboard, and printed when you quit" in foot(screen(on))
    press(on, "o", "y")
    assert on.copied == text.replace("inspect", "run")
    press(on, "o")
    press(on, "d", "y")
    assert parse_command(on.copied) is not None
    assert "--query 7 --key 3 --head 0 --layer 1" in on.copied


def test_what_is_on_the_screen_is_written_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    on = session()
    assert "write to L1H0.png" in press(on, "w")[-3]
    shown = press(on, "ctrl+u", *"head.csv", "enter")

    assert "wrote head.csv" in shown[-3]
    assert "weight" in (tmp_path / "head.csv").read_text("utf-8")
    assert "format" in foot(press(on, "w", "ctrl+u", *"head.xyz", "enter"))


def test_the_arithmetic_ends_in_the_weight_of_the_cell() -> None:
    on = session(size=(200, 70))
    shown = "\n".join(press(on, "up", "up", "d", "pagedown"))
    weight = float(weights(on.subject, on.place.head)[4, 2])

    assert on.place.pane == "arithmetic"
    assert re.search(rf"weight H0\(5 the, dogs\) = .* {weight:.2f}", shown.replace("\n", " "))
    assert body_height(on.subject, on.place, on.screen) > 50
    assert "scroll" in shown.splitlines()[-1]


# Work that takes long.


def slow(on: Session, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job that a key sets on a model that takes long."""
    monkeypatch.setattr(Subject, "is_quick", False)
    on.press("x")
    assert on.job is not None
    return on.job


def test_a_job_is_named_and_keys_go_on_working(monkeypatch: pytest.MonkeyPatch) -> None:
    on = session()
    job = slow(on, monkeypatch)
    assert "switching L1H0 off …" in screen(on)[-3]
    on.press("up")
    assert on.place.query == 5
    on.press("t")
    assert on.job is job
    assert "wait for it" in screen(on)[-3]
    on.finish(job, job.work())
    assert screen(on)[1].startswith("L1H0 (off)")


def test_what_one_stopped_waiting_for_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    on = session()
    job, before = slow(on, monkeypatch), on.subject
    on.press("escape")
    on.finish(job, job.work())

    assert on.subject is before


def test_an_error_of_a_job_is_shown_and_a_bug_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    on = session()
    on.finish(slow(on, monkeypatch), AttnvizError("no", "try"))
    assert screen(on)[-3] == "no (try)"
    with pytest.raises(ZeroDivisionError):
        on.finish(slow(on, monkeypatch), ZeroDivisionError())


def test_weights_from_elsewhere_can_be_looked_at_and_not_changed() -> None:
    from attnviz import from_weights

    given_weights = from_weights(np.full((2, 2, 3, 3), 1 / 3), ["a", "b", "c"])
    on = Session(*open_subject(given_weights), Screen(80, 24), PictureOptions())
    before = on.subject

    assert build_source(given_weights).has_no_command
    assert "computed elsewhere" in foot(press(on, "x"))
    assert "no command prints this" in press(on, "y")[-2]
    assert on.subject is before
    press(on, "]", "o", "enter", DOWN, RIGHT)


def test_a_long_text_is_refused_and_a_page_named() -> None:
    with pytest.raises(AttnvizError, match="4 tokens, too many to explore") as found:
        open_subject(trace("I am learning this", stream=True))
    assert "view.html" in found.value.hint


# The command.


def test_without_a_terminal_two_lines_name_other_commands(attnviz: Attnviz) -> None:
    result = attnviz("explore", "I am")

    assert result.status == 2
    assert len(result.err.splitlines()) == 2
    assert "attnviz inspect" in result.err


@pytest.mark.terminal
def test_an_unknown_theme_is_refused_in_two_lines() -> None:
    text, ended = run_on_terminal([*COMMAND, "--theme", "sepia"], {})
    lines = [line for line in re.sub(r"\x1b\[[\d;]*m", "", text).splitlines() if line.strip()]

    assert ended == 2
    assert len(lines) == 2
    assert "sepia" in lines[0]
    assert "light" in lines[1]


@pytest.mark.parametrize("term", ["vt220", "screen", "unheard-of"])
def test_a_terminal_that_says_nothing_is_light_unless_colorfgbg_says_otherwise(
    term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    for ground, theme in (("", "light"), ("15;0", "dark"), ("0;15", "light")):
        monkeypatch.setenv("COLORFGBG", ground)
        shown_on = screen_from_options(
            Console(force_terminal=True), OutputOptions(), PictureOptions()
        )
        assert (shown_on.colors, shown_on.theme) == ("16", theme)


def test_without_textual_two_lines_say_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explore, "LIBRARY", "textual_that_is_not_there")

    with pytest.raises(AttnvizError, match="not installed") as found:
        explore.refuse_without_terminal()
    assert found.value.hint == 'pip install "attnviz[explore]"'


@pytest.mark.parametrize(
    ("settings", "key", "reason"),
    [
        ({"heads": 1}, "]", "there is only one head"),
        ({"model": "minilm"}, "s", "keeps the scale, mask and temperature of its training"),
    ],
)
def test_a_key_that_can_do_nothing_says_why(
    settings: dict[str, Any], key: str, reason: str
) -> None:
    on = session("It was tired", **settings)

    on.press(key)

    assert reason in on.message
    assert on.subject.changes == ""


def test_while_a_line_is_typed_the_last_line_has_its_keys() -> None:
    on = session()
    assert "q quit" in screen(on)[-1]

    on.press("e")

    assert screen(on)[-1] == "Enter do it  Esc leave it  Ctrl-U clear  Tab complete"


def test_a_sentence_that_is_refused_is_corrected_and_not_typed_again() -> None:
    on = session()
    assert "never seen 'boor' (did you mean" in foot(press(on, "e", *" boor", "enter"))

    press(on, "backspace", "k", *["left"] * 3, "backspace", "b", "enter")
    assert on.subject.trace.text == f"{SENTENCE} ? book"

    press(on, "e", *" cow", "enter", "escape", "e")
    assert on.prompt is not None
    assert on.prompt.text == f"{SENTENCE} ? book"


def run_apart(use: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run a coroutine in a thread: in this one a browser of other tests may have its own loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(use())).result()


def test_on_a_screen_keys_the_mouse_and_sizes_are_passed_on() -> None:
    on = session()
    explorer = Explorer(on)

    async def use() -> None:
        async with explorer.run_test(size=(100, 30)) as pilot:
            assert on.screen.width == 100
            await pilot.press("up", "right_square_bracket", "question_mark", "escape")
            await pilot.resize_terminal(90, 26)
            await pilot.click(offset=(screen(on)[2].index("old"), 2))
            await pilot.click(offset=(screen(on)[25].index("o all heads"), 25))
            assert on.place.pane == "overview"
            await pilot.click(offset=(screen(on)[25].index("Esc back"), 25))
            await pilot.press("e", "home", "a", "space", "escape", "ctrl+z")
            await pilot.press("y", "y", "down", "y")
            assert "attnviz inspect" in explorer.clipboard
            await pilot.press("q")

    run_apart(use)
    assert explorer.failure is None
    assert [line[-9:] for line in explorer.copied_lines] == ["--query 2", "--query 3"]
    assert (on.place.query, on.subject.name(on.place.head)) == (2, "L1H1")
    assert len(screen(on)) == 26


def test_a_bug_ends_the_application_and_is_kept_to_be_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on = session()
    explorer = Explorer(on)

    async def use() -> None:
        async with explorer.run_test(size=(80, 24)) as pilot:
            monkeypatch.setattr(on, "frame", lambda: 1 / 0)
            await pilot.press("up")

    run_apart(use)
    assert isinstance(explorer.failure, ZeroDivisionError)


COMMAND = [sys.executable, "-m", "attnviz", "explore", SENTENCE, "--model", "agreement"]
LEFT = "\x1b[?1049l"


@pytest.mark.terminal
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_the_text_may_come_from_a_pipe(tmp_path: Path) -> None:
    tmux = Tmux(tmp_path)
    try:
        tmux.waits_for("$")
        tmux.type(f"echo the old dogs | {sys.executable} -m attnviz explore - --model agreement")
        assert tmux.waits_for("arrows move").splitlines()[2] == "the old dogs ?"
        tmux("send-keys", "o")
        tmux.waits_for("Enter open")
        tmux("send-keys", "q")
        tmux.waits_for("\n$")
        tmux.type("stty -a | grep -o ' -*echo '")
        assert "\n echo\n" in tmux.waits_for("echo\n")
    finally:
        tmux("kill-server")


@pytest.mark.terminal
@pytest.mark.parametrize(("key", "status"), [(b"q", 0), (b"\x03", 130)])
def test_the_terminal_is_left_as_it_was(key: bytes, status: int) -> None:
    text, ended = run_on_terminal(COMMAND, {"ATTNVIZ_THEME": "dark"}, reply_once(key, b"quit"))

    assert ended == status
    assert "dogs" in text
    assert text.rindex(LEFT) > text.rindex("quit")
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


class Tmux:
    """A shell in a terminal that is resized, stopped and continued as a person does it."""

    def __init__(self, folder: Path) -> None:
        self.words = ["tmux", "-S", str(folder / "socket"), "-f", os.devnull]
        self("new-session", "-d", "-x", "90", "-y", "26", "env PS1='$ ' bash --norc")

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            [*self.words, *words], capture_output=True, text=True, check=True, timeout=LONGEST
        )
        return done.stdout

    def waits_for(self, text: str) -> str:
        end = time.monotonic() + LONGEST
        while text not in (shown := self("capture-pane", "-p")):
            assert time.monotonic() < end, shown
            time.sleep(0.05)
        return shown

    def type(self, line: str) -> None:
        self("send-keys", "-l", line)
        self("send-keys", "Enter")


CRASHING = """
from attnviz.cli.app import run_command_line
from attnviz.cli.explorer.session import Session
Session.resize = lambda self, *size: 1 / 0
run_command_line(["explore", "I am"])
"""


@pytest.mark.terminal
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_in_a_shell_it_is_stopped_continued_resized_and_ended(tmp_path: Path) -> None:
    tmux = Tmux(tmp_path)
    command = f"{sys.executable} -m attnviz explore 'the old dogs' --model agreement"
    (tmp_path / "crash.py").write_text(CRASHING)
    try:
        tmux.waits_for("$")
        tmux.type(f"stty -g > {tmp_path}/before; {command}")
        tmux.waits_for("arrows move")
        tmux("send-keys", "C-z")
        tmux.waits_for("Stopped")
        tmux.type(f"stty -g > {tmp_path}/stopped; fg")
        tmux.waits_for("arrows move")
        for size in range(20, 40, 2):
            tmux("resize-window", "-x", str(3 * size), "-y", str(size))
        tmux("resize-window", "-x", "100", "-y", "30")
        tmux.waits_for("e edit")  # for which there is room at last
        tmux.type("q")
        tmux.waits_for("$")
        tmux.type(f"{command} & sleep 0.1; fg")
        tmux.waits_for("arrows move")
        tmux("send-keys", "C-z")
        tmux.waits_for("Stopped")
        tmux.type("kill -TERM %1; fg; echo ended $?")
        tmux.waits_for("ended 143")
        tmux.type(f"{sys.executable} {tmp_path}/crash.py; echo then $?")
        assert "ZeroDivisionError" in tmux.waits_for("then 1")
        tmux.type(f"stty -g > {tmp_path}/after; echo settled")
        tmux.waits_for("settled\n")
        flags = tmux("display", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag}")
        assert flags == "0 0 1\n"
    finally:
        tmux("kill-server")
    before, *others = ((tmp_path / name).read_text() for name in ("before", "stopped", "after"))
    assert others == [before, before]
