/* Numbers in bytes, memory that is freed as a whole, memory for tensors, and texts that are found by bisection. */

#pragma once

#include <stdlib.h>
#include <string.h>

#include "loader.h"

typedef struct Bytes {
    const uint8_t *data;
    size_t size;
} Bytes;

static uint16_t u16_at(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t u32_at(const uint8_t *p) { return u16_at(p) | (uint32_t)u16_at(p + 2) << 16; }
static uint64_t u64_at(const uint8_t *p) { return u32_at(p) | (uint64_t)u32_at(p + 4) << 32; }

/* Whether [offset, offset + size) lies inside the first limit bytes. */
static bool within(uint64_t offset, uint64_t size, uint64_t limit) { return size <= limit && offset <= limit - size; }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Memory that is freed as a whole: what a file says, in the form that runs need. */
typedef struct StoreBlock {
    struct StoreBlock *next;
    max_align_t payload[];
} StoreBlock;

typedef struct Store {
    StoreBlock *blocks;
} Store;

/* count zeroed elements, at least one; NULL on failure. */
static void *take(Store *store, size_t count, size_t size) {
    if (count == 0) count = 1;
    StoreBlock *block = count > (SIZE_MAX / 4) / size ? NULL : calloc(1, sizeof *block + count * size);
    if (!block) return NULL;
    block->next = store->blocks;
    store->blocks = block;
    return block->payload;
}

static void release(Store *store) {
    while (store->blocks) {
        StoreBlock *next = store->blocks->next;
        free(store->blocks);
        store->blocks = next;
    }
}

/* At least bytes of memory aligned to 64, uninitialised; NULL on failure. free gives it back. */
static void *aligned_memory(size_t bytes) {
    if (bytes > (size_t)INT64_MAX - JG_ALIGNMENT) return NULL;
    size_t whole = (bytes + JG_ALIGNMENT - 1) / JG_ALIGNMENT * JG_ALIGNMENT;
    return aligned_alloc(JG_ALIGNMENT, whole ? whole : JG_ALIGNMENT);
}

/* Texts in order, to be found by bisection and told apart. */
typedef struct Named {
    const char *text;
    size_t size;
    void *item;
} Named;

typedef struct Index {
    Named *items;
    size_t count;
} Index;

static int compare_named(const void *a, const void *b) {
    const Named *left = a, *right = b;
    size_t size = left->size < right->size ? left->size : right->size;
    int order = memcmp(left->text, right->text, size);
    return order ? order : (left->size > right->size) - (left->size < right->size);
}

/* Sorts an index; gives a text that stands in it twice, else NULL. */
static const char *sort_index(Index *index) {
    qsort(index->items, index->count, sizeof(Named), compare_named);
    for (size_t i = 1; i < index->count; i++)
        if (compare_named(&index->items[i - 1], &index->items[i]) == 0) return index->items[i].text;
    return NULL;
}

static void *find_sized(const Index *index, const char *text, size_t size) {
    Named wanted = {text, size, NULL};
    if (index->count == 0) return NULL;
    const Named *found = bsearch(&wanted, index->items, index->count, sizeof wanted, compare_named);
    return found ? found->item : NULL;
}

__attribute__((noinline)) static void *find(const Index *index, const char *text) {
    return find_sized(index, text, strlen(text));
}
