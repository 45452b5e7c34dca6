"""The steps from masked scores to context vectors; the softmax of one query as bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from torch import Tensor

from attnviz.attention.arithmetic import join_heads
from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import unmasked
from attnviz.views.facts import changed_by_mistake, shows
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.numbers import MINUS_INFINITY
from attnviz.views.grids.scales import Scale, centred
from attnviz.views.grids.section import APART, ColumnRow, Columns, Section, Stages, parted
from attnviz.views.notes import vectors_of_heads
from attnviz.views.origin_words import told_of_sights
from attnviz.views.reading import in_quotes, token_axis
from attnviz.views.steps import sums, trained
from attnviz.views.steps.scene import Scene, count_of
from attnviz.wording.numbers import exact_text, percent
from attnviz.wording.sums import SHIFTED
from attnviz.wording.words import counted, listed

READS_NOTHING = "reads nothing{}: every key is masked."
BLIND_TOLD = 4  # tokens that read nothing; of more only so many are named
SHARES = (
    "The softmax turns each row of scores into weights: exp(score) divided by the sum of all "
    "exp(score) in the row."
)
MOST_COLUMNS = 36  # that tables beside each other may have in all


def mask(here: Scene) -> Iterator[Section]:
    """Which keys are masked for which queries."""
    layer = here.layer
    if layer.mistake and not MISTAKES[layer.mistake].masked:
        yield _not_masked(here)
        return
    hidden = r"S_{ij} = -\infty \text{ where } j \text{ is hidden from } i"
    yield Section(
        number="7",
        name="mask",
        title="mask",
        about=_about_mask(here),
        shapes=f"visible {here.size(layer.visible)}",
        formula="masked scores become −∞, since exp(−∞) = 0" if here.hides else "",
        tex=hidden if here.hides else "",
        grids=here.scores("masked scores", "masked scores") if here.hides else (),
        sums=sums.mask(here, layer),
    )


def _not_masked(here: Scene) -> Section:
    """Where a mistake leaves out −∞, the scores as they go into the softmax."""
    return Section(
        number="7",
        name="mask",
        title="mask",
        about=_about_mistake(here),
        shapes=f"visible {here.size(here.layer.visible)}",
        grids=here.scores("✗ masked scores", "exponents"),
    )


def _about_mistake(here: Scene) -> str:
    """What is done wrong, and its effect where it shows; or that it changes nothing here."""
    mistake = MISTAKES[here.layer.mistake]
    if all(shows(here.layer, each) for each in mistake.shows):
        return f"✗ A mistake: {mistake.about}."
    about = f"✗ A mistake: {mistake.cause}."
    return about if changed_by_mistake(here.layer) else f"{about} Here it changes no weight."


def _about_mask(here: Scene) -> str:
    variant, given = here.trace.variant, here.layer.given
    own = "" if here.trace.trained is None else trained.about_mask(here)
    if own:
        return " ".join([own, *_told(here, here.layer.blind_rows, READS_NOTHING)])
    about = []
    written = told_of_sights(here.trace, here.layer, here.shown_heads)
    if written and not variant.causal and not variant.window:
        return " ".join([*written, *_told(here, here.layer.blind_rows, READS_NOTHING)])
    if "visible" in given:
        about.append("The mask is given.")
    elif not here.hides and here.layer.attended.mask is not None:
        return "Nothing else is masked: the mask has already been added to the scores."
    elif not here.hides:
        return f"{_nothing_hidden(here)}: nothing is masked."
    elif variant.causal:
        about.append(trained.AHEAD)
    alone = variant.window == 1 and here.keys is here.trace.tokens and "hidden" not in given
    if "visible" not in given and alone:
        about.append("Each token attends only to itself.")
    elif "visible" not in given and variant.window:
        about.append(trained.within(variant.window))
    if "hidden" in given:
        about.append("A given mask is applied.")
    if here.layer.visible.ndim == 3:
        about.append("Each head has its own mask.")
    return " ".join([*about, *_told(here, here.layer.blind_rows, READS_NOTHING)])


def _told(here: Scene, rows_of: Callable[[int], list[int]], what: str) -> tuple[str, ...]:
    """A sentence about each of some tokens; `what` has a place for the heads it holds in."""
    rows = {head: rows_of(head) for head in here.shown_heads}
    every = sorted({row for each in rows.values() for row in each})
    several = here.layer.visible.ndim == 3 or len({*map(tuple, rows.values())}) > 1
    named = tuple(
        f"{in_quotes(here.trace.tokens, row)} {what.format(_in_heads(rows, row) * several)}"
        for row in every[:BLIND_TOLD]
    )
    more = len(every) - len(named)
    return (*named, f"The same holds for {counted(more, 'more token')}.") if more else named


def _in_heads(rows: Mapping[int, list[int]], row: int) -> str:
    return f" in {listed([f'head {head}' for head, each in rows.items() if row in each])}"


def _nothing_hidden(here: Scene) -> str:
    if here.keys is not here.trace.tokens:
        return "Every query may attend to every key"
    only = "The token attends to itself"
    return "Every token may attend to every other" if len(here.keys) > 1 else only


def softmax(here: Scene) -> Iterator[Section]:
    """Scores become weights."""
    mistake, columns = MISTAKES.get(here.layer.mistake), columns_of_softmax(here)
    yield Section(
        number="8",
        name="softmax",
        title="softmax",
        about=_about_mistake(here) if mistake else _about_shares(here),
        shapes=f"weights {here.size_of_weights}",
        formula="" if mistake else f"weight = exp(score) / {_over(here)}",
        tex="" if mistake else _softmax_in_tex(here),
        grids=here.weights("weights", "mistake" if mistake else "softmax"),
        finding=finding_of_softmax(here, columns),
        bars=columns,
        sums=sums.softmax(here, here.layer),
    )


def _over(here: Scene) -> str:
    sink = " and of the sink" if here.layer.attended.sink is not None else ""
    return f"sum of exp(scores in its row{sink})"


def _softmax_in_tex(here: Scene) -> str:
    sink = r" + e^{s_h}" if here.layer.attended.sink is not None else ""
    return rf"w_{{ij}} = \frac{{e^{{S_{{ij}}}}}}{{\sum_k e^{{S_{{ik}}}}{sink}}}"


def _about_shares(here: Scene) -> str:
    layer = here.layer
    if layer.attended.sink is not None:
        return trained.WITH_A_SINK
    without = _told(here, layer.hidden_rows, "has every key masked{}, so its row is 0.")
    if not without:
        return f"{SHARES} Each row sums to 1."
    others = [*without, "Every other row sums to 1."] if bool(layer.visible.any()) else without
    return " ".join([SHARES, *others])


def mixing(here: Scene) -> Iterator[Section]:
    """What takes the place of the weights: what dropout leaves, or weights by hand."""
    mixed_by = here.layer.attended.mixed_by
    if mixed_by == "dropout":
        yield Section(
            number="8b",
            name="dropout",
            title="dropout",
            about=_about_dropout(here),
            shapes=f"weights {here.size_of_weights}",
            grids=here.weights("mixing", "dropout"),
            sums=sums.dropout(here, here.layer),
        )
    if mixed_by == "hand":
        yield Section(
            number="8b",
            name="by-hand",
            title="weights by hand",
            about="Weights written by hand replace those of the softmax.",
            shapes=f"weights {here.size_of_weights}",
            grids=here.weights("mixing", "hand"),
        )


def _about_dropout(here: Scene) -> str:
    share = here.trace.variant.dropout
    if "kept" in here.layer.given:
        rest = f" and divided by 1 - {exact_text(share)}" if share else ""
        return f"The dropout mask is given: each weight is multiplied by it{rest}."
    return (
        "During training some weights are set to 0 at random, so that the model relies on no "
        f"single token; the others are divided by 1 - {exact_text(share)}, so that on average the "
        "sums stay the same."
    )


def weighted(here: Scene) -> Iterator[Section]:
    """For one query, since there is a table for each: the one followed, or the last."""
    name, asked = here.query_name, here.asked.query is not None
    quoted = in_quotes(here.trace.tokens, here.followed)
    other = "" if asked or len(here.trace.tokens) == 1 else " (--query follows another token)"
    keys = token_axis("key", here.keys)
    values = here.size(here.layer.values)
    yield Section(
        number="9",
        name="weighted",
        title="weighted values",
        about=f"Each value is multiplied by its weight: this is what {quoted} takes from each "
        f"token{other}.",
        shapes=f"values {values} → weighted {here.size(here.weighted)}",
        formula=f"weighted = weights of {name} · V",
        tex=r"w_{ij} \, v_j",
        grids=here.heads(
            "weighted values", here.weighted, keys, side="head_value", scale="weighted"
        ),
        sums=sums.weighted(here, here.layer) if asked else (),
    )


def context(here: Scene) -> Iterator[Section]:
    """The weighted values added up; the heads joined."""
    contexts, values = here.layer.attended.contexts, here.size(here.layer.values)
    last = _last_matrix(here)
    apart, joined = _contexts_apart(here), tuple(_contexts_joined(here, last))
    formula, tex = _formula_of_context(here, last)
    yield Section(
        number="10",
        name="context",
        title="context vectors",
        about=_about_context(here, last),
        shapes=f"weights {here.size_of_weights} · values {values} → context {here.size(contexts)}",
        formula=formula,
        tex=tex,
        grids=(*apart, *joined),
        sums=sums.context(here, here.layer),
        remarks=(*([count_of(here, last)] if last else []), *_afterwards(here)),
        stages=_stages_of_context(here, len(apart), [*last], len(apart) + len(joined)),
        beyond=_attention_of_each_head(here) if last else (),
    )


def _afterwards(here: Scene) -> tuple[str, ...]:
    """That the model does more with these vectors, which was not captured."""
    if here.trace.trained is None:
        return ()
    answers = here.trace.prediction is not None
    return (trained.BUT_FOR_ANSWERS if answers else trained.AFTERWARDS,)


def _about_context(here: Scene, last: Mapping[str, Tensor]) -> str:
    """What is added up, what happens to the heads, and which vectors are 0."""
    about = "The weighted values add up to the context vector: everything that a token has read."
    blind = _told(here, _blind_to_the_end(here), "has read nothing{}, so its vector is 0.")
    about = " ".join([about, *blind]) + vectors_of_heads(here.layer, [*here.shown_heads])
    if here.layer.heads > 1:
        about += " The heads' vectors are then concatenated"
        about += "." if last or here.trace.trained is not None else ", and no matrix mixes them."
    return about + (" Finally the result is multiplied by the output matrix." if last else "")


def _contexts_apart(here: Scene) -> tuple[Grid, ...]:
    """The context vectors of each head."""
    rows = token_axis("query (reads)", here.trace.tokens)
    contexts = here.layer.attended.contexts
    return here.heads("context vectors", contexts, rows, side="head_value", followed=True)


def _contexts_joined(here: Scene, last: Mapping[str, Tensor]) -> Iterator[Grid]:
    """What becomes of them: side by side, and through the last matrix, where there is one."""
    rows = token_axis("query (reads)", here.trace.tokens)
    if here.layer.heads > 1:
        joined = join_heads(here.layer.attended.contexts)
        yield here.grid("joined heads", joined, rows, side="joined_width", followed=True)
    if last:
        yield from (here.matrix(name, each) for name, each in last.items())
        yield here.grid("output", here.layer.context, rows, followed=True)


def _blind_to_the_end(here: Scene) -> Callable[[int], list[int]]:
    """The tokens that read nothing, in heads whose vectors are made of what is read."""
    return lambda head: [] if head in here.layer.off else here.layer.blind_rows(head)


def _attention_of_each_head(here: Scene) -> tuple[Grid, ...]:
    """Weights and values, head by head, where there are few of both."""
    heads, (keys, width) = here.layer.heads, here.layer.values.shape[-2:]
    if heads == 1 or heads * (keys + 2 * width) > MOST_COLUMNS or here.layer.off:
        return ()
    weights = here.weights("mixing", here.layer.attended.mixed_by)
    return (
        *weights,
        *here.heads(
            "values", here.layer.values_of_heads, token_axis("key", here.keys), side="head_value"
        ),
    )


def _stages_of_context(here: Scene, apart: int, last: Sequence[str], beyond: int) -> Stages:
    """Attention in each head, and their vectors side by side; what the last matrix makes of them.

    There is no such picture of one head of several.
    """
    joins, joined = here.layer.heads > 1, apart if here.layer.heads > 1 else 0
    if apart < here.layer.heads or not (joins or last):
        return ()
    lines = [(*parted(range(apart), APART), "→", joined)] if joins else []
    if last and _attention_of_each_head(here):
        lines = [(beyond + head, "·", beyond + apart + head, "=", head) for head in range(apart)]
    if last:
        signs = ("·", "+")
        made = [each for place in enumerate(signs[: len(last)], joined + 1) for each in place[::-1]]
        lines.append((joined, *made, "=", joined + len(last) + 1))
    return tuple(lines)


def _last_matrix(here: Scene) -> dict[str, Tensor]:
    """The matrix that joins the heads, and its bias, where they are."""
    names = ("w_out", "b_out")
    found = {name: getattr(here.layer.projections, name, None) for name in names}
    return {name: each for name, each in found.items() if each is not None}


def _formula_of_context(here: Scene, last: dict[str, Tensor]) -> tuple[str, str]:
    """For terminal and Markdown."""
    made = [] if here.layer.off else ["context = weights · V"]
    if not last:
        return "".join(made), "Z = W V" if made else ""
    mixed = "joined" if here.layer.heads > 1 else "context"
    bias = "b_out" in last
    plain = " · ".join([*made, f"output = {mixed} W_out{' + b_out' if bias else ''}"])
    return plain, r"Z W_o + b_o" if bias else r"Z W_o"


ROUNDING = 1e-4  # weights that were rounded add up to so little less or more than 1
MOST_BARS = 20  # of more neither names nor numbers could be read


def columns_of_softmax(here: Scene) -> Columns | None:
    """Three rows of bars, if one row of weights alone is asked for, and each is the softmax's."""
    if here.asked.query is None or len(here.shown_heads) > 1 or here.layer.mistake:
        return None
    (head,) = here.shown_heads
    names, scores, weights = _shared_out(here, head)
    visible = [score for score in scores if math.isfinite(score)]
    if len(names) > MOST_BARS or not visible:
        return None
    written = here.style.of(*visible)
    shift = written.printed(max(visible)) if max(map(abs, visible)) > SHIFTED else 0.0
    exps = [math.exp(score - shift) for score in scores]
    less = f" {'−' if shift > 0 else '+'} {written(abs(shift))}" if shift else ""
    scale = here.weights("weights", "softmax")[0].scale
    sums = math.fsum(exps), math.fsum(weights)
    return Columns(
        names,
        (
            ColumnRow(
                "score",
                tuple(score if math.isfinite(score) else None for score in scores),
                tuple(written(s) if math.isfinite(s) else MINUS_INFINITY for s in scores),
                centred("score", unmasked(np.array([visible]))),
            ),
            _row(here, f"exp(score{less})", exps, sums[0], Scale("exp", 0, scale.high * sums[0])),
            _row(here, "weight", weights, sums[1], scale),
        ),
    )


def _row(here: Scene, name: str, values: list[float], total: float, scale: Scale) -> ColumnRow:
    write = here.style.of(*values)
    of_all = "1" if abs(total - 1) < ROUNDING else write(total)
    return ColumnRow(name, tuple(values), tuple(map(write, values)), scale, f"sum {of_all}")


def _shared_out(here: Scene, head: int) -> tuple[tuple[str, ...], list[float], list[float]]:
    """The keys by name, with their scores and weights; and the sink, which takes its share."""
    names = tuple(here.name(here.keys, key) for key in range(len(here.keys)))
    scores, weights = here.row("exponents", head), here.row("weights", head)
    if here.layer.attended.sink is None:
        return names, scores, weights
    sink = here.layer.attended.sink[head].item()
    return (*names, "(sink)"), [*scores, sink], [*weights, 1 - math.fsum(weights)]


def finding_of_softmax(here: Scene, columns: Columns | None) -> str:
    """What the highest score becomes, if one score is the highest."""
    if columns is None:
        return ""
    scores, _, weights = columns.rows
    best = max(range(len(columns.names)), key=lambda place: weights.values[place] or 0.0)
    tied = scores.written.count(scores.written[best]) > 1
    if tied or len(columns.names) == 1 or best == len(here.keys):
        return ""
    share = percent(weights.values[best] or 0.0)
    name = in_quotes(here.keys, best)
    return f"Softmax: {name} scores highest and gets {share} of the attention"
