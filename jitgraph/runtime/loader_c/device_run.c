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
#include "results.c"
#include "calls.c"

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

/* Memory on the device for arguments, outputs and workspace, with the arguments in it. */
static bool bring(const jg_model *model, const Entry *entry, Record *record, jg_error *error) {
    const Device *device = model->device;
    size_t count = entry->parameter_count, bytes;
    for (size_t i = 0; i < count; i++) {
        const View *view = &record->views[i];
        const DeviceBlock *block = &record->blocks[i];
        if (i >= entry->input_count) block = &model->tensors[entry->parameters[i].tensor].there;
        else if (!byte_count(view->shape, view->rank, view->dtype, &bytes) ||
                 !grow(device, &record->blocks[i], bytes, error) || !upload(device, block, view->data, bytes, error))
            return false;
        record->buffers[i] = (void *)(uintptr_t)block->address;
    }
    for (size_t i = 0; i < entry->output_count; i++, count++) {
        if (!grow(device, &record->blocks[count], record->results[i].bytes, error)) return false;
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

/* Results to the host; then the new state comes into force. */
static bool bring_back(const jg_model *model, const Entry *entry, Record *record, jg_error *error) {
    DeviceBlock *blocks = record->blocks + entry->parameter_count;
    for (size_t i = 0; i < entry->output_count; i++)
        if (entry->written[i] == NONE &&
            !download(model->device, record->results[i].memory, &blocks[i], record->results[i].bytes, error))
            return false;
    if (!wait_for(model->device, error)) return false;
    for (size_t i = 0; i < entry->output_count; i++) {
        if (entry->written[i] == NONE) continue;
        Tensor *state = written_state(model, entry, i);
        DeviceBlock old = state->there;
        state->there = blocks[i];
        blocks[i] = old;
    }
    return true;
}

static bool run_there(jg_model *model, Entry *entry, const jg_tensor *outputs, Record *record, jg_error *error) {
    for (size_t i = 0; i < entry->shown_count; i++) {
        size_t output = entry->shown[i];
        if (!place_shown(entry, i, &outputs[i], &record->results[output], usable(entry, record, output, outputs[i].data),
                         error))
            return false;
    }
    void *before;
    pthread_mutex_lock(&model->device_lock);
    bool good = enter_device(model->device, &before, error);
    if (good) {
        good = hold_pinned(model->device, entry, record, error) && bring(model, entry, record, error) &&
               launch(model, entry, record, error) && bring_back(model, entry, record, error);
        leave_device(model->device, before);
    }
    pthread_mutex_unlock(&model->device_lock);
    return good;
}
