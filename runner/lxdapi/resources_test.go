package lxdapi_test

import (
	"context"
	"strings"
	"testing"
)

// What LXD 5.0.2 said on a host with a platform GPU and a card, shortened.
func TestCards(t *testing.T) {
	c := dial(t, map[string]string{"GET /1.0/resources": `{"type":"sync","metadata":{"gpu":{"total":3,"cards":[
		{"driver":"tegra-host1x","driver_version":"5.15.148-tegra","numa_node":0,"drm":{"id":0,"card_name":"card0","card_device":"226:0"}},
		{"driver":"nvidia","driver_version":"540.4.0","pci_address":"0005:09:00.0","vendor":"NVIDIA Corporation","vendor_id":"10de",
		 "sriov":{"current_vfs":1,"maximum_vfs":32,"vfs":[{"pci_address":"0005:09:00.4","mdev":{"nvidia-558":{"name":"NVIDIA A40-2Q","available":1,"devices":[]}}}]},
		 "nvidia":{"brand":"NVIDIA","model":"NVIDIA A40","card_name":"nvidia1","card_device":"195:1"}}]}}}`})
	cards, total, err := c.Cards(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	soc, card := cards["card0"], cards["0005:09:00.0"]
	if total != 3 || len(cards) != 2 || soc.DRM == nil || soc.DRM.CardDevice != "226:0" || soc.NVIDIA != nil {
		t.Errorf("%d cards: %+v", total, cards)
	}
	if card.NVIDIA == nil || card.NVIDIA.CardDevice != "195:1" || card.DRM != nil || len(card.SRIOV.VFs) != 1 || card.SRIOV.VFs[0].MDev["nvidia-558"].Available != 1 {
		t.Errorf("card: %+v", card)
	}
}

func TestCardsListedTwiceAreRefused(t *testing.T) {
	c := dial(t, map[string]string{"GET /1.0/resources": `{"type":"sync","metadata":{"gpu":{"cards":[{"pci_address":"0000:01:00.0"},{"pci_address":"0000:01:00.0"}]}}}`})
	if cards, _, err := c.Cards(context.Background()); cards != nil || err == nil || !strings.Contains(err.Error(), "0000:01:00.0 twice") {
		t.Errorf("Cards() = %v, %v", cards, err)
	}
}
