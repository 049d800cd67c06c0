"""A kernel made with exec, without its text."""

import tegula as tg

text = """
def double(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = a[i] * 2.0
"""
names = {"tg": tg}
exec(text, names)
double = tg.kernel(names["double"])

tg.launch(double, dim=4, inputs=[tg.zeros(4)])
