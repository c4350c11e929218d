/*
 * The calls of NVML that this program makes, found in libnvidia-ml.so.1 when it
 * starts. Names and arguments are those of nvml.h without "nvml".
 * https://docs.nvidia.com/deploy/nvml-api
 */
#ifndef GPURIG_SMI_NVML_H
#define GPURIG_SMI_NVML_H

/* Return codes of NVML; most are exit codes of this program too. */
enum {
	OK = 0,
	BAD_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NO_PERMISSION = 4,
	NOT_FOUND = 6,
	NO_ROOM = 7,
	NO_DRIVER = 9,
	NO_LIBRARY = 12,
	NO_FUNCTION = 13,
	GPU_IS_LOST = 15,
	DEPRECATED = 26,
	VERSIONS_DIFFER = 18,
	IN_USE = 19,
};

/* Numbers of NVML. */
enum { GI_PROFILES = 0x12, CI_PROFILES = 0x9, CLOCK_GRAPHICS = 0, CLOCK_SM = 1, CLOCK_MEM = 2, CLOCK_VIDEO = 3 };

typedef struct device *device;
typedef struct gi *gpu_instance;
typedef struct ci *compute_instance;

struct pci_info {
	char bus_id_legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char bus_id[32];
};

struct memory {
	unsigned long long total, free, used;
};

struct memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

struct place {
	unsigned start, size;
};

struct engines {
	unsigned copy, decoders, encoders, jpeg, ofa;
};

struct attributes {
	unsigned sms;
	struct engines shared;
	unsigned gi_slices, ci_slices;
	unsigned long long memory_mb;
};

/* The second form of a profile of GPU instances, which has its name. */
struct gi_profile {
	unsigned version, id, p2p, slices, count, sms;
	struct engines engines;
	unsigned long long memory_mb;
	char name[96];
};

struct ci_profile {
	unsigned version, id, slices, count, sms;
	struct engines engines;
	char name[96];
};

struct gi_info {
	device device;
	unsigned id, profile;
	struct place at;
};

struct ci_info {
	device device;
	gpu_instance instance;
	unsigned id, profile;
	struct place at;
};

struct fabric {
	unsigned char cluster[16];
	unsigned status, clique;
	unsigned char state;
};

/* The third form, which has the fabric's health. */
struct fabric_v3 {
	unsigned version;
	unsigned char cluster[16];
	unsigned status, clique;
	unsigned char state;
	unsigned health;
	unsigned char summary;
};

struct pair {
	unsigned a, b;
};

struct field_value {
	unsigned id, scope;
	long long when, took;
	unsigned type, code;
	union {
		unsigned ui;
		int si;
		long long sll;
	} value;
};

struct sram_status {
	unsigned version;
	unsigned long long aggregate_parity, aggregate_secded, aggregate_corrected, volatile_parity, volatile_secded, volatile_corrected;
	unsigned long long l2, sm, pcie, mcu, other;
	unsigned exceeded;
};

struct repair {
	unsigned version, pending[2];
};

/* A version and one number: of the temperature margin, and of the addressing mode. */
struct margin {
	unsigned version;
	int degrees;
};

struct platform {
	unsigned version;
	unsigned char guid[16], chassis[16], slot, tray, host, peer, module;
};

struct pci_ext {
	unsigned version, domain, bus, device, id, subsystem, base_class, sub_class;
	char bus_id[32];
};

/* A structure's size and the number of its form are its version field. */
#define FORM(type, n) ((unsigned)sizeof(type) | (n) << 24)

#define CALLS(X)                                                                           \
	X(Init_v2, (void))                                                                 \
	X(Shutdown, (void))                                                                \
	X(SystemGetDriverVersion, (char *, unsigned))                                      \
	X(SystemGetNVMLVersion, (char *, unsigned))                                        \
	X(SystemGetCudaDriverVersion_v2, (int *))                                          \
	X(DeviceGetCount_v2, (unsigned *))                                                 \
	X(DeviceGetHandleByIndex_v2, (unsigned, device *))                                 \
	X(DeviceGetHandleByUUID, (const char *, device *))                                 \
	X(DeviceGetHandleByPciBusId_v2, (const char *, device *))                          \
	X(DeviceGetHandleBySerial, (const char *, device *))                               \
	X(DeviceGetIndex, (device, unsigned *))                                            \
	X(DeviceGetName, (device, char *, unsigned))                                       \
	X(DeviceGetUUID, (device, char *, unsigned))                                       \
	X(DeviceGetSerial, (device, char *, unsigned))                                     \
	X(DeviceGetVbiosVersion, (device, char *, unsigned))                               \
	X(DeviceGetBoardPartNumber, (device, char *, unsigned))                            \
	X(DeviceGetInforomImageVersion, (device, char *, unsigned))                        \
	X(DeviceGetInforomVersion, (device, unsigned, char *, unsigned))                   \
	X(DeviceGetGspFirmwareVersion, (device, char *))                                   \
	X(DeviceGetMinorNumber, (device, unsigned *))                                      \
	X(DeviceGetBrand, (device, unsigned *))                                            \
	X(DeviceGetArchitecture, (device, unsigned *))                                     \
	X(DeviceGetCudaComputeCapability, (device, unsigned *, unsigned *))                \
	X(DeviceGetPersistenceMode, (device, unsigned *))                                  \
	X(DeviceSetPersistenceMode, (device, unsigned))                                    \
	X(DeviceGetDisplayMode, (device, unsigned *))                                      \
	X(DeviceGetDisplayActive, (device, unsigned *))                                    \
	X(DeviceGetAccountingMode, (device, unsigned *))                                   \
	X(DeviceGetAccountingBufferSize, (device, unsigned *))                             \
	X(DeviceGetMultiGpuBoard, (device, unsigned *))                                    \
	X(DeviceGetBoardId, (device, unsigned *))                                          \
	X(DeviceGetVirtualizationMode, (device, unsigned *))                               \
	X(DeviceGetHostVgpuMode, (device, unsigned *))                                     \
	X(DeviceGetPciInfo_v3, (device, struct pci_info *))                                \
	X(DeviceGetMaxPcieLinkGeneration, (device, unsigned *))                            \
	X(DeviceGetCurrPcieLinkGeneration, (device, unsigned *))                           \
	X(DeviceGetMaxPcieLinkWidth, (device, unsigned *))                                 \
	X(DeviceGetCurrPcieLinkWidth, (device, unsigned *))                                \
	X(DeviceGetPcieReplayCounter, (device, unsigned *))                                \
	X(DeviceGetFanSpeed, (device, unsigned *))                                         \
	X(DeviceGetPerformanceState, (device, unsigned *))                                 \
	X(DeviceGetC2cModeInfoV, (device, unsigned *))                                     \
	X(DeviceGetNvLinkState, (device, unsigned, unsigned *))                            \
	X(DeviceGetP2PStatus, (device, device, unsigned, unsigned *))                      \
	X(DeviceGetTopologyCommonAncestor, (device, device, unsigned *))                   \
	X(DeviceGetCpuAffinity, (device, unsigned, unsigned long *))                       \
	X(DeviceGetMemoryAffinity, (device, unsigned, unsigned long *, unsigned))          \
	X(DeviceGetPowerState, (device, unsigned *))                                       \
	X(DeviceGetMemoryInfo, (device, struct memory *))                                  \
	X(DeviceGetMemoryInfo_v2, (device, struct memory_v2 *))                            \
	X(DeviceGetBAR1MemoryInfo, (device, struct memory *))                              \
	X(DeviceGetComputeMode, (device, unsigned *))                                      \
	X(DeviceGetUtilizationRates, (device, struct pair *))                              \
	X(DeviceGetEncoderUtilization, (device, unsigned *, unsigned *))                   \
	X(DeviceGetDecoderUtilization, (device, unsigned *, unsigned *))                   \
	X(DeviceGetEccMode, (device, unsigned *, unsigned *))                              \
	X(DeviceGetTotalEccErrors, (device, unsigned, unsigned, unsigned long long *))     \
	X(DeviceGetTemperature, (device, unsigned, unsigned *))                            \
	X(DeviceGetTemperatureThreshold, (device, unsigned, unsigned *))                   \
	X(DeviceGetPowerManagementMode, (device, unsigned *))                              \
	X(DeviceGetPowerUsage, (device, unsigned *))                                       \
	X(DeviceGetPowerManagementLimit, (device, unsigned *))                             \
	X(DeviceGetPowerManagementDefaultLimit, (device, unsigned *))                      \
	X(DeviceGetPowerManagementLimitConstraints, (device, unsigned *, unsigned *))      \
	X(DeviceGetEnforcedPowerLimit, (device, unsigned *))                               \
	X(DeviceSetPowerManagementLimit, (device, unsigned))                               \
	X(DeviceGetClockInfo, (device, unsigned, unsigned *))                              \
	X(DeviceGetMaxClockInfo, (device, unsigned, unsigned *))                           \
	X(DeviceGetApplicationsClock, (device, unsigned, unsigned *))                      \
	X(DeviceGetDefaultApplicationsClock, (device, unsigned, unsigned *))               \
	X(DeviceGetFieldValues, (device, int, struct field_value *))                       \
	X(DeviceGetCurrentClocksThrottleReasons, (device, unsigned long long *))           \
	X(DeviceGetSupportedClocksThrottleReasons, (device, unsigned long long *))         \
	X(DeviceGetMemoryErrorCounter, (device, unsigned, unsigned, unsigned, unsigned long long *)) \
	X(DeviceGetSramEccErrorStatus, (device, struct sram_status *))                     \
	X(DeviceGetRepairStatus, (device, struct repair *))                                \
	X(DeviceGetRetiredPages, (device, unsigned, unsigned *, unsigned long long *))     \
	X(DeviceGetRetiredPagesPendingStatus, (device, unsigned *))                        \
	X(DeviceGetRemappedRows, (device, unsigned *, unsigned *, unsigned *, unsigned *)) \
	X(DeviceGetRowRemapperHistogram, (device, unsigned *))                             \
	X(DeviceGetEncoderStats, (device, unsigned *, unsigned *, unsigned *))             \
	X(DeviceGetFBCStats, (device, unsigned *))                                         \
	X(DeviceGetConfComputeProtectedMemoryUsage, (device, struct memory *))             \
	X(DeviceGetPcieThroughput, (device, unsigned, unsigned *))                         \
	X(DeviceGetJpgUtilization, (device, unsigned *, unsigned *))                       \
	X(DeviceGetOfaUtilization, (device, unsigned *, unsigned *))                       \
	X(DeviceGetMarginTemperature, (device, struct margin *))                           \
	X(DeviceGetAddressingMode, (device, struct margin *))                              \
	X(DeviceGetMaxCustomerBoostClock, (device, unsigned, unsigned *))                  \
	X(DeviceGetGpuMaxPcieLinkGeneration, (device, unsigned *))                         \
	X(DeviceGetModuleId, (device, unsigned *))                                         \
	X(DeviceGetPlatformInfo, (device, struct platform *))                              \
	X(DeviceGetPciInfoExt, (device, struct pci_ext *))                                 \
	X(DeviceGetGpuFabricInfoV, (device, struct fabric_v3 *))                           \
	X(DeviceGetGpuFabricInfo, (device, struct fabric *))                               \
	X(DeviceGetComputeRunningProcesses_v3, (device, unsigned *, void *))               \
	X(DeviceGetGraphicsRunningProcesses_v3, (device, unsigned *, void *))              \
	X(DeviceGetMigMode, (device, unsigned *, unsigned *))                              \
	X(DeviceSetMigMode, (device, unsigned, unsigned *))                                \
	X(DeviceGetMaxMigDeviceCount, (device, unsigned *))                                \
	X(DeviceGetMigDeviceHandleByIndex, (device, unsigned, device *))                   \
	X(DeviceIsMigDeviceHandle, (device, unsigned *))                                   \
	X(DeviceGetDeviceHandleFromMigDeviceHandle, (device, device *))                    \
	X(DeviceGetGpuInstanceId, (device, unsigned *))                                    \
	X(DeviceGetComputeInstanceId, (device, unsigned *))                                \
	X(DeviceGetAttributes_v2, (device, struct attributes *))                           \
	X(DeviceGetGpuInstanceProfileInfoV, (device, unsigned, struct gi_profile *))       \
	X(DeviceGetGpuInstancePossiblePlacements_v2, (device, unsigned, struct place *, unsigned *)) \
	X(DeviceGetGpuInstanceRemainingCapacity, (device, unsigned, unsigned *))           \
	X(DeviceCreateGpuInstance, (device, unsigned, gpu_instance *))                     \
	X(DeviceCreateGpuInstanceWithPlacement, (device, unsigned, const struct place *, gpu_instance *)) \
	X(DeviceGetGpuInstances, (device, unsigned, gpu_instance *, unsigned *))           \
	X(GpuInstanceGetInfo, (gpu_instance, struct gi_info *))                            \
	X(GpuInstanceDestroy, (gpu_instance))                                              \
	X(GpuInstanceGetComputeInstanceProfileInfoV, (gpu_instance, unsigned, unsigned, struct ci_profile *)) \
	X(GpuInstanceGetComputeInstanceRemainingCapacity, (gpu_instance, unsigned, unsigned *)) \
	X(GpuInstanceCreateComputeInstance, (gpu_instance, unsigned, compute_instance *))  \
	X(GpuInstanceGetComputeInstances, (gpu_instance, unsigned, compute_instance *, unsigned *)) \
	X(ComputeInstanceGetInfo_v2, (compute_instance, struct ci_info *))                 \
	X(ComputeInstanceDestroy, (compute_instance))

struct nvml {
	const char *(*ErrorString)(unsigned);
#define X(name, arguments) unsigned(*name) arguments;
	CALLS(X)
#undef X
};

extern struct nvml nvml;

/* nvml_load finds the library and its calls; 0 if there is none. A call that an
 * older library has not returns NO_FUNCTION. */
int nvml_load(void);

#endif
