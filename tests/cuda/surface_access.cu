// Tests surfaces: a cellular automaton between two arrays, writes to layers and volumes, and accesses beyond the edge.
// Copies and textures read the arrays back.
#include "common.h"

namespace {

cudaSurfaceObject_t surface_of(cudaArray_t array) {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t surface;
    CUDA_OK(cudaCreateSurfaceObject(&surface, &resource));
    return surface;
}

} // namespace

// One generation of the game of life. Cells beyond the edge are dead.
extern "C" __global__ void generation(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int alive = 0;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
            if (dx != 0 || dy != 0)
                alive += surf2Dread<unsigned char>(from, x + dx, y + dy, cudaBoundaryModeZero);
    unsigned char self = surf2Dread<unsigned char>(from, x, y);
    surf2Dwrite<unsigned char>(alive == 3 || (self && alive == 2), to, x, y);
}

extern "C" __global__ void fill_volume(cudaSurfaceObject_t s) {
    int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
    surf3Dwrite(make_float2(x + 10 * y + 100 * z, -x), s, x * sizeof(float2), y, z);
}

extern "C" __global__ void fill_layers(cudaSurfaceObject_t s) {
    int x = threadIdx.x, y = threadIdx.y, layer = blockIdx.x;
    // The writes cover twice the width of the array. Writes beyond the edge are dropped.
    surf2DLayeredwrite(uint16_t(x + 16 * y + 256 * layer), s, x * 2, y, layer, cudaBoundaryModeZero);
}

extern "C" __global__ void clamped(cudaSurfaceObject_t s, int *out) {
    out[threadIdx.x] = surf1Dread<int>(s, (int(threadIdx.x) - 4) * 4, cudaBoundaryModeClamp);
}

extern "C" __global__ void volume(cudaTextureObject_t t, float2 *out) {
    int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
    out[(z * blockDim.y + y) * blockDim.x + x] = tex3D<float2>(t, x + 0.5f, y + 0.5f, z + 0.5f);
}

int main() {
    Verdict verdict("surface_access");
    Random random(3);
    const int width = 90, height = 41, turns = 12;
    cudaChannelFormatDesc byte = cudaCreateChannelDesc<unsigned char>();
    cudaArray_t arrays[2];
    cudaSurfaceObject_t surfaces[2];
    std::vector<unsigned char> field(width * height);
    for (unsigned char &cell : field)
        cell = random.below(3) == 0;
    for (int i = 0; i < 2; ++i) {
        CUDA_OK(cudaMallocArray(&arrays[i], &byte, width, height, cudaArraySurfaceLoadStore));
        surfaces[i] = surface_of(arrays[i]);
    }
    CUDA_OK(cudaMemcpy2DToArray(arrays[0], 0, 0, field.data(), width, width, height, cudaMemcpyHostToDevice));
    for (int turn = 0; turn < turns; ++turn) {
        dim3 grid((width + 31) / 32, (height + 7) / 8);
        generation<<<grid, dim3(32, 8)>>>(surfaces[turn % 2], surfaces[(turn + 1) % 2], width, height);
        LAUNCH_OK();
        std::vector<unsigned char> next(field.size());
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x) {
                int alive = 0;
                for (int j = y - 1; j <= y + 1; ++j)
                    for (int i = x - 1; i <= x + 1; ++i)
                        if ((i != x || j != y) && i >= 0 && j >= 0 && i < width && j < height)
                            alive += field[j * width + i];
                next[y * width + x] = alive == 3 || (field[y * width + x] && alive == 2);
            }
        field = next;
    }
    std::vector<unsigned char> found(field.size());
    CUDA_OK(cudaMemcpy2DFromArray(found.data(), width, arrays[turns % 2], 0, 0, width, height,
                                  cudaMemcpyDeviceToHost));
    verdict.equal("life", std::vector<int>(found.begin(), found.end()), std::vector<int>(field.begin(), field.end()));
    for (int i = 0; i < 2; ++i) {
        CUDA_OK(cudaDestroySurfaceObject(surfaces[i]));
        CUDA_OK(cudaFreeArray(arrays[i]));
    }

    // A volume, written as a surface and read as a texture.
    cudaArray_t array;
    cudaChannelFormatDesc pair = cudaCreateChannelDesc<float2>();
    CUDA_OK(cudaMalloc3DArray(&array, &pair, make_cudaExtent(8, 6, 5), cudaArraySurfaceLoadStore));
    cudaSurfaceObject_t surface = surface_of(array);
    fill_volume<<<5, dim3(8, 6)>>>(surface);
    LAUNCH_OK();
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc desc = {};
    cudaTextureObject_t texture;
    CUDA_OK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    Buffer<float2> out(8 * 6 * 5);
    volume<<<5, dim3(8, 6)>>>(texture, out.ptr());
    LAUNCH_OK();
    std::vector<float> values, want;
    for (const float2 &v : out.get())
        values.insert(values.end(), {v.x, v.y});
    for (int z = 0; z < 5; ++z)
        for (int y = 0; y < 6; ++y)
            for (int x = 0; x < 8; ++x)
                want.insert(want.end(), {float(x + 10 * y + 100 * z), float(-x)});
    verdict.equal("volume", values, want);
    CUDA_OK(cudaDestroyTextureObject(texture));
    CUDA_OK(cudaDestroySurfaceObject(surface));
    CUDA_OK(cudaFreeArray(array));

    // An array with layers. Writes beyond the edge are dropped.
    cudaChannelFormatDesc shorts = cudaCreateChannelDesc<unsigned short>();
    CUDA_OK(cudaMalloc3DArray(&array, &shorts, make_cudaExtent(16, 9, 4), cudaArrayLayered | cudaArraySurfaceLoadStore));
    surface = surface_of(array);
    fill_layers<<<6, dim3(32, 9)>>>(surface);
    LAUNCH_OK();
    std::vector<uint16_t> layers(16 * 9 * 4);
    cudaMemcpy3DParms copy = {};
    copy.srcArray = array;
    copy.dstPtr = make_cudaPitchedPtr(layers.data(), 32, 16, 9);
    copy.extent = make_cudaExtent(16, 9, 4);
    copy.kind = cudaMemcpyDeviceToHost;
    CUDA_OK(cudaMemcpy3D(&copy));
    std::vector<int> layered(layers.begin(), layers.end()), wanted;
    for (int l = 0; l < 4; ++l)
        for (int y = 0; y < 9; ++y)
            for (int x = 0; x < 16; ++x)
                wanted.push_back(x + 16 * y + 256 * l);
    verdict.equal("layers", layered, wanted);
    CUDA_OK(cudaDestroySurfaceObject(surface));
    CUDA_OK(cudaFreeArray(array));

    // Reads beyond the edge that are clamped.
    cudaChannelFormatDesc ints = cudaCreateChannelDesc<int>();
    CUDA_OK(cudaMalloc3DArray(&array, &ints, make_cudaExtent(20, 0, 0), cudaArraySurfaceLoadStore));
    std::vector<int> line(20), expected;
    for (int i = 0; i < 20; ++i)
        line[i] = 7 * i - 3;
    CUDA_OK(cudaMemcpy2DToArray(array, 0, 0, line.data(), 80, 80, 1, cudaMemcpyHostToDevice));
    surface = surface_of(array);
    Buffer<int> read(28);
    clamped<<<1, 28>>>(surface, read.ptr());
    LAUNCH_OK();
    for (int i = 0; i < 28; ++i)
        expected.push_back(line[std::min(std::max(i - 4, 0), 19)]);
    verdict.equal("clamped", read.get(), expected);
    CUDA_OK(cudaDestroySurfaceObject(surface));
    CUDA_OK(cudaFreeArray(array));
    return verdict.finish();
}
