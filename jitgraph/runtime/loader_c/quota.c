/* How much processor time the control groups of Linux leave this process, as loader/quota.py explains. */

#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_PATH = 4096 };

/* The text of a file under `top`, for the caller to free; NULL where it cannot be read. */
static char *file_text(const char *top, const char *path) {
    char name[3 * LONGEST_PATH];
    if ((size_t)snprintf(name, sizeof name, "%s%s", top, path) >= sizeof name) return NULL;
    FILE *file = fopen(name, "re");
    if (!file) return NULL;
    char *text = NULL;
    size_t used = 0, room = 0;
    for (;;) {
        if (used + 1 >= room) {
            char *larger = realloc(text, room = room ? 2 * room : LONGEST_PATH);
            if (!larger) break;
            text = larger;
        }
        size_t got = fread(text + used, 1, room - used - 1, file);
        used += got;
        if (!got) break;
    }
    if (text) text[used] = '\0';
    fclose(file);
    return text;
}

/* A number of microseconds at the start of a text, 0 for any other text. */
static double microseconds(const char *text) {
    if (!text || *text < '0' || *text > '9') return 0;
    return (double)strtoull(text, NULL, 10);
}

/* The processors that one group allows, INFINITY for no limit. */
static double group_limit(const char *top, const char *folder, bool unified) {
    char path[2 * LONGEST_PATH + 32];
    snprintf(path, sizeof path, "%s/%s", folder, unified ? "cpu.max" : "cpu.cfs_quota_us");
    char *first = file_text(top, path), *second = NULL;
    const char *behind = first && unified ? strchr(first, ' ') : NULL;
    if (first && !unified) {
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        second = file_text(top, path);
    }
    double quota = microseconds(first), period = microseconds(unified ? (behind ? behind + 1 : NULL) : second);
    free(first);
    free(second);
    return quota > 0 && period > 0 ? quota / period : INFINITY;
}

/* Puts the characters that a path of mountinfo has in octal. */
static void plain(char *path) {
    char *to = path;
    for (const char *from = path; *from;) {
        bool octal = from[0] == '\\' && from[1] >= '0' && from[1] < '4' && from[2] >= '0' && from[2] < '8' &&
                     from[3] >= '0' && from[3] < '8';
        *to++ = octal ? (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0')) : *from;
        from += octal ? 4 : 1;
    }
    *to = '\0';
}

/* Whether a list with commas has a word. */
static bool lists(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == '\0' || at[length] == ',')) return true;
    return false;
}

/* The least limit of a group and of those above it, up to where `root` is mounted; that alone for one outside. */
static double least_limit(const char *top, const char *group, const char *root, const char *point, bool unified) {
    size_t skipped = strcmp(root, "/") == 0 ? 0 : strlen(root);
    bool inside = !skipped || (strncmp(group, root, skipped) == 0 && (group[skipped] == '/' || !group[skipped]));
    const char *below = inside ? group + skipped : "";
    char folder[2 * LONGEST_PATH];
    for (const char *up = below; (up = strstr(up, "/..")); up += 3)
        if (up[3] == '/' || !up[3]) below = "";
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", point, below) >= sizeof folder) return INFINITY;
    size_t base = strlen(point), end = strlen(folder);
    while (end > base && folder[end - 1] == '/') folder[--end] = '\0';
    double least = INFINITY;
    for (;;) {
        double limit = group_limit(top, folder, unified);
        if (limit < least) least = limit;
        if (end <= base) return least;
        while (end > base && folder[end - 1] != '/') end--;
        if (end > base) end--;
        folder[end] = '\0';
    }
}

/* The path of the process's group, in place: of version 2, or of the one of version 1 that has the processors. */
static char *group_of(char *text, bool unified) {
    char *found = NULL, *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *controllers++ = *path++ = '\0';
        bool second = strcmp(line, "0") == 0 && !*controllers;
        if (unified ? second : lists(controllers, "cpu")) found = path;
    }
    return found;
}

/* Of one hierarchy, version 2 or 1, the least limit; INFINITY where nothing limits. */
static double hierarchy_limit(const char *top, bool unified) {
    char *groups = file_text(top, "/proc/self/cgroup"), *mounts = file_text(top, "/proc/self/mountinfo");
    char *group = groups ? group_of(groups, unified) : NULL, *rest = NULL;
    double least = INFINITY;
    char *line = group && mounts ? strtok_r(mounts, "\n", &rest) : NULL;
    for (; line; line = strtok_r(NULL, "\n", &rest)) {
        char root[LONGEST_PATH], point[LONGEST_PATH], type[32], options[LONGEST_PATH];
        const char *source = strstr(line, " - ");
        if (!source || sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2 ||
            sscanf(source, " - %31s %*s %4095s", type, options) != 2)
            continue;
        if (strcmp(type, unified ? "cgroup2" : "cgroup") != 0 || (!unified && !lists(options, "cpu"))) continue;
        plain(root);
        plain(point);
        double limit = least_limit(top, group, root, point, unified);
        if (limit < least) least = limit;
    }
    free(groups);
    free(mounts);
    return least;
}

/* How many processors' time this process may use, as the files under `top` ("" for the system's) say; INFINITY where
   nothing limits it. */
static double processor_quota(const char *top) {
    double first = hierarchy_limit(top, false), second = hierarchy_limit(top, true);
    return first < second ? first : second;
}
