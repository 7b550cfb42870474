/* What loading works with: memory, and the one way out where the file is not sound. */

#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "loader.h"
#include "errors.c"
#include "memory.c"

/* What loading works with. Any step of it may end it by refuse, which leaves through out; everything that was taken
   until then hangs on the stores or the model, so nothing is lost. */
typedef struct Loading {
    jmp_buf out;
    jg_error *error;
    Store scratch; /* freed after loading */
    Store *kept; /* the model's */
    struct SizeParser *sizes;
    const char *device; /* the GPU to load for; NULL: the CPU */
} Loading;

__attribute__((noreturn, format(printf, 2, 3))) static void refuse(Loading *l, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_error(l->error, JG_BAD_FILE, format, arguments);
    va_end(arguments);
    longjmp(l->out, 1);
}

__attribute__((noreturn)) static void no_memory(Loading *l, size_t bytes) {
    out_of_memory(l->error, bytes);
    longjmp(l->out, 1);
}

/* count zeroed elements of a store; never NULL. */
static void *make(Loading *l, Store *store, size_t count, size_t size) {
    void *made = take(store, count, size);
    if (!made) no_memory(l, count * size);
    return made;
}

/* A text of the model's own. */
static const char *keep_text(Loading *l, const char *text, size_t size, const char *where) {
    if (memchr(text, 0, size)) refuse(l, "%s: '%.60s' is not a size or name: a NUL stands in it", where, text);
    return memcpy(make(l, l->kept, size + 1, 1), text, size);
}
