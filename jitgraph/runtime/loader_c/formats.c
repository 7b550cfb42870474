/* Python's formats, and operands of a print with them. */

#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"
#include "memory.c"
#include "json.c"
#include "dtypes.c"
#include "entries.c"
#include "numbers.c"
#include "arrays.c"

/* "[[fill]align][sign][0][width][.precision][type]" of Python's formats. */
typedef struct Form {
    const char *fill;
    size_t fill_size, width;
    char align, sign, type;
    int precision; /* -1: none */
} Form;

/* False for what is not understood here, such as commas; a number's zeros stand between its sign and its digits. */
static bool read_form(const char *text, bool number, Form *form) {
    *form = (Form){.fill = " ", .fill_size = 1, .precision = -1};
    size_t first = *text ? utf8_size(text, text + strlen(text)) : 0;
    bool filled = first && text[first] && strchr("<>^=", text[first]);
    if (filled) {
        form->fill = text;
        form->fill_size = first;
        text += first;
    }
    if (*text && strchr("<>^=", *text)) form->align = *text++;
    if (*text && strchr("+- ", *text)) form->sign = *text++;
    if (*text == '0') {
        if (!filled) form->fill = text;
        if (!form->align && number) form->align = '=';
        text++;
    }
    while (is_digit(*text) && form->width < 1000000) form->width = 10 * form->width + (size_t)(*text++ - '0');
    if (*text == '.') {
        form->precision = 0;
        for (text++; is_digit(*text) && form->precision < MOST_PRECISION; text++)
            form->precision = 10 * form->precision + *text - '0';
    }
    if (*text) form->type = *text++;
    return !*text && form->precision <= MOST_PRECISION;
}

/* A float by a format that has a precision and no type: so many digits, the last zeros dropped, with a point or e. */
static void short_float(double value, int precision, char text[WORD_SIZE]) {
    int digits = precision > 1 ? precision - 1 : 0; /* behind the first one */
    snprintf(text, WORD_SIZE, "%#.*e", digits, value);
    char *end = strchr(text, 'e');
    int exponent = (int)strtol(end + 1, NULL, 10);
    bool scientific = exponent < -4 || exponent >= digits;
    if (!scientific) {
        snprintf(text, WORD_SIZE, "%.*f", digits - exponent, value);
        end = text + strlen(text);
    }
    char *kept = end;
    while (kept[-1] == '0') kept--;
    if (kept[-1] == '.') kept += scientific ? -1 : 1;
    memmove(kept, end, strlen(end) + 1);
}

/* The digits of a number and its sign, or false for a type that is not understood here. */
static bool format_number(const Form *form, const uint8_t *element, jg_dtype dtype, bool *negative,
                          char text[WORD_SIZE]) {
    bool real = is_real(dtype), whole_type = !form->type || form->type == 'd';
    int precision = form->precision < 0 ? 6 : form->precision;
    uint64_t magnitude = real ? 0 : whole_at(element, dtype, negative);
    double value = real ? real_at(element, dtype) : *negative ? -(double)magnitude : (double)magnitude;
    if (!real && whole_type) {
        snprintf(text, WORD_SIZE, "%llu", (unsigned long long)magnitude);
        return form->precision < 0;
    }
    *negative = value < 0 || (value == 0 && 1 / value < 0);
    double size = *negative ? -value : value, scaled = form->type == '%' ? 100 * size : size;
    if (!form->type) {
        if (form->precision < 0 || !is_finite(size)) python_float(size, text);
        else short_float(size, precision, text);
        return true;
    }
    if (!strchr("eEfFgG%", form->type)) return false;
    char type = form->type == '%' ? 'f' : form->type;
    if (!is_finite(scaled)) strcpy(text, !strchr("EFG", type) ? unusual(scaled) : scaled != scaled ? "NAN" : "INF");
    else if (type == 'e' || type == 'E')
        snprintf(text, WORD_SIZE, type == 'e' ? "%.*e" : "%.*E", precision, scaled);
    else if (type == 'f' || type == 'F') snprintf(text, WORD_SIZE, "%.*f", precision, scaled);
    else snprintf(text, WORD_SIZE, type == 'g' ? "%.*g" : "%.*G", precision, scaled);
    if (form->type == '%') strcat(text, "%");
    return true;
}

static void put_padded(Out *out, const Form *form, const char *sign, const char *text, size_t size, char usual) {
    size_t length = strlen(sign);
    for (size_t i = 0; i < size; i++) length += (text[i] & 0xc0) != 0x80; /* characters of UTF-8 */
    size_t missing = form->width > length ? form->width - length : 0;
    char align = form->align ? form->align : usual;
    size_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    if (align == '=') put_text(out, sign);
    put_repeated(out, form->fill, form->fill_size, before);
    if (align != '=') put_text(out, sign);
    put(out, text, size);
    put_repeated(out, form->fill, form->fill_size, missing - before);
}

/* The text of an operand without a format, or with one that is not understood. */
static void put_plain(Out *out, const Operand *operand, const uint8_t *data, const int64_t *shape) {
    const jg_spec *spec = &operand->spec.shown;
    char text[WORD_SIZE];
    bool tensor = operand->style == TENSOR_STYLE || operand->style == LEAF_STYLE;
    Shown shown = {.data = data, .dtype = spec->dtype, .rank = spec->rank, .shape = shape,
                   .separator = tensor ? ", " : " ", .prefix = tensor ? strlen("Tensor(") : 0};
    if (operand->style == NUMBER_STYLE) {
        if (is_real(spec->dtype)) python_float(real_at(data, spec->dtype), text);
        else if (spec->dtype == JG_BOOL) strcpy(text, *data ? "True" : "False");
        else whole_text(data, spec->dtype, text);
        put_text(out, text);
        return;
    }
    if (tensor) put_text(out, "Tensor(");
    put_array(out, &shown);
    if (!tensor) return;
    put_text(out, ", dtype=");
    put_text(out, DTYPES[spec->dtype].name);
    put_text(out, operand->style == LEAF_STYLE ? ", requires_grad=True)" : ")");
}

static void put_operand(Out *out, const Operand *operand, const uint8_t *data, const int64_t *shape) {
    Form form;
    char text[WORD_SIZE];
    bool negative = false, known = *operand->form && read_form(operand->form, !*operand->conversion, &form);
    if (known && *operand->conversion) {
        Out inner = {0};
        put_plain(&inner, operand, data, shape);
        out->failed |= inner.failed;
        if (form.precision >= 0 && (size_t)form.precision < inner.used) inner.used = (size_t)form.precision;
        put_padded(out, &form, "", inner.data ? inner.data : "", inner.used, '<');
        free(inner.data);
    } else if (known && format_number(&form, data, operand->spec.shown.dtype, &negative, text)) {
        const char *sign = negative ? "-" : form.sign == '+' ? "+" : form.sign == ' ' ? " " : "";
        put_padded(out, &form, sign, text, strlen(text), '>');
    } else {
        put_plain(out, operand, data, shape);
    }
}
