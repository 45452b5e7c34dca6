"""The gradient of an answer: how its score changes with what each head makes of each token.

That is enough for the gradient of every weight, and no matrix: a weight changes what its head
makes by the value that it weighs, so that its gradient is the product of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.traces.origin import FromTransformer, TrainedCard
from attnviz.traces.trace import Trace
from attnviz.traces.trained.capture import Listener, capturing_attention
from attnviz.traces.trained.forward_pass import run_model
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.pieces import reporting_tokenizer_errors, tokenizer_spelling
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.traces.trained.tracing import ModelRun, prepare_model_run
from attnviz.wording.words import and_list


@dataclass(frozen=True, eq=False, kw_only=True)
class Gradients:
    """Of the score of one answer, at one place."""

    answer: str
    position: int
    next: bool  # whether it comes after that place, or belongs there
    score: float
    by_layer: Mapping[int, Float[Tensor, "head query value_width"]]  # layers, by their numbers


@dataclass(eq=False)
class GradientListener(Listener):
    """A listener that adds zeros to what heads make: their gradient is that of it."""

    probes: dict[int, Float[Tensor, "1 query head value_width"]] = field(default_factory=dict)

    def attend(self, *args: Any) -> Float[Tensor, "1 query head value_width"]:
        before = len(self.layer_numbers)
        contexts = super().attend(*args)
        if len(self.layer_numbers) == before:  # an attention of another kind
            return contexts
        probe = self.probes[self.layer_numbers[-1]] = torch.zeros_like(contexts, requires_grad=True)
        return contexts + probe


def answer_gradients(trace: Trace, toward: str | None) -> Gradients:
    """Of the answer that somebody names, or of the likeliest, where the model answers last."""
    model_run = prepare_model_run(
        trace, "--weigh gradient takes the gradient of an answer", "weigh"
    )
    answer_positions = model_run.answer_positions
    if answer_positions is None or not answer_positions.positions:
        assert isinstance(trace.origin, FromTransformer)
        raise _no_answer_error(model_run, trace.origin.card)
    listener = GradientListener(which=model_run.model_input.which, layers=(), off=model_run.off)
    with (
        quiet_transformers(),
        torch.enable_grad(),
        capturing_attention(model_run.model.model, listener),
    ):
        result, _ = run_model(model_run.model, model_run.model_input, answer_positions)
    assert result.logits is not None
    position = (
        answer_positions.positions[-1] if answer_positions.next else answer_positions.positions[0]
    )
    scores = result.logits[answer_positions.scored.index(position)].float()
    answer = (
        int(scores.argmax())
        if toward is None
        else _find_answer_token(model_run.model, toward, scores)
    )
    gradients = torch.autograd.grad(scores[answer], [*listener.probes.values()], allow_unused=True)
    pairs = zip(listener.probes.items(), gradients, strict=True)
    return Gradients(
        answer=model_run.answer_label(answer),
        position=position,
        next=answer_positions.next,
        score=float(scores[answer].detach()),
        by_layer={
            number: _head_gradients(probe, gradient, model_run, number)
            for (number, probe), gradient in pairs
        },
    )


def _head_gradients(
    probe: Tensor, gradient: Tensor | None, model_run: ModelRun, number: int
) -> Float[Tensor, "head query value_width"]:
    """A head that is off hands on nothing, or the same for every token."""
    full_gradient = torch.zeros_like(probe) if gradient is None else gradient
    heads = full_gradient[0].detach().transpose(0, 1).clone()
    for (layer, head), instead in model_run.off.items():
        if layer == number:
            mean = heads[head].mean(0, keepdim=True).expand_as(heads[head])
            heads[head] = mean if instead == "mean" else 0
    return heads


def _find_answer_token(
    model: LoadedTransformer, toward: str, scores: Float[Tensor, "answer"]
) -> int:
    """The token that somebody names as an answer: with a space before it, or without."""
    spellings = (f" {toward}", toward)
    with reporting_tokenizer_errors(model):
        ids_by_spelling = [
            model.tokenizer.encode(item, add_special_tokens=False) for item in spellings
        ]
    single_token_ids = [
        ids[0]
        for ids in ids_by_spelling
        if len(ids) == 1 and ids[0] != model.tokenizer.unk_token_id
    ]
    if single_token_ids:
        best: int = max(single_token_ids, key=lambda item: float(scores[item].detach()))
        return best
    pieces = [
        f"'{item.label}'"
        for item in tokenizer_spelling(model.tokenizer).pieces_of_ids(ids_by_spelling[1])
    ]
    unknown = model.tokenizer.unk_token_id in ids_by_spelling[1] or not pieces
    raise AttnvizError(
        f"--toward is '{toward}', which the model '{model.name}' "
        + ("does not know" if unknown else f"writes as {len(pieces)} tokens: {and_list(pieces)}"),
        "name a token that the model has" if unknown else f"try --toward {pieces[0]}",
        about="toward",
    )


def _no_answer_error(model_run: ModelRun, card: TrainedCard) -> AttnvizError:
    if model_run.answer_positions is None:
        problem, alternative_hint = card.no_answers
        return AttnvizError(
            f"--weigh gradient takes the gradient of an answer, and '{card.name}' ({card.kind}) "
            f"{problem}",
            f"try --weigh norm; or {alternative_hint}",
            about="weigh",
        )
    mask_token = model_run.model.tokenizer.mask_token
    return AttnvizError(
        f"--weigh gradient takes the gradient of an answer, but there is no {mask_token} in the text",
        f"write {mask_token} in place of a word",
        about="weigh",
    )
