"""The models that come with attnviz, trained again: `make models` writes them where they are read.

The same build on the same kind of processor makes the same bytes; another may round another way.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

import torch

from attnviz.learning.choices import Choices
from attnviz.learning.lookup import task_of
from attnviz.learning.training import learn
from attnviz.machine.atomic_files import AllOrNothing
from attnviz.traces.models import folder
from attnviz.traces.models.model import Model
from attnviz.traces.models.names import MODELS_FOLDER

MAX_MODEL_BYTES = 300_000  # bytes of a model


@dataclass(frozen=True)
class ModelRecipe:
    """How one is made: longer than until all is right, for by then its heads do more plainly so."""

    steps: int
    seed: int = 42


MODEL_RECIPES = {
    "reverse": ModelRecipe(steps=100),
    "sort": ModelRecipe(steps=900),
    "induction": ModelRecipe(steps=400),
    "brackets": ModelRecipe(steps=1500),
    "agreement": ModelRecipe(steps=2000),
    "pronouns": ModelRecipe(steps=2000),
}


def train_shipped_model(name: str) -> Model:
    """The model of a task, which says with what it was made."""
    task, recipe = task_of(name), MODEL_RECIPES[name]
    settings = replace(task.settings, seed=recipe.seed)
    model = learn(task, settings, Choices(steps=recipe.steps, until=math.inf)).model
    return replace(model, facts={**model.facts, "made_with": build_information()})


def build_information() -> dict[str, str]:
    """What its last digits depend on, beside the processor itself."""
    return {"torch": torch.__version__, "instructions": torch.backends.cpu.get_cpu_capability()}


def write_shipped_model(name: str) -> int:
    """Its files, in the package; how many bytes they are."""
    contents = folder.model_files(train_shipped_model(name))
    size = sum(map(len, contents.values()))
    assert size <= MAX_MODEL_BYTES, f"{name} is {size:,} bytes"
    with AllOrNothing() as writer:
        for file, content in contents.items():
            writer.write(MODELS_FOLDER / name / file, [content])
    return size


if __name__ == "__main__":
    for each in sys.argv[1:] or MODEL_RECIPES:
        print(f"{each}: {write_shipped_model(each):,} bytes", flush=True)
