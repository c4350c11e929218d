#!/bin/sh
# {{mark}}: {{.N}} shards of {{.Scenarios}} scenarios, and a job that joins them.
# submit.sh [SBATCH-OPTION...]: submits all and waits. Its exit code is that of gpurig merge:
# 0 all passed, 1 a scenario failed or got worse since the last green run, 3 no verdict for some.
# The folder must be one that all nodes share. Nodes need the features named below.
set -eu
cd "$(dirname "$0")"
out=${GPURIG_OUT:-run-$(date -u +%Y%m%dT%H%M%SZ)}
mkdir "$out"
jobs=""
# A shard that no node could run within a day ends, and is missing in the joined report.
array() { # SHARDS MINUTES SBATCH-OPTION...: submits them
	shards=$1 minutes=$2
	shift 2
	id=$(sbatch --parsable --requeue --deadline="now+${GPURIG_DEADLINE:-24hours}" --array="$shards" --time="$minutes" --output="$out/%a.log" "$@" shard.sh "$out")
	jobs=$jobs:${id%%;*}
}
{{- range .Groups}}
array {{.First}}-{{.Last}} {{.Minutes}} --job-name=gpurig-{{.Name}}{{if .Features}} --constraint='{{join "&" .Features}}'{{end}}{{if $.Hardware}} --exclusive{{end}} "$@"
{{- end}}
echo "$out: jobs ${jobs#:}" >&2
code=0
sbatch --wait --requeue --dependency="afterany$jobs" --job-name=gpurig-merge --output="$out/merge.log" "$@" merge.sh "$out" >&2 || code=$?
cat "$out/merge.log"
exit "$code"
