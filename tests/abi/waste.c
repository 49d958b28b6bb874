// Programs with one defect each, for `margay waste`. The argument selects one; cli/tests/waste.rs runs them, and a line
// with the comment `@name` is the line that a report must name.
#define _GNU_SOURCE
#include "waste/cuda_runtime.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

CUresult cuCtxGetLimit(size_t *value, int limit);
CUresult cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, CUstream);
CUresult UNIMPLEMENTED(void *, void *);

static char host[1000];

static char *allocate(size_t bytes) {
    char *pointer;
    REQUIRE(cudaMalloc(&pointer, bytes)); // @alloc
    return pointer;
}

static void launch_poke(CUdeviceptr pointer) {
    CUmodule module;
    CUfunction function;
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&function, module, "poke"));
    void *parameters[] = {&pointer};
    REQUIRE(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuModuleUnload(module));
}

// A block whose zones are filled, and whose content is zero although the memory was used before.
static void clean(void) {
    for (int round = 0; round < 3; ++round) {
        char *block = allocate(100);
        for (int i = 0; i < 100; ++i)
            CHECK(block[i] == 0);
        printf("%02x %02x %02x\n", (unsigned char)block[-1], (unsigned char)block[100], (unsigned char)block[-32]);
        REQUIRE(cudaMemset(block, 9, 100));
        REQUIRE(cudaMemcpy(host, block, 100, cudaMemcpyDeviceToHost));
        launch_poke((uintptr_t)block);
        REQUIRE(cudaFree(block));
    }
}

static void zones(const char *what) {
    char *block = allocate(100);
    if (!strcmp(what, "footer")) {
        launch_poke((uintptr_t)block + 100);
        REQUIRE(cudaMemcpy(host, block, 100, cudaMemcpyDeviceToHost)); // @copy
    } else if (!strcmp(what, "set")) {
        block[131] = 1;
        REQUIRE(cudaMemset(block, 0, 100)); // @set
    } else if (!strcmp(what, "source")) {
        char *other = allocate(100);
        block[-32] = 1;
        REQUIRE(cudaMemcpy(other, block, 100, cudaMemcpyDeviceToDevice)); // @source
        REQUIRE(cudaFree(other));
    } else if (!strcmp(what, "async")) {
        block[100] = 1;
        REQUIRE(cuMemcpyDtoHAsync_v2(host, (uintptr_t)block, 100, NULL)); // @async
        REQUIRE(cuCtxSynchronize());
    } else if (!strcmp(what, "header")) {
        launch_poke((uintptr_t)block - 4);
    } else if (!strcmp(what, "near")) {
        // Inside the memory of a zone of 8 bytes, and outside of it.
        block[-9] = block[108] = 1;
        REQUIRE(cudaMemset(block, 0, 100));
        block[-8] = block[107] = 1;
    } else if (!strcmp(what, "exit")) {
        block[-1] = 1;
        return;
    } else if (!strcmp(what, "context")) {
        block[-1] = 1;
        REQUIRE(cudaDeviceReset()); // @end
        return;
    }
    REQUIRE(cudaFree(block)); // @free
}

static void frees(void) {
    char *block = allocate(100);
    EXPECT(cudaFree(block + 8), INVALID_VALUE); // @free-interior
    REQUIRE(cudaFree(block));
    EXPECT(cudaFree(block), INVALID_VALUE); // @free-twice
    EXPECT(cudaFree((void *)0x123000), INVALID_VALUE); // @free-unknown
    cudaFree(NULL); // @free-null
}

static void copies(void) {
    char *block = allocate(100), *stale = allocate(50);
    REQUIRE(cudaFree(stale));
    EXPECT_ERROR(cudaMemcpy(block, host, 100, cudaMemcpyDeviceToHost)); // @reversed
    EXPECT_ERROR(cudaMemcpy(host, stale, 50, cudaMemcpyDeviceToHost)); // @bad-source
    EXPECT_ERROR(cudaMemcpy(stale, host, 50, cudaMemcpyHostToDevice)); // @bad-destination
    EXPECT_ERROR(cudaMemcpy(block, (void *)64, 50, cudaMemcpyHostToDevice)); // @unreadable
    EXPECT_ERROR(cudaMemcpy(host, block, 101, cudaMemcpyDeviceToHost)); // @long-copy
    EXPECT_ERROR(cudaMemset(block, 0, 102)); // @long-set
    REQUIRE(cudaFree(block));
}

static void interior(void) {
    char *block = allocate(100);
    host[0] = 5;
    printf("%d\n", cudaMemcpy(block + 10, host, 50, cudaMemcpyHostToDevice)); // @interior-copy
    printf("%d\n", cudaMemset(block + 20, 0, 50)); // @interior-set
    printf("%d\n", block[10]);
    REQUIRE(cudaFree(block));
}

static void reset(void) {
    char *block = allocate(100);
    REQUIRE(cudaDeviceReset());
    start();
    EXPECT_ERROR(cudaMemcpy(host, block, 100, cudaMemcpyDeviceToHost)); // @after-reset
}

static void describe(void) {
    int major, minor;
    size_t stack;
    REQUIRE(cuDeviceComputeCapability(&major, &minor, 0));
    REQUIRE(cuCtxGetLimit(&stack, 0));
    printf("compute_%d%d stack %zu\n", major, minor, stack);
}

// Starts CUDA in a child process that this process traces.
static void traced(void) {
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        start();
        exit(0);
    }
    int status;
    for (waitpid(child, &status, 0); WIFSTOPPED(status); waitpid(child, &status, 0)) {
        int is_trap = WSTOPSIG(status) == SIGTRAP;
        printf("stopped%s\n", is_trap ? " by SIGTRAP" : "");
        ptrace(PTRACE_CONT, child, NULL, (void *)(uintptr_t)(is_trap ? 0 : WSTOPSIG(status)));
    }
    printf("ended\n");
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "traced")) {
        traced();
        return 0;
    }
    start();
    if (!strcmp(what, "clean"))
        clean();
    else if (!strcmp(what, "zones") && count > 2)
        zones(arguments[2]);
    else if (!strcmp(what, "unfreed"))
        allocate(12345);
    else if (!strcmp(what, "frees"))
        frees();
    else if (!strcmp(what, "copies"))
        copies();
    else if (!strcmp(what, "interior"))
        interior();
    else if (!strcmp(what, "reset"))
        reset();
    else if (!strcmp(what, "unimplemented")) {
        EXPECT(UNIMPLEMENTED(host, host), NOT_SUPPORTED); // @unimplemented
        EXPECT(UNIMPLEMENTED(host, host), NOT_SUPPORTED);
    } else if (!strcmp(what, "describe"))
        describe();
    else
        ++failures;
    finish();
    return failures ? 1 : 5;
}
