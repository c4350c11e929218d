package catalog

// Readings are what the sensors of an idle GPU say, and their limits. Nothing in
// a fake host gets warm: they are fixed, and plausible rather than measured.
type Readings struct {
	IdleW, LimitW, MinLimitW    int // power drawn; its limit, and the lowest that can be set
	TempC, ShutdownC, SlowdownC int
	MaxC                        int  // highest operating temperature
	SM, MaxSM, Memory, MaxMem   int  // clocks in MHz
	PState                      int  // P0 to P15
	Link                        int  // PCIe generation
	Fan                         int  // per cent; -1: the board has none
	ECC                         bool // memory is corrected
}

// sensor is one row of the table below: the numbers that differ most.
type sensor struct {
	key                  string
	idleW, limitW, minW  int
	sm, maxSM, mem, maxM int
	link, pstate, fan    int
	ecc                  bool
}

// Power limits are those of the boards' data sheets and of the captures in the
// package's sources; clocks and idle power of T4, A100 and H100 are from public
// nvidia-smi output. The rest is unverified.
var sensors = []sensor{
	{"t4", 9, 70, 60, 300, 1590, 405, 5001, 3, 8, -1, true},
	{"v100-sxm2-16gb", 42, 300, 150, 135, 1530, 877, 877, 3, 0, -1, true},
	{"a100-sxm4-40gb", 47, 400, 100, 210, 1410, 1215, 1215, 4, 0, -1, true},
	{"a100-sxm4-80gb", 53, 400, 100, 210, 1410, 1593, 1593, 4, 0, -1, true},
	{"a100-pcie-40gb", 36, 250, 150, 210, 1410, 1215, 1215, 4, 0, -1, true},
	{"a100-pcie-80gb", 44, 300, 150, 210, 1410, 1512, 1512, 4, 0, -1, true},
	{"a30x", 67, 230, 100, 210, 1440, 1215, 1215, 4, 0, -1, true}, // power draw and limit from Kata's guide, the rest unverified
	{"a30", 28, 165, 100, 210, 1440, 1215, 1215, 4, 0, -1, true},
	{"a40", 22, 300, 100, 210, 1740, 405, 7251, 4, 8, -1, true},
	{"a10", 16, 150, 100, 210, 1695, 405, 6251, 4, 8, -1, true},
	{"a10g", 16, 300, 100, 210, 1710, 405, 6251, 4, 8, -1, true},
	{"a16", 14, 62, 40, 210, 1755, 405, 6251, 4, 8, -1, true},
	{"a2", 6, 60, 35, 210, 1770, 405, 6251, 4, 8, -1, true},
	{"l4", 12, 72, 40, 210, 2040, 405, 6251, 4, 8, -1, true},
	{"l40", 34, 300, 100, 210, 2490, 405, 9001, 4, 8, -1, true},
	{"l40s", 35, 350, 100, 210, 2520, 405, 9001, 4, 8, -1, true},
	{"h100-sxm5-80gb", 70, 700, 200, 345, 1980, 2619, 2619, 5, 0, -1, true},
	{"h100-pcie", 48, 350, 200, 345, 1755, 1593, 1593, 5, 0, -1, true},
	{"h100-nvl", 60, 400, 200, 345, 1785, 2619, 2619, 5, 0, -1, true},
	{"h20", 72, 500, 200, 345, 1980, 2619, 2619, 5, 0, -1, true},
	{"h200-sxm", 76, 700, 200, 345, 1980, 3201, 3201, 5, 0, -1, true},
	{"h200-nvl", 70, 600, 200, 345, 1785, 3201, 3201, 5, 0, -1, true},
	{"gh200-96gb", 80, 900, 100, 345, 1980, 2619, 2619, 5, 0, -1, true},
	{"b200", 140, 1000, 200, 120, 1965, 3996, 3996, 5, 0, -1, true},
	{"gb200", 160, 1200, 200, 120, 2062, 3996, 3996, 5, 0, -1, true},
	{"b300", 170, 1100, 200, 120, 2032, 3996, 3996, 6, 0, -1, true},
	{"gb300", 180, 1400, 200, 120, 2070, 3996, 3996, 6, 0, -1, true},
	{"rtx-pro-6000-server", 32, 600, 300, 180, 2430, 405, 12481, 5, 8, -1, true},
	{"rtx-2080-ti", 11, 250, 100, 300, 2100, 405, 7000, 3, 8, 28, false},
	{"rtx-3060", 12, 170, 100, 210, 2130, 405, 7501, 4, 8, 0, false},
	{"rtx-3080", 20, 320, 100, 210, 2100, 405, 9501, 4, 8, 0, false},
	{"rtx-3090", 22, 350, 100, 210, 2100, 405, 9751, 4, 8, 0, false},
	{"rtx-4080", 10, 320, 150, 210, 3105, 405, 11201, 4, 8, 0, false},
	{"rtx-4090", 14, 450, 10, 210, 3120, 405, 10501, 4, 8, 0, false},
	{"rtx-5080", 12, 360, 250, 180, 3090, 405, 15001, 5, 8, 0, false},
	{"rtx-5090", 16, 575, 400, 180, 3090, 405, 14001, 5, 8, 0, false},
	{"rtx-a6000", 20, 300, 100, 210, 2100, 405, 8001, 4, 8, 30, false},
	{"rtx-6000-ada", 18, 300, 100, 210, 3105, 405, 10001, 4, 8, 30, false},
	{"rtx-pro-6000-max-q", 14, 300, 250, 180, 2340, 405, 14001, 5, 8, 30, true},
	{"rtx-pro-6000-workstation", 16, 600, 300, 180, 3090, 405, 14001, 5, 8, 30, false},
}

// Readings returns what the sensors of p say; ok is false for a product that has
// none that a program could ask, such as Tegra's GPU.
func (p Product) Readings() (r Readings, ok bool) {
	for _, s := range sensors {
		if s.key != p.Key {
			continue
		}
		r = Readings{IdleW: s.idleW, LimitW: s.limitW, MinLimitW: s.minW, TempC: 30, ShutdownC: 92, SlowdownC: 89, MaxC: 85,
			SM: s.sm, MaxSM: s.maxSM, Memory: s.mem, MaxMem: s.maxM,
			PState: s.pstate, Link: s.link, Fan: s.fan, ECC: s.ecc}
		switch s.key {
		case "t4":
			r.ShutdownC, r.SlowdownC = 96, 93
		case "rtx-3060", "rtx-3080", "rtx-3090": // that of 3060 unverified
			r.ShutdownC, r.SlowdownC, r.MaxC = 98, 95, 93
		}
		return r, true
	}
	return Readings{}, false
}
