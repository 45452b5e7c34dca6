"""Runs a model on one text repeatedly, each time with other heads switched off.

What stands before the first such head does not change. So the blocks there return what they
returned in the pass with all heads, and the passes of one layer are one batch: copies of the text,
each without other heads. The first batch of each layer has one copy more, with all heads; if its
result is not that of the first pass, the model is run in separate passes from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.errors import AttnvizError
from attnviz.options.values import AblationValue
from attnviz.traces.settings import HeadId
from attnviz.traces.trained.answers import AnswerPositions, PassResult, capturing_result
from attnviz.traces.trained.capture import (
    AttentionCall,
    CannotCapture,
    Listener,
    capturing_attention,
)
from attnviz.traces.trained.captured_attention import CAPTURED_CELLS_AT_ONCE, HiddenKeys
from attnviz.traces.trained.forward_pass import (
    ModelInput,
    model_part,
    model_tensors,
    reporting_run_errors,
)
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.model_attention import EAGER_TOLERANCE, relative_difference
from attnviz.traces.trained.refusals import quiet_transformers

HeadSet = tuple[HeadId, ...]  # heads that are off together
Replacement = AblationValue | Tensor  # of a head's output; a tensor: the same vector at each token
MAX_BATCH_TOKENS = 2**12
MAX_BATCH_LOGITS = 2**25  # of all copies of the text


@dataclass(eq=False)
class AblationListener(Listener):
    """A listener for copies of one text as a batch, each with other heads switched off."""

    ablations: Sequence[Mapping[HeadId, Replacement]] = ({},)  # of each copy
    heads_by_layer: dict[int, int] = field(default_factory=dict)  # of the layers that have attended
    means: ContextMeans | None = None  # to which the contexts of the first copy are added
    differ: bool = False  # whether any head was ablated, so that copies may differ

    def attend(self, call: AttentionCall) -> Float[Tensor, "copy query head value_width"]:
        """Return the context vectors of all heads of all copies, after each copy's ablation.

        To the arithmetic, the heads of several copies are those of one text. As long as nothing
        was ablated, all copies are equal, and one is computed. Raises CannotCapture for a text in
        blocks.
        """
        copies, heads, queries, _ = call.query.shape
        if copies != len(self.ablations):
            raise CannotCapture
        layers_before, noted_inputs = len(self.layer_numbers), dict(self.module_inputs)
        at_once = max(1, CAPTURED_CELLS_AT_ONCE // (heads * queries * call.key.shape[2]))
        computed = copies if self.differ else 1
        parts = []
        for start in range(0, computed, at_once):
            some = slice(start, min(start + at_once, computed))
            count = some.stop - start
            del self.layer_numbers[layers_before:]
            self.module_inputs.update(noted_inputs)
            call_of_some = replace(
                call,
                query=call.query[some].flatten(0, 1)[None],
                key=call.key[some].flatten(0, 1)[None],
                value=call.value[some].flatten(0, 1)[None],
                mask=_mask_of_copies(call.mask, count),
                position_bias=_mask_of_copies(call.position_bias, count),
                sink=None if call.sink is None else call.sink.repeat(count),
            )
            contexts = super().attend(call_of_some)
            parts.append(
                rearrange(contexts[0], "query (copy head) w -> copy query head w", copy=count)
            )
        by_copy = torch.cat(parts) if self.differ else parts[0].repeat(copies, 1, 1, 1)
        if len(self.layer_numbers) > layers_before:  # else it is attention of another kind
            self._ablate(by_copy, self.layer_numbers[-1])
        return by_copy

    def _ablate(self, contexts: Float[Tensor, "copy query head value_width"], number: int) -> None:
        """Note the heads of layer `number`, and apply each copy's ablation to them, in place."""
        self.heads_by_layer[number] = contexts.shape[2]
        if self.means is not None:
            self.means.add(number, contexts[0])
        for contexts_of_copy, ablation in zip(contexts, self.ablations, strict=True):
            self.differ |= _replace_heads(contexts_of_copy, number, ablation)


def _mask_of_copies(mask: Tensor | None, copies: int) -> Tensor | None:
    """Return the mask of the first copy; if it differs by head, repeated for the other copies."""
    if mask is None:
        return None
    return mask[:1].repeat(1, copies, 1, 1) if mask.shape[1] > 1 else mask[:1]


def _replace_heads(
    contexts: Float[Tensor, "query head value_width"],
    number: int,
    ablation: Mapping[HeadId, Replacement],
) -> bool:
    """Replace, in place, the contexts of the heads of layer `number` that are switched off.

    Returns whether there are any.
    """
    own = {head: instead for (layer, head), instead in ablation.items() if layer == number}
    for head, instead in own.items():
        if head < contexts.shape[1]:  # missing heads are refused later
            vectors = contexts[:, head]
            if isinstance(instead, Tensor):
                vectors.copy_(instead.expand_as(vectors))
            elif instead == "mean":
                vectors.copy_(vectors.mean(0, keepdim=True).expand_as(vectors))
            else:
                vectors.zero_()
    return bool(own)


@dataclass(eq=False)
class ContextMeans:
    """The mean context vector of each head over all tokens of several texts."""

    sums: dict[int, Float[Tensor, "head value_width"]] = field(default_factory=dict)  # by layer
    counts: dict[int, int] = field(default_factory=dict)  # of tokens

    def add(self, layer: int, contexts: Float[Tensor, "query head value_width"]) -> None:
        self.sums[layer] = self.sums.get(layer, 0) + contexts.double().sum(0)
        self.counts[layer] = self.counts.get(layer, 0) + len(contexts)

    def __getitem__(self, head_id: HeadId) -> Float[Tensor, "value_width"]:
        layer, head = head_id
        return self.sums[layer][head] / self.counts[layer]


@dataclass(frozen=True, eq=False)
class BlockOutputs:
    """What the blocks of a model returned in one pass, to replace them in later passes.

    Blocks are the modules in the model's lists of modules, such as its layers. Each of their calls
    has what it returned, and the numbers of the layers that had attended by then.
    """

    calls: Mapping[nn.Module, list[tuple[list[int], Any]]]

    @classmethod
    def of_model(cls, model: nn.Module) -> BlockOutputs:
        """Return an object for the outermost blocks of a model, without any calls yet."""
        calls: dict[nn.Module, list[tuple[list[int], Any]]] = {}
        inner: set[nn.Module] = set()
        for modules in model.modules():  # outer ones come first
            if isinstance(modules, nn.ModuleList) and modules not in inner:
                calls.update((block, []) for block in modules)
                inner.update(part for block in modules for part in block.modules())
        return cls(calls)

    @contextmanager
    def recording(self, listener: Listener) -> Iterator[None]:
        """Record what the blocks return inside the `with` block."""

        def record(block: nn.Module, args: Any, output: Any) -> None:
            self.calls[block].append(([*listener.layer_numbers], _for_copies(output, 1)))

        with ExitStack() as hooks:  # which are removed at its end
            for block in self.calls:
                hooks.enter_context(block.register_forward_hook(record))
            yield

    @contextmanager
    def replaying(self, attended: int, listener: AblationListener) -> Iterator[None]:
        """Inside the `with` block, blocks return what was recorded, for each copy of the text.

        Only calls that ended before more than `attended` layers had attended are replaced. The
        listener counts the layers in them.
        """
        own_forwards = {block: vars(block).get("forward") for block in self.calls}
        for block, calls in self.calls.items():
            replayed_calls = (call for call in calls if len(call[0]) <= attended)
            block.forward = _replay_function(replayed_calls, listener, block.forward)
        try:
            yield
        finally:
            for block, forward in own_forwards.items():
                if forward is None:
                    del block.forward
                else:
                    block.forward = forward


def _replay_function(
    calls: Iterator[tuple[list[int], Any]], listener: AblationListener, forward: Any
) -> Any:
    """Return a function that replays each of the calls, and then calls `forward`."""

    def replay(*args: Any, **keywords: Any) -> Any:
        for layer_numbers, output in calls:
            listener.layer_numbers[:] = layer_numbers
            return _for_copies(output, len(listener.ablations))
        return forward(*args, **keywords)

    return replay


def _for_copies(output: Any, copies: int) -> Any:
    """Return what a block returned for one text, for several copies of it.

    Vectors are copied, as the next block may change them in place; matrices of tokens are not.
    """
    if isinstance(output, tuple | list):
        return type(output)(_for_copies(part, copies) for part in output)
    if isinstance(output, dict):
        return type(output)({name: _for_copies(part, copies) for name, part in output.items()})
    if not isinstance(output, Tensor) or output.ndim == 0 or output.shape[0] != 1:
        return output
    expanded = output.expand(copies, *output.shape[1:])
    return expanded.clone() if output.ndim <= 3 else expanded


@dataclass(eq=False)
class RestartChecks:
    """Whether passes of a model that begin at a layer give what whole passes give."""

    safe_indexes: set[int] = field(default_factory=set)  # how many layers come before that layer
    is_unsafe: bool = False


@dataclass(eq=False)
class HeadAblation:
    """A model with one text, which is run without other heads each time."""

    model: LoadedTransformer
    model_input: ModelInput
    answer_positions: AnswerPositions | None
    off: Mapping[HeadId, Replacement] = field(default_factory=dict)  # in every pass
    instead: AblationValue | ContextMeans = "zero"  # of the output of other heads
    hidden: HiddenKeys | None = None  # in the first pass
    keeps_outputs: bool = False  # whether results have all that the model returns
    checks: RestartChecks = field(default_factory=RestartChecks)  # may be shared with other texts

    @cached_property
    def full_pass(self) -> tuple[PassResult, AblationListener, BlockOutputs]:
        """The result of the pass with all heads but those in `off`, and what was recorded in it."""
        blocks = BlockOutputs.of_model(self.model.model)
        kind = self.model_input.kind
        listener = AblationListener(kind=kind, layers=(), ablations=[self.off], hidden=self.hidden)
        (result,) = self._run(listener, blocks.recording(listener))
        return result, listener, blocks

    @property
    def full_result(self) -> PassResult:
        return self.full_pass[0]

    @property
    def head_ids(self) -> list[HeadId]:
        heads = self.full_pass[1].heads_by_layer.items()
        return [(layer, head) for layer, count in heads for head in range(count)]

    def add_contexts(self, means: ContextMeans) -> None:
        listener = AblationListener(kind=self.model_input.kind, layers=(), means=means)
        self._run(listener, nullcontext())

    def results_without(self, head_sets: Iterable[HeadSet]) -> Iterator[tuple[HeadSet, PassResult]]:
        """Yield each set of heads with the result of the pass without them, layer by layer."""
        layer_index = {layer: at for at, layer in enumerate(self.full_pass[1].layer_numbers)}

        def first_layer(heads: HeadSet) -> int:
            return min(layer_index[layer] for layer, _ in heads)

        for index, group in groupby(sorted(head_sets, key=first_layer), first_layer):
            same_layer = [*group]
            for start in range(0, len(same_layer), self._copies_at_once):
                batch = same_layer[start : start + self._copies_at_once]
                yield from zip(batch, self._batch_results(index, batch), strict=True)

    def _batch_results(self, index: int, batch: Sequence[HeadSet]) -> Iterable[PassResult]:
        """Return the results without each of these sets, whose first layer comes after `index`
        others.

        They come from separate whole passes if the model cannot be restarted there.
        """
        ablations = [{**self.off, **dict(map(self._replacement, heads))} for heads in batch]
        if not self.checks.is_unsafe:
            results = self._restart(index, ablations)
            if results is not None:
                return results
            self.checks.is_unsafe = True
        return (self._run(self._listener([ablation]), nullcontext())[0] for ablation in ablations)

    def _replacement(self, head_id: HeadId) -> tuple[HeadId, Replacement]:
        instead = self.instead
        return head_id, instead if isinstance(instead, str) else instead[head_id]

    def _restart(
        self, index: int, ablations: Sequence[Mapping[HeadId, Replacement]]
    ) -> list[PassResult] | None:
        """Return the results of copies of the text, from the layer after `index` others on.

        None if the model fails, or gives another result than before for a copy with all heads.
        """
        full_result, _, blocks = self.full_pass
        checks = [] if index in self.checks.safe_indexes else [self.off]
        listener = self._listener([*ablations, *checks])
        try:
            results = self._run(listener, blocks.replaying(index, listener))
        except (AttnvizError, CannotCapture):
            return None
        if checks:
            if not _is_same_result(results.pop(), full_result, self.model.dtype):
                return None
            self.checks.safe_indexes.add(index)
        return results

    def _listener(self, ablations: Sequence[Mapping[HeadId, Replacement]]) -> AblationListener:
        """Return a listener that applies these ablations, one to each copy of the text."""
        return AblationListener(kind=self.model_input.kind, layers=(), ablations=ablations)

    def _run(
        self, listener: AblationListener, blocks: AbstractContextManager[None]
    ) -> list[PassResult]:
        """Return the result of each copy of the text; `blocks` records or replaces blocks."""
        copies, kind = len(listener.ablations), self.model_input.kind
        positions = None if self.keeps_outputs else self.answer_positions
        part = model_part(
            self.model, kind, answers=self.keeps_outputs or self.answer_positions is not None
        )
        tensors = {
            name: ids.repeat(copies, 1)
            for name, ids in model_tensors(self.model, self.model_input).items()
        }
        with (
            quiet_transformers(),
            torch.no_grad(),
            reporting_run_errors(self.model, self.model_input),
            capturing_attention(self.model.model, listener),
            capturing_result(self.model, positions, kind) as result,
            blocks,
        ):
            outputs = part(**tensors)
        results = [result.of_item(copy) for copy in range(copies)]
        for copy, copy_result in enumerate(results if self.keeps_outputs else ()):
            copy_result.outputs = _outputs_of_copy(outputs, copy)
        return results

    @cached_property
    def _copies_at_once(self) -> int:
        """How many copies of the text fit in one batch: at least one."""
        tokens = max(len(self.model_input.ids), len(self.model_input.decoder_ids))
        answers = self.answer_positions
        rows = 0 if answers is None else len(answers.scored_positions)
        rows = tokens if self.keeps_outputs else rows
        vocabulary = getattr(self.model.text_config, "vocab_size", None) or 1
        fitting = MAX_BATCH_LOGITS // max(1, rows * vocabulary)
        return max(1, min(MAX_BATCH_TOKENS // tokens, fitting))


def _outputs_of_copy(outputs: Any, copy: int) -> Any:
    """Return a model's outputs for one copy of the text, as if it were the only text: tensors."""
    parts = {
        name: part[copy : copy + 1] for name, part in outputs.items() if isinstance(part, Tensor)
    }
    return type(outputs)(**parts)


def _is_same_result(first: PassResult, second: PassResult, dtype: str) -> bool:
    """Return whether two passes agree but for rounding, in last vectors and logits."""
    pairs = ((first.vectors, second.vectors), (first.logits, second.logits))
    return all(relative_difference(*pair) <= EAGER_TOLERANCE[dtype] for pair in pairs)
