/* Errors: a jg_error is filled in, and false or nothing is given back. */

#pragma once

#include <stdarg.h>
#include <stdio.h>

#include "loader.h"

#define MANIFEST "manifest.json"
#define WEIGHTS "weights.safetensors"
#define AGAIN "copy or save the model again"

/* Fills error. Control characters of a file do not reach the terminal. */
__attribute__((format(printf, 3, 0))) static void set_error(jg_error *error, jg_status status, const char *format,
                                                            va_list arguments) {
    error->status = status;
    vsnprintf(error->message, sizeof error->message, format, arguments);
    for (char *c = error->message; *c; c++)
        if (((unsigned char)*c < 0x20 && *c != '\n') || *c == 0x7f) *c = '?';
}

/* Fills error and gives false. */
__attribute__((format(printf, 3, 4))) static bool fail(jg_error *error, jg_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_error(error, status, format, arguments);
    va_end(arguments);
    return false;
}

static bool out_of_memory(jg_error *error, size_t bytes) {
    return fail(error, JG_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
}

/* Where a caller gives NULL for what a call cannot do without. */
static bool no_pointer(jg_error *error, const char *argument) {
    return fail(error, JG_BAD_ARGUMENT, "the argument '%s' is NULL", argument);
}

static jg_error *cleared(jg_error *error) {
    error->status = JG_OK;
    error->kind[0] = error->message[0] = '\0';
    return error;
}
