"""The questions of a quiz as renderers show them: question, answers, solution."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attnviz.views.grids.section import Section

LETTERS = "abcd"  # of answers; keys 1 to 4 choose them, too


@dataclass(frozen=True, eq=False)
class Exercise:
    """A question with its answers; `answer` is the index of the right one.

    Both sections have grids: those that the question is about, and those that explain it.
    """

    question: Section
    options: tuple[str, ...]
    answer: int
    solution: Section
    context: str = ""  # the sentence that it is about, and where its numbers come from
    needs_working: bool = False  # whether something is to be computed, for which paper needs room
    replies: tuple[str, ...] = ()  # to each wrong answer from a mistake; empty to all others

    @property
    def lettered_options(self) -> tuple[str, ...]:
        """Each answer after its letter: `b) keys`."""
        pairs = zip(LETTERS, self.options, strict=False)
        return tuple(f"{letter}) {option}" for letter, option in pairs)

    @property
    def right_option(self) -> str:
        return self.lettered_options[self.answer]

    @property
    def solution_alone(self) -> Section:
        """The solution as it stands below its question, without the number: the replies to wrong
        answers are its last lines.
        """
        return replace(self.solution, number="", remarks=self.lettered_replies)

    @property
    def lettered_replies(self) -> tuple[str, ...]:
        """The reply to each wrong answer after its letter: `b) That is an even share.`"""
        pairs = zip(LETTERS, self.replies, strict=False)
        return tuple(f"{letter}) {reply}" for letter, reply in pairs if reply)


@dataclass(frozen=True, eq=False)
class ExerciseSheet:
    """The questions of a quiz in their order; `has_answers` on the sheet of solutions."""

    exercises: tuple[Exercise, ...]
    has_answers: bool = False

    @property
    def right_letters(self) -> tuple[str, ...]:
        """The letter of each right answer after the number of its question: `1 b`, `2 d`."""
        pairs = ((each.question.number, LETTERS[each.answer]) for each in self.exercises)
        return tuple(f"{number} {letter}" for number, letter in pairs)
