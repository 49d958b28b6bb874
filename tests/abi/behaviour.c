// Tests calls in host functions, forks, sticky and other errors, threads with contexts of their own, and the end of a
// process while work is pending.
#include "abi.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOT_PERMITTED = 800, CONTEXT_DESTROYED = 709 };

static CUresult from_callback[4];

static void callback(void *data) {
    // Calls that wait for work are errors here, because the work includes this function. The result of
    // `cuCtxSetCurrent` is not specified.
    from_callback[0] = cuCtxSetCurrent(data);
    from_callback[1] = cuCtxSynchronize();
    from_callback[2] = cuStreamSynchronize(NULL);
    char byte;
    from_callback[3] = cuMemcpyDtoH_v2(&byte, 4096, 1);
}

static void host_functions(CUcontext context) {
    CUstream stream;
    REQUIRE(cuStreamCreate(&stream, 1));
    REQUIRE(cuLaunchHostFunc(stream, callback, context));
    REQUIRE(cuStreamSynchronize(stream));
    CHECK(from_callback[1] == NOT_PERMITTED);
    CHECK(from_callback[2] == NOT_PERMITTED);
    CHECK(from_callback[3] == NOT_PERMITTED);
    REQUIRE(cuStreamDestroy_v2(stream));
}

static void forks(void) {
    CUdeviceptr at;
    REQUIRE(cuMemAlloc_v2(&at, 4096));
    REQUIRE(cuMemsetD8_v2(at, 5, 4096));
    REQUIRE(cuCtxSynchronize());
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        // A child process cannot use the driver that its parent initialised.
        int count;
        CUdeviceptr other;
        int good = cuInit(0) == NOT_INITIALIZED && cuDeviceGetCount(&count) == NOT_INITIALIZED &&
                   cuMemAlloc_v2(&other, 16) == NOT_INITIALIZED && cuMemFree_v2(at) == NOT_INITIALIZED &&
                   cuCtxSynchronize() == NOT_INITIALIZED && cuMemcpyDtoH_v2(&count, at, 4) == NOT_INITIALIZED;
        _exit(good ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    // A child process that calls `exit`, which runs the exit handlers, ends without an error.
    child = fork();
    if (child == 0)
        exit(0);
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    unsigned char seen = 0;
    REQUIRE(cuMemcpyDtoH_v2(&seen, at, 1));
    CHECK(seen == 5);
    REQUIRE(cuMemFree_v2(at));
}

// Checks that all calls in a context fail after a fault of a kernel until the context is reset, and that a call that
// returns an error does not affect later calls.
static void errors(CUcontext context) {
    CUmodule module;
    CUfunction poke;
    CUdeviceptr at, wild = 16;
    CUstream stream;
    CUevent event;
    void *wrong[] = {&wild};
    for (int turn = 0; turn < 3; ++turn) {
        REQUIRE(cuModuleLoadData(&module, KERNELS));
        REQUIRE(cuModuleGetFunction(&poke, module, "poke"));
        REQUIRE(cuStreamCreate(&stream, 0));
        REQUIRE(cuEventCreate(&event, 0));
        REQUIRE(cuMemAlloc_v2(&at, 4096));
        EXPECT(cuLaunchKernel(poke, 1, 1, 1, 2000, 1, 1, 0, stream, wrong, NULL), INVALID_VALUE);
        EXPECT(cuMemcpyDtoH_v2(&wild, 4096, 8), INVALID_VALUE);
        EXPECT(cuMemAlloc_v2(&wild, (size_t)1 << 50), OUT_OF_MEMORY);
        wild = 16;
        void *right[] = {&at};
        REQUIRE(cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, stream, right, NULL));
        REQUIRE(cuCtxSynchronize());
        // A kernel in another stream that would never end.
        CUfunction spin;
        CUstream busy;
        CUdeviceptr flag;
        void *never[] = {&flag};
        REQUIRE(cuModuleGetFunction(&spin, module, "spin"));
        REQUIRE(cuStreamCreate(&busy, 1));
        REQUIRE(cuMemAlloc_v2(&flag, 4));
        REQUIRE(cuMemsetD8_v2(flag, 0, 4));
        REQUIRE(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, busy, never, NULL));
        REQUIRE(cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, stream, wrong, NULL));
        EXPECT(cuStreamSynchronize(stream), ILLEGAL_ADDRESS);
        // The fault also ends the other kernel.
        EXPECT(cuStreamSynchronize(busy), ILLEGAL_ADDRESS);
        EXPECT(cuMemFree_v2(flag), SUCCESS);
        EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
        EXPECT(cuStreamQuery(stream), ILLEGAL_ADDRESS);
        EXPECT(cuEventRecord(event, stream), ILLEGAL_ADDRESS);
        EXPECT(cuMemAlloc_v2(&wild, 16), ILLEGAL_ADDRESS);
        EXPECT(cuMemcpyDtoH_v2(&wild, at, 8), ILLEGAL_ADDRESS);
        EXPECT(cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, stream, right, NULL), ILLEGAL_ADDRESS);
        EXPECT(cuDevicePrimaryCtxReset_v2(0), SUCCESS);
        wild = 16;
        EXPECT(cuCtxSynchronize(), SUCCESS);
        EXPECT(cuStreamQuery(stream), INVALID_HANDLE);
        EXPECT(cuMemFree_v2(at), INVALID_VALUE);
    }
    // A fault in a context from `cuCtxCreate` does not affect the primary context, and the context can be destroyed.
    CUcontext other;
    REQUIRE(cuCtxCreate_v2(&other, 0, 0));
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&poke, module, "poke"));
    REQUIRE(cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, NULL, wrong, NULL));
    EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
    REQUIRE(cuCtxSetCurrent(context));
    EXPECT(cuCtxSynchronize(), SUCCESS);
    REQUIRE(cuCtxDestroy_v2(other));
    EXPECT(cuCtxSetCurrent(other), INVALID_CONTEXT);
}

enum { THREADS = 64 };

static void *own_context(void *argument) {
    unsigned number = (unsigned)(uintptr_t)argument, count = 500;
    CUcontext context;
    CUmodule module;
    CUfunction scale;
    CUdeviceptr at;
    float values[500], factor = 3;
    REQUIRE(cuCtxCreate_v2(&context, 0, 0));
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&scale, module, "scale"));
    REQUIRE(cuMemAlloc_v2(&at, sizeof values));
    for (unsigned i = 0; i < count; ++i)
        values[i] = (float)(number + i);
    REQUIRE(cuMemcpyHtoD_v2(at, values, sizeof values));
    void *arguments[] = {&at, &factor, &count};
    for (int turn = 0; turn < 4; ++turn)
        REQUIRE(cuLaunchKernel(scale, 2, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
    REQUIRE(cuMemcpyDtoH_v2(values, at, sizeof values));
    int good = 1;
    for (unsigned i = 0; i < count; ++i)
        good &= values[i] == (float)(number + i) * 81;
    CHECK(good);
    if (number % 4 == 0) {
        CUdeviceptr wild = 32;
        CUfunction poke;
        void *wrong[] = {&wild};
        REQUIRE(cuModuleGetFunction(&poke, module, "poke"));
        REQUIRE(cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, NULL, wrong, NULL));
        EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
    } else {
        REQUIRE(cuMemFree_v2(at));
    }
    REQUIRE(cuCtxDestroy_v2(context));
    return NULL;
}

static void threads(void) {
    pthread_t all[THREADS];
    size_t before, after, total;
    REQUIRE(cuMemGetInfo_v2(&before, &total));
    for (uintptr_t i = 0; i < THREADS; ++i)
        pthread_create(&all[i], NULL, own_context, (void *)i);
    for (int i = 0; i < THREADS; ++i)
        pthread_join(all[i], NULL);
    REQUIRE(cuMemGetInfo_v2(&after, &total));
    CHECK(before == after);
}

static void at_exit_use(void) {
    // The program registers this handler before and after it initialises the library, so the handler also runs after
    // the library's exit handlers. Calls must then still return.
    int count = -1;
    CUresult result = cuDeviceGetCount(&count);
    if (result != SUCCESS && result != 4 /* deinitialised */)
        _exit(9);
}

// Submits a kernel that never ends and, in the same stream, a fill, a copy and a host function. If `last` is not null,
// submits it to another stream.
static void begin_work(void (*last)(void *)) {
    CUmodule module;
    CUfunction spin;
    CUdeviceptr flag, at;
    CUstream stream;
    unsigned *word;
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&spin, module, "spin"));
    REQUIRE(cuMemHostAlloc((void **)&word, 4096, 0));
    *word = 0;
    REQUIRE(cuMemHostGetDevicePointer_v2(&flag, word, 0));
    REQUIRE(cuMemAlloc_v2(&at, 1 << 20));
    REQUIRE(cuStreamCreate(&stream, 1));
    void *arguments[] = {&flag};
    REQUIRE(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    REQUIRE(cuMemsetD32Async(at, 1, 1 << 18, NULL));
    REQUIRE(cuMemcpyHtoDAsync_v2(at, word, 4096, NULL));
    REQUIRE(cuLaunchHostFunc(NULL, callback, NULL));
    if (last)
        REQUIRE(cuLaunchHostFunc(stream, last, NULL));
}

static void leave(void *data) {
    (void)data;
    exit(0);
}

static void *wait_for_ever(void *context) {
    REQUIRE(cuCtxSetCurrent(context));
    cuCtxSynchronize();
    return NULL;
}

// Ends the process in one of three ways: `main` returns; a host function calls `exit` while the main thread waits;
// `main` returns while another thread waits.
static int leave_by(const char *way) {
    pthread_t thread;
    atexit(at_exit_use);
    CUcontext context = start();
    begin_work(strcmp(way, "callback") == 0 ? leave : NULL);
    atexit(at_exit_use);
    if (strcmp(way, "callback") == 0) {
        cuCtxSynchronize();
        return 9;
    }
    if (strcmp(way, "waiting") == 0) {
        pthread_create(&thread, NULL, wait_for_ever, context);
        usleep(20000);
    }
    return 0;
}

static void exits(const char *program, const char *way) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, way, NULL);
        _exit(3);
    }
    int status = -1, ended = 0;
    for (int tenth = 0; tenth < 300 && !ended; ++tenth) {
        ended = waitpid(child, &status, WNOHANG) == child;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    if (!ended || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        printf("leaving by %s: %s, status %#x\n", way, ended ? "ended" : "did not end", status);
        ++failures;
    }
    if (!ended)
        kill(child, 9);
}

// Forks while a kernel runs. Calls in the child return an error, and the child ends. The kernel of the parent
// continues.
static void fork_at_work(void) {
    CUmodule module;
    CUfunction spin;
    CUdeviceptr flag;
    unsigned *word;
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&spin, module, "spin"));
    REQUIRE(cuMemHostAlloc((void **)&word, 4096, 0));
    *word = 0;
    REQUIRE(cuMemHostGetDevicePointer_v2(&flag, word, 0));
    void *arguments[] = {&flag};
    REQUIRE(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    usleep(10000);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        exit(cuCtxSynchronize() == NOT_INITIALIZED && cuModuleUnload(module) == NOT_INITIALIZED ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT(cuStreamQuery(NULL), NOT_READY);
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    EXPECT(cuCtxSynchronize(), SUCCESS);
    REQUIRE(cuModuleUnload(module));
    REQUIRE(cuMemFreeHost(word));
}

static void *fail_until(void *is_over) {
    while (!__atomic_load_n((int *)is_over, __ATOMIC_SEQ_CST))
        cuMemFree_v2(16);
    return NULL;
}

// Forks while another thread makes calls that fail and are logged. A call that only reads constants fails in the child
// as it does in the parent, and does not wait for the lock of the log, which nobody in the child releases.
static void fork_while_calls_fail(void) {
    pthread_t thread;
    int is_over = 0, ended = 0;
    pthread_create(&thread, NULL, fail_until, &is_over);
    for (int round = 0; round < 40; ++round) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            void *found;
            int status;
            alarm(20);
            _exit(cuGetProcAddress_v2("cuNoSuchFunction", &found, 12000, 0, &status) == NOT_FOUND ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        ended += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    CHECK(ended == 40);
}

int main(int count, char **arguments) {
    if (count > 1)
        return leave_by(arguments[1]);
    CUcontext context = start();
    host_functions(context);
    forks();
    fork_at_work();
    fork_while_calls_fail();
    errors(context);
    threads();
    exits(arguments[0], "main");
    exits(arguments[0], "callback");
    exits(arguments[0], "waiting");
    return finish();
}
