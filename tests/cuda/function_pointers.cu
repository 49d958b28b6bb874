// Tests calls through pointers: a table in device memory, a pointer that the host passes to a kernel, virtual functions
// of objects that device code creates, and a function that is not inlined.
#include "common.h"

using Operation = int (*)(int, int);

__device__ int add(int a, int b) { return a + b; }
__device__ int subtract(int a, int b) { return a - b; }
__device__ int multiply(int a, int b) { return a * b; }
__device__ __noinline__ int exclusive_or(int a, int b) { return a ^ b; }

__device__ Operation table[4] = {add, subtract, multiply, exclusive_or};
__device__ Operation chosen = subtract;

// Neighbouring lanes call different functions.
extern "C" __global__ void call_table(const int *a, const int *b, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = table[i % 4](a[i], b[i]);
}

extern "C" __global__ void call_pointer(Operation operation, const int *a, const int *b, int *out,
                                        int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = operation(a[i], b[i]);
}

class Shape {
  public:
    __device__ explicit Shape(int size) : size_(size) {}
    __device__ virtual ~Shape() {}
    __device__ virtual int area() const = 0;

  protected:
    int size_;
};

class Square : public Shape {
  public:
    __device__ explicit Square(int size) : Shape(size) {}
    __device__ int area() const override { return size_ * size_; }
};

class Strip : public Shape {
  public:
    __device__ explicit Strip(int size) : Shape(size) {}
    __device__ int area() const override { return size_ * 3; }
};

extern "C" __global__ void make_shapes(Shape **shapes) {
    int i = threadIdx.x;
    shapes[i] = i % 3 == 0 ? static_cast<Shape *>(new Square(i)) : new Strip(i);
}

extern "C" __global__ void measure_shapes(Shape **shapes, int *areas) {
    int i = threadIdx.x;
    areas[i] = shapes[i]->area();
    delete shapes[i];
}

int main() {
    const int n = 200;
    std::vector<int> a(n), b(n), want(n), passed(n);
    Random random(19);
    for (int i = 0; i < n; ++i) {
        a[i] = int(random.below(2000)) - 1000;
        b[i] = int(random.below(2000)) - 1000;
        want[i] = i % 4 == 0   ? a[i] + b[i]
                  : i % 4 == 1 ? a[i] - b[i]
                  : i % 4 == 2 ? a[i] * b[i]
                               : a[i] ^ b[i];
        passed[i] = a[i] - b[i];
    }
    Buffer<int> da(a), db(b), dtable(n), dpassed(n);
    call_table<<<2, 128>>>(da.ptr(), db.ptr(), dtable.ptr(), n);
    Operation operation = nullptr;
    CUDA_OK(cudaMemcpyFromSymbol(&operation, chosen, sizeof operation));
    call_pointer<<<2, 128>>>(operation, da.ptr(), db.ptr(), dpassed.ptr(), n);
    LAUNCH_OK();
    Verdict verdict("function_pointers");
    verdict.equal("table", dtable.get(), want);
    verdict.equal("passed", dpassed.get(), passed);

    Buffer<Shape *> shapes(40);
    Buffer<int> areas(40);
    make_shapes<<<1, 40>>>(shapes.ptr());
    measure_shapes<<<1, 40>>>(shapes.ptr(), areas.ptr());
    LAUNCH_OK();
    std::vector<int> measured(40);
    for (int i = 0; i < 40; ++i)
        measured[i] = i % 3 == 0 ? i * i : i * 3;
    verdict.equal("areas", areas.get(), measured);
    return verdict.finish();
}
