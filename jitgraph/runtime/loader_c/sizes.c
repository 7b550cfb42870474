/* Sizes that depend on the call, and conditions on them: read with suspicion, evaluated at each call. */

#pragma once

#include <string.h>

#include "loader.h"
#include "errors.c"
#include "memory.c"
#include "loading.c"

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
    bool is_beyond; /* a number leaves 64 bits */
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
                p->is_beyond = true;
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

__attribute__((cold)) static bool parse_factor(SizeParser *p) {
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
    p->is_beyond = false;
    p->count = 0;
    bool is_read = (constraint ? parse_comparison(p) : parse_sum(p)) && next_character(p) == '\0';
    if (!is_read || (p->is_beyond && !constraint))
        refuse(l, constraint ? "'%.80s' is not a constraint; expected one comparison of sizes, such as 'a == b'"
                             : "'%.80s' is not a size: only names, ints and + - * // %% may stand in one", text);
    if (p->unknown)
        refuse(l, "%s: '%.80s' uses the unknown dims '%.*s'", where, text, p->unknown_size, p->unknown);
    if (p->is_beyond) { /* as a comparison that leaves 64 bits when it is evaluated */
        p->count = 0;
        emit(p, NUMBER, 1);
    }
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

/* The value for these sizes, 1 or 0 for a comparison; an error where it divides by zero or a size leaves 64 bits. A
   comparison that does counts as true here: the entry makes all comparisons again, in as many bits as they need. */
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
        if (!apply(unary ? SUBTRACT : step.opcode, a, b, &stack[top - 1])) {
            if (expression->steps[expression->count - 1].opcode >= EQ) return (*value = 1, true);
            return fail(error, JG_BAD_ARGUMENT, "the size '%.80s' leaves 64 bits; use smaller arguments",
                        expression->text);
        }
    }
    *value = stack[0];
    return true;
}
