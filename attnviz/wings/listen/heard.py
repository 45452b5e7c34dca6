"""listen(): hears the attention in any PyTorch program, and returns it as Traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from attnviz.analysis.inspection.inspection import Inspection, inspect
from attnviz.errors import AttnvizError, opt, warn_with_note
from attnviz.machine.memory import parse_size
from attnviz.traces.result import Showable
from attnviz.traces.trace import Trace
from attnviz.wings.listen.listening import Bounds, Call, Listener, mark_of, refuse_below_1
from attnviz.wings.listen.report import check_lines, heard_lines, reasons_for_silence
from attnviz.wings.listen.traces import (
    difference_from_outputs,
    join_layers,
    list_labels,
    trace_attended,
)
from attnviz.wording.keywords import built_by, with_checked_arguments
from attnviz.wording.words import and_list, counted, or_list


@with_checked_arguments
def listen(
    model: nn.Module | None = None,
    *inputs: Any,
    tokens: Any = None,
    calls: int | None = None,
    every: int = 1,
    module: str = "*",
    keep: str = "2GB",
    item: int = 1,
    **keywords: Any,
) -> Heard:
    """Hear every attention that a model computes, whatever computes it, and return it as Traces.

    `with attnviz.listen(model) as heard: model(x)` hears inside the block; `listen(model, x)` calls
    the model. Without a model, all that the thread computes is heard. `tokens` are labels: a list,
    a list for each text of a batch, or a function of the model's inputs. `calls` of each module are
    kept at most, of `every` so many calls of the model the first, of each `module` whose name fits,
    and no more than `keep` of memory. `item` is the text of a batch that is shown, from 1.

    >>> import torch
    >>> from attnviz import listen
    >>> heard = listen(torch.nn.TransformerEncoderLayer(8, 2), torch.zeros(3, 1, 8))
    >>> heard[0].weights.shape
    torch.Size([1, 2, 3, 3])
    """
    refuse_below_1(calls=calls, every=every, item=item)
    size = parse_size(keep, mark_of("keep"))
    bounds = Bounds(calls=calls, every=every, module=module, bytes=size)
    if not isinstance(model, nn.Module | None):
        problem = f"the model is {model!r:.40}, and should be a torch.nn.Module"
        raise AttnvizError(problem, "give one, or none, to hear all that is computed")
    if not (tokens is None or callable(tokens) or isinstance(tokens, Iterable)):
        problem = f"tokens is {tokens!r:.40}, and should be labels"
        raise AttnvizError(problem, 'try tokens=["I", "am"], or a function of the inputs')
    heard = Heard(Listener(model, tokens, bounds), item)
    if inputs or keywords:
        if model is None:
            raise AttnvizError("there is no model to call", "give it first: listen(model, x)")
        with heard:
            model(*inputs, **keywords)
    return heard


@dataclass(frozen=True, eq=False, repr=False)
class TracesByName(Mapping[str, Trace]):
    """Traces by the names of the modules that attended, in order; each is made when it is read."""

    heard: Heard

    def __getitem__(self, name: str) -> Trace:
        return self.heard.trace_of(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.heard.calls)

    def __len__(self) -> int:
        return len(self.heard.calls)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {trace!r}" for name, trace in self.items())


@built_by("attnviz.listen(model, x)")
class Heard(Showable):
    """What a program attended to, while one listened.

    >>> import torch
    >>> from attnviz import listen
    >>> with listen() as heard:
    ...     x = torch.ones(1, 2, 4)
    ...     y = torch.nn.functional.scaled_dot_product_attention(x, x, x)
    >>> heard[0].weights.tolist()
    [[[[0.5, 0.5], [0.5, 0.5]]]]
    """

    def __init__(self, listener: Listener, item: int) -> None:
        self._listener, self.item = listener, item
        self._traces: dict[str, Trace] = {}

    def __enter__(self) -> Heard:
        self._listener.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.stop()

    @property
    def calls(self) -> dict[str, Call]:
        """The calls in their order; the name of a module's second call ends in `.2`."""
        short_name = self._listener.names.short
        calls = {
            short_name(call.module) + (f".{call.number}" if call.number > 1 else ""): call
            for call in self._listener.calls
        }
        # A batch may be smaller than others, as the last often is.
        with_item = {name: call for name, call in calls.items() if self.item <= call.items}
        return with_item or calls

    @property
    def traces(self) -> TracesByName:
        """The Trace of each call, by the name of its module, in order."""
        return TracesByName(self)

    def trace_of(self, name: str) -> Trace:
        """Return the Trace of a call; refuse a name that is not there, and an item."""
        calls = self.calls
        if name not in calls:
            raise AttnvizError(
                f"nothing was heard in {name!r}", f"the names are: {', '.join(calls)}"
            )
        if name not in self._traces:
            self.warn_of_misfit_labels()
            call = calls[name]
            if self.item > call.items:
                raise AttnvizError(
                    f"there is no item {self.item} in a batch of {call.items}",
                    f"give {opt.item:{call.items}}",
                    about="item",
                )
            self._traces[name] = trace_attended(name, call.attended, self.item, call.labels)
        return self._traces[name]

    def with_item(self, item: int) -> Heard:
        """Return the same of another text of the batch, from 1."""
        refuse_below_1(item=item)
        return Heard(self._listener, item)

    def difference(self, name: str) -> float | None:
        """Return how far the weights times the values are from what the program computed, relative
        to its largest number; None with dropout.
        """
        return difference_from_outputs(self.calls[name].attended, self.traces[name], self.item)

    def __len__(self) -> int:
        return len(self.calls)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Trace]:
        return iter(self.traces.values())

    def __getitem__(self, key: Any) -> Any:
        """Return a Trace by its place or its name, `heard[0]`, or several: `heard[:3]`."""
        self.refuse_silence()
        names = key if isinstance(key, str) else list(self.calls)[key]
        is_one = isinstance(names, str)
        return self.trace_of(names) if is_one else [self.trace_of(name) for name in names]

    @cached_property
    def texts(self) -> tuple[HeardText, ...]:
        """Calls with the same tokens and alike heads, as one Trace with a layer for each: most
        first.
        """
        self.refuse_silence()
        groups: dict[Any, list[str]] = {}
        for name, trace in self.traces.items():
            is_cross, is_causal = trace.keys is not trace.tokens, trace.variant.causal
            sides = trace.tokens.labels, trace.keys.labels, is_cross
            heads = trace.layers[0].heads, trace.layers[0].head_dim
            groups.setdefault((sides, is_causal, trace.weights_alone, heads), []).append(name)
        texts = [
            HeardText(self, tuple(names), join_layers({name: self.traces[name] for name in names}))
            for names in groups.values()
        ]
        return tuple(sorted(texts, key=lambda text: -len(text.names)))

    def refuse_silence(self) -> None:
        """Refuse to show anything if nothing was heard, with what was computed instead."""
        if not self.calls:
            problem, hint = reasons_for_silence(self._listener)
            raise AttnvizError(problem, hint)

    def warn_of_misfit_labels(self) -> None:
        """Say once that labels are as many as the tokens of no attention."""
        calls = self._listener.calls
        sizes = {size for call in calls for size in call.attended.shape[2:]}
        labels = (call.labels for call in calls if call.labels is not None)
        counts = {len(list_labels(each, self.item)) for each in labels}
        if counts and not counts & sizes and not self._traces:
            count, tokens = counted(min(counts), "label"), or_list([*map(str, sorted(sizes))])
            warn_with_note(
                f"{count} cannot stand for the {tokens} tokens that were heard: they are numbered"
            )

    def save(self, *paths: str | Path, title: str | None = None, **choices: Any) -> None:
        """Write files of all heads: `heard.save("view.html")`. Where several texts were heard, such
        as those of an encoder and a decoder, the second is written to `view.2.html`.
        """
        for number, text in enumerate(self.texts, 1):
            view = text.view()
            numbered = [numbered_path(Path(path), number) for path in paths]
            view.with_title(title).save(*numbered, **choices)

    def lines(self) -> list[str]:
        """Return what was heard as lines of a table, and what was not kept."""
        return heard_lines(self, self._listener)

    def __repr__(self) -> str:
        return "\n".join(self.lines())


@dataclass(frozen=True, eq=False)
class HeardText:
    """Calls that have the same tokens, and their Trace."""

    heard: Heard
    names: tuple[str, ...]
    trace: Trace

    @cached_property
    def inspection(self) -> Inspection:
        return inspect(self.trace)

    def view(self) -> Any:
        """Return the view of all heads, with the names of the modules that the layers are, and how
        far the weights are from those of the program.
        """
        view = self.inspection.view()
        layers = and_list([f"L{at} is {name}" for at, name in enumerate(self.names)])
        checks = (f"{line[0].upper()}{line[1:]}." for line in check_lines(self.heard, self.names))
        return replace(view, closing=(f"Layers: {layers}.", *checks, *view.closing))


def heard_view(heard: Heard) -> Any:
    """Return the View of the calls that have the same tokens, of which there are most."""
    return heard.texts[0].view()


def numbered_path(path: Path, number: int, rank: str = "") -> Path:
    """Return the path of a further text, `view.2.html`, or of a process: `view.rank1.html`."""
    marks = (f".rank{rank}" if rank else "") + (f".{number}" if number > 1 else "")
    return path.with_suffix(f"{marks}{path.suffix}")
