"""cuda-core and cuda-bindings: CUDA C++ to PTX, to a cubin and through the linker, each run and compared with numpy."""

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, Program, ProgramOptions, launch

SAXPY = r"""
template <typename T>
__global__ void saxpy(T a, const T *x, const T *y, T *out, size_t n) {
    size_t i = threadIdx.x + (size_t)blockIdx.x * blockDim.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
"""
CALLER = "extern __device__ int twice(int); extern \"C\" __global__ void all(int *v) { v[threadIdx.x] = twice(v[threadIdx.x]); }"
CALLED = "__device__ int twice(int x) { return 2 * x; }"
SIZE = 777


def saxpy(device, stream, kind, dtype, name):
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    code = Program(SAXPY, code_type="c++", options=options).compile(kind, name_expressions=(f"saxpy<{name}>",))
    kernel = code.get_kernel(f"saxpy<{name}>")
    random = np.random.default_rng(2)
    x, y = random.random((2, SIZE)).astype(dtype)
    out = run(device, stream, kernel, dtype(2.5), x, y)
    np.testing.assert_allclose(out, dtype(2.5) * x + y, rtol=1e-6 if dtype is np.float32 else 1e-14)


def run(device, stream, kernel, a, x, y):
    buffers = [device.allocate(x.nbytes, stream=stream) for _ in range(3)]
    result = np.empty_like(x)
    for buffer, data in zip(buffers, (x, y)):
        check(driver.cuMemcpyHtoDAsync(int(buffer.handle), data.ctypes.data, data.nbytes, stream.handle))
    config = LaunchConfig(grid=(SIZE + 127) // 128, block=128)
    launch(stream, config, kernel, a, *buffers, np.uint64(SIZE))
    check(driver.cuMemcpyDtoHAsync(result.ctypes.data, int(buffers[2].handle), result.nbytes, stream.handle))
    stream.sync()
    for buffer in buffers:
        buffer.close(stream)
    return result


def check(answer):
    if answer[0] != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(driver.cuGetErrorName(answer[0])[1])
    return answer[1:]


def linked(device, stream, kind):
    options = ProgramOptions(relocatable_device_code=True, arch=f"sm_{device.arch}")
    parts = [Program(text, code_type="c++", options=options).compile(kind) for text in (CALLER, CALLED)]
    code = Linker(*parts, options=LinkerOptions(arch=f"sm_{device.arch}")).link("cubin")
    values = np.arange(32, dtype=np.int32)
    buffer = device.allocate(values.nbytes, stream=stream)
    check(driver.cuMemcpyHtoDAsync(int(buffer.handle), values.ctypes.data, values.nbytes, stream.handle))
    launch(stream, LaunchConfig(grid=1, block=32), code.get_kernel("all"), buffer)
    result = np.empty_like(values)
    check(driver.cuMemcpyDtoHAsync(result.ctypes.data, int(buffer.handle), result.nbytes, stream.handle))
    stream.sync()
    np.testing.assert_array_equal(result, 2 * values)


def main():
    device = Device()
    device.set_current()
    stream = device.create_stream()
    for kind in ("ptx", "cubin"):
        saxpy(device, stream, kind, np.float32, "float")
        saxpy(device, stream, kind, np.float64, "double")
    linked(device, stream, "ptx")
    linked(device, stream, "cubin")
    print("PASS cuda-core", device.name, device.compute_capability)


main()
