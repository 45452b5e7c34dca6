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
from attnviz.traces.trained.listening import Listener, listening
from attnviz.traces.trained.loading import Loaded
from attnviz.traces.trained.passing import run
from attnviz.traces.trained.pieces import spelling_of, tokenizing
from attnviz.traces.trained.refusals import quietly
from attnviz.traces.trained.tracing import Rereading, reread
from attnviz.wording.words import listed


@dataclass(frozen=True, eq=False, kw_only=True)
class Gradients:
    """Of the score of one answer, at one place."""

    answer: str
    place: int
    next: bool  # whether it comes after that place, or belongs there
    score: float
    of: Mapping[int, Float[Tensor, "head query value_width"]]  # layers, by their numbers


@dataclass(eq=False)
class Probing(Listener):
    """A listener that adds zeros to what heads make: their gradient is that of it."""

    probes: dict[int, Float[Tensor, "1 query head value_width"]] = field(default_factory=dict)

    def attend(self, *args: Any) -> Float[Tensor, "1 query head value_width"]:
        before = len(self.numbers)
        contexts = super().attend(*args)
        if len(self.numbers) == before:  # an attention of another kind
            return contexts
        probe = self.probes[self.numbers[-1]] = torch.zeros_like(contexts, requires_grad=True)
        return contexts + probe


def gradients_of(trace: Trace, toward: str | None) -> Gradients:
    """Of the answer that somebody names, or of the likeliest, where the model answers last."""
    found = reread(trace, "--weigh gradient takes the gradient of an answer", "weigh")
    asked = found.asked
    if asked is None or not asked.places:
        assert isinstance(trace.origin, FromTransformer)
        raise _nothing_asked(found, trace.origin.card)
    probing = Probing(which=found.reading.which, layers=(), off=found.off)
    with quietly(), torch.enable_grad(), listening(found.model.model, probing):
        made, _ = run(found.model, found.reading, asked)
    assert made.logits is not None
    place = asked.places[-1] if asked.next else asked.places[0]
    scores = made.logits[asked.scored.index(place)].float()
    answer = int(scores.argmax()) if toward is None else _named(found.model, toward, scores)
    gradients = torch.autograd.grad(scores[answer], [*probing.probes.values()], allow_unused=True)
    pairs = zip(probing.probes.items(), gradients, strict=True)
    return Gradients(
        answer=found.label(answer),
        place=place,
        next=asked.next,
        score=float(scores[answer].detach()),
        of={number: _of_heads(probe, one, found, number) for (number, probe), one in pairs},
    )


def _of_heads(
    probe: Tensor, gradient: Tensor | None, found: Rereading, number: int
) -> Float[Tensor, "head query value_width"]:
    """A head that is off hands on nothing, or the same for every token."""
    made = torch.zeros_like(probe) if gradient is None else gradient
    heads = made[0].detach().transpose(0, 1).clone()
    for (layer, head), instead in found.off.items():
        if layer == number:
            mean = heads[head].mean(0, keepdim=True).expand_as(heads[head])
            heads[head] = mean if instead == "mean" else 0
    return heads


def _named(model: Loaded, toward: str, scores: Float[Tensor, "answer"]) -> int:
    """The token that somebody names as an answer: with a space before it, or without."""
    spelled = (f" {toward}", toward)
    with tokenizing(model):
        cut = [model.tokenizer.encode(each, add_special_tokens=False) for each in spelled]
    alone = [ids[0] for ids in cut if len(ids) == 1 and ids[0] != model.tokenizer.unk_token_id]
    if alone:
        best: int = max(alone, key=lambda each: float(scores[each].detach()))
        return best
    pieces = [f"'{each.label}'" for each in spelling_of(model.tokenizer).written(cut[1])]
    unknown = model.tokenizer.unk_token_id in cut[1] or not pieces
    raise AttnvizError(
        f"--toward is '{toward}', which the model '{model.name}' "
        + ("does not know" if unknown else f"writes as {len(pieces)} tokens: {listed(pieces)}"),
        "name a token that the model has" if unknown else f"try --toward {pieces[0]}",
        about="toward",
    )


def _nothing_asked(found: Rereading, card: TrainedCard) -> AttnvizError:
    if found.asked is None:
        what, instead = card.no_answers
        return AttnvizError(
            f"--weigh gradient takes the gradient of an answer, and '{card.name}' ({card.kind}) "
            f"{what}",
            f"try --weigh norm; or {instead}",
            about="weigh",
        )
    gap = found.model.tokenizer.mask_token
    return AttnvizError(
        f"--weigh gradient takes the gradient of an answer, but there is no {gap} in the text",
        f"write {gap} in place of a word",
        about="weigh",
    )
