"""How long the tasks take to learn, and a step of training beside the same model in plain torch.

On two cores, after imports: `python benchmarks/learning.py [--seeds 5] [--steps 60]`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from attnviz.attention.arithmetic import score_scale
from attnviz.learning.learner import Learner, new_model
from attnviz.learning.lookup import task_of
from attnviz.learning.task import NO_TOKEN, Examples, Task, draw_examples
from attnviz.learning.task_names import TASKS
from attnviz.learning.training import Training
from attnviz.traces.models.model import Model
from attnviz.traces.plan import Plan
from attnviz.vectors.positions import rotation_angles

WANTED = {  # seconds to the stated accuracy
    "reverse": 1,
    "sort": 5,
    "agreement": 5,
    "pronouns": 10,
    "brackets": 15,
    "induction": 30,
}
BOUND = 1.25  # a step of training over the same in plain torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=[*TASKS])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    chosen = parser.parse_args()
    tasks = [task_of(name) for name in chosen.tasks]
    print(f"seconds to the stated accuracy, medians of {chosen.seeds} seeds\n")
    print(f"{'task':12}{'accuracy':>9}{'reached':>9}{'steps':>7}{'seconds':>9}{'wanted':>8}")
    for task in tasks:
        print(learned(task, chosen.seeds), flush=True)
    print(f"\nmilliseconds of a step, medians of {chosen.steps}, one and the other in turn\n")
    print(f"{'task':12}{'attnviz':>9}{'torch':>9}{'ratio':>7}{'bound':>7}")
    for task in tasks:
        print(beside_torch(task, chosen.steps), flush=True)


def learned(task: Task, seeds: int) -> str:
    """A line on how soon a task is learned, looks at it included."""
    runs = [_run(task, seed) for seed in range(seeds)]
    seconds = statistics.median(run.seconds for run in runs)
    steps = statistics.median(run.steps for run in runs)
    reached = sum(run.reached for run in runs)
    wanted = WANTED[task.name]
    verdict = "" if seconds <= wanted and reached == seeds else "  too slow"
    return (
        f"{task.name:12}{task.until:9.3f}{f'{reached} of {seeds}':>9}{steps:7.0f}"
        f"{seconds:9.2f}{wanted:8}{verdict}"
    )


@dataclass(frozen=True)
class Run:
    """One training to its end."""

    seconds: float
    steps: int
    reached: bool


def _run(task: Task, seed: int) -> Run:
    start = time.perf_counter()
    training = Training(task, replace(task.settings, seed=seed))
    for _ in training:
        pass
    took = time.perf_counter() - start
    return Run(took, training.step, training.ended == "accuracy")


def beside_torch(task: Task, steps: int) -> str:
    """A line on a step's time, over that of the same model in plain torch with the same numbers."""
    rate, batch = task.rate, task.batch
    examples = draw_examples(task, 0, batch)
    ours = Learner(new_model(task, task.settings), rate)
    plain = Plain(ours.model, ours.plan)
    theirs = torch.optim.AdamW(plain.parameters(), lr=rate, fused=True)
    refuse_another(task, ours.losses(examples).item(), loss_of(plain, examples).item())
    times = [
        (
            milliseconds(lambda: ours.learn(examples)),
            milliseconds(lambda: learn(plain, theirs, examples)),
        )
        for _ in range(steps + 10)
    ][10:]
    mine, other = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(one / two for one, two in times)
    verdict = "" if ratio <= BOUND else "  too slow"
    return f"{task.name:12}{mine:9.2f}{other:9.2f}{ratio:7.2f}{BOUND:7.2f}{verdict}"


def milliseconds(step: Callable[[], Tensor]) -> float:
    start = time.perf_counter()
    step().item()
    return (time.perf_counter() - start) * 1000


def refuse_another(task: Task, ours: float, theirs: float) -> None:
    """The same numbers in the same model come to the same loss."""
    if abs(ours - theirs) > 1e-4 * ours:
        raise SystemExit(f"{task.name}: not the same model, {ours} and {theirs}")


def learn(plain: Plain, optimizer: torch.optim.Optimizer, examples: Examples) -> Tensor:
    """A step of training, as everybody writes it."""
    loss = loss_of(plain, examples)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.detach()


def loss_of(plain: Plain, examples: Examples) -> Tensor:
    logits, answers = plain(examples.ids), examples.answers
    return functional.cross_entropy(logits.flatten(0, 1), answers.flatten(), ignore_index=NO_TOKEN)


class Plain(nn.Module):
    """A model of attnviz in `nn.Linear` and `scaled_dot_product_attention`."""

    def __init__(self, model: Model, plan: Plan) -> None:
        super().__init__()
        last, positions = model.unembedding, model.matrices.positions
        assert last is not None
        self.words = nn.Embedding(*model.embeddings.shape)
        self.words.weight = nn.Parameter(model.embeddings.detach().clone())
        self.positions = None if positions is None else nn.Parameter(positions.detach().clone())
        self.blocks = nn.Sequential(
            *(PlainBlock(plan, number) for number in range(plan.settings.layers or 1))
        )
        self.norm = (
            nn.Identity() if last.norm is None else layer_norm(last.norm.gain, last.norm.shift)
        )
        self.answers = linear(last.w_answers)

    def forward(self, ids: Tensor) -> Tensor:
        vectors = self.words(ids)
        if self.positions is not None:
            vectors = vectors + self.positions[: ids.shape[1]]
        found: Tensor = self.answers(self.norm(self.blocks(vectors)))
        return found


class PlainBlock(nn.Module):
    """One pre-norm block."""

    def __init__(self, plan: Plan, number: int) -> None:
        super().__init__()
        given = plan.matrices.for_layer(number).tensors
        named = {name: linear(given[f"w_{name}"]) for name in ("query", "key", "value")}
        self.queries, self.keys, self.values = named.values()
        self.out = linear(given["w_out"]) if plan.variant.joined else nn.Identity()
        self.scale = score_scale(plan.variant, plan.width or 1)
        self.turns = Turns(plan) if plan.settings.positions == "rotary" else None
        self.heads, self.causal = plan.variant.heads, plan.variant.causal
        self.norm = layer_norm(given["attention_gain"], given["attention_shift"])
        self.feed = None
        if plan.settings.has_feed_forward:
            self.feed = nn.Sequential(
                layer_norm(given["feed_forward_gain"], given["feed_forward_shift"]),
                linear(given["w_1"], given["b_1"]),
                nn.ReLU(),
                linear(given["w_2"], given["b_2"]),
            )

    def forward(self, vectors: Tensor) -> Tensor:
        normed = self.norm(vectors)
        queries, keys, values = (
            each(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for each in (self.queries, self.keys, self.values)
        )
        if self.turns is not None:
            queries, keys = self.turns(queries), self.turns(keys)
        contexts = functional.scaled_dot_product_attention(
            queries, keys, values, is_causal=self.causal, scale=self.scale
        )
        vectors = vectors + self.out(contexts.transpose(1, 2).flatten(2))
        return vectors if self.feed is None else vectors + self.feed(vectors)


class Turns(nn.Module):
    """Rotary positions, of as many tokens as any sentence here has."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, plan: Plan, tokens: int = 64) -> None:
        super().__init__()
        angle = rotation_angles(tokens, plan.width or 1, plan.settings.position_base).float()
        self.register_buffer("cosine", angle.cos())
        self.register_buffer("sine", angle.sin())

    def forward(self, vectors: Tensor) -> Tensor:
        one, other = vectors[..., ::2], vectors[..., 1::2]
        cosine, sine = self.cosine[: vectors.shape[-2]], self.sine[: vectors.shape[-2]]
        turned = (one * cosine - other * sine, one * sine + other * cosine)
        return torch.stack(turned, dim=-1).flatten(-2)


def linear(matrix: Tensor, bias: Tensor | None = None) -> nn.Linear:
    made = nn.Linear(matrix.shape[0], matrix.shape[1], bias=bias is not None)
    made.weight = nn.Parameter(matrix.detach().T.contiguous())
    if bias is not None:
        made.bias = nn.Parameter(bias.detach().clone())
    return made


def layer_norm(gain: Tensor, shift: Tensor) -> nn.LayerNorm:
    made = nn.LayerNorm(len(gain))
    made.load_state_dict({"weight": gain.detach(), "bias": shift.detach()})
    return made


if __name__ == "__main__":
    main()
