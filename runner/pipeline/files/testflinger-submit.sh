#!/bin/sh
# {{mark}}: submits {{.N}} shards of {{.Scenarios}} scenarios, waits and joins them.
# Beside it lies gpurig-kit.tar.gz (make hardware-kit). A shard whose machine was lost is
# submitted again, three times at most. The exit code is that of gpurig merge.
{{template "gather" .}}
run() { # NUMBER ATTEMPT: leaves the part, if there is one
	id=$(testflinger-cli submit --quiet "shard-$1.yaml") || return 1
	testflinger-cli poll "$id" >"$out/$1-$2.log" 2>&1 || true
	testflinger-cli artifacts --filename "$out/$1-$2.tgz" "$id" >>"$out/$1-$2.log" 2>&1 || return 1
	tar -xzOf "$out/$1-$2.tgz" --wildcards "*part-$1.json"
}
{{template "gathered" .}}
{{define "gather"}}set -eu
cd "$(dirname "$0")"
out=${GPURIG_OUT:-run-$(date -u +%Y%m%dT%H%M%SZ)}
mkdir "$out"
{{- end}}
{{define "gathered"}}shard() { # NUMBER: until its part is whole
	for attempt in 1 2 3; do
		part=$out/part-$1-$attempt.json
		run "$1" "$attempt" >"$part.new" || rm -f "$part.new"
		[ -s "$part.new" ] || continue
		mv "$part.new" "$part"
		! grep -q '"complete": true' "$part" || return 0
	done
	echo "shard $1 has no whole report after 3 attempts" >&2
}
for k in {{range $i, $g := .Groups}}{{range $j, $k := .Numbers}}{{if or $i $j}} {{end}}{{$k}}{{end}}{{end}}; do
	shard "$k" &
done
wait
code=0
gpurig merge --report "$out/all.json" --report "$out/all.xml" --report "$out/all.md" --report "$out/all.html" "$out"/part-*.json || code=$?
if [ -e last-green.json ] && [ -e "$out/all.json" ]; then
	gpurig compare --report "$out/changes.html" last-green.json "$out/all.json" || { [ "$code" != 0 ] || code=1; }
fi
[ "$code" != 0 ] || cp "$out/all.json" last-green.json
exit "$code"
{{- end -}}
