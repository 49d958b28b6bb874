// Tests texture and surface references of modules, arrays, mipmaps, copies, and handles of no texture object. The
// program computes the expected values itself.
#include "abi.h"

typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUtexref_st *CUtexref;
typedef struct CUsurfref_st *CUsurfref;

typedef struct {
    size_t width, height, depth;
    int format;
    unsigned channels, flags;
} Array3D;

typedef struct {
    size_t width, height;
    int format;
    unsigned channels;
} Array2D;

typedef struct {
    size_t src_x, src_y;
    int src_type;
    const void *src_host;
    CUdeviceptr src_device;
    CUarray src_array;
    size_t src_pitch, dst_x, dst_y;
    int dst_type;
    void *dst_host;
    CUdeviceptr dst_device;
    CUarray dst_array;
    size_t dst_pitch, width, height;
} Copy2D;

enum { HOST = 1, DEVICE = 2, ARRAY = 3, FLOAT = 0x20, UINT8 = 1, SURFACE_LDST = 2 };

CUresult cuArray3DCreate_v2(CUarray *array, const Array3D *descriptor);
CUresult cuArray3DGetDescriptor_v2(Array3D *descriptor, CUarray array);
CUresult cuArrayCreate_v2(CUarray *array, const Array2D *descriptor);
CUresult cuArrayDestroy(CUarray array);
CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const Array3D *descriptor, unsigned levels);
CUresult cuMipmappedArrayGetLevel(CUarray *level, CUmipmappedArray array, unsigned number);
CUresult cuMipmappedArrayDestroy(CUmipmappedArray array);
CUresult cuMemcpyHtoA_v2(CUarray array, size_t offset, const void *host, size_t bytes);
CUresult cuMemcpyAtoH_v2(void *host, CUarray array, size_t offset, size_t bytes);
CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes);
CUresult cuMemcpyDtoA_v2(CUarray array, size_t offset, CUdeviceptr device, size_t bytes);
CUresult cuMemcpyAtoD_v2(CUdeviceptr device, CUarray array, size_t offset, size_t bytes);
CUresult cuMemcpy2D_v2(const Copy2D *copy);
CUresult cuModuleGetTexRef(CUtexref *reference, CUmodule module, const char *name);
CUresult cuModuleGetSurfRef(CUsurfref *reference, CUmodule module, const char *name);
CUresult cuTexRefSetArray(CUtexref reference, CUarray array, unsigned flags);
CUresult cuTexRefSetMipmappedArray(CUtexref reference, CUmipmappedArray array, unsigned flags);
CUresult cuTexRefSetAddress_v2(size_t *offset, CUtexref reference, CUdeviceptr address, size_t bytes);
CUresult cuTexRefSetAddress2D_v3(CUtexref reference, const Array2D *descriptor, CUdeviceptr address, size_t pitch);
CUresult cuTexRefSetFormat(CUtexref reference, int format, int channels);
CUresult cuTexRefSetAddressMode(CUtexref reference, int dimension, int mode);
CUresult cuTexRefSetFilterMode(CUtexref reference, int mode);
CUresult cuTexRefSetFlags(CUtexref reference, unsigned flags);
CUresult cuTexRefGetFlags(unsigned *flags, CUtexref reference);
CUresult cuTexRefGetAddress_v2(CUdeviceptr *address, CUtexref reference);
CUresult cuTexRefGetArray(CUarray *array, CUtexref reference);
CUresult cuTexRefGetFormat(int *format, int *channels, CUtexref reference);
CUresult cuTexRefGetAddressMode(int *mode, CUtexref reference, int dimension);
CUresult cuTexRefGetFilterMode(int *mode, CUtexref reference);
CUresult cuSurfRefSetArray(CUsurfref reference, CUarray array, unsigned flags);
CUresult cuSurfRefGetArray(CUarray *array, CUsurfref reference);

static const char *const MODULE =
    ".version 7.0\n.target sm_60\n.address_size 64\n"
    ".global .texref image;\n.global .surfref plane;\n"
    ".visible .entry sample(.param .u64 out, .param .f32 x, .param .f32 y)\n{\n"
    "  .reg .b64 %p; .reg .f32 %x, %y, %a, %b, %c, %d;\n"
    "  ld.param.u64 %p, [out]; ld.param.f32 %x, [x]; ld.param.f32 %y, [y];\n"
    "  tex.2d.v4.f32.f32 {%a, %b, %c, %d}, [image, {%x, %y}];\n"
    "  st.global.f32 [%p], %a; ret;\n}\n"
    ".visible .entry fetch(.param .u64 out, .param .u32 i)\n{\n"
    "  .reg .b64 %p; .reg .b32 %i; .reg .f32 %a, %b, %c, %d;\n"
    "  ld.param.u64 %p, [out]; ld.param.u32 %i, [i];\n"
    "  tex.1d.v4.f32.s32 {%a, %b, %c, %d}, [image, {%i}];\n"
    "  st.global.f32 [%p], %a; ret;\n}\n"
    ".visible .entry store(.param .u32 x, .param .u32 y, .param .f32 v)\n{\n"
    "  .reg .b32 %x, %y; .reg .f32 %v;\n"
    "  ld.param.u32 %x, [x]; ld.param.u32 %y, [y]; ld.param.f32 %v, [v]; shl.b32 %x, %x, 2;\n"
    "  sust.b.2d.b32.trap [plane, {%x, %y}], %v; ret;\n}\n"
    ".visible .entry bogus(.param .u64 handle)\n{\n"
    "  .reg .b64 %h; .reg .b32 %a, %b, %c, %d;\n"
    "  ld.param.u64 %h, [handle];\n"
    "  tex.1d.v4.u32.s32 {%a, %b, %c, %d}, [%h, {%a}]; st.global.b32 [%h], %a; ret;\n}\n";

static CUmodule module;
static CUdeviceptr result;

static float run(const char *name, void **arguments) {
    CUfunction kernel;
    float value = -12345;
    REQUIRE(cuModuleGetFunction(&kernel, module, name));
    REQUIRE(cuMemcpyHtoD_v2(result, &value, 4));
    REQUIRE(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    REQUIRE(cuMemcpyDtoH_v2(&value, result, 4));
    return value;
}

static float sample(float x, float y) {
    void *arguments[] = {&result, &x, &y};
    return run("sample", arguments);
}

static float fetch(int i) {
    void *arguments[] = {&result, &i};
    return run("fetch", arguments);
}

int main(void) {
    start();
    REQUIRE(cuModuleLoadData(&module, MODULE));
    REQUIRE(cuMemAlloc_v2(&result, 16));
    CUtexref image;
    CUsurfref plane;
    REQUIRE(cuModuleGetTexRef(&image, module, "image"));
    REQUIRE(cuModuleGetSurfRef(&plane, module, "plane"));
    EXPECT(cuModuleGetTexRef(&image, module, "nothing"), NOT_FOUND);

    // Writes an array of 4 by 3 numbers with two kinds of copies.
    float texels[12], back[12];
    for (int i = 0; i < 12; ++i)
        texels[i] = (float)(i * i) - 7;
    CUarray array, other;
    Array3D descriptor = {4, 3, 0, FLOAT, 1, SURFACE_LDST};
    REQUIRE(cuArray3DCreate_v2(&array, &descriptor));
    Array2D small = {4, 3, FLOAT, 1};
    REQUIRE(cuArrayCreate_v2(&other, &small));
    Copy2D copy = {0};
    copy.src_type = HOST;
    copy.src_host = texels;
    copy.src_pitch = 16;
    copy.dst_type = ARRAY;
    copy.dst_array = other;
    copy.width = 16;
    copy.height = 3;
    REQUIRE(cuMemcpy2D_v2(&copy));
    REQUIRE(cuMemcpyAtoA_v2(array, 0, other, 0, 48));
    REQUIRE(cuMemcpyAtoH_v2(back, array, 0, 48));
    CHECK(memcmp(back, texels, 48) == 0);
    REQUIRE(cuArrayDestroy(other));
    EXPECT(cuArrayDestroy(other), INVALID_HANDLE);

    // Fetches nearest texels, then texels with wrapped coordinates and linear filtering.
    int mode = -1, format = -1, channels = -1;
    unsigned flags = 99;
    CUarray bound = NULL;
    REQUIRE(cuTexRefSetArray(image, array, 1));
    REQUIRE(cuTexRefGetArray(&bound, image));
    REQUIRE(cuTexRefGetFormat(&format, &channels, image));
    CHECK(bound == array && format == FLOAT && channels == 1);
    CHECK(sample(2.9f, 1.2f) == texels[6] && sample(-5, 99) == texels[8]);
    REQUIRE(cuTexRefSetFlags(image, 2));
    REQUIRE(cuTexRefSetFilterMode(image, 1));
    REQUIRE(cuTexRefSetAddressMode(image, 0, 0));
    REQUIRE(cuTexRefSetAddressMode(image, 1, 2));
    REQUIRE(cuTexRefGetFlags(&flags, image));
    REQUIRE(cuTexRefGetAddressMode(&mode, image, 1));
    CHECK(flags == 2 && mode == 2);
    REQUIRE(cuTexRefGetFilterMode(&mode, image));
    CHECK(mode == 1);
    // This point is between the last and the first column, in the middle of the second row.
    CHECK(sample(1.0f, 0.5f) == (texels[7] + texels[4]) / 2);
    // With mirrored coordinates, the row after the last row is the last row.
    CHECK(sample(0.625f, 1.0f) == texels[10]);

    // A launch uses the memory that is bound when the launch is submitted.
    Array2D line = {6, 1, FLOAT, 1};
    CUdeviceptr memory, address = 0;
    size_t offset = 0;
    float numbers[6] = {3, 1, 4, 1, 5, 9};
    REQUIRE(cuMemAlloc_v2(&memory, 4096));
    REQUIRE(cuMemcpyHtoD_v2(memory, numbers, 24));
    REQUIRE(cuTexRefSetFlags(image, 0));
    REQUIRE(cuTexRefSetFormat(image, FLOAT, 1));
    REQUIRE(cuTexRefSetAddress_v2(&offset, image, memory, 24));
    REQUIRE(cuTexRefGetAddress_v2(&address, image));
    CHECK(offset == 0 && address == memory);
    CHECK(fetch(0) == 3 && fetch(5) == 9 && fetch(6) == 0 && fetch(-1) == 0);
    EXPECT(cuTexRefSetAddress_v2(NULL, image, memory + 8, 16), INVALID_VALUE);
    REQUIRE(cuTexRefSetAddress_v2(&offset, image, memory + 8, 16));
    CHECK(offset == 8 && fetch((int)(offset / 4)) == 4);
    // Fetches bytes as fractions from rows that are 32 bytes apart.
    unsigned char bytes[64] = {0};
    bytes[33] = 51;
    REQUIRE(cuMemcpyHtoD_v2(memory, bytes, 64));
    line.width = 3;
    line.height = 2;
    line.format = UINT8;
    REQUIRE(cuTexRefSetFilterMode(image, 0));
    REQUIRE(cuTexRefSetAddress2D_v3(image, &line, memory, 32));
    CHECK(sample(1.5f, 1.5f) == 0.2f && sample(0.5f, 1.5f) == 0);

    // A surface reference writes to the array.
    int x = 3, y = 2;
    float value = 42.5f;
    void *stored[] = {&x, &y, &value};
    REQUIRE(cuSurfRefSetArray(plane, array, 0));
    REQUIRE(cuSurfRefGetArray(&bound, plane));
    CHECK(bound == array);
    run("store", stored);
    texels[11] = 42.5f;
    REQUIRE(cuMemcpyAtoD_v2(memory, array, 0, 48));
    REQUIRE(cuMemcpyDtoH_v2(back, memory, 48));
    CHECK(memcmp(back, texels, 48) == 0);
    REQUIRE(cuMemcpyDtoA_v2(array, 16, memory, 16));
    REQUIRE(cuMemcpyHtoA_v2(array, 0, numbers, 8));
    REQUIRE(cuMemcpyAtoH_v2(back, array, 0, 48));
    CHECK(back[0] == 3 && back[1] == 1 && back[4] == texels[0] && back[7] == texels[3] && back[8] == texels[8]);

    // The levels of a mipmapped array are arrays themselves.
    CUmipmappedArray mipmaps;
    CUarray level, again;
    Array3D wide = {8, 4, 0, FLOAT, 2, 0}, told;
    REQUIRE(cuMipmappedArrayCreate(&mipmaps, &wide, 99));
    REQUIRE(cuMipmappedArrayGetLevel(&level, mipmaps, 2));
    REQUIRE(cuMipmappedArrayGetLevel(&again, mipmaps, 2));
    CHECK(level == again);
    REQUIRE(cuArray3DGetDescriptor_v2(&told, level));
    CHECK(told.width == 2 && told.height == 1 && told.depth == 0 && told.channels == 2);
    EXPECT(cuMipmappedArrayGetLevel(&level, mipmaps, 4), INVALID_VALUE);
    REQUIRE(cuTexRefSetMipmappedArray(image, mipmaps, 1));
    REQUIRE(cuMipmappedArrayDestroy(mipmaps));
    EXPECT(cuArray3DGetDescriptor_v2(&told, again), INVALID_HANDLE);

    // A handle of no texture object causes a fault of the kernel, and the process continues.
    uint64_t handle = 0x123456789;
    void *wrong[] = {&handle};
    CUfunction bogus;
    REQUIRE(cuModuleGetFunction(&bogus, module, "bogus"));
    REQUIRE(cuLaunchKernel(bogus, 1, 1, 1, 32, 1, 1, 0, NULL, wrong, NULL));
    EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
    EXPECT(cuMemAlloc_v2(&memory, 16), ILLEGAL_ADDRESS);
    return finish();
}
