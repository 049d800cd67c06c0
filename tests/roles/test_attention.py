"""Two concurrent consumers with separate tiles in shared memory, which must not share bytes."""

from __future__ import annotations

import numpy as np
import pytest
from exact_data import agree
from two_consumer_attention import BM, BN, attention

import tegula as tg

pytestmark = pytest.mark.machine_code


@pytest.mark.parametrize("shared", ["shared", "register"])
@pytest.mark.parametrize("d", [64, 128])
def test_shared_memory_of_concurrent_roles_is_disjoint(d: int, shared: str) -> None:
    rng, m, n = np.random.default_rng(d), 4 * BM, 5 * BN
    q, k, v = (rng.integers(-1, 2, (rows, d)).astype(np.float16) for rows in (m, n, n))
    args = [tg.array(x) for x in (q, k, v)]
    *_, o = agree(attention(d, shared), [*args, tg.zeros((m, d)), 5], 2)
    expected = (q.astype(np.float32) @ k.T.astype(np.float32) > 0).astype(np.float32) @ v.astype(np.float32)
    assert np.array_equal(o, expected)
