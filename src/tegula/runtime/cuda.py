"""CUDA through cuda-core. The only file that imports it, and only when a function here is called."""

from __future__ import annotations


def describe_devices() -> list[str]:
    """One line per CUDA device: number, name, compute capability.

    ImportError without the extra "gpu"; RuntimeError if the driver is missing or refuses."""
    from cuda.core import Device  # pyright: ignore[reportMissingImports]

    try:
        devices = Device.get_all_devices()
    except Exception as error:  # the driver's failures come as many classes; callers need the reason alone
        raise RuntimeError(str(error) or type(error).__name__) from error
    lines = []
    for device in devices:
        major, minor = device.compute_capability
        lines.append(f"{device.device_id}: {device.name}, compute capability {major}.{minor}")
    return lines
