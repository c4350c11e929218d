package lxdapi

import "context"

// Cards are the GPUs that a server lists, by PCI address; a platform GPU, which
// has none, by the name of its DRM card.
//
// Reference: https://documentation.ubuntu.com/lxd/en/latest/api/#/server/resources_get
type Cards map[string]Card

// A Card is a GPU as the server sees it.
type Card struct {
	PCIAddress    string          `json:"pci_address"`
	Vendor        string          `json:"vendor"` // of the machine's list of PCI ids, as Product is
	VendorID      string          `json:"vendor_id"`
	Product       string          `json:"product"`
	ProductID     string          `json:"product_id"`
	Driver        string          `json:"driver"`
	DriverVersion string          `json:"driver_version"` // of the module, else the kernel's release
	NUMANode      int             `json:"numa_node"`
	DRM           *DRM            `json:"drm"`
	NVIDIA        *NVIDIA         `json:"nvidia"` // nil: of another vendor
	SRIOV         *SRIOV          `json:"sriov"`
	MDev          map[string]MDev `json:"mdev"` // types, by name of their folder
}

// A DRM has the nodes below /dev/dri, with "MAJOR:MINOR".
type DRM struct {
	ID           int    `json:"id"`
	CardName     string `json:"card_name"`
	CardDevice   string `json:"card_device"`
	RenderName   string `json:"render_name"`
	RenderDevice string `json:"render_device"`
}

// An NVIDIA is what the driver's proc files tell, and nvidia-container-cli where
// the machine has it: without, there are Brand, Model and the node alone.
type NVIDIA struct {
	NVRMVersion  string `json:"nvrm_version"`
	CUDAVersion  string `json:"cuda_version"`
	Brand        string `json:"brand"`
	Model        string `json:"model"`
	UUID         string `json:"uuid"`
	Architecture string `json:"architecture"` // compute capability, "8.0"
	CardName     string `json:"card_name"`    // "nvidia0"
	CardDevice   string `json:"card_device"`  // "195:0"
}

// An SRIOV counts virtual functions.
type SRIOV struct {
	CurrentVFs int    `json:"current_vfs"`
	MaximumVFs int    `json:"maximum_vfs"`
	VFs        []Card `json:"vfs"`
}

// An MDev is a type of mediated device.
type MDev struct {
	API         string   `json:"api"`
	Available   int      `json:"available"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Devices     []string `json:"devices"` // UUIDs of those that there are
}

// Cards lists the GPUs of the machine. total counts virtual functions too.
func (c *Client) Cards(ctx context.Context) (cards Cards, total int, err error) {
	var r struct {
		GPU struct {
			Cards []Card `json:"cards"`
			Total int    `json:"total"`
		} `json:"gpu"`
	}
	if err := c.get(ctx, "resources", "/1.0/resources", &r); err != nil {
		return nil, 0, err
	}
	cards = Cards{}
	for _, card := range r.GPU.Cards {
		at := card.PCIAddress
		if at == "" && card.DRM != nil {
			at = card.DRM.CardName
		}
		if _, twice := cards[at]; twice {
			return nil, 0, &Error{Op: "resources", Text: "lists " + at + " twice"}
		}
		cards[at] = card
	}
	return cards, r.GPU.Total, nil
}
