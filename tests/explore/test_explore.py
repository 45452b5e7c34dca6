"""`attnviz explore`: what keys do, what the screen shows, and that it restores the terminal."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style

from attnviz import from_weights, trace
from attnviz.cli.output import screen_from_options
from attnviz.errors import AttnvizError
from attnviz.renderers.terminal.screen import ColorDepth, Screen, marker_color
from attnviz.traces.inputs import build_source
from attnviz.traces.trace import Trace
from attnviz.views.answer_tables import answer_sentences
from attnviz.views.conclusions.weight_titles import head_weights_title
from attnviz.wings.explore import command as explore
from attnviz.wings.explore import session, subject
from attnviz.wings.explore.application import Explorer
from attnviz.wings.explore.command import ExploreOptions
from attnviz.wings.explore.frame import (
    MARK_STYLE,
    MIN_SIZE,
    body_height,
    matrix_layout,
    sheet_layout,
)
from attnviz.wings.explore.keys import ALL_PANES, KEYS, MOVES, Key, last_line_words
from attnviz.wings.explore.place import Place, keep_in_sight, step_layer
from attnviz.wings.explore.session import ACTIONS, CARET_STYLE, Job, Session
from attnviz.wings.explore.subject import Subject, open_subject
from attnviz.wording.commands import parse_command
from attnviz.wording.printable import printable_text
from tests import LONGEST, not_none, run_process
from tests.conftest import ROOT, Attnviz
from tests.terminals import reply_once, run_on_terminal

SENTENCE = "the old dogs near the table"
WIDE_CHARACTERS = (
    "日本語 🙂 e\u0301te\u0301 and a long sentence about attention , heads and tokens . " * 3
)
DOWN, RIGHT = "down", "right"
ABILITIES = frozenset(("heads", "layers", "changes", "settings", "scores", "text", "continues"))


@cache
def cached_trace(text: str = SENTENCE, **settings: object) -> Trace:
    return trace(text, **settings)  # type: ignore[arg-type]


@cache
def cached_subject(text: str = SENTENCE, **settings: object) -> tuple[Subject, Place]:
    return open_subject(cached_trace(text, **settings))


def open_session(
    text: str = SENTENCE,
    *,
    size: tuple[int, int] = (80, 24),
    colors: ColorDepth = "truecolor",
    **settings: object,
) -> Session:
    """A session on a model that learned agreement, or on what the settings name."""
    subject, place = cached_subject(text, **(settings or {"model": "agreement"}))
    return Session(subject, place, Screen(*size, colors), ExploreOptions())


def press(session: Session, *keys: str) -> list[str]:
    """Press keys, do the jobs that they start, and return the lines of the screen."""
    for key in keys:
        session.press(key)
        if session.job is not None:
            job = session.job
            try:
                result = job.work()
            except AttnvizError as error:
                result = error
            session.finish(job, result)
    return screen_lines(session)


def screen_lines(session: Session) -> list[str]:
    """The lines, with plain spaces in place of those that hold a number and its unit together."""
    return [line.plain.replace("\xa0", " ").rstrip() for line in session.frame().lines]


def last_lines(lines: list[str]) -> str:
    """The last lines as one text: a message may take several."""
    return " ".join(lines[-6:])


def weights(subject: Subject, head: int) -> np.ndarray:
    return subject.grid(head).values


# The colours and the marker.

LONG_SENTENCE = "one two three four five six seven eight nine ten " * 3


@pytest.mark.parametrize("colors", ["16", "256", "truecolor"])
@pytest.mark.parametrize("keys", [(), ("up",), ("up", "left"), ("up", "home")])
def test_half_of_a_cell_is_marked_in_a_colour_of_its_own(
    keys: tuple[str, ...], colors: ColorDepth
) -> None:
    session = open_session(LONG_SENTENCE, colors=colors, seed=42)
    press(session, *keys)
    layout = matrix_layout(session.subject, session.place, session.screen)
    frame = session.frame()
    line = frame.lines[frame.body.start + 1 + (session.place.query - session.place.top) // 2]
    column = layout.label_width + session.place.key - session.place.left
    [style] = [span.style for span in line.spans if span.start <= column < span.end]

    assert layout.form.cells == "halves"
    assert line.plain[column] == "▀▄"[session.place.query % 2]
    assert isinstance(style, Style)
    assert style.color == marker_color(session.screen) != style.bgcolor


def test_of_two_names_on_a_line_that_of_the_query_is_marked() -> None:
    session = open_session(LONG_SENTENCE, seed=42)
    names = session.subject.grid(0).rows.names
    for query in (session.place.query, session.place.query - 1):
        [marked_names] = [
            line.plain[span.start : span.end]
            for line in session.frame().lines
            for span in line.spans
            if span.style == MARK_STYLE and not line.plain[span.start : span.end].isdigit()
        ]
        assert marked_names.strip() == names[query]
        press(session, "up")


def test_words_have_the_colours_of_their_cells() -> None:
    session = open_session()
    frame, layout = session.frame(), matrix_layout(session.subject, session.place, session.screen)
    words = [span.style.bgcolor for span in frame.lines[2].spans if span.style.bgcolor]  # type: ignore[union-attr]
    row = frame.lines[frame.body.start + layout.heading_lines + session.place.query]
    cells = [style.bgcolor for span in row.spans if isinstance(style := span.style, Style)]

    assert {*words} == {*filter(None, cells)}


def test_words_from_right_to_left_are_kept_in_place_and_no_mark_is_spelled() -> None:
    session = open_session("我 爱 学习 שלום עולם", seed=42, tokenizer="words")
    for _ in range(5):
        text = "\n".join(screen_lines(session))
        assert "u200e" not in text
        assert "\u200e\u200e" not in text
        press(session, "up")


def test_long_words_are_cut_and_the_numbers_of_the_cell_kept() -> None:
    words = "Donaudampfschifffahrtsgesellschaft pneumonoultramicroscopicsilico of"
    for size in ((60, 16), (80, 24)):
        session = open_session(words, seed=42, tokenizer="words", size=size)
        for keys in (("up", "up"), ("right",), ("right",)):
            line = press(session, *keys)[-2]
            weight = float(weights(session.subject, 0)[session.place.query, session.place.key])
            assert f"weight {weight:.4f}   scaled score" in line
            assert re.search(r"scaled score -?\d+\.\d\d$", line)


def test_only_the_answers_that_change_are_named_each_with_its_position() -> None:
    brackets = "( [ { } ] ) ( ( [ ] ) ) [ { } ]"
    session = open_session(brackets, model="brackets", size=(200, 40))
    lines = press(session, *"x]x]x")
    prediction, base_prediction = (
        each.prediction for each in (session.subject.trace, session.subject.base)
    )
    assert prediction is not None
    changes = []
    for position in prediction.asked_positions:
        old_answer, new_answer = (
            each.answers[int(each.probabilities[position].argmax())]
            for each in (not_none(base_prediction), prediction)
        )
        if old_answer != new_answer:
            changes.append(
                f'at {position + 1} "{session.subject.trace.tokens.labels[position]}": '
                f"{old_answer} → {new_answer}"
            )
    start = f"{len(changes)} of {len(prediction.asked_positions)} answers change"

    assert len(changes) > 1
    assert lines[-2].startswith(f"{start}: {', '.join(changes)}"[:199])


def test_a_change_of_less_than_a_thousandth_is_not_said_to_be_one() -> None:
    session = open_session()
    prediction = not_none(session.subject.trace.prediction)
    earlier_prediction = replace(prediction, probabilities=prediction.probabilities - 0.0005)
    tokens = session.subject.trace.tokens

    assert "was" not in subject._changed_answers_text(tokens, prediction, earlier_prediction, 6)


def test_the_sentence_takes_lines_that_are_free_and_says_where_words_are_left_out() -> None:
    session = open_session(LONG_SENTENCE, seed=42, size=(80, 24))
    assert len(session.frame().sentence) == 3  # the last of them is the legend
    assert "…" not in "".join(screen_lines(session)[2:4])

    session = open_session(LONG_SENTENCE * 4, seed=42, size=(80, 24))
    session.place = replace(session.place, query=60)
    session.resize(80, 24)
    *lines, _ = screen_lines(session)[
        session.frame().sentence.start : session.frame().sentence.stop
    ]
    first_line = lines[0]
    assert first_line.startswith("… ")
    assert lines[-1].endswith(" …")
    session.click(first_line.index(first_line.split()[2]), session.frame().sentence.start)
    assert session.subject.trace.tokens.labels[session.place.query] == first_line.split()[2]


# The keys.


def test_every_key_has_an_action_and_every_action_a_key() -> None:
    assert {key.names[0] for key in KEYS} == ACTIONS.keys()


def test_no_key_means_two_things_in_a_pane() -> None:
    for pane in ALL_PANES:
        names = [name for key in KEYS if pane in key.panes for name in key.names]
        assert len(names) == len(set(names))


def test_the_page_about_the_explorer_has_the_table_of_keys() -> None:
    page = (ROOT / "docs" / "pages.md").read_text("utf-8")
    rows = re.findall(r"^\| `(.+)` \| (.+) \| (.+) \|$", page, re.MULTILINE)

    assert rows == [(key.label, panes_text(key), key.does) for key in KEYS]


def panes_text(key: Key) -> str:
    """The panes in which a key does something, as the page names them."""
    results = {"matrix", "overview", "arithmetic"}
    return "everywhere" if results <= {*key.panes} else " and ".join(key.panes)


def test_keys_that_a_page_has_too_mean_the_same() -> None:
    script = (ROOT / "attnviz/renderers/page/script/shortcuts.js").read_text("utf-8")
    page_actions = dict(re.findall(r'^  "?(\S)"?: \{ does: "([^"]+)"', script, re.MULTILINE))
    explorer_actions = {name: key.does for key in KEYS for name in key.names}

    assert {"[", "]", "/", "?"} <= page_actions.keys()
    for name, does in page_actions.items():
        if name in explorer_actions:
            verb = does.split(" ")[0]
            assert verb in explorer_actions[name]


@pytest.mark.parametrize("pane", ALL_PANES)
def test_the_last_line_fits_and_begins_with_what_matters(pane: str) -> None:
    for room in (60, 80, 120, 240):
        words = last_line_words(pane, room, ABILITIES)  # type: ignore[arg-type]
        line = "  ".join(f"{key} {word}" for key, word in words)

        assert len(line) <= room
        assert {"q", "?"} <= {key for key, _ in words}


def test_keys_that_a_model_has_no_use_for_are_not_listed() -> None:
    agreement_session, single_session = (
        open_session(size=(240, 40)),
        open_session("I am", seed=42, size=(240, 40)),
    )

    assert "scale" in screen_lines(agreement_session)[-1]
    assert "next word" not in screen_lines(agreement_session)[-1]
    assert "all heads" not in screen_lines(single_session)[-1]
    assert "next word" in screen_lines(open_session("abcab", model="induction", size=(240, 40)))[-1]


# Moves.


def test_a_move_takes_the_title_the_cell_and_the_sentence_along() -> None:
    session = open_session()
    layer, number = session.subject.attention[session.place.head]
    lines = press(session, "up", "left")

    assert session.place.query == 5
    assert session.place.key == 1
    title = head_weights_title(session.subject.trace, layer, number, 5)
    assert title.replace("\xa0", " ").startswith(lines[0].removesuffix("…"))
    weight = float(session.subject.trace.weights[1, 0, 5, 1])
    assert f"6 table → 2 old   weight {weight:.4f}" in lines[-3]
    sentence = session.frame().lines[2]
    [start] = [span.start for span in sentence.spans if "underline" in str(span.style)]
    assert sentence.plain[start:].startswith("table")


def test_a_hidden_cell_is_said_to_be_hidden() -> None:
    assert "1 the → 7 ?   hidden by the mask" in press(open_session(), *["up"] * 6, "end")[-3]


def test_heads_and_layers_follow_one_another_in_a_circle() -> None:
    session = open_session()
    names = [session.subject.name(session.place.head)]
    for key in "]]]]}[{":
        session.press(key)
        names.append(session.subject.name(session.place.head))

    assert names == ["L1H0", "L1H1", "L0H0", "L0H1", "L1H0", "L0H0", "L1H1", "L0H1"]


@given(st.integers(0, 40), st.integers(1, 40), st.integers(1, 20), st.sampled_from([1, 2]))
def test_a_cell_is_always_in_sight(query: int, count: int, rows: int, rows_per_line: int) -> None:
    query, rows = min(query, count - 1), rows * rows_per_line
    place = keep_in_sight(Place(query=query, top=7), rows, 4, (count, 4), rows_per_line)

    assert place.top <= query < place.top + rows
    assert place.top % rows_per_line == 0


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


@example(keys=["o"], size=(60, 16), colors="16", is_wide=False)
@given(
    keys=MANY_KEYS,
    size=st.tuples(st.integers(60, 240), st.integers(16, 70)),
    colors=st.sampled_from(["none", "16", "truecolor"]),
    is_wide=st.booleans(),
)
def test_whatever_is_pressed_the_screen_is_full_and_no_line_is_broken(
    keys: list[str], size: tuple[int, int], colors: ColorDepth, is_wide: bool
) -> None:
    text, settings = (
        (WIDE_CHARACTERS, {"heads": 2}) if is_wide else (SENTENCE, {"model": "agreement"})
    )
    session = open_session(text, size=size, colors=colors, **settings)
    press(session, *keys)
    frame = session.frame()

    assert len(frame.lines) == size[1]
    assert max(line.cell_len for line in frame.lines) <= size[0]
    if session.place.pane == "matrix":
        layout = matrix_layout(session.subject, session.place, session.screen)
        assert session.place.query in range(session.place.top, session.place.top + layout.rows)
        assert session.place.key in range(session.place.left, session.place.left + layout.columns)


def test_without_colours_there_are_none() -> None:
    for keys in ("", "-", "--", "o", "d"):
        session = open_session(colors="none")
        press(session, *keys)
        styles = [span.style for line in session.frame().lines for span in line.spans]
        assert not any(getattr(style, "color", None) for style in styles)


def test_a_small_screen_says_how_large_it_has_to_be() -> None:
    session = open_session()
    session.resize(30, 8)

    assert " ".join(screen_lines(session)) == (
        f"attnviz explore needs {MIN_SIZE[0]} columns and {MIN_SIZE[1]} lines; q quits"
    )
    place_before = replace(session.place, top=0)
    press(session, DOWN, "]", "o", "d", "e", "x", "?")
    session.turn_wheel(1)
    session.click(3, 2)
    session.resize(80, 24)
    assert (session.place, session.prompt, session.subject.changes) == (place_before, None, "")
    assert len(screen_lines(session)) == 24
    press(session, "e")
    session.resize(MIN_SIZE[0] - 1, 24)
    press(session, "q")
    assert session.is_over


def test_zoom_goes_from_numbers_to_half_blocks_and_back() -> None:
    session, forms = open_session(), []
    for key in ("", "-", "-", "-", "+", "0"):
        press(session, *([key] if key else []))
        forms.append(matrix_layout(session.subject, session.place, session.screen).form.cells)

    assert forms == ["numbers", "blocks", "halves", "halves", "blocks", "numbers"]


def test_a_click_follows_a_cell_and_on_a_name_goes_to_its_row_or_its_column() -> None:
    session = open_session()
    frame = session.frame()
    row = next(number for number in frame.body if frame.lines[number].plain.startswith("4 near"))
    session.click(frame.lines[row].plain.index(".00"), row)
    assert (session.place.query, session.place.key) == (3, 0)
    session = open_session()
    session.click(2, row)
    assert (session.place.query, session.place.key) == (3, 2)
    session.click(screen_lines(session)[frame.body.start].index("old"), frame.body.start)
    assert (session.place.query, session.place.key) == (3, 1)
    session.click(79, row)
    session.click(0, frame.body.start)
    session.click(30, frame.body.stop - 1)
    assert (session.place.query, session.place.key) == (3, 1)


def test_of_two_names_on_a_line_the_one_that_is_clicked_is_followed() -> None:
    session = open_session(LONG_SENTENCE, seed=42)
    names = session.subject.grid(0).rows.names
    top = session.frame().body.start + 1
    line = screen_lines(session)[top]
    upper = session.place.top
    for query in (upper, upper + 1):
        session.click(line.index(names[query].split()[-1]), top)
        assert session.place.query == query


def test_a_click_on_a_key_of_the_last_line_presses_it() -> None:
    session = open_session()
    last_line = len(screen_lines(session)) - 1

    def click(words: str, letter: int = 0) -> None:
        session.click(screen_lines(session)[last_line].index(words) + letter, last_line)

    click("[ ] head", 2)
    assert session.subject.name(session.place.head) == "L1H1"
    click("[ ] head")
    assert session.subject.name(session.place.head) == "L1H0"
    place_before = session.place
    click("arrows")
    click("  o all")
    assert session.place == place_before
    click("o all heads", 4)
    assert "Enter open" in screen_lines(session)[last_line]
    click("Esc back")
    click("? keys")
    assert session.place.pane == "keys"
    click("scroll")
    assert session.place.scroll == 1
    click("Esc back")
    click("e edit")
    click("Ctrl-U")
    assert not_none(session.prompt).text == ""
    click("Esc leave")
    assert session.prompt is None
    click("q quit")
    assert session.is_over


MESSAGES = st.lists(st.text("abcdefghij", min_size=1, max_size=14), min_size=1, max_size=15)


@given(words=MESSAGES, pane=st.sampled_from(["", "o", "d", "?"]), is_typing=st.booleans())
def test_no_word_of_a_message_is_lost_and_the_next_key_gives_the_room_back(
    words: list[str], pane: str, is_typing: bool
) -> None:
    session, message = open_session(), " ".join(words)
    lines_before, body_lines = press(session, *pane), len(session.frame().body)
    is_typing = is_typing and pane != "?"  # where there is nothing to type
    if is_typing:
        press(session, "e")
        session.prompt = replace(not_none(session.prompt), problem=message)
    else:
        session.message = message
    lines = screen_lines(session)

    assert len(lines) == 24
    assert message in " ".join(lines[-5:])
    assert lines[:5] == lines_before[:5]
    assert ("text the old" in " ".join(lines)) == is_typing
    press(session, "escape" if is_typing else "pageup")
    assert len(session.frame().body) == body_lines


def test_a_long_problem_stands_below_the_line_that_is_typed() -> None:
    session = open_session()
    press(session, "e", "ctrl+u", *"the unheardof", "enter")
    problem = not_none(session.prompt).problem
    lines = screen_lines(session)

    assert len(problem) > 80
    assert " ".join(lines).endswith(problem)
    assert any(line.startswith("text the unheardof") for line in lines)


def test_a_message_of_more_than_four_lines_ends_in_an_ellipsis() -> None:
    session = open_session(size=MIN_SIZE)
    session.message = "word " * 60
    lines = screen_lines(session)

    assert len(lines) == MIN_SIZE[1]
    assert [line.startswith("word") for line in lines].count(True) == 4
    assert lines[-3].endswith("…")


def test_a_click_on_a_word_follows_it_and_the_wheel_goes_on() -> None:
    session = open_session()
    session.click(screen_lines(session)[2].index("near"), 2)
    assert session.place.query == 3
    session.turn_wheel(2)
    assert session.place.query == 5
    session.turn_wheel(-2, sideways=True)
    assert session.place.key == 0


def test_all_heads_are_opened_by_enter_and_by_a_click() -> None:
    session = open_session()
    lines = press(session, "o", "left")
    assert session.place.pane == "overview"
    assert all(any(name in line for line in lines) for name in ("L0H0", "L0H1", "L1H0", "L1H1"))
    press(session, "enter")
    assert session.subject.name(session.place.head) == "L0H1"
    assert "d arithmetic" in screen_lines(session)[-1]

    press(session, "o")
    top = session.frame().body.start
    session.click(screen_lines(session)[top].index("L0H0"), top)
    assert session.subject.name(session.place.head) == "L0H0"
    session.click(screen_lines(session)[top].index("L0H0"), top)
    assert "d arithmetic" in screen_lines(session)[-1]


@pytest.mark.parametrize("size", [(80, 24), (240, 70)])
def test_small_maps_are_as_large_as_all_heads_fit(size: tuple[int, int]) -> None:
    session = open_session(size=size)
    lines = press(session, "o")
    layout, frame = sheet_layout(session.subject, session.place, session.screen), session.frame()
    cell_lines, tokens = layout.form.cell_lines, len(session.subject.trace.tokens)
    upper_line = frame.body.start
    lower_line = next(line for line in frame.body if lines[line].startswith("L1H0"))

    assert layout.form.cell_columns == 2 * cell_lines
    assert lower_line - upper_line == 1 + tokens * cell_lines + 1  # a name, the rows, an empty line
    assert 2 * (1 + tokens * cell_lines) <= len(frame.body) < 2 * (1 + tokens * (cell_lines + 1))
    assert "in sight" not in lines[1]
    session.click(layout.map_columns + 3, lower_line - 2)
    assert session.subject.name(session.place.head) == "L0H1"


@pytest.mark.parametrize("text", [SENTENCE, LONG_SENTENCE * 2])  # of whole cells, and of half ones
@pytest.mark.parametrize("colors", ["16", "256", "truecolor"])
def test_the_small_map_of_a_head_that_is_off_is_grey_and_its_name_struck_through(
    colors: ColorDepth, text: str
) -> None:
    model: dict[str, object] = {"model": "agreement"} if text == SENTENCE else {"heads": 4}
    session = open_session(text, colors=colors, size=(120, 50), without="L0H1", **model)
    press(session, "o")
    layout, frame = sheet_layout(session.subject, session.place, session.screen), session.frame()
    title, first_row = frame.lines[frame.body.start], frame.lines[frame.body.start + 1]
    columns = (0, layout.map_columns + layout.form.gap)
    console = Console()
    names, cells = (
        [line.get_style_at_offset(console, column) for column in columns]
        for line in (title, first_row)
    )
    all_heads_on = session.subject.with_settings(without=None)
    session = Session(all_heads_on, session.place, session.screen, ExploreOptions())
    line_with_all_on = session.frame().lines[frame.body.start + 1]
    usual_styles = [line_with_all_on.get_style_at_offset(console, column) for column in columns]

    assert layout.form.halves == (text != SENTENCE)
    assert [bool(style.strike) for style in names] == [False, True]
    assert [ours == theirs for ours, theirs in zip(cells, usual_styles, strict=True)] == [
        True,
        False,
    ]


@pytest.mark.parametrize("width", range(60, 241, 20))
def test_settings_are_written_whole_and_those_that_keys_change_come_first(width: int) -> None:
    session = open_session(size=(width, 30))
    line, parts = screen_lines(session)[1], session.subject.about
    name, *shown_settings = line.removesuffix(" …").split(" · ")

    assert name == "L1H0, one of 4 heads"
    assert (
        shown_settings[:4]
        == ["model agreement", "scaled", "causal", "temperature 0.5"][: len(shown_settings)]
    )
    assert shown_settings == list(parts[: len(shown_settings)])
    assert line.endswith(" …") == (len(shown_settings) < len(parts))
    assert (
        len(shown_settings) == len(parts)
        or len(f"{line[:-2]} · {parts[len(shown_settings)]} …") > width
    )
    assert set(parts) >= {"7 tokens (words)", "learned positions", "cpu float32"}


def test_without_colours_a_cell_of_a_small_map_is_one_line_high() -> None:
    session = open_session(size=(240, 70), colors="none")
    press(session, "o")
    assert sheet_layout(session.subject, session.place, session.screen).form.cell_lines == 1


def test_of_many_tokens_as_many_are_apart_as_there_is_room_for() -> None:
    sides = []
    for size in ((60, 16), (80, 24), (120, 40), (240, 70)):
        session = open_session(LONG_SENTENCE * 2, size=size, seed=42, heads=4)
        press(session, "o")
        sides.append(sheet_layout(session.subject, session.place, session.screen).side)
        assert session.subject.small_map(0, sides[-1]).cells.shape[0] <= sides[-1]

    assert sides == sorted(sides)
    assert sides[-1] > subject.SMALL_MAP_SIDE > sides[0]


def test_maps_become_coarse_so_that_all_heads_fit() -> None:
    session = open_session(LONG_SENTENCE * 2, size=(80, 24), seed=42, heads=12, layers=6, dim=24)
    lines = press(session, "o")

    assert "in sight" not in lines[1]
    assert all(any(f"L5H{head}" in line for line in lines) for head in range(12))


def test_where_not_all_heads_fit_those_in_sight_are_numbered() -> None:
    session = open_session(LONG_SENTENCE, size=(60, 16), seed=42, heads=8, layers=8, dim=16)
    lines = press(session, "o")
    [(first_shown, last_shown)] = re.findall(
        r"one of 64 heads · heads (\d+)–(\d+) in sight", lines[1]
    )
    names = [session.subject.name(head) for head in range(64)]
    in_sight = [name for name in names if any(name in line for line in lines[2:])]

    assert in_sight == names[int(first_shown) - 1 : int(last_shown)]
    assert len(in_sight) < 8


def test_the_list_of_keys_is_that_of_the_pane_below() -> None:
    session = open_session()
    lines = "\n".join(press(session, "o", "?"))
    assert "open the head" in lines
    assert "larger cells" not in lines
    press(session, "?")
    assert session.place.pane == "overview"


# Finding tokens.


def test_find_goes_to_the_next_of_a_word_and_to_a_number() -> None:
    session = open_session()
    positions = []
    for name in ("the", "the", "the", "4"):
        press(session, "/", *name, "enter")
        positions.append(session.place.query)

    assert positions == [0, 4, 0, 3]


def test_find_says_what_is_not_there() -> None:
    session = open_session()
    lines = press(session, "/", *"cow", "enter")

    assert "cow" in last_lines(lines)
    assert session.place.query == 6
    assert "weight" in press(session, "up")[-3]


def test_a_line_is_edited_where_its_caret_is() -> None:
    session = open_session()
    keys = ("left", "left", "X", "home", "delete", "end", "backspace", "right")
    press(session, "/", *"abcd", *keys)
    assert session.prompt is not None
    assert session.prompt.text == "bXc"
    press(session, "ctrl+u", *"é 日本")
    session.type("pasted\ntext")
    assert session.prompt.text == "é 日本pasted text"
    assert "é 日本pasted text" in screen_lines(session)[-3]
    press(session, "escape")
    assert session.prompt is None


# Changes.


def test_a_head_that_is_switched_off_changes_the_answer_as_without_does() -> None:
    session = open_session()
    lines = press(session, "x")
    trace_without = cached_trace(model="agreement", without="L1H0")
    expected = not_none(trace_without.prediction).probabilities
    prediction = not_none(session.subject.trace.prediction)

    assert torch.equal(prediction.probabilities, expected)
    answer_sentence = answer_sentences(trace_without)[0].replace("\u00a0", " ")
    assert lines[0] == answer_sentence
    assert lines[1].startswith("L1H0 (off), one of 4 heads")
    assert "changed: --without L1H0" in lines[1]
    assert press(session, "up")[0] == answer_sentence
    assert press(session, "]")[0].startswith('Nothing special in L1H1: "table"')
    press(session, "[")
    answer = prediction.answers.index("are")
    share = 100 * float(expected[6, answer])
    assert f"are {share:.0f} % (was over 99.9 %)" in lines[-2]
    press(session, "x")
    assert session.subject.trace is session.subject.base


def test_scale_mask_and_temperature_compute_what_torch_computes() -> None:
    session = open_session("I am learning this", seed=42)
    press(session, "s", "m", "t", "t")
    layer = session.subject.trace.layers[0]
    assert layer.keys is not None
    scores = not_none(layer.queries)[0] @ layer.keys[0].T / 4  # two temperatures of 2, and no √8
    expected = scores.masked_fill(torch.ones(4, 4).triu(1) > 0, -torch.inf).softmax(-1)

    torch.testing.assert_close(torch.from_numpy(weights(session.subject, 0)), expected)
    assert "changed: --no-scale --causal --temperature 4 " in screen_lines(session)[1]
    press(session, "s", "m", "T", "T")
    assert session.subject.trace is session.subject.base
    assert "changed" not in screen_lines(session)[1]


def test_the_temperature_has_limits() -> None:
    assert "stays between 1/64 and 64" in press(open_session(), *"ttttttttt")[-3]


def test_an_edited_sentence_is_what_a_run_shows() -> None:
    session = open_session()
    old_length = len("dogs near the table ?")
    press(session, "e", *["backspace"] * old_length, *"dog near the tables ?", "enter")
    expected = cached_trace("the old dog near the tables ?", model="agreement")

    torch.testing.assert_close(session.subject.trace.weights, expected.weights)
    assert screen_lines(session)[-2] == 'At "?" the model answers "is" (over 99.9 %)'


def test_the_next_word_of_a_model_that_continues_is_its_likeliest_answer() -> None:
    session = open_session("abcdeab", model="induction")
    press(session, "g", "g")

    assert session.subject.trace.text == "abcdeabcd"
    assert (session.place.query, weights(session.subject, session.place.head)[8].argmax()) == (
        8,
        session.place.key,
    )
    assert "only a model that continues a text" in last_lines(press(open_session(), "g"))


def test_a_head_of_a_second_sentence_has_its_own_words_and_no_arithmetic_here() -> None:
    session = open_session("I am here", memory="go there now", layers=1)
    press(session, "{", "[", "]", "d", "]")
    names = [session.subject.name(head) for head in range(2)]

    assert names == ["L0H0", "L0 cross H0"]
    session.place = replace(session.place, head=0, pane="arithmetic")
    lines = press(session, "]")
    assert session.place.pane == "matrix"
    assert "written by another command" in last_lines(lines)
    assert lines[2] == "go there now"
    assert "cannot be switched off" in last_lines(press(session, "x"))


def test_a_token_is_found_in_every_pane() -> None:
    session = open_session()
    press(session, "o", "/", *"old", "enter")
    assert (session.place.pane, session.place.query) == ("overview", 1)

    press(session, "d", "/", *"near", "enter")
    assert (session.place.pane, session.place.query) == ("arithmetic", 3)
    row = weights(session.subject, session.place.head)[3]
    assert session.place.key == row.argmax()


def test_a_key_without_a_meaning_in_a_pane_says_so() -> None:
    session = open_session()
    assert "+ − 0 does nothing here (? lists the keys)" in press(session, "o", "+")[-3]
    assert "no key of attnviz explore" in press(session, "z")[-3]
    assert "/ does nothing here (? or Esc goes back)" in press(session, "?", "/")[-3]
    assert "as large as they can be" in press(session, "escape", "enter", "+")[-3]


def test_without_answers_the_title_names_the_weight_that_changes_most() -> None:
    session = open_session("the cat sees the mat", heads=2, layers=2, dim=8)
    before = [weights(session.subject, head) for head in range(4)]
    session.place = replace(session.place, head=0)
    title = press(session, "x")[0]
    changes = np.stack([weights(session.subject, head) for head in range(4)]) - np.stack(before)
    head, row, column = np.unravel_index(np.abs(changes).argmax(), changes.shape)
    labels, earlier = session.subject.trace.tokens.labels, before[head][row, column]

    shares = f"{100 * (earlier + changes[head, row, column]):.0f} %", f"{100 * earlier:.0f} %"
    words = f'Without {session.subject.explorer.heads[session.place.head].name}, "{labels[row]}" '
    words += f'gives "{labels[column]}" {shares[0]} in L1H{head - 2}, not {shares[1]}'
    assert title.replace("\u00a0", " ") == words


def test_enter_follows_the_link_of_the_cell() -> None:
    session = open_session()
    key = session.place.key
    press(session, "enter")

    assert session.place.query == key
    assert session.place.key == weights(session.subject, session.place.head)[key].argmax()


def test_enter_on_what_a_token_gives_itself_says_that_its_row_is_followed() -> None:
    session = open_session()
    session.place = replace(session.place, key=session.place.query)
    before = session.place
    press(session, "enter")

    assert session.place == before
    assert session.message == 'this is what "?" gives itself: its row is followed already'


def test_a_row_that_is_like_all_others_is_no_finding() -> None:
    session = open_session("the keys near the cabinet ?", model="agreement")
    session.place = replace(session.place, head=2)
    title = press(session)[0].replace("\u00a0", " ")

    rows = weights(session.subject, 2)
    assert session.subject.explorer.heads[2].name == "L1H0"
    others = f"{100 * float(rows[[2, 3, 4], 1].mean()):.1f} %"  # neither "keys" itself nor "?"
    assert title.startswith('Nothing special in L1H0: "?" gives "keys" 98 %; the other tokens')
    assert title.endswith(f"give it {others}")


def test_a_score_is_called_scaled_only_if_it_is() -> None:
    session = open_session()

    assert "   scaled score " in press(session, "home")[-3]
    unscaled = press(session, "s")[-3]
    assert "scaled" not in unscaled
    assert "   score ÷ temperature " in unscaled


def test_a_single_head_that_is_off_is_named_the_head() -> None:
    trace_without = cached_trace("3 1 2", model="sort", without="L0H0")
    assert (
        head_weights_title(trace_without, trace_without.attention_layers[0], 0)
        == "The head is switched off"
    )

    session = open_session("3 1 2", model="sort")
    answer_sentence = answer_sentences(trace_without)[0].replace("\u00a0", " ")
    assert press(session, "home", "x")[0] == answer_sentence
    assert "--without L0H0" in screen_lines(session)[1]


def test_a_head_whose_output_nothing_reads_cannot_be_switched_off() -> None:
    single_session = open_session("I am", seed=42, size=(240, 40))
    assert "off" not in screen_lines(single_session)[-1]
    assert "all weights stay as they are" in press(single_session, "x")[-2]
    two_layer_session = open_session("I am", seed=42, layers=2)
    press(two_layer_session, "{")
    lower_head = two_layer_session.subject.cells.index((0, 0))
    two_layer_session.place = replace(two_layer_session.place, head=lower_head)
    press(two_layer_session, "x")
    assert two_layer_session.subject.trace is not two_layer_session.subject.base


def test_weights_that_are_no_softmax_have_no_scale() -> None:
    session = open_session("I am here", variant="average", size=(240, 40))
    assert "scale" not in screen_lines(session)[-1]
    assert "no scores to scale" in press(session, "s")[-2]


@pytest.mark.parametrize(("text", "model"), [("3 1 2", "sort")])
def test_an_answer_as_long_as_its_question_is_complete(text: str, model: str) -> None:
    session = open_session(text, model=model)
    assert "complete" not in press(session, "g", "g")[-3]
    assert "it is complete" in press(session, "g")[-3]
    assert session.subject.trace.text == "3 1 2 → 1 2 3"
    longest = session.subject.trace.model.facts["tokens"][1]  # type: ignore[union-attr]
    assert f"at most {longest} tokens" in press(session, *"g" * (longest - 6))[-3]


def test_all_changes_are_undone_and_flipped() -> None:
    session = open_session()
    assert "nothing is changed" in press(session, "b")[-3]
    press(session, "x", "t")
    changed_subject = session.subject
    press(session, "b")
    assert session.subject is session.first
    press(session, "b")
    assert session.subject is changed_subject
    assert "undone" in press(session, "u")[-3]
    assert session.subject is session.first


# Copying commands and writing files.


def test_a_text_from_a_file_is_copied_as_its_file() -> None:
    subject, place = cached_subject(model="agreement")
    session = Session(subject, place, Screen(80, 24), ExploreOptions(), Path("dogs.txt"))
    press(session, "y")
    assert session.copied.startswith("attnviz inspect --model agreement")
    assert session.copied.endswith("--file dogs.txt")
    press(session, "e", *["backspace"] * 8, "enter", "y")
    assert "dogs.txt" not in session.copied


def test_a_file_is_replaced_only_after_a_second_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    session = open_session()
    lines = press(session, "w", *"notes.txt", "enter")
    assert "notes.txt exists: Enter again to replace it" in lines[-1]
    assert "Esc leave it" in press(session, "left")[-1]
    press(session, "escape")
    assert notes.read_text() == "mine"

    assert "wrote notes.txt" in press(session, "w", *"notes.txt", "enter", "enter")[-3]
    assert "weight" in notes.read_text("utf-8")


def test_a_file_that_is_read_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dogs.txt").write_text(SENTENCE)
    read_files: list[str | Path] = [Path("dogs.txt"), "model"]
    subject, place = cached_subject(model="agreement")
    session = Session(subject, place, Screen(80, 24), ExploreOptions(), None, read_files)

    lines = press(session, "w", *"./dogs.txt", "enter")
    assert "'dogs.txt' is read by this command" in last_lines(lines)
    lines = press(session, "w", *"model/vocab.txt", "enter")
    assert "has the name of a file of the model in 'model'" in last_lines(lines)
    press(session, "enter", "enter")
    assert (tmp_path / "dogs.txt").read_text() == SENTENCE


@pytest.mark.parametrize(
    "name", ["n" * 300 + ".png", "a/" * 3000 + "b.png", "a\x00.png", "~/\udce9.png", ".", "/"]
)
def test_a_name_that_no_file_can_have_is_a_message(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = open_session()
    press(session, "w")
    session.type(name)

    press(session, "enter")

    assert session.message
    assert not session.message.startswith("wrote")
    assert list(tmp_path.iterdir()) == []


def test_a_long_paste_is_cut_and_each_key_after_it_looks_at_few_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = open_session()
    press(opened, "e", "ctrl+u")
    opened.type("é日" * 50_000)
    assert not_none(opened.prompt).text == "é日" * 5000
    assert press(opened, "x")[-1] == "left out 1 letter: a line has at most 10,000"
    seen: list[str] = []

    def count_letters(text: str) -> str:
        seen.append(text)
        return printable_text(text)

    monkeypatch.setattr(session, "printable_text", count_letters)

    for key in ("left", "backspace", "a", "home", "end", "ctrl+w"):
        press(opened, key)

    assert sum(map(len, seen)) < 6 * 3 * 80


@given(st.text("ab日\u0301\x1b🙂 ", max_size=60), st.integers(0, 60), st.integers(20, 50))
def test_the_caret_is_in_sight_with_as_many_letters_before_it_as_fit(
    text: str, caret: int, width: int
) -> None:
    caret = min(caret, len(text))
    prompt = session.Prompt("text", text, caret, print)

    line = prompt.line(width)

    letters = [printable_text(letter) for letter in text[:caret]]
    visible_text = line.plain.removeprefix("text ")
    [(start, end)] = [(span.start, span.end) for span in line.spans if span.style == CARET_STYLE]
    assert line.plain[start:end] == printable_text((text + " ")[caret])
    before = line.plain[len("text ") : start]
    assert "".join(letters).endswith(before)
    assert cell_len(line.plain[:end]) <= width
    assert visible_text.startswith(before)
    if before != "".join(letters):  # one more would not fit
        kept = next(n for n in range(len(letters) + 1) if "".join(letters[n:]) == before)
        assert cell_len(letters[kept - 1] + before + line.plain[start:end]) > width - len("text ")


def test_a_free_name_is_suggested_and_replaced_by_the_first_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heads.png").touch()
    session = open_session()
    assert "write to heads-2.png" in press(session, "o", "w")[-3]
    assert "write to x.png" in press(session, *"x.png")[-3]
    press(session, "escape", "w", "left", "left", "left", "left", "X")
    assert not_none(session.prompt).text == "heads-2X.png"


def test_a_line_is_edited_as_in_a_shell() -> None:
    session = open_session()
    press(
        session, "e", "ctrl+a", "ctrl+k", *"the dogs near", "ctrl+w", "ctrl+a", "a", "ctrl+e", "b"
    )
    assert session.prompt is not None
    assert session.prompt.text == "athe dogs b"
    session.type("one\rtwo\r\nthree")
    assert session.prompt.text == "athe dogs bone two three"


def test_tab_completes_a_word_that_the_model_knows() -> None:
    session = open_session()
    press(session, "e", "ctrl+u", *"the cab", "tab")
    assert not_none(session.prompt).text == "the cabinet"
    assert press(session, "tab")[-1] == "cabinet cabinets"
    assert press(session, *" qq", "tab")[-1].startswith("Enter do it")


def test_the_caret_is_behind_the_unknown_word() -> None:
    session = open_session()
    press(session, "e", "home", *"teh ", "enter")
    assert session.prompt is not None
    assert (session.prompt.caret, session.prompt.text[:4]) == (3, "teh ")
    assert "did you mean 'the'" in last_lines(screen_lines(session))
    press(session, "backspace", "backspace", "backspace", *"the", "enter")
    assert session.prompt is None
    assert session.subject.trace.text == f"the {SENTENCE} ?"


def test_the_copied_command_makes_the_same_weights() -> None:
    session = open_session("I am learning this", seed=42)
    press(session, "s", "t", "y")
    command = not_none(parse_command(session.copied))
    assert command.name == "run"
    expected = trace("I am learning this", scale=False, temperature=2.0)
    torch.testing.assert_close(
        torch.from_numpy(weights(session.subject, 0)), expected.weights[0, 0]
    )


def test_the_copied_command_names_the_head_or_the_cell() -> None:
    session = open_session()
    press(session, "y")
    text = "attnviz inspect 'the old dogs near the table ?' --model agreement"
    assert session.copied == f"{text} --layer 1 --head 0 --query 7"
    assert "sent to the clipboard, and printed when you quit" in last_lines(screen_lines(session))
    press(session, "o", "y")
    assert session.copied == text.replace("inspect", "run")
    press(session, "o")
    press(session, "d", "y")
    assert parse_command(session.copied) is not None
    assert "--query 7 --key 3 --head 0 --layer 1" in session.copied


def test_what_is_on_the_screen_is_written_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = open_session()
    assert "write to L1H0.png" in press(session, "w")[-3]
    lines = press(session, "ctrl+u", *"head.csv", "enter")

    assert "wrote head.csv" in lines[-3]
    assert "weight" in (tmp_path / "head.csv").read_text("utf-8")
    assert "format" in last_lines(press(session, "w", "ctrl+u", *"head.xyz", "enter"))


def test_the_arithmetic_ends_in_the_weight_of_the_cell() -> None:
    session = open_session(size=(200, 70))
    lines = "\n".join(press(session, "up", "up", "d", "pagedown"))
    weight = float(weights(session.subject, session.place.head)[4, 2])

    assert session.place.pane == "arithmetic"
    assert re.search(rf"weight H0\(5 the, dogs\) = .* {weight:.2f}", lines.replace("\n", " "))
    assert body_height(session.subject, session.place, session.screen) > 50
    assert "scroll" in lines.splitlines()[-1]


# Work that takes long.


def start_slow_job(session: Session, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job that a key sets on a model that takes long."""
    monkeypatch.setattr(Subject, "is_quick", False)
    session.press("x")
    return not_none(session.job)


def test_a_job_is_named_and_keys_go_on_working(monkeypatch: pytest.MonkeyPatch) -> None:
    session = open_session()
    job = start_slow_job(session, monkeypatch)
    assert "switching L1H0 off …" in screen_lines(session)[-3]
    session.press("up")
    assert session.place.query == 5
    session.press("t")
    assert session.job is job
    assert "wait for it" in screen_lines(session)[-3]
    session.finish(job, job.work())
    assert screen_lines(session)[1].startswith("L1H0 (off)")


def test_what_one_stopped_waiting_for_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    session = open_session()
    job, subject_before = start_slow_job(session, monkeypatch), session.subject
    session.press("escape")
    session.finish(job, job.work())

    assert session.subject is subject_before


def test_an_error_of_a_job_is_shown_and_a_bug_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    session = open_session()
    session.finish(start_slow_job(session, monkeypatch), AttnvizError("no", "try"))
    assert screen_lines(session)[-3] == "no (try)"
    with pytest.raises(ZeroDivisionError):
        session.finish(start_slow_job(session, monkeypatch), ZeroDivisionError())


def test_weights_from_elsewhere_can_be_looked_at_and_not_changed() -> None:
    given_weights = from_weights(np.full((2, 2, 3, 3), 1 / 3), ["a", "b", "c"])
    session = Session(*open_subject(given_weights), Screen(80, 24), ExploreOptions())
    subject_before = session.subject

    assert build_source(given_weights).has_no_command
    assert "computed elsewhere" in last_lines(press(session, "x"))
    assert "no command prints this" in press(session, "y")[-2]
    assert session.subject is subject_before
    press(session, "]", "o", "enter", DOWN, RIGHT)


def test_a_text_of_very_many_weights_is_refused_and_a_page_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subject, "MAX_EXPLORED_CELLS", 15)
    with pytest.raises(AttnvizError, match="4 tokens, too many to explore") as refusal:
        open_subject(trace("I am learning this", stream=True))
    assert "view.html" in refusal.value.hint


@pytest.mark.slow_table("formats", keep=2)
@pytest.mark.parametrize("keys", [(), (DOWN, RIGHT, "o"), ("s", DOWN), ("m",), ("a",)])
def test_a_long_text_looks_as_a_short_one_and_only_rows_in_sight_are_kept(
    keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"variant": "causal", "heads": 2, "tokenizer": "words"}
    text = "the cat sat on a mat and ran"
    short, streamed = trace(text, **settings), trace(text, stream=True, **settings)
    expected = press(Session(*open_subject(short), Screen(80, 24), ExploreOptions()), *keys)
    monkeypatch.setattr(subject, "MAX_CELLS_IN_MEMORY", 0)
    session = Session(*open_subject(streamed), Screen(80, 24), ExploreOptions())

    lines = press(session, *keys)
    assert lines[:-3] == expected[:-3]  # the last lines say how long texts are computed
    assert isinstance(session.subject.grid(0).cells, subject.RowsInSight)


# The command.


def test_without_a_terminal_two_lines_name_other_commands(attnviz: Attnviz) -> None:
    result = attnviz("explore", "I am")

    assert result.status == 2
    assert len(result.err.splitlines()) == 2
    assert "attnviz inspect" in result.err


@pytest.mark.terminal
def test_an_unknown_theme_is_refused_in_two_lines() -> None:
    text, status = run_on_terminal([*COMMAND, "--theme", "sepia"], {})
    lines = [line for line in re.sub(r"\x1b\[[\d;]*m", "", text).splitlines() if line.strip()]

    assert status == 2
    assert len(lines) == 2
    assert "sepia" in lines[0]
    assert "light" in lines[1]


@pytest.mark.parametrize("term", ["vt220", "screen", "unheard-of"])
def test_a_terminal_that_says_nothing_is_light_unless_colorfgbg_says_otherwise(
    term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    for colorfgbg, theme in (("", "light"), ("15;0", "dark"), ("0;15", "light")):
        monkeypatch.setenv("COLORFGBG", colorfgbg)
        screen = screen_from_options(Console(force_terminal=True), ExploreOptions())
        assert (screen.colors, screen.theme) == ("16", theme)


def test_without_textual_two_lines_say_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explore, "LIBRARY", "textual_that_is_not_there")

    with pytest.raises(AttnvizError, match="not installed") as refusal:
        explore.refuse_without_terminal()
    assert refusal.value.hint == 'pip install "attnviz[explore]"'


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
    session = open_session("It was tired", **settings)

    session.press(key)

    assert reason in session.message
    assert session.subject.changes == ""


def test_while_a_line_is_typed_the_last_line_has_its_keys() -> None:
    session = open_session()
    assert "q quit" in screen_lines(session)[-1]

    session.press("e")

    assert screen_lines(session)[-1] == "Enter do it  Esc leave it  Ctrl-U clear  Tab complete"


def test_a_sentence_that_is_refused_is_corrected_and_not_typed_again() -> None:
    session = open_session()
    assert "never seen 'boor' (did you mean" in last_lines(press(session, "e", *" boor", "enter"))
    assert session.subject.trace is session.subject.base

    press(session, "backspace", "k", *["left"] * 3, "backspace", "b", "enter")
    assert session.subject.trace.text == f"{SENTENCE} ? book"

    press(session, "e", *" cow", "enter", "escape", "e")
    assert not_none(session.prompt).text == f"{SENTENCE} ? book"


def run_in_thread(coroutine: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run a coroutine in a thread: in this one a browser of other tests may have its own loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(coroutine())).result()


def test_on_a_screen_keys_the_mouse_and_sizes_are_passed_on() -> None:
    session = open_session()
    explorer = Explorer(session)

    async def use_explorer() -> None:
        async with explorer.run_test(size=(100, 30)) as pilot:
            assert session.screen.width == 100
            await pilot.press("up", "right_square_bracket", "question_mark", "escape")
            await pilot.resize_terminal(90, 26)
            await pilot.click(offset=(screen_lines(session)[2].index("old"), 2))
            await pilot.click(offset=(screen_lines(session)[25].index("o all heads"), 25))
            assert session.place.pane == "overview"
            await pilot.click(offset=(screen_lines(session)[25].index("Esc back"), 25))
            await pilot.press("e", "home", "a", "space", "escape", "ctrl+z")
            await pilot.press("y", "y", "down", "y")
            assert "attnviz inspect" in explorer.clipboard
            await pilot.press("q")

    run_in_thread(use_explorer)
    assert explorer.failure is None
    assert [line[-9:] for line in explorer.copied_lines] == ["--query 2", "--query 3"]
    assert (session.place.query, session.subject.name(session.place.head)) == (2, "L1H1")
    assert len(screen_lines(session)) == 26


def test_of_a_screen_larger_than_any_a_part_is_filled() -> None:
    session = open_session()
    explorer = Explorer(session)

    async def use_explorer() -> None:
        async with explorer.run_test(size=(80, 24)) as pilot:
            await pilot.resize_terminal(65_535, 65_535)
            assert (session.screen.width, session.screen.height) == (1000, 1000)
            await pilot.press("q")

    run_in_thread(use_explorer)
    assert session.is_over


def test_a_bug_ends_the_application_and_is_kept_to_be_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = open_session()
    explorer = Explorer(session)

    async def use_explorer() -> None:
        async with explorer.run_test(size=(80, 24)) as pilot:
            monkeypatch.setattr(session, "frame", lambda: 1 / 0)
            await pilot.press("up")

    run_in_thread(use_explorer)
    assert isinstance(explorer.failure, ZeroDivisionError)


COMMAND = [sys.executable, "-m", "attnviz", "explore", SENTENCE, "--model", "agreement"]
LEAVE_ALTERNATE_SCREEN = "\x1b[?1049l"


@pytest.mark.terminal
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_the_text_may_come_from_a_pipe(tmp_path: Path) -> None:
    tmux = Tmux(tmp_path)
    try:
        tmux.wait_for("$")
        tmux.type(f"echo the old dogs | {sys.executable} -m attnviz explore - --model agreement")
        assert tmux.wait_for("arrows move").splitlines()[2] == "the old dogs ?"
        tmux("send-keys", "o")
        tmux.wait_for("Enter open")
        tmux("send-keys", "q")
        tmux.wait_for("\n$")
        tmux.type("stty -a | grep -o ' -*echo '")
        assert "\n echo\n" in tmux.wait_for("echo\n")
    finally:
        tmux("kill-server")


@pytest.mark.terminal
@pytest.mark.parametrize(("key", "status"), [(b"q", 0), (b"\x03", 130)])
def test_the_terminal_is_left_as_it_was(key: bytes, status: int) -> None:
    text, exit_status = run_on_terminal(
        COMMAND, {"ATTNVIZ_THEME": "dark"}, reply_once(key, b"quit")
    )

    assert exit_status == status
    assert "dogs" in text
    assert text.rindex(LEAVE_ALTERNATE_SCREEN) > text.rindex("quit")
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


class Tmux:
    """A shell in a terminal that is resized, stopped and continued as a person does it."""

    def __init__(self, folder: Path) -> None:
        self.words = ["tmux", "-S", str(folder / "socket"), "-f", os.devnull]
        self("new-session", "-d", "-x", "90", "-y", "26", "env PS1='$ ' bash --norc")

    def __call__(self, *arguments: str) -> str:
        return run_process([*self.words, *arguments]).stdout

    def wait_for(self, text: str) -> str:
        deadline = time.monotonic() + LONGEST
        while text not in (screen := self("capture-pane", "-p")):
            assert time.monotonic() < deadline, screen
            time.sleep(0.05)
        return screen

    def type(self, line: str) -> None:
        self("send-keys", "-l", line)
        self("send-keys", "Enter")


CRASHING_SCRIPT = """
from attnviz.cli.app import run_command_line
from attnviz.wings.explore.session import Session
Session.resize = lambda self, *size: 1 / 0
run_command_line(["explore", "I am"])
"""


@pytest.mark.slow("processes")
@pytest.mark.terminal
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_in_a_shell_it_is_stopped_continued_resized_and_ended(tmp_path: Path) -> None:
    tmux = Tmux(tmp_path)
    command = f"{sys.executable} -m attnviz explore 'the old dogs' --model agreement"
    (tmp_path / "crash.py").write_text(CRASHING_SCRIPT)
    try:
        tmux.wait_for("$")
        tmux.type(f"stty -g > {tmp_path}/before; {command}")
        tmux.wait_for("arrows move")
        tmux("send-keys", "C-z")
        tmux.wait_for("Stopped")
        tmux.type(f"stty -g > {tmp_path}/stopped; fg")
        tmux.wait_for("arrows move")
        for size in range(20, 40, 2):
            tmux("resize-window", "-x", str(3 * size), "-y", str(size))
        tmux("resize-window", "-x", "100", "-y", "30")
        tmux.wait_for("e edit")  # for which there is room at last
        tmux.type("q")
        tmux.wait_for("$")
        tmux.type(f"{command} & sleep 0.1; fg")
        tmux.wait_for("arrows move")
        tmux("send-keys", "C-z")
        tmux.wait_for("Stopped")
        tmux.type("kill -TERM %1; fg; echo ended $?")
        tmux.wait_for("ended 143")
        tmux.type(f"{sys.executable} {tmp_path}/crash.py; echo then $?")
        assert "ZeroDivisionError" in tmux.wait_for("then 1")
        tmux.type(f"stty -g > {tmp_path}/after; echo settled")
        tmux.wait_for("settled\n")
        flags = tmux("display", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag}")
        assert flags == "0 0 1\n"
    finally:
        tmux("kill-server")
    flags_before, *flags_later = (
        (tmp_path / name).read_text() for name in ("before", "stopped", "after")
    )
    assert flags_later == [flags_before, flags_before]


COPIED_FROM: dict[str, dict[str, Any]] = {
    "a small model": {"model": "agreement"},
    "random vectors": {"variant": "multi-head", "heads": 4, "tokenizer": "words"},
    "a second sentence": {"heads": 2, "memory": "he sleeps", "tokenizer": "words"},
    "one head": {"tokenizer": "words", "variant": "causal"},
}


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        pytest.param(kind, seed, marks=[pytest.mark.slow("seeds")] if seed else [])
        for kind in COPIED_FROM
        for seed in range(6)
    ],
)
def test_the_copied_command_prints_the_head_the_row_and_the_settings_on_the_screen(
    kind: str, seed: int, attnviz: Attnviz, tmp_path: Path
) -> None:
    session = open_session(**COPIED_FROM[kind])
    random = Random(seed)
    changes, moves = ["t", "T", "s", "m", "x"], ["[", "]", "{", "}", "up", "down"]
    press(session, "t", *random.choices([*changes, *moves, *moves], k=8))
    place, subject = session.place, session.subject
    press(session, "y")
    if kind == "a second sentence":
        assert "softmax" in session.copied
    words = shlex.split(session.copied)[1:]
    result = attnviz(*words, "-o", str(tmp_path / "copied.json"))

    assert result.status == 0, result.err
    document = json.loads((tmp_path / "copied.json").read_text(encoding="utf-8"))
    row = subject.grid(place.head).values[place.query]
    assert any(np.allclose(row, other, atol=1e-6) for other in rows_of_length(document, len(row)))
    settings = document["attnviz"]["settings"]
    expected = json.loads(json.dumps(subject.trace.provenance.settings))
    assert settings == expected
    if len(subject.attention) > 1:
        layer, head = subject.attention[place.head]
        command = not_none(parse_command(session.copied)).options
        assert (command["layer"], command["head"]) == ([str(layer.layer)], [str(head)])
        assert command["query"] == [str(place.query + 1)]


def rows_of_length(document: object, length: int) -> Iterator[list[float]]:
    """Yield every list of so many numbers in a JSON document."""
    if isinstance(document, dict):
        document = [*document.values()]
    if not isinstance(document, list):
        return
    if len(document) == length and all(isinstance(each, int | float) for each in document):
        yield document
    for each in document:
        yield from rows_of_length(each, length)
