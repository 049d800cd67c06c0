"""An array in read-only memory that the kernel writes."""

import numpy as np

import tegula as tg


@tg.kernel
def clear(a: tg.array1d[float]):
    a[tg.tid()] = 0.0


memory = np.ones(4, np.float32)
memory.flags.writeable = False
tg.launch(clear, dim=4, inputs=[memory])
