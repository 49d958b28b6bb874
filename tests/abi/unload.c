// Opens the library with dlopen, closes it and opens it again, and closes it while work is pending. Usage: unload
// LIBRARY
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long Address;

static const char SPIN[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry spin(.param .u64 flag)\n{\n"
    "    .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;\n    ld.param.u64 %rd, [flag];\n"
    "again:\n    ld.volatile.global.u32 %r, [%rd];\n    setp.eq.u32 %p, %r, 0;\n    @%p bra again;\n    ret;\n}\n";

static void *library;

static int call_(const char *name, uintptr_t a, uintptr_t b, uintptr_t c) {
    int (*function)(uintptr_t, uintptr_t, uintptr_t) = dlsym(library, name);
    if (!function) {
        printf("%s is missing\n", name);
        exit(1);
    }
    return function(a, b, c);
}
#define CALL(name, a, b, c) require(name, call_(name, (uintptr_t)(a), (uintptr_t)(b), (uintptr_t)(c)))

static void require(const char *name, int got) {
    if (got == 0)
        return;
    printf("%s: %d\n", name, got);
    exit(1);
}

static void open_library(const char *path) {
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("%s\n", dlerror());
        exit(1);
    }
}

int main(int count, char **arguments) {
    void *context, *module, *spin;
    Address memory = 0;
    unsigned *flag, seen = 0;
    if (count < 2)
        return 2;
    open_library(arguments[1]);
    CALL("cuInit", 0, 0, 0);
    CALL("cuDevicePrimaryCtxRetain", &context, 0, 0);
    CALL("cuCtxSetCurrent", context, 0, 0);
    CALL("cuMemAlloc_v2", &memory, 4, 0);
    CALL("cuMemsetD32_v2", memory, 77, 1);
    // After the library is closed and opened again, handles, memory and the current context are still valid.
    dlclose(library);
    open_library(arguments[1]);
    CALL("cuMemcpyDtoH_v2", &seen, memory, 4);
    if (seen != 77) {
        printf("read %u\n", seen);
        return 1;
    }
    CALL("cuModuleLoadData", &module, SPIN, 0);
    CALL("cuModuleGetFunction", &spin, module, "spin");
    CALL("cuMemHostAlloc", &flag, 4, 0);
    *flag = 0;
    void *parameters[] = {&flag};
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) =
        dlsym(library, "cuLaunchKernel");
    require("cuLaunchKernel", launch(spin, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    // The library's threads continue after dlclose, and the process can end.
    dlclose(library);
    printf("PASS\n");
    return 0;
}
