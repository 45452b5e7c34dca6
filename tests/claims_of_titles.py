"""What the titles of pictures of weights claim, held against the weights: each pattern a claim."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
from torch import Tensor

from attnviz import Trace
from attnviz.attention.mistakes import MISTAKES
from attnviz.traces.trace import Layer

Claim = Callable[[Trace, int | None, "re.Match[str]"], bool]
Named = tuple[str, Layer, Tensor]  # "L0H1", where it is, and its weights
CLAIMS: list[tuple[re.Pattern[str], Claim]] = []
WHO = r'"([^"]+)"(?: \((\d+)\))?'
HEAD = r"(?:In ([\w ]+), )?"
KEY = rf"(?:itself|{WHO})"
SHARE = r"((?:over |under )?[\d.]+)\xa0%"
GAP = 0.0045  # by which the only strongest link must exceed all others, but for rounding


def claims(pattern: str) -> Callable[[Claim], Claim]:
    def kept(claim: Claim) -> Claim:
        CLAIMS.append((re.compile(f"^{pattern}$"), claim))
        return claim

    return kept


def untrue_title(title: str, made: Trace, query: int | None) -> list[str]:
    """Why a title is false; or that nobody knows what it claims."""
    found = [(claim, match) for pattern, claim in CLAIMS if (match := pattern.match(title))]
    if not found:
        return [f"nobody knows what this title claims: {title}"]
    return [f"{claim.__name__}: {title}" for claim, match in found if not claim(made, query, match)]


def heads(made: Trace) -> Iterator[Named]:
    """Every head that is on, with the weights that mix its values."""
    alone = len(made.attention_layers) == 1
    for layer in made.attention_layers:
        for head in set(range(layer.heads)) - set(layer.off):
            gap = " " if layer.memory is not None else ""
            name = f"head {head}" if alone else f"{layer.name}{gap}H{head}"
            yield name, layer, layer.attended.mixing[head].double()


def seen(layer: Layer, head: str) -> Tensor:
    """Which keys each query may attend to, or attends to all the same."""
    number = int(re.findall(r"\d+$", head)[0])
    visible = layer.visible if layer.visible.ndim == 2 else layer.visible[number]
    return visible | (layer.attended.mixing[number] != 0)


def place(tokens: tuple[str, ...], label: str, number: str | None) -> int:
    if number is None:
        assert tokens.count(label) == 1, label
        return tokens.index(label)
    assert tokens.count(label) > 1
    assert tokens[int(number) - 1] == label
    return int(number) - 1


def reads(share: str, weight: float) -> bool:
    """Whether a number of per cents is that of a weight, rounded."""
    if share.startswith("over"):
        return 0.999 < weight < 1
    half = 0.51 if "." not in share else 0.051
    return abs(100 * weight - float(share)) <= half and (float(share) < 100 or weight > 1 - 1e-5)


def link(made: Trace, match: re.Match[str]) -> tuple[Named, int, int]:
    """Head, query and key of `In head 1, "a" gives "b"`."""
    every = list(heads(made))
    head = next(each for each in every if each[0] == match[1]) if match[1] else every[0]
    assert (match[1] is None) == (sum(each.heads for each in made.attention_layers) == 1)
    query = place(made.tokens.labels, match[2], match[3])
    keys = made.keys_of(head[1]).labels
    return head, query, query if match[4] is None else place(keys, match[4], match[5])


def strongest(made: Trace, query: int | None) -> list[float]:
    """The weights of all queries that have a choice, or of one, the largest first."""
    weights: list[float] = []
    for name, layer, mixing in heads(made):
        choice = seen(layer, name).sum(-1) > 1
        if query is not None:
            choice &= torch.arange(len(choice)) == query
        weights += mixing[choice].flatten().tolist()
    return sorted(weights, reverse=True)


def whole(made: Trace, query: int | None = None) -> bool:
    rows = slice(None) if query is None else slice(query, query + 1)
    sums = [
        mixing[rows].sum(-1)[seen(layer, name)[rows].any(-1)] for name, layer, mixing in heads(made)
    ]
    return bool((torch.cat(sums) - 1).abs().max() < 6e-3)


@claims(rf"{HEAD}{WHO} gives {KEY} {SHARE} of its attention")
def strongest_link(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    (_, _, weights), row, key = link(made, match)
    weight, every = float(weights[row, key]), strongest(made, query)
    first = weight == every[0] and weight - every[1] > GAP
    return (first or (query is not None and weight > 0.5)) and reads(match[6], weight) and (
        whole(made, query) and query in (None, row)
    )  # fmt: skip


@claims(rf"{HEAD}{WHO} gives {KEY} the largest weight, ([\d.]+)")
def largest(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    (_, _, weights), row, key = link(made, match)
    weight, every = float(weights[row, key]), strongest(made, query)
    return abs(weight - float(match[6])) < 0.0051 and weight == every[0] > every[1] + GAP


@claims(rf"{WHO} gives {KEY} {SHARE}( or more)? of its attention in (both|all (\d+)) heads"
        r"(?: of layer (\d+))?")  # fmt: skip
def in_a_layer(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    layer = made.layers[int(match[9] or 0)]
    row = place(made.tokens.labels, match[1], match[2])
    key = row if match[3] is None else place(made.tokens.labels, match[3], match[4])
    mixing = layer.attended.mixing[[h for h in range(layer.heads) if h not in layer.off], row]
    found = mixing.double()[:, key]
    count = 2 if match[7] == "both" else int(match[7].removeprefix("all "))
    told = (
        bool((found > float(match[5].removeprefix("over ")) / 100 - 1e-6).all())
        if match[6]
        else all(reads(match[5], float(each)) for each in found)
    )
    return told and len(found) == count and bool((found > 0.5).all()) and query in (None, row)


@claims(r"Each token attends (only|equally|almost equally) to (.+)")
def of_each(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    return query is None and all(
        _as_said(match[1], match[2], mixing, seen(layer, name))
        for name, layer, mixing in heads(made)
    )


def _as_said(how: str, whom: str, weights: Tensor, visible: Tensor) -> bool:
    rows, keys = torch.arange(len(weights))[:, None], torch.arange(weights.shape[1])[None]
    back, far = rows - keys, re.findall(r"\d+", whom)
    allowed = {
        "itself": back == 0,
        "itself and earlier tokens": back >= 0,
        "itself and its neighbours": back.abs() <= 1,
        "itself and the token before it": (back >= 0) & (back <= 1),
        "all tokens": torch.ones_like(back, dtype=torch.bool),
        "all that it may see": visible,
    }.get(whom)
    if allowed is None:
        reach = int(far[0])
        allowed = back.abs() <= reach if "places away" in whom else (back >= 0) & (back <= reach)
    if how == "only":
        return not bool(weights[~allowed].any()) and not bool(visible.all())
    share = torch.where(visible.any(-1), 1 / visible.sum(-1), 0)[:, None] * visible
    most = 0.0101 if how == "equally" else 0.151
    return bool(((weights - share).abs() <= most * share + 1e-9).all()) and bool(
        (allowed == visible).all()
    )


@claims(rf"{HEAD}{WHO} attends (only|equally|almost equally) to (.+)")
def of_one(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    row = place(made.tokens.labels, match[2], match[3])
    for name, layer, mixing in heads(made):
        mine, visible = mixing[row], seen(layer, name)[row]
        share = visible / visible.sum()
        if match[4] == "only":
            key = _only(made, layer, row, match[5])
            if float(mine[key]) < 0.994 or int(visible.sum()) != 1:
                return False
            continue
        most = 0.0101 if match[4] == "equally" else 0.151
        even = bool(((mine - share).abs() <= most * share + 1e-9).all())
        if not even or (match[5] == "all tokens" and not bool(visible.all())):
            return False
    return True


def _only(made: Trace, layer: Layer, row: int, whom: str) -> int:
    if whom.startswith("itself"):
        assert whom == "itself" or len(made.tokens) == 1
        return row
    found = re.fullmatch(WHO, whom)
    assert found
    return place(made.keys_of(layer).labels, found[1], found[2])


@claims(rf"{HEAD}{WHO} attends mostly to {KEY} \({SHARE}\) and {KEY} \({SHARE}\)")
def mostly(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    row = place(made.tokens.labels, match[2], match[3])
    (_, layer, mixing) = next(each for each in heads(made) if match[1] in (None, each[0]))
    keys = made.keys_of(layer).labels
    one, other = (
        row if match[at] is None else place(keys, match[at], match[at + 1]) for at in (4, 7)
    )
    ranked = mixing[row].argsort(descending=True).tolist()
    shares = [float(mixing[row, each]) for each in (one, other)]
    return (
        ranked[:2] == [one, other]
        and sum(shares) > 0.5
        and all(
            reads(share, each) for share, each in zip((match[6], match[9]), shares, strict=True)
        )
        and whole(made, query)
    )


@claims(rf"{WHO} attends to nothing: every key is masked")
def nothing(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    return not any(bool(mixing[query].any()) for _, _, mixing in heads(made))


@claims(r"No token attends to any: everything is hidden")
def nobody(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    return not any(bool(mixing.any()) for _, _, mixing in heads(made))


@claims(r"No token attends to a later one")
def nothing_ahead(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    return not any(bool(mixing.triu(1).any()) for _, _, mixing in heads(made))


@claims(r"The nearer a token, the more attention it gets")
def by_distance(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    def falls(row: Tensor, visible: Tensor, at: int) -> bool:
        apart = sorted((abs(at - key), float(row[key])) for key in visible.nonzero().flatten())
        return all(a > b for (near, a), (far, b) in pairwise(apart) if far > near)

    return all(
        falls(row, seen(layer, name)[at], at)
        for name, layer, mixing in heads(made)
        for at, row in enumerate(mixing)
    )


@claims(rf"Each token gives itself {SHARE} or more of its attention")
def itself(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    least = float(match[1].removeprefix("over ")) / 100
    return whole(made) and all(
        bool((mixing.diagonal() > least - 1e-6).all()) and least >= 0.5
        for *_, mixing in heads(made)
    )


@claims(r"Each token attends mostly to the one at the mirrored place")
def mirrored(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    return whole(made) and all(
        bool((mixing.flip(-1).diagonal() > 0.5).all()) for *_, mixing in heads(made)
    )


@claims(rf"(.+) each give {WHO} {SHARE}( or more)? of their attention")
def alike(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    [(_, layer, mixing)] = heads(made)
    key = place(made.keys_of(layer).labels, match[2], match[3])
    rows = [place(made.tokens.labels, *found) for found in
            ((a, b or None) for a, b in re.findall(WHO, match[1]))]  # fmt: skip
    every, least = strongest(made, None), float(match[4].removeprefix("over ")) / 100
    mine = sorted((float(mixing[row, key]) for row in rows), reverse=True)
    told = all(each > least - 1e-6 if match[5] else reads(match[4], each) for each in mine)
    return mine == every[: len(mine)] and told and whole(made)


@claims(rf"(All|Most) tokens attend most to {WHO}")
def column(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    [(name, layer, mixing)] = heads(made)
    key = place(made.keys_of(layer).labels, match[2], match[3])
    choice = seen(layer, name).sum(-1) > 1
    first = (mixing.argmax(-1) == key) & choice
    most = float(first.sum()) > float(choice.sum()) / 2
    return most and (match[1] == "Most" or bool(first.all()))


@claims(r"✗ (.+)")
def mistaken(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    """What comes of it is held against the numbers where the softmax is spoken of."""
    mistake = MISTAKES[made.layers[0].mistake]
    return match[1] in (mistake.cause, mistake.about)


@claims(rf"(?:Attention between (\d+) tokens?|What {WHO} attends to)(?: in (\d+) heads)?")
def of_weights(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    count = len(list(heads(made)))
    told = match[1] is None or int(match[1]) == len(made.tokens)
    return told and count == int(match[4] or 1)


@claims(r"(?:Embeddings|Queries|Keys|Values|Scores|Tokens).* of (\d+) tokens?")
def of_parts(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    return int(match[1]) == len(made.tokens)


@claims(r"Every head is switched off")
def all_off(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    return not list(heads(made))


@claims(r"Q · Kᵀ = scores(?: and W · V = context.*)?")
def scores(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    return all(
        each.queries is not None
        and each.keys_of_heads is not None
        and torch.allclose(
            each.queries.double() @ each.keys_of_heads.double().mT,
            each.attended.scores.double(), rtol=1e-2, atol=1e-2,
        )
        for each in made.attention_layers
    )  # fmt: skip


@claims(r"(?:Q · Kᵀ = scores and )?W · V = context( of each head, before W_o mixes them)?")
def context(made: Trace, query: int | None, match: re.Match[str]) -> bool:
    mixed = any(
        getattr(each.projections, "w_out", None) is not None for each in made.attention_layers
    )
    return mixed == bool(match[1]) and all(
        torch.allclose(
            each.attended.mixing.double() @ each.values_of_heads.double(),
            each.attended.contexts.double(), rtol=1e-2, atol=1e-2,
        )
        for each in made.attention_layers
    )  # fmt: skip
