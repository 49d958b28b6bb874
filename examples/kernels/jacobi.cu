// The kernels of examples/jacobi.rs. This command writes their PTX, which is stored in this folder:
//
//     nvcc -ptx -arch=compute_80 jacobi.cu -o jacobi.ptx

// One step of Jacobi's method for u'' = -f on n inner points with distance h; both ends of u do not change.
extern "C" __global__ void step(const double *u, double *next, const double *f, double h, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
    if (i <= n) {
        next[i] = 0.5 * (u[i - 1] + u[i + 1] + h * h * f[i]);
    }
}

// Computes the largest change of a step with an integer maximum: non-negative doubles are in the order of their bits.
extern "C" __global__ void change(const double *u, const double *next, unsigned long long *largest, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
    double here = i <= n ? fabs(next[i] - u[i]) : 0.0;
    for (int distance = 16; distance > 0; distance /= 2) {
        here = fmax(here, __shfl_down_sync(0xffffffff, here, distance));
    }
    if (threadIdx.x % 32 == 0) {
        atomicMax(largest, (unsigned long long)__double_as_longlong(here));
    }
}
