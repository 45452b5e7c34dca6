"""A second sentence in the same kind of attention, compared with the first token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnviz.errors import AttnvizError
from attnviz.tokens.token_lookup import find_query
from attnviz.tokens.tokens import Tokens
from attnviz.traces import early_checks
from attnviz.traces.source import Source, source_tokens
from attnviz.wording.printable import printable_text

MAX_NAME_LETTERS = 24  # longer sentences are named "first text", "second text"
VECTOR_PARTS = ("embeddings", "key_embeddings", "queries", "keys", "values")
SINGLE_SENTENCE_PARTS = (*VECTOR_PARTS, "scores", "weights", "visible", "hidden", "mask", "kept")


def second_source(source: Source, other_text: str) -> Source:
    """The source of the other sentence's trace; refused if it cannot be compared with the first."""
    if source.text is None:
        raise AttnvizError(
            "tokens are given in place of the first sentence, so a second sentence cannot be "
            "compared with it",
            "give both sentences as text, or leave the second out",
        )
    if other_text == source.text:
        raise AttnvizError(
            "both sentences are the same", "give another one, or compare ways of reading it: --by"
        )
    for name in SINGLE_SENTENCE_PARTS:
        if getattr(source.matrices, name) is not None:
            raise AttnvizError(
                f"{source.matrices.source_text} gives '{name}' for one sentence, but there are two",
                f"leave '{name}' or the second sentence out",
                file=source.matrices.source,
            )
    other_sentence = replace(source, text=other_text, vectors=None)
    early_checks.refuse_unequal_lengths(
        source_tokens(source), source_tokens(other_sentence), source.tokenizer
    )
    return other_sentence


def sentence_names(source: Source, other: Source) -> tuple[str, str]:
    """The names of two sentences: their own words if both are short."""
    texts = [" ".join(printable_text(sentence.text or "").split()) for sentence in (source, other)]
    if len(set(texts)) == 1 or not all(0 < len(text) <= MAX_NAME_LETTERS for text in texts):
        return "first text", "second text"
    return texts[0], texts[1]


def find_in_both(sentences: Sequence[Tokens], name: str) -> int:
    """The position of a token that is named in either sentence, the same in both."""
    positions: set[int] = set()
    errors = []
    for tokens in sentences:
        try:
            positions.add(find_query(tokens, name))
        except AttnvizError as error:
            errors.append((len(tokens.find(name)), error))
    ambiguous_errors = [error for times, error in errors if times > 1]
    if ambiguous_errors or not positions:
        raise (ambiguous_errors or [error for _, error in errors])[0]
    if len(positions) > 1:
        numbers = [str(position + 1) for position in sorted(positions)]
        raise AttnvizError(
            f"'{name}' is at different positions in the two sentences",
            f"give its position: --query {' or '.join(numbers)}",
        )
    return positions.pop()


def combine_tokens(tokens: Tokens, other_tokens: Tokens) -> Tokens:
    """Tokens whose labels name both sentences' tokens where they differ: `learning/teaching`."""
    pairs = zip(tokens.labels, other_tokens.labels, strict=True)
    return replace(
        other_tokens,
        words=tuple(first if first == second else f"{first}/{second}" for first, second in pairs),
    )
