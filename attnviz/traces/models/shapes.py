"""Which tensors a model has, and how large each is, by what is said of it."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.traces.by_layer import name_in
from attnviz.traces.models.card import Card
from attnviz.traces.settings import FEED_FORWARD, chosen_variant, head_width

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Wanted:
    """The shapes of tensors by their names: of those that must be there, and of those that may."""

    needed: Shapes
    allowed: Shapes


def wanted(card: Card) -> Wanted:
    """What a model must hold to do what its settings say."""
    dim, answers = card.settings.width, len(card.vocabulary.answers)
    needed: Shapes = {"embeddings": (len(card.vocabulary.words), dim)}
    allowed: Shapes = {}
    if card.settings.positions == "learned":
        needed["positions"] = (card.longest or 0, dim)
    for number in range(card.settings.layers or 1):
        of_layer = _of_layer(card)
        needed |= _named(number, of_layer.needed)
        allowed |= _named(number, of_layer.allowed)
    if answers:
        needed["w_answers"] = (dim, answers)
        allowed |= {"b_answers": (answers,)}
    if answers and card.settings.norm == "pre":
        needed |= {"last_gain": (dim,), "last_shift": (dim,)}
    return Wanted(needed, allowed)


def _named(number: int, shapes: Shapes) -> Shapes:
    """The names that a file has for them in this layer."""
    return {name_in(number, name) if number else name: shape for name, shape in shapes.items()}


def _of_layer(card: Card) -> Wanted:
    attention, block = _of_attention(card), _of_block(card)
    return Wanted(attention.needed | block, attention.allowed)


def _of_attention(card: Card) -> Wanted:
    settings, variant, dim = card.settings, chosen_variant(card.settings), card.settings.width
    width = head_width(settings, variant, dim)
    queries, keys = variant.heads * width, (variant.kv_heads or variant.heads) * width
    last: Shapes = {"w_out": (queries, dim)}
    if not variant.projected:
        return Wanted(last if variant.joined else {}, {} if variant.joined else last)
    made = {"query": queries, "key": keys, "value": keys}
    needed: Shapes = {f"w_{name}": (dim, out) for name, out in made.items()}
    allowed: Shapes = {"b_out": (dim,)}
    allowed.update((f"b_{name}", (out,)) for name, out in made.items())
    if variant.additive:
        needed["w_score"] = (queries,)
    return Wanted(needed | last, allowed) if variant.joined else Wanted(needed, allowed | last)


def _of_block(card: Card) -> Shapes:
    """Of feed-forward, and of the norms around it and around attention."""
    settings, dim = card.settings, card.settings.width
    found: Shapes = {}
    if settings.feeds:
        wide = settings.feed_forward or FEED_FORWARD * dim
        found |= {"w_1": (dim, wide), "b_1": (wide,), "w_2": (wide, dim), "b_2": (dim,)}
    parts = ("attention", "feed_forward") if settings.feeds else ("attention",)
    normed = parts if settings.blocks and settings.norm != "none" else ()
    return found | {f"{part}_{name}": (dim,) for part in normed for name in ("gain", "shift")}
