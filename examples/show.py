"""The options, timing and pictures of the examples.

python examples/NAME.py [--device cuda:0] [--size N] [--picture PATH.svg]

Pictures need matplotlib: pip install --group pictures"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import tegula as tg


def main(run: Callable[[int], Any], draw: Callable[[Any, Any], None], size: int) -> None:
    """Run an example with the options of the command line.

    Parameters:
        run: computes the result from a size, on the current device.
        draw: draws a result on a figure of matplotlib.
        size: the default of --size.
    """
    options = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    options.add_argument("--device", default="cpu", help="the device: cpu, cuda:0, ...")
    options.add_argument("--size", type=int, default=size, help="the size of the problem")
    options.add_argument("--picture", metavar="PATH", help="a file to draw the result to, such as result.svg")
    args = options.parse_args()
    if args.size < 1:
        options.error("--size must be positive")
    if args.picture and find_spec("matplotlib") is None:
        options.error("--picture needs matplotlib: pip install --group pictures")
    with tg.ScopedDevice(args.device):
        for kind in ("with compilation", "without compilation"):
            start = time.perf_counter()
            result = run(args.size)
            tg.synchronize()
            print(f"size {args.size} on {args.device}: {time.perf_counter() - start:.3f} s {kind}")
    if args.picture:
        picture(args.picture, draw, result)


def picture(path: str, draw: Callable[[Any, Any], None], result: Any) -> None:
    """Draw a result to a file, the same bytes each time."""
    matplotlib: Any = import_module("matplotlib")
    figures: Any = import_module("matplotlib.figure")
    style = {"svg.fonttype": "none", "svg.hashsalt": "tegula", "font.size": 9, "axes.titlesize": 10}
    with matplotlib.rc_context(style):
        figure = figures.Figure(figsize=(6.4, 3.2), layout="constrained")
        draw(figure, result)
        figure.savefig(
            path,
            bbox_inches="tight",
            metadata={"Date": None, "Creator": None} if path.endswith(".svg") else None,
        )


def images(figure: Any, titled: dict[str, Any], **options: Any) -> None:
    """Draw images with titles next to each other."""
    for axes, (title, image) in zip(
        figure.subplots(1, len(titled), squeeze=False)[0], titled.items(), strict=True
    ):
        axes.imshow(image, **options)
        axes.set_title(title)
        axes.set_axis_off()
