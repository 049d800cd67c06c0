"""A mistake in a kernel made with exec and source=."""

import tegula as tg

text = """
def double(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = a[j] * 2.0
"""
names = {"tg": tg}
exec(text, names)
double = tg.kernel(source=text)(names["double"])

tg.launch(double, dim=4, inputs=[tg.zeros(4)])
