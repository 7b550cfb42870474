/* The quota of processors that files below a folder say, for tests. */
#include "loader.c"

double quota_under(const char *folder);
double quota_under(const char *folder) { return processor_quota(folder); }
