"""Hearing: notices the attention in what a program computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode, _get_current_function_mode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils.weak import WeakIdKeyDictionary

from attnviz.wings.listen.attended import Attended
from attnviz.wings.listen.fused import (
    FUSED,
    KERNEL_NAMES,
    PACKAGES,
    SDPA,
    SDPA_ARGUMENTS,
    attended_by_name,
    attended_by_package,
    find_part,
)
from attnviz.wings.listen.softmaxes import (
    CHANGES,
    COPIES,
    LEARNED_KEYS,
    MOVES,
    PICKS,
    PRODUCTS,
    SPLITS,
    Lineage,
    Mixture,
    Move,
    Product,
    Shares,
    Softmax,
    find_order,
    keeps_order,
    move_again,
    plain_name,
    read_softmax,
)

SOFTMAXES = ("_softmax", "_safe_softmax", "_log_softmax")
NUMBER_READERS = ("item", "_local_scalar_dense")
RESHAPES = ("view", "_unsafe_view", "_reshape_alias")
PRODUCTS_EXAMINED = 3  # of each module, for shares that no softmax made
HEARD = "heard"
NOT_MULTIPLIED = "no product of it with a matrix was seen"
OF_A_PARAMETER = "its input is a parameter"
BY_A_PARAMETER = "it is multiplied with a parameter"
LINEAR = "as in linear attention, its input is no product of queries and keys"


class Operation(NamedTuple):
    """One operation of the program."""

    func: Any
    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    result: Any


class Hearing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows what a program computes, and gives each attention to `keep`."""

    def __init__(
        self,
        module_name: Callable[[], str],
        wants: Callable[[str], bool],
        keep: Callable[[str, Attended], object],
        forget: Callable[[str], object],
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.module_name, self.wants, self.keep, self.forget = module_name, wants, keep, forget
        self.lineages: Any = WeakIdKeyDictionary()
        self.learned: Any = WeakIdKeyDictionary()  # made of a parameter alone
        self.origins: Any = WeakIdKeyDictionary()  # of copies: the storage that was copied
        self.fates: dict[tuple[str, tuple[int, ...]], str] = {}  # of softmaxes, by module and shape
        self.orders: dict[str, Tensor | None] = {}  # of heads, by how queries or values were made
        self.products: Counter[str] = Counter()
        self.other_shares: dict[str, None] = {}  # modules that multiply shares of another origin
        self.unread: dict[str, None] = {}  # operations of packages, with arguments of other kinds
        self.heard: WeakSet[Softmax] = WeakSet()
        self.is_muted = False  # while a whole attention computes, which was heard by its name

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs, name = kwargs or {}, plain_name(func)
        if name in NUMBER_READERS and isinstance(args[0], float | int):
            return args[0]  # a constant of a traced module, which comes here as a number
        if torch.is_inference_mode_enabled() and FUSED not in name and func._can_decompose():
            with self:  # its parts, which this mode would see otherwise
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        follow = follower_of(func)
        if follow is not None and args and not self.is_muted and not in_backward_pass():
            follow(self, Operation(func, name, args, kwargs, result))
        return result

    # -- what is followed

    def is_learned(self, tensor: Tensor) -> bool:
        return isinstance(tensor, nn.Parameter) or tensor in self.learned

    def note_learned(self, tensors: Sequence[Tensor], output: Tensor) -> None:
        """Note a result that is made of a parameter alone, as one divided by its norm is."""
        is_learned = [self.is_learned(each) for each in tensors]
        if not any(is_learned):
            return
        sizes = [0 if 0 in each.stride() else each.numel() for each in tensors]
        least = max(size for size, learned in zip(sizes, is_learned, strict=True) if learned)
        others = (size for size, learned in zip(sizes, is_learned, strict=True) if not learned)
        if least == output.numel() > max(others, default=0):
            self.learned[output] = True

    def note_splits(self, operation: Operation) -> None:
        for place, part in enumerate(operation.result):
            pick = partial_split(operation.func, place)
            name = f"{operation.name} {place}"
            self.note_move(operation._replace(func=pick, name=name, result=part))

    def note_move(self, operation: Operation) -> None:
        func, name, (source, *rest), kwargs, moved = operation
        if self.is_learned(source):
            self.learned[moved] = True
        if name in COPIES or source in self.origins:
            self.origins[moved] = self.origin_of(source)
        lineage = self.lineages.get(source)
        if lineage is not None and name in PICKS and moved.shape == source.shape:
            self.lineages[moved] = lineage  # all is picked, as torch.matmul does
        elif lineage is not None:
            inputs = rest, kwargs
            move = Move(name, lambda tensor: repeat_move(func, tensor, rest, kwargs), inputs)
            self.lineages[moved] = replace(lineage, moves=(*lineage.moves, move))

    def note_joined(self, operation: Operation) -> None:
        """Note parts of one product that are joined again, as heads that become further items."""
        func, name, (parts, *rest), kwargs, joined = operation
        products: list[Any] = [self.lineages.get(part) for part in parts]
        sides = {isinstance(each, Product) and (id(each.left), id(each.right)) for each in products}
        if len(sides) > 1 or False in sides:
            return

        def join(whole: Tensor) -> Any:
            return func([move_again(whole, each.moves) for each in products], *rest, **kwargs)

        inputs = [[(move.name, move.inputs) for move in each.moves] for each in products]
        move = Move(name, join, (inputs, rest, kwargs))
        self.lineages[joined] = replace(products[0], moves=(move,))

    def note_change(self, operation: Operation) -> None:
        result = operation.result
        output = result[0] if isinstance(result, tuple) else result
        tensors = [each for each in operation.args if isinstance(each, Tensor)]
        self.note_learned(tensors, output)
        sources = [each for each in tensors if each in self.lineages]
        if not sources:
            return
        # Of a sum of products, that with the keys of the same text: others are of positions.
        source = min(sources, key=lambda each: getattr(self.lineages[each], "crossed", False))
        lineage: Lineage | None = self.lineages[source]
        if output.shape != source.shape:
            lineage = None
        elif isinstance(lineage, Product):
            lineage = lineage.changed_by(operation.name, source, operation.args, operation.kwargs)
        elif lineage is not None and drops_some(operation.name, source, operation.args):
            lineage = replace(lineage, dropout=True)
        elif lineage is not None and operation.name != "nan_to_num":
            same = output is not source and torch.allclose(output, source, equal_nan=True)
            lineage = lineage if same else replace(lineage, changed=True)
        if lineage is not None:
            self.lineages[output] = lineage
        else:
            self.lineages.pop(output, None)

    def note_softmax(self, operation: Operation) -> None:
        (scores, dim, *_), weights = operation.args, operation.result
        lineage = self.lineages.get(scores)
        product = lineage if isinstance(lineage, Product) else None
        module, shape = self.module_name(), tuple(weights.shape)
        shares = Shares(softmax=Softmax(scores, weights, product, module, shape))
        if self.is_learned(scores):
            self.note_fate(shares.softmax, OF_A_PARAMETER)
            return
        self.note_fate(shares.softmax, NOT_MULTIPLIED)
        is_last = dim in (-1, scores.ndim - 1)
        self.lineages[weights] = shares if is_last else shares.turned(dim, -1)

    def note_fate(self, softmax: Softmax, fate: str) -> None:
        """Note why a softmax is no attention, or that it was heard, once for its module."""
        place = softmax.module, softmax.shape
        if fate == NOT_MULTIPLIED:
            self.fates.setdefault(place, fate)
        elif self.fates.get(place) != HEARD:
            self.fates[place] = fate

    def note_product(self, operation: Operation) -> None:
        first = PRODUCTS[operation.name]
        sides = operation.args[first : first + 2]
        left, right, result = (
            each if each.ndim == 3 else each[None] for each in (*sides, operation.result)
        )
        learned = self.is_learned(sides[0]), self.is_learned(sides[1])
        product = Product(left, right, learned, self.origin_of(left))
        if isinstance(shares := self.lineages.get(sides[0]), Shares):
            is_pooled = self.hear_softmax(shares, Mixture(left, right, result), sides[1])
        elif isinstance(shares := self.lineages.get(sides[1]), Shares):
            mirrored = replace(shares, moves=(*shares.moves, Move("transpose", lambda t: t.mT)))
            mixture = Mixture(right.mT, left.mT, result.mT)
            is_pooled = self.hear_softmax(mirrored, mixture, sides[0])
        else:
            if not any(learned):
                self.note_other_shares(left)
            factor = float(operation.kwargs.get("alpha", 1))
            crossed = self.have_other_sources(*sides)
            self.lineages[operation.result] = replace(product, crossed=crossed, factor=factor)
            return
        if is_pooled:
            self.lineages[operation.result] = replace(product, pooled_by=shares.softmax)

    def origin_of(self, tensor: Tensor) -> int:
        """Return which memory a tensor's numbers are in, or were copied from."""
        return int(self.origins.get(tensor) or memory_of(tensor))

    def have_other_sources(self, queries: Tensor, keys: Tensor) -> bool:
        """Return whether queries and keys are known to be products of different vectors."""
        products = [self.lineages.get(each) for each in (queries, keys)]
        inputs = {
            each.origin if each.learned[1] else 0 for each in products if isinstance(each, Product)
        }
        return len(inputs) == 2 and 0 not in inputs

    def note_other_shares(self, left: Tensor) -> None:
        """Note that the rows of an operand sum to 1, though no softmax made them."""
        module = self.module_name()
        if left.shape[-1] < 2 or self.products[module] >= PRODUCTS_EXAMINED:
            return
        self.products[module] += 1
        sums = left.detach().float().sum(-1)
        if bool(((sums - 1).abs() < 1e-3).all()) and bool((left >= 0).all()):
            self.other_shares[module] = None

    # -- what is heard

    def hear_operation(self, operation: Operation) -> None:
        func, name, args, kwargs, result = operation
        names = [argument.name for argument in func._schema.arguments]
        arguments = dict(zip(names, args, strict=False)) | dict(kwargs)
        if FUSED in name:
            self.hear_whole(SDPA, arguments, result)
        else:
            self.hear_whole(str(func._schema.name), arguments, result, attended_by_package)

    def hear_whole(
        self, way: str, arguments: Mapping[str, Any], result: Any, read: Any = attended_by_name
    ) -> None:
        """Hear an operation on queries, keys and values, by the names of its arguments."""
        module = self.module_name()
        queries, keys = find_part(arguments, "queries"), find_part(arguments, "keys")
        if in_backward_pass() or queries is None or not self.wants(module):
            return
        attended = read(arguments, result, way)
        if attended is None:
            self.unread[f"{way} in {module}"] = None
            return
        attended = replace(attended, crossed=self.have_other_sources(queries, keys))
        items, heads, *_ = attended.shape
        is_known = queries.ndim == 4 or attended.values.shape[1] < heads
        sides = () if is_known else (queries, find_part(arguments, "values"))
        order = self.order_of(sides, items * heads)
        self.keep(module, attended if order is None else attended.with_heads(order))

    def hear_softmax(self, shares: Shares, mixture: Mixture, values: Tensor) -> bool:
        """Keep a softmax whose result is multiplied with values, if it is an attention; return
        whether it is one of whose weights no queries and keys are known.
        """
        softmax, source = shares.softmax, self.lineages.get(values)
        if softmax in self.heard or not self.wants(softmax.module):
            return False  # a softmax that is used twice is one attention
        reading = read_softmax(shares, mixture) if not self.is_learned(values) else BY_A_PARAMETER
        pooled_by = source.pooled_by if isinstance(source, Product) else None
        if pooled_by is not None and (softmax.product is None or reading == LEARNED_KEYS):
            # Features of queries times the values that features of keys have summed: none attends.
            reading = LINEAR
            self.forget(pooled_by.module)
            self.fates[pooled_by.module, pooled_by.shape] = LINEAR
        if isinstance(reading, str):
            self.note_fate(softmax, reading)
            return False
        attended, shape = reading
        self.heard.add(softmax)
        self.note_fate(softmax, HEARD)
        # Queries that were found are in the order of the scores; values are if nothing was moved.
        product = softmax.product if attended.queries is not None else None
        sides = [] if product is None else [product.left]
        if keeps_order(shares.moves) and len(mixture.values) == len(attended.values):
            sides.append(mixture.values)
        order = self.order_of(sides, len(attended.values))
        whole = attended.with_items(shape) if order is None else attended.with_heads(order)
        self.keep(softmax.module, whole)
        return not softmax.compares

    def order_of(self, sides: Sequence[Tensor], count: int) -> Tensor | None:
        """Return which of so many matrices each head of each item is, if one of these sides tells.
        That is worked out once for sides that were computed alike, as all their numbers are moved.
        """
        for side in sides:
            product = self.lineages.get(side)
            if isinstance(product, Product):
                facts = product.shape, product.right.stride(), product.learned, side.shape, count
                layout = f"{facts} {[(move.name, move.inputs) for move in product.moves]}"
                if layout not in self.orders:
                    self.orders[layout] = find_order(product, side, count)
                if (order := self.orders[layout]) is not None:
                    return order
        return None


class HearingSwitch(TorchFunctionMode):
    """Begins and ends hearing in its thread. While it is on, scaled_dot_product_attention is heard
    by its name, before torch takes it apart: its parts may fold heads into tokens.
    """

    def __init__(self, hearing: Hearing) -> None:
        super().__init__()
        self.hearing = hearing
        self.is_on = False

    def turn(self, on: bool) -> None:
        """Begin or end hearing. Where the program has begun a mode of its own since, hearing ends
        later: modes end in the order of a stack.
        """
        function_mode: Any = _get_current_function_mode()  # type: ignore[no-untyped-call]
        is_innermost = (function_mode, _get_current_dispatch_mode()) == (self, self.hearing)
        modes: tuple[Any, Any] = (self.hearing, self)
        if on and not self.is_on:
            for mode in modes:
                mode.__enter__()
            self.is_on = True
        elif not on and is_innermost:
            for mode in reversed(modes):
                mode.__exit__(None, None, None)
            self.is_on = False

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        is_whole = func is functional.scaled_dot_product_attention and not self.hearing.is_muted
        if not is_whole or is_transformed((*args, *kwargs.values())[0]):
            return func(*args, **kwargs)
        self.hearing.is_muted = True
        try:
            result = func(*args, **kwargs)
        finally:
            self.hearing.is_muted = False
        arguments = dict(zip(SDPA_ARGUMENTS, args, strict=False)) | dict(kwargs)
        self.hearing.hear_whole(SDPA, arguments, result)
        return result


def is_transformed(tensor: Any) -> bool:
    """Return whether a tensor stands for others, as inside torch.vmap, and cannot be kept."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def memory_of(tensor: Tensor) -> int:
    """Return where a tensor's numbers are, the same for its parts; of a sparse one, its id."""
    is_dense = tensor.layout == torch.strided
    return tensor.untyped_storage().data_ptr() if is_dense else id(tensor)


def in_backward_pass() -> bool:
    """Return whether a backward pass computes, which may compute a layer again."""
    return torch._C._current_graph_task_id() != -1


@cache
def follower_of(func: Any) -> Callable[[Hearing, Operation], None] | None:
    """Return what notes an operation of this kind; None if nothing does."""
    package, name = func._schema.name.split("::")[0], plain_name(func)
    is_whole = FUSED in name or package.startswith(PACKAGES)
    return Hearing.hear_operation if is_whole else FOLLOWERS.get(name)


FOLLOWERS: Mapping[str, Callable[[Hearing, Operation], None]] = {
    **dict.fromkeys(KERNEL_NAMES, Hearing.hear_operation),
    **dict.fromkeys(SOFTMAXES, Hearing.note_softmax),
    **dict.fromkeys(PRODUCTS, Hearing.note_product),
    **dict.fromkeys(SPLITS, Hearing.note_splits),
    **dict.fromkeys(MOVES, Hearing.note_move),
    **dict.fromkeys(("cat", "stack"), Hearing.note_joined),
    **dict.fromkeys(CHANGES, Hearing.note_change),
}


def partial_split(func: Any, place: int) -> Callable[..., Any]:
    """Return a function that gives one of the parts into which `func` splits a tensor."""
    return lambda *inputs, **keywords: func(*inputs, **keywords)[place]


def repeat_move(func: Any, moved: Tensor, rest: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """Return another tensor after a move; where the program's could be viewed, it may need a
    copy.
    """
    if isinstance(func, torch._ops.OpOverload) and plain_name(func) in RESHAPES:
        return moved.reshape(rest[0])
    result: Tensor = func(moved, *rest, **kwargs)
    return result


def drops_some(name: str, shares: Tensor, args: Sequence[Any]) -> bool:
    """Return whether an operation is dropout: by its name, or by factors of 0 and another one."""
    if name != "mul":
        return name in ("native_dropout", "dropout")
    factors = args[1] if args[0] is shares else args[0]
    if not isinstance(factors, Tensor) or factors.shape != shares.shape:
        return False
    return bool(((factors == 0) | (factors == factors.max())).all())
