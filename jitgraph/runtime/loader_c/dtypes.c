/* The dtypes, bytes of tensors, and numbers of a file as elements. */

#pragma once

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"
#include "json.c"

typedef enum Family { BOOLEAN, SIGNED, UNSIGNED, FLOATING, TWO_PARTS } Family;

static const struct {
    const char *name, *safetensors;
    size_t size;
    Family family;
} DTYPES[] = {
    [JG_BOOL] = {"bool", "BOOL", 1, BOOLEAN},         [JG_INT8] = {"int8", "I8", 1, SIGNED},
    [JG_INT16] = {"int16", "I16", 2, SIGNED},         [JG_INT32] = {"int32", "I32", 4, SIGNED},
    [JG_INT64] = {"int64", "I64", 8, SIGNED},         [JG_UINT8] = {"uint8", "U8", 1, UNSIGNED},
    [JG_UINT16] = {"uint16", "U16", 2, UNSIGNED},     [JG_UINT32] = {"uint32", "U32", 4, UNSIGNED},
    [JG_UINT64] = {"uint64", "U64", 8, UNSIGNED},     [JG_FLOAT16] = {"float16", "F16", 2, FLOATING},
    [JG_BFLOAT16] = {"bfloat16", "BF16", 2, FLOATING}, [JG_FLOAT32] = {"float32", "F32", 4, FLOATING},
    [JG_FLOAT64] = {"float64", "F64", 8, FLOATING},   [JG_COMPLEX64] = {"complex64", "C64", 8, TWO_PARTS},
    [JG_COMPLEX128] = {"complex128", "C128", 16, TWO_PARTS},
};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES };

/* The dtype of that name, in our words or those of safetensors; -1 where there is none. */
static int dtype_named(const char *name, bool safetensors) {
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(name, safetensors ? DTYPES[i].safetensors : DTYPES[i].name) == 0) return i;
    return -1;
}

static bool is_dtype(jg_dtype dtype) { return (unsigned)dtype < DTYPE_COUNT; }

/* Bytes of a tensor; false where they leave 63 bits. Zero sizes count as one, so that {0, 1 << 62, 4} is refused. */
static bool byte_count(const int64_t *shape, int32_t rank, jg_dtype dtype, size_t *bytes) {
    int64_t total = (int64_t)DTYPES[dtype].size;
    bool empty = false;
    for (int32_t i = 0; i < rank; i++) {
        if (shape[i] < 0 || __builtin_mul_overflow(total, shape[i] ? shape[i] : 1, &total)) return false;
        empty |= shape[i] == 0;
    }
    *bytes = empty ? 0 : (size_t)total;
    return true;
}

static bool are_bools(const uint8_t *data, size_t size) {
    uint8_t seen = 0;
    for (size_t i = 0; i < size; i++) seen |= data[i];
    return seen <= 1;
}

/* The bits of a float with fewer exponent and mantissa bits, rounded to nearest even: 5 and 10 for float16. */
static uint16_t half_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    uint64_t mantissa = bits & 0xfffffffffffff;
    if (exponent == 1024) return (uint16_t)(sign | 0x7c00 | (mantissa ? 0x200 : 0));
    if (exponent < -25) return sign;
    if (exponent > 15) return (uint16_t)(sign | 0x7c00);
    mantissa |= 1ULL << 52;
    int shift = exponent < -14 ? 42 + (-14 - exponent) : 42; /* subnormal results lose more */
    uint64_t kept = mantissa >> shift, rest = mantissa & ((1ULL << shift) - 1), tie = 1ULL << (shift - 1);
    kept += rest > tie || (rest == tie && kept & 1);
    if (exponent >= -14) kept += (uint64_t)(exponent + 14) << 10; /* the leading bit adds one more to the exponent */
    return (uint16_t)(sign | kept);
}

static uint16_t bfloat16_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (value != value) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

enum { MAX_NUMBER = 400 };

/* The value of a number in JSON, whatever the process's locale calls a decimal point. */
static double json_double(const Json *value) {
    if (value->kind != A_FLOAT && !value->wide) return (double)value->integer;
    char text[MAX_NUMBER + 1] = "";
    memcpy(text, value->text, value->size);
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double result = plain ? strtod_l(text, NULL, plain) : strtod(text, NULL);
    if (plain) freelocale(plain);
    return result;
}

/* Writes a number or boolean of a file as an element of dtype; false where dtype cannot hold it. */
static bool element_of(const Json *value, jg_dtype dtype, uint8_t *element) {
    size_t size = DTYPES[dtype].size;
    if (value->kind != ABOOL && value->kind != AN_INT && value->kind != A_FLOAT) return false;
    if (value->size > MAX_NUMBER || DTYPES[dtype].family == TWO_PARTS) return false;
    if (DTYPES[dtype].family == FLOATING) {
        double wide = json_double(value);
        float single = (float)wide;
        uint16_t half = dtype == JG_FLOAT16 ? half_bits(wide) : bfloat16_bits(single);
        memcpy(element, size == 8 ? (void *)&wide : size == 4 ? (void *)&single : (void *)&half, size);
        return true;
    }
    if (value->kind == A_FLOAT || (dtype == JG_BOOL && value->kind != ABOOL)) return false;
    int bits = (int)size * 8;
    int64_t high = value->wide ? -2 : DTYPES[dtype].family == SIGNED ? value->integer >> (bits - 1)
                   : bits == 64 ? -(value->integer < 0) : value->integer >> bits;
    if (high != 0 && !(high == -1 && DTYPES[dtype].family == SIGNED)) return false;
    memcpy(element, &value->integer, size);
    return true;
}
