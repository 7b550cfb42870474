/* A run on a GPU: arguments go there, results come back, and the state stays. Runs take turns on the model's stream. */

#pragma once

#include <string.h>

#include "loader.h"
#include "errors.c"
#include "abi.c"
#include "dtypes.c"
#include "sizes.c"
#include "entries.c"
#include "driver.c"
#include "model.c"
#include "records.c"
#include "arguments.c"
#include "results.c"
#include "calls.c"

enum { KERNEL_ALIGNMENT = 16 }; /* of the addresses that kernels are given */

/* The state that an output replaces. */
static Tensor *written_state(const jg_model *model, const Entry *entry, size_t output) {
    return &model->tensors[entry->parameters[entry->input_count + (size_t)entry->written[output]].tensor];
}

/* Pinned memory that is large enough for a call, where the entry wants any. */
static bool hold_pinned(const Device *device, Entry *entry, const Record *record, jg_error *error) {
    const DeviceCode *code = entry->code;
    int64_t most = 1;
    for (size_t i = 0; i < code->pinned_count; i++) {
        int64_t size = code->pinned[i];
        if (size < 0 && !evaluate(&code->pinned_expressions[i], record->dims, &size, error)) return false;
        if (size > most) most = size;
    }
    if (!entry->waiting || (size_t)most <= entry->waiting_bytes) return true;
    if (*entry->waiting) device->cuMemFreeHost(*entry->waiting);
    *entry->waiting = NULL;
    entry->waiting_bytes = 0;
    int refusal = device->cuMemHostAlloc(entry->waiting, (size_t)most, 0);
    if (refusal) *entry->waiting = NULL;
    else entry->waiting_bytes = (size_t)most;
    return !refusal || refused(device, refusal, "pinned memory", error);
}

/* Where an argument lies on the device for a run: the caller's memory, or a copy of what the host has or of what is not
   aligned as kernels ask for it. */
static bool bring_argument(const Device *device, const View *view, DeviceBlock *block, void **address,
                           jg_error *error) {
    size_t bytes = 0;
    *address = (void *)(uintptr_t)view->data;
    if (!byte_count(view->shape, view->rank, view->dtype, &bytes)) return false;
    if (view->there && bytes && (uintptr_t)view->data % KERNEL_ALIGNMENT == 0) return true;
    if (!grow(device, block, bytes, error)) return false;
    *address = (void *)(uintptr_t)block->address;
    return view->there ? copy_there(device, block->address, (uintptr_t)view->data, bytes, error)
                       : upload(device, block, view->data, bytes, error);
}

/* Memory on the device for arguments, outputs and workspace, with the arguments in it. */
static bool bring(const jg_model *model, const Entry *entry, Record *record, jg_error *error) {
    const Device *device = model->device;
    size_t count = entry->parameter_count;
    for (size_t i = 0; i < entry->input_count; i++)
        if (!bring_argument(device, &record->views[i], &record->blocks[i], &record->buffers[i], error)) return false;
    for (size_t i = entry->input_count; i < count; i++)
        record->buffers[i] = (void *)(uintptr_t)model->tensors[entry->parameters[i].tensor].there.address;
    for (size_t i = 0; i < entry->output_count; i++, count++) {
        const Result *result = &record->results[i];
        record->buffers[count] = result->memory;
        if (result->there && result->memory) continue; /* the caller's */
        if (!grow(device, &record->blocks[count], result->bytes, error)) return false;
        record->buffers[count] = (void *)(uintptr_t)record->blocks[count].address;
    }
    if (!grow(device, &record->blocks[count], (size_t)record->call.arena_bytes, error)) return false;
    record->call.arena = (void *)(uintptr_t)record->blocks[count].address;
    record->call.stream = device->stream;
    memcpy(record->buffers + count, entry->rest, entry->rest_count * sizeof *entry->rest);
    return true;
}

/* Whether a kernel's check has failed, by the record that the launches left: a lock, then the order of the failure, the
   value, the bound and the number of the check. */
static bool checks_passed(const Entry *entry, jg_error *error) {
    const int64_t *found = entry->failure;
    if (!found || found[1] == -1) return true;
    jg_error_record record = {.index = found[2], .bound = found[3]};
    record.check_id = found[4] < 0 || found[4] > INT32_MAX ? -1 : (int32_t)found[4];
    return report(entry, CHECK_FAILED, &record, error);
}

static bool launch(const jg_model *model, const Entry *entry, Record *record, jg_error *error) {
    const Device *device = model->device;
    jg_host host = model->serial;
    host.driver = (void *)(uintptr_t)entry->table;
    int32_t code = enter(&host, entry, record);
    bool done = wait_for(device, error);
    if (!done) return false;
    if (code < 0) {
        char asked[64];
        snprintf(asked, sizeof asked, "launch %d", record->call.error.check_id);
        return refused(device, -code, asked, error);
    }
    return code == OK ? checks_passed(entry, error) : report(entry, code, &record->call.error, error);
}

/* Results to where the caller wants them; then the new state comes into force. */
static bool bring_back(const jg_model *model, const Entry *entry, const jg_tensor *outputs, Record *record,
                       jg_error *error) {
    DeviceBlock *blocks = record->blocks + entry->parameter_count;
    for (size_t i = 0; i < entry->shown_count; i++) {
        size_t output = entry->shown[i];
        const Result *result = &record->results[output];
        uint64_t wanted = (uintptr_t)outputs[i].data;
        if (result->there ? wanted && !result->memory &&
                                !copy_there(model->device, wanted, blocks[output].address, result->bytes, error)
                          : !download(model->device, result->memory, &blocks[output], result->bytes, error))
            return false;
    }
    if (!wait_for(model->device, error)) return false;
    for (size_t i = 0; i < entry->shown_count; i++) {
        Result *result = &record->results[entry->shown[i]];
        DeviceBlock *block = &blocks[entry->shown[i]];
        if (!result->there || outputs[i].data) continue;
        result->memory = (void *)(uintptr_t)block->address; /* the caller's from now on */
        block->address = 0;
    }
    for (size_t i = 0; i < entry->output_count; i++) {
        if (entry->written[i] == NONE) continue;
        Tensor *state = written_state(model, entry, i);
        DeviceBlock old = state->there;
        state->there = blocks[i];
        blocks[i] = old;
    }
    return true;
}

/* Where an output goes: to the caller's memory on the device where that is usable, to a block of the record's, or to
   the host. */
static bool place_output(const jg_model *model, const Entry *entry, const Record *record, size_t shown,
                         const jg_tensor *given, jg_error *error) {
    char where[WHERE_SIZE];
    Result *result = &record->results[entry->shown[shown]];
    bool good = usable(entry, record, entry->shown[shown], given->data);
    result->there = place_of(given->on);
    result->memory = NULL;
    if (!is_reached(model, given->on, shown_text(entry, shown, where), error)) return false;
    if (result->there && !given->data) return true;
    if (!result->there || given->bytes < result->bytes) return place_shown(entry, shown, given, result, good, error);
    if (good) result->memory = given->data;
    return true;
}

/* Whether what callers give on the device is memory there that is large enough. */
static bool check_places(const jg_model *model, const Entry *entry, const jg_tensor *outputs, const Record *record,
                         jg_error *error) {
    char where[WHERE_SIZE];
    size_t bytes = 0;
    for (size_t i = 0; i < entry->input_count; i++) {
        const View *view = &record->views[i];
        if (!view->there || !byte_count(view->shape, view->rank, view->dtype, &bytes)) continue;
        if (!is_there(model->device, view->data, bytes, parameter_text(entry, i, where), error)) return false;
    }
    for (size_t i = 0; i < entry->shown_count; i++) {
        const Result *result = &record->results[entry->shown[i]];
        if (!result->there || !outputs[i].data) continue;
        if (!is_there(model->device, outputs[i].data, result->bytes, shown_text(entry, i, where), error)) return false;
    }
    return true;
}

static bool run_there(jg_model *model, Entry *entry, const jg_tensor *outputs, Record *record, jg_error *error) {
    for (size_t i = 0; i < entry->shown_count; i++)
        if (!place_output(model, entry, record, i, &outputs[i], error)) return false;
    void *before;
    pthread_mutex_lock(&model->device_lock);
    bool good = enter_device(model->device, &before, error);
    if (good) {
        good = check_places(model, entry, outputs, record, error) && hold_pinned(model->device, entry, record, error) &&
               bring(model, entry, record, error) && launch(model, entry, record, error) &&
               bring_back(model, entry, outputs, record, error);
        leave_device(model->device, before);
    }
    pthread_mutex_unlock(&model->device_lock);
    return good;
}
