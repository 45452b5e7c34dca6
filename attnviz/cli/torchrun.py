"""One run in several processes of torchrun: the first one writes, all end together.

torchrun's variables tell each process its number (RANK), how many there are (WORLD_SIZE), and where
its store is, a table that all of them can write to. Through it they tell each other of errors.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from attnviz.cli.app import COMMANDS, print_error, run_command_line
from attnviz.cli.messages import print_message
from attnviz.errors import AttnvizError
from attnviz.machine import environment, exit_handling
from attnviz.traces.trained.model_location import is_trained
from attnviz.version import __version__
from attnviz.wording.surfaces import Surface, naming_options, opt, speaking
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from torch.distributed import Store

    from attnviz.traces.settings import Settings

PRINTING_COMMANDS = ("help", "schema", "tokenizers", "variants", "version")  # with nothing to share
COMMANDS_OF_EACH_PROCESS = ("listen",)  # whose program knows of the others by itself
HELP_OPTIONS = {"--help", "-h", "--help-all", "--version"}
MAX_PORT = 2**16 - 1
START_LIMIT = timedelta(minutes=5)  # for processes to start and to read the text
ANSWER_LIMIT = timedelta(seconds=3)  # for the first process to print another's error
LOCK_SECONDS = 1.0  # until which a signal waits for an error that is being printed
EXPLAINING_SECONDS, LOOKING_SECONDS = 2.0, 0.1  # for torchrun to notice a process that has ended
SECONDS_PER_BEAT = 0.5
MISSED_BEATS = 60  # after which a process is taken for dead; one that is stopped counts none
TORCHRUN_HINT = "start attnviz with torchrun, or unset WORLD_SIZE"
ALONE_HINT = "start one process, without torchrun"
Result = TypeVar("Result")


class Place(NamedTuple):
    """Which of the processes this is, on which machine, and where the store is."""

    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    machine: str
    address: str
    port: int

    @property
    def name(self) -> str:
        """`process 1 of 2`."""
        return f"process {self.rank + 1} of {self.ranks}"


def read_place(variables: Mapping[str, str]) -> Place:
    """Return the place of this process, from torchrun's variables.

    Refuses variables that are missing, are no numbers, or contradict each other.

    >>> read_place({"WORLD_SIZE": "1"}).name
    'process 1 of 1'
    """

    def number(name: str, default: str = "") -> int:
        """Return the value of a variable, which must be a whole number."""
        value = variables.get(name, default)
        if not value and name != "WORLD_SIZE":
            raise AttnvizError(f"WORLD_SIZE is set, and {name} is not", TORCHRUN_HINT)
        if not (value.isascii() and value.isdigit() and len(value) < 10):
            raise AttnvizError(f"{name} is '{value}', and must be a whole number", TORCHRUN_HINT)
        return int(value)

    ranks = number("WORLD_SIZE")
    if ranks == 0:
        raise AttnvizError("WORLD_SIZE is 0, and must be at least 1", TORCHRUN_HINT)
    if ranks == 1:
        return Place(0, 1, 0, 1, "", "", 0)
    rank = number("RANK")
    local_ranks = number("LOCAL_WORLD_SIZE", "1")
    local_rank = number("LOCAL_RANK", "0" if local_ranks == 1 else "")
    bounds = (
        ("RANK", rank, "less than", "WORLD_SIZE", ranks - 1),
        ("LOCAL_RANK", local_rank, "less than", "LOCAL_WORLD_SIZE", local_ranks - 1),
        ("LOCAL_WORLD_SIZE", local_ranks, "at most", "WORLD_SIZE", ranks),
    )
    for name, value, relation, bound_name, most in bounds:
        if value > most:
            bound = most + (relation == "less than")
            raise AttnvizError(
                f"{name} is {value}, and must be {relation} {bound_name}, which is {bound}",
                TORCHRUN_HINT,
            )
    address, port = variables.get("MASTER_ADDR", ""), number("MASTER_PORT")
    if not 0 < port <= MAX_PORT:
        problem = f"MASTER_PORT is {port}, and must be from 1 to {MAX_PORT}"
        raise AttnvizError(problem, TORCHRUN_HINT)
    if not address:
        raise AttnvizError("WORLD_SIZE is set, and MASTER_ADDR is not", TORCHRUN_HINT)
    machine = variables.get("GROUP_RANK", socket.gethostname())
    return Place(rank, ranks, local_rank, local_ranks, machine, address, port)


@speaking(Surface.COMMAND_LINE)
def run_process() -> int:
    """Run the command line as one of several processes, and return the exit status.

    Only `attnviz run` is shared; help and lists are printed once, other commands are refused.
    """
    words, is_first = sys.argv[1:], environment.is_first_process()
    if not words or words[0] in PRINTING_COMMANDS or HELP_OPTIONS & {*words}:
        return run_command_line() if is_first else 0
    if words[0] in COMMANDS_OF_EACH_PROCESS:
        return run_command_line()
    try:
        place = read_place(os.environ)
    except AttnvizError as error:
        return print_error(str(error), error.hint)
    if place.ranks == 1:
        return run_command_line()
    command = words[0] if words[0] in COMMANDS else "run"
    subject = "" if command == "run" else f"attnviz {command} works in"
    if any(word.partition("=")[0] == "--trace" for word in words):
        subject = "a saved trace is shown by"
    if subject:
        problem = f"{subject} one process, and torchrun has started {place.ranks}"
        return print_error(problem, ALONE_HINT) if is_first else 2
    os.environ["PAGER"] = "cat"  # a pager would need a terminal that torchrun does not pass on
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # or torch prints of each connection
    try:
        shared = SharedRun.connect(place)
    except AttnvizError as error:
        return print_error(str(error), error.hint)
    return shared.run()


@dataclass(eq=False)
class SharedRun:
    """The processes of one run, which end together.

    Keys of the store: `ends`, how many have begun to end before the work was done; `error`, what
    the first of them has to say; `printed`, once that is printed; of each process `pid`, `work`
    (what it computes) and `beats`, how often it has been heard of.
    """

    place: Place
    store: Store
    waiting_store: Store  # the same, for calls that wait
    is_done: bool = False  # whether there is nothing to share any more
    is_ending: bool = False  # whether this process ends before that
    is_printed: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)  # of printing and ending

    @classmethod
    def connect(cls, place: Place) -> SharedRun:
        """Connect to the store. Refuses to wait for ever for a process that serves it."""
        from torch.distributed import PrefixStore, TCPStore

        has_server = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")

        def client(*, is_server: bool) -> Store:
            """Return a connection to the store: a call that waits blocks others on the same one."""
            store = TCPStore(
                place.address,
                place.port,
                place.ranks,
                is_master=is_server,
                timeout=START_LIMIT,
                wait_for_workers=False,
            )
            return PrefixStore(f"attnviz/{attempt}", store)

        try:
            is_server = not has_server and not place.rank
            store = _interruptible(lambda: client(is_server=is_server))
            waiting_store = _interruptible(lambda: client(is_server=False))
        except (RuntimeError, ValueError, OverflowError):  # of torch, or for an odd address
            raise AttnvizError(
                f"{place.name} cannot reach the others at {place.address}, port {place.port}",
                TORCHRUN_HINT,
            ) from None
        shared = cls(place, store, waiting_store)
        shared.store.set(f"pid/{place.rank}", f"{place.machine} {os.getpid()}")
        return shared

    def run(self) -> int:
        """Run the command line; processes other than the first are silent."""
        if self.place.rank:
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
        threading.Thread(target=self._watch, daemon=True).start()
        token = _current_run.set(self)
        try:
            with exit_handling.undo_on_signal(self._end_by_signal):
                return run_command_line(report_error=self.report_error)
        except Exception as error:  # a bug, which the other processes would wait for
            if not self._has_ended():
                traceback.print_exc(file=sys.__stderr__)
            return self.report_error(
                f"{self.place.name} failed: {type(error).__name__}: {error}",
                "this is a fault of attnviz: please report it with the lines above",
            )
        finally:
            _current_run.reset(token)

    def report_error(self, problem: str, hint: str) -> int:
        """Have the first process print an error, unless another one was reported before; return the
        exit status 2.
        """
        if self.is_done:
            return print_error(problem, hint)
        is_news = False
        try:
            is_news = self.store.add("ends", 1) == 1
            if is_news:
                if self._is_elsewhere() and self.place.name not in problem:
                    problem = f"{self.place.name}, on {socket.gethostname()}: {problem}"
                self.store.set("error", json.dumps((problem, hint)))
            if self.place.rank == 0:
                self._print_reported()
            else:
                _interruptible(lambda: self.waiting_store.wait(["printed"], ANSWER_LIMIT))
        except RuntimeError:  # the first process, or the store, has gone
            if is_news:
                self._print(problem, hint)
        return 2

    def refuse_other_work(self, text: str | None, settings: Settings) -> None:
        """Wait until all processes have read their text; refuse this one if its text or settings
        are not those of the first.
        """
        work = {
            "version of attnviz": __version__,
            "text": hashlib.sha256((text or "").encode("utf-8", "surrogatepass")).hexdigest(),
            "options": repr(asdict(settings)),
        }
        keys = [f"work/{rank}" for rank in range(self.place.ranks)]
        self.store.set(keys[self.place.rank], json.dumps(work))
        try:
            _interruptible(lambda: self.waiting_store.wait(keys, START_LIMIT))
        except RuntimeError:
            raise AttnvizError(
                f"not all of {self.place.ranks} processes have begun within "
                f"{START_LIMIT.seconds // 60} minutes",
                "see whether torchrun runs on every machine, with the same --nnodes",
            ) from None
        first = json.loads(self.store.get(keys[0]))
        different = next((name for name, value in work.items() if value != first[name]), None)
        if different:
            article = "other" if different == "options" else "another"
            raise AttnvizError(
                f"{self.place.name} has {article} {different} than the first one",
                "give the same command and the same files on every machine",
            )

    def lost_process_error(self) -> AttnvizError:
        """Return the error that another process has ended. Gives it time to say why, and torchrun
        to end this process, for which there is a message, too.
        """
        dead: list[int] = []
        deadline = time.monotonic() + EXPLAINING_SECONDS
        while not dead and time.monotonic() < deadline:
            time.sleep(LOOKING_SECONDS)
            with suppress(RuntimeError):
                dead = self._dead_processes()
        return AttnvizError(*self._lost_process_message(dead[0] if dead else None))

    def _lost_process_message(self, rank: int | None) -> tuple[str, str]:
        """Return the problem and the hint of a process that has ended without a message."""
        ranks = self.place.ranks
        name = f"one of {ranks} processes" if rank is None else f"process {rank + 1} of {ranks}"
        return (
            f"{name} has ended without a message: it was killed, or its connection is lost",
            "if memory ran out, start fewer processes on each machine, or give a shorter text",
        )

    def _print(self, problem: str, hint: str) -> None:
        """Print an error once, even if this process is silent otherwise."""
        with self.lock:
            if not self.is_printed:
                self.is_printed = True
                with redirect_stderr(sys.__stderr__):
                    print_error(problem, hint)

    def _print_reported(self) -> None:
        """Print the error that was reported, if there is one: a signal has none."""
        self.store.wait(["error"], ANSWER_LIMIT)
        error = json.loads(self.store.get("error"))
        if error:
            self._print(*error)
        self.store.set("printed", "")

    def _has_ended(self) -> bool:
        """Return whether some process has begun to end before the work was done."""
        with suppress(RuntimeError):
            return bool(self.store.add("ends", 0))
        return True

    def _end_by_signal(self) -> None:
        """When a signal ends this process, print an error if it came because of another process:
        torchrun ends all of a machine when one has failed.
        """
        if self.is_done or self.is_ending or not self.lock.acquire(timeout=LOCK_SECONDS):
            return
        self.is_ending = True
        with suppress(RuntimeError):
            if self.store.add("ends", 1) == 1:
                error: tuple[str, ...] = ()
                if dead := self._dead_processes():
                    error = self._lost_process_message(dead[0])
                    self._print(*error)
                elif self._is_elsewhere():  # where nobody sees why the others end
                    error = f"{self.place.name} was stopped on its machine", "start the run again"
                self.store.set("error", json.dumps(error))
            elif self.place.rank == 0 and self.store.check(["error"]):
                self._print_reported()

    def _is_elsewhere(self) -> bool:
        """Return whether the first process is on another machine, as far as is known."""
        if not self.store.check(["pid/0"]):
            return False
        return self.store.get("pid/0").decode().rsplit(maxsplit=1)[0] != self.place.machine

    def _dead_processes(self) -> list[int]:
        """Return the ranks of processes of this machine that do not run any more."""
        dead: list[int] = []
        if os.name == "nt":  # where os.kill sends Ctrl-C instead of looking
            return dead
        for rank in range(self.place.ranks):
            if not self.store.check([f"pid/{rank}"]):
                continue
            machine, pid = self.store.get(f"pid/{rank}").decode().rsplit(maxsplit=1)
            try:
                if machine == self.place.machine:
                    os.kill(int(pid), 0)
            except ProcessLookupError:
                dead.append(rank)
        return dead

    def _watch(self) -> None:
        """End this process when another one has ended or is not heard of any more."""
        others = range(1, self.place.ranks) if self.place.rank == 0 else range(1)
        beats, missed = dict.fromkeys(others, 0), dict.fromkeys(others, 0)
        has_ended = is_lost = False  # other processes; the connection to the store
        while not (has_ended or self.is_done or self.is_ending):
            time.sleep(SECONDS_PER_BEAT)
            try:
                self.store.add(f"beats/{self.place.rank}", 1)
                has_ended = self.store.check(["error"])
                for rank in others:
                    before, beats[rank] = beats[rank], self.store.add(f"beats/{rank}", 0)
                    missed[rank] = missed[rank] + 1 if 0 < beats[rank] == before else 0
                    if missed[rank] > MISSED_BEATS and not (has_ended or self.is_done):
                        self.report_error(*self._lost_process_message(rank))
                        has_ended = True
            except RuntimeError:  # torchrun, or the machine of the store, has gone
                has_ended = is_lost = True
        with self.lock:
            if has_ended and not (self.is_done or self.is_ending):
                self._end_from_thread(is_lost=is_lost)

    def _end_from_thread(self, *, is_lost: bool) -> None:
        """End this process because of others. The first prints their error; if the store is lost,
        the first of each machine says so.
        """
        self.is_ending = True
        exit_handling.undo_everything()
        with suppress(RuntimeError):
            if is_lost and self.place.local_rank == 0:
                self._print("the connection to torchrun is lost", "start the run again")
            elif self.place.rank == 0:
                self._print_reported()
        os._exit(2)


_current_run: ContextVar[SharedRun | None] = ContextVar("current_run", default=None)


@contextmanager
def share_work(text: str | None, settings: Settings, *, quiet: bool) -> Iterator[Settings]:
    """Have all processes share what is computed inside the block, which is streamed: only that can
    be shared. Yields the settings for it.

    Refuses a text that cannot be streamed, and processes with other texts or settings.
    """
    shared = _current_run.get()
    if shared is None:  # a program has called the command line
        yield settings
        return
    from attnviz.attention import ranks
    from attnviz.traces.long_weights import summarizing_by

    place = shared.place
    if is_trained(settings.model):
        raise AttnvizError(
            f"'{settings.model}' is a trained model, which one process runs", ALONE_HINT
        )
    _take_gpu(place, settings.device)
    try:
        shared.refuse_other_work(text, settings)
        _interruptible(
            lambda: ranks.join_process_group(shared.waiting_store, place.rank, place.ranks)
        )
        subject = "" if settings.stream else f"{place.ranks} processes compute"
        words = {"streaming": subject} if subject else {}
        with summarizing_by(ranks.summarize_in_ranks), naming_options(**words):
            yield replace(settings, stream=True)
        ranks.wait_for_all()
    except ranks.LostProcessError:
        raise shared.lost_process_error() from None
    except AttnvizError as error:
        if error.about != "stream" or settings.stream:
            raise
        raise AttnvizError(str(error), ALONE_HINT) from None
    shared.is_done = True
    if not quiet and not place.rank:
        print_message(
            f"note: {place.ranks} processes have shared this work; weights are computed only where "
            "they are shown, as with --stream"
        )


def _take_gpu(place: Place, device: str) -> None:
    """Give this process a GPU of its own. Refuses a GPU that several would have to share."""
    import torch

    gpus = torch.cuda.device_count()
    if device not in ("auto", "cuda") and not device.startswith("cuda:"):
        return
    if device.startswith("cuda:") and place.local_ranks > 1:
        raise AttnvizError(
            f"{device} is one GPU, and this machine has {place.local_ranks} processes",
            f"{opt.device:cuda} gives each of them its own",
        )
    if 0 < gpus < place.local_ranks:
        raise AttnvizError(
            f"this machine has {counted(gpus, 'GPU')} for {place.local_ranks} processes",
            f"start fewer with --nproc-per-node={gpus}, or give {opt.device:cpu}",
        )
    if gpus and device in ("auto", "cuda"):
        torch.cuda.set_device(place.local_rank)


def _interruptible(call: Callable[[], Result]) -> Result:
    """Return the result of a call that waits in C++, where no signal would be handled."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()
