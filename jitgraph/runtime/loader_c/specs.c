/* Reads what a signature says of tensors: inputs, outputs and state, with the sizes that have names. */

#pragma once

#include <stdio.h>
#include <string.h>

#include "loader.h"
#include "errors.c"
#include "memory.c"
#include "loading.c"
#include "json.c"
#include "dtypes.c"
#include "sizes.c"
#include "entries.c"

static int64_t read_size(Loading *l, const Json *size, const Index *dims, const Entry *entry, Spec *spec, int32_t axis,
                         const char **text, const char *where) {
    spec->bare[axis] = NONE;
    if (size->kind != A_TEXT && size->kind != AN_INT)
        refuse(l, "%s: %s is no size of '%.60s'; expected an integer or a string", where, KIND_NAMES[size->kind],
               spec->shown.name);
    *text = keep_text(l, size->text, size->size, where);
    if (size->kind == AN_INT) {
        if (size->wide || size->integer < 0)
            refuse(l, "%s: '%.60s' has the size %.40s", where, spec->shown.name, *text);
        return size->integer;
    }
    const char **dim = find(dims, *text);
    if (dim) spec->bare[axis] = dim - entry->dims;
    spec->expressions[axis] = compile_expression(l, *text, false, dims, entry->dims, where);
    return -1;
}

static void read_spec(Loading *l, const Json *source, const Index *dims, const Entry *entry, Spec *spec,
                      const char *where) {
    const Json *shape = get(l, source, "shape", A_LIST, where);
    const char *name = get_text(l, source, "name", where), *dtype = get_text(l, source, "dtype", where);
    size_t rank = shape->count;
    int code = dtype_named(dtype, false);
    if (code < 0) refuse(l, "%s: dtype '%.40s' is not supported", where, dtype);
    if (rank > JG_MAX_RANK)
        refuse(l, "%s: '%.60s' has rank %zu, at most %d is possible", where, name, rank, JG_MAX_RANK);
    const char **texts = make(l, l->kept, rank, sizeof *texts);
    int64_t *sizes = make(l, l->kept, rank, sizeof *sizes);
    spec->shown = (jg_spec){name, (jg_dtype)code, (int32_t)rank, sizes, texts, false};
    spec->expressions = make(l, l->kept, rank, sizeof *spec->expressions);
    spec->bare = make(l, l->kept, rank, sizeof *spec->bare);
    int32_t axis = 0;
    for (const Json *size = shape->first; size; size = size->next, axis++)
        sizes[axis] = read_size(l, size, dims, entry, spec, axis, &texts[axis], where);
    const Json *fill = find(&source->index, "default");
    if (!fill) return;
    if (rank > 0) refuse(l, "%s: '%.60s' has a default but is not 0-d", where, name);
    if (!element_of(fill, spec->shown.dtype, spec->fill))
        refuse(l, "%s: '%.60s' has a default that %s cannot hold", where, name, dtype);
    spec->shown.has_default = true;
}

static Spec *read_specs(Loading *l, const Json *source, const char *key, const Index *dims, const Entry *entry,
                        Spec *specs, const char *where) {
    for (const Json *child = get(l, source, key, A_LIST, where)->first; child; child = child->next, specs++) {
        char place[WHERE_SIZE + 40];
        snprintf(place, sizeof place, "%s, one of the %s", where, key);
        read_spec(l, child, dims, entry, specs, place);
    }
    return specs;
}

/* A list of texts, in the model's memory. */
static const char **read_texts(Loading *l, const Json *source, const char *key, size_t *count, const char *where) {
    const Json *list = get(l, source, key, A_LIST, where);
    const char **texts = make(l, l->kept, list->count, sizeof *texts);
    for (const Json *child = list->first; child; child = child->next) {
        if (child->kind != A_TEXT) refuse(l, "%s: '%s' holds %s, not a string", where, key, KIND_NAMES[child->kind]);
        texts[(*count)++] = keep_text(l, child->text, child->size, where);
    }
    return texts;
}

/* An index of texts, which must differ. */
static Index index_texts(Loading *l, const char **texts, size_t count, const char *what, const char *where) {
    Index index = {make(l, &l->scratch, count, sizeof(Named)), count};
    for (size_t i = 0; i < count; i++) index.items[i] = (Named){texts[i], strlen(texts[i]), &texts[i]};
    const char *twice = sort_index(&index);
    if (twice) refuse(l, "%s: the %s are not distinct: '%.60s'", where, what, twice);
    return index;
}

static Index read_dims(Loading *l, const Json *source, Entry *entry, const char *where) {
    entry->dims = read_texts(l, source, "dims", &entry->dim_count, where);
    for (size_t i = 0; i < entry->dim_count; i++)
        if (name_size(entry->dims[i]) == 0 || entry->dims[i][name_size(entry->dims[i])])
            refuse(l, "%s: the dims are not distinct identifiers: '%.60s'", where, entry->dims[i]);
    return index_texts(l, entry->dims, entry->dim_count, "dims", where);
}

/* The tensor of the weights that a state stands for; it must have the dtype and the sizes that the state says. */
static void find_state(Loading *l, Spec *spec, const char *key, const Tensor *tensors, const Index *index,
                       const char *where) {
    char wanted[WHERE_SIZE], got[WHERE_SIZE];
    const jg_spec *shown = &spec->shown;
    const Tensor *tensor = find(index, key);
    if (!tensor)
        refuse(l, "%s: the state %s is missing from " WEIGHTS " under '%.60s'; " AGAIN, where,
               described(shown, wanted), key);
    spec->tensor = (size_t)(tensor - tensors);
    bool fits = tensor->dtype == shown->dtype && tensor->rank == shown->rank;
    for (int32_t i = 0; fits && i < shown->rank; i++)
        fits = shown->sizes[i] < 0 || shown->sizes[i] == tensor->shape[i];
    if (!fits)
        refuse(l, "%s: the state %s is %s in " WEIGHTS "; " AGAIN, where, described(shown, wanted),
               shape_text(tensor->dtype, tensor->rank, tensor->shape, got));
}

/* Inputs, state and outputs; the names of the inputs differ, and so do the keys of the state. */
static void read_tensors(Loading *l, const Json *source, Entry *entry, const Index *dims, const Tensor *tensors,
                         const Index *index, const char *where) {
    const Json *state = get(l, source, "state", A_LIST, where);
    entry->input_count = get(l, source, "inputs", A_LIST, where)->count;
    entry->state_count = state->count;
    entry->parameter_count = entry->input_count + entry->state_count;
    entry->output_count = get(l, source, "outputs", A_LIST, where)->count;
    entry->parameters = make(l, l->kept, entry->parameter_count, sizeof(Spec));
    entry->outputs = make(l, l->kept, entry->output_count, sizeof(Spec));
    const char **texts = make(l, &l->scratch, entry->parameter_count, sizeof *texts);
    Spec *kept = read_specs(l, source, "inputs", dims, entry, entry->parameters, where);
    read_specs(l, source, "state", dims, entry, kept, where);
    read_specs(l, source, "outputs", dims, entry, entry->outputs, where);
    for (size_t i = 0; i < entry->input_count; i++) texts[i] = entry->parameters[i].shown.name;
    index_texts(l, texts, entry->input_count, "names of inputs", where);
    const Json *child = state->first;
    for (size_t i = 0; i < entry->state_count; i++, child = child->next) {
        texts[i] = get_text(l, child, "key", where);
        find_state(l, &kept[i], texts[i], tensors, index, where);
    }
    index_texts(l, texts, entry->state_count, "keys of the state", where);
}

/* Every dim must be the bare size of some parameter, so that a call tells it. */
static void verify_dims(Loading *l, const Entry *entry, const char *where) {
    bool *bound = make(l, &l->scratch, entry->dim_count, sizeof *bound);
    for (size_t i = 0; i < entry->parameter_count; i++)
        for (int32_t axis = 0; axis < entry->parameters[i].shown.rank; axis++)
            if (entry->parameters[i].bare[axis] != NONE) bound[entry->parameters[i].bare[axis]] = true;
    for (size_t i = 0; i < entry->dim_count; i++)
        if (!bound[i])
            refuse(l, "%s: no input has the bare size '%.60s', so it cannot be known at a call", where, entry->dims[i]);
}
