/* What one running call needs, kept from call to call. */

#pragma once

#include <pthread.h>
#include <stdlib.h>

#include "loader.h"
#include "errors.c"
#include "abi.c"
#include "memory.c"
#include "entries.c"
#include "model.c"

typedef struct View { /* an argument or a state tensor */
    const void *data;
    jg_dtype dtype;
    int32_t rank;
    const int64_t *shape;
    const Device *there; /* of an argument: the GPU on which data lies, else NULL */
} View;

typedef struct Result {
    int64_t shape[JG_MAX_RANK];
    size_t bytes;
    void *memory;
    const Device *there; /* the GPU to whose memory the caller wants it, else NULL */
    bool fresh; /* allocated for the running call; false between calls */
} Result;

/* Everything that one running call needs; kept for the next one. */
struct Record {
    jg_call call; /* first, so that a print finds the rest */
    Record *next;
    const jg_model *model;
    const Entry *entry;
    const char *failure; /* why a call of a custom op failed; NULL: none did */
    const CustomCall *failed;
    int32_t failure_code; /* what the op returned */
    Store store; /* of what follows */
    void *arena;
    size_t arena_size;
    int64_t *dims;
    void **buffers;
    View *views;
    Result *results;
    DeviceBlock *blocks; /* of parameters and outputs, and the arena, on a GPU */
};

static void free_record(Record *record) {
    free(record->arena);
    release(&record->store);
    free(record);
}

static Record *check_out(jg_model *model, Entry *entry, jg_error *error) {
    pthread_mutex_lock(&model->records_lock);
    Record *record = entry->free_records;
    if (record) entry->free_records = record->next;
    pthread_mutex_unlock(&model->records_lock);
    if (record) return record;
    if (!(record = calloc(1, sizeof *record))) {
        out_of_memory(error, sizeof *record);
        return NULL;
    }
    record->model = model;
    record->entry = entry;
    record->dims = take(&record->store, entry->dim_count, sizeof *record->dims);
    size_t count = entry->parameter_count + entry->output_count;
    record->buffers = take(&record->store, count + entry->rest_count, sizeof(void *));
    record->blocks = take(&record->store, count + 1, sizeof *record->blocks);
    record->views = take(&record->store, entry->parameter_count, sizeof *record->views);
    record->results = take(&record->store, entry->output_count, sizeof *record->results);
    if (record->dims && record->buffers && record->blocks && record->views && record->results) return record;
    free_record(record);
    out_of_memory(error, entry->output_count * sizeof *record->results);
    return NULL;
}

static void check_in(jg_model *model, Entry *entry, Record *record) {
    pthread_mutex_lock(&model->records_lock);
    record->next = entry->free_records;
    entry->free_records = record;
    pthread_mutex_unlock(&model->records_lock);
}
