// Tests code that uses templates: expression templates, functors and lambdas as arguments of kernels, variadic kernels,
// recursion at compile time, tuples, and static polymorphism.
#include "common.h"

#include <cuda/std/array>
#include <cuda/std/tuple>

template <class Function, class... Arguments>
__global__ void for_each_index(int n, Function function, Arguments... arguments) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        function(i, arguments...);
}

// Expression templates: a * x + b is evaluated element by element in one kernel.
template <class Self> struct Expression {
    __host__ __device__ float at(int i) const { return static_cast<const Self *>(this)->value(i); }
};

struct Vector : Expression<Vector> {
    const float *data;
    __host__ __device__ explicit Vector(const float *d) : data(d) {}
    __host__ __device__ float value(int i) const { return data[i]; }
};

struct Scalar : Expression<Scalar> {
    float constant;
    __host__ __device__ explicit Scalar(float c) : constant(c) {}
    __host__ __device__ float value(int) const { return constant; }
};

template <class Operation, class Left, class Right>
struct Binary : Expression<Binary<Operation, Left, Right>> {
    Left left;
    Right right;
    __host__ __device__ Binary(Left l, Right r) : left(l), right(r) {}
    __host__ __device__ float value(int i) const {
        return Operation::apply(left.at(i), right.at(i));
    }
};

struct Plus {
    __host__ __device__ static float apply(float a, float b) { return a + b; }
};
struct Times {
    __host__ __device__ static float apply(float a, float b) { return a * b; }
};

template <class Left, class Right>
__host__ Binary<Plus, Left, Right> operator+(const Expression<Left> &l, const Expression<Right> &r) {
    return {static_cast<const Left &>(l), static_cast<const Right &>(r)};
}
template <class Left, class Right>
__host__ Binary<Times, Left, Right> operator*(const Expression<Left> &l,
                                              const Expression<Right> &r) {
    return {static_cast<const Left &>(l), static_cast<const Right &>(r)};
}

template <class Result> struct Assign {
    float *out;
    Result expression;
    __host__ __device__ void operator()(int i) const { out[i] = expression.at(i); }
};

// A polynomial whose coefficients are template arguments, by Horner's rule.
template <int First, int... Rest> __host__ __device__ constexpr long long polynomial(long long x) {
    if constexpr (sizeof...(Rest) == 0)
        return First;
    else
        return First + x * polynomial<Rest...>(x);
}

// A matrix of any shape; the product's shape comes from the types.
template <class T, int Rows, int Columns> struct Matrix {
    cuda::std::array<T, Rows * Columns> cells;
    template <int Inner>
    __host__ __device__ Matrix<T, Rows, Inner> operator*(const Matrix<T, Columns, Inner> &o) const {
        Matrix<T, Rows, Inner> product{};
        for (int r = 0; r < Rows; ++r)
            for (int c = 0; c < Inner; ++c)
                for (int k = 0; k < Columns; ++k)
                    product.cells[r * Inner + c] += cells[r * Columns + k] * o.cells[k * Inner + c];
        return product;
    }
};

template <class T> __host__ __device__ T matrix_chain(int seed) {
    Matrix<T, 2, 3> a{};
    Matrix<T, 3, 4> b{};
    Matrix<T, 4, 1> c{};
    for (int i = 0; i < 12; ++i) {
        if (i < 6)
            a.cells[i] = T(seed + i);
        b.cells[i] = T(seed * i % 7);
        if (i < 4)
            c.cells[i] = T(i + 1);
    }
    auto product = a * b * c;
    return product.cells[0] - product.cells[1];
}

// The types of a tuple decide what each thread stores.
struct StoreTuple {
    __host__ __device__ void operator()(int i, double *out) const {
        auto tuple = cuda::std::make_tuple(i, float(i) * 0.5f, (long long)(i) << 20);
        auto [whole, half, large] = tuple;
        out[i] = whole + half + double(large) + cuda::std::get<0>(tuple);
    }
};

int main() {
    const int n = 500;
    Verdict verdict("templates");
    std::vector<float> x(n), y(n), want(n);
    for (int i = 0; i < n; ++i) {
        x[i] = float(i % 37) - 18.0f;
        y[i] = float(i % 11) * 0.25f;
        want[i] = 3.0f * x[i] + y[i] * y[i] + 0.5f;
    }
    Buffer<float> dx(x), dy(y), dz(n);
    Vector vx(dx.ptr()), vy(dy.ptr());
    auto sum = Scalar(3.0f) * vx + vy * vy + Scalar(0.5f);
    Assign<decltype(sum)> assign{dz.ptr(), sum};
    for_each_index<<<3, 64>>>(n, assign);
    LAUNCH_OK();
    verdict.equal("expression", dz.get(), want);

    Buffer<long long> polynomials(n);
    int shift = 100;
    for_each_index<<<2, 96>>>(
        n,
        [shift] __device__(int i, long long *out, auto scale) {
            out[i] = polynomial<5, -3, 0, 2, 1>(i - shift) * scale;
        },
        polynomials.ptr(), 3);
    LAUNCH_OK();
    std::vector<long long> values(n);
    for (int i = 0; i < n; ++i)
        values[i] = polynomial<5, -3, 0, 2, 1>(i - shift) * 3;
    verdict.equal("polynomial", polynomials.get(), values);

    Buffer<int> integers(n);
    Buffer<double> doubles(n), tuples(n);
    for_each_index<<<4, 32>>>(
        n,
        [] __device__(int i, int *a, double *b) {
            a[i] = matrix_chain<int>(i);
            b[i] = matrix_chain<double>(i);
        },
        integers.ptr(), doubles.ptr());
    for_each_index<<<1, 128>>>(n, StoreTuple(), tuples.ptr());
    LAUNCH_OK();
    std::vector<int> chains(n);
    std::vector<double> wide(n), stored(n);
    for (int i = 0; i < n; ++i) {
        chains[i] = matrix_chain<int>(i);
        wide[i] = matrix_chain<double>(i);
        StoreTuple()(i, stored.data());
    }
    verdict.equal("matrix of int", integers.get(), chains);
    verdict.equal("matrix of double", doubles.get(), wide);
    verdict.equal("tuple", tuples.get(), stored);
    return verdict.finish();
}
