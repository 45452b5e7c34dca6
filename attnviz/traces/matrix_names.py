"""Names of matrices in files: `layers.1.w_query`, and what other libraries call them.

Layers count from 0, and `layers.0.w_query` is `w_query`. TOML may have a table for each layer
(`[layers.1]`, or `[[layers]]` for all in order), JSON an object or a list; NumPy and safetensors
have the full name. Needs no torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from attnviz.errors import AttnvizError
from attnviz.traces.parts import GIVEN_NAMES, LEARNED_NAMES
from attnviz.traces.settings import MAX_LAYERS

LAYERS_KEY = "layers"
_LAYER_KEY_PATTERN = re.compile(rf"{LAYERS_KEY}\.(\d{{1,9}})\.(.+)", re.DOTALL)


def flatten_layers(contents: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contents with full names (`layers.1.w_1`) in place of the tables of layers.

    Refuses `layers` that are neither a table of tables nor a list of tables.

    >>> flatten_layers({"w_1": 2, "layers": {"1": {"w_1": 3}}})
    {'w_1': 2, 'layers.1.w_1': 3}
    >>> flatten_layers({"layers": [{"w_1": 2}]})
    {'layers.0.w_1': 2}
    """
    flat_contents = {name: value for name, value in contents.items() if name != LAYERS_KEY}
    return flat_contents | dict(_flatten_layer_tables(contents.get(LAYERS_KEY, {})))


def _flatten_layer_tables(tables: Any) -> Iterator[tuple[str, Any]]:
    """Yield full names and values of the tables of layers; refuses anything but tables."""
    if isinstance(tables, list):
        tables = dict(enumerate(tables))
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        problem = f"'{LAYERS_KEY}' is not a table of layers"
        raise AttnvizError(problem, f"write [{LAYERS_KEY}.1], and w_query = …", about=LAYERS_KEY)
    for number, table in tables.items():
        for name, value in table.items():
            yield layer_key(number, name), value


def layer_key(number: int | str, name: str) -> str:
    """Return the full name of a layer's matrix.

    >>> layer_key(1, "w_query")
    'layers.1.w_query'
    """
    return f"{LAYERS_KEY}.{number}.{name}"


def can_be_given(name: str) -> bool:
    """Return whether a file may give this matrix; for one layer, only learned matrices.

    >>> can_be_given("scores"), can_be_given("layers.1.w_query"), can_be_given("layers.1.scores")
    (True, True, False)
    """
    match = _LAYER_KEY_PATTERN.fullmatch(name)
    return name in GIVEN_NAMES or (match is not None and match[2] in LEARNED_NAMES)


def group_by_layer(contents: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the contents of a file by layer number, in order, without layers that give nothing.

    Refuses names that are given twice, layer numbers from MAX_LAYERS, and matrices of one layer
    that are not learned.

    >>> group_by_layer({"w_1": 2, "layers.1.w_1": 3})
    {0: {'w_1': 2}, 1: {'w_1': 3}}
    """
    layers: dict[int, dict[str, Any]] = {}
    for key, value in flatten_layers(contents).items():
        number, name = _split_layer_key(key)
        if name in layers.setdefault(number, {}):
            problem = f"'{name}' of layer {number} is given twice"
            raise AttnvizError(problem, "leave one of them out", about=key)
        layers[number][name] = value
    return dict(sorted(layers.items()))


def _split_layer_key(key: str) -> tuple[int, str]:
    """Return the layer number and the matrix name of a full name; layer 0 if it has no number.

    Refuses layer numbers from MAX_LAYERS, and matrices that cannot be given for one layer.
    """
    match = _LAYER_KEY_PATTERN.fullmatch(key)
    if match is None:
        return 0, key
    number, name = int(match[1]), match[2]
    if number >= MAX_LAYERS:
        problem = f"'{key}' is for layer {number:,}, but there can only be {MAX_LAYERS:,} layers"
        raise AttnvizError(problem, "layers count from 0", about=key)
    if name in GIVEN_NAMES and name not in LEARNED_NAMES:
        raise AttnvizError(
            f"'{key}' is for one layer, and only learned matrices can be given for one layer",
            f"give '{name}', or for a layer: {', '.join(LEARNED_NAMES)}",
            about=key,
        )
    return number, name


_KIND_SUFFIX = re.compile(r"[._]?(weights?|bias|kernel)$")  # h.0.attn.c_proj.weight

MATRIX_ALIASES: dict[str, tuple[str, ...]] = {  # attnviz's name: names used elsewhere
    "queries": ("q", "qs", "query"),
    "keys": ("k", "ks", "key"),
    "values": ("v", "vs", "value"),
    "scores": ("attn_scores", "attention_scores", "wei", "logits"),
    "weights": ("attn", "attn_weights", "attention_weights", "attention", "probs"),
    "embeddings": ("x", "input", "inputs", "hidden_states", "x_1", "x1", "embeds", "inputs_embeds"),
    "key_embeddings": ("context", "y", "x_2", "x2", "key_inputs"),
    "positions": ("wpe", "pos_emb", "pos_embed", "position_embeddings", "pe", "pos_embedding"),
    "memory": ("encoder_out", "enc_out", "enc_outputs", "encoder_hidden_states"),
    "kept": ("dropout_mask", "drop_mask", "keep_mask"),
    "tokens": ("words", "labels", "input_tokens"),
    "w_score": ("v_a", "va", "v_att"),
    "b_query": ("b_q", "bq"),
    "b_key": ("b_k", "bk"),
    "b_value": ("b_v", "bv"),
    "b_out": ("b_o", "bo"),
}
LAYER_ALIASES: dict[tuple[str, str], tuple[str, ...]] = {  # of modules with a weight and a bias
    ("w_query", "b_query"): ("w_q", "wq", "q_proj", "to_q", "w_qs", "q_lin", "query", "q"),
    ("w_key", "b_key"): ("w_k", "wk", "k_proj", "to_k", "w_ks", "k_lin", "key", "k"),
    ("w_value", "b_value"): ("w_v", "wv", "v_proj", "to_v", "w_vs", "v_lin", "value", "v"),
    ("w_out", "b_out"): ("w_o", "wo", "o_proj", "out_proj", "to_out", "attn.c_proj", "attn.proj"),
    ("w_1", "b_1"): ("w1", "fc1", "linear1", "c_fc", "intermediate.dense", "lin1"),
    ("w_2", "b_2"): ("w2", "fc2", "linear2", "mlp.c_proj", "lin2"),
    ("attention_gain", "attention_shift"): ("ln_1", "ln1", "norm1", "layernorm_before"),
    ("feed_forward_gain", "feed_forward_shift"): ("ln_2", "ln2", "layernorm_after"),
}
ALIAS_HINTS: dict[tuple[str, ...], str] = {  # where another name alone is not enough
    ("in_proj", "qkv", "qkv_proj", "query_key_value", "wqkv"): (
        "it holds three, one below the other: give each third, transposed (weight.T), as "
        "'w_query', 'w_key' and 'w_value'; the thirds of a bias as 'b_query', 'b_key' and "
        "'b_value'"
    ),
    ("c_attn",): (
        "it holds three side by side: give each third of its columns as 'w_query', 'w_key' and "
        "'w_value'; the thirds of a bias as 'b_query', 'b_key' and 'b_value'"
    ),
    ("valid_lens", "valid_len", "lengths", "lens", "seq_len", "seq_lens", "seq_lengths"): (
        "give 'visible', [item, key]: 1 for each key that may be read, 0 for padding"
    ),
    ("key_padding_mask", "src_key_padding_mask", "padding_mask", "pad_mask"): (
        "give 'hidden', [item, key], where True hides a key, or 'visible', where True shows it"
    ),
    ("attention_mask", "attn_mask", "src_mask", "tgt_mask", "tril", "causal_mask", "masks"): (
        "give 'visible' where 1 may be read, 'hidden' where 1 may not, 'mask' where it is added"
    ),
    ("position_bias", "relative_attention_bias", "rel_pos", "attn_bias", "attention_bias"): (
        "what is added to the scaled scores is called 'mask': [token, key], or [head, token, key]"
    ),
    ("wte", "tok_emb", "word_embeddings", "embed_tokens", "token_embedding", "input_ids", "ids"): (
        "give 'embeddings', a row for each token of the sentence: table[ids]; and 'tokens', words"
    ),
    ("norm2", "norm3", "norm", "layernorm", "layer_norm"): (
        "a LayerNorm has a gain and a shift: 'attention_gain', 'cross_gain' or "
        "'feed_forward_gain', by the part that it follows, and so on"
    ),
    ("input_layernorm", "post_attention_layernorm", "rmsnorm", "rms_norm"): (
        "a LayerNorm has 'attention_gain' or 'feed_forward_gain'; an RMSNorm, which does not "
        "subtract a mean, is not known here"
    ),
    ("gate_proj", "w3", "w_gate", "up_proj", "down_proj"): (
        "feed-forward has two matrices here, 'w_1' and 'w_2', and no gate"
    ),
}
TRANSPOSE_HINT = " Transpose the matrix of a torch.nn.Linear first: weight.T"

_NAME_BY_ALIAS = {alias: name for name, aliases in MATRIX_ALIASES.items() for alias in aliases}
_LAYER_BY_ALIAS = {alias: names for names, aliases in LAYER_ALIASES.items() for alias in aliases}
_HINT_BY_ALIAS = {alias: hint for aliases, hint in ALIAS_HINTS.items() for alias in aliases}


def alias_hint(name: str) -> str:
    """Return a hint that gives attnviz's name of a matrix for a name used elsewhere; "" if unknown.

    >>> alias_hint("h.0.attn.q_proj.bias"), alias_hint("Q"), alias_hint("color")
    ("did you mean 'b_query'?", "did you mean 'queries'?", '')
    """
    full_name = name.lower().replace("-", "_")
    suffix = _KIND_SUFFIX.search(full_name)
    stems = [(full_name, "")] + ([(full_name[: suffix.start()], suffix[1])] if suffix else [])
    for stem, kind in stems:
        for alias in (".".join(stem.split(".")[-2:]), stem.split(".")[-1]):
            if hint := _HINT_BY_ALIAS.get(alias) or _suggest_name(alias, kind):
                return hint
    return ""


def _suggest_name(alias: str, kind: str) -> str:
    """Return "did you mean …?" for a name used elsewhere, "" if it is unknown.

    `kind` is its suffix ("weight", "bias" or ""). A hint to transpose follows for linear layers.
    """
    name, (weight, bias) = _NAME_BY_ALIAS.get(alias), _LAYER_BY_ALIAS.get(alias, ("", ""))
    if kind == "bias":
        name = bias
    elif not name or (kind and weight):
        name = weight
    # c_attn and c_proj of GPT-2 are stored as x W needs them.
    is_linear = name == weight and weight.startswith("w_") and "c_" not in alias
    return f"did you mean '{name}'?{TRANSPOSE_HINT if is_linear else ''}" if name else ""
