/* Calls a model with custom ops in every way: without them, with a function of other types, with one that fails, and,
   from several threads at once, with the right ones. Prints a line for each. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "loader.h"

enum { ROWS = 5, COLUMNS = 3, THREADS = 4, RUNS = 50 };

static int32_t twice_sorted(void *const *inputs, void *const *outputs, const int64_t *sizes) {
    const float *x = inputs[0];
    float *y = outputs[0];
    memcpy(y, x, (size_t)(sizes[0] * sizes[1]) * sizeof *y);
    for (int64_t row = 0; row < sizes[0]; row++, y += sizes[1])
        for (int64_t i = 0; i < sizes[1]; i++)
            for (int64_t j = i + 1; j < sizes[1]; j++)
                if (y[j] < y[i]) {
                    float other = y[i];
                    y[i] = y[j];
                    y[j] = other;
                }
    y = outputs[0];
    for (int64_t i = 0; i < sizes[0] * sizes[1]; i++) y[i] *= 2;
    *(uint8_t *)outputs[1] = 6; /* a bool that is true, as C may write it */
    return *(const int64_t *)inputs[1] == 7 ? 0 : 9;
}

static int32_t fails(void *const *inputs, void *const *outputs, const int64_t *sizes) {
    (void)inputs, (void)outputs, (void)sizes;
    return 17;
}

static jg_model *model;
static const float data[ROWS][COLUMNS] = {{3, 1, 2}, {-1, 5, 0}, {9, 8, 7}, {4, 4, 1}, {0, -2, -3}};

static jg_status run(float *sorted, jg_error *error) {
    jg_tensor x = {.data = (void *)data, .dtype = JG_FLOAT32, .rank = 2, .shape = {ROWS, COLUMNS}};
    jg_tensor outputs[2] = {{.data = sorted, .bytes = ROWS * COLUMNS * sizeof *sorted}, {0}};
    jg_status status = jg_run(model, NULL, &x, 1, outputs, 2, error);
    if (status == JG_OK && *(uint8_t *)outputs[1].data != 1) status = JG_FAILED;
    jg_tensor_free(&outputs[1]);
    return status;
}

static void *many(void *wrong) {
    float first[ROWS * COLUMNS], next[ROWS * COLUMNS];
    if (run(first, NULL) != JG_OK) *(int *)wrong = 1;
    for (int i = 0; i < RUNS; i++)
        if (run(next, NULL) != JG_OK || memcmp(first, next, sizeof first) != 0) *(int *)wrong = 1;
    return NULL;
}

int main(int count, char **words) {
    jg_error error;
    if (count != 2 || !(model = jg_load(words[1], &error))) return 2;
    for (size_t i = 0; i < jg_op_count(model); i++) printf("op %s: %s\n", jg_op_name(model, i), jg_op_types(model, i));
    printf("beyond: %d\n", jg_op_name(model, jg_op_count(model)) == NULL);
    float sorted[ROWS * COLUMNS];
    printf("missing %d: %s\n", run(sorted, &error), error.message);
    printf("unknown %d: %s\n", jg_register_op(model, "unknown", NULL, fails, &error), error.message);
    printf("no function %d: %s\n", jg_register_op(model, "twice_sorted", NULL, NULL, &error), error.message);
    printf("other types %d: %s\n", jg_register_op(model, "twice_sorted", "float64[2] -> float64[2]", fails, &error),
           error.message);
    printf("registered %d\n", jg_register_op(model, "twice_sorted", NULL, fails, &error));
    printf("failed %d: %s\n", run(sorted, &error), error.message);
    printf("registered %d\n", jg_register_op(model, "twice_sorted", "float32[2], int64[0] -> float32[2], bool[0]",
                                             twice_sorted, &error));
    printf("ran %d:", run(sorted, &error));
    for (int i = 0; i < ROWS * COLUMNS; i++) printf(" %g", (double)sorted[i]);
    printf("\n");
    pthread_t threads[THREADS];
    int wrong[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, many, &wrong[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("threads: %d wrong\n", wrong[0] + wrong[1] + wrong[2] + wrong[3]);
    jg_close(model);
    return 0;
}
