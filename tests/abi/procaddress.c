// Compares cuGetProcAddress with a table of every symbol and with dlsym.
//
// The argument is the table. Its lines have the form `SYMBOL SINCE_VERSION[:STREAM_SUFFIX] EXPORT` and are in the order
// of versions.
#define _GNU_SOURCE
#include "abi.h"

#include <dlfcn.h>

enum { FOUND = 0, SYMBOL_NOT_FOUND = 1, VERSION_NOT_SUFFICIENT = 2 };
enum { DEFAULT = 0, LEGACY_STREAM = 1, PER_THREAD_STREAM = 2 };

static void *lookup(const char *symbol, int version, uint64_t flags, int *status) {
    void *function = (void *)1;
    *status = -1;
    CUresult result = cuGetProcAddress_v2(symbol, &function, version, flags, status);
    if ((result == SUCCESS) != (*status == FOUND) || (result == SUCCESS) != (function != NULL)) {
        printf("%s %d %d: result %d, status %d, %p\n", symbol, version, (int)flags, result, *status, function);
        ++failures;
    }
    return function;
}

// Checks a line of the table: the library exports the function, and if the lookup with the line's version finds a
// function, it is this one. A stream suffix selects the flag for per-thread streams.
static void check_row(const char *symbol, int version, const char *suffix, const char *export) {
    int status;
    void *direct = dlsym(RTLD_DEFAULT, export);
    if (!direct) {
        printf("%s is not exported\n", export);
        ++failures;
        return;
    }
    void *found = lookup(symbol, version, suffix[0] ? PER_THREAD_STREAM : LEGACY_STREAM, &status);
    if (status == FOUND && found != direct) {
        printf("%s at %d%s is not %s\n", symbol, version, suffix, export);
        ++failures;
    }
    if (!suffix[0] && strcmp(symbol, "cuGetProcAddress") == 0 && status != FOUND) {
        printf("cuGetProcAddress itself is not found\n");
        ++failures;
    }
}

int main(int argc, char **argv) {
    REQUIRE(cuInit(0));
    int status, driver, rows = 0;
    REQUIRE(cuDriverGetVersion(&driver));
    FILE *table = argc > 1 ? fopen(argv[1], "r") : NULL;
    char line[512], symbol[200], export[200];
    while (table && fgets(line, sizeof line, table)) {
        int version, end = 0;
        char suffix[16] = "";
        if (line[0] == '#')
            continue;
        CHECK(sscanf(line, "%199s %d%n", symbol, &version, &end) == 2);
        if (line[end] == ':')
            CHECK(sscanf(line + end, ":%15s %199s", suffix, export) == 2);
        else
            CHECK(sscanf(line + end, "%199s", export) == 1);
        check_row(symbol, version, suffix, export);
        ++rows;
    }
    CHECK(rows > 700);

    void *alloc = lookup("cuMemAlloc", 2000, DEFAULT, &status);
    CHECK(alloc == dlsym(RTLD_DEFAULT, "cuMemAlloc"));
    alloc = lookup("cuMemAlloc", 3019, DEFAULT, &status);
    CHECK(alloc == dlsym(RTLD_DEFAULT, "cuMemAlloc"));
    alloc = lookup("cuMemAlloc", driver, DEFAULT, &status);
    CHECK(alloc == dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    lookup("cuMemAlloc", 1000, DEFAULT, &status);
    CHECK(status == VERSION_NOT_SUFFICIENT);
    lookup("cuNothingOfTheKind", driver, DEFAULT, &status);
    CHECK(status == SYMBOL_NOT_FOUND);
    lookup("", driver, DEFAULT, &status);
    CHECK(status != FOUND);
    // A symbol's name does not contain the version suffix `_v2`.
    lookup("cuMemAlloc_v2", driver, DEFAULT, &status);
    CHECK(status == SYMBOL_NOT_FOUND);
    void *function = NULL;
    EXPECT(cuGetProcAddress_v2("cuInit", &function, driver, DEFAULT, NULL), SUCCESS);
    CHECK(function == dlsym(RTLD_DEFAULT, "cuInit"));
    EXPECT(cuGetProcAddress("cuInit", &function, driver, DEFAULT), SUCCESS);
    EXPECT(cuGetProcAddress_v2(NULL, &function, driver, DEFAULT, &status), INVALID_VALUE);
    EXPECT(cuGetProcAddress_v2("cuInit", NULL, driver, DEFAULT, &status), INVALID_VALUE);
    return finish();
}
