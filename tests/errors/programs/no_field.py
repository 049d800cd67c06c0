"""A name that is not a field of a struct."""

import tegula as tg


@tg.struct
class Body:
    mass: float
    position: tg.vec3


body = Body()
body.mas = 2.0
