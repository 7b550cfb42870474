"""Kernels in text over a dtype T, of every kind of access and loop; y is written."""

from __future__ import annotations


def neighbours(count: int, step: str, size: str, *, extra: str = "") -> str:
    """Lanes that each read ``count`` neighbours, ``step`` behind those of the lane before, and store them elsewhere."""
    loads = "".join(f"    _v{i}: T = load x[{step.format(i)}]\n" for i in range(count))
    stores = "".join(f"    store y[{step.format(count - 1 - i)}] = _v{i}\n" for i in range(count))
    return (
        f"\nkernel @k(read x: T[{size}], write y: T[{size}]) sizes(n) {{\n"
        f"  vector _i0 < n {{\n{loads}{stores}{extra}  }}\n}}\n"
    )


ACCESS = {
    "pairs": neighbours(2, "2*_i0 + {}", "2*n"),
    "pairs from the end": neighbours(2, "2*n - 2*_i0 - 2 + {}", "2*n"),
    "pairs apart": neighbours(2, "5*_i0 + {}", "5*n"),
    "threes": neighbours(3, "3*_i0 + {}", "3*n"),
    "eights": neighbours(8, "8*_i0 + {}", "8*n"),
    "fours of rows": neighbours(4, "n*_i0 + 4*n + {}", "n*n + 4*n + 3"),
    "sixteen and more": neighbours(21, "24*_i0 + {}", "24*n"),
    "pairs of a row that is read and stored": """
kernel @k(write y: T[2*n], read x: T[2*n]) sizes(n) {
  vector _i0 < n {
    _v0: T = load x[2*_i0 + 1]
    _v1: T = load x[2*_i0]
    _v2: bool = cmp lt(_v0, _v1)
    _v3: T = select(_v2, _v0, _v1)
    store y[2*_i0] = _v3
    _v4: T = select(_v2, _v1, _v0)
    store y[2*_i0 + 1] = _v4
  }
}
""",
    "contiguous": """
kernel @k(read x: T[n], write y: T[n]) sizes(n) {
  vector _i0 < n {
    _v0: T = load x[_i0]
    store y[_i0] = _v0
  }
}
""",
    "strided": """
kernel @k(read x: T[3*n], write y: T[2*n]) sizes(n) {
  vector _i0 < n {
    _v0: T = load x[3*_i0 + 2]
    store y[2*_i0 + 1] = _v0
  }
}
""",
    "reversed": """
kernel @k(read x: T[n], write y: T[n]) sizes(n) {
  vector _i0 < n {
    _v0: T = load x[n - _i0 - 1]
    store y[n - _i0 - 1] = _v0
  }
}
""",
    "flipped": """
kernel @k(read x: T[n], write y: T[n]) sizes(n) {
  vector _i0 < n {
    _v0: T = load x[_i0]
    store y[n - _i0 - 1] = _v0
  }
}
""",
    "uniform": """
kernel @k(read x: T[1], write y: T[n]) sizes(n) {
  vector _i0 < n {
    _v0: T = load x[0]
    store y[_i0] = _v0
  }
}
""",
    "masked": """
kernel @k(read x: T[n], read m: bool[n + 2], write y: T[n], write z: T[n]) sizes(n) {
  vector _i0 < n {
    _v0: bool = load m[_i0]
    _v1: T = load x[_i0] if _v0
    _v2: bool = load m[_i0 + 1]
    store y[_i0] = _v1 if _v2
    _v3: bool = load m[_i0 + 2]
    _v4: T = load x[n - _i0 - 1] if _v3
    store z[n - _i0 - 1] = _v4 if _v3
  }
}
""",
    "shared_masked": """
kernel @k(read x: T[1], read m: bool[n], write y: T[n]) sizes(n) {
  vector _i0 < n {
    _v0: bool = load m[_i0]
    _v1: T = load x[0] if _v0
    store y[_i0] = _v1
  }
}
""",
    "uniform_masked": """
kernel @k(read x: T[n], read m: bool[1], write y: T[n]) sizes(n) {
  vector _i0 < n {
    _v0: bool = load m[0]
    _v1: T = load x[n*n] if _v0
    _v2: T = load x[_i0 + n] if _v0
    store y[_i0] = _v1
    store y[_i0] = _v2
    store y[_i0 + n] = _v2 if _v0
  }
}
""",
    "divided": """
kernel @k(read x: T[n], write y: T[n], write z: T[n]) sizes(n) {
  vector _i0 < n {
    _v0: T = load x[_i0 // 3]
    store y[_i0] = _v0
    _v1: T = load x[(_i0 + 70) % n]
    _v2: T = load x[_i0 % 70]
    _v3: T = load x[(n - _i0 - 1) // 2]
    _v4: bool = cmp lt(_v1, _v2)
    _v5: T = select(_v4, _v1, _v3)
    store z[_i0] = _v5
  }
}
""",
    "indirect": """
kernel @k(read x: T[n], read i: i64[n], write y: T[n]) sizes(n) {
  vector _i0 < n {
    _v0: i64 = load i[_i0]
    _v1: i64 = index n
    _v2: i64 = const 0
    _v3: bool = cmp lt(_v0, _v1)
    _v4: bool = cmp ge(_v0, _v2)
    _v5: bool = and_(_v3, _v4)
    check 3 _v5 value _v0 bound _v1
    _v6: T = load x[_v0]
    store y[_v0] = _v6
  }
}
""",
    "columns": """
kernel @k(read x: T[3*n], write y: T[3*n], write z: T[n]) sizes(n) {
  vector _i0 < n {
    _v0: T = load x[_i0]
    _v1: T = serial _i1 < 3 carry(_v2: T = _v0) {
      _v3: T = load x[_i1*n + _i0]
      _v4: bool = cmp lt(_v3, _v2)
      _v5: T = select(_v4, _v3, _v2)
      store y[_i1*n + _i0] = _v5
      next _v5
    }
    store z[_i0] = _v1
  }
}
""",
    "private": """
kernel @k(read x: T[4*n], read i: i64[n], write y: T[4*n]) sizes(n) {
  vector _i0 < n {
    local t: T[4]
    serial _i1 < 4 {
      _v0: T = load x[4*_i0 + _i1]
      store t[3 - _i1] = _v0
    }
    serial _i2 < 4 {
      _v1: T = load t[_i2]
      store y[_i2*n + _i0] = _v1
    }
    _v2: i64 = load i[_i0]
    _v3: i64 = const 3
    _v4: i64 = and_(_v2, _v3)
    _v5: T = load t[_v4]
    store t[-_v4 + 3] = _v5
    _v6: T = load t[0]
    store y[_i0] = _v6
  }
}
""",
    "grid": """
kernel @k(read x: T[6*n], write y: T[6*n]) sizes(n) {
  parallel _i0 < 2 {
    parallel _i1 < 3 {
      vector _i2 < n {
        _v0: T = load x[3*n*_i0 + n*_i1 + _i2]
        store y[2*n*_i1 + n*_i0 + _i2] = _v0
      }
    }
  }
}
""",
    "aliased": """
kernel @k(readwrite y: T[n], read x: T[1]) sizes(n) {
  vector _i0 < n {
    _v0: T = load y[_i0]
    _v1: T = load x[0]
    _v2: bool = cmp le(_v0, _v1)
    _v3: T = select(_v2, _v1, _v0)
    store y[_i0] = _v3
  }
}
""",
}

SUM = """
kernel @k(read x: T[n], write y: T[2]) sizes(n) {
  _v0: T = const C
  _v1: T = reduce _i0 < n lanes L carry(_v2: T = _v0) {
    _v3: T = load x[_i0]
    next _v3
  } combine(_v4: T with _v5: T) {
    _v6: T = W(_v4, _v5)
    next _v6
  }
  store y[0] = _v1
  _v7: T = reduce _i1 < n lanes L carry(_v8: T = _v0) {
    _v9: T = load x[n - _i1 - 1]
    next _v9
  } combine(_v10: T with _v11: T) {
    _v12: T = W(_v10, _v11)
    next _v12
  }
  store y[1] = _v7
}
"""

ROWS = """
kernel @k(read x: T[5*n], write y: T[5], write z: T[n]) sizes(n) {
  _v0: T = const C
  parallel _i0 < 5 {
    _v1: T = reduce _i1 < n lanes L carry(_v2: T = _v0) {
      _v3: T = load x[_i0*n + _i1]
      next _v3
    } combine(_v4: T with _v5: T) {
      _v6: T = W(_v4, _v5)
      next _v6
    }
    store y[_i0] = _v1
  }
  vector _i2 < n {
    _v7: T = reduce _i3 < 5 carry(_v8: T = _v0) {
      _v9: T = load x[_i3*n + _i2]
      next _v9
    } combine(_v10: T with _v11: T) {
      _v12: T = W(_v10, _v11)
      next _v12
    }
    store z[_i2] = _v7
  }
}
"""

ARGMAX = """
kernel @k(read x: f32[n], write y: i64[1], write z: f32[1]) sizes(n) {
  _v0: f32 = const -inf
  _v1: i64 = const 9223372036854775807
  _v20: f32, _v21: i64 = reduce _i0 < n lanes 8 carry(_v2: f32 = _v0, _v3: i64 = _v1) {
    _v4: f32 = load x[_i0]
    _v5: i64 = index _i0
    next _v4, _v5
  } combine(_v6: f32, _v7: i64 with _v8: f32, _v9: i64) {
    _v10: bool = cmp gt(_v8, _v6)
    _v11: bool = cmp eq(_v8, _v6)
    _v12: bool = cmp lt(_v9, _v7)
    _v13: bool = and_(_v11, _v12)
    _v14: bool = or_(_v10, _v13)
    _v15: f32 = select(_v14, _v8, _v6)
    _v16: i64 = select(_v14, _v9, _v7)
    next _v15, _v16
  }
  store y[0] = _v21
  store z[0] = _v20
}
"""

MATMUL = """
kernel @k(read a: T[k*m], read b: T[k*n], read c: A[n], write y: A[m*n]) sizes(m, k, n) {
  _v2: A = contract _i0 < m, _i1 < n, _i2 < k by 4 {
    left {
      _v0: T = load a[_i0*k + _i2]
      next _v0
    }
    right {
      _v1: T = load b[_i2*n + _i1]
      next _v1
    }
    epilogue {
      _v3: A = load c[_i1]
      _v4: A = add(_v2, _v3)
      store y[_i0*n + _i1] = _v4
    }
  }
}
"""

# Long bodies: the slots of the reduction lie in memory, and the vector loop is masked throughout.
LONG = """
kernel @k(read x: f32[n], write y: f32[2], write i: i64[1], write b: bool[1], write z: f32[n]) sizes(n) {
  _v0: f32 = const 0.0
  _v1: i64 = const -1
  _v2: bool = const false
  _v4: f32, _v6: i64, _v7: bool = reduce _i0 < n lanes 64 carry(_v8: f32 = _v0, _v10: i64 = _v1, _v11: bool = _v2) {
    _v12: f32 = load x[_i0]
    _v13: f32 = call exp(_v12)
    _v14: i64 = index _i0
    _v15: bool = cmp gt(_v12, _v0)
    next _v13, _v14, _v15
  } combine(_v16: f32, _v18: i64, _v19: bool with _v20: f32, _v22: i64, _v23: bool) {
    _v24: f32 = add(_v16, _v20)
    _v26: i64 = max(_v18, _v22)
    _v27: bool = or_(_v19, _v23)
    next _v24, _v26, _v27
  }
  store y[0] = _v4
  store y[1] = _v4
  store i[0] = _v6
  store b[0] = _v7
  vector _i1 < n {
    _v30: f32 = load x[_i1]
    _v31: f32 = call exp(_v30)
    _v32: f32 = rem(_v31, _v30)
    _v33: f32 = call tanh(_v32)
    _v34: f32 = call expm1(_v33)
    store z[_i1] = _v34
  }
}
"""
