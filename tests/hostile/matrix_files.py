"""Random files of matrices that fit each other, of every kind that can be given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

Contents = dict[str, Any]  # of a file of matrices
KINDS = ("query", "key", "value")
CROSS = 0.3  # how often a block reads a second sentence, too


@dataclass(frozen=True)
class MatrixFile:
    """The contents of a file of matrices, and the options that it is meant for."""

    contents: Contents
    options: tuple[str, ...] = ()


class _MatrixFileGenerator:
    """Draws a file of matrices whose sizes are fixed from the start."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.tokens = random.choice((1, 2, 2, 3, 4))
        self.keys = self.tokens if self._happens(0.7) else random.choice((1, 2, 5))
        self.heads = random.choice((1, 1, 2, 4))
        self.groups = random.choice([n for n in (1, 2, 4) if self.heads % n == 0])
        self.width = random.choice((1, 2, 2, 4))
        self.value = self.width if self._happens(0.7) else random.choice((1, 3))
        self.items = 2 if self._happens(0.2) else 0
        self.dim = self.heads * self.width if self._happens(0.8) else random.choice((1, 3, 6))
        self.hidden = random.choice((1, 3, 8))

    def matrix_file(self) -> MatrixFile:
        kind = self.random.choice(
            (
                self._projected_contents,
                self._projected_contents,
                self._block_contents,
                self._query_contents,
                self._score_contents,
            )
        )
        contents, options = kind()
        if self._happens(0.3):
            contents |= self._token_names()
        return MatrixFile(contents, options)

    def _happens(self, share: float) -> bool:
        return self.random.random() < share

    def _numbers(self, *shape: int) -> Any:
        """Numbers of this shape: small ones, whole ones, and now and then large ones."""
        draw: Callable[[], float] = self.random.choice(
            (
                lambda: round(self.random.gauss(0, 1), 2),
                lambda: self.random.randrange(-2, 3),
                lambda: self.random.choice((0, 1e-20, 1e4, -3.5)),
            )
        )

        def fill(sides: tuple[int, ...]) -> Any:
            return [fill(sides[1:]) for _ in range(sides[0])] if sides else draw()

        return fill(shape)

    def _flags(self, *shape: int) -> Any:
        if not shape:
            return self.random.choice((0, 1, 1))
        return [self._flags(*shape[1:]) for _ in range(shape[0])]

    def _token_names(self) -> Contents:
        """Words for tokens and keys, and how many ids there are."""
        names: Contents = {"tokens": self._words(self.tokens), "vocabulary": 50}
        return names if self.keys == self.tokens else names | {"key_tokens": self._words(self.keys)}

    def _words(self, count: int) -> list[str]:
        words = ("I", "am", "日本", "\x1b[31mred", "a\u202eb", "<pad>", "the", " ", "=1+1")
        return [self.random.choice(words) for _ in range(count)]

    def _projected_contents(self) -> tuple[Contents, tuple[str, ...]]:
        """Embeddings, and some of the matrices that make queries, keys and values of them."""
        self.keys = self.tokens
        matrices: Contents = {"embeddings": self._numbers(*self._batch(), self.tokens, self.dim)}
        matrices |= self._choose_some(self._attention_matrices(by_head=self._happens(0.3)))
        if self._happens(0.3):
            matrices["positions"] = self._numbers(
                self.tokens + self.random.choice((0, 3)), self.dim
            )
        return matrices | self._masks(), self._options()

    def _attention_matrices(self, *, by_head: bool = False) -> Contents:
        """All learned matrices of an attention."""
        widths = (self.heads, self.width), (self.groups, self.width), (self.groups, self.value)
        matrices: Contents = {}
        for kind, (heads, width) in zip(KINDS, widths, strict=True):
            matrix = (heads, self.dim, width) if by_head else (self.dim, heads * width)
            matrices[f"w_{kind}"] = self._numbers(*matrix)
            matrices[f"b_{kind}"] = self._numbers(heads * width)
        matrices["w_out"] = self._numbers(self.heads * self.value, self.dim)
        matrices["b_out"] = self._numbers(self.dim)
        return matrices

    def _block_contents(self) -> tuple[Contents, tuple[str, ...]]:
        """Learned matrices of one or two layers."""
        self.value, self.dim, self.items = self.width, self.heads * self.width, 0
        self.keys = self.tokens
        matrices: Contents = {"embeddings": self._numbers(self.tokens, self.dim)}
        layers = self.random.choice((1, 2))
        has_memory = self._happens(CROSS)
        for layer in range(layers):
            layer_matrices = self._choose_some(self._attention_matrices()) | self._choose_some(
                self._block_matrices(has_memory=has_memory)
            )
            matrices |= {
                f"layers.{layer}.{name}" if layer else name: layer_matrices[name]
                for name in layer_matrices
            }
        if has_memory:
            matrices["memory"] = self._numbers(self.random.choice((1, 3)), self.dim)
        return matrices | self._masks(), (f"--layers={layers}", *self._options())

    def _block_matrices(self, *, has_memory: bool) -> Contents:
        """The matrices of a block besides its attention."""
        matrices: Contents = {
            "w_1": self._numbers(self.dim, self.hidden),
            "b_1": self._numbers(self.hidden),
            "w_2": self._numbers(self.hidden, self.dim),
            "b_2": self._numbers(self.dim),
        }
        sublayers = ("attention", "feed_forward", *(("cross",) if has_memory else ()))
        for each in sublayers:
            matrices |= {f"{each}_{name}": self._numbers(self.dim) for name in ("gain", "shift")}
        if has_memory:
            matrices |= {f"cross_{name}": each for name, each in self._attention_matrices().items()}
        return matrices

    def _query_contents(self) -> tuple[Contents, tuple[str, ...]]:
        """Queries, keys and values; sometimes with heads after tokens, as in Keras."""
        sides = (self.heads, self.tokens, self.width), (self.groups, self.keys, self.width)
        names = ("queries", "keys", "values")
        matrices: Contents = {}
        heads_last = self._happens(0.2) and self.heads > 1
        for name, (heads, tokens, width) in zip(
            names, (*sides, (self.groups, self.keys, self.value)), strict=True
        ):
            of_heads = (tokens, heads) if heads_last else (heads, tokens)
            shape = of_heads if self.heads > 1 or self._happens(0.3) else (tokens,)
            matrices[name] = self._numbers(*self._batch(), *shape, width)
        if self._happens(0.2):
            matrices["w_score"] = self._numbers(self.width * self.heads)
        return matrices | self._masks() | self._axes(
            matrices, heads_last=heads_last
        ), self._options()

    def _score_contents(self) -> tuple[Contents, tuple[str, ...]]:
        """Scores, or weights by hand, with values or without."""
        heads = (self.heads,) if self.heads > 1 or self._happens(0.2) else ()
        name = self.random.choice(("scores", "scores", "weights"))
        matrices = {name: self._numbers(*self._batch(), *heads, self.tokens, self.keys)}
        self.groups = self.heads
        if self._happens(0.7):
            matrices["values"] = self._numbers(*self._batch(), *heads, self.keys, self.value)
        return matrices | self._masks() | self._axes(matrices, heads_last=False), self._options()

    def _batch(self) -> tuple[int, ...]:
        return (self.items,) if self.items else ()

    def _axes(self, matrices: Contents, *, heads_last: bool) -> Contents:
        """The key `axes`: what each axis counts, for all matrices at once or for each."""
        if not self._happens(0.6 if self.items else 0.15):
            return {}
        of_heads = ("token", "head") if heads_last else ("head", "token")
        last_axis = {"scores": "key", "weights": "key"}
        axes = {}
        for name, value in matrices.items():
            sides = _depth(value) - (2 if self.items else 1)
            own_axes = of_heads if sides == 2 else ("token",)
            if name != "w_score":
                first = ("item",) if self.items else ()
                axes[name] = [*first, *own_axes, last_axis.get(name, "width")]
        if len({tuple(each) for each in axes.values()}) == 1 and self._happens(0.5):
            return {"axes": next(iter(axes.values()))}
        return {"axes": axes}

    def _masks(self) -> Contents:
        """A mask: for all heads, for each head, for each item, or for all queries."""
        if not self._happens(0.35):
            return {}
        cells = (self.tokens, self.keys)
        shapes = [cells, cells, (self.heads, *cells)]
        if self.items:
            shapes += [(self.items, *cells), (self.items, 1, 1, self.keys)]
        shape = self.random.choice(shapes)
        name = self.random.choice(("visible", "visible", "hidden", "mask"))
        if name != "mask":
            return {name: self._flags(*shape)}
        return {
            name: _replace_flags(self._flags(*shape), (self.random.choice((-1e9, -0.5, -9)), 0))
        }

    def _choose_some(self, matrices: Contents) -> Contents:
        """All of these matrices, or some."""
        share = self.random.choice((1, 1, 0.7, 0.3))
        return {name: each for name, each in matrices.items() if self._happens(share)}

    def _options(self) -> tuple[str, ...]:
        """Options for what the file does not say, as its owner would type them."""
        names_heads = self.heads > 1 and self._happens(0.9)
        heads: tuple[str, ...] = (f"--heads={self.heads}",) if names_heads else ()
        if names_heads and self.groups < self.heads and self._happens(0.7):
            heads += (f"--kv-heads={self.groups}",)
        return heads + (("--item=1",) if self.items and self._happens(0.7) else ())


def random_matrix_file(random: Random) -> MatrixFile:
    """A file of matrices that can mostly be used as it is."""
    return _MatrixFileGenerator(random).matrix_file()


def _depth(value: Any) -> int:
    """How many dimensions nested lists have."""
    return 1 + _depth(value[0]) if isinstance(value, list) else 0


def _replace_flags(value: Any, numbers: tuple[float, float]) -> Any:
    """Nested lists of 0 and 1, with one number for 0 and another for 1."""
    return (
        [_replace_flags(one, numbers) for one in value]
        if isinstance(value, list)
        else numbers[value]
    )
