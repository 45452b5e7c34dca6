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
from attnviz.views.conclusions.weight_titles import WEIGHT_FINDINGS, shown_weights
from attnviz.views.notes import softmax_caveat
from attnviz.views.view import printable_value
from tests import not_none
from tests.base_rates import base_of, others_of
from tests.claims_by_name import ClaimsByName

Claim = Callable[[Trace, int | None, "re.Match[str]"], bool]
NamedHead = tuple[str, Layer, Tensor]  # "L0H1", where it is, and its weights
claims: ClaimsByName[Claim] = ClaimsByName()
OTHER_PARTS = "other parts than weights"
WHO = (  # special tokens have no quotes
    r'(?:"|(?=\[\w+\]|</?s>))((?<=")[^"]+(?=")|(?<!")(?:\[\w+\]|</?s>))"?(?: \((\d+)\))?'
)
HEAD = r"(?:In ([\w ]+), )?"
KEY = rf"(?:itself|{WHO})"
SHARE = r"((?:over |under )?[\d.]+)\xa0%"
GAP = 0.0045  # by which the only strongest link must exceed all others, but for rounding


def false_title_claims(title: str, trace: Trace, query: int | None) -> list[str]:
    """The claims of a title that are false; or that it has none, or names a share without saying
    what it is compared with, or why with nothing."""
    facts = shown_weights(trace, query)
    finding = choose_finding(WEIGHT_FINDINGS, facts)
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
    "a link beyond others",
    pattern=rf"{HEAD}{WHO} gives {KEY} {SHARE} of its attention; (?:the other tokens give .*? "
    rf"{SHARE}|no third token can attend to it)",
)
def link_is_telling(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    """Whether both shares are right, and no link of the shown heads says more."""
    (name, layer, mixing), row, key = find_link(trace, match)
    worth, share, base = _worth_of_link(trace, layer, mixing, row, key)
    is_largest = share > 1 - 1e-6 or query is not None
    others = [
        _worth_of_link(trace, each, weights, one, other)[0]
        for head, each, weights in active_heads(trace)
        for one, other in readable_keys(each, head).nonzero().tolist()
        if query in (None, one) and other not in trace.keys_of(each).special
        and int(readable_keys(each, head)[one].sum()) > 1
    ]  # fmt: skip
    return (
        percent_matches(match[6], share)
        and (match[7] is None or percent_matches(match[7], base))
        and (worth > max(others, default=0.0) - 1e-5 or is_largest)
        and not random_caveat(trace)
        and query in (None, row)
        and name is not None
    )


@claims(
    "a row like others",
    pattern=rf"Nothing special(?: in ([\w ]+))?: {WHO} gives {KEY} {SHARE}; "
    rf"(?:the other tokens give .*? {SHARE}|no third token can attend to it)",
)
def row_is_like_others(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    """Whether both shares are right, and no weight of the row is far from both base rates."""
    (name, layer, mixing), row, key = find_link(trace, match)
    special, visible = [*trace.tokens.special], readable_keys(layer, name)[row]
    weights, is_self = mixing.numpy(), trace.keys_of(layer) is trace.tokens
    for other in visible.nonzero().flatten().tolist():
        bases = [others_of(weights, row, other, special)] if is_self else []
        bases += [base_of(weights, row, other, special) if is_self else 0.0]
        if not min(bases) - 0.11 < weights[row, other] < max(bases) + 0.11:
            return False
    _, share, base = _worth_of_link(trace, layer, mixing, row, key)
    shares_match = [
        percent_matches(match[6], share),
        match[7] is None or percent_matches(match[7], base),
    ]
    return query == row and share == max(weights[row]) and all(shares_match)


def _worth_of_link(
    trace: Trace, layer: Layer, mixing: Tensor, row: int, key: int
) -> tuple[float, float, float]:
    """What the link is ranked by, its weight, and what other tokens give, all with loops."""
    share, special = float(mixing[row, key]), [*trace.tokens.special]
    is_self = trace.keys_of(layer) is trace.tokens
    weights = mixing.numpy()
    base = base_of(weights, row, key, special) if is_self else 0.0
    if not is_self:
        rest = [weights[one, key] for one in range(len(weights)) if one != row]
        base = float(sum(rest) / len(rest)) if rest else 0.0
    return share - base + (abs(row - key) * is_self if share - base >= 0.5 else 0), share, base


def random_caveat(trace: Trace) -> bool:
    return "this shows the mechanism" in softmax_caveat(trace)


def answer_at(trace: Trace, position: int) -> tuple[str, float]:
    assert trace.prediction is not None
    probabilities = trace.prediction.probabilities[position]
    return trace.prediction.answers[int(probabilities.argmax())], float(probabilities.max())


@claims(
    "what is read for the answer",
    pattern=rf"{WHO} attends most to {WHO}(?: in (.+?))?; the answer is \"(.+)\" \({SHARE}\)",
)
@claims(
    "what is read for the answer",
    pattern=rf"(?P<heads>.+?) finds? the earlier {WHO} and reads? {WHO} after it; "
    rf"the answer is \"(?P<answer>.+)\" \({SHARE}\)",
)
def heads_read_for_the_answer(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    labels, copies = trace.tokens.labels, "heads" in match.re.groupindex
    first = 2 if copies else 1
    reader = token_position(labels, match[first], match[first + 1])
    key = token_position(labels, match[first + 2], match[first + 3])
    names, answer = (match["heads"], match["answer"]) if copies else (match[5], match[6])
    if copies:  # the earlier copy of the last token that asks
        earlier, reader = reader, not_none(trace.prediction).asked_positions[-1]
        if key != earlier + 1 or trace.tokens.ids[earlier] != trace.tokens.ids[reader]:
            return False
    reading = [
        name
        for name, _, mixing in active_heads(trace)
        if mixing[reader].argmax() == key and mixing[reader, key] > 0.5
    ]
    named = re.split(", | and ", names or reading[0])
    stated, probability = answer_at(trace, reader)
    return (
        ({*named} <= {*reading} or named == ["The head"])
        and answer == stated
        and percent_matches(match[7], probability)
        and query in (None, reader)
    )


@claims(
    "heads that differ",
    pattern=r"The (\d+) heads .* what (?:(\d+) of the|all) (\d+) tokens attend .*",
)
def heads_differ(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    favourites = []
    for name, layer, mixing in active_heads(trace):
        leads = mixing.topk(2).values if mixing.shape[1] > 1 else mixing.new_zeros(len(mixing), 2)
        has_choice = readable_keys(layer, name).sum(-1) > 1
        is_clear = (leads[:, 0] - leads[:, 1] > 0.005) & has_choice
        favourites.append(torch.where(is_clear, mixing.argmax(-1), -1).tolist())
    split = sum(len({*keys} - {-1}) > 1 for keys in zip(*favourites, strict=True))
    heads, stated_split, tokens = match[1], match[2] or match[3], match[3]
    stated = [int(each) for each in (heads, stated_split, tokens)]
    return stated == [len(favourites), split, len(trace.tokens)] and 2 * split > stated[2]


@claims("no shares", pattern=r"The weights of a row do not sum to 1 here")
def rows_have_other_sums(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    return not rows_sum_to_one(trace, query)


@claims(
    "shares of 1",
    pattern=rf"(?:In [\w ]+, )?(?:[Ee]ach token|{WHO}) divides its attention "
    r"(?:between both|among (?:all (\d+)|the)) tokens?(?: that it may see)?"
    r"(?:: (every|the) row sums to 1)?",
)
def attention_is_divided(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    rows = slice(None) if query is None else slice(query, query + 1)
    visible = [readable_keys(layer, name)[rows] for name, layer, _ in active_heads(trace)]
    sees_all = all(bool(each.all()) for each in visible)
    keys = trace.keys_of(trace.attention_layers[0])
    return (
        rows_sum_to_one(trace, query)
        and ("may see" in match[0] or (sees_all and int(match[3] or 2) == len(keys)))
        and match[4] in (None, "the" if query is not None else "every")
    )


@claims(
    "two sequences",
    pattern=r"Cross-attention: queries from one sequence, keys and values from another",
)
def keys_are_of_others(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    return any(trace.keys_of(each) is not trace.tokens for each in trace.attention_layers)


@claims("layers", pattern=r"Each layer computes its weights anew, from the vectors of the .*")
def layers_are_stacked(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    inputs = [each.inputs for each in trace.layers]
    return len(inputs) > 1 and not torch.equal(inputs[0], inputs[1])


@claims("positions", pattern=r"Positions count: the same tokens in another order get other .*")
def positions_count(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    return trace.positions != "none"


@claims(
    "equal shares",
    "a mask",
    pattern=r"(?:In [\w ]+, each|Each) token attends (only|equally|almost equally) to (.+)",
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
    "nothing is seen",
    pattern=rf"{HEAD}(?:{WHO}|[Ee]ach token) attends to nothing: every key is masked",
)
def query_reads_nothing(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    rows = slice(None) if query is None else query
    return not any(bool(mixing[rows].any()) for _, _, mixing in active_heads(trace))


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


@claims(
    "mostly itself",
    pattern=rf"(?:In [\w ]+, each|Each) token gives itself {SHARE} or more"
    r"(?: of its attention|: its vector matches itself best)",
)
def each_token_reads_itself(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    least_share = float(match[1].removeprefix("over ")) / 100
    return rows_sum_to_one(trace) and all(
        bool((mixing.diagonal() > least_share - 1e-6).all()) and least_share >= 0.5
        for *_, mixing in active_heads(trace)
    )


@claims(
    "mirrored",
    pattern=r"Each token attends mostly to the one at the mirrored place(?:; the answers: (.+))?",
)
def mirrored_position_gets_most(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    if match[1]:
        answers = [answer_at(trace, place)[0] for place in range(len(trace.tokens))]
        assert match[1].split()[:8] == answers[:8]
    return rows_sum_to_one(trace) and all(
        bool((mixing.flip(-1).diagonal() > 0.5).all()) for *_, mixing in active_heads(trace)
    )


@claims("a mistake", pattern=r"✗ (.+)")
def mistake_matches(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    """Checks the words only: the effect is a claim of the softmax step."""
    mistake = MISTAKES[trace.layers[0].mistake]
    return match[1] in (mistake.cause, mistake.about)


@claims("nothing stands out", pattern=r"Attention between (\d+) tokens?")
def counts_match(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    return int(match[1]) == len(trace.tokens)


@claims(OTHER_PARTS, pattern=r"(?:Embeddings|Queries|Keys|Values|Scores|Tokens).* of (\d+) tokens?")
def token_count_matches(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    return int(match[1]) == len(trace.tokens)


@claims("all heads are off", pattern=r"Every head is switched off")
def all_heads_are_off(trace: Trace, query: int | None, match: re.Match[str]) -> bool:
    return not list(active_heads(trace))


@claims(OTHER_PARTS, pattern=r"Each score is one query times one key(?:; each context .*)?")
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
    pattern=r"(?:Each score .*; )?[Ee]ach context vector mixes the values by a row of weights(.*)",
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
