"""Random runs, each from a seed: unusual settings, given matrices, mistakes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from attnviz import Trace, trace
from attnviz.attention.mistakes import MISTAKES
from attnviz.attention.variants import VARIANTS
from attnviz.errors import AttnvizError
from attnviz.learning.learner import new_model
from attnviz.learning.lookup import task_of
from attnviz.traces.from_text import trace_source
from attnviz.traces.inputs import Source
from attnviz.traces.matrices import Matrices, parse_matrices
from attnviz.traces.parts import PARTS_BY_SHOW_NAME
from attnviz.traces.settings import DTYPES, POSITIONS, POSITIONS_WITH_BASE, Settings
from attnviz.views.steps.walk import Walk, steps
from attnviz.views.view import View

TEXTS = ("I", "I am", "the the the", "I am learning this", "of tired it that goes on and on")
ROWS = [[1.0, 0.0], [0.5, -2.0], [3.0, 1.0]]
SQUARE = [[0.5, 1.5, -1.0], [40.0, 0.0, 0.25], [1.0, 1.0, 1.0]]
WEIGHTS = [[0.2, 0.2, 0.1], [0.3, 0.3, 0.0], [0.0, 0.0, 1.0]]
TWO_HEADS = [ROWS, [[0.0, 1.0], [2.0, 2.0], [-1.0, 0.5]]]
PROJECTED_HEADS = {"queries": TWO_HEADS, "keys": TWO_HEADS, "values": TWO_HEADS}
MASK = [[1, 0, 1], [0, 1, 0], [1, 1, 1]]
BLIND = [[1, 0, 1], [0, 0, 0], [1, 1, 1]]
IDENTITY = [[1.0, 0.0], [0.0, 1.0]]
MATRICES: dict[str, dict[str, Any]] = {
    "scores": {"scores": SQUARE},
    "scores and queries": {"scores": SQUARE, "queries": ROWS, "keys": ROWS},
    "queries, keys": {"queries": ROWS, "keys": ROWS[::-1]},
    "queries, keys, values": {"queries": ROWS, "keys": ROWS, "values": ROWS},
    "values": {"embeddings": ROWS, "values": ROWS[::-1]},
    "heads": PROJECTED_HEADS,
    "heads, joined": {**PROJECTED_HEADS, "w_out": IDENTITY + IDENTITY},
    "heads of queries": {"embeddings": ROWS, "queries": TWO_HEADS, "keys": TWO_HEADS},
    "shared keys": {"queries": TWO_HEADS + TWO_HEADS, "keys": TWO_HEADS, "values": TWO_HEADS},
    "one key for all": {"queries": TWO_HEADS, "keys": ROWS, "values": ROWS},
    "other keys": {"embeddings": ROWS, "key_tokens": ["you", "are"]},
    "one other key": {"queries": ROWS, "keys": ROWS[:1], "values": ROWS[1:2]},
    "other keys, values": {"embeddings": ROWS, "keys": ROWS[:2], "values": ROWS[1:]},
    "weights by hand": {"embeddings": ROWS, "weights": WEIGHTS},
    "a mask": {"embeddings": ROWS, "visible": MASK},
    "a mask that hides nothing": {"embeddings": ROWS, "visible": [[1, 1, 1]] * 3},
    "a mask by head": {**PROJECTED_HEADS, "visible": [MASK, BLIND]},
    "a row that reads nothing": {"embeddings": ROWS, "visible": BLIND},
    "nothing is read": {"embeddings": ROWS, "visible": [[0, 0, 0]] * 3},
    "what is hidden": {"embeddings": ROWS, "hidden": BLIND},
    "a mask of numbers": {"embeddings": ROWS, "mask": [[0.0, -1.5, -1e9], [0.0] * 3, [2.0] * 3]},
    "a mask of -inf": {"embeddings": ROWS, "mask": [[0.0, -inf, -inf], [-inf] * 3, [0.0] * 3]},
    "dropout": {"embeddings": ROWS, "kept": [[1, 0, 1], [0, 1, 1], [1, 1, 0]]},
    "positions": {"embeddings": ROWS, "positions": ROWS[::-1]},
    "additive scores": {
        "embeddings": ROWS, "w_query": IDENTITY, "w_key": IDENTITY, "w_score": [1.0, -2.0],
    },
    "matrices": {"embeddings": ROWS, "w_query": ROWS[:2], "b_query": [1.0, -1.0]},
    "alike": {"embeddings": [[1.0, 1.0]] * 3, "w_value": [[0.0, 0.0], [0.0, 0.0]]},
    "next to nothing": {"queries": [[1e-30] * 2] * 3, "keys": [[1e-30, 2e-30]] * 3, "values": ROWS},
    "a block": {
        "embeddings": ROWS,
        "w_1": [[1.0, 2.0, 3.0], [0.5, -1.0, 0.0]],
        "b_1": [1.0, 0.0, -1.0],
        "w_2": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
        "attention_gain": [2.0, -0.5],
        "feed_forward_shift": [0.25, 1.0],
    },
    "one matrix of a block": {"embeddings": ROWS, "w_2": IDENTITY},
    "layers": {"embeddings": ROWS, "w_query": IDENTITY, "layers.1.w_query": ROWS[:2]},
    "memory": {"embeddings": ROWS, "memory": ROWS[:2], "cross_w_query": IDENTITY},
    "words of memory": {"embeddings": ROWS, "memory_tokens": ["you", "are"], "cross_gain": [1, 2]},
}  # fmt: skip
SETTINGS_NO_MODEL_HAS = ("dim", "dtype", "dropout", "memory", "layers", "without", "temperature")
VIEWS: dict[str, dict[str, Any]] = {
    "run": {},
    "run, a query": {"query": "1"},
    "run, everything": {"show": [*PARTS_BY_SHOW_NAME]},
    "run, everything of a query": {"show": [*PARTS_BY_SHOW_NAME], "query": "1"},
    "run, an equation": {"show": ["queries", "keys", "scores", "weights", "values", "context"]},
    "run, as lines": {"as_": "arcs"},
    "run, as a sentence": {"as_": "sentence", "query": "1"},
}


def given_matrices(contents: Mapping[str, Any]) -> Matrices:
    """Matrices of three tokens, with as many heads as the queries have."""
    queries = contents.get("queries", ROWS)
    heads = len(queries) if isinstance(queries[0][0], list) else None
    return parse_matrices({"tokens": ["a", "b", "c"], **contents}, heads=heads)


@dataclass(frozen=True)
class Run:
    """A Trace, and the views of it whose sentences are checked."""

    trace: Trace
    view: View
    walk: Walk
    query: int | None = None  # the place of the one that the view is about


class RunGenerator(random.Random):
    """Draws everything that a run is made of."""

    def rarely(self, *values: Any, usually: Any = None) -> Any:
        return self.choice(values) if self.random() < 0.3 else usually

    def draw_settings(self) -> dict[str, Any]:
        positions = self.rarely(*POSITIONS, usually="none")
        has_base = positions in POSITIONS_WITH_BASE
        return {
            "variant": self.rarely(*VARIANTS, usually=self.choice(("scaled", "causal"))),
            "dim": self.choice((1, 2, 3, 4, 8, 8)),
            "seed": self.randrange(1000),
            "heads": self.rarely(1, 2, 3, 4),
            "kv_heads": self.rarely(1, 2),
            "head_dim": self.rarely(1, 2, 4),
            "scoring": self.rarely("additive", usually="dot"),
            "scale": self.rarely(True, False),
            "causal": self.rarely(True, False),
            "window": self.rarely(1, 2, 9),
            "temperature": self.rarely(float(f"{10 ** self.uniform(-4, 4):.3g}")),
            "soft_cap": self.rarely(0.01, 2.5, 50.0, 1e6),
            "dropout": self.rarely(0.0, 0.3, 0.5, 0.99),
            "positions": positions,
            "position_base": self.rarely(1.0, 100.0, 1e6, usually=1e4) if has_base else 1e4,
            "without": self.rarely("L0H0", "L0H1", "L0H0=mean", "L0H1=mean,L0H0", "L1H0"),
            "dtype": self.rarely(*DTYPES, usually="float32"),
            **self.rarely(self.draw_block(), usually={}),
        }

    def draw_block(self) -> dict[str, Any]:
        layer_count = {"layers": self.choice((1, 2))}
        return {
            **self.choice((layer_count, {"memory": self.choice(TEXTS)})),
            **self.rarely(layer_count, usually={}),
            "norm": self.choice(("pre", "post", "none")),
            **self.choice(
                (
                    {"attention_only": True},
                    {
                        "activation": self.choice(("relu", "gelu", "gelu-tanh")),
                        "feed_forward": self.rarely(1, 2, 8, 40),
                    },
                )
            ),
        }

    def draw_trace(self) -> Trace:
        """The Trace of a text, a model or given matrices; now and then with a mistake."""
        settings = {
            name: value for name, value in self.draw_settings().items() if value is not None
        }
        mistake = self.rarely(*MISTAKES, usually="")
        if self.random() < 0.15:
            return self.draw_model_trace(mistake)
        if self.random() < 0.5:
            return trace(self.choice(TEXTS), mistake=mistake, **settings)
        name = self.choice([*MATRICES])
        contents = MATRICES[name]
        if "block" in name or "layers" in name or "memory" in name:
            settings |= {"layers": 2 if "layers" in name else self.choice((1, 2))}
        if "embeddings" in contents or self.random() < 0.7:
            settings_of_matrices = ("dim", "head_dim", "kv_heads", "heads", "variant", "positions")
            settings = {
                name: each for name, each in settings.items() if name not in settings_of_matrices
            }
        settings["position_base"] = (
            1e4 if "positions" not in settings else settings["position_base"]
        )
        return trace(None, given=given_matrices(contents), mistake=mistake, **settings)

    def draw_model_trace(self, mistake: str) -> Trace:
        """The Trace of an untrained model of any shape, with options that models allow."""
        task = task_of(self.choice(("reverse", "sort", "agreement")))
        changes = {name: value for name, value in self.draw_settings().items() if value is not None}
        changes = {
            name: each for name, each in changes.items() if name not in SETTINGS_NO_MODEL_HAS
        }
        shape = {"layers": self.choice((1, 2)), **changes, **self.rarely({"heads": 2}, usually={})}
        model = new_model(task, Settings(dim=self.choice((4, 8)), **shape))
        lengths = self.rarely([2, 3], usually=[1, 100])
        facts = {"sentences": 9, "scores": {"L0H0": 0.75}, "tokens": lengths}
        model = replace(model, facts=facts, heads={"L0H0": "reads the token before"})
        run_settings = {"temperature": self.rarely(0.5, 2.0), "scale": self.rarely(True, False)}
        run_settings |= {"dropout": self.rarely(0.3), "window": self.rarely(1, 2)}
        words = self.sample(model.vocabulary.words, self.choice((1, 2, 5)))
        settings = Settings(**run_settings, model="made", without=self.rarely("L0H0", "L0H0=mean"))
        source = Source(" ".join(words), settings, model.matrices, model=model)
        return trace_source(source, mistake=mistake)

    def draw_walk(self, trace: Trace) -> Walk:
        """The steps of one layer: of all tokens, of one, or of one and a key of it."""
        layer = self.randrange(len(trace.layers))
        options: dict[str, Any] = {"layer": layer, "head": self.rarely(0)}
        options |= {"query": self.choice((None, "1", str(len(trace.tokens))))}
        options |= {
            "key": self.rarely("1", str(len(trace.keys))),
            "full": self.rarely(True) or False,
        }
        try:
            return steps(trace, **options)
        except AttnvizError:  # there is no such pair
            return steps(trace, layer=layer)

    def draw_run(self) -> Run | None:
        """A run; None where attnviz refuses what was drawn."""
        try:
            trace = self.draw_trace()
            options = VIEWS[self.choice([*VIEWS])]
            query = 0 if "query" in options else None
            return Run(trace, trace.view(**options), self.draw_walk(trace), query)
        except AttnvizError:
            return None
