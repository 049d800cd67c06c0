"""Roots of unity and the radices of fast Fourier transforms, as NumPy arrays and constants of programs."""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from math import gcd, prod

import numpy as np

from tegula.target import get_cuda_target

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)
"""The prime factors of lengths that Stockham stages transform."""
MAX_RADIX = 16
"""The maximum radix of a stage, unless threads hold more elements."""
MIN_LOOP_RADIX = 11
"""The minimum prime radix whose butterfly is a loop over results on CPUs: smaller ones take as long unrolled."""
MAX_MULTIPLICATIONS = 800
"""On GPUs the maximum number of multiplications in the unrolled butterflies of large primes of a transform."""
MAX_REGISTER_RADIX = 12
"""The maximum radix of butterflies whose elements and twiddle factors the vector registers of CPUs hold."""
MIN_ELEMENTS, MAX_ELEMENTS = 4, 32
"""The minimum and the maximum number of complex elements that each thread of a group of warps holds in registers."""
POWERS = range(256, 8193)
"""The padded lengths on GPUs that are preferably powers of two."""
LENGTH_ALIGNMENT = 128
"""Padded lengths that are multiples of this number let the threads of warps keep the inputs of the first stage and the
results of the last stage in registers."""
LONG_LENGTHS = (9216, 10240, 12288, 16384, 17280, 19200, 20736, 23040, 24576, 27648)
"""The longer padded lengths on GPUs: their transforms have short code, or spill less than those of lengths between."""
SHARED_BYTES = get_cuda_target("sm_90a").shared_per_block
"""The maximum size of the shared memory of a block in bytes on GPUs from sm_90 on."""
MAX_LENGTH = 1 << 16
"""The maximum length of a transform by stages."""


def roots(n: int, powers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Real and imaginary parts of exp(-2 pi i k / n) for integers k, in float64."""
    cosine, sine = precise_roots(n, powers)
    return cosine.astype(np.float64), sine.astype(np.float64)


def precise_roots(n: int, powers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of `roots` as long doubles. Angles are reduced to an eighth of a turn in integer arithmetic, so that
    symmetric roots are equal up to sign and roots on the axes are exact."""
    octant, remainder = np.divmod(8 * (powers % n), n)
    angle = np.where(octant % 2, n - remainder, remainder) * (np.arctan(np.longdouble(1.0)) / n)
    cosine_of_angle, sine_of_angle = np.cos(angle), np.sin(angle)
    is_swapped = (octant + 1) // 2 % 2 == 1
    cosine, sine = (
        np.where(is_swapped, sine_of_angle, cosine_of_angle),
        np.where(is_swapped, cosine_of_angle, sine_of_angle),
    )
    cosine = np.where((octant >= 2) & (octant < 6), -cosine, cosine)
    return cosine, np.where(octant >= 4, sine, -sine)


def is_smooth(n: int, primes: tuple[int, ...] = PRIMES) -> bool:
    """Whether all prime factors of n are in `primes`."""
    for p in primes:
        while n % p == 0:
            n //= p
    return n == 1


@lru_cache(maxsize=256)
def radices(n: int, largest: int = MAX_RADIX) -> tuple[int, ...]:
    """The shortest factorisation of n with factors of at most `largest`, or larger prime factors, in descending order;
    among equally short factorisations the one with the smallest sum."""
    if n == 1:
        return ()
    divisors = [r for r in range(2, min(n, largest) + 1) if n % r == 0] or [
        min(p for p in PRIMES if n % p == 0)
    ]
    factorisations = [(r, *radices(n // r, largest)) for r in divisors]
    shortest = min(factorisations, key=lambda x: (len(x), sum(x)))
    return tuple(sorted(shortest, reverse=True))


def radices_of_threads(n: int, elements: int) -> tuple[int, ...]:
    """The radices of a transform by threads that hold `elements` elements each. Threads with MIN_ELEMENTS elements take
    one butterfly in the first and the last stage, and larger ones between these stages, which some of the threads
    compute."""
    if elements == MIN_ELEMENTS and n >= MIN_ELEMENTS**3 and n % MIN_ELEMENTS**2 == 0:
        return MIN_ELEMENTS, *radices(n // MIN_ELEMENTS**2, 2 * MIN_ELEMENTS), MIN_ELEMENTS
    return radices(n, elements if elements == MAX_ELEMENTS else MAX_RADIX)


def radices_in_lanes(n: int) -> tuple[int, ...]:
    """The radices of transforms whose rows are lanes of vectors. The largest radices are last, where there are no
    twiddle factors: their elements fill the vector registers. MAX_RADIX, which exceeds them, is worth only the last
    stage, and only if it saves a stage."""
    result = radices(n, MAX_RADIX - 1)
    if n % MAX_RADIX == 0:
        result = min(result, (*radices(n // MAX_RADIX, MAX_RADIX - 1), MAX_RADIX), key=len)
    return tuple(sorted(result, key=lambda r: (r > MAX_REGISTER_RADIX, -r)))


def stages(n: int, elements: int = MAX_RADIX, in_lanes: bool = False) -> tuple[tuple[int, int, int], ...]:
    """The stages of a transform by threads that hold `elements` elements each, or of transforms whose rows are lanes:
    the radix r, the number m of butterflies per subsequence, and the number s of interleaved subsequences, with
    r * m * s = n."""
    return stages_of(radices_in_lanes(n) if in_lanes else radices_of_threads(n, elements))


def stages_of(radices: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """The stages of a transform with these radices."""
    n, result, subsequences = prod(radices), list[tuple[int, int, int]](), 1
    for r in radices:
        result.append((r, n // subsequences // r, subsequences))
        subsequences *= r
    return tuple(result)


def runs(plan: tuple[tuple[int, int, int], ...]) -> tuple[tuple[int, int, int, int], ...]:
    """The runs of stages of equal radix: r, m and s of the first stage, and the number of stages. Stages with a large
    prime radix are runs of their own, because the code of their butterflies writes results."""
    result = list[tuple[int, int, int, int]]()
    for r, m, s in plan:
        if result and result[-1][0] == r and r <= MAX_RADIX:
            result[-1] = (*result[-1][:3], result[-1][3] + 1)
        else:
            result.append((r, m, s, 1))
    return tuple(result)


def run_stages(r: int, m: int, s: int, count: int) -> np.ndarray:
    """The stages of a run, (count, 3): s, the first column of the stage in `run_twiddles`, and, if `quotient_bits` is
    not 0, 2 ** quotient_bits / s, rounded up."""
    columns, spans = [m // r**k for k in range(count)], [s * r**k for k in range(count)]
    power = 1 << quotient_bits(r, m, s, count)
    return np.array([(spans[k], sum(columns[:k]), -(-power // spans[k])) for k in range(count)], np.int32)


def quotient_bits(r: int, m: int, s: int, count: int) -> int:
    """The number of bits of the products of 32 bits, of a number below m * s and a number of `run_stages`, that follow
    the exact quotient; 0 if it would not be exact."""
    bits = 32 - (m * s).bit_length()
    return bits if m * s * s * r ** (count - 1) <= 1 << bits else 0


@lru_cache(maxsize=64)
def run_twiddles(r: int, m: int, count: int) -> np.ndarray:
    """The twiddle factors of the stages of a run, (r, columns, 2): those of `twiddles` side by side."""
    return np.concatenate([twiddles(r, m // r**k) for k in range(count)], axis=1)


@lru_cache(maxsize=64)
def twiddles(r: int, m: int) -> np.ndarray:
    """The twiddle factors between stages, (r, m, 2): real and imaginary parts of exp(-2 pi i k p / (r m))."""
    return np.stack(roots(r * m, np.arange(r)[:, None] * np.arange(m)), axis=-1)


def padded_length(n: int, on_gpu: bool = False, place_bytes: int = 8) -> int:
    """The padded length of Bluestein's algorithm: the least length >= 2 n - 1 without prime factors above 5. On GPUs
    the next power of two, if in POWERS, because transforms of such lengths take half the time for an element and have
    the shortest code, unless a multiple of LENGTH_ALIGNMENT is at most two thirds of it; the next of LONG_LENGTHS, if
    that is a longer row and fits the shared memory; otherwise a multiple of LENGTH_ALIGNMENT that is at most an eighth
    longer than the least length. `place_bytes`: the bytes of shared memory for each place of a padded row."""
    least = _next_smooth(2 * n - 1)
    if not on_gpu:
        return least
    power, aligned = 1 << (2 * n - 2).bit_length(), _next_smooth(least, LENGTH_ALIGNMENT)
    if power in POWERS:
        return aligned if 3 * aligned <= 2 * power else power
    long = next((x for x in LONG_LENGTHS if x >= least), 0) if power > POWERS[-1] else 0
    if long and long * place_bytes <= SHARED_BYTES:
        return long
    return aligned if aligned <= least + least // 8 else least


def _next_smooth(least: int, step: int = 1) -> int:
    """The least multiple of `step` from `least` on without prime factors above 5."""
    return next(x for x in count(-(-least // step) * step, step) if is_smooth(x, (2, 3, 5)))


@lru_cache(maxsize=64)
def chirp_factors(n: int, length: int) -> np.ndarray:
    """The factors of Bluestein's algorithm, (2, length, 2), real and imaginary parts in the last dimension. The first
    transform is multiplied by the conjugate of the spectrum of the conjugate chirp, divided by the padded length, where
    the chirp is periodic with this length and symmetric around 0. The second transform is multiplied by the chirp
    exp(-pi i k * k / n), padded with zeros."""
    cosine, sine = precise_roots(2 * n, np.arange(n) ** 2)
    chirp, padded = np.zeros(length, np.clongdouble), np.zeros(length, np.clongdouble)
    chirp[:n] = cosine + 1j * sine
    padded[:n] = np.conj(chirp[:n])
    padded[length - n + 1 :] = padded[1:n][::-1]
    result = np.stack((np.conj(np.fft.fft(padded)) / length, chirp))
    return np.stack((result.real, result.imag), axis=-1).astype(np.float64)


def factors(r: int) -> tuple[int, ...]:
    """The factors of a radix in a butterfly: 4 and prime numbers."""
    result = list[int]()
    for f in (4, *PRIMES):
        while r % f == 0:
            result.append(f)
            r //= f
    return tuple(result)


@lru_cache(maxsize=64)
def butterfly_steps(r: int) -> tuple[tuple[int, np.ndarray, np.ndarray], ...]:
    """The steps of a butterfly of r elements, by factor: the factor f, the positions (steps, r / f, f) of the elements
    that each transform of a step combines, and the powers of the root by which its results are multiplied."""
    steps, stride = dict[int, list[tuple[np.ndarray, np.ndarray]]](), r
    for f in factors(r):
        stride //= f
        first, offset = np.divmod(np.arange(r // f, dtype=np.int32)[:, None], stride)
        k = np.arange(f, dtype=np.int32)
        powers = k * offset * (0 if has_coprime_factors(r) else r // f // stride)
        steps.setdefault(f, []).append((first * (f * stride) + offset + k * stride, powers))
    return tuple((f, np.stack([p for p, _ in s]), np.stack([p for _, p in s])) for f, s in steps.items())


def has_coprime_factors(r: int) -> bool:
    """Whether a radix is the product of two coprime factors of a butterfly, whose steps need no twiddle factors if
    the elements are reordered (Good and Thomas)."""
    return len(factors(r)) == 2 and gcd(*factors(r)) == 1


def is_large_prime(r: int) -> bool:
    """Whether a radix is a prime number whose butterfly is a loop over results on CPUs."""
    return r in PRIMES and r >= MIN_LOOP_RADIX


def is_loop_on_gpu(r: int, m: int, s: int) -> bool:
    """Whether the butterflies of stage (r, m, s) are loops over results on GPUs: of a prime above MAX_ELEMENTS, or of a
    prime above MAX_RADIX in a stage before the last one, whose results stay in registers, if the butterflies of all
    stages have more than MAX_MULTIPLICATIONS."""
    primes = [p for p in PRIMES if p > MAX_RADIX]
    if r not in primes:
        return False
    multiplications, n = 0, r * m * s
    for p in primes:
        while n % p == 0:
            multiplications, n = multiplications + (p - 1) ** 2, n // p
    return r > MAX_ELEMENTS or m > 1 and multiplications > MAX_MULTIPLICATIONS


@lru_cache(maxsize=16)
def roots_of_pairs(r: int) -> np.ndarray:
    """The roots by which result k + 1 of a butterfly of an odd number of elements multiplies the sums and differences
    of its pairs j of elements, real and imaginary parts of exp(-2 pi i (k + 1) (j + 1) / r). Two of them are a row of
    four numbers; the number of pairs is rounded up to an even number."""
    half = (r - 1) // 2
    k, j = np.arange(1, half + 1), np.arange(1, half + half % 2 + 1)
    return np.stack(roots(r, k[:, None] * j), axis=-1).reshape(half, -1, 4)


def input_order(r: int) -> np.ndarray:
    """The index of the element at each position before the first step of a butterfly."""
    if not has_coprime_factors(r):
        return np.arange(r, dtype=np.int32)
    f, g = factors(r)
    return ((g * np.arange(f, dtype=np.int32)[:, None] + f * np.arange(g, dtype=np.int32)) % r).ravel()


def output_position(r: int) -> np.ndarray:
    """The position of each result after the last step of a butterfly: the digit reversal of the index, or the
    remainders of the index modulo coprime factors."""
    if has_coprime_factors(r):
        f, g = factors(r)
        k = np.arange(r, dtype=np.int32)
        return k % f * g + k % g
    order = np.zeros(1, np.int32)
    for _, positions, _ in butterfly_steps(r):
        for first in positions[:, 0]:
            order = (order[None, :] + first[:, None]).ravel()
    return order


__all__ = [
    "butterfly_steps",
    "chirp_factors",
    "factors",
    "has_coprime_factors",
    "input_order",
    "is_large_prime",
    "is_loop_on_gpu",
    "is_smooth",
    "output_position",
    "padded_length",
    "quotient_bits",
    "radices",
    "roots",
    "roots_of_pairs",
    "run_stages",
    "run_twiddles",
    "runs",
    "stages",
    "stages_of",
    "twiddles",
]
