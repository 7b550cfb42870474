/* The flat image: native code, mapped into memory that can be executed. */

#pragma once

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "loader.h"
#include "abi.c"
#include "memory.c"
#include "loading.c"
#include "entries.c"
#include "zip.c"

enum { IMAGE_HEADER = 64, MAX_IMAGE = 1 << 30 };

#if defined(__x86_64__)
enum { MACHINE = 62 }; /* ELF's e_machine */
#else
enum { MACHINE = 0 };
#endif

/* Checks the header, laid out as ImageHeader in loader/image.py says; gives the four exports' offsets, 0 where absent. */
static void read_image_header(Loading *l, Bytes image, uint64_t exports[4]) {
    static const char *const names[] = {"entry", "arena_bytes", "worker", "parallel_for"};
    const uint8_t *p = image.data;
    if (image.size < IMAGE_HEADER)
        refuse(l, "the native image is %zu bytes long, shorter than its header of %d", image.size, IMAGE_HEADER);
    if (memcmp(p, "JGIMAGE1", 8) != 0) refuse(l, "the native image begins with other bytes than 'JGIMAGE1'");
    if (u32_at(p + 8) != ABI_VERSION)
        refuse(l, "the native image speaks ABI %u, this loader %d; save the model again with this version, or use the "
               "loader that came with the model", u32_at(p + 8), ABI_VERSION);
    uint64_t total = u64_at(p + 16), code_end = u64_at(p + 24);
    if (total != image.size || total > MAX_IMAGE)
        refuse(l, "the native image says %llu bytes but has %zu (at most %d are allowed); it was cut or extended",
               (Long)total, image.size, MAX_IMAGE);
    if (code_end <= IMAGE_HEADER || code_end > total)
        refuse(l, "the native image says its code ends at %llu of %llu bytes", (Long)code_end, (Long)total);
    for (int i = 0; i < 4; i++) {
        exports[i] = u64_at(p + 32 + 8 * i);
        if ((exports[i] || i == 0) && (exports[i] < IMAGE_HEADER || exports[i] >= code_end))
            refuse(l, "the native image has '%s' at %llu, outside its code [64, %llu)", names[i], (Long)exports[i],
                   (Long)code_end);
    }
    if (u32_at(p + 12) != MACHINE)
        refuse(l, "the native image is for machine %u, this is %d", u32_at(p + 12), MACHINE);
}

/* Maps an image: written, then protected for execution, never both at once. */
static void map_image(Loading *l, Bytes image, Entry *entry) {
    uint64_t exports[4];
    read_image_header(l, image, exports);
    void *memory = mmap(NULL, image.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) no_memory(l, image.size);
    entry->image = memcpy(memory, image.data, image.size);
    entry->image_bytes = image.size;
    if (mprotect(memory, image.size, PROT_READ | PROT_EXEC) != 0)
        refuse(l, "the system does not let memory be executable: %s", strerror(errno));
    uintptr_t base = (uintptr_t)memory;
    entry->run = (EntryFunction *)(base + exports[0]);
    entry->arena_bytes = exports[1] ? (ArenaFunction *)(base + exports[1]) : NULL;
    entry->worker = exports[2] ? (WorkerFunction *)(base + exports[2]) : NULL;
}
