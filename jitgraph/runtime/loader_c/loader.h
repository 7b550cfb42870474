/* Runs saved jitgraph models (.jg files) from C, with libc and pthreads alone.

       cc -std=c11 -O2 program.c loader.c -lpthread        (before glibc 2.34 -ldl as well)

   It EXECUTES THE NATIVE CODE IN THE FILE, so load only files whose origin you trust; what is checked (hashes, sizes,
   offsets, shapes, dtypes) guards against damage and mistakes, not against a file written to attack you. A file that
   is damaged or malformed gives an error when it is loaded.

   Threads. jg_run may be called from any number of threads at once. Entries without state take no lock for the
   computation. Entries that read state hold a lock of the model shared; entries that write state, and jg_state_set,
   hold it alone, so they take turns. jg_close must come after all other calls have returned. Loops inside a run are
   spread over a pool of threads of the model: JITGRAPH_NUM_THREADS in all, else one for each processor that the
   process may use by its affinity and the quotas of its control groups. In a forked child everything runs on the
   calling thread.

   Printing. What the program prints goes to stdout or stderr, from the thread that called jg_run.

   The file is read into memory, so that nothing that happens to it later matters. Compile with -DJG_MAP_FILE to have it
   mapped instead: processes then share the weights, but the file must never be changed in place while it is loaded
   (replacing it by rename is fine); one that is cut ends the process by SIGBUS. Linux on x86-64. */

#ifndef JITGRAPH_LOADER_H
#define JITGRAPH_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { JG_MAX_RANK = 64, JG_ALIGNMENT = 64 };

typedef enum jg_dtype {
    JG_BOOL, /* one byte, 0 or 1 */
    JG_INT8,
    JG_INT16,
    JG_INT32,
    JG_INT64,
    JG_UINT8,
    JG_UINT16,
    JG_UINT32,
    JG_UINT64,
    JG_FLOAT16, /* the bits, as uint16_t */
    JG_BFLOAT16, /* the bits, as uint16_t */
    JG_FLOAT32,
    JG_FLOAT64,
    JG_COMPLEX64, /* two floats, the real part first, as float complex */
    JG_COMPLEX128 /* two doubles */
} jg_dtype;

typedef enum jg_status {
    JG_OK,
    JG_BAD_FILE, /* no sound model, or none that this machine can run */
    JG_BAD_ARGUMENT, /* a name, count, dtype, rank, size or capacity that does not fit */
    JG_CHECK_FAILED, /* a check inside the model: jg_error.kind says what it stands for */
    JG_OUT_OF_MEMORY,
    JG_FAILED /* the compiled code stopped for another reason, such as a custom op that failed or is missing */
} jg_status;

typedef struct jg_error {
    jg_status status;
    char kind[24]; /* of a failed check: "IndexError", "ValueError", ...; else empty */
    char message[1000]; /* in words; of a failed check with the place in the program, where it is known */
} jg_error;

typedef struct jg_model jg_model;

/* A dense, row-major tensor. As an input: data (aligned to its element), dtype, rank and shape; bytes is not read.
   As an output: data with bytes of room, or data NULL, and the library allocates it (jg_tensor_free gives it back);
   the other fields but on are set by the call.

   on says where data lies, for outputs as well: NULL for the host's memory, else a model, on whose device it is. A run
   takes and gives memory of its own device alone, of whichever model. Work that writes to inputs, or still uses
   outputs with room of their own, has to be done before the run, whose stream waits for no other; results are computed
   when the run returns. The library never reads such memory from the host, so bools there are not looked at: they have
   to be 0 or 1. What it allocates there has to be freed before that model is closed. */
typedef struct jg_tensor {
    void *data;
    size_t bytes;
    jg_dtype dtype;
    int32_t rank;
    int64_t shape[JG_MAX_RANK];
    jg_model *on;
} jg_tensor;

/* What an entry takes or gives at one place. A size is a number, or a text over named sizes such as "2*batch + 1". */
typedef struct jg_spec {
    const char *name; /* "x"; "batch.image" of a dict, "pair.0" of a list or tuple, "point.x" of a named tuple */
    jg_dtype dtype;
    int32_t rank;
    const int64_t *sizes; /* -1 where the size depends on the call */
    const char *const *texts; /* each size as text, "8" or "batch" */
    bool has_default; /* the input may be left out: data NULL */
} jg_spec;

/* A value for which an entry was made, at its place among the arguments: text is "max" of a string, "3" of an int,
   "true" or "false" of a bool, "0.5" of a float, "null" of None. */
typedef enum jg_static_kind {
    JG_STATIC_NONE,
    JG_STATIC_BOOL,
    JG_STATIC_INT,
    JG_STATIC_FLOAT,
    JG_STATIC_TEXT
} jg_static_kind;

typedef struct jg_static {
    const char *name; /* "mode", "options.depth" */
    jg_static_kind kind;
    const char *text;
} jg_static;

/* The model in the file, checked as a whole; NULL on failure. JITGRAPH_TARGET_CPU picks a level of the file below this
   machine's best. error may be NULL, here and below; any other pointer that is NULL where it is needed is an argument
   that does not fit. */
jg_model *jg_load(const char *path, jg_error *error);

/* The same for a device: "cpu" (or NULL), or a GPU such as "cuda:0" for a file with code for it, through libcuda.so.1.
   The state then lies there, and runs take turns; tensors that are given and taken lie where their on says. */
jg_model *jg_load_on(const char *path, const char *device, jg_error *error);

/* The same for a file whose bytes are in memory, such as one that the program has inside; they are copied. */
jg_model *jg_load_bytes(const void *bytes, size_t size, const char *device, jg_error *error);
void jg_close(jg_model *model);

/* What is inside. Texts and specs live until jg_close. An entry that is NULL stands for the main one. Unknown names and
   indices, and no model, give NULL or 0. */
const char *jg_target(const jg_model *model); /* "x86-64-v3" or "sm_90": whose code runs */
const char *jg_device(const jg_model *model); /* "cpu" or "cuda:0" */
const char *jg_metadata(const jg_model *model); /* a JSON object */
size_t jg_entry_count(const jg_model *model);
const char *jg_entry_name(const jg_model *model, size_t index);
size_t jg_input_count(const jg_model *model, const char *entry);
size_t jg_output_count(const jg_model *model, const char *entry);
const jg_spec *jg_input(const jg_model *model, const char *entry, size_t index);
const jg_spec *jg_output(const jg_model *model, const char *entry, size_t index);

/* Where an input or output stands, by its name; -1 where there is none of that name. */
ptrdiff_t jg_input_index(const jg_model *model, const char *entry, const char *name);
ptrdiff_t jg_output_index(const jg_model *model, const char *entry, const char *name);

/* Puts value at the place of the input called name, among input_count inputs for the entry. */
jg_status jg_set_input(const jg_model *model, const char *entry, const char *name, jg_tensor value, jg_tensor *inputs,
                       size_t input_count, jg_error *error);

/* The values for which an entry was made. One that was saved for several is several entries: the first has its name,
   the others are listed behind it. jg_entry_for gives the name of the one whose values are these: it has all that are
   given, and of several that have them the one that has no others. NULL where there is none, or several are left. */
size_t jg_static_count(const jg_model *model, const char *entry);
const jg_static *jg_static_at(const jg_model *model, const char *entry, size_t index);
const char *jg_entry_for(const jg_model *model, const char *entry, const jg_static *statics, size_t count,
                         jg_error *error);

/* Custom ops: functions of the program's own that the compiled code calls by their names. A model that calls some runs
   once each has been registered; jg_run fails with JG_FAILED and the name of one that is missing.

   inputs and outputs are dense, row-major tensors, aligned to their elements; sizes holds the extents of all inputs,
   then of all outputs, one after the other. Outputs begin as zeros, and a function writes no byte beyond their extents.
   Anything but 0 is an error code, which ends the run. A function may be called by several runs at once. */
typedef int32_t jg_op_function(void *const *inputs, void *const *outputs, const int64_t *sizes);

/* The ops that the model calls, each once, and the types of one: "float32[2], int64[0] -> float32[2]", with ranks in
   brackets. NULL for an index that there is not. */
size_t jg_op_count(const jg_model *model);
const char *jg_op_name(const jg_model *model, size_t index);
const char *jg_op_types(const jg_model *model, size_t index);

/* Lets the model call function as the op of that name, of which types says what the function was written for, in the
   words of jg_op_types; NULL for whatever the file says. JG_BAD_ARGUMENT for a name that the model does not call, and
   for other types. It must come before runs of other threads begin. */
jg_status jg_register_op(jg_model *model, const char *name, const char *types, jg_op_function *function,
                         jg_error *error);

/* Runs an entry. There are as many inputs and outputs as jg_input_count and jg_output_count say. Everything is checked
   before the compiled code is entered. Where the entry writes state, the state changes wholly, and after success only.
   After a failure nothing is left allocated, and outputs with room of their own may hold anything. */
jg_status jg_run(jg_model *model, const char *entry, const jg_tensor *inputs, size_t input_count, jg_tensor *outputs,
                 size_t output_count, jg_error *error);

/* The tensors that the model brings along, by key: weights, optimiser and random state. get copies into value as jg_run
   does into an output; set copies from value, whose dtype and shape must be those of the state. on says where value
   lies, as for jg_run; both are done when they return. */
size_t jg_state_count(const jg_model *model);
const char *jg_state_key(const jg_model *model, size_t index);
jg_status jg_state_get(jg_model *model, const char *key, jg_tensor *value, jg_error *error);
jg_status jg_state_set(jg_model *model, const char *key, const jg_tensor *value, jg_error *error);

/* Writes the state to a file of safetensors, which replaces what is at path once it is whole; and sets the whole state
   from such a file, or leaves it as it is: JG_BAD_FILE where the file is damaged, or is of another model's state. The
   constants of graphs are no state. Python reads and writes the same files: save_state and load_state of a loaded
   model, jg.load_state. */
jg_status jg_state_save(jg_model *model, const char *path, jg_error *error);
jg_status jg_state_load(jg_model *model, const char *path, jg_error *error);

/* Frees data that the library allocated, where on says, and sets it to NULL. */
void jg_tensor_free(jg_tensor *tensor);
size_t jg_tensor_bytes(const jg_tensor *tensor); /* by dtype and shape; 0 where that leaves 63 bits */
const char *jg_dtype_name(jg_dtype dtype); /* "float32"; NULL for no dtype */
size_t jg_dtype_size(jg_dtype dtype); /* bytes of an element; 0 for no dtype */

#ifdef __cplusplus
}
#endif

#endif
