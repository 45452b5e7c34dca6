"""How much memory learning takes, counted before a number is drawn."""

from __future__ import annotations

from attnviz.learning.choices import Choices
from attnviz.learning.task import Task
from attnviz.machine import memory
from attnviz.traces.settings import FEED_FORWARD, Settings, chosen_variant, head_width

NUMBER = 4  # bytes
OF_A_PARAMETER = 10  # itself, its gradient, what AdamW keeps of it, copies, and while it is drawn
OF_A_WEIGHT = 8  # scores, scaled, masked, shares, and the gradients of these
OF_A_VECTOR = 24  # what a layer makes of a token, each as wide as its vector, and the gradients
OF_THE_INSIDE = 6  # the same, as wide as feed-forward


def refuse_too_much(task: Task, settings: Settings, choices: Choices) -> None:
    """Stop before memory is filled."""
    sentences = max(choices.batch or task.batch, 1)
    needed = NUMBER * (
        OF_A_PARAMETER * parameters(task, settings)
        + sentences * _of_a_sentence(task.longest, settings)
    )
    memory.refuse_more(
        needed,
        f"learning {task.name} with these settings",
        "learn from fewer sentences at once (--batch), or a smaller model (--dim, --layers)",
    )


def parameters(task: Task, settings: Settings) -> int:
    """How many numbers are learned, but for those of norms and biases, which are few."""
    variant, dim = chosen_variant(settings), settings.width
    width = head_width(settings, variant, dim)
    groups = variant.kv_heads or variant.heads
    of_attention = 2 * dim * width * (variant.heads + groups)
    of_feed_forward = 2 * dim * _inside(settings) if settings.feeds else 0
    words = task.vocabulary
    read = len(words.words) + len(words.answers) + task.longest
    return dim * read + (settings.layers or 1) * (of_attention + of_feed_forward)


def _of_a_sentence(tokens: int, settings: Settings) -> int:
    """How many numbers there are at once on its way through the model, and back."""
    variant = chosen_variant(settings)
    of_heads = variant.heads * head_width(settings, variant, settings.width)
    inside = OF_THE_INSIDE * _inside(settings) if settings.feeds else 0
    of_a_token = OF_A_VECTOR * max(settings.width, of_heads) + inside
    weights = OF_A_WEIGHT * variant.heads * tokens * tokens
    return (settings.layers or 1) * (weights + tokens * of_a_token)


def _inside(settings: Settings) -> int:
    return settings.feed_forward or FEED_FORWARD * settings.width
