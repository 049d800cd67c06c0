"""A Python function that is not a kernel."""

import tegula as tg


def clear(a):
    a[tg.tid()] = 0.0


tg.launch(clear, dim=4, inputs=[tg.zeros(4)])
