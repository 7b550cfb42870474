/* Code for GPUs: PTX for generations of them, each with the host's image that launches it, as device_code.py says. */

#pragma once

#include <stdio.h>
#include <string.h>

#include "loader.h"
#include "errors.c"
#include "memory.c"
#include "loading.c"
#include "json.c"
#include "sizes.c"
#include "entries.c"
#include "specs.c"
#include "signatures.c"
#include "zip.c"
#include "image.c"

enum { MAX_KERNEL_NAME = 1024, MAX_SYMBOL = 102, MAX_PTX = 256 << 20 };

/* Whether a text is a letter of first, then letters, digits, and what else is said. */
static bool is_word(const char *text, const char *first, const char *others, size_t most) {
    size_t size = strlen(text), start = strspn(text, first);
    if (size == 0 || size > most || start == 0) return false;
    for (const char *c = text; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || is_digit(*c);
        if (!letter && !strchr(others, *c)) return false;
    }
    return true;
}

/* 80 of "sm_80"; 0 where that is no generation of GPUs. */
static int generation_of(const char *text) {
    size_t size = strlen(text);
    if (strncmp(text, "sm_", 3) != 0 || size < 5 || size > 6 || text[3] == '0') return 0;
    int number = 0;
    for (const char *c = text + 3; *c; c++) {
        if (!is_digit(*c)) return 0;
        number = number * 10 + (*c - '0');
    }
    return number;
}

static bool is_kernel_name(const char *text) {
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$";
    return is_word(text, first, "_$", MAX_KERNEL_NAME);
}

static bool is_driver_symbol(const char *text) {
    bool begins = strncmp(text, "cu", 2) == 0 && text[2] >= 'A' && text[2] <= 'Z' && text[3];
    return begins && is_word(text, "c", "_", MAX_SYMBOL);
}

static void read_driver(Loading *l, const Json *source, DeviceCode *code, const char *where) {
    bool taken[DRIVER_SLOTS] = {false};
    const Json *list = get(l, source, "driver", AN_OBJECT, where);
    code->driver = make(l, l->kept, list->count, sizeof *code->driver);
    for (const Json *child = list->first; child; child = child->next) {
        bool sound = child->kind == AN_INT && !child->wide && within((uint64_t)child->integer, 1, DRIVER_SLOTS);
        if (!sound || !is_driver_symbol(child->key))
            refuse(l, "%s: '%.60s' at %.20s is no function of the driver in a table", where, child->key,
                   sound ? "its place" : KIND_NAMES[child->kind]);
        if (taken[child->integer]) refuse(l, "%s: two functions of the driver have one place", where);
        taken[child->integer] = true;
        code->driver[code->driver_count++] =
            (DriverSlot){keep_text(l, child->key, child->key_size, where), (size_t)child->integer};
    }
}

static void find_constants(Loading *l, const Json *source, DeviceCode *code, const Tensor *tensors, const Index *index,
                           const char *where) {
    const Json *list = get(l, source, "constants", A_LIST, where);
    code->constants = make(l, l->kept, list->count, sizeof *code->constants);
    for (const Json *child = list->first; child; child = child->next) {
        int64_t bytes = get(l, child, "bytes", AN_INT, where)->integer;
        const char *key = get_text(l, child, "key", where);
        const Tensor *tensor = find(index, key);
        if (!tensor || bytes < 0 || tensor->bytes != (uint64_t)bytes)
            refuse(l, "%s: " WEIGHTS " has no constant '%.80s' of %lld bytes; " AGAIN, where, key, (long long)bytes);
        code->constants[code->constant_count++] = (size_t)(tensor - tensors);
    }
}

/* Sizes of pinned memory, as numbers and as expressions over the entry's named sizes. */
static void read_pinned(Loading *l, const Json *source, const Index *dims, const Entry *entry, DeviceCode *code,
                        const char *where) {
    const Json *list = get(l, source, "pinned", A_LIST, where);
    code->pinned = make(l, l->kept, list->count, sizeof *code->pinned);
    code->pinned_expressions = make(l, l->kept, list->count, sizeof *code->pinned_expressions);
    for (const Json *child = list->first; child; child = child->next, code->pinned_count++) {
        bool number = child->kind == AN_INT && !child->wide && child->integer >= 0;
        if (!number && child->kind != A_TEXT)
            refuse(l, "%s: %s is no size of pinned memory", where, KIND_NAMES[child->kind]);
        code->pinned[code->pinned_count] = number ? child->integer : -1;
        if (!number)
            code->pinned_expressions[code->pinned_count] = compile_expression(
                l, keep_text(l, child->text, child->size, where), false, dims, entry->dims, where);
    }
}

static void verify_ptx(Loading *l, Bytes ptx, const char *where) {
    static const char word[] = ".version";
    bool found = false, text = ptx.size <= MAX_PTX;
    for (size_t i = 0; i < ptx.size && text; i++) {
        text = ptx.data[i] != 0 && ptx.data[i] < 0x80;
        found = found || (ptx.size - i >= sizeof word - 1 && memcmp(ptx.data + i, word, sizeof word - 1) == 0);
    }
    if (!text || !found) refuse(l, "%s: this is no PTX", where);
}

static void read_device_code(Loading *l, const Json *source, const Index *members, const Tensor *tensors,
                             const Index *index, const Entry *owner, const Index *dims, DeviceCode *code,
                             const char *entry) {
    char where[2 * WHERE_SIZE];
    uint64_t exports[4];
    size_t count = 0;
    snprintf(where, sizeof where, "%.120s, '%.20s'", entry, source->key);
    code->generation = keep_text(l, source->key, source->key_size, where);
    if (!(code->capability = generation_of(code->generation)))
        refuse(l, "%s: this names no generation of GPUs; expected such as 'sm_80'", where);
    code->functions = read_texts(l, source, "functions", &count, where);
    for (size_t i = 0; i < count; i++)
        if (!is_kernel_name(code->functions[i]))
            refuse(l, "%s: '%.60s' is no name of a kernel", where, code->functions[i]);
    index_texts(l, code->functions, code->function_count = count, "names of kernels", where);
    read_driver(l, source, code, where);
    code->checks = read_checks(l, source, &code->check_count, where);
    read_pinned(l, source, dims, owner, code, where);
    find_constants(l, source, code, tensors, index, where);
    code->reports = get(l, source, "reports", ABOOL, where)->integer != 0;
    code->host = member_named(l, members, get(l, source, "host", A_TEXT, where)->text)->bytes;
    code->ptx = member_named(l, members, get(l, source, "ptx", A_TEXT, where)->text)->bytes;
    read_image_header(l, code->host, exports);
    verify_ptx(l, code->ptx, where);
}

/* All code of an entry for GPUs, whether it is to run or not. */
static void read_device_codes(Loading *l, const Json *source, const Index *members, const Tensor *tensors,
                              const Index *index, Entry *entry, const char *where) {
    if (!find(&source->index, "cuda")) return;
    const Json *list = get(l, source, "cuda", AN_OBJECT, where);
    Index dims = index_texts(l, entry->dims, entry->dim_count, "dims", where);
    entry->codes = make(l, l->kept, list->count, sizeof *entry->codes);
    for (const Json *child = list->first; child; child = child->next)
        read_device_code(l, child, members, tensors, index, entry, &dims, &entry->codes[entry->code_count++], where);
}
