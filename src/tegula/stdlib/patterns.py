"""Parameter types of vector functions, with elements of any float dtype."""

from __future__ import annotations

from tegula.signature import ElementPattern
from tegula.types import MatType, VecType, float32, quaternion, transformation

Scalar = ElementPattern(float32, "a float")
Vec3 = ElementPattern(VecType(3, float32), "a vector (3,) of floats")
Spatial = ElementPattern(VecType(6, float32), "a spatial vector (6,) of floats")
Quat = ElementPattern(quaternion(float32), "a quaternion of floats")
Transform = ElementPattern(transformation(float32), "a transform of floats")
Mat33 = ElementPattern(MatType(3, 3, float32), "a matrix (3, 3) of floats")
Mat44 = ElementPattern(MatType(4, 4, float32), "a matrix (4, 4) of floats")
