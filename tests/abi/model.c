// Runs random programs and compares the result of each driver call with the prediction of a model of contexts, memory,
// copies, modules, streams, pools, arrays and virtual memory. `model FIRST COUNT` runs the random programs with these
// numbers; a third argument prints every call. There must be two devices (`MARGAY_DEVICES=2`).
//
// `model/world.h` describes how a result is judged. At the end of a random program, all bytes are compared and
// everything is freed. Both devices must then have as much free memory as before.
#include "model/arrays.h"
#include "model/contexts.h"
#include "model/modules.h"
#include "model/ranges.h"
#include "model/streams.h"

static const struct {
    void (*run)(void);
    unsigned often;
} OPERATIONS[] = {
    {create_context, 3},    {destroy_context, 2},  {push_context, 4},       {pop_context, 4},
    {set_context, 5},       {ask_context, 3},      {synchronize_context, 2}, {allocate, 14},
    {allocate_pitched, 3},  {free_memory, 9},      {free_pinned, 3},        {ask_range, 4},
    {ask_pointer, 4},       {ask_info, 1},         {copy_in, 8},            {copy_out, 8},
    {copy_across, 8},       {fill, 8},             {fill_rows, 4},          {in_a_stream, 9},
    {create_stream, 4},     {destroy_stream, 2},   {synchronize_stream, 3}, {create_pool, 2},
    {destroy_pool, 1},      {allocate_in_order, 8}, {free_in_order, 5},     {ask_pool, 3},
    {load_module, 3},       {look_into_module, 3}, {unload_module, 1},      {use_variable, 4},
    {launch, 7},            {create_array, 5},     {destroy_array, 2},      {ask_array, 2},
    {copy_row, 5},          {copy_rectangle, 8},   {reserve, 4},            {unreserve, 2},
    {create_physical, 4},   {release_physical, 2}, {map, 7},                {unmap, 3},
    {set_access, 7},        {ask_access, 3},       {copy_granule, 8},       {copy_over_border, 3},
};
enum { KINDS = sizeof OPERATIONS / sizeof *OPERATIONS };

static void step(void) {
    unsigned all = 0, pick, kind = 0;
    for (int i = 0; i < KINDS; ++i)
        all += OPERATIONS[i].often;
    for (pick = below(all); pick >= OPERATIONS[kind].often; ++kind)
        pick -= OPERATIONS[kind].often;
    OPERATIONS[kind].run();
}

static size_t free_memory_of(int device) {
    size_t free, total;
    REQUIRE(cuCtxSetCurrent(w.contexts[device].handle));
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuMemGetInfo_v2(&free, &total));
    return free;
}

static void begin(void) {
    memset(&w, 0, sizeof w);
    for (int i = 0; i < PRIMARIES; ++i) {
        w.contexts[i] = (Context){.device = i, .state = LIVE};
        REQUIRE(cuDevicePrimaryCtxRetain(&w.contexts[i].handle, i));
        w.pools[i] = (Pool){.device = i, .state = LIVE, .own = 1};
        REQUIRE(cuDeviceGetDefaultMemPool(&w.pools[i].handle, i));
    }
}

// Ends a random program with the primary context of device 0 as the current context, whatever context was current
// before.
static void end(void) {
    Problems none = {.count = 0};
    while (w.depth > 0) {
        REQUIRE(cuCtxPopCurrent_v2(NULL));
        --w.depth;
    }
    REQUIRE(cuCtxSetCurrent(w.contexts[0].handle));
    w.stack[w.depth++] = 0;
    for (int i = 0; i < BLOCKS; ++i) {
        Block *block = &w.blocks[i];
        if (!block->live)
            continue;
        check_block(block);
        if (block->kind == HOST)
            JUDGE(cuMemFreeHost((void *)(uintptr_t)block->at), &none);
        else
            JUDGE(cuMemFree_v2(block->at), &none);
        forget_block(block);
    }
    for (int i = 0; i < ARRAYS; ++i) {
        if (w.arrays[i].state != LIVE)
            continue;
        REQUIRE(cuCtxSetCurrent(w.contexts[w.arrays[i].context].handle));
        check_array(&w.arrays[i]);
        JUDGE(cuArrayDestroy(w.arrays[i].handle), &none);
        free(w.arrays[i].mirror);
    }
    for (int i = 0; i < MODULES; ++i) {
        if (w.modules[i].state != LIVE)
            continue;
        REQUIRE(cuCtxSetCurrent(w.contexts[w.modules[i].context].handle));
        JUDGE(cuModuleUnload(w.modules[i].handle), &none);
    }
    for (int i = 0; i < STREAMS; ++i)
        if (w.streams[i].state == LIVE)
            JUDGE(cuStreamDestroy_v2(w.streams[i].handle), &none);
    for (int i = PRIMARIES; i < PRIMARIES + POOLS; ++i)
        if (w.pools[i].state == LIVE)
            JUDGE(cuMemPoolDestroy(w.pools[i].handle), &none);
    end_ranges();
    for (int i = PRIMARIES; i < CONTEXTS; ++i)
        if (w.contexts[i].state == LIVE)
            JUDGE(cuCtxDestroy_v2(w.contexts[i].handle), &none);
}

int main(int argc, char **arguments) {
    unsigned long long first = argc > 1 ? strtoull(arguments[1], NULL, 0) : 0;
    unsigned long long count = argc > 2 ? strtoull(arguments[2], NULL, 0) : 1;
    size_t free_before[PRIMARIES] = {0};
    told = argc > 3;
    REQUIRE(cuInit(0));
    for (program_number = first; program_number < first + count; ++program_number) {
        seed_state = program_number * 1000003;
        begin();
        for (int i = 0; i < PRIMARIES; ++i)
            free_before[i] = free_memory_of(i);
        REQUIRE(cuCtxSetCurrent(NULL));
        for (step_number = 0; step_number < 120; ++step_number)
            step();
        end();
        for (int i = 0; i < PRIMARIES; ++i)
            DEMAND(free_memory_of(i) == free_before[i]);
        REQUIRE(cuCtxSetCurrent(NULL));
        for (int i = 0; i < PRIMARIES; ++i)
            REQUIRE(cuDevicePrimaryCtxRelease_v2(i));
    }
    printf("%llu programs, %llu calls\n", count, calls_made);
    return finish();
}
