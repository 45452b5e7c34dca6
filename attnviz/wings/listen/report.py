"""What was heard, in lines; and if nothing was, what was computed instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from attnviz.analysis.inspection.patterns import HeadPattern
from attnviz.errors import shorten_text
from attnviz.machine.memory import format_size
from attnviz.wings.listen.attended import Attended
from attnviz.wings.listen.hearing import HEARD, NOT_MULTIPLIED, OF_A_PARAMETER
from attnviz.wings.listen.listening import Listener, mark_of
from attnviz.wording.numbers import share_text
from attnviz.wording.surfaces import in_words
from attnviz.wording.words import and_list, counted, shape_text

if TYPE_CHECKING:
    from attnviz.wings.listen.heard import Heard

MAX_REASONS = 5
MAX_ROWS = 60
MIN_NAME_COLUMNS = 12
COLUMNS = ("module", "tokens", "heads", "kind", "strongest pattern")
OTHER_THREAD = "modules ran in another thread"
PROGRAMS = "the program's outputs"
NO_PATTERN = "none stands out"


def kind_text(attended: Attended) -> str:
    """Return what is special in an attention: cross, causal, a mask, a cache, dropout."""
    kinds = {
        "cross": not attended.is_of_one_text,
        "causal": attended.first_position is not None,
        "masked": attended.mask is not None,
        "bias": attended.bias is not None,
        f"{attended.steps} steps": attended.steps > 1,
        "dropout": attended.dropout,
        "weights only": attended.queries is None,
    }
    return ", ".join(kind for kind, holds in kinds.items() if holds) or "all visible"


def heard_lines(heard: Heard, listener: Listener) -> list[str]:
    """Return a line for each call, below a headline and above what was not kept."""
    calls = heard.calls
    if not calls:
        return [". ".join(reasons_for_silence(listener))]
    modules = len({call.module for call in calls.values()})
    first = {call.attended.item_noun: call.items for call in reversed(calls.values())}
    shown = "".join(f"; {noun} {heard.item} of {n}" for noun, n in first.items() if n > 1)
    return [
        f"heard {counted(len(calls), 'attention')} in {counted(modules, 'module')}{shown}",
        "",
        *table_lines([COLUMNS, *list(_rows(heard))[:MAX_ROWS]]),
        *[f"… and {len(calls) - MAX_ROWS} more"] * (len(calls) > MAX_ROWS),
        "",
        *check_lines(heard, [*calls]),
        *missing_lines(listener),
    ]


def _rows(heard: Heard) -> Iterator[tuple[str, ...]]:
    patterns = strongest_patterns(heard)
    for name, call in heard.calls.items():
        _, heads, queries, keys = call.attended.shape
        size = f"{queries:,}" if queries == keys else shape_text((queries, keys))
        yield name, size, str(heads), kind_text(call.attended), patterns.get(name, NO_PATTERN)


def strongest_patterns(heard: Heard) -> dict[str, str]:
    """Return the pattern of each call that one of its heads shows most, with its base rate: that of
    a head that attends to all tokens equally.
    """
    patterns: dict[str, str] = {}
    for text in heard.texts:
        for row in text.inspection.ranking:
            layer, _, head = row.name.removeprefix("L").partition("H")
            if isinstance(row, HeadPattern) and row.kind and row.kind != "broad":
                shares = f"{share_text(row.score)} (even {share_text(row.even)})"
                patterns.setdefault(text.names[int(layer)], f"H{head} {row.kind} {shares}")
    return patterns


def table_lines(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as lines that fit the terminal, unless names would no longer differ."""
    names, *others = zip(*rows, strict=True)
    widths = [max(map(len, column)) for column in others]
    room = get_terminal_size((80, 1)).columns - sum(widths) - 2 * len(widths)
    short = [shorten_text(name[::-1], max(room, MIN_NAME_COLUMNS))[::-1] for name in names]
    shown = short if len({*short}) == len(names) else names  # of a long name the end tells more
    widths = [max(map(len, shown)), *widths]
    lines = zip(shown, *others, strict=True)
    padded = (
        [each.ljust(width) for each, width in zip(line, widths, strict=True)] for line in lines
    )
    return ["  ".join(cells).rstrip() for cells in padded]


def check_lines(heard: Heard, names: Sequence[str]) -> list[str]:
    """Return how far the weights of some calls are from those of the program, by what it computed
    with them.
    """
    differences = [heard.difference(name) for name in names[:MAX_ROWS]]
    largest = max((each for each in differences if each is not None), default=None)
    lines = []
    if largest is not None:
        size = f"differ from {PROGRAMS} by {largest:.1e} of the largest"
        lines.append(f"weights · values {size if largest else f'are exactly {PROGRAMS}'}")
    if any(heard.calls[name].attended.dropout for name in names):
        lines.append("with dropout, the weights are those before it, and outputs are not compared")
    return lines


def missing_lines(listener: Listener) -> list[str]:
    """Return what the list lacks: softmaxes that were multiplied and are no attention, calls that
    were not kept, and what another thread computed.
    """
    softmaxes = softmax_reasons(listener, without=(HEARD, NOT_MULTIPLIED, OF_A_PARAMETER))
    more = f" (and {len(softmaxes) - 1} more)" if len(softmaxes) > 1 else ""
    lines = [f"not attention: {reason}{more}" for reason in softmaxes[:1]]
    if listener.dropped:
        calls = counted(sum(listener.dropped.values()), "call")
        more = " or more" if listener.has_ended else ""
        bounds = and_list([in_words(f"{mark_of(name)}") for name in ("calls", "every", "keep")])
        lines.append(f"not kept: {calls}{more} ({bounds} bound what is kept)")
    if listener.names.has_other_threads:
        lines.append(f"{OTHER_THREAD}, too, where nothing can be heard")
    return lines


def softmax_reasons(listener: Listener, without: Sequence[str] = (HEARD,)) -> list[str]:
    """Return why each softmax is no attention, but for those with a reason in `without`."""
    return [
        f"a softmax of {shape_text(shape)} in {listener.names.short(module)}: {fate}"
        for (module, shape), fate in listener.hearing.fates.items()
        if fate not in without
    ]


def reasons_for_silence(listener: Listener) -> tuple[str, str]:
    """Return that nothing was heard, and what was computed instead, as problem and hint."""
    short_name = listener.names.short
    if listener.unwanted:
        names = ", ".join(dict.fromkeys(map(short_name, listener.unwanted)))
        pattern = shorten_text(listener.bounds.module, 40)
        return f"no module that attends has a name like '{pattern}'", f"the names are: {names}"
    if listener.dropped:
        size = format_size(listener.smallest_dropped)
        return "no attention fits in the memory that may be taken", f"the smallest takes {size}"
    hearing = listener.hearing
    reasons = softmax_reasons(listener)
    shares = "with numbers whose rows sum to 1, of no known softmax"
    reasons += [f"a product in {short_name(module)} {shares}" for module in hearing.other_shares]
    reasons += [f"{place}, whose arguments attnviz cannot read" for place in hearing.unread]
    more = len(reasons) - MAX_REASONS
    listed = reasons[:MAX_REASONS] + [f"and {more} more"] * (more > 0)
    hints = ["there was " + "; ".join(listed)] if reasons else []
    if listener.names.has_other_threads:
        hints.append(f"{OTHER_THREAD}, where nothing can be heard")
    nothing = "no softmax was computed, nor anything whose rows sum to 1"
    return "nothing attended", "; ".join(hints) or nothing
