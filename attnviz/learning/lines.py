"""Lines of one's own as a task: a small language model learns to go on with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.learning.names import CUT
from attnviz.learning.task import NOTHING, Examples, Reading, Task
from attnviz.tokens.tokenizers import tokenize
from attnviz.traces import texts
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings
from attnviz.vectors.drawn import uniform
from attnviz.wording.words import counted

Rows = Int[Tensor, "line token"]

POSITIONS = 256  # and so many tokens a line may have
ONE_OF = 10  # lines is held out
END = ("↵", "⏎", "end of line")  # what a line ends in: the first that is no token of a line
SHORT = 12  # tokens of a line that can be watched with ease
LOOKED_AT = 1000  # lines that are held out, for what can be read in them
SEEN = 8  # a reading is measured, if there is something to read in one of so many lines held out

DOES = {
    "previous": "reads the token before",
    "first": "reads the first token",
    "same": "reads the same token before",
    "after same": "reads what followed the same token before",
}


@dataclass(frozen=True, eq=False)
class Part:
    """Lines as ids, one behind the other."""

    ids: Int[Tensor, "id"]
    starts: Int[Tensor, "line"]
    sizes: Int[Tensor, "line"]

    def at(self, chosen: Int[Tensor, "line"], longest: int, end: int) -> tuple[Rows, Rows]:
        """Some of the lines, filled up behind, and what follows each of their tokens."""
        places = torch.arange(longest + 1).expand(len(chosen), -1)
        sizes = self.sizes[chosen, None]
        ids = self.ids[torch.where(places < sizes, self.starts[chosen, None] + places, 0)]
        follows = ids.masked_fill(places == sizes, end).masked_fill(places > sizes, NOTHING)
        return ids.masked_fill(places >= sizes, 0)[:, :-1], follows[:, 1:]


@dataclass(frozen=True, eq=False, kw_only=True)
class Lines:
    """The lines that are learned from, and those that are held out."""

    learned: Part
    measured: Part
    longest: int
    end: int  # the answer behind the last token
    readings: tuple[str, ...]  # that are often enough to be measured

    def draw(self, seed: int, count: int, held_out: bool) -> Examples:
        """Lines of a seed, one as often as another; of few that are held out each once."""
        part = self.measured if held_out else self.learned
        if held_out and len(part.sizes) <= count:
            return self.examples(part, torch.arange(len(part.sizes)))
        stream = f"lines {'held out' if held_out else 'learned'}"
        chance = uniform([seed], stream, range(count), 1).flatten()
        return self.examples(part, (chance * len(part.sizes)).long())

    def examples(self, part: Part, chosen: Int[Tensor, "line"]) -> Examples:
        """Some lines of a part."""
        ids, answers = part.at(chosen, self.longest, self.end)
        found = read_in(ids, answers != NOTHING)
        return Examples(ids, answers, {name: found[name] for name in self.readings})


def task_of_lines(path: Path, tokenizer: str, source: str | None = None) -> Task:
    """A task: after each token of a line the next is to be found.

    The lines are those of the file, or of its text, which was read before.
    """
    text = texts.read(path, "text") if source is None else source
    cut = _cut(text, path, tokenizer)
    learned, measured = _parted([*cut], path)
    words = tuple(dict.fromkeys(label for labels in cut.values() for label in labels))
    lines = _numbered([cut[each] for each in learned], [cut[each] for each in measured], words)
    piece = CUT[tokenizer]
    return Task(
        name=path.stem,
        about=f"the lines of {path.name}, {piece} by {piece}",
        teaches=f"the next {piece} is predicted at every place",
        asked=piece,
        vocabulary=Vocabulary(
            tokenizer=tokenizer, words=words, answers=(*words, _end(words)), predicts="next"
        ),
        draw=lines.draw,
        readings=tuple(Reading(name, DOES[name]) for name in lines.readings),
        watch=next((each for each in (*measured, *cut) if len(cut[each]) <= SHORT), measured[0]),
        settings=Settings(
            variant="multi-head", dim=64, heads=4, layers=2, norm="pre", positions="learned"
        ),
        longest=lines.longest,
        batch=32,
        seconds=30,
        source=text,
    )


def _cut(whole: str, path: Path, tokenizer: str) -> dict[str, tuple[str, ...]]:
    """Every line that is not blank, once, with its tokens."""
    found: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(whole.splitlines(), start=1):
        text = line.strip()
        if text and text not in found:
            found[text] = tokenize(text, tokenizer).labels
            if len(found[text]) > POSITIONS:
                raise AttnvizError(
                    f"line {number} of '{path}' has {counted(len(found[text]), 'token')}, but "
                    f"there are only {POSITIONS} positions",
                    "split it into shorter lines",
                    file=str(path),
                )
    return found


def _parted(lines: Sequence[str], path: Path) -> tuple[list[str], list[str]]:
    """The lines that are learned from, and one of every few that is held out."""
    if len(lines) < 2:
        there = "there is nothing" if not lines else "there is only one line"
        raise AttnvizError(
            f"'{path}': {there} to learn from",
            "give at least two different lines; one is held out, to see what was learned",
            file=str(path),
        )
    each = min(ONE_OF, len(lines))
    measured = [*lines[each - 1 :: each]]
    held_out = {*measured}
    return [line for line in lines if line not in held_out], measured


def _end(words: Sequence[str]) -> str:
    """What stands for the end of a line: the first that is no token of one."""
    return next(each for each in END if each not in words)


def _numbered(
    learned: Sequence[Sequence[str]], measured: Sequence[Sequence[str]], words: Sequence[str]
) -> Lines:
    numbers = {word: number for number, word in enumerate(words)}
    lines = Lines(
        learned=_part(learned, numbers),
        measured=_part(measured, numbers),
        longest=max(map(len, [*learned, *measured])),
        end=len(words),
        readings=tuple(DOES),
    )
    some = torch.arange(min(len(measured), LOOKED_AT))
    readings = lines.examples(lines.measured, some).readings
    often = [name for name, read in readings.items() if _is_often(read)]
    return replace(lines, readings=tuple(often))


def _is_often(read: Rows) -> bool:
    """Whether there is something to read in enough lines, so that a mean can be said of it."""
    return bool((read != NOTHING).any(1).double().mean() >= 1 / SEEN)


def _part(lines: Sequence[Sequence[str]], numbers: Mapping[str, int]) -> Part:
    sizes = [len(line) for line in lines]
    return Part(
        ids=torch.tensor([numbers[label] for line in lines for label in line]),
        starts=torch.tensor([0, *accumulate(sizes)][:-1]),
        sizes=torch.tensor(sizes),
    )


def read_in(ids: Rows, there: Bool[Tensor, "line token"]) -> dict[str, Rows]:
    """Which token each token of any text could read: the one before, the same before, …"""
    places = torch.arange(ids.shape[1]).expand_as(ids)
    same = _same_before(ids)
    after = torch.where((same != NOTHING) & (same + 1 < places), same + 1, NOTHING)
    first = torch.where(places == 0, NOTHING, 0)
    found = {"previous": places - 1, "first": first, "same": same, "after same": after}
    return {name: torch.where(there, read, NOTHING) for name, read in found.items()}


def _same_before(ids: Rows) -> Rows:
    """The nearest place before each at which the same token stands."""
    order = ids.argsort(stable=True, dim=1)
    ordered = ids.gather(1, order)
    before = torch.where(ordered[:, 1:] == ordered[:, :-1], order[:, :-1], NOTHING)
    nothing = torch.full_like(order[:, :1], NOTHING)
    return torch.empty_like(ids).scatter_(1, order, torch.cat([nothing, before], 1))
