"""KEYS: the keys in words, which the last line, the list of keys and docs/pages.md show."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from attnviz.wings.explore.place import Pane

MATRIX: tuple[Pane, ...] = ("matrix",)
RESULTS: tuple[Pane, ...] = ("matrix", "overview", "arithmetic")
ALL_PANES: tuple[Pane, ...] = (*RESULTS, "keys")
BEHIND: tuple[Pane, ...] = ("overview", "arithmetic", "keys")
LAST_LINE_GAP = 2  # columns between two keys
MOVES = ("up", "down", "left", "right")

# Why a key does nothing for a subject; all others say so themselves.
MISSING_REASONS = {
    "heads": "there is only one head",
    "layers": "there is only one layer",
    "settings": "a trained transformer keeps the scale, mask and temperature of its training",
    "scores": "there are no scores to scale: these weights are not a softmax of scores",
}
PROMPT_KEYS = (("Enter", "do it"), ("Esc", "leave it"), ("Ctrl-U", "clear"))
TAB_KEY = (("Tab", "complete"),)
PROMPT_KEY_NAMES = {"Enter": "enter", "Esc": "escape", "Ctrl-U": "ctrl+u", "Tab": "tab"}


@dataclass(frozen=True)
class Key:
    """One or two keys, what they do, and in which panes."""

    names: tuple[str, ...]  # as the terminal names them
    label: str  # as people read them
    does: str
    short: str = ""  # for the last line; empty: it is not there
    rank: int = 99  # how important it is there: 0 is the most important one
    panes: tuple[Pane, ...] = RESULTS
    needs: str = ""  # words for what the subject has to be able to do, so that the key is listed


KEYS: tuple[Key, ...] = (
    Key(MOVES, "arrows", "move over the cells", "move", 3, MATRIX),
    Key(MOVES, "arrows", "move over the heads", "move", 3, ("overview",)),
    Key(("up", "down"), "↑ ↓", "scroll", "scroll", 3, ("arithmetic", "keys")),
    Key(("home", "end"), "Home End", "go to the first column, to the last", panes=MATRIX),
    Key(("pageup", "pagedown"), "Page up, Page down", "go far up, far down", panes=ALL_PANES),
    Key(("[", "]"), "[ ]", "previous head, next head", "head", 4, needs="heads"),
    Key(("{", "}"), "{ }", "previous layer, next layer", "layer", 16, needs="layers"),
    Key(("o",), "o", "all heads, or back", "all heads", 6, needs="heads"),
    Key(("enter",), "Enter", "open the head", "open", 4, ("overview",)),
    Key(("enter",), "Enter", "follow the link: the key becomes the query", "follow", 19, MATRIX),
    Key(("/",), "/", "find a token to follow: a word or a number", "find", 9),
    Key(("x",), "x", "switch the head off, or on again", "off", 7, needs="changes"),
    Key(("s",), "s", "divide scores by √d_k, or not", "scale", 11, needs="settings scores"),
    Key(("m",), "m", "hide later tokens with a causal mask, or not", "mask", 12, needs="settings"),
    Key(
        ("t", "T"),
        "t T",
        "double the temperature, halve it",
        "temperature",
        13,
        needs="settings scores",
    ),
    Key(("e",), "e", "edit the sentence", "edit", 8, needs="text"),
    Key(("g",), "g", "add the word that the model expects", "next word", 10, needs="continues"),
    Key(("d",), "d", "the arithmetic of the cell, or back", "arithmetic", 5),
    Key(("u",), "u", "undo all changes", "undo", 17, needs="changes"),
    Key(("b",), "b", "flip between before the changes and now", "before", 18, needs="changes"),
    Key(("y",), "y", "copy the command that prints what is on the screen", "copy", 14),
    Key(("w",), "w", "write what is on the screen to a file", "write", 15),
    Key(("+", "-", "0"), "+ − 0", "larger cells, smaller cells, as large as fit", panes=MATRIX),
    Key(("?",), "?", "these keys, or back", "keys", 1, ALL_PANES),
    Key(("escape",), "Esc", "stop waiting for what is computed", panes=MATRIX),
    Key(("escape",), "Esc", "go back; stop waiting", "back", 2, BEHIND),
    Key(("q",), "q", "quit", "quit", 0, ALL_PANES),
)


def keys_of_pane(pane: Pane, abilities: Collection[str]) -> list[Key]:
    return [key for key in KEYS if pane in key.panes and {*key.needs.split()} <= {*abilities}]


def unused_key_message(key: str, pane: Pane) -> str:
    elsewhere = [row for row in KEYS if key in row.names]
    back = "? or Esc goes back" if pane == "keys" else "? lists the keys"
    if elsewhere:
        return f"{elsewhere[0].label} does nothing here ({back})"
    return f"that is no key of attnviz explore ({back})"


def last_line_words(pane: Pane, room: int, abilities: Collection[str]) -> list[tuple[str, str]]:
    """Return (key, word) pairs for the last line, as many as fit into `room` columns.

    The most important ones are kept; they stand in the order of the table.
    """
    shown = [key for key in keys_of_pane(pane, abilities) if key.short]
    kept: list[Key] = []
    for key in sorted(shown, key=lambda each: each.rank):
        if sum(map(_columns, [*kept, key])) - LAST_LINE_GAP <= room:
            kept.append(key)
    return [(key.label, key.short) for key in shown if key in kept]


def key_at(words: Iterable[tuple[str, str]], column: int) -> str:
    """Return what stands at a column of the last line: `[` or `]` of `[ ] head`, and over the word
    the last of them; empty between two keys.

    >>> key_at([("[ ]", "head"), ("q", "quit")], 5)
    ']'
    """
    start = 0
    for label, word in words:
        end = start + len(label) + 1 + len(word)
        if start <= column < end:
            parts = label.split()
            return parts[min(label[: column - start].count(" "), len(parts) - 1)]
        start = end + LAST_LINE_GAP
    return ""


def name_of_sign(sign: str, pane: Pane, abilities: Collection[str]) -> str:
    """Return the name of the key with this sign in the last line; empty if it is no single key."""
    for key in keys_of_pane(pane, abilities):
        signs = key.label.split()
        if sign in signs and len(signs) == len(key.names):
            return key.names[signs.index(sign)]
    return ""


def _columns(key: Key) -> int:
    return len(key.label) + 1 + len(key.short) + LAST_LINE_GAP
