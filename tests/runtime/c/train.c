/* Trains a saved model: train MODEL FROM STEPS TO. FROM and TO are files of its state; "-" stands for none.

   Inputs and outputs lie between red zones, which have to stay as they are. */

#include "loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, COLUMNS = 4, ZONE = 256, RED = 0xa5 };

typedef struct Guarded {
    unsigned char before[ZONE], data[ROWS * COLUMNS * 8], after[ZONE];
} Guarded;

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void begin(Guarded *guarded) { memset(guarded, RED, sizeof *guarded); }

static void verify(const Guarded *guarded, size_t used) {
    const unsigned char *bytes = (const unsigned char *)guarded;
    for (size_t i = 0; i < sizeof *guarded; i++)
        if ((i < ZONE || i >= ZONE + used) && bytes[i] != RED) fail("a red zone was written to");
}

int main(int argc, char **argv) {
    static _Alignas(64) Guarded images, labels, loss, images_before, labels_before;
    jg_error error;
    if (argc != 5) fail("train MODEL FROM STEPS TO");
    jg_model *model = jg_load(argv[1], &error);
    if (!model) fail(error.message);
    if (strcmp(argv[2], "-") != 0 && jg_state_load(model, argv[2], &error) != JG_OK) fail(error.message);

    size_t count = jg_input_count(model, "step");
    jg_tensor *inputs = calloc(count, sizeof *inputs);
    begin(&images);
    begin(&labels);
    jg_tensor image = {.data = images.data, .dtype = JG_FLOAT32, .rank = 2, .shape = {ROWS, COLUMNS}};
    jg_tensor label = {.data = labels.data, .dtype = JG_INT64, .rank = 1, .shape = {ROWS}};
    double rate = 0;
    jg_tensor lr = {.data = &rate, .dtype = JG_FLOAT64};
    if (jg_set_input(model, "step", "batch.image", image, inputs, count, &error) != JG_OK) fail(error.message);
    if (jg_set_input(model, "step", "batch.label", label, inputs, count, &error) != JG_OK) fail(error.message);
    if (jg_set_input(model, "step", "lr", lr, inputs, count, &error) != JG_OK) fail(error.message);
    if (jg_set_input(model, "step", "batch", lr, inputs, count, &error) != JG_BAD_ARGUMENT) fail("no input is 'batch'");

    ptrdiff_t steps = jg_output_index(model, "step", "steps"), value = jg_output_index(model, "step", "loss");
    if (steps < 0 || value < 0 || jg_output_count(model, "step") != 2) fail("the outputs");
    for (long step = 0; step < atol(argv[3]); step++) {
        int64_t reached = -1; /* the step counter of the state: where the schedule stands */
        jg_tensor counter = {.data = &reached, .bytes = sizeof reached};
        if (jg_state_get(model, "steps", &counter, &error) != JG_OK) fail(error.message);
        for (int64_t i = 0; i < ROWS * COLUMNS; i++)
            ((float *)(void *)images.data)[i] = (float)((7 * i + 5 * reached) % 11) / 8 - 0.5f;
        for (int64_t i = 0; i < ROWS; i++) ((int64_t *)(void *)labels.data)[i] = (i + reached) % 3;
        rate = 0.05 / (double)(1 + reached / 4);
        images_before = images;
        labels_before = labels;
        begin(&loss);
        jg_tensor outputs[2] = {{0}, {0}};
        outputs[value] = (jg_tensor){.data = loss.data, .bytes = sizeof(float)};
        if (jg_run(model, "step", inputs, count, outputs, 2, &error) != JG_OK) fail(error.message);
        verify(&images, sizeof(float) * ROWS * COLUMNS);
        verify(&labels, sizeof(int64_t) * ROWS);
        verify(&loss, sizeof(float));
        if (memcmp(&images, &images_before, sizeof images) || memcmp(&labels, &labels_before, sizeof labels))
            fail("an input was written to");
        printf("%a\n", (double)*(const float *)(const void *)loss.data);
        jg_tensor_free(&outputs[steps]);
    }
    if (strcmp(argv[4], "-") != 0 && jg_state_save(model, argv[4], &error) != JG_OK) fail(error.message);
    free(inputs);
    jg_close(model);
    return 0;
}
