"""Options for how a trace is made: text, attention, matrices, blocks, trained models.

Whatever a help text lists comes from the table that the option chooses from.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from attnviz.attention.variants import ACTIVATIONS, DEVICES, NORMS, SCORE_KINDS, VARIANTS
from attnviz.cli.help import section_argument, section_option
from attnviz.cli.parsing import PART_OPTION
from attnviz.tokens.tokenizers import TOKENIZERS
from attnviz.traces.models.model_names import PACKAGED_TRANSFORMERS, models, shipped_names
from attnviz.traces.parts import (
    BIAS_NAMES,
    GIVEN_BLOCK_NAMES,
    GIVEN_NAMES,
    MATRIX_FILE_SUFFIXES,
    TRACE_FILE_SUFFIXES,
)
from attnviz.traces.settings import (
    DEFAULT_DIM,
    DTYPES,
    POOLS,
    POSITIONS,
    POSITIONS_WITH_BASE,
    AttentionKind,
    Settings,
)
from attnviz.wording.words import and_list

_text_option = partial(section_option, "Text")
_model_option = partial(section_option, "Model")
_attention_option = partial(section_option, "Attention")
_number_option = partial(section_option, "Numbers")
_block_option = partial(section_option, "Transformer block")
_long_option = partial(section_option, "Long texts")
_ATTENTION_MATRICES = [
    name for name in GIVEN_NAMES if name not in (*BIAS_NAMES, *GIVEN_BLOCK_NAMES)
]
_ATTENTION_MATRICES_TEXT = ", ".join([*_ATTENTION_MATRICES, "b_…"])
_BLOCK_MATRICES_TEXT = "w_1, b_1, w_2, b_2, cross_w_query …, attention_gain, attention_shift …"
_VARIANTS_TEXT = "; ".join(f"{name} ({variant.about})" for name, variant in VARIANTS.items())


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """The options about where the sentence comes from, and how it is cut into tokens."""

    text: Annotated[
        str | None,
        section_argument(
            "Text",
            metavar="TEXT",
            help="The sentence, in quotes; - reads it from standard input.",
            short='The sentence, in quotes: "I am learning this"; - reads standard input.',
            show_default=False,
        ),
    ] = None
    file: Annotated[
        Path | None,
        _text_option(
            metavar="PATH",
            help="Read the text from a UTF-8 file.",
            short="Read the text from a UTF-8 file: --file story.txt",
            example="story.txt",
        ),
    ] = None
    tokenizer: Annotated[
        str,
        _text_option(
            "--tokenizer",
            "-t",
            metavar="NAME",
            help=f"How the text is cut into tokens: {', '.join(TOKENIZERS)}, or an encoding that "
            "tiktoken knows, such as o200k_base.",
            short=f"How the text is cut into tokens: {', '.join(TOKENIZERS)}.",
            among={name: tokenizer.about for name, tokenizer in TOKENIZERS.items()},
        ),
    ] = Settings.tokenizer


def _declare_model(help: str = "", short: str = "") -> Any:
    """Declare --model; `help` and `short` are added to what the help says of every model."""
    return _model_option(
        "--model",
        "-m",
        metavar="NAME",
        help=f"Use the weights of a model: {', '.join(shipped_names())}, a folder that attnviz "
        "learn --save wrote, or a .toml file written by hand; or of a trained transformer: "
        f"{', '.join(PACKAGED_TRANSFORMERS)}, a folder that transformers wrote, a .gguf file, or a "
        f"name on a hub.{help}",
        short=f"Use the weights of a model: {', '.join(models())}; a folder, .gguf or .toml."
        f"{short}",
        example="agreement",
        among=models,
        show_default=False,
    )


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The option --model: a model whose weights are used in place of random ones."""

    model: Annotated[str | None, _declare_model()] = None


@dataclass(frozen=True, kw_only=True)
class ModelsOptions:
    """The option --model of `attnviz compare`: one model, or two that are compared."""

    model: Annotated[
        list[str],
        _declare_model(
            "  Given twice: compare the two models on the sentence.", " Twice: compare two."
        ),
    ] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class TrainedOptions:
    """The options of trained transformers alone: their attention, target text and generation."""

    attention: Annotated[
        AttentionKind | None,
        _model_option(
            metavar="WHICH",
            help="Which attention of an encoder–decoder: self (the encoder's), decoder, or cross "
            "(from the decoder to the encoder).",
            example="cross",
        ),
    ] = None
    target: Annotated[
        str | None,
        _model_option(
            metavar="TEXT",
            help="The text that the decoder writes.  [default: what it would write itself]",
            example='"Das Tier war müde"',
        ),
    ] = None
    generate: Annotated[
        int | None,
        _model_option(
            metavar="N",
            help="Let a decoder add N tokens to the text, the most likely one each time.",
            example="5",
        ),
    ] = None
    chat: Annotated[
        bool,
        _model_option(
            "--chat", help="Put the text into the model's own chat template, as a user's message."
        ),
    ] = False
    truncate: Annotated[
        bool,
        _model_option(
            "--truncate",
            help="Cut off the end of a text that has more tokens than the model has positions.",
        ),
    ] = False
    trust_remote_code: Annotated[
        bool,
        _model_option(
            "--trust-remote-code",
            help="Run the Python code that came with a model; by default none is run.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class AttentionOptions:
    """The options that say what attention does, as in Settings; None is the variant's choice."""

    variant: Annotated[
        str,
        _attention_option(
            "--variant",
            "-v",
            metavar="NAME",
            help=f"The kind: {_VARIANTS_TEXT}.",
            short=f"The kind: {', '.join(VARIANTS)}.",
            among={name: variant.about for name, variant in VARIANTS.items()},
        ),
    ] = Settings.variant
    dim: Annotated[
        int | None,
        _attention_option(
            "--dim",
            "-d",
            metavar="N",
            help=f"How many numbers represent a token.  [default: {DEFAULT_DIM}]",
            short=f"How many numbers represent a token, if not {DEFAULT_DIM}: --dim 16",
            example="16",
        ),
    ] = None
    heads: Annotated[
        int | None,
        _attention_option(
            "--heads",
            "-H",
            metavar="N",
            help="The number of heads.  [default: the variant's]",
            short="The number of attention heads: --heads 4",
            example="4",
        ),
    ] = None
    kv_heads: Annotated[
        int | None,
        _attention_option(
            metavar="N",
            help="The number of heads of keys and values, shared evenly by the heads "
            "(grouped-query attention; 1 is multi-query attention).  [default: one for each head]",
            example="1",
        ),
    ] = None
    head_dim: Annotated[
        int | None,
        _attention_option(
            metavar="N", help="The width of one head.  [default: dim over heads]", example="4"
        ),
    ] = None
    scoring: Annotated[
        str,
        _attention_option(
            metavar="NAME",
            help="How a query is compared with a key: "
            f"{', '.join(f'{name} ({about})' for name, about in SCORE_KINDS.items())}.",
            among={str(name): about for name, about in SCORE_KINDS.items()},
        ),
    ] = Settings.scoring
    scale: Annotated[
        bool | None,
        _attention_option(
            "--scale/--no-scale",
            help="Divide scores by the square root of a head's width.  [default: the variant's]",
        ),
    ] = None
    causal: Annotated[
        bool | None,
        _attention_option(
            "--causal/--no-causal",
            help="Hide later tokens from each token.  [default: the variant's]",
        ),
    ] = None
    window: Annotated[
        int | None,
        _attention_option(
            metavar="N",
            help="Let a token see only the N nearest: itself, N-1 before it and, unless causal, "
            "N-1 after it. Or, in attnviz run, show a part in full: A:B are the tokens that read, "
            "A:B,C:D also those that are read; both ends count, from 1.",
            example="2",
        ),
    ] = None
    temperature: Annotated[
        float | None,
        _attention_option(
            metavar="X",
            help="Also divide scores by X: below 1 sharper, above 1 flatter.",
            example="0.5",
        ),
    ] = None
    soft_cap: Annotated[
        float | None,
        _attention_option(
            metavar="X",
            help="Cap scores smoothly at X: X · tanh(score / X), as Gemma 2 does.",
            example="50",
        ),
    ] = None
    dropout: Annotated[
        float | None,
        _attention_option(
            metavar="P",
            help="Set this share of the weights to 0 and scale up the rest, as in training.",
            example="0.1",
        ),
    ] = None
    positions: Annotated[
        str,
        _number_option(
            metavar="KIND",
            help=f"How positions are encoded: {', '.join(POSITIONS)} (rotary-halves: pairs as in "
            "Hugging Face's models).",
            among=POSITIONS,
        ),
    ] = Settings.positions
    position_base: Annotated[
        float,
        _number_option(
            metavar="X",
            help=f"The base of the angles of {and_list(POSITIONS_WITH_BASE)} positions, such as "
            f"500000 in Llama 3.  [default: {Settings.position_base:g}]",
            show_default=False,
            example="500000",
        ),
    ] = Settings.position_base
    embeddings: Annotated[
        str | None,
        _number_option(
            metavar="FILE|MODEL",
            help="Vectors of your own: .npy or .safetensors with a row for each token id, or "
            "text with a word and its numbers on each line (GloVe, word2vec). Or the input "
            "vectors of a trained model: minilm, a folder, a name on a hub; with --dim "
            "their principal components.",
            example="minilm",
            among={"minilm": "the trained vectors of MiniLM, 384 wide"},
        ),
    ] = None
    seed: Annotated[
        int,
        _number_option(
            "--seed",
            "-s",
            metavar="N",
            help="Use another random seed.",
            short=f"Use a random seed other than {Settings.seed}: --seed 7",
        ),
    ] = Settings.seed
    device: Annotated[
        str,
        _number_option(
            metavar="NAME", help="Where to compute: auto, cpu, cuda, cuda:1, mps, …", among=DEVICES
        ),
    ] = Settings.device
    dtype: Annotated[
        str,
        _number_option(metavar="NAME", help=f"The precision: {', '.join(DTYPES)}.", among=DTYPES),
    ] = Settings.dtype


@dataclass(frozen=True, kw_only=True)
class MatrixOptions:
    """The options about matrices of one's own: their file, and an item of its batch."""

    given: Annotated[
        str | None,
        _number_option(
            metavar="FILE",
            help=f"Matrices of your own ({', '.join(MATRIX_FILE_SUFFIXES)}): "
            f"{_ATTENTION_MATRICES_TEXT}; of a transformer block {_BLOCK_MATRICES_TEXT}; of "
            "further layers layers.1.w_query …. What is missing is computed, or drawn at random.",
            example="numbers.toml",
        ),
    ] = None
    item: Annotated[
        int | None,
        _number_option(
            metavar="N",
            help="Which item of a batch in that file, from 1.  [default: 1]",
            example="1",
        ),
    ] = None


def _declare_trace(help: str = "") -> Any:
    """Declare --trace; `help` is added to its line of help."""
    return _text_option(
        metavar="FILE",
        help=f"Instead of a text: a trace that -o wrote as {' or '.join(TRACE_FILE_SUFFIXES)}."
        f"{help}",
        example="numbers.npz",
        show_default=False,
    )


@dataclass(frozen=True, kw_only=True)
class SavedOptions:
    """The option --trace: a saved trace in place of a text."""

    trace: Annotated[str | None, _declare_trace()] = None


@dataclass(frozen=True, kw_only=True)
class SavedPairOptions:
    """The option --trace of `attnviz compare`: one saved trace, or two that are compared."""

    trace: Annotated[list[str], _declare_trace("  Given twice: compare the two.")] = field(
        default_factory=list
    )


@dataclass(frozen=True, kw_only=True)
class WithoutOptions:
    """The option --without: heads that are switched off."""

    without: Annotated[
        str | None,
        _attention_option(
            metavar="HEADS",
            help="Switch heads off, several with commas: L1H1 is head 1 of layer 1, both from 0. "
            "The head's output becomes 0, or its mean over the sentence: L0H0=mean.",
            short="Switch heads off, to see whether they matter: --without L1H1",
            example="L0H0",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """The options about the transformer blocks around the attention."""

    layers: Annotated[
        int | None,
        _block_option(
            metavar="N",
            help="Stack N blocks: attention, add and LayerNorm, feed-forward, add and LayerNorm.",
            example="2",
        ),
    ] = None
    norm: Annotated[
        str,
        _block_option(
            metavar="PLACE",
            help="Normalise after each part (post), before it (pre), or not at all (none).",
            among=NORMS,
        ),
    ] = Settings.norm
    activation: Annotated[
        str,
        _block_option(
            metavar="NAME",
            help=f"The activation in feed-forward: {', '.join(ACTIVATIONS)}.",
            among=ACTIVATIONS,
        ),
    ] = Settings.activation
    feed_forward: Annotated[
        int | None,
        _block_option(
            metavar="N",
            help="The inner width of feed-forward.  [default: 4 times dim]",
            example="32",
        ),
    ] = None
    attention_only: Annotated[
        bool,
        _block_option(
            "--attention-only",
            help="Leave feed-forward out: a block is attention, add and LayerNorm.",
        ),
    ] = False
    memory: Annotated[
        str | None,
        _block_option(
            metavar="TEXT",
            help="A second sentence that each block also attends to (cross-attention).",
            example='"Ich lerne das"',
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LongTextOptions:
    """The options about texts whose weights are computed only where they are shown."""

    stream: Annotated[
        bool,
        _long_option(
            "--stream",
            help="Compute weights only where they are shown, and draw a map of blocks of tokens, "
            "however short the text.",
        ),
    ] = False
    memory_budget: Annotated[
        str | None,
        _long_option(
            metavar="SIZE",
            help="Do so for texts whose weights take more memory than this.  [default: 1 GB, or a "
            "quarter of the free memory if that is less]",
            example="4GB",
        ),
    ] = None
    resolution: Annotated[
        int,
        _long_option(
            metavar="N", help="The largest number of blocks on each side of the map.", example="256"
        ),
    ] = Settings.resolution
    pool: Annotated[
        str,
        _long_option(
            metavar="WAY",
            help="What a block shows: mean (how much its queries attend to its keys together) or "
            "max (its largest weight).",
            among=POOLS,
        ),
    ] = Settings.pool
    log: Annotated[
        bool, _long_option("--log", help="Colour by logarithm, which shows small weights.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class PartOptions:
    """The part of a text that --window names, where its value is no width of a mask."""

    part: Annotated[
        str | None,
        _long_option(
            PART_OPTION, metavar="A:B", help="A part of the text.", example="1:3", hidden=True
        ),
    ] = None


# What commands that read a file of many texts have, and what they leave out.
CORPUS_OPTIONS = ("file", "trust_remote_code", "device", "dtype", "seed")
ONE_TEXT_OPTIONS = [
    option.name
    for group in (TextOptions, TrainedOptions, AttentionOptions)
    for option in fields(group)
    if option.name not in CORPUS_OPTIONS
]
