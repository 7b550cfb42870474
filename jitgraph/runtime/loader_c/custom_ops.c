/* Custom ops: functions of the program's that native code calls by their names. */

#pragma once

#include <stdlib.h>
#include <string.h>

#include "loader.h"
#include "errors.c"
#include "abi.c"
#include "memory.c"
#include "loading.c"
#include "dtypes.c"
#include "sizes.c"
#include "entries.c"
#include "model.c"
#include "records.c"

/* The ops that the entries call, each once; two calls of one op may have different types, of which the first are told. */
static void collect_ops(Loading *l, jg_model *model) {
    size_t most = 0;
    for (size_t i = 0; i < model->entry_count; i++) most += model->entries[i].call_count;
    if (most == 0) return;
    model->ops = make(l, l->kept, most, sizeof *model->ops);
    for (size_t i = 0; i < model->entry_count; i++) {
        for (size_t j = 0; j < model->entries[i].call_count; j++) {
            CustomCall *call = &model->entries[i].calls[j];
            size_t place = 0;
            while (place < model->op_count && strcmp(model->ops[place].name, call->op) != 0) place++;
            if (place == model->op_count) model->ops[model->op_count++] = (CustomOp){call->op, call->types, NULL};
            call->place = place;
        }
    }
}

static int32_t failed_call(Record *record, const CustomCall *call, const char *why, int32_t code) {
    record->failed = call;
    record->failure = why;
    record->failure_code = code;
    return CALLBACK_FAILED;
}

/* The host's callback: the function that is registered for the op of call number in the entry. */
__attribute__((cold)) static int32_t call_site(const jg_host *host, jg_call *running, int64_t number,
                                               void *const *buffers, const int64_t *dims) {
    (void)host;
    Record *record = (Record *)running;
    if (!within((uint64_t)number, 1, record->entry->call_count)) return CALLBACK_FAILED;
    const CustomCall *call = &record->entry->calls[number];
    jg_op_function *function = record->model->ops[call->place].function;
    if (!function) return failed_call(record, call, "is not registered", 0);
    int64_t *sizes = calloc(call->extent_count + 1, sizeof *sizes), *extents = sizes;
    if (!sizes) return OUT_OF_MEMORY;
    size_t count = call->operand_count + call->result_count;
    const char *why = NULL;
    for (size_t i = 0; i < count && !why; i++) {
        const Spec *spec = &call->specs[i];
        for (int32_t axis = 0; axis < spec->shown.rank; axis++) {
            extents[axis] = spec->shown.sizes[axis];
            jg_error unused;
            if (extents[axis] < 0 && !evaluate(&spec->expressions[axis], dims, &extents[axis], &unused))
                why = "has a size that leaves 64 bits";
        }
        size_t bytes = 0;
        if (!why && !byte_count(extents, spec->shown.rank, spec->shown.dtype, &bytes))
            why = "has a size that leaves 64 bits";
        else if (!why && i >= call->operand_count && bytes) memset(buffers[i], 0, bytes);
        extents += spec->shown.rank;
    }
    int32_t code = why ? 0 : function(buffers, buffers + call->operand_count, sizes);
    extents = sizes;
    for (size_t i = 0; i < count && !why && !code; i++) { /* bools are 0 or 1, whatever was written */
        const jg_spec *spec = &call->specs[i].shown;
        size_t bytes = 0;
        uint8_t *bools = buffers[i];
        if (i >= call->operand_count && spec->dtype == JG_BOOL && byte_count(extents, spec->rank, JG_BOOL, &bytes))
            for (size_t at = 0; at < bytes; at++) bools[at] = bools[at] != 0;
        extents += spec->rank;
    }
    free(sizes);
    if (why) return failed_call(record, call, why, 0);
    return code ? failed_call(record, call, "returned an error code", code) : OK;
}

size_t jg_op_count(const jg_model *model) { return model ? model->op_count : 0; }

const char *jg_op_name(const jg_model *model, size_t index) {
    return index < jg_op_count(model) ? model->ops[index].name : NULL;
}

const char *jg_op_types(const jg_model *model, size_t index) {
    return index < jg_op_count(model) ? model->ops[index].types : NULL;
}

/* A call of the op that has other types than those; NULL where none has. */
static const CustomCall *other_call(const jg_model *model, size_t place, const char *types) {
    for (size_t i = 0; i < model->entry_count; i++)
        for (size_t j = 0; j < model->entries[i].call_count; j++) {
            const CustomCall *call = &model->entries[i].calls[j];
            if (call->place == place && strcmp(call->types, types) != 0) return call;
        }
    return NULL;
}

jg_status jg_register_op(jg_model *model, const char *name, const char *types, jg_op_function *function,
                         jg_error *error) {
    jg_error unused;
    error = cleared(error ? error : &unused);
    if (!model || !name || !function) {
        no_pointer(error, !model ? "model" : !name ? "name" : "function");
        return error->status;
    }
    size_t place = 0;
    while (place < model->op_count && strcmp(model->ops[place].name, name) != 0) place++;
    const CustomCall *other = types && place < model->op_count ? other_call(model, place, types) : NULL;
    if (place == model->op_count) fail(error, JG_BAD_ARGUMENT, "the model calls no custom op '%.60s'", name);
    else if (other)
        fail(error, JG_BAD_ARGUMENT, "the custom op '%.60s' is %.300s, not %.300s", name, other->types, types);
    else model->ops[place].function = function;
    return error->status;
}
