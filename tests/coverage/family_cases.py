"""Interpolation, remainders, parts of floats, rearrangement and reductions that pass over NaN."""

from __future__ import annotations

import numpy as np

from tests.coverage.case import case, integers, positive, uniform

M, N = (3, 4), (2, 3, 4)
HOLES = np.where(np.arange(12).reshape(3, 4) % 5 == 2, np.nan, np.linspace(-2, 3, 12).reshape(3, 4))

CASES = [
    case("lerp, weight a number", lambda m, x, y: m.lerp(x, y, 0.25), None, M, M),
    case("lerp, weight a tensor", lambda m, x, y, w: m.lerp(x, y, w), None, M, M, uniform(M)),
    case("addcmul", lambda m, x, y, z: m.addcmul(x, y, z, value=0.5), None, M, M, (4,)),
    case("addcdiv", lambda m, x, y, z: m.addcdiv(x, y, z, value=0.5), None, M, M, positive((4,))),
    case("heaviside", lambda m, x, y: m.heaviside(x, y), None, integers(M, -1, 2), integers(M, 0, 3)),
    case("frac", lambda m, x: m.frac(x), None, M),
    case("fmod", lambda m, x, y: m.fmod(x, y), None, (3, 4), positive(M)),
    case("fmod, of integers", lambda m, x, y: m.fmod(x, y), None, integers(M, -20, 20), integers(M, 1, 6)),
    case("fmax", lambda m, x, y: m.fmax(x, y), None, HOLES, M),
    case("fmin", lambda m, x, y: m.fmin(x, y), None, HOLES, M),
    case("deg2rad", lambda m, x: m.deg2rad(x), None, M),
    case("rad2deg", lambda m, x: m.rad2deg(x), None, M),
    case("float_power", lambda m, x, y: m.float_power(x, y), None, positive(M), M),
    case("ldexp", lambda m, x, y: m.ldexp(x, y), None, M, integers(M, 0, 9)),
    case("frexp", lambda m, x: m.frexp(x), None, M, second=False),
    case("gcd", lambda m, x, y: m.gcd(x, y), None, integers(M, -99, 99), integers(M, -99, 99)),
    case("lcm", lambda m, x, y: m.lcm(x, y), None, integers(M, -99, 99), integers(M, 1, 99)),
    case("nan_to_num", lambda m, x: m.nan_to_num(x, 1.0), None, HOLES),
    case("isclose", lambda m, x, y: m.isclose(x, y, 0.5, 0.1), None, M, M),
    case("isclose, equal_nan", lambda m, x: m.isclose(x, x, equal_nan=True), None, HOLES),
    case("rot90", lambda m, x: m.rot90(x), lambda t, x: t.rot90(x), N),
    case("rot90, back", lambda m, x: m.rot90(x, -1, (1, 2)), lambda t, x: t.rot90(x, -1, (1, 2)), N),
    case("fliplr", lambda m, x: m.fliplr(x), None, M),
    case("flipud", lambda m, x: m.flipud(x), None, M),
    case("movedim", lambda m, x: m.movedim(x, (0, 1), (2, 0)), None, N),
    case("narrow", lambda m, x: m.narrow(x, 1, 1, 2), None, N),
    case("unflatten", lambda m, x: m.unflatten(x, -1, (2, -1)), lambda t, x: t.unflatten(x, -1, (2, -1)), N),
    case("unfold of a tensor", lambda m, x: x.unfold(1, 2, 1), None, N),
    case("tensor_split, sections", lambda m, x: m.tensor_split(x, 3, -1), None, N),
    case("tensor_split, indices", lambda m, x: m.tensor_split(x, (1, 3), 1), None, N),
    case("hsplit", lambda m, x: m.hsplit(x, 2), None, M),
    case("vsplit", lambda m, x: m.vsplit(x, (1,)), None, M),
    case("dsplit", lambda m, x: m.dsplit(x, 2), None, N),
    case("hstack", lambda m, x, y: m.hstack([x, y]), None, M, M),
    case("vstack", lambda m, x, y: m.vstack([x, y]), None, (4,), M),
    case("dstack", lambda m, x, y: m.dstack([x, y]), None, (4,), (1, 4)),
    case("column_stack", lambda m, x, y: m.column_stack([x, y]), None, (3,), M),
    case("atleast_2d", lambda m, x: m.atleast_2d(x), None, (4,)),
    case("atleast_3d", lambda m, x: m.atleast_3d(x), None, M),
    case("select_scatter", lambda m, x, y: m.select_scatter(x, y, 1, 2), None, M, (3,)),
    case("slice_scatter", lambda m, x, y: m.slice_scatter(x, y, 1, 0, 4, 2), None, M, (3, 2)),
    case("diagonal_scatter", lambda m, x, y: m.diagonal_scatter(x, y, 1), None, M, (3,)),
    case("nansum", lambda m, x: m.nansum(x), None, HOLES),
    case("nansum, axis", lambda m, x: m.nansum(x, 1), None, HOLES),
    case("nanmean, axis", lambda m, x: m.nanmean(x, 1, keepdims=True), lambda t, x: t.nanmean(x, 1, True), HOLES),
    case("aminmax", lambda m, x: m.aminmax(x), lambda t, x: tuple(t.aminmax(x)), M, second=False),
    case("aminmax, axis", lambda m, x: m.aminmax(x, 1), lambda t, x: tuple(t.aminmax(x, dim=1)), M, second=False),
    case("std_mean", lambda m, x: m.std_mean(x, 1, correction=1), lambda t, x: t.std_mean(x, 1), M),
    case("var_mean", lambda m, x: m.var_mean(x, 1, correction=1), lambda t, x: t.var_mean(x, 1), M),
]
