"""pairs(): which heads of a transformer follow the meaning when one word changes.

In both sentences of a pair a token is followed to two candidates, of which the first is meant in
the first sentence, and the second in the other. A head's shift is how much more weight the token
gives a candidate where it is meant than where the other one is, averaged over both candidates:

    ½ · [w₁(candidate 1) − w₂(candidate 1)] + ½ · [w₂(candidate 2) − w₁(candidate 2)]

Each candidate is compared with itself: what a head gives it whatever the sentence means cancels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from attnviz.errors import AttnvizError
from attnviz.tokens.grouping import WORD_REGEX, words_of_text
from attnviz.tokens.tokens import Tokens
from attnviz.traces.result import NamedHead, RanksHeads, Rows, Showable
from attnviz.traces.settings import HeadId, Settings, TextsKeywords
from attnviz.traces.trace import Provenance
from attnviz.traces.trained import batches
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.pieces import cut_texts
from attnviz.traces.trained.tracing import transformer_provenance
from attnviz.wings.corpora.head_tests import LEVEL, MIN_TEST_OBSERVATIONS, sign_flip_test
from attnviz.wings.corpora.mean_estimates import mean_intervals
from attnviz.wings.corpora.pair_file import MinimalPair, read_pairs
from attnviz.wording.keywords import built_by, with_checked_arguments
from attnviz.wording.words import and_list, counted

if TYPE_CHECKING:
    from typing_extensions import Unpack

MAX_NAMED_LINES = 4  # that an error names; more are counted
MIN_SHIFT = 0.01  # of a token's attention: heads that move less do not count
CandidateWeights = Float[np.ndarray, "pair sentence candidate head"]
Group = tuple[int, ...]  # positions of the tokens of a word or phrase


@dataclass(frozen=True, repr=False, kw_only=True)
class PairedHead(NamedHead):
    """What one head does in all pairs. Weights are shares of the token's attention."""

    shift: float  # the mean over pairs; below 0: away from the candidate that is meant
    low: float  # the ends of its 95 % interval; NaN for few pairs
    high: float
    p_value: float  # corrected for the number of heads; NaN for a head that is not tested
    p_alone: float  # as if it were the only head, which nobody picked out
    meant: float  # mean weight on a candidate where it is meant,
    other: float  # and where the other candidate is
    shifts: tuple[float, ...]  # of each pair

    def __repr__(self) -> str:
        """Return a line like `<L3H1: shift .041, toward the meaning in 9 of 12 pairs>`."""
        count = counted(len(self.shifts), "pair")
        return (
            f"<{self.name}: shift {self.shift:.3f}, toward the meaning in {self.toward} of {count}>"
        )

    @property
    def is_tested(self) -> bool:
        """Whether it moves at least `MIN_SHIFT`, as the root mean square over pairs."""
        return not np.isnan(self.p_value)

    @property
    def passes(self) -> bool:
        """Whether it moves toward or away from the candidate that is meant, by the stated rule."""
        return self.p_value <= LEVEL and abs(self.shift) >= MIN_SHIFT

    @property
    def follows(self) -> bool:
        return self.passes and self.shift > 0

    @property
    def pairs(self) -> int:
        return len(self.shifts)

    @property
    def toward(self) -> int:
        """In how many pairs it moves toward the candidate that is meant."""
        return sum(shift > 0 for shift in self.shifts)


@built_by('attnviz.pairs("pairs.tsv")')
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MinimalPairs(RanksHeads, Showable):
    """How all heads of a model move in minimal pairs: those that pass the test first, then by the
    size of the shift.

    >>> from attnviz import pairs
    >>> row = "The dog saw it", "The dog hid it", "it", "dog", "The"
    >>> result = pairs([row])
    >>> len(result.heads), result.following, result.has_enough
    (72, (), False)
    """

    heads: tuple[PairedHead, ...]
    least_effect: float
    """How far from 0 a shift must be to pass the test, in standard deviations of a head's shifts;
    infinite if none can, NaN if no head is tested."""
    pairs: tuple[MinimalPair, ...]
    model: str
    provenance: Provenance

    @property
    def ranking(self) -> Rows[PairedHead]:
        """The heads: those that pass the test first, then by the size of the shift."""
        return Rows(self.heads)

    @property
    def tested(self) -> tuple[PairedHead, ...]:
        """The heads that are tested: they move at least `MIN_SHIFT`."""
        return tuple(head for head in self.heads if head.is_tested)

    @property
    def following(self) -> tuple[PairedHead, ...]:
        """The heads that follow the meaning, the one that moves most first."""
        return tuple(head for head in self.heads if head.follows)

    @property
    def opposing(self) -> tuple[PairedHead, ...]:
        """The heads that pass the test and move away from the candidate that is meant."""
        return tuple(head for head in self.heads if head.passes and not head.follows)

    @property
    def has_enough(self) -> bool:
        """Whether there are so many pairs that a head can pass the test."""
        return len(self.pairs) >= MIN_TEST_OBSERVATIONS


@with_checked_arguments
def pairs(
    source: str | Path | Iterable[Sequence[str]],
    settings: Settings | None = None,
    *,
    command: str | None = None,
    **changes: Unpack[TextsKeywords],
) -> MinimalPairs:
    """Return which heads follow the meaning in minimal pairs: `pairs("pairs.tsv", model="minilm")`

    `source` is a file with a pair on each line, or rows of five strings: sentence A, sentence B, a
    token that is in both, candidate 1 (which it means in A) and candidate 2 (in B). A candidate may
    be several words; `it#2` is the second `it`. Keywords replace fields of the settings, such as
    `model` (which may be a loaded one, with its `tokenizer`); `seed` draws the flips of signs of
    more than 14 pairs. Refuses a model that is no transformer, pairs whose sentences do not have
    the same number of tokens or have the words in other places, and pairs in which the token can
    see neither a candidate nor what changes.

    >>> from attnviz import pairs
    >>> sentence = "The animal did not cross the street because it was too"
    >>> rows = [(f"{sentence} tired", f"{sentence} wide", "it", "animal", "street")]
    >>> round(pairs(rows)["L5H3"].shift, 2)
    0.02
    """
    minimal_pairs = read_pairs(source)
    model, settings = batches.model_for_texts(settings, changes, "a test of pairs is")
    reading = _PairReading(model, [_locate_words(model, pair) for pair in minimal_pairs])
    heads, least_effect = measure_heads(reading.head_ids, reading.weights(), settings.seed)
    return MinimalPairs(
        heads=heads,
        least_effect=least_effect,
        pairs=minimal_pairs,
        model=model.name,
        provenance=transformer_provenance(settings, model, {"seed": settings.seed}, command),
    )


@dataclass(frozen=True, eq=False)
class LocatedPair:
    """A pair in tokens: the words have the same positions in both sentences."""

    pair: MinimalPair
    tokens: tuple[Tokens, Tokens]
    token: Group
    candidates: tuple[Group, Group]

    def error(self, problem: str, hint: str) -> AttnvizError:
        return AttnvizError(f"{self.pair.place}: {problem}", hint, about="pairs")


def _locate_words(model: LoadedTransformer, pair: MinimalPair) -> LocatedPair:
    """Return a pair in tokens; refuse one whose two sentences cannot be compared."""
    try:
        first, second = (tokens for tokens, _ in cut_texts(model, pair.sentences))
    except AttnvizError as error:
        hint = "give shorter sentences" if error.about == "truncate" else error.hint
        raise AttnvizError(f"{pair.place}: {error}", hint, about="pairs") from None
    groups = [
        [_find_phrase(tokens, name, pair, side) for name in pair.words]
        for side, tokens in (("A", first), ("B", second))
    ]
    located = LocatedPair(pair, (first, second), groups[0][0], (groups[0][1], groups[0][2]))
    if first.ids == second.ids:
        problem = f"the sentences are the same tokens of the model '{model.name}'"
        raise located.error(problem, "change a word, so that the token means the other candidate")
    if len(first) != len(second):
        raise located.error(*_length_problem(first, second))
    for word, place, other_place in zip(pair.words, *groups, strict=True):
        if place != other_place:
            first_number, second_number = place[0] + 1, other_place[0] + 1
            problem = f"'{word}' is token {first_number} of sentence A, and {second_number} of B"
            hint = "keep its place: a change of place would look like one of meaning"
            raise located.error(problem, hint)
    if len({*groups[0][0], *groups[0][1], *groups[0][2]}) < sum(map(len, groups[0])):
        names = and_list([f"'{word}'" for word in pair.words])
        problem = f"two of {names} are the same word"
        raise located.error(problem, "give a token and two candidates that differ from it")
    return located


def _find_phrase(tokens: Tokens, name: str, pair: MinimalPair, side: str) -> Group:
    """Return the positions of one word or phrase; `side`: "A" or "B", for errors.

    Refuses one that is not in the sentence, and one that is there several times without a number,
    as in it#2.
    """
    words = words_of_text(tokens)
    places = _phrase_places(words.labels, name)
    phrase, mark, number = name.rpartition("#")
    if not places and mark and number.isascii() and number.isdigit():
        places = _phrase_places(words.labels, phrase)[int(number[:9]) - 1 :][: int(number) > 0]
    if not places:
        nearest = get_close_matches(name, words.labels, n=1)
        question = f"did you mean '{nearest[0]}'? " if nearest else ""
        groups = zip(words.labels, words.groups, strict=True)
        listed = ", ".join(label for label, group in groups if not tokens.special.issuperset(group))
        raise AttnvizError(
            f"{pair.place}: sentence {side} has no '{name}'",
            f"{question}its words are: {listed}",
            about="pairs",
        )
    if len(places) > 1:
        raise AttnvizError(
            f"{pair.place}: '{name}' is there {len(places)} times in sentence {side}",
            f"say which one is meant: {name}#1 is the first, {name}#2 the second",
            about="pairs",
        )
    return tuple(position for index in places[0] for position in words.groups[index])


def _phrase_places(labels: Sequence[str], name: str) -> list[range]:
    """Return the ranges of words that are these, one after another."""
    parts = tuple(part for part in WORD_REGEX.findall(name) if not part.isspace())
    starts = range(len(labels) - len(parts) + 1) if parts else ()
    ranges = [range(start, start + len(parts)) for start in starts]
    return [span for span in ranges if tuple(labels[span.start : span.stop]) == parts]


def _length_problem(first: Tokens, second: Tokens) -> tuple[str, str]:
    """Return problem and hint for two sentences with different numbers of tokens, with the tokens
    in which they differ."""
    shorter = min(len(first), len(second))
    same = [one == other for one, other in zip(first.ids, second.ids, strict=False)]
    start = same.index(False) if False in same else shorter
    ends = zip(first.ids[start:][::-1], second.ids[start:][::-1], strict=False)
    end = next((n for n, (one, other) in enumerate(ends) if one != other), shorter - start)
    parts = [" ".join(tokens.labels[start : len(tokens) - end]) for tokens in (first, second)]
    differing = " and ".join(f"'{part}'" if part else "nothing" for part in parts)
    return (
        f"the sentences do not split into the same number of tokens: {len(first)} and "
        f"{len(second)}",
        f"choose words of as many tokens where they differ: {differing}",
    )


class _PairReading:
    """What all heads of a model do in pairs: the weights from the token to each candidate."""

    def __init__(self, model: LoadedTransformer, located: Sequence[LocatedPair]) -> None:
        self.located = located
        self.head_ids: list[HeadId] = []
        lines = [
            (2 * number + side, tokens, False)
            for number, each in enumerate(located)
            for side, tokens in enumerate(each.tokens)
        ]
        # For each text, by its number: whether the token ever sees each candidate, or a later one
        self.sees = np.zeros((len(lines), 3), bool)
        self.rows: list[list[np.ndarray]] = [[] for _ in lines]  # of each layer: candidate head
        captured = batches.captures_exactly(model, located[0].tokens[0].ids)
        for batch in batches.group_lines(model, lines):
            self.head_ids = []
            add = partial(self._add, batch)
            batches.visit_layers(model, batch.ids, add, captured=captured)
        self._refuse_unseen()

    def _add(self, batch: batches.TextBatch, layer: batches.LayerWeights) -> None:
        """Add the weights of one layer of a batch, and what the token sees there."""
        for place, number in enumerate(batch.numbers):
            each, length = self.located[number // 2], len(batch.tokens[place])
            query, candidates = list(each.token), each.candidates
            weights = layer.weights[place][:, query, :].double().mean(1)
            sums = [weights[:, list(group)].sum(-1) for group in candidates]
            self.rows[number].append(np.stack([each_sum.cpu().numpy() for each_sum in sums]))
            visible = layer.visible[place][:, query, :length].any(0).any(0).cpu().numpy()
            later = visible[max(query) + 1 :].any()
            self.sees[number] |= [*(visible[list(group)].any() for group in candidates), later]
        self.head_ids += layer.head_ids

    def _refuse_unseen(self) -> None:
        """Refuse a pair whose token can never see a candidate, and all whose token can see nothing
        that changes."""
        blind = []
        for number, each in enumerate(self.located):
            sees = self.sees[2 * number] | self.sees[2 * number + 1]
            token, *candidates = each.pair.words
            for candidate, is_seen in zip(candidates, sees, strict=False):
                if not is_seen:
                    raise each.error(
                        f"the model hides '{candidate}' from '{token}' in every head",
                        "give candidates that the token can attend to: in a model that reads from "
                        "left to right, earlier ones",
                    )
            end = max(each.token) + 1
            if not sees[2] and each.tokens[0].ids[:end] == each.tokens[1].ids[:end]:
                blind.append(each)
        if blind:
            first, *more = blind
            names = [each.pair.place.partition(" of ")[0] for each in more]
            if len(names) > MAX_NAMED_LINES:
                unnamed_count = len(names) - MAX_NAMED_LINES + 1
                names[MAX_NAMED_LINES - 1 :] = [f"{unnamed_count} more"]
            also = f"; the same holds for {and_list(names)}" if more else ""
            raise first.error(
                f"the sentences differ only after '{first.pair.token}', and the model reads from "
                "left to right",
                f"give a token that stands after the word that changes{also}",
            )

    def weights(self) -> CandidateWeights:
        """Return the weights from the token to each candidate in both sentences of each pair."""
        texts = np.stack([np.concatenate(rows, axis=1) for rows in self.rows])
        return texts.reshape(-1, 2, *texts.shape[1:])


def measure_heads(
    head_ids: Sequence[HeadId], weights: CandidateWeights, seed: int
) -> tuple[tuple[PairedHead, ...], float]:
    """Return all heads with their shifts, intervals and p values, in the order of a result, and the
    least effect that their test can show."""
    meant = (weights[:, 0, 0] + weights[:, 1, 1]) / 2  # pair head
    other = (weights[:, 1, 0] + weights[:, 0, 1]) / 2
    shifts = meant - other
    is_tested = np.sqrt((shifts**2).mean(0)) >= MIN_SHIFT
    test = sign_flip_test(shifts, is_tested, seed)
    p_alone = sign_flip_test(shifts, is_tested, seed, corrected=False).p_values
    lows, highs = mean_intervals(shifts)
    heads = [
        PairedHead(
            head_id=head_id,
            shift=float(shifts[:, head].mean()),
            low=float(lows[head]),
            high=float(highs[head]),
            p_value=float(test.p_values[head]),
            p_alone=float(p_alone[head]),
            meant=float(meant[:, head].mean()),
            other=float(other[:, head].mean()),
            shifts=tuple(shifts[:, head].tolist()),
        )
        for head, head_id in enumerate(head_ids)
    ]
    ranked = sorted(heads, key=lambda head: (not head.passes, not head.follows, -abs(head.shift)))
    return tuple(ranked), test.least_effect
