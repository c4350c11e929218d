package seen

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// A question asks NVML about one GPU and prints the answer as nvidia-smi does.
type question func(d nvml.Device) (string, nvml.Return)

// answers are the fields of nvidia-smi -q -x that NVML's public calls answer.
// What has no public call is not here.
var answers = map[string]question{
	"product_name":                text(nvml.Device.GetName),
	"product_brand":               named(nvml.Device.GetBrand, map[nvml.BrandType]string{nvml.BRAND_TESLA: "Tesla", nvml.BRAND_NVIDIA: "NVIDIA", nvml.BRAND_GEFORCE: "GeForce", nvml.BRAND_NVIDIA_RTX: "NVIDIA RTX"}),
	"product_architecture":        named(nvml.Device.GetArchitecture, map[nvml.DeviceArchitecture]string{nvml.DEVICE_ARCH_TURING: "Turing", nvml.DEVICE_ARCH_AMPERE: "Ampere", nvml.DEVICE_ARCH_ADA: "Ada Lovelace", nvml.DEVICE_ARCH_HOPPER: "Hopper", nvml.DEVICE_ARCH_BLACKWELL: "Blackwell"}),
	"display_mode":                enabled(nvml.Device.GetDisplayMode),
	"display_active":              enabled(nvml.Device.GetDisplayActive),
	"persistence_mode":            enabled(nvml.Device.GetPersistenceMode),
	"addressing_mode":             addressing,
	"mig_mode/current_mig":        side(nvml.Device.GetMigMode, 0),
	"mig_mode/pending_mig":        side(nvml.Device.GetMigMode, 1),
	"accounting_mode":             enabled(nvml.Device.GetAccountingMode),
	"accounting_mode_buffer_size": count(nvml.Device.GetAccountingBufferSize, ""),
	"vbios_version":               text(nvml.Device.GetVbiosVersion),
	"multigpu_board":              named(nvml.Device.GetMultiGpuBoard, map[int]string{0: "No", 1: "Yes"}),
	"board_part_number":           text(nvml.Device.GetBoardPartNumber),
	"gsp_firmware_version":        text(nvml.Device.GetGspFirmwareVersion),
	"inforom_version/img_version": text(nvml.Device.GetInforomImageVersion),
	"inforom_version/oem_object":  inforom(nvml.INFOROM_OEM),
	"inforom_version/ecc_object":  inforom(nvml.INFOROM_ECC),
	"inforom_version/pwr_object":  inforom(nvml.INFOROM_POWER),
	"fan_speed":                   count(nvml.Device.GetFanSpeed, "%"),
	"performance_state":           pstate,
	"gpu_power_readings/power_state": func(d nvml.Device) (string, nvml.Return) {
		s, r := d.GetPowerState()
		return fmt.Sprintf("P%d", s), r
	},
	"compute_mode": named(nvml.Device.GetComputeMode, map[nvml.ComputeMode]string{nvml.COMPUTEMODE_DEFAULT: "Default"}),
	"gpu_virtualization_mode/virtualization_mode": named(nvml.Device.GetVirtualizationMode, map[nvml.GpuVirtualizationMode]string{nvml.GPU_VIRTUALIZATION_MODE_NONE: "None", nvml.GPU_VIRTUALIZATION_MODE_PASSTHROUGH: "Pass-Through", nvml.GPU_VIRTUALIZATION_MODE_HOST_VGPU: "Host VGPU"}),
	"gpu_recovery_action":                         fieldWord(nvml.FI_DEV_GET_GPU_RECOVERY_ACTION, "None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"),

	"pci/pci_device_id":                                      pciInfo(func(p nvml.PciInfo) string { return fmt.Sprintf("%08X", p.PciDeviceId) }),
	"pci/pci_sub_system_id":                                  pciInfo(func(p nvml.PciInfo) string { return fmt.Sprintf("%08X", p.PciSubSystemId) }),
	"pci/pci_base_class":                                     pciExt(func(p nvml.PciInfoExt) string { return fmt.Sprintf("%X", p.BaseClass) }),
	"pci/pci_sub_class":                                      pciExt(func(p nvml.PciInfoExt) string { return fmt.Sprintf("%X", p.SubClass) }),
	"pci/pci_gpu_link_info/pcie_gen/max_link_gen":            count(nvml.Device.GetMaxPcieLinkGeneration, ""),
	"pci/pci_gpu_link_info/pcie_gen/current_link_gen":        count(nvml.Device.GetCurrPcieLinkGeneration, ""),
	"pci/pci_gpu_link_info/pcie_gen/device_current_link_gen": count(nvml.Device.GetCurrPcieLinkGeneration, ""),
	"pci/pci_gpu_link_info/pcie_gen/max_device_link_gen":     count(nvml.Device.GetGpuMaxPcieLinkGeneration, ""),
	"pci/pci_gpu_link_info/link_widths/max_link_width":       suffixed(nvml.Device.GetMaxPcieLinkWidth, "x"),
	"pci/pci_gpu_link_info/link_widths/current_link_width":   suffixed(nvml.Device.GetCurrPcieLinkWidth, "x"),
	"pci/replay_counter":                                     count(nvml.Device.GetPcieReplayCounter, ""),
	"pci/replay_rollover_counter":                            fieldCount(nvml.FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER, 0, ""),
	"pci/tx_util":                                            throughput(nvml.PCIE_UTIL_TX_BYTES),
	"pci/rx_util":                                            throughput(nvml.PCIE_UTIL_RX_BYTES),
	"pci/atomic_caps_outbound":                               atomics(nvml.FI_DEV_PCIE_OUTBOUND_ATOMICS_MASK),
	"pci/atomic_caps_inbound":                                atomics(nvml.FI_DEV_PCIE_INBOUND_ATOMICS_MASK),

	"fb_memory_usage/total":           memory(func(m nvml.Memory_v2) uint64 { return m.Total }),
	"fb_memory_usage/reserved":        memory(func(m nvml.Memory_v2) uint64 { return m.Reserved }),
	"fb_memory_usage/used":            memory(func(m nvml.Memory_v2) uint64 { return m.Used }),
	"fb_memory_usage/free":            memory(func(m nvml.Memory_v2) uint64 { return m.Free }),
	"bar1_memory_usage/total":         bar1(func(m nvml.BAR1Memory) uint64 { return m.Bar1Total }),
	"bar1_memory_usage/used":          bar1(func(m nvml.BAR1Memory) uint64 { return m.Bar1Used }),
	"bar1_memory_usage/free":          bar1(func(m nvml.BAR1Memory) uint64 { return m.Bar1Free }),
	"cc_protected_memory_usage/total": protected(func(m nvml.Memory) uint64 { return m.Total }),
	"cc_protected_memory_usage/used":  protected(func(m nvml.Memory) uint64 { return m.Used }),
	"cc_protected_memory_usage/free":  protected(func(m nvml.Memory) uint64 { return m.Free }),

	"utilization/gpu_util":     utilization(func(u nvml.Utilization) uint32 { return u.Gpu }),
	"utilization/memory_util":  utilization(func(u nvml.Utilization) uint32 { return u.Memory }),
	"utilization/encoder_util": engine(nvml.Device.GetEncoderUtilization),
	"utilization/decoder_util": engine(nvml.Device.GetDecoderUtilization),
	"utilization/jpeg_util":    engine(nvml.Device.GetJpgUtilization),
	"utilization/ofa_util":     engine(nvml.Device.GetOfaUtilization),

	"encoder_stats/session_count":   encoder(0),
	"encoder_stats/average_fps":     encoder(1),
	"encoder_stats/average_latency": encoder(2),
	"fbc_stats/session_count":       capture(func(s nvml.FBCStats) uint32 { return s.SessionsCount }),
	"fbc_stats/average_fps":         capture(func(s nvml.FBCStats) uint32 { return s.AverageFPS }),
	"fbc_stats/average_latency":     capture(func(s nvml.FBCStats) uint32 { return s.AverageLatency }),

	"ecc_mode/current_ecc":                                                 ecc(0),
	"ecc_mode/pending_ecc":                                                 ecc(1),
	"ecc_errors/volatile/sram_correctable":                                 errorsIn(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_SRAM),
	"ecc_errors/volatile/sram_uncorrectable":                               errorsIn(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_SRAM),
	"ecc_errors/volatile/sram_uncorrectable_parity":                        sram(func(s nvml.EccSramErrorStatus) uint64 { return s.VolatileUncParity }),
	"ecc_errors/volatile/sram_uncorrectable_secded":                        sram(func(s nvml.EccSramErrorStatus) uint64 { return s.VolatileUncSecDed }),
	"ecc_errors/volatile/dram_correctable":                                 errorsIn(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_DRAM),
	"ecc_errors/volatile/dram_uncorrectable":                               errorsIn(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_DRAM),
	"ecc_errors/aggregate/sram_correctable":                                errorsIn(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC, nvml.MEMORY_LOCATION_SRAM),
	"ecc_errors/aggregate/sram_uncorrectable":                              errorsIn(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC, nvml.MEMORY_LOCATION_SRAM),
	"ecc_errors/aggregate/sram_uncorrectable_parity":                       sram(func(s nvml.EccSramErrorStatus) uint64 { return s.AggregateUncParity }),
	"ecc_errors/aggregate/sram_uncorrectable_secded":                       sram(func(s nvml.EccSramErrorStatus) uint64 { return s.AggregateUncSecDed }),
	"ecc_errors/aggregate/dram_correctable":                                errorsIn(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC, nvml.MEMORY_LOCATION_DRAM),
	"ecc_errors/aggregate/dram_uncorrectable":                              errorsIn(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC, nvml.MEMORY_LOCATION_DRAM),
	"ecc_errors/aggregate/sram_threshold_exceeded":                         exceeded,
	"ecc_errors/aggregate_uncorrectable_sram_sources/sram_l2":              sram(func(s nvml.EccSramErrorStatus) uint64 { return s.AggregateUncBucketL2 }),
	"ecc_errors/aggregate_uncorrectable_sram_sources/sram_sm":              sram(func(s nvml.EccSramErrorStatus) uint64 { return s.AggregateUncBucketSm }),
	"ecc_errors/aggregate_uncorrectable_sram_sources/sram_microcontroller": sram(func(s nvml.EccSramErrorStatus) uint64 { return s.AggregateUncBucketMcu }),
	"ecc_errors/aggregate_uncorrectable_sram_sources/sram_pcie":            sram(func(s nvml.EccSramErrorStatus) uint64 { return s.AggregateUncBucketPcie }),
	"ecc_errors/aggregate_uncorrectable_sram_sources/sram_other":           sram(func(s nvml.EccSramErrorStatus) uint64 { return s.AggregateUncBucketOther }),
	"ecc_errors/channel_repair_pending":                                    repair(func(s nvml.RepairStatus) uint32 { return s.BChannelRepairPending }),
	"ecc_errors/tpc_repair_pending":                                        repair(func(s nvml.RepairStatus) uint32 { return s.BTpcRepairPending }),

	"retired_pages/multiple_single_bit_retirement/retired_count": retired(nvml.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS),
	"retired_pages/double_bit_retirement/retired_count":          retired(nvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR),
	"retired_pages/pending_retirement":                           named(nvml.Device.GetRetiredPagesPendingStatus, map[nvml.EnableState]string{0: "No", 1: "Yes"}),

	"remapped_rows/remapped_row_corr":                                     remapped(0),
	"remapped_rows/remapped_row_unc":                                      remapped(1),
	"remapped_rows/remapped_row_pending":                                  remapped(2),
	"remapped_rows/remapped_row_failure":                                  remapped(3),
	"remapped_rows/row_remapper_histogram/row_remapper_histogram_max":     banks(func(h nvml.RowRemapperHistogramValues) uint32 { return h.Max }),
	"remapped_rows/row_remapper_histogram/row_remapper_histogram_high":    banks(func(h nvml.RowRemapperHistogramValues) uint32 { return h.High }),
	"remapped_rows/row_remapper_histogram/row_remapper_histogram_partial": banks(func(h nvml.RowRemapperHistogramValues) uint32 { return h.Partial }),
	"remapped_rows/row_remapper_histogram/row_remapper_histogram_low":     banks(func(h nvml.RowRemapperHistogramValues) uint32 { return h.Low }),
	"remapped_rows/row_remapper_histogram/row_remapper_histogram_none":    banks(func(h nvml.RowRemapperHistogramValues) uint32 { return h.None }),

	"temperature/gpu_temp":                          degrees(func(d nvml.Device) (uint32, nvml.Return) { return d.GetTemperature(nvml.TEMPERATURE_GPU) }),
	"temperature/gpu_temp_tlimit":                   margin,
	"temperature/gpu_temp_max_threshold":            threshold(nvml.TEMPERATURE_THRESHOLD_SHUTDOWN),
	"temperature/gpu_temp_slow_threshold":           threshold(nvml.TEMPERATURE_THRESHOLD_SLOWDOWN),
	"temperature/gpu_temp_max_gpu_threshold":        threshold(nvml.TEMPERATURE_THRESHOLD_GPU_MAX),
	"temperature/gpu_temp_max_mem_threshold":        threshold(nvml.TEMPERATURE_THRESHOLD_MEM_MAX),
	"temperature/gpu_temp_max_tlimit_threshold":     fieldCount(nvml.FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT, 0, "C"),
	"temperature/gpu_temp_slow_tlimit_threshold":    fieldCount(nvml.FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT, 0, "C"),
	"temperature/gpu_temp_max_mem_tlimit_threshold": fieldCount(nvml.FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT, 0, "C"),
	"temperature/gpu_temp_max_gpu_tlimit_threshold": fieldCount(nvml.FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT, 0, "C"),
	"temperature/gpu_target_temperature":            threshold(nvml.TEMPERATURE_THRESHOLD_ACOUSTIC_CURR),
	"temperature/memory_temp":                       fieldCount(nvml.FI_DEV_MEMORY_TEMP, 0, "C"),

	"gpu_power_readings/average_power_draw":        fieldWatts(nvml.FI_DEV_POWER_AVERAGE, nvml.POWER_SCOPE_GPU),
	"gpu_power_readings/instant_power_draw":        fieldWatts(nvml.FI_DEV_POWER_INSTANT, nvml.POWER_SCOPE_GPU),
	"gpu_power_readings/power_draw":                watts(nvml.Device.GetPowerUsage),
	"gpu_power_readings/current_power_limit":       watts(nvml.Device.GetEnforcedPowerLimit),
	"gpu_power_readings/requested_power_limit":     watts(nvml.Device.GetPowerManagementLimit),
	"gpu_power_readings/default_power_limit":       watts(nvml.Device.GetPowerManagementDefaultLimit),
	"gpu_power_readings/min_power_limit":           limit(0),
	"gpu_power_readings/max_power_limit":           limit(1),
	"gpu_memory_power_readings/average_power_draw": fieldWatts(nvml.FI_DEV_POWER_AVERAGE, nvml.POWER_SCOPE_MEMORY),
	"gpu_memory_power_readings/instant_power_draw": fieldWatts(nvml.FI_DEV_POWER_INSTANT, nvml.POWER_SCOPE_MEMORY),
	"module_power_readings/average_power_draw":     fieldWatts(nvml.FI_DEV_POWER_AVERAGE, nvml.POWER_SCOPE_MODULE),
	"module_power_readings/instant_power_draw":     fieldWatts(nvml.FI_DEV_POWER_INSTANT, nvml.POWER_SCOPE_MODULE),
	"module_power_readings/current_power_limit":    fieldWatts(nvml.FI_DEV_POWER_CURRENT_LIMIT, nvml.POWER_SCOPE_MODULE),
	"module_power_readings/requested_power_limit":  fieldWatts(nvml.FI_DEV_POWER_REQUESTED_LIMIT, nvml.POWER_SCOPE_MODULE),
	"module_power_readings/default_power_limit":    fieldWatts(nvml.FI_DEV_POWER_DEFAULT_LIMIT, nvml.POWER_SCOPE_MODULE),
	"module_power_readings/min_power_limit":        fieldWatts(nvml.FI_DEV_POWER_MIN_LIMIT, nvml.POWER_SCOPE_MODULE),
	"module_power_readings/max_power_limit":        fieldWatts(nvml.FI_DEV_POWER_MAX_LIMIT, nvml.POWER_SCOPE_MODULE),

	"clocks/graphics_clock":                      clock(nvml.Device.GetClockInfo, nvml.CLOCK_GRAPHICS),
	"clocks/sm_clock":                            clock(nvml.Device.GetClockInfo, nvml.CLOCK_SM),
	"clocks/mem_clock":                           clock(nvml.Device.GetClockInfo, nvml.CLOCK_MEM),
	"clocks/video_clock":                         clock(nvml.Device.GetClockInfo, nvml.CLOCK_VIDEO),
	"applications_clocks/graphics_clock":         clock(nvml.Device.GetApplicationsClock, nvml.CLOCK_GRAPHICS),
	"applications_clocks/mem_clock":              clock(nvml.Device.GetApplicationsClock, nvml.CLOCK_MEM),
	"default_applications_clocks/graphics_clock": clock(nvml.Device.GetDefaultApplicationsClock, nvml.CLOCK_GRAPHICS),
	"default_applications_clocks/mem_clock":      clock(nvml.Device.GetDefaultApplicationsClock, nvml.CLOCK_MEM),
	"max_clocks/graphics_clock":                  clock(nvml.Device.GetMaxClockInfo, nvml.CLOCK_GRAPHICS),
	"max_clocks/sm_clock":                        clock(nvml.Device.GetMaxClockInfo, nvml.CLOCK_SM),
	"max_clocks/mem_clock":                       clock(nvml.Device.GetMaxClockInfo, nvml.CLOCK_MEM),
	"max_clocks/video_clock":                     clock(nvml.Device.GetMaxClockInfo, nvml.CLOCK_VIDEO),
	"max_customer_boost_clocks/graphics_clock":   clock(nvml.Device.GetMaxCustomerBoostClock, nvml.CLOCK_GRAPHICS),

	"fabric/state": fabric(func(f nvml.GpuFabricInfo) string {
		return [...]string{"N/A", "Not Started", "In Progress", "Completed"}[f.State&3]
	}),
	"fabric/status":      fabric(status),
	"fabric/cliqueId":    fabric(func(f nvml.GpuFabricInfo) string { return fmt.Sprint(f.CliqueId) }),
	"fabric/clusterUuid": fabric(func(f nvml.GpuFabricInfo) string { return uuid(f.ClusterUuid) }),

	"platformInfo/module_id": count(nvml.Device.GetModuleId, ""),
	"platformInfo/host_id":   platform(func(p nvml.PlatformInfo) string { return fmt.Sprint(p.HostId) }),
	"platformInfo/peer_type": platform(func(p nvml.PlatformInfo) string {
		return [...]string{"Direct Connected", "Switch Connected"}[p.PeerType&1]
	}),

	"gpu_operation_mode/current_gom": func(d nvml.Device) (string, nvml.Return) {
		_, _, r := d.GetGpuOperationMode()
		return "", r
	},
	"dram_encryption_mode/current_dram_encryption": func(d nvml.Device) (string, nvml.Return) {
		now, _, r := d.GetDramEncryptionMode()
		return onOff(int(now.EncryptionState)), r
	},

	"nvlink/links": links,
}

func init() {
	for bit, name := range []string{"gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
		"hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clocks_setting"} {
		answers["clocks_event_reasons/clocks_event_reason_"+name] = reason(bit)
	}
	for name, id := range policies {
		answers["clocks_event_reasons_counters/clocks_event_reasons_counters_"+name] = func(d nvml.Device) (string, nvml.Return) {
			n, r := field(d, id, 0)
			return unit(n/1000, "us"), r
		}
	}
}

// policies are the clocks' event counters; NVML has nanoseconds.
var policies = map[string]uint32{"sw_power_cap": nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP, "sync_boost": nvml.FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST,
	"sw_therm_slowdown": nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, "hw_therm_slowdown": nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
	"hw_power_brake": nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN}

func uuid(b [16]uint8) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func status(f nvml.GpuFabricInfo) string {
	switch {
	case f.State != nvml.GPU_FABRIC_STATE_COMPLETED:
		return "N/A"
	case nvml.Return(f.Status) != nvml.SUCCESS:
		return nvml.Return(f.Status).Error()
	}
	return "Success"
}
