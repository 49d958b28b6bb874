// The main thread calls `pthread_exit`. The process ends when the last thread of the program ends, with status 0.
#include "abi.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void sleep_for(long milliseconds) {
    struct timespec time = {0, milliseconds * 1000000};
    nanosleep(&time, NULL);
}

static CUcontext context;
static int pipes[2];

static void *last(void *data) {
    CUdeviceptr memory;
    sleep_for(300);
    REQUIRE(cuCtxSetCurrent(context));
    REQUIRE(cuMemAlloc_v2(&memory, 4096));
    REQUIRE(cuMemsetD8_v2(memory, 1, 4096));
    CHECK(write(pipes[1], "x", 1) == 1);
    return data;
}

int main(void) {
    int status;
    char byte;
    CHECK(pipe(pipes) == 0);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        CUmodule module;
        CUfunction scale;
        CUdeviceptr memory;
        float factor = 2;
        unsigned count = 1;
        void *arguments[] = {&memory, &factor, &count};
        context = start();
        REQUIRE(cuModuleLoadData(&module, KERNELS));
        REQUIRE(cuModuleGetFunction(&scale, module, "scale"));
        REQUIRE(cuMemAlloc_v2(&memory, 4096));
        // The launch starts threads that never end.
        REQUIRE(cuLaunchKernel(scale, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
        CHECK(pthread_create(&thread, NULL, last, NULL) == 0);
        pthread_exit(NULL);
    }
    pid_t ended = 0;
    for (int i = 0; i < 1000 && ended == 0; ++i) {
        sleep_for(10);
        ended = waitpid(child, &status, WNOHANG);
    }
    if (ended == 0)
        kill(child, SIGKILL);
    CHECK(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(pipes[1]);
    CHECK(read(pipes[0], &byte, 1) == 1);
    puts("PASS");
    return 0;
}
