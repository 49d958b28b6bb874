// Tests printf in kernels. Calls that wait for work print the output of kernels, so it appears between the program's
// own lines. Output for which no call has waited appears when the program ends. `tests/tests/abi.rs` compares the whole
// output.
#include <unistd.h>

#include "abi.h"

static const char PRINTING[] =
    ".version 7.0\n"
    ".target sm_52\n"
    ".address_size 64\n"
    ".extern .func (.param .b32 count) vprintf (.param .b64 format, .param .b64 arguments);\n"
    ".global .align 1 .b8 line[11] = {107, 101, 114, 110, 101, 108, 32, 37, 100, 10, 0};\n" // "kernel %d\n"
    ".visible .entry say(.param .u32 number)\n"
    "{\n"
    "    .local .align 8 .b8 list[8];\n"
    "    .reg .b32 %r<2>; .reg .b64 %rd<3>;\n"
    "    ld.param.u32 %r0, [number];\n"
    "    st.local.u32 [list], %r0;\n"
    "    mov.u64 %rd0, list; cvta.local.u64 %rd1, %rd0;\n"
    "    mov.u64 %rd0, line; cvta.global.u64 %rd2, %rd0;\n"
    "    { .param .b64 f; .param .b64 a; .param .b32 n;\n"
    "      st.param.b64 [f], %rd2; st.param.b64 [a], %rd1;\n"
    "      call.uni (n), vprintf, (f, a);\n"
    "      ld.param.b32 %r1, [n]; }\n"
    "    ret;\n"
    "}\n";

static CUfunction function;

static void say(int number) {
    void *params[] = {&number};
    REQUIRE(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

// Waits by polling, because a call that waits would print the output.
static void until_idle(void) {
    while (cuStreamQuery(NULL) == NOT_READY)
        usleep(1000);
}

static void tell(void *text) {
    fputs(text, stdout);
}

int main(void) {
    start();
    CUmodule module, other;
    CUevent event;
    CUdeviceptr memory;
    int word;
    REQUIRE(cuModuleLoadData(&module, PRINTING));
    REQUIRE(cuModuleGetFunction(&function, module, "say"));
    REQUIRE(cuEventCreate(&event, 0));
    REQUIRE(cuMemAlloc_v2(&memory, 4));

    printf("host 1\n");
    say(1);
    REQUIRE(cuCtxSynchronize());
    printf("host 2\n");
    say(2);
    REQUIRE(cuStreamSynchronize(NULL));
    printf("host 3\n");
    say(3);
    REQUIRE(cuEventRecord(event, NULL));
    REQUIRE(cuEventSynchronize(event));
    printf("host 4\n");
    say(4);
    REQUIRE(cuMemcpyDtoH_v2(&word, memory, 4));
    printf("host 5\n");
    say(5);
    until_idle();
    REQUIRE(cuModuleLoadData(&other, PRINTING));
    printf("host 6\n");
    say(6);
    until_idle();
    printf("host 6, too\n");
    say(7);
    printf("host 7\n");
    REQUIRE(cuLaunchHostFunc(NULL, tell, "host function\n"));
    until_idle();
    say(8);
    until_idle();
    printf("end\n");
    return 0;
}
