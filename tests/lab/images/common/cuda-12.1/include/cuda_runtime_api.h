/* Stand-in header of the CUDA 12.1 runtime. */
#define CUDART_VERSION 12010
