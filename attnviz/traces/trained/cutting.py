"""A text in a model's own tokens, each with the letters that it stands for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attnviz.errors import AttnvizError, mention
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trained.loading import Loaded
from attnviz.traces.trained.pieces import in_tokens, spelling_of
from attnviz.traces.trained.place import Place
from attnviz.traces.trained.quiet import quietly
from attnviz.traces.trained.refusing import refused
from attnviz.wording.words import counted

Ids = tuple[int, ...]


def cut(model: Loaded, text: str, *, truncate: bool = False, room: int = 0) -> Tokens:
    """The tokens of a text, with those that the model's tokenizer adds around it.

    There has to be `room` for so many that the model will add to them.
    """
    found = _cut(model, text)
    positions = positions_of(model)
    longest = None if positions is None else positions - room
    if longest is not None and len(found["input_ids"]) > longest:
        if not truncate or longest < 1:
            raise _too_long(model, len(found["input_ids"]), room)
        lost = len(found["input_ids"]) - longest
        found = _cut(model, text, truncation=True, max_length=longest)
        mention(f"left out {counted(lost, 'token')} at the end")
    return in_tokens(text, spelling_of(model.tokenizer).read(text, found))


def tokens_of_ids(model: Loaded, ids: Ids, beginning: Tokens | None = None) -> Tokens:
    """Tokens of ids that a model wrote, after those of a text where it goes on with one."""
    spelling = spelling_of(model.tokenizer)
    known = 0 if beginning is None else len(beginning)
    _refuse_too_many(model, len(ids))
    pieces = spelling.written(ids)[known:]
    if beginning is None:
        text = model.tokenizer.decode(ids, skip_special_tokens=True)
        return in_tokens(text, pieces)
    added = in_tokens(beginning.text, pieces)
    return Tokens(
        beginning.text,
        beginning.pieces + added.pieces,
        ids,
        beginning.spaced + added.spaced,
        beginning.words + added.words,
        beginning.special | frozenset(place + known for place in added.special),
    )


def positions_of(model: Loaded) -> int | None:
    """How many tokens a model has positions for; None where any number will do."""
    said = getattr(model.text_config, "max_position_embeddings", None)
    longest = said if isinstance(said, int) and said > 0 else None
    for name, module in model.model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            # RoBERTa and its kin count from the place after that of padding.
            return int(module.num_embeddings - padding - 1)
    return longest


@contextmanager
def tokenizing(model: Loaded) -> Iterator[None]:
    """While the model's tokenizer cuts a text up, which one that is damaged cannot do."""
    with quietly(), refused(Place(model.name, None), "text"):
        yield


def _cut(model: Loaded, text: str, **limits: Any) -> Any:
    with tokenizing(model):
        return model.tokenizer(
            text,
            return_offsets_mapping=model.tokenizer.is_fast,
            return_special_tokens_mask=True,
            verbose=False,
            **limits,
        )


def _refuse_too_many(model: Loaded, count: int) -> None:
    longest = positions_of(model)
    if longest is not None and count > longest:
        raise AttnvizError(
            f"the decoder would read {counted(count, 'token')}, but the model '{model.name}' only "
            f"has positions for {longest}",
            "give a shorter --target, or a smaller --generate",
            about="target",
        )


def _too_long(model: Loaded, count: int, room: int) -> AttnvizError:
    more = f", and {room} to be added" if room else ""
    return AttnvizError(
        f"the text has {counted(count, 'token')}{more}, but the model '{model.name}' only has "
        f"positions for {positions_of(model)}",
        "give a smaller --generate, or a shorter text"
        if room
        else "give a shorter text, or cut off its end with --truncate",
        about="truncate",
    )
