// Tests functions of the program that end the thread that calls them. Later work still runs.
#include "graphs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

CUresult cuStreamAddCallback(CUstream stream, void (*function)(CUstream, CUresult, void *), void *data, unsigned flags);
CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, size_t (*size)(int), size_t shared,
                                          int limit);

static atomic_int called;

static void leave(void *data) {
    (void)data;
    atomic_fetch_add(&called, 1);
    pthread_exit(NULL);
}

static void count(void *data) {
    (void)data;
    atomic_fetch_add(&called, 1);
}

static void leave_stream(CUstream stream, CUresult status, void *data) {
    EXPECT(status, SUCCESS);
    CHECK(stream == data);
    leave(data);
}

static size_t leave_size(int block) {
    CHECK(block > 0 && block <= 1024);
    leave(NULL);
    return 0;
}

static CUfunction scale;

static void *ask(void *data) {
    int grid, block;
    cuOccupancyMaxPotentialBlockSize(&grid, &block, scale, leave_size, 0, 0);
    return data;
}

// Waits until `called` has the value `wanted`, at most ten seconds.
static void expect_called(int wanted) {
    struct timespec millisecond = {0, 1000000};
    for (int i = 0; i < 10000 && called != wanted; ++i)
        nanosleep(&millisecond, NULL);
    CHECK(called == wanted);
}

int main(void) {
    CUmodule module;
    CUstream stream, other;
    CUcontext context = start();
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&scale, module, "scale"));
    REQUIRE(cuStreamCreate(&stream, 1));
    REQUIRE(cuStreamCreate(&other, 1));

    // Host functions: later work of the stream and work of other streams runs.
    for (int i = 0; i < 20; ++i) {
        EXPECT(cuLaunchHostFunc(stream, leave, NULL), SUCCESS);
        EXPECT(cuLaunchHostFunc(other, count, NULL), SUCCESS);
    }
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    EXPECT(cuStreamSynchronize(other), SUCCESS);
    CHECK(called == 40);

    // Stream callbacks.
    called = 0;
    EXPECT(cuStreamAddCallback(stream, leave_stream, stream, 0), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(called == 1);

    // Host nodes of graphs.
    CUgraph graph;
    CUgraphExec exec;
    EXPECT(cuStreamBeginCapture_v2(stream, 0), SUCCESS);
    EXPECT(cuLaunchHostFunc(stream, leave, NULL), SUCCESS);
    EXPECT(cuLaunchHostFunc(stream, leave, NULL), SUCCESS);
    EXPECT(cuStreamEndCapture(stream, &graph), SUCCESS);
    EXPECT(cuGraphInstantiateWithFlags(&exec, graph, 0), SUCCESS);
    called = 0;
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(called == 4);

    // Destructors of user objects.
    called = 0;
    for (int i = 0; i < 2; ++i) {
        CUuserObject object;
        EXPECT(cuUserObjectCreate(&object, NULL, leave, 1, 1), SUCCESS);
        EXPECT(cuUserObjectRelease(object, 1), SUCCESS);
    }
    expect_called(2);

    // A driver call calls this function in a thread of the program; the function ends this thread.
    pthread_t thread;
    void *result;
    called = 0;
    CHECK(pthread_create(&thread, NULL, ask, NULL) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(called == 1);

    EXPECT(cuCtxSetCurrent(context), SUCCESS);
    EXPECT(cuCtxSynchronize(), SUCCESS);
    return finish();
}
