# What an administrator types to have a vGPU that is kept.
/usr/lib/nvidia/sriov-manage -e ALL >/dev/null
U=7f1b0d2c-0f5c-4b1e-9d51-5d1f8f2f6b11
AT=/sys/bus/pci/devices/0000:3b:00.4/mdev_supported_types/nvidia-557
# -- types
mdevctl types
# -- defined
mdevctl define --uuid $U --parent 0000:3b:00.4 --type nvidia-557
mdevctl list --defined
# -- started
mdevctl start --uuid $U
mdevctl list
# -- sysfs
ls /sys/bus/mdev/devices
cat $AT/available_instances
# -- twice
mdevctl start --uuid $U
# -- stopped
mdevctl stop --uuid $U
cat $AT/available_instances
# -- again
mdevctl start --uuid $U
mdevctl stop --uuid $U
cat $AT/available_instances
# -- unknown
mdevctl start --uuid $(uuidgen) --parent 0000:3b:00.4 --type nvidia-1
# -- gone
mdevctl undefine --uuid $U
mdevctl list --defined
