// Runs many threads that make random driver calls in many contexts, and compares all results with values that the host
// computes. Usage: soak SECONDS THREADS SEED. `cargo xtask soak` runs the program for ten minutes, the tests for two
// seconds.
//
// A thread runs episodes. An episode has a context (shared with other threads, or its own), streams, and buffers of all
// kinds. It makes dozens of operations in random order and then compares the bytes of every buffer. All threads also
// add to counters in the shared contexts. The program checks these counters after all threads have ended.
#include "soak_operations.h"

#include <time.h>
#include <unistd.h>

enum { MOST_DEVICES = 2 };

static int devices;
static double end;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void operation(Thread *t) {
    unsigned all = 0, pick, kind = 0;
    for (int i = 0; i < KINDS; ++i)
        all += OPERATIONS[i].often;
    for (pick = below(t, all); pick >= OPERATIONS[kind].often; ++kind)
        pick -= OPERATIONS[kind].often;
    t->doing = OPERATIONS[kind].name;
    OPERATIONS[kind].run(t);
    ++t->operations;
}

static void settle_in(Thread *t, Place *place) {
    unsigned long long nothing = 0;
    CALL(t, cuModuleLoadData(&place->module, SOAK_KERNELS));
    CALL(t, cuMemAlloc_v2(&place->counter, sizeof nothing));
    CALL(t, cuMemcpyHtoD_v2(place->counter, &nothing, sizeof nothing));
    place->counted = 0;
}

static void counter_is_right(Thread *t, Place *place) {
    unsigned long long got;
    t->doing = "the counter";
    CALL(t, cuCtxSetCurrent(place->context));
    CALL(t, cuCtxSynchronize());
    CALL(t, cuMemcpyDtoH_v2(&got, place->counter, sizeof got));
    DEMAND(t, got == place->counted);
}

static void episode(Thread *t) {
    Place own;
    int alone = below(t, 16) == 0;
    t->doing = "the beginning";
    t->place = alone ? &own : &places[below(t, (unsigned)shared_places)];
    if (alone) {
        CALL(t, cuCtxCreate_v2(&own.context, 0, (int)below(t, (unsigned)devices)));
        settle_in(t, &own);
    }
    CALL(t, cuCtxSetCurrent(t->place->context));
    t->module = t->place->module;
    CALL(t, cuModuleGetFunction(&t->affine, t->module, "affine"));
    CALL(t, cuModuleGetFunction(&t->sum, t->module, "sum"));
    CALL(t, cuModuleGetFunction(&t->turn_round, t->module, "turn_round"));
    CALL(t, cuModuleGetFunction(&t->count, t->module, "count"));
    for (int i = 0; i < STREAMS; ++i)
        CALL(t, cuStreamCreate(&t->streams[i], i > 0));
    for (int i = 0; i < BUFFERS; ++i)
        make(t, &t->buffers[i]);
    for (unsigned left = 10 + below(t, 50); left > 0 && now() < end; --left)
        operation(t);
    t->doing = "the end";
    for (int i = 0; i < BUFFERS; ++i) {
        check(t, &t->buffers[i]);
        discard(t, &t->buffers[i]);
    }
    if (alone) {
        counter_is_right(t, &own);
        CALL(t, cuCtxDestroy_v2(own.context)); // Also destroys its streams, module and counter.
    } else {
        for (int i = 0; i < STREAMS; ++i)
            CALL(t, cuStreamDestroy_v2(t->streams[i])); // A `count` kernel may still run.
    }
    ++t->episodes;
}

static void *work(void *argument) {
    Thread *t = argument;
    while (now() < end)
        episode(t);
    return NULL;
}

int main(int argc, char **arguments) {
    double seconds = argc > 1 ? atof(arguments[1]) : 2;
    int count_of_threads = argc > 2 ? atoi(arguments[2]) : 16;
    uint64_t seed = argc > 3 ? strtoull(arguments[3], NULL, 0) : 1;
    if (seconds <= 0 || count_of_threads < 1 || count_of_threads > 1024)
        return 2;
    REQUIRE(cuInit(0));
    REQUIRE(cuDeviceGetCount(&devices));
    devices = devices < MOST_DEVICES ? devices : MOST_DEVICES;
    Thread *threads = calloc((size_t)count_of_threads, sizeof *threads);
    Thread host = {.number = -1, .doing = "the beginning"};
    for (; shared_places < CONTEXTS; ++shared_places) {
        Place *place = &places[shared_places];
        CUdevice device = shared_places % devices;
        if (shared_places < devices)
            REQUIRE(cuDevicePrimaryCtxRetain(&place->context, device));
        else
            REQUIRE(cuCtxCreate_v2(&place->context, 0, device));
        REQUIRE(cuCtxSetCurrent(place->context));
        settle_in(&host, place);
    }
    end = now() + seconds;
    pthread_t *handles = calloc((size_t)count_of_threads, sizeof *handles);
    for (int i = 0; i < count_of_threads; ++i) {
        threads[i].number = i;
        threads[i].seed = seed * 1000003 + (uint64_t)i;
        if (pthread_create(&handles[i], NULL, work, &threads[i]) != 0)
            return 2;
    }
    unsigned long long operations = 0, episodes = 0, counted = 0;
    for (int i = 0; i < count_of_threads; ++i) {
        pthread_join(handles[i], NULL);
        operations += threads[i].operations;
        episodes += threads[i].episodes;
    }
    for (int i = 0; i < shared_places; ++i) {
        counter_is_right(&host, &places[i]);
        counted += places[i].counted;
    }
    printf("%d threads, %d contexts of %d devices, %.0f s, seed %llu: %llu episodes, %llu operations, %llu counted\n",
           count_of_threads, shared_places, devices, seconds, (unsigned long long)seed, episodes, operations, counted);
    return finish();
}
