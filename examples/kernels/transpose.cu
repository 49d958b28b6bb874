// The kernels of examples/bank_conflicts.rs. This command writes their PTX, which is stored in this folder. In the
// stored PTX, the directive `.file` contains the name of this file without its folder:
//
//     nvcc -ptx -arch=compute_80 -lineinfo transpose.cu -o transpose.ptx

// Blocks have TILE * TILE threads, so a warp is a row of a tile.
constexpr int TILE = 32;

// Transposes without shared memory.
extern "C" __global__ void naive(const float *in, float *out, int n)
{
    const int x = blockIdx.x * TILE + threadIdx.x;
    const int y = blockIdx.y * TILE + threadIdx.y;
    out[x * n + y] = in[y * n + x];
}

// Transposes in shared memory, so that accesses to global memory are contiguous.
extern "C" __global__ void tiled(const float *in, float *out, int n)
{
    __shared__ float tile[TILE][TILE];
    const int x = blockIdx.x * TILE, y = blockIdx.y * TILE;
    tile[threadIdx.y][threadIdx.x] = in[(y + threadIdx.y) * n + x + threadIdx.x];
    __syncthreads();
    out[(x + threadIdx.y) * n + y + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

// As `tiled`, but the tile has an unused column, so that the elements of a column are in different banks.
extern "C" __global__ void padded(const float *in, float *out, int n)
{
    __shared__ float tile[TILE][TILE + 1];
    const int x = blockIdx.x * TILE, y = blockIdx.y * TILE;
    tile[threadIdx.y][threadIdx.x] = in[(y + threadIdx.y) * n + x + threadIdx.x];
    __syncthreads();
    out[(x + threadIdx.y) * n + y + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
