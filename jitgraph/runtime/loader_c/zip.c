/* The zip, read with suspicion: stored members that do not overlap, and their hashes. */

#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"
#include "errors.c"
#include "memory.c"
#include "hashes.c"
#include "loading.c"
#include "json.c"
#include "entries.c"

enum { END_SIZE = 22, LOCATOR_SIZE = 20, END64_SIZE = 56, CENTRAL_SIZE = 46, LOCAL_SIZE = 30, MAX_MEMBERS = 65535 };

typedef struct Member {
    const char *name;
    Bytes bytes;
    uint32_t crc;
} Member;

typedef struct Directory {
    uint64_t count, size, start;
} Directory;

typedef unsigned long long Long; /* what printf calls %llu */

/* The record of that size and magic at offset, within the first limit bytes of the file. */
static const uint8_t *record_at(Loading *l, Bytes file, uint64_t offset, uint64_t size, uint64_t limit,
                                const char *magic, const char *what) {
    if (!within(offset, size, limit))
        refuse(l, "the zip's %s at %llu lies outside the file of %zu bytes; " AGAIN, what, (Long)offset, file.size);
    if (memcmp(file.data + offset, magic, 4) != 0)
        refuse(l, "no %s at %llu: the file is no zip, or was cut or changed; " AGAIN, what, (Long)offset);
    return file.data + offset;
}

static Directory find_directory(Loading *l, Bytes file) {
    if (file.size < END_SIZE || (memcmp(file.data, "PK\3\4", 4) != 0 && memcmp(file.data, "PK\5\6", 4) != 0))
        refuse(l, "not a jitgraph model: it has %zu bytes and does not begin like a zip", file.size);
    uint64_t end = file.size - END_SIZE;
    const uint8_t *p = record_at(l, file, end, END_SIZE, file.size, "PK\5\6", "end record");
    if (u16_at(p + 20)) refuse(l, "the zip has a comment or bytes after its end; " AGAIN);
    uint64_t disks = u16_at(p + 4) | u16_at(p + 6), here = u16_at(p + 8);
    Directory found = {u16_at(p + 10), u32_at(p + 12), u32_at(p + 16)};
    if (found.count == 0xffff || found.size == 0xffffffff || found.start == 0xffffffff) {
        p = record_at(l, file, end - LOCATOR_SIZE, LOCATOR_SIZE, file.size, "PK\6\7", "zip64 locator");
        end = u64_at(p + 8);
        p = record_at(l, file, end, END64_SIZE, file.size, "PK\6\6", "zip64 end record");
        disks = u32_at(p + 16) | u32_at(p + 20);
        here = u64_at(p + 24);
        found = (Directory){u64_at(p + 32), u64_at(p + 40), u64_at(p + 48)};
    }
    if (disks || here != found.count) refuse(l, "the zip is spread over several disks; " AGAIN);
    if (found.count > MAX_MEMBERS || found.start > end || found.size != end - found.start)
        refuse(l, "the zip's directory (%llu entries, %llu bytes at %llu) does not fit; " AGAIN, (Long)found.count,
               (Long)found.size, (Long)found.start);
    return found;
}

/* A member's name: printable ASCII, a relative path without "." and "..". */
static const char *member_name(Loading *l, const uint8_t *raw, size_t size) {
    char *name = memcpy(make(l, &l->scratch, size + 1, 1), raw, size);
    bool plain = true;
    for (size_t start = 0, i = 0; i <= size; i++) {
        if (i < size && raw[i] >= 0x80) refuse(l, "a member's name is not ASCII");
        if (i < size && name[i] != '/') {
            plain &= name[i] >= 0x20 && name[i] < 0x7f && name[i] != '\\' && name[i] != ':';
            continue;
        }
        const char *part = name + start;
        size_t length = i - start;
        plain &= length > 0 && strncmp(part, ".", length) != 0 && strncmp(part, "..", length) != 0;
        start = i + 1;
    }
    if (!plain) refuse(l, "the member name '%.60s' is not a plain relative path", name);
    return name;
}

/* Replaces the fields that stand as all ones by those of the zip64 extra field. */
static void widen(Loading *l, const uint8_t *extra, size_t size, uint64_t fields[3], const char *name) {
    for (size_t at = 0; at + 4 <= size;) {
        size_t length = u16_at(extra + at + 2);
        const uint8_t *body = extra + at + 4;
        at += 4 + length;
        if (at > size) refuse(l, "the zip's extra field of '%.60s' is longer than its place; " AGAIN, name);
        if (u16_at(body - 4) != 1) continue;
        for (int i = 0; i < 3; i++) {
            if (fields[i] != 0xffffffff) continue;
            if (length < 8) refuse(l, "the zip64 field of '%.60s' is too short; " AGAIN, name);
            fields[i] = u64_at(body);
            body += 8;
            length -= 8;
        }
        return;
    }
}

/* The bytes of a member, behind a local header that agrees with the directory. limit is where the directory begins. */
static Bytes member_bytes(Loading *l, Bytes file, uint64_t limit, uint64_t offset, uint64_t size, const char *name) {
    const uint8_t *p = record_at(l, file, offset, LOCAL_SIZE, limit, "PK\3\4", "header of a member");
    size_t name_length = u16_at(p + 26), extra_length = u16_at(p + 28);
    bool same = name_length == strlen(name) && within(offset + LOCAL_SIZE, name_length, limit) &&
                memcmp(p + LOCAL_SIZE, name, name_length) == 0 && u16_at(p + 8) == 0;
    if (!same) refuse(l, "the zip's two headers of '%.60s' differ; " AGAIN, name);
    uint64_t start = offset + LOCAL_SIZE + name_length + extra_length;
    if (!within(start, size, limit))
        refuse(l, "the member '%.60s' (%llu bytes at %llu) reaches past its place in the file; " AGAIN, name,
               (Long)size, (Long)start);
    return (Bytes){file.data + start, size};
}

/* One entry of the directory at *position, which moves behind it. */
static Member read_member(Loading *l, Bytes file, const Directory *directory, uint64_t *position) {
    uint64_t end = directory->start + directory->size;
    const uint8_t *p = record_at(l, file, *position, CENTRAL_SIZE, end, "PK\1\2", "directory entry");
    size_t name_length = u16_at(p + 28), extra_length = u16_at(p + 30), comment_length = u16_at(p + 32);
    size_t length = CENTRAL_SIZE + name_length + extra_length + comment_length;
    if (!within(*position, length, end))
        refuse(l, "the zip's directory entry at %llu is longer than the directory; " AGAIN, (Long)*position);
    *position += length;
    const char *name = member_name(l, p + CENTRAL_SIZE, name_length);
    if (u16_at(p + 8) & 1) refuse(l, "the member '%.60s' is encrypted; jitgraph stores plain members: " AGAIN, name);
    uint64_t fields[3] = {u32_at(p + 24), u32_at(p + 20), u32_at(p + 42)}; /* plain and packed bytes, offset */
    widen(l, p + CENTRAL_SIZE + name_length, extra_length, fields, name);
    if (u16_at(p + 10) || fields[0] != fields[1])
        refuse(l, "the member '%.60s' is compressed; zip the files with 'store', or " AGAIN, name);
    return (Member){name, member_bytes(l, file, directory->start, fields[2], fields[0], name), u32_at(p + 16)};
}

static int compare_places(const void *a, const void *b) {
    const Member *left = a, *right = b;
    if (left->bytes.data != right->bytes.data) return left->bytes.data < right->bytes.data ? -1 : 1;
    return (left->bytes.size > right->bytes.size) - (left->bytes.size < right->bytes.size);
}

/* The members of a zip without comment whose members are stored plain, do not overlap and are named once. */
static Index read_members(Loading *l, Bytes file) {
    Directory directory = find_directory(l, file);
    size_t count = directory.count;
    Member *found = make(l, &l->scratch, count, sizeof *found);
    Index members = {make(l, &l->scratch, count, sizeof(Named)), count};
    uint64_t position = directory.start, end = directory.start + directory.size;
    for (size_t i = 0; i < count; i++) found[i] = read_member(l, file, &directory, &position);
    if (position != end) refuse(l, "the zip's directory has %llu bytes too many; " AGAIN, (Long)(end - position));
    qsort(found, count, sizeof *found, compare_places);
    for (size_t i = 0; i < count; i++) members.items[i] = (Named){found[i].name, strlen(found[i].name), &found[i]};
    const char *twice = sort_index(&members);
    if (twice) refuse(l, "the member '%.60s' appears twice; " AGAIN, twice);
    for (size_t i = 1; i < count; i++)
        if (found[i - 1].bytes.data + found[i - 1].bytes.size > found[i].bytes.data)
            refuse(l, "the members '%.60s' and '%.60s' overlap; " AGAIN, found[i - 1].name, found[i].name);
    return members;
}

static const Member *member_named(Loading *l, const Index *members, const char *name) {
    const Member *found = find(members, name);
    if (!found) refuse(l, "the member '%.60s' is missing; " AGAIN, name);
    return found;
}

static const Json *read_manifest(Loading *l, const Index *members) {
    const Member *member = member_named(l, members, MANIFEST);
    if (crc32_of(member->bytes) != member->crc)
        refuse(l, MANIFEST " does not match its checksum: it was damaged or changed; " AGAIN);
    const Json *manifest = parse_json(l, member->bytes, MANIFEST);
    const Json *format = find(&manifest->index, "format");
    const char *name = format && format->kind == A_TEXT ? format->text : "None";
    if (strcmp(name, "jitgraph") != 0) refuse(l, MANIFEST " names the format %.40s, not 'jitgraph'", name);
    int64_t version = get(l, manifest, "version", AN_INT, MANIFEST)->integer;
    if (version != 1 && version != 2)
        refuse(l, "format version %lld is unknown to this loader, which reads 1 and 2", (long long)version);
    return manifest;
}

/* Every member must stand in the manifest, with its size and hash. */
static void verify_hashes(Loading *l, const Index *members, const Json *manifest) {
    const Json *listed = get(l, manifest, "members", AN_OBJECT, MANIFEST);
    for (size_t i = 0; i < members->count; i++)
        if (!find(&listed->index, members->items[i].text) && strcmp(members->items[i].text, MANIFEST) != 0)
            refuse(l, "the member '%.60s' is not listed in " MANIFEST "; " AGAIN, members->items[i].text);
    for (const Json *entry = listed->first; entry; entry = entry->next) {
        char where[WHERE_SIZE], hex[65];
        snprintf(where, sizeof where, MANIFEST ", member '%.60s'", entry->key);
        int64_t size = get(l, entry, "bytes", AN_INT, where)->integer;
        const char *digest = get(l, entry, "sha256", A_TEXT, where)->text;
        Bytes bytes = member_named(l, members, entry->key)->bytes;
        if (bytes.size != (uint64_t)size)
            refuse(l, "the member '%.60s' has %zu bytes where " MANIFEST " says %lld; " AGAIN, entry->key, bytes.size,
                   (long long)size);
        sha256_hex(bytes, hex);
        if (strcmp(digest, hex) != 0)
            refuse(l, "the member '%.60s' does not match its SHA-256: it was damaged or changed; " AGAIN, entry->key);
    }
}
