"""Hand-written kernels of each construct, in text."""

from __future__ import annotations

SCALE = """
kernel @scale(read x: f32[n], write y: f32[n]) sizes(n) {
  parallel _i0 < n {
    _v0: f32 = load x[_i0]
    _v1: f32 = const 1.5
    _v2: f32 = mul(_v0, _v1)
    store y[_i0] = _v2
  }
}
"""

ROW_SUM = """
kernel @row_sum(read x: f32[m*n], write y: f32[m]) sizes(m, n) {
  parallel _i0 < m {
    _v0: f32 = const 0.0
    _v7: f32 = reduce _i1 < n lanes 4 carry(_v1: f32 = _v0) {
      _v2: f32 = load x[_i0*n + _i1]
      next _v2
    } combine(_v3: f32 with _v4: f32) {
      _v5: f32 = add(_v3, _v4)
      next _v5
    }
    store y[_i0] = _v7
  }
}
"""

ARGMAX = """
kernel @argmax(read x: f64[9], write y: i64[1]) {
  _v0: f64 = const -inf
  _v1: i64 = const 9223372036854775807
  _v20: f64, _v21: i64 = reduce _i0 < 9 lanes 2 carry(_v2: f64 = _v0, _v3: i64 = _v1) {
    _v4: f64 = load x[_i0]
    _v5: i64 = index _i0
    next _v4, _v5
  } combine(_v6: f64, _v7: i64 with _v8: f64, _v9: i64) {
    _v10: bool = cmp gt(_v8, _v6)
    _v11: bool = cmp eq(_v8, _v6)
    _v12: bool = cmp lt(_v9, _v7)
    _v13: bool = and_(_v11, _v12)
    _v14: bool = or_(_v10, _v13)
    _v15: f64 = select(_v14, _v8, _v6)
    _v16: i64 = select(_v14, _v9, _v7)
    next _v15, _v16
  }
  store y[0] = _v21
}
"""

SCAN = """
kernel @cumsum(read x: i32[3*n], write y: i32[3*n]) sizes(n) {
  vector _i0 < 3 {
    _v0: i32 = const 0
    _v4: i32 = serial _i1 < n carry(_v1: i32 = _v0) {
      _v2: i32 = load x[_i0*n + _i1]
      _v3: i32 = add(_v1, _v2)
      store y[_i0*n + _i1] = _v3
      next _v3
    }
  }
}
"""

GATHER = """
kernel @gather(read x: f32[5], read i: i64[n], write y: f32[n]) sizes(n) {
  parallel _i0 < n {
    _v0: i64 = load i[_i0]
    _v1: i64 = const 5
    _v2: i64 = const 0
    _v3: bool = cmp lt(_v0, _v1)
    _v4: bool = cmp ge(_v0, _v2)
    _v5: bool = and_(_v3, _v4)
    check 0 _v5 value _v0 bound _v1
    _v6: f32 = load x[_v0]
    store y[_i0] = _v6
  }
}
"""

MATMUL = """
kernel @matmul(read a: f32[k*m], read b: f32[k*n], read c: f32[n], write y: f32[m*n]) sizes(m, k, n) {
  _v2: f32 = contract _i0 < m, _i1 < n, _i2 < k by 4 {
    left {
      _v0: f32 = load a[_i0*k + _i2]
      next _v0
    }
    right {
      _v1: f32 = load b[_i2*n + _i1]
      next _v1
    }
    epilogue {
      _v3: f32 = load c[_i1]
      _v4: f32 = add(_v2, _v3)
      store y[_i0*n + _i1] = _v4
    }
  }
}
"""

REVERSE_TILE = """
kernel @reverse_tile(read x: f32[4*n], write y: f32[4*n]) sizes(n) {
  parallel _i0 < n {
    local t: f32[4]
    vector _i1 < 4 {
      _v0: f32 = load x[4*_i0 + _i1]
      store t[_i1] = _v0
    }
    vector _i2 < 4 {
      _v1: f32 = load t[-_i2 + 3]
      store y[4*_i0 + _i2] = _v1
    }
  }
}
"""

SHIFT = """
kernel @shift(read x: f32[n], write y: f32[n]) sizes(n) {
  vector _i0 < n {
    _v0: i64 = index _i0
    _v1: i64 = const 0
    _v2: bool = cmp gt(_v0, _v1)
    _v3: f32 = load x[_i0 - 1] if _v2
    store y[_i0] = _v3
  }
}
"""

IN_PLACE = """
kernel @square(readwrite x: f32[n], read z: f32[n]) sizes(n) aliases(x = z) fastmath {
  parallel _i0 < n {
    _v0: f32 = load x[_i0]
    _v1: f32 = load z[_i0]
    _v2: f32 = mul(_v0, _v1)
    _v3: f32 = call exp(_v2)
    store x[_i0] = _v3
  }
}
"""

TILED_TRANSPOSE = """
kernel @tiled_transpose(read x: f32[40*rows], write y: f32[40*rows]) sizes(rows) {
  parallel _i0 < (rows // 16) + 1 {
    parallel _i1 < 3 {
      local tile: f32[272]
      _v0: i64 = const 40
      _v1: i64 = index rows
      vector _i2 < 256 {
        _v2: i64 = index (_i2 // 16) + 16*_i0
        _v3: i64 = index (_i2 % 16) + 16*_i1
        _v4: bool = cmp lt(_v2, _v1)
        _v5: bool = cmp lt(_v3, _v0)
        _v6: bool = and_(_v4, _v5)
        _v7: f32 = load x[40*_v2 + _v3] if _v6
        store tile[(_i2 % 16) + 17*(_i2 // 16)] = _v7
      }
      vector _i3 < 256 {
        _v8: i64 = index (_i3 // 16) + 16*_i1
        _v9: i64 = index (_i3 % 16) + 16*_i0
        _v10: bool = cmp lt(_v8, _v0)
        _v11: bool = cmp lt(_v9, _v1)
        _v12: bool = and_(_v10, _v11)
        _v13: f32 = load tile[17*(_i3 % 16) + (_i3 // 16)]
        store y[_v8*rows + _v9] = _v13 if _v12
      }
    }
  }
}
"""

TWO_LEVEL_COLUMNS = """
kernel @two_level_columns(read x: f32[24*rows], write y: f32[24]) sizes(rows) {
  parallel _i0 < 2 {
    local partial: f32[64]
    _v0: f32 = const -0.0
    _v1: i64 = const 24
    _v2: i64 = index rows
    vector _i1 < 64 {
      _v3: i64 = index (_i1 % 16) + 16*_i0
      _v4: bool = cmp lt(_v3, _v1)
      _v15: f32 = serial _i2 < (rows // 4) + 1 carry(_v5: f32 = _v0) {
        _v6: i64 = index (_i1 // 16) + 4*_i2
        _v7: bool = cmp lt(_v6, _v2)
        _v8: bool = and_(_v4, _v7)
        _v9: f32 = load x[_v3 + 24*_v6] if _v8
        _v10: f32 = add(_v5, _v9)
        _v11: f32 = select(_v8, _v10, _v5)
        next _v11
      }
      store partial[_i1] = _v15
    }
    vector _i3 < 16 {
      _v16: i64 = index 16*_i0 + _i3
      _v17: bool = cmp lt(_v16, _v1)
      _v22: f32 = reduce _i4 < 4 carry(_v18: f32 = _v0) {
        _v19: f32 = load partial[_i3 + 16*_i4]
        next _v19
      } combine(_v20: f32 with _v21: f32) {
        _v23: f32 = add(_v20, _v21)
        next _v23
      }
      store y[_v16] = _v22 if _v17
    }
  }
}
"""

ALL = {
    "scale": SCALE,
    "row_sum": ROW_SUM,
    "argmax": ARGMAX,
    "scan": SCAN,
    "gather": GATHER,
    "matmul": MATMUL,
    "reverse_tile": REVERSE_TILE,
    "shift": SHIFT,
    "in_place": IN_PLACE,
    "tiled_transpose": TILED_TRANSPOSE,
    "two_level_columns": TWO_LEVEL_COLUMNS,
}
