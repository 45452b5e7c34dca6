"""What the sentences of run and steps claim, checked against the Trace that they are about.

Every text of a View that people read is collected; each has to be one of those that are known
here, and what it claims is computed again from the numbers.
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
from attnviz.views.answer_tables import MAX_ANSWER_BARS
from attnviz.views.grids.axes import GENERATED_NOTE, SUM_NOTES
from attnviz.views.grids.description import describe
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Section, open_panels
from attnviz.views.headline import attention_headline
from attnviz.views.steps.scene import StepSettings
from attnviz.views.steps.walk import Walk
from attnviz.views.view import Page, View
from attnviz.wording.words import and_list
from tests import not_none
from tests.claims_of_titles import false_title_claims
from tests.drawn_runs import Run

HALF = 0.006  # of the last of two digits, and what float16 rounds
SHARE = r"((?:over )?[\d.]+)\u00a0%"


@dataclass(frozen=True)
class Statement:
    """A text that readers see, and the attention that it is about."""

    text: str
    trace: Trace
    layer: Layer
    section: Section | None = None
    grid: Grid | None = None
    options: StepSettings = field(default_factory=StepSettings)


SENTENCE = re.compile(r"(?:(?! · )(?!(?<=\.) ).)+")  # or a part of a line
OF_HEAD = r"(?: \(head \d+ of \d+\))?"
CLAIM_NOTHING = [  # explanations, true whatever the numbers are
    re.compile(each)
    for each in (
        r"How .* gets its context vector, step by step",
        r"row = query \(reads\)",
        r"column = key \(is read\)",
        r"The numbers are multiplied in pairs, and the products added\.",
        r"It is also how far the key reaches along the query \(its projection\), times the "
        r"query's length\.",
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
Claim = Callable[[Statement, "re.Match[str]"], bool]
CLAIMS: list[tuple[re.Pattern[str], Claim]] = []


def claims(pattern: str) -> Callable[[Claim], Claim]:
    """Register a check: whether what a text claims where `pattern` matches is true."""

    def register(claim: Claim) -> Claim:
        CLAIMS.append((re.compile(pattern), claim))
        return claim

    return register


def close(one: Tensor, other: Tensor) -> bool:
    """Equal up to the rounding of their dtype, relative to the largest number."""
    if one.numel() == 0:
        return True
    size = max(1e-12, float(other.abs().max()), float(one.abs().max()))
    step = torch.finfo(one.dtype).eps * 32
    return float((one - other).abs().max()) <= size * step


# Headline and settings line


@claims(r"^(scaled|unscaled)( plain)? attention")
@claims(r" · (not scaled|scaled)(?= ·)")
def scale_matches(statement: Statement, match: re.Match[str]) -> bool:
    times = statement.layer.scale * statement.trace.variant.temperature
    root = statement.layer.head_dim**-0.5 if match[1] == "scaled" else 1.0
    return abs(times / root - 1) < 1e-6


@claims(r"^causal attention| · causal( ·|$)|No token may attend to the tokens after it")
def is_causal(statement: Statement, match: re.Match[str]) -> bool:
    return not bool(statement.layer.visible.triu(1).any())


@claims(r"^average attention(?=,| ·|$)")
def weights_are_even(statement: Statement, match: re.Match[str]) -> bool:
    weights = statement.layer.attended.weights.double()
    even = statement.layer.visible / statement.layer.visible.sum(-1, keepdim=True)
    return bool(((weights - even).abs() < HALF).all())


@claims(r" · position base ([\d.e+]+)")
def position_base_matches(statement: Statement, match: re.Match[str]) -> bool:
    settings = resolved_settings(statement.trace.origin)
    return settings.position_base == float(match[1]) and statement.trace.positions != "none"


@claims(r" · (\d+) layers?(?: \((post-norm|pre-norm|no norm)\))?(?= ·)")
def layers_match(statement: Statement, match: re.Match[str]) -> bool:
    block = statement.trace.layers[0].block
    places = {"post": "post-norm", "pre": "pre-norm", "none": "no norm"}
    placement = None if block is None else places[block.norm_placement]
    return len(statement.trace.layers) == int(match[1]) and placement == match[2]


@claims(
    r"Finally the result is multiplied by the output matrix"
    r"|output = (joined|context) W_out( \+ b_out)?"
)
def output_matrix_mixes_heads(statement: Statement, match: re.Match[str]) -> bool:
    projections = not_none(statement.layer.projections)
    joined = join_heads(statement.layer.attended.contexts) @ not_none(projections.w_out)
    right = close(
        joined if projections.b_out is None else joined + projections.b_out, statement.layer.context
    )
    bias_is_stated = match[1] is None or (projections.b_out is not None) == bool(match[2])
    return right and bias_is_stated


# Heads that are switched off, parts that a block lacks


@claims(r" with (L.+?) switched off(?= · |$)")
def heads_named_are_off(statement: Statement, match: re.Match[str]) -> bool:
    named_heads = re.findall(r"L(\d+)H(\d+)( \(replaced by its mean\))?", match[1])
    places = {(int(layer), int(head)) for layer, head, _ in named_heads}
    off = {(each.layer, head) for each in statement.trace.layers for head in each.off}
    means = {(int(layer), int(head)) for layer, head, mean in named_heads if mean}
    return places == off and all(
        _head_is_off(statement.trace.layers[layer], head, mean=(layer, head) in means)
        for layer, head in places
    )


@claims(
    r"^(the only head is|.+? (?:is|are)) switched off: ((?:its output is|their outputs are) "
    r"replaced by 0|(?:its|each) output is replaced by its mean over the sentence, the same for "
    r"every token); the weights shown are those (it|they) would have$"
)
def only_heads_named_are_off(statement: Statement, match: re.Match[str]) -> bool:
    """Exactly the heads that are off in this way, under the names that this view uses."""
    several, mean = len(statement.trace.attention_layers) > 1, "mean" in match[2]
    off = [
        f"L{layer.layer}H{head}" if several else f"head {head}"
        for layer in statement.trace.layers
        for head in range(layer.heads)
        if layer.off.get(head) == ("mean" if mean else "zero")
        and _head_is_off(layer, head, mean=mean)
    ]
    only = not several and statement.trace.layers[0].heads == 1
    expected_names = ["the only head"] if only else off
    verb, one = "is" if match[3] == "it" else "are", match[2].startswith("its")
    right = one == (verb == "is") == (len(off) == 1)
    return bool(off) and match[1] == f"{and_list(expected_names)} {verb}" and right


@claims(
    r"(The only head is|Heads? ([\d, and]+) (?:is|are)) switched off: (?:its|their|each head's) "
    r"vectors (are 0|are replaced by their mean over the sentence)\."
)
def vectors_of_heads_off_are_replaced(statement: Statement, match: re.Match[str]) -> bool:
    heads = [int(each) for each in re.findall(r"\d+", match[2] or "0")]
    only = "only" in match[1] and statement.layer.heads > 1
    return not only and all(
        _head_is_off(statement.layer, each, mean="mean" in match[3]) for each in heads
    )


def _head_is_off(layer: Layer, head: int, *, mean: bool) -> bool:
    """Whether the outputs of a head are 0, or its mean for every token."""
    outputs = layer.attended.mixing[head] @ layer.values_of_heads[head]
    expected = outputs.mean(0) if mean else torch.zeros_like(outputs[0])
    return close(layer.attended.contexts[head], expected.expand_as(outputs))


# What is random: another seed changes it


def with_other_seeds(trace: Trace) -> Iterator[Trace]:
    """The same text and settings, traced with other seeds."""
    source, settings = build_source(trace), trace.origin.settings
    mistake = trace.layers[0].mistake
    for seed in range(2000, 2004):
        yield trace_source(replace(source, settings=replace(settings, seed=seed)), mistake=mistake)


def depends_on_seed(trace: Trace, *, part: str = "") -> bool:
    """Whether another seed changes anything; with `part`, that part of the attention."""
    return any(not _traces_are_equal(trace, other, part) for other in with_other_seeds(trace))


def _traces_are_equal(one: Trace, other: Trace, part: str) -> bool:
    if not part:
        return all(
            torch.equal(a, b)
            for a, b in zip(_tensors_of_trace(one), _tensors_of_trace(other), strict=True)
        )
    pairs = zip(one.attention_layers, other.attention_layers, strict=True)
    return all(torch.equal(getattr(a.attended, part), getattr(b.attended, part)) for a, b in pairs)


def _tensors_of_trace(trace: Trace) -> Iterator[Tensor]:
    first = trace.layers[0]
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
        for layer in trace.attention_layers:
            tensor = (
                part.find(trace, layer)
                if layer.memory is None or part in PARTS_OF_ATTENTION
                else None
            )
            if isinstance(tensor, Tensor):
                yield tensor


@claims(r" · \d+ tokens? \(.* · cpu ")
def seed_is_shown_where_it_matters(statement: Statement, match: re.Match[str]) -> bool:
    """The seed is shown where it affects anything, and only there."""
    seed_is_shown = " · seed " in statement.text
    dropout_is_used = any(
        each.attended.mixed_by == "dropout" for each in statement.trace.attention_layers
    )
    return (seed_is_shown and dropout_is_used) or seed_is_shown == depends_on_seed(statement.trace)


@claims(
    r"^random (vectors|dropout)(?=: this)|^given vectors, random (projections|positions|w_score)"
)
def numbers_are_random(statement: Statement, match: re.Match[str]) -> bool:
    return depends_on_seed(statement.trace)


@claims(r"^random (?!vectors).*: the weights( before it)? are real")
def weights_are_not_random(statement: Statement, match: re.Match[str]) -> bool:
    return not depends_on_seed(
        statement.trace, part="weights" if "before it" in statement.text else "mixing"
    )


@claims(r"([wb]_[\w, ]+) (?:is|are) random \(set by the seed\); the (others?) (?:is|are) given")
def named_matrices_are_random(statement: Statement, match: re.Match[str]) -> bool:
    names, given_names = _matrix_names(statement), _matrix_names(statement) & statement.layer.given
    random_names = {*re.split(", | and ", match[1])}
    return random_names == names - given_names and (match[2] == "other") == (len(given_names) == 1)


@claims(r"(w_\d) is given; (w_\d) is random \(set by the seed\)| Both (?:are given|were learned)")
def feed_forward_matrices_are_random(statement: Statement, match: re.Match[str]) -> bool:
    if match[1] is None:
        return {"w_1", "w_2"} <= statement.layer.given
    return match[1] in statement.layer.given and match[2] not in statement.layer.given


@claims(r"Here (they are|it is) random \(set by the seed\); training would learn (them|it)")
def all_matrices_are_random(statement: Statement, match: re.Match[str]) -> bool:
    names, speaks_of_one = _matrix_names(statement), match.groups() == ("it is", "it")
    return not names & statement.layer.given and speaks_of_one == (len(names) == 1)


def _matrix_names(statement: Statement) -> set[str]:
    """Names of the matrices that make queries, keys, values and scores."""
    learned = parts.learned_tensors(statement.trace, statement.layer)
    return {name for name in learned if not name.endswith("_out")}


@claims(r"Nothing else is masked: the mask has already been added to the scores")
def added_mask_hides_alone(statement: Statement, match: re.Match[str]) -> bool:
    return statement.layer.attended.mask is not None and bool(statement.layer.visible.all())


@claims(r" · window (\d+)|less than (\d+) positions? away")
def window_matches(statement: Statement, match: re.Match[str]) -> bool:
    rows, columns = statement.layer.visible.nonzero().T
    return bool(((rows - columns).abs() < int(match[1] or match[2])).all())


@claims(r"Each token attends only to itself|The token attends to itself")
def each_token_sees_only_itself(statement: Statement, match: re.Match[str]) -> bool:
    return torch.equal(
        statement.layer.visible, torch.eye(len(statement.trace.tokens), dtype=torch.bool)
    )


@claims(r" · (\d+) heads? of width (\d+)")
def heads_and_width_match(statement: Statement, match: re.Match[str]) -> bool:
    vectors = statement.layer.values if statement.layer.queries is None else statement.layer.queries
    scores_are_given = "scores" in statement.layer.given
    width = statement.layer.head_dim if scores_are_given else vectors.shape[-1]
    return (len(vectors), width) == (int(match[1]), int(match[2]))


@claims(r" · dropout ([\d.e-]+)")
def dropout_matches(statement: Statement, match: re.Match[str]) -> bool:
    share, mixing_sources = (
        statement.trace.variant.dropout,
        [each.attended.mixed_by for each in statement.trace.attention_layers],
    )
    return share == pytest.approx(float(match[1]), rel=1e-5) and "dropout" in mixing_sources


@claims(r" · (sinusoidal|learned|rotary|rotary-halves|alibi) positions")
def position_kind_matches(statement: Statement, match: re.Match[str]) -> bool:
    single_zero = statement.trace.embeddings.shape == (1, 1)  # sin(0) is 0
    return single_zero or {
        "rotary": statement.layer.before_rotary is not None or len(statement.trace.layers) > 1,
        "rotary-halves": statement.layer.before_rotary is not None
        or len(statement.trace.layers) > 1,
        "alibi": statement.layer.attended.bias is not None,
    }.get(match[1], not torch.equal(statement.layer.layer_inputs, statement.trace.embeddings))


# Facts of a small model


@claims(r" · model (\S+)| of the model (\S+?)(?= with L| ·|$)")
def model_name_matches(statement: Statement, match: re.Match[str]) -> bool:
    model = statement.trace.trained or statement.trace.model
    return model is not None and model.name == (match[1] or match[2])


@claims(r"A (learned|written) (?:by hand )?vector for the position is added")
@claims(
    r"(?:They|It|Both) (?:were|was) (learned|written)| numbers (?:that were )?(learned|written)"
)
def origin_of_numbers_matches(statement: Statement, match: re.Match[str]) -> bool:
    model, is_written = statement.trace.model, "written" in match.groups()
    if statement.trace.trained is not None:
        return not is_written
    return model is not None and model.by_hand == is_written


@claims(rf"^In (\d+) sentences not used in training, (L\dH\d) (.+) \({SHARE} of its attention\)$")
def score_of_head_matches(statement: Statement, match: re.Match[str]) -> bool:
    model = not_none(statement.trace.model)
    score = _percent_matches(model.facts["scores"][match[2]], match[4])
    return score and model.heads[match[2]] == match[3] and str(model.facts["sentences"]) == match[1]


@claims(
    r"was trained on sentences of (\d+) to (\d+) tokens; this one has (\d+), a length it never saw"
)
def length_was_not_in_training(statement: Statement, match: re.Match[str]) -> bool:
    shortest, longest, count = map(int, match.groups())
    model = not_none(statement.trace.model)
    facts_match = (
        model.facts["tokens"] == [shortest, longest] and len(statement.trace.tokens) == count
    )
    return facts_match and not shortest <= count <= longest


@claims(r"^the table for all ([\d,]+) words has ")
def vocabulary_size_matches(statement: Statement, match: re.Match[str]) -> bool:
    model = statement.trace.model
    return model is not None and len(model.embeddings) == int(match[1].replace(",", ""))


# Facts of a trained transformer


@claims(r"^the table for all ([\d,]+) ids has ([\d,]+) × (\d+) = ([\d,]+) numbers that")
def embedding_table_matches(statement: Statement, match: re.Match[str]) -> bool:
    ids, repeated_ids, width, count = (int(each.replace(",", "")) for each in match.groups())
    own_sizes = statement.trace.vocabulary, statement.trace.embeddings.shape[1]
    return (
        statement.trace.trained is not None
        and ids == repeated_ids
        and own_sizes == (ids, width)
        and (ids * width == count and ids > max(statement.trace.tokens.ids))
    )


@claims(r'The tokenizer adds ((?:"[^"]+"(?:, | and )?)+)\.')
def special_tokens_match(statement: Statement, match: re.Match[str]) -> bool:
    tokens = statement.trace.tokens
    names = {tokens.labels[place] for place in tokens.special}
    return {*re.findall(r'"([^"]+)"', match[1])} == names


@claims(r'[Tt]he model wrote "(.+)"\.?')
def generated_text_matches(statement: Statement, match: re.Match[str]) -> bool:
    tokens = statement.trace.tokens
    return match[1] == piece_phrase(b"".join(tokens.pieces[statement.trace.prompt :]).strip())


@claims(r"Attention does not receive the embeddings themselves but the inputs shown below\.")
def inputs_replace_embeddings(statement: Statement, match: re.Match[str]) -> bool:
    return statement.layer.layer == 0 and not torch.equal(
        statement.layer.inputs, statement.trace.embeddings
    )


@claims(r"The vectors that the attention of layer (\d+) receives after layer (\d+)\.")
def layer_follows_layer(statement: Statement, match: re.Match[str]) -> bool:
    return (statement.layer.layer, statement.layer.layer - 1) == tuple(map(int, match.groups()))


@claims(r"The model computes ((?:queries|keys|values)[a-z, ]*) in its own way; they are shown")
def vectors_without_matrices_match(statement: Statement, match: re.Match[str]) -> bool:
    named_vectors = {*re.findall(r"queries|keys|values", match[1])}
    return statement.layer.given & {"queries", "keys", "values"} == named_vectors


@claims(
    r"The model rotates queries and keys in its own way: they keep their length at every position, "
    r"and at the first they do not change\."
)
def rotation_keeps_lengths(statement: Statement, match: re.Match[str]) -> bool:
    before, layer = statement.layer.before_rotary, statement.layer
    assert before is not None
    pairs = ((before.queries, not_none(layer.queries)), (before.keys, layer.keys))
    return all(
        other is not None
        and close(one[:, :1], other[:, :1])
        and close(one.norm(dim=-1), other.norm(dim=-1))
        for one, other in pairs
    )


@claims(r"This model divides scores by (\S+) instead of √(\d+)\.")
def divisor_of_model_matches(statement: Statement, match: re.Match[str]) -> bool:
    attended = statement.layer.attended
    differs_from_root = abs(statement.layer.scale * int(match[2]) ** 0.5 - 1) > 1e-6
    return differs_from_root and close(attended.scores / float(match[1]), attended.scaled_scores)


@claims(r"The model adds a number to each score(, which differs between heads)?\.")
@claims(r"^biased = (?:scaled|capped) \+ bias$")
def bias_is_added(statement: Statement, match: re.Match[str]) -> bool:
    bias = not_none(statement.layer.attended.bias)
    difference = statement.layer.attended.biased - statement.layer.attended.scaled_scores
    differs_between_heads = bool((bias != bias[:1]).any())
    return close(difference, bias.expand_as(difference)) and (
        differs_between_heads or not match[match.re.groups]
    )


@claims(r"It depends only on how far the key is before or after the query\.")
def bias_depends_on_distance(statement: Statement, match: re.Match[str]) -> bool:
    bias = statement.layer.attended.bias
    return bias is not None and close(bias[..., 1:, 1:], bias[..., :-1, :-1])


@claims(r"Each token attends only to tokens in its own chunk of (\d+) tokens?\.")
def keys_stay_in_chunk(statement: Statement, match: re.Match[str]) -> bool:
    queries, keys = statement.layer.visible.nonzero().T
    return bool((queries // int(match[1]) == keys // int(match[1])).all())


@claims(r"The model decides what each token may attend to(, separately in each head)?\.")
def model_masks_keys(statement: Statement, match: re.Match[str]) -> bool:
    by_head = statement.layer.visible.ndim == 3
    return not bool(statement.layer.visible.all()) and by_head == bool(match[1])


@claims(r"Each token attends only to tokens less than (\d+) positions? away\.")
def window_of_model_matches(statement: Statement, match: re.Match[str]) -> bool:
    queries, keys = statement.layer.visible.shape[-2:]
    distances = (torch.arange(queries)[:, None] - torch.arange(keys)[None, :]).abs()
    visible = statement.layer.visible.reshape(-1, queries, keys).any(0)
    beyond = bool(visible[distances >= int(match[1])].any())
    # A sentence may be shorter than a window that the user chose.
    at_its_end = statement.trace.trained is None or bool(
        visible[distances == int(match[1]) - 1].any()
    )
    return at_its_end and not beyond


@claims(r"Keys and values are computed from the output of the encoder, Y\.")
def keys_come_from_encoder(statement: Statement, match: re.Match[str]) -> bool:
    card = statement.trace.trained
    return card is not None and card.which == "cross" and statement.layer.key_inputs is not None


@claims(r"The sink's share is lost: a row sums to less than 1\.")
@claims(
    r"sum of all exp\(score\) in the row, to which each head adds exp of a learned number, its "
    r"sink\."
)
@claims(r"^weight = exp\(score\) / sum of exp\(scores in its row and of the sink\)$")
def sink_takes_a_share(statement: Statement, match: re.Match[str]) -> bool:
    sums = statement.layer.attended.weights.sum(-1)
    return statement.layer.attended.sink is not None and bool((sums < 1).all())


@claims(r"what the model does with these vectors next is not shown(, except its answers)?")
def model_goes_on(statement: Statement, match: re.Match[str]) -> bool:
    answers = statement.trace.prediction is not None
    return statement.trace.trained is not None and answers == bool(match[1])


# Given matrices


@claims(r"^additive( causal)? attention")
def additive_title_matches(statement: Statement, match: re.Match[str]) -> bool:
    hides = not bool(statement.layer.visible.triu(1).any())
    return statement.layer.w_score is not None and (hides or not match[1])


@claims(r"^(?:They are given|They were learned)\.| They are given\.")
def all_matrices_are_given(statement: Statement, match: re.Match[str]) -> bool:
    if not_none(statement.section).name == "embeddings":
        return "embeddings" in statement.layer.given or statement.trace.model is not None
    projections = statement.layer.projections
    names = ("w_query", "w_key", "w_value", "w_score")
    return statement.layer.given >= {
        each for each in names if getattr(projections, each, None) is not None
    }


@claims(r"No matrices are needed: queries, keys and values, or the scores, are given")
def projections_are_not_needed(statement: Statement, match: re.Match[str]) -> bool:
    given = statement.layer.given
    return "values" in given and ({"queries", "keys"} <= given or "scores" in given)


@claims(
    r"(Keys and values|Keys|Values) are computed from other tokens, whose (?:given )?vectors are Y"
)
def keys_come_from_other_tokens(statement: Statement, match: re.Match[str]) -> bool:
    named_vectors = {each.lower() for each in re.findall(r"\w+", match[1])} - {"and"}
    has_other_tokens = statement.layer.key_inputs is not None and len(statement.trace.keys) == len(
        statement.layer.key_inputs
    )
    return has_other_tokens and not named_vectors & statement.layer.given


@claims(r"Weights written by hand replace those of the softmax|with weights by hand")
def weights_are_written_by_hand(statement: Statement, match: re.Match[str]) -> bool:
    return "weights" in statement.layer.given and statement.layer.attended.mixed_by == "hand"


@claims(r"The dropout mask is given: .* multiplied by it(?: and .* by 1 - (.+))?\.$")
def given_dropout_is_applied(statement: Statement, match: re.Match[str]) -> bool:
    share = float(match[1] or 0)
    weights, mixing = statement.layer.attended.weights, statement.layer.attended.mixing
    scaled_weights = weights / (1 - share)
    return "kept" in statement.layer.given and close(
        torch.where(mixing == 0, mixing, scaled_weights), mixing
    )


@claims(
    r"^context vectors (of each head, before they are joined|before they are multiplied by W_o)"
)
def output_matrix_comes_later(statement: Statement, match: re.Match[str]) -> bool:
    several = statement.layer.heads > 1
    last = getattr(statement.layer.projections, "w_out", None) is not None
    return several if "each head" in match[1] else last and not several


@claims(r"^every row of (.+) is shown(?:; of the rest, only the row of \"(.+)\"(?: \((\d+)\))?)?$")
def named_row_exists(statement: Statement, match: re.Match[str]) -> bool:
    labels = statement.trace.tokens.labels
    is_unique = labels.count(match[2]) == 1
    return match[2] is None or is_unique or labels[int(match[3]) - 1] == match[2]


@claims(r"^inputs = embeddings \+ positions$")
def positions_are_added(statement: Statement, match: re.Match[str]) -> bool:
    added = "positions" in statement.layer.given or statement.trace.positions in (
        "sinusoidal",
        "learned",
    )
    return added and statement.layer.layer == 0


@claims(r"^output = (\w+)\(x W_1 \+ b_1\) W_2 \+ b_2$|(relu|gelu|gelu-tanh) is applied")
def activation_matches(statement: Statement, match: re.Match[str]) -> bool:
    block = not_none(statement.layer.block)
    parameters = block.required_feed_forward.parameters
    name = (match[1] or match[2]).replace("_", "-")
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "relu": torch.relu,
        "gelu": torch.nn.functional.gelu,
        "gelu-tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    }
    hidden = functions[name](
        block.required_feed_forward.residual.sublayer_inputs.double() @ parameters.w_1.double()
        + parameters.b_1
    )
    return parameters.activation == name and close(
        hidden.to(block.required_feed_forward.hidden), block.required_feed_forward.hidden
    )


@claims(r"^outputs = (LayerNorm\(x \+ f\(x\)\)|x \+ f\(LayerNorm\(x\)\)|x \+ f\(x\))$")
def norm_placement_matches(statement: Statement, match: re.Match[str]) -> bool:
    block = next(
        each.block for each in statement.trace.layers if statement.layer in each.attention_layers
    )
    assert block is not None
    post, pre = match[1].startswith("Layer"), "f(Layer" in match[1]
    return block.norm_placement == ("post" if post else "pre" if pre else "none")


@claims(r"^normed = \(x - mean\) / √\(variance \+ 1e-05\)( · gain \+ shift)?$")
def layer_norm_matches(statement: Statement, match: re.Match[str]) -> bool:
    assert statement.section is not None
    plain, last = _standardized(statement), statement.trace.prediction
    if statement.section.name == "last-norm" and last is not None and last.scoring is not None:
        inputs = last.scoring.inputs.double()
        normalized = torch.nn.functional.layer_norm(inputs, inputs.shape[1:])
        is_plain = torch.equal(plain, last.scoring.vectors.double())
        return bool(((normalized - plain).abs() < 2 * HALF).all()) and is_plain != (
            match[1] is not None
        )
    block = next(
        each.block for each in statement.trace.layers if statement.layer in each.attention_layers
    )
    assert block is not None
    sublayer = "cross" if "cross" in statement.section.name else "feed_forward"
    sublayer = sublayer if "-" in statement.section.name else "attention"
    residual = block.residuals[sublayer]
    normalized = torch.nn.functional.layer_norm(residual.inputs.double(), residual.inputs.shape[1:])
    has_gain = match[1] is not None
    is_plain = torch.equal(plain, residual.sublayer_inputs.double())
    return bool(((normalized - plain).abs() < 2 * HALF).all()) and is_plain != has_gain


@claims(r"Their products are so small that they are rounded to 0")
def products_underflow(statement: Statement, match: re.Match[str]) -> bool:
    score, lengths = _score_and_lengths(statement)
    return score == 0 < lengths


# How to read a table.


@claims("|".join(SUM_NOTES))
def rows_sum_to_one(statement: Statement, match: re.Match[str]) -> bool:
    if statement.grid is None:
        return True  # a caption: see _statements_of_caption
    return bool((abs(statement.grid.values.sum(axis=1, dtype=float) - 1) < HALF).all())


@claims(GENERATED_NOTE)
def line_precedes_generated_tokens(statement: Statement, match: re.Match[str]) -> bool:
    """The line is before the generated tokens, on each axis that has tokens."""
    prompt, grid = statement.trace.prompt, statement.grid
    sides = () if grid is None else (grid.rows, grid.columns)
    return prompt is not None and all(each.border in (None, prompt) for each in sides)


@claims(r"scores = query times key")
def scores_are_products(statement: Statement, match: re.Match[str]) -> bool:
    queries, keys = statement.layer.queries, statement.layer.keys_of_heads
    assert keys is not None
    expected, raw = not_none(queries) @ keys.transpose(-2, -1), statement.layer.attended.scores
    return "scores" not in statement.layer.given and close(expected, raw)


@claims(r"scaled scores = .* / √(\d+)$")
def scores_are_divided_by_root(statement: Statement, match: re.Match[str]) -> bool:
    root = int(match[1]) ** 0.5
    return close(statement.layer.attended.scores / root, statement.layer.attended.scaled_scores)


# The steps.


@claims(r"the score is (above|below) 0")
def sign_of_score_matches(statement: Statement, match: re.Match[str]) -> bool:
    score, _ = _score_and_lengths(statement)
    return score > 0 if match[1] == "above" else score < 0


@claims(r"the score is (minus )?the product of their lengths")
def vectors_are_parallel(statement: Statement, match: re.Match[str]) -> bool:
    score, lengths = _score_and_lengths(statement)
    return score == pytest.approx(-lengths if match[1] else lengths, rel=0.02)


@claims(r"nearly at right angles: the score is small compared with the product")
def vectors_are_nearly_orthogonal(statement: Statement, match: re.Match[str]) -> bool:
    score, lengths = _score_and_lengths(statement)
    return abs(score) < 0.011 * lengths


@claims(r"The scores are not scaled|The model does not scale|which is 1 and changes nothing")
def division_changes_nothing(statement: Statement, match: re.Match[str]) -> bool:
    hot = statement.trace.variant.temperature
    attended = statement.layer.attended
    return close(attended.scores / hot, attended.scaled_scores) and (
        hot == 1 or "changes nothing" in match[0]
    )


@claims(r"divided by √d_k, here √(\d+)")
def root_and_temperature_divide(statement: Statement, match: re.Match[str]) -> bool:
    attended, hot = statement.layer.attended, statement.trace.variant.temperature
    return close(attended.scores / int(match[1]) ** 0.5 / hot, attended.scaled_scores)


@claims(r"divided by the temperature, here (.+)\.$")
def temperature_divides(statement: Statement, match: re.Match[str]) -> bool:
    attended = statement.layer.attended
    hot = float(match[1][1:]) ** 0.5 if match[1].startswith("√") else float(match[1])
    root = statement.layer.head_dim**0.5 if statement.trace.variant.scaled else 1.0
    return hot != 1 and close(attended.scores / root / hot, attended.scaled_scores)


@claims(r"^scaled = scores((?: / √?[\d.e+-]+)+)$")
def all_divisors_match(statement: Statement, match: re.Match[str]) -> bool:
    divisor = 1.0
    for root, number in re.findall(r" / (√?)([\d.e+-]+)", match[1]):
        divisor *= float(number) ** (0.5 if root else 1.0)
    return close(statement.layer.attended.scores / divisor, statement.layer.attended.scaled_scores)


@claims(r"scaled scores = (?:scores|query times key) times ([\d.e+-]+)$")
def factor_matches(statement: Statement, match: re.Match[str]) -> bool:
    attended, factor = statement.layer.attended, float(match[1])
    size = attended.scores.double().abs().max()
    off = (attended.scores.double() * factor - attended.scaled_scores.double()).abs().max()
    return float(off) <= 0.006 * factor * float(size) + 1e-12


@claims(r"^capped = (.+) · tanh\(score / (.+)\)$")
def soft_cap_is_applied(statement: Statement, match: re.Match[str]) -> bool:
    cap, capped_scores = float(match[1]), statement.layer.attended.capped_scores
    assert capped_scores is not None
    expected = cap * (statement.layer.attended.scaled_scores.double() / cap).tanh()
    return match[1] == match[2] and close(expected.to(capped_scores), capped_scores)


@claims(r"tanh keeps scores between -(.+) and \1:")
def scores_stay_within_cap(statement: Statement, match: re.Match[str]) -> bool:
    capped_scores = statement.layer.attended.capped_scores
    return capped_scores is not None and float(capped_scores.abs().max()) <= float(match[1]) * (
        1 + 1e-2
    )


@claims(r"^biased = (scaled|capped) - slope · distance$")
def distance_bias_is_subtracted(statement: Statement, match: re.Match[str]) -> bool:
    attended = statement.layer.attended
    before = {"scaled": attended.scaled_scores, "capped": attended.capped_scores}[match[1]]
    assert before is not None
    precedes_correctly = attended.capped_scores is None or match[1] == "capped"
    return precedes_correctly and close(before + not_none(attended.bias), attended.biased)


@claims(r"w_score · tanh\(query \+ key\)|Each query is added to each key|additive scores")
def has_w_score(statement: Statement, match: re.Match[str]) -> bool:
    return statement.layer.w_score is not None


@claims(r"nothing for the token itself, one slope for a neighbour, two for the next")
def slopes_follow_distance(statement: Statement, match: re.Match[str]) -> bool:
    bias = not_none(statement.layer.attended.bias)
    several = "each head has its own slope" in statement.text
    if bias.shape[-1] == 1:
        return several == (statement.layer.heads > 1)
    slopes = -bias[:, 0, 1].double()
    distinct = len(set(slopes.tolist())) == statement.layer.heads
    return bool((bias.diagonal(dim1=1, dim2=2) == 0).all()) and (
        several == (statement.layer.heads > 1) and distinct
    )


@claims(r"pair i at position p is rotated by \(p - 1\) / ([\d.e+]+)\^\(2\(i - 1\)/d_k\)")
def rotation_angles_match(statement: Statement, match: re.Match[str]) -> bool:
    before, after = statement.layer.before_rotary, statement.layer.queries
    assert before is not None
    assert after is not None
    width, halves = after.shape[-1], statement.trace.positions == "rotary-halves"
    order = [each for pair in range(width // 2) for each in (pair, pair + width // 2)]
    places = order if halves else [*range(width)]
    pairs = torch.view_as_complex(
        before.queries.double()[..., places].reshape(*after.shape[:-1], -1, 2).contiguous()
    )
    place = torch.arange(1, pairs.shape[1] + 1, dtype=torch.float64)[:, None]
    pair = torch.arange(1, pairs.shape[2] + 1, dtype=torch.float64)[None, :]
    angle = (place - 1) / float(match[1]) ** (2 * (pair - 1) / width)
    rotated = torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle))
    return close(rotated.flatten(-2).to(after), after[..., places])


@claims(r"Each row sums to 1\.")
def softmax_rows_sum_to_one(statement: Statement, match: re.Match[str]) -> bool:
    head = slice(None) if statement.options.head is None else statement.options.head
    return bool(((statement.layer.attended.weights[head].double().sum(-1) - 1).abs() < HALF).all())


@claims(r"[Ee]very other row sums to 1")
def other_rows_sum_to_one(statement: Statement, match: re.Match[str]) -> bool:
    layers = [statement.layer] if statement.grid is None else statement.trace.attention_layers
    rows = [(each.attended.weights.double().sum(-1), _rows_that_can_read(each)) for each in layers]
    right = all(bool(((sums - reads.double()).abs() < HALF).all()) for sums, reads in rows)
    both = {bool(each) for _, reads in rows for each in reads.flatten()}
    return right and both == {True, False}


BLIND = "(has every key masked|has read nothing|reads nothing)"
SO_IT_IS_0 = r"(, so its row is 0|, so its vector is 0|: every key is masked\.)"


@claims(rf'"([^"]+)"(?: \((\d+)\))? {BLIND}(?: in ((?:head \d+(?:, | and )?)+))?{SO_IT_IS_0}')
def token_reads_nothing(statement: Statement, match: re.Match[str]) -> bool:
    """The named token reads nothing, in the named heads or in all."""
    labels, attended = statement.trace.tokens.labels, statement.layer.attended
    assert (labels.count(match[1]) > 1) == bool(match[2])
    row = int(match[2]) - 1 if match[2] else labels.index(match[1])
    heads = [int(each) for each in re.findall(r"\d+", match[4] or "")] or slice(None)
    hidden = not bool(statement.layer.visible.expand_as(attended.scores)[heads, row].any())
    rows = attended.weights if "row" in match[5] else attended.mixing
    vectors = attended.contexts[heads, row] if "vector" in match[5] else rows[heads, row]
    return hidden and not bool(vectors.any())


@claims(r"The same holds for (\d+) more tokens?\.")
def more_tokens_read_nothing(statement: Statement, match: re.Match[str]) -> bool:
    heads = [statement.options.head] if statement.options.head is not None else slice(None)
    count = int((~_rows_that_can_read(statement.layer)[heads]).any(0).sum())
    return count == 4 + int(match[1])


@claims(r"(?:^| · )((?:row \d+(?: of [^,·]+?)?(?:, | and |(?= reads?)))+) reads? nothing:")
def all_rows_that_read_nothing_are_named(statement: Statement, match: re.Match[str]) -> bool:
    """The named rows read nothing, and all others read something."""
    named_rows = re.findall(r"row (\d+)(?: of (.+?))?(?=, row| and row|$)", match[1])
    blind_rows = set()
    for layer in statement.trace.attention_layers:
        for head, row in (~_rows_that_can_read(layer)).nonzero().tolist():
            if bool(layer.attended.mixing[head, row].any()):
                continue  # a mistake lets it read something
            of_head = layer.visible.ndim == 3
            several = len(statement.trace.attention_layers) > 1
            name = f"{layer.name}H{head}" if several else f"head {head}"
            blind_rows.add((str(row + 1), name if of_head else layer.name if several else ""))
    return blind_rows == set(named_rows)


@claims(r"(?:^| · )(?:in [LH\d, and]+ )?it reads nothing: every key is masked")
def chosen_row_reads_nothing(statement: Statement, match: re.Match[str]) -> bool:
    return bool((np.nan_to_num(not_none(statement.grid).values).sum(-1) == 0).any())


@claims(r'The mask hides nothing from ".*"( \(\d+\))?( in (.*))?')
def mask_hides_nothing_from_query(statement: Statement, match: re.Match[str]) -> bool:
    heads = [int(number) for number in re.findall(r"\d+", match[3] or "")]
    visible = (
        statement.layer.visible[heads]
        if statement.layer.visible.ndim == 3
        else statement.layer.visible
    )
    return bool(visible[..., statement.options.query, :].all()) and not bool(
        statement.layer.visible.all()
    )


@claims(r"the mask hides this key from this query: step 7 sets the score to −∞")
def mask_hides_key(statement: Statement, match: re.Match[str]) -> bool:
    return not bool(
        statement.layer.visible[..., statement.options.query, statement.options.key].all()
    )


@claims(r"the others are divided by 1 - ([\d.e-]+)")
def dropout_rescales_weights(statement: Statement, match: re.Match[str]) -> bool:
    weights, mixing = statement.layer.attended.weights, statement.layer.attended.mixing
    scaled_weights = weights / (1 - float(match[1]))
    return close(torch.where(mixing == 0, mixing, scaled_weights), mixing)


@claims(r"rows no longer sum to 1|the matrix sums to 1, not the rows|columns sum to 1 instead of")
def rows_do_not_sum_to_one(statement: Statement, match: re.Match[str]) -> bool:
    weights = statement.layer.attended.weights.double()
    return bool((weights.sum(-1) - 1).abs().max() > 1e-4)


@claims(r"flattens the rows|rows come out too flat")
def rows_are_too_flat(statement: Statement, match: re.Match[str]) -> bool:
    correct_weights, weights = (
        each.double()
        for each in (_correct_weights(statement.layer), statement.layer.attended.weights)
    )
    weights = (weights / weights.sum(-1, keepdim=True)).nan_to_num()
    return bool(torch.special.entr(weights).sum() > torch.special.entr(correct_weights).sum())


@claims(r"gets its own block of adjacent columns")
def heads_have_adjacent_columns(statement: Statement, match: re.Match[str]) -> bool:
    layer, projections = statement.layer, statement.layer.projections
    before = layer.before_rotary or layer
    if projections is None or projections.w_query is None or before.queries is None:
        return True
    joined = layer.inputs @ projections.w_query + (
        0 if projections.b_query is None else projections.b_query
    )
    return close(split_heads(joined, layer.heads), before.queries)


@claims(r"(?:^| )([QKV]) = (X|Y|M|normed) W_(\w+)( \+ b_\w+)?")
def projection_formula_matches(statement: Statement, match: re.Match[str]) -> bool:
    layer, name = statement.layer, match[3]
    before = layer.before_rotary or layer
    inputs = layer.inputs if match[2] in ("X", "normed") else layer.key_inputs
    vectors = {"query": before.queries, "key": before.keys, "value": layer.values}[name]
    matrix, bias = (getattr(layer.projections, f"{kind}_{name}") for kind in "wb")
    assert inputs is not None
    assert vectors is not None
    product = inputs @ matrix if bias is None else inputs @ matrix + bias
    bias_is_named = (bias is not None) == bool(match[4])
    source_is_right = (layer.memory is not None) == (match[2] == "M") or match[1] == "Q"
    return bias_is_named and source_is_right and close(split_heads(product, len(vectors)), vectors)


@claims(r"(?:^| · )([QKV](?: = [QKV])*) = (X|Y|normed)(?= ·|$)")
def vectors_are_inputs(statement: Statement, match: re.Match[str]) -> bool:
    inputs = statement.layer.key_inputs if match[2] == "Y" else statement.layer.inputs
    before = statement.layer.before_rotary or statement.layer
    vectors_by_letter = {"Q": before.queries, "K": before.keys, "V": statement.layer.values}
    expected = split_heads(not_none(inputs), statement.layer.heads)
    vectors = [vectors_by_letter[letter] for letter in match[1].split(" = ")]
    return all(each is not None and torch.equal(each, expected) for each in vectors)


@claims(r"attention (compares and mixes|compares|mixes) the vectors themselves")
def attention_mixes_inputs(statement: Statement, match: re.Match[str]) -> bool:
    values = statement.layer.values
    values_are_inputs = torch.equal(
        values, split_heads(_vectors_read(statement.layer), len(values))
    )
    return values_are_inputs == ("mixes" in match[1])


@claims(r"shifts and scales each vector to mean 0 and variance 1")
def vectors_are_standardized(statement: Statement, match: re.Match[str]) -> bool:
    vectors = _standardized(statement).double()
    variances = vectors.var(-1, correction=0)
    return bool((vectors.mean(-1).abs() < HALF).all() and ((variances - 1).abs() < HALF).all())


@claims(r"subtracts the mean from each vector and divides by")
def vectors_are_not_standardized(statement: Statement, match: re.Match[str]) -> bool:
    vectors = _standardized(statement).double()
    variances = vectors.var(-1, correction=0)
    return bool(
        (vectors.mean(-1).abs() > HALF / 2).any() or ((variances - 1).abs() > HALF / 2).any()
    )


@claims(r"a matrix (widens|narrows) its vector to (\d+)|maps its vector to another of width (\d+)")
def feed_forward_width_matches(statement: Statement, match: re.Match[str]) -> bool:
    width, hidden = not_none(statement.layer.block).required_feed_forward.parameters.w_1.shape
    if match[1] is None:
        return bool(width == hidden) and hidden == int(match[3])
    return hidden == int(match[2]) and (hidden > width) == (match[1] == "widens")


@claims(r"in total, this layer has ([\d,]+) numbers (?:to learn|that were learned)")
def parameter_count_matches(statement: Statement, match: re.Match[str]) -> bool:
    layer = next(
        each for each in statement.trace.layers if statement.layer in each.attention_layers
    )
    assert layer.block is not None
    projections = [each.projections for each in layer.attention_layers]
    tensors = [value for each in projections if each is not None for value in vars(each).values()]
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
def sizes_add_up(statement: Statement, match: re.Match[str]) -> bool:
    sides = re.findall(r"(\d[\d,]*(?: × [\d,]+)*)(?= [+=]|$)", statement.text.split(" = ")[0])
    sizes = [np.prod([int(n.replace(",", "")) for n in each.split(" × ")]) for each in sides]
    return sum(sizes) == int(match[1].replace(",", ""))


# Answers of a model


def _probabilities(statement: Statement, *, with_all_heads: bool = False) -> Tensor:
    """Computed again from the last layer's outputs; `whole`: from the text, with all heads on."""
    trace = statement.trace
    if with_all_heads:
        source = build_source(trace)
        source_with_all_heads = replace(source, settings=replace(source.settings, without=None))
        trace = trace_source(source_with_all_heads, mistake=trace.layers[0].mistake)
    origin = trace.origin
    assert isinstance(origin, FromModel)
    last, vectors = not_none(origin.model.unembedding), trace.layers[-1].outputs.double()
    if last.norm is not None:
        size, gain, shift = vectors.shape[1:], last.norm.gain.double(), last.norm.shift.double()
        vectors = torch.nn.functional.layer_norm(vectors, size, gain, shift)
    bias = 0 if last.b_answers is None else last.b_answers.double()
    return (vectors @ last.w_answers.double() + bias).softmax(-1)


def _answers_of_model(statement: Statement) -> tuple[str, ...]:
    assert isinstance(statement.trace.origin, FromModel)
    return statement.trace.origin.model.vocabulary.answers


def _answer_position(statement: Statement, label: str, number: str | None) -> int:
    """The position of a named token that asks for an answer, numbered if its label recurs."""
    labels, prediction = statement.trace.tokens.labels, statement.trace.prediction
    assert (labels.count(label) > 1) == bool(number)
    place = int(number) - 1 if number else labels.index(label)
    assert labels[place] == label
    assert place in not_none(prediction).asked_positions
    return place


def _percent_matches(likely: float, percent: str) -> bool:
    """Whether a probability rounds to the given percentage; 100 % stands only for all of it."""
    digits = len(percent.partition(".")[2])
    if percent == "over 99.9":
        return 0.999 <= likely < 1
    return abs(100 * likely - float(percent)) < 0.6 / 10**digits and (
        percent != "100" or likely > 0.9999
    )


HERE = r'(?:[aA]fter|[aA]t) "(.+?)"(?: \((\d+)\))?'


@claims(rf"^{HERE} the model (expects|answers) (.+)$")
def answers_after_token_match(statement: Statement, match: re.Match[str]) -> bool:
    row = _probabilities(statement)[_answer_position(statement, match[1], match[2])]
    assert isinstance(statement.trace.origin, FromModel)
    follows = statement.trace.origin.model.vocabulary.predicts == "next"
    stated_answers = re.findall(rf"\"(\S+)\" \({SHARE}\)", match[4])
    best = row.sort(descending=True).values[: len(stated_answers)].tolist()
    right = [_percent_matches(likely, number)
             and _percent_matches(float(row[_answers_of_model(statement).index(word)]), number)
             for (word, number), likely in zip(stated_answers, best, strict=True)]  # fmt: skip
    return bool(stated_answers) and all(right) and follows == (match[3] == "expects")


@claims(rf"^At the (\d+) positions the model answers (.+) \(each {SHARE} or more\)$")
def likeliest_answers_match(statement: Statement, match: re.Match[str]) -> bool:
    rows = _probabilities(statement)[list(not_none(statement.trace.prediction).asked_positions)]
    words = [_answers_of_model(statement)[each] for each in rows.argmax(-1)]
    least = 100 * float(rows.max(-1).values.min())
    return len(words) == int(match[1]) and words == match[2].split() and (
        float(match[3]) <= least + 1e-4 < float(match[3]) + 1 + 2e-4
    )  # fmt: skip


@claims(
    rf"^Without (.+?)(?:, {HERE},)? the model (still )?says \"(\S+)\" "
    rf"\({SHARE}(?:, with all heads {SHARE})?\)(?:, not \"(\S+)\")?$"
)
def answer_without_heads_matches(statement: Statement, match: re.Match[str]) -> bool:
    asking_positions = not_none(statement.trace.prediction).asked_positions
    place = _answer_position(statement, match[2], match[3]) if match[2] else asking_positions[0]
    new_probabilities, original_probabilities = (
        _probabilities(statement)[place],
        _probabilities(statement, with_all_heads=True)[place],
    )
    words, original_answer = _answers_of_model(statement), match[8] or match[5]
    return (
        attention_headline(statement.trace).endswith(f" with {match[1]} switched off")
        and bool(match[2]) == (len(asking_positions) > 1)
        and words[int(new_probabilities.argmax())] == match[5]
        and words[int(original_probabilities.argmax())] == original_answer
        and _percent_matches(float(new_probabilities.max()), match[6])
        and (
            match[8] is not None
            or _percent_matches(float(original_probabilities.max()), match[7] or match[6])
        )
        and bool(match[4]) == (match[5] == original_answer)
    )


@claims(r"^Without .+?: (?:(\d+) of|(all)) (\d+) answers (?:changes?|stay the same): (.+)$")
def answers_without_heads_match(statement: Statement, match: re.Match[str]) -> bool:
    places = list(not_none(statement.trace.prediction).asked_positions)
    rows = _probabilities(statement)[places], _probabilities(statement, with_all_heads=True)[places]
    new_answers, original_answers = (
        [_answers_of_model(statement)[each] for each in row.argmax(-1)] for row in rows
    )
    stated_answers = [each.split() for each in match[4].split(" instead of ")]
    changed_count = sum(
        one != other for one, other in zip(new_answers, original_answers, strict=True)
    )
    count = int(match[3]) == len(places)
    return (
        count
        and stated_answers == ([new_answers] if match[2] else [new_answers, original_answers])
        and changed_count == int(match[1] or 0)
    )


@claims(r"No token of this text asks the model for an answer(?:; (.+) would)?")
def no_token_asks(statement: Statement, match: re.Match[str]) -> bool:
    model = not_none(statement.trace.model)
    asking_words = [
        each for each in re.split(", | and | ", match[1] or "") if each not in ("", "…")
    ]
    words_ask = all(model.vocabulary.asked([model.vocabulary.ids[each]]) for each in asking_words)
    prediction = not_none(statement.trace.prediction)
    return words_ask and not prediction.asked_positions


@claims(r"^only (.+) asks? for an answer$")
def only_named_tokens_ask(statement: Statement, match: re.Match[str]) -> bool:
    asking_positions, count = (
        not_none(statement.trace.prediction).asked_positions,
        len(statement.trace.tokens),
    )
    if match[1].endswith(" positions"):
        return (
            match[1] == f"{len(asking_positions)} of the {count} positions"
            and 0 < len(asking_positions) < count
        )
    named_tokens = re.findall(r'"(.+?)"(?: \((\d+)\))?', match[1])
    return (
        tuple(_answer_position(statement, *each) for each in named_tokens) == asking_positions
        and len(asking_positions) < count
    )


@claims(r'^"(.+)"(?: \((\d+)\))? does not ask for an answer$')
def token_does_not_ask(statement: Statement, match: re.Match[str]) -> bool:
    assert statement.trace.prediction is not None
    labels = statement.trace.tokens.labels
    place = int(match[2]) - 1 if match[2] else labels.index(match[1])
    return labels[place] == match[1] and place not in statement.trace.prediction.asked_positions


@claims(r"no answer is asked for at the other positions")
def other_tokens_do_not_ask(statement: Statement, match: re.Match[str]) -> bool:
    assert statement.trace.prediction is not None
    return 0 < len(statement.trace.prediction.asked_positions) < len(statement.trace.tokens)


@claims(r"the most likely of (\d+) answers|the \d+ most likely of (\d+) answers")
def answer_count_matches(statement: Statement, match: re.Match[str]) -> bool:
    return len(_answers_of_model(statement)) == int(match[1] or match[2])


@claims(r"The vectors are the outputs of layer (\d+)")
def vectors_come_from_last_layer(statement: Statement, match: re.Match[str]) -> bool:
    last = statement.trace.layers[-1].layer
    return last == int(match[1]) and statement.layer.layer != last


@claims(
    r"Each row of probabilities sums to 1|each answer with its probability"
    r"|bar = probability of the answer"
)
def probabilities_match(statement: Statement, match: re.Match[str]) -> bool:
    prediction = not_none(statement.trace.prediction)
    return bool(((prediction.probabilities - _probabilities(statement)).abs() < HALF / 10).all())


@claims(r"all other answers: under 0\.5\s%")
def unshown_answers_are_unlikely(statement: Statement, match: re.Match[str]) -> bool:
    """Checks that at most as many answers are likelier as bars are drawn, where one is asked."""
    positions = list(not_none(statement.trace.prediction).asked_positions)
    return bool(((_probabilities(statement)[positions] >= 0.005).sum(-1) <= MAX_ANSWER_BARS).any())


@claims(r"^scores = x W_answers( \+ b_answers)?$")
def answer_bias_matches(statement: Statement, match: re.Match[str]) -> bool:
    prediction = not_none(statement.trace.prediction)
    return (not_none(prediction.scoring).b_answers is not None) == bool(match[1])


# What one look at the numbers shows

DIRECT_CLAIMS: dict[str, Claim] = {  # each is one look at the numbers
    r"^plain attention": lambda statement, match: (
        statement.layer.scale * statement.trace.variant.temperature == pytest.approx(1)
    ),
    r"^multi-head attention": lambda statement, match: statement.layer.heads > 1,
    r"attention with a mistake \((.*?)\)": lambda statement, match: (
        statement.layer.mistake == match[1]
    ),
    r" · temperature ([\d.e+-]+)": lambda statement, match: (
        statement.trace.variant.temperature == pytest.approx(float(match[1]), rel=1e-12)
    ),
    r" · soft cap ([\d.e+-]+)": lambda statement, match: (
        statement.trace.variant.soft_cap == float(match[1])
    ),
    r" · (\d+) tokens? \((.+?)\)(?= ·)": lambda statement, match: (
        (len(statement.trace.tokens), statement.trace.tokenizer) == (int(match[1]), match[2])
    ),
    r"after the line: tokens generated by the model": lambda statement, match: (
        statement.trace.prompt is not None and statement.trace.prompt < len(statement.trace.tokens)
    ),
    r" · memory of (\d+) tokens?": lambda statement, match: (
        statement.trace.memory is not None and len(statement.trace.memory) == int(match[1])
    ),
    r" · (\d+) key-value heads?|there (?:is|are) (\d+) key-value heads?": lambda statement, match: (
        len(statement.layer.values) == int(match[1] or match[2]) < statement.layer.heads
    ),
    r"joined without w_out|and no matrix mixes them": lambda statement, match: (
        statement.layer.heads > 1 and getattr(statement.layer.projections, "w_out", None) is None
    ),
    r" · cpu (\w+)$": lambda statement, match: (
        str(statement.layer.values.dtype) == f"torch.{match[1]}"
    ),
    r"causal and a given mask": lambda statement, match: (
        statement.trace.variant.causal and bool({"hidden", "mask"} & statement.layer.given)
    ),
    r" · given positions|given vector for the position is added": lambda statement, match: (
        "positions" in statement.layer.given
    ),
    r" · no feed-forward(?= ·)": lambda statement, match: all(
        each.block is not None and each.block.feed_forward is None
        for each in statement.trace.layers
    ),
    r"all tokens visible|nothing is masked": lambda statement, match: bool(
        statement.layer.visible.all()
    ),
    r" · width (\d+)": lambda statement, match: (
        statement.trace.embeddings.shape[1] == int(match[1])
    ),
    r"The last (?:token was|(\d+) tokens were) generated by the model\.": lambda statement, match: (
        statement.trace.prompt == len(statement.trace.tokens) - int(match[1] or 1)
    ),
    r"The model does not scale the scores\.": lambda statement, match: torch.equal(
        statement.layer.attended.scores, statement.layer.attended.scaled_scores
    ),
    r"^attention from given scores": lambda statement, match: "scores" in statement.layer.given,
    r"^attention by distance alone": lambda statement, match: (
        not bool(statement.layer.attended.scores.any())
        and statement.layer.attended.bias is not None
    ),
    r"Its vectors are given": lambda statement, match: "memory" in statement.trace.layers[0].given,
    r"^masked scores become −∞, since exp\(−∞\) = 0$": lambda statement, match: (
        not bool(statement.layer.visible.all())
    ),
    r"^scores = Q Kᵀ$": lambda statement, match: scores_are_products(statement, match),
    r"[Qq]ueries and keys are not compared: every score is 0": lambda statement, match: (
        not bool(statement.layer.attended.scores.any())
    ),
    r"^given scores|The scores are given": lambda statement, match: (
        "scores" in statement.layer.given
    ),
    r"scores as the softmax receives them": lambda statement, match: not statement.layer.mistake,
    r"has length 0: there is no angle, and the score is 0": lambda statement, match: (
        _score_and_lengths(statement) == (0, 0)
    ),
    r"A mask of numbers is added to the scores|^scores \+ mask$": lambda statement, match: (
        statement.layer.attended.mask is not None
    ),
    r"Each pair of numbers i and i \+ (\d+) of": lambda statement, match: (
        int(match[1]) * 2 == not_none(statement.layer.queries).shape[-1]
    ),
    r"Each pair of adjacent numbers of a query or a key is rotated": lambda statement, match: (
        statement.trace.positions == "rotary"
    ),
    r"A given mask is applied": lambda statement, match: "hidden" in statement.layer.given,
    r"The mask is given|^given mask| · given mask": lambda statement, match: bool(
        {"visible", "hidden", "mask"} & statement.layer.given
    ),
    r"Each head has its own mask": lambda statement, match: statement.layer.visible.ndim == 3,
    r"exp\(0\) is 1, so the future keeps weight|revives what was hidden": lambda statement, match: (
        bool((statement.layer.attended.weights * ~statement.layer.visible).max() > 0)
    ),
    r"Here it changes no weight": lambda statement, match: bool(
        ((_correct_weights(statement.layer) - statement.layer.attended.weights).abs() < HALF).all()
    ),
    r"✗ A mistake: (?!.*it changes no weight).*$": lambda statement, match: (
        not torch.equal(_correct_weights(statement.layer), statement.layer.attended.weights)
    ),
    r"No embeddings are needed: everything computed from them is given": lambda statement, match: (
        statement.layer.block is None and "values" in statement.layer.given
    ),
    r"The output of layer (\d+) for each token": lambda statement, match: torch.equal(
        statement.trace.layers[int(match[1])].outputs, statement.layer.layer_inputs
    ),
    r"The heads' vectors are then concatenated": lambda statement, match: statement.layer.heads > 1,
    r"\(--query follows another token\)": lambda statement, match: len(statement.trace.tokens) > 1,
    r"\(--query TOKEN shows what that token asks for\)": lambda statement, match: (
        statement.options.query is None
    ),
}
CLAIMS += [(re.compile(pattern), claim) for pattern, claim in DIRECT_CLAIMS.items()]


# Descriptions of pictures


@claims(r"^(.+?) reads (.+?) most(, equally)? \(([\d.e-]+)( each)?\)$")
def largest_weight_matches(statement: Statement, match: re.Match[str]) -> bool:
    assert statement.grid is not None
    row = statement.grid.values[statement.grid.rows.names.index(match[1])]
    largest = np.nanmax(row)
    most = int((row >= largest * (1 - 1e-5)).sum())
    one = match[2] in statement.grid.columns.names
    return (most == 1) == (one and not match[3]) and abs(float(match[4]) - largest) <= max(
        HALF, 0.06 * largest
    )


@claims(r"^(.+?) reads nothing$")
def reads_nothing(statement: Statement, match: re.Match[str]) -> bool:
    assert statement.grid is not None
    return not np.nan_to_num(statement.grid.values[statement.grid.rows.names.index(match[1])]).any()


def _score_and_lengths(statement: Statement) -> tuple[float, float]:
    """The score of the chosen head, query and key, and the product of their lengths."""
    head, row, key = statement.options.head or 0, statement.options.query, statement.options.key
    queries, keys = statement.layer.queries, statement.layer.keys_of_heads
    assert keys is not None
    lengths = not_none(queries)[head, row].double().norm() * keys[head, key].double().norm()
    return float(statement.layer.attended.scores[head, row, key]), float(lengths)


def _correct_weights(layer: Layer) -> Tensor:
    hidden = layer.attended.logits.masked_fill(~layer.visible, -torch.inf)
    return hidden.softmax(-1).masked_fill(~layer.visible.any(-1, keepdim=True), 0)


def _vectors_read(layer: Layer) -> Tensor:
    return layer.inputs if layer.key_inputs is None else layer.key_inputs


def _standardized(statement: Statement) -> Tensor:
    """The output of this section's LayerNorm, before gain and shift."""
    block, name = statement.layer.block, not_none(statement.section).name
    last = statement.trace.prediction
    if name == "last-norm":
        assert last is not None
        assert last.scoring is not None
        vectors, norm = last.scoring.vectors.double(), last.scoring.norm
        assert norm is not None
        return (vectors - norm.shift.double()) / norm.gain.double()
    if block is None:  # of attention to a second sentence
        block = next(each.block for each in statement.trace.layers if each.cross is statement.layer)
    sublayer = "cross" if "cross" in name else "feed_forward" if "feed" in name else "attention"
    residual = not_none(block).residuals[sublayer]
    normalized = residual.outputs if name.startswith("add-") else residual.sublayer_inputs
    assert residual.norm is not None
    return (normalized.double() - residual.norm.shift.double()) / residual.norm.gain.double()


def _rows_that_can_read(layer: Layer) -> Tensor:
    """Which queries may read any key, for each head."""
    return layer.visible.any(-1).expand(layer.attended.weights.shape[:-1])


# The statements of Views


def statements_of_view(view: View, trace: Trace) -> Iterator[Statement]:
    """Every string of a View of a Trace, with the attention that it is about."""
    first = trace.layers[0]
    for text in (view.title, view.settings, *view.closing):
        yield Statement(text, trace, first)
    for page in (view.screen, view.picture):
        layers_by_suffix = {f" {layer.name}": layer for layer in trace.attention_layers}
        for group in page.groups:
            layer = next(
                (layers_by_suffix[each] for each in layers_by_suffix if group.name.endswith(each)),
                first,
            )
            for grid in open_panels(group.panels):
                if isinstance(grid, Grid):
                    yield Statement(grid.note, trace, layer, grid=grid)
                    yield from _statements_of_description(grid, trace, layer)
        yield from _statements_of_caption(page, trace)


def _statements_of_caption(page: Page, trace: Trace) -> Iterator[Statement]:
    """The caveat, and a note on sums once for each panel whose rows are divided up."""
    yield Statement(page.caveat, trace, trace.layers[0])
    for note in SUM_NOTES:
        for grid in open_panels(page.panels) if note in page.caption.split(" · ") else ():
            if isinstance(grid, Grid) and grid.share:
                yield Statement(note, trace, trace.layers[0], grid=grid)


def _statements_of_description(grid: Grid, trace: Trace, layer: Layer) -> Iterator[Statement]:
    if grid.share:
        description = describe([grid]).rstrip(".").split("). ", 1)[-1]
        yield from (Statement(each, trace, layer, grid=grid) for each in description.split("; "))


def statements_of_steps(walk: Walk) -> Iterator[Statement]:
    """Every string of the sections of one layer."""
    view, trace = walk.view(), walk.trace
    layer = next(each for each in trace.layers if walk.options.layer in (None, each.layer))
    yield Statement(view.title, trace, trace.layers[0])
    for section in view.sections:
        is_cross_attention = section.name.startswith("cross-") or section.name == "memory"
        attended_layer = layer.cross if is_cross_attention and layer.cross is not None else layer
        owner = layer if section.name.endswith("-norm") else attended_layer
        texts = [section.about, section.formula, *section.remarks]
        texts += [each.about for each in section.moments]
        yield from (Statement(each, trace, owner, section, options=walk.options) for each in texts)
        for grid in section.grids:
            yield Statement(grid.note, trace, owner, section, grid)
    yield from _statements_of_caption(view.picture, trace)


def false_sentences(run: Run) -> list[str]:
    """The sentences of a run that are false, or that no pattern matches."""
    statements = (*statements_of_view(run.view, run.trace), *statements_of_steps(run.walk))
    failed_checks = [check.text for check in verify_trace(run.trace) if check.failed]
    headline_claims = _false_headline_claims(run)
    return [
        *failed_checks,
        *headline_claims,
        *(claim for statement in statements for claim in false_claims(statement)),
    ]


def _false_headline_claims(run: Run) -> list[str]:
    """The false claims of the headline: on answers where heads are off, else on weights."""
    title, trace = run.view.headline, run.trace
    answers = trace.prediction is not None and trace.prediction.asked_positions
    if answers and any(each.off for each in trace.layers):
        return [*false_claims(Statement(title, trace, trace.layers[0]))]
    return false_title_claims(title, trace, run.query)


def false_claims(statement: Statement) -> Iterator[str]:
    claimed_spans: list[tuple[int, int]] = []
    for pattern, claim in CLAIMS:
        for match in pattern.finditer(statement.text):
            claimed_spans.append(match.span())
            if not claim(statement, match):
                name = claim.__name__ if claim.__name__ != "<lambda>" else pattern.pattern
                yield f"{name}: {statement.text}"
    for part in SENTENCE.finditer(statement.text):
        words, (start, end) = part[0].strip(" ·"), part.span()
        has_claim = any(one < end and start < other for one, other in claimed_spans)
        if not has_claim and not any(each.fullmatch(words) for each in CLAIM_NOTHING):
            yield f"nobody knows what this claims: {words}"
