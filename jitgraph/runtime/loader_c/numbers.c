/* Numbers as texts: the shortest ones that read back, as Python and NumPy write them. */

#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"
#include "dtypes.c"

/* Text that grows. */
typedef struct Out {
    char *data;
    size_t used, room;
    bool failed; /* memory ran out */
} Out;

static void put(Out *out, const char *text, size_t size) {
    if (out->room - out->used < size) {
        size_t room = 2 * out->room + size + 256;
        char *data = out->failed ? NULL : realloc(out->data, room);
        out->failed = !data;
        if (!data) return;
        out->data = data;
        out->room = room;
    }
    if (size) memcpy(out->data + out->used, text, size);
    out->used += size;
}

static void put_text(Out *out, const char *text) { put(out, text, strlen(text)); }

static void put_repeated(Out *out, const char *text, size_t size, size_t count) {
    for (; count > 0 && !out->failed; count--) put(out, text, size);
}

static bool is_real(jg_dtype dtype) { return DTYPES[dtype].family == FLOATING; }

static double real_at(const uint8_t *data, jg_dtype dtype) {
    double wide;
    float single;
    uint16_t half;
    if (dtype == JG_FLOAT64) return memcpy(&wide, data, 8), wide;
    if (dtype == JG_FLOAT32) return memcpy(&single, data, 4), (double)single;
    memcpy(&half, data, 2);
    if (dtype == JG_BFLOAT16) {
        uint32_t bits = (uint32_t)half << 16;
        return memcpy(&single, &bits, 4), (double)single;
    }
    uint64_t exponent = half >> 10 & 31, mantissa = half & 1023, bits = (uint64_t)(half >> 15) << 63;
    if (exponent == 0) return (half >> 15 ? -0x1p-24 : 0x1p-24) * (double)mantissa;
    bits |= (exponent == 31 ? 2047 : exponent + 1008) << 52 | mantissa << 42;
    return memcpy(&wide, &bits, 8), wide;
}

/* An element that is no float: its magnitude, and whether it is negative. */
static uint64_t whole_at(const uint8_t *data, jg_dtype dtype, bool *negative) {
    size_t size = DTYPES[dtype].size;
    uint64_t bits = 0;
    memcpy(&bits, data, size);
    *negative = DTYPES[dtype].family == SIGNED && bits >> (8 * size - 1) & 1;
    if (*negative && size < 8) bits |= ~0ULL << 8 * size;
    return *negative ? 0 - bits : bits;
}

static bool reads_back(const char *text, double value, jg_dtype dtype) {
    if (dtype == JG_FLOAT64) return strtod(text, NULL) == value;
    if (dtype == JG_FLOAT32) return strtof(text, NULL) == (float)value;
    if (dtype == JG_FLOAT16) return half_bits(strtod(text, NULL)) == half_bits(value);
    return bfloat16_bits(strtof(text, NULL)) == bfloat16_bits((float)value);
}

enum { WORD_SIZE = 512, MOST_DIGITS = 8, LINE_WIDTH = 75, SUMMARY_ABOVE = 1000, EDGE_ITEMS = 3, MOST_PRECISION = 60 };

/* The shortest "d.ddde+xx" that reads back as a finite value: its digits behind the point, its exponent of ten, and
   whether its last digit is greater by one than that of the nearest text. At powers of two the numbers below stand closer
   than those above, and so the next text above may read back where the nearest one, below, does not. */
typedef struct Shortest {
    int digits, exponent;
    bool above;
} Shortest;

/* "1.562e-02" becomes "1.563e-02"; the last digit is no 9, as a shorter text would have done. */
static void count_up(char *text) {
    char *e = strchr(text, 'e'), *last = (e ? e : text + strlen(text)) - 1;
    if (*last >= '0' && *last < '9') ++*last;
}

static Shortest shortest(double value, jg_dtype dtype) {
    char text[WORD_SIZE];
    Shortest found = {.digits = 0};
    for (;; found.digits++) {
        snprintf(text, sizeof text, "%.*e", found.digits, value);
        if (found.digits == 17 || reads_back(text, value, dtype)) break;
        count_up(text);
        found.above = reads_back(text, value, dtype);
        if (found.above) break;
    }
    found.exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    return found;
}

static bool is_finite(double value) { return value - value == 0; }

static const char *unusual(double value) { return value != value ? "nan" : value < 0 ? "-inf" : "inf"; }

/* As Python's repr. */
static void python_float(double value, char text[WORD_SIZE]) {
    if (!is_finite(value)) {
        strcpy(text, unusual(value));
        return;
    }
    Shortest found = shortest(value, JG_FLOAT64);
    int behind = found.digits > found.exponent ? found.digits - found.exponent : 0;
    bool scientific = found.exponent < -4 || found.exponent >= 16;
    if (scientific) snprintf(text, WORD_SIZE, "%.*e", found.digits, value);
    else snprintf(text, WORD_SIZE, "%.*f", behind, value);
    if (found.above) count_up(text);
    if (!scientific && !behind) strcat(text, ".0");
}

/* The text of a finite float in an array, without padding: "1.5", "2.", "1.e+10". */
static void array_float(double value, jg_dtype dtype, bool scientific, char text[WORD_SIZE]) {
    Shortest found = shortest(value, dtype);
    int behind = scientific ? found.digits : found.digits - found.exponent;
    bool cut = behind > MOST_DIGITS;
    behind = behind < 0 ? 0 : cut ? MOST_DIGITS : behind;
    snprintf(text, WORD_SIZE, scientific ? "%#.*e" : "%#.*f", behind, value);
    if (found.above && !cut) count_up(text);
    if (!cut) return;
    char *end = scientific ? strchr(text, 'e') : text + strlen(text), *kept = end;
    while (kept[-1] == '0') kept--;
    memmove(kept, end, strlen(end) + 1);
}
