"""The first four steps: tokens, vectors, matrices, and queries, keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from torch import Tensor

from attnviz.traces import parts
from attnviz.traces.origin import resolved_settings
from attnviz.traces.settings import ADDED_POSITIONS
from attnviz.traces.trace import GIVEN_LABEL, Layer
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import (
    JOINED_TABLES,
    SEPARATE_TABLES,
    Section,
    Stages,
    with_sign_between,
)
from attnviz.views.origin_words import (
    dimension_names,
    embedding_table_note,
    parameters_origin_text,
)
from attnviz.views.reading import token_axis
from attnviz.views.steps import step_sums, trained
from attnviz.views.steps.scene import Scene, embedding_table_remarks, parameter_count_text
from attnviz.views.steps.step_selection import STEPS
from attnviz.views.trace import tokens_grid
from attnviz.wording.sums import MAX_TERMS
from attnviz.wording.words import and_list, bracketed_shape, counted

SINGULAR_KINDS = {"queries": "query", "keys": "key", "values": "value"}
NORMED_INPUTS = "normed"  # instead of X in formulas of a pre-norm block
TEX_NAMES = {NORMED_INPUTS: r"\hat X"}
MATRIX_PURPOSES = {
    "w_query": "a query (what it looks for)",
    "w_key": "a key (what it is found by)",
    "w_value": "a value (what it passes on)",
}


def tokens_step(scene: Scene) -> Iterator[Section]:
    about = "The text is split into tokens, each with an id; nothing else of the text is used."
    if scene.trace.tokenizer == GIVEN_LABEL:
        about = "The tokens are given or numbered; a repeated word keeps its id."
    about += trained.added_tokens_text(scene.trace)
    yield Section(
        *STEPS["tokens"],
        about=about,
        shapes=f"tokens {bracketed_shape(len(scene.trace.tokens))}",
        grids=(tokens_grid("tokens", scene.trace.tokens, "token"),),
    )


def inputs_step(scene: Scene) -> Iterator[Section]:
    """Yield the step with embeddings and positions; above the first layer, the layer's input.

    If nothing is computed from embeddings, because parts were given, it states that.
    """
    layer = scene.layer
    if scene.trace.trained is not None:
        yield trained.trained_inputs_step(scene)
    elif layer.layer:
        yield _lower_layer_step(scene)
    elif not layer.uses_inputs and layer.block is None:
        yield Section(
            *STEPS["embeddings"],
            about="No embeddings are needed: everything computed from them is given.",
        )
    else:
        yield _embeddings_step(scene)


def _lower_layer_step(scene: Scene) -> Section:
    """Return the step with the output of the layer below."""
    inputs = scene.layer.layer_inputs
    return Section(
        *STEPS["inputs"],
        about=f"The output of layer {scene.layer.layer - 1} for each token.",
        shapes=f"inputs {scene.size_text(inputs)}",
        grids=(scene.grid("inputs", inputs, token_axis("token", scene.trace.tokens)),),
    )


def _embeddings_step(scene: Scene) -> Section:
    """Return the step with embeddings, added positions, and vectors of other tokens for keys."""
    trace, rows = scene.trace, token_axis("token", scene.trace.tokens)
    grids = [scene.grid("embeddings", trace.embeddings, rows)]
    about = _embeddings_description(scene)
    are_positions_given = "positions" in scene.layer.given
    has_positions = are_positions_given or trace.positions in ADDED_POSITIONS
    if has_positions:
        inputs = scene.layer.layer_inputs
        grids.append(scene.grid("positions", inputs - trace.embeddings, rows))
        grids.append(scene.grid("inputs", inputs, rows))
        # "given"; or for a model "learned" or "written by hand"
        origin = f"{parameters_origin_text(trace).partition(' ')[2]} " * are_positions_given
        about += (
            f" A {origin}vector for the position is added, so a token differs from position to "
            "position."
        )
    other_kinds = _kinds_from_other_tokens(scene)
    if scene.layer.key_inputs is not None and other_kinds:
        keys_axis = token_axis("token", trace.keys)
        grids.append(scene.grid("vectors of the keys", scene.layer.key_inputs, keys_axis))
        keys_origin = "given vectors" if "key_embeddings" in scene.layer.given else "vectors"
        about += f" {other_kinds} are computed from other tokens, whose {keys_origin} are Y."
    return Section(
        *STEPS["embeddings"],
        about=about,
        shapes=f"embeddings {scene.size_text(trace.embeddings)}",
        formula="inputs = embeddings + positions" if has_positions else "",
        tex=r"X = E + P" if has_positions else "",
        grids=tuple(grids),
        sums=step_sums.input_sums(scene) if has_positions else (),
        remarks=embedding_table_remarks(scene),
    )


def _embeddings_description(scene: Scene) -> str:
    """Return what embeddings are, and whether they were given, learned or written by hand."""
    trace = scene.trace
    about = trained.EMBEDDING_DESCRIPTION
    if "embeddings" in scene.layer.given:
        about = "Each token has a row of numbers, its embedding. They are given."
    if trace.model is not None:
        about += f" They {parameters_origin_text(trace)}."
    about += embedding_table_note(trace)
    if dimension_names(trace, scene.layer, "dim"):
        about += " The column headings say what each number means."
    return about


def _kinds_from_other_tokens(scene: Scene) -> str:
    """Return `Keys and values`, or the one that is not given; empty if both are given."""
    parts = scene.layer.given
    kinds = ["keys"] * (not {"keys", "scores"} & parts) + ["values"] * ("values" not in parts)
    return " and ".join(kinds).capitalize()


def projections_step(scene: Scene) -> Iterator[Section]:
    """Yield the step with the matrices of queries, keys and values, or why there are none."""
    matrices = projection_matrices(scene)
    if not matrices:
        about = _no_matrices_text(scene)
        yield Section(*STEPS["projections"], about=about)
        return
    origin = _matrices_origin_text(scene, matrices)
    if scene.trace.trained is not None:
        origin = f"{origin} {trained.unknown_origin_text(scene.layer, [*SINGULAR_KINDS])}".rstrip()
    purposes = [words for name, words in MATRIX_PURPOSES.items() if name in matrices]
    subject = "This matrix turns" if len(purposes) == 1 else "These matrices turn"
    about = f"{subject} a vector into {and_list(purposes)}. " if purposes else ""
    if "w_score" in matrices:
        about += "w_score turns the sum of a query and a key into a score. "
    yield Section(
        *STEPS["projections"],
        about=f"{about}{origin}",
        shapes=" · ".join(f"{name} {scene.size_text(matrix)}" for name, matrix in matrices.items()),
        grids=tuple(grid for pair in matrices.items() for grid in _matrix_grids(scene, *pair)),
        remarks=(parameter_count_text(scene, matrices),),
    )


def _matrix_grids(scene: Scene, name: str, matrix: Tensor) -> Iterator[Grid]:
    """Yield a table of the matrix; one per shown head if its columns have names.

    In a trained model with --head, only the columns of that head.
    """
    if scene.trace.trained is not None and scene.options.head is not None:
        yield trained.trained_head_matrix_grid(scene, name, matrix, scene.options.head)
        return
    width_names = dimension_names(scene.trace, scene.layer, "width")
    if not width_names or scene.layer.heads == 1:
        yield scene.matrix_grid(name, matrix)
        return
    width = matrix.shape[-1] // scene.layer.heads
    for head in scene.shown_heads:
        yield scene.head_matrix_grid(name, matrix[..., head * width : (head + 1) * width], head)


def projection_matrices(scene: Scene) -> dict[str, Tensor]:
    """Return the layer's matrices and biases by name, except those that join the heads."""
    learned = parts.learned_tensors(scene.trace, scene.layer)
    return {name: matrix for name, matrix in learned.items() if not name.endswith("_out")}


def _no_matrices_text(scene: Scene) -> str:
    """Return why there are no matrices: none are used, parts are given, or they are unknown."""
    variant, given_parts = scene.trace.variant, scene.layer.given
    if scene.trace.trained is not None:
        return trained.unknown_origin_text(scene.layer, [*SINGULAR_KINDS])
    is_compared = variant.compared and not {"queries", "keys", "scores"} & given_parts
    verbs = [*["compares"] * is_compared, *["mixes"] * ("values" not in given_parts)]
    if variant.projected or not verbs:
        return "No matrices are needed: queries, keys and values, or the scores, are given."
    subject = f"'{variant.name}' attention"
    return f"There are no matrices: {subject} {and_list(verbs)} the vectors themselves."


def _matrices_origin_text(scene: Scene, matrices: Mapping[str, Tensor]) -> str:
    """Return which of the matrices are random, given or learned."""
    random_names = [name for name in matrices if name not in scene.layer.given]
    is_single, given_count = len(matrices) == 1, len(matrices) - len(random_names)
    if not random_names:
        origin = parameters_origin_text(scene.trace, is_plural=not is_single)
        return f"{'It' if is_single else 'They'} {origin}."
    if given_count:
        verb = "is" if len(random_names) == 1 else "are"
        others = "other is" if given_count == 1 else "others are"
        return f"{and_list(random_names)} {verb} random (set by the seed); the {others} given."
    subject, pronoun = ("it is", "it") if is_single else ("they are", "them")
    return f"Here {subject} random (set by the seed); training would learn {pronoun}."


def vectors_step(scene: Scene) -> Iterator[Section]:
    """Yield the step with queries, keys and values, before rotary positions turn them.

    Only values if the variant compares no queries with keys.
    """
    layer = scene.layer
    before = layer.before_rotary or layer
    is_compared = scene.trace.variant.compared
    compared = {"queries": before.queries, "keys": before.keys} if is_compared else {}
    vectors = {kind: tensor for kind, tensor in compared.items() if tensor is not None}
    vectors |= {"values": layer.values}
    kinds = [*vectors]
    formula, tex = _vector_formulas(scene, kinds)
    grids = [_head_vector_grids(scene, *pair) for pair in vectors.items()]
    about = "Each token searches with its query, is found by its key, and passes on its value."
    if kinds == ["values"]:
        about = "Each token passes on its value."
    yield Section(
        number="4",
        name="queries",
        title=", ".join(kinds),
        about=f"{about}{_head_columns_text(layer, kinds)}{_shared_heads_text(layer)}",
        shapes=" · ".join(f"{kind} {scene.size_text(each)}" for kind, each in vectors.items()),
        formula=formula,
        tex=tex,
        grids=tuple(chain.from_iterable(grids)),
        sums=step_sums.vector_sums(scene, layer, vectors),
        stages=_head_split_stages(scene, [*map(len, grids)]),
    )


def _shared_heads_text(layer: Layer) -> str:
    """State how many heads share keys and values; empty if none do."""
    group_size = layer.heads // layer.kv_heads
    if group_size == 1:
        return ""
    heads_text = f"All {group_size}" if layer.kv_heads == 1 else f"Every {group_size} adjacent"
    verb = "is" if layer.kv_heads == 1 else "are"
    head_count_text = counted(layer.kv_heads, "key-value head")
    return f" {heads_text} heads share keys and values: there {verb} {head_count_text}."


def _head_columns_text(layer: Layer, names: Sequence[str]) -> str:
    """State how projected vectors are split between heads; empty for one head or given vectors."""
    projected_names = [name for name in names if name not in layer.given]
    if layer.heads == 1 or not projected_names:
        return ""
    kinds_text = f" of {and_list(projected_names)}" if len(projected_names) < len(names) else ""
    return f" Each of the {layer.heads} heads gets its own block of adjacent columns{kinds_text}."


def _head_split_stages(scene: Scene, counts: Sequence[int]) -> Stages:
    """Lay out the columns of all heads joined, then split: one line of tables per kind of vector.

    `counts` holds the number of tables of each kind. Empty for one head, or if any has no own
    table.
    """
    heads = scene.layer.heads
    if heads == 1 or any(count < heads for count in counts):
        return ()
    lines = []
    for start in range(0, heads * len(counts), heads):
        tables = range(start, start + heads)
        joined = with_sign_between(tables, JOINED_TABLES)
        lines.append((*joined, "→", *with_sign_between(tables, SEPARATE_TABLES)))
    return tuple(lines)


def _head_vector_grids(scene: Scene, name: str, vectors: Tensor) -> tuple[Grid, ...]:
    """Return a table of the vectors `name`, such as 'keys', per shown head.

    Of queries only the followed one, if any.
    """
    queries = name == "queries"
    rows = token_axis(SINGULAR_KINDS[name], scene.trace.tokens if queries else scene.keys)
    side = "head_value" if name == "values" else "width"
    return scene.head_grids(name, vectors, rows, side=side, followed=queries)


def _vector_formulas(scene: Scene, names: list[str]) -> tuple[str, str]:
    """Return the formulas as plain text and in TeX: `Q = X W_query + b_query`.

    Without matrices, the plain text is `Q = K = V = X` or empty, and there is no TeX.
    """
    projections, (queries_input, keys_input) = scene.layer.projections, _input_names(scene.layer)
    if projections is None or not projection_matrices(scene):
        return _unprojected_formula(scene, names), ""
    plain, tex = [], []
    for name in ("query", "key", "value"):
        if getattr(projections, f"w_{name}") is None:
            continue
        letter, input_name = name[0], queries_input if name == "query" else keys_input
        input_tex = TEX_NAMES.get(input_name, input_name)
        has_bias = getattr(projections, f"b_{name}") is not None
        plain.append(f"{letter.upper()} = {input_name} W_{name}{f' + b_{name}' * has_bias}")
        tex.append(f"{letter.upper()} = {input_tex} W_{letter}{f' + b_{letter}' * has_bias}")
    return " · ".join(plain), r" \quad ".join(tex)


def _unprojected_formula(scene: Scene, names: Sequence[str]) -> str:
    """Return `Q = K = V = X` for vectors without projection; empty for projected or given ones."""
    if scene.trace.variant.projected or scene.layer.given & {*names}:
        return ""
    queries_input, keys_input = _input_names(scene.layer)
    letters: dict[str, list[str]] = {}  # by input
    for name in names:
        input_name = queries_input if name == "queries" else keys_input
        letters.setdefault(input_name, []).append(name[0].upper())
    return " · ".join(" = ".join([*each, input_name]) for input_name, each in letters.items())


def _input_names(layer: Layer) -> tuple[str, str]:
    """Return the inputs' names for queries, and for keys and values: `X`, `Y`, `M`, `normed`."""
    if layer.memory is not None:
        return "X", "M"
    is_pre_norm = layer.block is not None and layer.block.norm_placement == "pre"
    own_input = NORMED_INPUTS if is_pre_norm else "X"
    return own_input, own_input if layer.key_inputs is None else "Y"


def rotary_step(scene: Scene) -> Iterator[Section]:
    """Yield the step with the rotated queries and keys; nothing without rotary positions.

    A rotation by no known formula is described without formula and arithmetic.
    """
    layer = scene.layer
    if layer.before_rotary is None or layer.queries is None or layer.keys is None:
        return
    queries = token_axis("query", scene.trace.tokens)
    own_description = trained.own_rotation_text(scene.trace)
    base = f"{resolved_settings(scene.trace.origin).position_base:.15g}"
    formula = f"pair i at position p is rotated by (p - 1) / {base}^(2(i - 1)/d_k)"
    tex = rf"\theta_{{p,i}} = (p - 1) / {base}^{{2(i - 1)/d_k}}"
    yield Section(
        *STEPS["rotary"],
        about=own_description or _rotation_description(scene),
        shapes=f"queries {scene.size_text(layer.queries)} · keys {scene.size_text(layer.keys)}",
        formula="" if own_description else formula,
        tex="" if own_description else tex,
        grids=(
            *scene.head_grids("queries", layer.queries, queries, side="width", followed=True),
            *scene.head_grids("keys", layer.keys, token_axis("key", scene.keys), side="width"),
        ),
        sums=() if own_description else step_sums.rotation_sums(scene, layer),
        remarks=() if own_description else _unwritten_pairs_note(scene),
    )


def _rotation_description(scene: Scene) -> str:
    """Return which numbers are rotated as a pair, adjacent ones or those half a vector apart, and
    by how much.
    """
    pair = "adjacent numbers of a query or a key"
    if scene.trace.positions == "rotary-halves":
        half = scene.layer.head_dim // 2
        pair = f"numbers i and i + {half} of a query or a key (the order of Hugging Face's models)"
    return (
        f"Each pair of {pair} is rotated by an angle that grows with the position and is 0 at the "
        "first: positions then affect a score only through the distance of its two tokens."
    )


def _unwritten_pairs_note(scene: Scene) -> tuple[str, ...]:
    """Return a note on how many rotated pairs are written out; empty if all are or none."""
    pairs = scene.layer.head_dim // 2
    if scene.options.query is None or scene.options.full or pairs <= MAX_TERMS:
        return ()
    return (f"written out: the first {MAX_TERMS} of {pairs} pairs", "--full writes out everything")
