/* Stand-in for the management library: it is there, with its version in its file name; it cannot
   be initialised (NVML_ERROR_NOT_SUPPORTED), for checks must go through nvidia-smi in this lab. */
int nvmlInit_v2(void) { return 3; }
