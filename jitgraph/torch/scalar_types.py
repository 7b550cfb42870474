"""``torch.dtype``: PyTorch's names of dtypes, equal to jitgraph's; the default dtype, ``finfo`` and ``iinfo``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import TraceError
from jitgraph.ir import context
from jitgraph.location import Location


class dtype:  # noqa: N801 - PyTorch's name
    """The type of an element, one object for each, equal to jitgraph's and NumPy's dtype of the same name."""

    __slots__ = ("dtype", "name")
    _of: Final[dict[DType, dtype]] = {}

    def __init__(self, name: str, of: DType) -> None:
        self.name = name
        self.dtype = of  # NumPy and jitgraph read it wherever a dtype is asked for
        dtype._of[of] = self

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        compared = getattr(other, "dtype", other)
        return compared is not None and self.dtype == compared  # NumPy takes None for float64

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __reduce__(self) -> Any:
        return scalar_type, (self.dtype,)

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: object) -> dtype:
        return self

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def kind(self) -> str:
        """NumPy's letter of the kind."""
        return self.dtype.kind

    @property
    def is_floating_point(self) -> bool:
        """Whether elements are real floats."""
        return dtypes.is_float(self.dtype)

    @property
    def is_complex(self) -> bool:
        """Whether elements are complex numbers."""
        return dtypes.is_complex(self.dtype)

    @property
    def is_signed(self) -> bool:
        """Whether elements may be negative."""
        return self.dtype.kind not in "ub"

    def to_real(self) -> dtype:
        """The dtype of the parts of a complex number; itself for others."""
        return scalar_type(dtypes.part_of(self.dtype))

    def to_complex(self) -> dtype:
        """The complex dtype with parts of this one."""
        return scalar_type(dtypes.complex_of(self.dtype))


def scalar_type(of: Any) -> dtype:
    """PyTorch's object for one of jitgraph's dtypes."""
    return of if isinstance(of, dtype) else dtype._of[of]


float16 = dtype("float16", dtypes.float16)
bfloat16 = dtype("bfloat16", dtypes.bfloat16)
float32 = dtype("float32", dtypes.float32)
float64 = dtype("float64", dtypes.float64)
int8 = dtype("int8", dtypes.int8)
int16 = dtype("int16", dtypes.int16)
int32 = dtype("int32", dtypes.int32)
int64 = dtype("int64", dtypes.int64)
uint8 = dtype("uint8", dtypes.uint8)
uint16 = dtype("uint16", dtypes.uint16)
uint32 = dtype("uint32", dtypes.uint32)
uint64 = dtype("uint64", dtypes.uint64)
bool_ = dtype("bool", dtypes.bool_)
complex64 = dtype("complex64", dtypes.complex64)
complex128 = dtype("complex128", dtypes.complex128)


def get_default_dtype() -> dtype:
    """The dtype of floats made from Python's own."""
    return context.current().default_dtype or float32


def set_default_dtype(d: dtype) -> None:
    """Make floats from Python's own in this dtype, a float; TypeError for others, TraceError in a traced function."""
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, not {d!r}")
    if context.current().trace is not None:
        raise TraceError(
            "torch.set_default_dtype in a traced function, which changes what follows its calls",
            location=Location.of_user(),
            hint="set it before the call, or pass dtype=",
        )
    context.set_everywhere(default_dtype=None if d is float32 else d)


class finfo:  # noqa: N801 - PyTorch's name
    """Limits of a float dtype: bits, eps, max, min, tiny, smallest_normal, resolution."""

    def __init__(self, type: dtype | None = None) -> None:
        of = get_default_dtype() if type is None else type
        if not (of.is_floating_point or of.is_complex):
            raise TypeError(f"torch.finfo() requires a floating point input type, not {of!r}")
        import ml_dtypes

        info: Any = ml_dtypes.finfo(dtypes.part_of(of.dtype))  # type: ignore[no-untyped-call]
        self.bits = info.bits
        self.dtype = of.to_real().name
        for name in ("eps", "max", "min", "tiny", "smallest_normal", "resolution"):
            setattr(self, name, float(getattr(info, name)))

    def __repr__(self) -> str:
        words = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{w}={getattr(self, w):g}' for w in words)}, dtype={self.dtype})"


class iinfo:  # noqa: N801 - PyTorch's name
    """Limits of an integer dtype: bits, min, max."""

    def __init__(self, type: dtype) -> None:
        if type.dtype.kind not in "iu":
            raise TypeError(f"torch.iinfo() requires an integer input type, not {type!r}")
        info = np.iinfo(type.dtype)
        self.bits, self.min, self.max, self.dtype = info.bits, int(info.min), int(info.max), type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
