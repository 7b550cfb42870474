/* Reads the structures of arguments: containers around the inputs, and values for which an entry was made. */

#pragma once

#include <stdio.h>
#include <string.h>

#include "loader.h"
#include "memory.c"
#include "loading.c"
#include "json.c"
#include "entries.c"
#include "specs.c"

enum { MAX_STRUCTURE_DEPTH = 64 };

/* What reading goes through twice: first the values are counted, then they are taken. */
typedef struct StructureReader {
    Loading *l;
    const char *where;
    jg_static *statics; /* NULL: they are counted */
    size_t static_count, reached;
} StructureReader;

/* path.name, in memory for loading or of the model. */
__attribute__((cold)) static const char *joined_path(StructureReader *r, const char *path, const char *name) {
    size_t size = strlen(path) + strlen(name) + 2;
    char *text = make(r->l, r->statics ? r->l->kept : &r->l->scratch, size, 1);
    snprintf(text, size, "%s.%s", path, name);
    return text;
}

__attribute__((cold)) static void take_static(StructureReader *r, const Json *value, const char *path) {
    static const jg_static_kind kinds[] = {[ANULL] = JG_STATIC_NONE, [ABOOL] = JG_STATIC_BOOL, [AN_INT] = JG_STATIC_INT,
                                           [A_FLOAT] = JG_STATIC_FLOAT, [A_TEXT] = JG_STATIC_TEXT};
    if (r->statics) {
        const char *text = keep_text(r->l, value->text, value->size, r->where);
        r->statics[r->static_count] = (jg_static){path, kinds[value->kind], text};
    }
    r->static_count++;
}

__attribute__((cold)) static void read_structure(StructureReader *r, const Json *part, const char *path, int depth) {
    if (depth > MAX_STRUCTURE_DEPTH)
        refuse(r->l, "%s: '%.60s' is nested deeper than %d", r->where, path, MAX_STRUCTURE_DEPTH);
    if (part->kind == AN_INT) {
        if (part->wide || part->integer < 0 || (size_t)part->integer != r->reached)
            refuse(r->l, "%s: in '%.60s' stands the input %.20s where %zu is due", r->where, path,
                   keep_text(r->l, part->text, part->size, r->where), r->reached);
        r->reached++;
        return;
    }
    if (part->kind == ANULL) {
        take_static(r, part, path);
        return;
    }
    const Json *inner = part->kind == AN_OBJECT && (part->count == 1 || part->count == 2) ? part->first : NULL;
    const char *word = inner ? inner->key : "";
    const Json *fields = part->kind == AN_OBJECT ? find(&part->index, "fields") : NULL;
    bool tuple = strcmp(word, "tuple") == 0, known = inner && part->count == (fields && tuple ? 2u : 1u);
    if (known && strcmp(word, "value") == 0 && inner->kind >= ABOOL && inner->kind <= A_TEXT) {
        take_static(r, inner, path);
        return;
    }
    bool list = (tuple || strcmp(word, "list") == 0) && inner->kind == A_LIST;
    bool named = (strcmp(word, "dict") == 0 || strcmp(word, "object") == 0) && inner->kind == AN_OBJECT;
    bool counted = !fields || (fields->kind == A_LIST && inner && fields->count == inner->count);
    if (!known || !(list || named) || !counted)
        refuse(r->l, "%s: '%.60s' has no structure of an argument", r->where, path);
    const Json *field = fields ? fields->first : NULL;
    size_t number = 0;
    for (const Json *child = inner->first; child; child = child->next, number++) {
        char digits[24];
        snprintf(digits, sizeof digits, "%zu", number);
        const char *name = named ? child->key : digits;
        if (field) {
            if (field->kind != A_TEXT) refuse(r->l, "%s: a field of '%.60s' has no name", r->where, path);
            name = keep_text(r->l, field->text, field->size, r->where);
            field = field->next;
        }
        read_structure(r, child, joined_path(r, path, name), depth + 1);
    }
}

/* The arguments, where they are more than one for each input. */
__attribute__((cold)) static void read_arguments(Loading *l, const Json *source, Entry *entry, const char *where) {
    if (!find(&source->index, "arguments")) return;
    const Json *list = get(l, source, "arguments", A_LIST, where);
    const char **names = make(l, &l->scratch, list->count, sizeof *names);
    StructureReader r = {.l = l, .where = where};
    for (int pass = 0; pass < 2; pass++) {
        if (pass) entry->statics = r.statics = make(l, l->kept, r.static_count, sizeof *r.statics);
        r.static_count = r.reached = 0;
        size_t count = 0;
        for (const Json *child = list->first; child; child = child->next) {
            const char *name = names[count++] = get_text(l, child, "name", where);
            const Json *structure = find(&child->index, "structure");
            const Json *optional = find(&child->index, "optional");
            if (!structure) refuse(l, "%s: the argument '%.60s' lacks 'structure'", where, name);
            if (optional && optional->kind != ABOOL)
                refuse(l, "%s: 'optional' of '%.60s' is %s", where, name, KIND_NAMES[optional->kind]);
            size_t before = r.reached;
            read_structure(&r, structure, name, 0);
            if (optional && optional->integer && r.reached != before)
                refuse(l, "%s: the argument '%.60s' may be left out and has inputs", where, name);
        }
    }
    entry->static_count = r.static_count;
    index_texts(l, names, list->count, "names of arguments", where);
    if (r.reached != entry->input_count)
        refuse(l, "%s: the arguments have %zu inputs, the signature %zu", where, r.reached, entry->input_count);
}
