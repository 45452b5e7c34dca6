"""compare_checkpoints(): what heads do with one sentence, by step of a training.

One model is in memory at a time: of each checkpoint the weights of attention are kept, and what was
measured. Heads are ranked as those of two models are, by the divergence of their rows between the
first checkpoint and the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.maps import build_maps
from attnviz.analysis.inspection.patterns import (
    COLUMN_PATTERN,
    MIN_PATTERN_EXCESS,
    PATTERN_KINDS,
    HeadPatterns,
    PatternKind,
    find_patterns,
)
from attnviz.analysis.inspection.two_sentences import (
    HeadComparison,
    TraceComparison,
    checking_query,
    compare_traces,
)
from attnviz.errors import model_error, naming_in_errors, opt
from attnviz.machine import memory
from attnviz.traces.from_text import trace
from attnviz.traces.result import RanksHeads, Rows, Showable
from attnviz.traces.settings import SettingKeywords, Settings
from attnviz.traces.trace import Trace, weights_only_layer
from attnviz.traces.trained.checkpoint_folders import Checkpoint, find_checkpoints
from attnviz.traces.trained.loading import forget_loaded_models, load_transformer
from attnviz.wings.corpora.survey import induction_on_repeats
from attnviz.wings.films.film import Film, refuse_misfit
from attnviz.wording.keywords import replace_choices, with_checked_arguments
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from typing_extensions import Unpack

CheckpointTracker = Callable[[Sequence[Checkpoint]], Iterable[Checkpoint]]
MISFIT_HINT = "give the checkpoints of one training"
SMALLER_HINT = f"give a shorter text, {opt.layer}, or fewer checkpoints"
REPEATS_KIND = PatternKind(
    "induction on random repeats",
    "induction",
    "what followed the same token before, where random tokens are repeated",
    "the induction score on random tokens of the model's vocabulary, each of them there twice",
    "only transformers that read a text with one attention are given random tokens",
)


@dataclass(frozen=True, eq=False)
class KindCourse:
    """What the heads of one kind, such as those for the previous token, do at each checkpoint."""

    kind: PatternKind
    scores: Float[np.ndarray, "checkpoint head"]  # NaN where a text cannot show it
    belongs: Float[np.ndarray, "checkpoint head"]  # 1 where a head is clearly of this kind

    @property
    def counts(self) -> Int[np.ndarray, "checkpoint"]:
        """How many heads are clearly of this kind at each checkpoint."""
        return np.asarray(self.belongs.sum(1).astype(int))

    @cached_property
    def strongest(self) -> Int[np.ndarray, "checkpoint"]:
        """The index of the head with the highest score, among heads of this kind if there are."""
        known = np.nan_to_num(self.scores, nan=-1.0)
        among = np.where(self.belongs.any(1, keepdims=True) & (self.belongs == 0), -1.0, known)
        return np.asarray(among.argmax(1))

    @property
    def highest(self) -> Float[np.ndarray, "checkpoint"]:
        """The score of the strongest head at each checkpoint."""
        return np.take_along_axis(self.scores, self.strongest[:, None], 1)[:, 0]

    @property
    def first(self) -> int | None:
        """The index of the first checkpoint with a head of this kind; None without any."""
        return int(self.counts.astype(bool).argmax()) if self.counts.any() else None

    @property
    def rise(self) -> float:
        """How much higher the strongest head's score is where the kind appears than one checkpoint
        before; 0 if it is there from the beginning, or never."""
        if not self.first:
            return 0.0
        before, after = self.scores[self.first - 1 : self.first + 1, self.strongest[self.first]]
        return float(after - np.nan_to_num(before))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CheckpointComparison(RanksHeads, Showable):
    """One sentence in the checkpoints of a training, in the order of their steps.

    `film` has a Trace of each, with its weights alone; `whole` compares the first with the last,
    and `intervals` each with the next one.
    """

    checkpoints: tuple[Checkpoint, ...]
    film: Film
    patterns: tuple[HeadPatterns, ...]  # of the chosen heads, for each checkpoint
    repeats: Float[np.ndarray, "checkpoint head 2"]  # score on random repeats, and evenly; or NaN
    whole: TraceComparison
    intervals: tuple[TraceComparison, ...]

    def __repr__(self) -> str:
        """Return a line like `<CheckpointComparison of step 0 … step 300: 8 heads, first L1H3>`."""
        names = f"{self.film.names[0]} … {self.film.names[-1]}"
        heads = counted(len(self.ranking), "head")
        return f"<CheckpointComparison of {names}: {heads}, first {self.ranking[0].name}>"

    @property
    def ranking(self) -> Rows[HeadComparison]:
        """The heads, starting with the one that differs most between the first checkpoint and the
        last."""
        return self.whole.ranking

    @property
    def steps(self) -> tuple[int, ...]:
        """The step of each checkpoint."""
        return tuple(checkpoint.step for checkpoint in self.checkpoints)

    @property
    def head_names(self) -> tuple[str, ...]:
        """The names of the chosen heads, in the order of the model."""
        return self.patterns[0].names

    @property
    def changes(self) -> bool:
        """Whether any head attends differently in any two checkpoints."""
        return any(interval.changes for interval in self.intervals)

    @cached_property
    def interval_divergences(self) -> Float[np.ndarray, "interval head"]:
        """How far each head is from the checkpoint before, in bits: the mean over its rows."""
        tables = [{head.name: head.divergence for head in each.heads} for each in self.intervals]
        return np.array([[table[name] for name in self.head_names] for table in tables])

    @cached_property
    def courses(self) -> tuple[KindCourse, ...]:
        """The course of each kind of head; the last one is that of induction on random repeats."""
        scores = np.stack([patterns.scores for patterns in self.patterns])
        courses = []
        for number, kind in enumerate(PATTERN_KINDS):
            belongs = [[each is kind for each in patterns.kinds] for patterns in self.patterns]
            values = scores[..., number]
            if kind is COLUMN_PATTERN:  # a head without a column gives 0 to one
                values = np.nan_to_num(values)
            courses.append(KindCourse(kind, values, np.array(belongs, dtype=float)))
        score, even = self.repeats[..., 0], self.repeats[..., 1]
        with np.errstate(invalid="ignore"):
            is_clear = (score - even) / (1 - even) >= MIN_PATTERN_EXCESS
        return (*courses, KindCourse(REPEATS_KIND, score, is_clear.astype(float)))


@with_checked_arguments
def compare_checkpoints(
    text: str,
    checkpoints: str | Sequence[str | Path],
    settings: Settings | None = None,
    *,
    layer: int | str | None = None,
    head: int | str | None = None,
    query: int | str | None = None,
    track: CheckpointTracker = iter,
    command: str | None = None,
    **changes: Unpack[SettingKeywords],
) -> CheckpointComparison:
    """Compare the checkpoints of a training on one sentence: `compare_checkpoints(text, "run/*")`

    `checkpoints` is a pattern of folders, or several folders; they are put in the order of their
    steps. `layer` and `head` choose heads, and `query` ranks heads by that token's rows alone;
    Keywords replace fields of the settings. `track` is called with the checkpoints, to report
    progress. One model at a time is in memory. Refuses fewer than two folders, those without a
    model or a step, and models that have other heads, or cut the sentence into other tokens, than
    the first.

    >>> from attnviz import compare_checkpoints
    >>> compare_checkpoints("it was tired", "run/checkpoint-*")  # doctest: +SKIP
    <CheckpointComparison of step 0 … step 300: 8 heads, first L1H3>
    """
    if "model" in changes:
        raise model_error("model is given beside checkpoints, which are the models", "leave it out")
    looking = replace_choices(InspectOptions(), {"layer": layer, "head": head, "query": query})
    base = replace_choices(settings or Settings(), changes)
    names_or_patterns = [checkpoints] if isinstance(checkpoints, str) else [*checkpoints]
    folders = find_checkpoints([str(each) for each in names_or_patterns])
    traces: list[Trace] = []
    patterns: list[HeadPatterns] = []
    repeats = []
    for checkpoint in track(folders):
        forget_loaded_models()
        with naming_in_errors(checkpoint.folder):
            run_settings = replace_choices(base, {"model": checkpoint.folder})
            traces.append(_trace_weights(text, run_settings, looking, len(folders), command))
            if len(traces) > 1:
                refuse_misfit(folders[0].name, traces[0], checkpoint.name, traces[-1], MISFIT_HINT)
            patterns.append(find_patterns(build_maps(traces[-1], looking)))
            repeats.append(_repeats_scores(traces[-1], patterns[-1].names))
    forget_loaded_models()
    names = tuple(checkpoint.name for checkpoint in folders)
    intervals = [
        compare_traces(*pair, (before, after), looking)
        for pair, (before, after) in zip(pairwise(traces), pairwise(names), strict=True)
    ]
    ends = traces[0], traces[-1], (names[0], names[-1]), looking
    return CheckpointComparison(
        checkpoints=folders,
        film=Film(traces=tuple(traces), names=names),
        patterns=tuple(patterns),
        repeats=np.stack(repeats),
        whole=intervals[0] if len(intervals) == 1 else compare_traces(*ends),
        intervals=tuple(intervals),
    )


def _trace_weights(
    text: str, settings: Settings, looking: InspectOptions, count: int, command: str | None
) -> Trace:
    """Return the Trace of a checkpoint with nothing but its weights, so that its model is freed.

    Refuses weights of which `count` checkpoints would not fit in memory.
    """
    layer_numbers = looking.layers
    with checking_query(looking.query):
        whole = trace(text, settings, command=command, kept=layer_numbers)
    rows, columns = len(whole.tokens), len(whole.keys)
    size = sum(layer.heads for layer in whole.layers) * rows * columns * 4
    memory.refuse_too_little_memory(
        size * count, f"the attention weights of {count} checkpoints", SMALLER_HINT
    )
    layers = tuple(
        replace(
            weights_only_layer(
                layer.layer,
                layer.weights.whole().float().cpu(),
                visible=layer.visible.cpu(),
                inputs=layer.inputs[:, :0].clone(),
                key_inputs=None if layer.key_inputs is None else layer.key_inputs[:, :0].clone(),
            ),
            scale=layer.scale,
            head_dim=layer.head_dim,
        )
        for layer in whole.layers
        if layer_numbers is None or layer.layer in layer_numbers
    )
    embeddings = whole.embeddings[:, :0].clone()
    return replace(whole, layers=layers, embeddings=embeddings, prediction=None, outputs=None)


def _repeats_scores(traced: Trace, names: Sequence[str]) -> Float[np.ndarray, "head 2"]:
    """Return the induction score of these heads on random repeats, and that of even attention; NaN
    for a model of attnviz, and for an encoder and decoder, which read no such text alone."""
    unknown = np.full((len(names), 2), np.nan)
    settings: Any = traced.origin.settings
    if traced.trained is None or traced.trained.which != "self" or settings.attention is not None:
        return unknown
    model, captured = load_transformer(settings), not traced.trained.fallback
    scores = induction_on_repeats(model, settings.seed, captured=captured)
    return np.array([scores.get(name, (np.nan, np.nan)) for name in names])
