# The commands of the same guide for vGPUs, shared in time and backed by MIG.
sudo() { "$@"; }

# The loop of the guide.
list() {
cd /sys/bus/pci/devices/0000:41:00.0/
for vf in $(ls -d virtfn*)
do
        BDF=$(basename $(readlink -f $vf))
        for md in $(ls -d $vf/mdev_supported_types/*)
        do
                AVAIL=$(cat $md/available_instances)
                NAME=$(cat $md/name)
                DIR=$(basename $md)

                if [ $AVAIL -gt 0 ]; then
                        echo "| BDF          | INSTANCES | NAME           | DIR        |"
                        echo "+--------------+-----------+----------------+------------+"
                        printf "| %12s |%10d |%15s | %10s |\n\n" "$BDF" "$AVAIL" "$NAME" "$DIR"
                fi

        done
done
}

# The A30X beside it is for passthrough: commands that name no GPU leave it alone.
echo 0000:d0:00.0 > /sys/bus/pci/drivers/nvidia/unbind

# -- mode
sudo nvidia-smi -mig 0
# -- enable
sudo /usr/lib/nvidia/sriov-manage -e 0000:41:00.0
# -- virtfn
cd /sys/bus/pci/devices/0000:41:00.0/
ls -l | grep virtfn
# -- types
list
# -- create
cd virtfn0/mdev_supported_types/nvidia-692
UUIDGEN=$(uuidgen)
sudo bash -c "echo $UUIDGEN > create"
ls -l /sys/bus/mdev/devices/
# -- device
ls -l /sys/bus/mdev/devices/*/
# -- nodes
ls -l /dev/vfio
# -- rest
list
# -- mig
echo 1 > /sys/bus/mdev/devices/$UUIDGEN/remove
sudo nvidia-smi -mig 1
sudo nvidia-smi --gpu-reset
# -- none
list
# -- lgip
sudo nvidia-smi mig -lgip
# -- cgi
sudo nvidia-smi mig -cgi 19
# -- nine
# On the guide's board more of them were made.
sudo nvidia-smi mig -cgi 19,19,19,19,19
# -- lgi
sudo nvidia-smi mig -lgi
# -- cci
sudo nvidia-smi mig -cci -gi 9
# -- smi
nvidia-smi
# -- backed
list
# -- uuid
cd virtfn0/mdev_supported_types/nvidia-699
uuidgen > create
cat available_instances
cat /sys/bus/pci/devices/0000:41:00.0/virtfn1/mdev_supported_types/nvidia-699/available_instances
