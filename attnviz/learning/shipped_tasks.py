"""The tasks that come with attnviz as code: reverse, sort, induction, brackets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnviz.learning import shipped_tasks
from attnviz.learning.task import NOTHING, Examples, Reading, Task
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings

OPENING, CLOSING = tuple("([{<"), tuple(")]}>")
CLOSES = len(OPENING)  # the id of every closing bracket: which one it is, is what is asked
ASKS = "?"
FEWEST_PAIRS, MOST_PAIRS = 2, 8  # pairs
LONGEST_BRACKETS = 2 * MOST_PAIRS
GOES_ON = 0.7


def draw_brackets(seed: int, count: int, held_out: bool) -> Examples:
    """Brackets that close what was opened last: one in another, and one behind the other."""
    return brackets_examples(shipped_tasks.rows(_brackets, seed, count, held_out))


def _brackets(random: torch.Generator, count: int) -> Rows:
    """Ids, with NOTHING behind the last pair. Seven of ten open, or close, as the one before did.

    By a coin six of ten would close the bracket just before them, and little would be to find.
    """
    left = 2 * torch.randint(FEWEST_PAIRS, MOST_PAIRS + 1, (count,), generator=random)
    kinds = torch.randint(CLOSES, (count, LONGEST_BRACKETS), generator=random)
    goes_on = torch.rand(count, LONGEST_BRACKETS, generator=random) < GOES_ON
    depth, found = torch.zeros_like(left), torch.full((count, LONGEST_BRACKETS), NOTHING)
    opens = torch.ones(count, dtype=torch.bool)
    for place in range(LONGEST_BRACKETS):
        opens = (opens == goes_on[:, place]) | (depth == 0)
        opens &= depth < left  # as many are left as have to be closed
        found[:, place] = kinds[:, place].where(opens, CLOSES).where(left > 0, NOTHING)
        depth += torch.where(opens, 1, -1)
        left -= 1
    return found


def brackets_examples(brackets: Rows) -> Examples:
    """A closing bracket is asked for its kind: that of the last one that is still open."""
    opened = _opened(brackets)
    closes = brackets == CLOSES
    return Examples(
        brackets.clamp(min=0),
        brackets.gather(1, opened).where(closes, NOTHING),
        {"its opening": opened.where(closes, NOTHING)},
    )


def _opened(brackets: Rows) -> Int[Tensor, "row symbol"]:
    """Where the bracket stands that each closes: the last before it that is as deep inside."""
    closes: Bool[Tensor, "row symbol"] = brackets == CLOSES
    opens = (brackets != CLOSES) & (brackets != NOTHING)
    depth = opens.long().cumsum(1) - closes.long().cumsum(1) + closes.long()
    place = torch.arange(brackets.shape[1])
    may = opens[:, None, :] & (depth[:, None, :] == depth[:, :, None])
    before = may & (place[None, :] < place[:, None])
    return torch.where(before, place, 0).amax(-1)


brackets_task = Task(
    name="brackets",
    about="nested brackets of four kinds",
    teaches="a closing bracket reads the one that it closes",
    asked="closing bracket",
    vocabulary=Vocabulary(
        tokenizer="words",
        words=(*OPENING, ASKS),
        answers=CLOSING,
        predicts="here",
        spelled=dict.fromkeys(CLOSING, ASKS),
        asks=ASKS,
    ),
    draw=draw_brackets,
    readings=(Reading("its opening", "reads the bracket that it closes"),),
    watch="([]{<>})",
    settings=Settings(
        variant="multi-head", dim=32, heads=2, layers=2, norm="pre", positions="learned"
    ),
    longest=LONGEST_BRACKETS,
    steps=4000,
    rate=0.005,
    seconds=5,
)


Rows = Int[Tensor, "row symbol"]
HELD_OUT = 8  # one row of so many
PRIME = 2**31 - 1
FACTOR = 1_000_003


def rows(
    draw: Callable[[torch.Generator, int], Rows],
    seed: int,
    count: int,
    held_out: bool,
    same: Callable[[Rows], Rows] = lambda drawn: drawn,
) -> Rows:
    """As many as are wanted of those that are held out, or of the others.

    Rows that `same` makes equal are held out together: the same numbers in another order.
    """
    random = torch.Generator().manual_seed(seed)
    found: list[Rows] = []
    while sum(map(len, found)) < count:
        drawn = draw(random, count * HELD_OUT if held_out else count + count // HELD_OUT)
        found.append(drawn[are_held_out(same(drawn)) == held_out])
    return torch.cat(found)[:count]


def are_held_out(drawn: Rows) -> Bool[Tensor, "row"]:
    """Which rows are: a number is made of all that stands in each, and one in eight has it."""
    number = torch.zeros(len(drawn), dtype=torch.long)
    for symbols in drawn.unbind(1):
        number = (number * FACTOR + symbols + 1) % PRIME
    return number % HELD_OUT == 0


def distinct(random: torch.Generator, count: int, symbols: int, fewest: int, most: int) -> Rows:
    """Rows of different symbols, some longer and some shorter; NOTHING follows those."""
    drawn = torch.rand(count, symbols, generator=random).argsort(1)[:, :most]
    many = torch.randint(fewest, most + 1, (count, 1), generator=random)
    return drawn.where(torch.arange(most) < many, NOTHING)


LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
FEWEST_LETTERS, MOST_LETTERS = 4, 12  # letters, before they come again
LONGEST_INDUCTION = 2 * MOST_LETTERS


def draw_induction(seed: int, count: int, held_out: bool) -> Examples:
    """Different letters, and the same once more; how many there are, no place can know."""
    letters = partial(
        shipped_tasks.distinct, symbols=len(LETTERS), fewest=FEWEST_LETTERS, most=MOST_LETTERS
    )
    return induction_examples(shipped_tasks.rows(letters, seed, count, held_out))


def induction_examples(letters: Rows) -> Examples:
    """The second time each letter but the last is asked for the one after it."""
    many = (letters != NOTHING).sum(1, keepdim=True)
    place = torch.arange(LONGEST_INDUCTION).expand(len(letters), LONGEST_INDUCTION)
    there = place < 2 * many
    asked = (place >= many) & (place + 1 < 2 * many)
    return Examples(
        letters.gather(1, place % many).where(there, 0),
        letters.gather(1, (place + 1) % many).where(asked, NOTHING),
        {
            "previous token": (place - 1).where(there, NOTHING),  # the first has none: -1
            "what followed": (place + 1 - many).where(asked, NOTHING),
        },
    )


induction_task = Task(
    name="induction",
    about="a row of letters, twice",
    teaches="one head reads the previous letter; above it others read what followed the same "
    "letter",
    asked="letter",
    vocabulary=Vocabulary(tokenizer="chars", words=LETTERS, answers=LETTERS, predicts="next"),
    draw=draw_induction,
    readings=(
        Reading("previous token", "reads the previous letter"),
        Reading("what followed", "reads what followed the same letter before"),
    ),
    watch="maplemaple",
    settings=Settings(
        variant="multi-head",
        dim=64,
        heads=4,
        layers=2,
        norm="pre",
        positions="rotary",
        attention_only=True,
    ),
    longest=LONGEST_INDUCTION,
    steps=1000,
    rate=0.01,
    seconds=3,
)


TEN_LETTERS = tuple("abcdefghij")
LENGTH = 8


def draw_reverse(seed: int, count: int, held_out: bool) -> Examples:
    """Letters at random, any of them as often as it comes."""
    ids = shipped_tasks.rows(_letters, seed, count, held_out)
    opposite = torch.arange(LENGTH - 1, -1, -1).expand(count, LENGTH)
    return Examples(ids, ids.flip(1), {"opposite": opposite})


def _letters(random: torch.Generator, count: int) -> Rows:
    return torch.randint(len(TEN_LETTERS), (count, LENGTH), generator=random)


reverse_task = Task(
    name="reverse",
    about="eight letters, backwards",
    teaches="every place reads the opposite one: the heatmap is an anti-diagonal",
    asked="letter",
    vocabulary=Vocabulary(
        tokenizer="words", words=TEN_LETTERS, answers=TEN_LETTERS, predicts="here"
    ),
    draw=draw_reverse,
    readings=(Reading("opposite", "reads the opposite letter"),),
    watch="a b c d e f g h",
    settings=Settings(
        variant="scaled", dim=32, layers=1, norm="pre", positions="learned", attention_only=True
    ),
    longest=LENGTH,
    steps=400,
    batch=64,
    rate=0.01,
    seconds=1,
)


NUMBERS = tuple(map(str, range(1, 21)))
ARROW = "→"
FEWEST_NUMBERS, MOST_NUMBERS = 3, 6  # numbers to be sorted
LONGEST_SORT = 2 * MOST_NUMBERS + 1


def draw_sort(seed: int, count: int, held_out: bool) -> Examples:
    """Different numbers, an arrow, and the same in order: "5 2 8 1 → 1 2 5 8".

    Numbers that are held out are so in every order.
    """
    numbers = partial(
        shipped_tasks.distinct, symbols=len(NUMBERS), fewest=FEWEST_NUMBERS, most=MOST_NUMBERS
    )
    return sort_examples(
        shipped_tasks.rows(numbers, seed, count, held_out, lambda each: each.sort(1).values)
    )


def sort_examples(numbers: Rows) -> Examples:
    """From the arrow on each place is asked for the next larger number, and has to find it."""
    many = (numbers != NOTHING).sum(1, keepdim=True)
    ordered, stand = numbers.where(numbers != NOTHING, len(NUMBERS)).sort(1)
    place = torch.arange(LONGEST_SORT).expand(len(numbers), LONGEST_SORT)
    after = place - many  # 0 at the arrow
    rank = after.clamp(0, MOST_NUMBERS - 1)
    ids = numbers.gather(1, place.clamp(max=MOST_NUMBERS - 1))
    ids = ids.where(after != 0, len(NUMBERS))
    ids = ids.where(after <= 0, ordered.gather(1, (after - 1).clamp(0, MOST_NUMBERS - 1)))
    asked = (after >= 0) & (after < many)
    return Examples(
        ids.where(after <= many, 0),
        ordered.gather(1, rank).where(asked, NOTHING),
        {"next larger": stand.gather(1, rank).where(asked, NOTHING)},
    )


sort_task = Task(
    name="sort",
    about="numbers from 1 to 20, in order",
    teaches="every number reads the next larger one, wherever it is",
    asked="number",
    vocabulary=Vocabulary(
        tokenizer="words",
        words=(*NUMBERS, ARROW),
        answers=NUMBERS,
        predicts="next",
        spelled={">": ARROW, ":": ARROW},
        asks=ARROW,
    ),
    draw=draw_sort,
    readings=(Reading("next larger", "reads the next larger number"),),
    watch="5 2 8 1 → 1 2 5 8",
    settings=Settings(variant="causal", dim=32, layers=1, norm="pre", attention_only=True),
    longest=LONGEST_SORT,
    steps=1000,
    rate=0.005,
    seconds=1,
)
