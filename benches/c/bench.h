// This text is prepended to every source of this folder. A source defines the number of its phases, and `run` computes
// one part of one phase. The kernel's description in benches/src/kernels defines the buffers and numbers.
#include <math.h>
#include <stdint.h>
#include <string.h>

extern const int phases;
void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts);

// Returns the index at which a part of `count` items begins. The part ends where part `part + 1` begins.
static inline int64_t begin(int64_t count, int part, int parts) { return count * part / parts; }

// The maximum number of parts of a phase: the size of arrays in which parts store results for the next phase.
#define MAX_PARTS 4096
