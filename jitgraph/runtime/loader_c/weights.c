/* The weights: a safetensors member as tensors over the file's bytes. */

#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"
#include "errors.c"
#include "memory.c"
#include "loading.c"
#include "json.c"
#include "dtypes.c"
#include "entries.c"
#include "zip.c"

typedef struct Span {
    uint64_t begin, end;
    const char *name;
} Span;

static int compare_spans(const void *a, const void *b) {
    const Span *left = a, *right = b;
    if (left->begin != right->begin) return left->begin < right->begin ? -1 : 1;
    return (left->end > right->end) - (left->end < right->end);
}

/* The numbers of a list, each at least 0; false where something else stands there. */
static bool read_numbers(const Json *list, int64_t *numbers) {
    for (const Json *child = list->first; child; child = child->next) {
        if (child->kind != AN_INT || child->wide || child->integer < 0) return false;
        *numbers++ = child->integer;
    }
    return true;
}

/* One tensor of the header over the data behind it, copied where it is not aligned to its element. */
static Span read_tensor(Loading *l, const Json *source, Bytes data, Tensor *tensor) {
    char where[WHERE_SIZE], shown[WHERE_SIZE];
    snprintf(where, sizeof where, WEIGHTS ", tensor '%.60s'", source->key);
    const char *code = get_text(l, source, "dtype", where);
    const Json *shape = get(l, source, "shape", A_LIST, where);
    const Json *offsets = get(l, source, "data_offsets", A_LIST, where);
    int dtype = dtype_named(code, true);
    if (dtype < 0) refuse(l, "%s: dtype '%.20s' is not supported", where, code);
    int64_t *sizes = make(l, l->kept, shape->count, sizeof *sizes), range[2];
    bool few = offsets->count == 2 && shape->count <= JG_MAX_RANK;
    if (!few || !read_numbers(shape, sizes) || !read_numbers(offsets, range))
        refuse(l, "%s: shape or offsets are not sizes", where);
    tensor->key = keep_text(l, source->key, source->key_size, where);
    tensor->dtype = (jg_dtype)dtype;
    tensor->rank = (int32_t)shape->count;
    tensor->shape = sizes;
    Span span = {(uint64_t)range[0], (uint64_t)range[1], tensor->key};
    bool fits = span.begin <= span.end && span.end <= data.size &&
                byte_count(sizes, tensor->rank, tensor->dtype, &tensor->bytes);
    if (!fits || span.end - span.begin != tensor->bytes)
        refuse(l, "%s: bytes %llu to %llu of %zu do not hold %s; " AGAIN, where, (Long)span.begin, (Long)span.end,
               data.size, shape_text(tensor->dtype, tensor->rank, sizes, shown));
    tensor->data = data.data + span.begin;
    if (tensor->dtype == JG_BOOL && !are_bools(tensor->data, tensor->bytes))
        refuse(l, "%s: a bool that is neither 0 nor 1; " AGAIN, where);
    if ((uintptr_t)tensor->data % DTYPES[dtype].size != 0) {
        if (!(tensor->own[0] = aligned_memory(tensor->bytes))) no_memory(l, tensor->bytes);
        tensor->data = memcpy(tensor->own[0], tensor->data, tensor->bytes);
    }
    return span;
}

/* safetensors: 8 bytes of header length, a JSON header, the tensors without a gap between them. */
static void read_weights(Loading *l, Bytes bytes, Tensor **tensors, size_t *count, Index *index) {
    if (bytes.size < 8) refuse(l, WEIGHTS " has %zu bytes, less than its header's length field", bytes.size);
    uint64_t size = u64_at(bytes.data), reached = 0;
    if (size > bytes.size - 8)
        refuse(l, WEIGHTS " says its header has %llu bytes, but the file has %zu; " AGAIN, (Long)size, bytes.size);
    const Json *header = parse_json(l, (Bytes){bytes.data + 8, size}, "the header of " WEIGHTS);
    Bytes data = {bytes.data + 8 + size, bytes.size - 8 - size};
    Span *spans = make(l, &l->scratch, header->count, sizeof *spans);
    *tensors = make(l, l->kept, header->count, sizeof **tensors);
    index->items = make(l, l->kept, header->count, sizeof(Named));
    for (const Json *child = header->first; child; child = child->next) {
        if (strcmp(child->key, "__metadata__") == 0) continue;
        Tensor *tensor = &(*tensors)[(*count)++]; /* counted first, so that what it owns is freed */
        spans[index->count] = read_tensor(l, child, data, tensor);
        index->items[index->count++] = (Named){tensor->key, strlen(tensor->key), tensor};
    }
    sort_index(index);
    qsort(spans, *count, sizeof *spans, compare_spans);
    for (size_t i = 0; i < *count; reached = spans[i++].end)
        if (spans[i].begin != reached)
            refuse(l, WEIGHTS ": tensor '%.60s' begins at %llu, where %llu is due; " AGAIN, spans[i].name,
                   (Long)spans[i].begin, (Long)reached);
    if (reached != data.size)
        refuse(l, WEIGHTS " has %zu bytes of data, its tensors %llu; " AGAIN, data.size, (Long)reached);
}
