// Thrust: radix sort of keys, of keys with values, a comparison sort, reductions, scans, compaction.
#include "common.h"

#include <algorithm>
#include <numeric>

#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

template <class T> static std::vector<T> host(const thrust::device_vector<T> &values) {
    std::vector<T> copy(values.size());
    thrust::copy(values.begin(), values.end(), copy.begin());
    return copy;
}

struct Odd {
    __host__ __device__ bool operator()(unsigned value) const { return value % 2 == 1; }
};

struct ByLastDigit {
    __host__ __device__ bool operator()(int a, int b) const { return a % 10 < b % 10; }
};

int main() {
    const int n = 3000;
    std::vector<unsigned> keys(n);
    Random random(17);
    for (unsigned &key : keys)
        key = random.next();
    Verdict verdict("thrust_sort");

    thrust::device_vector<unsigned> sorted(keys.begin(), keys.end());
    thrust::sort(sorted.begin(), sorted.end());
    std::vector<unsigned> want = keys;
    std::sort(want.begin(), want.end());
    verdict.equal("sort", host(sorted), want);

    thrust::device_vector<unsigned> remainders(n);
    thrust::transform(thrust::make_counting_iterator(0), thrust::make_counting_iterator(n),
                      remainders.begin(),
                      [] __host__ __device__(int i) { return unsigned(i * 7919 % 97); });
    thrust::device_vector<int> places(n);
    thrust::copy(thrust::make_counting_iterator(0), thrust::make_counting_iterator(n),
                 places.begin());
    thrust::sort_by_key(remainders.begin(), remainders.end(), places.begin());
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [](int a, int b) { return a * 7919 % 97 < b * 7919 % 97; });
    verdict.equal("sort_by_key", host(places), order);

    thrust::device_vector<int> digits(thrust::make_counting_iterator(0),
                                      thrust::make_counting_iterator(700));
    thrust::stable_sort(digits.begin(), digits.end(), ByLastDigit());
    std::vector<int> by_digit(700);
    std::iota(by_digit.begin(), by_digit.end(), 0);
    std::stable_sort(by_digit.begin(), by_digit.end(), ByLastDigit());
    verdict.equal("merge sort", host(digits), by_digit);

    thrust::device_vector<unsigned> input(keys.begin(), keys.end());
    verdict.equal("reduce", thrust::reduce(input.begin(), input.end(), 0u),
                  std::accumulate(keys.begin(), keys.end(), 0u));
    verdict.equal("maximum",
                  thrust::reduce(input.begin(), input.end(), 0u, thrust::maximum<unsigned>()),
                  *std::max_element(keys.begin(), keys.end()));
    verdict.equal("count_if", int(thrust::count_if(input.begin(), input.end(), Odd())),
                  int(std::count_if(keys.begin(), keys.end(), Odd())));

    thrust::device_vector<unsigned> sums(n);
    thrust::inclusive_scan(input.begin(), input.end(), sums.begin());
    std::vector<unsigned> running(n);
    std::partial_sum(keys.begin(), keys.end(), running.begin());
    verdict.equal("inclusive_scan", host(sums), running);

    thrust::device_vector<unsigned> odd(n);
    odd.resize(thrust::copy_if(input.begin(), input.end(), odd.begin(), Odd()) - odd.begin());
    std::vector<unsigned> odd_keys;
    std::copy_if(keys.begin(), keys.end(), std::back_inserter(odd_keys), Odd());
    verdict.equal("copy_if", host(odd), odd_keys);
    return verdict.finish();
}
