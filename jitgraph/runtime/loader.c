/* The loader of loader.h. It follows loader.py, which explains the format: errors; the ABI; numbers and memory; hashes;
   JSON; dtypes; size expressions; signatures; the zip; the weights; the image; the processor; the model; threads; the
   file; calls; printing; state and queries.

   Nothing read from a file is trusted: each offset, length and count is compared with the bytes that are there before
   it is used. What a call may report gives false after filling a jg_error; a step of loading that finds a fault leaves
   loading altogether, by refuse. */

#define _GNU_SOURCE
#include "loader.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

_Static_assert(sizeof(size_t) == 8 && sizeof(void *) == 8, "a 64-bit machine is needed");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a little-endian machine is needed");

/* --- errors ------------------------------------------------------------------------------------------------------ */

#define MANIFEST "manifest.json"
#define WEIGHTS "weights.safetensors"
#define AGAIN "copy or save the model again"

/* Fills error. Control characters of a file do not reach the terminal. */
__attribute__((format(printf, 3, 0))) static void set_error(jg_error *error, jg_status status, const char *format,
                                                            va_list arguments) {
    error->status = status;
    vsnprintf(error->message, sizeof error->message, format, arguments);
    for (char *c = error->message; *c; c++)
        if (((unsigned char)*c < 0x20 && *c != '\n') || *c == 0x7f) *c = '?';
}

/* Fills error and gives false. */
__attribute__((format(printf, 3, 4))) static bool fail(jg_error *error, jg_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_error(error, status, format, arguments);
    va_end(arguments);
    return false;
}

static bool out_of_memory(jg_error *error, size_t bytes) {
    return fail(error, JG_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
}

static jg_error *cleared(jg_error *error) {
    error->status = JG_OK;
    error->kind[0] = error->message[0] = '\0';
    return error;
}

/* --- the ABI: structures shared with native code, equal to those of loader.py ------------------------------------ */

enum { ABI_VERSION = 4, SCRATCH_BYTES = 2 << 20 };
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
    int64_t reserved[4];
};

struct jg_pool { /* the state of the threads, a cache line for each group of fields; native code runs it */
    int32_t busy;
    _Atomic int32_t stop, workers;
    int32_t pad0;
    long (*syscall)(long number, ...);
    void *scratch; /* SCRATCH_BYTES for each worker, which takes its part as it starts */
    int64_t hired, pad1[3];
    _Atomic int32_t epoch;
    int32_t sleepers;
    int64_t pad2[7];
    void *function, *context;
    int64_t chunks;
    int32_t open, pad3;
    int64_t pad4[4];
    int64_t next, pad5[7];
    int32_t entered, waiting;
    int64_t pad6[7];
    uint64_t failure;
    int64_t pad7[7];
};

_Static_assert(sizeof(jg_host) == 128 && sizeof(jg_call) == 128 && sizeof(jg_pool) == 384, "the ABI's structures");

typedef int32_t EntryFunction(const jg_host *, jg_call *, void *const *buffers, const int64_t *dims);
typedef int64_t ArenaFunction(const int64_t *dims);
typedef int32_t WorkerFunction(jg_pool *);

/* --- numbers and memory ------------------------------------------------------------------------------------------ */

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

static void *find(const Index *index, const char *text) { return find_sized(index, text, strlen(text)); }

/* --- hashes ------------------------------------------------------------------------------------------------------ */

/* SHA-256 as FIPS 180-4 publishes it. */
static const uint32_t SHA256_K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotated(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* One round: instead of moving the eight variables on, the next round calls them by other names. */
static inline void sha256_round(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f, uint32_t g,
                                uint32_t *h, uint32_t k_and_w) {
    uint32_t s1 = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25), s0 = rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22);
    uint32_t t = *h + s1 + (g ^ (e & (f ^ g))) + k_and_w;
    *d += t;
    *h = t + s0 + ((a & b) | (c & (a | b)));
}

static void sha256_block(uint32_t state[8], const uint8_t *data) {
    uint32_t w[64];
    for (int i = 0; i < 16; i++) w[i] = __builtin_bswap32(u32_at(data + 4 * i));
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i += 8) {
        const uint32_t *k = SHA256_K + i, *x = w + i;
        sha256_round(a, b, c, &d, e, f, g, &h, k[0] + x[0]);
        sha256_round(h, a, b, &c, d, e, f, &g, k[1] + x[1]);
        sha256_round(g, h, a, &b, c, d, e, &f, k[2] + x[2]);
        sha256_round(f, g, h, &a, b, c, d, &e, k[3] + x[3]);
        sha256_round(e, f, g, &h, a, b, c, &d, k[4] + x[4]);
        sha256_round(d, e, f, &g, h, a, b, &c, k[5] + x[5]);
        sha256_round(c, d, e, &f, g, h, a, &b, k[6] + x[6]);
        sha256_round(b, c, d, &e, f, g, h, &a, k[7] + x[7]);
    }
    const uint32_t last[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++) state[i] += last[i];
}

static void sha256_hex(Bytes bytes, char hex[65]) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    size_t whole = bytes.size / 64 * 64, rest = bytes.size - whole;
    for (size_t i = 0; i < whole; i += 64) sha256_block(state, bytes.data + i);
    uint8_t tail[128] = {0};
    size_t tail_size = rest < 56 ? 64 : 128;
    if (rest) memcpy(tail, bytes.data + whole, rest);
    tail[rest] = 0x80;
    for (size_t i = 0; i < 8; i++) tail[tail_size - 1 - i] = (uint8_t)((uint64_t)bytes.size * 8 >> 8 * i);
    for (size_t i = 0; i < tail_size; i += 64) sha256_block(state, tail + i);
    for (int i = 0; i < 8; i++) snprintf(hex + 8 * i, 9, "%08x", state[i]);
}

static uint32_t crc32_of(Bytes bytes) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < bytes.size; i++) {
        crc ^= bytes.data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

/* --- loading: memory and errors ---------------------------------------------------------------------------------- */

/* What loading works with. Any step of it may end it by refuse, which leaves through out; everything that was taken
   until then hangs on the stores or the model, so nothing is lost. */
typedef struct Loading {
    jmp_buf out;
    jg_error *error;
    Store scratch; /* freed after loading */
    Store *kept; /* the model's */
    struct SizeParser *sizes;
} Loading;

__attribute__((noreturn, format(printf, 2, 3))) static void refuse(Loading *l, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_error(l->error, JG_BAD_FILE, format, arguments);
    va_end(arguments);
    longjmp(l->out, 1);
}

__attribute__((noreturn)) static void no_memory(Loading *l, size_t bytes) {
    out_of_memory(l->error, bytes);
    longjmp(l->out, 1);
}

/* count zeroed elements of a store; never NULL. */
static void *make(Loading *l, Store *store, size_t count, size_t size) {
    void *made = take(store, count, size);
    if (!made) no_memory(l, count * size);
    return made;
}

/* A text of the model's own. */
static const char *keep_text(Loading *l, const char *text, size_t size, const char *where) {
    if (memchr(text, 0, size)) refuse(l, "%s: '%.60s' is not a size or name: a NUL stands in it", where, text);
    return memcpy(make(l, l->kept, size + 1, 1), text, size);
}

/* --- JSON, read with suspicion ----------------------------------------------------------------------------------- */

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

static Json *json_value(Parser *p);

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

static Json *json_value(Parser *p) {
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

/* --- dtypes ------------------------------------------------------------------------------------------------------ */

typedef enum Family { BOOLEAN, SIGNED, UNSIGNED, FLOATING } Family;

static const struct {
    const char *name, *safetensors;
    size_t size;
    Family family;
} DTYPES[] = {
    [JG_BOOL] = {"bool", "BOOL", 1, BOOLEAN},         [JG_INT8] = {"int8", "I8", 1, SIGNED},
    [JG_INT16] = {"int16", "I16", 2, SIGNED},         [JG_INT32] = {"int32", "I32", 4, SIGNED},
    [JG_INT64] = {"int64", "I64", 8, SIGNED},         [JG_UINT8] = {"uint8", "U8", 1, UNSIGNED},
    [JG_UINT16] = {"uint16", "U16", 2, UNSIGNED},     [JG_UINT32] = {"uint32", "U32", 4, UNSIGNED},
    [JG_UINT64] = {"uint64", "U64", 8, UNSIGNED},     [JG_FLOAT16] = {"float16", "F16", 2, FLOATING},
    [JG_BFLOAT16] = {"bfloat16", "BF16", 2, FLOATING}, [JG_FLOAT32] = {"float32", "F32", 4, FLOATING},
    [JG_FLOAT64] = {"float64", "F64", 8, FLOATING},
};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES };

/* The dtype of that name, in our words or those of safetensors; -1 where there is none. */
static int dtype_named(const char *name, bool safetensors) {
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(name, safetensors ? DTYPES[i].safetensors : DTYPES[i].name) == 0) return i;
    return -1;
}

static bool is_dtype(jg_dtype dtype) { return (unsigned)dtype < DTYPE_COUNT; }

/* Bytes of a tensor; false where they leave 63 bits. Zero sizes count as one, so that {0, 1 << 62, 4} is refused. */
static bool byte_count(const int64_t *shape, int32_t rank, jg_dtype dtype, size_t *bytes) {
    int64_t total = (int64_t)DTYPES[dtype].size;
    bool empty = false;
    for (int32_t i = 0; i < rank; i++) {
        if (shape[i] < 0 || __builtin_mul_overflow(total, shape[i] ? shape[i] : 1, &total)) return false;
        empty |= shape[i] == 0;
    }
    *bytes = empty ? 0 : (size_t)total;
    return true;
}

static bool are_bools(const uint8_t *data, size_t size) {
    uint8_t seen = 0;
    for (size_t i = 0; i < size; i++) seen |= data[i];
    return seen <= 1;
}

/* The bits of a float with fewer exponent and mantissa bits, rounded to nearest even: 5 and 10 for float16. */
static uint16_t half_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    uint64_t mantissa = bits & 0xfffffffffffff;
    if (exponent == 1024) return (uint16_t)(sign | 0x7c00 | (mantissa ? 0x200 : 0));
    if (exponent < -25) return sign;
    if (exponent > 15) return (uint16_t)(sign | 0x7c00);
    mantissa |= 1ULL << 52;
    int shift = exponent < -14 ? 42 + (-14 - exponent) : 42; /* subnormal results lose more */
    uint64_t kept = mantissa >> shift, rest = mantissa & ((1ULL << shift) - 1), tie = 1ULL << (shift - 1);
    kept += rest > tie || (rest == tie && kept & 1);
    if (exponent >= -14) kept += (uint64_t)(exponent + 14) << 10; /* the leading bit adds one more to the exponent */
    return (uint16_t)(sign | kept);
}

static uint16_t bfloat16_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (value != value) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

enum { MAX_NUMBER = 400 };

/* The value of a number in JSON, whatever the process's locale calls a decimal point. */
static double json_double(const Json *value) {
    if (value->kind != A_FLOAT && !value->wide) return (double)value->integer;
    char text[MAX_NUMBER + 1] = "";
    memcpy(text, value->text, value->size);
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double result = plain ? strtod_l(text, NULL, plain) : strtod(text, NULL);
    if (plain) freelocale(plain);
    return result;
}

/* Writes a number or boolean of a file as an element of dtype; false where dtype cannot hold it. */
static bool element_of(const Json *value, jg_dtype dtype, uint8_t *element) {
    size_t size = DTYPES[dtype].size;
    if (value->kind != ABOOL && value->kind != AN_INT && value->kind != A_FLOAT) return false;
    if (value->size > MAX_NUMBER) return false;
    if (DTYPES[dtype].family == FLOATING) {
        double wide = json_double(value);
        float single = (float)wide;
        uint16_t half = dtype == JG_FLOAT16 ? half_bits(wide) : bfloat16_bits(single);
        memcpy(element, size == 8 ? (void *)&wide : size == 4 ? (void *)&single : (void *)&half, size);
        return true;
    }
    if (value->kind == A_FLOAT || (dtype == JG_BOOL && value->kind != ABOOL)) return false;
    int bits = (int)size * 8;
    int64_t high = value->wide ? -2 : DTYPES[dtype].family == SIGNED ? value->integer >> (bits - 1)
                   : bits == 64 ? -(value->integer < 0) : value->integer >> bits;
    if (high != 0 && !(high == -1 && DTYPES[dtype].family == SIGNED)) return false;
    memcpy(element, &value->integer, size);
    return true;
}

/* --- size expressions -------------------------------------------------------------------------------------------- */

enum { MAX_EXPRESSION = 4096, MAX_NESTING = 64, EXPRESSION_STACK = 256 };

/* A size such as "(n + 1)//2", or a comparison of two, in postfix order. */
typedef enum Opcode { NUMBER, NAME, NEGATE, ADD, SUBTRACT, MULTIPLY, DIVIDE, MODULO, EQ, NE, LT, LE, GT, GE } Opcode;

typedef struct Step {
    Opcode opcode;
    int64_t value; /* a number, or the place of a name among the dims */
} Step;

typedef struct Expression {
    const char *text;
    Step *steps;
    size_t count; /* 0: no expression */
} Expression;

typedef struct SizeParser {
    const char *at;
    const Index *dims; /* their items lie in one array of texts */
    const char *const *dim_names;
    const char *unknown; /* the first unknown name */
    int unknown_size;
    int nesting, stack;
    size_t count;
    Step steps[MAX_EXPRESSION + 1];
} SizeParser;

static bool emit(SizeParser *p, Opcode opcode, int64_t value) {
    p->stack += opcode <= NAME ? 1 : opcode == NEGATE ? 0 : -1;
    if (p->stack > EXPRESSION_STACK) return false;
    p->steps[p->count++] = (Step){opcode, value}; /* no step without a character of its own */
    return true;
}

static bool parse_sum(SizeParser *p);

static char next_character(SizeParser *p) {
    while (*p->at == ' ' || *p->at == '\t') p->at++;
    return *p->at;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static size_t name_size(const char *text) {
    size_t size = 0;
    if (is_letter(*text))
        while (is_letter(text[size]) || is_digit(text[size])) size++;
    return size;
}

static bool parse_atom(SizeParser *p) {
    char c = next_character(p);
    if (is_digit(c)) {
        int64_t value = 0;
        const char *start = p->at;
        for (; is_digit(*p->at); p->at++)
            if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *p->at - '0', &value))
                return false;
        return !(c == '0' && p->at > start + 1) && !is_letter(*p->at) && emit(p, NUMBER, value);
    }
    if (c == '(') {
        p->at++;
        if (++p->nesting > MAX_NESTING || !parse_sum(p) || next_character(p) != ')') return false;
        p->nesting--;
        p->at++;
        return true;
    }
    size_t size = name_size(p->at);
    if (size == 0) return false;
    const char *const *dim = find_sized(p->dims, p->at, size);
    if (!dim && !p->unknown) {
        p->unknown = p->at;
        p->unknown_size = (int)size;
    }
    p->at += size;
    return emit(p, NAME, dim ? dim - p->dim_names : 0);
}

static bool parse_factor(SizeParser *p) {
    if (next_character(p) != '-') return parse_atom(p);
    p->at++;
    if (++p->nesting > MAX_NESTING || !parse_factor(p)) return false;
    p->nesting--;
    return emit(p, NEGATE, 0);
}

static bool parse_term(SizeParser *p) {
    if (!parse_factor(p)) return false;
    for (;;) {
        char c = next_character(p);
        Opcode opcode = c == '*' ? MULTIPLY : c == '%' ? MODULO : c == '/' && p->at[1] == '/' ? DIVIDE : NUMBER;
        if (opcode == NUMBER) return true;
        p->at += opcode == DIVIDE ? 2 : 1;
        if (!parse_factor(p) || !emit(p, opcode, 0)) return false;
    }
}

static bool parse_sum(SizeParser *p) {
    if (!parse_term(p)) return false;
    for (;;) {
        char c = next_character(p);
        if (c != '+' && c != '-') return true;
        p->at++;
        if (!parse_term(p) || !emit(p, c == '+' ? ADD : SUBTRACT, 0)) return false;
    }
}

static bool parse_comparison(SizeParser *p) {
    static const struct {
        const char *text;
        Opcode opcode;
    } relations[] = {{"==", EQ}, {"!=", NE}, {"<=", LE}, {">=", GE}, {"<", LT}, {">", GT}};
    if (!parse_sum(p)) return false;
    next_character(p);
    for (size_t i = 0; i < sizeof relations / sizeof *relations; i++) {
        size_t size = strlen(relations[i].text);
        if (strncmp(p->at, relations[i].text, size) != 0) continue;
        p->at += size;
        return parse_sum(p) && emit(p, relations[i].opcode, 0);
    }
    return false;
}

/* Compiles text, which stays where it is; only the given dims may stand in it. */
static Expression compile_expression(Loading *l, const char *text, bool constraint, const Index *dims,
                                     const char *const *dim_names, const char *where) {
    size_t size = strlen(text);
    if (size > MAX_EXPRESSION) refuse(l, "a size of %zu characters; at most %d are allowed", size, MAX_EXPRESSION);
    if (!l->sizes) l->sizes = make(l, &l->scratch, 1, sizeof *l->sizes);
    SizeParser *p = l->sizes;
    p->at = text;
    p->dims = dims;
    p->dim_names = dim_names;
    p->unknown = NULL;
    p->nesting = p->stack = 0;
    p->count = 0;
    if (!(constraint ? parse_comparison(p) : parse_sum(p)) || next_character(p) != '\0')
        refuse(l, constraint ? "'%.80s' is not a constraint; expected one comparison of sizes, such as 'a == b'"
                             : "'%.80s' is not a size: only names, ints and + - * // %% may stand in one", text);
    if (p->unknown)
        refuse(l, "%s: '%.80s' uses the unknown dims '%.*s'", where, text, p->unknown_size, p->unknown);
    Step *steps = make(l, l->kept, p->count, sizeof *steps);
    return (Expression){text, memcpy(steps, p->steps, p->count * sizeof *steps), p->count};
}

/* Python's // and %: towards minus infinity, the remainder with the divisor's sign. b is not 0. */
static bool divided(int64_t a, int64_t b, bool modulo, int64_t *result) {
    if (b == -1) return modulo ? (*result = 0, true) : !__builtin_sub_overflow((int64_t)0, a, result);
    int64_t quotient = a / b, rest = a % b;
    bool adjust = rest != 0 && (rest < 0) != (b < 0);
    *result = modulo ? rest + (adjust ? b : 0) : quotient - adjust;
    return true;
}

static bool apply(Opcode opcode, int64_t a, int64_t b, int64_t *result) {
    switch (opcode) {
        case ADD: return !__builtin_add_overflow(a, b, result);
        case SUBTRACT: return !__builtin_sub_overflow(a, b, result);
        case MULTIPLY: return !__builtin_mul_overflow(a, b, result);
        case DIVIDE: return divided(a, b, false, result);
        case MODULO: return divided(a, b, true, result);
        case EQ: *result = a == b; return true;
        case NE: *result = a != b; return true;
        case LT: *result = a < b; return true;
        case LE: *result = a <= b; return true;
        case GT: *result = a > b; return true;
        default: *result = a >= b; return true;
    }
}

/* The value for these sizes, 1 or 0 for a comparison; an error where it leaves 64 bits or divides by zero. */
static bool evaluate(const Expression *expression, const int64_t *dims, int64_t *value, jg_error *error) {
    int64_t stack[EXPRESSION_STACK];
    int top = 0;
    for (size_t i = 0; i < expression->count; i++) {
        Step step = expression->steps[i];
        if (step.opcode <= NAME) {
            stack[top++] = step.opcode == NUMBER ? step.value : dims[step.value];
            continue;
        }
        bool unary = step.opcode == NEGATE; /* 0 - x */
        int64_t a = unary ? 0 : stack[top - 2], b = stack[top - 1];
        if (!unary) top--;
        if ((step.opcode == DIVIDE || step.opcode == MODULO) && b == 0)
            return fail(error, JG_BAD_ARGUMENT, "the size '%.80s' divides by zero", expression->text);
        if (!apply(unary ? SUBTRACT : step.opcode, a, b, &stack[top - 1]))
            return fail(error, JG_BAD_ARGUMENT, "the size '%.80s' leaves 64 bits; use smaller arguments",
                        expression->text);
    }
    *value = stack[0];
    return true;
}

/* --- signatures -------------------------------------------------------------------------------------------------- */

enum { WHERE_SIZE = 160, NONE = -1 };

typedef struct Spec {
    jg_spec shown;
    Expression *expressions; /* one for each size; empty where the size is a number */
    int64_t *bare; /* for each size the place of the dim that it is, or NONE */
    _Alignas(8) uint8_t fill[8]; /* the default */
    size_t tensor; /* of state: its place among the model's tensors */
} Spec;

typedef struct Check {
    const char *message, *kind, *location;
} Check;

typedef enum Style { ARRAY_STYLE, TENSOR_STYLE, LEAF_STYLE, NUMBER_STYLE, STYLE_COUNT } Style;
static const char *const STYLES[] = {"array", "tensor", "leaf", "number"};

typedef struct Operand { /* of a print */
    Spec spec;
    Style style;
    const char *conversion, *form;
} Operand;

typedef struct Print { /* texts before, between and behind the operands */
    const char **texts;
    Operand *operands;
    size_t operand_count;
    bool errors, flush; /* to standard error */
} Print;

static const char *const CHECK_KINDS[] = {
    "ArithmeticError", "AssertionError", "FloatingPointError", "IndexError", "OverflowError",
    "RuntimeError", "TypeError", "UnboundLocalError", "ValueError", "ZeroDivisionError",
};

typedef struct Tensor { /* of the weights */
    const char *key;
    jg_dtype dtype;
    int32_t rank;
    const int64_t *shape;
    size_t bytes;
    const void *data; /* in the file, or one of own */
    void *own[2]; /* a run that writes the state fills the one that is not in use */
} Tensor;

typedef struct Record Record;

typedef struct Entry {
    const char *name, *title; /* in the file, in messages */
    Spec *parameters; /* the inputs, then the state */
    Spec *outputs;
    size_t input_count, state_count, parameter_count, output_count;
    int64_t *written; /* for each output the place of the state that it replaces, or NONE */
    size_t *shown; /* the outputs that the caller gets */
    size_t shown_count, write_count;
    const char **dims;
    size_t dim_count;
    Expression *constraints;
    size_t constraint_count;
    Check *checks;
    size_t check_count;
    Print *prints;
    size_t print_count;
    uint8_t *image; /* mapped for execution */
    size_t image_bytes;
    EntryFunction *run;
    ArenaFunction *arena_bytes;
    WorkerFunction *worker;
    Record *free_records;
} Entry;

/* "x: float32[batch, 4]" */
static const char *described(const jg_spec *spec, char text[WHERE_SIZE]) {
    int used = snprintf(text, WHERE_SIZE, "%.60s: %s[", spec->name, DTYPES[spec->dtype].name);
    for (int32_t i = 0; i < spec->rank && used < WHERE_SIZE; i++)
        used += snprintf(text + used, (size_t)(WHERE_SIZE - used), "%s%s", i ? ", " : "", spec->texts[i]);
    if (used < WHERE_SIZE) snprintf(text + used, (size_t)(WHERE_SIZE - used), "]");
    return text;
}

/* "float32[2, 4]" */
static const char *shape_text(jg_dtype dtype, int32_t rank, const int64_t *shape, char text[WHERE_SIZE]) {
    int used = snprintf(text, WHERE_SIZE, "%s[", DTYPES[dtype].name);
    for (int32_t i = 0; i < rank && used < WHERE_SIZE; i++)
        used += snprintf(text + used, (size_t)(WHERE_SIZE - used), "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (used < WHERE_SIZE) snprintf(text + used, (size_t)(WHERE_SIZE - used), "]");
    return text;
}

static int64_t read_size(Loading *l, const Json *size, const Index *dims, const Entry *entry, Spec *spec, int32_t axis,
                         const char **text, const char *where) {
    spec->bare[axis] = NONE;
    if (size->kind != A_TEXT && size->kind != AN_INT)
        refuse(l, "%s: %s is no size of '%.60s'; expected an integer or a string", where, KIND_NAMES[size->kind],
               spec->shown.name);
    *text = keep_text(l, size->text, size->size, where);
    if (size->kind == AN_INT) {
        if (size->wide || size->integer < 0)
            refuse(l, "%s: '%.60s' has the size %.40s", where, spec->shown.name, *text);
        return size->integer;
    }
    const char **dim = find(dims, *text);
    if (dim) spec->bare[axis] = dim - entry->dims;
    spec->expressions[axis] = compile_expression(l, *text, false, dims, entry->dims, where);
    return -1;
}

static void read_spec(Loading *l, const Json *source, const Index *dims, const Entry *entry, Spec *spec,
                      const char *where) {
    const Json *shape = get(l, source, "shape", A_LIST, where);
    const char *name = get_text(l, source, "name", where), *dtype = get_text(l, source, "dtype", where);
    size_t rank = shape->count;
    int code = dtype_named(dtype, false);
    if (code < 0) refuse(l, "%s: dtype '%.40s' is not supported", where, dtype);
    if (rank > JG_MAX_RANK)
        refuse(l, "%s: '%.60s' has rank %zu, at most %d is possible", where, name, rank, JG_MAX_RANK);
    const char **texts = make(l, l->kept, rank, sizeof *texts);
    int64_t *sizes = make(l, l->kept, rank, sizeof *sizes);
    spec->shown = (jg_spec){name, (jg_dtype)code, (int32_t)rank, sizes, texts, false};
    spec->expressions = make(l, l->kept, rank, sizeof *spec->expressions);
    spec->bare = make(l, l->kept, rank, sizeof *spec->bare);
    int32_t axis = 0;
    for (const Json *size = shape->first; size; size = size->next, axis++)
        sizes[axis] = read_size(l, size, dims, entry, spec, axis, &texts[axis], where);
    const Json *fill = find(&source->index, "default");
    if (!fill) return;
    if (rank > 0) refuse(l, "%s: '%.60s' has a default but is not 0-d", where, name);
    if (!element_of(fill, spec->shown.dtype, spec->fill))
        refuse(l, "%s: '%.60s' has a default that %s cannot hold", where, name, dtype);
    spec->shown.has_default = true;
}

static Spec *read_specs(Loading *l, const Json *source, const char *key, const Index *dims, const Entry *entry,
                        Spec *specs, const char *where) {
    for (const Json *child = get(l, source, key, A_LIST, where)->first; child; child = child->next, specs++) {
        char place[WHERE_SIZE + 40];
        snprintf(place, sizeof place, "%s, one of the %s", where, key);
        read_spec(l, child, dims, entry, specs, place);
    }
    return specs;
}

/* A list of texts, in the model's memory. */
static const char **read_texts(Loading *l, const Json *source, const char *key, size_t *count, const char *where) {
    const Json *list = get(l, source, key, A_LIST, where);
    const char **texts = make(l, l->kept, list->count, sizeof *texts);
    for (const Json *child = list->first; child; child = child->next) {
        if (child->kind != A_TEXT) refuse(l, "%s: '%s' holds %s, not a string", where, key, KIND_NAMES[child->kind]);
        texts[(*count)++] = keep_text(l, child->text, child->size, where);
    }
    return texts;
}

/* An index of texts, which must differ. */
static Index index_texts(Loading *l, const char **texts, size_t count, const char *what, const char *where) {
    Index index = {make(l, &l->scratch, count, sizeof(Named)), count};
    for (size_t i = 0; i < count; i++) index.items[i] = (Named){texts[i], strlen(texts[i]), &texts[i]};
    const char *twice = sort_index(&index);
    if (twice) refuse(l, "%s: the %s are not distinct: '%.60s'", where, what, twice);
    return index;
}

static Index read_dims(Loading *l, const Json *source, Entry *entry, const char *where) {
    entry->dims = read_texts(l, source, "dims", &entry->dim_count, where);
    for (size_t i = 0; i < entry->dim_count; i++)
        if (name_size(entry->dims[i]) == 0 || entry->dims[i][name_size(entry->dims[i])])
            refuse(l, "%s: the dims are not distinct identifiers: '%.60s'", where, entry->dims[i]);
    return index_texts(l, entry->dims, entry->dim_count, "dims", where);
}

/* The tensor of the weights that a state stands for; it must have the dtype and the sizes that the state says. */
static void find_state(Loading *l, Spec *spec, const char *key, const Tensor *tensors, const Index *index,
                       const char *where) {
    char wanted[WHERE_SIZE], got[WHERE_SIZE];
    const jg_spec *shown = &spec->shown;
    const Tensor *tensor = find(index, key);
    if (!tensor)
        refuse(l, "%s: the state %s is missing from " WEIGHTS " under '%.60s'; " AGAIN, where,
               described(shown, wanted), key);
    spec->tensor = (size_t)(tensor - tensors);
    bool fits = tensor->dtype == shown->dtype && tensor->rank == shown->rank;
    for (int32_t i = 0; fits && i < shown->rank; i++)
        fits = shown->sizes[i] < 0 || shown->sizes[i] == tensor->shape[i];
    if (!fits)
        refuse(l, "%s: the state %s is %s in " WEIGHTS "; " AGAIN, where, described(shown, wanted),
               shape_text(tensor->dtype, tensor->rank, tensor->shape, got));
}

/* Inputs, state and outputs; the names of the inputs differ, and so do the keys of the state. */
static void read_tensors(Loading *l, const Json *source, Entry *entry, const Index *dims, const Tensor *tensors,
                         const Index *index, const char *where) {
    const Json *state = get(l, source, "state", A_LIST, where);
    entry->input_count = get(l, source, "inputs", A_LIST, where)->count;
    entry->state_count = state->count;
    entry->parameter_count = entry->input_count + entry->state_count;
    entry->output_count = get(l, source, "outputs", A_LIST, where)->count;
    entry->parameters = make(l, l->kept, entry->parameter_count, sizeof(Spec));
    entry->outputs = make(l, l->kept, entry->output_count, sizeof(Spec));
    const char **texts = make(l, &l->scratch, entry->parameter_count, sizeof *texts);
    Spec *kept = read_specs(l, source, "inputs", dims, entry, entry->parameters, where);
    read_specs(l, source, "state", dims, entry, kept, where);
    read_specs(l, source, "outputs", dims, entry, entry->outputs, where);
    for (size_t i = 0; i < entry->input_count; i++) texts[i] = entry->parameters[i].shown.name;
    index_texts(l, texts, entry->input_count, "names of inputs", where);
    const Json *child = state->first;
    for (size_t i = 0; i < entry->state_count; i++, child = child->next) {
        texts[i] = get_text(l, child, "key", where);
        find_state(l, &kept[i], texts[i], tensors, index, where);
    }
    index_texts(l, texts, entry->state_count, "keys of the state", where);
}

/* Every dim must be the bare size of some parameter, so that a call tells it. */
static void verify_dims(Loading *l, const Entry *entry, const char *where) {
    bool *bound = make(l, &l->scratch, entry->dim_count, sizeof *bound);
    for (size_t i = 0; i < entry->parameter_count; i++)
        for (int32_t axis = 0; axis < entry->parameters[i].shown.rank; axis++)
            if (entry->parameters[i].bare[axis] != NONE) bound[entry->parameters[i].bare[axis]] = true;
    for (size_t i = 0; i < entry->dim_count; i++)
        if (!bound[i])
            refuse(l, "%s: no input has the bare size '%.60s', so it cannot be known at a call", where, entry->dims[i]);
}

static void read_checks(Loading *l, const Json *source, Entry *entry, const char *where) {
    const Json *list = get(l, source, "checks", A_LIST, where);
    entry->checks = make(l, l->kept, list->count, sizeof *entry->checks);
    for (const Json *child = list->first; child; child = child->next) {
        Check *check = &entry->checks[entry->check_count++];
        const char *kind = get_text(l, child, "kind", where);
        check->message = get_text(l, child, "message", where);
        check->location = get_text(l, child, "location", where);
        for (size_t i = 0; i < sizeof CHECK_KINDS / sizeof *CHECK_KINDS; i++)
            if (strcmp(kind, CHECK_KINDS[i]) == 0) check->kind = CHECK_KINDS[i];
        if (!check->kind) refuse(l, "%s: a check raises '%.40s'", where, kind);
    }
}

enum { MAX_FORM = 64 };

static void read_operand(Loading *l, const Json *source, const Index *dims, const Entry *entry, Operand *operand,
                         const char *where) {
    read_spec(l, source, dims, entry, &operand->spec, where);
    const char *style = get_text(l, source, "style", where);
    operand->conversion = get_text(l, source, "conversion", where);
    operand->form = get_text(l, source, "form", where);
    operand->style = STYLE_COUNT;
    for (int i = 0; i < STYLE_COUNT; i++)
        if (strcmp(style, STYLES[i]) == 0) operand->style = (Style)i;
    bool converted = strcmp(operand->conversion, "r") == 0 || strcmp(operand->conversion, "s") == 0;
    if (operand->style == STYLE_COUNT || (*operand->conversion && !converted))
        refuse(l, "%s: the style '%.40s' or conversion '%.40s' is not known", where, style, operand->conversion);
    bool array = operand->spec.shown.rank > 0, whole = *operand->form && !converted;
    if (strlen(operand->form) > MAX_FORM || (array && (whole || operand->style == NUMBER_STYLE)))
        refuse(l, "%s: the format '%.80s' of a tensor of rank %d", where, operand->form, operand->spec.shown.rank);
}

static void read_prints(Loading *l, const Json *source, Entry *entry, const Index *dims, const char *where) {
    const Json *list = get(l, source, "prints", A_LIST, where);
    entry->prints = make(l, l->kept, list->count, sizeof *entry->prints);
    for (const Json *child = list->first; child; child = child->next) {
        Print *print = &entry->prints[entry->print_count++];
        size_t texts = 0;
        print->texts = read_texts(l, child, "texts", &texts, where);
        const Json *operands = get(l, child, "operands", A_LIST, where);
        const char *stream = get_text(l, child, "stream", where);
        print->flush = get(l, child, "flush", ABOOL, where)->integer != 0;
        print->errors = strcmp(stream, "stderr") == 0;
        get_text(l, child, "location", where);
        if (texts != operands->count + 1 || (!print->errors && strcmp(stream, "stdout") != 0))
            refuse(l, "%s: %zu texts around %zu operands to '%.40s'", where, texts, operands->count, stream);
        print->operands = make(l, l->kept, operands->count, sizeof *print->operands);
        for (const Json *operand = operands->first; operand; operand = operand->next)
            read_operand(l, operand, dims, entry, &print->operands[print->operand_count++], where);
    }
}

static bool same_type(const Spec *a, const Spec *b) {
    bool same = a->shown.dtype == b->shown.dtype && a->shown.rank == b->shown.rank;
    for (int32_t i = 0; same && i < a->shown.rank; i++)
        same = a->shown.sizes[i] == b->shown.sizes[i] && strcmp(a->shown.texts[i], b->shown.texts[i]) == 0;
    return same;
}

/* Pairs (output, parameter) of one type, each at most once: the parameter of each output, or NONE. */
static int64_t *read_pairs(Loading *l, const Json *source, const char *key, const Entry *entry, const Spec *right,
                           size_t right_count, const char *where) {
    int64_t *found = make(l, l->kept, entry->output_count, sizeof *found);
    bool *taken = make(l, &l->scratch, right_count, sizeof *taken);
    for (size_t i = 0; i < entry->output_count; i++) found[i] = NONE;
    for (const Json *pair = get(l, source, key, A_LIST, where)->first; pair; pair = pair->next) {
        const Json *a = pair->first, *b = a ? a->next : NULL;
        bool ints = pair->kind == A_LIST && pair->count == 2 && a->kind == AN_INT && b->kind == AN_INT;
        if (!ints || a->wide || b->wide)
            refuse(l, "%s: '%s' holds something else, expected pairs of ints", where, key);
        if (!within((uint64_t)a->integer, 1, entry->output_count) || !within((uint64_t)b->integer, 1, right_count))
            refuse(l, "%s: %s: the pair (%lld, %lld) is out of range", where, key, (long long)a->integer,
                   (long long)b->integer);
        if (found[a->integer] != NONE || taken[b->integer])
            refuse(l, "%s: %s: an index appears twice", where, key);
        const Spec *output = &entry->outputs[a->integer], *parameter = &right[b->integer];
        char one[WHERE_SIZE], other[WHERE_SIZE];
        if (!same_type(output, parameter))
            refuse(l, "%s: %s: %s cannot share memory with or be written to %s", where, key,
                   described(&output->shown, one), described(&parameter->shown, other));
        found[a->integer] = b->integer;
        taken[b->integer] = true;
    }
    return found;
}

/* The structure of the result is for Python alone, but a malformed one means a malformed file. */
static void verify_structure(Loading *l, const Json *part, size_t outputs, int depth, const char *where) {
    if (depth > 64) refuse(l, "%s: the structure of the result is nested deeper than 64", where);
    if (part->kind == ANULL) return;
    if (part->kind == AN_INT && !part->wide && within((uint64_t)part->integer, 1, outputs)) return;
    const Json *inner = part->kind == AN_OBJECT && part->count == 1 ? part->first : NULL;
    const char *word = inner ? inner->key : "";
    if (strcmp(word, "value") == 0 && inner->kind >= ABOOL && inner->kind <= A_TEXT) return;
    bool list = (strcmp(word, "tuple") == 0 || strcmp(word, "list") == 0) && inner->kind == A_LIST;
    if (!list && !(strcmp(word, "dict") == 0 && inner->kind == AN_OBJECT))
        refuse(l, "%s: %s is no structure of a result", where, KIND_NAMES[part->kind]);
    for (const Json *child = inner->first; child; child = child->next)
        verify_structure(l, child, outputs, depth + 1, where);
}

static void read_signature(Loading *l, const Json *source, Entry *entry, const Tensor *tensors, const Index *index,
                           const char *where) {
    entry->title = get_text(l, source, "name", where);
    Index dims = read_dims(l, source, entry, where);
    read_tensors(l, source, entry, &dims, tensors, index, where);
    verify_dims(l, entry, where);
    const char **texts = read_texts(l, source, "constraints", &entry->constraint_count, where);
    entry->constraints = make(l, l->kept, entry->constraint_count, sizeof(Expression));
    for (size_t i = 0; i < entry->constraint_count; i++)
        entry->constraints[i] = compile_expression(l, texts[i], true, &dims, entry->dims, where);
    read_checks(l, source, entry, where);
    read_prints(l, source, entry, &dims, where);
    const Spec *state = entry->parameters + entry->input_count;
    entry->written = read_pairs(l, source, "writes", entry, state, entry->state_count, where);
    read_pairs(l, source, "aliases", entry, entry->parameters, entry->parameter_count, where); /* for checks alone */
    entry->shown = make(l, l->kept, entry->output_count, sizeof *entry->shown);
    for (size_t i = 0; i < entry->output_count; i++)
        if (entry->written[i] == NONE) entry->shown[entry->shown_count++] = i;
    entry->write_count = entry->output_count - entry->shown_count;
    const Json *structure = find(&source->index, "structure");
    if (structure) verify_structure(l, structure, entry->output_count, 0, where);
}

/* --- the zip ----------------------------------------------------------------------------------------------------- */

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
    if (version != 1)
        refuse(l, "format version %lld is unknown to this loader, which reads 1", (long long)version);
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

/* --- the weights ------------------------------------------------------------------------------------------------- */

typedef struct Span {
    uint64_t begin, end;
    const char *name;
} Span;

static int compare_spans(const void *a, const void *b) {
    const Span *left = a, *right = b;
    if (left->begin != right->begin) return left->begin < right->begin ? -1 : 1;
    return (left->end > right->end) - (left->end < right->end);
}

/* The numbers of a list, each at least 0; false where something else stands there. */
static bool read_numbers(const Json *list, int64_t *numbers) {
    for (const Json *child = list->first; child; child = child->next) {
        if (child->kind != AN_INT || child->wide || child->integer < 0) return false;
        *numbers++ = child->integer;
    }
    return true;
}

/* One tensor of the header over the data behind it, copied where it is not aligned to its element. */
static Span read_tensor(Loading *l, const Json *source, Bytes data, Tensor *tensor) {
    char where[WHERE_SIZE], shown[WHERE_SIZE];
    snprintf(where, sizeof where, WEIGHTS ", tensor '%.60s'", source->key);
    const char *code = get_text(l, source, "dtype", where);
    const Json *shape = get(l, source, "shape", A_LIST, where);
    const Json *offsets = get(l, source, "data_offsets", A_LIST, where);
    int dtype = dtype_named(code, true);
    if (dtype < 0) refuse(l, "%s: dtype '%.20s' is not supported", where, code);
    int64_t *sizes = make(l, l->kept, shape->count, sizeof *sizes), range[2];
    bool few = offsets->count == 2 && shape->count <= JG_MAX_RANK;
    if (!few || !read_numbers(shape, sizes) || !read_numbers(offsets, range))
        refuse(l, "%s: shape or offsets are not sizes", where);
    tensor->key = keep_text(l, source->key, source->key_size, where);
    tensor->dtype = (jg_dtype)dtype;
    tensor->rank = (int32_t)shape->count;
    tensor->shape = sizes;
    Span span = {(uint64_t)range[0], (uint64_t)range[1], tensor->key};
    bool fits = span.begin <= span.end && span.end <= data.size &&
                byte_count(sizes, tensor->rank, tensor->dtype, &tensor->bytes);
    if (!fits || span.end - span.begin != tensor->bytes)
        refuse(l, "%s: bytes %llu to %llu of %zu do not hold %s; " AGAIN, where, (Long)span.begin, (Long)span.end,
               data.size, shape_text(tensor->dtype, tensor->rank, sizes, shown));
    tensor->data = data.data + span.begin;
    if (tensor->dtype == JG_BOOL && !are_bools(tensor->data, tensor->bytes))
        refuse(l, "%s: a bool that is neither 0 nor 1; " AGAIN, where);
    if ((uintptr_t)tensor->data % DTYPES[dtype].size != 0) {
        if (!(tensor->own[0] = aligned_memory(tensor->bytes))) no_memory(l, tensor->bytes);
        tensor->data = memcpy(tensor->own[0], tensor->data, tensor->bytes);
    }
    return span;
}

/* safetensors: 8 bytes of header length, a JSON header, the tensors without a gap between them. */
static void read_weights(Loading *l, Bytes bytes, Tensor **tensors, size_t *count, Index *index) {
    if (bytes.size < 8) refuse(l, WEIGHTS " has %zu bytes, less than its header's length field", bytes.size);
    uint64_t size = u64_at(bytes.data), reached = 0;
    if (size > bytes.size - 8)
        refuse(l, WEIGHTS " says its header has %llu bytes, but the file has %zu; " AGAIN, (Long)size, bytes.size);
    const Json *header = parse_json(l, (Bytes){bytes.data + 8, size}, "the header of " WEIGHTS);
    Bytes data = {bytes.data + 8 + size, bytes.size - 8 - size};
    Span *spans = make(l, &l->scratch, header->count, sizeof *spans);
    *tensors = make(l, l->kept, header->count, sizeof **tensors);
    index->items = make(l, l->kept, header->count, sizeof(Named));
    for (const Json *child = header->first; child; child = child->next) {
        if (strcmp(child->key, "__metadata__") == 0) continue;
        Tensor *tensor = &(*tensors)[(*count)++]; /* counted first, so that what it owns is freed */
        spans[index->count] = read_tensor(l, child, data, tensor);
        index->items[index->count++] = (Named){tensor->key, strlen(tensor->key), tensor};
    }
    sort_index(index);
    qsort(spans, *count, sizeof *spans, compare_spans);
    for (size_t i = 0; i < *count; reached = spans[i++].end)
        if (spans[i].begin != reached)
            refuse(l, WEIGHTS ": tensor '%.60s' begins at %llu, where %llu is due; " AGAIN, spans[i].name,
                   (Long)spans[i].begin, (Long)reached);
    if (reached != data.size)
        refuse(l, WEIGHTS " has %zu bytes of data, its tensors %llu; " AGAIN, data.size, (Long)reached);
}

/* --- the flat image ---------------------------------------------------------------------------------------------- */

enum { IMAGE_HEADER = 64, MAX_IMAGE = 1 << 30 };

#if defined(__x86_64__)
enum { MACHINE = 62 }; /* ELF's e_machine */
#else
enum { MACHINE = 0 };
#endif

/* Checks the header, laid out as loader.ImageHeader says; gives the offsets of the four exports, 0 where absent. */
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

/* --- the processor's level --------------------------------------------------------------------------------------- */

enum { LEVELS = 3 };
static const char *const LEVEL_NAMES[LEVELS] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};

/* How many of the levels of the x86-64 psABI this machine and its system run. */
static int cpu_levels(void) {
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c1 = 0, d = 0, b7 = 0, c = 0, c_extended = 0;
    if (!__get_cpuid(1, &a, &b, &c1, &d) || !__get_cpuid(0x80000001, &a, &b, &c_extended, &d)) return 0;
    const unsigned v2 = 1u << 0 | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23; /* SSE3 to 4.2, CX16, POPCNT */
    if ((c1 & v2) != v2 || !(c_extended & 1u)) return 0; /* LAHF */
    const unsigned v3 = 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29; /* FMA, MOVBE, OSXSAVE, AVX, F16C */
    const unsigned v3_leaf7 = 1u << 3 | 1u << 5 | 1u << 8; /* BMI1, AVX2, BMI2 */
    if (!__get_cpuid_count(7, 0, &a, &b7, &c, &d)) return 1;
    if ((c1 & v3) != v3 || (b7 & v3_leaf7) != v3_leaf7 || !(c_extended & 1u << 5)) return 1; /* LZCNT */
    unsigned enabled; /* what the system saves and restores: 2 SSE, 4 AVX, 0xe0 AVX-512 */
    __asm__ volatile("xgetbv" : "=a"(enabled), "=d"(d) : "c"(0));
    if ((enabled & 0x6) != 0x6) return 1;
    const unsigned v4 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; /* AVX-512 F, DQ, CD, BW, VL */
    return (b7 & v4) == v4 && (enabled & 0xe6) == 0xe6 ? 3 : 2;
#else
    return 0;
#endif
}

/* The levels in words, for messages. */
static const char *levels_text(int count, char text[WHERE_SIZE]) {
    int used = snprintf(text, WHERE_SIZE, "%s", count ? "" : "none of the known levels");
    for (int i = count; i-- > 0;)
        used += snprintf(text + used, (size_t)(WHERE_SIZE - used), "%s%s", LEVEL_NAMES[i], i ? ", " : "");
    return text;
}

/* The native code of an entry for the best of this machine's levels, or for JITGRAPH_TARGET_CPU. */
static Bytes choose_image(Loading *l, const Json *source, const Index *members, const char *where,
                          const char **target) {
    char levels[WHERE_SIZE], found[WHERE_SIZE] = "";
    int count = cpu_levels(), chosen = -1, used = 0;
    const Json *native = get(l, source, "native", AN_OBJECT, where);
    const char *asked = getenv("JITGRAPH_TARGET_CPU");
    if (asked && !*asked) asked = NULL;
    for (int i = 0; i < count; i++)
        if (asked ? strcmp(asked, LEVEL_NAMES[i]) == 0 : find(&native->index, LEVEL_NAMES[i]) != NULL) chosen = i;
    levels_text(count, levels);
    if (asked && chosen < 0) refuse(l, "this machine does not run '%.60s'; it runs %s", asked, levels);
    for (const Json *child = native->first; child && used < WHERE_SIZE; child = child->next)
        used += snprintf(found + used, (size_t)(WHERE_SIZE - used), "%s%s", used ? ", " : "", child->key);
    if (chosen < 0 || !find(&native->index, LEVEL_NAMES[chosen]))
        refuse(l, "%s has native code for %s, but this machine runs %s; save the model again for one of these", where,
               native->count ? found : "no target", levels);
    *target = LEVEL_NAMES[chosen];
    return member_named(l, members, get(l, native, *target, A_TEXT, where)->text)->bytes;
}

/* --- the model --------------------------------------------------------------------------------------------------- */

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
    const char *target, *metadata;
    jg_host host, serial; /* with the pool and without */
    WorkerFunction *worker;
    pthread_t *threads;
    size_t thread_count;
    pid_t owner; /* the process that has the threads */
    pthread_rwlock_t state_lock; /* tensors' data and own */
    pthread_mutex_t records_lock; /* entries' free_records */
};

/* --- threads ----------------------------------------------------------------------------------------------------- */

/* Threads to use, the caller included. */
static size_t wanted_threads(Loading *l) {
    const char *text = getenv("JITGRAPH_NUM_THREADS");
    if (text) text += strspn(text, " \t\n");
    if (text && *text) {
        char *end = NULL;
        long count = is_digit(*text) ? strtol(text, &end, 10) : 0;
        if (count < 1 || count > 4096 || end[strspn(end, " \t\n")])
            refuse(l, "JITGRAPH_NUM_THREADS='%.40s' is not a number from 1 to 4096", text);
        return (size_t)count;
    }
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return (size_t)CPU_COUNT(&allowed);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (size_t)online : 1;
}

static void *work(void *argument) {
    jg_model *model = argument;
    model->worker(model->host.pool);
    return NULL;
}

/* Starts the pool where some entry has parallel loops. With fewer threads than wanted, those that start do the work. */
static void start_pool(Loading *l, jg_model *model) {
    size_t wanted = wanted_threads(l);
    for (size_t i = 0; i < model->entry_count && !model->worker; i++) model->worker = model->entries[i].worker;
    if (!model->worker || wanted == 1) return;
    model->threads = make(l, l->kept, wanted, sizeof *model->threads);
    jg_pool *pool = aligned_memory(sizeof *pool);
    if (!pool) no_memory(l, sizeof *pool);
    memset(pool, 0, sizeof *pool);
    pool->syscall = syscall;
    pool->failure = UINT64_MAX;
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

/* --- the file ---------------------------------------------------------------------------------------------------- */

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
    const Json *signature = get(l, source, "signature", AN_OBJECT, where);
    read_signature(l, signature, entry, model->tensors, &model->tensor_index, where);
    map_image(l, choose_image(l, source, members, where, &model->target), entry);
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
    sort_index(&model->entry_index);
    model->main = find(&model->entry_index, "forward");
    if (!model->main) model->main = model->entries;
}

static int32_t print_site(const jg_host *host, jg_call *call);

/* Where refuse comes out. */
static bool loaded(Loading *l, const char *path, jg_model *model) {
    if (setjmp(l->out) != 0) return false;
    open_file(l, path, model);
    read_model(l, model);
    start_pool(l, model);
    return true;
}

jg_model *jg_load(const char *path, jg_error *error) {
    jg_error unused;
    Loading l = {.error = cleared(error ? error : &unused)};
    jg_model *model = calloc(1, sizeof *model);
    if (!model || pthread_rwlock_init(&model->state_lock, NULL) != 0) {
        free(model);
        out_of_memory(l.error, sizeof *model);
        return NULL;
    }
    pthread_mutex_init(&model->records_lock, NULL); /* of the default kind it cannot fail */
    model->serial = (jg_host){.abi_version = ABI_VERSION, .alloc = malloc, .free = free, .syscall = syscall,
                              .print = print_site};
    model->host = model->serial;
    l.kept = &model->store;
    bool good = loaded(&l, path, model);
    release(&l.scratch);
    if (good) return model;
    jg_error inner = *l.error;
    fail(l.error, inner.status, "%s: %s", path, inner.message);
    jg_close(model);
    return NULL;
}

/* --- calls ------------------------------------------------------------------------------------------------------- */

typedef struct View { /* an argument or a state tensor */
    const void *data;
    jg_dtype dtype;
    int32_t rank;
    const int64_t *shape;
} View;

typedef struct Result {
    int64_t shape[JG_MAX_RANK];
    size_t bytes;
    void *memory;
    bool fresh; /* allocated for the running call; false between calls */
} Result;

/* Everything that one running call needs; kept for the next one. */
struct Record {
    jg_call call; /* first, so that a print finds the rest */
    Record *next;
    const Entry *entry;
    Store store; /* of what follows */
    void *arena;
    size_t arena_size;
    int64_t *dims;
    void **buffers;
    View *views;
    Result *results;
};

static void free_record(Record *record) {
    free(record->arena);
    release(&record->store);
    free(record);
}

static Record *check_out(jg_model *model, Entry *entry, jg_error *error) {
    pthread_mutex_lock(&model->records_lock);
    Record *record = entry->free_records;
    if (record) entry->free_records = record->next;
    pthread_mutex_unlock(&model->records_lock);
    if (record) return record;
    if (!(record = calloc(1, sizeof *record))) {
        out_of_memory(error, sizeof *record);
        return NULL;
    }
    record->entry = entry;
    record->dims = take(&record->store, entry->dim_count, sizeof *record->dims);
    record->buffers = take(&record->store, entry->parameter_count + entry->output_count, sizeof(void *));
    record->views = take(&record->store, entry->parameter_count, sizeof *record->views);
    record->results = take(&record->store, entry->output_count, sizeof *record->results);
    if (record->dims && record->buffers && record->views && record->results) return record;
    free_record(record);
    out_of_memory(error, entry->output_count * sizeof *record->results);
    return NULL;
}

static void check_in(jg_model *model, Entry *entry, Record *record) {
    pthread_mutex_lock(&model->records_lock);
    record->next = entry->free_records;
    entry->free_records = record;
    pthread_mutex_unlock(&model->records_lock);
}

/* The start of a message about a parameter. */
static const char *parameter_text(const Entry *entry, size_t number, char text[WHERE_SIZE]) {
    snprintf(text, WHERE_SIZE, "%.40s, %s %zu (%.60s)", entry->title,
             number < entry->input_count ? "input" : "state", number < entry->input_count ? number :
             number - entry->input_count, entry->parameters[number].shown.name);
    return text;
}

/* " (n is 3 by x.shape[0])": the sizes in an expression, with where they came from. */
static const char *facts(const Entry *entry, const Record *record, const Expression *expression,
                         char text[2 * WHERE_SIZE]) {
    bool told[64] = {false}; /* of the first dims; a text has no room for more */
    int used = 0, size = 2 * WHERE_SIZE;
    text[0] = '\0';
    for (size_t i = 0; i < expression->count; i++) {
        int64_t dim = expression->steps[i].value;
        if (expression->steps[i].opcode != NAME || dim >= 64 || told[dim]) continue;
        told[dim] = true;
        for (size_t p = 0; p < entry->parameter_count; p++) {
            const Spec *spec = &entry->parameters[p];
            int32_t axis = 0;
            while (axis < spec->shown.rank && spec->bare[axis] != dim) axis++;
            if (axis == spec->shown.rank || used >= size) continue;
            const char *before = used ? ", " : " (";
            used += snprintf(text + used, (size_t)(size - used), "%s%.40s is %lld by %.40s.shape[%d]", before,
                             entry->dims[dim], (long long)record->dims[dim], spec->shown.name, axis);
            break;
        }
    }
    if (used && used < size) snprintf(text + used, (size_t)(size - used), ")");
    return text;
}

/* Says why a view cannot stand for the parameter. */
static bool report_view(const Entry *entry, size_t number, const View *view, jg_error *error) {
    char where[WHERE_SIZE], wanted[WHERE_SIZE], got[WHERE_SIZE];
    const jg_spec *spec = &entry->parameters[number].shown;
    parameter_text(entry, number, where);
    described(spec, wanted);
    if (!view->data) return fail(error, JG_BAD_ARGUMENT, "%s: the argument %s is missing", where, wanted);
    if (!is_dtype(view->dtype) || view->rank < 0 || view->rank > JG_MAX_RANK)
        return fail(error, JG_BAD_ARGUMENT, "%s: expected %s, got the dtype %d and the rank %d", where, wanted,
                    (int)view->dtype, view->rank);
    shape_text(view->dtype, view->rank, view->shape, got);
    if (view->dtype != spec->dtype)
        return fail(error, JG_BAD_ARGUMENT, "%s: expected %s, got %s", where, wanted, got);
    if (view->rank != spec->rank)
        return fail(error, JG_BAD_ARGUMENT, "%s: expected %s of rank %d, got the shape of rank %d in %s", where, wanted,
                    spec->rank, view->rank, got);
    size_t bytes, element = DTYPES[view->dtype].size;
    if (!byte_count(view->shape, view->rank, view->dtype, &bytes))
        return fail(error, JG_BAD_ARGUMENT, "%s: %s has a negative size or leaves 64 bits", where, got);
    if ((uintptr_t)view->data % element != 0)
        return fail(error, JG_BAD_ARGUMENT, "%s: its data is not aligned to its element of %zu bytes", where, element);
    return fail(error, JG_BAD_ARGUMENT, "%s: a bool that is neither 0 nor 1", where);
}

/* Whether data may stand for the parameter, apart from its sizes. */
static bool check_view(const Entry *entry, size_t number, const View *view, jg_error *error) {
    const jg_spec *spec = &entry->parameters[number].shown;
    size_t bytes;
    bool fits = view->dtype == spec->dtype && view->rank == spec->rank &&
                byte_count(view->shape, view->rank, view->dtype, &bytes) && (view->data || bytes == 0) &&
                (uintptr_t)view->data % DTYPES[spec->dtype].size == 0 &&
                (view->dtype != JG_BOOL || number >= entry->input_count || are_bools(view->data, bytes));
    return fits || report_view(entry, number, view, error);
}

static bool check_sizes(const Entry *entry, const Record *record, size_t number, jg_error *error) {
    const Spec *spec = &entry->parameters[number];
    const View *view = &record->views[number];
    for (int32_t axis = 0; axis < spec->shown.rank; axis++) {
        int64_t due = spec->shown.sizes[axis];
        const Expression *expression = &spec->expressions[axis];
        if (expression->count && !evaluate(expression, record->dims, &due, error)) return false;
        if (due == view->shape[axis]) continue;
        char where[WHERE_SIZE], wanted[WHERE_SIZE], got[WHERE_SIZE], because[2 * WHERE_SIZE];
        return fail(error, JG_BAD_ARGUMENT, "%s: expected %s, whose axis %d is %lld%s, got %s",
                    parameter_text(entry, number, where), described(&spec->shown, wanted), axis, (long long)due,
                    facts(entry, record, expression, because),
                    shape_text(view->dtype, view->rank, view->shape, got));
    }
    return true;
}

/* Checks arguments and state against the signature and finds the named sizes. */
static bool bind(const jg_model *model, const Entry *entry, const jg_tensor *inputs, Record *record, jg_error *error) {
    for (size_t i = 0; i < entry->parameter_count; i++) {
        const Spec *spec = &entry->parameters[i];
        View *view = &record->views[i];
        if (i >= entry->input_count) {
            const Tensor *tensor = &model->tensors[spec->tensor];
            *view = (View){tensor->data, tensor->dtype, tensor->rank, tensor->shape};
        } else if (!inputs[i].data && spec->shown.has_default) {
            *view = (View){spec->fill, spec->shown.dtype, 0, NULL};
        } else {
            *view = (View){inputs[i].data, inputs[i].dtype, inputs[i].rank, inputs[i].shape};
        }
        if (!check_view(entry, i, view, error)) return false;
    }
    for (size_t i = 0; i < entry->dim_count; i++) record->dims[i] = -1;
    for (size_t i = 0; i < entry->parameter_count; i++)
        for (int32_t axis = 0; axis < entry->parameters[i].shown.rank; axis++) {
            int64_t dim = entry->parameters[i].bare[axis];
            if (dim != NONE && record->dims[dim] < 0) record->dims[dim] = record->views[i].shape[axis];
        }
    for (size_t i = 0; i < entry->parameter_count; i++)
        if (!check_sizes(entry, record, i, error)) return false;
    for (size_t i = 0; i < entry->constraint_count; i++) {
        char because[2 * WHERE_SIZE];
        int64_t holds;
        if (!evaluate(&entry->constraints[i], record->dims, &holds, error)) return false;
        if (!holds)
            return fail(error, JG_BAD_ARGUMENT, "%.40s: the sizes must satisfy %.80s%s", entry->title,
                        entry->constraints[i].text, facts(entry, record, &entry->constraints[i], because));
    }
    return true;
}

/* The shapes of the outputs and the workspace, for the sizes that bind found. */
static bool plan(const Entry *entry, Record *record, jg_error *error) {
    for (size_t i = 0; i < entry->output_count; i++) {
        const Spec *spec = &entry->outputs[i];
        Result *result = &record->results[i];
        for (int32_t axis = 0; axis < spec->shown.rank; axis++) {
            result->shape[axis] = spec->shown.sizes[axis];
            if (spec->expressions[axis].count &&
                !evaluate(&spec->expressions[axis], record->dims, &result->shape[axis], error))
                return false;
        }
        char wanted[WHERE_SIZE], got[WHERE_SIZE];
        if (!byte_count(result->shape, spec->shown.rank, spec->shown.dtype, &result->bytes))
            return fail(error, JG_BAD_ARGUMENT, "%.40s: the result %s would have the shape %s, which is negative or "
                        "leaves 64 bits", entry->title, described(&spec->shown, wanted),
                        shape_text(spec->shown.dtype, spec->shown.rank, result->shape, got));
    }
    int64_t arena = entry->arena_bytes ? entry->arena_bytes(record->dims) : 0;
    if (arena < 0)
        return fail(error, JG_BAD_ARGUMENT, "%.40s: the workspace for these sizes leaves 64 bits", entry->title);
    if ((size_t)arena > record->arena_size) {
        free(record->arena);
        record->arena_size = 0;
        if (!(record->arena = aligned_memory((size_t)arena))) return out_of_memory(error, (size_t)arena);
        record->arena_size = (size_t)arena;
    }
    record->call = (jg_call){.arena = record->arena, .arena_bytes = arena};
    return true;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a_bytes && b_bytes && x < y + b_bytes && y < x + a_bytes;
}

/* Whether the code may write an output straight to where the caller wants it: aligned, and apart from the other
   buffers of the call. */
static bool usable(const Entry *entry, const Record *record, size_t output, const void *memory) {
    if ((uintptr_t)memory % JG_ALIGNMENT != 0) return false;
    size_t bytes = record->results[output].bytes, other;
    for (size_t i = 0; i < entry->input_count; i++) {
        const View *view = &record->views[i];
        if (byte_count(view->shape, view->rank, view->dtype, &other) && overlap(memory, bytes, view->data, other))
            return false;
    }
    for (size_t i = 0; i < output; i++)
        if (overlap(memory, bytes, record->results[i].memory, record->results[i].bytes)) return false;
    return true;
}

/* Memory for the new value of a state tensor, which the old one does not lie in; NULL on failure. */
static void *spare_memory(Tensor *tensor, jg_error *error) {
    void **place = &tensor->own[tensor->own[0] && tensor->own[0] == tensor->data];
    if (!*place && !(*place = aligned_memory(tensor->bytes))) out_of_memory(error, tensor->bytes);
    return *place;
}

/* Finds memory for the outputs and fills in the buffers. */
static bool place(jg_model *model, const Entry *entry, const jg_tensor *outputs, Record *record, jg_error *error) {
    static _Alignas(JG_ALIGNMENT) const uint8_t nothing[JG_ALIGNMENT]; /* stands for empty inputs */
    for (size_t i = 0; i < entry->parameter_count; i++)
        record->buffers[i] = (void *)(uintptr_t)(record->views[i].data ? record->views[i].data : nothing);
    for (size_t i = 0, shown = 0; i < entry->output_count; i++) {
        Result *result = &record->results[i];
        if (entry->written[i] != NONE) {
            const Spec *state = &entry->parameters[entry->input_count + (size_t)entry->written[i]];
            if (!(result->memory = spare_memory(&model->tensors[state->tensor], error))) return false;
        } else {
            const jg_tensor *given = &outputs[shown++];
            if (given->data && given->bytes < result->bytes)
                return fail(error, JG_BAD_ARGUMENT, "%.40s, output %zu (%.60s) needs %zu bytes, but has room for %zu",
                            entry->title, shown - 1, entry->outputs[i].shown.name, result->bytes, given->bytes);
            result->memory = given->data;
            if (!given->data || !usable(entry, record, i, given->data)) {
                if (!(result->memory = aligned_memory(result->bytes))) return out_of_memory(error, result->bytes);
                result->fresh = true;
            }
        }
        record->buffers[entry->parameter_count + i] = result->memory;
    }
    return true;
}

/* --- printing ---------------------------------------------------------------------------------------------------- */

/* Text that grows. */
typedef struct Out {
    char *data;
    size_t used, room;
    bool failed; /* memory ran out */
} Out;

static void put(Out *out, const char *text, size_t size) {
    if (out->room - out->used < size) {
        size_t room = 2 * out->room + size + 256;
        char *data = out->failed ? NULL : realloc(out->data, room);
        out->failed = !data;
        if (!data) return;
        out->data = data;
        out->room = room;
    }
    if (size) memcpy(out->data + out->used, text, size);
    out->used += size;
}

static void put_text(Out *out, const char *text) { put(out, text, strlen(text)); }

static void put_repeated(Out *out, const char *text, size_t size, size_t count) {
    for (; count > 0 && !out->failed; count--) put(out, text, size);
}

static bool is_real(jg_dtype dtype) { return DTYPES[dtype].family == FLOATING; }

static double real_at(const uint8_t *data, jg_dtype dtype) {
    double wide;
    float single;
    uint16_t half;
    if (dtype == JG_FLOAT64) return memcpy(&wide, data, 8), wide;
    if (dtype == JG_FLOAT32) return memcpy(&single, data, 4), (double)single;
    memcpy(&half, data, 2);
    if (dtype == JG_BFLOAT16) {
        uint32_t bits = (uint32_t)half << 16;
        return memcpy(&single, &bits, 4), (double)single;
    }
    uint64_t exponent = half >> 10 & 31, mantissa = half & 1023, bits = (uint64_t)(half >> 15) << 63;
    if (exponent == 0) return (half >> 15 ? -0x1p-24 : 0x1p-24) * (double)mantissa;
    bits |= (exponent == 31 ? 2047 : exponent + 1008) << 52 | mantissa << 42;
    return memcpy(&wide, &bits, 8), wide;
}

/* An element that is no float: its magnitude, and whether it is negative. */
static uint64_t whole_at(const uint8_t *data, jg_dtype dtype, bool *negative) {
    size_t size = DTYPES[dtype].size;
    uint64_t bits = 0;
    memcpy(&bits, data, size);
    *negative = DTYPES[dtype].family == SIGNED && bits >> (8 * size - 1) & 1;
    if (*negative && size < 8) bits |= ~0ULL << 8 * size;
    return *negative ? 0 - bits : bits;
}

static bool reads_back(const char *text, double value, jg_dtype dtype) {
    if (dtype == JG_FLOAT64) return strtod(text, NULL) == value;
    if (dtype == JG_FLOAT32) return strtof(text, NULL) == (float)value;
    if (dtype == JG_FLOAT16) return half_bits(strtod(text, NULL)) == half_bits(value);
    return bfloat16_bits(strtof(text, NULL)) == bfloat16_bits((float)value);
}

enum { WORD_SIZE = 512, MOST_DIGITS = 8, LINE_WIDTH = 75, SUMMARY_ABOVE = 1000, EDGE_ITEMS = 3, MOST_PRECISION = 60 };

/* The shortest "d.ddde+xx" that reads back as a finite value: its digits behind the point, its exponent of ten, and
   whether its last digit is greater by one than that of the nearest text. At powers of two the numbers below stand closer
   than those above, and so the next text above may read back where the nearest one, below, does not. */
typedef struct Shortest {
    int digits, exponent;
    bool above;
} Shortest;

/* "1.562e-02" becomes "1.563e-02"; the last digit is no 9, as a shorter text would have done. */
static void count_up(char *text) {
    char *e = strchr(text, 'e'), *last = (e ? e : text + strlen(text)) - 1;
    if (*last >= '0' && *last < '9') ++*last;
}

static Shortest shortest(double value, jg_dtype dtype) {
    char text[WORD_SIZE];
    Shortest found = {.digits = 0};
    for (;; found.digits++) {
        snprintf(text, sizeof text, "%.*e", found.digits, value);
        if (found.digits == 17 || reads_back(text, value, dtype)) break;
        count_up(text);
        found.above = reads_back(text, value, dtype);
        if (found.above) break;
    }
    found.exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    return found;
}

static bool is_finite(double value) { return value - value == 0; }

static const char *unusual(double value) { return value != value ? "nan" : value < 0 ? "-inf" : "inf"; }

/* As Python's repr. */
static void python_float(double value, char text[WORD_SIZE]) {
    if (!is_finite(value)) {
        strcpy(text, unusual(value));
        return;
    }
    Shortest found = shortest(value, JG_FLOAT64);
    int behind = found.digits > found.exponent ? found.digits - found.exponent : 0;
    bool scientific = found.exponent < -4 || found.exponent >= 16;
    if (scientific) snprintf(text, WORD_SIZE, "%.*e", found.digits, value);
    else snprintf(text, WORD_SIZE, "%.*f", behind, value);
    if (found.above) count_up(text);
    if (!scientific && !behind) strcat(text, ".0");
}

/* The text of a finite float in an array, without padding: "1.5", "2.", "1.e+10". */
static void array_float(double value, jg_dtype dtype, bool scientific, char text[WORD_SIZE]) {
    Shortest found = shortest(value, dtype);
    int behind = scientific ? found.digits : found.digits - found.exponent;
    bool cut = behind > MOST_DIGITS;
    behind = behind < 0 ? 0 : cut ? MOST_DIGITS : behind;
    snprintf(text, WORD_SIZE, scientific ? "%#.*e" : "%#.*f", behind, value);
    if (found.above && !cut) count_up(text);
    if (!cut) return;
    char *end = scientific ? strchr(text, 'e') : text + strlen(text), *kept = end;
    while (kept[-1] == '0') kept--;
    memmove(kept, end, strlen(end) + 1);
}

typedef struct Shown { /* an array, and what all its words have in common */
    const uint8_t *data;
    jg_dtype dtype;
    int32_t rank;
    const int64_t *shape;
    const char *separator;
    size_t prefix; /* characters before it on its first line */
    bool summary, scientific, unusual, minus; /* whether there are NaNs or infinities, and an infinity below zero */
    double least, most; /* of the magnitudes that are not zero */
    size_t left, right, digits, exponent; /* characters before and behind the point, and in the exponent */
} Shown;

static void larger(size_t *known, size_t found) {
    if (found > *known) *known = found;
}

/* The place on an axis that is shown after this one; three dots stand for those that are skipped. */
static int64_t next_shown(const Shown *shown, int32_t axis, int64_t index) {
    int64_t extent = shown->shape[axis];
    return shown->summary && extent > 2 * EDGE_ITEMS && index == EDGE_ITEMS - 1 ? extent - EDGE_ITEMS : index + 1;
}

static void each_shown(Shown *shown, int32_t axis, size_t offset, void (*look)(Shown *, const uint8_t *)) {
    if (axis == shown->rank) {
        look(shown, shown->data + offset * DTYPES[shown->dtype].size);
        return;
    }
    for (int64_t i = 0; i < shown->shape[axis]; i = next_shown(shown, axis, i))
        each_shown(shown, axis + 1, offset * (size_t)shown->shape[axis] + (size_t)i, look);
}

static void find_range(Shown *shown, const uint8_t *element) {
    double value = real_at(element, shown->dtype), size = value < 0 ? -value : value;
    if (!is_finite(value)) {
        shown->unusual = true;
        shown->minus |= value < 0;
    } else if (size != 0) {
        if (size > shown->most) shown->most = size;
        if (shown->least == 0 || size < shown->least) shown->least = size;
    }
}

static void measure_float(Shown *shown, const uint8_t *element) {
    char text[WORD_SIZE];
    double value = real_at(element, shown->dtype);
    if (!is_finite(value)) return;
    array_float(value, shown->dtype, shown->scientific, text);
    const char *point = strchr(text, '.'), *end = shown->scientific ? strchr(text, 'e') : text + strlen(text);
    larger(&shown->left, (size_t)(point - text));
    larger(&shown->digits, (size_t)(end - point - 1));
    if (shown->scientific) larger(&shown->exponent, strlen(end) - 2);
}

static void whole_text(const uint8_t *element, jg_dtype dtype, char text[WORD_SIZE]) {
    bool negative;
    uint64_t value = whole_at(element, dtype, &negative);
    snprintf(text, WORD_SIZE, "%s%llu", negative ? "-" : "", (unsigned long long)value);
}

static void measure_whole(Shown *shown, const uint8_t *element) {
    char text[WORD_SIZE];
    whole_text(element, shown->dtype, text);
    larger(&shown->left, strlen(text));
}

static void measure(Shown *shown) {
    if (shown->dtype == JG_BFLOAT16) return; /* as ml_dtypes has it: without padding */
    if (!is_real(shown->dtype)) {
        if (shown->dtype == JG_BOOL && shown->rank) shown->left = strlen("False");
        if (shown->dtype != JG_BOOL) each_shown(shown, 0, 0, measure_whole);
        return;
    }
    each_shown(shown, 0, 0, find_range);
    double limit = shown->dtype == JG_FLOAT16 ? 1e3 : shown->dtype == JG_FLOAT32 ? 1e6 : 1e8;
    shown->scientific = shown->least != 0 &&
                        (shown->most >= limit || shown->least < 1e-4 || shown->most / shown->least > 1000);
    each_shown(shown, 0, 0, measure_float);
    shown->right = shown->scientific ? shown->digits + shown->exponent + 2 : shown->digits;
    size_t word = !shown->unusual ? 0 : shown->minus ? 4 : 3;
    if (word > shown->right + 1) larger(&shown->left, word - shown->right - 1);
}

/* With as many digits as the longest element, not zeros, behind those that would read back. */
static void long_float(double value, const Shown *shown, char text[WORD_SIZE]) {
    Shortest found = shortest(value, shown->dtype);
    snprintf(text, WORD_SIZE, "%#.*e", (int)shown->digits, value);
    if (found.above && found.digits == (int)shown->digits) count_up(text);
}

/* The words of an array's elements all have one width, bfloat16 apart. */
static void put_word(Out *out, const Shown *shown, const uint8_t *element) {
    char text[WORD_SIZE];
    size_t width = shown->left;
    if (shown->dtype == JG_BOOL) {
        strcpy(text, *element ? "True" : "False");
    } else if (!is_real(shown->dtype)) {
        whole_text(element, shown->dtype, text);
    } else if (shown->dtype == JG_BFLOAT16) {
        double value = real_at(element, shown->dtype);
        if (is_finite(value)) snprintf(text, sizeof text, "%g", value);
        else strcpy(text, unusual(value));
    } else if (!is_finite(real_at(element, shown->dtype))) {
        strcpy(text, unusual(real_at(element, shown->dtype)));
        width += shown->right + 1;
    } else {
        double value = real_at(element, shown->dtype);
        if (shown->scientific) long_float(value, shown, text);
        else array_float(value, shown->dtype, false, text);
        const char *point = strchr(text, '.'), *end = shown->scientific ? strchr(text, 'e') : text + strlen(text);
        put_repeated(out, " ", 1, shown->left - (size_t)(point - text));
        put(out, text, (size_t)(end - text));
        if (!shown->scientific) {
            put_repeated(out, " ", 1, shown->digits - (size_t)(end - point - 1));
            return;
        }
        put(out, end, 2);
        put_repeated(out, "0", 1, shown->exponent - (strlen(end) - 2));
        put_text(out, end + 2);
        return;
    }
    if (width > strlen(text)) put_repeated(out, " ", 1, width - strlen(text));
    put_text(out, text);
}

/* Ends a word of a row that began at start: where the line grew too long, the word goes to the next one. */
static void end_word(Out *out, const Shown *shown, size_t start, size_t *column) {
    size_t indent = shown->prefix + (size_t)shown->rank, size = out->used - start;
    if (*column + size > (size_t)(LINE_WIDTH - shown->rank) && *column > indent && !out->failed) {
        char word[WORD_SIZE];
        memcpy(word, out->data + start, size);
        out->used = start;
        while (out->data[out->used - 1] == ' ') out->used--; /* of the separator */
        put_text(out, "\n");
        put_repeated(out, " ", 1, indent);
        put(out, word, size);
        *column = indent;
    }
    *column += size + strlen(shown->separator);
}

static void put_row(Out *out, const Shown *shown, size_t offset) {
    int64_t extent = shown->shape[shown->rank - 1];
    size_t column = shown->prefix + (size_t)shown->rank;
    for (int64_t i = 0, next; i < extent && !out->failed; i = next) {
        size_t start = out->used;
        put_word(out, shown, shown->data + (offset * (size_t)extent + (size_t)i) * DTYPES[shown->dtype].size);
        end_word(out, shown, start, &column);
        next = next_shown(shown, shown->rank - 1, i);
        if (next > i + 1) {
            put_text(out, shown->separator);
            start = out->used;
            put_text(out, "...");
            end_word(out, shown, start, &column);
        }
        if (next < extent) put_text(out, shown->separator);
    }
}

static void put_axis(Out *out, const Shown *shown, int32_t axis, size_t offset) {
    put_text(out, "[");
    if (axis == shown->rank - 1) put_row(out, shown, offset);
    for (int64_t i = 0, next; axis < shown->rank - 1 && i < shown->shape[axis]; i = next) {
        put_axis(out, shown, axis + 1, offset * (size_t)shown->shape[axis] + (size_t)i);
        next = next_shown(shown, axis, i);
        for (int lines = next > i + 1 ? 2 : next < shown->shape[axis]; lines > 0; lines--) {
            put(out, shown->separator, strcmp(shown->separator, " ") == 0 ? 0 : 1);
            put_repeated(out, "\n", 1, (size_t)(shown->rank - axis - 1));
            put_repeated(out, " ", 1, shown->prefix + (size_t)axis + 1);
            if (lines == 2) put_text(out, "...");
        }
    }
    put_text(out, "]");
}

/* As NumPy's array2string. */
static void put_array(Out *out, Shown *shown) {
    size_t count = 1;
    for (int32_t i = 0; i < shown->rank; i++) count *= (size_t)shown->shape[i];
    if (count == 0) {
        put_text(out, "[]");
        return;
    }
    shown->summary = count > SUMMARY_ABOVE;
    measure(shown);
    if (shown->rank == 0) put_word(out, shown, shown->data);
    else put_axis(out, shown, 0, 0);
}

/* "[[fill]align][sign][0][width][.precision][type]" of Python's formats. */
typedef struct Form {
    const char *fill;
    size_t fill_size, width;
    char align, sign, type;
    int precision; /* -1: none */
} Form;

/* False for what is not understood here, such as commas; a number's zeros stand between its sign and its digits. */
static bool read_form(const char *text, bool number, Form *form) {
    *form = (Form){.fill = " ", .fill_size = 1, .precision = -1};
    size_t first = *text ? utf8_size(text, text + strlen(text)) : 0;
    bool filled = first && text[first] && strchr("<>^=", text[first]);
    if (filled) {
        form->fill = text;
        form->fill_size = first;
        text += first;
    }
    if (*text && strchr("<>^=", *text)) form->align = *text++;
    if (*text && strchr("+- ", *text)) form->sign = *text++;
    if (*text == '0') {
        if (!filled) form->fill = text;
        if (!form->align && number) form->align = '=';
        text++;
    }
    while (is_digit(*text) && form->width < 1000000) form->width = 10 * form->width + (size_t)(*text++ - '0');
    if (*text == '.') {
        form->precision = 0;
        for (text++; is_digit(*text) && form->precision < MOST_PRECISION; text++)
            form->precision = 10 * form->precision + *text - '0';
    }
    if (*text) form->type = *text++;
    return !*text && form->precision <= MOST_PRECISION;
}

/* A float by a format that has a precision and no type: so many digits, the last zeros dropped, with a point or e. */
static void short_float(double value, int precision, char text[WORD_SIZE]) {
    int digits = precision > 1 ? precision - 1 : 0; /* behind the first one */
    snprintf(text, WORD_SIZE, "%#.*e", digits, value);
    char *end = strchr(text, 'e');
    int exponent = (int)strtol(end + 1, NULL, 10);
    bool scientific = exponent < -4 || exponent >= digits;
    if (!scientific) {
        snprintf(text, WORD_SIZE, "%.*f", digits - exponent, value);
        end = text + strlen(text);
    }
    char *kept = end;
    while (kept[-1] == '0') kept--;
    if (kept[-1] == '.') kept += scientific ? -1 : 1;
    memmove(kept, end, strlen(end) + 1);
}

/* The digits of a number and its sign, or false for a type that is not understood here. */
static bool format_number(const Form *form, const uint8_t *element, jg_dtype dtype, bool *negative,
                          char text[WORD_SIZE]) {
    bool real = is_real(dtype), whole_type = !form->type || form->type == 'd';
    int precision = form->precision < 0 ? 6 : form->precision;
    uint64_t magnitude = real ? 0 : whole_at(element, dtype, negative);
    double value = real ? real_at(element, dtype) : *negative ? -(double)magnitude : (double)magnitude;
    if (!real && whole_type) {
        snprintf(text, WORD_SIZE, "%llu", (unsigned long long)magnitude);
        return form->precision < 0;
    }
    *negative = value < 0 || (value == 0 && 1 / value < 0);
    double size = *negative ? -value : value, scaled = form->type == '%' ? 100 * size : size;
    if (!form->type) {
        if (form->precision < 0 || !is_finite(size)) python_float(size, text);
        else short_float(size, precision, text);
        return true;
    }
    if (!strchr("eEfFgG%", form->type)) return false;
    char type = form->type == '%' ? 'f' : form->type;
    if (!is_finite(scaled)) strcpy(text, !strchr("EFG", type) ? unusual(scaled) : scaled != scaled ? "NAN" : "INF");
    else if (type == 'e' || type == 'E')
        snprintf(text, WORD_SIZE, type == 'e' ? "%.*e" : "%.*E", precision, scaled);
    else if (type == 'f' || type == 'F') snprintf(text, WORD_SIZE, "%.*f", precision, scaled);
    else snprintf(text, WORD_SIZE, type == 'g' ? "%.*g" : "%.*G", precision, scaled);
    if (form->type == '%') strcat(text, "%");
    return true;
}

static void put_padded(Out *out, const Form *form, const char *sign, const char *text, size_t size, char usual) {
    size_t length = strlen(sign);
    for (size_t i = 0; i < size; i++) length += (text[i] & 0xc0) != 0x80; /* characters of UTF-8 */
    size_t missing = form->width > length ? form->width - length : 0;
    char align = form->align ? form->align : usual;
    size_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    if (align == '=') put_text(out, sign);
    put_repeated(out, form->fill, form->fill_size, before);
    if (align != '=') put_text(out, sign);
    put(out, text, size);
    put_repeated(out, form->fill, form->fill_size, missing - before);
}

/* The text of an operand without a format, or with one that is not understood. */
static void put_plain(Out *out, const Operand *operand, const uint8_t *data, const int64_t *shape) {
    const jg_spec *spec = &operand->spec.shown;
    char text[WORD_SIZE];
    bool tensor = operand->style == TENSOR_STYLE || operand->style == LEAF_STYLE;
    Shown shown = {.data = data, .dtype = spec->dtype, .rank = spec->rank, .shape = shape,
                   .separator = tensor ? ", " : " ", .prefix = tensor ? strlen("Tensor(") : 0};
    if (operand->style == NUMBER_STYLE) {
        if (is_real(spec->dtype)) python_float(real_at(data, spec->dtype), text);
        else if (spec->dtype == JG_BOOL) strcpy(text, *data ? "True" : "False");
        else whole_text(data, spec->dtype, text);
        put_text(out, text);
        return;
    }
    if (tensor) put_text(out, "Tensor(");
    put_array(out, &shown);
    if (!tensor) return;
    put_text(out, ", dtype=");
    put_text(out, DTYPES[spec->dtype].name);
    put_text(out, operand->style == LEAF_STYLE ? ", requires_grad=True)" : ")");
}

static void put_operand(Out *out, const Operand *operand, const uint8_t *data, const int64_t *shape) {
    Form form;
    char text[WORD_SIZE];
    bool negative = false, known = *operand->form && read_form(operand->form, !*operand->conversion, &form);
    if (known && *operand->conversion) {
        Out inner = {0};
        put_plain(&inner, operand, data, shape);
        out->failed |= inner.failed;
        if (form.precision >= 0 && (size_t)form.precision < inner.used) inner.used = (size_t)form.precision;
        put_padded(out, &form, "", inner.data ? inner.data : "", inner.used, '<');
        free(inner.data);
    } else if (known && format_number(&form, data, operand->spec.shown.dtype, &negative, text)) {
        const char *sign = negative ? "-" : form.sign == '+' ? "+" : form.sign == ' ' ? " " : "";
        put_padded(out, &form, sign, text, strlen(text), '>');
    } else {
        put_plain(out, operand, data, shape);
    }
}

/* The host's print: what the signature has under the number that the code put into the call. */
static int32_t print_site(const jg_host *host, jg_call *call) {
    (void)host;
    const Record *record = (const Record *)call;
    if (!within((uint64_t)call->print_site, 1, record->entry->print_count)) return CALLBACK_FAILED;
    const Print *print = &record->entry->prints[call->print_site];
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = plain ? uselocale(plain) : (locale_t)0;
    Out out = {0};
    jg_error unused;
    put_text(&out, print->texts[0]);
    for (size_t i = 0; i < print->operand_count && !out.failed; i++) {
        const Spec *spec = &print->operands[i].spec;
        int64_t shape[JG_MAX_RANK];
        for (int32_t axis = 0; axis < spec->shown.rank; axis++) {
            shape[axis] = spec->shown.sizes[axis];
            if (shape[axis] < 0 && !evaluate(&spec->expressions[axis], record->dims, &shape[axis], &unused))
                out.failed = true;
        }
        if (!out.failed) put_operand(&out, &print->operands[i], call->print_operands[i], shape);
        put_text(&out, print->texts[i + 1]);
    }
    if (plain) {
        uselocale(before);
        freelocale(plain);
    }
    FILE *stream = print->errors ? stderr : stdout;
    bool written = !out.failed && fwrite(out.data, 1, out.used, stream) == out.used;
    if (print->flush) written &= fflush(stream) == 0;
    int32_t code = out.failed ? OUT_OF_MEMORY : written ? OK : CALLBACK_FAILED;
    free(out.data);
    return code;
}

/* Copies text with {index} and {bound} filled in. */
static void fill_in(const char *text, const jg_error_record *record, char *out, size_t room) {
    while (*text && room > 1) {
        bool index = strncmp(text, "{index}", 7) == 0;
        if (!index && strncmp(text, "{bound}", 7) != 0) {
            *out++ = *text++;
            room--;
            continue;
        }
        int used = snprintf(out, room, "%lld", (long long)(index ? record->index : record->bound));
        size_t step = (size_t)used < room ? (size_t)used : room - 1;
        out += step;
        room -= step;
        text += 7;
    }
    *out = '\0';
}

static bool report(const Entry *entry, int32_t code, const jg_error_record *record, jg_error *error) {
    if (code == OUT_OF_MEMORY)
        return fail(error, JG_OUT_OF_MEMORY, "%.40s: the compiled code ran out of memory", entry->title);
    if (code == SIZE_OVERFLOW)
        return fail(error, JG_BAD_ARGUMENT, "%.40s: a size leaves 64 bits; use smaller arguments", entry->title);
    if (code == SIZES_REFUSED) { /* the number of a constraint, or behind them of a size that is negative */
        size_t number = record->check_id < 0 ? SIZE_MAX : (size_t)record->check_id, size = number - entry->constraint_count;
        if (number < entry->constraint_count)
            return fail(error, JG_BAD_ARGUMENT, "%.40s: the sizes must satisfy %.80s", entry->title,
                        entry->constraints[number].text);
        if (size < entry->dim_count)
            return fail(error, JG_BAD_ARGUMENT, "%.40s: the sizes must satisfy %.60s >= 0", entry->title,
                        entry->dims[size]);
        return fail(error, JG_BAD_ARGUMENT, "%.40s: the sizes must satisfy condition %d of the compiled code",
                    entry->title, record->check_id);
    }
    if (code == CALLBACK_FAILED)
        return fail(error, JG_FAILED, "%.40s: what it prints cannot be written", entry->title);
    if (code != CHECK_FAILED || record->check_id < 0 || (size_t)record->check_id >= entry->check_count)
        return fail(error, JG_FAILED, "%.40s: the compiled code returned %d (%s), check %d", entry->title, code,
                    code >= 0 && code <= SIZES_REFUSED ? CODE_NAMES[code] : "no known meaning", record->check_id);
    const Check *check = &entry->checks[record->check_id];
    char message[sizeof error->message];
    fill_in(check->message, record, message, sizeof message);
    snprintf(error->kind, sizeof error->kind, "%s", check->kind);
    return fail(error, JG_CHECK_FAILED, "%s%s%s", message, *check->location ? "\n  at " : "", check->location);
}

static bool call(const jg_model *model, const Entry *entry, Record *record, jg_error *error) {
    const jg_host *host = model->owner == getpid() ? &model->host : &model->serial;
    int32_t code = entry->run(host, &record->call, record->buffers, record->dims);
    while (record->call.blocks) {
        jg_block *block = record->call.blocks;
        record->call.blocks = block->next;
        free(block->base);
    }
    return code == OK || report(entry, code, &record->call.error, error);
}

/* After success: the new state comes into force, the outputs reach their places. */
static void deliver(jg_model *model, const Entry *entry, jg_tensor *outputs, Record *record) {
    for (size_t i = 0, shown = 0; i < entry->output_count; i++) {
        Result *result = &record->results[i];
        if (entry->written[i] != NONE) {
            model->tensors[entry->parameters[entry->input_count + (size_t)entry->written[i]].tensor].data =
                result->memory;
            continue;
        }
        jg_tensor *output = &outputs[shown++];
        if (!output->data) {
            output->data = result->memory;
            output->bytes = result->bytes;
        } else if (result->fresh) {
            memcpy(output->data, result->memory, result->bytes);
            free(result->memory);
        }
        result->fresh = false;
        output->dtype = entry->outputs[i].shown.dtype;
        output->rank = entry->outputs[i].shown.rank;
        memcpy(output->shape, result->shape, sizeof output->shape);
    }
}

static void discard(const Entry *entry, Record *record) {
    for (size_t i = 0; i < entry->output_count; i++) {
        if (record->results[i].fresh) free(record->results[i].memory);
        record->results[i].fresh = false;
    }
}

static Entry *entry_named(const jg_model *model, const char *name) {
    return name ? find(&model->entry_index, name) : model->main;
}

jg_status jg_run(jg_model *model, const char *entry_name, const jg_tensor *inputs, size_t input_count,
                 jg_tensor *outputs, size_t output_count, jg_error *error) {
    jg_error unused;
    error = cleared(error ? error : &unused);
    Entry *entry = entry_named(model, entry_name);
    if (!entry) fail(error, JG_BAD_ARGUMENT, "no entry '%.60s'", entry_name);
    else if (input_count != entry->input_count || output_count != entry->shown_count)
        fail(error, JG_BAD_ARGUMENT, "%.40s takes %zu inputs and gives %zu outputs, got %zu and %zu", entry->title,
             entry->input_count, entry->shown_count, input_count, output_count);
    Record *record = error->status == JG_OK ? check_out(model, entry, error) : NULL;
    if (!record) return error->status;
    if (entry->write_count) pthread_rwlock_wrlock(&model->state_lock);
    else if (entry->state_count) pthread_rwlock_rdlock(&model->state_lock);
    bool good = bind(model, entry, inputs, record, error) && plan(entry, record, error) &&
                place(model, entry, outputs, record, error) && call(model, entry, record, error);
    if (good) deliver(model, entry, outputs, record);
    else discard(entry, record);
    if (entry->state_count) pthread_rwlock_unlock(&model->state_lock);
    check_in(model, entry, record);
    return error->status;
}

/* --- state and queries ------------------------------------------------------------------------------------------- */

static Tensor *state_named(const jg_model *model, const char *key, jg_error *error) {
    Tensor *found = find(&model->tensor_index, key);
    if (!found) fail(error, JG_BAD_ARGUMENT, "no state '%.60s'", key);
    return found;
}

jg_status jg_state_get(jg_model *model, const char *key, jg_tensor *value, jg_error *error) {
    jg_error unused;
    error = cleared(error ? error : &unused);
    const Tensor *tensor = state_named(model, key, error);
    if (!tensor) return error->status;
    if (value->data && value->bytes < tensor->bytes) {
        fail(error, JG_BAD_ARGUMENT, "the state '%.60s' needs %zu bytes, but has room for %zu", key, tensor->bytes,
             value->bytes);
        return error->status;
    }
    if (!value->data) {
        value->bytes = tensor->bytes;
        if (!(value->data = aligned_memory(tensor->bytes))) out_of_memory(error, tensor->bytes);
        if (!value->data) return error->status;
    }
    value->dtype = tensor->dtype;
    value->rank = tensor->rank;
    memcpy(value->shape, tensor->shape, (size_t)tensor->rank * sizeof *tensor->shape);
    pthread_rwlock_rdlock(&model->state_lock);
    memcpy(value->data, tensor->data, tensor->bytes);
    pthread_rwlock_unlock(&model->state_lock);
    return JG_OK;
}

jg_status jg_state_set(jg_model *model, const char *key, const jg_tensor *value, jg_error *error) {
    jg_error unused;
    error = cleared(error ? error : &unused);
    Tensor *tensor = state_named(model, key, error);
    if (!tensor) return error->status;
    bool same = value->dtype == tensor->dtype && value->rank == tensor->rank &&
                memcmp(value->shape, tensor->shape, (size_t)tensor->rank * sizeof *tensor->shape) == 0;
    char wanted[WHERE_SIZE];
    if (!same || (!value->data && tensor->bytes)) {
        fail(error, JG_BAD_ARGUMENT, "the state '%.60s' is %s; the value must have that dtype, shape and data", key,
             shape_text(tensor->dtype, tensor->rank, tensor->shape, wanted));
    } else if (tensor->dtype == JG_BOOL && !are_bools(value->data, tensor->bytes)) {
        fail(error, JG_BAD_ARGUMENT, "the state '%.60s': a bool that is neither 0 nor 1", key);
    } else {
        pthread_rwlock_wrlock(&model->state_lock);
        void *memory = spare_memory(tensor, error);
        if (memory && tensor->bytes) memcpy(memory, value->data, tensor->bytes);
        if (memory) tensor->data = memory;
        pthread_rwlock_unlock(&model->state_lock);
    }
    return error->status;
}

void jg_close(jg_model *model) {
    if (!model) return;
    stop_pool(model);
    for (size_t i = 0; i < model->entry_count; i++) {
        Entry *entry = &model->entries[i];
        while (entry->free_records) {
            Record *next = entry->free_records->next;
            free_record(entry->free_records);
            entry->free_records = next;
        }
        if (entry->image) munmap(entry->image, entry->image_bytes);
    }
    for (size_t i = 0; i < model->tensor_count; i++) {
        free(model->tensors[i].own[0]);
        free(model->tensors[i].own[1]);
    }
#if defined(JG_MAP_FILE)
    if (model->file) munmap(model->file, model->file_bytes);
#else
    free(model->file);
#endif
    pthread_rwlock_destroy(&model->state_lock);
    pthread_mutex_destroy(&model->records_lock);
    release(&model->store);
    free(model);
}

const char *jg_target(const jg_model *model) { return model->target; }
const char *jg_metadata(const jg_model *model) { return model->metadata; }
size_t jg_entry_count(const jg_model *model) { return model->entry_count; }

const char *jg_entry_name(const jg_model *model, size_t index) {
    return index < model->entry_count ? model->entries[index].name : NULL;
}

size_t jg_input_count(const jg_model *model, const char *entry) {
    const Entry *found = entry_named(model, entry);
    return found ? found->input_count : 0;
}

size_t jg_output_count(const jg_model *model, const char *entry) {
    const Entry *found = entry_named(model, entry);
    return found ? found->shown_count : 0;
}

const jg_spec *jg_input(const jg_model *model, const char *entry, size_t index) {
    const Entry *found = entry_named(model, entry);
    return found && index < found->input_count ? &found->parameters[index].shown : NULL;
}

const jg_spec *jg_output(const jg_model *model, const char *entry, size_t index) {
    const Entry *found = entry_named(model, entry);
    return found && index < found->shown_count ? &found->outputs[found->shown[index]].shown : NULL;
}

size_t jg_state_count(const jg_model *model) { return model->tensor_count; }

const char *jg_state_key(const jg_model *model, size_t index) {
    return index < model->tensor_count ? model->tensors[index].key : NULL;
}

void jg_tensor_free(jg_tensor *tensor) {
    free(tensor->data);
    tensor->data = NULL;
}

size_t jg_tensor_bytes(const jg_tensor *tensor) {
    size_t bytes = 0;
    bool sound = is_dtype(tensor->dtype) && tensor->rank >= 0 && tensor->rank <= JG_MAX_RANK;
    return sound && byte_count(tensor->shape, tensor->rank, tensor->dtype, &bytes) ? bytes : 0;
}

const char *jg_dtype_name(jg_dtype dtype) { return is_dtype(dtype) ? DTYPES[dtype].name : NULL; }
size_t jg_dtype_size(jg_dtype dtype) { return is_dtype(dtype) ? DTYPES[dtype].size : 0; }
