#!/bin/sh
# {{mark}}: one shard. A node that is lost has its shard put back into the queue;
# what it writes if it comes back has another name, and gpurig merge counts it once.
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --open-mode=append
#SBATCH --signal=B:INT@60
set -eu
part=$1/part-$SLURM_ARRAY_TASK_ID-${SLURM_RESTART_COUNT:-0}.json
echo "shard $SLURM_ARRAY_TASK_ID/{{.N}} on $SLURMD_NODENAME, attempt $((${SLURM_RESTART_COUNT:-0} + 1))"
{{- with .Setup}}
{{.}}
{{- end}}
exec {{.Run "$SLURM_ARRAY_TASK_ID"}} --report "$part"
