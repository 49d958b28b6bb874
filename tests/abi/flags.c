// Tests kernels that poll memory that another process writes: memory from `cuMemAlloc` that the other process opens by
// an IPC handle, and host memory that both processes map and register. The other process sets the flags with a fill, a
// copy, a kernel, a stream memory operation or plain C. Afterwards, kernels of both processes exchange numbers in
// turns.
//
// The test also runs with one worker (MARGAY_WORKERS=1), so a kernel that waits must let other work run. An alarm ends
// the program if it hangs.
#include "abi.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    char bytes[64];
} Opaque;

CUresult cuIpcGetMemHandle(Opaque *, CUdeviceptr);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *, Opaque, unsigned);
CUresult cuIpcCloseMemHandle(CUdeviceptr);
CUresult cuMemHostRegister_v2(void *, size_t, unsigned);
CUresult cuMemHostUnregister(void *);
CUresult cuStreamWriteValue32_v2(CUstream, CUdeviceptr, unsigned, unsigned);

enum {
    WORDS = 16384,
    TURNS = 2000,
    // Indices of words in the shared memory. The words before FIRST are the flags that the processes set. FIRST and
    // SECOND are the flags of the two `turns` kernels, and the numbers of these kernels begin at NUMBERS.
    FIRST = 512,
    SECOND = 513,
    NUMBERS = 1024,
    LIMIT = 120, // Time limit of the program in seconds.
};

// wait_*: waits until *flag is 1. set_*: sets *flag to 1. turns: for i from 1 to n, writes 3 * i to out[i] and i to its
// own flag, waits until the other flag is at least i, and adds in[i] to the sum.
static const char POLLING[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
#define WAIT(name, load)                                                                                     \
    ".visible .entry " name "(.param .u64 flag)\n{\n"                                                        \
    "    .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;\n"                                                      \
    "    ld.param.u64 %rd, [flag];\n"                                                                        \
    "again:\n    " load "\n"                                                                                 \
    "    setp.ne.u32 %p, %r, 1;\n    @%p bra again;\n    ret;\n}\n"
    WAIT("wait_volatile", "ld.volatile.global.u32 %r, [%rd];")
    WAIT("wait_acquire", "ld.acquire.sys.global.u32 %r, [%rd];")
    WAIT("wait_fence", "membar.sys; ld.global.u32 %r, [%rd];")
    WAIT("wait_atomic", "atom.global.or.b32 %r, [%rd], 0;")
#define SET(name, store)                                                                                     \
    ".visible .entry " name "(.param .u64 flag)\n{\n"                                                        \
    "    .reg .b32 %r<2>; .reg .b64 %rd;\n"                                                                  \
    "    ld.param.u64 %rd, [flag]; mov.u32 %r1, 1;\n    " store "\n    ret;\n}\n"
    SET("set_plain", "st.global.u32 [%rd], %r1;")
    SET("set_release", "st.release.sys.global.u32 [%rd], %r1;")
    SET("set_atomic", "atom.global.exch.b32 %r0, [%rd], %r1;")
    ".visible .entry turns(.param .u64 own, .param .u64 other, .param .u64 out, .param .u64 in, .param .u64 sum,\n"
    "                      .param .u32 n)\n{\n"
    "    .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<9>;\n"
    "    ld.param.u64 %rd1, [own]; ld.param.u64 %rd2, [other]; ld.param.u64 %rd3, [out];\n"
    "    ld.param.u64 %rd4, [in]; ld.param.u64 %rd5, [sum]; ld.param.u32 %r1, [n];\n"
    "    mov.u32 %r2, 1; mov.u64 %rd6, 0;\n"
    "turn:\n"
    "    mul.wide.u32 %rd7, %r2, 4; add.s64 %rd8, %rd3, %rd7;\n"
    "    mul.lo.u32 %r3, %r2, 3; st.global.u32 [%rd8], %r3;\n"
    "    st.release.sys.global.u32 [%rd1], %r2;\n"
    "again:\n"
    "    ld.acquire.sys.global.u32 %r3, [%rd2];\n"
    "    setp.lt.u32 %p, %r3, %r2;\n    @%p bra again;\n"
    "    add.s64 %rd8, %rd4, %rd7; ld.global.u32 %r3, [%rd8];\n"
    "    cvt.u64.u32 %rd7, %r3; add.s64 %rd6, %rd6, %rd7;\n"
    "    add.u32 %r2, %r2, 1; setp.le.u32 %p, %r2, %r1;\n    @%p bra turn;\n"
    "    st.global.u64 [%rd5], %rd6;\n    ret;\n}\n";

static const char *const WAITS[] = {"wait_volatile", "wait_acquire", "wait_fence", "wait_atomic"};
static const char *const SETTERS[] = {"set_plain", "set_release", "set_atomic"};
enum { WAITERS = 4, KERNELS_THAT_SET = 3, OTHER_WAYS = 3, WAYS = KERNELS_THAT_SET + OTHER_WAYS };

static CUmodule module;
static CUstream stream;
static int pipe_to_other;

static void launch(const char *name, void **arguments) {
    CUfunction kernel;
    REQUIRE(cuModuleGetFunction(&kernel, module, name));
    REQUIRE(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

// Sets the word at `at` in the way with the number `way`. `host` is the host's address of the word, or null if the host
// cannot access the word.
static void set(int way, CUdeviceptr at, volatile unsigned *host) {
    unsigned one = 1;
    void *arguments[] = {&at};
    if (way < KERNELS_THAT_SET)
        launch(SETTERS[way], arguments);
    else if (host && way == WAYS - 1)
        __atomic_store_n(host, 1, __ATOMIC_RELEASE);
    else if (way == KERNELS_THAT_SET)
        REQUIRE(cuMemsetD32Async(at, 1, 1, stream));
    else if (way == KERNELS_THAT_SET + 1)
        REQUIRE(cuMemcpyHtoD_v2(at, &one, sizeof one));
    else
        REQUIRE(cuStreamWriteValue32_v2(stream, at, 1, 0));
    REQUIRE(cuStreamSynchronize(stream));
}

static void say(char word) {
    if (write(pipe_to_other, &word, 1) != 1)
        exit(2);
}

static void hear(char word) {
    char heard = 0;
    if (read(pipe_to_other, &heard, 1) != 1 || heard != word)
        exit(2);
}

// For each flag from `first` on, launches a kernel that waits for it. Meanwhile the other process runs `set_all`.
static void wait_for_all(CUdeviceptr memory, int first) {
    for (int flag = 0; flag < WAITERS * WAYS; ++flag) {
        CUdeviceptr at = memory + 4 * (size_t)(first + flag);
        void *arguments[] = {&at};
        launch(WAITS[flag % WAITERS], arguments);
        say('w');
        // The kernel waits until the other process sets the flag.
        usleep(300);
        EXPECT(cuStreamQuery(stream), NOT_READY);
        say('g');
        EXPECT(cuStreamSynchronize(stream), SUCCESS);
    }
}

static void set_all(CUdeviceptr memory, int first, unsigned *host) {
    for (int flag = 0; flag < WAITERS * WAYS; ++flag) {
        hear('w');
        hear('g');
        size_t word = (size_t)(first + flag);
        set(flag / WAITERS, memory + 4 * word, host ? host + word : NULL);
    }
}

// Runs the kernel `turns`. Both processes call this function at the same time.
static void turns(CUdeviceptr memory, int second) {
    CUdeviceptr own = memory + 4 * FIRST, other = memory + 4 * SECOND, sum;
    CUdeviceptr out = memory + 4 * NUMBERS, in = out + 4 * (TURNS + 1);
    if (second) {
        CUdeviceptr kept = own;
        own = other, other = kept;
        kept = out;
        out = in, in = kept;
    }
    unsigned n = TURNS;
    unsigned long long got = 0;
    REQUIRE(cuMemAlloc_v2(&sum, sizeof got));
    void *arguments[] = {&own, &other, &out, &in, &sum, &n};
    launch("turns", arguments);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    REQUIRE(cuMemcpyDtoH_v2(&got, sum, sizeof got));
    CHECK(got == 3ull * TURNS * (TURNS + 1) / 2);
    REQUIRE(cuMemFree_v2(sum));
}

static void play(CUdeviceptr memory, unsigned *host, int second) {
    if (second) {
        set_all(memory, 0, host);
        wait_for_all(memory, 128);
    } else {
        wait_for_all(memory, 0);
        set_all(memory, 128, host);
    }
    turns(memory, second);
}

int main(void) {
    unsigned *shared =
        mmap(NULL, 4 * WORDS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[2];
    if (shared == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return 2;
    // The fork precedes all calls of the driver, because a child cannot use a driver that its parent initialised.
    pid_t child = fork();
    int second = child == 0;
    pipe_to_other = ends[second];
    close(ends[!second]);
    alarm(LIMIT);
    start();
    REQUIRE(cuStreamCreate(&stream, 1));
    REQUIRE(cuModuleLoadData(&module, POLLING));

    CUdeviceptr memory;
    Opaque handle;
    if (second) {
        if (read(pipe_to_other, &handle, sizeof handle) != sizeof handle)
            return 2;
        REQUIRE(cuIpcOpenMemHandle_v2(&memory, handle, 1));
    } else {
        REQUIRE(cuMemAlloc_v2(&memory, 4 * WORDS));
        REQUIRE(cuMemsetD32_v2(memory, 0, WORDS));
        REQUIRE(cuCtxSynchronize());
        REQUIRE(cuIpcGetMemHandle(&handle, memory));
        if (write(pipe_to_other, &handle, sizeof handle) != sizeof handle)
            return 2;
    }
    play(memory, NULL, second);

    CUdeviceptr registered;
    REQUIRE(cuMemHostRegister_v2(shared, 4 * WORDS, 2));
    REQUIRE(cuMemHostGetDevicePointer_v2(&registered, shared, 0));
    play(registered, shared, second);
    EXPECT(cuMemHostUnregister(shared), SUCCESS);
    if (second) {
        EXPECT(cuIpcCloseMemHandle(memory), SUCCESS);
        say('e');
        return failures != 0;
    }
    hear('e');
    REQUIRE(cuMemFree_v2(memory));
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return finish();
}
