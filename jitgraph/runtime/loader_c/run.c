/* A run of an entry, from its arguments to its results. */

#pragma once

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader.h"
#include "errors.c"
#include "abi.c"
#include "memory.c"
#include "entries.c"
#include "model.c"
#include "records.c"
#include "arguments.c"
#include "results.c"

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

static bool call(const jg_model *model, const Entry *entry, Record *record, jg_error *error) {
    const jg_host *host = model->owner == getpid() ? &model->host : &model->serial;
    int32_t code = entry->run(host, &record->call, record->buffers, record->dims);
    while (record->call.blocks) {
        jg_block *block = record->call.blocks;
        record->call.blocks = block->next;
        free(block->base);
    }
    return code == OK || report(entry, code, &record->call.error, error);
}

/* After success: the new state comes into force, the outputs reach their places. */
static void deliver(jg_model *model, const Entry *entry, jg_tensor *outputs, Record *record) {
    for (size_t i = 0, shown = 0; i < entry->output_count; i++) {
        Result *result = &record->results[i];
        if (entry->written[i] != NONE) {
            model->tensors[entry->parameters[entry->input_count + (size_t)entry->written[i]].tensor].data =
                result->memory;
            continue;
        }
        jg_tensor *output = &outputs[shown++];
        if (!output->data) {
            output->data = result->memory;
            output->bytes = result->bytes;
        } else if (result->fresh) {
            memcpy(output->data, result->memory, result->bytes);
            free(result->memory);
        }
        result->fresh = false;
        output->dtype = entry->outputs[i].shown.dtype;
        output->rank = entry->outputs[i].shown.rank;
        memcpy(output->shape, result->shape, sizeof output->shape);
    }
}

static void discard(const Entry *entry, Record *record) {
    for (size_t i = 0; i < entry->output_count; i++) {
        if (record->results[i].fresh) free(record->results[i].memory);
        record->results[i].fresh = false;
    }
}

static Entry *entry_named(const jg_model *model, const char *name) {
    if (!model) return NULL;
    return name ? find(&model->entry_index, name) : model->main;
}

/* Refuses a call whose counts do not fit, and names the inputs. */
static bool wrong_counts(const Entry *entry, size_t inputs, size_t outputs, jg_error *error) {
    char names[600] = "";
    size_t used = 0;
    bool optional = false;
    for (size_t i = 0; i < entry->input_count && used < sizeof names; i++) {
        const jg_spec *spec = &entry->parameters[i].shown;
        optional = optional || spec->has_default;
        used += (size_t)snprintf(names + used, sizeof names - used, spec->has_default ? "%s[%.60s]" : "%s%.60s",
                                 i ? ", " : "", spec->name);
    }
    return fail(error, JG_BAD_ARGUMENT, "%.40s takes %zu inputs and gives %zu outputs, got %zu and %zu; the inputs: %s%s",
                entry->title, entry->input_count, entry->shown_count, inputs, outputs, names,
                optional ? "; those in brackets are counted too and may have data NULL" : "");
}

jg_status jg_run(jg_model *model, const char *entry_name, const jg_tensor *inputs, size_t input_count,
                 jg_tensor *outputs, size_t output_count, jg_error *error) {
    jg_error unused;
    error = cleared(error ? error : &unused);
    Entry *entry = entry_named(model, entry_name);
    if (!model) no_pointer(error, "model");
    else if (!entry) fail(error, JG_BAD_ARGUMENT, "no entry '%.60s'", entry_name);
    else if (input_count != entry->input_count || output_count != entry->shown_count)
        wrong_counts(entry, input_count, output_count, error);
    else if (input_count && !inputs) no_pointer(error, "inputs");
    else if (output_count && !outputs) no_pointer(error, "outputs");
    Record *record = error->status == JG_OK ? check_out(model, entry, error) : NULL;
    if (!record) return error->status;
    if (entry->write_count) pthread_rwlock_wrlock(&model->state_lock);
    else if (entry->state_count) pthread_rwlock_rdlock(&model->state_lock);
    bool good = bind(model, entry, inputs, record, error) && plan(entry, record, error) &&
                place(model, entry, outputs, record, error) && call(model, entry, record, error);
    if (good) deliver(model, entry, outputs, record);
    else discard(entry, record);
    if (entry->state_count) pthread_rwlock_unlock(&model->state_lock);
    check_in(model, entry, record);
    return error->status;
}
