/* The processor's level: which of the targets in a file this machine runs. */

#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"
#include "memory.c"
#include "loading.c"
#include "json.c"
#include "entries.c"
#include "zip.c"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { LEVELS = 3 };
static const char *const LEVEL_NAMES[LEVELS] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};

/* How many of the levels of the x86-64 psABI this machine and its system run. */
static int cpu_levels(void) {
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c1 = 0, d = 0, b7 = 0, c = 0, c_extended = 0;
    if (!__get_cpuid(1, &a, &b, &c1, &d) || !__get_cpuid(0x80000001, &a, &b, &c_extended, &d)) return 0;
    const unsigned v2 = 1u << 0 | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23; /* SSE3 to 4.2, CX16, POPCNT */
    if ((c1 & v2) != v2 || !(c_extended & 1u)) return 0; /* LAHF */
    const unsigned v3 = 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29; /* FMA, MOVBE, OSXSAVE, AVX, F16C */
    const unsigned v3_leaf7 = 1u << 3 | 1u << 5 | 1u << 8; /* BMI1, AVX2, BMI2 */
    if (!__get_cpuid_count(7, 0, &a, &b7, &c, &d)) return 1;
    if ((c1 & v3) != v3 || (b7 & v3_leaf7) != v3_leaf7 || !(c_extended & 1u << 5)) return 1; /* LZCNT */
    unsigned enabled; /* what the system saves and restores: 2 SSE, 4 AVX, 0xe0 AVX-512 */
    __asm__ volatile("xgetbv" : "=a"(enabled), "=d"(d) : "c"(0));
    if ((enabled & 0x6) != 0x6) return 1;
    const unsigned v4 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; /* AVX-512 F, DQ, CD, BW, VL */
    return (b7 & v4) == v4 && (enabled & 0xe6) == 0xe6 ? 3 : 2;
#else
    return 0;
#endif
}

/* The levels in words, for messages. */
static const char *levels_text(int count, char text[WHERE_SIZE]) {
    int used = snprintf(text, WHERE_SIZE, "%s", count ? "" : "none of the known levels");
    for (int i = count; i-- > 0;)
        used += snprintf(text + used, (size_t)(WHERE_SIZE - used), "%s%s", LEVEL_NAMES[i], i ? ", " : "");
    return text;
}

/* The native code of an entry for the best of this machine's levels, or for JITGRAPH_TARGET_CPU. */
static Bytes choose_image(Loading *l, const Json *source, const Index *members, const char *where,
                          const char **target) {
    char levels[WHERE_SIZE], found[WHERE_SIZE] = "";
    int count = cpu_levels(), chosen = -1, used = 0;
    const Json *native = get(l, source, "native", AN_OBJECT, where);
    const char *asked = getenv("JITGRAPH_TARGET_CPU");
    if (asked && !*asked) asked = NULL;
    for (int i = 0; i < count; i++)
        if (asked ? strcmp(asked, LEVEL_NAMES[i]) == 0 : find(&native->index, LEVEL_NAMES[i]) != NULL) chosen = i;
    levels_text(count, levels);
    if (asked && chosen < 0) refuse(l, "this machine does not run '%.60s'; it runs %s", asked, levels);
    for (const Json *child = native->first; child && used < WHERE_SIZE; child = child->next)
        used += snprintf(found + used, (size_t)(WHERE_SIZE - used), "%s%s", used ? ", " : "", child->key);
    if (chosen < 0 || !find(&native->index, LEVEL_NAMES[chosen]))
        refuse(l, "%s has native code for %s, but this machine runs %s; save the model again for one of these", where,
               native->count ? found : "no target", levels);
    *target = LEVEL_NAMES[chosen];
    return member_named(l, members, get(l, native, *target, A_TEXT, where)->text)->bytes;
}
