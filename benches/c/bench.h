// This text is prepended to every source in this folder. A source defines `phases`, the number of its phases, and
// `run`, which computes one part of one phase. The kernel's description in benches/src/kernels defines the buffers and
// numbers.
#include <math.h>
#include <stdint.h>
#include <string.h>

extern const int phases;
void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts);

// Divides `count` items into `parts` parts and returns the index of the first item of part `part`. The part ends where
// part `part + 1` begins.
static inline int64_t begin(int64_t count, int part, int parts) { return count * part / parts; }

// The maximum number of parts of a phase. Arrays in which parts store results for the next phase have this size.
#define MAX_PARTS 4096
