/* Results: their shapes, and memory that the code may write to. */

#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "loader.h"
#include "errors.c"
#include "abi.c"
#include "memory.c"
#include "dtypes.c"
#include "sizes.c"
#include "entries.c"
#include "model.c"
#include "records.c"

/* The shapes of the outputs and the bytes of the workspace, for the sizes that bind found. */
static bool plan(const Entry *entry, Record *record, jg_error *error) {
    for (size_t i = 0; i < entry->output_count; i++) {
        const Spec *spec = &entry->outputs[i];
        Result *result = &record->results[i];
        for (int32_t axis = 0; axis < spec->shown.rank; axis++) {
            result->shape[axis] = spec->shown.sizes[axis];
            if (spec->expressions[axis].count &&
                !evaluate(&spec->expressions[axis], record->dims, &result->shape[axis], error))
                return false;
        }
        char wanted[WHERE_SIZE], got[WHERE_SIZE];
        if (!byte_count(result->shape, spec->shown.rank, spec->shown.dtype, &result->bytes))
            return fail(error, JG_BAD_ARGUMENT, "%.40s: the result %s would have the shape %s, which is negative or "
                        "leaves 64 bits", entry->title, described(&spec->shown, wanted),
                        shape_text(spec->shown.dtype, spec->shown.rank, result->shape, got));
    }
    int64_t arena = entry->arena_bytes ? entry->arena_bytes(record->dims) : 0;
    if (arena < 0)
        return fail(error, JG_BAD_ARGUMENT, "%.40s: the workspace for these sizes leaves 64 bits", entry->title);
    record->call = (jg_call){.arena_bytes = arena};
    return true;
}

/* Finds memory for the workspace. */
static bool prepare(Record *record, jg_error *error) {
    size_t wanted = (size_t)record->call.arena_bytes;
    if (wanted > record->arena_size) {
        free(record->arena);
        record->arena_size = 0;
        if (!(record->arena = aligned_memory(wanted))) return out_of_memory(error, wanted);
        record->arena_size = wanted;
    }
    record->call.arena = record->arena;
    return true;
}

/* The start of a message about an output that the caller gets. */
static const char *shown_text(const Entry *entry, size_t shown, char text[WHERE_SIZE]) {
    snprintf(text, WHERE_SIZE, "%.40s, output %zu (%.60s)", entry->title, shown,
             entry->outputs[entry->shown[shown]].shown.name);
    return text;
}

/* Memory for an output that the caller gets: the caller's where that is usable, else fresh. */
static bool place_shown(const Entry *entry, size_t shown, const jg_tensor *given, Result *result, bool usable,
                        jg_error *error) {
    char where[WHERE_SIZE];
    if (given->data && given->bytes < result->bytes)
        return fail(error, JG_BAD_ARGUMENT, "%s needs %zu bytes, but has room for %zu", shown_text(entry, shown, where),
                    result->bytes, given->bytes);
    result->memory = given->data;
    if (given->data && usable) return true;
    if (!(result->memory = aligned_memory(result->bytes))) return out_of_memory(error, result->bytes);
    return result->fresh = true;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a_bytes && b_bytes && x < y + b_bytes && y < x + a_bytes;
}

/* Whether the code may write an output straight to where the caller wants it: aligned, and apart from the other
   buffers of the call. */
static bool usable(const Entry *entry, const Record *record, size_t output, const void *memory) {
    if ((uintptr_t)memory % JG_ALIGNMENT != 0) return false;
    size_t bytes = record->results[output].bytes, other;
    for (size_t i = 0; i < entry->input_count; i++) {
        const View *view = &record->views[i];
        if (byte_count(view->shape, view->rank, view->dtype, &other) && overlap(memory, bytes, view->data, other))
            return false;
    }
    for (size_t i = 0; i < output; i++)
        if (overlap(memory, bytes, record->results[i].memory, record->results[i].bytes)) return false;
    return true;
}

/* Memory for the new value of a state tensor, which the old one does not lie in; NULL on failure. */
static void *spare_memory(Tensor *tensor, jg_error *error) {
    void **place = &tensor->own[tensor->own[0] && tensor->own[0] == tensor->data];
    if (!*place && !(*place = aligned_memory(tensor->bytes))) out_of_memory(error, tensor->bytes);
    return *place;
}

/* Memory for an output that replaces a state: the state's own where the code may write into it, which it does once
   nothing can fail any more; what lies in the file stays as it is. */
static void *state_memory(const Entry *entry, size_t output, Tensor *tensor, jg_error *error) {
    bool own = tensor->data && (tensor->data == tensor->own[0] || tensor->data == tensor->own[1]);
    bool in_place = entry->aliased[output] == (int64_t)entry->input_count + entry->written[output];
    return own && in_place ? (void *)(uintptr_t)tensor->data : spare_memory(tensor, error);
}

/* Finds memory for the outputs and fills in the buffers. */
static bool place(jg_model *model, const Entry *entry, const jg_tensor *outputs, Record *record, jg_error *error) {
    static _Alignas(JG_ALIGNMENT) const uint8_t nothing[JG_ALIGNMENT]; /* stands for empty inputs */
    for (size_t i = 0; i < entry->parameter_count; i++)
        record->buffers[i] = (void *)(uintptr_t)(record->views[i].data ? record->views[i].data : nothing);
    for (size_t i = 0, shown = 0; i < entry->output_count; i++) {
        Result *result = &record->results[i];
        if (entry->written[i] != NONE) {
            const Spec *state = &entry->parameters[entry->input_count + (size_t)entry->written[i]];
            if (!(result->memory = state_memory(entry, i, &model->tensors[state->tensor], error))) return false;
        } else {
            const jg_tensor *given = &outputs[shown];
            char where[WHERE_SIZE];
            if (!is_reached(model, given->on, shown_text(entry, shown, where), error)) return false;
            if (!place_shown(entry, shown++, given, result, usable(entry, record, i, given->data), error)) return false;
        }
        record->buffers[entry->parameter_count + i] = result->memory;
    }
    return true;
}
