// Tests memory and events that two processes share. The program starts a second instance of itself, which receives
// handles and requests through a socket. Both processes export memory, and a process is killed whose memory is open.
#include "abi.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long Handle;
typedef struct {
    int type, id;
} Location;
typedef struct {
    int type, handles;
    Location location;
    void *windows;
    unsigned char flags[8];
} Properties;
typedef struct {
    Location location;
    int flags;
} Access;
typedef struct {
    int type, handles;
    Location location;
    void *windows;
    size_t most;
    unsigned char rest[56];
} PoolProperties;
typedef struct {
    char bytes[64];
} Opaque;

CUresult cuIpcGetMemHandle(Opaque *, CUdeviceptr);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *, Opaque, unsigned);
CUresult cuIpcCloseMemHandle(CUdeviceptr);
CUresult cuIpcGetEventHandle(Opaque *, CUevent);
CUresult cuIpcOpenEventHandle(CUevent *, Opaque);
CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemAddressFree(CUdeviceptr, size_t);
CUresult cuMemCreate(Handle *, size_t, const Properties *, unsigned long long);
CUresult cuMemRelease(Handle);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, Handle, unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, size_t);
CUresult cuMemSetAccess(CUdeviceptr, size_t, const Access *, size_t);
CUresult cuMemExportToShareableHandle(void *, Handle, int, unsigned long long);
CUresult cuMemImportFromShareableHandle(Handle *, void *, int);
typedef struct Pool *Pool;
CUresult cuMemPoolCreate(Pool *, const PoolProperties *);
CUresult cuMemPoolDestroy(Pool);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, Pool, CUstream);
CUresult cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuMemPoolExportToShareableHandle(void *, Pool, int, unsigned long long);
CUresult cuMemPoolImportFromShareableHandle(Pool *, void *, int, unsigned long long);
CUresult cuMemPoolExportPointer(Opaque *, CUdeviceptr);
CUresult cuMemPoolImportPointer(CUdeviceptr *, Pool, Opaque *);

enum { MAP_FAILED_ = 205 };
static const size_t G = 2 << 20;

// The requests to the other process.
enum { CHANGE, OFFER, PHYSICAL, POOL, EVENT, HANG, END };
typedef struct {
    int what;
    size_t bytes;
    Opaque handle;
    int results[4];
} Message;

static void put(int socket, const Message *message, int descriptor) {
    struct iovec part = {(void *)message, sizeof *message};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor >= 0) {
        header.msg_control = &control;
        header.msg_controllen = sizeof control;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
    }
    if (sendmsg(socket, &header, 0) != sizeof *message)
        exit(2);
}

static int get(int socket, Message *message) {
    struct iovec part = {message, sizeof *message};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(socket, &header, MSG_WAITALL) != sizeof *message)
        exit(2);
    int descriptor = -1;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    if (rights)
        memcpy(&descriptor, CMSG_DATA(rights), sizeof(int));
    return descriptor;
}

static void fill(CUdeviceptr at, size_t bytes, unsigned value) {
    REQUIRE(cuMemsetD8_v2(at, (unsigned char)value, bytes));
    REQUIRE(cuCtxSynchronize());
}

static int holds(CUdeviceptr at, size_t bytes, unsigned value) {
    unsigned char *seen = malloc(bytes);
    int good = cuMemcpyDtoH_v2(seen, at, bytes) == SUCCESS;
    for (size_t i = 0; good && i < bytes; ++i)
        good = seen[i] == (unsigned char)value;
    free(seen);
    return good;
}

// Runs a kernel that writes to shared memory, so that device code of both processes accesses the same bytes.
static void poke(CUdeviceptr at) {
    static CUfunction kernel;
    if (!kernel) {
        CUmodule module;
        REQUIRE(cuModuleLoadData(&module, KERNELS));
        REQUIRE(cuModuleGetFunction(&kernel, module, "poke"));
    }
    void *arguments[] = {&at};
    REQUIRE(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    REQUIRE(cuCtxSynchronize());
}

// Launches a kernel that waits for a word of pinned memory. Returns the address of the word.
static unsigned *hang(CUstream stream) {
    CUmodule module;
    CUfunction spin;
    CUdeviceptr place;
    unsigned *flag;
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&spin, module, "spin"));
    REQUIRE(cuMemHostAlloc((void **)&flag, 64, 0));
    *flag = 0;
    REQUIRE(cuMemHostGetDevicePointer_v2(&place, flag, 0));
    void *arguments[] = {&place};
    REQUIRE(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    return flag;
}

static CUdeviceptr map(Handle handle) {
    CUdeviceptr base;
    Access access = {{1, 0}, 3};
    REQUIRE(cuMemAddressReserve(&base, G, 0, 0, 0));
    REQUIRE(cuMemMap(base, G, 0, handle, 0));
    REQUIRE(cuMemSetAccess(base, G, &access, 1));
    return base;
}

// The other process. Each byte of shared memory contains 3 at first. This process sets the first word to 7 and all
// other bytes to 4.
static int other(int socket) {
    start();
    for (;;) {
        Message message;
        int descriptor = get(socket, &message);
        CUdeviceptr at = 0, again = 0;
        Handle handle;
        Pool pool;
        switch (message.what) {
        case CHANGE:
            message.results[0] = cuIpcOpenMemHandle_v2(&at, message.handle, 1);
            // Memory that is opened twice has one mapping, which must be closed twice.
            message.results[1] = cuIpcOpenMemHandle_v2(&again, message.handle, 1);
            message.results[2] = at == again && cuMemFree_v2(at) != SUCCESS && holds(at, message.bytes, 3);
            fill(at, message.bytes, 4);
            poke(at);
            EXPECT(cuIpcCloseMemHandle(at), SUCCESS);
            CHECK(holds(at + 4, message.bytes - 4, 4));
            EXPECT(cuIpcCloseMemHandle(at), SUCCESS);
            EXPECT(cuIpcCloseMemHandle(at), INVALID_VALUE);
            message.results[3] = failures;
            break;
        case OFFER:
            REQUIRE(cuMemAlloc_v2(&at, message.bytes));
            fill(at, message.bytes, 5);
            REQUIRE(cuIpcGetMemHandle(&message.handle, at));
            break;
        case PHYSICAL:
            REQUIRE(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)descriptor, 1));
            close(descriptor);
            at = map(handle);
            message.results[0] = holds(at, G, 3);
            fill(at, G, 4);
            poke(at);
            REQUIRE(cuMemUnmap(at, G));
            REQUIRE(cuMemAddressFree(at, G));
            REQUIRE(cuMemRelease(handle));
            break;
        case POOL:
            REQUIRE(cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)descriptor, 1, 0));
            close(descriptor);
            EXPECT(cuMemAllocFromPoolAsync(&at, 64, pool, NULL), INVALID_VALUE);
            message.results[0] = cuMemPoolImportPointer(&at, pool, &message.handle);
            message.results[1] = holds(at, message.bytes, 3);
            fill(at, message.bytes, 4);
            poke(at);
            EXPECT(cuMemFreeAsync(at, NULL), SUCCESS);
            EXPECT(cuCtxSynchronize(), SUCCESS);
            EXPECT(cuMemPoolDestroy(pool), SUCCESS);
            message.results[2] = failures;
            break;
        case EVENT: {
            CUevent event, own;
            CUstream stream;
            REQUIRE(cuIpcOpenEventHandle(&event, message.handle));
            REQUIRE(cuEventCreate(&own, 2));
            REQUIRE(cuStreamCreate(&stream, 1));
            EXPECT(cuEventQuery(event), NOT_READY);
            REQUIRE(cuStreamWaitEvent(stream, event, 0));
            REQUIRE(cuEventRecord(own, stream));
            EXPECT(cuEventQuery(own), NOT_READY);
            // Asks the first process to end its kernel.
            put(socket, &message, -1);
            EXPECT(cuEventSynchronize(own), SUCCESS);
            EXPECT(cuEventQuery(event), SUCCESS);
            // Now the first process waits for a kernel of this process.
            unsigned *flag = hang(stream);
            EXPECT(cuEventRecord(event, stream), SUCCESS);
            EXPECT(cuEventQuery(event), NOT_READY);
            put(socket, &message, -1);
            get(socket, &message);
            __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
            EXPECT(cuEventSynchronize(event), SUCCESS);
            REQUIRE(cuStreamDestroy_v2(stream));
            REQUIRE(cuEventDestroy_v2(event));
            message.results[0] = failures;
            break;
        }
        case HANG: {
            CUevent event;
            REQUIRE(cuEventCreate(&event, 6));
            hang(NULL);
            REQUIRE(cuEventRecord(event, NULL));
            REQUIRE(cuIpcGetEventHandle(&message.handle, event));
            break;
        }
        default:
            return failures != 0;
        }
        put(socket, &message, -1);
    }
}

static pid_t begin(const char *program, int *socket) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        exit(2);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 3);
        execl(program, program, "other", NULL);
        _exit(3);
    }
    close(ends[1]);
    *socket = ends[0];
    return child;
}

static void end(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int word(CUdeviceptr at) {
    int value = 0;
    REQUIRE(cuMemcpyDtoH_v2(&value, at, 4));
    return value;
}

static void changes(int socket, size_t bytes) {
    CUdeviceptr at, neighbour;
    Opaque again;
    REQUIRE(cuMemAlloc_v2(&at, bytes));
    REQUIRE(cuMemAlloc_v2(&neighbour, bytes));
    fill(at, bytes, 3);
    fill(neighbour, bytes, 9);
    Message message = {.what = CHANGE, .bytes = bytes};
    REQUIRE(cuIpcGetMemHandle(&message.handle, at));
    // The handle of an address inside an allocation is the allocation's handle.
    REQUIRE(cuIpcGetMemHandle(&again, at + bytes / 2));
    CHECK(memcmp(&again, &message.handle, sizeof again) == 0);
    CUdeviceptr own;
    EXPECT(cuIpcOpenMemHandle_v2(&own, message.handle, 1), INVALID_CONTEXT);
    EXPECT(cuIpcOpenMemHandle_v2(&own, message.handle, 2), INVALID_VALUE);
    put(socket, &message, -1);
    get(socket, &message);
    CHECK(message.results[0] == SUCCESS && message.results[1] == SUCCESS);
    CHECK(message.results[2] == 1 && message.results[3] == 0);
    CHECK(word(at) == 7);
    CHECK(holds(at + 4, bytes - 4, 4));
    CHECK(holds(neighbour, bytes, 9));
    // Memory that is allocated after the free is not shared.
    REQUIRE(cuMemFree_v2(at));
    REQUIRE(cuMemFree_v2(neighbour));
    REQUIRE(cuMemAlloc_v2(&at, bytes));
    fill(at, bytes, 1);
    REQUIRE(cuMemFree_v2(at));
}

static void physical(int socket) {
    Properties properties = {.type = 1, .handles = 1, .location = {1, 0}};
    Handle handle;
    int descriptor = -1;
    REQUIRE(cuMemCreate(&handle, G, &properties, 0));
    CUdeviceptr at = map(handle);
    fill(at, G, 3);
    REQUIRE(cuMemExportToShareableHandle(&descriptor, handle, 1, 0));
    Message message = {.what = PHYSICAL};
    put(socket, &message, descriptor);
    close(descriptor);
    get(socket, &message);
    CHECK(message.results[0] == 1);
    CHECK(word(at) == 7);
    CHECK(holds(at + 4, G - 4, 4));
    REQUIRE(cuMemUnmap(at, G));
    REQUIRE(cuMemRelease(handle));
    REQUIRE(cuMemAddressFree(at, G));
}

// Tests a pool of a device (`location` 1) or of a NUMA node of the host (3).
static void pools(int socket, int location, size_t bytes) {
    PoolProperties properties = {.type = 1, .handles = 1, .location = {location, 0}, .most = 64 << 20};
    Pool pool;
    CUdeviceptr first, at;
    int descriptor = -1;
    REQUIRE(cuMemPoolCreate(&pool, &properties));
    EXPECT(cuMemAllocFromPoolAsync(&first, 65 << 20, pool, NULL), OUT_OF_MEMORY);
    REQUIRE(cuMemAllocFromPoolAsync(&first, 100, pool, NULL));
    REQUIRE(cuMemAllocFromPoolAsync(&at, bytes, pool, NULL));
    fill(first, 100, 8);
    fill(at, bytes, 3);
    Message message = {.what = POOL, .bytes = bytes};
    REQUIRE(cuMemPoolExportToShareableHandle(&descriptor, pool, 1, 0));
    REQUIRE(cuMemPoolExportPointer(&message.handle, at));
    EXPECT(cuIpcGetMemHandle(&(Opaque){0}, at), INVALID_VALUE);
    put(socket, &message, descriptor);
    close(descriptor);
    get(socket, &message);
    CHECK(message.results[0] == SUCCESS && message.results[1] == 1 && message.results[2] == 0);
    CHECK(word(at) == 7);
    CHECK(holds(at + 4, bytes - 4, 4));
    CHECK(holds(first, 100, 8));
    // Memory that is allocated again after a free contains zeros.
    REQUIRE(cuMemFreeAsync(at, NULL));
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuMemAllocFromPoolAsync(&at, bytes, pool, NULL));
    CHECK(holds(at, bytes, 0));
    REQUIRE(cuMemFreeAsync(at, NULL));
    REQUIRE(cuMemFreeAsync(first, NULL));
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuMemPoolDestroy(pool));
}

static void events(int socket) {
    CUevent event, ordinary;
    CUstream stream;
    Message message = {.what = EVENT};
    REQUIRE(cuEventCreate(&ordinary, 2));
    memset(&message.handle, 9, sizeof message.handle);
    EXPECT(cuIpcGetEventHandle(&message.handle, ordinary), INVALID_HANDLE);
    CHECK(memcmp(&message.handle, &(Opaque){{0}}, sizeof message.handle) == 0);
    REQUIRE(cuEventCreate(&event, 6));
    EXPECT(cuEventQuery(event), SUCCESS);
    REQUIRE(cuIpcGetEventHandle(&message.handle, event));
    EXPECT(cuIpcOpenEventHandle(&ordinary, message.handle), INVALID_CONTEXT);
    REQUIRE(cuStreamCreate(&stream, 1));
    unsigned *flag = hang(stream);
    REQUIRE(cuEventRecord(event, stream));
    EXPECT(cuEventQuery(event), NOT_READY);
    put(socket, &message, -1);
    get(socket, &message);
    __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
    get(socket, &message);
    EXPECT(cuEventQuery(event), NOT_READY);
    put(socket, &message, -1);
    EXPECT(cuEventSynchronize(event), SUCCESS);
    get(socket, &message);
    CHECK(message.results[0] == 0);
    REQUIRE(cuMemFreeHost(flag));
    REQUIRE(cuEventDestroy_v2(event));
    REQUIRE(cuStreamDestroy_v2(stream));
}

static void death(const char *program) {
    int socket;
    pid_t child = begin(program, &socket);
    Message large = {.what = OFFER, .bytes = 300000}, small = {.what = OFFER, .bytes = 1000};
    put(socket, &large, -1);
    get(socket, &large);
    put(socket, &small, -1);
    get(socket, &small);
    CUevent never;
    Message hanging = {.what = HANG};
    put(socket, &hanging, -1);
    get(socket, &hanging);
    REQUIRE(cuIpcOpenEventHandle(&never, hanging.handle));
    EXPECT(cuEventQuery(never), NOT_READY);
    CUdeviceptr at, late;
    REQUIRE(cuIpcOpenMemHandle_v2(&at, large.handle, 1));
    CHECK(holds(at, large.bytes, 5));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    // A wait for an event of a killed process ends.
    EXPECT(cuEventSynchronize(never), SUCCESS);
    EXPECT(cuIpcOpenEventHandle(&never, hanging.handle), MAP_FAILED_);
    // Open memory of a killed process stays accessible. Memory that is not open can no longer be opened.
    CHECK(holds(at, large.bytes, 5));
    poke(at);
    CHECK(word(at) == 7);
    EXPECT(cuIpcOpenMemHandle_v2(&late, small.handle, 1), MAP_FAILED_);
    EXPECT(cuIpcCloseMemHandle(at), SUCCESS);
    Opaque garbage = {{1, 2, 3}};
    EXPECT(cuIpcOpenMemHandle_v2(&late, garbage, 1), INVALID_HANDLE);
    close(socket);
}

int main(int count, char **arguments) {
    if (count > 1)
        return other(3);
    // Both processes run at the same time. The parent initialises the driver before the child starts.
    start();
    int socket;
    pid_t child = begin(arguments[0], &socket);
    changes(socket, 100);
    changes(socket, 100 << 10);
    changes(socket, 5 << 20);
    physical(socket);
    pools(socket, 1, 1000);
    pools(socket, 1, 3 << 20);
    pools(socket, 3, 1000);
    events(socket);
    Message message = {.what = OFFER, .bytes = 70000};
    put(socket, &message, -1);
    get(socket, &message);
    CUdeviceptr at;
    REQUIRE(cuIpcOpenMemHandle_v2(&at, message.handle, 1));
    CHECK(holds(at, message.bytes, 5));
    CUdeviceptr base;
    size_t bytes;
    REQUIRE(cuMemGetAddressRange_v2(&base, &bytes, at + 10));
    CHECK(base == at && bytes == message.bytes);
    EXPECT(cuIpcCloseMemHandle(at), SUCCESS);
    EXPECT(cuMemcpyDtoH_v2(&base, at, 8), INVALID_VALUE);
    message.what = END;
    put(socket, &message, -1);
    end(child);
    death(arguments[0]);
    return finish();
}
