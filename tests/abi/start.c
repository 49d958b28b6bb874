// Tests initialisation, versions, error texts and devices, before and after cuInit.
#include "abi.h"

int main(void) {
    int count = -1, version = 0;
    EXPECT(cuDeviceGetCount(&count), NOT_INITIALIZED);
    EXPECT(cuDriverGetVersion(&version), SUCCESS);
    CHECK(version >= 12000);
    EXPECT(cuDriverGetVersion(NULL), INVALID_VALUE);
    EXPECT(cuInit(1), INVALID_VALUE);
    REQUIRE(cuInit(0));
    REQUIRE(cuInit(0));

    EXPECT(cuDeviceGetCount(&count), SUCCESS);
    CHECK(count == 1);
    EXPECT(cuDeviceGetCount(NULL), INVALID_VALUE);
    CUdevice device = -1;
    EXPECT(cuDeviceGet(&device, 1), INVALID_DEVICE);
    EXPECT(cuDeviceGet(&device, -1), INVALID_DEVICE);
    EXPECT(cuDeviceGet(NULL, 0), INVALID_VALUE);
    REQUIRE(cuDeviceGet(&device, 0));

    char name[256];
    memset(name, '#', sizeof name);
    EXPECT(cuDeviceGetName(name, sizeof name, device), SUCCESS);
    CHECK(memchr(name, 0, sizeof name) != NULL && name[0] != 0);
    // If the buffer is too short, the library writes a truncated name with its terminator, and nothing beyond the
    // buffer.
    memset(name, '#', sizeof name);
    EXPECT(cuDeviceGetName(name, 4, device), SUCCESS);
    CHECK(name[3] == 0 && name[4] == '#');
    EXPECT(cuDeviceGetName(NULL, 4, device), INVALID_VALUE);
    EXPECT(cuDeviceGetName(name, sizeof name, 77), INVALID_DEVICE);

    int threads = 0, warp = 0, major = 0, minor = -1, attribute = 0;
    EXPECT(cuDeviceGetAttribute(&threads, 1, device), SUCCESS);
    CHECK(threads == 1024);
    EXPECT(cuDeviceGetAttribute(&warp, 10, device), SUCCESS);
    CHECK(warp == 32);
    EXPECT(cuDeviceComputeCapability(&major, &minor, device), SUCCESS);
    EXPECT(cuDeviceGetAttribute(&attribute, 75, device), SUCCESS);
    CHECK(attribute == major && major >= 7);
    EXPECT(cuDeviceGetAttribute(&attribute, 76, device), SUCCESS);
    CHECK(attribute == minor);
    EXPECT(cuDeviceGetAttribute(NULL, 1, device), INVALID_VALUE);
    EXPECT(cuDeviceGetAttribute(&attribute, 1, 77), INVALID_DEVICE);
    size_t bytes = 0;
    EXPECT(cuDeviceTotalMem_v2(&bytes, device), SUCCESS);
    CHECK(bytes >= (size_t)64 << 20);
    CUuuid a, b;
    EXPECT(cuDeviceGetUuid_v2(&a, device), SUCCESS);
    EXPECT(cuDeviceGetUuid_v2(&b, device), SUCCESS);
    CHECK(memcmp(&a, &b, sizeof a) == 0);

    const char *text = NULL;
    EXPECT(cuGetErrorName(700, &text), SUCCESS);
    CHECK(text && strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS") == 0);
    EXPECT(cuGetErrorString(0, &text), SUCCESS);
    CHECK(text && text[0]);
    EXPECT(cuGetErrorName(12345, &text), INVALID_VALUE);
    CHECK(text == NULL);
    EXPECT(cuGetErrorString(12345, &text), INVALID_VALUE);
    return finish();
}
