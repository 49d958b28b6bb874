// Checks that a thread that is cancelled during a call of the driver completes the call, and ends at the next
// cancellation point after it.
#define _GNU_SOURCE
#include "abi.h"

#include <pthread.h>

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, size_t (*size)(int), size_t shared,
                                          int limit);

static CUfunction scale;
static int completed;

// Returns whether the calling thread can be cancelled.
static int is_enabled(void) {
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_setcancelstate(state, NULL);
    return state == PTHREAD_CANCEL_ENABLE;
}

// The first call of the process reads files.
static void *first(void *data) {
    pthread_cancel(pthread_self());
    REQUIRE(cuInit(0));
    ++completed;
    pthread_testcancel();
    return data;
}

static void *load(void *data) {
    CUmodule module;
    start();
    CHECK(is_enabled());
    pthread_cancel(pthread_self());
    EXPECT(cuModuleLoad(&module, "/nonexistent"), FILE_NOT_FOUND);
    EXPECT(cuModuleLoadData(&module, KERNELS), SUCCESS);
    EXPECT(cuCtxSynchronize(), SUCCESS);
    CHECK(is_enabled());
    ++completed;
    pthread_testcancel();
    return data;
}

// A callback of a call calls the driver.
static size_t ask(int block) {
    CUcontext context;
    (void)block;
    EXPECT(cuCtxGetCurrent(&context), SUCCESS);
    CHECK(!is_enabled());
    pthread_testcancel();
    return 0;
}

static void *nested(void *data) {
    int grid, block;
    start();
    pthread_cancel(pthread_self());
    EXPECT(cuOccupancyMaxPotentialBlockSize(&grid, &block, scale, ask, 0, 0), SUCCESS);
    CHECK(is_enabled());
    ++completed;
    pthread_testcancel();
    return data;
}

// A thread that has disabled cancellation itself is not cancelled.
static void *disabled(void *data) {
    CUmodule module;
    start();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    EXPECT(cuModuleLoad(&module, "/nonexistent"), FILE_NOT_FOUND);
    CHECK(!is_enabled());
    pthread_testcancel();
    ++completed;
    return data;
}

static void run(void *(*body)(void *), void *result) {
    pthread_t thread;
    void *found = NULL;
    int before = completed;
    CHECK(pthread_create(&thread, NULL, body, NULL) == 0);
    CHECK(pthread_join(thread, &found) == 0);
    CHECK(found == result && completed == before + 1);
}

int main(void) {
    CUmodule module;
    run(first, PTHREAD_CANCELED);
    start();
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&scale, module, "scale"));
    run(load, PTHREAD_CANCELED);
    run(nested, PTHREAD_CANCELED);
    run(disabled, NULL);
    return finish();
}
