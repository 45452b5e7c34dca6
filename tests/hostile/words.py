"""Words that a user or a program might pass as arguments: usual ones, and odd ones."""

from __future__ import annotations

from random import Random

TEXTS = (
    "I am learning this",
    "the cat the dog",
    "I",
    "a b",
    "the the the",
    "of tired it",
    "She said no, and left.",
    "日本語 🎉",
    "x y z " * 12,
)
ODD = (  # nothing, blanks, controls, escapes, direction, markup, what no file holds
    "",
    " ",
    "\t",
    "\n\n",
    "\x00",
    "\x07\x08",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;owned\x07",
    "\x9b31m",
    "a\u202egnp.exe",
    "\u2066hidden\u2069",
    "\ufeffmark",
    "\ufffe",
    "\uffff",
    "\u0085next",
    "\u2028line\u2029",
    "e\u0301\u0301\u0301" * 5,
    "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "\U000e0001",
    "\udcff",
    "<script>alert(1)</script>",
    "]]>&amp;<!--",
    "| a | b |",
    "# **bold** _x_ `code` $x$",
    "=HYPERLINK(1)",
    "{0.__class__} {step} {page} %s %n",
    "'; rm -rf ~; \"$(true)`true`",
    "--verify",
    "-",
    "--",
    "../../etc/passwd",
    "~",
    "CON",
    "a" * 300,
    "日" * 300,
    "0",
    "1",
    "-1",
    "nan",
    "１２",
    "1_000",
    "1,2,,3",
    "1-9",
    ",",
    "2,1",
)
NUMBERS = ("0", "1", "2", "3", "4", "5", "8", "12")
ODD_NUMBERS = (
    "-1",
    "-0",
    "+1",
    "1e3",
    "1.5",
    "00002",
    " 2",
    "0x10",
    "1_0",
    "x",
    "",
    "٣",
    "999",
    "100000",
    str(2**31),
    str(2**63),
    str(2**64),
    "9" * 20,
    "9" * 5000,
)
FRACTIONS = ("0.5", "1", "2", "0.1", "0.001", "100", "0.9")
ODD_FRACTIONS = ("0", "-1", "1e-4", "1e4", "1e-30", "1e30", "1e-400", "1e400", "nan", "inf", "-inf")
SIZES = ("16:9", "4:3", "square", "640x480", "5x5", "1x1", "2.5x40", "40x2.5")
ODD_SIZES = ("0x0", "x", "1e9x1", "nanxnan", "-1x4", "99999x99999", "16:0", "3x", "1x1x1")
ODD_SIZES_OF_FILES = ("100", "0", "-1MB", "1e400MB", "9" * 400, "MB", "5 XB", "nan")


def text(random: Random) -> str:
    """A sentence: a usual one, an odd word, both in one, or random letters."""
    return random.choice(
        (
            *[_usual_sentence] * 6,
            _odd_word,
            _sentence_with_odd_words,
            _sentence_with_odd_words,
            _random_letters,
        )
    )(random)


def _usual_sentence(random: Random) -> str:
    return random.choice(TEXTS)


def _odd_word(random: Random) -> str:
    return random.choice(ODD)


def _sentence_with_odd_words(random: Random) -> str:
    return f"{_usual_sentence(random)}{_odd_word(random)} {_odd_word(random)}"


def _random_letters(random: Random) -> str:
    planes = (range(0x20, 0x7F), range(0x250), range(0x10000), range(0x110000))
    letters = random.choice(planes)
    return "".join(chr(random.choice(letters)) for _ in range(random.randrange(1, 30)))


def number(random: Random) -> str:
    return random.choice(ODD_NUMBERS if random.random() < 0.05 else NUMBERS)


def fraction(random: Random) -> str:
    return random.choice(ODD_FRACTIONS if random.random() < 0.1 else FRACTIONS)


def size(random: Random) -> str:
    return random.choice(ODD_SIZES if random.random() < 0.1 else SIZES)
