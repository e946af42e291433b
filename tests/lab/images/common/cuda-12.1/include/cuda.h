/* Stand-in header of the CUDA 12.1 driver interface. */
#define CUDA_VERSION 12010
