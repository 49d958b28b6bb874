// Planted defects for the checks of a checking run (`MARGAY_CHECK`), and clean programs that do the same without the
// defect. The argument selects one. `ffi/tests/checks.rs` runs them; a line with the comment `@name` is the line that
// a report must name.
#include "abi.h"

#include <unistd.h>

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream);
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuGraphCreate(void **graph, unsigned flags);
CUresult cuGraphDestroy(void *graph);
CUresult cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
CUresult cuGraphExecDestroy(void *exec);

static CUmodule module;

static CUfunction kernel(const char *name) {
    CUfunction function;
    if (!module)
        REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&function, module, name));
    return function;
}

static void poke(CUdeviceptr address, CUstream stream) {
    void *params[] = {&address};
    REQUIRE(cuLaunchKernel(kernel("poke"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL)); // @launch
}

static CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr pointer;
    REQUIRE(cuMemAlloc_v2(&pointer, bytes)); // @alloc
    return pointer;
}

// Creates one object of each kind but three events, and destroys them if `clean` is not 0.
static void leaks(int clean) {
    CUdeviceptr memory = allocate(12345), managed, pooled;
    void *pinned, *graph, *exec;
    CUstream stream;
    CUevent events[3];
    static char own[8192];
    CUresult cuMemHostRegister_v2(void *, size_t, unsigned);
    CUresult cuMemHostUnregister(void *);
    REQUIRE(cuMemAllocManaged(&managed, 2000, 1));  // @managed
    REQUIRE(cuMemHostAlloc(&pinned, 3000, 0));      // @pinned
    REQUIRE(cuMemHostRegister_v2(own, 4096, 0));    // @registered
    REQUIRE(cuStreamCreate(&stream, 0));            // @stream
    for (int i = 0; i < 3; i++)
        REQUIRE(cuEventCreate(&events[i], 0)); // @event
    REQUIRE(cuMemAllocAsync(&pooled, 5000, stream)); // @pooled
    REQUIRE(cuGraphCreate(&graph, 0));              // @graph
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0)); // @exec
    REQUIRE(cuModuleLoadData(&module, KERNELS));    // @module
    if (clean) {
        REQUIRE(cuMemFreeAsync(pooled, stream));
        REQUIRE(cuMemFree_v2(memory));
        REQUIRE(cuMemFree_v2(managed));
        REQUIRE(cuMemFreeHost(pinned));
        REQUIRE(cuMemHostUnregister(own));
        REQUIRE(cuStreamDestroy_v2(stream));
        for (int i = 0; i < 3; i++)
            REQUIRE(cuEventDestroy_v2(events[i]));
        REQUIRE(cuGraphExecDestroy(exec));
        REQUIRE(cuGraphDestroy(graph));
        REQUIRE(cuModuleUnload(module));
    }
}

static CUdeviceptr late;

// The loader calls this function after the exit handlers, so the memory is no leak.
__attribute__((destructor)) static void free_late(void) {
    if (late)
        cuMemFree_v2(late);
}

static void in_context(int clean) {
    CUcontext context;
    REQUIRE(cuCtxCreate_v2(&context, 0, 0));
    CUdeviceptr memory = allocate(777);
    if (clean)
        REQUIRE(cuMemFree_v2(memory));
    REQUIRE(cuCtxDestroy_v2(context));
}

static void after_fork(void) {
    CUdeviceptr memory = allocate(64);
    if (fork() == 0)
        exit(0);
    sleep(1);
    REQUIRE(cuMemFree_v2(memory));
}

static void calls(void) {
    CUdeviceptr block = allocate(1000), freed = allocate(500), pointer;
    char host[4000];
    CUstream stream;
    CUevent event;
    REQUIRE(cuMemFree_v2(freed)); // @free
    EXPECT(cuMemAlloc_v2(&pointer, (size_t)1 << 60), OUT_OF_MEMORY); // @too-much
    EXPECT_ERROR(cuMemFree_v2(freed)); // @twice
    EXPECT_ERROR(cuMemFree_v2(block + 16)); // @interior
    EXPECT_ERROR(cuMemFree_v2((CUdeviceptr)(uintptr_t)host)); // @unknown
    EXPECT_ERROR(cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)host, (void *)(uintptr_t)block, 64)); // @reversed
    EXPECT_ERROR(cuMemcpyDtoD_v2(block, (CUdeviceptr)(uintptr_t)host, 64)); // @host-source
    cuMemcpyHtoD_v2(block, (void *)(uintptr_t)(block + 512), 64); // @device-source
    EXPECT_ERROR(cuMemcpyDtoH_v2(host, block + 8, 2000)); // @outside
    EXPECT_ERROR(cuMemsetD8_v2(block, 1, 1001)); // @fill
    EXPECT_ERROR(cuMemcpyDtoH_v2(host, freed, 8)); // @stale-copy
    REQUIRE(cuStreamCreate(&stream, 0));
    REQUIRE(cuStreamDestroy_v2(stream)); // @destroy-stream
    EXPECT_ERROR(cuStreamSynchronize(stream)); // @stale-stream
    REQUIRE(cuEventCreate(&event, 0));
    REQUIRE(cuEventDestroy_v2(event));
    EXPECT_ERROR(cuEventSynchronize(event)); // @stale-event
    poke(block, NULL);
    CUmodule gone = module;
    REQUIRE(cuModuleUnload(module));
    module = NULL;
    CUfunction function;
    EXPECT_ERROR(cuModuleGetFunction(&function, gone, "poke")); // @stale-module
    REQUIRE(cuDevicePrimaryCtxReset_v2(0));
    EXPECT_ERROR(cuMemFree_v2(block)); // @after-reset
}

// Copies to the host of memory that nobody has written.
static void unwritten(void) {
    CUdeviceptr block = allocate(1000);
    char host[1000];
    REQUIRE(cuMemsetD8_v2(block, 1, 400));
    REQUIRE(cuMemcpyDtoH_v2(host, block, 400));
    REQUIRE(cuMemcpyDtoH_v2(host, block, 1000)); // @unwritten
    REQUIRE(cuMemcpy((CUdeviceptr)(uintptr_t)host, block, 1000)); // @unwritten-unified
    REQUIRE(cuMemFree_v2(block));
}

// A module with a constant variable, and a kernel that writes to it.
static const char CONSTANT[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .const .align 4 .b32 table[4];\n"
    ".visible .entry overwrite()\n"
    "{\n"
    "    .reg .b64 %rd;\n"
    "    mov.u64 %rd, table; cvta.const.u64 %rd, %rd; st.u32 [%rd+4], 7;\n"
    "    ret;\n"
    "}\n";

// Writes to the constant variable with a kernel of another module, to which the host passes the address.
static void fill_constant(void) {
    CUmodule constant;
    CUdeviceptr table;
    size_t bytes;
    unsigned value = 0;
    REQUIRE(cuModuleLoadData(&constant, CONSTANT));
    REQUIRE(cuModuleGetGlobal_v2(&table, &bytes, constant, "table"));
    poke(table + 12, NULL);
    REQUIRE(cuMemcpyDtoH_v2(&value, table + 12, 4));
    if (value != 7)
        exit(1);
    REQUIRE(cuModuleUnload(constant));
    REQUIRE(cuModuleUnload(module));
    module = NULL;
}

// Correct uses that resemble wrong ones.
static void correct_calls(void) {
    CUdeviceptr block = allocate(1000), managed;
    void *pinned, *pointer;
    char host[1000];
    REQUIRE(cuMemHostAlloc(&pinned, 1000, 0));
    REQUIRE(cuMemAllocManaged(&managed, 1000, 1));
    REQUIRE(cuMemcpyHtoD_v2(block, host, 1000));
    REQUIRE(cuMemcpyHtoD_v2(block, pinned, 1000));
    REQUIRE(cuMemcpyHtoD_v2(block, (void *)(uintptr_t)managed, 1000));
    REQUIRE(cuMemcpyHtoD_v2(managed, host, 1000));
    REQUIRE(cuMemcpyDtoH_v2(pinned, block, 1000));
    REQUIRE(cuMemcpyDtoD_v2(managed, block, 1000));
    REQUIRE(cuMemcpyDtoD_v2((CUdeviceptr)(uintptr_t)pinned, block, 1000));
    REQUIRE(cuMemsetD8_v2((CUdeviceptr)(uintptr_t)pinned, 1, 1000));
    REQUIRE(cuMemsetD8_v2(block, 1, 1000));
    REQUIRE(cuMemcpyHtoD_v2(block, host, 0));
    EXPECT_ERROR(cuGetProcAddress("cuNoSuchFunction", &pointer, 13000, 0));
    CUstream stream;
    REQUIRE(cuStreamCreate(&stream, 0));
    cuStreamQuery(stream);
    REQUIRE(cuStreamDestroy_v2(stream));
    REQUIRE(cuMemFree_v2(0));
    REQUIRE(cuMemFree_v2(managed));
    REQUIRE(cuMemFreeHost(pinned));
    REQUIRE(cuMemFree_v2(block));
    fill_constant();
}

static void accesses(void) {
    CUmodule constant;
    CUfunction overwrite;
    CUdeviceptr block = allocate(4096);
    poke(block + 4108, NULL);
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuMemFree_v2(block)); // @freed
    poke(block + 8, NULL);
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuModuleLoadData(&constant, CONSTANT));
    REQUIRE(cuModuleGetFunction(&overwrite, constant, "overwrite"));
    REQUIRE(cuLaunchKernel(overwrite, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)); // @overwrite
    REQUIRE(cuCtxSynchronize());
}

static const char FAULTS[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry stop()\n"
    "{\n"
    "    .reg .b32 %t, %c; .reg .pred %p;\n"
    "    mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mad.lo.u32 %t, %c, 64, %t; setp.eq.u32 %p, %t, 69;\n"
    "    @%p trap;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry call(.param .u64 function)\n"
    "{\n"
    "    .reg .b64 %f;\n"
    "    ld.param.u64 %f, [function];\n"
    "    shape: .callprototype _ ();\n"
    "    call %f, (), shape;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry spin()\n"
    "{\n"
    "    again: bra again;\n"
    "}\n";

// Launches a kernel that a fault ends. If `wanted` is not `SUCCESS`, it is the result of the next call, which waits for
// the kernel.
static void faults(const char *name, CUresult wanted) {
    CUmodule with_faults;
    CUfunction function;
    CUdeviceptr null = 0;
    void *params[] = {&null};
    REQUIRE(cuModuleLoadData(&with_faults, FAULTS));
    REQUIRE(cuModuleGetFunction(&function, with_faults, name));
    REQUIRE(cuLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, NULL, params, NULL)); // @faults
    if (wanted != SUCCESS)
        EXPECT(cuCtxSynchronize(), wanted);
}

// Two allocations of which some bytes are not written, and one that is written.
static void unused(void) {
    CUdeviceptr half = allocate(1000), none = allocate(64), whole = allocate(500);
    REQUIRE(cuMemsetD8_v2(half, 1, 500));
    REQUIRE(cuMemsetD8_v2(whole, 1, 500));
    REQUIRE(cuMemFree_v2(half));
    REQUIRE(cuMemFree_v2(whole));
    (void)none;
}

// A kernel accesses memory that is not there. `wanted` is the result of the next calls.
static void wrong_access(CUresult wanted, CUresult later) {
    CUdeviceptr block = allocate(4096), other;
    int value = 0;
    REQUIRE(cuMemsetD8_v2(block, 0, 4096));
    poke(block + 4108, NULL);
    EXPECT(cuCtxSynchronize(), wanted);
    EXPECT(cuMemAlloc_v2(&other, 4), later);
    if (later != SUCCESS)
        return;
    poke(block + 8, NULL);
    REQUIRE(cuMemcpyDtoH_v2(&value, block + 8, 4));
    CHECK(value != 0);
    REQUIRE(cuMemFree_v2(other));
    REQUIRE(cuMemFree_v2(block));
}

static void pause_stream(void *unused) {
    (void)unused;
    usleep(100000);
}

// A kernel is launched after a kernel that ends the context: if `queued` is not 0, before the first kernel has
// started.
static void skipped(int queued) {
    CUdeviceptr block = allocate(4096);
    void *params[] = {&block}, *function = kernel("poke");
    if (queued)
        REQUIRE(cuLaunchHostFunc(NULL, pause_stream, NULL));
    poke(block + 4108, NULL);
    if (!queued)
        EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
    EXPECT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), queued ? SUCCESS : ILLEGAL_ADDRESS);
    EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
}

// A launch is complete when the call returns.
static void blocking(void) {
    CUdeviceptr block = allocate(4);
    CUstream stream;
    REQUIRE(cuStreamCreate(&stream, 1));
    for (int i = 0; i < 200; ++i) {
        poke(block, stream);
        EXPECT(cuStreamQuery(stream), SUCCESS);
    }
}

// Calls that fail: of the program, of a library of CUDA, and a question.
static void levels(void) {
    void library_fails(void), *pointer;
    CUdeviceptr memory;
    EXPECT(cuMemAlloc_v2(&memory, (size_t)1 << 60), OUT_OF_MEMORY); // @too-much-here
    library_fails();
    EXPECT_ERROR(cuGetProcAddress("cuNoSuchFunction", &pointer, 13000, 0)); // @question
}

static CUstream streams[2];

// Allocates stream-ordered memory in the first stream.
static CUdeviceptr in_order(size_t bytes) {
    CUdeviceptr pointer;
    REQUIRE(cuStreamCreate(&streams[0], 1));
    REQUIRE(cuStreamCreate(&streams[1], 1));
    REQUIRE(cuMemAllocAsync(&pointer, bytes, streams[0]));
    return pointer;
}

static void destroy_streams(void) {
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuStreamDestroy_v2(streams[0]));
    REQUIRE(cuStreamDestroy_v2(streams[1]));
    if (module)
        REQUIRE(cuModuleUnload(module));
}

// Makes the later work of a stream wait for the earlier work of another one.
static void wait_for(CUstream later, CUstream earlier) {
    CUevent event;
    REQUIRE(cuEventCreate(&event, 2));
    REQUIRE(cuEventRecord(event, earlier));
    // Only the order counts, not whether the work is complete by chance.
    REQUIRE(cuStreamSynchronize(NULL));
    REQUIRE(cuStreamWaitEvent(later, event, 0));
    REQUIRE(cuEventDestroy_v2(event));
}

static void unordered(const char *what) {
    CUdeviceptr memory = in_order(1000);
    if (!strcmp(what, "use-before")) {
        poke(memory, streams[1]);
        usleep(300000);
        REQUIRE(cuMemFreeAsync(memory, streams[0])); // @free-too-early
    } else if (!strcmp(what, "fill-before")) {
        REQUIRE(cuMemsetD32Async(memory, 1, 10, streams[1])); // @fill-before
        wait_for(streams[0], streams[1]);
        REQUIRE(cuMemFreeAsync(memory, streams[0]));
    } else if (!strcmp(what, "free-before")) {
        REQUIRE(cuMemFreeAsync(memory, streams[1])); // @free-before
    } else if (!strcmp(what, "free-during")) {
        wait_for(streams[1], streams[0]);
        poke(memory + 8, streams[1]);
        usleep(300000);
        REQUIRE(cuMemFreeAsync(memory, streams[0])); // @free-during
    }
    destroy_streams();
}

// The same with the order that is missing above, in each way that CUDA offers.
static void ordered(void) {
    int host;
    CUevent event;
    for (int way = 0; way < 8; ++way) {
        CUdeviceptr memory = in_order(1000);
        if (way == 0) {
            poke(memory, streams[0]);
            REQUIRE(cuMemFreeAsync(memory, streams[0]));
        } else if (way == 1) {
            wait_for(streams[1], streams[0]);
            poke(memory, streams[1]);
            wait_for(streams[0], streams[1]);
            REQUIRE(cuMemFreeAsync(memory, streams[0]));
        } else if (way == 2) {
            REQUIRE(cuStreamSynchronize(streams[0]));
            poke(memory, streams[1]);
            REQUIRE(cuMemcpyDtoHAsync_v2(&host, memory, 4, streams[1]));
            REQUIRE(cuStreamSynchronize(streams[1]));
            REQUIRE(cuMemFreeAsync(memory, streams[0]));
        } else if (way == 3) {
            REQUIRE(cuCtxSynchronize());
            REQUIRE(cuMemsetD32Async(memory, 1, 10, streams[1]));
            REQUIRE(cuCtxSynchronize());
            REQUIRE(cuMemFreeAsync(memory, streams[0]));
        } else if (way == 4) {
            REQUIRE(cuEventCreate(&event, 0));
            REQUIRE(cuEventRecord(event, streams[0]));
            REQUIRE(cuEventSynchronize(event));
            poke(memory, NULL);
            REQUIRE(cuEventRecord(event, NULL));
            while (cuEventQuery(event) != SUCCESS)
                ;
            REQUIRE(cuMemFreeAsync(memory, streams[1]));
            REQUIRE(cuEventDestroy_v2(event));
        } else if (way == 5) {
            // Blocking streams and the legacy stream.
            CUstream blocking;
            CUdeviceptr other;
            REQUIRE(cuStreamCreate(&blocking, 0));
            REQUIRE(cuMemAllocAsync(&other, 100, blocking));
            poke(other, NULL);
            poke(other, blocking);
            REQUIRE(cuMemFreeAsync(other, NULL));
            REQUIRE(cuMemAllocAsync(&other, 100, NULL));
            poke(other, blocking);
            REQUIRE(cuMemFreeAsync(other, blocking));
            REQUIRE(cuStreamDestroy_v2(blocking));
            poke(memory, streams[0]);
            REQUIRE(cuMemcpyHtoD_v2(other = allocate(8), &host, 4));
            REQUIRE(cuMemFree_v2(other));
            REQUIRE(cuMemFreeAsync(memory, streams[0]));
        } else if (way == 6) {
            while (cuStreamQuery(streams[0]) != SUCCESS)
                ;
            // A synchronous copy waits for the legacy stream, in which it runs.
            REQUIRE(cuMemcpyDtoH_v2(&host, memory, 4));
            REQUIRE(cuMemFreeAsync(memory, streams[1]));
        } else {
            REQUIRE(cuStreamSynchronize(streams[0]));
            poke(memory, streams[1]);
            // This call waits for all work.
            REQUIRE(cuMemFree_v2(memory));
        }
        REQUIRE(cuCtxSynchronize());
        REQUIRE(cuStreamDestroy_v2(streams[0]));
        REQUIRE(cuStreamDestroy_v2(streams[1]));
    }
    REQUIRE(cuModuleUnload(module));
}

static void wait_shortly(void *unused) {
    (void)unused;
    usleep(100000);
}

static void note_end(void *ended) {
    *(int *)ended = 1;
}

// Destroys a context whose stream still has to copy to an array of the context. The call waits for the copy.
static void destroyed_before_copy(void) {
    CUresult cuArrayCreate_v2(void **, const void *), cuMemcpyHtoAAsync_v2(void *, size_t, const void *, size_t, CUstream);
    struct {
        size_t width, height;
        int format;
        unsigned channels;
    } descriptor = {4096, 0, 0x20, 1};
    CUcontext context;
    CUstream stream;
    void *array, *pinned;
    int ended = 0;
    REQUIRE(cuCtxCreate_v2(&context, 0, 0));
    REQUIRE(cuStreamCreate(&stream, 1));
    REQUIRE(cuArrayCreate_v2(&array, &descriptor));
    REQUIRE(cuMemHostAlloc(&pinned, 16384, 0));
    REQUIRE(cuLaunchHostFunc(stream, wait_shortly, NULL));
    REQUIRE(cuMemcpyHtoAAsync_v2(array, 0, pinned, 16384, stream));
    REQUIRE(cuLaunchHostFunc(stream, note_end, &ended));
    REQUIRE(cuCtxDestroy_v2(context));
    CHECK(ended);
}

// A graph that allocates memory, writes to it and leaves it allocated. The program uses the memory between the launch
// and the free; with the argument `before` also before the launch, and with `after` also after the free.
static void graph_memory(const char *what) {
    CUresult cuStreamBeginCapture_v2(CUstream, int), cuStreamEndCapture(CUstream, void **);
    CUresult cuGraphLaunch(void *, CUstream);
    CUdeviceptr memory;
    CUstream stream;
    void *graph, *exec;
    int host[2];
    REQUIRE(cuStreamCreate(&stream, 1));
    kernel("poke");
    REQUIRE(cuStreamBeginCapture_v2(stream, 0));
    REQUIRE(cuMemAllocAsync(&memory, 1000, stream)); // @graph-memory
    poke(memory, stream);
    REQUIRE(cuStreamEndCapture(stream, &graph));
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    if (!strcmp(what, "before"))
        poke(memory + 8, stream);
    for (int launch = 0; launch < 2; ++launch) {
        REQUIRE(cuGraphLaunch(exec, stream));
        if (launch == 0) {
            poke(memory + 4, stream);
            REQUIRE(cuMemcpyDtoHAsync_v2(host, memory, 8, stream));
            REQUIRE(cuMemFreeAsync(memory, stream));
        } else {
            REQUIRE(cuStreamSynchronize(stream));
            REQUIRE(cuMemcpyDtoH_v2(host, memory, 4));
            // The second launch has allocated the memory again.
            if (!strcmp(what, "unwritten"))
                REQUIRE(cuMemcpyDtoH_v2(host, memory, 8)); // @unwritten-graph-memory
            REQUIRE(cuMemFree_v2(memory));
        }
    }
    if (!strcmp(what, "after"))
        poke(memory + 12, stream);
    REQUIRE(cuStreamSynchronize(stream));
    REQUIRE(cuGraphExecDestroy(exec));
    REQUIRE(cuGraphDestroy(graph));
    REQUIRE(cuStreamDestroy_v2(stream));
    REQUIRE(cuModuleUnload(module));
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    start();
    if (!strcmp(what, "leaks"))
        leaks(0);
    else if (!strcmp(what, "no-leaks"))
        leaks(1);
    else if (!strcmp(what, "late"))
        late = allocate(100);
    else if (!strcmp(what, "context"))
        in_context(0);
    else if (!strcmp(what, "clean-context"))
        in_context(1);
    else if (!strcmp(what, "fork"))
        after_fork();
    else if (!strcmp(what, "exit")) {
        allocate(100);
        printf("PASS\n");
        exit(0);
    } else if (!strcmp(what, "calls"))
        calls();
    else if (!strcmp(what, "unwritten"))
        unwritten();
    else if (!strcmp(what, "correct-calls"))
        correct_calls();
    else if (!strcmp(what, "destroyed-before-copy"))
        destroyed_before_copy();
    else if (!strcmp(what, "graph-memory"))
        graph_memory(count > 2 ? arguments[2] : "");
    else if (!strcmp(what, "accesses"))
        accesses();
    else if (!strcmp(what, "ordered"))
        ordered();
    else if (!strcmp(what, "unused"))
        unused();
    else if (!strcmp(what, "ends-nothing"))
        wrong_access(SUCCESS, SUCCESS);
    else if (!strcmp(what, "ends-kernel"))
        wrong_access(SUCCESS, SUCCESS);
    else if (!strcmp(what, "ends-context"))
        wrong_access(ILLEGAL_ADDRESS, ILLEGAL_ADDRESS);
    else if (!strcmp(what, "skipped-queued"))
        skipped(1);
    else if (!strcmp(what, "skipped-refused"))
        skipped(0);
    else if (!strcmp(what, "trap"))
        faults("stop", LAUNCH_FAILED);
    else if (!strcmp(what, "trap-at-end"))
        faults("stop", SUCCESS);
    else if (!strcmp(what, "bad-call"))
        faults("call", INVALID_PC);
    else if (!strcmp(what, "endless"))
        faults("spin", LAUNCH_TIMEOUT);
    else if (!strcmp(what, "blocking"))
        blocking();
    else if (!strcmp(what, "levels"))
        levels();
    else if (count > 2)
        unordered(what);
    else
        return 2;
    return finish();
}
