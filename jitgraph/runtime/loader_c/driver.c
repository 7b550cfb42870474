/* The CUDA driver, found when a model is loaded for a GPU: libcuda.so.1 alone, in the primary context of a device. */

#pragma once

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader.h"
#include "errors.c"
#include "memory.c"
#include "loading.c"
#include "entries.c"

#if !defined(JG_CUDA_LIBRARY)
#define JG_CUDA_LIBRARY "libcuda.so.1"
#endif

enum { CUDA_OUT_OF_MEMORY = 2, CUDA_NO_DEVICE = 100, MAJOR_CAPABILITY = 75, MINOR_CAPABILITY = 76, NON_BLOCKING = 1 };
enum { ERROR_LOG = 5, ERROR_LOG_BYTES = 6, DEVICE_NAME = 64 };
enum { POINTER_ORDINAL = 9, POINTER_START = 11, POINTER_BYTES = 12 };

/* Each gives a CUresult, 0 for success. */
#define DRIVER_FUNCTIONS(X) \
    X(cuInit, unsigned) \
    X(cuGetErrorName, int, const char **) \
    X(cuGetErrorString, int, const char **) \
    X(cuDeviceGetCount, int *) \
    X(cuDeviceGet, int *, int) \
    X(cuDeviceGetName, char *, int, int) \
    X(cuDeviceGetAttribute, int *, int, int) \
    X(cuDevicePrimaryCtxRetain, void **, int) \
    X(cuDevicePrimaryCtxRelease_v2, int) \
    X(cuCtxSetCurrent, void *) \
    X(cuCtxGetCurrent, void **) \
    X(cuModuleLoadDataEx, void **, const void *, unsigned, int *, void **) \
    X(cuModuleUnload, void *) \
    X(cuModuleGetFunction, void **, void *, const char *) \
    X(cuMemAlloc_v2, uint64_t *, size_t) \
    X(cuMemFree_v2, uint64_t) \
    X(cuMemHostAlloc, void **, size_t, unsigned) \
    X(cuMemFreeHost, void *) \
    X(cuMemcpyHtoDAsync_v2, uint64_t, const void *, size_t, void *) \
    X(cuMemcpyDtoHAsync_v2, void *, uint64_t, size_t, void *) \
    X(cuMemcpyDtoDAsync_v2, uint64_t, uint64_t, size_t, void *) \
    X(cuPointerGetAttribute, void *, int, uint64_t) \
    X(cuStreamCreate, void **, unsigned) \
    X(cuStreamDestroy_v2, void *) \
    X(cuStreamSynchronize, void *)

typedef struct Device {
    void *library;
#define DECLARED(name, ...) int (*name)(__VA_ARGS__);
    DRIVER_FUNCTIONS(DECLARED)
#undef DECLARED
    char name[16]; /* "cuda:0" */
    int ordinal, number, capability;
    void *context, *stream;
    pid_t owner; /* CUDA is of no use in a child of its process */
} Device;

/* The address of a function of the driver. ISO C knows no way from data to functions, so it is copied. */
static void find_symbol(Loading *l, const Device *device, const char *symbol, void *place) {
    void *found = dlsym(device->library, symbol);
    if (!found) refuse(l, "the CUDA driver is too old: " JG_CUDA_LIBRARY " has no %.60s", symbol);
    memcpy(place, &found, sizeof found);
}

/* Fills error with what was asked and CUDA's words; gives false. */
static bool refused(const Device *device, int code, const char *asked, jg_error *error) {
    const char *name = NULL, *text = NULL;
    device->cuGetErrorName(code, &name);
    device->cuGetErrorString(code, &text);
    return fail(error, code == CUDA_OUT_OF_MEMORY ? JG_OUT_OF_MEMORY : JG_FAILED, "%s, %s: %s (%s)", device->name, asked,
                name ? name : "an unknown CUresult", text ? text : "");
}

/* Ends loading where a function of the driver does not succeed. */
static void require(Loading *l, const Device *device, int code, const char *asked) {
    if (!code) return;
    jg_error inner = {.status = JG_OK};
    refused(device, code, asked, &inner);
    if (inner.status == JG_OUT_OF_MEMORY) {
        *l->error = inner;
        longjmp(l->out, 1);
    }
    refuse(l, "%s", inner.message);
}

/* Makes the device's context that of the calling thread; what was current before, for leave_device. */
static bool enter_device(const Device *device, void **before, jg_error *error) {
    if (device->owner != getpid())
        return fail(error, JG_FAILED, "%s was in use before this process was forked, and CUDA cannot be used in such a "
                    "child; load the model after the fork", device->name);
    int code = device->cuCtxGetCurrent(before);
    if (!code && *before != device->context) code = device->cuCtxSetCurrent(device->context);
    return !code || refused(device, code, "its context", error);
}

static void leave_device(const Device *device, void *before) {
    if (before != device->context) device->cuCtxSetCurrent(before);
}

/* Makes a block hold so many bytes, if it does not yet; what was in it is lost. */
static bool grow(const Device *device, DeviceBlock *block, size_t bytes, jg_error *error) {
    if (block->address && block->bytes >= bytes) return true;
    if (block->address) device->cuMemFree_v2(block->address);
    block->address = 0;
    block->bytes = bytes ? bytes : 1;
    int code = device->cuMemAlloc_v2(&block->address, block->bytes);
    if (code) block->address = 0;
    return !code || refused(device, code, "memory for a call", error);
}

static void free_block(const Device *device, DeviceBlock *block) {
    if (block->address) device->cuMemFree_v2(block->address);
    block->address = 0;
}

/* Frees memory that a caller was given. */
static void free_there(const Device *device, void *data) {
    DeviceBlock block = {.address = (uintptr_t)data};
    void *before;
    jg_error unused;
    if (!data || !enter_device(device, &before, &unused)) return;
    free_block(device, &block);
    leave_device(device, before);
}

static bool upload(const Device *device, const DeviceBlock *block, const void *data, size_t bytes, jg_error *error) {
    int code = bytes ? device->cuMemcpyHtoDAsync_v2(block->address, data, bytes, device->stream) : 0;
    return !code || refused(device, code, "a copy to it", error);
}

static bool download(const Device *device, void *data, const DeviceBlock *block, size_t bytes, jg_error *error) {
    int code = bytes ? device->cuMemcpyDtoHAsync_v2(data, block->address, bytes, device->stream) : 0;
    return !code || refused(device, code, "a copy from it", error);
}

/* Copies within the device. */
static bool copy_there(const Device *device, uint64_t to, uint64_t from, size_t bytes, jg_error *error) {
    int code = bytes ? device->cuMemcpyDtoDAsync_v2(to, from, bytes, device->stream) : 0;
    return !code || refused(device, code, "a copy on it", error);
}

/* Whether a caller's address is that of so many bytes of the device, by the driver; where says whose it is. */
static bool is_there(const Device *device, const void *data, size_t bytes, const char *where, jg_error *error) {
    uint64_t address = (uintptr_t)data, start = 0;
    int ordinal = 0;
    size_t size = 0;
    if (!bytes) return true;
    if (device->cuPointerGetAttribute(&ordinal, POINTER_ORDINAL, address) ||
        device->cuPointerGetAttribute(&start, POINTER_START, address) ||
        device->cuPointerGetAttribute(&size, POINTER_BYTES, address))
        return fail(error, JG_BAD_ARGUMENT, "%s: %p is not memory of %s", where, data, device->name);
    if (ordinal != device->ordinal)
        return fail(error, JG_BAD_ARGUMENT, "%s: it lies on cuda:%d, and the model on %s", where, ordinal,
                    device->name);
    if (address < start || !within(address - start, bytes, size))
        return fail(error, JG_BAD_ARGUMENT, "%s: it needs %zu bytes, more than its memory on %s has", where, bytes,
                    device->name);
    return true;
}

static bool wait_for(const Device *device, jg_error *error) {
    int code = device->cuStreamSynchronize(device->stream);
    return !code || refused(device, code, "its work", error);
}

/* The number of "cuda" or "cuda:1"; -1 where a text names no device. */
static int ordinal_of(const char *name) {
    if (strcmp(name, "cuda") == 0) return 0;
    size_t size = strlen(name);
    if (strncmp(name, "cuda:", 5) != 0 || size < 6 || size > 8) return -1;
    int number = 0;
    for (const char *c = name + 5; *c; c++) {
        if (!is_digit(*c)) return -1;
        number = number * 10 + (*c - '0');
    }
    return number;
}

/* Finds the driver and the device, and makes a stream in its primary context, which is current then. */
static void open_device(Loading *l, const char *name, Device *device, void **before) {
    int count = 0, major = 0, minor = 0;
    device->ordinal = ordinal_of(name);
    if (device->ordinal < 0) refuse(l, "'%.40s' names no device; 'cpu', 'cuda' or 'cuda:0'", name);
    snprintf(device->name, sizeof device->name, "cuda:%d", device->ordinal);
    if (!(device->library = dlopen(JG_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL)))
        refuse(l, "this machine has no CUDA driver (%.200s); load the model for the CPU", dlerror());
#define FOUND(function, ...) find_symbol(l, device, #function, &device->function);
    DRIVER_FUNCTIONS(FOUND)
#undef FOUND
    int code = device->cuInit(0);
    if (code == CUDA_NO_DEVICE) refuse(l, "the CUDA driver finds no device; load the model for the CPU");
    require(l, device, code, "the start of the CUDA driver");
    require(l, device, device->cuDeviceGetCount(&count), "the number of devices");
    if (device->ordinal >= count)
        refuse(l, "there is no %s; the driver finds %d device%s", device->name, count, count == 1 ? "" : "s");
    require(l, device, device->cuDeviceGet(&device->number, device->ordinal), "its number");
    require(l, device, device->cuDeviceGetAttribute(&major, MAJOR_CAPABILITY, device->number), "its capability");
    require(l, device, device->cuDeviceGetAttribute(&minor, MINOR_CAPABILITY, device->number), "its capability");
    device->capability = 10 * major + minor;
    require(l, device, device->cuDevicePrimaryCtxRetain(&device->context, device->number), "its context");
    device->owner = getpid();
    if (!enter_device(device, before, l->error)) longjmp(l->out, 1);
    require(l, device, device->cuStreamCreate(&device->stream, NON_BLOCKING), "a stream");
}
