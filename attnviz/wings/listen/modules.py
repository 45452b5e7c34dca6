"""ModuleNames: which module of a program runs at the moment, by the name it has in its model."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

FOREIGN_FOLDERS = tuple(
    str(Path(folder).resolve()) for folder in (Path(torch.__file__).parent, Path(__file__).parent)
)
HEAD_COUNT_NAMES = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads")
SHARING_COUNT_NAMES = ("num_key_value_groups",)  # transformers': heads that share keys
COMPILED_PREFIX = "_orig_mod."


class ModuleNames:
    """The modules that run, by hooks for all modules; of the thread that made it."""

    def __init__(
        self,
        model: nn.Module | None,
        begin_round: Callable[[nn.Module, Any], bool],
        end_round: Callable[[nn.Module], None],
    ) -> None:
        """Take what is called when an outermost module begins, which returns whether the modules
        inside have to be named, and when it ends.
        """
        self.model, self.begin_round, self.end_round = model, begin_round, end_round
        self.thread = 0  # in which it follows
        self.has_other_threads = False
        self.running: list[nn.Module] = []
        self.names: dict[int, str] = {}
        self.roots: dict[int, nn.Module] = {}  # kept: the id of one that is gone may come again
        self.root_names: dict[int, str] = {}
        self.attending: set[str] = set()  # the models that attend
        self._classes: Counter[str] = Counter()
        self._names_inside = True
        self.parts = set() if model is None else {id(module) for module in model.modules()}
        if model is not None:
            self._name_modules(model)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Have every module of the process say when it begins and ends."""
        self.thread = threading.get_ident()
        begins = register_module_forward_pre_hook(self._enter)
        ends = register_module_forward_hook(self._leave, always_call=True)
        yield
        begins.remove()
        ends.remove()

    @property
    def is_inside(self) -> bool:
        """Whether the model runs that is listened to, or any."""
        return self.model is None or any(id(module) in self.parts for module in self.running)

    def current(self) -> str:
        """Return the name of the module that runs; outside modules, the function that computes."""
        if not self.running:
            return calling_function()
        return self.names.get(id(self.running[-1]), type(self.running[-1]).__name__)

    def count(self, names: Sequence[str] = HEAD_COUNT_NAMES) -> int:
        """Return how many heads the module that runs says it has, or what else has these names; 1
        if it says nothing. Modules of transformers leave some of it to their config.
        """
        module = self.running[-1] if self.running else None
        holders = module, getattr(module, "config", None)
        counts = (getattr(holder, name, None) for holder in holders for name in names)
        return next((count for count in counts if type(count) is int), 1)

    def root_of(self, name: str) -> str:
        """Return the name of the model that a module is a part of; "" outside of models."""
        root = name.partition(".")[0]
        return root if root in self.root_names.values() else ""

    def inside(self, name: str) -> str:
        """Return the name that a module has in its model."""
        return name.removeprefix(f"{self.root_of(name)}.")

    def short(self, name: str) -> str:
        """Return a name without its model's, if one model alone attends."""
        return self.inside(name) if len(self.attending) < 2 else name

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        if threading.get_ident() != self.thread:
            self.has_other_threads = True
            return
        if not self.running:
            self._name_root(module)
            self._names_inside = self.begin_round(module, inputs)
        elif not self._names_inside:
            return
        elif id(module) not in self.names:
            self._name_missing(module)
        self.running.append(module)

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if threading.get_ident() != self.thread or module not in self.running:
            return
        while self.running.pop() is not module:
            pass
        if not self.running:
            self.end_round(module)

    def _name_root(self, module: nn.Module) -> None:
        if id(module) in self.roots or (self.model is not None and id(module) in self.names):
            return
        kind = class_name(module)
        self._classes[kind] += 1
        number = self._classes[kind]
        self.roots[id(module)] = module
        self.root_names[id(module)] = kind if number == 1 else f"{kind}#{number}"
        self._name_modules(module)

    def _name_modules(self, root: nn.Module) -> None:
        prefix = self.root_names.get(id(root), "")
        for name, module in root.named_modules():
            path = (name + ".").replace(COMPILED_PREFIX, "").removesuffix(".")
            own = ".".join(filter(None, (prefix, path))) or class_name(root)
            self.names.setdefault(id(module), own)

    def _name_missing(self, module: nn.Module) -> None:
        """Name a module that none of its outer ones has as a part, as one in a plain list."""
        self._name_modules(self.running[0])
        if id(module) not in self.names:
            around = self.running[-1]
            outer = "" if around is self.model else self.names.get(id(around), "")
            self.names[id(module)] = ".".join(filter(None, (outer, type(module).__name__)))


def class_name(module: nn.Module) -> str:
    """Return the name of a module's class; of a compiled one, of that which was compiled."""
    return type(getattr(module, "_orig_mod", module)).__name__


def calling_function() -> str:
    """Return the name of the innermost function of the program that is running."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if not frame.f_code.co_filename.startswith((*FOREIGN_FOLDERS, "<")):
            break
        frame = frame.f_back
    name = str(getattr(frame.f_code, "co_qualname", frame.f_code.co_name))  # since Python 3.11
    return "program" if name == "<module>" else name.replace(".<locals>", "")
