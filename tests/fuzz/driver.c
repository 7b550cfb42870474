/* A CUDA driver that does nothing: memory of the device is the host's, launches leave it as it is, and any PTX has every
   kernel. With it readers of files take the way of GPUs to its end. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int put(int *to, int value) { *to = value; return 0; }
static int put_handle(void **to) { *to = (void *)to; return 0; }
static int allocate(void **to, size_t size) { return (*to = calloc(1, size)) ? 0 : 2; }

int cuInit(unsigned flags) { return flags != 0; }
int cuGetErrorName(int code, const char **to) { *to = code == 2 ? "out of memory" : "refused"; return 0; }
int cuGetErrorString(int code, const char **to) { return cuGetErrorName(code, to); }
int cuDeviceGetCount(int *to) { return put(to, 1); }
int cuDeviceGet(int *to, int ordinal) { return put(to, ordinal); }
int cuDeviceGetName(char *to, int size, int device) { memset(to, 0, (size_t)size); return device; }
int cuDeviceGetAttribute(int *to, int attribute, int device) { return put(to, attribute == 75 ? 9 : device); }
int cuDevicePrimaryCtxRetain(void **to, int device) { return put_handle(to) + device; }
int cuDevicePrimaryCtxRelease_v2(int device) { return device; }
int cuCtxSetCurrent(void *context) { (void)context; return 0; }
int cuCtxGetCurrent(void **to) { *to = NULL; return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuModuleUnload(void *module) { (void)module; return 0; }
int cuMemAlloc_v2(void **to, size_t size) { return allocate(to, size); }
int cuMemFree_v2(void *address) { free(address); return 0; }
int cuMemAllocAsync(void **to, size_t size, void *stream) { (void)stream; return allocate(to, size); }
int cuMemFreeAsync(void *address, void *stream) { (void)stream; free(address); return 0; }
int cuMemHostAlloc(void **to, size_t size, unsigned flags) { return allocate(to, size) + (int)flags; }
int cuMemFreeHost(void *address) { free(address); return 0; }
int cuStreamCreate(void **to, unsigned flags) { (void)flags; return put_handle(to); }
int cuStreamDestroy_v2(void *stream) { (void)stream; return 0; }
int cuStreamSynchronize(void *stream) { (void)stream; return 0; }
int cuPointerGetAttribute(int *to, int attribute, void *address) { (void)attribute; (void)address; return put(to, 0); }

int cuModuleLoadDataEx(void **to, const char *ptx, unsigned count, int *options, void **values) {
    (void)count, (void)options, (void)values;
    return strlen(ptx) ? put_handle(to) : 218;
}

int cuModuleGetFunction(void **to, void *module, const char *name) {
    (void)module;
    return *name ? put_handle(to) : 500;
}

int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t size, void *stream) {
    (void)stream;
    memcpy(to, from, size);
    return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t size, void *stream) {
    return cuMemcpyHtoDAsync_v2(to, from, size, stream);
}

int cuMemcpyDtoDAsync_v2(void *to, const void *from, size_t size, void *stream) {
    return cuMemcpyHtoDAsync_v2(to, from, size, stream);
}

int cuMemsetD32Async(uint32_t *to, unsigned value, size_t count, void *stream) {
    (void)stream;
    for (size_t i = 0; i < count; i++) to[i] = value;
    return 0;
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared, void *stream, void **arguments, void **extra) {
    (void)shared, (void)stream, (void)extra;
    return !(function && x && y && z && block_x && block_y && block_z && arguments);
}
