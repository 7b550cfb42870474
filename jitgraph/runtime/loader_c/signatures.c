/* Reads signatures: checks, prints, pairs, the structure of the result, and all of it together. */

#pragma once

#include <stdio.h>
#include <string.h>

#include "loader.h"
#include "memory.c"
#include "loading.c"
#include "json.c"
#include "sizes.c"
#include "entries.c"
#include "specs.c"
#include "structures.c"

static Check *read_checks(Loading *l, const Json *source, size_t *count, const char *where) {
    const Json *list = get(l, source, "checks", A_LIST, where);
    Check *checks = make(l, l->kept, list->count, sizeof *checks);
    for (const Json *child = list->first; child; child = child->next) {
        Check *check = &checks[(*count)++];
        const char *kind = get_text(l, child, "kind", where);
        check->message = get_text(l, child, "message", where);
        check->location = get_text(l, child, "location", where);
        for (size_t i = 0; i < sizeof CHECK_KINDS / sizeof *CHECK_KINDS; i++)
            if (strcmp(kind, CHECK_KINDS[i]) == 0) check->kind = CHECK_KINDS[i];
        if (!check->kind) refuse(l, "%s: a check raises '%.40s'", where, kind);
    }
    return checks;
}

enum { MAX_FORM = 64 };

static void read_operand(Loading *l, const Json *source, const Index *dims, const Entry *entry, Operand *operand,
                         const char *where) {
    read_spec(l, source, dims, entry, &operand->spec, where);
    if (DTYPES[operand->spec.shown.dtype].family == TWO_PARTS)
        refuse(l, "%s: %s is not printed", where, DTYPES[operand->spec.shown.dtype].name);
    const char *style = get_text(l, source, "style", where);
    operand->conversion = get_text(l, source, "conversion", where);
    operand->form = get_text(l, source, "form", where);
    operand->style = STYLE_COUNT;
    for (int i = 0; i < STYLE_COUNT; i++)
        if (strcmp(style, STYLES[i]) == 0) operand->style = (Style)i;
    bool converted = strcmp(operand->conversion, "r") == 0 || strcmp(operand->conversion, "s") == 0;
    if (operand->style == STYLE_COUNT || (*operand->conversion && !converted))
        refuse(l, "%s: the style '%.40s' or conversion '%.40s' is not known", where, style, operand->conversion);
    bool array = operand->spec.shown.rank > 0, whole = *operand->form && !converted;
    if (strlen(operand->form) > MAX_FORM || (array && (whole || operand->style == NUMBER_STYLE)))
        refuse(l, "%s: the format '%.80s' of a tensor of rank %d", where, operand->form, operand->spec.shown.rank);
}

static void read_prints(Loading *l, const Json *source, Entry *entry, const Index *dims, const char *where) {
    const Json *list = get(l, source, "prints", A_LIST, where);
    entry->prints = make(l, l->kept, list->count, sizeof *entry->prints);
    for (const Json *child = list->first; child; child = child->next) {
        Print *print = &entry->prints[entry->print_count++];
        size_t texts = 0;
        print->texts = read_texts(l, child, "texts", &texts, where);
        const Json *operands = get(l, child, "operands", A_LIST, where);
        const char *stream = get_text(l, child, "stream", where);
        print->flush = get(l, child, "flush", ABOOL, where)->integer != 0;
        print->errors = strcmp(stream, "stderr") == 0;
        get_text(l, child, "location", where);
        if (texts != operands->count + 1 || (!print->errors && strcmp(stream, "stdout") != 0))
            refuse(l, "%s: %zu texts around %zu operands to '%.40s'", where, texts, operands->count, stream);
        print->operands = make(l, l->kept, operands->count, sizeof *print->operands);
        for (const Json *operand = operands->first; operand; operand = operand->next)
            read_operand(l, operand, dims, entry, &print->operands[print->operand_count++], where);
    }
}

enum { TYPES_SIZE = 2000 };

/* Adds "float32[2], int64[0]" of specs to text. */
static size_t put_types(const Spec *specs, size_t count, char text[TYPES_SIZE], size_t used) {
    for (size_t i = 0; i < count && used < TYPES_SIZE; i++)
        used += (size_t)snprintf(text + used, TYPES_SIZE - used, "%s%s[%d]", i ? ", " : "",
                                 DTYPES[specs[i].shown.dtype].name, specs[i].shown.rank);
    return used;
}

/* Calls of custom ops; files without any have no list. */
__attribute__((cold)) static void read_calls(Loading *l, const Json *source, Entry *entry, const Index *dims,
                                             const char *where) {
    if (!find(&source->index, "calls")) return;
    const Json *list = get(l, source, "calls", A_LIST, where);
    entry->calls = make(l, l->kept, list->count, sizeof *entry->calls);
    for (const Json *child = list->first; child; child = child->next) {
        CustomCall *call = &entry->calls[entry->call_count++];
        call->op = get_text(l, child, "op", where);
        call->location = get_text(l, child, "location", where);
        call->operand_count = get(l, child, "operands", A_LIST, where)->count;
        call->result_count = get(l, child, "results", A_LIST, where)->count;
        size_t count = call->operand_count + call->result_count;
        if (name_size(call->op) == 0 || call->op[name_size(call->op)] || call->result_count == 0)
            refuse(l, "%s: '%.60s' is no name of a custom op with results", where, call->op);
        call->specs = make(l, l->kept, count, sizeof(Spec));
        Spec *results = read_specs(l, child, "operands", dims, entry, call->specs, where);
        read_specs(l, child, "results", dims, entry, results, where);
        for (size_t i = 0; i < count; i++) call->extent_count += (size_t)call->specs[i].shown.rank;
        char types[TYPES_SIZE];
        size_t used = put_types(call->specs, call->operand_count, types, 0);
        if (used < TYPES_SIZE) used += (size_t)snprintf(types + used, TYPES_SIZE - used, " -> ");
        used = put_types(results, call->result_count, types, used);
        if (used >= TYPES_SIZE) refuse(l, "%s: the custom op '%.60s' has too many operands", where, call->op);
        call->types = keep_text(l, types, strlen(types), where);
    }
}

static bool same_type(const Spec *a, const Spec *b) {
    bool same = a->shown.dtype == b->shown.dtype && a->shown.rank == b->shown.rank;
    for (int32_t i = 0; same && i < a->shown.rank; i++)
        same = a->shown.sizes[i] == b->shown.sizes[i] && strcmp(a->shown.texts[i], b->shown.texts[i]) == 0;
    return same;
}

/* Pairs (output, parameter) of one type, each at most once: the parameter of each output, or NONE. */
static int64_t *read_pairs(Loading *l, const Json *source, const char *key, const Entry *entry, const Spec *right,
                           size_t right_count, const char *where) {
    int64_t *found = make(l, l->kept, entry->output_count, sizeof *found);
    bool *taken = make(l, &l->scratch, right_count, sizeof *taken);
    for (size_t i = 0; i < entry->output_count; i++) found[i] = NONE;
    for (const Json *pair = get(l, source, key, A_LIST, where)->first; pair; pair = pair->next) {
        const Json *a = pair->first, *b = a ? a->next : NULL;
        bool ints = pair->kind == A_LIST && pair->count == 2 && a->kind == AN_INT && b->kind == AN_INT;
        if (!ints || a->wide || b->wide)
            refuse(l, "%s: '%s' holds something else, expected pairs of ints", where, key);
        if (!within((uint64_t)a->integer, 1, entry->output_count) || !within((uint64_t)b->integer, 1, right_count))
            refuse(l, "%s: %s: the pair (%lld, %lld) is out of range", where, key, (long long)a->integer,
                   (long long)b->integer);
        if (found[a->integer] != NONE || taken[b->integer])
            refuse(l, "%s: %s: an index appears twice", where, key);
        const Spec *output = &entry->outputs[a->integer], *parameter = &right[b->integer];
        char one[WHERE_SIZE], other[WHERE_SIZE];
        if (!same_type(output, parameter))
            refuse(l, "%s: %s: %s cannot share memory with or be written to %s", where, key,
                   described(&output->shown, one), described(&parameter->shown, other));
        found[a->integer] = b->integer;
        taken[b->integer] = true;
    }
    return found;
}

/* The structure of the result is for Python alone, but a malformed one means a malformed file. */
__attribute__((cold)) static void verify_structure(Loading *l, const Json *part, size_t outputs, int depth,
                                                   const char *where) {
    if (depth > 64) refuse(l, "%s: the structure of the result is nested deeper than 64", where);
    if (part->kind == ANULL) return;
    if (part->kind == AN_INT && !part->wide && within((uint64_t)part->integer, 1, outputs)) return;
    const Json *inner = part->kind == AN_OBJECT && part->count == 1 ? part->first : NULL;
    const char *word = inner ? inner->key : "";
    if (strcmp(word, "value") == 0 && inner->kind >= ABOOL && inner->kind <= A_TEXT) return;
    bool list = (strcmp(word, "tuple") == 0 || strcmp(word, "list") == 0) && inner->kind == A_LIST;
    if (!list && !(strcmp(word, "dict") == 0 && inner->kind == AN_OBJECT))
        refuse(l, "%s: %s is no structure of a result", where, KIND_NAMES[part->kind]);
    for (const Json *child = inner->first; child; child = child->next)
        verify_structure(l, child, outputs, depth + 1, where);
}

static void read_signature(Loading *l, const Json *source, Entry *entry, const Tensor *tensors, const Index *index,
                           const char *where) {
    entry->title = get_text(l, source, "name", where);
    Index dims = read_dims(l, source, entry, where);
    read_tensors(l, source, entry, &dims, tensors, index, where);
    verify_dims(l, entry, where);
    const char **texts = read_texts(l, source, "constraints", &entry->constraint_count, where);
    entry->constraints = make(l, l->kept, entry->constraint_count, sizeof(Expression));
    for (size_t i = 0; i < entry->constraint_count; i++)
        entry->constraints[i] = compile_expression(l, texts[i], true, &dims, entry->dims, where);
    entry->checks = read_checks(l, source, &entry->check_count, where);
    read_prints(l, source, entry, &dims, where);
    read_calls(l, source, entry, &dims, where);
    const Spec *state = entry->parameters + entry->input_count;
    entry->written = read_pairs(l, source, "writes", entry, state, entry->state_count, where);
    entry->aliased = read_pairs(l, source, "aliases", entry, entry->parameters, entry->parameter_count, where);
    entry->shown = make(l, l->kept, entry->output_count, sizeof *entry->shown);
    for (size_t i = 0; i < entry->output_count; i++)
        if (entry->written[i] == NONE) entry->shown[entry->shown_count++] = i;
    entry->write_count = entry->output_count - entry->shown_count;
    const Json *structure = find(&source->index, "structure");
    if (structure) verify_structure(l, structure, entry->output_count, 0, where);
    read_arguments(l, source, entry, where);
}
