"""Says why no question of a kind has a clear answer, with the numbers that decide it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from attnviz.wings.quiz.attention_row import MAX_CLEAR_EVENNESS, MAX_SHOWN_KEYS, AttentionRow
from attnviz.wings.quiz.lesson import MAX_ANSWERS
from attnviz.wings.quiz.questions import MAX_SUMMED, MIN_SHARPENING
from attnviz.wording.numbers import share_text
from attnviz.wording.words import counted

MAX_EXPLAINED_KINDS = 2  # of many kinds the first ones say enough


def explain_unclear(rows: Sequence[AttentionRow], kinds: Sequence[str]) -> str:
    if not rows:
        return (
            "no token can be asked about: all are there twice, special, punctuation, or parts of a "
            "letter"
        )
    most = max(len(row.plain_keys) for row in rows)
    if most < MAX_ANSWERS and not {"weight", "scaled", "visible", "head"}.issuperset(kinds):
        return (
            f"{counted(most, 'token')} can be answers, and {MAX_ANSWERS} are needed; those that "
            "are there twice, special tokens, punctuation and parts of a letter do not count"
        )
    reasons = {kind: EXPLANATIONS[kind](rows) for kind in kinds[:MAX_EXPLAINED_KINDS]}
    if len(kinds) == 1:
        return reasons[kinds[0]]
    return "; ".join(f"{kind}: {reason}" for kind, reason in reasons.items())


def _lead(row: AttentionRow) -> float:
    """Return how far the largest visible weight is above the next one."""
    seen = np.sort(row.weights[row.visible])
    return float(seen[-1] - seen[-2]) if len(seen) > 1 else 0.0


def _row_name(row: AttentionRow) -> str:
    return f'"{row.trace.tokens.labels[row.query]}" in {row.head_name}'


def _explain_token(rows: Sequence[AttentionRow]) -> str:
    """Return what the row with the clearest weights lacks."""
    row = max(rows, key=lambda each: (each.is_clear, each.best in each.plain_keys, _lead(each)))
    seen = np.sort(row.weights[row.visible])[::-1]
    if len(seen) < MAX_ANSWERS:
        return f"{_row_name(row)} sees {counted(len(seen), 'token')}, and {MAX_ANSWERS} are needed"
    if row.is_clear and not row.can_be_told:
        if len(row.keys) > MAX_SHOWN_KEYS:
            return (
                "only scores could tell, and those of "
                f"{len(row.keys)} tokens are too many to show (at most {MAX_SHOWN_KEYS})"
            )
        return f"nothing that can be shown tells what {_row_name(row)} attends to most"
    if row.is_clear:
        return f"fewer than {MAX_ANSWERS} visible tokens can be answers for {_row_name(row)}"
    if row.best not in row.plain_keys:
        best = row.keys.labels[row.best]
        return f'{_row_name(row)} attends most to "{best}", which is no clear answer'
    two = f"the two largest weights of {_row_name(row)} are {share_text(seen[0])} and "
    even = ", and all are nearly even" if row.evenness >= MAX_CLEAR_EVENNESS else ""
    return f"{two}{share_text(seen[1])}{even}"


def _explain_weight(rows: Sequence[AttentionRow]) -> str:
    if all(row.scores is None for row in rows):
        return "the weights are not the softmax of scores that can be shown"
    least = min(int(row.visible.sum()) for row in rows)
    if least > MAX_SUMMED:
        return f"at most {MAX_SUMMED} visible tokens can be added up, and there are {least}"
    row = min(rows, key=lambda each: each.evenness)
    return f"the largest weight of {_row_name(row)} is {share_text(row.weights.max())}, too plain"


def _explain_scaled(rows: Sequence[AttentionRow]) -> str:
    """Return how little the division by √d_k changes."""
    gains = [
        float(row.unscaled.max() - row.weights.max()) for row in rows if row.unscaled is not None
    ]
    if not gains:
        return "division by √d_k is not all that lies between the products and the weights"
    return (
        f"without the division the largest weight is at most {share_text(max(gains))} larger, and "
        f"{share_text(MIN_SHARPENING)} is needed"
    )


def _explain_mask(rows: Sequence[AttentionRow]) -> str:
    """Return why the mask leaves nothing to ask."""
    if all(row.visible.all() for row in rows):
        return "no token is hidden"
    return "too few tokens are hidden or visible to choose from"


EXPLANATIONS: Mapping[str, Callable[[Sequence[AttentionRow]], str]] = {  # as in QUESTION_KINDS
    "token": _explain_token,
    "weight": _explain_weight,
    "scaled": _explain_scaled,
    "mask": _explain_mask,
    "visible": _explain_mask,
    "head": lambda rows: "no two heads differ clearly enough",
}
