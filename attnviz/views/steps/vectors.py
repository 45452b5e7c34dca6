"""The first four steps: tokens, their vectors, and the queries, keys and values made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from attnviz.traces import parts
from attnviz.traces.origin import decided
from attnviz.traces.settings import ADDED
from attnviz.traces.trace import GIVEN, Layer, Projections
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import APART, JOINED, Section, Stages, parted
from attnviz.views.origin_words import are_given, names_of, of_a_table, to_learn
from attnviz.views.reading import token_axis
from attnviz.views.steps import sums, trained
from attnviz.views.steps.scene import Scene, count_of
from attnviz.views.trace import tokens_grid
from attnviz.wording.sums import TERMS
from attnviz.wording.words import counted, in_brackets, listed

VECTORS = ("queries", "keys", "values")
ONE_OF = {"queries": "query", "keys": "key", "values": "value"}
NORMED = "normed"  # in place of X in a pre-norm block
TEX = {NORMED: r"\hat X"}
MAKES = {
    "w_query": "a query (what it looks for)",
    "w_key": "a key (what it is found by)",
    "w_value": "a value (what it passes on)",
}


def tokens(here: Scene) -> Iterator[Section]:
    """What the text is split into."""
    about = "The text is split into tokens, each with an id; nothing else of the text is used."
    if here.trace.tokenizer == GIVEN:
        about = "The tokens are given or numbered; a repeated word keeps its id."
    about += trained.about_tokens(here.trace)
    yield Section(
        number="1",
        name="tokens",
        title="tokens",
        about=about,
        shapes=f"tokens {in_brackets(len(here.trace.tokens))}",
        grids=(tokens_grid("tokens", here.trace.tokens, "token"),),
    )


def inputs(here: Scene) -> Iterator[Section]:
    """Embeddings and positions; in a layer above the first, the output of the one below."""
    layer = here.layer
    if here.trace.trained is not None:
        yield trained.inputs(here)
    elif layer.layer:
        yield _from_below(here)
    elif not layer.from_inputs and layer.block is None:
        yield Section(
            number="2",
            name="embeddings",
            title="embeddings",
            about="No embeddings are needed: everything computed from them is given.",
        )
    else:
        yield _embeddings(here)


def _from_below(here: Scene) -> Section:
    entering = here.layer.entering
    return Section(
        number="2",
        name="inputs",
        title="inputs",
        about=f"The output of layer {here.layer.layer - 1} for each token.",
        shapes=f"inputs {here.size(entering)}",
        grids=(here.grid("inputs", entering, token_axis("token", here.trace.tokens)),),
    )


def _embeddings(here: Scene) -> Section:
    trace, rows = here.trace, token_axis("token", here.trace.tokens)
    grids = [here.grid("embeddings", trace.embeddings, rows)]
    about = _about_embeddings(here)
    given = "positions" in here.layer.given
    placed = given or trace.positions in ADDED
    if placed:
        added, entering = here.layer.entering - trace.embeddings, here.layer.entering
        grids += [here.grid("positions", added, rows), here.grid("inputs", entering, rows)]
        which = f"{_how_given(here)} vector" if given else "vector"
        about += (
            f" A {which} for the position is added, so a token differs from position to position."
        )
    others = _of_other_tokens(here)
    if here.layer.key_inputs is not None and others:
        other = token_axis("token", trace.keys)
        grids.append(here.grid("vectors of the keys", here.layer.key_inputs, other))
        whose = "given vectors" if "key_embeddings" in here.layer.given else "vectors"
        about += f" {others} are computed from other tokens, whose {whose} are Y."
    return Section(
        number="2",
        name="embeddings",
        title="embeddings",
        about=about,
        shapes=f"embeddings {here.size(trace.embeddings)}",
        formula="inputs = embeddings + positions" if placed else "",
        tex=r"X = E + P" if placed else "",
        grids=tuple(grids),
        sums=sums.inputs(here) if placed else (),
        remarks=_table_of_embeddings(here),
    )


def _about_embeddings(here: Scene) -> str:
    trace = here.trace
    about = trained.EMBEDDING
    if "embeddings" in here.layer.given:
        about = "Each token has a row of numbers, its embedding. They are given."
    if trace.model is not None:
        about += f" They {are_given(trace)}."
    about += of_a_table(trace)
    if names_of(trace, here.layer, "dim"):
        about += " The column headings say what each number means."
    return about


def _how_given(here: Scene) -> str:
    """`given`; or for a model `learned` or `written by hand`."""
    return are_given(here.trace).partition(" ")[2]


def _of_other_tokens(here: Scene) -> str:
    """What is computed from the other tokens that are read; empty if all of it is given."""
    given = here.layer.given
    found = [] if {"keys", "scores"} & given else ["keys"]
    found += [] if "values" in given else ["values"]
    return " and ".join(found).capitalize()


def _table_of_embeddings(here: Scene) -> tuple[str, ...]:
    ids, width = here.trace.vocabulary, here.trace.embeddings.shape[1]
    if not ids:
        return ()
    numbers = f"{ids:,} × {width} = {ids * width:,} numbers {to_learn(here.trace)}"
    if here.trace.model is not None:
        return (f"the table for all {ids:,} words has {numbers}",)
    return (f"a table for all {ids:,} ids would have {numbers}",)


def projections(here: Scene) -> Iterator[Section]:
    """The matrices that make queries, keys and values."""
    made_by = matrices_of(here)
    if not made_by:
        yield Section(number="3", name="projections", title="projections", about=_no_matrices(here))
        return
    origin = _origin(here, made_by)
    if here.trace.trained is not None:
        origin = f"{origin} {trained.unknown_origin(here.layer, VECTORS)}".rstrip()
    makes = [words for name, words in MAKES.items() if name in made_by]
    these = "This matrix turns" if len(makes) == 1 else "These matrices turn"
    about = f"{these} a vector into {listed(makes)}. " if makes else ""
    if "w_score" in made_by:
        about += "w_score turns the sum of a query and a key into a score. "
    yield Section(
        number="3",
        name="projections",
        title="projections",
        about=f"{about}{origin}",
        shapes=" · ".join(f"{name} {here.size(each)}" for name, each in made_by.items()),
        grids=tuple(grid for name, each in made_by.items() for grid in _of_heads(here, name, each)),
        remarks=(count_of(here, made_by),),
    )


def _of_heads(here: Scene, name: str, matrix: Tensor) -> Iterator[Grid]:
    """A matrix; where its columns have names, a part for each head."""
    if here.trace.trained is not None and here.asked.head is not None:
        yield trained.matrix_of_head(here, name, matrix, here.asked.head)
        return
    named = names_of(here.trace, here.layer, "width")
    if not named or here.layer.heads == 1:
        yield here.matrix(name, matrix)
        return
    width = matrix.shape[-1] // here.layer.heads
    for head in here.shown_heads:
        yield here.matrix_of_head(name, matrix[..., head * width : (head + 1) * width], head)


def matrices_of(here: Scene) -> dict[str, Tensor]:
    """The matrices and biases that are there, but for those that join the heads."""
    learned = parts.learned(here.trace, here.layer)
    return {name: each for name, each in learned.items() if not name.endswith("_out")}


def _no_matrices(here: Scene) -> str:
    variant, given = here.trace.variant, here.layer.given
    if here.trace.trained is not None:
        return trained.unknown_origin(here.layer, VECTORS)
    compared = variant.compared and not {"queries", "keys", "scores"} & given
    does = [*["compares"] * compared, *["mixes"] * ("values" not in given)]
    if variant.projected or not does:
        return "No matrices are needed: queries, keys and values, or the scores, are given."
    return (
        f"There are no matrices: '{variant.name}' attention {listed(does)} the vectors themselves."
    )


def _origin(here: Scene, made_by: Mapping[str, Tensor]) -> str:
    drawn = [name for name in made_by if name not in here.layer.given]
    alone, given = len(made_by) == 1, len(made_by) - len(drawn)
    if not drawn:
        return f"{'It' if alone else 'They'} {are_given(here.trace, several=not alone)}."
    if given:
        are, others = "is" if len(drawn) == 1 else "are", "other is" if given == 1 else "others are"
        return f"{listed(drawn)} {are} random (set by the seed); the {others} given."
    they, them = ("it is", "it") if alone else ("they are", "them")
    return f"Here {they} random (set by the seed); training would learn {them}."


def vectors(here: Scene) -> Iterator[Section]:
    """Queries, keys and values, before rotary positions turn them."""
    layer = here.layer
    before = layer.before_rotary or layer
    compared = here.trace.variant.compared
    kinds = {"queries": before.queries, "keys": before.keys} if compared else {}
    found = {name: each for name, each in kinds.items() if each is not None}
    found |= {"values": layer.values}
    formula, tex = _made_of(here, [*found])
    grids = {name: _of_each_head(here, name, each) for name, each in found.items()}
    yield Section(
        number="4",
        name="queries",
        title=", ".join(found),
        about=_about_vectors([*found]) + _parted_columns(layer, [*found]) + _about_groups(layer),
        shapes=" · ".join(f"{name} {here.size(each)}" for name, each in found.items()),
        formula=formula,
        tex=tex,
        grids=tuple(grid for each in grids.values() for grid in each),
        sums=sums.vectors(here, layer, found),
        stages=_split(here, [len(each) for each in grids.values()]),
    )


def _about_groups(layer: Layer) -> str:
    """Which heads share keys and values, where any do."""
    several = layer.heads // layer.kv_heads
    if several == 1:
        return ""
    which = f"All {several}" if layer.kv_heads == 1 else f"Every {several} adjacent"
    verb = "is" if layer.kv_heads == 1 else "are"
    count = counted(layer.kv_heads, "key-value head")
    return f" {which} heads share keys and values: there {verb} {count}."


def _parted_columns(layer: Layer, names: Sequence[str]) -> str:
    """How heads get their vectors, except those that were given for each head."""
    made = [name for name in names if name not in layer.given]
    if layer.heads == 1 or not made:
        return ""
    of = f" of {listed(made)}" if len(made) < len(names) else ""
    return f" Each of the {layer.heads} heads gets its own block of adjacent columns{of}."


def _split(here: Scene, counts: Sequence[int]) -> Stages:
    """The columns of all heads together, and cut apart, a line for each kind of vectors."""
    heads = here.layer.heads
    if heads == 1 or any(count < heads for count in counts):
        return ()
    starts = range(0, heads * len(counts), heads)
    columns = [range(start, start + heads) for start in starts]
    return tuple((*parted(each, JOINED), "→", *parted(each, APART)) for each in columns)


def _of_each_head(here: Scene, name: str, vectors: Tensor) -> tuple[Grid, ...]:
    queries = name == "queries"
    rows = token_axis(ONE_OF[name], here.trace.tokens if queries else here.keys)
    side = "head_value" if name == "values" else "width"
    return here.heads(name, vectors, rows, side=side, followed=queries)


def _about_vectors(names: list[str]) -> str:
    if names == ["values"]:
        return "Each token passes on its value."
    return "Each token searches with its query, is found by its key, and passes on its value."


def _made_of(here: Scene, names: list[str]) -> tuple[str, str]:
    """What vectors are made of, for terminal and Markdown: `Q = X W_query + b_query`."""
    projections, (asks, read) = here.layer.projections, _read(here.layer)
    if projections is None or not matrices_of(here):
        return _themselves(here, names), ""
    kinds = [name for name in ("query", "key", "value") if _matrix(projections, "w", name)]
    plain, tex = [], []
    for name in kinds:
        letter, of = name[0], asks if name == "query" else read
        bias = _matrix(projections, "b", name)
        plain.append(f"{letter.upper()} = {of} W_{name}{f' + b_{name}' if bias else ''}")
        tex.append(
            f"{letter.upper()} = {TEX.get(of, of)} W_{letter}{f' + b_{letter}' if bias else ''}"
        )
    return " · ".join(plain), r" \quad ".join(tex)


def _themselves(here: Scene, names: Sequence[str]) -> str:
    """The same where nothing is projected: `Q = K = V = X`."""
    if here.trace.variant.projected or here.layer.given & {*names}:
        return ""
    asks, read = _read(here.layer)
    of_others = [name for name in names if name != "queries" and read != asks]
    parts = [([name for name in names if name not in of_others], asks), (of_others, read)]
    return " · ".join(
        f"{' = '.join(name[0].upper() for name in each)} = {of}" for each, of in parts if each
    )


def _read(layer: Layer) -> tuple[str, str]:
    """What queries are made of, and what keys and values are."""
    own = NORMED if layer.block is not None and layer.block.place == "pre" else "X"
    if layer.memory is not None:
        return ("X", "M")
    return own, own if layer.key_inputs is None else "Y"


def _matrix(projections: Projections, kind: str, name: str) -> bool:
    return getattr(projections, f"{kind}_{name}") is not None


def rotary(here: Scene) -> Iterator[Section]:
    """Queries and keys, rotated."""
    layer = here.layer
    if layer.before_rotary is None or layer.queries is None or layer.keys is None:
        return
    queries = token_axis("query", here.trace.tokens)
    own = trained.about_turning(here.trace)
    base = f"{decided(here.trace.origin).position_base:.15g}"
    yield Section(
        number="4b",
        name="rotary",
        title="rotary positions",
        about=own or _about_turning(here),
        shapes=f"queries {here.size(layer.queries)} · keys {here.size(layer.keys)}",
        formula=""
        if own
        else f"pair i at position p is rotated by (p - 1) / {base}^(2(i - 1)/d_k)",
        tex="" if own else rf"\theta_{{p,i}} = (p - 1) / {base}^{{2(i - 1)/d_k}}",
        grids=(
            *here.heads("queries", layer.queries, queries, side="width", followed=True),
            *here.heads("keys", layer.keys, token_axis("key", here.keys), side="width"),
        ),
        sums=() if own else sums.turned(here, layer),
        remarks=() if own else _pairs_left_out(here),
    )


def _about_turning(here: Scene) -> str:
    return (
        f"{_turned_together(here)} is rotated by an angle that grows with the position and is 0 at "
        "the first: positions then affect a score only through the distance of its two tokens."
    )


def _turned_together(here: Scene) -> str:
    """Which numbers are a pair."""
    if here.trace.positions != "rotary-halves":
        return "Each pair of adjacent numbers of a query or a key"
    half = here.layer.head_dim // 2
    return (
        f"Each pair of numbers i and i + {half} of a query or a key (the order of Hugging Face's "
        "models)"
    )


def _pairs_left_out(here: Scene) -> tuple[str, ...]:
    """How many pairs of numbers are rotated without their arithmetic written out."""
    pairs = here.layer.head_dim // 2
    if here.asked.query is None or here.asked.full or pairs <= TERMS:
        return ()
    return (f"written out: the first {TERMS} of {pairs} pairs", "--full writes out everything")
