/* Native code is entered, and what it reports is told. */

#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader.h"
#include "errors.c"
#include "abi.c"
#include "entries.c"
#include "model.c"
#include "records.c"

/* Copies text with {index} and {bound} filled in. */
static void fill_in(const char *text, const jg_error_record *record, char *out, size_t room) {
    while (*text && room > 1) {
        bool index = strncmp(text, "{index}", 7) == 0;
        if (!index && strncmp(text, "{bound}", 7) != 0) {
            *out++ = *text++;
            room--;
            continue;
        }
        int used = snprintf(out, room, "%lld", (long long)(index ? record->index : record->bound));
        size_t step = (size_t)used < room ? (size_t)used : room - 1;
        out += step;
        room -= step;
        text += 7;
    }
    *out = '\0';
}

/* Why a call of a custom op failed. */
static bool report_call(const Entry *entry, const Record *record, jg_error *error) {
    const CustomCall *call = record->failed;
    char code[40] = "";
    if (record->failure_code) snprintf(code, sizeof code, ": %d", record->failure_code);
    return fail(error, JG_FAILED, "%.40s: the custom op '%.60s' (%.300s) %s%s%s%.200s", entry->title, call->op,
                call->types, record->failure, code, *call->location ? "\n  at " : "", call->location);
}

static bool report(const Entry *entry, int32_t code, const jg_error_record *record, jg_error *error) {
    if (code == OUT_OF_MEMORY)
        return fail(error, JG_OUT_OF_MEMORY, "%.40s: the compiled code ran out of memory", entry->title);
    if (code == SIZE_OVERFLOW)
        return fail(error, JG_BAD_ARGUMENT, "%.40s: a size leaves 64 bits; use smaller arguments", entry->title);
    if (code == SIZES_REFUSED) { /* the number of a constraint, or behind them of a size that is negative */
        size_t number = record->check_id < 0 ? SIZE_MAX : (size_t)record->check_id, size = number - entry->constraint_count;
        if (number < entry->constraint_count)
            return fail(error, JG_BAD_ARGUMENT, "%.40s: the sizes must satisfy %.80s", entry->title,
                        entry->constraints[number].text);
        if (size < entry->dim_count)
            return fail(error, JG_BAD_ARGUMENT, "%.40s: the sizes must satisfy %.60s >= 0", entry->title,
                        entry->dims[size]);
        return fail(error, JG_BAD_ARGUMENT, "%.40s: the sizes must satisfy condition %d of the compiled code",
                    entry->title, record->check_id);
    }
    if (code == CALLBACK_FAILED)
        return fail(error, JG_FAILED, "%.40s: what it prints cannot be written", entry->title);
    if (code != CHECK_FAILED || record->check_id < 0 || (size_t)record->check_id >= entry->check_count)
        return fail(error, JG_FAILED, "%.40s: the compiled code returned %d (%s), check %d", entry->title, code,
                    code >= 0 && code <= SIZES_REFUSED ? CODE_NAMES[code] : "no known meaning", record->check_id);
    const Check *check = &entry->checks[record->check_id];
    char message[sizeof error->message];
    fill_in(check->message, record, message, sizeof message);
    snprintf(error->kind, sizeof error->kind, "%s", check->kind);
    return fail(error, JG_CHECK_FAILED, "%s%s%s", message, *check->location ? "\n  at " : "", check->location);
}

/* Enters the native code, and frees what its stacks took. */
static int32_t enter(const jg_host *host, const Entry *entry, Record *record) {
    int32_t code = entry->run(host, &record->call, record->buffers, record->dims);
    while (record->call.blocks) {
        jg_block *block = record->call.blocks;
        record->call.blocks = block->next;
        free(block->base);
    }
    return code;
}

static bool call(const jg_model *model, const Entry *entry, Record *record, jg_error *error) {
    const jg_host *host = model->owner == getpid() ? &model->host : &model->serial;
    record->failure = NULL;
    int32_t code = enter(host, entry, record);
    if (code == CALLBACK_FAILED && record->failure) return report_call(entry, record, error);
    return code == OK || report(entry, code, &record->call.error, error);
}
