// Tests stream memory operations: waits, writes and batches, in streams and in graphs, and waits for values that never
// come.
#include "graphs.h"
#include <unistd.h>

enum { GEQ, EQ, AND, NOR, FLUSH = 1 << 30 };

static CUstream stream, writer;
static volatile unsigned *words;
static CUdeviceptr memory;

// Checks that the stream waits while the word is `bad` and continues when it is `good`.
static void wait_32(unsigned flags, unsigned operand, unsigned bad, unsigned good) {
    words[0] = bad;
    EXPECT(cuStreamWaitValue32_v2(stream, memory, operand, flags), SUCCESS);
    usleep(3000);
    EXPECT(cuStreamQuery(stream), NOT_READY);
    words[0] = good;
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
}

static void wait_64(unsigned flags, uint64_t operand, uint64_t bad, uint64_t good) {
    volatile uint64_t *word = (volatile uint64_t *)&words[2];
    *word = bad;
    EXPECT(cuStreamWaitValue64_v2(stream, memory + 8, operand, flags), SUCCESS);
    usleep(3000);
    EXPECT(cuStreamQuery(stream), NOT_READY);
    *word = good;
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
}

static MemOp op_of(unsigned operation, CUdeviceptr address, uint64_t value, unsigned flags) {
    MemOp op = {.pad = {0}};
    op.value.operation = operation;
    op.value.address = address;
    op.value.value = value;
    op.value.flags = flags;
    return op;
}

int main(int count, char **arguments) {
    CUcontext context = start();
    CUdevice device;
    REQUIRE(cuDeviceGet(&device, 0));
    load_steps();
    REQUIRE(cuStreamCreate(&stream, 1));
    REQUIRE(cuStreamCreate(&writer, 1));
    REQUIRE(cuMemHostAlloc((void **)&words, 4096, 2));
    REQUIRE(cuMemHostGetDevicePointer_v2(&memory, (void *)words, 0));
    for (int i = 0; i < 64; ++i)
        words[i] = 0;
    if (count > 1 && strcmp(arguments[1], "leave") == 0) {
        // The process exits while a wait is pending.
        EXPECT(cuStreamWaitValue32_v2(stream, memory, 1, EQ), SUCCESS);
        EXPECT(launch_step(stream, memory, 1), SUCCESS);
        return finish();
    }
    int value = 0;
    for (int attribute = 92; attribute <= 94; ++attribute) {
        EXPECT(cuDeviceGetAttribute(&value, attribute, device), SUCCESS);
        CHECK(value == 1);
    }

    wait_32(GEQ, 10, 9, 10);
    wait_32(GEQ, 0xfffffff0, 0xffffffef, 5); // the comparison is cyclic
    wait_32(EQ, 7, 8, 7);
    wait_32(AND, 6, 9, 4);
    wait_32(NOR, 0xffff0000, 0xffff, 0x7fff);
    wait_32(EQ | FLUSH, 1, 0, 1);
    wait_64(GEQ, 1ull << 40, (1ull << 40) - 1, 1ull << 40);
    wait_64(EQ, 1ull << 63, 1, 1ull << 63);
    wait_64(AND, 1ull << 35, 1, 3ull << 35);
    wait_64(NOR, 0, ~0ull, ~1ull);

    // A write in one stream ends the wait of another stream. The other stream's later work runs after the wait.
    CUdeviceptr x;
    REQUIRE(cuMemAlloc_v2(&x, 64));
    write_word(x, 1);
    words[0] = 0;
    EXPECT(cuStreamWaitValue32_v2(stream, memory, 3, EQ), SUCCESS);
    EXPECT(launch_step(stream, x, 5), SUCCESS);
    EXPECT(launch_step(writer, x, 2), SUCCESS);
    EXPECT(cuStreamWriteValue32_v2(writer, memory, 3, 0), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(words[0] == 3 && read_word(x) == (1 * 3 + 2) * 3 + 5);
    EXPECT(cuStreamWriteValue64_v2(writer, memory + 8, 0x1122334455667788, 0), SUCCESS);
    EXPECT(cuStreamSynchronize(writer), SUCCESS);
    CHECK(words[2] == 0x55667788 && words[3] == 0x11223344);
    EXPECT(cuStreamWriteValue32(writer, memory, 4, 1), SUCCESS);

    // A batch executes its operations in order.
    words[4] = 0;
    words[5] = 0;
    words[6] = 0;
    MemOp ops[] = {
        op_of(2, memory + 16, 1, 0), op_of(1, memory + 20, 1, EQ), op_of(5, memory + 24, 9, 0),
        {.pad = {6 | 0ull << 32}},   {.pad = {8, 0 | 14ull << 32, memory + 24, 33}},
    };
    EXPECT(cuStreamBatchMemOp_v2(stream, 5, ops, 0), SUCCESS);
    for (int i = 0; i < 2000 && words[4] != 1; ++i)
        usleep(1000);
    CHECK(words[4] == 1 && words[6] == 0);
    words[5] = 1;
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(words[6] == 9 + 33);
    EXPECT(cuStreamBatchMemOp_v2(stream, 0, NULL, 0), SUCCESS);

    // Wrong arguments.
    EXPECT(cuStreamWaitValue32_v2(stream, memory + 2, 1, EQ), INVALID_VALUE);
    EXPECT(cuStreamWaitValue64_v2(stream, memory + 4, 1, EQ), INVALID_VALUE);
    EXPECT(cuStreamWaitValue32_v2(stream, memory, 1, 4), INVALID_VALUE);
    EXPECT(cuStreamWaitValue32_v2(stream, 0, 1, EQ), INVALID_VALUE);
    EXPECT(cuStreamWriteValue32_v2(stream, memory, 1, 1), INVALID_VALUE);
    EXPECT(cuStreamWriteValue32_v2(stream, 4096, 1, 0), INVALID_VALUE);
    EXPECT(cuStreamBatchMemOp_v2(stream, 1, NULL, 0), INVALID_VALUE);
    EXPECT(cuStreamBatchMemOp_v2(stream, 1, ops, 1), INVALID_VALUE);
    EXPECT(cuStreamBatchMemOp_v2(stream, 257, ops, 0), INVALID_VALUE);
    MemOp odd = op_of(7, memory, 1, 0);
    EXPECT(cuStreamBatchMemOp_v2(stream, 1, &odd, 0), INVALID_VALUE);

    // A graph node executes a batch.
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    MemOpsParams params = {context, 3, ops, 0}, told;
    REQUIRE(cuGraphCreate(&graph, 0));
    REQUIRE(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
    EXPECT(cuGraphBatchMemOpNodeGetParams(node, &told), SUCCESS);
    CHECK(told.count == 3 && told.ops != ops && told.ops[2].value.value == 9 && told.ctx == context);
    params.count = 0;
    EXPECT(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params), INVALID_VALUE);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    words[4] = words[5] = words[6] = 0;
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    for (int i = 0; i < 2000 && words[4] != 1; ++i)
        usleep(1000);
    CHECK(words[4] == 1 && words[6] == 0);
    words[5] = 1;
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(words[6] == 9);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);

    // Many pending waits occupy no worker. A reset ends waits for values that never come.
    CUstream streams[40];
    words[0] = 0;
    for (int i = 0; i < 40; ++i) {
        REQUIRE(cuStreamCreate(&streams[i], 1));
        EXPECT(cuStreamWaitValue32_v2(streams[i], memory, 1, EQ), SUCCESS);
    }
    write_word(x, 1);
    EXPECT(launch_step(writer, x, 1), SUCCESS);
    EXPECT(cuStreamSynchronize(writer), SUCCESS);
    CHECK(read_word(x) == 4);
    EXPECT(cuDevicePrimaryCtxReset_v2(device), SUCCESS);
    return finish();
}
