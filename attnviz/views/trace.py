"""A Trace, as Grids: everything that happened, with nothing left of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Shaped

from attnviz.errors import AttnvizError, unknown
from attnviz.views.grids.grids import (
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

    from attnviz.tokens.tokens import Tokens
    from attnviz.traces.trace import Layer, Trace

_WHY_NOT = {"outputs": "they are a block's, and there is none (--layers 1)"}
WEIGHTS_NOTE = "row = query (reads) · column = key (is read) · each row sums to 1"


def draw(trace: Trace, show: Sequence[str] = ("weights", "context")) -> list[Grid]:
    """The grids of what is to be shown, in the order it happened."""
    check_shown(show)
    wanted = [SHOWN[name] for name in SHOWN if name in show]
    drawn = [grid for layer in trace.attentions for made in wanted for grid in made(trace, layer)]
    if not drawn:
        raise AttnvizError(
            f"there is nothing to show of {' and '.join(show)}: "
            f"{_WHY_NOT.get(show[0], 'it was given, not computed')}",
            f"name some of: {', '.join(SHOWN)}",
        )
    return same_scale(drawn)


def check_shown(show: Sequence[str]) -> None:
    """Refuse names that stand for nothing."""
    for name in show:
        if name not in SHOWN:
            raise unknown("thing to show", name, SHOWN)
    if not show:
        raise AttnvizError("there is nothing to show", f"name some of: {', '.join(SHOWN)}")


def headline(trace: Trace) -> str:
    given = "scores" in trace.layers[0].given
    return "attention of given scores" if given else f"{trace.variant.name} attention"


def settings_line(trace: Trace, without: Sequence[str] = ()) -> str:
    """What the numbers hang on: `4 tokens (gpt2) · width 8 · 1 head of width 8 · seed 42 · cpu`."""
    made = trace.provenance.settings
    heads = made["heads"]
    parts = {
        "tokens": _counted(len(trace.tokens), "token", made["tokenizer"]),
        "memory": f"reads {_counted(len(trace.memory), 'more token')}" if trace.memory else "",
        "dim": f"width {made['dim']}" if trace.layers[0].from_inputs else "",
        "heads": f"{_counted(heads, 'head')} of width {made['head_dim']}",
        "layers": f"{_counted(len(trace.layers), 'layer')} ({made['norm']}-norm)"
        if trace.layers[0].block
        else "",
        "scale": "scaled" if made["scale"] else "not scaled",
        "mask": _mask_of(made),
        "window": f"window {made['window']}" if made["window"] else "",
        "temperature": f"temperature {made['temperature']:g}" if made["temperature"] != 1 else "",
        "dropout": f"dropout {made['dropout']:g}" if made["dropout"] else "",
        "positions": f"{made['positions']} positions" if made["positions"] != "none" else "",
        "embeddings": f"embeddings of {made['embeddings']}" if made["embeddings"] else "",
        "given": f"matrices of {made['given']}" if made["given"] else "",
        "item": f"item {made['item']}" if made["item"] else "",
        "seed": f"seed {made['seed']}",
        "dtype": f"{made['device']} {made['dtype']}",
    }
    return " · ".join(part for name, part in parts.items() if part and name not in without)


def _mask_of(made: Mapping[str, Any]) -> str:
    if made["causal"] == "given":
        return "mask given"
    return "causal" if made["causal"] else "all tokens visible"


def _counted(number: int, noun: str, kind: str = "") -> str:
    """
    >>> _counted(4, "token", "gpt2")
    '4 tokens (gpt2)'
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}{f' ({kind})' if kind else ''}"


def readings(trace: Trace, query: int) -> list[Grid]:
    """What one token reads of its sentence, and of a second one: a row for each head."""
    own = _reading(trace, trace.layers, query)
    crossed = [layer.cross for layer in trace.layers if layer.cross]
    return [own, _reading(trace, crossed, query)] if crossed else [own]


def _reading(trace: Trace, layers: Sequence[Layer], query: int) -> Grid:
    heads = [
        (f"{layer.name}H{head}", layer.attended.mixing[head, query], ~layer.visible[query])
        for layer in layers
        for head in range(layer.heads)
    ]
    label = trace.tokens.labels[query]
    values = np.stack([array(weights) for _, weights, _ in heads])
    of = " of the memory" if layers[0].memory is not None else ""
    return Grid(
        f"what {query + 1} {label} reads{of}",
        Axis("head", "head", tuple(name for name, _, _ in heads), ("",) * len(heads)),
        token_axis("key (is read)", trace.keys_of(layers[0])),
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
    if layer.layer:
        return []
    if layer.memory is None:
        return [tokens_grid("tokens", trace.tokens, "query (reads)")]
    return [tokens_grid("tokens of the memory", trace.keys_of(layer), "key (is read)")]


def tokens_grid(title: str, tokens: Tokens, reads: str) -> Grid:
    """Each token with its id."""
    ids = np.asarray(tokens.ids)[:, None]
    columns = plain_axis("dimension", ["id"])
    rows = token_axis(reads, tokens)
    return Grid(title, rows, columns, ids, none_hidden(ids), Scale("id", 0, 1, "none"))


def _embeddings(trace: Trace, layer: Layer) -> list[Grid]:
    if layer.layer or layer.memory is not None:
        return []
    return [vectors_grid("embeddings", trace.embeddings, token_axis("token", trace.tokens))]


def _queries_of(trace: Trace, layer: Layer) -> list[Grid]:
    return _each_head("queries", layer, layer.queries, token_axis("query", trace.tokens))


def _keys_of(trace: Trace, layer: Layer) -> list[Grid]:
    return _each_head("keys", layer, layer.keys, token_axis("key", trace.keys_of(layer)))


def _values_of(trace: Trace, layer: Layer) -> list[Grid]:
    return _each_head("values", layer, layer.values, token_axis("key", trace.keys_of(layer)))


def _scores(trace: Trace, layer: Layer) -> list[Grid]:
    return scores_grids("scores", trace, layer, layer.attended.scores)


def scores_grids(
    name: str,
    trace: Trace,
    layer: Layer,
    scores: Tensor,
    note: str = "query · key, before scaling and mask",
    masked: bool = False,
) -> list[Grid]:
    """Scores of each head, raw or on their way to weights."""
    made = []
    for head, each in enumerate(scores):
        values = array(each)
        hidden = ~layer.visible.cpu().numpy() if masked else none_hidden(values)
        scale = centred("score", values)
        rows, columns = _queries(trace), _keys(trace, layer)
        title = _titled(name, layer, head)
        made.append(Grid(title, rows, columns, values, hidden, scale, note=note))
    return made


def _weights(trace: Trace, layer: Layer) -> list[Grid]:
    return weights_grids(trace, layer, layer.attended.mixing, layer.attended.mixed_by)


MIXED_BY = {
    "softmax": "weights",
    "dropout": "weights after dropout",
    "hand": "weights by hand",
    "mistake": "✗ weights",
}


def weights_grids(trace: Trace, layer: Layer, weights: Tensor, mixed_by: str) -> list[Grid]:
    """Weights of each head, what is hidden marked as such."""
    masked = ~layer.visible.cpu().numpy()
    sums = mixed_by == "softmax"
    note = WEIGHTS_NOTE if sums else WEIGHTS_NOTE.replace(" · each row sums to 1", "")
    return [
        Grid(
            _titled(MIXED_BY[mixed_by], layer, head),
            _queries(trace),
            _keys(trace, layer),
            values := array(each),
            masked & (values == 0),  # a mistake may give weight to what should be hidden
            weight_scale(values),
            note=note,
            share=True,
        )
        for head, each in enumerate(weights)
    ]


def _context(trace: Trace, layer: Layer) -> list[Grid]:
    single = layer.block is None and layer.memory is None
    name = "context vectors" if single else f"context vectors {layer.name.strip()}"
    return [vectors_grid(name, layer.context, _queries(trace))]


def _outputs(trace: Trace, layer: Layer) -> list[Grid]:
    if layer.block is None:
        return []
    return [vectors_grid(f"outputs L{layer.layer}", layer.outputs, _queries(trace))]


SHOWN: dict[str, Callable[[Trace, Layer], list[Grid]]] = {  # in the order of the path
    "tokens": _tokens,
    "embeddings": _embeddings,
    "queries": _queries_of,
    "keys": _keys_of,
    "values": _values_of,
    "scores": _scores,
    "weights": _weights,
    "context": _context,
    "outputs": _outputs,
}


def _queries(trace: Trace) -> Axis:
    return token_axis("query (reads)", trace.tokens)


def _keys(trace: Trace, layer: Layer) -> Axis:
    return token_axis("key (is read)", trace.keys_of(layer))


def _each_head(name: str, layer: Layer, vectors: Tensor | None, rows: Axis) -> list[Grid]:
    """None where the scores were given, which need no queries and keys."""
    return [
        vectors_grid(_titled(name, layer, head), each, rows)
        for head, each in enumerate(() if vectors is None else vectors)
    ]


def vectors_grid(title: str, vectors: Tensor, rows: Axis) -> Grid:
    """A row for each vector."""
    values = array(vectors)
    columns = dimension_axis(values.shape[1])
    return Grid(title, rows, columns, values, none_hidden(values), centred("value", values))


def _titled(name: str, layer: Layer, head: int) -> str:
    alone = layer.heads == 1 and layer.block is None and layer.memory is None
    return name if alone else f"{name} {layer.name}H{head}"
