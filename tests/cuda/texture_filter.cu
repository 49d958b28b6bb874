// Tests filtering of one-, two- and three-dimensional textures in arrays and in memory. The host computes the formulas
// of the programming guide's appendix on texture fetching, with weights of 8 bits.
#include "common.h"

namespace {

// Rounds the weight of the next texel to a multiple of 1/256.
double weight(double part) { return std::floor(part * 256 + 0.5) / 256; }

int index_of(cudaTextureAddressMode mode, long i, int n) {
    switch (mode) {
    case cudaAddressModeClamp:
        return int(i < 0 ? 0 : i >= n ? n - 1 : i);
    case cudaAddressModeWrap:
        return int((i % n + n) % n);
    case cudaAddressModeMirror: {
        long at = (i % (2 * n) + 2 * n) % (2 * n);
        return int(at < n ? at : 2 * n - 1 - at);
    }
    default:
        return i < 0 || i >= n ? -1 : int(i);
    }
}

// Returns a texel of a volume as a number. In border mode, texels beyond the edge are 0.
template <class T>
double texel(const std::vector<T> &data, const int *size, const cudaTextureDesc &desc, const long *at, double scale) {
    int place[3];
    for (int d = 0; d < 3; ++d) {
        place[d] = index_of(desc.addressMode[d], at[d], size[d]);
        if (place[d] < 0)
            return 0;
    }
    return double(data[(size_t(place[2]) * size[1] + place[1]) * size[0] + place[0]]) / scale;
}

template <class T>
float expected(const std::vector<T> &data, const int *size, int dims, const cudaTextureDesc &desc, const float *coords,
               double scale) {
    long first[3] = {0, 0, 0};
    double part[3] = {0, 0, 0};
    for (int d = 0; d < dims; ++d) {
        double x = coords[d];
        if (desc.normalizedCoords)
            x *= size[d];
        if (desc.filterMode == cudaFilterModeLinear) {
            x -= 0.5;
            part[d] = weight(x - std::floor(x));
        }
        first[d] = long(std::floor(x));
    }
    double sum = 0;
    for (int corner = 0; corner < 8; ++corner) {
        double w = 1;
        long at[3];
        for (int d = 0; d < 3; ++d) {
            int far = corner >> d & 1;
            at[d] = first[d] + far;
            w *= far ? part[d] : 1 - part[d];
        }
        if (w != 0)
            sum += w * texel(data, size, desc, at, scale);
    }
    return float(sum);
}

} // namespace

extern "C" __global__ void sample_1d(cudaTextureObject_t t, const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = tex1D<float>(t, x[i]);
}

extern "C" __global__ void sample_2d(cudaTextureObject_t t, const float *x, const float *y, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = tex2D<float>(t, x[i], y[i]);
}

extern "C" __global__ void sample_3d(cudaTextureObject_t t, const float *x, const float *y, const float *z, float *out,
                                     int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = tex3D<float>(t, x[i], y[i], z[i]);
}

extern "C" __global__ void fetch_1d(cudaTextureObject_t t, int4 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = tex1Dfetch<int4>(t, i - 5);
}

// Computes the 3 by 3 mean of an image with four bytes for each pixel, read as fractions.
extern "C" __global__ void blur(cudaTextureObject_t t, float4 *out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx) {
            float4 c = tex2D<float4>(t, x + dx + 0.5f, y + dy + 0.5f);
            sum.x += c.x;
            sum.y += c.y;
            sum.z += c.z;
            sum.w += c.w;
        }
    out[y * width + x] = sum;
}

int main() {
    Verdict verdict("texture_filter");
    Random random(7);
    const int n = 2000;
    const cudaTextureAddressMode modes[] = {cudaAddressModeClamp, cudaAddressModeBorder, cudaAddressModeWrap,
                                            cudaAddressModeMirror};
    for (int dims = 1; dims <= 3; ++dims) {
        int size[3] = {19, dims > 1 ? 13 : 1, dims > 2 ? 7 : 1};
        size_t count = size_t(size[0]) * size[1] * size[2];
        std::vector<float> data(count);
        for (float &v : data)
            v = float(int(random.below(4001)) - 2000) / 8;
        cudaArray_t array;
        cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
        cudaExtent extent = make_cudaExtent(size[0], dims > 1 ? size[1] : 0, dims > 2 ? size[2] : 0);
        CUDA_OK(cudaMalloc3DArray(&array, &format, extent));
        cudaMemcpy3DParms copy = {};
        copy.srcPtr = make_cudaPitchedPtr(data.data(), size[0] * sizeof(float), size[0], size[1]);
        copy.dstArray = array;
        copy.extent = make_cudaExtent(size[0], size[1], size[2]);
        copy.kind = cudaMemcpyHostToDevice;
        CUDA_OK(cudaMemcpy3D(&copy));
        for (int normalized = 0; normalized <= 1; ++normalized)
            for (int linear = 0; linear <= 1; ++linear)
                for (int m = 0; m < (normalized ? 4 : 2); ++m) {
                    cudaTextureDesc desc = {};
                    for (int d = 0; d < 3; ++d)
                        desc.addressMode[d] = modes[(m + d) % (normalized ? 4 : 2)];
                    desc.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
                    desc.normalizedCoords = normalized;
                    cudaResourceDesc resource = {};
                    resource.resType = cudaResourceTypeArray;
                    resource.res.array.array = array;
                    cudaTextureObject_t texture;
                    CUDA_OK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
                    std::vector<float> coords[3], want(n);
                    for (int d = 0; d < 3; ++d) {
                        coords[d].resize(n);
                        for (float &c : coords[d])
                            c = (random.unit() * 3 - 1) * (normalized ? 1.0f : float(size[d]));
                    }
                    for (int i = 0; i < n; ++i) {
                        float at[3] = {coords[0][i], coords[1][i], coords[2][i]};
                        want[i] = expected(data, size, dims, desc, at, 1.0);
                    }
                    Buffer<float> x(coords[0]), y(coords[1]), z(coords[2]), out(n);
                    int blocks = (n + 127) / 128;
                    if (dims == 1)
                        sample_1d<<<blocks, 128>>>(texture, x.ptr(), out.ptr(), n);
                    else if (dims == 2)
                        sample_2d<<<blocks, 128>>>(texture, x.ptr(), y.ptr(), out.ptr(), n);
                    else
                        sample_3d<<<blocks, 128>>>(texture, x.ptr(), y.ptr(), z.ptr(), out.ptr(), n);
                    LAUNCH_OK();
                    verdict.equal("filter", out.get(), want);
                    CUDA_OK(cudaDestroyTextureObject(texture));
                }
        CUDA_OK(cudaFreeArray(array));
    }

    // Texels in linear memory. Texels beyond either end are 0.
    std::vector<int4> row(50), want(60);
    for (int i = 0; i < 50; ++i)
        row[i] = make_int4(i, -i, i * i, 1 << (i % 31));
    for (int i = 0; i < 60; ++i)
        want[i] = i < 5 || i >= 55 ? make_int4(0, 0, 0, 0) : row[i - 5];
    Buffer<int4> memory(row), out(60);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = memory.ptr();
    resource.res.linear.desc = cudaCreateChannelDesc<int4>();
    resource.res.linear.sizeInBytes = row.size() * sizeof(int4);
    cudaTextureDesc desc = {};
    desc.readMode = cudaReadModeElementType;
    cudaTextureObject_t texture;
    CUDA_OK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    fetch_1d<<<1, 64>>>(texture, out.ptr(), 60);
    LAUNCH_OK();
    auto same = [](const std::vector<int4> &v) {
        std::vector<int> flat;
        for (const int4 &c : v)
            flat.insert(flat.end(), {c.x, c.y, c.z, c.w});
        return flat;
    };
    verdict.equal("fetch", same(out.get()), same(want));
    CUDA_OK(cudaDestroyTextureObject(texture));

    // An image of bytes in pitched memory, read as fractions of 255.
    const int width = 101, height = 67;
    std::vector<uint32_t> image(width * height);
    for (uint32_t &p : image)
        p = random.next();
    uint32_t *pixels;
    size_t pitch;
    CUDA_OK(cudaMallocPitch(reinterpret_cast<void **>(&pixels), &pitch, width * 4, height));
    CUDA_OK(cudaMemcpy2D(pixels, pitch, image.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
    resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = pixels;
    resource.res.pitch2D.desc = cudaCreateChannelDesc<uchar4>();
    resource.res.pitch2D.width = width;
    resource.res.pitch2D.height = height;
    resource.res.pitch2D.pitchInBytes = pitch;
    desc = {};
    desc.addressMode[0] = desc.addressMode[1] = cudaAddressModeClamp;
    desc.readMode = cudaReadModeNormalizedFloat;
    CUDA_OK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    Buffer<float4> blurred(width * height);
    blur<<<dim3((width + 15) / 16, (height + 15) / 16), dim3(16, 16)>>>(texture, blurred.ptr(), width, height);
    LAUNCH_OK();
    std::vector<float> flat, sums;
    for (const float4 &c : blurred.get())
        flat.insert(flat.end(), {c.x, c.y, c.z, c.w});
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
            for (int c = 0; c < 4; ++c) {
                float sum = 0;
                for (int dy = -1; dy <= 1; ++dy)
                    for (int dx = -1; dx <= 1; ++dx) {
                        int i = index_of(cudaAddressModeClamp, x + dx, width);
                        int j = index_of(cudaAddressModeClamp, y + dy, height);
                        sum += float((image[j * width + i] >> (8 * c) & 255) / 255.0);
                    }
                sums.push_back(sum);
            }
    verdict.equal("blur", flat, sums);
    CUDA_OK(cudaDestroyTextureObject(texture));
    CUDA_OK(cudaFree(pixels));
    return verdict.finish();
}
