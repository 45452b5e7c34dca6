"""Programs with attention of many kinds, each with the weights that it should have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

from tests.listen import kernels as kernels  # which registers operations

Run = Callable[[], object]
HEADS, WIDTH = 4, 8
DIM = HEADS * WIDTH
NEGATIVE = float("-inf")


@dataclass(frozen=True)
class Expected:
    """What runs, and the weights [item head query key] of each attention in it, in order."""

    run: Run
    weights: list[Tensor]
    tolerance: float = 2e-6


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def softmax_of(
    queries: Tensor, keys: Tensor, visible: Tensor | None = None, added: Any = 0
) -> Tensor:
    """The weights of queries on keys, in 64 bits, by a formula of its own."""
    repeated = keys.repeat_interleave(queries.shape[1] // keys.shape[1], dim=1)
    scores = torch.einsum("ihqd,ihkd->ihqk", queries.double(), repeated.double())
    scores = scores / sqrt(queries.shape[-1]) + added
    if visible is not None:
        scores = torch.where(visible, scores, NEGATIVE)
    exponents = torch.exp(scores - scores.amax(-1, keepdim=True))
    return exponents / exponents.sum(-1, keepdim=True)


def causal(count: int, keys: int | None = None) -> Tensor:
    keys = count if keys is None else keys
    return torch.arange(keys)[None] <= torch.arange(count)[:, None] + keys - count


def weights_of_module(
    module: nn.MultiheadAttention, x: Tensor, y: Tensor, visible: Any = None
) -> Tensor:
    """The weights of torch's module, from its parameters; x and y are [item token dim]."""
    in_query, in_key, _ = module.in_proj_weight.detach().chunk(3)
    bias_query, bias_key, _ = module.in_proj_bias.detach().chunk(3)
    heads = module.num_heads
    queries = (x @ in_query.T + bias_query).view(*x.shape[:2], heads, -1).transpose(1, 2)
    keys = (y @ in_key.T + bias_key).view(*y.shape[:2], heads, -1).transpose(1, 2)
    return softmax_of(queries, keys, visible)


def module_of(dim: int = DIM, heads: int = HEADS, **choices: Any) -> nn.MultiheadAttention:
    torch.manual_seed(1)
    module = nn.MultiheadAttention(dim, heads, **choices)
    nn.init.normal_(module.in_proj_bias)
    return module


def of_module(
    *, need_weights: bool, crossed: bool = False, batch_first: bool = True, **masks: Any
) -> Expected:
    module = module_of(batch_first=batch_first).eval()
    x = numbers(2, 5, DIM)
    y = numbers(2, 5, DIM, seed=3) if crossed else x
    visible = None
    if "key_padding_mask" in masks:
        visible = ~masks["key_padding_mask"][:, None, None]
    if "attn_mask" in masks:
        mask = masks["attn_mask"]
        visible = ~mask if mask.dtype == torch.bool else mask == 0
    x_in, y_in = (x, y) if batch_first else (x.transpose(0, 1), y.transpose(0, 1))
    sides = (x_in, y_in, y_in) if crossed else (x_in,) * 3
    run = partial(module, *sides, need_weights=need_weights, **masks)
    return Expected(run, [weights_of_module(module, x, y, visible)])


def odd_heads() -> Expected:
    module, x, y = module_of(15, 3), numbers(5, 2, 15), numbers(7, 2, 15, seed=1)
    weights = weights_of_module(module, x.transpose(0, 1), y.transpose(0, 1))
    return Expected(partial(module, x, y, y), [weights])


def without_batch() -> Expected:
    module, x = module_of(), numbers(5, DIM)
    return Expected(partial(module, x, x, x), [weights_of_module(module, x[None], x[None])])


def encoder(*, training: bool) -> Expected:
    torch.manual_seed(2)
    layer = nn.TransformerEncoderLayer(
        DIM, HEADS, 16, dropout=0.3 if training else 0.0, batch_first=True
    )
    model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=not training).train(training)
    x, padding = numbers(2, 5, DIM), torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]).bool()
    visible = ~padding[:, None, None]
    weights = weights_of_module(model.layers[0].self_attn, x, x, visible)
    return Expected(partial(model, x, src_key_padding_mask=padding), [weights])


def whole_transformer() -> Expected:
    torch.manual_seed(2)
    model = nn.Transformer(DIM, HEADS, 1, 1, 16, dropout=0.0, batch_first=True).eval()
    x, y = numbers(2, 5, DIM), numbers(2, 7, DIM, seed=1)
    mask = nn.Transformer.generate_square_subsequent_mask(7)
    encoder, decoder = model.encoder.layers[0], model.decoder.layers[0]
    with torch.no_grad():
        memory = model.encoder(x)
        attended = decoder.norm1(y + decoder.self_attn(y, y, y, attn_mask=mask)[0])
    return Expected(
        partial(model, x, y, tgt_mask=mask),
        [
            weights_of_module(encoder.self_attn, x, x),
            weights_of_module(decoder.self_attn, y, y, causal(7)),
            weights_of_module(decoder.multihead_attn, attended, memory),
        ],
    )


def by_name(**choices: Any) -> Expected:
    """scaled_dot_product_attention, with grouped keys, a mask, dropout."""
    groups = HEADS if not choices.get("enable_gqa") else 2
    queries, keys, values = (
        numbers(2, HEADS, 5, WIDTH),
        numbers(2, groups, 5, WIDTH, seed=1),
        numbers(2, groups, 5, WIDTH, seed=2),
    )
    visible, added = causal(5) if choices.get("is_causal") else None, 0
    mask = choices.get("attn_mask")
    if mask is not None and mask.dtype == torch.bool:
        visible = mask
    elif mask is not None:
        added = mask.double()
    run = partial(functional.scaled_dot_product_attention, queries, keys, values, **choices)
    return Expected(run, [softmax_of(queries, keys, visible, added)])


class OneHead(nn.Module):
    """A head as the lectures write it."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(DIM, WIDTH, bias=False) for _ in range(3))
        self.dropout = nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        weights = self.query(x) @ self.key(x).transpose(-2, -1) * WIDTH**-0.5
        weights = weights.masked_fill(torch.tril(torch.ones(5, 5)) == 0, NEGATIVE)
        result: Tensor = self.dropout(functional.softmax(weights, dim=-1)) @ self.value(x)
        return result


def hand_written_head(*, heads: int = 1) -> Expected:
    torch.manual_seed(3)
    model, x = OneHead(), numbers(2, 5, DIM)
    model.num_heads = heads  # type: ignore[assignment]
    queries, keys = model.query(x).detach()[:, None], model.key(x).detach()[:, None]
    return Expected(partial(model, x), [softmax_of(queries, keys, causal(5))])


def einsum() -> Expected:
    queries, keys, values = (numbers(2, 5, HEADS, WIDTH, seed=seed) for seed in range(3))

    def run() -> Tensor:
        scores = torch.einsum("bqhd,bkhd->bhqk", queries, keys) / sqrt(WIDTH)
        return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), values)

    return Expected(run, [softmax_of(queries.transpose(1, 2), keys.transpose(1, 2))])


def in_order(scores: str, dimension: int) -> Expected:
    """Scores with dimensions in another order, and a softmax over the one of the keys."""
    queries, keys, values = (numbers(2, 5, HEADS, WIDTH, seed=seed) for seed in range(3))

    def run() -> Tensor:
        products = torch.einsum(f"bqhd,bkhd->{scores}", queries, keys) / sqrt(WIDTH)
        return torch.einsum(f"{scores},bkhd->bqhd", products.softmax(dimension), values)

    return Expected(run, [softmax_of(queries.transpose(1, 2), keys.transpose(1, 2))])


def heads_before_items() -> Expected:
    """Heads in the first of four dimensions, and items in the second."""
    torch.manual_seed(4)
    joined, x = nn.Linear(DIM, 3 * DIM), numbers(2, 5, DIM)

    def run() -> Tensor:
        queries, keys, values = joined(x).view(2, 5, 3, HEADS, WIDTH).permute(2, 3, 0, 1, 4)
        result: Tensor = (queries @ keys.mT / sqrt(WIDTH)).softmax(-1) @ values
        return result

    sides = joined(x).detach().view(2, 5, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
    return Expected(run, [softmax_of(sides[0], sides[1])])


def grouped_in_five_dimensions() -> Expected:
    """Scores [item group head query key] of heads in groups that share keys."""
    torch.manual_seed(4)
    to_queries, to_keys, x = nn.Linear(DIM, DIM), nn.Linear(DIM, 2 * WIDTH), numbers(2, 5, DIM)

    def run() -> Tensor:
        queries = to_queries(x).view(2, 5, 2, HEADS // 2, WIDTH)
        keys = to_keys(x).view(2, 5, 2, WIDTH)
        scores = torch.einsum("iqghd,ikgd->ighqk", queries, keys) / sqrt(WIDTH)
        return torch.einsum("ighqk,ikgd->iqghd", scores.softmax(-1), keys)

    queries = to_queries(x).detach().view(2, 5, HEADS, WIDTH).transpose(1, 2)
    keys = to_keys(x).detach().view(2, 5, 2, WIDTH)
    return Expected(run, [softmax_of(queries, keys.transpose(1, 2))])


def whole_in_five_dimensions(blocks: int, is_own: bool) -> Expected:
    """[item head block query key] as one operation, where each block attends to itself alone: with
    a mask of its own for each block, or for each item.
    """
    torch.manual_seed(4)
    joined, x = nn.Linear(DIM, 3 * DIM), numbers(2, blocks, 5, DIM)
    sizes = (blocks, 5, 5) if is_own else (2, 1, 1, 5, 5)
    visible = (numbers(*sizes, seed=1) > 0) | torch.eye(5, dtype=torch.bool)

    def split() -> Tensor:
        result: Tensor = joined(x).view(2, blocks, 5, 3, HEADS, WIDTH).permute(3, 0, 4, 1, 2, 5)
        return result

    def run() -> Tensor:
        queries, keys, values = split()
        return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=visible)

    queries, keys, _ = (side.transpose(1, 2).flatten(0, 1) for side in split().detach())
    of_blocks = visible.expand(2, 1, blocks, 5, 5).transpose(1, 2).flatten(0, 1)
    return Expected(run, [softmax_of(queries, keys, of_blocks)])


def position_scores_first() -> Expected:
    """A sum of scores, those of queries and positions before those of queries and keys."""
    torch.manual_seed(4)
    joined, x, places = nn.Linear(DIM, 3 * DIM), numbers(2, 5, DIM), numbers(5, WIDTH, seed=1)
    to_places = nn.Linear(WIDTH, WIDTH)

    def split() -> Tensor:
        result: Tensor = joined(x).view(2, 5, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
        return result

    def run() -> Tensor:
        queries, keys, values = split()
        scores = queries @ to_places(places).mT + queries @ keys.mT
        result: Tensor = (scores / sqrt(WIDTH)).softmax(-1) @ values
        return result

    queries, keys, _ = split().detach()
    added = queries.double() @ to_places(places).detach().double().mT / sqrt(WIDTH)
    return Expected(run, [softmax_of(queries, keys, added=added)])


def keys_first() -> Expected:
    """Scores of keys on queries, with a softmax over the first."""
    queries, keys, values = (numbers(2, HEADS, 5, WIDTH, seed=seed) for seed in range(3))

    def run() -> Tensor:
        return (keys @ queries.mT / sqrt(WIDTH)).softmax(-2).mT @ values

    return Expected(run, [softmax_of(queries, keys)])


def shared_values() -> Expected:
    """Keys and values that all heads share, by einsum: a product has the rows in another order."""
    queries, keys = numbers(2, HEADS, 5, WIDTH), numbers(2, 5, WIDTH, seed=1)

    def run() -> Tensor:
        scores = torch.einsum("bhqd,bkd->bhqk", queries, keys) / sqrt(WIDTH)
        return torch.einsum("bhqk,bkd->bqhd", scores.softmax(-1), keys)

    return Expected(run, [softmax_of(queries, keys[:, None])])


def values_first() -> Expected:
    """Values times the transposed weights, as of vectors that are columns."""
    queries, keys, values = (numbers(2, 5, WIDTH, seed=seed) for seed in range(3))

    def run() -> Tensor:
        weights = (queries @ keys.mT / sqrt(WIDTH)).softmax(-1)
        return torch.bmm(values.mT, weights.mT)

    return Expected(run, [softmax_of(queries[:, None], keys[:, None])])


def split_items_first(side: Tensor) -> Tensor:
    """[item token head·width] to [item·head token width]."""
    return side.view(2, 5, HEADS, WIDTH).transpose(1, 2).reshape(2 * HEADS, 5, WIDTH)


def split_heads_first(side: Tensor) -> Tensor:
    """[item token head·width] to [head·item token width], as the authors of the Transformer did."""
    return torch.cat(torch.split(side, WIDTH, dim=-1), dim=0)


def split_stacked(side: Tensor) -> Tensor:
    return torch.stack(side.chunk(HEADS, dim=-1)).flatten(0, 1)


def split_tokens_first(side: Tensor) -> Tensor:
    """[token item head·width] to [item·head token width], as torch's module and fairseq do."""
    tokens_first = side.transpose(0, 1).contiguous()
    return tokens_first.view(5, 2 * HEADS, WIDTH).transpose(0, 1)


def baddbmm_attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    zeros = torch.zeros(len(queries), 5, 5)
    scores = torch.baddbmm(zeros, queries, keys.transpose(1, 2), alpha=WIDTH**-0.5)
    return torch.bmm(scores.softmax(-1), values)


class FlatAttention(nn.Module):
    """Heads and items in one dimension; it may say how many heads it has."""

    def __init__(self, split: Any, attend: Any, *, is_counted: bool) -> None:
        super().__init__()
        self.split, self.attend = split, attend
        self.sides = nn.ModuleList(nn.Linear(DIM, DIM) for _ in range(3))
        if is_counted:
            self.num_heads = HEADS

    def forward(self, x: Tensor) -> Tensor:
        attended: Tensor = self.attend(*(self.split(side(x)) for side in self.sides))
        return attended


def one_dimension_of_heads(
    split: Any, attend: Any = baddbmm_attention, *, is_counted: bool = False
) -> Expected:
    torch.manual_seed(3)
    model, x = FlatAttention(split, attend, is_counted=is_counted), numbers(2, 5, DIM)
    queries, keys = (
        side(x).detach().view(2, 5, HEADS, WIDTH).transpose(1, 2) for side in model.sides[:2]
    )
    return Expected(partial(model, x), [softmax_of(queries, keys)])


def shared_projection() -> Expected:
    """Heads that are split before one product makes the queries of all: rows may be of heads."""
    torch.manual_seed(3)
    side, x = nn.Linear(WIDTH, WIDTH), numbers(2, 5, DIM)

    def project() -> Tensor:
        heads: Tensor = side(x.view(2, 5, HEADS, WIDTH))
        return heads.transpose(1, 2).reshape(2 * HEADS, 5, WIDTH)

    matrices = project().detach()[:, None]
    return Expected(lambda: baddbmm_attention(*[project()] * 3), [softmax_of(matrices, matrices)])


def rotated_heads() -> Expected:
    """Queries and keys that are turned by position: only values still tell their heads."""
    torch.manual_seed(3)
    side, x, turns = nn.Linear(DIM, DIM), numbers(2, 5, DIM), numbers(5, WIDTH, seed=1).cos()

    def run() -> Tensor:
        vectors = split_heads_first(side(x))
        return baddbmm_attention(vectors * turns, vectors * turns, vectors)

    queries = side(x).detach().view(2, 5, HEADS, WIDTH).transpose(1, 2) * turns
    return Expected(run, [softmax_of(queries, queries)])


def untold_heads() -> Expected:
    """Heads and items in one dimension, of which nothing tells which are which."""

    class Attention(nn.Module):
        num_heads = HEADS

        def forward(self, *sides: Tensor) -> Tensor:
            return baddbmm_attention(*sides)

    sides = [numbers(2 * HEADS, 5, WIDTH, seed=seed) for seed in range(3)]
    weights = softmax_of(sides[0][:, None], sides[1][:, None])
    return Expected(partial(Attention(), *sides), [weights])


def with_positions_and_cap() -> Expected:
    """What is added to scores, after a soft cap."""
    queries, keys = numbers(1, HEADS, 5, WIDTH) * 3, numbers(1, HEADS, 5, WIDTH, seed=1) * 3
    added = numbers(HEADS, 5, 5, seed=2)

    def run() -> Tensor:
        scores = queries @ keys.mT / sqrt(WIDTH)
        scores = torch.tanh(scores / 5) * 5
        return (scores + added).softmax(-1) @ keys

    scores = queries.double() @ keys.double().mT / sqrt(WIDTH)
    capped = 5 * torch.tanh(scores / 5)
    return Expected(run, [torch.softmax(capped + added.double(), -1)])


def pooling() -> Expected:
    """One learned query over all tokens."""
    torch.manual_seed(4)
    score, x = nn.Linear(DIM, 1), numbers(2, 5, DIM)

    def run() -> Tensor:
        shares = score(x).squeeze(-1).softmax(-1)
        return torch.bmm(shares.unsqueeze(1), x)

    weights = torch.softmax((x.double() @ score.weight.double().T).squeeze(-1), -1)
    return Expected(run, [weights[:, None, None].detach()])


def pooling_over_the_first_dimension() -> Expected:
    """Weights of tokens below each other, [item token 1], from scores that are no product."""
    torch.manual_seed(4)
    score, x = nn.Linear(DIM, 1), numbers(2, 5, DIM)

    def run() -> Any:
        return score(torch.tanh(x)).softmax(dim=1).transpose(1, 2) @ x

    weights = torch.softmax((torch.tanh(x).double() @ score.weight.double().T).squeeze(-1), -1)
    return Expected(run, [weights[:, None, None].detach()])


def additive() -> Expected:
    """Scores that are no product of queries and keys."""
    torch.manual_seed(4)
    score, x = nn.Linear(DIM, 1), numbers(2, 5, DIM)

    def run() -> Any:
        return score(torch.tanh(x[:, :, None] + x[:, None])).squeeze(-1).softmax(-1) @ x

    pairs = torch.tanh(x[:, :, None] + x[:, None]).double()
    weights = torch.softmax((pairs @ score.weight.double().T).squeeze(-1), -1)
    return Expected(run, [weights[:, None].detach()])


def flex() -> Expected:
    queries, keys, values = (numbers(2, HEADS, 16, WIDTH, seed=seed) for seed in range(3))

    def nearer(score: Tensor, item: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return score - 0.1 * (head + 1) * (query - key)

    def run() -> Any:
        mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 16, 16, device="cpu")
        return flex_attention(queries, keys, values, score_mod=nearer, block_mask=mask)

    places = torch.arange(16)
    slopes = 0.1 * torch.arange(1, HEADS + 1)
    added = -slopes[:, None, None] * (places[:, None] - places)
    return Expected(run, [softmax_of(queries, keys, causal(16), added.double())])


def router() -> Expected:
    """As many experts as tokens, beside a softmax by hand: the router is no attention."""
    torch.manual_seed(4)
    model, gate, x = OneHead(), nn.Linear(DIM, 5), numbers(2, 5, DIM)
    experts = numbers(2, 5, 5, DIM, seed=1)

    def run() -> tuple[Tensor, Tensor]:
        return model(x), torch.einsum("bte,bted->btd", gate(x).softmax(-1), experts)

    queries, keys = model.query(x).detach()[:, None], model.key(x).detach()[:, None]
    return Expected(run, [softmax_of(queries, keys, causal(5))])


def recomputed(*, reentrant: bool) -> Expected:
    """A checkpointed layer, which a backward pass computes again."""
    module = module_of(batch_first=True)
    x = numbers(2, 5, DIM).requires_grad_()

    def attend(vectors: Tensor) -> Tensor:
        attended: Tensor = module(vectors, vectors, vectors, need_weights=False)[0]
        return attended

    def run() -> Tensor | None:
        x.grad = None
        checkpoint(attend, x, use_reentrant=reentrant).sum().backward()
        return x.grad

    return Expected(run, [weights_of_module(module, x.detach(), x.detach())])


def decoding() -> Expected:
    """One token after another, with a cache of keys: one table."""
    queries, keys, values = (numbers(2, HEADS, 6, WIDTH, seed=seed) for seed in range(3))

    class Attention(nn.Module):
        def forward(self, first: int, last: int) -> Tensor:
            return functional.scaled_dot_product_attention(
                queries[:, :, first:last],
                keys[:, :, :last],
                values[:, :, :last],
                is_causal=first == 0,
            )

    attention = Attention()

    def run() -> list[Tensor]:
        return [attention(0, 3), *(attention(last - 1, last) for last in (4, 5, 6))]

    return Expected(run, [softmax_of(queries, keys, causal(6))])


def decoding_that_reads_another_text() -> Expected:
    """One token after another reads all keys of a short text, which a cache keeps."""
    queries, keys = numbers(2, HEADS, 6, WIDTH), numbers(2, HEADS, 4, WIDTH, seed=1)

    class Attention(nn.Module):
        def forward(self, place: int) -> Tensor:
            query = queries[:, :, place, None]
            return functional.scaled_dot_product_attention(query, keys, keys)

    attention = Attention()

    def run() -> list[Tensor]:
        return [attention(place) for place in range(6)]

    return Expected(run, [softmax_of(queries, keys)])


def decoding_with_packed_groups() -> Expected:
    """One token whose heads that share keys are given as so many tokens, as transformers does."""
    queries, keys = numbers(2, HEADS, 4, WIDTH), numbers(2, 2, 4, WIDTH, seed=1)

    class Attention(nn.Module):
        def forward(self, last: int) -> Tensor:
            sides = keys[:, :, :last], keys[:, :, :last]
            if last == 3:
                first = queries[:, :, :3]
                return functional.scaled_dot_product_attention(
                    first, *sides, is_causal=True, enable_gqa=True
                )
            packed = queries[:, :, last - 1].reshape(2, 2, HEADS // 2, WIDTH)
            return functional.scaled_dot_product_attention(packed, *sides)

    attention = Attention()

    def run() -> list[Tensor]:
        return [attention(3), attention(4)]

    return Expected(run, [softmax_of(queries, keys, causal(4))])


def decoding_with_padding(*, added: Any = 0, is_whole: bool = False) -> Expected:
    """The same of texts of which one begins later, with repeated keys first, as transformers does
    where there is a mask; `added` are biases of each head, a whole cache has an empty end.
    """
    queries, keys = numbers(2, HEADS, 6, WIDTH), numbers(2, 2, 6, WIDTH, seed=1)
    starts = torch.tensor([0, 2])[:, None, None, None]
    visible = causal(6) & (torch.arange(6) >= starts) | torch.eye(6, dtype=torch.bool)
    is_each_head = isinstance(added, Tensor)
    table = torch.where(visible, added, -1e30) if is_each_head else visible

    class Attention(nn.Module):
        def forward(self, first: int, last: int) -> Tensor:
            end = 6 if is_whole else last
            sides = functional.pad(keys[:, :, :last], (0, 0, 0, end - last))
            asked, mask = queries[:, :, first:last], table[:, :, first:last, :end]
            if last - first > 1:
                sides = sides.repeat_interleave(2, dim=1)
            else:
                asked = asked.reshape(2, 2, 2, WIDTH)
                mask = mask.reshape(2, 2, 2, -1) if is_each_head else mask
            return functional.scaled_dot_product_attention(asked, sides, sides, attn_mask=mask)

    attention = Attention()

    def run() -> list[Tensor]:
        return [attention(0, 3), *(attention(last - 1, last) for last in (4, 5, 6))]

    return Expected(run, [softmax_of(queries, keys, visible, added)])


def decoding_in_a_whole_cache() -> Expected:
    """The same with a cache that is as long as the text may become, and masks."""
    queries, keys, values = (numbers(2, HEADS, 6, WIDTH, seed=seed) for seed in range(3))
    cache_keys, cache_values = torch.zeros(2, 2, HEADS, 10, WIDTH)

    class Attention(nn.Module):
        def forward(self, first: int, last: int) -> Tensor:
            cache_keys[:, :, first:last] = keys[:, :, first:last]
            cache_values[:, :, first:last] = values[:, :, first:last]
            mask = torch.arange(10)[None] <= torch.arange(first, last)[:, None]
            return functional.scaled_dot_product_attention(
                queries[:, :, first:last], cache_keys, cache_values, attn_mask=mask
            )

    attention = Attention()

    def run() -> list[Tensor]:
        return [attention(0, 3), *(attention(last - 1, last) for last in (4, 5, 6))]

    return Expected(run, [softmax_of(queries, keys, causal(6))])


def traced() -> Expected:
    """A module that torch.jit has traced, in which no Python runs."""
    torch.manual_seed(3)
    model, x = OneHead().eval(), numbers(2, 5, DIM)
    script = torch.jit.trace(model, (x,), check_trace=False)  # type: ignore[no-untyped-call]
    queries, keys = model.query(x).detach()[:, None], model.key(x).detach()[:, None]
    return Expected(partial(script, x), [softmax_of(queries, keys, causal(5))])


def flash_attention() -> Expected:
    """flash-attn's operation: a window, and slopes of ALiBi for the heads."""
    queries, keys, values = (numbers(2, 6, HEADS, WIDTH, seed=seed) for seed in range(3))
    slopes = 2.0 ** -torch.arange(1, HEADS + 1)

    def run() -> Any:
        return torch.ops.flash_attn._flash_attn_forward(
            queries, keys, values, 0.0, 0.3, True, 2, 0, 0.0, slopes, False
        )

    visible = causal(6) & ~causal(6).tril(-3)
    places = torch.arange(6)
    added = -slopes[:, None, None].double() * (places[:, None] - places).abs()
    scaled = queries * 0.3 * sqrt(WIDTH)
    sides = scaled.transpose(1, 2), keys.transpose(1, 2)
    return Expected(run, [softmax_of(*sides, visible, added)])


def flash_attention_after_a_cache() -> Expected:
    """The last query is the last key's."""
    queries = numbers(1, 2, HEADS, WIDTH)
    keys, values = (numbers(1, 5, HEADS, WIDTH, seed=seed) for seed in (1, 2))

    def run() -> Any:
        return torch.ops.flash_attn._flash_attn_forward(
            queries, keys, values, 0.0, WIDTH**-0.5, True, -1, -1, 0.0, None, False
        )

    return Expected(run, [softmax_of(queries.transpose(1, 2), keys.transpose(1, 2), causal(2, 5))])


def packed_texts(run_packed: Callable[..., object]) -> Expected:
    """Texts of 3 and 5 tokens in one row, each causal; the end of the first is empty."""
    queries, keys, values = (numbers(8, HEADS, WIDTH, seed=seed) for seed in range(3))
    starts = torch.tensor([0, 3, 8], dtype=torch.int32)
    weights = torch.zeros(2, HEADS, 5, 5).double()
    for item, (start, end) in enumerate(((0, 3), (3, 8))):
        size = end - start
        q, k = (side[None, start:end].transpose(1, 2) for side in (queries, keys))
        weights[item, :, :size, :size] = softmax_of(q, k, causal(size))[0]
    return Expected(partial(run_packed, queries, keys, values, starts), [weights])


def run_flash_varlen(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Any:
    scale, longest = WIDTH**-0.5, 5
    return torch.ops.flash_attn._flash_attn_varlen_forward(
        q, k, v, starts, starts, longest, longest, 0.0, scale, True
    )


def run_xformers(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Any:
    forward = torch.ops.xformers.efficient_attention_forward_cutlass
    return forward(q[None], k[None], v[None], None, starts, starts, 5, 0.0, True, 2)


def autocast(*, need_weights: bool) -> Expected:
    """A module in numbers of 16 bits."""
    module, x = module_of(batch_first=True).eval(), numbers(2, 5, DIM)

    def run() -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return module(x, x, x, need_weights=need_weights)[0]

    return Expected(run, [weights_of_module(module, x, x)], tolerance=2e-2)


PADDING = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]).bool()
PROGRAMS: dict[str, Callable[[], Expected]] = {
    "a module that returns its weights": partial(of_module, need_weights=True),
    "a module that does not": partial(of_module, need_weights=False),
    "a module over other tokens": partial(of_module, need_weights=False, crossed=True),
    "a module with tokens first": partial(of_module, need_weights=True, batch_first=False),
    "padding, weights returned": partial(of_module, need_weights=True, key_padding_mask=PADDING),
    "padding": partial(of_module, need_weights=False, key_padding_mask=PADDING),
    "a boolean mask": partial(of_module, need_weights=False, attn_mask=~causal(5)),
    "a mask of numbers": partial(
        of_module, need_weights=True, attn_mask=torch.zeros(5, 5).masked_fill(~causal(5), NEGATIVE)
    ),
    "three heads and seven keys": odd_heads,
    "a module without a batch": without_batch,
    "an encoder in training": partial(encoder, training=True),
    "an encoder with a fast path": partial(encoder, training=False),
    "encoder and decoder": whole_transformer,
    "by its name, causal": partial(by_name, is_causal=True),
    "by its name, with dropout": partial(by_name, dropout_p=0.4),
    "by its name, grouped keys": partial(by_name, enable_gqa=True, is_causal=True),
    "by its name, a mask of numbers": partial(by_name, attn_mask=numbers(5, 5, seed=7)),
    "a head by hand": hand_written_head,
    "a single head of a module that counts several": partial(hand_written_head, heads=HEADS),
    "einsum": einsum,
    "einsum, values that heads share": shared_values,
    "einsum, heads after queries": partial(in_order, "bqhk", -1),
    "einsum, heads last": partial(in_order, "bqkh", 2),
    "einsum, items after keys": partial(in_order, "qkbh", 1),
    "keys before queries": keys_first,
    "heads before items": heads_before_items,
    "groups of heads in five dimensions": grouped_in_five_dimensions,
    "blocks in five dimensions": partial(whole_in_five_dimensions, 3, True),
    "blocks in five dimensions, a mask for each item": partial(whole_in_five_dimensions, 3, False),
    "one block in five dimensions": partial(whole_in_five_dimensions, 1, True),
    "scores of positions before those of keys": position_scores_first,
    "values before weights": values_first,
    "items and heads in one dimension": partial(one_dimension_of_heads, split_items_first),
    "items and heads, with their number": partial(
        one_dimension_of_heads, split_items_first, is_counted=True
    ),
    "heads and items in one dimension": partial(one_dimension_of_heads, split_heads_first),
    "heads and items, with their number": partial(
        one_dimension_of_heads, split_heads_first, is_counted=True
    ),
    "heads and items, stacked": partial(one_dimension_of_heads, split_stacked),
    "heads and items, by its name": partial(
        one_dimension_of_heads, split_heads_first, functional.scaled_dot_product_attention
    ),
    "tokens before items and heads": partial(one_dimension_of_heads, split_tokens_first),
    "heads and items, turned by position": rotated_heads,
    "heads and items of which nothing is known": untold_heads,
    "heads split before a product": shared_projection,
    "positions and a soft cap": with_positions_and_cap,
    "one learned query": pooling,
    "tokens below each other": pooling_over_the_first_dimension,
    "additive scores": additive,
    "flex_attention": flex,
    "a router beside it": router,
    "a checkpointed layer": partial(recomputed, reentrant=False),
    "a layer checkpointed the old way": partial(recomputed, reentrant=True),
    "decoding with a cache": decoding,
    "decoding with a whole cache": decoding_in_a_whole_cache,
    "decoding with packed groups": decoding_with_packed_groups,
    "decoding that reads another text": decoding_that_reads_another_text,
    "decoding with padding": decoding_with_padding,
    "decoding with padding and a whole cache": partial(decoding_with_padding, is_whole=True),
    "decoding with padding and biases": partial(
        decoding_with_padding, added=numbers(1, HEADS, 6, 6, seed=5), is_whole=True
    ),
    "a traced module": traced,
    "autocast, weights returned": partial(autocast, need_weights=True),
    "autocast": partial(autocast, need_weights=False),
    "flash-attn": flash_attention,
    "flash-attn after a cache": flash_attention_after_a_cache,
    "flash-attn, packed texts": partial(packed_texts, run_flash_varlen),
    "xformers, packed texts": partial(packed_texts, run_xformers),
}
