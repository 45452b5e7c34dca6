"""What a page needs to compute other texts and settings (--live), and refusals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from attnviz.errors import AttnvizError, opt
from attnviz.tokens.gpt2 import frequent_pieces, pieces_of_words
from attnviz.traces.early_checks import LIVE_RULES
from attnviz.traces.origin import FromModel, FromSeed, resolved_settings
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.weights import tensor_to_numpy
from attnviz.vectors.random_numbers import stream_start
from attnviz.views.grids.live_model import LiveModel
from attnviz.views.origin_words import trained_lengths
from attnviz.views.trace import view
from attnviz.views.trace_choices import TraceChoices
from attnviz.views.view import View
from attnviz.wording.rules import check_rules

MAX_LIVE_TOKENS = 128  # of a text that a page computes with every key press
MAX_LIVE_NUMBERS = 60_000  # of a model: about 230 kB in a page
FREQUENT_PIECES = 17_000  # of GPT-2's 50,257, which a page has, so that it stays within 400 kB
MORE_FREQUENT_PIECES = 45_000  # in that of a small model without a block, which has more tables
MAX_NUMBERS_BESIDE_MORE_PIECES = 250
MAX_TOKENS_BESIDE_MORE_PIECES = 30
NUMBERS_OF_A_HEAD = 50  # which its map and its names take the room of
PROJECTION_NAMES = ("query", "key", "value", "out")


def view_live(trace: Trace, choices: TraceChoices) -> View:
    """Return the View of a Trace, with the model for pages; refuses what no page can compute."""
    still_view = view(with_blanks(trace), **vars(replace(choices, live=False)))
    if not isinstance(trace.origin, FromSeed | FromModel):
        raise AttnvizError(
            f"{opt.live} makes a page that computes, and these weights were given, not computed",
            f"leave {opt.live} out, or give a text with {opt.model:agreement}, or without a model",
        )
    check_rules(trace.origin.settings, LIVE_RULES)
    if choices.part is not None or still_view.head_explorer is None:
        option = opt.show if choices.part is None else opt.part
        raise AttnvizError(
            f"{opt.live} makes a page with all heads of a text, and {option} asks for something "
            "else",
            f"leave {option} out, or {opt.live}",
        )
    return replace(still_view, live=build_live_model(trace))


def build_live_model(trace: Trace) -> LiveModel:
    """Return what a page needs to compute a Trace again; refuses long texts and large models."""
    if len(trace.tokens) > MAX_LIVE_TOKENS or trace.layers[0].weights_on_demand is not None:
        raise AttnvizError(
            f"{opt.live} computes texts of at most {MAX_LIVE_TOKENS} tokens, and this one has "
            f"{len(trace.tokens):,}",
            f"give a shorter text, or leave {opt.live} out",
        )
    trace = with_blanks(trace)
    tensors = {name: tensor_to_numpy(tensor) for name, tensor in _live_tensors(trace)}
    numbers = sum(tensor.size for tensor in tensors.values())
    refuse_large_model(numbers)
    vocabulary = None if trace.model is None else trace.model.vocabulary
    places = [(0, layer.layer, head) for layer in trace.layers for head in range(layer.heads)]
    room = numbers + NUMBERS_OF_A_HEAD * len(places)
    is_small = room <= MAX_NUMBERS_BESIDE_MORE_PIECES and trace.layers[0].block is None
    is_short = len(trace.tokens) <= MAX_TOKENS_BESIDE_MORE_PIECES
    count = MORE_FREQUENT_PIECES if is_small and is_short else FREQUENT_PIECES
    pieces, rare, words = _packed_pieces(trace, count)
    return LiveModel(
        text=trace.text or "",
        tokenizer=trace.tokenizer,
        facts={**live_facts(trace), **words},
        blocks={"pieces": pieces, "rare-pieces": rare} if pieces else {},
        vocabulary=None
        if vocabulary is None
        else {**asdict(vocabulary), "that_ask": vocabulary.that_ask},
        tensors=tensors,
        places=tuple(places),
    )


def with_blanks(trace: Trace) -> Trace:
    """Return the Trace with the words that its model must predict as blanks, in the text, too: the
    row that gives the answer is that of `?`, whichever of the answers was typed."""
    if trace.model is None:
        return trace
    tokens = trace.model.vocabulary.as_read(trace.tokens)
    keys = tokens if trace.keys is trace.tokens else trace.keys
    return replace(trace, tokens=tokens, keys=keys)


def _packed_pieces(trace: Trace, count: int) -> tuple[bytes, bytes, dict[str, Any]]:
    """Return GPT-2's `count` most frequent pieces, a filter of the others, and the pieces of the
    text's own words; nothing for another tokenizer.
    """
    if trace.tokenizer != "gpt2":
        return b"", b"", {}
    words = {"count": count, "words": pieces_of_words(trace.text or "")}
    return *frequent_pieces(count), {"pieces": words}


def refuse_large_model(count: int) -> None:
    """Refuse a model of so many numbers that a page would be too large."""
    if count > MAX_LIVE_NUMBERS:
        raise AttnvizError(
            f"{opt.live} puts the model into the page, and this one has {count:,} numbers (at most "
            f"{MAX_LIVE_NUMBERS:,})",
            f"give a smaller {opt.dim} or fewer {opt.layers}, or leave {opt.live} out",
        )


def live_facts(trace: Trace) -> dict[str, Any]:
    """Return how the heads of a Trace attend, as JSON data in the names of the page's script."""
    settings, variant, first = resolved_settings(trace.origin), trace.variant, trace.layers[0]
    model = trace.model
    lengths = trained_lengths(trace)
    starts = {name: f"{stream_start(settings.seed, name):x}" for name in ("embedding", "position")}
    return {
        "layers": len(trace.layers),
        "heads": variant.heads,
        "groups": variant.kv_heads or variant.heads,
        "width": first.head_dim,
        "dim": first.inputs.shape[1],
        **{name: getattr(variant, name) for name in ("projected", "compared", "additive")},
        **{name: getattr(variant, name) for name in ("scaled", "causal", "window", "temperature")},
        "softCap": variant.soft_cap,
        "positions": settings.positions,
        "base": settings.position_base,
        "norm": settings.norm if settings.has_blocks else "none",
        "activation": settings.activation,
        "blocks": settings.has_blocks,
        "sights": [] if model is None else [list(map(asdict, layer)) for layer in model.sights],
        "starts": starts if model is None else {},
        "off": list(_heads_off(trace)),
        "missing": "word" if model is None else model.facts.get("asked", "word"),
        "lengths": None if lengths is None else asdict(lengths),
        "blanks": {} if model is None else model.vocabulary.blank_labels,
        "names": [],
        "mostTokens": MAX_LIVE_TOKENS,
    }


def _heads_off(trace: Trace) -> Iterator[str]:
    """Yield the names of heads that are switched off: `L1H0`, or `L1H0=mean`."""
    for layer in trace.layers:
        for head, instead in layer.off.items():
            yield f"L{layer.layer}H{head}{'' if instead == 'zero' else f'={instead}'}"


def _live_tensors(trace: Trace) -> Iterator[tuple[str, Any]]:
    """Yield the name and the tensor of all that a page needs, named as in a model file."""
    if trace.model is not None:
        yield from trace.model.parameters.items()
        return
    for layer in trace.layers:
        prefix = f"layers.{layer.layer}." if layer.layer else ""
        for name, tensor in _layer_tensors(layer).items():
            if tensor is not None:
                yield f"{prefix}{name}", tensor


def _layer_tensors(layer: Layer) -> Mapping[str, Any]:
    """Return the drawn matrices of a layer; norms are without parameters, and biases are 0."""
    projections, block = layer.projections, layer.block
    names = [*(f"w_{name}" for name in PROJECTION_NAMES), "w_score"]
    tensors = {name: getattr(projections, name, None) for name in names}
    if block is not None and block.feed_forward is not None:
        parameters = block.feed_forward.parameters
        tensors |= {"w_1": parameters.w_1, "w_2": parameters.w_2}
    return tensors
