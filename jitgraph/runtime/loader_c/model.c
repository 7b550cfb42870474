/* The model, and its threads. */

#pragma once

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loader.h"
#include "abi.c"
#include "memory.c"
#include "loading.c"
#include "entries.c"
#include "driver.c"
#include "quota.c"

struct jg_model {
    uint8_t *file;
    size_t file_bytes;
    Store store;
    Tensor *tensors;
    size_t tensor_count;
    Index tensor_index;
    Entry *entries;
    size_t entry_count;
    Index entry_index;
    Entry *main;
    CustomOp *ops;
    size_t op_count;
    const char *target, *metadata;
    jg_host host, serial; /* with the pool and without */
    WorkerFunction *worker;
    pthread_t *threads;
    size_t thread_count;
    pid_t owner; /* the process that has the threads */
    pthread_rwlock_t state_lock; /* tensors' data and own */
    pthread_mutex_t records_lock; /* entries' free_records */
    Device *device; /* NULL: the CPU */
    pthread_mutex_t device_lock; /* its stream, and memory of the model there */
    void *before; /* the context that was the calling thread's while the model is loaded to a device */
};

/* The GPU on which a caller's tensor lies; NULL: the host's memory. */
static const Device *place_of(const jg_model *on) { return on ? on->device : NULL; }

/* Whether a run of the model takes and gives memory there; where says whose it is. */
static bool is_reached(const jg_model *model, const jg_model *on, const char *where, jg_error *error) {
    const Device *there = place_of(on);
    if (!there || (model->device && model->device->ordinal == there->ordinal)) return true;
    return fail(error, JG_BAD_ARGUMENT, "%s: it lies on %s, and the model on %s", where, there->name,
                model->device ? model->device->name : "cpu");
}

/* How many processors' time the process may use: those it may run on, or less where a quota says so. */
static double processor_time(void) {
    cpu_set_t allowed;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    double count = online > 0 ? (double)online : 1;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) count = CPU_COUNT(&allowed);
    double quota = processor_quota("");
    return quota < count ? quota : count;
}

/* Threads to use, the caller included, where there is so much processor time. */
static size_t wanted_threads(Loading *l, double time) {
    const char *text = getenv("JITGRAPH_NUM_THREADS");
    if (text) text += strspn(text, " \t\n");
    if (text && *text) {
        char *end = NULL;
        long count = is_digit(*text) ? strtol(text, &end, 10) : 0;
        if (count < 1 || count > 4096 || end[strspn(end, " \t\n")])
            refuse(l, "JITGRAPH_NUM_THREADS='%.40s' is not a number from 1 to 4096", text);
        return (size_t)count;
    }
    size_t whole = (size_t)time;
    return whole + ((double)whole < time);
}

static void *work(void *argument) {
    jg_model *model = argument;
    model->worker(model->host.pool);
    return NULL;
}

/* Starts the pool where some entry has parallel loops. With fewer threads than wanted, those that start do the work. */
static void start_pool(Loading *l, jg_model *model) {
    double time = processor_time();
    size_t wanted = wanted_threads(l, time);
    for (size_t i = 0; i < model->entry_count && !model->worker; i++) model->worker = model->entries[i].worker;
    if (!model->worker || wanted == 1) return;
    model->threads = make(l, l->kept, wanted, sizeof *model->threads);
    jg_pool *pool = aligned_memory(sizeof *pool);
    if (!pool) no_memory(l, sizeof *pool);
    memset(pool, 0, sizeof *pool);
    pool->syscall = syscall;
    pool->failure = UINT64_MAX;
    pool->patience = (double)wanted <= time ? PATIENCE : 0; /* none where threads share processors */
    model->host.pool = pool;
    model->owner = getpid();
    if (!(pool->scratch = aligned_memory((wanted - 1) * SCRATCH_BYTES))) no_memory(l, (wanted - 1) * SCRATCH_BYTES);
    sigset_t all, before; /* the program's signals are for its own threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (model->thread_count + 1 < wanted &&
           pthread_create(&model->threads[model->thread_count], NULL, work, model) == 0)
        model->thread_count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pool->workers = (int32_t)model->thread_count;
}

static void stop_pool(jg_model *model) {
    jg_pool *pool = model->host.pool;
    if (pool && model->owner == getpid()) {
        pool->workers = 0;
        pool->stop = 1;
        pool->epoch++;
        syscall(SYS_futex, &pool->epoch, 129 /* FUTEX_WAKE_PRIVATE */, INT32_MAX, NULL, NULL, 0);
        for (size_t i = 0; i < model->thread_count; i++) pthread_join(model->threads[i], NULL);
    }
    if (pool) free(pool->scratch);
    free(pool);
}
