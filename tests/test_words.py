"""The field's words: those that docs/design/046-words.md replaces stand nowhere, but where they mean something else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = ("src/tegula", "tests", "changelog.d", "README.md", "CONTRIBUTING.md")
THIS = Path(__file__).name

REPLACED: dict[str, str] = {
    r"rounds?": "iteration",
    r"products?": "matmul, mma",
    r"turned|turning": "transposed",
    r"meets?|met|meetings?": "synchronise, join, satisfy",
    r"(?:have|has|had) come": "arrived",
    r"(?:a|its|each|own|squarest|consecutive) shares?": "chunk, part",
    r"pairs? of blocks|blocks? of (?:a|the) pair": "2-CTA cluster, CTA",
    r"touch(?:es|ed|ing)?": "access",
    r"beside|behind": "overlapped with, next to, after",
    r"quick(?:ly|est)?|general way": "fast path, slow path",
    r"teach|taught|learns?|learnt": "cache",
    r"agents?": "engine",
}
"""What is looked for, as words and as parts of names; the words of the field."""

MEANT: dict[str, str] = {
    r"rounds?_(?:up|to_odd|bfloat\w*|trip|once)|\w+_round_(?:to_even|values|as|the_float32)\w*|wrap_and_round\b|"
    r"fma_rounds": "numbers are rounded",
    r"\b(?:to|may|would|that|what|or|of|a block|bfloat16|float32|GPUs|copies|floats|and|which|twin|NumPy's|`) ?"
    r"rounds?\b(?!s? (?:of|in)\b)|\brounds? (?:it|them|to|past|once|down|up|away|after|adjoints|float32|nothing)\b|"
    r"\b(?:np\.|tg\.)round\b|\bround\(|[\"'`]round[\"'`]": "numbers are rounded",
    r"\b_?rounds\b(?= *[:=,)\]]|\(op|\`|\")|\.rounds\b": "the attribute of tiles that are rounded to tf32",
    r"(?:inner|outer|cross|component-wise|repeated) products?|itertools import product|itertools\.product|"
    r"\bproduct(?:_of)?\(": "products of vectors; Cartesian products",
    r"turned (?:out|into|over)|\breturned\b": "plain English",
    r"\bin its turn\b": "plain English",
    r"--quick|\"QUICK\"|planned_quickly|erfinv, quickly": "an option of run.py; plain English",
    r"behind their back|may have come from": "plain English",
}
"""What may stand: a pattern around the word, and what it means."""

FILES: dict[str, dict[str, str]] = {
    "product": {
        "src/tegula/__init__.pyi": "what users call a product: of numbers and of vectors",
        "src/tegula/stdlib/": "products of numbers",
        "src/tegula/ops/build_math.py": "products of numbers and of vectors",
        "src/tegula/ops/build_reduce.py": "products of numbers",
        "src/tegula/ops/build_vector.py": "products of vectors",
        "src/tegula/ops/builder.py": "products of numbers and of vectors",
        "src/tegula/ops/integer_ranges.py": "products of numbers",
        "src/tegula/ops/linear.py": "products of numbers, which are summed",
        "src/tegula/ops/scalar.py": "products of numbers",
        "src/tegula/passes/contract_fma.py": "products of numbers, which are fused with sums",
        "src/tegula/passes/element_places.py": "Cartesian products",
        "src/tegula/passes/gradient/hazards.py": "products of numbers",
        "src/tegula/passes/prove_bounds.py": "products of numbers",
        "src/tegula/check/verifier/": "products in inequalities",
        "src/tegula/codegen/gpu/access.py": "products of numbers",
        "src/tegula/codegen/gpu/quotients.py": "products of numbers",
        "src/tegula/codegen/gpu/schedule.py": "Cartesian products",
        "src/tegula/codegen/matmul.py": "products of numbers, of which a matmul is made",
        "src/tegula/codegen/memory.py": "products of numbers",
        "src/tegula/codegen/scalar.py": "products of numbers",
        "src/tegula/codegen/tiles.py": "Cartesian products",
        "src/tegula/ir/kernel.py": "the product of dimensions",
        "src/tegula/kernels/gemm.py": "products of numbers, which are summed",
        "src/tegula/ops/build_matmul.py": "products of numbers, which are summed",
        "src/tegula/runtime/gradcheck.py": "products of numbers",
        "src/tegula/runtime/device.py": "the name of a GPU",
        "src/tegula/runtime/cuda/context.py": "the name of a GPU",
        "src/tegula/tune/candidates.py": "Cartesian products",
        "src/tegula/backend/thunk.py": "products of numbers",
        "changelog.d/": "products of numbers",
        "tests/": "products of numbers, Cartesian products, and names of kernels",
    },
    "turned": {
        "src/tegula/stdlib/inverse_trigonometry.py": "angles are turned",
        "tests/": "names of variables in tests: whether an operand is turned around",
    },
    "round": {
        "src/tegula/lang/": "the function `round`",
        "src/tegula/codegen/gpu/kernel.py": "tiles that are rounded to tf32",
        "src/tegula/passes/stage_operands.py": "tiles that are rounded to tf32",
        "src/tegula/passes/gradient/widen.py": "elements that are rounded",
        "src/tegula/stdlib/": "the function `round`, and constants that round",
        "tests/": "the function `round`, and numbers that are rounded",
    },
    "behind": {"tests/gradients/forward.py": "the sides of a kink, ahead and behind"},
}
"""Files and folders where a word means something else, with what it means there."""


def texts() -> Iterator[tuple[str, str]]:
    """The files that are looked at, by their path in the repository."""
    for place in PLACES:
        found = ROOT / place
        for path in sorted(found.rglob("*")) if found.is_dir() else [found]:
            if path.suffix in (".py", ".pyi", ".md", ".ir", ".txt") and path.name != THIS:
                yield path.relative_to(ROOT).as_posix(), path.read_text()


def allowed(word: str, path: str) -> bool:
    """Whether a word means something else in all of a file."""
    return any(
        re.fullmatch(rf"{known}s?|turning" if known == "turned" else rf"{known}s?", word)
        and any(path.startswith(at) for at in files)
        for known, files in FILES.items()
    )


def wrong(path: str, line: str) -> list[str]:
    """The words of a line that the table replaces."""
    meant = [m.span() for pattern in MEANT for m in re.finditer(pattern, line)]
    found: list[str] = []
    for pattern, instead in REPLACED.items():
        for m in re.finditer(rf"(?<![a-zA-Z])(?:{pattern})(?![a-z])", line, re.IGNORECASE):
            inside = any(a <= m.start() and m.end() <= b for a, b in meant)
            if not inside and not allowed(m[0].lower(), path):
                found.append(f"{m[0]!r}: say {instead}")
    return found


def test_the_fields_words_are_used() -> None:
    found = [
        f"{path}:{number}: {what}"
        for path, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        for what in wrong(path, line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("the next round of the loop", 1),
        ("x is rounded; tg.round(x); the help says: round it up", 0),
        ("def find_products(kernel): a matrix product", 2),
        ("the inner product of two vectors", 0),
        ("bytes that have come are touched beside the copy", 3),
        ("both blocks of a pair meet", 2),
        ("it turned out that roles share memory", 0),
        ("each share of the work", 1),
    ],
)
def test_a_word_that_was_replaced_is_seen(line: str, words: int) -> None:
    assert len(wrong("src/tegula/passes/simplify.py", line)) == words
