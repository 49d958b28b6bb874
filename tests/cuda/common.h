// Declarations for all programs of this folder.
//
// A program computes the same values on the device and on the CPU, compares them, and prints one line:
//     PASS name items=N hash=H      or      FAIL name REASON
// It exits with 0 only if it prints PASS. Every device buffer is initialised with the byte 0xA5, so a kernel that
// does not run leaves values that no calculation here produces. The hash covers the bits that came from the device.
// It must not depend on the number of workers or on the order of blocks, unless manifest.toml marks the program as
// order-dependent.
#pragma once

#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <cuda_runtime.h>

// Ends the program with exit code 2 when a call of the CUDA runtime fails.
#define CUDA_OK(call)                                                                          \
    do {                                                                                       \
        cudaError_t status_ = (call);                                                          \
        if (status_ != cudaSuccess) {                                                          \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                 \
                         cudaGetErrorString(status_));                                         \
            std::exit(2);                                                                      \
        }                                                                                      \
    } while (0)

// Ends the program if the launch failed. The next copy reports a fault of the running kernel.
#define LAUNCH_OK() CUDA_OK(cudaGetLastError())

constexpr int SENTINEL_BYTE = 0xA5;

// Device memory of `count` values, initialised with the sentinel or with a copy of host values.
template <class T> class Buffer {
  public:
    explicit Buffer(size_t count) : count_(count) {
        CUDA_OK(cudaMalloc(reinterpret_cast<void **>(&data_), count * sizeof(T)));
        CUDA_OK(cudaMemset(data_, SENTINEL_BYTE, count * sizeof(T)));
    }
    explicit Buffer(const std::vector<T> &values) : Buffer(values.size()) { put(values); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer() { cudaFree(data_); }

    T *ptr() const { return data_; }
    size_t size() const { return count_; }

    void put(const std::vector<T> &values) {
        CUDA_OK(cudaMemcpy(data_, values.data(), values.size() * sizeof(T),
                           cudaMemcpyHostToDevice));
    }
    void clear() { CUDA_OK(cudaMemset(data_, 0, count_ * sizeof(T))); }

    std::vector<T> get() const {
        std::vector<T> values(count_);
        CUDA_OK(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
        return values;
    }

  private:
    T *data_ = nullptr;
    size_t count_ = 0;
};

// A random generator that produces the same numbers on every machine (xorshift, 32 bits).
class Random {
  public:
    explicit Random(uint32_t seed) : state_(seed ? seed : 1u) {}
    uint32_t next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 17;
        state_ ^= state_ << 5;
        return state_;
    }
    uint32_t below(uint32_t bound) { return next() % bound; }
    // Returns a multiple of 2^-16 in [0, 1).
    float unit() { return float(next() >> 16) * (1.0f / 65536.0f); }

  private:
    uint32_t state_;
};

// Collects the results of a program's checks.
class Verdict {
  public:
    explicit Verdict(const char *name) : name_(name) {}

    // Checks that the values are equal, bit for bit.
    template <class T>
    void equal(const char *what, const std::vector<T> &got, const std::vector<T> &want) {
        if (got.size() != want.size()) {
            fail("%s: %zu values, expected %zu", what, got.size(), want.size());
            return;
        }
        absorb(got.data(), got.size() * sizeof(T));
        items_ += got.size();
        for (size_t i = 0; i < got.size(); ++i) {
            if (std::memcmp(&got[i], &want[i], sizeof(T)) != 0) {
                fail("%s[%zu]: got %.9g, expected %.9g", what, i, double(got[i]),
                     double(want[i]));
                return;
            }
        }
    }

    template <class T> void equal(const char *what, T got, T want) {
        equal(what, std::vector<T>{got}, std::vector<T>{want});
    }

    // Checks that |got - want| <= tolerance * max(1, |want|) for each value. A NaN is wrong.
    template <class T>
    void close(const char *what, const std::vector<T> &got, const std::vector<T> &want,
               double tolerance) {
        if (got.size() != want.size()) {
            fail("%s: %zu values, expected %zu", what, got.size(), want.size());
            return;
        }
        absorb(got.data(), got.size() * sizeof(T));
        items_ += got.size();
        for (size_t i = 0; i < got.size(); ++i) {
            double error = std::fabs(double(got[i]) - double(want[i]));
            if (!(error <= tolerance * std::fmax(1.0, std::fabs(double(want[i]))))) {
                fail("%s[%zu]: got %.9g, expected %.9g within %g", what, i, double(got[i]),
                     double(want[i]), tolerance);
                return;
            }
        }
    }

    // Checks a condition.
    void holds(const char *what, bool condition) {
        ++items_;
        absorb(&condition, 1);
        if (!condition)
            fail("%s does not hold", what);
    }

    // Checks that a call returned exactly this result.
    void status(const char *what, cudaError_t got, cudaError_t want) {
        ++items_;
        if (got != want)
            fail("%s: got %s, expected %s", what, cudaGetErrorName(got), cudaGetErrorName(want));
    }

    // Prints the program's line and returns the exit code.
    int finish() const {
        if (reason_.empty()) {
            std::printf("PASS %s items=%zu hash=%016llx\n", name_, items_,
                        static_cast<unsigned long long>(hash_));
        } else {
            std::printf("FAIL %s %s\n", name_, reason_.c_str());
        }
        std::fflush(stdout);
        return reason_.empty() ? 0 : 1;
    }

  private:
    // Stores only the first failure, because later failures are often its consequences.
    void fail(const char *format, ...) {
        if (!reason_.empty())
            return;
        char text[256];
        va_list values;
        va_start(values, format);
        std::vsnprintf(text, sizeof text, format, values);
        va_end(values);
        reason_ = text;
    }

    // Adds bytes to the hash (FNV-1a, 64 bits).
    void absorb(const void *data, size_t bytes) {
        const unsigned char *byte = static_cast<const unsigned char *>(data);
        for (size_t i = 0; i < bytes; ++i)
            hash_ = (hash_ ^ byte[i]) * 0x100000001b3ull;
    }

    const char *name_;
    std::string reason_;
    size_t items_ = 0;
    uint64_t hash_ = 0xcbf29ce484222325ull;
};
