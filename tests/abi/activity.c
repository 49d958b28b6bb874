// A client of libcupti, as profilers are: it receives records in small buffers and callbacks, and checks that they belong
// together. The first argument is the number in the name of the library, 12 or 13, and the second one its folder, if the
// dynamic linker shall not search it. With 12, the library is loaded after the kernel has run, with 13 before the driver
// is initialised. The offsets and sizes are those of `cupti_activity.h`.
#define _GNU_SOURCE
#include "abi.h"

#include <dlfcn.h>

enum { COPY = 1, FILL = 2, DRIVER = 4, RUNTIME = 5, CONTEXT = 9, CONCURRENT_KERNEL = 10, STREAM = 37, EXTERNAL = 39 };
enum { INVALID_PARAMETER = 1, INVALID_OPERATION = 7, MAX_LIMIT_REACHED = 12, QUEUE_EMPTY = 18, INVALID_KIND = 21 };
enum { NOT_SUPPORTED_HERE = 27, MULTIPLE_SUBSCRIBERS = 39 };
// Numbers in `cupti_driver_cbid.h`.
enum { LAUNCH_KERNEL = 307, COPY_TO_DEVICE = 276 };

CUresult cuStreamGetId(CUstream stream, unsigned long long *id);

static const char PTX[] =
    ".version 7.0\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .entry increment(.param .u64 values)\n"
    "{\n"
    "    .reg .b32 %r<4>; .reg .b64 %rd<4>; .shared .align 4 .b8 s[128];\n"
    "    ld.param.u64 %rd1, [values];\n"
    "    mov.u32 %r1, %tid.x;\n"
    "    mul.wide.u32 %rd2, %r1, 4;\n"
    "    add.u64 %rd1, %rd1, %rd2;\n"
    "    ld.global.u32 %r2, [%rd1];\n"
    "    add.u32 %r2, %r2, 1;\n"
    "    st.shared.u32 [s], %r2;\n"
    "    st.global.u32 [%rd1], %r2;\n"
    "    ret;\n"
    "}\n";

static void *library;

// Calls a function of libcupti.
#define CUPTI(name, ...) ((unsigned (*)())dlsym(library, "cupti" name))(__VA_ARGS__)
#define SAME(value, expected) \
    do { \
        unsigned long long found_ = (value), expected_ = (expected); \
        if (found_ != expected_) { \
            printf("line %d: %s is %llu, not %llu\n", __LINE__, #value, found_, expected_); \
            exit(1); \
        } \
    } while (0)

static unsigned u32(const char *record, int at) {
    unsigned value;
    memcpy(&value, record + at, sizeof value);
    return value;
}

static unsigned long long u64(const char *record, int at) {
    unsigned long long value;
    memcpy(&value, record + at, sizeof value);
    return value;
}

static size_t buffer_bytes = 600;
static int gives_buffers = 1;
static unsigned requests, completions;
// The records that the client has received.
static char records[256][256];
static int count;

static void request(char **buffer, size_t *bytes, size_t *most) {
    requests++;
    *bytes = buffer_bytes;
    *buffer = gives_buffers ? aligned_alloc(8, buffer_bytes) : NULL;
    *most = 0;
}

static void complete(CUcontext context, unsigned stream, char *buffer, size_t bytes, size_t valid) {
    completions++;
    SAME(bytes, buffer_bytes);
    char *record = NULL;
    unsigned result;
    while ((result = CUPTI("ActivityGetNextRecord", buffer, valid, &record)) == 0 && count < 256) {
        size_t left = buffer + valid - record;
        memcpy(records[count++], record, left < 256 ? left : 256);
    }
    SAME(result, MAX_LIMIT_REACHED);
    free(buffer);
}

// Returns the record of a kind with an index, and the number of such records.
static const char *record_of(unsigned kind, int index, int *found) {
    const char *result = NULL;
    *found = 0;
    for (int i = 0; i < count; i++)
        if (u32(records[i], 0) == kind && (*found)++ == index) result = records[i];
    return result;
}

// Returns the record of the call with a correlation number.
static const char *call_of(unsigned correlation) {
    for (int i = 0; i < count; i++)
        if (u32(records[i], 0) == DRIVER && u32(records[i], 32) == correlation) return records[i];
    return NULL;
}

static const char *external_of(unsigned correlation) {
    for (int i = 0; i < count; i++)
        if (u32(records[i], 0) == EXTERNAL && u32(records[i], 16) == correlation) return records[i];
    return NULL;
}

static unsigned begins, ends, streams_created;
static unsigned launch_correlation;

struct callback {
    int site;
    const char *function;
    const void *parameters;
    int *result;
    const char *symbol;
    CUcontext context;
    unsigned context_id;
    unsigned long long *data;
    unsigned correlation;
};

static void callback(void *user, int domain, unsigned number, const void *data) {
    SAME(*(int *)user, 7);
    if (domain == 3 && number == 3) streams_created++;
    if (domain != 1) return;
    const struct callback *call = data;
    if (call->site == 0) {
        begins++;
        *call->data = 0x1234;
        if (number == LAUNCH_KERNEL) {
            // The arguments: function, grid, block, shared memory and stream.
            const struct { void *f; unsigned grid[3], block[3], shared; CUstream stream; } *p = call->parameters;
            SAME(p->grid[0] == 2 && p->block[0] == 64 && p->shared == 16, 1);
            SAME(strcmp(call->symbol, "increment"), 0);
            SAME(strcmp(call->function, "cuLaunchKernel"), 0);
            launch_correlation = call->correlation;
        }
    } else {
        ends++;
        SAME(*call->data, 0x1234);
        SAME(*call->result, 0);
    }
}

static void load(char **argv) {
    char name[4096];
    snprintf(name, sizeof name, "%s%slibcupti.so.%s", argv[2] ? argv[2] : "", argv[2] ? "/" : "", argv[1]);
    library = dlopen(name, RTLD_NOW);
    if (!library) {
        printf("%s\n", dlerror());
        exit(1);
    }
}

static CUfunction increment;
static CUdeviceptr values;
static CUstream stream;

static void work(void) {
    unsigned host[128] = {0};
    void *parameters[] = {&values};
    REQUIRE(cuMemcpyHtoD_v2(values, host, sizeof host));
    REQUIRE(cuMemsetD32Async(values, 3, 64, stream));
    REQUIRE(cuLaunchKernel(increment, 2, 1, 1, 64, 1, 1, 16, stream, parameters, NULL));
    REQUIRE(cuMemcpyDtoHAsync_v2(host, values, 256, stream));
    REQUIRE(cuStreamSynchronize(stream));
}

static void check_records(int is_13, CUcontext context) {
    int kernels, copies, fills, calls, externals;
    const char *kernel = record_of(CONCURRENT_KERNEL, 0, &kernels);
    const char *to = record_of(COPY, 0, &copies), *from = record_of(COPY, 1, &copies);
    const char *fill = record_of(FILL, 0, &fills);
    record_of(DRIVER, 0, &calls);
    record_of(EXTERNAL, 0, &externals);
    SAME(kernels == 1 && copies == 2 && fills == 1, 1);
    SAME(calls, 5);
    SAME(externals, 5);

    unsigned context_id, stream_id;
    SAME(CUPTI("GetContextId", context, &context_id), 0);
    SAME(CUPTI("GetStreamId", context, stream, &stream_id), 0);
    unsigned long long id;
    REQUIRE(cuStreamGetId(stream, &id));
    SAME(stream_id, id);

    SAME(strcmp((const char *)u64(kernel, 104), "increment"), 0);
    SAME(u32(kernel, 52) == 2 && u32(kernel, 64) == 64 && u32(kernel, 68) == 1, 1);
    SAME(u32(kernel, 76), 128);
    SAME(u32(kernel, 80), 16);
    SAME(u32(kernel, 40), 0);
    SAME(u32(kernel, 44), context_id);
    SAME(u32(kernel, 48), stream_id);
    SAME(u64(kernel, 16) != 0 && u64(kernel, 16) <= u64(kernel, 24), 1);
    SAME(u64(kernel, 120), 0);

    SAME(to[4] == 1 && to[5] == 1 && to[6] == 3 && to[7] == 0, 1);
    SAME(u64(to, 8), 512);
    SAME(from[4] == 2 && from[5] == 3 && from[6] == 1 && from[7] == 1, 1);
    SAME(u64(from, 8), 256);
    SAME(u32(from, 40), stream_id);
    SAME(u32(fill, 4), 3);
    SAME(u64(fill, 8), 256);
    // Work of one stream does not overlap.
    SAME(u64(fill, 24) <= u64(kernel, 16) && u64(kernel, 24) <= u64(from, 16), 1);

    unsigned numbers[] = {u32(kernel, 92), u32(to, 44), u32(from, 44), u32(fill, 44)};
    for (int i = 0; i < 4; i++) {
        const char *call = call_of(numbers[i]), *external = external_of(numbers[i]);
        SAME(numbers[i] != 0 && call && external, 1);
        SAME(u32(external, 4) == 3 && u64(external, 8) == 55, 1);
        SAME(u32(call, 36), 0);
        SAME(u64(call, 8) <= u64(call, 16), 1);
    }
    SAME(u32(call_of(numbers[0]), 4), LAUNCH_KERNEL);
    SAME(u32(call_of(numbers[1]), 4), COPY_TO_DEVICE);
    SAME(launch_correlation, numbers[0]);
}

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    int is_13 = strcmp(argv[1], "13") == 0;
    if (is_13) load(argv);
    REQUIRE(cuInit(0));
    CUdevice device;
    REQUIRE(cuDeviceGet(&device, 0));
    CUcontext context;
    REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
    REQUIRE(cuCtxSetCurrent(context));
    CUmodule module;
    REQUIRE(cuModuleLoadData(&module, PTX));
    REQUIRE(cuModuleGetFunction(&increment, module, "increment"));
    REQUIRE(cuMemAlloc_v2(&values, 512));
    REQUIRE(cuStreamCreate(&stream, 1));
    work();
    if (!is_13) load(argv);

    unsigned version = 0;
    SAME(CUPTI("GetVersion", &version), 0);
    SAME(version, is_13 ? 130500 : 28);
    SAME(CUPTI("GetVersion", NULL), INVALID_PARAMETER);
    SAME(CUPTI("ActivityFlushAll", 0), INVALID_OPERATION);
    SAME(CUPTI("ActivityRegisterCallbacks", request, NULL), INVALID_PARAMETER);
    SAME(CUPTI("ActivityRegisterCallbacks", request, complete), 0);
    SAME(CUPTI("ActivityEnable", RUNTIME), NOT_SUPPORTED_HERE);
    SAME(CUPTI("ActivityEnable", 1000), INVALID_KIND);
    SAME(CUPTI("ActivityEnable", 0), INVALID_KIND);
    SAME(CUPTI("ActivityGetNextRecord", NULL, 0L, NULL), INVALID_PARAMETER);
    SAME(CUPTI("ProfilerInitialize", NULL), NOT_SUPPORTED_HERE);

    int user = 7;
    void *subscriber, *second;
    SAME(CUPTI("Subscribe", &subscriber, callback, &user), 0);
    SAME(CUPTI("Subscribe", &second, callback, &user), MULTIPLE_SUBSCRIBERS);
    SAME(CUPTI("EnableDomain", 1, NULL, 1), INVALID_PARAMETER);
    SAME(CUPTI("EnableDomain", 1, subscriber, 2), NOT_SUPPORTED_HERE);
    SAME(CUPTI("EnableDomain", 1, subscriber, 3), 0);
    SAME(CUPTI("EnableCallback", 1, subscriber, 1, LAUNCH_KERNEL), 0);
    SAME(CUPTI("EnableCallback", 1, subscriber, 1, COPY_TO_DEVICE), 0);

    int kinds[] = {COPY, FILL, DRIVER, CONCURRENT_KERNEL, EXTERNAL};
    for (int i = 0; i < 5; i++) SAME(CUPTI("ActivityEnable", kinds[i]), 0);
    SAME(CUPTI("ActivityPushExternalCorrelationId", 3, 55ULL), 0);
    SAME(CUPTI("ActivityPushExternalCorrelationId", 0, 55ULL), INVALID_PARAMETER);
    work();
    unsigned long long popped = 0;
    SAME(CUPTI("ActivityPopExternalCorrelationId", 3, &popped), 0);
    SAME(popped, 55);
    SAME(CUPTI("ActivityPopExternalCorrelationId", 3, &popped), QUEUE_EMPTY);
    SAME(CUPTI("ActivityFlushAll", 0), 0);
    check_records(is_13, context);
    SAME(begins == 2 && ends == 2, 1);
    // The records do not fit into one buffer.
    SAME(completions > 1 && completions <= requests, 1);
    size_t dropped = 1;
    SAME(CUPTI("ActivityGetNumDroppedRecords", NULL, 0, &dropped), 0);
    SAME(dropped, 0);

    // Without buffers, records are counted. One is that of cuStreamGetId.
    count = 0;
    gives_buffers = 0;
    for (int i = 0; i < 50; i++) work();
    SAME(CUPTI("ActivityFlushAll", 0), 0);
    SAME(CUPTI("ActivityGetNumDroppedRecords", NULL, 0, &dropped), 0);
    SAME(dropped + count, 50 * 9 + 1);
    gives_buffers = 1;

    // One function alone, and then nothing.
    count = 0;
    SAME(CUPTI("ActivityDisable", DRIVER), 0);
    for (int i = 0; i < 5; i++)
        if (kinds[i] != EXTERNAL) SAME(CUPTI("ActivityDisable", kinds[i]), 0);
    SAME(CUPTI("ActivityEnableDriverApi", LAUNCH_KERNEL, 1), 0);
    work();
    SAME(CUPTI("ActivityEnableDriverApi", LAUNCH_KERNEL, 0), 0);
    work();
    CUstream other;
    REQUIRE(cuStreamCreate(&other, 0));
    SAME(streams_created, 1);
    SAME(CUPTI("ActivityFlushAll", 0), 0);
    SAME(count, 1);
    SAME(u32(records[0], 4), LAUNCH_KERNEL);

    SAME(CUPTI("Unsubscribe", subscriber), 0);
    SAME(CUPTI("Unsubscribe", subscriber), INVALID_PARAMETER);
    unsigned before = begins;
    work();
    SAME(begins, before);
    SAME(CUPTI("Finalize"), 0);
    SAME(CUPTI("ActivityFlushAll", 0), INVALID_OPERATION);

    // A new session after the end of the first.
    count = 0;
    buffer_bytes = 4096;
    SAME(CUPTI("ActivityRegisterCallbacks", request, complete), 0);
    SAME(CUPTI("ActivityEnable", CONCURRENT_KERNEL), 0);
    SAME(CUPTI("ActivityEnableLatencyTimestamps", 1), 0);
    work();
    SAME(CUPTI("ActivityFlushAll", 1), 0);
    SAME(count, 1);
    SAME(u64(records[0], 120) != 0 && u64(records[0], 120) <= u64(records[0], 16), 1);
    puts("PASS");
    return 0;
}
