/* Stand-in for the driver library: the few calls a check makes, answered from /etc/lab/gpu.conf.
   Our own code; the names and numbers are those of the public interface. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int look_up(const char *key, char *out, size_t size) {
    char line[256];
    size_t n = strlen(key);
    int found = 0;
    FILE *f = fopen("/etc/lab/gpu.conf", "r");
    if (!f)
        return 0;
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, key, n) && line[n] == '=') {
            line[strcspn(line, "\r\n")] = 0;
            snprintf(out, size, "%s", line + n + 1);
            found = 1;
        }
    fclose(f);
    return found;
}

static void of_card(const char *key, int card, char *out, size_t size) {
    char numbered[64];
    snprintf(numbered, sizeof numbered, "%s_%d", key, card);
    out[0] = 0;
    if (!look_up(numbered, out, size))
        look_up(key, out, size);
}

static int count(void) {
    char text[256] = "0";
    look_up("COUNT", text, sizeof text);
    return atoi(text);
}

int cuInit(unsigned flags) {
    char mode[256] = "ok";
    (void)flags;
    look_up("MODE", mode, sizeof mode);
    if (!strcmp(mode, "hang"))
        for (;;)
            pause();
    if (!strcmp(mode, "nvml-mismatch"))
        return 803;
    if (!strcmp(mode, "unknown-error") || !strcmp(mode, "gpu-lost"))
        return 999;
    if (!strcmp(mode, "no-driver") || !strcmp(mode, "no-devices") || !strcmp(mode, "cuda-none"))
        return 100;
    return count() ? 0 : 100;
}

int cuDriverGetVersion(int *version) {
    char text[256] = "0.0";
    look_up("CUDA", text, sizeof text);
    char *dot = strchr(text, '.');
    *version = atoi(text) * 1000 + (dot ? atoi(dot + 1) : 0) * 10;
    return 0;
}

int cuDeviceGetCount(int *n) {
    int status = cuInit(0);
    *n = status ? 0 : count();
    return status;
}

int cuDeviceGet(int *device, int ordinal) {
    if (ordinal < 0 || ordinal >= count())
        return 101;
    *device = ordinal;
    return 0;
}

int cuDeviceGetName(char *name, int size, int device) {
    of_card("NAME", device, name, (size_t)size);
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    char text[256];
    of_card("MEMORY_MIB", device, text, sizeof text);
    *bytes = (size_t)atol(text) << 20;
    return 0;
}

int cuDeviceComputeCapability(int *major, int *minor, int device) {
    char text[256];
    of_card("COMPUTE_CAP", device, text, sizeof text);
    char *dot = strchr(text, '.');
    *major = atoi(text);
    *minor = dot ? atoi(dot + 1) : 0;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    int major, minor;
    cuDeviceComputeCapability(&major, &minor, device);
    if (attribute == 75)
        *value = major;
    else if (attribute == 76)
        *value = minor;
    else
        return 1;
    return 0;
}

int cuGetErrorString(int error, const char **text) {
    *text = error == 0     ? "no error"
            : error == 100 ? "no CUDA-capable device is detected"
            : error == 101 ? "invalid device ordinal"
            : error == 803 ? "system has unsupported display driver / cuda driver combination"
                           : "unknown error";
    return 0;
}
