/* Arguments: checked against the signature, which gives the named sizes. */

#pragma once

#include <stdio.h>

#include "loader.h"
#include "errors.c"
#include "dtypes.c"
#include "sizes.c"
#include "entries.c"
#include "model.c"
#include "records.c"

/* The start of a message about a parameter. */
static const char *parameter_text(const Entry *entry, size_t number, char text[WHERE_SIZE]) {
    snprintf(text, WHERE_SIZE, "%.40s, %s %zu (%.60s)", entry->title,
             number < entry->input_count ? "input" : "state", number < entry->input_count ? number :
             number - entry->input_count, entry->parameters[number].shown.name);
    return text;
}

/* " (n is 3 by x.shape[0])": the sizes in an expression, with where they came from. */
static const char *facts(const Entry *entry, const Record *record, const Expression *expression,
                         char text[2 * WHERE_SIZE]) {
    bool told[64] = {false}; /* of the first dims; a text has no room for more */
    int used = 0, size = 2 * WHERE_SIZE;
    text[0] = '\0';
    for (size_t i = 0; i < expression->count; i++) {
        int64_t dim = expression->steps[i].value;
        if (expression->steps[i].opcode != NAME || dim >= 64 || told[dim]) continue;
        told[dim] = true;
        for (size_t p = 0; p < entry->parameter_count; p++) {
            const Spec *spec = &entry->parameters[p];
            int32_t axis = 0;
            while (axis < spec->shown.rank && spec->bare[axis] != dim) axis++;
            if (axis == spec->shown.rank || used >= size) continue;
            const char *before = used ? ", " : " (";
            used += snprintf(text + used, (size_t)(size - used), "%s%.40s is %lld by %.40s.shape[%d]", before,
                             entry->dims[dim], (long long)record->dims[dim], spec->shown.name, axis);
            break;
        }
    }
    if (used && used < size) snprintf(text + used, (size_t)(size - used), ")");
    return text;
}

/* Says why a view cannot stand for the parameter. */
static bool report_view(const Entry *entry, size_t number, const View *view, jg_error *error) {
    char where[WHERE_SIZE], wanted[WHERE_SIZE], got[WHERE_SIZE];
    const jg_spec *spec = &entry->parameters[number].shown;
    parameter_text(entry, number, where);
    described(spec, wanted);
    if (!view->data) return fail(error, JG_BAD_ARGUMENT, "%s: the argument %s is missing", where, wanted);
    if (!is_dtype(view->dtype) || view->rank < 0 || view->rank > JG_MAX_RANK)
        return fail(error, JG_BAD_ARGUMENT, "%s: expected %s, got the dtype %d and the rank %d", where, wanted,
                    (int)view->dtype, view->rank);
    shape_text(view->dtype, view->rank, view->shape, got);
    if (view->dtype != spec->dtype)
        return fail(error, JG_BAD_ARGUMENT, "%s: expected %s, got %s", where, wanted, got);
    if (view->rank != spec->rank)
        return fail(error, JG_BAD_ARGUMENT, "%s: expected %s of rank %d, got the shape of rank %d in %s", where, wanted,
                    spec->rank, view->rank, got);
    size_t bytes, element = DTYPES[view->dtype].size;
    if (!byte_count(view->shape, view->rank, view->dtype, &bytes))
        return fail(error, JG_BAD_ARGUMENT, "%s: %s has a negative size or leaves 64 bits", where, got);
    if ((uintptr_t)view->data % element != 0)
        return fail(error, JG_BAD_ARGUMENT, "%s: its data is not aligned to its element of %zu bytes", where, element);
    return fail(error, JG_BAD_ARGUMENT, "%s: a bool that is neither 0 nor 1", where);
}

/* Whether data may stand for the parameter, apart from its sizes. */
static bool check_view(const Entry *entry, size_t number, const View *view, jg_error *error) {
    const jg_spec *spec = &entry->parameters[number].shown;
    size_t bytes;
    bool fits = view->dtype == spec->dtype && view->rank == spec->rank &&
                byte_count(view->shape, view->rank, view->dtype, &bytes) && (view->data || bytes == 0) &&
                (uintptr_t)view->data % DTYPES[spec->dtype].size == 0 &&
                (view->dtype != JG_BOOL || view->there || number >= entry->input_count || are_bools(view->data, bytes));
    return fits || report_view(entry, number, view, error);
}

static bool check_sizes(const Entry *entry, const Record *record, size_t number, jg_error *error) {
    const Spec *spec = &entry->parameters[number];
    const View *view = &record->views[number];
    for (int32_t axis = 0; axis < spec->shown.rank; axis++) {
        int64_t due = spec->shown.sizes[axis];
        const Expression *expression = &spec->expressions[axis];
        if (expression->count && !evaluate(expression, record->dims, &due, error)) return false;
        if (due == view->shape[axis]) continue;
        char where[WHERE_SIZE], wanted[WHERE_SIZE], got[WHERE_SIZE], because[2 * WHERE_SIZE];
        return fail(error, JG_BAD_ARGUMENT, "%s: expected %s, whose axis %d is %lld%s, got %s",
                    parameter_text(entry, number, where), described(&spec->shown, wanted), axis, (long long)due,
                    facts(entry, record, expression, because),
                    shape_text(view->dtype, view->rank, view->shape, got));
    }
    return true;
}

/* Checks arguments and state against the signature and finds the named sizes. */
static bool bind(const jg_model *model, const Entry *entry, const jg_tensor *inputs, Record *record, jg_error *error) {
    for (size_t i = 0; i < entry->parameter_count; i++) {
        const Spec *spec = &entry->parameters[i];
        View *view = &record->views[i];
        if (i >= entry->input_count) {
            const Tensor *tensor = &model->tensors[spec->tensor];
            *view = (View){tensor->data, tensor->dtype, tensor->rank, tensor->shape, NULL};
        } else if (!inputs[i].data && spec->shown.has_default) {
            *view = (View){spec->fill, spec->shown.dtype, 0, NULL, NULL};
        } else {
            char where[WHERE_SIZE];
            const jg_tensor *given = &inputs[i];
            *view = (View){given->data, given->dtype, given->rank, given->shape, place_of(given->on)};
            if (view->there && !is_reached(model, given->on, parameter_text(entry, i, where), error)) return false;
        }
        if (!check_view(entry, i, view, error)) return false;
    }
    for (size_t i = 0; i < entry->dim_count; i++) record->dims[i] = -1;
    for (size_t i = 0; i < entry->parameter_count; i++)
        for (int32_t axis = 0; axis < entry->parameters[i].shown.rank; axis++) {
            int64_t dim = entry->parameters[i].bare[axis];
            if (dim != NONE && record->dims[dim] < 0) record->dims[dim] = record->views[i].shape[axis];
        }
    for (size_t i = 0; i < entry->parameter_count; i++)
        if (!check_sizes(entry, record, i, error)) return false;
    for (size_t i = 0; i < entry->constraint_count; i++) {
        char because[2 * WHERE_SIZE];
        int64_t holds;
        if (!evaluate(&entry->constraints[i], record->dims, &holds, error)) return false;
        if (!holds)
            return fail(error, JG_BAD_ARGUMENT, "%.40s: the sizes must satisfy %.80s%s", entry->title,
                        entry->constraints[i].text, facts(entry, record, &entry->constraints[i], because));
    }
    return true;
}
