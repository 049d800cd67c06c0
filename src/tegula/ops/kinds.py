"""Kinds of parameters and families of kernel functions: the shared texts of their docstrings."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from tegula.ops.documented import Family, Kind

# Of elements ----------------------------------------------------------------------------------------------------------

_LITERAL = {"out-of-range": "a literal does not fit the dtype that it takes"}
_ONE_TYPE = {
    "mixed-scalar-types": "the operands differ in type; operands are not converted",
    "shape-mismatch": "the shapes of tiles do not broadcast",
    **_LITERAL,
}
_ADAPTS = "which broadcast; a literal is converted to the dtype of the other operand."

AnyElements: TypeAlias = Annotated[
    Any,
    Kind(
        f"scalars, vectors or matrices of one type, or tiles of such elements, {_ADAPTS}",
        {**_ONE_TYPE, "type-mismatch": "an operand is not a scalar, vector, matrix or tile"},
    ),
]
Numbers: TypeAlias = Annotated[
    Any,
    Kind(
        f"scalars, vectors or matrices of one type but bool, or tiles of such elements, {_ADAPTS}", _ONE_TYPE
    ),
]
BitsOfElements: TypeAlias = Annotated[
    Any,
    Kind(
        f"scalars, vectors or matrices of one type of integers or bool, or tiles of such elements, {_ADAPTS}",
        {**_ONE_TYPE, "type-mismatch": "an operand is a float, or not a scalar, vector, matrix or tile"},
    ),
]
Floats: TypeAlias = Annotated[
    Any,
    Kind(
        f"scalars, vectors or matrices of one type of floats, or tiles of such elements, {_ADAPTS}",
        {**_ONE_TYPE, "type-mismatch": "the operands are not floats"},
    ),
]
ScaledNumbers: TypeAlias = Annotated[
    Any,
    Kind(
        "scalars or tiles of scalars of one dtype but bool; or one scalar and a vector or matrix; a literal is "
        "converted to the dtype of the other operand.",
        _ONE_TYPE,
    ),
]
Number: TypeAlias = Annotated[
    Any,
    Kind(
        "a scalar, vector, matrix or tile of any dtype but bool.",
        {"type-mismatch": "{name} is a bool, or not a scalar, vector, matrix or tile", **_LITERAL},
    ),
]
Float: TypeAlias = Annotated[
    Any,
    Kind(
        "a scalar, vector, matrix or tile of floats.",
        {
            "type-mismatch": "the components of {name} are not floats; a literal such as 4 is an integer",
            **_LITERAL,
        },
    ),
]
Integer: TypeAlias = Annotated[
    Any,
    Kind(
        "a scalar, vector, matrix or tile of integers.",
        {"type-mismatch": "the components of {name} are not integers", **_LITERAL},
    ),
]
Condition: TypeAlias = Annotated[
    Any,
    Kind(
        "a bool or an integer, true unless 0: a scalar for whole values, a tile for each element; or an array, true "
        "unless None.",
        {"type-mismatch": "the condition is a float, or not a scalar or tile"},
    ),
]
SelectOperand: TypeAlias = Annotated[
    Any,
    Kind(
        "values of one type: scalars, vectors, matrices, tiles that broadcast, or literals.",
        {
            "type-mismatch": "the two values differ in type",
            "mixed-scalar-types": "a literal is of another kind than the other value",
            "shape-mismatch": "the shapes of tiles do not broadcast",
            **_LITERAL,
        },
    ),
]
AVector: TypeAlias = Annotated[
    Any, Kind("a vector.", {"type-mismatch": "{name} is not a vector", **_LITERAL})
]
AMatrix: TypeAlias = Annotated[
    Any, Kind("a matrix.", {"type-mismatch": "{name} is not a matrix", **_LITERAL})
]
ComponentType: TypeAlias = Annotated[
    Any,
    Kind(
        "the scalar type; for a vector or matrix type, the type of its components.",
        {"type-mismatch": "{name} is not an element type"},
    ),
]

# Of tiles -------------------------------------------------------------------------------------------------------------

ATile: TypeAlias = Annotated[Any, Kind("a tile.", {"type-mismatch": "{name} is not a tile"})]
Shape: TypeAlias = Annotated[
    Any,
    Kind(
        "1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.",
        {
            "not-constant": "a length is known at run time only",
            "out-of-range": "a length is below 1, or there are more than 4",
            "tile-too-large": "the tile has more than 2**26 elements",
        },
    ),
]
ElementDtype: TypeAlias = Annotated[
    Any,
    Kind(
        "the element type, a scalar, vector or matrix type; float32 by default.",
        {"type-mismatch": "{name} is not an element type"},
    ),
]
LikeDtype: TypeAlias = Annotated[
    Any,
    Kind(
        "the element type, a scalar, vector or matrix type; the element type of `a` by default.",
        {"type-mismatch": "{name} is not an element type"},
    ),
]
Storage: TypeAlias = Annotated[
    Any,
    Kind(
        '"register" (the default), for a value, or "shared", for an object to which several names may refer.',
        {"out-of-range": "{name} is another string"},
    ),
]
Axis: TypeAlias = Annotated[
    Any,
    Kind(
        "the dimension or tuple of dimensions, constants from -rank to rank - 1; all dimensions by default.",
        {"not-constant": "{name} is known at run time only", "out-of-range": "there is no such dimension"},
    ),
]
FirstAxis: TypeAlias = Annotated[
    Any,
    Kind(
        "the dimension, a constant from -rank to rank - 1; 0 by default.",
        {"not-constant": "{name} is known at run time only", "out-of-range": "there is no such dimension"},
    ),
]
KeepDims: TypeAlias = Annotated[
    Any, Kind("whether the result keeps a dimension of length 1; False by default.")
]
ThreadGrid: TypeAlias = Annotated[
    Any,
    Kind(
        "the number of threads along each dimension of the tile, constants. The grid has as many threads as the "
        "block, or inside a role as many as the role. The last dimension is the fastest. In all dimensions but the "
        "last two the grid is as long as the tile.",
        {
            "not-constant": "a number of {name} is known at run time only, or below 1",
            "type-mismatch": "{name} has another rank or number of threads",
        },
    ),
]

Mask: TypeAlias = Annotated[
    Any,
    Kind(
        "a tile of bool that broadcasts to the shape of the tile, and selects elements; all by default.",
        {
            "type-mismatch": "{name} is not a tile of bool",
            "shape-mismatch": "{name} does not broadcast to the shape of the tile",
        },
    ),
]
MaskTile: TypeAlias = Annotated[
    Any,
    Kind(
        "a tile of bools or integers, true unless 0.",
        {"type-mismatch": "{name} is not a tile, or a tile of floats"},
    ),
]
TileOfIndices: TypeAlias = Annotated[
    Any,
    Kind(
        "a tile (N,) of integers, counted from the offset; indices below 0 are outside of the array, and do "
        "not count from the end.",
        {"type-mismatch": "{name} is not a tile of integers of one dimension"},
    ),
]

# Of arrays ------------------------------------------------------------------------------------------------------------

Offset: TypeAlias = Annotated[
    Any,
    Kind(
        "the index of the first element of the tile in the array, an int or one for each dimension, in elements; 0 by "
        "default. The offset of thread 0 is used.",
        {
            "type-mismatch": "an offset is not an integer",
            "out-of-range": "a literal is not an offset that an array can have",
        },
    ),
]
BoundsCheck: TypeAlias = Annotated[
    Any,
    Kind(
        "False promises that the tile is inside of the array; debug mode checks that. True by default.",
        {
            "out-of-bounds": "the tile leaves the array though `bounds_check=False` promised otherwise, in debug mode"
        },
    ),
]
Aligned: TypeAlias = Annotated[
    Any,
    Kind(
        "True promises a packed array, a tile inside of it, and a first element at a multiple of 16 bytes; False by "
        "default.",
        {
            "broken-promise": "`aligned=True`, and the first element is not aligned; in debug mode also: the "
            "array is not packed",
            "out-of-bounds": "the tile leaves the array though `aligned=True` promised otherwise, in debug mode",
        },
    ),
]

# Of threads -----------------------------------------------------------------------------------------------------------

_LANES = (
    "the number of lanes of a segment, next to each other, a constant power of 2 up to {most}; 32 by default."
)


def _width(max_width: int) -> Kind:
    return Kind(
        _LANES.format(most=max_width),
        {
            "not-constant": "{name} is known at run time only",
            "out-of-range": f"{{name}} is not a power of 2 up to {max_width}",
            "divergent-cooperative-op": "only some threads reach the call",
        },
    )


Width: TypeAlias = Annotated[Any, _width(1024)]
WidthOfBits: TypeAlias = Annotated[Any, _width(32)]
OfEachThread: TypeAlias = Annotated[
    Any,
    Kind(
        "a scalar, vector or matrix, of each thread.",
        {"type-mismatch": "{name} is not a scalar, vector or matrix", **_LITERAL},
    ),
]
NumbersOfEachThread: TypeAlias = Annotated[
    Any,
    Kind(
        "a scalar, vector or matrix of numbers, of each thread.",
        {"type-mismatch": "{name} is a bool, or not a scalar, vector or matrix", **_LITERAL},
    ),
]
Stack: TypeAlias = Annotated[
    Any, Kind("a stack of tg.tile_stack.", {"type-mismatch": "{name} is not a stack"})
]

# Of roles -------------------------------------------------------------------------------------------------------------

Pipe: TypeAlias = Annotated[Any, Kind("a pipe of tg.tile_pipe.", {"type-mismatch": "{name} is not a pipe"})]
Barriers: TypeAlias = Annotated[
    Any, Kind("barriers of tg.mbarrier.", {"type-mismatch": "{name} was not created by tg.mbarrier"})
]
NamedBarrier: TypeAlias = Annotated[
    Any,
    Kind("a barrier of tg.named_barrier.", {"type-mismatch": "{name} was not created by tg.named_barrier"}),
]
_NO_STAGE = {
    "type-mismatch": "{name} is not an integer",
    "out-of-range": "a constant {name} is not one of the barriers",
}
Stage: TypeAlias = Annotated[Any, Kind("the index of the barrier, an integer from 0.", _NO_STAGE)]
FirstStage: TypeAlias = Annotated[
    Any, Kind("the index of the barrier, an integer from 0; 0 by default.", _NO_STAGE)
]
SharedTile: TypeAlias = Annotated[
    Any,
    Kind(
        'a tile with `storage="shared"`, or a part of one, of at most 256 in each length and rows of a multiple of 16 '
        "bytes.",
        {"type-mismatch": "{name} is not a shared tile bound to a name"},
    ),
]

# Families of functions ------------------------------------------------------------------------------------------------

ELEMENTWISE = Family(
    {"Returns": "a value of the type of the operands; a tile of the broadcast shape if an operand is a tile."}
)
INTEGER_RESULT = Family({**ELEMENTWISE.sections, "Gradient": "none: integers have no gradient."})
HAND_WRITTEN = Family(
    {"Gradient": "refused (no-gradient): kernels with hand-written schedules have no gradient."},
)
ORDERED = Family(
    HAND_WRITTEN.sections,
    {"schedule-refuted": "roles hang or race, as the checker shows before the kernel is compiled for a GPU"},
)
IN_ROLES = Family(HAND_WRITTEN.sections, {"role-placement": "the call is outside of roles"})
COPIES = Family(
    HAND_WRITTEN.sections,
    {
        "bulk-access": "the launch is for a GPU below compute capability 9.0, or of an array that no tensor map "
        "describes",
        **ORDERED.raises,
    },
)
PIPES = Family({"Gradient": "of the kernel without roles: see docs/gradients.md."})
PIPE_ENDPOINTS = Family(
    PIPES.sections,
    {
        "pipe-ends": "two roles fill the pipe, the pipe is filled by both push and load, or is never filled or popped",
        "deadlock": "no role of a block can make progress, on a CPU",
    },
)
ALONG_AXIS = Family(
    {"Returns": "a tile without `axis`; (1,) of all elements, or of a tile of one dimension."}
)
