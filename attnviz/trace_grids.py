"""A Trace, as Grids: everything that happened, with nothing left of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Shaped

from attnviz.errors import AttnvizError, unknown
from attnviz.grids import (
    Axis,
    Grid,
    Scale,
    centred,
    none_hidden,
    plain_axis,
    same_scale,
    weight_scale,
)

if TYPE_CHECKING:
    from torch import Tensor

    from attnviz.tokens import Tokens
    from attnviz.tracing import Layer, Trace

WEIGHTS_NOTE = "row = query (reads) · column = key (is read) · each row sums to 1"


def draw(trace: Trace, show: Sequence[str] = ("weights", "context")) -> list[Grid]:
    """The grids of what is to be shown, in the order it happened."""
    check_shown(show)
    wanted = [SHOWN[name] for name in SHOWN if name in show]
    return same_scale(
        [grid for layer in trace.layers for made in wanted for grid in made(trace, layer)]
    )


def check_shown(show: Sequence[str]) -> None:
    """Refuse names that stand for nothing."""
    for name in show:
        if name not in SHOWN:
            raise unknown("thing to show", name, SHOWN)
    if not show:
        raise AttnvizError("there is nothing to show", f"name some of: {', '.join(SHOWN)}")


def headline(trace: Trace) -> str:
    return f"{trace.variant.name} attention"


def settings_line(trace: Trace, without: Sequence[str] = ()) -> str:
    """What the numbers hang on: `4 tokens (gpt2) · width 8 · 1 head of width 8 · seed 42 · cpu`."""
    made = trace.provenance.settings
    count, heads = len(trace.tokens), made["heads"]
    parts = {
        "tokens": f"{count:,} token{'s' if count > 1 else ''} ({made['tokenizer']})",
        "dim": f"width {made['dim']}",
        "heads": f"{heads} head{'s' if heads > 1 else ''} of width {made['head_dim']}",
        "scale": "scaled" if made["scale"] else "not scaled",
        "mask": "causal" if made["causal"] else "all tokens visible",
        "window": f"window {made['window']}" if made["window"] else "",
        "temperature": f"temperature {made['temperature']:g}" if made["temperature"] != 1 else "",
        "dropout": f"dropout {made['dropout']:g}" if made["dropout"] else "",
        "positions": f"{made['positions']} positions" if made["positions"] != "none" else "",
        "embeddings": f"embeddings of {made['embeddings']}" if made["embeddings"] else "",
        "seed": f"seed {made['seed']}",
        "dtype": f"{made['device']} {made['dtype']}",
    }
    return " · ".join(part for name, part in parts.items() if part and name not in without)


def reading(trace: Trace, query: int) -> Grid:
    """What one token reads: a row for each head, a column for each token that is read."""
    heads = [
        (f"L{layer.layer}H{head}", layer.attended.mixing[head, query], ~layer.visible[query])
        for layer in trace.layers
        for head in range(layer.heads)
    ]
    label = trace.tokens.labels[query]
    values = np.stack([array(weights) for _, weights, _ in heads])
    return Grid(
        f"what {query + 1} {label} reads",
        Axis("head", "head", tuple(name for name, _, _ in heads), ("",) * len(heads)),
        token_axis("key (is read)", trace.keys),
        values,
        np.stack([hidden.cpu().numpy() for _, _, hidden in heads]),
        weight_scale(values),
        note=f"each row sums to 1 · query = {query + 1} {label}",
        share=True,
    )


def find_query(tokens: Tokens, wanted: str) -> int:
    """The position, from 0, of the token that is meant: by its word, by its number from 1, or by
    both as tables show them (`2 the`), which is never ambiguous."""
    names = token_axis("", tokens).names
    if wanted in names:
        return names.index(wanted)
    found = tokens.find(wanted)
    if len(found) == 1:
        return found[0]
    if found:
        # The number alone would be taken for the word, if the word is a number.
        choices = [repr(names[place]) if wanted.isdigit() else str(place + 1) for place in found]
        raise AttnvizError(
            f"'{wanted}' is in the sentence {len(found)} times",
            f"say which by its number: --query {' or '.join(choices[:8])}",
        )
    if wanted.isascii() and wanted.isdigit() and 1 <= int(wanted) <= len(tokens):
        return int(wanted) - 1
    raise AttnvizError(f"no token of the sentence is '{wanted}'", _tokens_listed(tokens, wanted))


def _tokens_listed(tokens: Tokens, wanted: str) -> str:
    nearest = get_close_matches(wanted, tokens.labels, n=1)
    question = f"did you mean '{nearest[0]}'? " if nearest else ""
    listed = ", ".join(f"{number} {label}" for number, label in enumerate(tokens.labels[:40], 1))
    rest = f", … {len(tokens)} in all" if len(tokens) > 40 else ""
    return f"{question}the tokens are: {listed}{rest}"


def token_axis(title: str, tokens: Tokens) -> Axis:
    numbers = tuple(str(number) for number in range(1, len(tokens) + 1))
    return Axis(title, "token", tokens.labels, numbers, tokens.spaced)


def dimension_axis(count: int) -> Axis:
    numbers = tuple(str(number) for number in range(1, count + 1))
    return Axis("dimension", "dimension", ("",) * count, numbers)


def array(tensor: Tensor) -> Shaped[np.ndarray, "..."]:
    """The numbers of a tensor, wherever it is; bfloat16, which NumPy has not, as float32."""
    plain = tensor.detach().cpu()
    return plain.float().numpy() if "bfloat16" in str(plain.dtype) else plain.numpy()


def _tokens(trace: Trace, layer: Layer) -> list[Grid]:
    ids = np.asarray(trace.tokens.ids)[:, None]
    columns = plain_axis("dimension", ["id"])
    return [
        Grid("tokens", _queries(trace), columns, ids, none_hidden(ids), Scale("id", 0, 1, "none"))
    ]


def _embeddings(trace: Trace, layer: Layer) -> list[Grid]:
    return [_vectors("embeddings", trace.embeddings, token_axis("token", trace.tokens))]


def _queries_of(trace: Trace, layer: Layer) -> list[Grid]:
    return _each_head("queries", layer, layer.queries, token_axis("query", trace.tokens))


def _keys_of(trace: Trace, layer: Layer) -> list[Grid]:
    return _each_head("keys", layer, layer.keys, token_axis("key", trace.keys))


def _values_of(trace: Trace, layer: Layer) -> list[Grid]:
    return _each_head("values", layer, layer.values, token_axis("key", trace.keys))


def _scores(trace: Trace, layer: Layer) -> list[Grid]:
    return [
        Grid(
            _titled("scores", layer, head),
            _queries(trace),
            token_axis("key (is read)", trace.keys),
            values := array(scores),
            none_hidden(values),
            centred("score", values),
            note="query · key, before scaling and mask",
        )
        for head, scores in enumerate(layer.attended.scores)
    ]


def _weights(trace: Trace, layer: Layer) -> list[Grid]:
    dropped = layer.attended.mixing is not layer.attended.weights
    name = "weights after dropout" if dropped else "weights"
    hidden = ~layer.visible.cpu().numpy()
    return [
        Grid(
            _titled(name, layer, head),
            _queries(trace),
            token_axis("key (is read)", trace.keys),
            values := array(weights),
            hidden,
            weight_scale(values),
            note=WEIGHTS_NOTE.replace(" · each row sums to 1", "") if dropped else WEIGHTS_NOTE,
            share=True,
        )
        for head, weights in enumerate(layer.attended.mixing)
    ]


def _context(trace: Trace, layer: Layer) -> list[Grid]:
    return [_vectors("context vectors", layer.context, _queries(trace))]


SHOWN: dict[str, Callable[[Trace, Layer], list[Grid]]] = {  # in the order of the path
    "tokens": _tokens,
    "embeddings": _embeddings,
    "queries": _queries_of,
    "keys": _keys_of,
    "values": _values_of,
    "scores": _scores,
    "weights": _weights,
    "context": _context,
}


def _queries(trace: Trace) -> Axis:
    return token_axis("query (reads)", trace.tokens)


def _each_head(name: str, layer: Layer, vectors: Tensor, rows: Axis) -> list[Grid]:
    return [_vectors(_titled(name, layer, head), each, rows) for head, each in enumerate(vectors)]


def _vectors(title: str, vectors: Tensor, rows: Axis) -> Grid:
    values = array(vectors)
    columns = dimension_axis(values.shape[1])
    return Grid(title, rows, columns, values, none_hidden(values), centred("value", values))


def _titled(name: str, layer: Layer, head: int) -> str:
    return name if layer.heads == 1 else f"{name} L{layer.layer}H{head}"
