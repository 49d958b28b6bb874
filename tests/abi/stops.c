// Kernels that never end by themselves, and kernels with faults. The arguments select the case and the kernel.
// `tests/tests/abi.rs` compares the output on standard error.
#include <pthread.h>
#include <unistd.h>

#include "abi.h"

static const char KERNELS_THAT_STOP[] =
    ".version 7.0\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .entry count_for_ever(.param .u64 p)\n"
    "{\n"
    "    .reg .b32 %r;\n"
    "    mov.u32 %r, 0;\n"
    "again:\n"
    "    add.u32 %r, %r, 1;\n"
    "    bra again;\n"
    "}\n"
    ".visible .entry poll_for_ever(.param .u64 p)\n"
    "{\n"
    "    .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;\n"
    "    ld.param.u64 %rd, [p];\n"
    "again:\n"
    "    ld.volatile.global.u32 %r, [%rd];\n" // PTX line 17
    "    setp.ne.u32 %p, %r, 7;\n"
    "    @%p bra again;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry apart(.param .u64 p)\n"
    "{\n"
    "    .reg .pred %p; .reg .b32 %r;\n"
    "    mov.u32 %r, %tid.x;\n"
    "    setp.lt.u32 %p, %r, 32;\n"
    "    @%p bra other;\n"
    "    bar.sync 3, 64;\n" // PTX line 28
    "    ret;\n"
    "other:\n"
    "    bar.sync 4, 64;\n" // PTX line 31
    "    ret;\n"
    "}\n"
    ".visible .entry read_past(.param .u64 p)\n"
    "{\n"
    "    .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd;\n"
    "    ld.param.u64 %rd, [p];\n"
    "    mov.u32 %r1, %ctaid.x; setp.ne.u32 %p, %r1, 2; @%p ret;\n"
    "    mov.u32 %r2, %tid.x; setp.ne.u32 %p, %r2, 5; @%p ret;\n"
    "    ld.global.u32 %r3, [%rd+1048576];\n" // PTX line 40
    "    st.global.u32 [%rd], %r3;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry store(.param .u64 p)\n"
    "{\n"
    "    .reg .b64 %rd;\n"
    "    ld.param.u64 %rd, [p];\n"
    "    st.global.u32 [%rd], 7;\n"
    "    ret;\n"
    "}\n";

static CUdeviceptr memory;

static CUresult launch(const char *name, unsigned blocks, unsigned threads) {
    CUmodule module;
    CUfunction function;
    REQUIRE(cuModuleLoadData(&module, KERNELS_THAT_STOP));
    REQUIRE(cuModuleGetFunction(&function, module, name));
    void *params[] = {&memory};
    return cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, NULL, params, NULL);
}

static void allocate(void) {
    start();
    REQUIRE(cuMemAlloc_v2(&memory, 4096));
    REQUIRE(cuMemsetD32_v2(memory, 1, 1024));
}

// Checks that the process can launch kernels after a reset.
static void go_on(void) {
    REQUIRE(cuDevicePrimaryCtxReset_v2(0));
    allocate();
    EXPECT(launch("store", 1, 1), SUCCESS);
    EXPECT(cuCtxSynchronize(), SUCCESS);
    unsigned word = 0;
    EXPECT(cuMemcpyDtoH_v2(&word, memory, 4), SUCCESS);
    CHECK(word == 7);
}

static void *reset(void *unused) {
    REQUIRE(cuDevicePrimaryCtxReset_v2(0));
    return unused;
}

int main(int count, char **arguments) {
    if (count != 3)
        return 2;
    const char *way = arguments[1], *kernel = arguments[2];
    allocate();
    if (strcmp(way, "wait") == 0) {
        REQUIRE(launch(kernel, 3, 64));
        puts("READY");
        fflush(stdout);
        cuCtxSynchronize();
        return 3;
    }
    if (strcmp(way, "limit") == 0 || strcmp(way, "barrier") == 0) {
        EXPECT(launch(kernel, 2, 64), SUCCESS);
        EXPECT(cuCtxSynchronize(), LAUNCH_TIMEOUT);
        go_on();
    } else if (strcmp(way, "reset") == 0) {
        pthread_t thread;
        REQUIRE(launch(kernel, 3, 64));
        CHECK(pthread_create(&thread, NULL, reset, NULL) == 0);
        // The call must return. It fails, or it waits for the new context.
        (void)cuCtxSynchronize();
        CHECK(pthread_join(thread, NULL) == 0);
        go_on();
    } else if (strcmp(way, "fault") == 0) {
        EXPECT(launch(kernel, 4, 32), SUCCESS);
        EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
        fprintf(stderr, "expected %#llx\n", memory + 1048576);
        go_on();
    }
    return finish();
}
