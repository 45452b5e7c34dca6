"""A second sentence, to be attended to as the first is, and compared with it place by place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnviz.errors import AttnvizError
from attnviz.tokens.finding import find_query
from attnviz.tokens.tokens import Tokens
from attnviz.traces import early_checks
from attnviz.traces.source import Source, tokens_of
from attnviz.wording.printable import printable

LONGEST_NAME = 24  # of a sentence that is called by its own words
OF_ONE_SENTENCE = (
    "embeddings",
    "key_embeddings",
    "queries",
    "keys",
    "values",
    "scores",
    "weights",
    "visible",
    "hidden",
    "mask",
    "kept",
)


def other_source(source: Source, other: str) -> Source:
    """What the other sentence is traced from; refused where it cannot be held against the first."""
    if source.text is None:
        raise AttnvizError(
            "tokens are given in place of the first sentence, so a second sentence cannot be "
            "compared with it",
            "give both sentences as text, or leave the second out",
        )
    if other == source.text:
        raise AttnvizError(
            "both sentences are the same", "give another one, or compare ways of reading it: --by"
        )
    for name in OF_ONE_SENTENCE:
        if getattr(source.matrices, name) is not None:
            raise AttnvizError(
                f"{source.matrices.called} gives '{name}' for one sentence, but there are two",
                f"leave '{name}' or the second sentence out",
                file=source.matrices.source,
            )
    both = replace(source, text=other, vectors=None)
    early_checks.refuse_other_text(tokens_of(source), tokens_of(both), source.tokenizer)
    return both


def names_of(source: Source, other: Source) -> tuple[str, str]:
    """What two sentences are called: their own words while these are few."""
    texts = [" ".join(printable(each.text or "").split()) for each in (source, other)]
    if len(set(texts)) == 1 or not all(0 < len(text) <= LONGEST_NAME for text in texts):
        return "first text", "second text"
    return texts[0], texts[1]


def place_in_both(sentences: Sequence[Tokens], wanted: str) -> int:
    """The place of the token that is meant, in whichever of the sentences it stands."""
    found: set[int] = set()
    errors = []
    for tokens in sentences:
        try:
            found.add(find_query(tokens, wanted))
        except AttnvizError as error:
            errors.append((len(tokens.find(wanted)), error))
    several = [error for times, error in errors if times > 1]
    if several or not found:
        raise (several or [error for _, error in errors])[0]
    if len(found) > 1:
        numbers = [str(place + 1) for place in sorted(found)]
        raise AttnvizError(
            f"'{wanted}' is at different positions in the two sentences",
            f"give its position: --query {' or '.join(numbers)}",
        )
    return found.pop()


def of_both(tokens: Tokens, others: Tokens) -> Tokens:
    """Tokens whose labels say what stands at each place in both sentences: `learning/teaching`."""
    pairs = zip(tokens.labels, others.labels, strict=True)
    return replace(others, words=tuple(a if a == b else f"{a}/{b}" for a, b in pairs))
