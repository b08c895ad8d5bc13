/* rank.c: one rank of a communicator by the real libnccl, without a GPU.
 *
 *   rank LIBRARY SYMBOLS OFFSET root SECONDS                print an id, and be its root for so long
 *   rank LIBRARY SYMBOLS OFFSET RANK RANKS IDFILE SECONDS   join; rank 0 makes the id; stay for so long
 *
 * The library carries the CUDA runtime within itself. SYMBOLS lists its entry points (offset, name), OFFSET is where
 * pncclGetVersion lies; each entry point is overwritten, in this process's memory alone, by a jump to a function that
 * succeeds and does nothing. Of an id only what the library writes is meaningful: the rest is 0xAA, as a caller's memory may be. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct { char bytes[128]; } Id;
static int gpu;
static __thread int chosen = -1;
static void *driver;

static int fine(void) { return 0; }
static int get_device(int *d) { *d = chosen < 0 ? gpu : chosen; return 0; }
static int set_device(int d) { chosen = d; return 0; }
static int count(int *n) { *n = 8; return 0; }
static int version(int *v) { *v = 12090; return 0; }
static int attribute(int *value, int what, int device) {
    switch (what) {
    case 75: *value = 9; break;          /* compute capability */
    case 97: *value = 232448; break;     /* shared memory a block */
    case 16: *value = 132; break;        /* multiprocessors */
    case 8: *value = 49152; break;       /* shared memory a block, without asking */
    case 33: *value = 0x10 + device; break; /* PCI bus */
    default: *value = 0;
    }
    return 0;
}
static int properties(char *p, int device) {
    memset(p, 0, 700);
    strcpy(p, "stand-in");
    p[256] = device + 1;
    p[271] = 0x5a;
    *(long *)(p + 288) = 1l << 37;
    return 0;
}
static int allocate(void **p, size_t n) { *p = calloc(1, n ? n : 1); return 0; }
static int host_device(void **p, void *host) { *p = host; return 0; }
static int copy(void *to, const void *from, size_t n) { if (n) memcpy(to, from, n); return 0; }
static int fill(void *p, int byte, size_t n) { memset(p, byte, n); return 0; }
static int handle(void **p) { *p = malloc(64); return 0; }
static int pool(void **p) { *p = (void *)0x100; return 0; }
static int bus_id(char *text, int n, int device) { snprintf(text, n, "0000:%02x:00.0", 0x10 + device); return 0; }
static int function(char *attributes) { memset(attributes, 0, 72); *(int *)(attributes + 24) = 1024; return 0; }
static const char *error(void) { return "stand-in"; }
static int entry(const char *name, void **f, uint64_t flags, int *result) {
    int (*get)(const char *, void **, int, uint64_t) = dlsym(driver, "cuGetProcAddress");
    if (result) *result = 0;
    return get(name, f, 0, 0);
}
static int entry_by_version(const char *name, void **f, unsigned v, uint64_t flags, int *result) { return entry(name, f, flags, result); }
static int pointer(char *attributes, void *p) {
    memset(attributes, 0, 32);
    *(int *)attributes = 2;
    *(int *)(attributes + 4) = gpu;
    *(void **)(attributes + 8) = *(void **)(attributes + 16) = p;
    return 0;
}
static int limit(size_t *value) { *value = 1024; return 0; }
static int no(int *can) { *can = 0; return 0; }
static int no_second(void *stream, int *status) { *status = 0; return 0; }
static int memory(size_t *available, size_t *total) { *available = *total = 1ull << 37; return 0; }
static int ipc(char *h) { memset(h, 0x11, 64); return 0; }
static int open_ipc(void **p) { *p = calloc(1, 1 << 20); return 0; }

static const struct { const char *name; void *f; } RUNTIME[] = {
    {"cudaGetDevice", get_device}, {"cudaSetDevice", set_device}, {"cudaGetDeviceCount", count}, {"cudaDriverGetVersion", version},
    {"cudaRuntimeGetVersion", version}, {"cudaDeviceGetAttribute", attribute}, {"cudaGetDeviceProperties", properties},
    {"cudaGetDeviceProperties_v2", properties}, {"cudaMalloc", allocate}, {"cudaMallocHost", allocate}, {"cudaHostAlloc", allocate},
    {"cudaMallocAsync", allocate}, {"cudaHostGetDevicePointer", host_device}, {"cudaMemcpy", copy}, {"cudaMemcpyAsync", copy},
    {"cudaMemset", fill}, {"cudaMemsetAsync", fill}, {"cudaStreamCreate", handle}, {"cudaStreamCreateWithFlags", handle},
    {"cudaStreamCreateWithPriority", handle}, {"cudaEventCreate", handle}, {"cudaEventCreateWithFlags", handle},
    {"cudaDeviceGetDefaultMemPool", pool}, {"cudaDeviceGetMemPool", pool}, {"cudaMemPoolCreate", pool}, {"cudaDeviceGetPCIBusId", bus_id},
    {"cudaFuncGetAttributes", function}, {"cudaGetErrorString", error}, {"cudaGetErrorName", error}, {"cudaGetDriverEntryPoint", entry},
    {"cudaGetDriverEntryPointByVersion", entry_by_version}, {"cudaPointerGetAttributes", pointer}, {"cudaDeviceGetLimit", limit},
    {"cudaDeviceCanAccessPeer", no}, {"cudaMemGetInfo", memory}, {"cudaStreamIsCapturing", no_second},
    {"cudaStreamGetCaptureInfo", no_second}, {"cudaStreamGetCaptureInfo_v2", no_second}, {"cudaThreadExchangeStreamCaptureMode", no},
    {"cudaIpcGetMemHandle", ipc}, {"cudaIpcOpenMemHandle", open_ipc},
};

static void replace(const char *symbols, char *base) {
    FILE *f = fopen(symbols, "r");
    char name[256];
    unsigned long long offset;
    while (fscanf(f, "%llx %255s", &offset, name) == 2) {
        void *target = (void *)fine;
        for (unsigned i = 0; i < sizeof RUNTIME / sizeof *RUNTIME; i++)
            if (!strcmp(RUNTIME[i].name, name)) target = RUNTIME[i].f;
        char *at = base + offset;
        mprotect((void *)((uintptr_t)at & ~4095ul), 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
        memcpy(at, "\x48\xb8", 2); /* movabs rax, target; jmp rax */
        memcpy(at + 2, &target, 8);
        memcpy(at + 10, "\xff\xe0", 2);
    }
    fclose(f);
}

int main(int argc, char **argv) {
    setvbuf(stdout, 0, _IONBF, 0);
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) { printf("dlopen %s\n", dlerror()); return 1; }
    char *base = (char *)dlsym(library, "pncclGetVersion") - strtoull(argv[3], 0, 16);
    int (*get_id)(Id *) = dlsym(library, "ncclGetUniqueId");
    int (*join)(void **, int, Id, int) = dlsym(library, "ncclCommInitRank");
    int (*leave)(void *) = dlsym(library, "ncclCommDestroy");
    Id id;
    memset(&id, 0xaa, sizeof id);
    replace(argv[2], base);
    if (!strcmp(argv[4], "root")) {
        int status = get_id(&id);
        printf("ID %d ", status);
        for (int i = 0; i < 128; i++) printf("%02x", (unsigned char)id.bytes[i]);
        printf("\n");
        usleep(1e6 * atof(argv[5]));
        return 0;
    }
    int rank = atoi(argv[4]), ranks = atoi(argv[5]);
    gpu = rank;
    if (rank == 0) {
        if (get_id(&id)) return 3;
        char part[512];
        snprintf(part, sizeof part, "%s.part", argv[6]);
        FILE *f = fopen(part, "w");
        fwrite(&id, 1, 128, f);
        fclose(f);
        rename(part, argv[6]);
    } else {
        FILE *f;
        while (!(f = fopen(argv[6], "r"))) usleep(20000);
        if (fread(&id, 1, 128, f) != 128) return 2;
        fclose(f);
    }
    void *communicator = 0;
    int status = join(&communicator, ranks, id, rank);
    printf("JOINED %d\n", status);
    usleep(1e6 * atof(argv[7]));
    if (communicator && status == 0) printf("LEFT %d\n", leave(communicator));
    _exit(status);
}
