"""What the sentences of run and steps claim, held against the Trace that they are about.

Of a View every string that people read is gathered; each has to be one of those that are known
here, and what it claims is worked out again from the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from attnviz import Trace
from attnviz.analysis.checks import verify_trace
from attnviz.attention.arithmetic import join_heads, split_heads
from attnviz.tokens.tokens import piece_phrase
from attnviz.traces import parts
from attnviz.traces.from_text import trace_source
from attnviz.traces.inputs import build_source
from attnviz.traces.origin import FromModel, resolved_settings
from attnviz.traces.parts import PARTS_OF_ATTENTION, PARTS_OF_BLOCK
from attnviz.traces.trace import Layer
from attnviz.views.grids.axes import GENERATED_NOTE, SUM_NOTES
from attnviz.views.grids.description import describe
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Section, open_panels
from attnviz.views.headline import attention_headline
from attnviz.views.steps.scene import StepSettings
from attnviz.views.steps.walk import Walk
from attnviz.views.view import Page, View
from attnviz.wording.words import and_list
from tests.claims_of_titles import untrue_title
from tests.drawn_runs import Run

HALF = 0.006  # of the last of two digits, and what float16 rounds
SHARE = r"((?:over )?[\d.]+)\u00a0%"


@dataclass(frozen=True)
class Said:
    """A sentence, and what it is about."""

    text: str
    trace: Trace
    layer: Layer
    section: Section | None = None
    grid: Grid | None = None
    asked: StepSettings = field(default_factory=StepSettings)


SENTENCE = re.compile(r"(?:(?! · )(?!(?<=\.) ).)+")  # or a part of a line
OF_HEAD = r"(?: \(head \d+ of \d+\))?"
CLAIM_NOTHING = [  # sentences that say how things are done, whatever the numbers are
    re.compile(each)
    for each in (
        r"How .* gets its context vector, step by step",
        r"row = query \(reads\)",
        r"column = key \(is read\)",
        r"The numbers are multiplied in pairs, and the products added\.",
        r"The score is also the product of both lengths and the cosine of their angle\.",
        r"A second sentence is read as well: queries come from the first, keys and values from the "
        r"second\.",
        r"A vector for the position is added, so a token differs from position to position\.",
        r"Each id has a row of numbers, its embedding: the same wherever the token occurs in a "
        r"text\.",
        r"Each token has a row of numbers, its embedding\.",
        r"Each score is the dot product of a query and a key: their numbers are multiplied in "
        r"pairs and the products added\.",
        r"The larger the score, the better the two match\.",
        r"The score is their sum weighted by w_score: the larger it is, the better query and key "
        r"match\.",
        r"w_score turns the sum of a query and a key into a score\.",
        r"The softmax turns each row of scores into weights: exp\(score\) divided by the sum of "
        r"all exp\(score\) in the row\.",
        r"Each token searches with its query, is found by its key, and passes on its value\.",
        r"Each token passes on its value\.",
        r"Each value is multiplied by its weight: this is what .* takes from each token\.",
        r"The text is split into tokens, each with an id; nothing else of the text is used\.",
        r"The tokens are given or numbered; a repeated word keeps its id\.",
        r"The weighted values add up to the context vector: everything that a token has read\.",
        r"(This matrix turns|These matrices turn) a vector into (, | and |a query \(what it looks "
        r"for\)|a key \(what it is found by\)|a value \(what it passes on\))+\.",
        r"Residual connection: the output of (attention|cross-attention|the feed-forward layer) is "
        r"added to its input, so it only has to compute a change\.",
        r"Distant tokens count less(; each head has its own slope)?\.",
        r"A mask of numbers is added to the scores: the lower a number, the smaller .*",
        r"(scores become weights|each value times its weight|the query is compared with a key)"
        rf"{OF_HEAD}",
        f"the weighted values add up to the context vector{OF_HEAD}",
        r"(the concatenated heads|the context vector) times the output matrix, for .*",
        r"the \w+ of [\d,]+ keys with the largest weights",
        r"score = (query·key = )?\|query\| \|key\| cos\(angle\)",
        r"weight = exp\(score\) / sum of exp\(scores in its row\)",
        r"weighted = weights of .*",
        r"Each score is the dot product of a vector and an answer's vector, a column of w_answers: "
        r"the larger the score, the more likely the answer\.",
        r"A softmax turns the scores into the probability of each answer\.",
        r"probability = exp\(score\) / sum of exp\(scores in its row\)",
        r"context = weights",
        r"V",
        r"✗ A mistake: [^:]+\.",  # and no more of it
    )
]
Claim = Callable[[Said, "re.Match[str]"], bool]
CLAIMS: list[tuple[re.Pattern[str], Claim]] = []


def claims(pattern: str) -> Callable[[Claim], Claim]:
    """What must be so where these words stand."""

    def kept(claim: Claim) -> Claim:
        CLAIMS.append((re.compile(pattern), claim))
        return claim

    return kept


def close(one: Tensor, other: Tensor) -> bool:
    """Equal but for what their dtype rounds, of the largest of them."""
    if one.numel() == 0:
        return True
    size = max(1e-12, float(other.abs().max()), float(one.abs().max()))
    step = torch.finfo(one.dtype).eps * 32
    return float((one - other).abs().max()) <= size * step


# What stands over all.


@claims(r"^(scaled|unscaled)( plain)? attention")
@claims(r" · (not scaled|scaled)(?= ·)")
def scaled(said: Said, match: re.Match[str]) -> bool:
    times = said.layer.scale * said.trace.variant.temperature
    root = said.layer.head_dim**-0.5 if match[1] == "scaled" else 1.0
    return abs(times / root - 1) < 1e-6


@claims(r"^plain attention")
def plain(said: Said, match: re.Match[str]) -> bool:
    return said.layer.scale * said.trace.variant.temperature == pytest.approx(1)


@claims(r"^multi-head attention")
def multi_head(said: Said, match: re.Match[str]) -> bool:
    return said.layer.heads > 1


@claims(r"^causal attention| · causal( ·|$)|No token may attend to the tokens after it")
def causal(said: Said, match: re.Match[str]) -> bool:
    return not bool(said.layer.visible.triu(1).any())


@claims(r"^average attention(?=,| ·|$)")
def average(said: Said, match: re.Match[str]) -> bool:
    weights = said.layer.attended.weights.double()
    even = said.layer.visible / said.layer.visible.sum(-1, keepdim=True)
    return bool(((weights - even).abs() < HALF).all())


@claims(r"attention with a mistake \((.*?)\)")
def mistaken(said: Said, match: re.Match[str]) -> bool:
    return said.layer.mistake == match[1]


@claims(r" · position base ([\d.e+]+)")
def base(said: Said, match: re.Match[str]) -> bool:
    settings = resolved_settings(said.trace.origin)
    return settings.position_base == float(match[1]) and said.trace.positions != "none"


@claims(r" · temperature ([\d.e+-]+)")
def temperature(said: Said, match: re.Match[str]) -> bool:
    return said.trace.variant.temperature == pytest.approx(float(match[1]), rel=1e-12)


@claims(r" · soft cap ([\d.e+-]+)")
def cap_in_settings(said: Said, match: re.Match[str]) -> bool:
    return said.trace.variant.soft_cap == float(match[1])


@claims(r" · (\d+) tokens? \((.+?)\)(?= ·)")
def tokens(said: Said, match: re.Match[str]) -> bool:
    return (len(said.trace.tokens), said.trace.tokenizer) == (int(match[1]), match[2])


@claims(r"after the line: tokens generated by the model")
def line(said: Said, match: re.Match[str]) -> bool:
    return said.trace.prompt is not None and said.trace.prompt < len(said.trace.tokens)


@claims(r" · memory of (\d+) tokens?")
def more_tokens(said: Said, match: re.Match[str]) -> bool:
    return said.trace.memory is not None and len(said.trace.memory) == int(match[1])


@claims(r" · (\d+) layers?(?: \((post-norm|pre-norm|no norm)\))?(?= ·)")
def layers(said: Said, match: re.Match[str]) -> bool:
    block = said.trace.layers[0].block
    places = {"post": "post-norm", "pre": "pre-norm", "none": "no norm"}
    named = None if block is None else places[block.norm_placement]
    return len(said.trace.layers) == int(match[1]) and named == match[2]


@claims(r" · (\d+) key-value heads?|there (?:is|are) (\d+) key-value heads?")
def kv_heads(said: Said, match: re.Match[str]) -> bool:
    return len(said.layer.values) == int(match[1] or match[2]) < said.layer.heads


@claims(r"joined without w_out|and no matrix mixes them")
def not_mixed(said: Said, match: re.Match[str]) -> bool:
    return said.layer.heads > 1 and getattr(said.layer.projections, "w_out", None) is None


@claims(
    r"Finally the result is multiplied by the output matrix"
    r"|output = (joined|context) W_out( \+ b_out)?"
)
def mixed_by_matrix(said: Said, match: re.Match[str]) -> bool:
    made = said.layer.projections
    assert made is not None
    assert made.w_out is not None
    joined = join_heads(said.layer.attended.contexts) @ made.w_out
    right = close(joined if made.b_out is None else joined + made.b_out, said.layer.context)
    named = match[1] is None or (made.b_out is not None) == bool(match[2])
    return right and named


@claims(r" · cpu (\w+)$")
def dtype(said: Said, match: re.Match[str]) -> bool:
    return str(said.layer.values.dtype) == f"torch.{match[1]}"


@claims(r"causal and a given mask")
def causal_and_mask(said: Said, match: re.Match[str]) -> bool:
    return said.trace.variant.causal and bool({"hidden", "mask"} & said.layer.given)


@claims(r" · given positions|given vector for the position is added")
def positions_given(said: Said, match: re.Match[str]) -> bool:
    return "positions" in said.layer.given


# What is switched off, and what is not there.


@claims(r" with (L.+?) switched off(?= · |$)")
def without(said: Said, match: re.Match[str]) -> bool:
    named = re.findall(r"L(\d+)H(\d+)( \(replaced by its mean\))?", match[1])
    places = {(int(layer), int(head)) for layer, head, _ in named}
    off = {(each.layer, head) for each in said.trace.layers for head in each.off}
    means = {(int(layer), int(head)) for layer, head, mean in named if mean}
    return places == off and all(_is_off(said.trace.layers[at], head, mean=(at, head) in means)
                                 for at, head in places)  # fmt: skip


@claims(
    r"^(the only head is|.+? (?:is|are)) switched off: ((?:its output is|their outputs are) "
    r"replaced by 0|(?:its|each) output is replaced by its mean over the sentence, the same for "
    r"every token); the weights shown are those (it|they) would have$"
)
def switched_off(said: Said, match: re.Match[str]) -> bool:
    """All of those that are off in this way, and no others, by the names that they have here."""
    several, mean = len(said.trace.attention_layers) > 1, "mean" in match[2]
    off = [
        f"L{layer.layer}H{head}" if several else f"head {head}"
        for layer in said.trace.layers
        for head in range(layer.heads)
        if head in layer.off and _is_off(layer, head, mean=mean)
    ]
    only = not several and said.trace.layers[0].heads == 1
    named = ["the only head"] if only else off
    verb, one = "is" if match[3] == "it" else "are", match[2].startswith("its")
    right = one == (verb == "is") == (len(off) == 1)
    return bool(off) and match[1] == f"{and_list(named)} {verb}" and right


@claims(
    r"(The only head is|Heads? ([\d, and]+) (?:is|are)) switched off: (?:its|their|each head's) "
    r"vectors (are 0|are replaced by their mean over the sentence)\."
)
def vectors_of_what_is_off(said: Said, match: re.Match[str]) -> bool:
    heads = [int(each) for each in re.findall(r"\d+", match[2] or "0")]
    only = "only" in match[1] and said.layer.heads > 1
    return not only and all(_is_off(said.layer, each, mean="mean" in match[3]) for each in heads)


def _is_off(layer: Layer, head: int, *, mean: bool) -> bool:
    """Whether a head hands on 0, or its mean: the same for every token."""
    made = layer.attended.mixing[head] @ layer.values_of_heads[head]
    wanted = made.mean(0) if mean else torch.zeros_like(made[0])
    return close(layer.attended.contexts[head], wanted.expand_as(made))


@claims(r" · no feed-forward(?= ·)")
def no_feed_forward(said: Said, match: re.Match[str]) -> bool:
    return all(
        each.block is not None and each.block.feed_forward is None for each in said.trace.layers
    )


# What is left to chance: with another seed it would be another.


def others(made: Trace) -> Iterator[Trace]:
    """The same of other seeds."""
    source, settings = build_source(made), made.origin.settings
    mistake = made.layers[0].mistake
    for seed in range(2000, 2004):
        yield trace_source(replace(source, settings=replace(settings, seed=seed)), mistake=mistake)


def moves(made: Trace, *, of: str = "") -> bool:
    """Whether another seed changes anything; or a part of an attention."""
    return any(not _alike(made, other, of) for other in others(made))


def _alike(one: Trace, other: Trace, of: str) -> bool:
    if not of:
        return all(torch.equal(a, b) for a, b in zip(_all(one), _all(other), strict=True))
    pairs = zip(one.attention_layers, other.attention_layers, strict=True)
    return all(torch.equal(getattr(a.attended, of), getattr(b.attended, of)) for a, b in pairs)


def _all(made: Trace) -> Iterator[Tensor]:
    first = made.layers[0]
    unused = (
        ()
        if first.uses_inputs or first.block is not None
        else ("embeddings", "inputs", "positions")
    )
    for part in (
        each
        for each in (*PARTS_OF_ATTENTION, *PARTS_OF_BLOCK)
        if (each.words or each.step) not in unused
    ):
        for layer in made.attention_layers:
            found = (
                part.find(made, layer)
                if layer.memory is None or part in PARTS_OF_ATTENTION
                else None
            )
            if isinstance(found, Tensor):
                yield found


@claims(r" · \d+ tokens? \(.* · cpu ")
def seed(said: Said, match: re.Match[str]) -> bool:
    """It stands there where it bears on anything, and nowhere else."""
    told = " · seed " in said.text
    dropped = any(each.attended.mixed_by == "dropout" for each in said.trace.attention_layers)
    return (told and dropped) or told == moves(said.trace)


@claims(
    r"^random (vectors|dropout)(?=: this)|^given vectors, random (projections|positions|w_score)"
)
def chance_before(said: Said, match: re.Match[str]) -> bool:
    return moves(said.trace)


@claims(r"^random (?!vectors).*: the weights( before it)? are real")
def chance_after(said: Said, match: re.Match[str]) -> bool:
    return not moves(said.trace, of="weights" if "before it" in said.text else "mixing")


@claims(r"([wb]_[\w, ]+) (?:is|are) random \(set by the seed\); the (others?) (?:is|are) given")
def some_drawn(said: Said, match: re.Match[str]) -> bool:
    made, given = _matrices(said), _matrices(said) & said.layer.given
    drawn = {*re.split(", | and ", match[1])}
    return drawn == made - given and (match[2] == "other") == (len(given) == 1)


@claims(r"(w_\d) is given; (w_\d) is random \(set by the seed\)| Both (?:are given|were learned)")
def of_block_drawn(said: Said, match: re.Match[str]) -> bool:
    if match[1] is None:
        return {"w_1", "w_2"} <= said.layer.given
    return match[1] in said.layer.given and match[2] not in said.layer.given


@claims(r"Here (they are|it is) random \(set by the seed\); training would learn (them|it)")
def all_drawn(said: Said, match: re.Match[str]) -> bool:
    made, alone = _matrices(said), match.groups() == ("it is", "it")
    return not made & said.layer.given and alone == (len(made) == 1)


def _matrices(said: Said) -> set[str]:
    """Those that make queries, keys, values and scores."""
    learned = parts.learned_tensors(said.trace, said.layer)
    return {name for name in learned if not name.endswith("_out")}


@claims(r"Nothing else is masked: the mask has already been added to the scores")
def hidden_by_numbers(said: Said, match: re.Match[str]) -> bool:
    return said.layer.attended.mask is not None and bool(said.layer.visible.all())


@claims(r"all tokens visible|nothing is masked")
def all_visible(said: Said, match: re.Match[str]) -> bool:
    return bool(said.layer.visible.all())


@claims(r" · window (\d+)|less than (\d+) positions? away")
def window(said: Said, match: re.Match[str]) -> bool:
    rows, columns = said.layer.visible.nonzero().T
    return bool(((rows - columns).abs() < int(match[1] or match[2])).all())


@claims(r"Each token attends only to itself|The token attends to itself")
def itself(said: Said, match: re.Match[str]) -> bool:
    return torch.equal(said.layer.visible, torch.eye(len(said.trace.tokens), dtype=torch.bool))


@claims(r" · (\d+) heads? of width (\d+)")
def heads_of_width(said: Said, match: re.Match[str]) -> bool:
    vectors = said.layer.values if said.layer.queries is None else said.layer.queries
    scored = "scores" in said.layer.given
    width = said.layer.head_dim if scored else vectors.shape[-1]
    return (len(vectors), width) == (int(match[1]), int(match[2]))


@claims(r" · width (\d+)")
def width(said: Said, match: re.Match[str]) -> bool:
    return said.trace.embeddings.shape[1] == int(match[1])


@claims(r" · dropout ([\d.e-]+)")
def dropped(said: Said, match: re.Match[str]) -> bool:
    share, mixed = (
        said.trace.variant.dropout,
        [each.attended.mixed_by for each in said.trace.attention_layers],
    )
    return share == pytest.approx(float(match[1]), rel=1e-5) and "dropout" in mixed


@claims(r" · (sinusoidal|learned|rotary|rotary-halves|alibi) positions")
def placed(said: Said, match: re.Match[str]) -> bool:
    nowhere = said.trace.embeddings.shape == (1, 1)  # sin(0) is 0
    return nowhere or {
        "rotary": said.layer.before_rotary is not None or len(said.trace.layers) > 1,
        "rotary-halves": said.layer.before_rotary is not None or len(said.trace.layers) > 1,
        "alibi": said.layer.attended.bias is not None,
    }.get(match[1], not torch.equal(said.layer.layer_inputs, said.trace.embeddings))


# What a model says of itself.


@claims(r" · model (\S+)| of the model (\S+?)(?= with L| ·|$)")
def of_the_model(said: Said, match: re.Match[str]) -> bool:
    model = said.trace.trained or said.trace.model
    return model is not None and model.name == (match[1] or match[2])


@claims(r"A (learned|written) (?:by hand )?vector for the position is added")
@claims(
    r"(?:They|It|Both) (?:were|was) (learned|written)| numbers (?:that were )?(learned|written)"
)
def whose_numbers(said: Said, match: re.Match[str]) -> bool:
    model, written = said.trace.model, "written" in match.groups()
    if said.trace.trained is not None:
        return not written
    return model is not None and model.by_hand == written


@claims(rf"^In (\d+) sentences not used in training, (L\dH\d) (.+) \({SHARE} of its attention\)$")
def examined(said: Said, match: re.Match[str]) -> bool:
    model = said.trace.model
    assert model is not None
    score = _is_share(model.facts["scores"][match[2]], match[4])
    return score and model.heads[match[2]] == match[3] and str(model.facts["sentences"]) == match[1]


@claims(
    r"was trained on sentences of (\d+) to (\d+) tokens; this one has (\d+), a length it never saw"
)
def never_learned(said: Said, match: re.Match[str]) -> bool:
    shortest, longest, count = map(int, match.groups())
    model = said.trace.model
    assert model is not None
    seen = model.facts["tokens"] == [shortest, longest] and len(said.trace.tokens) == count
    return seen and not shortest <= count <= longest


@claims(r"^the table for all ([\d,]+) words has ")
def table_of_words(said: Said, match: re.Match[str]) -> bool:
    model = said.trace.model
    return model is not None and len(model.embeddings) == int(match[1].replace(",", ""))


# What is heard of a trained transformer.


@claims(r"^the table for all ([\d,]+) ids has ([\d,]+) × (\d+) = ([\d,]+) numbers that")
def table_of_ids(said: Said, match: re.Match[str]) -> bool:
    ids, again, width, count = (int(each.replace(",", "")) for each in match.groups())
    own = said.trace.vocabulary, said.trace.embeddings.shape[1]
    return (
        said.trace.trained is not None
        and ids == again
        and own == (ids, width)
        and (ids * width == count and ids > max(said.trace.tokens.ids))
    )


@claims(r'The tokenizer adds ((?:"[^"]+"(?:, | and )?)+)\.')
def added_by_tokenizer(said: Said, match: re.Match[str]) -> bool:
    tokens = said.trace.tokens
    names = {tokens.labels[place] for place in tokens.special}
    return {*re.findall(r'"([^"]+)"', match[1])} == names


@claims(r"The last (?:token was|(\d+) tokens were) generated by the model\.")
def written_itself(said: Said, match: re.Match[str]) -> bool:
    return said.trace.prompt == len(said.trace.tokens) - int(match[1] or 1)


@claims(r'[Tt]he model wrote "(.+)"\.?')
def text_that_was_written(said: Said, match: re.Match[str]) -> bool:
    tokens = said.trace.tokens
    return match[1] == piece_phrase(b"".join(tokens.pieces[said.trace.prompt :]).strip())


@claims(r"Attention does not receive the embeddings themselves but the inputs shown below\.")
def in_their_place(said: Said, match: re.Match[str]) -> bool:
    return said.layer.layer == 0 and not torch.equal(said.layer.inputs, said.trace.embeddings)


@claims(r"The vectors that the attention of layer (\d+) receives after layer (\d+)\.")
def given_after(said: Said, match: re.Match[str]) -> bool:
    return (said.layer.layer, said.layer.layer - 1) == tuple(map(int, match.groups()))


@claims(r"The model computes ((?:queries|keys|values)[a-z, ]*) in its own way; they are shown")
def unknown_makers(said: Said, match: re.Match[str]) -> bool:
    named = {*re.findall(r"queries|keys|values", match[1])}
    return said.layer.given & {"queries", "keys", "values"} == named


@claims(
    r"The model rotates queries and keys in its own way: they keep their length at every position, "
    r"and at the first they do not change\."
)
def turned_otherwise(said: Said, match: re.Match[str]) -> bool:
    before, layer = said.layer.before_rotary, said.layer
    assert before is not None
    assert layer.queries is not None
    pairs = ((before.queries, layer.queries), (before.keys, layer.keys))
    return all(
        other is not None
        and close(one[:, :1], other[:, :1])
        and close(one.norm(dim=-1), other.norm(dim=-1))
        for one, other in pairs
    )


@claims(r"This model divides scores by (\S+) instead of √(\d+)\.")
def divided_otherwise(said: Said, match: re.Match[str]) -> bool:
    attended = said.layer.attended
    other = abs(said.layer.scale * int(match[2]) ** 0.5 - 1) > 1e-6
    return other and close(attended.scores / float(match[1]), attended.scaled_scores)


@claims(r"The model does not scale the scores\.")
def undivided(said: Said, match: re.Match[str]) -> bool:
    return torch.equal(said.layer.attended.scores, said.layer.attended.scaled_scores)


@claims(r"The model adds a number to each score(, which differs between heads)?\.")
@claims(r"^biased = (?:scaled|capped) \+ bias$")
def number_added(said: Said, match: re.Match[str]) -> bool:
    bias = said.layer.attended.bias
    assert bias is not None
    added = said.layer.attended.biased - said.layer.attended.scaled_scores
    other = bool((bias != bias[:1]).any())
    return close(added, bias.expand_as(added)) and (other or not match[match.re.groups])


@claims(r"It depends only on how far the key is before or after the query\.")
def by_distance(said: Said, match: re.Match[str]) -> bool:
    bias = said.layer.attended.bias
    return bias is not None and close(bias[..., 1:, 1:], bias[..., :-1, :-1])


@claims(r"Each token attends only to tokens in its own chunk of (\d+) tokens?\.")
def in_its_chunk(said: Said, match: re.Match[str]) -> bool:
    queries, keys = said.layer.visible.nonzero().T
    return bool((queries // int(match[1]) == keys // int(match[1])).all())


@claims(r"The model decides what each token may attend to(, separately in each head)?\.")
def own_mask(said: Said, match: re.Match[str]) -> bool:
    by_head = said.layer.visible.ndim == 3
    return not bool(said.layer.visible.all()) and by_head == bool(match[1])


@claims(r"Each token attends only to tokens less than (\d+) positions? away\.")
def nearby(said: Said, match: re.Match[str]) -> bool:
    queries, keys = said.layer.visible.shape[-2:]
    apart = (torch.arange(queries)[:, None] - torch.arange(keys)[None, :]).abs()
    visible = said.layer.visible.reshape(-1, queries, keys).any(0)
    beyond = bool(visible[apart >= int(match[1])].any())
    # Of a window that somebody asks for a sentence may be too short to show the end.
    at_its_end = said.trace.trained is None or bool(visible[apart == int(match[1]) - 1].any())
    return at_its_end and not beyond


@claims(r"Keys and values are computed from the output of the encoder, Y\.")
def made_of_memory(said: Said, match: re.Match[str]) -> bool:
    card = said.trace.trained
    return card is not None and card.which == "cross" and said.layer.key_inputs is not None


@claims(r"The sink's share is lost: a row sums to less than 1\.")
@claims(
    r"sum of all exp\(score\) in the row, to which each head adds exp of a learned number, its "
    r"sink\."
)
@claims(r"^weight = exp\(score\) / sum of exp\(scores in its row and of the sink\)$")
def with_a_sink(said: Said, match: re.Match[str]) -> bool:
    sums = said.layer.attended.weights.sum(-1)
    return said.layer.attended.sink is not None and bool((sums < 1).all())


@claims(r"what the model does with these vectors next is not shown(, except its answers)?")
def more_follows(said: Said, match: re.Match[str]) -> bool:
    answers = said.trace.prediction is not None
    return said.trace.trained is not None and answers == bool(match[1])


# What is given.


@claims(r"^additive( causal)? attention")
def additive_title(said: Said, match: re.Match[str]) -> bool:
    hides = not bool(said.layer.visible.triu(1).any())
    return said.layer.w_score is not None and (hides or not match[1])


@claims(r"^attention from given scores")
def title_of_scores(said: Said, match: re.Match[str]) -> bool:
    return "scores" in said.layer.given


@claims(r"^attention by distance alone")
def title_of_distance(said: Said, match: re.Match[str]) -> bool:
    return not bool(said.layer.attended.scores.any()) and said.layer.attended.bias is not None


@claims(r"Its vectors are given")
def memory_given(said: Said, match: re.Match[str]) -> bool:
    return "memory" in said.trace.layers[0].given


@claims(r"^(?:They are given|They were learned)\.| They are given\.")
def all_given(said: Said, match: re.Match[str]) -> bool:
    assert said.section is not None
    if said.section.name == "embeddings":
        return "embeddings" in said.layer.given or said.trace.model is not None
    made = said.layer.projections
    names = ("w_query", "w_key", "w_value", "w_score")
    return said.layer.given >= {each for each in names if getattr(made, each, None) is not None}


@claims(r"No matrices are needed: queries, keys and values, or the scores, are given")
def nothing_to_project(said: Said, match: re.Match[str]) -> bool:
    given = said.layer.given
    return "values" in given and ({"queries", "keys"} <= given or "scores" in given)


@claims(
    r"(Keys and values|Keys|Values) are computed from other tokens, whose (?:given )?vectors are Y"
)
def made_of_others(said: Said, match: re.Match[str]) -> bool:
    named = {each.lower() for each in re.findall(r"\w+", match[1])} - {"and"}
    other = said.layer.key_inputs is not None and len(said.trace.keys) == len(said.layer.key_inputs)
    return other and not named & said.layer.given


@claims(r"Weights written by hand replace those of the softmax|with weights by hand")
def hand(said: Said, match: re.Match[str]) -> bool:
    return "weights" in said.layer.given and said.layer.attended.mixed_by == "hand"


@claims(r"The dropout mask is given: .* multiplied by it(?: and .* by 1 - (.+))?\.$")
def given_dropout(said: Said, match: re.Match[str]) -> bool:
    share = float(match[1] or 0)
    weights, mixing = said.layer.attended.weights, said.layer.attended.mixing
    kept = weights / (1 - share)
    return "kept" in said.layer.given and close(torch.where(mixing == 0, mixing, kept), mixing)


@claims(
    r"^context vectors (of each head, before they are joined|before they are multiplied by W_o)"
)
def before_the_last(said: Said, match: re.Match[str]) -> bool:
    several = said.layer.heads > 1
    last = getattr(said.layer.projections, "w_out", None) is not None
    return several if "each head" in match[1] else last and not several


@claims(r"^every row of (.+) is shown(?:; of the rest, only the row of \"(.+)\"(?: \((\d+)\))?)?$")
def whole_beside(said: Said, match: re.Match[str]) -> bool:
    labels = said.trace.tokens.labels
    once = labels.count(match[2]) == 1
    return match[2] is None or once or labels[int(match[3]) - 1] == match[2]


@claims(r"^inputs = embeddings \+ positions$")
def positions_added(said: Said, match: re.Match[str]) -> bool:
    added = "positions" in said.layer.given or said.trace.positions in ("sinusoidal", "learned")
    return added and said.layer.layer == 0


@claims(r"^output = (\w+)\(x W_1 \+ b_1\) W_2 \+ b_2$|(relu|gelu|gelu-tanh) is applied")
def activated(said: Said, match: re.Match[str]) -> bool:
    block = said.layer.block
    assert block is not None
    made = block.required_feed_forward.parameters
    name = (match[1] or match[2]).replace("_", "-")
    bent: dict[str, Callable[[Tensor], Tensor]] = {
        "relu": torch.relu,
        "gelu": torch.nn.functional.gelu,
        "gelu-tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    }
    hidden = bent[name](
        block.required_feed_forward.residual.sublayer_inputs.double() @ made.w_1.double() + made.b_1
    )
    return made.activation == name and close(
        hidden.to(block.required_feed_forward.hidden), block.required_feed_forward.hidden
    )


@claims(r"^outputs = (LayerNorm\(x \+ f\(x\)\)|x \+ f\(LayerNorm\(x\)\)|x \+ f\(x\))$")
def placed_norm(said: Said, match: re.Match[str]) -> bool:
    block = next(each.block for each in said.trace.layers if said.layer in each.attention_layers)
    assert block is not None
    post, pre = match[1].startswith("Layer"), "f(Layer" in match[1]
    return block.norm_placement == ("post" if post else "pre" if pre else "none")


@claims(r"^normed = \(x - mean\) / √\(variance \+ 1e-05\)( · gain \+ shift)?$")
def norm_formula(said: Said, match: re.Match[str]) -> bool:
    assert said.section is not None
    plain, last = _normed(said), said.trace.prediction
    if said.section.name == "last-norm" and last is not None and last.scoring is not None:
        inputs = last.scoring.inputs.double()
        made = torch.nn.functional.layer_norm(inputs, inputs.shape[1:])
        same = torch.equal(plain, last.scoring.vectors.double())
        return bool(((made - plain).abs() < 2 * HALF).all()) and same != (match[1] is not None)
    block = next(each.block for each in said.trace.layers if said.layer in each.attention_layers)
    assert block is not None
    of = "cross" if "cross" in said.section.name else "feed_forward"
    of = of if "-" in said.section.name else "attention"
    residual = block.residuals[of]
    made = torch.nn.functional.layer_norm(residual.inputs.double(), residual.inputs.shape[1:])
    own = match[1] is not None
    same = torch.equal(plain, residual.sublayer_inputs.double())
    return bool(((made - plain).abs() < 2 * HALF).all()) and same != own


@claims(r"^masked scores become −∞, since exp\(−∞\) = 0$")
def something_hidden(said: Said, match: re.Match[str]) -> bool:
    return not bool(said.layer.visible.all())


@claims(r"^scores = Q Kᵀ$")
def formula_of_scores(said: Said, match: re.Match[str]) -> bool:
    return products(said, match)


@claims(r"Their products are so small that they are rounded to 0")
def underflows(said: Said, match: re.Match[str]) -> bool:
    score, lengths = _pair(said)
    return score == 0 < lengths


# How to read a table.


@claims("|".join(SUM_NOTES))
def rows_sum_to_one(said: Said, match: re.Match[str]) -> bool:
    if said.grid is None:
        return True  # a caption, of which below
    return bool((abs(said.grid.values.sum(axis=1, dtype=float) - 1) < HALF).all())


@claims(GENERATED_NOTE)
def goes_on(said: Said, match: re.Match[str]) -> bool:
    """The line stands before what was written, on each side that the tokens stand on."""
    prompt, grid = said.trace.prompt, said.grid
    sides = () if grid is None else (grid.rows, grid.columns)
    return prompt is not None and all(each.border in (None, prompt) for each in sides)


@claims(r"scores = query times key")
def products(said: Said, match: re.Match[str]) -> bool:
    queries, keys = said.layer.queries, said.layer.keys_of_heads
    assert queries is not None
    assert keys is not None
    made, raw = queries @ keys.transpose(-2, -1), said.layer.attended.scores
    return "scores" not in said.layer.given and close(made, raw)


@claims(r"scaled scores = .* / √(\d+)$")
def by_root(said: Said, match: re.Match[str]) -> bool:
    root = int(match[1]) ** 0.5
    return close(said.layer.attended.scores / root, said.layer.attended.scaled_scores)


@claims(r"[Qq]ueries and keys are not compared: every score is 0")
def all_zero(said: Said, match: re.Match[str]) -> bool:
    return not bool(said.layer.attended.scores.any())


@claims(r"^given scores|The scores are given")
def scores_given(said: Said, match: re.Match[str]) -> bool:
    return "scores" in said.layer.given


@claims(r"scores as the softmax receives them")
def received(said: Said, match: re.Match[str]) -> bool:
    return not said.layer.mistake


# The steps.


@claims(r"the score is (above|below) 0")
def side_of_zero(said: Said, match: re.Match[str]) -> bool:
    score, _ = _pair(said)
    return score > 0 if match[1] == "above" else score < 0


@claims(r"has length 0: there is no angle, and the score is 0")
def no_length(said: Said, match: re.Match[str]) -> bool:
    return _pair(said) == (0, 0)


@claims(r"the score is (minus )?the product of their lengths")
def on_a_line(said: Said, match: re.Match[str]) -> bool:
    score, lengths = _pair(said)
    return score == pytest.approx(-lengths if match[1] else lengths, rel=0.02)


@claims(r"nearly at right angles: the score is small compared with the product")
def upright(said: Said, match: re.Match[str]) -> bool:
    score, lengths = _pair(said)
    return abs(score) < 0.011 * lengths


@claims(r"The scores are not scaled|The model does not scale|which is 1 and changes nothing")
def unscaled(said: Said, match: re.Match[str]) -> bool:
    hot = said.trace.variant.temperature
    attended = said.layer.attended
    return close(attended.scores / hot, attended.scaled_scores) and (
        hot == 1 or "changes nothing" in match[0]
    )


@claims(r"divided by √d_k, here √(\d+)")
def divided(said: Said, match: re.Match[str]) -> bool:
    attended, hot = said.layer.attended, said.trace.variant.temperature
    return close(attended.scores / int(match[1]) ** 0.5 / hot, attended.scaled_scores)


@claims(r"divided by the temperature, here (.+)\.$")
def cooled(said: Said, match: re.Match[str]) -> bool:
    attended = said.layer.attended
    hot = float(match[1][1:]) ** 0.5 if match[1].startswith("√") else float(match[1])
    root = said.layer.head_dim**0.5 if said.trace.variant.scaled else 1.0
    return hot != 1 and close(attended.scores / root / hot, attended.scaled_scores)


@claims(r"^scaled = scores((?: / √?[\d.e+-]+)+)$")
def divided_by_all(said: Said, match: re.Match[str]) -> bool:
    below = 1.0
    for root, number in re.findall(r" / (√?)([\d.e+-]+)", match[1]):
        below *= float(number) ** (0.5 if root else 1.0)
    return close(said.layer.attended.scores / below, said.layer.attended.scaled_scores)


@claims(r"scaled scores = (?:scores|query times key) times ([\d.e+-]+)$")
def times(said: Said, match: re.Match[str]) -> bool:
    attended, factor = said.layer.attended, float(match[1])
    size = attended.scores.double().abs().max()
    off = (attended.scores.double() * factor - attended.scaled_scores.double()).abs().max()
    return float(off) <= 0.006 * factor * float(size) + 1e-12


@claims(r"^capped = (.+) · tanh\(score / (.+)\)$")
def capped(said: Said, match: re.Match[str]) -> bool:
    cap, found = float(match[1]), said.layer.attended.capped_scores
    assert found is not None
    bent = cap * (said.layer.attended.scaled_scores.double() / cap).tanh()
    return match[1] == match[2] and close(bent.to(found), found)


@claims(r"tanh keeps scores between -(.+) and \1:")
def within_cap(said: Said, match: re.Match[str]) -> bool:
    found = said.layer.attended.capped_scores
    return found is not None and float(found.abs().max()) <= float(match[1]) * (1 + 1e-2)


@claims(r"^biased = (scaled|capped) - slope · distance$")
def biased(said: Said, match: re.Match[str]) -> bool:
    attended = said.layer.attended
    before = {"scaled": attended.scaled_scores, "capped": attended.capped_scores}[match[1]]
    assert before is not None
    assert attended.bias is not None
    bent = attended.capped_scores is None or match[1] == "capped"
    return bent and close(before + attended.bias, attended.biased)


@claims(r"A mask of numbers is added to the scores|^scores \+ mask$")
def mask_added(said: Said, match: re.Match[str]) -> bool:
    return said.layer.attended.mask is not None


@claims(r"w_score · tanh\(query \+ key\)|Each query is added to each key|additive scores")
def additive(said: Said, match: re.Match[str]) -> bool:
    return said.layer.w_score is not None


@claims(r"nothing for the token itself, one slope for a neighbour, two for the next")
def slopes(said: Said, match: re.Match[str]) -> bool:
    bias = said.layer.attended.bias
    assert bias is not None
    several = "each head has its own slope" in said.text
    if bias.shape[-1] == 1:
        return several == (said.layer.heads > 1)
    taken = -bias[:, 0, 1].double()
    distinct = len(set(taken.tolist())) == said.layer.heads
    return bool((bias.diagonal(dim1=1, dim2=2) == 0).all()) and (
        several == (said.layer.heads > 1) and distinct
    )


@claims(r"pair i at position p is rotated by \(p - 1\) / ([\d.e+]+)\^\(2\(i - 1\)/d_k\)")
def turned(said: Said, match: re.Match[str]) -> bool:
    before, after = said.layer.before_rotary, said.layer.queries
    assert before is not None
    assert after is not None
    width, halves = after.shape[-1], said.trace.positions == "rotary-halves"
    order = [each for pair in range(width // 2) for each in (pair, pair + width // 2)]
    places = order if halves else [*range(width)]
    pairs = torch.view_as_complex(
        before.queries.double()[..., places].reshape(*after.shape[:-1], -1, 2).contiguous()
    )
    place = torch.arange(1, pairs.shape[1] + 1, dtype=torch.float64)[:, None]
    pair = torch.arange(1, pairs.shape[2] + 1, dtype=torch.float64)[None, :]
    angle = (place - 1) / float(match[1]) ** (2 * (pair - 1) / width)
    made = torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle))
    return close(made.flatten(-2).to(after), after[..., places])


@claims(r"Each pair of numbers i and i \+ (\d+) of")
def halves(said: Said, match: re.Match[str]) -> bool:
    assert said.layer.queries is not None
    return int(match[1]) * 2 == said.layer.queries.shape[-1]


@claims(r"Each pair of adjacent numbers of a query or a key is rotated")
def neighbours(said: Said, match: re.Match[str]) -> bool:
    return said.trace.positions == "rotary"


@claims(r"Each row sums to 1\.")
def softmax_sums(said: Said, match: re.Match[str]) -> bool:
    head = slice(None) if said.asked.head is None else said.asked.head
    return bool(((said.layer.attended.weights[head].double().sum(-1) - 1).abs() < HALF).all())


@claims(r"[Ee]very other row sums to 1")
def others_sum(said: Said, match: re.Match[str]) -> bool:
    layers = [said.layer] if said.grid is None else said.trace.attention_layers
    rows = [(each.attended.weights.double().sum(-1), _own_rows(each)) for each in layers]
    right = all(bool(((sums - reads.double()).abs() < HALF).all()) for sums, reads in rows)
    both = {bool(each) for _, reads in rows for each in reads.flatten()}
    return right and both == {True, False}


BLIND = "(has every key masked|has read nothing|reads nothing)"
SO_IT_IS_0 = r"(, so its row is 0|, so its vector is 0|: every key is masked\.)"


@claims(rf'"([^"]+)"(?: \((\d+)\))? {BLIND}(?: in ((?:head \d+(?:, | and )?)+))?{SO_IT_IS_0}')
def is_blind(said: Said, match: re.Match[str]) -> bool:
    """Of the token that is named, in each head that is named, or in all."""
    labels, attended = said.trace.tokens.labels, said.layer.attended
    assert (labels.count(match[1]) > 1) == bool(match[2])
    row = int(match[2]) - 1 if match[2] else labels.index(match[1])
    heads = [int(each) for each in re.findall(r"\d+", match[4] or "")] or slice(None)
    hidden = not bool(said.layer.visible.expand_as(attended.scores)[heads, row].any())
    made = attended.weights if "row" in match[5] else attended.mixing
    vectors = attended.contexts[heads, row] if "vector" in match[5] else made[heads, row]
    return hidden and not bool(vectors.any())


@claims(r"The same holds for (\d+) more tokens?\.")
def more_are_blind(said: Said, match: re.Match[str]) -> bool:
    heads = [said.asked.head] if said.asked.head is not None else slice(None)
    count = int((~_own_rows(said.layer)[heads]).any(0).sum())
    return count == 4 + int(match[1])


@claims(r"(?:^| · )((?:row \d+(?: of [^,·]+?)?(?:, | and |(?= reads?)))+) reads? nothing:")
def blind_rows_named(said: Said, match: re.Match[str]) -> bool:
    """Those that are named are blind, and no others are."""
    named = re.findall(r"row (\d+)(?: of (.+?))?(?=, row| and row|$)", match[1])
    found = set()
    for layer in said.trace.attention_layers:
        for head, row in (~_own_rows(layer)).nonzero().tolist():
            if bool(layer.attended.mixing[head, row].any()):
                continue  # others, or a mistake, have it read something
            of_head = layer.visible.ndim == 3
            several = len(said.trace.attention_layers) > 1
            name = f"{layer.name}H{head}" if several else f"head {head}"
            found.add((str(row + 1), name if of_head else layer.name if several else ""))
    return found == set(named)


@claims(r"(?:^| · )(?:in [LH\d, and]+ )?it reads nothing: every key is masked")
def asked_row_is_blind(said: Said, match: re.Match[str]) -> bool:
    assert said.grid is not None
    return bool((np.nan_to_num(said.grid.values).sum(-1) == 0).any())


@claims(r"A given mask is applied")
def given_mask(said: Said, match: re.Match[str]) -> bool:
    return "hidden" in said.layer.given


@claims(r"The mask is given|^given mask| · given mask")
def given_visible(said: Said, match: re.Match[str]) -> bool:
    return bool({"visible", "hidden", "mask"} & said.layer.given)


@claims(r'The mask hides nothing from ".*"( \(\d+\))?( in (.*))?')
def hides_nothing(said: Said, match: re.Match[str]) -> bool:
    heads = [int(number) for number in re.findall(r"\d+", match[3] or "")]
    visible = said.layer.visible[heads] if said.layer.visible.ndim == 3 else said.layer.visible
    return bool(visible[..., said.asked.query, :].all()) and not bool(said.layer.visible.all())


@claims(r"Each head has its own mask")
def masks_by_head(said: Said, match: re.Match[str]) -> bool:
    return said.layer.visible.ndim == 3


@claims(r"the mask hides this key from this query: step 7 sets the score to −∞")
def hides_key(said: Said, match: re.Match[str]) -> bool:
    return not bool(said.layer.visible[..., said.asked.query, said.asked.key].all())


@claims(r"the others are divided by 1 - ([\d.e-]+)")
def after_dropout(said: Said, match: re.Match[str]) -> bool:
    weights, mixing = said.layer.attended.weights, said.layer.attended.mixing
    kept = weights / (1 - float(match[1]))
    return close(torch.where(mixing == 0, mixing, kept), mixing)


@claims(r"exp\(0\) is 1, so the future keeps weight|revives what was hidden")
def leaks(said: Said, match: re.Match[str]) -> bool:
    return bool((said.layer.attended.weights * ~said.layer.visible).max() > 0)


@claims(r"rows no longer sum to 1|the matrix sums to 1, not the rows|columns sum to 1 instead of")
def breaks(said: Said, match: re.Match[str]) -> bool:
    weights = said.layer.attended.weights.double()
    return bool((weights.sum(-1) - 1).abs().max() > 1e-4)


@claims(r"flattens the rows|rows come out too flat")
def flattens(said: Said, match: re.Match[str]) -> bool:
    should, found = (each.double() for each in (_right(said.layer), said.layer.attended.weights))
    found = (found / found.sum(-1, keepdim=True)).nan_to_num()
    return bool(torch.special.entr(found).sum() > torch.special.entr(should).sum())


@claims(r"Here it changes no weight")
def without_effect(said: Said, match: re.Match[str]) -> bool:
    return bool(((_right(said.layer) - said.layer.attended.weights).abs() < HALF).all())


@claims(r"✗ A mistake: (?!.*it changes no weight).*$")
def with_effect(said: Said, match: re.Match[str]) -> bool:
    return not torch.equal(_right(said.layer), said.layer.attended.weights)


@claims(r"gets its own block of adjacent columns")
def columns_of_heads(said: Said, match: re.Match[str]) -> bool:
    layer, made = said.layer, said.layer.projections
    before = layer.before_rotary or layer
    if made is None or made.w_query is None or before.queries is None:
        return True
    joined = layer.inputs @ made.w_query + (0 if made.b_query is None else made.b_query)
    return close(split_heads(joined, layer.heads), before.queries)


@claims(r"(?:^| )([QKV]) = (X|Y|M|normed) W_(\w+)( \+ b_\w+)?")
def made_of(said: Said, match: re.Match[str]) -> bool:
    layer, name = said.layer, match[3]
    before = layer.before_rotary or layer
    read = layer.inputs if match[2] in ("X", "normed") else layer.key_inputs
    found = {"query": before.queries, "key": before.keys, "value": layer.values}[name]
    matrix, bias = (getattr(layer.projections, f"{kind}_{name}") for kind in "wb")
    assert read is not None
    assert found is not None
    made = read @ matrix if bias is None else read @ matrix + bias
    named = (bias is not None) == bool(match[4])
    own = (layer.memory is not None) == (match[2] == "M") or match[1] == "Q"
    return named and own and close(split_heads(made, len(found)), found)


@claims(r"(?:^| · )([QKV](?: = [QKV])*) = (X|Y|normed)(?= ·|$)")
def themselves(said: Said, match: re.Match[str]) -> bool:
    read = said.layer.key_inputs if match[2] == "Y" else said.layer.inputs
    before = said.layer.before_rotary or said.layer
    found = {"Q": before.queries, "K": before.keys, "V": said.layer.values}
    assert read is not None
    made = split_heads(read, said.layer.heads)
    vectors = [found[letter] for letter in match[1].split(" = ")]
    return all(each is not None and torch.equal(each, made) for each in vectors)


@claims(r"No embeddings are needed: everything computed from them is given")
def unused(said: Said, match: re.Match[str]) -> bool:
    return said.layer.block is None and "values" in said.layer.given


@claims(r"attention (compares and mixes|compares|mixes) the vectors themselves")
def used_themselves(said: Said, match: re.Match[str]) -> bool:
    values = said.layer.values
    mixed = torch.equal(values, split_heads(_read(said.layer), len(values)))
    return mixed == ("mixes" in match[1])


@claims(r"shifts and scales each vector to mean 0 and variance 1")
def mean_and_variance(said: Said, match: re.Match[str]) -> bool:
    made = _normed(said).double()
    variances = made.var(-1, correction=0)
    return bool((made.mean(-1).abs() < HALF).all() and ((variances - 1).abs() < HALF).all())


@claims(r"subtracts the mean from each vector and divides by")
def no_such_variance(said: Said, match: re.Match[str]) -> bool:
    made = _normed(said).double()
    variances = made.var(-1, correction=0)
    return bool((made.mean(-1).abs() > HALF / 2).any() or ((variances - 1).abs() > HALF / 2).any())


@claims(r"a matrix (widens|narrows) its vector to (\d+)|maps its vector to another of width (\d+)")
def other_width(said: Said, match: re.Match[str]) -> bool:
    assert said.layer.block is not None
    width, hidden = said.layer.block.required_feed_forward.parameters.w_1.shape
    if match[1] is None:
        return bool(width == hidden) and hidden == int(match[3])
    return hidden == int(match[2]) and (hidden > width) == (match[1] == "widens")


@claims(r"The output of layer (\d+) for each token")
def from_below(said: Said, match: re.Match[str]) -> bool:
    return torch.equal(said.trace.layers[int(match[1])].outputs, said.layer.layer_inputs)


@claims(r"The heads' vectors are then concatenated")
def side_by_side(said: Said, match: re.Match[str]) -> bool:
    return said.layer.heads > 1


@claims(r"\(--query follows another token\)")
def another(said: Said, match: re.Match[str]) -> bool:
    return len(said.trace.tokens) > 1


@claims(r"\(--query TOKEN shows what that token asks for\)")
def nothing_followed(said: Said, match: re.Match[str]) -> bool:
    return said.asked.query is None


@claims(r"in total, this layer has ([\d,]+) numbers (?:to learn|that were learned)")
def all_learned(said: Said, match: re.Match[str]) -> bool:
    layer = next(each for each in said.trace.layers if said.layer in each.attention_layers)
    assert layer.block is not None
    made = [each.projections for each in layer.attention_layers]
    tensors = [value for each in made if each is not None for value in vars(each).values()]
    tensors += (
        []
        if layer.block.feed_forward is None
        else vars(layer.block.feed_forward.parameters).values()
    )
    norms = [each.norm for each in layer.block.residuals.values()]
    tensors += [value for each in norms if each is not None for value in vars(each).values()]
    count = sum(each.numel() for each in tensors if isinstance(each, Tensor))
    return count == int(match[1].replace(",", ""))


@claims(r"= ([\d,]+) numbers (?:to learn|that were learned)$")
def learned(said: Said, match: re.Match[str]) -> bool:
    sides = re.findall(r"(\d[\d,]*(?: × [\d,]+)*)(?= [+=]|$)", said.text.split(" = ")[0])
    sizes = [np.prod([int(n.replace(",", "")) for n in each.split(" × ")]) for each in sides]
    return sum(sizes) == int(match[1].replace(",", ""))


# What a model answers.


def _probabilities(said: Said, *, whole: bool = False) -> Tensor:
    """Worked out again from what the last layer made; with all heads on, from the beginning."""
    made = said.trace
    if whole:
        source = build_source(made)
        on = replace(source, settings=replace(source.settings, without=None))
        made = trace_source(on, mistake=made.layers[0].mistake)
    origin = made.origin
    assert isinstance(origin, FromModel)
    assert origin.model.unembedding is not None
    last, vectors = origin.model.unembedding, made.layers[-1].outputs.double()
    if last.norm is not None:
        size, gain, shift = vectors.shape[1:], last.norm.gain.double(), last.norm.shift.double()
        vectors = torch.nn.functional.layer_norm(vectors, size, gain, shift)
    bias = 0 if last.b_answers is None else last.b_answers.double()
    return (vectors @ last.w_answers.double() + bias).softmax(-1)


def _answers(said: Said) -> tuple[str, ...]:
    assert isinstance(said.trace.origin, FromModel)
    return said.trace.origin.model.vocabulary.answers


def _asked_at(said: Said, label: str, number: str | None) -> int:
    """The place that is named, which is one that asks; with its number if it is there twice."""
    labels, made = said.trace.tokens.labels, said.trace.prediction
    assert (labels.count(label) > 1) == bool(number)
    place = int(number) - 1 if number else labels.index(label)
    assert made is not None
    assert labels[place] == label
    assert place in made.asked_positions
    return place


def _is_share(likely: float, said: str) -> bool:
    """Whether a probability is what is written of it in per cents; 100 % is all, 0 % nothing."""
    digits = len(said.partition(".")[2])
    if said == "over 99.9":
        return 0.999 <= likely < 1
    return abs(100 * likely - float(said)) < 0.6 / 10**digits and (said != "100" or likely > 0.9999)


HERE = r'(?:[aA]fter|[aA]t) "(.+?)"(?: \((\d+)\))?'


@claims(rf"^{HERE} the model (expects|answers): (.+)$")
def answered(said: Said, match: re.Match[str]) -> bool:
    row = _probabilities(said)[_asked_at(said, match[1], match[2])]
    assert isinstance(said.trace.origin, FromModel)
    follows = said.trace.origin.model.vocabulary.predicts == "next"
    told = re.findall(rf"(\S+) \({SHARE}\)", match[4])
    best = row.sort(descending=True).values[: len(told)].tolist()
    right = [_is_share(likely, number)
             and _is_share(float(row[_answers(said).index(word)]), number)
             for (word, number), likely in zip(told, best, strict=True)]  # fmt: skip
    return bool(told) and all(right) and follows == (match[3] == "expects")


@claims(rf"^At the (\d+) positions the model answers: (.+) \(each {SHARE} or more\)$")
def all_answered(said: Said, match: re.Match[str]) -> bool:
    assert said.trace.prediction is not None
    rows = _probabilities(said)[list(said.trace.prediction.asked_positions)]
    words = [_answers(said)[each] for each in rows.argmax(-1)]
    least = 100 * float(rows.max(-1).values.min())
    return len(words) == int(match[1]) and words == match[2].split() and (
        float(match[3]) <= least + 1e-4 < float(match[3]) + 1 + 2e-4
    )  # fmt: skip


@claims(
    rf"^Without (.+?)(?:, {HERE})?: (still )?(\S+) \({SHARE}(?:, with all heads {SHARE})?\)"
    rf"(?: instead of (\S+) \({SHARE}\))?$"
)
def answered_without(said: Said, match: re.Match[str]) -> bool:
    assert said.trace.prediction is not None
    asked = said.trace.prediction.asked_positions
    place = _asked_at(said, match[2], match[3]) if match[2] else asked[0]
    now, was = _probabilities(said)[place], _probabilities(said, whole=True)[place]
    words, before = _answers(said), match[8] or match[5]
    return (
        attention_headline(said.trace).endswith(f" with {match[1]} switched off")
        and bool(match[2]) == (len(asked) > 1)
        and words[int(now.argmax())] == match[5]
        and words[int(was.argmax())] == before
        and _is_share(float(now.max()), match[6])
        and _is_share(float(was.max()), match[9] or match[7] or match[6])
        and bool(match[4]) == (match[5] == before)
    )


@claims(r"^Without .+?: (?:(\d+) of|(all)) (\d+) answers (?:changes?|stay the same): (.+)$")
def all_answered_without(said: Said, match: re.Match[str]) -> bool:
    assert said.trace.prediction is not None
    places = list(said.trace.prediction.asked_positions)
    rows = _probabilities(said)[places], _probabilities(said, whole=True)[places]
    now, was = ([_answers(said)[each] for each in row.argmax(-1)] for row in rows)
    told = [each.split() for each in match[4].split(" instead of ")]
    others = sum(one != other for one, other in zip(now, was, strict=True))
    count = int(match[3]) == len(places)
    return count and told == ([now] if match[2] else [now, was]) and others == int(match[1] or 0)


@claims(r"No token of this text asks the model for an answer(?:; (.+) would)?")
def nothing_asked(said: Said, match: re.Match[str]) -> bool:
    model = said.trace.model
    assert model is not None
    assert said.trace.prediction is not None
    would = [each for each in re.split(", | and | ", match[1] or "") if each not in ("", "…")]
    heard = all(model.vocabulary.asked([model.vocabulary.ids[each]]) for each in would)
    return heard and not said.trace.prediction.asked_positions


@claims(r"^only (.+) asks? for an answer$")
def only_these_ask(said: Said, match: re.Match[str]) -> bool:
    assert said.trace.prediction is not None
    asked, count = said.trace.prediction.asked_positions, len(said.trace.tokens)
    if match[1].endswith(" positions"):
        return match[1] == f"{len(asked)} of the {count} positions" and 0 < len(asked) < count
    named = re.findall(r'"(.+?)"(?: \((\d+)\))?', match[1])
    return tuple(_asked_at(said, *each) for each in named) == asked and len(asked) < count


@claims(r'^"(.+)"(?: \((\d+)\))? does not ask for an answer$')
def this_asks_nothing(said: Said, match: re.Match[str]) -> bool:
    assert said.trace.prediction is not None
    labels = said.trace.tokens.labels
    place = int(match[2]) - 1 if match[2] else labels.index(match[1])
    return labels[place] == match[1] and place not in said.trace.prediction.asked_positions


@claims(r"no answer is asked for at the other positions")
def others_ask_nothing(said: Said, match: re.Match[str]) -> bool:
    assert said.trace.prediction is not None
    return 0 < len(said.trace.prediction.asked_positions) < len(said.trace.tokens)


@claims(r"the most likely of (\d+) answers|the \d+ most likely of (\d+) answers")
def likeliest_of(said: Said, match: re.Match[str]) -> bool:
    return len(_answers(said)) == int(match[1] or match[2])


@claims(r"The vectors are the outputs of layer (\d+)")
def of_the_last_layer(said: Said, match: re.Match[str]) -> bool:
    last = said.trace.layers[-1].layer
    return last == int(match[1]) and said.layer.layer != last


@claims(r"Each row of probabilities sums to 1|each answer with its probability")
def probabilities_sum(said: Said, match: re.Match[str]) -> bool:
    made = said.trace.prediction
    assert made is not None
    return bool(((made.probabilities - _probabilities(said)).abs() < HALF / 10).all())


@claims(r"^scores = x W_answers( \+ b_answers)?$")
def formula_of_answers(said: Said, match: re.Match[str]) -> bool:
    made = said.trace.prediction
    assert made is not None
    assert made.scoring is not None
    return (made.scoring.b_answers is not None) == bool(match[1])


# What a picture says in words.


@claims(r"^(.+?) reads (.+?) most(, equally)? \(([\d.e-]+)( each)?\)$")
def read_most(said: Said, match: re.Match[str]) -> bool:
    assert said.grid is not None
    row = said.grid.values[said.grid.rows.names.index(match[1])]
    largest = np.nanmax(row)
    most = int((row >= largest * (1 - 1e-5)).sum())
    one = match[2] in said.grid.columns.names
    return (most == 1) == (one and not match[3]) and abs(float(match[4]) - largest) <= max(
        HALF, 0.06 * largest
    )


@claims(r"^(.+?) reads nothing$")
def reads_nothing(said: Said, match: re.Match[str]) -> bool:
    assert said.grid is not None
    return not np.nan_to_num(said.grid.values[said.grid.rows.names.index(match[1])]).any()


def _pair(said: Said) -> tuple[float, float]:
    """The score that is asked for, of the first head that is, and the product of the lengths."""
    head, row, key = said.asked.head or 0, said.asked.query, said.asked.key
    queries, keys = said.layer.queries, said.layer.keys_of_heads
    assert queries is not None
    assert keys is not None
    lengths = queries[head, row].double().norm() * keys[head, key].double().norm()
    return float(said.layer.attended.scores[head, row, key]), float(lengths)


def _right(layer: Layer) -> Tensor:
    hidden = layer.attended.logits.masked_fill(~layer.visible, -torch.inf)
    return hidden.softmax(-1).masked_fill(~layer.visible.any(-1, keepdim=True), 0)


def _read(layer: Layer) -> Tensor:
    return layer.inputs if layer.key_inputs is None else layer.key_inputs


def _normed(said: Said) -> Tensor:
    """What LayerNorm made in this section, before a gain and a shift."""
    assert said.section is not None
    block, name = said.layer.block, said.section.name
    last = said.trace.prediction
    if name == "last-norm":
        assert last is not None
        assert last.scoring is not None
        vectors, norm = last.scoring.vectors.double(), last.scoring.norm
        assert norm is not None
        return (vectors - norm.shift.double()) / norm.gain.double()
    if block is None:  # of attention to a second sentence
        block = next(each.block for each in said.trace.layers if each.cross is said.layer)
    assert block is not None
    of = "cross" if "cross" in name else "feed_forward" if "feed" in name else "attention"
    residual = block.residuals[of]
    made = residual.outputs if name.startswith("add-") else residual.sublayer_inputs
    assert residual.norm is not None
    return (made.double() - residual.norm.shift.double()) / residual.norm.gain.double()


def _own_rows(layer: Layer) -> Tensor:
    """Of each head, which queries may read anything."""
    return layer.visible.any(-1).expand(layer.attended.weights.shape[:-1])


# What is said, and of what.


def of_view(view: View, made: Trace) -> Iterator[Said]:
    """Every string of a View of a Trace, with the attention that it is about."""
    first = made.layers[0]
    for text in (view.title, view.settings, *view.closing):
        yield Said(text, made, first)
    for page in (view.screen, view.picture):
        named = {f" {layer.name}": layer for layer in made.attention_layers}
        for group in page.groups:
            layer = next((named[each] for each in named if group.name.endswith(each)), first)
            for grid in open_panels(group.panels):
                if isinstance(grid, Grid):
                    yield Said(grid.note, made, layer, grid=grid)
                    yield from _described(grid, made, layer)
        yield from _of_caption(page, made)


def _of_caption(page: Page, made: Trace) -> Iterator[Said]:
    """What is said of sums under all panels must be so of all that are divided up."""
    yield Said(page.caveat, made, made.layers[0])
    for note in SUM_NOTES:
        for grid in open_panels(page.panels) if note in page.caption.split(" · ") else ():
            if isinstance(grid, Grid) and grid.share:
                yield Said(note, made, made.layers[0], grid=grid)


def _described(grid: Grid, made: Trace, layer: Layer) -> Iterator[Said]:
    if grid.share:
        told = describe([grid]).rstrip(".").split("). ", 1)[-1]
        yield from (Said(each, made, layer, grid=grid) for each in told.split("; "))


def of_steps(walk: Walk) -> Iterator[Said]:
    """Every string of the sections of one layer."""
    view, made = walk.view(), walk.trace
    layer = next(each for each in made.layers if walk.options.layer in (None, each.layer))
    yield Said(view.title, made, made.layers[0])
    for section in view.sections:
        crossed = section.name.startswith("cross-") or section.name == "memory"
        about = layer.cross if crossed and layer.cross is not None else layer
        own = layer if section.name.endswith("-norm") else about
        texts = [section.about, section.formula, *section.remarks]
        texts += [each.about for each in section.moments]
        yield from (Said(each, made, own, section, asked=walk.options) for each in texts)
        for grid in section.grids:
            yield Said(grid.note, made, own, section, grid)
    yield from _of_caption(view.picture, made)


def untrue(run: Run) -> list[str]:
    """Each sentence of a run that is false, or that nobody knows."""
    every = (*of_view(run.view, run.made), *of_steps(run.walk))
    failed = [check.text for check in verify_trace(run.made) if check.failed]
    titles = _untrue_headline(run)
    return [*failed, *titles, *(told for said in every for told in _untrue(said))]


def _untrue_headline(run: Run) -> list[str]:
    """What heads that are off do to the answer; else what the weights show."""
    title, made = run.view.headline, run.made
    answers = made.prediction is not None and made.prediction.asked_positions
    if answers and any(each.off for each in made.layers):
        return [*_untrue(Said(title, made, made.layers[0]))]
    return untrue_title(title, made, run.query)


def _untrue(said: Said) -> Iterator[str]:
    known: list[tuple[int, int]] = []
    for pattern, claim in CLAIMS:
        for match in pattern.finditer(said.text):
            known.append(match.span())
            if not claim(said, match):
                yield f"{claim.__name__}: {said.text}"
    for sentence in SENTENCE.finditer(said.text):
        words, (start, end) = sentence[0].strip(" ·"), sentence.span()
        claimed = any(one < end and start < other for one, other in known)
        if not claimed and not any(each.fullmatch(words) for each in CLAIM_NOTHING):
            yield f"nobody knows what this claims: {words}"
