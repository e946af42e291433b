/* Stand-in for the CUDA runtime: says its version, and nothing else. */
int cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return 0;
}
