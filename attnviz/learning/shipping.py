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
from attnviz.machine.writing import AllOrNothing
from attnviz.traces.models import folder
from attnviz.traces.models.model import Model
from attnviz.traces.models.names import HERE

LARGEST = 300_000  # bytes of a model


@dataclass(frozen=True)
class Making:
    """How one is made: longer than until all is right, for by then its heads do more plainly so."""

    steps: int
    seed: int = 42


SHIPPED = {
    "reverse": Making(steps=100),
    "sort": Making(steps=900),
    "induction": Making(steps=400),
    "brackets": Making(steps=1500),
    "agreement": Making(steps=2000),
    "pronouns": Making(steps=2000),
}


def trained(name: str) -> Model:
    """The model of a task, which says with what it was made."""
    task, making = task_of(name), SHIPPED[name]
    settings = replace(task.settings, seed=making.seed)
    model = learn(task, settings, Choices(steps=making.steps, until=math.inf)).model
    return replace(model, facts={**model.facts, "made_with": made_with()})


def made_with() -> dict[str, str]:
    """What its last digits depend on, beside the processor itself."""
    return {
        "torch": torch.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


def write(name: str) -> int:
    """Its files, in the package; how many bytes they are."""
    contents = folder.contents(trained(name))
    size = sum(map(len, contents.values()))
    assert size <= LARGEST, f"{name} is {size:,} bytes"
    with AllOrNothing() as written:
        for file, content in contents.items():
            written.write(HERE / name / file, [content])
    return size


if __name__ == "__main__":
    for each in sys.argv[1:] or SHIPPED:
        print(f"{each}: {write(each):,} bytes", flush=True)
