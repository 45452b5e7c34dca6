"""Where the numbers of a Trace come from (given, learned, written by hand), and a model's heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from attnviz.traces.models.card import CAN_BE_ASKED
from attnviz.traces.models.model import Model
from attnviz.traces.origin import FromWeights, table_behind
from attnviz.traces.trace import Trace
from attnviz.views.reading import alone
from attnviz.wording.numbers import percent
from attnviz.wording.words import counted, listed

READS, READ = "reads", "read"  # of one head, and of several


def are_given(trace: Trace, *, several: bool = True) -> str:
    """`are given`; for a model, `were learned` or `were written by hand`."""
    if trace.trained is None and trace.model is None:
        return "are given" if several else "is given"
    by_hand = trace.model is not None and trace.model.by_hand
    return f"{'were' if several else 'was'} {'written by hand' if by_hand else 'learned'}"


def to_learn(trace: Trace) -> str:
    """How parameters are described after their number: `800 numbers to learn`."""
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
    """Which trained model's embeddings the tokens have, if they have any."""
    table = table_behind(trace.origin)
    if table is None:
        return ""
    whose = Path(trace.origin.settings.embeddings or "").name
    about = f" They are trained: rows of {whose}'s embedding table, before its first layer."
    about += f" A token that {whose} splits into several pieces gets the mean of their rows."
    if table.kept is None:
        return about
    left, kept = trace.embeddings.shape[1], percent(table.kept, 1)
    return (
        f"{about} Only {left} of {table.width} dimensions are kept: the first principal components "
        f"of its word vectors, with {kept} of their variance."
    )


def what_heads_do(trace: Trace) -> tuple[str, ...]:
    """What each head was written to do, or what it attended to most when the model was tested."""
    model = trace.model
    if model is None or not model.heads:
        return ()
    if model.by_hand:
        told = "" if as_written(trace) else " (as written)"
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
    """`L1H1 reads the subject (99 % of its attention); L0H0 and L0H1 read the token before …`"""
    count, scores = model.facts.get("sentences"), model.facts.get("scores")
    if not isinstance(count, int) or count < 1 or not isinstance(scores, dict):
        return
    doing: dict[str, dict[str, float]] = {}
    for head, does in model.heads.items():
        if isinstance(scores.get(head), float) and 0 <= scores[head] <= 1:
            doing.setdefault(does, {})[head] = scores[head]
    told = [_done(does, heads) for does, heads in doing.items()]
    if told:
        yield f"in {counted(count, 'sentence')} not used in training, {'; '.join(told)}"


def _done(does: str, heads: Mapping[str, float]) -> str:
    """What one head does, or several do, and how much of their attention that takes."""
    low, high = (percent(each(heads.values())) for each in (min, max))
    if len(heads) == 1:
        return f"{next(iter(heads))} {does} ({low} of its attention)"
    several = does.replace(READS, READ, 1) if does.startswith(READS) else f"each {does}"
    span = low if low == high else f"{low} to {high}"
    return f"{listed([*heads])} {several} ({span} of their attention)"


def beyond_what_it_learned(trace: Trace) -> str:
    """That a model was never trained on so few tokens, or so many, where that matters."""
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
        f"{model.name} was trained on sentences of {span} tokens; this one has {count}, "
        "a length it never saw in training"
    )


def _lengths(told: object) -> tuple[int, ...]:
    """The shortest and the longest length; nothing where a file says something else."""
    numbers = told if isinstance(told, list) and len(told) == 2 else ()
    return tuple(each for each in numbers if isinstance(each, int))
