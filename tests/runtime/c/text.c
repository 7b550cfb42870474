/* The text of one operand of a print, for tests: loader.c itself, whose own functions no other file sees. */
#include "loader.c"

size_t text_of(int dtype, int style, const char *conversion, const char *form, const void *data, int rank,
               const int64_t *shape, char *text, size_t room);

size_t text_of(int dtype, int style, const char *conversion, const char *form, const void *data, int rank,
               const int64_t *shape, char *text, size_t room) {
    Operand operand = {.style = (Style)style, .conversion = conversion, .form = form};
    operand.spec.shown.dtype = (jg_dtype)dtype;
    operand.spec.shown.rank = rank;
    Out out = {0};
    put_text(&out, "");
    put_operand(&out, &operand, data, shape);
    if (!out.failed && out.used <= room) memcpy(text, out.data, out.used);
    free(out.data);
    return out.used;
}
