"""LTO-IR from NVRTC: a kernel in PTX that calls a function in LTO-IR, and callbacks of cuFFT."""

import ctypes
import importlib.metadata

import numpy
from cuda.bindings import driver, nvjitlink, nvrtc
from cuda.pathfinder import load_nvidia_dynamic_lib

# cufftXtCallbackType
CUFFT_CB_LD_COMPLEX = 0
CUFFT_C2C = 0x29
CUFFT_FORWARD = -1


def checked(result):
    code, *values = result
    assert int(code) == 0, code
    return values[0] if len(values) == 1 else values


def compiled(source, link_time):
    """Compiles to LTO-IR or to PTX."""
    program = checked(nvrtc.nvrtcCreateProgram(source.encode(), b"source.cu", 0, [], []))
    options = [b"-arch=compute_80", b"-rdc=true"] + ([b"-dlto"] if link_time else [])
    checked(nvrtc.nvrtcCompileProgram(program, len(options), options))
    if link_time:
        code = bytes(checked(nvrtc.nvrtcGetLTOIRSize(program)))
        checked(nvrtc.nvrtcGetLTOIR(program, code))
    else:
        code = bytes(checked(nvrtc.nvrtcGetPTXSize(program)))
        checked(nvrtc.nvrtcGetPTX(program, code))
    return code


def linked(inputs):
    link = nvjitlink.create(2, ["-arch=sm_80", "-lto"])
    for kind, code in inputs:
        nvjitlink.add_data(link, kind, code, len(code), "input")
    nvjitlink.complete(link)
    image = bytearray(nvjitlink.get_linked_cubin_size(link))
    nvjitlink.get_linked_cubin(link, image)
    nvjitlink.destroy(link)
    return bytes(image)


def mixed():
    """Only the kernel in PTX calls `f`; `unused` shall not disturb."""
    library = compiled(
        'extern "C" __device__ int f(int a, int b) { return a * b + 7; }\n'
        'extern "C" __device__ int unused(int a) { return a; }\n'
        "__device__ int g = 5;",
        True,
    )
    kernel = compiled(
        'extern "C" __device__ int f(int, int);\n'
        "extern __device__ int g;\n"
        'extern "C" __global__ void k(int *out) { out[threadIdx.x] = f(threadIdx.x, 3) + g; }',
        False,
    )
    types = nvjitlink.InputType
    for inputs in ([(types.LTOIR, library), (types.PTX, kernel)], [(types.PTX, kernel), (types.ANY, library)]):
        module = checked(driver.cuModuleLoadData(linked(inputs)))
        function = checked(driver.cuModuleGetFunction(module, b"k"))
        out = checked(driver.cuMemAlloc(64))
        arguments = ((out,), (None,))
        checked(driver.cuLaunchKernel(function, 1, 1, 1, 16, 1, 1, 0, 0, arguments, 0))
        host = numpy.empty(16, numpy.int32)
        checked(driver.cuMemcpyDtoH(host, out, 64))
        numpy.testing.assert_array_equal(host, numpy.arange(16) * 3 + 12)


def callbacks():
    callback = compiled(
        "__device__ float2 load(void *in, unsigned long long at, void *info, void *) {\n"
        "  float2 v = ((float2 *)in)[at]; float s = *(float *)info;\n"
        "  return make_float2(v.x * s, v.y * s); }",
        True,
    )
    cufft = ctypes.CDLL(load_nvidia_dynamic_lib("cufft").abs_path)
    set_callback = getattr(cufft, "__cufftXtSetJITCallback_12_7")
    random = numpy.random.default_rng(5)
    for n in (16, 1000, 4096):
        host = (random.random(n) + 1j * random.random(n)).astype(numpy.complex64)
        data = checked(driver.cuMemAlloc(n * 8))
        checked(driver.cuMemcpyHtoD(data, host, n * 8))
        scale = checked(driver.cuMemAlloc(4))
        checked(driver.cuMemcpyHtoD(scale, numpy.array([2.5], numpy.float32), 4))
        plan = ctypes.c_int()
        assert cufft.cufftCreate(ctypes.byref(plan)) == 0
        info = (ctypes.c_void_p * 1)(int(scale))
        size = ctypes.c_size_t(len(callback))
        assert set_callback(plan, b"load", callback, size, CUFFT_CB_LD_COMPLEX, info) == 0
        work = ctypes.c_size_t()
        assert cufft.cufftMakePlan1d(plan, n, CUFFT_C2C, 1, ctypes.byref(work)) == 0
        address = ctypes.c_void_p(int(data))
        assert cufft.cufftExecC2C(plan, address, address, CUFFT_FORWARD) == 0
        checked(driver.cuMemcpyDtoH(host_out := numpy.empty_like(host), data, n * 8))
        expected = numpy.fft.fft(host.astype(numpy.complex128) * 2.5)
        numpy.testing.assert_allclose(host_out, expected, atol=1e-4 * n**0.5)


def main():
    checked(driver.cuInit(0))
    context = checked(driver.cuDevicePrimaryCtxRetain(0))
    checked(driver.cuCtxSetCurrent(context))
    mixed()
    callbacks()
    print("PASS lto", importlib.metadata.version("nvidia-nvjitlink-cu12"))


main()
