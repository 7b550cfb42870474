/* A small command over the loader, for tests.

       run check FILE...              loads and closes each file; prints "STATUS MESSAGE" of each, in one line
       run MODEL STEP...              does the steps in order; stops with "STATUS KIND MESSAGE" at the first failure

   steps:  show                       prints what is inside
           entry NAME                 the entry of the runs that follow
           in FILE DTYPE SIZES        the next input: raw bytes, "float32", "2,3" ("-" for 0-d)
           again                      no inputs yet
           default                    the next input is left out
           given ROOM OFFSET          the next output gets ROOM bytes, OFFSET bytes behind a multiple of 64
           run PREFIX COUNT           runs COUNT times, writes each output to PREFIX.INDEX, prints dtype and shape
           threads COUNT RUNS         COUNT threads with RUNS runs each; all outputs must be those of the last run
           odd                        calls every function with NULL and with senseless numbers, prints what each gives
           fork                       runs once in a child process
           get KEY FILE               writes a state
           set KEY FILE DTYPE SIZES   replaces a state */
#define _GNU_SOURCE
#include "loader.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 32 };

static jg_model *model;
static const char *entry;
static jg_tensor inputs[MOST], outputs[MOST];
static void *rooms[MOST];
static size_t input_count, given_count;

static void die(const jg_error *error) {
    printf("%d %s %s\n", (int)error->status, *error->kind ? error->kind : "-", error->message);
    jg_close(model);
    exit(0);
}

/* The file's bytes behind each other in a block of their own size, so that a read past them is noticed. */
static jg_tensor tensor_from(const char *path, const char *dtype, const char *sizes) {
    jg_tensor tensor = {0};
    for (tensor.dtype = JG_BOOL; jg_dtype_name(tensor.dtype) && strcmp(jg_dtype_name(tensor.dtype), dtype) != 0;)
        tensor.dtype++;
    for (const char *at = strcmp(sizes, "-") ? sizes : ""; *at; at += *at == ',') {
        char *end;
        tensor.shape[tensor.rank++] = strtoll(at, &end, 10);
        at = end;
    }
    FILE *file = fopen(path, "rb");
    if (!file) exit(3);
    fseek(file, 0, SEEK_END);
    tensor.bytes = (size_t)ftell(file);
    rewind(file);
    tensor.data = malloc(tensor.bytes ? tensor.bytes : 1);
    if (fread(tensor.data, 1, tensor.bytes, file) != tensor.bytes) exit(3);
    fclose(file);
    return tensor;
}

static void write_file(const char *path, const jg_tensor *tensor) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(tensor->data, 1, jg_tensor_bytes(tensor), file) != jg_tensor_bytes(tensor)) exit(3);
    fclose(file);
}

static void print_spec(const char *kind, const jg_spec *spec) {
    printf("%s %s %s", kind, spec->name, jg_dtype_name(spec->dtype));
    for (int i = 0; i < spec->rank; i++) printf(" %s=%lld", spec->texts[i], (long long)spec->sizes[i]);
    printf("%s\n", spec->has_default ? " default" : "");
}

static void show(void) {
    printf("target %s\nmetadata %s\n", jg_target(model), jg_metadata(model));
    for (size_t e = 0; e < jg_entry_count(model); e++) {
        const char *name = jg_entry_name(model, e);
        printf("entry %s\n", name);
        for (size_t i = 0; i < jg_input_count(model, name); i++) print_spec("input", jg_input(model, name, i));
        for (size_t i = 0; i < jg_output_count(model, name); i++) print_spec("output", jg_output(model, name, i));
    }
    for (size_t i = 0; i < jg_state_count(model); i++) printf("state %s\n", jg_state_key(model, i));
}

static void run(const char *prefix, int count) {
    jg_error error;
    size_t results = jg_output_count(model, entry);
    for (int repeat = 0; repeat < count; repeat++) {
        for (size_t i = given_count; i < results; i++) jg_tensor_free(&outputs[i]);
        if (jg_run(model, entry, inputs, input_count, outputs, results, &error) != JG_OK) {
            for (size_t i = 0; i < MOST; i++) free(rooms[i]);
            die(&error);
        }
    }
    for (size_t i = 0; i < results; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s.%zu", prefix, i);
        write_file(path, &outputs[i]);
        printf("output %s", jg_dtype_name(outputs[i].dtype));
        for (int axis = 0; axis < outputs[i].rank; axis++) printf(" %lld", (long long)outputs[i].shape[axis]);
        printf("\n");
    }
}

static void told(const char *what, jg_status status, const jg_error *error) {
    printf("%s: %d %s\n", what, (int)status, error->message);
}

/* What no call should be given. There is an input so far, of rank 1 or more, and the model has a state. */
static void odd(void) {
    jg_error error = {0};
    jg_tensor out[MOST] = {{0}}, value = {0}, good = inputs[0];
    size_t results = jg_output_count(model, entry);
    const char *key = jg_state_key(model, 0);
    told("load", jg_load(NULL, &error) ? JG_OK : error.status, &error);
    told("load unheard", jg_load(NULL, NULL) ? JG_OK : JG_BAD_ARGUMENT, &(jg_error){0});
    told("no model", jg_run(NULL, NULL, inputs, 1, out, 1, &error), &error);
    told("no inputs", jg_run(model, entry, NULL, input_count, out, results, &error), &error);
    told("no outputs", jg_run(model, entry, inputs, input_count, NULL, results, &error), &error);
    told("many inputs", jg_run(model, entry, inputs, SIZE_MAX, out, results, &error), &error);
    told("many outputs", jg_run(model, entry, inputs, input_count, out, SIZE_MAX, &error), &error);
    told("unheard", jg_run(model, entry, NULL, input_count, NULL, results, NULL), &(jg_error){0});
    inputs[0].data = NULL;
    told("no data", jg_run(model, entry, inputs, input_count, out, results, &error), &error);
    inputs[0] = good, inputs[0].rank = INT32_MAX;
    told("huge rank", jg_run(model, entry, inputs, input_count, out, results, &error), &error);
    inputs[0].rank = -1;
    told("negative rank", jg_run(model, entry, inputs, input_count, out, results, &error), &error);
    inputs[0] = good, inputs[0].dtype = (jg_dtype)-1;
    told("no dtype", jg_run(model, entry, inputs, input_count, out, results, &error), &error);
    inputs[0] = good, inputs[0].shape[0] = -1;
    told("negative size", jg_run(model, entry, inputs, input_count, out, results, &error), &error);
    inputs[0].shape[0] = INT64_MAX;
    told("huge size", jg_run(model, entry, inputs, input_count, out, results, &error), &error);
    inputs[0] = good;
    out[0].data = &value, out[0].bytes = 0;
    told("no room", jg_run(model, entry, inputs, input_count, out, results, &error), &error);
    told("get of no model", jg_state_get(NULL, key, &value, &error), &error);
    told("get of no key", jg_state_get(model, NULL, &value, &error), &error);
    told("get to nowhere", jg_state_get(model, key, NULL, &error), &error);
    told("set of no model", jg_state_set(NULL, key, &value, &error), &error);
    told("set of no key", jg_state_set(model, NULL, &value, &error), &error);
    told("set to nothing", jg_state_set(model, key, NULL, &error), &error);
    told("set to no data", jg_state_set(model, key, &value, &error), &error);
    value.rank = -1;
    told("set to a negative rank", jg_state_set(model, key, &value, &error), &error);
    bool nothing = !jg_target(NULL) && !jg_metadata(NULL) && !jg_entry_count(NULL) && !jg_entry_name(NULL, 0) &&
                   !jg_input_count(NULL, NULL) && !jg_output_count(NULL, "forward") && !jg_input(NULL, NULL, 0) &&
                   !jg_output(NULL, NULL, 0) && !jg_state_count(NULL) && !jg_state_key(NULL, 0) &&
                   !jg_tensor_bytes(NULL) && !jg_dtype_name((jg_dtype)-1) && !jg_dtype_size((jg_dtype)99) &&
                   !jg_input(model, "nowhere", 0) && !jg_input(model, NULL, SIZE_MAX) &&
                   !jg_entry_name(model, SIZE_MAX);
    jg_tensor_free(NULL);
    jg_close(NULL);
    printf("what is inside nothing: %s\n", nothing ? "nothing" : "something");
}

static void *many_runs(void *argument) {
    size_t results = jg_output_count(model, entry);
    for (int repeat = 0; repeat < *(int *)argument; repeat++) {
        jg_tensor *own = calloc(MOST, sizeof *own);
        jg_error error;
        if (jg_run(model, entry, inputs, input_count, own, results, &error) != JG_OK) exit(4);
        for (size_t i = 0; i < results; i++) {
            if (memcmp(own[i].data, outputs[i].data, jg_tensor_bytes(&own[i])) != 0) exit(5);
            jg_tensor_free(&own[i]);
        }
        free(own);
    }
    return NULL;
}

static void run_threads(int count, int runs) {
    pthread_t threads[MOST];
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, many_runs, &runs) != 0) exit(6);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static void run_forked(void) {
    int once = 1, status = 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        many_runs(&once);
        jg_close(model);
        _exit(0);
    }
    waitpid(child, &status, 0);
    printf("child %d\n", status);
}

static void check(const char *path) {
    jg_error error;
    jg_model *loaded = jg_load(path, &error);
    for (char *c = error.message; *c; c++)
        if (*c == '\n') *c = ' ';
    printf("%d %s\n", (int)error.status, error.message);
    fflush(stdout);
    jg_close(loaded);
}

int main(int count, char **words) {
    jg_error error;
    if (count > 2 && strcmp(words[1], "check") == 0) {
        for (int i = 2; i < count; i++) check(words[i]);
        return 0;
    }
    if (count < 2) return 2;
    model = jg_load(words[1], &error);
    if (!model) die(&error);
    for (int i = 2; i < count; i++) {
        const char *step = words[i];
        if (strcmp(step, "show") == 0) {
            show();
        } else if (strcmp(step, "entry") == 0) {
            entry = words[++i];
        } else if (strcmp(step, "in") == 0) {
            inputs[input_count++] = tensor_from(words[i + 1], words[i + 2], words[i + 3]);
            i += 3;
        } else if (strcmp(step, "again") == 0) {
            while (input_count) jg_tensor_free(&inputs[--input_count]);
        } else if (strcmp(step, "default") == 0) {
            input_count++;
        } else if (strcmp(step, "given") == 0) {
            size_t room = (size_t)atoll(words[i + 1]), offset = (size_t)atoll(words[i + 2]);
            if (posix_memalign(&rooms[given_count], 64, room + offset + 1) != 0) return 3;
            outputs[given_count].data = (char *)rooms[given_count] + offset;
            outputs[given_count++].bytes = room;
            i += 2;
        } else if (strcmp(step, "run") == 0) {
            run(words[i + 1], atoi(words[i + 2]));
            i += 2;
        } else if (strcmp(step, "threads") == 0) {
            run_threads(atoi(words[i + 1]), atoi(words[i + 2]));
            i += 2;
        } else if (strcmp(step, "odd") == 0) {
            odd();
        } else if (strcmp(step, "fork") == 0) {
            run_forked();
        } else if (strcmp(step, "get") == 0) {
            jg_tensor value = {0};
            if (jg_state_get(model, words[i + 1], &value, &error) != JG_OK) die(&error);
            write_file(words[i + 2], &value);
            jg_tensor_free(&value);
            i += 2;
        } else if (strcmp(step, "set") == 0) {
            jg_tensor value = tensor_from(words[i + 2], words[i + 3], words[i + 4]);
            jg_status status = jg_state_set(model, words[i + 1], &value, &error);
            free(value.data);
            if (status != JG_OK) die(&error);
            i += 4;
        } else {
            return 2;
        }
    }
    for (size_t i = 0; i < MOST; i++) {
        free(inputs[i].data);
        if (i < given_count) free(rooms[i]);
        else jg_tensor_free(&outputs[i]);
    }
    jg_close(model);
    return 0;
}
