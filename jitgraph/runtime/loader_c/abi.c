/* The ABI: structures and codes shared with native code, equal to those of loader/abi.py. */

#pragma once

#include "loader.h"

_Static_assert(sizeof(size_t) == 8 && sizeof(void *) == 8, "a 64-bit machine is needed");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a little-endian machine is needed");

enum { ABI_VERSION = 5, SCRATCH_BYTES = 2 << 20, PATIENCE = 1 << 21 };
enum { OK, CHECK_FAILED, INTERRUPTED, OUT_OF_MEMORY, SIZE_OVERFLOW, CALLBACK_FAILED, SIZES_REFUSED };
static const char *const CODE_NAMES[] = {"ok", "check failed", "interrupted", "out of memory", "size overflow",
                                         "callback failed", "sizes refused"};

typedef struct jg_host jg_host;
typedef struct jg_call jg_call;
typedef struct jg_pool jg_pool;

struct jg_host { /* what native code may ask of the process */
    int64_t abi_version;
    void *(*alloc)(size_t bytes);
    void (*free)(void *memory);
    int32_t (*parallel_for)(const jg_host *, jg_call *, int32_t (*)(void *, int64_t, void *), void *, int64_t);
    int32_t (*poll)(const jg_host *);
    long (*syscall)(long number, ...);
    jg_pool *pool; /* NULL: everything runs on the calling thread */
    int32_t (*callback)(const jg_host *, jg_call *, int64_t, void *const *, const int64_t *);
    void *driver;
    int32_t (*print)(const jg_host *, jg_call *); /* what print_site numbers */
    int64_t reserved[6];
};

typedef struct jg_error_record {
    int32_t code, check_id;
    int64_t index, bound, order;
    int32_t lock, pad;
} jg_error_record;

typedef struct jg_block { /* header of a block of a call's stacks */
    struct jg_block *next;
    void *base; /* what alloc gave and free takes */
    int64_t bytes;
} jg_block;

struct jg_call { /* what belongs to one running call */
    void *arena; /* scratch memory of the calling thread, then temporaries */
    int64_t arena_bytes;
    jg_block *blocks; /* freed after the call */
    void *stream;
    int64_t last_poll;
    jg_error_record error;
    int64_t print_site; /* which of the entry's prints is asked for */
    void *const *print_operands;
    int64_t threads; /* most threads that take part, the caller included; 0: no limit */
    int64_t reserved[3];
};

struct jg_pool { /* the state of the threads, a cache line for each group of fields; native code runs it */
    int32_t busy;
    _Atomic int32_t stop, workers;
    int32_t pad0;
    long (*syscall)(long number, ...);
    void *scratch; /* SCRATCH_BYTES for each worker, which takes its part as it starts */
    int64_t hired, patience, pad1[2];
    _Atomic int32_t epoch;
    int32_t sleepers, unwoken, pad2;
    int64_t spin, pad3[5];
    void *function, *context;
    int64_t chunks, parts;
    int32_t open, pad4[7];
    int64_t next, pad5[7];
    int32_t entered, waiting;
    int64_t seats, pad6[6];
    uint64_t failure;
    int64_t pad7[7];
    int64_t ended, gap, soon, wake_cost, pad8[4];
};

_Static_assert(sizeof(jg_host) == 128 && sizeof(jg_call) == 128 && sizeof(jg_pool) == 448, "the ABI's structures");

typedef int32_t EntryFunction(const jg_host *, jg_call *, void *const *buffers, const int64_t *dims);
typedef int64_t ArenaFunction(const int64_t *dims);
typedef int32_t WorkerFunction(jg_pool *);
