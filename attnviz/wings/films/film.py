"""film(): several Traces of one sentence, such as a training's, one after another."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnviz.analysis.inspection.two_sentences import HeadComparison, compare_two_traces
from attnviz.errors import AttnvizError, refuse_unknown_name
from attnviz.traces.result import RanksHeads, Rows, Showable
from attnviz.traces.trace import Trace
from attnviz.wording.keywords import LookKeywords, built_by, check_values, with_checked_arguments
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from typing_extensions import Unpack

FEWEST_TRACES = 2
HeadPlace = tuple[int, int]  # index of an attention of the Trace, and the head's number


@built_by('film([step_0, step_50], "run.gif")')
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Film(RanksHeads, Showable):
    """Traces of one sentence, with the same heads, and what each is called.

    >>> from attnviz import film, trace
    >>> film([trace("I am", seed=1), trace("I am", seed=2)], names=["a", "b"]).names
    ('a', 'b')
    """

    traces: tuple[Trace, ...]
    names: tuple[str, ...]
    layer: int | None = None  # which heads are shown; None: of all layers,
    head: int | None = None  # and of all numbers

    @property
    def ranking(self) -> Rows[HeadComparison]:
        """The heads, starting with the one that differs most between the first and the last
        Trace."""
        ends = (self.names[0], self.names[-1])
        return compare_two_traces(self.traces[0], self.traces[-1], names=ends).ranking

    @with_checked_arguments
    def __getitem__(self, key: Any) -> Any:
        """Return a Trace by its number from 0 or its name, or several of a slice; further indices
        are those of the Trace: `film[-1, 5, 11]`."""
        first, *rest = key if isinstance(key, tuple) else (key,)
        if isinstance(first, str):
            refuse_unknown_name("Trace", first, self.names)
            first = self.names.index(first)
        try:
            chosen = self.traces[first]
        except (IndexError, TypeError, ValueError):
            raise AttnvizError(
                f"there is no Trace {reprlib.repr(first)}: the last one is {len(self) - 1}",
                f"try [{len(self) - 1}]",
            ) from None
        if rest and isinstance(chosen, tuple):
            return tuple(each[tuple(rest)] for each in chosen)
        return chosen[tuple(rest)] if rest else chosen

    def __len__(self) -> int:
        """Return the number of Traces."""
        return len(self.traces)

    def __iter__(self) -> Iterator[Trace]:
        """Yield the Traces."""
        return iter(self.traces)

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of Traces, layers, heads, queries and keys."""
        return (len(self.traces), *self.traces[0].shape)

    def __repr__(self) -> str:
        """Return a line like `<Film of 3 Traces: step 0 … step 100>`."""
        return f"<Film of {len(self.traces)} Traces: {self.names[0]} … {self.names[-1]}>"


@with_checked_arguments
def film(
    traces: Iterable[Trace],
    *paths: str | Path,
    names: Sequence[str] | None = None,
    layer: int | None = None,
    head: int | None = None,
    title: str | None = None,
    **looks: Unpack[LookKeywords],
) -> Film:
    """Return Traces of one sentence as a film: `film([step_0, step_50], "run.gif", "run.html")`

    The paths are written at once, under `title` and with `looks` (`seconds=2`, `theme="dark"`),
    which are refused without a path; a .gif shows one Trace after another, and the slider of an
    .html page leads from one to the next. `layer` and `head` choose heads, also for later pictures
    of the film. `names` are captions: by default those of the weights or models, if they differ,
    else `1 of 2`. Refuses fewer than two Traces, and Traces of different tokens or with different
    heads.

    >>> from attnviz import film, trace
    >>> film([trace("I am", seed=seed) for seed in range(3)])
    <Film of 3 Traces: 1 of 3 … 3 of 3>
    """
    traces_in_order = tuple(traces)
    # An iterator can be checked only now.
    check_values({"traces": traces_in_order}, {"traces": "Sequence[Trace]"}, globals())
    if len(traces_in_order) < FEWEST_TRACES:
        raise AttnvizError(
            f"a film needs {FEWEST_TRACES} Traces or more, "
            f"and here is {len(traces_in_order) or 'none'}",
            'try film([step_0, step_50], "run.gif")',
        )
    result = Film(
        traces=traces_in_order, names=_trace_names(traces_in_order, names), layer=layer, head=head
    )
    for name, each in zip(result.names[1:], traces_in_order[1:], strict=True):
        refuse_misfit(result.names[0], traces_in_order[0], name, each)
    chosen_heads(result, layer, head)  # refuses layers and heads that are not there
    if paths:
        result.save(*paths, title=title, **looks)
    elif unused := [*looks, *(["title"] if title is not None else [])]:
        raise AttnvizError(
            f"'{unused[0]}' is about a file, and no path is given",
            'give one: film(traces, "run.gif"); or leave it to .save() of the film',
            about=unused[0],
        )
    return result


def chosen_heads(film: Film, layer: int | None, head: int | None) -> tuple[HeadPlace, ...]:
    """Return the heads of a layer, those with a number, or all; refuse a choice of none."""
    attention_layers = film.traces[0].attention_layers
    places = tuple(
        (index, number)
        for index, attention in enumerate(attention_layers)
        for number in range(attention.heads)
        if layer in (None, attention.layer) and head in (None, number)
    )
    if not places:
        numbers = [each.layer for each in attention_layers]
        most = max(each.heads for each in attention_layers) - 1
        chosen = {"layer": layer, "head": head}
        wanted = " ".join(f"{noun} {n}" for noun, n in chosen.items() if n is not None)
        raise AttnvizError(
            f"there is no {wanted} in these Traces",
            f"layers are {numbers[0]} to {numbers[-1]}, heads 0 to {most}",
        )
    return places


def _trace_names(traces: Sequence[Trace], names: Sequence[str] | None) -> tuple[str, ...]:
    """Return a name for each Trace, all different: the given ones, their own, or numbers."""
    if names is None:
        own = [_own_name(each) for each in traces]
        numbers = [f"{number} of {len(traces)}" for number in range(1, len(traces) + 1)]
        return tuple(own if all(own) and len({*own}) == len(own) else numbers)
    if len(names) != len(traces):
        raise AttnvizError(
            f"{counted(len(names), 'name')} cannot name {len(traces)} Traces",
            "give each Trace a name, or leave out 'names'",
            about="names",
        )
    chosen = tuple(map(str, names))
    name, count_of_name = Counter(chosen).most_common(1)[0]
    if count_of_name > 1:
        raise AttnvizError(
            f"{count_of_name} Traces have the name '{name}'", "give each another one", about="names"
        )
    return chosen


def _own_name(trace: Trace) -> str:
    """Return the name of weights that were computed elsewhere, or of a model; empty if neither."""
    if trace.external_origin is not None:
        return trace.external_origin.name
    return trace.trained.name if trace.trained else Path(trace.origin.settings.model or "").name


def refuse_misfit(
    first_name: str, first: Trace, name: str, trace: Trace, hint: str | None = None
) -> None:
    """Refuse a Trace with other tokens, or other heads, than the first one; with a hint of the
    caller's, if there is one."""
    for side, other in ((first.tokens, trace.tokens), (first.keys, trace.keys)):
        tokens_hint = hint or "give Traces of one sentence"
        if len(side) != len(other):
            raise AttnvizError(
                f"'{name}' has {counted(len(other), 'token')}, and '{first_name}' {len(side)}",
                tokens_hint,
            )
        for position, pair in enumerate(zip(side.labels, other.labels, strict=True), start=1):
            if pair[0] != pair[1]:
                raise AttnvizError(
                    f"token {position} is '{pair[1]}' in '{name}', and '{pair[0]}' in "
                    f"'{first_name}'",
                    tokens_hint,
                )
    shapes = [[each.heads for each in traced.attention_layers] for traced in (first, trace)]
    if shapes[0] != shapes[1]:
        raise AttnvizError(
            f"'{name}' has {_heads_text(shapes[1])}, and '{first_name}' {_heads_text(shapes[0])}",
            hint or "give Traces of one model, or of models with as many layers and heads",
        )


def _heads_text(heads: Sequence[int]) -> str:
    """Return `2 layers with 8 heads`: how many layers there are, and the heads of all of them."""
    return f"{counted(len(heads), 'layer')} with {counted(sum(heads), 'head')}"
