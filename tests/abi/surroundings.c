// Tests the driver in unusual processes: with closed standard streams, threads that end, children of a fork, read-only
// memory, and others. Each case runs in its own process.
#define _GNU_SOURCE
#include "abi.h"

#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <alloca.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct { char bytes[64]; } Handle;

CUresult cuIpcGetMemHandle(Handle *handle, CUdeviceptr pointer);
CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags);
CUresult cuMemHostUnregister(void *pointer);
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuCtxGetLimit(size_t *value, int limit);
CUresult cuCtxSetLimit(int limit, size_t value);

enum { STACK_SIZE = 0, MALLOC_HEAP_SIZE = 2, READ_ONLY = 8, VALUES = 1000 };

// The program has closed its standard streams. Its output must not go to device memory, whose file could have got the
// descriptor of a standard stream.
static void closed_streams(void) {
    CUdeviceptr pointer;
    Handle handle;
    int values[VALUES], wrong = 0;
    start();
    REQUIRE(cuMemAlloc_v2(&pointer, sizeof values));
    REQUIRE(cuIpcGetMemHandle(&handle, pointer));
    REQUIRE(cuMemsetD32_v2(pointer, 7, VALUES));
    for (int stream = 0; stream < 3; ++stream) CHECK(write(stream, "a line\n", 7) == -1);
    REQUIRE(cuMemcpyDtoH_v2(values, pointer, sizeof values));
    for (int i = 0; i < VALUES; ++i) wrong += values[i] != 7;
    CHECK(wrong == 0);
}

static CUcontext context;
static CUresult freed = -1, synchronised = -1;
static pthread_key_t key;

static void end_of_thread(void *pointer) {
    synchronised = cuStreamSynchronize(NULL);
    freed = cuMemFree_v2((CUdeviceptr)pointer);
}

static void *use_memory(void *argument) {
    CUdeviceptr pointer;
    REQUIRE(cuCtxSetCurrent(context));
    REQUIRE(cuMemAlloc_v2(&pointer, 1 << 20));
    pthread_setspecific(key, (void *)pointer);
    return argument;
}

// The destructor of a thread-specific value frees device memory.
static void thread_destructors(void) {
    size_t before, after, total;
    context = start();
    pthread_key_create(&key, end_of_thread);
    REQUIRE(cuMemGetInfo_v2(&before, &total));
    for (int i = 0; i < 10; ++i) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, use_memory, NULL) == 0);
        pthread_join(thread, NULL);
        EXPECT(synchronised, SUCCESS);
        EXPECT(freed, SUCCESS);
    }
    REQUIRE(cuMemGetInfo_v2(&after, &total));
    CHECK(before == after);
}

// In a child process, a query of the version succeeds, and other calls return an error.
static void forked(void) {
    start();
    pid_t child = fork();
    if (child == 0) {
        int version = 0;
        EXPECT(cuDriverGetVersion(&version), SUCCESS);
        EXPECT(cuCtxSynchronize(), NOT_INITIALIZED);
        _exit(failures != 0 || version == 0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
}

// A reset restores the default limits.
static void limits(void) {
    size_t stack, heap, value;
    start();
    REQUIRE(cuCtxGetLimit(&stack, STACK_SIZE));
    REQUIRE(cuCtxGetLimit(&heap, MALLOC_HEAP_SIZE));
    EXPECT(cuCtxSetLimit(STACK_SIZE, 65536), SUCCESS);
    EXPECT(cuCtxSetLimit(MALLOC_HEAP_SIZE, 256 << 20), SUCCESS);
    EXPECT(cuCtxGetLimit(&value, STACK_SIZE), SUCCESS);
    CHECK(value == 65536);
    REQUIRE(cuDevicePrimaryCtxReset_v2(0));
    start();
    EXPECT(cuCtxGetLimit(&value, STACK_SIZE), SUCCESS);
    CHECK(value == stack);
    EXPECT(cuCtxGetLimit(&value, MALLOC_HEAP_SIZE), SUCCESS);
    CHECK(value == heap);
}

// If the limit of the heap exceeds the device's memory, `malloc` still succeeds.
static void heap(void) {
    static const char image[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
        ".visible .entry take(.param .u64 out) {\n"
        "  .reg .b64 %a, %p;\n"
        "  { .param .b64 n; .param .b64 r; st.param.b64 [n], 100; call.uni (r), malloc, (n); ld.param.b64 %p, [r]; }\n"
        "  ld.param.u64 %a, [out]; st.global.u64 [%a], %p; ret;\n}\n";
    CUmodule module;
    CUfunction take;
    CUdeviceptr out;
    unsigned long long pointer = 0;
    start();
    EXPECT(cuCtxSetLimit(MALLOC_HEAP_SIZE, (size_t)1 << 40), SUCCESS);
    REQUIRE(cuModuleLoadData(&module, image));
    REQUIRE(cuModuleGetFunction(&take, module, "take"));
    REQUIRE(cuMemAlloc_v2(&out, 8));
    void *params[] = {&out};
    REQUIRE(cuLaunchKernel(take, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    REQUIRE(cuMemcpyDtoH_v2(&pointer, out, 8));
    CHECK(pointer != 0);
}

// Memory that the program cannot write can be registered only as read-only, and copies and fills cannot write it.
static void read_only(void) {
    size_t bytes = 1 << 16;
    char *page = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *closed = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    start();
    EXPECT(cuMemHostRegister_v2(page, bytes, 0), INVALID_VALUE);
    EXPECT(cuMemHostRegister_v2(closed, bytes, READ_ONLY), INVALID_VALUE);
    REQUIRE(cuMemHostRegister_v2(page, bytes, READ_ONLY));
    EXPECT(cuMemsetD8_v2((CUdeviceptr)page, 1, 100), INVALID_VALUE);
    EXPECT(cuMemcpyHtoD_v2((CUdeviceptr)page, page, 100), INVALID_VALUE);
    REQUIRE(cuCtxSynchronize());
}

// Kernels and copies cannot write memory that is registered as read-only, even if the program can write it.
static void read_only_for_kernels(void) {
    static int word[1024];
    CUmodule module;
    CUfunction function;
    CUdeviceptr pointer = (CUdeviceptr)word, out;
    void *params[] = {&pointer, &out};
    int value = 0;
    start();
    REQUIRE(cuMemAlloc_v2(&out, 4));
    word[0] = 7;
    REQUIRE(cuMemHostRegister_v2(word, sizeof word, READ_ONLY));
    REQUIRE(cuModuleLoadData(&module, ".version 7.0\n.target sm_70\n.address_size 64\n"
                                      ".visible .entry load(.param .u64 p, .param .u64 o) { .reg .b64 %p<2>; .reg .b32 %r;\n"
                                      "ld.param.u64 %p0, [p]; ld.param.u64 %p1, [o]; ld.u32 %r, [%p0]; st.u32 [%p1], %r; ret; }\n"
                                      ".visible .entry store(.param .u64 p, .param .u64 o) { .reg .b64 %p;\n"
                                      "ld.param.u64 %p, [p]; st.u32 [%p], 9; ret; }"));
    REQUIRE(cuModuleGetFunction(&function, module, "load"));
    REQUIRE(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    REQUIRE(cuMemcpyDtoH_v2(&value, out, 4));
    CHECK(value == 7);
    EXPECT(cuMemcpyDtoD_v2(pointer, out, 4), INVALID_VALUE);
    EXPECT(cuMemcpy(pointer, out, 4), INVALID_VALUE);
    REQUIRE(cuMemcpyDtoD_v2(out, pointer, 4));
    REQUIRE(cuModuleGetFunction(&function, module, "store"));
    REQUIRE(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
    CHECK(word[0] == 7);
}

static void *nothing(void *argument) { return argument; }

// A program can have many arrays, but the driver leaves some mappings of the process for other uses.
static void many_arrays(void) {
    enum { MOST = 40000 };
    static CUdeviceptr arrays[MOST];
    int count = 0;
    setenv("MARGAY_MEMORY", "64G", 1);
    start();
    while (count < MOST && cuMemAlloc_v2(&arrays[count], 70000) == SUCCESS) ++count;
    CHECK(count > 20000 && count < MOST);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (int i = 0; i < count; ++i) REQUIRE(cuMemFree_v2(arrays[i]));
    REQUIRE(cuMemAlloc_v2(&arrays[0], 70000));
}

static CUresult load_limited(const char *path) {
    CUmodule module;
    struct rlimit limit = {1ull << 30, 1ull << 30};
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
    return cuModuleLoad(&module, path);
}

static long peak_megabytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss >> 10;
}

// The driver reads the file of an image only as far as the image can extend: a text ends at its first NUL.
static void endless_file(void) {
    static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k() { ret; }\n";
    char path[] = "/tmp/margay-endless-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text) && ftruncate(file, 1900ll << 20) == 0);
    start();
    long before = peak_megabytes();
    EXPECT(load_limited("/dev/zero"), INVALID_IMAGE);
    EXPECT(load_limited(path), SUCCESS);
    CHECK(peak_megabytes() < before + 100);
    unlink(path);
}

static void deep(void *data) {
    volatile char *stack = alloca(6 << 20);
    for (int at = (6 << 20) - 1; at > 0; at -= 4096) stack[at] = 1;
    *(int *)data = 1;
}

// A host function has as much stack as the program's own threads.
static void stack_of_callbacks(void) {
    struct rlimit limit = {8 << 20, 8 << 20};
    int done = 0;
    CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
    start();
    EXPECT(cuLaunchHostFunc(NULL, deep, &done), SUCCESS);
    EXPECT(cuStreamSynchronize(NULL), SUCCESS);
    CHECK(done == 1);
}

// A program that enables signals for floating-point exceptions gets no signals from computations of the library.
static void float_exceptions(void) {
    CUdeviceptr pointer;
    CUmodule module;
    CUfunction function;
    float third = 3, out = 0;
    void *params[] = {&pointer, &third};
    feenableexcept(FE_ALL_EXCEPT);
    fesetround(FE_UPWARD);
    start();
    REQUIRE(cuMemAlloc_v2(&pointer, 4));
    REQUIRE(cuModuleLoadData(&module, ".version 7.0\n.target sm_70\n.address_size 64\n"
                                      ".visible .entry k(.param .u64 p, .param .f32 x) {\n"
                                      ".reg .b64 %p; .reg .f32 %f<3>; ld.param.u64 %p, [p]; ld.param.f32 %f1, [x];\n"
                                      "div.rn.f32 %f2, 0f3f800000, %f1; st.global.f32 [%p], %f2; ret; }"));
    REQUIRE(cuModuleGetFunction(&function, module, "k"));
    REQUIRE(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuMemcpyDtoH_v2(&out, pointer, 4));
    // 1/3 rounded to nearest is 0x3eaaaaab.
    CHECK(memcmp(&out, "\xab\xaa\xaa\x3e", 4) == 0);
    // The program's floating-point mode has not changed.
    CHECK(fegetround() == FE_UPWARD);
    CHECK(fegetexcept() == FE_ALL_EXCEPT);
}

static void crash_reporter(int signal) {
    (void)signal;
    _exit(3);
}

// Copies of freed memory and of addresses between allocations fail. They must not raise a signal, which would call the
// program's handler.
static void copies_of_freed_memory(void) {
    static char host[4096];
    CUdeviceptr kept, freed, pinned;
    void *page;
    start();
    REQUIRE(cuMemAlloc_v2(&kept, sizeof host));
    REQUIRE(cuMemAlloc_v2(&freed, 1 << 20));
    REQUIRE(cuMemHostAlloc(&page, 1 << 20, 0));
    pinned = (CUdeviceptr)page;
    REQUIRE(cuMemsetD8_v2(freed, 5, 1 << 20));
    memset(page, 5, 1 << 20);
    REQUIRE(cuMemFree_v2(freed));
    REQUIRE(cuMemFreeHost(page));
    CHECK(signal(SIGSEGV, crash_reporter) != SIG_ERR && signal(SIGBUS, crash_reporter) != SIG_ERR);
    CUdeviceptr wrong[] = {freed, freed + 4096, pinned, kept - 8192, kept + (64 << 20)};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        EXPECT(cuMemcpy((CUdeviceptr)host, wrong[i], 100), INVALID_VALUE);
        EXPECT(cuMemcpy(wrong[i], (CUdeviceptr)host, 100), INVALID_VALUE);
        EXPECT(cuMemcpyHtoD_v2(kept, (void *)wrong[i], 100), INVALID_VALUE);
        EXPECT(cuMemcpyAsync(kept, wrong[i], 100, NULL), INVALID_VALUE);
        CHECK(host[0] == 0);
    }
    REQUIRE(cuCtxSynchronize());
}

static const struct {
    const char *name;
    void (*run)(void);
    int closes;
} cases[] = {
    {"closed streams", closed_streams, 1},
    {"thread destructors", thread_destructors, 0},
    {"forked", forked, 0},
    {"limits", limits, 0},
    {"heap", heap, 0},
    {"read only", read_only, 0},
    {"stack of callbacks", stack_of_callbacks, 0},
    {"read only for kernels", read_only_for_kernels, 0},
    {"many arrays", many_arrays, 0},
    {"endless file", endless_file, 0},
    {"float exceptions", float_exceptions, 0},
    {"copies of freed memory", copies_of_freed_memory, 0},
};

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; ++i) {
        pid_t child = fork();
        if (child == 0) {
            if (cases[i].closes)
                for (int stream = 0; stream < 3; ++stream) close(stream);
            cases[i].run();
            _exit(failures ? 1 : 0);
        }
        int status = 1;
        waitpid(child, &status, 0);
        if (status) {
            printf("%s: %s %d\n", cases[i].name, WIFSIGNALED(status) ? "signal" : "code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            ++failures;
        }
    }
    return finish();
}
