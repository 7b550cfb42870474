/* How much processor time the control groups of Linux leave this process, as loader/pool.py explains. */

#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_PATH = 4096 };

/* The numbers that begin a file under `top`, up to two of them; how many there are. */
static int numbers_of(const char *top, const char *folder, const char *name, double numbers[2]) {
    char path[2 * LONGEST_PATH];
    if ((size_t)snprintf(path, sizeof path, "%s%s%s", top, folder, name) >= sizeof path) return 0;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    int count = fscanf(file, "%lf %lf", &numbers[0], &numbers[1]);
    fclose(file);
    return count;
}

/* The least number of processors that a group below `point` or one above it allows, or `least`. */
static double least_limit(const char *top, const char *point, const char *group, double least) {
    char folder[2 * LONGEST_PATH];
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", point, group) >= sizeof folder) return least;
    for (char *end = folder + strlen(folder);; *end = '\0') {
        double limit[2] = {0, 0}; /* a quota, which is no number or negative where there is none, and a period */
        if (numbers_of(top, folder, "/cpu.cfs_period_us", limit) == 1) {
            limit[1] = limit[0];
            if (numbers_of(top, folder, "/cpu.cfs_quota_us", limit) != 1) limit[0] = 0;
        } else if (numbers_of(top, folder, "/cpu.max", limit) != 2) {
            limit[0] = 0;
        }
        if (limit[0] > 0 && limit[1] > 0 && limit[0] / limit[1] < least) least = limit[0] / limit[1];
        if (end <= folder + strlen(point)) return least;
        while (*--end != '/') continue;
    }
}

/* Whether ":a,b,c" lists "cpu". */
static bool lists_cpu(const char *list) {
    for (; (list = strstr(list, "cpu")); list++)
        if ((list[-1] == ':' || list[-1] == ',') && (list[3] == ',' || !list[3])) return true;
    return false;
}

/* How many processors' time this process may use, as the files under `top` ("" for the system's) say; INFINITY where
   nothing limits it. */
static double processor_quota(const char *top) {
    static const char *const points[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu",
                                         "/sys/fs/cgroup/cpu,cpuacct"};
    char line[LONGEST_PATH];
    double least = INFINITY;
    snprintf(line, sizeof line, "%s/proc/self/cgroup", top);
    FILE *file = fopen(line, "re");
    while (file && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        bool second = strcmp(line, "0:") == 0, first = !second && lists_cpu(controllers);
        if (strstr(path, "..") || strcmp(path, "/") == 0) path = "";
        for (int i = 0; i < 2 && (first || second); i++) least = least_limit(top, points[first * 2 + i], path, least);
    }
    if (file) fclose(file);
    return least;
}
