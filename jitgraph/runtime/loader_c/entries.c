/* What a file says of an entry, in the form that runs need. */

#pragma once

#include <stdio.h>

#include "loader.h"
#include "abi.c"
#include "memory.c"
#include "dtypes.c"
#include "sizes.c"

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

typedef struct CustomOp { /* one that the model calls, by its name */
    const char *name, *types;
    jg_op_function *function; /* NULL: not registered */
} CustomOp;

typedef struct CustomCall { /* of an op, inside the code */
    const char *op, *types, *location;
    Spec *specs; /* of the operands, then of the results */
    size_t operand_count, result_count, extent_count;
    size_t place; /* of the op among the model's */
} CustomCall;

static const char *const CHECK_KINDS[] = {
    "ArithmeticError", "AssertionError", "FloatingPointError", "IndexError", "LinAlgError", "OverflowError",
    "RuntimeError", "TypeError", "UnboundLocalError", "ValueError", "ZeroDivisionError",
};

typedef struct DeviceBlock { /* memory of a GPU; address 0: none */
    uint64_t address;
    size_t bytes;
} DeviceBlock;

enum { DRIVER_SLOTS = 256 };

typedef struct DriverSlot { /* a function of the driver, and its place in the table that emitted code is given */
    const char *symbol;
    size_t place;
} DriverSlot;

typedef struct DeviceCode { /* of one generation of GPUs */
    const char *generation; /* "sm_80" */
    int capability;
    Bytes host, ptx;
    const char **functions;
    size_t function_count;
    size_t *constants; /* places among the model's tensors */
    size_t constant_count;
    DriverSlot *driver;
    size_t driver_count;
    Check *checks;
    size_t check_count;
    bool reports;
    int64_t *pinned; /* bytes of pinned memory, of which the entry is given the greatest; -1: an expression */
    Expression *pinned_expressions;
    size_t pinned_count;
} DeviceCode;

typedef struct Tensor { /* of the weights */
    const char *key;
    jg_dtype dtype;
    int32_t rank;
    const int64_t *shape;
    size_t bytes;
    const void *data; /* in the file, or one of own */
    void *own[2]; /* a run that writes the state fills the one that is not in use, or writes into that in use */
    DeviceBlock there; /* of a model on a GPU, what data was at first */
} Tensor;

typedef struct Record Record;

typedef struct Entry {
    const char *name, *title; /* in the file, in messages */
    const char *of; /* the entry that this is a specialisation of, or NULL */
    jg_static *statics; /* for which it was made */
    size_t static_count;
    Spec *parameters; /* the inputs, then the state */
    Spec *outputs;
    size_t input_count, state_count, parameter_count, output_count;
    int64_t *written; /* for each output the place of the state that it replaces, or NONE */
    int64_t *aliased; /* and that of the parameter whose memory the code may be given for it, or NONE */
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
    CustomCall *calls;
    size_t call_count;
    uint8_t *image; /* mapped for execution */
    size_t image_bytes;
    EntryFunction *run;
    ArenaFunction *arena_bytes;
    WorkerFunction *worker;
    DeviceCode *codes;
    size_t code_count;
    const DeviceCode *code; /* what runs on the model's GPU */
    void *module;
    void **rest; /* what the host's entry is given behind parameters and outputs */
    size_t rest_count;
    int64_t *failure; /* pinned memory for the record of a failed check */
    void **waiting; /* where in rest pinned memory of the entry's own stands; NULL: it wants none */
    size_t waiting_bytes;
    void *table[DRIVER_SLOTS];
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
