"""Reads many texts in batches, and hands out the weights of one layer at a time.

Texts of about the same length share a batch. All are padded at the end, where a causal model does
not look and where positions are not counted, whatever side the tokenizer would pad; what is masked
for padding is hidden. Nothing of a layer is kept after it was visited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnviz.attention import arithmetic
from attnviz.errors import AttnvizError, model_error, opt
from attnviz.machine import files, memory
from attnviz.tokens.tokenizers import refuse_empty_text
from attnviz.tokens.tokens import Tokens
from attnviz.traces.early_checks import refuse_impossible_settings
from attnviz.traces.models.model_names import MINILM
from attnviz.traces.settings import HeadId, Settings
from attnviz.traces.trained.capture import (
    AttentionCall,
    Listener,
    capturing_attention,
    split_mask_cells,
)
from attnviz.traces.trained.forward_pass import (
    CannotRun,
    ModelInput,
    capture_pass,
    model_part,
    reporting_run_errors,
)
from attnviz.traces.trained.loading import LoadedTransformer, load_transformer
from attnviz.traces.trained.model_attention import (
    measure_eager_difference,
    no_attention_error,
    returned_weights,
)
from attnviz.traces.trained.model_in_memory import in_memory_settings, take_model_in_memory
from attnviz.traces.trained.model_location import is_trained
from attnviz.traces.trained.pieces import cut_texts
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.traces.trained.tracing import GIVE_TRANSFORMER_HINT
from attnviz.wording.commands import changed_options
from attnviz.wording.keywords import replace_choices
from attnviz.wording.words import counted

ONE_SENTENCE_SETTINGS = ("without", "attention", "target", "generate", "chat", "truncate")
TEXTS_AT_ONCE = 1024  # are sorted by their length
BATCH_TOKENS = 1024  # padding included
BATCH_CELLS = 2**21  # weights of one layer
PADDING_ID = 0  # any id: nothing looks at it
WEIGHT_BYTES, MATRIX_COUNT = 4, 5  # of one layer, in memory at once


def model_for_texts(
    settings: Settings | None, keywords: Mapping[str, Any], purpose: str
) -> tuple[LoadedTransformer, Settings]:
    """Return the model that reads many texts (MiniLM by default), and the settings with `keywords`,
    which may hold a model in memory.

    Refuses a model that is no transformer, and settings about one sentence; the errors say what it
    is for: `purpose` is such as "a survey is".
    """
    in_memory, given = take_model_in_memory(keywords)
    chosen = replace_choices(settings or Settings(model=MINILM), given)
    if in_memory is not None:
        chosen = in_memory_settings(chosen, in_memory)
    elif not is_trained(chosen.model):
        problem = f"{purpose} of a trained transformer, but '{chosen.model}' is not one"
        raise model_error(problem, GIVE_TRANSFORMER_HINT)
    for name in {*changed_options(chosen)} & {*ONE_SENTENCE_SETTINGS}:
        problem = f"{opt[name]} is about one sentence, and {purpose} of many"
        raise AttnvizError(problem, f"leave {opt[name]} out", about=name)
    refuse_impossible_settings(chosen)
    return in_memory or load_transformer(chosen), chosen


def iterate_texts(texts: object) -> Iterator[str]:
    """Return texts, or the lines of a file by its path or name; refuse what is neither a file nor
    several texts."""
    if isinstance(texts, Path) or (isinstance(texts, str) and files.is_file(Path(texts))):
        return files.read_lines(Path(texts))
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        kind = "a single text" if isinstance(texts, str) else f"of type {type(texts).__name__}"
        raise AttnvizError(
            f"texts is {kind}, and should be several",
            'give a list, such as ["It is late."], or a file: Path("texts.txt")',
            about="texts",
        )
    return map(_checked_text, texts)


def _checked_text(text: object) -> str:
    """Return a text; refuse a value of another type, and a text that cannot be written as UTF-8."""
    if not isinstance(text, str):
        raise AttnvizError(
            f"one of the texts is of type {type(text).__name__}, and should be a string",
            'give strings, such as "It is late."',
            about="texts",
        )
    if text.strip():
        refuse_empty_text(text)
    return text


@dataclass(frozen=True, eq=False)
class TextBatch:
    """Some texts of about the same length, with their numbers among all texts."""

    numbers: tuple[int, ...]
    tokens: tuple[Tokens, ...]
    cut: int  # how many of them lost their last tokens

    @property
    def ids(self) -> list[tuple[int, ...]]:
        return [tokens.ids for tokens in self.tokens]


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """The weights of one layer for a batch; rows and columns of padding have no meaning."""

    layer: int
    weights: Float[Tensor, "item head query key"]
    visible: Bool[Tensor, "item #head query key"]  # no padding among the keys

    @property
    def head_ids(self) -> list[HeadId]:
        return [(self.layer, head) for head in range(self.weights.shape[1])]


LayerVisitor = Callable[[LayerWeights], None]


def make_batches(
    model: LoadedTransformer, texts: Iterable[tuple[int, str]], *, truncate: bool = False
) -> Iterator[TextBatch]:
    """Yield numbered texts in batches, `TEXTS_AT_ONCE` of them sorted by length at a time.

    Refuses a text with more tokens than the model has positions for, or with `truncate` leaves out
    its last ones. Texts without any token are left out.
    """
    remaining = iter(texts)
    while chunk := list(islice(remaining, TEXTS_AT_ONCE)):
        texts_in_tokens = cut_texts(model, [text for _, text in chunk], truncate=truncate)
        yield from group_lines(
            model,
            [
                (number, tokens, is_cut)
                for (number, _), (tokens, is_cut) in zip(chunk, texts_in_tokens, strict=True)
                if len(tokens)
            ],
        )


def group_lines(
    model: LoadedTransformer, lines: Sequence[tuple[int, Tokens, bool]]
) -> Iterator[TextBatch]:
    """Yield texts in batches, sorted by length: each with its number, its tokens, and whether it
    lost the last ones."""
    lines = sorted(lines, key=lambda line: len(line[1]))
    while lines:
        count = _batch_size(model, [len(tokens) for _, tokens, _ in lines])
        numbers, tokens, cuts = zip(*lines[:count], strict=True)
        yield TextBatch(numbers, tokens, sum(cuts))
        lines = lines[count:]


def _batch_size(model: LoadedTransformer, lengths: Sequence[int]) -> int:
    """Return how many of the first texts, which are sorted by length, make one batch.

    A model with convolutions, which would mix padding into a text's last tokens, gets none.
    """
    longest = lengths[0] if _has_convolutions(model.model) else lengths[-1]
    for count, length in enumerate(lengths, 1):
        is_large = count * length > BATCH_TOKENS or count * model.heads * length**2 > BATCH_CELLS
        if is_large or length > longest:
            return max(1, count - 1)
    return len(lengths)


def _has_convolutions(model: nn.Module) -> bool:
    kinds = (nn.Conv1d, nn.Conv2d)
    return any(
        isinstance(module, kinds) and max(module.kernel_size) > 1 for module in model.modules()
    )


def visit_layers(
    model: LoadedTransformer,
    ids: Sequence[Sequence[int]],
    visit: LayerVisitor,
    *,
    captured: bool = True,
) -> Any:
    """Run the model on a batch of token ids, and call `visit` with the weights of each layer.

    Returns the outputs of the model without its output layer. `captured=False` takes the weights
    that the model returns, for a model that `captures_exactly` does not hold for. Of an
    encoder–decoder the encoder is run. Refuses weights that do not fit in memory, and a model
    without attention.
    """
    longest = max(ids, key=len)
    memory.refuse_too_little_memory(
        len(ids) * model.heads * len(longest) ** 2 * WEIGHT_BYTES * MATRIX_COUNT,
        f"the weights of a text of {counted(len(longest), 'token')} as matrices",
        "give shorter texts",
    )
    padded_ids, mask = _pad(model, ids)
    model_input = ModelInput("self", tuple(longest))
    part, inputs = model_part(model, "self"), {"input_ids": padded_ids, "attention_mask": mask}
    visited_layers: list[int] = []

    def visit_and_note(layer: LayerWeights) -> None:
        visited_layers.append(layer.layer)
        visit(layer)

    with quiet_transformers(), torch.no_grad(), reporting_run_errors(model, model_input):
        if captured:
            with capturing_attention(model.model, BatchListener(visit=visit_and_note)):
                outputs = part(**inputs)
        else:
            outputs = part(**inputs, output_attentions=True)
            for number, weights in enumerate(returned_weights(outputs, "self")):
                visible = weights.gt(0) & mask[:, None, None].bool()
                visit_and_note(LayerWeights(number, weights, visible))
    if not visited_layers:
        raise no_attention_error(model)
    return outputs


def _pad(
    model: LoadedTransformer, ids: Sequence[Sequence[int]]
) -> tuple[Int[Tensor, "item token"], Int[Tensor, "item token"]]:
    """Return token ids with padding at the end, and 1 for each of them, 0 for padding."""
    longest, device = max(map(len, ids)), model.model.device
    rows = [[*row, *[PADDING_ID] * (longest - len(row))] for row in ids]
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in ids]
    return torch.tensor(rows, device=device), torch.tensor(mask, device=device)


def captures_exactly(model: LoadedTransformer, ids: Sequence[int]) -> bool:
    """Return whether captured attention is the model's own eager attention, up to rounding.

    Compared on the first of these token ids. Where it is not, the weights that the model returns
    have to be taken.
    """
    probe = ModelInput("self", tuple(ids)).probe
    with quiet_transformers(), torch.no_grad():
        try:
            captured_pass = capture_pass(model, probe)
        except CannotRun:
            return False
        if captured_pass is None:
            return False
        difference = measure_eager_difference(model, probe, captured_pass)
    return difference is not None and difference.is_rounding(model.dtype)


@dataclass(eq=False, kw_only=True)
class BatchListener(Listener):
    """A Listener of a batch, which keeps nothing: it calls `visit` with the weights of a layer."""

    visit: LayerVisitor

    def attend(self, call: AttentionCall) -> Float[Tensor, "item query head value_width"]:
        """Return the context vectors of all heads, after `visit` was called with their weights."""
        number, (items, heads, queries, _) = self._next_number(call.module), call.query.shape
        keys, device = call.key.shape[2], call.query.device
        if call.mask is None:
            visible = torch.ones(items, 1, queries, keys, dtype=torch.bool, device=device)
            mask_scores = None
        else:
            cells = call.mask[..., :queries, :keys]
            visible, mask_scores = split_mask_cells(cells.expand(items, *cells.shape[1:]))
        stages = arithmetic.compute_attention(
            arithmetic.similarity(call.query, arithmetic.repeat_groups(call.key, heads)),
            call.value,
            visible,
            scale=call.scale,
            soft_cap=call.soft_cap,
            bias=call.position_bias,
            mask=mask_scores,
            sink=call.sink,
        )
        self.visit(LayerWeights(number, stages.weights, visible))
        return stages.contexts.transpose(1, 2).contiguous()

    def note_module_inputs(self, module: nn.Module, args: Any, keywords: Any) -> None:
        """Note nothing: the inputs of a module are not shown."""
