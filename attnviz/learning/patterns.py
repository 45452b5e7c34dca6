"""Patterns of sentences, "the [{adjective}] {noun x as subject} {verb x}", and what they become.

A word stands for itself. `{noun}` is one of the words of that name, `{noun x}` one of a kind that x
stands for, wherever x stands; another letter is another kind. What is in [ ] is there or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from math import perm, prod

from attnviz.errors import AttnvizError, unknown
from attnviz.tokens.tokenizers import tokenize

PARTS = re.compile(r"\{[^{}]*\}|[\[\]{}]|[^\s\[\]{}]+")
SLOT = re.compile(r"([\w-]+)(?: ([\w-]+))??(?: as ([\w-]+))?")
LETTER = re.compile(r"[a-z]")
MOST_WAYS = 20_000  # in which sentences may be put together
MOST_PARTS = 1000  # words, places and brackets of a pattern, once its phrases are put in
DEEPEST = 20  # phrases in phrases, and brackets in brackets

Kinds = Mapping[str, Sequence[str]]  # of each class of words; none where it is one plain list


@dataclass(frozen=True)
class Slot:
    """A place that is filled with a word of a class."""

    words: str
    kind: str  # a letter that stands for one, or a kind; empty where any will do
    name: str  # what readings call it


@dataclass(frozen=True)
class Filled:
    """A place whose kind of word is settled; or a word that stands there always."""

    words: str  # a class; empty where the word is given
    kind: str  # of that class; or the word itself
    name: str = ""


Item = str | Slot | tuple["Item", ...]  # what is in a tuple may be missing
Way = tuple[Filled, ...]


@dataclass(frozen=True)
class Pattern:
    """What a pattern says, read."""

    items: tuple[Item, ...]
    size: int  # how many words, places and brackets it is written with

    @property
    def slots(self) -> Iterator[Slot]:
        """Every slot in it, also those that may be missing."""
        return _slots(self.items)


def _slots(items: tuple[Item, ...]) -> Iterator[Slot]:
    for item in items:
        if isinstance(item, Slot):
            yield item
        elif isinstance(item, tuple):
            yield from _slots(item)


def pattern_of(text: str, phrases: Mapping[str, str]) -> Pattern:
    """A pattern as it is written; `{phrase}` stands for a pattern of its own."""
    parts = list(islice(_parts(text, phrases, ()), MOST_PARTS + 1))
    if len(parts) > MOST_PARTS:
        raise AttnvizError(
            f"this sentence has more than {MOST_PARTS:,} words once its phrases are filled in",
            "make shorter sentences",
        )
    items, closed = _items(iter(parts), 0)
    if closed:
        raise AttnvizError("there is a ] without a [", "write [ before what may be missing")
    return Pattern(items, len(parts))


def _parts(text: str, phrases: Mapping[str, str], within: tuple[str, ...]) -> Iterator[str]:
    """What a pattern is written with; in place of the name of a phrase what that is written with.

    One part after the other, so that nobody has to wait for the end of what is too long.
    """
    for part in PARTS.findall(text):
        name = part[1:-1] if part.endswith("}") else ""
        if name not in phrases:
            yield part
            continue
        if name in within:
            raise AttnvizError("a phrase contains itself", "use words, or other phrases")
        if len(within) == DEEPEST:
            raise AttnvizError(
                f"phrases are nested more than {DEEPEST} deep", "write some of them out in words"
            )
        yield from _parts(phrases[name], phrases, (*within, name))


def _items(parts: Iterator[str], depth: int) -> tuple[tuple[Item, ...], bool]:
    """What stands before the next ], and whether there is one."""
    found: list[Item] = []
    for part in parts:
        if part == "]":
            return tuple(found), True
        if part == "[":
            if depth == DEEPEST:
                raise AttnvizError(
                    f"[ ] are nested more than {DEEPEST} deep", "leave some of them out"
                )
            inner, closed = _items(parts, depth + 1)
            if not closed:
                raise AttnvizError("there is a [ without a ]", "write ] behind what may be missing")
            found.append(inner)
        elif part[0] in "{}":
            found.append(_slot(part))
        else:
            found.extend(tokenize(part, "words").labels)
    return tuple(found), False


def _slot(part: str) -> Slot:
    match = SLOT.fullmatch(part[1:-1].strip())
    if part in ("{", "}") or match is None:
        raise AttnvizError(
            f"'{part}' is not a place for a word", "write {noun}, {noun x} or {noun x as subject}"
        )
    words, kind, name = match.groups(default="")
    return Slot(words, kind, name or words)


def refuse_unknown_words(pattern: Pattern, kinds: Kinds) -> None:
    """Refuse a place for words, or for a kind of them, that there are none of."""
    slots = list(pattern.slots)
    for slot in slots:
        if slot.words not in kinds:
            raise unknown("list of words", slot.words, kinds)
        if slot.kind and not kinds[slot.words]:
            raise AttnvizError(
                f"'{slot.words}' is a single list, but '{slot.kind}' stands for a kind",
                f"write {{{slot.words}}}, or give its kinds a list each",
            )
        if slot.kind and not is_letter(slot.kind) and slot.kind not in kinds[slot.words]:
            raise unknown(f"kind of '{slot.words}'", slot.kind, kinds[slot.words])
    _refuse_odd_letters([slot for slot in slots if is_letter(slot.kind)], kinds)


def _refuse_odd_letters(slots: Sequence[Slot], kinds: Kinds) -> None:
    """What letters stand for must be the same everywhere, and there must be enough of it."""
    for slot in slots:
        one, other = kinds[slots[0].words], kinds[slot.words]
        if set(one) != set(other):
            raise AttnvizError(
                f"a letter stands for a kind of '{slots[0].words}' ({', '.join(one)}) and of "
                f"'{slot.words}' ({', '.join(other)})",
                "give both lists the same kinds",
            )
    letters = {slot.kind for slot in slots}
    if slots and len(letters) > len(kinds[slots[0].words]):
        raise AttnvizError(
            f"{len(letters)} letters stand for different kinds, but there are only "
            f"{len(kinds[slots[0].words])}",
            "write the same letter where it may be the same kind",
        )


def is_letter(kind: str) -> bool:
    """Whether it stands for a kind."""
    return LETTER.fullmatch(kind) is not None


def most_ways(pattern: Pattern, kinds: Kinds) -> int:
    """How many things a pattern can become, at most."""
    slots = list(pattern.slots)
    letters = {slot.kind for slot in slots if is_letter(slot.kind)}
    common = next((len(kinds[slot.words]) for slot in slots if slot.kind in letters), 0)
    free = prod(len(kinds[slot.words]) or 1 for slot in slots if not slot.kind)
    return _most_expanded(pattern.items) * perm(common, len(letters)) * free


def _most_expanded(items: tuple[Item, ...]) -> int:
    return prod(1 + _most_expanded(item) for item in items if isinstance(item, tuple))


def ways(pattern: Pattern, kinds: Kinds) -> Iterator[tuple[float, Way]]:
    """Everything that a pattern can become, and how large a share of it each is."""
    expanded = list(_expanded(pattern.items))
    for items in expanded:
        settled = list(_settled(items, kinds))
        for way in settled:
            yield 1 / len(expanded) / len(settled), way


def _expanded(items: tuple[Item, ...]) -> Iterator[tuple[str | Slot, ...]]:
    """With and without each part that may be missing."""
    choices = [[(), *_expanded(item)] if isinstance(item, tuple) else [(item,)] for item in items]
    for chosen in product(*choices):
        yield tuple(each for part in chosen for each in part)


def _settled(items: tuple[str | Slot, ...], kinds: Kinds) -> Iterator[Way]:
    """With each choice of kinds: those of different letters differ, those of none are free."""
    slots = [item for item in items if isinstance(item, Slot)]
    letters = sorted({slot.kind for slot in slots if is_letter(slot.kind)})
    common = next((kinds[slot.words] for slot in slots if slot.kind in letters), ())
    free = [kinds[slot.words] for slot in slots if not slot.kind and kinds[slot.words]]
    for chosen, others in product(permutations(common, len(letters)), product(*free)):
        yield _filled(items, kinds, dict(zip(letters, chosen, strict=True)), iter(others))


def _filled(
    items: tuple[str | Slot, ...], kinds: Kinds, letters: Mapping[str, str], free: Iterator[str]
) -> Way:
    found = []
    for item in items:
        if isinstance(item, str):
            found.append(Filled("", item))
        elif not item.kind:
            found.append(Filled(item.words, next(free) if kinds[item.words] else "", item.name))
        else:
            found.append(Filled(item.words, letters.get(item.kind, item.kind), item.name))
    return tuple(found)
