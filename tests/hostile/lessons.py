"""Random worked examples: draws of every kind, matrices made from them, expectations."""

from __future__ import annotations

from random import Random

from attnviz.traces.parts import EXPECTATION_TYPES
from attnviz.wings.examples.claims import CLAIMS

DRAW_KINDS = (  # kinds of draws that fill a matrix, each with what may stand behind its shape
    ("rand", ""),
    ("randn", ""),
    ("uniform", ", a = -1, b = 1"),
    ("normal", ", mean = 0, std = 0.5"),
    ("xavier_uniform", ", gain = 2"),
    ("xavier_normal", ""),
    ("kaiming_uniform", ", a = 0.5"),
    ("kaiming_normal", ', mode = "fan_out", nonlinearity = "relu"'),
    ("randint", ", low = -2, high = 3"),
    ("linear", ", bias = true"),
)
SETTINGS = (
    'variant = "scaled"',
    'variant = "causal"',
    'variant = "plain"',
    "heads = 2",
    "layers = 2",
    "dropout = 0.5",
    "temperature = 0.01",
    "window = 1",
    'positions = "rotary"',
    'positions = "alibi"',
    "soft_cap = 2",
    'dtype = "float64"',
    'scoring = "additive"',
)
MOST_STEPS = ("tokens", "embeddings", "queries", "keys", "values", "scores", "softmax", "context")


def random_lesson(random: Random) -> bytes:
    """A worked example that can mostly be shown."""
    tokens, dim = random.choice((1, 2, 3)), random.choice((2, 4))
    parts = [
        'title = "A lesson\\u001b[31m"',
        random.choice(("", 'query = "a"', "query = 1", 'notice = "Look\\u202e"')),
        "[settings]",
        *random.sample(SETTINGS, random.choice((0, 1, 2))),
        "[recipe]",
        f"seed = {random.choice((0, 1, 42, 2**63 - 1))}",
        f"skip = {random.choice((0, 0, 3, 1000))}",
        f"draws = [{', '.join(_random_draws(random, tokens, dim))}]",
        "[given]",
        f"tokens = {['a', 'b', 'c'][:tokens]}",
        f"embeddings = {_random_embeddings(random, tokens, dim)}",
        *(
            line
            for _ in range(random.choice((0, 1, 2)))
            for line in _random_expectation(random, tokens, dim)
        ),
    ]
    return "\n".join(parts).encode()


def _random_draws(random: Random, tokens: int, dim: int) -> list[str]:
    """A table and ids, as most lessons have them, and some of the matrices."""
    draws = [
        f'{{ name = "table", {_random_draw(random, (10, dim))} }}',
        f'{{ name = "ids", randint = [{tokens}], low = 0, high = 10 }}',
        f'{{ name = "places", randn = [{tokens}, {dim}] }}',
    ]
    names = random.sample(("w_query", "w_key", "w_value"), random.choice((0, 1, 3)))
    draws += [f'{{ name = "{name}", {_random_draw(random, (dim, dim))} }}' for name in names]
    if random.random() < 0.2:
        draws.append(f'{{ name = "kept", dropout = [{tokens}, {tokens}], p = 0.5 }}')
    return draws


def _random_draw(random: Random, shape: tuple[int, int]) -> str:
    """A draw that fills a matrix: perhaps transposed, with its own seed, or skipping numbers."""
    kind, extra = random.choice(DRAW_KINDS)
    transposed = random.random() < 0.2
    rows, columns = reversed(shape) if transposed else shape
    draw = f"{kind} = [{rows}, {columns}]{random.choice(('', extra))}"
    if transposed:
        draw += ", transposed = true"
    return draw + random.choice(("", "", "", ", seed = 7", ", skip = 5"))


def _random_embeddings(random: Random, tokens: int, dim: int) -> str:
    rows = f"[{', '.join(str(random.randrange(10)) for _ in range(tokens))}]"
    return random.choice(
        (
            '{ rows = ["table", "ids"] }',
            f'{{ rows = ["table", {rows}] }}',
            f'{{ sum = ["places", {{ rows = ["table", {rows}] }}] }}',
            '{ columns = ["places", 1, 1] }',
            f'{{ product = ["places", {[[1] * dim] * dim}] }}',
            '"places"',
            f"{[[1] * dim] * tokens}",
        )
    )


def _random_expectation(random: Random, tokens: int, dim: int) -> list[str]:
    step = random.choice((*MOST_STEPS, *MOST_STEPS, *EXPECTATION_TYPES))
    values = random.choice(
        (
            f"shape = [{tokens}, {dim}]",
            "parameters = 30",
            f"values = {[[0.5] * dim] * tokens}\ntolerance = 100",
            "values = 1",
            'arithmetic = ["1 + 1 = 2"]\nquery = "a"',
        )
    )
    claim = f'claim = "{random.choice([*CLAIMS])}"'
    extra = random.choice(("", "", "layer = 0", "layer = 1", "query = 1", "with = { heads = 1 }"))
    return ["[[expect]]", random.choice((f'step = "{step}"\n{values}', claim)), extra]
