"""The field's words: words that docs/design/046-words.md replaces are not used, except where they have another
meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SEARCHED = (
    *("src/tegula", "tests", "tools", "benchmarks", "examples"),
    *("changelog.d", "README.md", "CONTRIBUTING.md"),
)
THIS_FILE = Path(__file__).name
PUBLIC_TEST_LISTS = ("passing.txt", "passing_strict.txt", "passing_cuda.txt", "excluded.txt")
"""Files with names of the public tests, which cannot be changed here."""

REPLACED: dict[str, str] = {
    r"rounds?": "iteration",
    r"products?": "matmul, mma",
    r"turned|turning": "transposed",
    r"meets?|met|meetings?": "synchronise, join, satisfy",
    r"comes?|came|coming": "arrive, happen, return, repeat",
    r"(?:a|its|each|own|squarest|consecutive) shares?": "chunk, part",
    r"pairs? of blocks|blocks? of (?:a|the) pair|blocks? of the hardware": "2-CTA cluster, CTA",
    r"touch(?:es|ed|ing)?": "access",
    r"beside|behind": "overlapped with, next to, after",
    r"quick(?:ly|est)?|general way": "fast path, slow path",
    r"teach|taught|learns?|learnt": "cache",
    r"agents?": "engine",
    r"spoil(?:s|ed|ing)?|relabel(?:s|led|ling)?": "mutate, corrupt, reshape",
    r"likeness|crew|flying": "suggestion, scheduler, in flight",
}
"""The patterns of replaced words, which are searched as words and as parts of names, and the words of the field."""

ANY_REPLACED = re.compile(
    rf"(?<![a-zA-Z])(?:{'|'.join(REPLACED)})(?![a-z])|\bno \w|place of|th(?:at|ose) of|added up|def test_",
    re.IGNORECASE,
)
"""The pattern of any replaced word or phrase, which most lines of most files do not match."""

MEANT: dict[str, str] = {
    r"rounds?_(?:up|to_odd|bfloat\w*|trip|once)|\w+_round_(?:to_even|values|as|the_float32)\w*|wrap_and_round\b|"
    r"fma_rounds|\bROUND_(?:BITS_)?(?:32|64)\b": "numbers are rounded",
    r"\b(?:to|may|would|that|what|or|of|a block|bfloat16|float32|GPUs|copies|floats|and|which|twin|NumPy's|`) ?"
    r"rounds?\b(?!s? (?:of|in)\b)|\brounds? (?:it|them|to|past|once|down|up|away|after|adjoints|float32|nothing)\b|"
    r"\b(?:np\.|tg\.)round\b|\bround\(|[\"'`]round[\"'`]|Adding this rounds": "numbers are rounded",
    r"\brounds(?:: bool|= ?op\.rounds| = (?:true|false|attr|bool|terms)\b)|\.rounds\b|[\"`]rounds[\"`]|"
    r"(?:,|if|:) rounds\b(?! *[:=])|\b_rounds\(op": "the attribute of tiles that are rounded to tf32",
    r"(?:inner|outer|cross|component-wise|repeated) products?|scaled_dot_product|two_product|diff_of_products|"
    r"products?[ _]of[ _](?:extremes|numbers|dimensions|vectors|thread[ _]indices)|(?:sums?|quotients?) and products?|"
    r"products? and sums?": "products of numbers and of vectors",
    r"itertools import product|itertools\.product|(?<!def )\bproduct\(": "Cartesian products",
    r"(?<![a-z])(?:come|comes|came|coming)[ _](?:from|before|after|first|last|later|then|second)(?![a-z])": "order; "
    "where something is from",
    r"turned (?:out|into|over)|\breturned\b": "plain English",
    r"\bin its turn\b": "plain English",
    r"--quick|\"QUICK\"|planned_quickly|erfinv, quickly": "an option of run.py; plain English",
    r"coming-from-[\w*]+|# Coming from \w+": "names and titles of pages",
    r"behind their back|ahead, behind": "plain English; the sides of a kink",
}
"""Allowed uses: a pattern around the word, and its meaning there."""

PHRASES: dict[str, str] = {
    r"(?<!there )(?<!There )\b(?:is|are) no (?:tile|integer|array|element|scalar|value|number|floats?|variable|vector|"
    r"offset|power|type|multiples?|pipe|stack|function|constant|kernel|matrix|pair|whole)\b": "is not a",
    r"\bin the place of\b": "instead of",
    r"\badded up\b": "summed",
    r"\b(?:is|are) (?:not )?(?:that|those) of the (?:function|reference|item)\b": "fits, equals, is the item's",
    r"\bthat of thread 0 counts\b": "the value of thread 0 is used",
    r"\bdef test_(?:what|it|they|them|those|who|how)_\w+": "a name with a noun",
}
"""The patterns of phrases that are no English or lack a noun, and the words to write instead."""

FILES: dict[str, dict[str, str]] = {
    "product": {
        "src/tegula/__init__.pyi": "what users call a product: of numbers and of vectors",
        "src/tegula/algorithms/": "products of numbers",
        "src/tegula/stdlib/": "products of numbers",
        "src/tegula/ops/build_math.py": "products of numbers and of vectors",
        "src/tegula/ops/build_reduce.py": "products of numbers",
        "src/tegula/ops/build_vector.py": "products of vectors",
        "src/tegula/ops/builder.py": "products of numbers and of vectors",
        "src/tegula/ops/integer_ranges.py": "products of numbers",
        "src/tegula/ops/linear.py": "products of numbers, which are summed",
        "src/tegula/ops/scalar.py": "products of numbers",
        "src/tegula/passes/contract_fma.py": "products of numbers, which are fused with sums",
        "src/tegula/passes/gradient/hazards.py": "products of numbers",
        "src/tegula/passes/prove_bounds.py": "products of numbers",
        "src/tegula/check/verifier/": "products in inequalities",
        "src/tegula/codegen/gpu/access.py": "products of numbers",
        "src/tegula/codegen/gpu/quotients.py": "products of numbers",
        "src/tegula/codegen/matmul.py": "products of numbers, of which a matmul is made",
        "src/tegula/codegen/memory.py": "products of numbers",
        "src/tegula/codegen/scalar.py": "products of numbers",
        "src/tegula/ir/kernel.py": "the product of dimensions",
        "src/tegula/kernels/gemm.py": "products of numbers, which are summed",
        "src/tegula/ops/build_matmul.py": "products of numbers, which are summed",
        "src/tegula/runtime/gradcheck.py": "products of numbers",
        "src/tegula/runtime/device.py": "the name of a GPU",
        "src/tegula/runtime/cuda/context.py": "the name of a GPU",
        "src/tegula/tune/candidates.py": "Cartesian products",
        "src/tegula/backend/thunk.py": "products of numbers",
        "changelog.d/": "products of numbers",
        "tests/check/proof/test_arithmetic.py": "products in inequalities",
        "tests/gpu_codegen/simt.py": "products of numbers, which are fused with sums",
        "tests/gpu_codegen/test_extremes.py": "products of numbers, which are fused with sums",
        "tests/gradients/rounded_programs.py": "products of numbers",
        "tests/gradients/test_narrow_floats.py": "products of numbers",
        "tests/gradients/test_overwritten_values.py": "a kernel of products of numbers",
        "tests/gradients/test_recomputed_paths.py": "products of numbers, which are fused with sums",
        "tests/interop/test_torch.py": "a kernel of products of numbers",
        "tests/interp/test_scalars.py": "products of numbers",
        "tests/passes/contract_fma/": "products of numbers, which are fused with sums",
        "tests/passes/keep_rounded/": "products of numbers",
        "tests/passes/test_contract_fma.py": "products of numbers, which are fused with sums",
        "tests/runtime/test_large_launches.py": "products of dimensions",
        "tests/semantics/test_scalar_bits.py": "products of numbers, which are fused with sums",
        "tests/stdlib/numpy_primitives.py": "products of numbers",
        "tests/support/attacks/lowered.py": "products of numbers",
        "tools/minimax.py": "products of numbers",
    },
    "turned": {
        "src/tegula/stdlib/inverse_trigonometry.py": "angles are turned",
    },
}
"""Files and folders in which a word has another meaning, with this meaning."""


VAGUE = re.compile(r"^\s+(made|found|wanted|given|said|told|whole)(?:: [^=]+)? = ", re.MULTILINE)
"""Assignments to local variables with vague names."""

VAGUE_IN_TESTS = re.compile(
    r"^\s+(?:\(?\w+, )*(made|found|want|wanted|given|got|said|told|whole|kept|held|seen)(?:, \w+\)?)*(?:: [^=]+)? = ",
    re.MULTILINE,
)
"""Assignments to local variables with vague names, in tests, tools, benchmarks and examples."""


def texts() -> Iterator[tuple[str, str]]:
    """The texts of all files that are searched, by their path in the repository."""
    for search_root in SEARCHED:
        result = ROOT / search_root
        for path in sorted(result.rglob("*")) if result.is_dir() else [result]:
            if path.suffix in (".py", ".pyi", ".md", ".ir", ".txt") and path.name not in (
                THIS_FILE,
                *PUBLIC_TEST_LISTS,
            ):
                yield path.relative_to(ROOT).as_posix(), path.read_text()


def allowed(word: str, path: str) -> bool:
    """Whether a word has another meaning in the whole file."""
    return any(
        re.fullmatch(rf"{known}s?", word) and any(path.startswith(prefix) for prefix in files)
        for known, files in FILES.items()
    )


def replaced_words(path: str, line: str) -> list[str]:
    """The words of a line that the table replaces."""
    allowed_spans = [m.span() for pattern in MEANT for m in re.finditer(pattern, line)]
    messages: list[str] = []
    for pattern, instead in REPLACED.items():
        for m in re.finditer(rf"(?<![a-zA-Z])(?:{pattern})(?![a-z])", line, re.IGNORECASE):
            inside = any(a <= m.start() and m.end() <= b for a, b in allowed_spans)
            if not inside and not allowed(m[0].lower(), path):
                messages.append(f"{m[0]!r}: say {instead}")
    for pattern, instead in PHRASES.items():
        messages += [f"{m[0]!r}: say {instead}" for m in re.finditer(pattern, line)]
    return messages


def faults(path: str, text: str) -> list[str]:
    """The replaced words in a file's name, which is line 0, and in its lines."""
    return [
        f"{path}:{number}: {fault}"
        for number, line in enumerate([path, *text.splitlines()])
        if ANY_REPLACED.search(line)
        for fault in replaced_words(path, line)
    ]


def test_the_fields_words_are_used() -> None:
    messages = [fault for path, text in texts() for fault in faults(path, text)]
    assert not messages, "\n".join(messages)


def test_local_variables_have_specific_names() -> None:
    patterns = {
        "src/tegula/": VAGUE,
        **dict.fromkeys(("tests/", "tools/", "benchmarks/", "examples/"), VAGUE_IN_TESTS),
    }
    vague = {
        f"{path}: {', '.join(sorted(set(pattern.findall(text))))}"
        for path, text in texts()
        for folder, pattern in patterns.items()
        if path.startswith(folder) and path.endswith(".py") and pattern.search(text)
    }
    assert not vague, "\n".join(sorted(vague))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("    made = trace(kernel)", "made"),
        ("    actual, wanted = run(x), reference(x)", "wanted"),
        ("    kept: list[int] = []", "kept"),
        ("    function(made=1)", ""),
        ("    expected = made_of(x)", ""),
    ],
)
def test_vague_local_variables_are_reported(line: str, name: str) -> None:
    assert VAGUE_IN_TESTS.findall(f"def f():\n{line}\n") == ([name] if name else [])


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
        ("bytes come, and what came of them", 2),
        ("those that come first; came_from", 0),
        ("rounds: int = 9", 1),
        ("def product(a, b):", 1),
        ("`a` is no tile, there is no integer", 1),
        ("a view in the place of a copy", 1),
        ("def test_what_is_refused() -> None:", 1),
        ("def test_whatever() -> None:", 0),
        ("a spoiled schedule is relabelled while copies are flying", 3),
        ("gradients are added up", 1),
    ],
)
def test_replaced_words_are_reported(line: str, words: int) -> None:
    assert len(replaced_words("src/tegula/passes/simplify.py", line)) == words
    assert len(faults("src/tegula/passes/simplify.py", f"# a pass\n{line}\n")) == words
