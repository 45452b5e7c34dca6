"""The tasks that come with attnviz as code: reverse, sort, induction, brackets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnviz.learning.task import NO_TOKEN, TWO_LAYERS, Examples, Reading, Task
from attnviz.learning.task_names import TASKS
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings

SymbolRows = Int[Tensor, "row symbol"]
HELD_OUT_INTERVAL = 8  # one row in so many is held out
HASH_MODULUS, HASH_FACTOR = 2**31 - 1, 1_000_003

OPENING_BRACKETS, CLOSING_BRACKETS = tuple("([{<"), tuple(")]}>")
CLOSING_ID = len(OPENING_BRACKETS)  # of every closing bracket, whose kind is the answer
BLANK_SIGN = "?"
MIN_PAIRS, MAX_PAIRS = 2, 8
MAX_BRACKETS = 2 * MAX_PAIRS
REPEAT_PROBABILITY = 0.7

INDUCTION_LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
MIN_LETTERS, MAX_LETTERS = 4, 12  # before they are repeated
MAX_INDUCTION_TOKENS = 2 * MAX_LETTERS

REVERSE_LETTERS = tuple("abcdefghij")
REVERSE_TOKENS = 8

SORT_NUMBERS = tuple(map(str, range(1, 21)))
ARROW = "→"
MIN_NUMBERS, MAX_NUMBERS = 3, 6
MAX_SORT_TOKENS = 2 * MAX_NUMBERS + 1


def draw_brackets(seed: int, count: int, held_out: bool) -> Examples:
    """Draw correctly nested brackets, inside each other and side by side, with the kind of each
    closing one as the answer."""
    return brackets_examples(draw_rows(_draw_bracket_rows, seed, count, held_out))


def _draw_bracket_rows(random: torch.Generator, count: int) -> SymbolRows:
    """Return ids of brackets, padded with NO_TOKEN; 7 of 10 open or close like the one before them.

    With a fair coin 6 of 10 would close the bracket just before them, which is too easy.
    """
    symbols_left = 2 * torch.randint(MIN_PAIRS, MAX_PAIRS + 1, (count,), generator=random)
    kinds = torch.randint(CLOSING_ID, (count, MAX_BRACKETS), generator=random)
    repeats = torch.rand(count, MAX_BRACKETS, generator=random) < REPEAT_PROBABILITY
    depth, brackets = torch.zeros_like(symbols_left), torch.full((count, MAX_BRACKETS), NO_TOKEN)
    opens = torch.ones(count, dtype=torch.bool)
    for position in range(MAX_BRACKETS):
        opens = (opens == repeats[:, position]) | (depth == 0)
        opens &= depth < symbols_left  # otherwise the rest is needed for closing
        ids = kinds[:, position].where(opens, CLOSING_ID)
        brackets[:, position] = ids.where(symbols_left > 0, NO_TOKEN)
        depth += torch.where(opens, 1, -1)
        symbols_left -= 1
    return brackets


def brackets_examples(brackets: SymbolRows) -> Examples:
    """Return the examples of rows of brackets: the answer at a closing bracket is its kind."""
    openings = _opening_positions(brackets)
    closes = brackets == CLOSING_ID
    return Examples(
        brackets.clamp(min=0),
        brackets.gather(1, openings).where(closes, NO_TOKEN),
        {"its opening": openings.where(closes, NO_TOKEN)},
    )


def _opening_positions(brackets: SymbolRows) -> Int[Tensor, "row symbol"]:
    """Return for each bracket the position of the last opening one before it at the same depth, or
    0."""
    closes: Bool[Tensor, "row symbol"] = brackets == CLOSING_ID
    opens = (brackets != CLOSING_ID) & (brackets != NO_TOKEN)
    depth = opens.long().cumsum(1) - closes.long().cumsum(1) + closes.long()
    positions = torch.arange(brackets.shape[1])
    can_match = opens[:, None, :] & (depth[:, None, :] == depth[:, :, None])
    before = can_match & (positions[None, :] < positions[:, None])
    return torch.where(before, positions, 0).amax(-1)


def _facts_of_row(name: str) -> dict[str, Any]:
    """Return the fields of a Task that its row in the table of tasks gives."""
    row = TASKS[name]
    facts = ("about", "teaches", "watch", "seconds")
    return {"name": name, **{fact: getattr(row, fact) for fact in facts}}


brackets_task = Task(
    **_facts_of_row("brackets"),
    answer_noun="closing bracket",
    vocabulary=Vocabulary(
        tokenizer="words",
        words=(*OPENING_BRACKETS, BLANK_SIGN),
        answers=CLOSING_BRACKETS,
        predicts="here",
        spelled=dict.fromkeys(CLOSING_BRACKETS, BLANK_SIGN),
        asks=BLANK_SIGN,
    ),
    draw=draw_brackets,
    readings=(Reading("its opening", "reads the bracket that it closes"),),
    settings=TWO_LAYERS,
    longest=MAX_BRACKETS,
    steps=4000,
    rate=0.005,
)


def draw_rows(
    draw: Callable[[torch.Generator, int], SymbolRows],
    seed: int,
    count: int,
    held_out: bool,
    canonical: Callable[[SymbolRows], SymbolRows] = lambda drawn: drawn,
) -> SymbolRows:
    """Draw `count` rows with a seed that are held out, or that are not.

    Rows that `canonical` makes equal, such as permutations, are held out together.
    """
    random = torch.Generator().manual_seed(seed)
    size = count * HELD_OUT_INTERVAL if held_out else count + count // HELD_OUT_INTERVAL
    batches: list[SymbolRows] = []
    while sum(map(len, batches)) < count:
        batch = draw(random, size)
        batches.append(batch[is_held_out(canonical(batch)) == held_out])
    return torch.cat(batches)[:count]


def is_held_out(symbol_rows: SymbolRows) -> Bool[Tensor, "row"]:
    """Return which rows are held out: about one in HELD_OUT_INTERVAL, by a hash of the row."""
    number = torch.zeros(len(symbol_rows), dtype=torch.long)
    for symbols in symbol_rows.unbind(1):
        number = (number * HASH_FACTOR + symbols + 1) % HASH_MODULUS
    return number % HELD_OUT_INTERVAL == 0


def draw_distinct_symbols(
    random: torch.Generator, count: int, symbols: int, min_length: int, max_length: int
) -> SymbolRows:
    """Draw `count` rows of distinct numbers below `symbols` with random lengths, padded with
    NO_TOKEN."""
    order = torch.rand(count, symbols, generator=random).argsort(1)[:, :max_length]
    lengths = torch.randint(min_length, max_length + 1, (count, 1), generator=random)
    return order.where(torch.arange(max_length) < lengths, NO_TOKEN)


def draw_induction(seed: int, count: int, held_out: bool) -> Examples:
    """Draw distinct letters twice; their number varies, so that no fixed distance helps."""
    letters = partial(
        draw_distinct_symbols,
        symbols=len(INDUCTION_LETTERS),
        min_length=MIN_LETTERS,
        max_length=MAX_LETTERS,
    )
    return induction_examples(draw_rows(letters, seed, count, held_out))


def induction_examples(letters: SymbolRows) -> Examples:
    """Return examples with each row of letters twice; in the second copy each letter but the last
    predicts the next one."""
    lengths = (letters != NO_TOKEN).sum(1, keepdim=True)
    positions = torch.arange(MAX_INDUCTION_TOKENS).expand(len(letters), MAX_INDUCTION_TOKENS)
    is_token = positions < 2 * lengths
    has_answer = (positions >= lengths) & (positions + 1 < 2 * lengths)
    return Examples(
        letters.gather(1, positions % lengths).where(is_token, 0),
        letters.gather(1, (positions + 1) % lengths).where(has_answer, NO_TOKEN),
        {
            "previous token": (positions - 1).where(is_token, NO_TOKEN),  # −1 for the first
            "what followed": (positions + 1 - lengths).where(has_answer, NO_TOKEN),
        },
    )


induction_task = Task(
    **_facts_of_row("induction"),
    answer_noun="letter",
    vocabulary=Vocabulary(
        tokenizer="chars", words=INDUCTION_LETTERS, answers=INDUCTION_LETTERS, predicts="next"
    ),
    draw=draw_induction,
    readings=(
        Reading("previous token", "reads the previous letter"),
        Reading("what followed", "reads what followed the same letter before"),
    ),
    settings=replace(TWO_LAYERS, dim=64, heads=4, positions="rotary", attention_only=True),
    longest=MAX_INDUCTION_TOKENS,
    steps=1000,
    rate=0.01,
)


def draw_reverse(seed: int, count: int, held_out: bool) -> Examples:
    """Draw random letters, which may repeat; the answers are the letters in reverse order."""
    ids = draw_rows(_draw_letters, seed, count, held_out)
    opposite = torch.arange(REVERSE_TOKENS - 1, -1, -1).expand(count, REVERSE_TOKENS)
    return Examples(ids, ids.flip(1), {"opposite": opposite})


def _draw_letters(random: torch.Generator, count: int) -> SymbolRows:
    return torch.randint(len(REVERSE_LETTERS), (count, REVERSE_TOKENS), generator=random)


reverse_task = Task(
    **_facts_of_row("reverse"),
    answer_noun="letter",
    vocabulary=Vocabulary(
        tokenizer="words", words=REVERSE_LETTERS, answers=REVERSE_LETTERS, predicts="here"
    ),
    draw=draw_reverse,
    readings=(Reading("opposite", "reads the opposite letter"),),
    settings=Settings(
        variant="scaled", dim=32, layers=1, norm="pre", positions="learned", attention_only=True
    ),
    longest=REVERSE_TOKENS,
    steps=400,
    batch=64,
    rate=0.01,
)


def draw_sort(seed: int, count: int, held_out: bool) -> Examples:
    """Draw distinct numbers, an arrow, and the same numbers sorted: "5 2 8 1 → 1 2 5 8".

    Held-out numbers are held out in every order.
    """
    numbers = partial(
        draw_distinct_symbols,
        symbols=len(SORT_NUMBERS),
        min_length=MIN_NUMBERS,
        max_length=MAX_NUMBERS,
    )
    rows = draw_rows(numbers, seed, count, held_out, canonical=lambda drawn: drawn.sort(1).values)
    return sort_examples(rows)


def sort_examples(numbers: SymbolRows) -> Examples:
    """Return examples of the numbers, an arrow and the sorted numbers; from the arrow on the next
    number is the answer."""
    lengths = (numbers != NO_TOKEN).sum(1, keepdim=True)
    ordered, source_positions = numbers.where(numbers != NO_TOKEN, len(SORT_NUMBERS)).sort(1)
    positions = torch.arange(MAX_SORT_TOKENS).expand(len(numbers), MAX_SORT_TOKENS)
    after = positions - lengths  # 0 at the arrow
    rank = after.clamp(0, MAX_NUMBERS - 1)
    ids = numbers.gather(1, positions.clamp(max=MAX_NUMBERS - 1))
    ids = ids.where(after != 0, len(SORT_NUMBERS))
    ids = ids.where(after <= 0, ordered.gather(1, (after - 1).clamp(0, MAX_NUMBERS - 1)))
    has_answer = (after >= 0) & (after < lengths)
    return Examples(
        ids.where(after <= lengths, 0),
        ordered.gather(1, rank).where(has_answer, NO_TOKEN),
        {"next larger": source_positions.gather(1, rank).where(has_answer, NO_TOKEN)},
    )


sort_task = Task(
    **_facts_of_row("sort"),
    answer_noun="number",
    vocabulary=Vocabulary(
        tokenizer="words",
        words=(*SORT_NUMBERS, ARROW),
        answers=SORT_NUMBERS,
        predicts="next",
        spelled={">": ARROW, ":": ARROW},
        asks=ARROW,
    ),
    draw=draw_sort,
    readings=(Reading("next larger", "reads the next larger number"),),
    settings=Settings(variant="causal", dim=32, layers=1, norm="pre", attention_only=True),
    longest=MAX_SORT_TOKENS,
    steps=1000,
    rate=0.005,
)
