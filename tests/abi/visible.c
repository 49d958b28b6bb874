// Tests `CUDA_VISIBLE_DEVICES` with three devices of 64 MiB.
//
//   visible see [NUMBER...]        checks that exactly these devices are visible, in this order
//   visible late LIST [NUMBER...]  the same, but sets the variable to LIST directly before cuInit
//   visible export                 prints the IPC handle of memory of device 0, and waits for the end of its input
//   visible import NAME ORDINAL    opens memory by the handle NAME; ORDINAL is the expected device of the memory
#include "abi.h"

CUresult cuDeviceGetPCIBusId(char *, int, CUdevice);
CUresult cuDeviceGetByPCIBusId(CUdevice *, const char *);
CUresult cuDeviceCanAccessPeer(int *, CUdevice, CUdevice);
typedef struct {
    unsigned char bytes[64];
} Handle;
CUresult cuIpcGetMemHandle(Handle *, CUdeviceptr);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *, Handle, unsigned);

enum { NO_DEVICE = 100, DEVICES = 3 };

static void none(void) {
    int value = -1;
    CUcontext context;
    EXPECT(cuInit(0), NO_DEVICE);
    EXPECT(cuInit(0), NO_DEVICE);
    EXPECT(cuInit(1), INVALID_VALUE);
    EXPECT(cuDriverGetVersion(&value), SUCCESS);
    CHECK(value >= 12000);
    EXPECT(cuDeviceGetCount(&value), NOT_INITIALIZED);
    EXPECT(cuDeviceGet(&value, 0), NOT_INITIALIZED);
    EXPECT(cuDevicePrimaryCtxRetain(&context, 0), NOT_INITIALIZED);
}

static void one(CUdevice ordinal, int number) {
    char place[32], wanted[32];
    size_t bytes = 0, free;
    int value = -1;
    CUuuid id;
    CUcontext context;
    CUdeviceptr memory;
    CUdevice device = -1;
    EXPECT(cuDeviceGet(&device, ordinal), SUCCESS);
    CHECK(device == ordinal);
    EXPECT(cuDeviceGetUuid_v2(&id, ordinal), SUCCESS);
    CHECK(id.bytes[15] == '0' + number);
    snprintf(wanted, sizeof wanted, "0000:%x:00.0", 0xa0 + number);
    EXPECT(cuDeviceGetPCIBusId(place, sizeof place, ordinal), SUCCESS);
    CHECK(strcmp(place, wanted) == 0);
    EXPECT(cuDeviceGetByPCIBusId(&device, wanted), SUCCESS);
    CHECK(device == ordinal);
    EXPECT(cuDeviceGetAttribute(&value, 33, ordinal), SUCCESS);
    CHECK(value == 0xa0 + number);
    EXPECT(cuDeviceTotalMem_v2(&bytes, ordinal), SUCCESS);
    CHECK(bytes == 64 << 20);
    // The device has its own memory, which the allocation reduces.
    REQUIRE(cuDevicePrimaryCtxRetain(&context, ordinal));
    REQUIRE(cuCtxSetCurrent(context));
    EXPECT(cuCtxGetDevice(&device), SUCCESS);
    CHECK(device == ordinal);
    REQUIRE(cuMemAlloc_v2(&memory, 40 << 20));
    EXPECT(cuPointerGetAttribute(&value, 9, memory), SUCCESS);
    CHECK(value == ordinal);
    REQUIRE(cuMemGetInfo_v2(&free, &bytes));
    CHECK(bytes == 64 << 20 && free == 24 << 20);
    REQUIRE(cuMemsetD8_v2(memory, 5, 40 << 20));
    EXPECT(cuCtxSynchronize(), SUCCESS);
}

static void see(int count, char **numbers) {
    int value = -1, seen[DEVICES] = {0};
    char place[32];
    if (count == 0) {
        none();
        return;
    }
    REQUIRE(cuInit(0));
    EXPECT(cuDeviceGetCount(&value), SUCCESS);
    CHECK(value == count);
    for (int i = 0; i < count; ++i) {
        int number = atoi(numbers[i]);
        one(i, number);
        seen[number] = 1;
    }
    if (count > 1) {
        EXPECT(cuDeviceCanAccessPeer(&value, 0, 1), SUCCESS);
        CHECK(value == 1);
    }
    EXPECT(cuDeviceGet(&value, count), INVALID_DEVICE);
    for (int number = 0; number < DEVICES; ++number) {
        snprintf(place, sizeof place, "0000:%x:00.0", 0xa0 + number);
        EXPECT(cuDeviceGetByPCIBusId(&value, place), seen[number] ? SUCCESS : INVALID_DEVICE);
    }
}

static void export(void) {
    CUdeviceptr memory;
    Handle handle;
    start();
    REQUIRE(cuMemAlloc_v2(&memory, 4096));
    REQUIRE(cuMemsetD8_v2(memory, 42, 4096));
    REQUIRE(cuIpcGetMemHandle(&handle, memory));
    for (int i = 0; i < 64; ++i)
        printf("%02x", handle.bytes[i]);
    printf("\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
}

static void import(const char *name, int ordinal) {
    CUdeviceptr memory;
    Handle handle;
    int value = -1;
    unsigned char seen[4096];
    for (int i = 0; i < 64; ++i) {
        unsigned byte = 0;
        CHECK(sscanf(name + 2 * i, "%2x", &byte) == 1);
        handle.bytes[i] = (unsigned char)byte;
    }
    start();
    REQUIRE(cuIpcOpenMemHandle_v2(&memory, handle, 1));
    EXPECT(cuPointerGetAttribute(&value, 9, memory), SUCCESS);
    CHECK(value == ordinal);
    REQUIRE(cuMemcpyDtoH_v2(seen, memory, sizeof seen));
    CHECK(seen[0] == 42 && seen[4095] == 42);
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    if (strcmp(mode, "see") == 0) {
        see(count - 2, arguments + 2);
    } else if (strcmp(mode, "late") == 0 && count > 2) {
        int version, status;
        void *function;
        // NVIDIA's runtime library makes these calls before cuInit.
        EXPECT(cuDriverGetVersion(&version), SUCCESS);
        EXPECT(cuGetProcAddress_v2("cuInit", &function, version, 0, &status), SUCCESS);
        setenv("CUDA_VISIBLE_DEVICES", arguments[2], 1);
        see(count - 3, arguments + 3);
        // A change of the variable after cuInit has no effect.
        setenv("CUDA_VISIBLE_DEVICES", "0,1,2", 1);
        EXPECT(cuInit(0), count == 3 ? NO_DEVICE : SUCCESS);
    } else if (strcmp(mode, "export") == 0) {
        export();
    } else if (strcmp(mode, "import") == 0 && count > 3) {
        import(arguments[2], atoi(arguments[3]));
    } else {
        CHECK(!"a mode");
    }
    return finish();
}
