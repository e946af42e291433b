/* Stand-in for the CUDA 12.1 runtime library. */
int cudaRuntimeGetVersion(int *version) {
    *version = 12010;
    return 0;
}
