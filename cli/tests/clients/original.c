/* Stands for NVIDIA's libcublas: the test finds out whether a program gets this library or Margay's. */

int cublasGetVersion_v2(void *handle, int *version) {
    (void)handle;
    *version = 99;
    return 0;
}
