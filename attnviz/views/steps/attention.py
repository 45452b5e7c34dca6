"""The ten steps of attention, and what some variants put between two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor

from attnviz.attention import arithmetic as attention
from attnviz.attention.block import Residual
from attnviz.attention.mistakes import MISTAKES
from attnviz.traces.layers import ratio_of
from attnviz.traces.trace import Layer, Projections
from attnviz.views import trace as trace_grids
from attnviz.views.grids.grids import Section
from attnviz.views.steps import sums
from attnviz.views.steps.scene import Scene, count_of, sized
from attnviz.views.trace import token_axis


def tokens(here: Scene) -> Iterator[Section]:
    made = here.trace.tokens
    about = "The text is cut into tokens, each with an id: attention reads tokens, not letters."
    if here.trace.provenance.settings["tokenizer"] == "given":
        about = "There is no text to cut: the tokens are given, or numbered, and so are their ids."
    yield Section(
        "1",
        "tokens",
        "tokens",
        about,
        shapes=f"tokens {sized(len(made))}",
        grids=(trace_grids.tokens_grid("tokens", made, "token"),),
    )


def inputs(here: Scene) -> Iterator[Section]:
    """Embeddings and positions; in a layer above the first what the one below handed on."""
    trace, layer = here.trace, here.layer
    rows = token_axis("token", trace.tokens)
    start = layer.block.attention.inputs if layer.block else layer.inputs
    if layer.layer:
        yield Section(
            "2", "inputs", "inputs", f"What layer {layer.layer - 1} made of each token.",
            shapes=f"inputs {here.size(start)}", grids=(here.grid("inputs", start, rows),),
        )  # fmt: skip
    elif not layer.from_inputs:
        yield Section("2", "embeddings", "embeddings", "There are none to use: all that would be "
                      "made of them is given.")  # fmt: skip
    else:
        yield _embeddings(here, start)
    if layer.block and layer.block.place == "pre":
        yield norm_before(here, layer.block.attention, "2b", "norm")


def _embeddings(here: Scene, start: Tensor) -> Section:
    trace, made = here.trace, here.trace.provenance.settings
    rows = token_axis("token", trace.tokens)
    grids = [here.grid("embeddings", trace.embeddings, rows)]
    about = "Each id stands for a row of numbers, its embedding: the same for a token everywhere."
    if "embeddings" in here.layer.given:
        about = "Each token has a row of numbers, its embedding. They are given."
    formula, tex = "", ""
    written: tuple[str, ...] = ()
    if made["positions"] in ("sinusoidal", "learned"):
        added = start - trace.embeddings
        grids += [here.grid("positions", added, rows), here.grid("inputs", start, rows)]
        about += " A vector for its position is added, or the order of the words would be lost."
        formula, tex = "inputs = embeddings + positions", r"X = E + P"
        written = sums.inputs(here, trace.embeddings, added, start)
    if here.layer.read is not None:
        other = token_axis("token", trace.keys)
        grids.append(here.grid("vectors of the keys", here.layer.read, other))
        about += " Keys and values are made of other tokens, which have vectors, too."
    width = trace.embeddings.shape[1]
    table = trace.vocabulary
    return Section(
        "2", "embeddings", "embeddings", about,
        shapes=f"embeddings {here.size(trace.embeddings)}", formula=formula, tex=tex,
        grids=tuple(grids), sums=written,
        remarks=(f"a table for all {table:,} ids would have {table:,} × {width} = "
                 f"{table * width:,} numbers to learn",) if table else (),
    )  # fmt: skip


def projections(here: Scene) -> Iterator[Section]:
    matrices = here.layer.projections
    made = _made_by(here, matrices)
    if matrices is None or not made:
        yield Section("3", "projections", "projections", _no_matrices(here))
        return
    kinds = {"w_query": "a query (what it asks for)", "w_key": "a key (what it is found by)",
             "w_value": "a value (what it hands on)"}  # fmt: skip
    makes = ", ".join(words for name, words in kinds.items() if name in made)
    yield Section(
        "3", "projections", "projections",
        f"What a vector is multiplied with to become {makes}. {_origin(here, made)}",
        shapes=" · ".join(f"{name} {here.size(each)}" for name, each in made.items()),
        grids=tuple(here.matrix(name, each) for name, each in made.items()),
        remarks=(count_of(made),),
    )  # fmt: skip


def _made_by(here: Scene, matrices: Projections | None) -> dict[str, Tensor]:
    """The matrices and biases that are there, but for those that join the heads."""
    names = ("w_query", "w_key", "w_value", "b_query", "b_key", "b_value")
    found = {name: getattr(matrices, name, None) for name in names}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _no_matrices(here: Scene) -> str:
    if here.trace.variant.projected:
        return "There are none to use: queries, keys and values, or the scores, are given."
    compared = "compared, and mixed" if here.trace.variant.compared else "mixed"
    return (
        f"There are none: in '{here.trace.variant.name}' attention the embeddings themselves are "
        f"{compared}."
    )


def _origin(here: Scene, made: dict[str, Tensor]) -> str:
    drawn = [name for name in made if name not in here.layer.given]
    if not drawn:
        return "They are given."
    if len(drawn) < len(made):
        return f"{', '.join(drawn)} drawn from a seed, the others given."
    return "Here they are drawn from a seed; training would learn them."


def vectors(here: Scene) -> Iterator[Section]:
    layer, trace = here.layer, here.trace
    before = layer.unturned or layer
    compared = trace.variant.compared
    kinds = {"queries": before.queries, "keys": before.keys} if compared else {}
    made = {name: each for name, each in kinds.items() if each is not None}
    made |= {"values": layer.values}
    formula, tex = _made_of(here, [*made])
    heads = f" Neighbouring columns go to each of {layer.heads} heads." if layer.heads > 1 else ""
    axes = {"queries": trace.tokens, "keys": here.keys, "values": here.keys}
    yield Section(
        "4", "queries", ", ".join(made), _about_vectors([*made]) + heads,
        shapes=" · ".join(f"{name} {here.size(each)}" for name, each in made.items()),
        formula=formula, tex=tex,
        grids=tuple(
            grid for name, each in made.items()
            for grid in here.heads(name, each, token_axis(name.rstrip("s"), axes[name]),
                                   followed=name == "queries")
        ),
        sums=sums.vectors(here, layer, made),
    )  # fmt: skip


def _about_vectors(made: list[str]) -> str:
    if made == ["values"]:
        return "Each token hands on its value."
    return "Each token asks with its query, is found by its key, and hands on its value."


def _made_of(here: Scene, names: list[str]) -> tuple[str, str]:
    """What vectors are made of, for terminal and Markdown: `Q = X W_query + b_query`."""
    layer, matrices = here.layer, here.layer.projections
    if matrices is None or not _made_by(here, matrices):
        own = not here.trace.variant.projected and not layer.given & {*names}
        return (f"{' = '.join(name[0].upper() for name in names)} = X", "") if own else ("", "")
    source = {"query": "X", "key": "M", "value": "M"} if layer.memory is not None else {}
    parts, texs = [], []
    for name in (name for name in ("query", "key", "value")
                 if getattr(matrices, f"w_{name}") is not None):  # fmt: skip
        read, letter = source.get(name, "X"), name[0]
        bias = getattr(matrices, f"b_{name}") is not None
        parts.append(f"{letter.upper()} = {read} W_{name}" + (f" + b_{name}" if bias else ""))
        texs.append(f"{letter.upper()} = {read} W_{letter}" + (f" + b_{letter}" if bias else ""))
    return " · ".join(parts), r" \quad ".join(texs)


def rotary(here: Scene) -> Iterator[Section]:
    layer, trace = here.layer, here.trace
    if layer.unturned is None or layer.queries is None or layer.keys is None:
        return
    yield Section(
        "4b", "rotary", "rotary positions",
        "Each two neighbouring numbers of a query or a key are turned by an angle that grows with "
        "the position: a score then hangs on how far two tokens are apart.",
        shapes=f"queries {here.size(layer.queries)} · keys {here.size(layer.keys)}",
        formula="pair i at position p turns by p / 10000^(2i/d_k)",
        tex=r"\theta_{p,i} = p / 10000^{2i/d_k}",
        grids=(
            *here.heads("queries", layer.queries, token_axis("query", trace.tokens), followed=True),
            *here.heads("keys", layer.keys, token_axis("key", here.keys)),
        ),
        sums=sums.turned(here, layer),
    )  # fmt: skip


def scores(here: Scene) -> Iterator[Section]:
    layer, trace = here.layer, here.trace
    made = layer.attended.scores
    compared = trace.variant.compared and layer.queries is not None
    shapes = f"scores {here.size(made)}"
    if compared and layer.queries is not None and layer.keys is not None:
        shapes = (f"queries {here.size(layer.queries)} · keysᵀ "
                  f"{here.size(layer.keys.transpose(-2, -1))} → {shapes}")  # fmt: skip
    yield Section(
        "5", "scores", "scores", _about_scores(here), shapes=shapes,
        formula="scores = Q Kᵀ" if compared else "", tex=r"S = Q K^\top" if compared else "",
        grids=here.scores("scores", made, "row = query (reads) · column = key (is read)"),
        sums=sums.scores(here, layer) if compared else (),
    )  # fmt: skip


def _about_scores(here: Scene) -> str:
    if not here.trace.variant.compared:
        return "Nothing is compared: every score is 0."
    if here.layer.queries is None:
        return "The scores are given: how well each query matches each key."
    return (
        "Each query is multiplied with each key, number by number, and the products are added: "
        "the larger the score, the better the two match."
    )


def scaling(here: Scene) -> Iterator[Section]:
    layer, variant = here.layer, here.trace.variant
    about = "Scores stay as they are: nothing scales them."
    if variant.temperature != 1:
        about = f"Scores are divided by the temperature, here {variant.temperature:g}."
    if variant.scaled:
        about = (
            f"Scores are divided by √d_k, here √{layer.head_dim}: sums of more products are "
            "larger, and the softmax would give nearly everything to the largest."
        )
        if variant.temperature != 1:
            about += f" The temperature divides them, too, here by {variant.temperature:g}."
    divisors = sums.divisors(here, layer)
    yield Section(
        "6", "scaling", "scaling", about,
        shapes=f"scores {here.size(layer.attended.scores)}",
        formula=f"scaled = {' / '.join(['scores', *divisors])}" if divisors else "",
        tex=_scaling_in_tex(here, layer),
        grids=here.scores("scaled scores", layer.attended.scaled_scores)
        if divisors else (),
        sums=sums.scaling(here, layer) if divisors else (),
    )  # fmt: skip


def _scaling_in_tex(here: Scene, layer: Layer) -> str:
    variant = here.trace.variant
    below = [rf"\sqrt{{{layer.head_dim}}}"] if variant.scaled else []
    below += [f"{variant.temperature:g}"] if variant.temperature != 1 else []
    divisor = r" \cdot ".join(below)
    return rf"\frac{{S}}{{{divisor}}}" if below else ""


def alibi(here: Scene) -> Iterator[Section]:
    layer = here.layer
    if layer.attended.bias is None:
        return
    yield Section(
        "6b", "alibi", "ALiBi",
        "From each score something is taken for every token that lies between the two: what is "
        "far away counts less, in each head by another slope.",
        shapes=f"scores {here.size(layer.attended.logits)}",
        formula="biased = scaled - slope · distance", tex=r"S_{ij} - m\,|i - j|",
        grids=here.scores("biased scores", layer.attended.logits),
        sums=sums.alibi(here, layer),
    )  # fmt: skip


def mask(here: Scene) -> Iterator[Section]:
    layer = here.layer
    hides = not bool(layer.visible.all())
    if layer.mistake and not MISTAKES[layer.mistake].masked:
        yield _not_masked(here)
        return
    yield Section(
        "7", "mask", "mask", _about_mask(here, hides),
        shapes=f"visible {sized(*layer.visible.shape)}",
        formula="what is hidden becomes −∞, for exp(−∞) = 0" if hides else "",
        tex=r"S_{ij} = -\infty \text{ where } j \text{ is hidden from } i" if hides else "",
        grids=here.scores("masked scores", layer.attended.logits, masked=True) if hides else (),
        sums=sums.mask(here, layer),
    )  # fmt: skip


def _not_masked(here: Scene) -> Section:
    """Where a mistake leaves out −∞, the scores as they go into the softmax."""
    layer, mistake = here.layer, MISTAKES[here.layer.mistake]
    numbers = mistake.numbers(layer.attended.logits, layer.visible, ratio_of(layer))
    return Section(
        "7", "mask", "mask", f"✗ A mistake: {mistake.about}.",
        shapes=f"visible {sized(*layer.visible.shape)}",
        grids=here.scores("✗ masked scores", numbers),
    )  # fmt: skip


def _about_mask(here: Scene, hides: bool) -> str:
    made = here.trace.provenance.settings
    if made["causal"] == "given":
        return "What each token may read is given."
    if not hides:
        return "Every token may read every other: nothing is hidden."
    about = []
    if made["causal"]:
        about.append("No token may read the ones after it, as when a text is written.")
    if made["window"]:
        about.append(f"A token reads only what is less than {made['window']} places away.")
    return " ".join(about)


def softmax(here: Scene) -> Iterator[Section]:
    layer = here.layer
    mistake = MISTAKES.get(layer.mistake)
    about = (
        "Each row of scores becomes shares: exp of each over the sum of all in the row. "
        "A row sums to 1."
    )
    yield Section(
        "8", "softmax", "softmax", f"✗ A mistake: {mistake.about}." if mistake else about,
        shapes=f"weights {here.size(layer.attended.weights)}",
        formula="" if mistake else "weight = exp(score) / sum of exp(scores in its row)",
        tex="" if mistake else r"w_{ij} = \frac{e^{S_{ij}}}{\sum_k e^{S_{ik}}}",
        grids=here.weights(layer.attended.weights, "mistake" if mistake else "softmax"),
        sums=sums.softmax(here, layer),
    )  # fmt: skip


def mixing(here: Scene) -> Iterator[Section]:
    """What takes the place of the weights: what dropout leaves, or weights by hand."""
    attended, p = here.layer.attended, here.trace.variant.dropout
    if attended.mixed_by == "softmax":
        return
    dropped = attended.mixed_by == "dropout"
    about = "Weights that were written by hand take the place of the softmax's."
    if dropped:
        about = (
            "In training some weights are zeroed, so that no token is relied on; the others are "
            f"divided by 1 - {p:g}, so that the sums stay about the same."
        )
    yield Section(
        "8b", "dropout" if dropped else "by-hand", "dropout" if dropped else "weights by hand",
        about, shapes=f"weights {here.size(attended.mixing)}",
        grids=here.weights(attended.mixing, attended.mixed_by),
        sums=sums.dropout(here, here.layer) if dropped else (),
    )  # fmt: skip


def weighted(here: Scene) -> Iterator[Section]:
    """For one query, since there is a table for each: the one followed, or the last."""
    layer, row = here.layer, here.followed
    made = attention.weighted(layer.attended.mixing[:, row], layer.values)
    name = here.name(here.trace.tokens, row)
    other = "" if here.walk.query is not None else " (--query follows another)"
    yield Section(
        "9", "weighted", "weighted values",
        f"Each value is multiplied with its weight: what {name} takes from each token{other}.",
        shapes=f"values {here.size(layer.values)} → weighted {here.size(made)}",
        formula=f"weighted = weights of {name} · V", tex=r"w_{ij} \, v_j",
        grids=here.heads("weighted values", made, token_axis("key", here.keys), scale="weighted"),
        sums=sums.weighted(here, layer, made) if here.walk.query is not None else (),
    )  # fmt: skip


def context(here: Scene) -> Iterator[Section]:
    layer, matrices = here.layer, here.layer.projections
    contexts = layer.attended.contexts
    rows = token_axis("query (reads)", here.trace.tokens)
    grids = here.heads("context vectors", contexts, rows, followed=True)
    about = "The weighted values are added up: the context vector, all that a token has read."
    formula, tex = "context = weights · V", "Z = W V"
    remarks: tuple[str, ...] = ()
    if layer.heads > 1:
        about += " The heads' vectors then stand side by side."
        joined = attention.join_heads(contexts)
        grids += (here.grid("joined heads", joined, rows, followed=True),)
    if matrices is not None and matrices.w_out is not None:
        about += " A last matrix mixes what stands in them."
        last = {"w_out": matrices.w_out}
        last |= {"b_out": matrices.b_out} if matrices.b_out is not None else {}
        grids += tuple(here.matrix(name, each) for name, each in last.items())
        grids += (here.grid("output", layer.context, rows, followed=True),)
        plus = " + b_out" if len(last) > 1 else ""
        formula += f" · output = {'joined' if layer.heads > 1 else 'context'} W_out{plus}"
        tex, remarks = r"Z W_o" + (" + b_o" if plus else ""), (count_of(last),)
    yield Section(
        "10", "context", "context vectors", about,
        shapes=f"weights {here.size(layer.attended.mixing)} · values {here.size(layer.values)} → "
        f"context {here.size(contexts)}",
        formula=formula, tex=tex,
        grids=grids, sums=sums.context(here, layer), remarks=remarks,
    )  # fmt: skip


def norm_before(here: Scene, around: Residual, number: str, name: str) -> Section:
    """LayerNorm of what a sub-layer reads, in a pre-norm block."""
    rows = token_axis("token", here.trace.tokens)
    return Section(
        number, name, "LayerNorm",
        "Each vector is moved to a mean of 0 and stretched to a variance of 1, so that what is "
        "read next is neither small nor large.",
        shapes=f"normed {here.size(around.read)}",
        formula="normed = (x - mean) / √(variance + 1e-05)",
        tex=r"\frac{x - \mu}{\sqrt{\sigma^2 + 10^{-5}}}",
        grids=(here.grid("normed", around.read, rows, followed=True),),
        sums=sums.normed(here, around.inputs, around.read),
        remarks=(f"gain and shift: 2 × {around.inputs.shape[1]} = "
                 f"{2 * around.inputs.shape[1]:,} numbers to learn",),
    )  # fmt: skip


OWN: tuple[Callable[[Scene], Iterator[Section]], ...] = (
    tokens, inputs, projections, vectors, rotary, scores, scaling, alibi, mask, softmax, mixing,
    weighted, context,
)  # fmt: skip
