// Finds all places of several patterns in a text. The patterns are in constant memory. Each place has a mask of
// patterns.
#include "common.h"

constexpr int PATTERNS = 3, LONGEST = 8;

__constant__ char patterns[PATTERNS][LONGEST];
__constant__ int lengths[PATTERNS];

extern "C" __global__ void string_search(const char *text, int length, unsigned char *found,
                                         int *counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= length)
        return;
    unsigned char mask = 0;
    for (int p = 0; p < PATTERNS; ++p) {
        int k = 0;
        while (k < lengths[p] && i + k < length && text[i + k] == patterns[p][k])
            ++k;
        if (k == lengths[p]) {
            mask |= 1 << p;
            atomicAdd(&counts[p], 1);
        }
    }
    found[i] = mask;
}

int main() {
    const char words[PATTERNS][LONGEST] = {"aba", "bb", "abacab"};
    std::vector<int> sizes;
    for (const char *word : words)
        sizes.push_back(int(std::strlen(word)));
    std::string text;
    Random random(14);
    for (int i = 0; i < 6000; ++i)
        text.push_back("aabbc"[random.below(5)]);
    text += "abacab";

    std::vector<unsigned char> want(text.size(), 0);
    std::vector<int> counts(PATTERNS, 0);
    for (int p = 0; p < PATTERNS; ++p)
        for (size_t at = text.find(words[p]); at != std::string::npos;
             at = text.find(words[p], at + 1)) {
            want[at] |= 1 << p;
            ++counts[p];
        }

    CUDA_OK(cudaMemcpyToSymbol(patterns, words, sizeof words));
    CUDA_OK(cudaMemcpyToSymbol(lengths, sizes.data(), PATTERNS * sizeof(int)));
    Buffer<char> dtext(std::vector<char>(text.begin(), text.end()));
    Buffer<unsigned char> found(text.size());
    Buffer<int> dcounts(PATTERNS);
    dcounts.clear();
    string_search<<<int(text.size() + 255) / 256, 256>>>(dtext.ptr(), int(text.size()),
                                                        found.ptr(), dcounts.ptr());
    LAUNCH_OK();

    Verdict verdict("string_search");
    verdict.equal("found", found.get(), want);
    verdict.equal("counts", dcounts.get(), counts);
    return verdict.finish();
}
