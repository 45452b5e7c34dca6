"""The options of what is traced: text, model, attention and how many heads, matrices, blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnviz.options.option import CommandOptions, option_group, options_under
from attnviz.options.values import (
    Activation,
    AttentionKind,
    Dtype,
    NormPlacement,
    Pool,
    Positions,
    ScoreKind,
)

TOKENIZERS = "attnviz.tokens.tokenizers:TOKENIZERS"
MODEL_NAMES = "attnviz.traces.models.model_names"
PART_NAMES = "attnviz.traces.parts"
SETTINGS = "attnviz.traces.settings"
VARIANTS = "attnviz.attention.variants"

text_option = options_under("Text")
model_option = options_under("Model")
attention_option = options_under("Attention")
number_option = options_under("Numbers")
block_option = options_under("Transformer block")
long_option = options_under("Long texts")

# Each option is a row of a table.
# fmt: off


@option_group(frozen=True, kw_only=True)
class SourceOptions:
    """Where the sentence comes from."""

    text: str | None = text_option(metavar="TEXT", is_argument=True, shows_default=False,
        short='The sentence, in quotes: "I am learning this"; - reads standard input.',
        help="The sentence, in quotes; - reads it from standard input.")
    file: Path | None = text_option(metavar="PATH", example="story.txt", is_path=True, is_read=True,
        python="Path(", short="Read the text from a UTF-8 file: --file story.txt",
        help="Read the text from a UTF-8 file.")


@option_group(frozen=True, kw_only=True)
class TokenizerOptions:
    """How the text is cut into tokens."""

    tokenizer: str = text_option("gpt2", "--tokenizer", "-t", metavar="NAME", choices=TOKENIZERS,
        short="How the text is cut into tokens: {choices}.",
        help="How the text is cut into tokens: {choices}, or an encoding that tiktoken knows, "
        "such as o200k_base.")


@option_group(frozen=True, kw_only=True)
class TextOptions(SourceOptions, TokenizerOptions):
    """Where the sentence comes from, and how it is cut into tokens."""


MODEL_FACTS: dict[str, Any] = {
    "metavar": "NAME",
    "example": "agreement",
    "choices": f"{MODEL_NAMES}:models",
    "sources": {
        "shipped": f"{MODEL_NAMES}:shipped_names",
        "packaged": f"{MODEL_NAMES}:PACKAGED_TRANSFORMERS",
    },
    "shows_default": False,
    "is_path": True,
    "is_read": True,
}
MODEL_HELP = (
    "Use the weights of a model: {shipped}, a folder that attnviz learn --save wrote, or a .toml "
    "file written by hand; or of a trained transformer: {packaged}, a folder that transformers "
    "wrote, a .gguf file, or a name on a hub."
)
MODEL_SHORT_HELP = "Use the weights of a model: {choices}; a folder, .gguf or .toml."


@option_group(frozen=True, kw_only=True)
class ModelOptions:
    """A model whose weights are used in place of random ones."""

    model: str | None = model_option(None, "--model", "-m", **MODEL_FACTS,
        also="checkpoint weights-file pretrained", short=MODEL_SHORT_HELP, help=MODEL_HELP)


@option_group(frozen=True, kw_only=True)
class ModelsOptions:
    """One model, or two that are compared."""

    model: list[str] = model_option([], "--model", "-m", **MODEL_FACTS,
        short=f"{MODEL_SHORT_HELP} Twice: compare two.",
        help=f"{MODEL_HELP}  Given twice: compare the two models on the sentence.")


@option_group(frozen=True, kw_only=True)
class DecodingOptions:
    """Which attention of a trained transformer is shown, and what its decoder writes."""

    attention: AttentionKind | None = model_option(metavar="WHICH", example="cross",
        choices=f"{SETTINGS}:ATTENTION_KINDS",
        help="Which attention of an encoder–decoder: self (the encoder's), decoder, or cross "
        "(from the decoder to the encoder).")
    target: str | None = model_option(metavar="TEXT", example='"Das Tier war müde"',
        help="The text that the decoder writes.  [default: what it would write itself]")
    generate: int | None = model_option(metavar="N", example="5",
        help="Let a decoder add N tokens to the text, the most likely one each time.")
    chat: bool = model_option(False,
        help="Put the text into the model's own chat template, as a user's message; or the "
        "messages of a file: --chat messages.json.")
    truncate: bool = model_option(False,
        help="Cut off the end of a text that has more tokens than the model has positions.")


@option_group(frozen=True, kw_only=True)
class CodeOptions:
    """Whether the code that came with a trained transformer is run."""

    trust_remote_code: bool = model_option(False, is_recorded=False,
        help="Run the Python code that came with a model; by default none is run.")


@option_group(frozen=True, kw_only=True)
class TrainedOptions(DecodingOptions, CodeOptions):
    """Of trained transformers alone."""


@option_group(frozen=True, kw_only=True)
class AttentionOptions:
    """What attention does; None is the variant's choice."""

    variant: str = attention_option("scaled", "--variant", "-v", metavar="NAME",
        choices=f"{VARIANTS}:VARIANTS", short="The kind: {choices}.",
        help="The kind: {choices:about; }.")
    dim: int | None = attention_option(None, "--dim", "-d", metavar="N", example="16",
        sources={"dim": f"{SETTINGS}:DEFAULT_DIM"},
        short="How many numbers represent a token, if not {dim}: --dim 16",
        help="How many numbers represent a token.  [default: {dim}]")
    heads: int | None = attention_option(None, "--heads", "-H", metavar="N", example="4",
        also="num-heads n-heads nheads n-head num-attention-heads",
        short="The number of attention heads: --heads 4",
        help="The number of heads.  [default: the variant's]")
    kv_heads: int | None = attention_option(metavar="N", example="1",
        also="gqa mqa groups n-kv-heads num-kv-heads num-key-value-heads",
        help="The number of heads of keys and values, shared evenly by the heads (grouped-query "
        "attention; 1 is multi-query attention).  [default: one for each head]")
    head_dim: int | None = attention_option(metavar="N", example="4",
        also="d-k dk head-size head-width key-dim",
        help="The width of one head.  [default: dim over heads]")
    scoring: ScoreKind = attention_option("dot", metavar="NAME", choices=f"{VARIANTS}:SCORE_KINDS",
        also="bahdanau additive score score-function similarity",
        help="How a query is compared with a key: {choices:about}.")
    scale: bool | None = attention_option(
        help="Divide scores by the square root of a head's width.  [default: the variant's]")
    causal: bool | None = attention_option(
        help="Hide later tokens from each token.  [default: the variant's]")
    window: int | None = attention_option(metavar="N", example="2",
        help="Let a token see only the N nearest: itself, N-1 before it and, unless causal, N-1 "
        "after it. Or, in attnviz run, show a part in full: A:B are the tokens that read, A:B,C:D "
        "also those that are read; both ends count, from 1.")
    temperature: float | None = attention_option(metavar="X", example="0.5",
        also="softmax sharpness beta",
        help="Also divide scores by X: below 1 sharper, above 1 flatter.")
    soft_cap: float | None = attention_option(metavar="X", example="50",
        also="softcap cap clip logit-cap softcapping attn-logit-softcapping tanh",
        help="Cap scores smoothly at X: X · tanh(score / X), as Gemma 2 does.")
    dropout: float | None = attention_option(metavar="P", example="0.1",
        help="Set this share of the weights to 0 and scale up the rest, as in training.")
    positions: Positions = number_option("none", metavar="KIND", choices=f"{SETTINGS}:POSITIONS",
        also="rope rotary alibi sinusoidal positional",
        help="How positions are encoded: {choices} (rotary-halves: pairs as in Hugging Face's "
        "models).")
    position_base: float = number_option(10_000.0, metavar="X", example="500000",
        sources={"with_base": f"{SETTINGS}:POSITIONS_WITH_BASE"}, shows_default=False,
        also="rope-theta rope-base theta base rope-freq-base",
        help="The base of the angles of {with_base:and} positions, such as 500000 in Llama 3.  "
        "[default: 10000]")
    embeddings: str | None = number_option(metavar="FILE|MODEL", example="minilm",
        choices={"minilm": "the trained vectors of MiniLM, 384 wide"}, is_path=True, is_read=True,
        help="Vectors of your own: .npy or .safetensors with a row for each token id, or text "
        "with a word and its numbers on each line (GloVe, word2vec). Or the input vectors of a "
        "trained model: minilm, a folder, a name on a hub; with --dim their principal components.")


@option_group(frozen=True, kw_only=True)
class NumberOptions:
    """The seed of random numbers; where, and how precisely, everything is computed."""

    seed: int = number_option(42, "--seed", "-s", metavar="N",
        also="random-seed random-state rng manual-seed",
        short="Use a random seed other than 42: --seed 7", help="Use another random seed.")
    device: str = number_option("auto", metavar="NAME", choices=f"{VARIANTS}:DEVICES",
        also="gpu cuda cpu mps", help="Where to compute: auto, cpu, cuda, cuda:1, mps, …")
    dtype: Dtype = number_option("float32", metavar="NAME", choices=f"{SETTINGS}:DTYPES",
        also="precision float16 bfloat16 half fp16", help="The precision: {choices}.")


@option_group(frozen=True, kw_only=True)
class MatrixOptions:
    """Matrices of one's own: their file, and an item of its batch."""

    given: str | None = number_option(metavar="FILE", example="numbers.toml",
        sources={"suffixes": f"{PART_NAMES}:MATRIX_FILE_SUFFIXES",
            "matrices": f"{PART_NAMES}:ATTENTION_MATRIX_NAMES"}, is_path=True, is_read=True,
        help="Matrices of your own ({suffixes}): {matrices}, b_…; of a transformer block w_1, "
        "b_1, w_2, b_2, cross_w_query …, attention_gain, attention_shift …; of further layers "
        "layers.1.w_query …. What is missing is computed, or drawn at random.")
    item: int | None = number_option(metavar="N", example="1",
        help="Which item of a batch in that file, from 1.  [default: 1]")


TRACE_FACTS: dict[str, Any] = {
    "metavar": "FILE",
    "example": "numbers.npz",
    "sources": {"suffixes": f"{PART_NAMES}:TRACE_FILE_SUFFIXES"},
    "shows_default": False,
    "is_path": True,
    "is_read": True,
    "python": "load(",
}
TRACE_HELP = "Instead of a text: a trace that -o wrote as {suffixes:or}."


@option_group(frozen=True, kw_only=True)
class SavedOptions:
    """A saved trace in place of a text."""

    trace: str | None = text_option(**TRACE_FACTS, help=TRACE_HELP)


@option_group(frozen=True, kw_only=True)
class SavedPairOptions:
    """One saved trace, or two that are compared."""

    trace: list[str] = text_option([], **TRACE_FACTS,
        help=f"{TRACE_HELP}  Given twice: compare the two.")


@option_group(frozen=True, kw_only=True)
class WithoutOptions:
    """Heads that are switched off."""

    without: str | None = attention_option(metavar="HEADS", example="L0H0",
        also="ablate ablation knock-out knockout switch-off prune remove off",
        short="Switch heads off, to see whether they matter: --without L1H1",
        help="Switch heads off, several with commas: L1H1 is head 1 of layer 1, both from 0. The "
        "head's output becomes 0, or its mean over the sentence: L0H0=mean.")


@option_group(frozen=True, kw_only=True)
class TracingOptions(
    TextOptions,
    ModelOptions,
    TrainedOptions,
    AttentionOptions,
    NumberOptions,
    WithoutOptions,
    CommandOptions,
):
    """What every command takes that traces one text."""


@option_group(frozen=True, kw_only=True)
class BlockOptions:
    """The transformer blocks around the attention."""

    layers: int | None = block_option(metavar="N", example="2",
        also="n-layers num-layers depth block blocks transformer",
        help="Stack N blocks: attention, add and LayerNorm, feed-forward, add and LayerNorm.")
    norm: NormPlacement = block_option("post", metavar="PLACE", choices=f"{VARIANTS}:NORMS",
        help="Normalise after each part (post), before it (pre), or not at all (none).")
    activation: Activation = block_option("relu", metavar="NAME", choices=f"{VARIANTS}:ACTIVATIONS",
        help="The activation in feed-forward: {choices}.")
    feed_forward: int | None = block_option(metavar="N", example="32", also="d-ff ffn mlp ff",
        help="The inner width of feed-forward.  [default: 4 times dim]")
    attention_only: bool = block_option(False, also="no-mlp no-ffn no-feed-forward attn-only",
        help="Leave feed-forward out: a block is attention, add and LayerNorm.")
    memory: str | None = block_option(metavar="TEXT", example='"Ich lerne das"',
        also="cross encoder source context",
        help="A second sentence that each block also attends to (cross-attention).")


@option_group(frozen=True, kw_only=True)
class StreamOptions:
    """Texts whose weights are computed only where they are shown."""

    stream: bool = long_option(False,
        help="Compute weights only where they are shown, and draw a map of blocks of tokens, "
        "however short the text.")
    memory_budget: str | None = long_option(metavar="SIZE", example="4GB",
        help="Do so for texts whose weights take more memory than this.  [default: 1 GB, or a "
        "quarter of the free memory if that is less]")
    resolution: int = long_option(512, metavar="N", example="256",
        help="The largest number of blocks on each side of the map.")
    pool: Pool = long_option("mean", metavar="WAY", choices=f"{SETTINGS}:POOLS",
        help="What a block shows: mean (how much its queries attend to its keys together) or max "
        "(its largest weight).")


@option_group(frozen=True, kw_only=True)
class LongTextOptions(StreamOptions):
    """Texts whose weights are computed only where they are shown, and the colours of their map."""

    log: bool = long_option(False, help="Colour by logarithm, which shows small weights.")


@option_group(frozen=True, kw_only=True)
class PartOptions:
    """The part of a text that --window names, where its value is no width of a mask."""

    part: str | None = long_option(None, "--part", metavar="A:B", example="1:3", is_hidden=True,
        help="A part of the text.")
