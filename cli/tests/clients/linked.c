/* A program that is linked with libcublas, which it finds by its run path. Prints the library's version. */

#include <stdio.h>

int cublasGetVersion_v2(void *handle, int *version);

int main(void) {
    int version = -1;
    int status = cublasGetVersion_v2(NULL, &version);
    printf("%d %d\n", status, version);
    return 0;
}
