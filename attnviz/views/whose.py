"""Whose the numbers of a Trace are: given, learned, or written by hand; and what a model says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from attnviz.traces.models.card import CAN_BE_ASKED
from attnviz.traces.models.model import Model
from attnviz.traces.origin import FromWeights, table_behind
from attnviz.traces.trace import Trace
from attnviz.views.reading import alone
from attnviz.wording.numbers import percent, share_text
from attnviz.wording.words import counted, listed

READS, READ = "reads", "read"  # of one head, and of several


def are_given(trace: Trace, *, several: bool = True) -> str:
    """`They are given`, of what was not made here; or how a model came by it."""
    if trace.trained is None and trace.model is None:
        return "are given" if several else "is given"
    by_hand = trace.model is not None and trace.model.by_hand
    return f"{'were' if several else 'was'} {'written by hand' if by_hand else 'learned'}"


def to_learn(trace: Trace) -> str:
    """What there is to say of how many numbers there are."""
    if trace.trained is None and trace.model is None:
        return "to learn"
    by_hand = trace.model is not None and trace.model.by_hand
    return "written by hand" if by_hand else "that were learned"


def of_a_model(trace: Trace) -> str:
    """` of the model agreement`, of what is done to a sentence."""
    model = trace.trained or trace.model
    return "" if model is None else f" of the model {model.name}"


def whose(given: FromWeights) -> str:
    """Whose weights were handed over, where that is said."""
    return given.name or "given weights"


def of_a_table(trace: Trace) -> str:
    """Whose rows the vectors of tokens are, where they are those of a trained model."""
    table = table_behind(trace.origin)
    if table is None:
        return ""
    whose = Path(trace.origin.settings.embeddings or "").name
    about = f" They are trained: rows of {whose}'s table, as they stand before its first layer."
    about += " Of a token that it has in several pieces it is their mean."
    if table.kept is None:
        return about
    left, kept = trace.embeddings.shape[1], percent(table.kept, 1)
    return (
        f"{about} Of {table.width} numbers {left} are left: principal components of its words, "
        f"which keep {kept} of their variance."
    )


def what_heads_do(trace: Trace) -> tuple[str, ...]:
    """What each head was written to do, or did most where the model was examined."""
    model = trace.model
    if model is None or not model.heads:
        return ()
    if model.by_hand:
        told = "" if as_written(trace) else ", as it was written"
        return tuple(f"{_called(trace, head)}{told}: {does}" for head, does in model.heads.items())
    return tuple(_examined(model)) if as_written(trace) else ()


def as_written(trace: Trace) -> bool:
    """Whether a model's heads are what they were made to be: nothing changes what they see."""
    settings = trace.origin.settings
    return all(getattr(settings, name) is None for name in CAN_BE_ASKED)


def _called(trace: Trace, head: str) -> str:
    """`head 1` of the only layer, else `L0H1`."""
    return f"head {head.partition('H')[2]}" if alone(trace) else head


def _examined(model: Model) -> Iterator[str]:
    """`L1H1 reads the subject with .99 of its weight; L0H0 and L0H1 read the token before …`"""
    count, scores = model.facts.get("sentences"), model.facts.get("scores")
    if not isinstance(count, int) or count < 1 or not isinstance(scores, dict):
        return
    doing: dict[str, dict[str, float]] = {}
    for head, does in model.heads.items():
        if isinstance(scores.get(head), float) and 0 <= scores[head] <= 1:
            doing.setdefault(does, {})[head] = scores[head]
    told = [_done(does, heads) for does, heads in doing.items()]
    if told:
        yield f"in {counted(count, 'sentence')} that it did not learn from, {'; '.join(told)}"


def _done(does: str, heads: Mapping[str, float]) -> str:
    """What one head does, or several do, and with how much of their weight."""
    low, high = (share_text(each(heads.values())) for each in (min, max))
    if len(heads) == 1:
        return f"{next(iter(heads))} {does} with {low} of its weight"
    several = does.replace(READS, READ, 1) if does.startswith(READS) else f"each {does}"
    span = low if low == high else f"{low} to {high}"
    return f"{listed([*heads])} {several} with {span}"


def beyond_what_it_learned(trace: Trace) -> str:
    """That a model has never seen so few words, or so many, where that bears on what it does."""
    model = trace.model
    lengths = () if model is None else _lengths(model.facts.get("tokens"))
    if model is None or not lengths:
        return ""
    count, (shortest, longest) = len(trace.tokens), lengths
    begun = trace.variant.causal and model.vocabulary.predicts == "next"  # as every sentence is
    if count <= longest and (begun or count >= shortest):
        return ""
    span = f"{shortest}" if shortest == longest else f"{shortest} to {longest}"
    return (
        f"{model.name} learned from sentences of {span} tokens, and this one has {count}: "
        "what it reads here it never learned"
    )


def _lengths(told: object) -> tuple[int, ...]:
    """From the shortest to the longest; nothing where a file says something else."""
    numbers = told if isinstance(told, list) and len(told) == 2 else ()
    return tuple(each for each in numbers if isinstance(each, int))
