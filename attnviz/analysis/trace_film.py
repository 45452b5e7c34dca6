"""film(): several Traces of one sentence, such as a training's, shown one after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnviz.errors import AttnvizError
from attnviz.traces.result import Showable
from attnviz.traces.trace import Trace
from attnviz.wording.words import counted

FEWEST_TRACES = 2


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Film(Showable):
    """Traces of one sentence, with the same heads, and what each is called.

    >>> from attnviz import film, trace
    >>> film([trace("I am", seed=1), trace("I am", seed=2)], names=["a", "b"]).names
    ('a', 'b')
    """

    traces: tuple[Trace, ...]
    names: tuple[str, ...]

    def __repr__(self) -> str:
        """Return a line like `<Film of 3 Traces: step 0 … step 100>`."""
        return f"<Film of {len(self.traces)} Traces: {self.names[0]} … {self.names[-1]}>"


def film(
    traces: Iterable[Trace],
    *paths: str | Path,
    names: Sequence[str] | None = None,
    **choices: Any,
) -> Film:
    """Return Traces of one sentence as a film: `film([step_0, step_50], "run.gif", "run.html")`

    The paths are written at once, with `choices` of `save`; a .gif shows one Trace after another,
    and the slider of an .html page leads from one to the next. `names` are captions: by default
    those of the weights or models, if they differ, else `1 of 2`. Refuses fewer than two Traces,
    and Traces of different tokens or with different heads.

    >>> from attnviz import film, trace
    >>> film([trace("I am", seed=seed) for seed in range(3)])
    <Film of 3 Traces: 1 of 3 … 3 of 3>
    """
    shown = tuple(traces) if isinstance(traces, Iterable) else (traces,)
    for index, each in enumerate(shown):
        if not isinstance(each, Trace):
            raise AttnvizError(
                f"traces[{index}] is of type {type(each).__name__}, and should be a Trace",
                'try film([step_0, step_50], "run.gif"), of Traces by trace() or from_weights()',
            )
    if len(shown) < FEWEST_TRACES:
        raise AttnvizError(
            f"a film needs {FEWEST_TRACES} Traces or more, and here is {len(shown) or 'none'}",
            'try film([step_0, step_50], "run.gif")',
        )
    result = Film(traces=shown, names=_trace_names(shown, names))
    for name, each in zip(result.names[1:], shown[1:], strict=True):
        refuse_misfit(result.names[0], shown[0], name, each)
    if paths:
        result.save(*paths, **choices)
    return result


def _trace_names(traces: Sequence[Trace], names: Sequence[str] | None) -> tuple[str, ...]:
    """Return a name for each Trace, all different: the given ones, their own, or numbers."""
    if names is None:
        own = [_own_name(each) for each in traces]
        numbers = [f"{number} of {len(traces)}" for number in range(1, len(traces) + 1)]
        return tuple(own if all(own) and len({*own}) == len(own) else numbers)
    if isinstance(names, str) or len(names) != len(traces):
        count = counted(1 if isinstance(names, str) else len(names), "name")
        raise AttnvizError(
            f"names has {count}, and there are {len(traces)} Traces",
            "give each Trace a name, or leave out names",
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
    shapes = [[each.heads for each in traced.attentions] for traced in (first, trace)]
    if shapes[0] != shapes[1]:
        raise AttnvizError(
            f"'{name}' has {_heads_text(shapes[1])}, and '{first_name}' {_heads_text(shapes[0])}",
            hint or "give Traces of one model, or of models with as many layers and heads",
        )


def _heads_text(heads: Sequence[int]) -> str:
    """Return `2 layers with 8 heads`: how many layers there are, and the heads of all of them."""
    return f"{counted(len(heads), 'layer')} with {counted(sum(heads), 'head')}"
