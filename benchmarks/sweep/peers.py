"""The baselines of each point: differentiable PyTorch functions on the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, flex_attention, sdpa_kernel

from benchmarks.sweep.attention import SOFTCAP
from benchmarks.sweep.attention_kernels import LOG2E, ROWS
from benchmarks.sweep.point import Point

bf16 = torch.bfloat16
Function = Callable[..., Any]
"""A function of the inputs of a point that returns its result, or a tuple of its results."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A baseline. `prepare` returns the function for inputs of the given shapes and dtypes. `is_fallback`: whether the
    peer is measured only if all earlier peers fail."""

    name: str
    prepare: Callable[..., Function]
    is_fallback: bool = False


def eager(name: str, function: Function, is_fallback: bool = False) -> Peer:
    """A function in eager mode."""
    return Peer(name, lambda *inputs: function, is_fallback)


def compiled(function: Function) -> Peer:
    """A function that is compiled by torch.compile."""
    return Peer("compiled", lambda *inputs: torch.compile(function, dynamic=False))


def eager_and_compiled(function: Function) -> list[Peer]:
    """A function in eager mode, and compiled."""
    return [eager("eager", function), compiled(function)]


# Matmuls --------------------------------------------------------------------------------------------------------------


def float8(a: Any, b: Any) -> Function:
    """A matmul with the transpose of B that accumulates in tensor cores."""
    unit_scale = torch.ones((), device=a.device)
    return lambda a, b: torch._scaled_mm(a, b.T, unit_scale, unit_scale, out_dtype=bf16, use_fast_accum=True)


def tf32(a: Any, b: Any) -> Function:
    """A float32 matmul with the transpose of B, with operands rounded to tf32."""
    torch.backends.cuda.matmul.allow_tf32 = True
    return lambda a, b: torch.mm(a, b.T)


def group_by_group(a: Any, b: Any, starts: Any, groups: Any, ends: Any) -> Function:
    """A matmul for each group of rows."""
    bounds = [0, *ends.tolist()]
    slices = [slice(*bounds[g : g + 2]) for g in range(len(bounds) - 1)]
    return lambda a, b, *tables: torch.cat([a[rows] @ b[g] for g, rows in enumerate(slices)])


def convolution(x: Any, w: Any) -> Function:
    """A convolution of images in channels-last memory; weights are permuted once, unless they have a gradient."""
    filters_by_dtype: dict[int, Any] = {}

    def ordered(w: Any) -> Any:
        filters = w.reshape(3, 3, *w.shape[1:]).permute(3, 2, 0, 1)
        return filters.contiguous(memory_format=torch.channels_last)

    def function(x: Any, w: Any) -> Any:
        if w.requires_grad:
            filters = ordered(w)
        else:
            address = w.data_ptr()
            filters = filters_by_dtype.setdefault(
                address, filters_by_dtype[address] if address in filters_by_dtype else ordered(w)
            )
        return functional.conv2d(x.permute(0, 3, 1, 2), filters, padding=1).permute(0, 2, 3, 1)

    torch.backends.cudnn.benchmark = True
    return function


def row_scaled(a: Any, b: Any, e: Any) -> Any:
    return ((a @ b) * e[:, None]).to(bf16)


MM = [eager("cuBLAS", lambda a, b, *count: torch.mm(a, b))]
MATMULS: dict[str, list[Peer]] = {
    "B transposed": [eager("cuBLAS", lambda a, b: torch.mm(a, b.T))],
    "A transposed": [eager("cuBLAS", lambda a, b: torch.mm(a.T, b))],
    "float8": [Peer("cuBLAS", float8)],
    "tf32": [Peer("cuBLAS", tf32)],
    "float32 result": [
        eager("cuBLAS", lambda a, b: torch.mm(a, b, out_dtype=torch.float32)),
        eager("cuBLAS and a conversion", lambda a, b: torch.mm(a, b).float(), is_fallback=True),
    ],
    "batched": [eager("cuBLAS", torch.bmm)],
    "grouped": [
        eager("grouped mm", lambda a, b, starts, groups, ends: torch._grouped_mm(a, b, offs=ends)),
        Peer("cuBLAS, group by group", group_by_group),
    ],
    "A.T @ A, lower half": [eager("cuBLAS", lambda a: torch.mm(a.T, a))],
    "AB + CD": [
        eager("cuBLAS", lambda a, b, c, d: torch.addmm(torch.mm(a, b), c, d)),
        *eager_and_compiled(lambda a, b, c, d: a @ b + c @ d),
    ],
    "int8 weights": eager_and_compiled(lambda a, b: a @ b.to(bf16)),
    "bias and gelu": eager_and_compiled(
        lambda a, b, e: functional.gelu(torch.addmm(e, a, b), approximate="tanh")
    ),
    "silu": eager_and_compiled(lambda a, b: functional.silu(a @ b)),
    "residual": eager_and_compiled(lambda a, b, e: torch.addmm(e, a, b)),
    "row scale": eager_and_compiled(row_scaled),
    **dict.fromkeys(
        ("swiglu 128x128", "swiglu 128x64"),
        eager_and_compiled(lambda a, v, w: functional.silu(a @ v) * (a @ w)),
    ),
    "QKV": eager_and_compiled(lambda x, u, v, w: (x @ u, x @ v, x @ w)),
    "MLP": eager_and_compiled(lambda x, v, w: torch.relu(x @ v) @ w),
    "3x3 convolution": [Peer("cuDNN", convolution)],
}
"""The peers of matmuls by the text after the comma in the name of a point; other points have MM."""

# Attention ------------------------------------------------------------------------------------------------------------


def sdpa(backend: SDPBackend, causal: bool = False, biased: bool = False, sums: bool = False) -> Function:
    """Attention of a library. `sums`: the logarithms of the sums are stored, as for gradients."""

    def function(q: Any, k: Any, v: Any, scale: float, *option_arrays: Any) -> Any:
        if sums and not q.requires_grad:
            q = q.detach().requires_grad_()
        # Inputs with one query hold the heads of all sequences, 32 heads of queries each.
        batches = len(q) // 32 if q.shape[1] == 1 else 1
        q, k, v = (t.unflatten(0, (batches, -1)) for t in (q, k, v))
        mask = option_arrays[0][None, None] if biased else None
        with sdpa_kernel(backend):
            out = functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
            )
        return out.flatten(0, 1)

    return function


def flex(score: Function | None = None, mask: Function | None = None, sink: bool = False) -> Peer:
    """Compiled flex attention. `score` and `mask` return the functions of positions for the arrays of the option."""

    def prepare(q: Any, k: Any, v: Any, scale: float, *option_arrays: Any) -> Function:
        block_mask = None
        if mask is not None:
            lengths = q.shape[1], k.shape[1]
            block_mask = flex_attention.create_block_mask(
                mask(*option_arrays), None, None, *lengths, device=q.device
            )
        options = {
            "score_mod": score(*option_arrays) if score is not None else None,
            "block_mask": block_mask,
            "enable_gqa": len(q) != len(k),
        }
        attend = flex_attention.flex_attention

        def attend_without_sink(q: Any, k: Any, v: Any) -> Any:
            return attend(q[None], k[None], v[None], **options)[0]

        def attend_with_sink(q: Any, k: Any, v: Any, sinks: Any) -> Any:
            if hasattr(flex_attention, "AuxRequest"):
                request = flex_attention.AuxRequest(lse=True)
                out, aux = attend(q[None], k[None], v[None], **options, return_aux=request)
                sums = aux.lse
            else:
                out, sums = attend(q[None], k[None], v[None], **options, return_lse=True)
            return (out * torch.sigmoid(sums - sinks[:, None])[..., None]).to(bf16)[0]

        result = torch.compile(attend_with_sink if sink else attend_without_sink, dynamic=False)
        return lambda q, k, v, scale, *more: result(q, k, v, *(more if sink else ()))

    return Peer("flex attention", prepare, is_fallback=score is None and mask is None and not sink)


def paged(q: Any, k: Any, v: Any, scale: float, pages: Any) -> Function:
    """Compiled flex attention with a mask of the pages of each sequence."""
    count, width = pages.shape
    owner = torch.empty(k.shape[1] // ROWS, dtype=torch.long, device=q.device)
    owner[pages.long()] = torch.arange(count, device=q.device)[:, None]
    zeros = torch.zeros((count, 1, 1), dtype=torch.int32, device=q.device)
    mask = flex_attention.BlockMask.from_kv_blocks(
        zeros,
        pages[:, None, None],
        torch.full_like(zeros, width),
        pages[:, None, None].contiguous(),
        BLOCK_SIZE=(ROWS, ROWS),
        mask_mod=lambda b, h, i, j: owner[j // ROWS] == b,
        seq_lengths=(1, k.shape[1]),
        compute_q_blocks=False,
    )
    attend = torch.compile(flex_attention.flex_attention, dynamic=False)

    def function(q: Any, k: Any, v: Any, scale: float, pages: Any) -> Any:
        heads = q.unflatten(0, (count, -1))
        return attend(heads, k[None], v[None], block_mask=mask, enable_gqa=True).flatten(0, 1)

    return function


def gathered(q: Any, k: Any, v: Any, scale: float, pages: Any) -> Function:
    """Library attention on keys that were gathered into a contiguous array beforehand."""

    def ordered(t: Any) -> Any:
        pages_of_sequences = t.unflatten(1, (-1, ROWS))[:, pages.long()]
        return pages_of_sequences.transpose(0, 1).reshape(len(pages) * len(t), -1, t.shape[-1])

    keys, values = ordered(k), ordered(v)
    attend = sdpa(SDPBackend.FLASH_ATTENTION)
    return lambda q, k, v, scale, pages: attend(q, keys, values, scale)


def alibi(slopes: Any) -> Function:
    natural = slopes / LOG2E
    return lambda score, b, h, i, j: score - (i - j).abs() * natural[h]


def softcap() -> Function:
    return lambda score, b, h, i, j: SOFTCAP * torch.tanh(score / SOFTCAP)


def bias(matrix: Any) -> Function:
    return lambda score, b, h, i, j: score + matrix[i, j]


def causal() -> Function:
    return lambda b, h, i, j: j <= i


def window(width: int) -> Function:
    return lambda: lambda b, h, i, j: (j <= i) & (j > i - width)


def documents(owner: Any, first: Any) -> Function:
    return lambda b, h, i, j: (j <= i) & (owner[i] == owner[j])


CUDNN, FLASH = SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION
SDPA = [eager("cuDNN", sdpa(CUDNN)), eager("FlashAttention", sdpa(FLASH), is_fallback=True), flex()]
ATTENTIONS: dict[str, list[Peer]] = {
    "causal": [eager("cuDNN", sdpa(CUDNN, causal=True)), flex(mask=causal)],
    "window 1024": [flex(mask=window(1024))],
    "window 1000": [flex(mask=window(1000))],
    "softcap": [flex(score=softcap)],
    "ALiBi": [flex(score=alibi)],
    "documents": [flex(mask=documents)],
    "bias tile": [eager("cuDNN", sdpa(CUDNN, biased=True)), flex(score=bias)],
    "sink": [flex(sink=True)],
    "sums stored": [eager("cuDNN", sdpa(CUDNN, sums=True)), flex()],
    "decode": [eager("cuDNN", sdpa(CUDNN)), eager("FlashAttention", sdpa(FLASH))],
    "paged decode": [
        Peer("flex attention", paged),
        Peer("FlashAttention without pages", gathered, is_fallback=True),
    ],
}
"""The peers of attention by the text after the comma in the name of a point; other points have SDPA."""


def peers(point: Point) -> Sequence[Peer]:
    """The peers of a point, in order; points on rows are compared with a copy only."""
    name = point.name.partition(", ")[2]
    if point.group == "rows":
        return ()
    return MATMULS.get(name, MM) if point.group == "GEMM" else ATTENTIONS.get(name, SDPA)
