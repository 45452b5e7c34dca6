"""A text in a model's own tokens, each with the letters that it stands for."""

from __future__ import annotations

from typing import Any

from attnviz.errors import AttnvizError
from attnviz.tokens.labels import phrase
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trained.loading import Loaded
from attnviz.wording.words import counted

Span = tuple[int, int]


def cut(loaded: Loaded, text: str, *, truncate: bool = False) -> Tokens:
    """The tokens of a text, with those that the model's tokenizer adds around it."""
    longest = positions_of(loaded)
    found = loaded.tokenizer(
        text,
        return_offsets_mapping=loaded.tokenizer.is_fast,
        return_special_tokens_mask=True,
        truncation=truncate and longest is not None,
        max_length=longest if truncate else None,
        verbose=False,
    )
    ids = found["input_ids"]
    if longest is not None and len(ids) > longest:
        raise AttnvizError(
            f"the text has {counted(len(ids), 'token')}, and the model '{loaded.name}' has "
            f"positions for {longest}",
            "give a shorter text, or --truncate, which leaves out its end",
            about="truncate",
        )
    special = frozenset(
        place for place, each in enumerate(found["special_tokens_mask"]) if each == 1
    )
    spans = found.get("offset_mapping") or [(0, 0)] * len(ids)
    return tokens_of(loaded.tokenizer, text, ids, spans, special)


def tokens_of(
    tokenizer: Any, text: str, ids: list[int], spans: list[Span], special: frozenset[int]
) -> Tokens:
    """Tokens of ids, and of where each stands in the text; nothing stands for those added."""
    written = tokenizer.convert_ids_to_tokens(ids)
    pieces = [
        word if place in special or start == end else text[start:end]
        for place, (word, (start, end)) in enumerate(zip(written, spans, strict=True))
    ]
    coded = tuple(piece.encode(errors="replace") for piece in pieces)
    return Tokens(
        text,
        coded,
        tuple(ids),
        tuple(place in special or _spaced(text, start) for place, (start, _) in enumerate(spans)),
        tuple(phrase(piece) for piece in coded),
        special,
    )


def _spaced(text: str, start: int) -> bool:
    """Whether white space stands before a token, or its first letter is one."""
    return start == 0 or text[start - 1].isspace() or text[start : start + 1].isspace()


def positions_of(loaded: Loaded) -> int | None:
    """How many tokens a model has positions for; None where any number will do."""
    longest = getattr(loaded.text_config, "max_position_embeddings", None)
    return longest if isinstance(longest, int) and longest > 0 else None
