"""The gradient of an answer's logit with respect to each head's context vectors.

The gradient of every attention weight follows from it: a context is the sum of weight × value, so a
weight's gradient is the product of the context's gradient and the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.attention.arithmetic import switch_off_heads
from attnviz.traces.trace import Trace
from attnviz.traces.trained.answers import find_answer_token
from attnviz.traces.trained.capture import AttentionCall, Listener, capturing_attention
from attnviz.traces.trained.forward_pass import run_model
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.traces.trained.tracing import ModelRun, no_answer_error, prepare_model_run
from attnviz.wording.surfaces import opt

PURPOSE = f"{opt.weigh:gradient} takes the gradient of an answer"


@dataclass(frozen=True, eq=False, kw_only=True)
class Gradients:
    """The gradients of one answer's logit at one position."""

    answer: str
    position: int
    next: bool  # whether the answer follows that position, or stands there
    score: float
    by_layer: Mapping[int, Float[Tensor, "head query value_width"]]  # by layer number


@dataclass(eq=False)
class GradientListener(Listener):
    """A listener that adds zeros to the context vectors, whose gradient is that of the contexts."""

    probes: dict[int, Float[Tensor, "1 query head value_width"]] = field(default_factory=dict)

    def attend(self, call: AttentionCall) -> Float[Tensor, "1 query head value_width"]:
        """Return the context vectors plus zeros (in `probes`), by which the gradient is taken."""
        before = len(self.layer_numbers)
        contexts = super().attend(call)
        if len(self.layer_numbers) == before:  # attention of another kind
            return contexts
        probe = self.probes[self.layer_numbers[-1]] = torch.zeros_like(contexts, requires_grad=True)
        return contexts + probe


def answer_gradients(trace: Trace, toward: str | None) -> Gradients:
    """Return the gradients of the logit of the token `toward` (None: of the likeliest one).

    The logit is that at the last position if the model predicts next tokens, else at the first
    [MASK]. Refuses a `toward` that is not one token, a model without answers, and a text without
    [MASK].
    """
    run = prepare_model_run(trace, PURPOSE, "weigh")
    answers = run.answer_positions
    if answers is None or not answers.positions:
        raise no_answer_error(run, PURPOSE, "weigh", f"try {opt.weigh:norm}; or ")
    listener = GradientListener(kind=run.model_input.kind, layers=(), off=run.off)
    with quiet_transformers(), torch.enable_grad(), capturing_attention(run.model.model, listener):
        result, _ = run_model(run.model, run.model_input, answers)
    assert result.logits is not None
    position = answers.positions[-1 if answers.next else 0]
    scores = result.logits[answers.scored_positions.index(position)].float()
    likeliest = int(scores.argmax())
    answer = likeliest if toward is None else find_answer_token(run.model, toward, scores, "toward")
    gradients = torch.autograd.grad(scores[answer], [*listener.probes.values()], allow_unused=True)
    pairs = zip(listener.probes.items(), gradients, strict=True)
    return Gradients(
        answer=run.answer_label(answer),
        position=position,
        next=answers.next,
        score=float(scores[answer].detach()),
        by_layer={
            number: _head_gradients(probe, gradient, run, number)
            for (number, probe), gradient in pairs
        },
    )


def _head_gradients(
    probe: Tensor, gradient: Tensor | None, run: ModelRun, number: int
) -> Float[Tensor, "head query value_width"]:
    """Return one layer's gradients by head.

    They are zero for a head ablated with "zero", and for one with "mean" their mean over the text.
    """
    known = torch.zeros_like(probe) if gradient is None else gradient
    off = {head: instead for (layer, head), instead in run.off.items() if layer == number}
    return switch_off_heads(known[0].detach().transpose(0, 1).clone(), off)
