/* The state, and what is inside a model. */

#pragma once

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "loader.h"
#include "errors.c"
#include "memory.c"
#include "dtypes.c"
#include "entries.c"
#include "model.c"
#include "records.c"
#include "results.c"
#include "device_model.c"
#include "run.c"

/* The state of that key; NULL where there is none, or an argument is NULL. */
__attribute__((noinline)) static Tensor *state_named(const jg_model *model, const char *key, const jg_tensor *value,
                                                     jg_error *error) {
    const char *missing = !model ? "model" : !key ? "key" : !value ? "value" : NULL;
    if (missing) no_pointer(error, missing);
    if (missing) return NULL;
    Tensor *found = find(&model->tensor_index, key);
    if (!found) fail(error, JG_BAD_ARGUMENT, "no state '%.60s'", key);
    if (!found || !place_of(value->on)) return found;
    fail(error, JG_BAD_ARGUMENT, "the state '%.60s' is copied by the host's memory; the value lies on %s", key,
         place_of(value->on)->name);
    return NULL;
}

/* Copies a state on the model's GPU to the host, or from there. */
static void copy_state(jg_model *model, const Tensor *tensor, void *to, const void *from, jg_error *error) {
    void *before;
    pthread_mutex_lock(&model->device_lock);
    if (enter_device(model->device, &before, error)) {
        bool asked = to ? download(model->device, to, &tensor->there, tensor->bytes, error)
                        : upload(model->device, &tensor->there, from, tensor->bytes, error);
        if (asked) wait_for(model->device, error);
        leave_device(model->device, before);
    }
    pthread_mutex_unlock(&model->device_lock);
}

jg_status jg_state_get(jg_model *model, const char *key, jg_tensor *value, jg_error *error) {
    jg_error unused;
    error = cleared(error ? error : &unused);
    const Tensor *tensor = state_named(model, key, value, error);
    if (!tensor) return error->status;
    if (value->data && value->bytes < tensor->bytes) {
        fail(error, JG_BAD_ARGUMENT, "the state '%.60s' needs %zu bytes, but has room for %zu", key, tensor->bytes,
             value->bytes);
        return error->status;
    }
    bool own = !value->data;
    if (own) {
        value->bytes = tensor->bytes;
        if (!(value->data = aligned_memory(tensor->bytes))) out_of_memory(error, tensor->bytes);
        if (!value->data) return error->status;
    }
    value->dtype = tensor->dtype;
    value->rank = tensor->rank;
    memcpy(value->shape, tensor->shape, (size_t)tensor->rank * sizeof *tensor->shape);
    pthread_rwlock_rdlock(&model->state_lock);
    if (tensor->there.address) copy_state(model, tensor, value->data, NULL, error);
    else memcpy(value->data, tensor->data, tensor->bytes);
    pthread_rwlock_unlock(&model->state_lock);
    if (error->status != JG_OK && own) jg_tensor_free(value);
    return error->status;
}

jg_status jg_state_set(jg_model *model, const char *key, const jg_tensor *value, jg_error *error) {
    jg_error unused;
    error = cleared(error ? error : &unused);
    Tensor *tensor = state_named(model, key, value, error);
    if (!tensor) return error->status;
    bool same = value->dtype == tensor->dtype && value->rank == tensor->rank &&
                memcmp(value->shape, tensor->shape, (size_t)tensor->rank * sizeof *tensor->shape) == 0;
    char wanted[WHERE_SIZE];
    if (!same || (!value->data && tensor->bytes)) {
        fail(error, JG_BAD_ARGUMENT, "the state '%.60s' is %s; the value must have that dtype, shape and data", key,
             shape_text(tensor->dtype, tensor->rank, tensor->shape, wanted));
    } else if (tensor->dtype == JG_BOOL && !are_bools(value->data, tensor->bytes)) {
        fail(error, JG_BAD_ARGUMENT, "the state '%.60s': a bool that is neither 0 nor 1", key);
    } else {
        pthread_rwlock_wrlock(&model->state_lock);
        void *memory = tensor->there.address ? NULL : spare_memory(tensor, error);
        if (tensor->there.address) copy_state(model, tensor, NULL, value->data, error);
        if (memory && tensor->bytes) memcpy(memory, value->data, tensor->bytes);
        if (memory) tensor->data = memory;
        pthread_rwlock_unlock(&model->state_lock);
    }
    return error->status;
}

__attribute__((cold)) void jg_close(jg_model *model) {
    if (!model) return;
    stop_pool(model);
    if (model->device) leave_place(model);
    for (size_t i = 0; i < model->entry_count; i++) {
        Entry *entry = &model->entries[i];
        while (entry->free_records) {
            Record *next = entry->free_records->next;
            free_record(entry->free_records);
            entry->free_records = next;
        }
        if (entry->image) munmap(entry->image, entry->image_bytes);
    }
    for (size_t i = 0; i < model->tensor_count; i++) {
        free(model->tensors[i].own[0]);
        free(model->tensors[i].own[1]);
    }
#if defined(JG_MAP_FILE)
    if (model->file) munmap(model->file, model->file_bytes);
#else
    free(model->file);
#endif
    pthread_rwlock_destroy(&model->state_lock);
    pthread_mutex_destroy(&model->records_lock);
    pthread_mutex_destroy(&model->device_lock);
    release(&model->store);
    free(model);
}

const char *jg_target(const jg_model *model) { return model ? model->target : NULL; }
const char *jg_device(const jg_model *model) { return !model ? NULL : model->device ? model->device->name : "cpu"; }
const char *jg_metadata(const jg_model *model) { return model ? model->metadata : NULL; }
size_t jg_entry_count(const jg_model *model) { return model ? model->entry_count : 0; }

const char *jg_entry_name(const jg_model *model, size_t index) {
    return index < jg_entry_count(model) ? model->entries[index].name : NULL;
}

size_t jg_input_count(const jg_model *model, const char *entry) {
    const Entry *found = entry_named(model, entry);
    return found ? found->input_count : 0;
}

size_t jg_output_count(const jg_model *model, const char *entry) {
    const Entry *found = entry_named(model, entry);
    return found ? found->shown_count : 0;
}

const jg_spec *jg_input(const jg_model *model, const char *entry, size_t index) {
    const Entry *found = entry_named(model, entry);
    return found && index < found->input_count ? &found->parameters[index].shown : NULL;
}

const jg_spec *jg_output(const jg_model *model, const char *entry, size_t index) {
    const Entry *found = entry_named(model, entry);
    return found && index < found->shown_count ? &found->outputs[found->shown[index]].shown : NULL;
}

size_t jg_state_count(const jg_model *model) { return model ? model->tensor_count : 0; }

const char *jg_state_key(const jg_model *model, size_t index) {
    return index < jg_state_count(model) ? model->tensors[index].key : NULL;
}

void jg_tensor_free(jg_tensor *tensor) {
    if (!tensor) return;
    const Device *there = place_of(tensor->on);
    if (there) free_there(there, tensor->data);
    else free(tensor->data);
    tensor->data = NULL;
}

size_t jg_tensor_bytes(const jg_tensor *tensor) {
    size_t bytes = 0;
    bool sound = tensor && is_dtype(tensor->dtype) && tensor->rank >= 0 && tensor->rank <= JG_MAX_RANK;
    return sound && byte_count(tensor->shape, tensor->rank, tensor->dtype, &bytes) ? bytes : 0;
}

const char *jg_dtype_name(jg_dtype dtype) { return is_dtype(dtype) ? DTYPES[dtype].name : NULL; }
size_t jg_dtype_size(jg_dtype dtype) { return is_dtype(dtype) ? DTYPES[dtype].size : 0; }
