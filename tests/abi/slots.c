// Calls slots of export tables whose purpose is unknown. The calls return CUDA_ERROR_NOT_SUPPORTED, and the library
// prints one warning for each slot.
#include "abi.h"

CUresult cuGetExportTable(const void **table, const CUuuid *id);

int main(void) {
    static const CUuuid ids[] = {
        {"\x21\x31\x8c\x60\x97\x14\x32\x48\x8c\xa6\x41\xff\x73\x24\xc8\xf2"},
        {"\x42\xd8\x5a\x81\x23\xf6\xcb\x47\x82\x98\xf6\xe7\x8a\x3a\xec\xdc"},
    };
    start();
    for (int i = 0; i < 2; ++i) {
        const void *table;
        REQUIRE(cuGetExportTable(&table, &ids[i]));
        CUresult (*const *slots)(void) = table;
        for (int turn = 0; turn < 50; ++turn) {
            EXPECT(slots[1](), NOT_SUPPORTED);
            EXPECT(slots[3](), NOT_SUPPORTED);
        }
    }
    return finish();
}
