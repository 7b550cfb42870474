/* The file: from its path, or its bytes in memory, to a model, or to the reason why there is none. */

#pragma once

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader.h"
#include "errors.c"
#include "abi.c"
#include "memory.c"
#include "loading.c"
#include "json.c"
#include "entries.c"
#include "signatures.c"
#include "zip.c"
#include "weights.c"
#include "image.c"
#include "device_code.c"
#include "processor.c"
#include "model.c"
#include "custom_ops.c"
#include "device_model.c"
#include "prints.c"

/* Reads the file, or maps it; a reason where that cannot be done, else NULL. What is read cannot be cut or changed
   behind the hashes that were checked. */
static const char *fetch(int file, size_t size, jg_model *model) {
#if defined(JG_MAP_FILE)
    void *memory = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory == MAP_FAILED) return strerror(errno);
    model->file = memory;
#else
    void *memory = NULL;
    if (posix_memalign(&memory, JG_ALIGNMENT, size) != 0) return "it does not fit into memory";
    model->file = memory;
    for (size_t done = 0; done < size;) {
        ssize_t count = read(file, model->file + done, size - done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return count ? strerror(errno) : "it was cut meanwhile";
        done += (size_t)count;
    }
#endif
    model->file_bytes = size;
    return NULL;
}

/* Copies a file that is in memory already: whoever gave it may free it. */
static void copy_file(Loading *l, const void *bytes, size_t size, jg_model *model) {
    if (size == 0) refuse(l, "cannot be opened: the file is empty");
#if defined(JG_MAP_FILE)
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) no_memory(l, size);
#else
    void *memory = NULL;
    if (posix_memalign(&memory, JG_ALIGNMENT, size) != 0) no_memory(l, size);
#endif
    model->file = memcpy(memory, bytes, size);
    model->file_bytes = size;
}

static void open_file(Loading *l, const char *path, jg_model *model) {
    struct stat found;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const char *reason = file < 0 || fstat(file, &found) != 0 ? strerror(errno)
                         : !S_ISREG(found.st_mode)            ? "it is not a regular file"
                         : found.st_size == 0                 ? "the file is empty"
                                                              : fetch(file, (size_t)found.st_size, model);
    if (file >= 0) close(file);
    if (reason) refuse(l, "cannot be opened: %s", reason);
}

static void read_entry(Loading *l, const Json *source, const Index *members, jg_model *model, Entry *entry) {
    char where[WHERE_SIZE];
    snprintf(where, sizeof where, "entry '%.60s'", source->key);
    entry->name = keep_text(l, source->key, source->key_size, where);
    entry->of = find(&source->index, "of") ? get_text(l, source, "of", where) : NULL;
    const Json *signature = get(l, source, "signature", AN_OBJECT, where);
    read_signature(l, signature, entry, model->tensors, &model->tensor_index, where);
    read_device_codes(l, source, members, model->tensors, &model->tensor_index, entry, where);
    if (!l->device) map_image(l, choose_image(l, source, members, where, &model->target), entry);
}

static void read_model(Loading *l, jg_model *model) {
    Index members = read_members(l, (Bytes){model->file, model->file_bytes});
    const Json *manifest = read_manifest(l, &members);
    verify_hashes(l, &members, manifest);
    bool noted = find(&manifest->index, "metadata") != NULL;
    const Json *metadata = noted ? get(l, manifest, "metadata", AN_OBJECT, MANIFEST) : NULL;
    model->metadata = noted ? keep_text(l, metadata->text, metadata->size, MANIFEST) : "{}";
    const Member *weights = find(&members, WEIGHTS);
    if (weights) read_weights(l, weights->bytes, &model->tensors, &model->tensor_count, &model->tensor_index);
    const Json *entries = get(l, manifest, "entries", AN_OBJECT, MANIFEST);
    if (entries->count == 0) refuse(l, MANIFEST " has no entry");
    model->entries = make(l, l->kept, entries->count, sizeof(Entry));
    model->entry_index.items = make(l, l->kept, entries->count, sizeof(Named));
    for (const Json *child = entries->first; child; child = child->next) {
        Entry *entry = &model->entries[model->entry_count++]; /* counted first, so that its image is unmapped */
        read_entry(l, child, &members, model, entry);
        model->entry_index.items[model->entry_index.count++] = (Named){entry->name, strlen(entry->name), entry};
    }
    collect_ops(l, model);
    sort_index(&model->entry_index);
    for (size_t i = 0; i < model->entry_count; i++) {
        const char *of = model->entries[i].of;
        const Entry *base = of ? find(&model->entry_index, of) : NULL;
        if (of && (!base || base->of))
            refuse(l, MANIFEST ", entry '%.60s': it is a specialisation of '%.60s', which is no entry; " AGAIN,
                   model->entries[i].name, of);
    }
    model->main = find(&model->entry_index, "forward");
    if (!model->main) model->main = model->entries;
}

/* Where refuse comes out. */
__attribute__((cold)) static bool loaded(Loading *l, const char *path, const void *bytes, size_t size,
                                         jg_model *model) {
    if (setjmp(l->out) != 0) return false;
    if (path) open_file(l, path, model);
    else copy_file(l, bytes, size, model);
    read_model(l, model);
    if (l->device) place_model(l, l->device, model);
    start_pool(l, model);
    return true;
}

/* From a path, or where that is NULL from bytes. */
static jg_model *load_model(const char *path, const void *bytes, size_t size, const char *device, jg_error *error) {
    Loading l = {.error = error};
    if (device && strcmp(device, "cpu") != 0) l.device = device;
    jg_model *model = calloc(1, sizeof *model);
    if (!model || pthread_rwlock_init(&model->state_lock, NULL) != 0) {
        free(model);
        out_of_memory(l.error, sizeof *model);
        return NULL;
    }
    pthread_mutex_init(&model->records_lock, NULL); /* of the default kind they cannot fail */
    pthread_mutex_init(&model->device_lock, NULL);
    model->serial = (jg_host){.abi_version = ABI_VERSION, .alloc = malloc, .free = free, .syscall = syscall,
                              .callback = call_site, .print = print_site};
    model->host = model->serial;
    l.kept = &model->store;
    bool good = loaded(&l, path, bytes, size, model);
    release(&l.scratch);
    if (good) return model;
    jg_error inner = *l.error;
    fail(l.error, inner.status, "%s: %s", path ? path : "the model in memory", inner.message);
    jg_close(model);
    return NULL;
}

jg_model *jg_load(const char *path, jg_error *error) { return jg_load_on(path, NULL, error); }

jg_model *jg_load_on(const char *path, const char *device, jg_error *error) {
    jg_error unused;
    error = cleared(error ? error : &unused);
    if (!path) no_pointer(error, "path");
    return path ? load_model(path, NULL, 0, device, error) : NULL;
}

jg_model *jg_load_bytes(const void *bytes, size_t size, const char *device, jg_error *error) {
    jg_error unused;
    error = cleared(error ? error : &unused);
    if (!bytes) no_pointer(error, "bytes");
    return bytes ? load_model(NULL, bytes, size, device, error) : NULL;
}
