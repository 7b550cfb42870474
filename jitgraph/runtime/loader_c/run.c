/* A run of an entry, from its arguments to its results. */

#pragma once

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"
#include "errors.c"
#include "entries.c"
#include "model.c"
#include "records.c"
#include "arguments.c"
#include "results.c"
#include "calls.c"
#include "device_run.c"

/* After success: the new state comes into force, the outputs reach their places. */
static void deliver(jg_model *model, const Entry *entry, jg_tensor *outputs, Record *record) {
    for (size_t i = 0, shown = 0; i < entry->output_count; i++) {
        Result *result = &record->results[i];
        if (entry->written[i] != NONE) {
            if (!model->device) written_state(model, entry, i)->data = result->memory;
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
    bool good = bind(model, entry, inputs, record, error) && plan(entry, record, error);
    if (good && model->device)
        good = run_there(model, entry, outputs, record, error);
    else if (good)
        good = prepare(record, error) && place(model, entry, outputs, record, error) && call(model, entry, record, error);
    if (good) deliver(model, entry, outputs, record);
    else discard(entry, record);
    if (entry->state_count) pthread_rwlock_unlock(&model->state_lock);
    check_in(model, entry, record);
    return error->status;
}
