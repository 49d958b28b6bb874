// Tests layered textures, cube maps, mipmaps and gathering. The value of a texel encodes its position, so the host
// knows which texel a fetch must find. The host interpolates between mipmap levels with weights of 8 bits.
#include "common.h"

namespace {

float mark(int layer, int level, int y, int x) { return float(((layer * 8 + level) * 64 + y) * 64 + x); }

// Returns the face that a direction hits, and the position on the face, by the table of the programming guide.
int face_of(const float *d, double *s, double *t) {
    double x = d[0], y = d[1], z = d[2], ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z), m;
    int face;
    if (az >= ax && az >= ay)
        face = z >= 0 ? 4 : 5, m = az, *s = z >= 0 ? x : -x, *t = -y;
    else if (ay >= ax)
        face = y >= 0 ? 2 : 3, m = ay, *s = x, *t = y >= 0 ? z : -z;
    else
        face = x >= 0 ? 0 : 1, m = ax, *s = x >= 0 ? -z : z, *t = -y;
    *s = (*s / m + 1) / 2;
    *t = (*t / m + 1) / 2;
    return face;
}

cudaTextureObject_t texture_of(cudaArray_t array, const cudaTextureDesc &desc) {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureObject_t texture;
    CUDA_OK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    return texture;
}

cudaArray_t filled(int width, int height, int layers, unsigned flags) {
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CUDA_OK(cudaMalloc3DArray(&array, &format, make_cudaExtent(width, height, layers), flags));
    int rows = height ? height : 1, slices = layers ? layers : 1;
    std::vector<float> data;
    for (int l = 0; l < slices; ++l)
        for (int y = 0; y < rows; ++y)
            for (int x = 0; x < width; ++x)
                data.push_back(mark(l, 0, y, x));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(data.data(), width * sizeof(float), width, rows);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(width, rows, slices);
    copy.kind = cudaMemcpyHostToDevice;
    CUDA_OK(cudaMemcpy3D(&copy));
    return array;
}

} // namespace

extern "C" __global__ void layers_1d(cudaTextureObject_t t, float *out) {
    int i = threadIdx.x;
    out[i] = tex1DLayered<float>(t, i % 16 + 0.5f, i / 16);
}

extern "C" __global__ void layers_2d(cudaTextureObject_t t, float *out) {
    int x = threadIdx.x, y = threadIdx.y, layer = blockIdx.x;
    out[(layer * blockDim.y + y) * blockDim.x + x] = tex2DLayered<float>(t, x + 0.5f, y + 0.5f, layer);
}

extern "C" __global__ void cube(cudaTextureObject_t t, const float *d, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = texCubemap<float>(t, d[3 * i], d[3 * i + 1], d[3 * i + 2]);
}

extern "C" __global__ void cubes(cudaTextureObject_t t, const float *d, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = texCubemapLayered<float>(t, d[3 * i], d[3 * i + 1], d[3 * i + 2], i % 3);
}

extern "C" __global__ void levels(cudaTextureObject_t t, const float *detail, float *out, int n) {
    int i = threadIdx.x;
    if (i < n)
        out[i] = tex2DLod<float>(t, 0.3f, 0.8f, detail[i]);
}

extern "C" __global__ void gradients(cudaTextureObject_t t, float *out, int n) {
    int i = threadIdx.x;
    // The gradient is 2^i texels of the first level, which has 32 texels.
    float step = exp2f(float(i)) / 32;
    if (i < n)
        out[i] = tex2DGrad<float>(t, 0.3f, 0.8f, make_float2(step, 0), make_float2(0, step));
}

extern "C" __global__ void gather(cudaTextureObject_t t, float4 *out) {
    int x = threadIdx.x, y = threadIdx.y;
    out[y * blockDim.x + x] = tex2Dgather<float4>(t, x + 1.0f, y + 1.0f, 0);
}

int main() {
    Verdict verdict("texture_arrays");
    Random random(11);
    cudaTextureDesc desc = {};
    desc.addressMode[0] = desc.addressMode[1] = desc.addressMode[2] = cudaAddressModeClamp;

    // An index beyond the last layer selects the last layer.
    {
        cudaArray_t array = filled(16, 0, 5, cudaArrayLayered);
        cudaTextureObject_t t = texture_of(array, desc);
        Buffer<float> out(16 * 7);
        layers_1d<<<1, 16 * 7>>>(t, out.ptr());
        LAUNCH_OK();
        std::vector<float> want;
        for (int i = 0; i < 16 * 7; ++i)
            want.push_back(mark(i / 16 < 5 ? i / 16 : 4, 0, 0, i % 16));
        verdict.equal("layers_1d", out.get(), want);
        CUDA_OK(cudaDestroyTextureObject(t));
        CUDA_OK(cudaFreeArray(array));
    }
    {
        cudaArray_t array = filled(12, 10, 6, cudaArrayLayered);
        cudaTextureObject_t t = texture_of(array, desc);
        Buffer<float> out(14 * 11 * 6);
        layers_2d<<<6, dim3(14, 11)>>>(t, out.ptr());
        LAUNCH_OK();
        std::vector<float> want;
        for (int l = 0; l < 6; ++l)
            for (int y = 0; y < 11; ++y)
                for (int x = 0; x < 14; ++x)
                    want.push_back(mark(l, 0, y < 10 ? y : 9, x < 12 ? x : 11));
        verdict.equal("layers_2d", out.get(), want);
        CUDA_OK(cudaDestroyTextureObject(t));
        CUDA_OK(cudaFreeArray(array));
    }

    // Cube maps: nearest texels in random directions.
    const int n = 3000, side = 16;
    std::vector<float> directions(3 * n);
    for (float &d : directions)
        d = random.unit() * 2 - 1;
    Buffer<float> where(directions);
    for (int many = 0; many <= 1; ++many) {
        cudaArray_t array =
            filled(side, side, many ? 18 : 6, cudaArrayCubemap | (many ? cudaArrayLayered : 0));
        cudaTextureObject_t t = texture_of(array, desc);
        Buffer<float> out(n);
        if (many)
            cubes<<<(n + 127) / 128, 128>>>(t, where.ptr(), out.ptr(), n);
        else
            cube<<<(n + 127) / 128, 128>>>(t, where.ptr(), out.ptr(), n);
        LAUNCH_OK();
        std::vector<float> want;
        for (int i = 0; i < n; ++i) {
            double s, u;
            int face = face_of(&directions[3 * i], &s, &u);
            int x = std::min(int(s * side), side - 1), y = std::min(int(u * side), side - 1);
            want.push_back(mark(face + (many ? i % 3 * 6 : 0), 0, y, x));
        }
        verdict.equal("cube", out.get(), want);
        CUDA_OK(cudaDestroyTextureObject(t));
        CUDA_OK(cudaFreeArray(array));
    }

    // Mipmaps: all texels of a level have the same value.
    cudaMipmappedArray_t mipmaps;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CUDA_OK(cudaMallocMipmappedArray(&mipmaps, &format, make_cudaExtent(32, 32, 0), 6));
    const float value[6] = {100, 10, -30, 44, 5, 7.5f};
    for (int level = 0; level < 6; ++level) {
        cudaArray_t array;
        CUDA_OK(cudaGetMipmappedArrayLevel(&array, mipmaps, level));
        cudaExtent extent;
        CUDA_OK(cudaArrayGetInfo(nullptr, &extent, nullptr, array));
        if (extent.width != size_t(32 >> level) || extent.height != extent.width)
            return verdict.equal("extent", std::vector<int>{int(extent.width)}, std::vector<int>{32 >> level}), 1;
        std::vector<float> same(extent.width * extent.height, value[level]);
        CUDA_OK(cudaMemcpy2DToArray(array, 0, 0, same.data(), extent.width * 4, extent.width * 4, extent.height,
                                    cudaMemcpyHostToDevice));
    }
    for (int linear = 0; linear <= 1; ++linear) {
        cudaTextureDesc levels_desc = desc;
        levels_desc.normalizedCoords = 1;
        levels_desc.filterMode = cudaFilterModeLinear;
        levels_desc.mipmapFilterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
        levels_desc.mipmapLevelBias = 0.25f;
        levels_desc.maxMipmapLevelClamp = 4.5f;
        cudaResourceDesc resource = {};
        resource.resType = cudaResourceTypeMipmappedArray;
        resource.res.mipmap.mipmap = mipmaps;
        cudaTextureObject_t t;
        CUDA_OK(cudaCreateTextureObject(&t, &resource, &levels_desc, nullptr));
        std::vector<float> details, want, want_gradients;
        auto at = [&](double detail) {
            detail = std::min(std::max(detail + 0.25, 0.0), 4.5);
            if (!linear)
                return value[int(std::floor(detail + 0.5))];
            int first = int(detail);
            double w = std::floor((detail - first) * 256 + 0.5) / 256;
            return float((1 - w) * value[first] + w * value[first + 1]);
        };
        for (int i = 0; i < 64; ++i) {
            details.push_back(float(i) / 8 - 1);
            want.push_back(at(details.back()));
        }
        Buffer<float> in(details), out(64), of_gradients(6);
        levels<<<1, 64>>>(t, in.ptr(), out.ptr(), 64);
        LAUNCH_OK();
        gradients<<<1, 32>>>(t, of_gradients.ptr(), 6);
        LAUNCH_OK();
        for (int i = 0; i < 6; ++i)
            want_gradients.push_back(at(i));
        verdict.equal("levels", out.get(), want);
        verdict.equal("gradients", of_gradients.get(), want_gradients);
        CUDA_OK(cudaDestroyTextureObject(t));
    }
    CUDA_OK(cudaFreeMipmappedArray(mipmaps));

    // Gathering returns the four texels around a corner, counterclockwise from the lower left.
    cudaArray_t array = filled(9, 9, 0, cudaArrayTextureGather);
    cudaTextureObject_t t = texture_of(array, desc);
    Buffer<float4> out(64);
    gather<<<1, dim3(8, 8)>>>(t, out.ptr());
    LAUNCH_OK();
    std::vector<float> found, want;
    for (const float4 &c : out.get())
        found.insert(found.end(), {c.x, c.y, c.z, c.w});
    for (int y = 0; y < 8; ++y)
        for (int x = 0; x < 8; ++x)
            want.insert(want.end(),
                        {mark(0, 0, y + 1, x), mark(0, 0, y + 1, x + 1), mark(0, 0, y, x + 1), mark(0, 0, y, x)});
    verdict.equal("gather", found, want);
    CUDA_OK(cudaDestroyTextureObject(t));
    CUDA_OK(cudaFreeArray(array));
    return verdict.finish();
}
