// A program for the tests of timelines: a small client of NVTX, which offers tables of functions to the library as the
// clients in NVIDIA's headers do, and annotates a copy.
#include "abi.h"

int InitializeInjectionNvtx2(const void *(*get)(unsigned));
CUresult cuNvtxGetInjectionInitializer(unsigned kind, void **function);

// The variables that the library fills, and the tables of their addresses. Slot 0 is not used.
static void *core[16], *domains[16];
static void **core_table[17], **domain_table[16];

static int module_table(unsigned module, void ****table, unsigned *count) {
    if (module == 1) {
        *table = core_table;
        *count = 16;
        return 1;
    }
    if (module == 5) {
        *table = domain_table;
        // A client that knows fewer functions: the last ones are missing.
        *count = 14;
        return 1;
    }
    return 0;
}

static const struct {
    size_t size;
    int (*module)(unsigned, void ****, unsigned *);
} CALLBACKS = {16, module_table};

static const void *get(unsigned id) { return id == 1 ? &CALLBACKS : NULL; }

struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t colour_type;
    uint32_t colour;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type, padding;
    const void *message;
};

#define CALL(table, slot, type) ((type)table[slot])

int main(int argc, char **argv) {
    for (int i = 0; i < 16; i++) {
        core_table[i] = &core[i];
        domain_table[i] = &domains[i];
    }
    int expected = argc > 1 ? atoi(argv[1]) : 1;
    void *initialise = NULL;
    CHECK(cuNvtxGetInjectionInitializer(2, &initialise) != SUCCESS && initialise == NULL);
    CHECK(cuNvtxGetInjectionInitializer(1, &initialise) == SUCCESS);
    CHECK(initialise == (void *)InitializeInjectionNvtx2);
    CHECK(InitializeInjectionNvtx2(NULL) == 0);
    CHECK(InitializeInjectionNvtx2(get) == expected);
    if (expected == 0) {
        CHECK(core[2] == NULL);
        return failures != 0;
    }
    typedef int (*push)(const char *);
    typedef int (*pop)(void);
    CHECK(CALL(core, 9, push)("outer") == 0);
    CHECK(CALL(core, 9, push)("inner") == 1);
    REQUIRE(cuInit(0));
    CUdevice device;
    REQUIRE(cuDeviceGet(&device, 0));
    CUcontext context;
    REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
    REQUIRE(cuCtxSetCurrent(context));
    CUdeviceptr memory;
    REQUIRE(cuMemAlloc_v2(&memory, 64));
    CHECK(CALL(core, 11, pop)() == 1);
    CHECK(CALL(core, 11, pop)() == 0);
    CHECK(CALL(core, 11, pop)() < 0);
    CALL(core, 2, void (*)(const char *))("mark \"with\" quotes");
    CALL(core, 3, void (*)(const int *))((const int[]){'w', 'i', 'd', 0xe9, 0});
    CALL(core, 14, void (*)(unsigned, const char *))((unsigned)0, "no thread");

    void *domain = CALL(domains, 12, void *(*)(const char *))("library");
    CHECK(domain != NULL);
    void *text = CALL(domains, 10, void *(*)(void *, const char *))(domain, "registered");
    CALL(domains, 8, void (*)(void *, unsigned, const char *))(domain, 3, "phase");
    struct attributes attributes = {3, sizeof attributes, 3, 1, 0xff00ff00, 6, 0, 0, 3, 0, text};
    float payload = 1.5f;
    attributes.payload_type = 6;
    memcpy(&attributes.payload, &payload, sizeof payload);
    CHECK(CALL(domains, 4, int (*)(void *, const void *))(domain, &attributes) == 0);
    CHECK(CALL(domains, 5, int (*)(void *))(domain) == 0);
    uint64_t range = CALL(domains, 2, uint64_t (*)(void *, const void *))(domain, &attributes);
    CHECK(range != 0);
    CALL(domains, 3, void (*)(void *, uint64_t))(domain, range);
    // Attributes that cannot be read, and unknown ranges, do no harm.
    CALL(domains, 1, void (*)(void *, const void *))(domain, (const void *)16);
    CALL(domains, 3, void (*)(void *, uint64_t))(domain, 12345);
    CHECK(domains[14] == NULL);
    REQUIRE(cuMemFree_v2(memory));
    return failures != 0;
}
