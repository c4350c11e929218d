# The commands of Kata's guide for NVIDIA GPUs, as printed, for a GPU that is passed
# through whole:
# https://github.com/kata-containers/kata-containers/blob/main/docs/use-cases/NVIDIA-GPU-passthrough-and-Kata.md
# "sudo" is a function here: who runs this is root. A line "# -- NAME" begins what
# is compared under that name.
sudo() { "$@"; }

# -- find
sudo lspci -nn -D | grep -i nvidia
# -- regions
lspci -s d0:00.0 -vv | grep Region
# -- group
BDF="0000:d0:00.0"
readlink -e /sys/bus/pci/devices/$BDF/iommu_group
# -- bind
DEV="/sys/bus/pci/devices/$BDF"
echo "vfio-pci" > $DEV/driver_override
echo $BDF > $DEV/driver/unbind
echo $BDF > /sys/bus/pci/drivers_probe
# -- nodes
ls -l /dev/vfio
# -- driver
basename $(readlink $DEV/driver)
ls /dev | grep -x 'nvidia[0-9]*'
nvidia-smi -L
# -- return
# The guide clears "preferred_driver", which no kernel has; the override stands.
echo > $DEV/preferred_driver
echo $BDF > $DEV/driver/unbind
echo $BDF > /sys/bus/pci/drivers_probe
basename $(readlink $DEV/driver)
# What it means:
echo > $DEV/driver_override
echo $BDF > $DEV/driver/unbind
ls /dev/vfio
echo $BDF > /sys/bus/pci/drivers_probe
basename $(readlink $DEV/driver)
ls /dev | grep -x 'nvidia[0-9]*'
