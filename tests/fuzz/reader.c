/* A process that reads files with loader.c: a line "PATH CALL SIZE..." in, a line "OUTCOME" out. CALL is 1 where the
   entries may be run; each SIZE is a round in which every named size is that number, or near it. */
#define _GNU_SOURCE
#include "loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TENSORS = 256, MOST_BYTES = 1 << 22 };

/* Fills in an input for the sizes of a round; false where it would be large. Sizes that are expressions are guessed. */
static bool fill(const jg_spec *spec, int64_t size, jg_tensor *tensor) {
    *tensor = (jg_tensor){.dtype = spec->dtype, .rank = spec->rank};
    size_t bytes = jg_dtype_size(spec->dtype);
    for (int32_t axis = 0; axis < spec->rank; axis++) {
        int64_t extent = spec->sizes[axis] < 0 ? size : spec->sizes[axis];
        tensor->shape[axis] = extent;
        if (extent > MOST_BYTES || (bytes *= (size_t)extent) > MOST_BYTES) return false;
    }
    tensor->data = malloc(bytes ? bytes : 1); /* exactly as much as it needs: a read past it is noticed */
    memset(tensor->data, spec->dtype == JG_BOOL ? 1 : 0, bytes);
    return tensor->data != NULL;
}

static const char *run(jg_model *model, const char *entry, int64_t size) {
    static jg_tensor inputs[MOST_TENSORS], outputs[MOST_TENSORS];
    jg_error error;
    size_t count = jg_input_count(model, entry), results = jg_output_count(model, entry), made = 0;
    if (count > MOST_TENSORS || results > MOST_TENSORS) return "too large to call";
    memset(outputs, 0, sizeof outputs);
    while (made < count && fill(jg_input(model, entry, made), size, &inputs[made])) made++;
    const char *word = "too large to call";
    if (made == count) {
        jg_status status = jg_run(model, entry, inputs, count, outputs, results, &error);
        word = status == JG_OK ? "ran" : status == JG_FAILED ? "FAILED at the call" : "refused at the call";
    }
    for (size_t i = 0; i < made; i++) free(inputs[i].data);
    for (size_t i = 0; i < results; i++) jg_tensor_free(&outputs[i]);
    return word;
}

static const char *read_file(const char *path, const char *device, bool call, char *sizes) {
    jg_error error;
    jg_model *model = jg_load_on(path, device, &error);
    if (!model) return error.status == JG_BAD_FILE || error.status == JG_OUT_OF_MEMORY ? "refused" : "FAILED at load";
    const char *word = "loaded";
    for (size_t e = 0; e < jg_entry_count(model); e++) {
        const char *entry = jg_entry_name(model, e);
        for (size_t i = 0; i < jg_state_count(model); i++) {
            jg_tensor value = {0};
            if (jg_state_get(model, jg_state_key(model, i), &value, NULL) == JG_OK) jg_tensor_free(&value);
        }
        char *end = sizes;
        for (char *at = sizes; call; at = end) {
            int64_t size = strtoll(at, &end, 10);
            if (end == at) break;
            word = run(model, entry, size);
        }
    }
    jg_close(model);
    return word;
}

int main(void) {
    static char line[1 << 16];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        char *call = strchr(line, ' ');
        if (!call) return 2;
        *call++ = '\0';
        const char *word = read_file(line, NULL, *call == '1', call + 1);
        const char *there = read_file(line, "cuda", *call == '1', call + 1); /* of which only failures are told */
        puts(strncmp(there, "FAILED", 6) == 0 ? there : word);
        fflush(stdout);
    }
    return 0;
}
