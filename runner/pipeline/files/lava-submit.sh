#!/bin/sh
# {{mark}}: submits {{.N}} shards of {{.Scenarios}} scenarios, waits and joins them.
# A shard whose device was lost is submitted again, three times at most. The exit code is
# that of gpurig merge.
{{template "gather" .}}
run() { # NUMBER ATTEMPT: leaves the part, if there is one
	id=$(lavacli jobs submit "shard-$1.yaml") || return 1
	lavacli jobs wait "$id" >&2 || return 1
	lavacli jobs logs --raw "$id" >"$out/$1-$2.log" || return 1
	sed -n 's|.*gpurig-part:\([A-Za-z0-9+/=]*\):.*|\1|p' "$out/$1-$2.log" | base64 -d | gunzip -c
}
{{template "gathered" .}}
