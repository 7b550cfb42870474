/* The state in files of safetensors, to the byte as the loader in Python writes them. */

#pragma once

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader.h"
#include "errors.c"
#include "memory.c"
#include "hashes.c"
#include "loading.c"
#include "json.c"
#include "dtypes.c"
#include "entries.c"
#include "weights.c"
#include "model.c"
#include "results.c"
#include "file.c"
#include "state.c"

#define STATE_FORMAT "jitgraph state"

/* Whether a tensor is a constant of a graph, and no state: its key is "constant." and a SHA-256. */
__attribute__((cold)) static bool is_constant(const Tensor *tensor) {
    static const char start[] = "constant.";
    const char *digest = tensor->key + sizeof start - 1;
    return strncmp(tensor->key, start, sizeof start - 1) == 0 && strlen(digest) == 64 &&
           strspn(digest, "0123456789abcdef") == 64;
}

/* Those whose bytes keep the alignment go first, then the widest elements, then by key. */
__attribute__((cold)) static int compare_tensors(const void *a, const void *b) {
    const Tensor *left = *(const Tensor *const *)a, *right = *(const Tensor *const *)b;
    bool one = left->bytes % JG_ALIGNMENT != 0, other = right->bytes % JG_ALIGNMENT != 0;
    size_t one_size = DTYPES[left->dtype].size, other_size = DTYPES[right->dtype].size;
    if (one != other) return one ? 1 : -1;
    if (one_size != other_size) return one_size < other_size ? 1 : -1;
    return strcmp(left->key, right->key);
}

/* A text that grows; failed where there was no memory. */
typedef struct Growing {
    char *text;
    size_t size, room;
    bool failed;
} Growing;

__attribute__((cold)) static void grow_by(Growing *g, const char *text, size_t size) {
    if (g->failed) return;
    if (size > g->room - g->size) {
        size_t room = 2 * (g->room + size);
        char *larger = realloc(g->text, room);
        g->failed = !larger;
        if (g->failed) return;
        g->text = larger;
        g->room = room;
    }
    memcpy(g->text + g->size, text, size);
    g->size += size;
}

__attribute__((cold)) static void grow_text(Growing *g, const char *text) { grow_by(g, text, strlen(text)); }

/* A text in quotes, as Python's json writes it without escapes for what is not ASCII. */
__attribute__((cold)) static void grow_quoted(Growing *g, const char *text) {
    static const char special[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    grow_text(g, "\"");
    for (const char *c = text; *c; c++) {
        const char *found = strchr(special, *c);
        char escaped[8];
        if (found) snprintf(escaped, sizeof escaped, "\\%c", letters[found - special]);
        else if ((unsigned char)*c < 0x20) snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)*c);
        if (found || (unsigned char)*c < 0x20) grow_text(g, escaped);
        else grow_by(g, c, 1);
    }
    grow_text(g, "\"");
}

__attribute__((cold))
static void grow_header(Growing *g, const Tensor *const *tensors, size_t count, const char digest[65]) {
    char number[80];
    size_t position = 0;
    grow_text(g, "{\"__metadata__\":{\"format\":\"" STATE_FORMAT "\",\"sha256\":\"");
    grow_text(g, digest);
    grow_text(g, "\"}");
    for (size_t i = 0; i < count; i++) {
        grow_text(g, ",");
        grow_quoted(g, tensors[i]->key);
        grow_text(g, ":{\"dtype\":\"");
        grow_text(g, DTYPES[tensors[i]->dtype].safetensors);
        grow_text(g, "\",\"shape\":[");
        for (int32_t axis = 0; axis < tensors[i]->rank; axis++) {
            snprintf(number, sizeof number, "%s%lld", axis ? "," : "", (long long)tensors[i]->shape[axis]);
            grow_text(g, number);
        }
        snprintf(number, sizeof number, "],\"data_offsets\":[%zu,%zu]}", position, position + tensors[i]->bytes);
        grow_text(g, number);
        position += tensors[i]->bytes;
    }
    grow_text(g, "}");
    while (!g->failed && (8 + g->size) % JG_ALIGNMENT) grow_text(g, " ");
}

/* The file's content: 8 bytes of header length, the header, the tensors. The caller frees it. */
__attribute__((cold))
static uint8_t *state_content(const Tensor *const *tensors, const void *const *data, size_t count, size_t *size,
                              jg_error *error) {
    size_t total = 0, position;
    char digest[65];
    for (size_t i = 0; i < count; i++) total += tensors[i]->bytes;
    /* the header's size is the same whatever the digest is */
    Growing header = {0};
    memset(digest, '0', 64);
    digest[64] = '\0';
    grow_header(&header, tensors, count, digest);
    uint8_t *content = header.failed ? NULL : malloc(8 + header.size + total);
    if (!content) {
        free(header.text);
        out_of_memory(error, total);
        return NULL;
    }
    position = 8 + header.size;
    for (size_t i = 0; i < count; i++) {
        if (tensors[i]->bytes) memcpy(content + position, data[i], tensors[i]->bytes);
        position += tensors[i]->bytes;
    }
    sha256_hex((Bytes){content + 8 + header.size, total}, digest);
    uint64_t length = header.size;
    header.size = 0;
    grow_header(&header, tensors, count, digest);
    for (int i = 0; i < 8; i++) content[i] = (uint8_t)(length >> 8 * i);
    if (!header.failed) memcpy(content + 8, header.text, header.size);
    free(header.text);
    *size = 8 + length + total;
    return content;
}

/* Writes all of it; false with errno. */
__attribute__((cold)) static bool write_all(int file, const uint8_t *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t count = write(file, bytes + done, size - done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        done += (size_t)count;
    }
    return true;
}

/* Writes to what has no content to replace: a device, a pipe, a terminal. */
__attribute__((cold)) static bool write_special(const char *path, const uint8_t *bytes, size_t size, jg_error *error) {
    int file = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    bool good = file >= 0 && write_all(file, bytes, size);
    int reason = errno;
    if (file >= 0 && close(file) != 0 && good) {
        reason = errno;
        good = false;
    }
    return good || fail(error, JG_FAILED, "%.400s: the state cannot be written: %s", path, strerror(reason));
}

/* Puts a file of these bytes in place of what is at path, once it is whole and on the disk. */
__attribute__((cold)) static bool replace_file(const char *path, const uint8_t *bytes, size_t size, jg_error *error) {
    struct stat before;
    if (stat(path, &before) == 0 && !S_ISREG(before.st_mode) && !S_ISDIR(before.st_mode))
        return write_special(path, bytes, size, error);
    uint8_t noise[8] = {0};
    char *real = realpath(path, NULL); /* a link is followed */
    const char *target = real ? real : path, *slash = strrchr(target, '/');
    size_t folder = slash ? (size_t)(slash - target) + 1 : 0, room = folder + 40;
    char *part = malloc(room);
    if (!part || getrandom(noise, sizeof noise, 0) < 0) {
        free(real);
        free(part);
        return out_of_memory(error, room);
    }
    memcpy(part, target, folder);
    int used = snprintf(part + folder, room - folder, ".state-");
    for (size_t i = 0; i < sizeof noise; i++)
        used += snprintf(part + folder + used, room - folder - (size_t)used, "%02x", noise[i]);
    snprintf(part + folder + used, room - folder - (size_t)used, ".part");
    bool good_mode = true; /* what is replaced passes its mode on */
    int file = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0 && stat(target, &before) == 0) good_mode = fchmod(file, before.st_mode & 07777) == 0;
    bool good = file >= 0 && good_mode && write_all(file, bytes, size) && fsync(file) == 0;
    int reason = errno;
    if (file >= 0 && close(file) != 0 && good) {
        reason = errno;
        good = false;
    }
    if (good && rename(part, target) != 0) {
        reason = errno;
        good = false;
    }
    if (!good && file >= 0) unlink(part);
    free(part);
    free(real);
    return good || fail(error, JG_FAILED, "%.400s: the state cannot be written: %s", path, strerror(reason));
}

/* The state of a model in the order of a file; what is on a device is in copies, which the caller frees. */
__attribute__((cold)) static size_t state_of(jg_model *model, const Tensor **tensors) {
    size_t count = 0;
    for (size_t i = 0; i < model->tensor_count; i++)
        if (!is_constant(&model->tensors[i])) tensors[count++] = &model->tensors[i];
    qsort(tensors, count, sizeof *tensors, compare_tensors);
    return count;
}

/* Where a tensor's bytes are in the host's memory: its own, or a copy, put into copied, of what is on a device. */
__attribute__((cold))
static const void *host_data(jg_model *model, const Tensor *tensor, void **copied, jg_error *error) {
    if (!tensor->there.address) return tensor->data;
    jg_tensor value = {.data = aligned_memory(tensor->bytes)};
    *copied = value.data;
    if (!value.data) out_of_memory(error, tensor->bytes);
    return value.data && copy_state(model, tensor, NULL, &value, NULL, tensor->key, error) ? value.data : NULL;
}

__attribute__((cold)) jg_status jg_state_save(jg_model *model, const char *path, jg_error *error) {
    jg_error unused;
    error = cleared(error ? error : &unused);
    if (!model || !path) no_pointer(error, model ? "path" : "model");
    if (error->status != JG_OK) return error->status;
    size_t room = model->tensor_count + 1, count = 0, size = 0;
    const Tensor **tensors = calloc(room, sizeof *tensors);
    const void **data = calloc(room, sizeof *data);
    void **copies = calloc(room, sizeof *copies);
    uint8_t *content = NULL;
    if (!tensors || !data || !copies) out_of_memory(error, room * sizeof *data);
    if (error->status == JG_OK) {
        count = state_of(model, tensors);
        pthread_rwlock_rdlock(&model->state_lock);
        for (size_t i = 0; i < count && error->status == JG_OK; i++)
            data[i] = host_data(model, tensors[i], &copies[i], error);
        if (error->status == JG_OK) content = state_content(tensors, data, count, &size, error);
        pthread_rwlock_unlock(&model->state_lock);
    }
    if (content) replace_file(path, content, size, error);
    for (size_t i = 0; copies && i < count; i++) free(copies[i]);
    free(content);
    free(tensors);
    free(data);
    free(copies);
    return error->status;
}

/* The digest that the file notes must be that of its tensors; other writers note none. */
__attribute__((cold)) static void verify_digest(Loading *l, Bytes bytes) {
    char hex[65];
    uint64_t size = u64_at(bytes.data);
    const Json *header = parse_json(l, (Bytes){bytes.data + 8, size}, "the header of the state");
    const Json *noted = find(&header->index, "__metadata__");
    const Json *format = noted && noted->kind == AN_OBJECT ? find(&noted->index, "format") : NULL;
    const Json *digest = noted && noted->kind == AN_OBJECT ? find(&noted->index, "sha256") : NULL;
    if (!format || format->kind != A_TEXT || strcmp(format->text, STATE_FORMAT) != 0 || !digest) return;
    sha256_hex((Bytes){bytes.data + 8 + size, bytes.size - 8 - size}, hex);
    if (digest->kind != A_TEXT || strcmp(digest->text, hex) != 0)
        refuse(l, "its tensors do not match their SHA-256: it was damaged or changed");
}

/* What is read of a file of a state: its bytes, and the tensors over them. */
typedef struct StateFile {
    jg_model file; /* of which only the bytes of the file are used */
    Tensor *tensors;
    size_t count;
    Index index;
    Store store;
} StateFile;

/* Reads the file and compares it with the model's state; refuses it where it is another one. */
__attribute__((cold)) static bool read_state(Loading *l, const char *path, const jg_model *model, StateFile *state) {
    if (setjmp(l->out) != 0) return false;
    open_file(l, path, &state->file);
    Bytes bytes = {state->file.file, state->file.file_bytes};
    read_weights(l, bytes, &state->tensors, &state->count, &state->index);
    verify_digest(l, bytes);
    for (size_t i = 0; i < model->tensor_count; i++) {
        const Tensor *own = &model->tensors[i];
        if (is_constant(own)) continue;
        const Tensor *read = find(&state->index, own->key);
        if (!read) refuse(l, "it has no '%.60s': it is the state of another model", own->key);
        char one[WHERE_SIZE], other[WHERE_SIZE];
        bool same = own->dtype == read->dtype && own->rank == read->rank &&
                    memcmp(own->shape, read->shape, (size_t)own->rank * sizeof *own->shape) == 0;
        if (!same)
            refuse(l, "it has '%.60s' as %s, and the model %s", own->key,
                   shape_text(read->dtype, read->rank, read->shape, one),
                   shape_text(own->dtype, own->rank, own->shape, other));
    }
    for (size_t i = 0; i < state->count; i++) {
        const Tensor *own = find(&model->tensor_index, state->tensors[i].key);
        if (!own || is_constant(own))
            refuse(l, "it has '%.60s', which the model has not: it is the state of another one", state->tensors[i].key);
    }
    return true;
}

/* Puts the tensors of the file into force, all or none: what can fail comes first. */
__attribute__((cold)) static void take_state(jg_model *model, const StateFile *state, jg_error *error) {
    for (size_t i = 0; i < state->count && error->status == JG_OK; i++) {
        Tensor *own = find(&model->tensor_index, state->tensors[i].key);
        if (!own->there.address) spare_memory(own, error);
    }
    for (size_t i = 0; i < state->count && error->status == JG_OK; i++) {
        const Tensor *read = &state->tensors[i];
        Tensor *own = find(&model->tensor_index, read->key);
        if (own->there.address) {
            jg_tensor value = {.data = (void *)(uintptr_t)read->data, .bytes = read->bytes};
            copy_state(model, own, NULL, NULL, &value, own->key, error);
        } else {
            void *memory = spare_memory(own, error);
            if (read->bytes) memcpy(memory, read->data, read->bytes);
            own->data = memory;
        }
    }
}

__attribute__((cold)) jg_status jg_state_load(jg_model *model, const char *path, jg_error *error) {
    jg_error unused;
    error = cleared(error ? error : &unused);
    if (!model || !path) no_pointer(error, model ? "path" : "model");
    if (error->status != JG_OK) return error->status;
    StateFile *state = calloc(1, sizeof *state);
    if (!state) {
        out_of_memory(error, sizeof *state);
        return error->status;
    }
    Loading l = {.error = error, .kept = &state->store};
    if (read_state(&l, path, model, state)) {
        pthread_rwlock_wrlock(&model->state_lock);
        take_state(model, state, error);
        pthread_rwlock_unlock(&model->state_lock);
    } else {
        jg_error inner = *error;
        fail(error, inner.status, "%.400s: %s", path, inner.message);
    }
    for (size_t i = 0; i < state->count; i++) free(state->tensors[i].own[0]);
#if defined(JG_MAP_FILE)
    if (state->file.file) munmap(state->file.file, state->file.file_bytes);
#else
    free(state->file.file);
#endif
    release(&l.scratch);
    release(&state->store);
    free(state);
    return error->status;
}
