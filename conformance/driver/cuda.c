/* cuda.c: a stand-in for the driver of a GPU. Every entry point that is asked for exists and succeeds; nothing is computed. */
#include <stdint.h>
#include <string.h>

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 12090; return 0; }
int cuDeviceGetCount(int *count) { *count = 8; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 75 ? 9 : 0; return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)0x1000; return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuGetErrorString(int error, const char **text) { *text = "stand-in"; return 0; }
int cuGetErrorName(int error, const char **text) { *text = "stand-in"; return 0; }
int cuMemGetAddressRange(void **base, size_t *size, void *p) {
    if (base) *base = p;
    if (size) *size = 1 << 20;
    return 0;
}
int cuDeviceGetUuid(char *uuid, int device) { memset(uuid, 0, 16); uuid[0] = device + 1; uuid[15] = 0x5a; return 0; }
static int fine(void) { return 0; }

int cuGetProcAddress_v2(const char *name, void **entry, int version, uint64_t flags, int *status);
int cuGetProcAddress(const char *name, void **entry, int version, uint64_t flags) {
    static const struct { const char *name; void *entry; } known[] = {
        {"cuInit", cuInit}, {"cuDriverGetVersion", cuDriverGetVersion}, {"cuDeviceGetCount", cuDeviceGetCount},
        {"cuDeviceGet", cuDeviceGet}, {"cuDeviceGetAttribute", cuDeviceGetAttribute}, {"cuCtxGetCurrent", cuCtxGetCurrent},
        {"cuCtxGetDevice", cuCtxGetDevice}, {"cuGetErrorString", cuGetErrorString}, {"cuGetErrorName", cuGetErrorName},
        {"cuMemGetAddressRange", cuMemGetAddressRange}, {"cuMemGetAddressRange_v2", cuMemGetAddressRange},
        {"cuGetProcAddress", cuGetProcAddress_v2}, {"cuDeviceGetUuid", cuDeviceGetUuid}, {"cuDeviceGetUuid_v2", cuDeviceGetUuid},
    };
    *entry = fine;
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name)) *entry = known[i].entry;
    return 0;
}
int cuGetProcAddress_v2(const char *name, void **entry, int version, uint64_t flags, int *status) {
    if (status) *status = 0;
    return cuGetProcAddress(name, entry, version, flags);
}
