/* Arrays as texts, as NumPy's array2string writes them. */

#pragma once

#include <stdio.h>
#include <string.h>

#include "loader.h"
#include "dtypes.c"
#include "numbers.c"

typedef struct Shown { /* an array, and what all its words have in common */
    const uint8_t *data;
    jg_dtype dtype;
    int32_t rank;
    const int64_t *shape;
    const char *separator;
    size_t prefix; /* characters before it on its first line */
    bool summary, scientific, unusual, minus; /* whether there are NaNs or infinities, and an infinity below zero */
    double least, most; /* of the magnitudes that are not zero */
    size_t left, right, digits, exponent; /* characters before and behind the point, and in the exponent */
} Shown;

static void larger(size_t *known, size_t found) {
    if (found > *known) *known = found;
}

/* The place on an axis that is shown after this one; three dots stand for those that are skipped. */
static int64_t next_shown(const Shown *shown, int32_t axis, int64_t index) {
    int64_t extent = shown->shape[axis];
    return shown->summary && extent > 2 * EDGE_ITEMS && index == EDGE_ITEMS - 1 ? extent - EDGE_ITEMS : index + 1;
}

static void each_shown(Shown *shown, int32_t axis, size_t offset, void (*look)(Shown *, const uint8_t *)) {
    if (axis == shown->rank) {
        look(shown, shown->data + offset * DTYPES[shown->dtype].size);
        return;
    }
    for (int64_t i = 0; i < shown->shape[axis]; i = next_shown(shown, axis, i))
        each_shown(shown, axis + 1, offset * (size_t)shown->shape[axis] + (size_t)i, look);
}

static void find_range(Shown *shown, const uint8_t *element) {
    double value = real_at(element, shown->dtype), size = value < 0 ? -value : value;
    if (!is_finite(value)) {
        shown->unusual = true;
        shown->minus |= value < 0;
    } else if (size != 0) {
        if (size > shown->most) shown->most = size;
        if (shown->least == 0 || size < shown->least) shown->least = size;
    }
}

static void measure_float(Shown *shown, const uint8_t *element) {
    char text[WORD_SIZE];
    double value = real_at(element, shown->dtype);
    if (!is_finite(value)) return;
    array_float(value, shown->dtype, shown->scientific, text);
    const char *point = strchr(text, '.'), *end = shown->scientific ? strchr(text, 'e') : text + strlen(text);
    larger(&shown->left, (size_t)(point - text));
    larger(&shown->digits, (size_t)(end - point - 1));
    if (shown->scientific) larger(&shown->exponent, strlen(end) - 2);
}

static void whole_text(const uint8_t *element, jg_dtype dtype, char text[WORD_SIZE]) {
    bool negative;
    uint64_t value = whole_at(element, dtype, &negative);
    snprintf(text, WORD_SIZE, "%s%llu", negative ? "-" : "", (unsigned long long)value);
}

static void measure_whole(Shown *shown, const uint8_t *element) {
    char text[WORD_SIZE];
    whole_text(element, shown->dtype, text);
    larger(&shown->left, strlen(text));
}

static void measure(Shown *shown) {
    if (shown->dtype == JG_BFLOAT16) return; /* as ml_dtypes has it: without padding */
    if (!is_real(shown->dtype)) {
        if (shown->dtype == JG_BOOL && shown->rank) shown->left = strlen("False");
        if (shown->dtype != JG_BOOL) each_shown(shown, 0, 0, measure_whole);
        return;
    }
    each_shown(shown, 0, 0, find_range);
    double limit = shown->dtype == JG_FLOAT16 ? 1e3 : shown->dtype == JG_FLOAT32 ? 1e6 : 1e8;
    shown->scientific = shown->least != 0 &&
                        (shown->most >= limit || shown->least < 1e-4 || shown->most / shown->least > 1000);
    each_shown(shown, 0, 0, measure_float);
    shown->right = shown->scientific ? shown->digits + shown->exponent + 2 : shown->digits;
    size_t word = !shown->unusual ? 0 : shown->minus ? 4 : 3;
    if (word > shown->right + 1) larger(&shown->left, word - shown->right - 1);
}

/* With as many digits as the longest element, not zeros, behind those that would read back. */
static void long_float(double value, const Shown *shown, char text[WORD_SIZE]) {
    Shortest found = shortest(value, shown->dtype);
    snprintf(text, WORD_SIZE, "%#.*e", (int)shown->digits, value);
    if (found.above && found.digits == (int)shown->digits) count_up(text);
}

/* The words of an array's elements all have one width, bfloat16 apart. */
static void put_word(Out *out, const Shown *shown, const uint8_t *element) {
    char text[WORD_SIZE];
    size_t width = shown->left;
    if (shown->dtype == JG_BOOL) {
        strcpy(text, *element ? "True" : "False");
    } else if (!is_real(shown->dtype)) {
        whole_text(element, shown->dtype, text);
    } else if (shown->dtype == JG_BFLOAT16) {
        double value = real_at(element, shown->dtype);
        if (is_finite(value)) snprintf(text, sizeof text, "%g", value);
        else strcpy(text, unusual(value));
    } else if (!is_finite(real_at(element, shown->dtype))) {
        strcpy(text, unusual(real_at(element, shown->dtype)));
        width += shown->right + 1;
    } else {
        double value = real_at(element, shown->dtype);
        if (shown->scientific) long_float(value, shown, text);
        else array_float(value, shown->dtype, false, text);
        const char *point = strchr(text, '.'), *end = shown->scientific ? strchr(text, 'e') : text + strlen(text);
        put_repeated(out, " ", 1, shown->left - (size_t)(point - text));
        put(out, text, (size_t)(end - text));
        if (!shown->scientific) {
            put_repeated(out, " ", 1, shown->digits - (size_t)(end - point - 1));
            return;
        }
        put(out, end, 2);
        put_repeated(out, "0", 1, shown->exponent - (strlen(end) - 2));
        put_text(out, end + 2);
        return;
    }
    if (width > strlen(text)) put_repeated(out, " ", 1, width - strlen(text));
    put_text(out, text);
}

/* Ends a word of a row that began at start: where the line grew too long, the word goes to the next one. */
static void end_word(Out *out, const Shown *shown, size_t start, size_t *column) {
    size_t indent = shown->prefix + (size_t)shown->rank, size = out->used - start;
    if (*column + size > (size_t)(LINE_WIDTH - shown->rank) && *column > indent && !out->failed) {
        char word[WORD_SIZE];
        memcpy(word, out->data + start, size);
        out->used = start;
        while (out->data[out->used - 1] == ' ') out->used--; /* of the separator */
        put_text(out, "\n");
        put_repeated(out, " ", 1, indent);
        put(out, word, size);
        *column = indent;
    }
    *column += size + strlen(shown->separator);
}

static void put_row(Out *out, const Shown *shown, size_t offset) {
    int64_t extent = shown->shape[shown->rank - 1];
    size_t column = shown->prefix + (size_t)shown->rank;
    for (int64_t i = 0, next; i < extent && !out->failed; i = next) {
        size_t start = out->used;
        put_word(out, shown, shown->data + (offset * (size_t)extent + (size_t)i) * DTYPES[shown->dtype].size);
        end_word(out, shown, start, &column);
        next = next_shown(shown, shown->rank - 1, i);
        if (next > i + 1) {
            put_text(out, shown->separator);
            start = out->used;
            put_text(out, "...");
            end_word(out, shown, start, &column);
        }
        if (next < extent) put_text(out, shown->separator);
    }
}

static void put_axis(Out *out, const Shown *shown, int32_t axis, size_t offset) {
    put_text(out, "[");
    if (axis == shown->rank - 1) put_row(out, shown, offset);
    for (int64_t i = 0, next; axis < shown->rank - 1 && i < shown->shape[axis]; i = next) {
        put_axis(out, shown, axis + 1, offset * (size_t)shown->shape[axis] + (size_t)i);
        next = next_shown(shown, axis, i);
        for (int lines = next > i + 1 ? 2 : next < shown->shape[axis]; lines > 0; lines--) {
            put(out, shown->separator, strcmp(shown->separator, " ") == 0 ? 0 : 1);
            put_repeated(out, "\n", 1, (size_t)(shown->rank - axis - 1));
            put_repeated(out, " ", 1, shown->prefix + (size_t)axis + 1);
            if (lines == 2) put_text(out, "...");
        }
    }
    put_text(out, "]");
}

/* As NumPy's array2string. */
static void put_array(Out *out, Shown *shown) {
    size_t count = 1;
    for (int32_t i = 0; i < shown->rank; i++) count *= (size_t)shown->shape[i];
    if (count == 0) {
        put_text(out, "[]");
        return;
    }
    shown->summary = count > SUMMARY_ABOVE;
    measure(shown);
    if (shown->rank == 0) put_word(out, shown, shown->data);
    else put_axis(out, shown, 0, 0);
}
