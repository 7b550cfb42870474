/* What native code calls to print. */

#pragma once

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "loader.h"
#include "abi.c"
#include "memory.c"
#include "sizes.c"
#include "entries.c"
#include "records.c"
#include "numbers.c"
#include "formats.c"

/* The host's print: what the signature has under the number that the code put into the call. */
__attribute__((cold)) static int32_t print_site(const jg_host *host, jg_call *call) {
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
