"""Text outputs of hand-written grids, against files that a person has read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from attnviz.renderers import render
from attnviz.renderers.terminal.lines import panel_lines
from attnviz.renderers.terminal.screen import Screen
from attnviz.views.grids.section import Drawable
from tests.hand import HOSTILE, causal_weights, many_words, vectors, view_of

Golden = Callable[[str, str], None]


def screen_of(width: int | None, *panels: Drawable, full: bool = False) -> str:
    return "\n".join(line.plain.rstrip() for line in panel_lines(panels, Screen(width, full=full)))


def test_a_sentence_in_80_columns(check_golden: Golden) -> None:
    check_golden("sentence_80.txt", screen_of(80, causal_weights(), vectors(4, 8)))


def test_three_heads_in_80_columns(check_golden: Golden) -> None:
    heads = [causal_weights(f"weights L0H{head}") for head in range(3)]
    check_golden("heads_80.txt", screen_of(80, *heads))


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("tokens", [24, 80, 200])
def test_many_tokens(check_golden: Golden, tokens: int, width: int) -> None:
    check_golden(f"tokens_{tokens}_columns_{width}.txt", screen_of(width, many_words(tokens)))


def test_wide_vectors_cut_and_in_full(check_golden: Golden) -> None:
    check_golden(
        "vectors_80.txt", screen_of(80, vectors(3, 30)) + screen_of(80, vectors(3, 30), full=True)
    )


def test_hostile_labels(check_golden: Golden) -> None:
    check_golden("hostile_80.txt", screen_of(80, causal_weights("weights", *HOSTILE)))


def test_a_text_file(check_golden: Golden) -> None:
    view = view_of(
        causal_weights(), vectors(4, 8), headline="causal attention", caption="four tokens"
    )
    check_golden("file.txt", render(view, ".txt").decode())
