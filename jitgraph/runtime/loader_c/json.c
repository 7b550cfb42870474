/* JSON, read with suspicion. */

#pragma once

#include <string.h>
#include <unistd.h>

#include "loader.h"
#include "memory.c"
#include "loading.c"

enum { MAX_JSON_BYTES = 16 << 20, MAX_JSON_VALUES = 1 << 20, MAX_JSON_DEPTH = 200 };

typedef enum Kind { ANULL, ABOOL, AN_INT, A_FLOAT, A_TEXT, A_LIST, AN_OBJECT } Kind;
static const char *const KIND_NAMES[] = {"null", "a boolean", "an integer", "a number", "a string", "an array",
                                         "an object"};

typedef struct Json {
    Kind kind;
    bool wide; /* an integer beyond 64 bits */
    int64_t integer; /* also of a boolean */
    const char *key; /* in an object */
    size_t key_size;
    const char *text; /* of a string, NUL behind it; of anything else the source */
    size_t size;
    struct Json *first, *next;
    size_t count;
    Index index; /* of an object */
} Json;

typedef struct Parser {
    Loading *l;
    const char *where, *start, *at, *end;
    int depth;
    size_t values;
} Parser;

__attribute__((noreturn)) static void json_refuse(Parser *p, const char *reason) {
    refuse(p->l, "%s is not sound JSON: %s at byte %zu; save the model again", p->where, reason,
           (size_t)(p->at - p->start));
}

static char json_peek(Parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')) p->at++;
    return p->at < p->end ? *p->at : '\0';
}

static bool json_word(Parser *p, const char *word) {
    size_t size = strlen(word);
    if ((size_t)(p->end - p->at) < size || memcmp(p->at, word, size) != 0) return false;
    p->at += size;
    return true;
}

/* Bytes of the UTF-8 character at p, or 0 where there is none (overlong forms and surrogates are none). */
static size_t utf8_size(const char *p, const char *end) {
    const uint8_t *c = (const uint8_t *)p;
    size_t size = c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : c[0] < 0xf5 ? 4 : 0;
    if (size > (size_t)(end - p)) return 0;
    for (size_t i = 1; i < size; i++)
        if ((c[i] & 0xc0) != 0x80) return 0;
    bool bad = size > 2 && ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
                            (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f));
    return bad ? 0 : size;
}

static size_t utf8_write(char *out, uint32_t c) {
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(size == 1 ? c : (0xf0u << (4 - size) & 0xff) | c);
    return size;
}

/* Four hexadecimal digits, or -1. */
static int32_t json_hex(Parser *p) {
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char *found = p->at < p->end && *p->at ? strchr(digits, *p->at++) : NULL;
        if (!found) return -1;
        value = value << 4 | (int32_t)((found - digits) % 16);
    }
    return value;
}

/* What follows a backslash, written as UTF-8; its bytes, or 0 where it is malformed. */
static size_t json_escape(Parser *p, char *out) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char c = p->at < p->end ? *p->at++ : '\0';
    const char *found = c ? strchr(names, c) : NULL;
    if (found) {
        *out = values[found - names];
        return 1;
    }
    int32_t unit = c == 'u' ? json_hex(p) : -1;
    if (unit < 0 || (unit >= 0xdc00 && unit < 0xe000)) return 0;
    if (unit < 0xd800 || unit >= 0xe000) return utf8_write(out, (uint32_t)unit);
    int32_t low = json_word(p, "\\u") ? json_hex(p) : -1;
    if (low < 0xdc00 || low >= 0xe000) return 0;
    return utf8_write(out, 0x10000u + ((uint32_t)(unit - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
}

static const char *json_string(Parser *p, size_t *size) {
    const char *scan = ++p->at;
    while (scan < p->end && *scan != '"') scan += *scan == '\\' && scan + 1 < p->end ? 2 : 1;
    char *text = make(p->l, &p->l->scratch, (size_t)(scan - p->at) + 1, 1); /* no escape is shorter than its meaning */
    char *out = text;
    while (p->at < p->end && *p->at != '"') {
        size_t step = utf8_size(p->at, p->end);
        if (step == 0 || (unsigned char)*p->at < 0x20) json_refuse(p, "a string with bytes that are no text");
        if (*p->at == '\\') {
            p->at++;
            step = json_escape(p, out);
            if (step == 0) json_refuse(p, "an unknown escape");
        } else {
            memcpy(out, p->at, step);
            p->at += step;
        }
        out += step;
    }
    if (p->at == p->end) json_refuse(p, "a string without end");
    p->at++;
    *size = (size_t)(out - text);
    return text;
}

static void json_digits(Parser *p) {
    if (p->at == p->end || !is_digit(*p->at)) json_refuse(p, "an unknown value");
    while (p->at < p->end && is_digit(*p->at)) p->at++;
}

static void json_number(Parser *p, Json *value) {
    bool minus = json_word(p, "-");
    const char *digits = p->at;
    json_digits(p);
    if (*digits == '0' && p->at > digits + 1) json_refuse(p, "a number that begins with 0");
    value->kind = AN_INT;
    for (const char *c = digits; c < p->at && !value->wide; c++)
        value->wide = __builtin_mul_overflow(value->integer, 10, &value->integer) ||
                      __builtin_add_overflow(value->integer, minus ? '0' - *c : *c - '0', &value->integer);
    if (json_word(p, ".")) {
        value->kind = A_FLOAT;
        json_digits(p);
    }
    if (json_word(p, "e") || json_word(p, "E")) {
        value->kind = A_FLOAT;
        if (!json_word(p, "-")) json_word(p, "+");
        json_digits(p);
    }
}

__attribute__((cold)) static Json *json_value(Parser *p);

/* What stands between the brackets of an array or object. */
static void json_children(Parser *p, Json *parent) {
    char close = parent->kind == AN_OBJECT ? '}' : ']', c = ',';
    Json **place = &parent->first;
    p->at++;
    if (json_peek(p) == close) c = *p->at++;
    while (c != close) {
        const char *key = NULL;
        size_t key_size = 0;
        if (parent->kind == AN_OBJECT) {
            if (json_peek(p) != '"') json_refuse(p, "no key");
            key = json_string(p, &key_size);
            if (memchr(key, 0, key_size)) json_refuse(p, "a NUL in a key");
            if (json_peek(p) != ':') json_refuse(p, "no ':' behind a key");
            p->at++;
        }
        Json *child = *place = json_value(p);
        child->key = key;
        child->key_size = key_size;
        place = &child->next;
        parent->count++;
        c = json_peek(p);
        if (c != ',' && c != close) json_refuse(p, "no ',' between values");
        p->at++;
    }
}

static void json_index(Parser *p, Json *object) {
    object->index.items = make(p->l, &p->l->scratch, object->count, sizeof(Named));
    for (Json *child = object->first; child; child = child->next)
        object->index.items[object->index.count++] = (Named){child->key, child->key_size, child};
    if (sort_index(&object->index)) json_refuse(p, "a key appears twice in one object,");
}

__attribute__((cold)) static Json *json_value(Parser *p) {
    char c = json_peek(p);
    if (p->depth++ >= MAX_JSON_DEPTH || p->values++ >= MAX_JSON_VALUES) json_refuse(p, "it is too large or too deep");
    Json *value = make(p->l, &p->l->scratch, 1, sizeof *value);
    value->text = p->at;
    if (c == '{' || c == '[') {
        value->kind = c == '{' ? AN_OBJECT : A_LIST;
        json_children(p, value);
        if (c == '{') json_index(p, value);
    } else if (c == '"') {
        value->kind = A_TEXT;
        value->text = json_string(p, &value->size);
    } else if (json_word(p, "true") || json_word(p, "false")) {
        value->kind = ABOOL;
        value->integer = c == 't';
    } else if (!json_word(p, "null")) {
        json_number(p, value);
    }
    if (value->kind != A_TEXT) value->size = (size_t)(p->at - value->text);
    p->depth--;
    return value;
}

static const Json *parse_json(Loading *l, Bytes bytes, const char *where) {
    if (bytes.size > MAX_JSON_BYTES)
        refuse(l, "%s is %zu bytes long, more than the %d allowed", where, bytes.size, MAX_JSON_BYTES);
    const char *start = (const char *)bytes.data;
    Parser p = {l, where, start, start, start + bytes.size, 0, 0};
    const Json *value = json_value(&p);
    json_peek(&p);
    if (p.at < p.end) json_refuse(&p, "something behind its end");
    if (value->kind != AN_OBJECT)
        refuse(l, "%s is not a JSON object but %s; save the model again", where, KIND_NAMES[value->kind]);
    return value;
}

/* object[key], which must be there and of that kind. */
static const Json *get(Loading *l, const Json *object, const char *key, Kind kind, const char *where) {
    if (object->kind != AN_OBJECT) refuse(l, "%s is not a JSON object but %s", where, KIND_NAMES[object->kind]);
    const Json *value = find(&object->index, key);
    if (!value) refuse(l, "%s lacks '%s'; the file is damaged or from another writer", where, key);
    if (value->kind != kind || (kind == AN_INT && value->wide))
        refuse(l, "%s: '%s' is %s, expected %s", where, key, value->wide ? "beyond 64 bits" : KIND_NAMES[value->kind],
               KIND_NAMES[kind]);
    return value;
}

static const char *get_text(Loading *l, const Json *object, const char *key, const char *where) {
    const Json *value = get(l, object, key, A_TEXT, where);
    return keep_text(l, value->text, value->size, where);
}
