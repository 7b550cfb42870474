/* The loader of loader.h, in parts. They follow those of the loader in Python, which explain the format.

   Nothing read from a file is trusted: each offset, length and count is compared with the bytes that are there before
   it is used. What a call may report gives false after filling a jg_error; a step of loading that finds a fault leaves
   loading altogether, by refuse. What only loading does is cold, so compiled for size. */

#define _GNU_SOURCE
#include "loader.h"

#include "errors.c"
#include "abi.c"
#include "memory.c"
#include "hashes.c"
#include "loading.c"
#include "json.c"
#include "dtypes.c"
#include "sizes.c"
#include "entries.c"
#include "specs.c"
#include "structures.c"
#include "signatures.c"
#include "zip.c"
#include "weights.c"
#include "image.c"
#include "device_code.c"
#include "processor.c"
#include "driver.c"
#include "quota.c"
#include "model.c"
#include "records.c"
#include "custom_ops.c"
#include "arguments.c"
#include "results.c"
#include "device_model.c"
#include "calls.c"
#include "device_run.c"
#include "numbers.c"
#include "arrays.c"
#include "formats.c"
#include "prints.c"
#include "file.c"
#include "run.c"
#include "state.c"
#include "state_files.c"
