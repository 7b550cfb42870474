/* The state, and what is inside a model. */

#pragma once

#include <pthread.h>
#include <stdio.h>
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

/* The state of that key, which a value may be copied to or from; NULL where there is none, or an argument is NULL. */
__attribute__((noinline)) static Tensor *state_named(const jg_model *model, const char *key, const jg_tensor *value,
                                                     char where[WHERE_SIZE], jg_error *error) {
    const char *missing = !model ? "model" : !key ? "key" : !value ? "value" : NULL;
    if (missing) no_pointer(error, missing);
    if (missing) return NULL;
    Tensor *found = find(&model->tensor_index, key);
    snprintf(where, WHERE_SIZE, "the state '%.60s'", key);
    if (!found) fail(error, JG_BAD_ARGUMENT, "no state '%.60s'", key);
    return found && is_reached(model, value->on, where, error) ? found : NULL;
}

/* Copies the state of a model on a GPU to ``value``, on either side, which gets memory where it has none. */
static bool copy_out(const Device *device, const Tensor *tensor, jg_tensor *value, const char *where,
                     jg_error *error) {
    DeviceBlock block = {.address = (uintptr_t)value->data};
    if (!place_of(value->on)) return download(device, value->data, &tensor->there, tensor->bytes, error);
    if (value->data && !is_there(device, value->data, tensor->bytes, where, error)) return false;
    if (!value->data && !grow(device, &block, tensor->bytes, error)) return false;
    bool asked = tensor->there.address
                     ? copy_there(device, block.address, tensor->there.address, tensor->bytes, error)
                     : upload(device, &block, tensor->data, tensor->bytes, error);
    if (!asked && !value->data) free_block(device, &block);
    if (asked) value->data = (void *)(uintptr_t)block.address;
    return asked;
}

/* Copies ``value``, on either side, to the state of a model on a GPU, or to ``memory`` where the state is the host's. */
static bool copy_in(const Device *device, const Tensor *tensor, void *memory, const jg_tensor *value,
                    const char *where, jg_error *error) {
    DeviceBlock block = {.address = (uintptr_t)value->data};
    if (!place_of(value->on)) return upload(device, &tensor->there, value->data, tensor->bytes, error);
    if (!is_there(device, value->data, tensor->bytes, where, error)) return false;
    return memory ? download(device, memory, &block, tensor->bytes, error)
                  : copy_there(device, tensor->there.address, block.address, tensor->bytes, error);
}

static bool copy_state(jg_model *model, const Tensor *tensor, void *memory, jg_tensor *to, const jg_tensor *from,
                       const char *where, jg_error *error) {
    const Device *device = model->device;
    void *before;
    pthread_mutex_lock(&model->device_lock);
    bool good = enter_device(device, &before, error);
    if (good) {
        good = to ? copy_out(device, tensor, to, where, error)
                  : copy_in(device, tensor, memory, from, where, error);
        good = good && wait_for(device, error);
        leave_device(device, before);
    }
    pthread_mutex_unlock(&model->device_lock);
    return good;
}

jg_status jg_state_get(jg_model *model, const char *key, jg_tensor *value, jg_error *error) {
    jg_error unused;
    char where[WHERE_SIZE];
    error = cleared(error ? error : &unused);
    const Tensor *tensor = state_named(model, key, value, where, error);
    if (!tensor) return error->status;
    if (value->data && value->bytes < tensor->bytes) {
        fail(error, JG_BAD_ARGUMENT, "%s needs %zu bytes, but has room for %zu", where, tensor->bytes, value->bytes);
        return error->status;
    }
    bool own = !value->data;
    if (own) {
        value->bytes = tensor->bytes;
        if (!place_of(value->on) && !(value->data = aligned_memory(tensor->bytes))) out_of_memory(error, tensor->bytes);
        if (error->status != JG_OK) return error->status;
    }
    value->dtype = tensor->dtype;
    value->rank = tensor->rank;
    memcpy(value->shape, tensor->shape, (size_t)tensor->rank * sizeof *tensor->shape);
    pthread_rwlock_rdlock(&model->state_lock);
    if (place_of(value->on) || tensor->there.address) copy_state(model, tensor, NULL, value, NULL, where, error);
    else memcpy(value->data, tensor->data, tensor->bytes);
    pthread_rwlock_unlock(&model->state_lock);
    if (error->status != JG_OK && own) jg_tensor_free(value);
    return error->status;
}

jg_status jg_state_set(jg_model *model, const char *key, const jg_tensor *value, jg_error *error) {
    jg_error unused;
    char where[WHERE_SIZE], wanted[WHERE_SIZE];
    error = cleared(error ? error : &unused);
    Tensor *tensor = state_named(model, key, value, where, error);
    if (!tensor) return error->status;
    bool same = value->dtype == tensor->dtype && value->rank == tensor->rank &&
                memcmp(value->shape, tensor->shape, (size_t)tensor->rank * sizeof *tensor->shape) == 0;
    bool there = place_of(value->on);
    if (!same || (!value->data && tensor->bytes)) {
        fail(error, JG_BAD_ARGUMENT, "%s is %s; the value must have that dtype, shape and data", where,
             shape_text(tensor->dtype, tensor->rank, tensor->shape, wanted));
    } else if (tensor->dtype == JG_BOOL && !there && !are_bools(value->data, tensor->bytes)) {
        fail(error, JG_BAD_ARGUMENT, "%s: a bool that is neither 0 nor 1", where);
    } else {
        pthread_rwlock_wrlock(&model->state_lock);
        void *memory = tensor->there.address ? NULL : spare_memory(tensor, error);
        bool good = tensor->there.address || memory;
        if (good && (there || !memory)) good = copy_state(model, tensor, memory, NULL, value, where, error);
        else if (memory && tensor->bytes) memcpy(memory, value->data, tensor->bytes);
        if (good && memory) tensor->data = memory;
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

ptrdiff_t jg_input_index(const jg_model *model, const char *entry, const char *name) {
    for (size_t i = 0; name && i < jg_input_count(model, entry); i++)
        if (strcmp(jg_input(model, entry, i)->name, name) == 0) return (ptrdiff_t)i;
    return -1;
}

ptrdiff_t jg_output_index(const jg_model *model, const char *entry, const char *name) {
    for (size_t i = 0; name && i < jg_output_count(model, entry); i++)
        if (strcmp(jg_output(model, entry, i)->name, name) == 0) return (ptrdiff_t)i;
    return -1;
}

__attribute__((cold))
jg_status jg_set_input(const jg_model *model, const char *entry, const char *name, jg_tensor value, jg_tensor *inputs,
                       size_t input_count, jg_error *error) {
    jg_error unused;
    error = cleared(error ? error : &unused);
    const char *missing = !model ? "model" : !name ? "name" : !inputs ? "inputs" : NULL;
    const Entry *found = entry_named(model, entry);
    ptrdiff_t index = jg_input_index(model, entry, name);
    if (missing) no_pointer(error, missing);
    else if (!found) fail(error, JG_BAD_ARGUMENT, "no entry '%.60s'", entry);
    else if (input_count != found->input_count) wrong_counts(found, input_count, found->shown_count, error);
    else if (index < 0) fail(error, JG_BAD_ARGUMENT, "%.40s has no input '%.60s'", found->title, name);
    else inputs[index] = value;
    return error->status;
}

size_t jg_static_count(const jg_model *model, const char *entry) {
    const Entry *found = entry_named(model, entry);
    return found ? found->static_count : 0;
}

const jg_static *jg_static_at(const jg_model *model, const char *entry, size_t index) {
    return index < jg_static_count(model, entry) ? &entry_named(model, entry)->statics[index] : NULL;
}

/* Whether an entry was made for these values. */
__attribute__((cold)) static bool has_statics(const Entry *entry, const jg_static *statics, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const jg_static *own = NULL;
        for (size_t j = 0; j < entry->static_count && !own; j++)
            if (strcmp(entry->statics[j].name, statics[i].name) == 0) own = &entry->statics[j];
        bool same = own && own->kind == statics[i].kind &&
                    (own->kind == JG_STATIC_NONE || (statics[i].text && strcmp(own->text, statics[i].text) == 0));
        if (!same) return false;
    }
    return true;
}

__attribute__((cold))
const char *jg_entry_for(const jg_model *model, const char *entry, const jg_static *statics, size_t count,
                         jg_error *error) {
    jg_error unused;
    error = cleared(error ? error : &unused);
    const Entry *base = entry_named(model, entry), *chosen = NULL;
    size_t fitting = 0;
    const char *missing = !model ? "model" : count && !statics ? "statics" : NULL;
    for (size_t i = 0; i < count && !missing; i++)
        if (!statics[i].name) missing = "name";
    if (missing) no_pointer(error, missing);
    else if (!base) fail(error, JG_BAD_ARGUMENT, "no entry '%.60s'", entry);
    if (error->status != JG_OK) return NULL;
    for (size_t i = 0; i < model->entry_count; i++) {
        const Entry *each = &model->entries[i];
        if (each != base && (!each->of || strcmp(each->of, base->name) != 0)) continue;
        if (!has_statics(each, statics, count)) continue;
        if (each->static_count == count) return each->name;
        chosen = each;
        fitting++;
    }
    if (fitting == 1) return chosen->name;
    if (count == 0) fail(error, JG_BAD_ARGUMENT, "%.40s was saved for several values: name them", base->title);
    else fail(error, JG_BAD_ARGUMENT, "%.40s was saved for %s with %.60s = %.60s", base->title,
              fitting ? "several values" : "no values", statics[0].name, statics[0].text ? statics[0].text : "null");
    return NULL;
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
