int main() {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaStreamDestroy(stream);
    cudaStreamSynchronize(stream);
}
