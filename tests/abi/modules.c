// Tests loading images of every kind, lookups and launches, and the errors of these calls.
//
// The argument is the folder with the images of frontend/tests/data.
#include "abi.h"

static char *read_file(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    char *bytes = calloc(1, 1 << 16);
    if (fread(bytes, 1, (1 << 16) - 1, file) == 0)
        exit(1);
    fclose(file);
    return bytes;
}

// Doubles the first 999 of 1000 values with the kernel `scale`, then halves all values.
static void run_scale(CUfunction scale) {
    static float values[1000];
    CUdeviceptr v;
    float factor = 2.0f;
    unsigned n = 999;
    for (int i = 0; i < 1000; ++i)
        values[i] = (float)i;
    REQUIRE(cuMemAlloc_v2(&v, sizeof values));
    REQUIRE(cuMemcpyHtoD_v2(v, values, sizeof values));
    void *params[] = {&v, &factor, &n};
    EXPECT(cuLaunchKernel(scale, 8, 1, 1, 128, 1, 1, 0, NULL, params, NULL), SUCCESS);
    EXPECT(cuMemcpyDtoH_v2(values, v, sizeof values), SUCCESS);
    CHECK(values[0] == 0 && values[1] == 2 && values[998] == 1996 && values[999] == 999);

    // This launch passes the arguments in a packed buffer.
    struct {
        CUdeviceptr v;
        float factor;
        unsigned n;
    } packed = {v, 0.5f, 1000};
    size_t size = sizeof packed;
    void *extra[] = {(void *)1, &packed, (void *)2, &size, NULL};
    EXPECT(cuLaunchKernel(scale, 8, 1, 1, 128, 1, 1, 0, NULL, NULL, extra), SUCCESS);
    EXPECT(cuMemcpyDtoH_v2(values, v, sizeof values), SUCCESS);
    CHECK(values[998] == 998 && values[999] == 499.5f);
    EXPECT(cuMemFree_v2(v), SUCCESS);
}

static void launches_that_are_refused(CUfunction scale) {
    CUdeviceptr v = 0;
    float factor = 1;
    unsigned n = 0;
    void *params[] = {&v, &factor, &n};
    EXPECT(cuLaunchKernel(scale, 0, 1, 1, 32, 1, 1, 0, NULL, params, NULL), INVALID_VALUE);
    EXPECT(cuLaunchKernel(scale, 1, 1, 1, 0, 1, 1, 0, NULL, params, NULL), INVALID_VALUE);
    EXPECT(cuLaunchKernel(scale, 1, 1, 1, 1025, 1, 1, 0, NULL, params, NULL), INVALID_VALUE);
    EXPECT(cuLaunchKernel(scale, 1, 1, 1, 1, 1, 65, 0, NULL, params, NULL), INVALID_VALUE);
    EXPECT(cuLaunchKernel(scale, 1, 65536, 1, 1, 1, 1, 0, NULL, params, NULL), INVALID_VALUE);
    EXPECT(cuLaunchKernel(scale, 1, 1, 1, 32, 1, 1, 1 << 24, NULL, params, NULL), INVALID_VALUE);
    EXPECT_ERROR(cuLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    EXPECT_ERROR(cuLaunchKernel((CUfunction)(uintptr_t)0x1234, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    EXPECT(cuLaunchKernel(scale, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), SUCCESS);
    EXPECT(cuCtxSynchronize(), SUCCESS);
}

static void ask(CUmodule module, CUfunction scale) {
    CUfunction none = NULL;
    CUdeviceptr counter = 0;
    size_t bytes = 0, offset = 9, size = 9;
    unsigned value = 0;
    EXPECT(cuModuleGetFunction(&none, module, "nothing"), NOT_FOUND);
    EXPECT(cuModuleGetFunction(&none, module, ""), NOT_FOUND);
    EXPECT(cuModuleGetFunction(NULL, module, "scale"), INVALID_VALUE);
    EXPECT(cuModuleGetFunction(&none, module, NULL), INVALID_VALUE);
    EXPECT(cuModuleGetGlobal_v2(&counter, &bytes, module, "counter"), SUCCESS);
    CHECK(bytes == 4);
    EXPECT(cuMemcpyDtoH_v2(&value, counter, 4), SUCCESS);
    CHECK(value == 5);
    EXPECT(cuModuleGetGlobal_v2(&counter, NULL, module, "scale"), NOT_FOUND);
    EXPECT(cuFuncGetParamInfo(scale, 1, &offset, &size), SUCCESS);
    CHECK(offset == 8 && size == 4);
    EXPECT(cuFuncGetParamInfo(scale, 3, &offset, &size), INVALID_VALUE);
    int attribute = 0, blocks = 0;
    EXPECT(cuFuncGetAttribute(&attribute, 0, scale), SUCCESS);
    CHECK(attribute >= 128 && attribute <= 1024);
    EXPECT(cuFuncGetAttribute(&attribute, 5, scale), SUCCESS);
    CHECK(attribute == 70);
    EXPECT(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 128, 0), SUCCESS);
    CHECK(blocks >= 1);
}

static void images_from_files(const char *folder) {
    static const char *const good[] = {"scale-none.fatbin", "scale-speed.fatbin", "scale-default.fatbin",
                                       "scale-many.fatbin", "scale-90a.fatbin"};
    CUmodule module;
    CUfunction function;
    CUlibrary library;
    CUkernel kernel;
    for (size_t i = 0; i < sizeof good / sizeof *good; ++i) {
        char *image = read_file(folder, good[i]);
        REQUIRE(cuModuleLoadData(&module, image));
        EXPECT(cuModuleGetFunction(&function, module, "_Z4fillPffi"), SUCCESS);
        EXPECT(cuModuleUnload(module), SUCCESS);
        REQUIRE(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
        EXPECT(cuLibraryGetKernel(&kernel, library, "_Z4fillPffi"), SUCCESS);
        EXPECT(cuLibraryGetKernel(&kernel, library, "nothing"), NOT_FOUND);
        EXPECT(cuLibraryUnload(library), SUCCESS);
        free(image);
    }
    char *sass = read_file(folder, "scale-sass.fatbin");
    EXPECT(cuModuleLoadData(&module, sass), NO_BINARY_FOR_GPU);
    char *cubin = read_file(folder, "scale-sm_80.cubin");
    EXPECT(cuModuleLoadData(&module, cubin), NO_BINARY_FOR_GPU);
    char *damaged = read_file(folder, "scale-default.fatbin");
    memset(damaged + 120, 0x5a, 100);
    EXPECT_ERROR(cuModuleLoadData(&module, damaged));
    free(damaged);
    free(cubin);
    free(sass);
    char path[4096];
    snprintf(path, sizeof path, "%s/scale-default.fatbin", folder);
    EXPECT(cuModuleLoad(&module, path), SUCCESS);
    EXPECT(cuModuleUnload(module), SUCCESS);
    snprintf(path, sizeof path, "%s/nowhere.ptx", folder);
    EXPECT(cuModuleLoad(&module, path), FILE_NOT_FOUND);
    snprintf(path, sizeof path, "%s/scale-default.fatbin/below.ptx", folder);
    EXPECT(cuModuleLoad(&module, path), FILE_NOT_FOUND);
}

static void bad_text(void) {
    CUmodule module;
    char log[1024] = "";
    // CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES.
    int options[] = {5, 6};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    const char *bad = ".version 7.0\n.target sm_70\n.entry k() { bad.instruction; }\n";
    EXPECT(cuModuleLoadDataEx(&module, bad, 2, options, values), INVALID_PTX);
    CHECK(strstr(log, "bad") != NULL && strlen(log) < sizeof log);
    EXPECT(cuModuleLoadData(&module, bad), INVALID_PTX);
    EXPECT_ERROR(cuModuleLoadData(&module, ""));
    EXPECT(cuModuleLoadData(&module, NULL), INVALID_VALUE);
    EXPECT(cuModuleLoadData(NULL, KERNELS), INVALID_VALUE);
}

static void linker(void) {
    CUlinkState state;
    CUmodule module;
    CUfunction scale;
    void *image = NULL;
    size_t bytes = 0;
    REQUIRE(cuLinkCreate_v2(0, NULL, NULL, &state));
    REQUIRE(cuLinkAddData_v2(state, 1, (void *)KERNELS, sizeof KERNELS, "kernels.ptx", 0, NULL, NULL));
    REQUIRE(cuLinkComplete(state, &image, &bytes));
    CHECK(image && bytes);
    REQUIRE(cuModuleLoadData(&module, image));
    EXPECT(cuLinkDestroy(state), SUCCESS);
    EXPECT(cuModuleGetFunction(&scale, module, "scale"), SUCCESS);
    run_scale(scale);
    EXPECT(cuModuleUnload(module), SUCCESS);
}

int main(int argc, char **argv) {
    start();
    CUmodule module;
    CUfunction scale;
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&scale, module, "scale"));
    run_scale(scale);
    launches_that_are_refused(scale);
    ask(module, scale);
    EXPECT(cuModuleUnload(module), SUCCESS);
    EXPECT_ERROR(cuModuleUnload(module));
    EXPECT_ERROR(cuModuleGetFunction(&scale, module, "scale"));
    EXPECT_ERROR(cuModuleUnload(NULL));
    bad_text();
    linker();
    if (argc > 1)
        images_from_files(argv[1]);
    return finish();
}
