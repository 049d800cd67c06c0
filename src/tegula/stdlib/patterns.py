"""The types of parameters of functions of vectors: elements of any dtype of floats."""

from __future__ import annotations

from tegula.signature import ElementPattern
from tegula.types import MatType, VecType, float32, quaternion, transformation

Scalar = ElementPattern(float32)
Vec3 = ElementPattern(VecType(3, float32))
Spatial = ElementPattern(VecType(6, float32))
Quat = ElementPattern(quaternion(float32))
Transform = ElementPattern(transformation(float32))
Mat33 = ElementPattern(MatType(3, 3, float32))
Mat44 = ElementPattern(MatType(4, 4, float32))
