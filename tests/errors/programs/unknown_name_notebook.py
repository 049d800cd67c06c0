"""A mistake in a notebook cell."""

import linecache

import tegula as tg

text = """
@tg.kernel
def double(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = b[i] * 2.0
"""
cell = "<ipython-input-1>"
linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)
names = {"tg": tg}
exec(compile(text, cell, "exec"), names)

tg.launch(names["double"], dim=4, inputs=[tg.zeros(4)])
