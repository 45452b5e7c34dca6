"""What the titles of pictures of weights claim, held against the weights, finding by finding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
from torch import Tensor

from attnviz import Trace
from attnviz.attention.mistakes import MISTAKES
from attnviz.traces.trace import Layer
from attnviz.views.conclusions.findings import choose_finding
from attnviz.views.conclusions.weight_titles import shown_weights
from attnviz.views.view import printable_value
from tests.claims_by_name import ClaimsByName

Claim = Callable[[Trace, int | None, "re.Match[str]"], bool]
NamedHead = tuple[str, Layer, Tensor]  # "L0H1", where it is, and its weights
claims: ClaimsByName[Claim] = ClaimsByName()
OTHER_PARTS = "other parts than weights"
WHO = (  # special tokens have no quotes
    r'(?:"|(?=\[\w+\]))((?<=")[^"]+(?=")|(?<!")\[\w+\])"?(?: \((\d+)\))?'
)
HEAD = r"(?:In ([\w ]+), )?"
KEY = rf"(?:itself|{WHO})"
SHARE = r"((?:over |under )?[\d.]+)\xa0%"
GAP = 0.0045  # by which the only strongest link must exceed all others, but for rounding


def false_title_claims(title: str, trace: Trace, query: int | None) -> list[str]:
    """The claims of a title that are false; or that it has none, or names a share without saying
    what it is compared with, or why with nothing."""
    table, facts = shown_weights(trace, query)
    finding = choose_finding(table, facts)
    is_finding = title == printable_value(finding.sentence(facts))
    name = finding.name if is_finding else OTHER_PARTS
    if is_finding and "%" in title and not finding.amount:
        return [f"{name} has a share without a base rate: {title}"]
    matches = claims.matches(name, title)
    if not matches:
        return [f"nobody knows what this title claims: {title}"]
    return [
        f"{claim.__name__}: {title}" for claim, match in matches if not claim(trace, query, match)
    ]


def active_heads(trace: Trace) -> Iterator[NamedHead]:
    """Every head that is on, with the weights that mix its values."""
    is_only_layer = len(trace.attention_layers) == 1
    for layer in trace.attention_layers:
        for head in set(range(layer.heads)) - set(layer.off):
            gap = " " if layer.memory is not None else ""
            name = f"head {head}" if is_only_layer else f"{layer.name}{gap}H{head}"
            yield name, layer, layer.attended.mixing[head].double()


def readable_keys(layer: Layer, head: str) -> Tensor:
    """Which keys each query may attend to, or attends to although they are masked."""
    number = int(re.findall(r"\d+$", head)[0])
    visible = layer.visible if layer.visible.ndim == 2 else layer.visible[number]
    return visible | (layer.attended.mixing[number] != 0)


def token_position(tokens: tuple[str, ...], label: str, number: str | None) -> int:
    if number is None:
        assert tokens.count(label) == 1, label
        return tokens.index(label)
    assert tokens.count(label) > 1
    assert tokens[int(number) - 1] == label
    return int(number) - 1


def percent_matches(share: str, weight: float) -> bool:
    """Whether a weight rounds to the given percentage."""
    if share.startswith("over"):
        return 0.999 < weight < 1
    if share.startswith("under"):
        return 0 < weight < 0.001
    half = 0.51 if "." not in share else 0.051
    return abs(100 * weight - float(share)) <= half and (float(share) < 100 or weight > 1 - 1e-5)


def find_link(trace: Trace, match: re.Match[str]) -> tuple[NamedHead, int, int]:
    """Head, query and key of `In head 1, "a" gives "b"`."""
    all_heads = list(active_heads(trace))
    head = next(each for each in all_heads if each[0] == match[1]) if match[1] else all_heads[0]
    assert (match[1] is None) == (sum(each.heads for each in trace.attention_layers) == 1)
    query = token_position(trace.tokens.labels, match[2], match[3])
    keys = trace.keys_of(head[1]).labels
    return head, query, query if match[4] is None else token_position(keys, match[4], match[5])


def sorted_weights(trace: Trace, query: int | None) -> list[float]:
    """Weights of all queries (or of one) that see several keys, the largest first."""
    weights: list[float] = []
    for name, layer, mixing in active_heads(trace):
        choice = readable_keys(layer, name).sum(-1) > 1
        if query is not None:
            choice &= torch.arange(len(choice)) == query
        weights += mixing[choice].flatten().tolist()
    return sorted(weights, reverse=True)


def rows_sum_to_one(trace: Trace, query: int | None = None) -> bool:
    rows = slice(None) if query is None else slice(query, query + 1)
    sums = [
        mixing[rows].sum(-1)[readable_keys(layer, name)[rows].any(-1)]
        for name, layer, mixing in active_heads(trace)
    ]
    return bool((torch.cat(sums) - 1).abs().max() < 6e-3)


@claims(
    "the strongest link",
    "what is asked",
    "a key with most",
    pattern=rf"{HEAD}{WHO} gives {KEY} {SHARE} of its attention",
)
def link_is_strongest(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    (_, _, weights), row, key = find_link(trace, match)
    weight, all_weights = float(weights[row, key]), sorted_weights(trace, query)
    is_strongest = weight == all_weights[0] and weight - all_weights[1] > GAP
    position = query
    if query is None and trace.prediction is not None:
        position = trace.prediction.main_position
    return (
        (is_strongest or (row == position and weight > 0.5))
        and percent_matches(match[6], weight)
        and rows_sum_to_one(trace, query)
        and query in (None, row)
    )


@claims("no shares", pattern=rf"{HEAD}{WHO} gives {KEY} the largest weight, ([\d.]+)")
def weight_is_largest(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    (_, _, weights), row, key = find_link(trace, match)
    weight, all_weights = float(weights[row, key]), sorted_weights(trace, query)
    return (
        abs(weight - float(match[6])) < 0.0051 and weight == all_weights[0] > all_weights[1] + GAP
    )


@claims(
    "all heads of a layer",
    pattern=rf"{WHO} gives {KEY} {SHARE}( or more)? of its attention in (both|all (\d+)) heads"
    r"(?: of layer (\d+))?",
)
def link_holds_in_all_heads(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    layer = trace.layers[int(match[9] or 0)]
    row = token_position(trace.tokens.labels, match[1], match[2])
    key = row if match[3] is None else token_position(trace.tokens.labels, match[3], match[4])
    mixing = layer.attended.mixing[[h for h in range(layer.heads) if h not in layer.off], row]
    weights = mixing.double()[:, key]
    count = 2 if match[7] == "both" else int(match[7].removeprefix("all "))
    share_is_right = (
        bool((weights > float(match[5].removeprefix("over ")) / 100 - 1e-6).all())
        if match[6]
        else all(percent_matches(match[5], float(each)) for each in weights)
    )
    return (
        share_is_right
        and len(weights) == count
        and bool((weights > 0.5).all())
        and query in (None, row)
    )


@claims(
    "equal shares",
    "almost even",
    "a mask",
    pattern=r"Each token attends (only|equally|almost equally) to (.+)",
)
def each_token_attends_so(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    return query is None and all(
        _weights_follow(match[1], match[2], mixing, readable_keys(layer, name))
        for name, layer, mixing in active_heads(trace)
    )


def _weights_follow(how: str, whom: str, weights: Tensor, visible: Tensor) -> bool:
    rows, keys = torch.arange(len(weights))[:, None], torch.arange(weights.shape[1])[None]
    back, far = rows - keys, re.findall(r"\d+", whom)
    allowed_keys = {
        "itself": back == 0,
        "itself and earlier tokens": back >= 0,
        "itself and its neighbours": back.abs() <= 1,
        "itself and the token before it": (back >= 0) & (back <= 1),
        "all tokens": torch.ones_like(back, dtype=torch.bool),
        "all that it may see": visible,
    }.get(whom)
    if allowed_keys is None:
        reach = int(far[0])
        allowed_keys = (
            back.abs() <= reach if "places away" in whom else (back >= 0) & (back <= reach)
        )
    if how == "only":
        return not bool(weights[~allowed_keys].any()) and not bool(visible.all())
    share = torch.where(visible.any(-1), 1 / visible.sum(-1), 0)[:, None] * visible
    most = 0.0101 if how == "equally" else 0.151
    return bool(((weights - share).abs() <= most * share + 1e-9).all()) and bool(
        (allowed_keys == visible).all()
    )


@claims(
    "equal shares",
    "almost even",
    "one token",
    "one key",
    pattern=rf"{HEAD}{WHO} attends (only|equally|almost equally) to (.+)",
)
def one_token_attends_so(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    row = token_position(trace.tokens.labels, match[2], match[3])
    for name, layer, mixing in active_heads(trace):
        mine, visible = mixing[row], readable_keys(layer, name)[row]
        share = visible / visible.sum()
        if match[4] == "only":
            key = _only_key(trace, layer, row, match[5])
            if float(mine[key]) < 0.994 or int(visible.sum()) != 1:
                return False
            continue
        most = 0.0101 if match[4] == "equally" else 0.151
        even = bool(((mine - share).abs() <= most * share + 1e-9).all())
        if not even or (match[5] == "all tokens" and not bool(visible.all())):
            return False
    return True


def _only_key(trace: Trace, layer: Layer, row: int, whom: str) -> int:
    if whom.startswith("itself"):
        assert whom == "itself" or len(trace.tokens) == 1
        return row
    name_match = re.fullmatch(WHO, whom)
    assert name_match
    return token_position(trace.keys_of(layer).labels, name_match[1], name_match[2])


@claims(
    "two top keys",
    pattern=rf"{HEAD}{WHO} attends mostly to {KEY} \({SHARE}\) and {KEY} \({SHARE}\)",
)
def two_keys_get_most(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    row = token_position(trace.tokens.labels, match[2], match[3])
    (_, layer, mixing) = next(each for each in active_heads(trace) if match[1] in (None, each[0]))
    keys = trace.keys_of(layer).labels
    first_key, second_key = (
        row if match[at] is None else token_position(keys, match[at], match[at + 1])
        for at in (4, 7)
    )
    keys_by_weight = mixing[row].argsort(descending=True).tolist()
    shares = [float(mixing[row, each]) for each in (first_key, second_key)]
    return (
        keys_by_weight[:2] == [first_key, second_key]
        and sum(shares) > 0.5
        and all(
            percent_matches(share, each)
            for share, each in zip((match[6], match[9]), shares, strict=True)
        )
        and rows_sum_to_one(trace, query)
    )


@claims("the token sees none", pattern=rf"{HEAD}{WHO} attends to nothing: every key is masked")
def query_reads_nothing(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    return not any(bool(mixing[query].any()) for _, _, mixing in active_heads(trace))


@claims("no token sees any", pattern=r"No token attends to any: everything is hidden")
def no_query_reads(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    return not any(bool(mixing.any()) for _, _, mixing in active_heads(trace))


@claims("nothing ahead", pattern=r"No token attends to a later one")
def no_later_token_is_read(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    return not any(bool(mixing.triu(1).any()) for _, _, mixing in active_heads(trace))


@claims("by distance alone", pattern=r"The nearer a token, the more attention it gets")
def weight_falls_with_distance(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    def falls(row: Tensor, visible: Tensor, at: int) -> bool:
        weights_by_distance = sorted(
            (abs(at - key), float(row[key])) for key in visible.nonzero().flatten()
        )
        return all(a > b for (near, a), (far, b) in pairwise(weights_by_distance) if far > near)

    return all(
        falls(row, readable_keys(layer, name)[at], at)
        for name, layer, mixing in active_heads(trace)
        for at, row in enumerate(mixing)
    )


@claims("mostly itself", pattern=rf"Each token gives itself {SHARE} or more of its attention")
def each_token_reads_itself(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    least_share = float(match[1].removeprefix("over ")) / 100
    return rows_sum_to_one(trace) and all(
        bool((mixing.diagonal() > least_share - 1e-6).all()) and least_share >= 0.5
        for *_, mixing in active_heads(trace)
    )


@claims("mirrored", pattern=r"Each token attends mostly to the one at the mirrored place")
def mirrored_position_gets_most(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    return rows_sum_to_one(trace) and all(
        bool((mixing.flip(-1).diagonal() > 0.5).all()) for *_, mixing in active_heads(trace)
    )


@claims("links alike", pattern=rf"(.+) each give {WHO} {SHARE}( or more)? of their attention")
def queries_share_a_key(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    [(_, layer, mixing)] = active_heads(trace)
    key = token_position(trace.keys_of(layer).labels, match[2], match[3])
    rows = [token_position(trace.tokens.labels, *name_and_number) for name_and_number in
            ((a, b or None) for a, b in re.findall(WHO, match[1]))]  # fmt: skip
    all_weights, least = sorted_weights(trace, None), float(match[4].removeprefix("over ")) / 100
    mine = sorted((float(mixing[row, key]) for row in rows), reverse=True)
    shares_are_right = all(
        each > least - 1e-6 if match[5] else percent_matches(match[4], each) for each in mine
    )
    return mine == all_weights[: len(mine)] and shares_are_right and rows_sum_to_one(trace)


@claims("a column", pattern=rf"(All|Most) tokens attend most to {WHO}")
def key_is_read_most(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    [(name, layer, mixing)] = active_heads(trace)
    key = token_position(trace.keys_of(layer).labels, match[2], match[3])
    choice = readable_keys(layer, name).sum(-1) > 1
    first = (mixing.argmax(-1) == key) & choice
    most = float(first.sum()) > float(choice.sum()) / 2
    return most and (match[1] == "Most" or bool(first.all()))


@claims("a mistake", pattern=r"✗ (.+)")
def mistake_matches(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    """Checks the words only: the effect is a claim of the softmax step."""
    mistake = MISTAKES[trace.layers[0].mistake]
    return match[1] in (mistake.cause, mistake.about)


@claims(
    "nothing stands out",
    pattern=rf"(?:Attention between (\d+) tokens?|What {WHO} attends to)"
    r"(?: in (?:(\d+) heads|([\w ]+)))?",
)
def counts_match(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    names = [name for name, *_ in active_heads(trace)]
    token_count_is_right = match[1] is None or int(match[1]) == len(trace.tokens)
    is_named_head = match[5] is None or names == [match[5]]
    return token_count_is_right and is_named_head and len(names) == int(match[4] or 1)


@claims(OTHER_PARTS, pattern=r"(?:Embeddings|Queries|Keys|Values|Scores|Tokens).* of (\d+) tokens?")
def token_count_matches(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    return int(match[1]) == len(trace.tokens)


@claims("all heads are off", pattern=r"Every head is switched off")
def all_heads_are_off(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    return not list(active_heads(trace))


@claims(OTHER_PARTS, pattern=r"Q · Kᵀ = scores(?: and W · V = context.*)?")
def products_equal_scores(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    return all(
        each.queries is not None
        and each.keys_of_heads is not None
        and torch.allclose(
            each.queries.double() @ each.keys_of_heads.double().mT,
            each.attended.scores.double(), rtol=1e-2, atol=1e-2,
        )
        for each in trace.attention_layers
    )  # fmt: skip


@claims(
    OTHER_PARTS,
    pattern=r"(?:Q · Kᵀ = scores and )?W · V = context( of each head, before W_o mixes them)?",
)
def products_equal_contexts(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    has_output_matrix = any(
        getattr(each.projections, "w_out", None) is not None for each in trace.attention_layers
    )
    return has_output_matrix == bool(match[1]) and all(
        torch.allclose(
            each.attended.mixing.double() @ each.values_of_heads.double(),
            each.attended.contexts.double(), rtol=1e-2, atol=1e-2,
        )
        for each in trace.attention_layers
    )  # fmt: skip
