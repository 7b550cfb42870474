/* A model on a GPU: its code and tensors there, from loading to closing. */

#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader.h"
#include "errors.c"
#include "abi.c"
#include "memory.c"
#include "loading.c"
#include "entries.c"
#include "image.c"
#include "driver.c"
#include "model.c"
#include "records.c"

enum { FAILURE_BYTES = 40, LOG_BYTES = 600 };

/* The newest code that the device runs, which its driver compiles for it. */
static const DeviceCode *best_code(Loading *l, const Device *device, const Entry *entry) {
    const DeviceCode *found = NULL, *oldest = NULL;
    for (const DeviceCode *code = entry->codes; code < entry->codes + entry->code_count; code++) {
        if (!oldest || code->capability < oldest->capability) oldest = code;
        if (code->capability <= device->capability && (!found || code->capability > found->capability)) found = code;
    }
    if (!oldest)
        refuse(l, "'%.60s' has no code for GPUs; save it with targets=('cuda',), or load it for the CPU", entry->name);
    if (!found) {
        char title[DEVICE_NAME] = "";
        device->cuDeviceGetName(title, sizeof title, device->number);
        refuse(l, "'%.60s' has code for GPUs from %s on, but %s (%.60s) is sm_%d; load the model for the CPU",
               entry->name, oldest->generation, device->name, title, device->capability);
    }
    return found;
}

static void load_ptx(Loading *l, const Device *device, Entry *entry) {
    Bytes ptx = entry->code->ptx;
    char log[LOG_BYTES] = "";
    int options[] = {ERROR_LOG, ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    char *text = make(l, &l->scratch, ptx.size + 1, 1);
    memcpy(text, ptx.data, ptx.size);
    int code = device->cuModuleLoadDataEx(&entry->module, text, 2, options, values);
    if (!code) return;
    entry->module = NULL;
    jg_error inner = {.status = JG_OK};
    refused(device, code, "loading its PTX", &inner);
    refuse(l, "%.300s%s%.500s", inner.message, *log ? ": " : "", log);
}

static void place_tensor(Loading *l, const Device *device, Tensor *tensor) {
    if (tensor->there.address) return;
    if (!grow(device, &tensor->there, tensor->bytes, l->error) ||
        !upload(device, &tensor->there, tensor->data, tensor->bytes, l->error))
        longjmp(l->out, 1);
}

static void place_entry(Loading *l, jg_model *model, Entry *entry) {
    const Device *device = model->device;
    const DeviceCode *code = entry->code = best_code(l, device, entry);
    map_image(l, code->host, entry);
    entry->worker = NULL; /* the host only launches */
    entry->checks = code->checks;
    entry->check_count = code->check_count;
    model->target = code->generation;
    for (size_t i = 0; i < code->driver_count; i++)
        find_symbol(l, device, code->driver[i].symbol, &entry->table[code->driver[i].place]);
    load_ptx(l, device, entry);
    void **rest = make(l, l->kept, code->constant_count + 2 + code->function_count, sizeof(void *));
    size_t count = 0;
    for (size_t i = 0; i < code->constant_count; i++) {
        Tensor *tensor = &model->tensors[code->constants[i]];
        place_tensor(l, device, tensor);
        rest[count++] = (void *)(uintptr_t)tensor->there.address;
    }
    if (code->reports) {
        void *pinned = NULL;
        require(l, device, device->cuMemHostAlloc(&pinned, FAILURE_BYTES, 0), "pinned memory");
        rest[count++] = entry->failure = pinned;
    }
    if (code->pinned_count) entry->waiting = &rest[count++];
    for (size_t i = 0; i < code->function_count; i++) {
        char asked[WHERE_SIZE];
        snprintf(asked, sizeof asked, "the kernel %.100s", code->functions[i]);
        require(l, device, device->cuModuleGetFunction(&rest[count++], entry->module, code->functions[i]), asked);
    }
    entry->rest = rest;
    entry->rest_count = count;
    for (size_t i = entry->input_count; i < entry->parameter_count; i++)
        place_tensor(l, device, &model->tensors[entry->parameters[i].tensor]);
}

/* Loads the model's code and tensors to a device; the calling thread's context is then as it was. */
static void place_model(Loading *l, const char *name, jg_model *model) {
    model->device = make(l, l->kept, 1, sizeof *model->device);
    open_device(l, name, model->device, &model->before);
    for (size_t i = 0; i < model->entry_count; i++) place_entry(l, model, &model->entries[i]);
    if (!wait_for(model->device, l->error)) longjmp(l->out, 1);
    leave_device(model->device, model->before);
    model->before = model->device->context; /* current no more: nothing is left to put back */
}

static void free_record_there(const Device *device, const Entry *entry, Record *record) {
    for (size_t i = 0; i <= entry->parameter_count + entry->output_count; i++) free_block(device, &record->blocks[i]);
}

/* Gives back what a model has on its device, also where loading ended midway. The driver stays loaded, as CUDA is used
   to. */
static void leave_place(jg_model *model) {
    Device *device = model->device;
    void *before;
    jg_error unused;
    if (device->context && enter_device(device, &before, &unused)) {
        for (size_t i = 0; i < model->entry_count; i++) {
            Entry *entry = &model->entries[i];
            for (Record *record = entry->free_records; record; record = record->next)
                free_record_there(device, entry, record);
            if (entry->module) device->cuModuleUnload(entry->module);
            if (entry->failure) device->cuMemFreeHost(entry->failure);
            if (entry->waiting && *entry->waiting) device->cuMemFreeHost(*entry->waiting);
        }
        for (size_t i = 0; i < model->tensor_count; i++) free_block(device, &model->tensors[i].there);
        if (device->stream) device->cuStreamDestroy_v2(device->stream);
        leave_device(device, model->before == device->context ? before : model->before);
        device->cuDevicePrimaryCtxRelease_v2(device->number);
    }
}
