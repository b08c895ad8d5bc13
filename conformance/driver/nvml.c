/* nvml.c: a stand-in for the management library of GPUs: eight of them, one link each, nothing between them. */
#include <stdio.h>

typedef void *Device;
int nvmlInit(void) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int error) { return "stand-in"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 8; return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, Device *device) {
    unsigned domain = 0, bus = 0, slot = 0;
    sscanf(id, "%x:%x:%x", &domain, &bus, &slot);
    *device = (Device)(long)(1 + (bus & 7));
    return 0;
}
int nvmlDeviceGetHandleByPciBusId(const char *id, Device *device) { return nvmlDeviceGetHandleByPciBusId_v2(id, device); }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, Device *device) { *device = (Device)(long)(i + 1); return 0; }
int nvmlDeviceGetHandleByIndex(unsigned i, Device *device) { return nvmlDeviceGetHandleByIndex_v2(i, device); }
int nvmlDeviceGetIndex(Device device, unsigned *i) { *i = (unsigned)(long)device - 1; return 0; }
int nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor) { *major = 9; *minor = 0; return 0; }
int nvmlDeviceGetP2PStatus(Device a, Device b, int index, int *status) { *status = 6; return 0; }
int nvmlDeviceGetNvLinkState(Device device, unsigned link, int *active) { *active = 0; return 3; }
int nvmlDeviceGetNvLinkCapability(Device device, unsigned link, int what, unsigned *result) { *result = 0; return 3; }
int nvmlDeviceGetNvLinkRemotePciInfo(Device device, unsigned link, void *info) { return 3; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, void *info) { return 3; }
int nvmlDeviceSetCpuAffinity(Device device) { return 0; }
int nvmlDeviceClearCpuAffinity(Device device) { return 0; }
int nvmlDeviceGetFieldValues(Device device, int count, void *values) { return 3; }
int nvmlDeviceGetGpuFabricInfoV(Device device, void *info) { return 3; }
int nvmlSystemGetConfComputeState(void *state) { return 3; }
int nvmlSystemGetConfComputeSettings(void *settings) { return 3; }
int nvmlDeviceGetUUID(Device device, char *text, unsigned size) {
    snprintf(text, size, "GPU-0000000%ld-0000-0000-0000-00000000005a", (long)device);
    return 0;
}
