"""Random loops that rescale sums when a reference value changes, usually a running maximum: online softmax, its
variants, and loops that are almost online softmax."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

LOG2E = 1.4426950408889634
KINDS = ("scalar", "row", "column", "tile", "element")
"""The reference value: a scalar of each thread, or one value for each row, column, tile or element."""
SHAPES = {"row": (2, 1), "column": (1, 4), "tile": (1, 1), "element": (2, 4)}
COUNTS = (2, 5, 1, 0)

SCORES = (
    *("{x}", "{x}", "{x} * 0.7", "tg.tanh({x} * 0.5) * 2.0", "{x} + {z}", "{x} - 0.1 * D(k)"),
    *("tg.where({z} > -0.5, {x}, -tg.inf)", "tg.where({z} > -0.3, {x}, -3.0)", "{x} * {z}"),
)
REFERENCES = (
    *("tg.max(m, {top})",) * 8,
    *("tg.max(m, {other})", "tg.max(m, {clamped})", "tg.floor(tg.max(m, {top}))", "tg.max(m, {top}) + 0.5"),
    *("m + 0.1 * {other}", "tg.where({top} > m + 0.4, {top}, m)", "tg.min(m, {top})", "{top}", "{other}"),
    *("tg.max(m, {top} * 0.5)", "m + 0.1 * s", "tg.max(m, {top} + tg.log(1.0 + s))", "tg.rint({top})"),
    *("tg.where(D(k % 2) > 0.5, tg.max(m, {top}), m)", "m * 0.5 + {top}", "m", "tg.max(m, tg.log(s + 0.1))"),
)
STARTS = ("-1e30", "-1e30", "-tg.inf", "0.0", "-2.0", "active")
EXPONENTIALS = (
    *("tg.exp({w} * ({a} - {b}))",) * 3,
    *("tg.exp2({l} * ({a} - {b}))", "tg.exp2({l} * {a} - {l} * {b})", "1.0 / tg.exp({w} * ({b} - {a}))"),
    *(
        "tg.exp(-({w} * {b} - {w} * {a}))",
        "tg.exp(({a} - {b}) / {i})",
        "tg.exp(tg.fma({a}, {w}, -{w} * {b}))",
    ),
)
WRONG_EXPONENTIALS = (
    *("tg.exp2({w} * ({a} - {b}))", "tg.exp2(1.44 * {w} * ({a} - {b}))", "tg.exp(2.0 * {w} * ({a} - {b}))"),
    *(
        "tg.exp(tg.max({w} * ({a} - {b}), -0.7))",
        "tg.exp({w} * ({a} - 0.5 * {b}))",
        "(1.0 + {w} * ({a} - {b}))",
    ),
    *(
        "tg.exp(-{w} * ({a} - {b}))",
        "tg.exp({w} * ({a} - tg.floor({b})))",
        "tg.exp(tg.abs({w} * ({a} - {b})))",
    ),
    *("tg.exp({w} * {a})", "tg.exp(tg.tanh({w} * ({a} - {b})))", "tg.exp({w} * ({a} + {b}))"),
    *(
        "tg.exp(tg.floor({w} * ({a} - {b})))",
        "tg.pow(tg.exp({w} * ({a} - {b})), 2.0)",
        "tg.expm1({w} * ({a} - {b}))",
    ),
)
UPDATES = (
    *("{s} = {s} * {r} + {p}",) * 6,
    *("{s} *= {r}; {s} += {p}", "{s} = {p} + {r} * {s}", "{s} = tg.fma({s}, {r}, {p})"),
    *("{s} = ({s} + {q}) * {r}", "{s} = {s} * {r} + {p} * 0.3", "{s} = {s} * ({r} * 0.9) + {p}"),
    *(
        "{s} = {s} * {r} * tg.tanh({z1}) + {p}",
        "{s} = {s} * {r} - {p}",
        "{s} = {s} * {r} + {p} * (1.0 + {z1} * {z1})",
    ),
)
WRONG_UPDATES = (
    *(
        "{s} = {s} + {p}",
        "{s} = {s} * {r} * {r} + {p}",
        "{s} = ({s} + {p}) * {r}",
        "{s} = {s} * {r} + {p} + 0.1",
    ),
    *("{s} = {s} * tg.max({r}, 0.5) + {p}", "{s} = {s} * {r} + {q}", "{s} = {s} * {r} + {p} * {s}"),
    *(
        "{s} = {s} * (1.0 - 0.1 * {s}) + {p}",
        "{s} = ({s} * {r} if k % 2 == 0 else {s}) + {p}",
        "{s} = {s} * 0.9 + {p}",
    ),
    *("{s} = tg.max({s} * {r}, {p})", "{s} = tg.max({s}, {p})", "{s} = tg.min({s} * {r} + {p}, 1.0)"),
    *("{s} = {s} * {r} + {p} * {p}", "{s} = {s} * {r} + {p} * m", "{s} = {s} * tg.exp(m - {r}) + {p}"),
    *("{s} = tg.where(m > 0.2, {s} * {r} + {p}, {s})", "{s} = tg.where(m1 > m, {s} * {r}, {s}) + {p}"),
    *("{s} = tg.where({p} > 0.5, {s} * {r} + {p}, {s} * {r})", "{s} = {s} * {r} + tg.sqrt({p})"),
    *("{s} = {s} * {r} + {p} / (1.0 + {s})", "{s} = tg.abs({s} * {r} - {p})", "{s} = {s} / {r} + {p}"),
)
EPILOGUES = (
    *(
        "{acc} / s",
        "{acc} / s",
        "{acc} / s",
        "m + tg.log(s) / {ws}",
        "tg.log(s) + {ws} * m",
        "{acc} * (1.0 / s)",
    ),
    *("tg.tanh({acc} / s)", "tg.where(s > 0.0, {acc} / s, 0.5)", "sq / (s * s)", "tg.sqrt(sq) / s"),
    *(
        "s * tg.exp({ws} * m)",
        "tg.exp(tg.log(s) + {ws} * m)",
        "s / (s + {one})",
        "{one} / s",
        "{one} / tg.max(s, {one})",
    ),
    *(
        "tg.where({one} > s, {one} / s, 1.0)",
        "tg.log({one} / s)",
        "m + tg.log2(s) / {ls}",
        "{acc} * tg.exp(-tg.log(s))",
    ),
    *(
        "tg.log2(s) + {ls} * m",
        "s * s / sq",
        "m + tg.log(s + {one}) / {ws}",
        "{acc} / tg.sqrt(sq)",
        "tg.rsqrt(sq) * s",
    ),
)
WRONG_EPILOGUES = (
    *(
        "{acc}",
        "s",
        "m",
        "tg.log(s)",
        "{acc} / s + m",
        "{acc} / tg.sqrt(s)",
        "{acc} / (s + 1.0)",
        "sq",
        "sq / s",
        "m + {one}",
        "m + sq",
    ),
    *(
        "{acc} / tg.max(s, 1.0)",
        "tg.where(s > 1.0, {acc} / s, 0.3)",
        "tg.floor(m) + {acc} / s",
        "tg.log(s) - m",
    ),
    *("{acc} / (s + 1e-3)", "tg.log(s + 0.1) + m", "tg.max(m, tg.log(s) + m)", "m * tg.log(s)", "tg.sin(s)"),
    *(
        "{acc} / s * tg.where(m > 0.3, 1.0, 2.0)",
        "{acc} * s",
        "m + 0.5 * tg.log(s)",
        "m + tg.log(s) / 1.1",
        "m * m",
    ),
    *(
        "m + tg.log2(s)",
        "tg.log(s) + tg.max(m, 0.0)",
        "tg.exp(m)",
        "{acc} * tg.exp(m)",
        "{acc} - s",
        "p0",
        "r0",
    ),
    *(
        "tg.log1p(s) + m",
        "tg.abs(m) + tg.log(s)",
        "tg.clamp(s, 0.1, 2.0) / s",
        "s / (s + sq)",
        "tg.log(s) + m - m1 * 0.5",
    ),
    *(
        "m + s",
        "s - m",
        "tg.log(s) + s + m",
        "m1 - m",
        "{acc} / s * (m1 - m + 1.0)",
        "sq / (s * s) + tg.rint(m)",
        "{acc} / s - tg.exp(m)",
    ),
)
WRONG_MATMULS = ("s @ tg.tile_transpose(1.0 / s)", "tg.exp({ws} * m) @ tg.tile_transpose(s)") * 2
EXTRA_STATEMENTS = (
    *("", "", "", "", "", ""),
    *(
        "t = t + {z1}",
        "t = t + {x1} * {z1}",
        "t = {acc1} / (s + 1e-9)",
        "t = t + tg.where({x1} > 0.1, {z1}, 0.0)",
    ),
    "t = t * 0.5 + tg.log(s) + {ws} * m1",
)
WRONG_EXTRA_STATEMENTS = (
    *(
        "t = t + m",
        "t = t + s",
        "t = t + m1 - m",
        "t = t + tg.where(m1 > 0.3, {z1}, 0.0)",
        "t = tg.max(t, s)",
    ),
    *(
        "t = t + {x1} - m1",
        "t = tg.max(t, m1)",
        "t = t + {z1} * tg.exp(m - m1)",
        "t = t + tg.floor(m1) * {z1}",
    ),
    *("t = t + tg.where(s > 1.2, {z1}, 0.0)", "t = t + {z1} / (s + 1.0)", "t = m", "t = t + 0.1 * tg.sin(s)"),
    *(
        "t = t + tg.where(m1 > m, {z1}, 0.0)",
        "t = t + tg.where(m1 > {x1}, {z1}, 0.0)",
        "t = t + tg.rint(m1 - m) * {z1}",
    ),
)
LOOPS = ("for k in range(n):",) * 6 + (
    "for k in range(3):",
    "while k < n:",
    "for g in range(2):\nfor k in range(n):",
)
SCALAR_LOOPS = (
    *("while s < 2.5 and k < n:", "for k in range(int(a[i, 60] * 2.0 + 3.0)):", "while m < 1.2 and k < n:"),
    "for k in range(n):\nif {z} > 0.0:",
    "for k in range(n):\nif k % 2 == 0:",
    "for k in range(n):\nif {x} > m:",
    "for k in range(n):\nif m < 0.5:",
    "for k in range(n):\nif s < 1.5:",
)


class RescalingProgram:
    """A random program: `text`, a kernel(n, a, y) for `threads` rows of a, or for one tile. `count`: the argument n;
    `faults`: the number of parts that are drawn from the wrong alternatives."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.kind = self.rng.choice(KINDS + KINDS[1:] * 3)
        self.scalar = self.kind == "scalar"
        self.threads = 3 if self.scalar else 1
        self.faults = self.rng.choice((0, 0, 1, 1, 1, 2))
        self.faulty_parts = set(
            self.rng.sample(("exponential", "update", "epilogue", "extra", "start"), self.faults)
        )
        self.count = self.rng.choice(COUNTS[:2]) if self.rng.random() < 0.8 else self.rng.choice(COUNTS)
        self.lines: list[str] = []
        self.depth = 1
        self.write()
        self.text = "def kernel(n: int, a: tg.array2d[D], y: tg.array2d[D]):\n" + "\n".join(self.lines) + "\n"

    def __str__(self) -> str:
        return f"# n = {self.count}\n{self.text}"

    def emit(self, text: str) -> None:
        for line in text.split("; "):
            self.lines.append("    " * self.depth + line)

    def choose(self, part: str, correct: Sequence[str], wrong: Sequence[str]) -> str:
        return self.rng.choice(wrong if part in self.faulty_parts else correct)

    # Parts -----------------------------------------------------------------------------------------------------------

    def load(self, index: int) -> str:
        return (
            f"a[i, {index} + k]"
            if self.scalar
            else f"tg.tile_load(a, shape=(2, 4), offset=(0, {index} + 4 * k))"
        )

    def load_initial(self, index: int) -> str:
        if self.scalar:
            return f"a[i, {60 + index}]"
        rows, columns = SHAPES[self.kind]
        return f"tg.tile_load(a, shape=({rows}, {columns}), offset=(0, {72 + 4 * index}))"

    def full(self, value: str, shape: tuple[int, int] | None = None) -> str:
        if self.scalar:
            return f"D({value})"
        return f"tg.tile_full({shape or SHAPES[self.kind]}, {value}, dtype=D)"

    def reduction(self, op: str, x: str) -> str:
        if self.kind in ("scalar", "element"):
            return f"({x})"
        axis = 1 if self.kind == "row" else 0
        along_axis = f"tg.tile_{op}({x}, axis={axis}, keepdims=True)"
        return f"tg.tile_{op}({along_axis}, axis=1, keepdims=True)" if self.kind == "tile" else along_axis

    def exponential(self, w: float, a: str, b: str, wrong: bool = False) -> str:
        text = self.rng.choice(WRONG_EXPONENTIALS if wrong else EXPONENTIALS)
        return "(" + text.format(w=w, l=w * LOG2E, i=1 / w, a=a, b=b) + ")"

    def weighted_sum(self, p: str) -> str:
        """The weighted sum of the values along the axis of the reference value."""
        if self.kind == "row":
            return f"{p} @ v"
        if self.kind == "column":
            return f"tg.tile_transpose(tg.tile_transpose({p}) @ v)"
        return self.reduction("sum", f"{p} * z")

    def sum_term(self, name: str, p: str) -> str:
        """The term that an iteration adds to a sum."""
        if name == "acc":
            return self.weighted_sum(p)
        return self.reduction("sum", f"{p} * (z * z + 0.5)" if name == "one" else p)

    def write(self) -> None:
        rng, shape = self.rng, None if self.scalar else SHAPES[self.kind]
        self.emit("i = tg.tid()")
        start = rng.choice(STARTS)
        self.emit(f"m = {self.load_initial(0) if start == 'active' else self.full(start)}")
        acc_shape = {"row": (2, 2), "column": (2, 4)}.get(self.kind, shape)
        weights = {"s": rng.choice((1.0, 1.0, 1.0, 2.0, 0.5)), "acc": 1.0, "sq": 2.0, "one": 1.0}
        weights["acc"] = weights["one"] = weights["s"]
        weights["sq"] = 2 * weights["s"]
        epilogues = [self.epilogue(weights, "epilogue" in self.faulty_parts)]
        epilogues += [self.epilogue(weights, False) for _ in range(rng.randint(0, 1))]
        acc1 = "one" if self.kind in ("row", "column") else "acc"
        extra = self.choose("extra", EXTRA_STATEMENTS, WRONG_EXTRA_STATEMENTS).replace("{acc1}", acc1)
        used_names = set(re.findall(r"\w+", " ".join([*epilogues, extra])))
        weights = {name: w for name, w in weights.items() if name == "s" or name in used_names}
        for name in weights:
            zero = self.full("0.0", acc_shape if name == "acc" else shape)
            starts = [
                self.full("1.0"),
                self.load_initial(1),
                f"tg.exp({self.load_initial(1)} - {self.load_initial(2)})",
            ]
            active = "start" in self.faulty_parts and name != "acc" and rng.random() < 0.6
            self.emit(f"{name} = {rng.choice(starts) if active else zero}")
        self.emit(f"t = {self.full('0.0')}")
        for placeholder in sorted({"m1", "p0", "r0"} & used_names):
            self.emit(f"{placeholder} = {self.full('0.25')}")
        loop = rng.choice(LOOPS + SCALAR_LOOPS * 2 if self.scalar else LOOPS)
        loads = {"x": self.load(0), "z": self.load(24)}
        if loop.startswith("while"):
            self.emit("k = 0")
        for line in loop.format(**loads).split("\n"):
            self.emit(line)
            self.depth += 1
        self.body(weights, loads, extra, used_names)
        if loop.startswith("while"):
            self.depth -= loop.count("\n") + 1
            self.depth += 1
            self.emit("k += 1")
            self.depth -= 1
        else:
            self.depth -= loop.count("\n") + 1
        if rng.random() < 0.15:
            self.second_pass(weights)
        if rng.random() < 0.5 or "extra" in self.faulty_parts:
            epilogues.append("t")
        for c, text in enumerate(epilogues):
            if self.scalar:
                self.emit(f"y[i, {c}] = {text}")
            else:
                self.emit(f"tg.tile_store(y, {text}, offset=(0, {8 * c}))")

    def body(
        self, weights: dict[str, float], loads: dict[str, str], extra: str, used_names: set[str]
    ) -> None:
        rng = self.rng
        if self.scalar:
            self.emit("v = a[i, 12 + k]")
        elif self.kind == "column":
            self.emit("v = tg.tile_load(a, shape=(2, 2), offset=(2, 2 * k))")
        else:
            self.emit("v = tg.tile_load(a, shape=(4, 2), offset=(2, 2 * k))")
        self.emit(f"z = {loads['z']}")
        self.emit(f"x = {rng.choice(SCORES).format(**loads)}")
        reference_terms = {
            "top": self.reduction("max", "x"),
            "other": self.reduction("max", "z"),
            "clamped": self.reduction("max", "tg.clamp(x, -0.5, 0.5)"),
        }
        self.emit(f"m1 = {rng.choice(REFERENCES).format(**reference_terms)}")
        faulty_factor = rng.choice(("p", "r", "both", "q")) if "exponential" in self.faulty_parts else ""
        faulty_name = rng.choice(list(weights)) if "update" in self.faulty_parts or faulty_factor else ""
        loop_terms = {"x1": self.reduction("max", "x"), "z1": self.reduction("sum", "z")}
        for name, w in weights.items():
            is_faulty = name == faulty_name or rng.random() < 0.2
            condition = faulty_factor if is_faulty else ""
            wp = w * 0.5 if "update" in self.faulty_parts and is_faulty and rng.random() < 0.2 else w
            p = self.exponential(wp, "x", "m1", condition in ("p", "both"))
            q = self.exponential(w, "x", "m", condition == "q")
            ratio = self.exponential(w, "m", "m1", condition in ("r", "both"))
            self.emit(f"p_{name} = {self.sum_term(name, p)}")
            self.emit(f"r_{name} = {ratio}")
            wrong = "update" in self.faulty_parts and is_faulty and wp == w
            text = rng.choice(WRONG_UPDATES if wrong else UPDATES)
            if "{q}" in text:
                self.emit(f"q_{name} = {self.sum_term(name, q)}")
            self.emit(text.format(s=name, r=f"r_{name}", p=f"p_{name}", q=f"q_{name}", **loop_terms))
        for placeholder in sorted({"p0", "r0"} & set(used_names)):
            self.emit(f"{placeholder} = {placeholder[0]}_s")
        if extra:
            self.emit(extra.format(ws=weights["s"], **loop_terms))
        self.emit("m = m1")

    def second_pass(self, weights: dict[str, float]) -> None:
        self.emit("for k in range(n):")
        self.depth += 1
        self.emit(f"x = {self.load(0)}")
        self.emit(f"z = {self.load(24)}")
        p = self.exponential(
            weights["s"], "x", "m", "epilogue" in self.faulty_parts and self.rng.random() < 0.5
        )
        self.emit(f"t = t + {self.reduction('sum', f'{p} / s * z')}")
        self.depth -= 1

    def epilogue(self, weights: dict[str, float], wrong: bool) -> str:
        w = weights["s"]
        epilogues = (
            EPILOGUES if not wrong else WRONG_EPILOGUES if self.scalar else (*WRONG_EPILOGUES, *WRONG_MATMULS)
        )
        return self.rng.choice(epilogues).format(acc="acc", one="one", ws=w, ls=w * LOG2E)
