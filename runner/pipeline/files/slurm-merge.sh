#!/bin/sh
# {{mark}}: joins the shards and compares them with the last green run.
set -eu
{{- with .Setup}}
{{.}}
{{- end}}
code=0
{{.Program}} merge --report "$1/all.json" --report "$1/all.xml" --report "$1/all.md" --report "$1/all.html" "$1"/part-*.json || code=$?
if [ -e last-green.json ] && [ -e "$1/all.json" ]; then
	{{.Program}} compare --report "$1/changes.html" last-green.json "$1/all.json" || { [ "$code" != 0 ] || code=1; }
fi
if [ "$code" = 0 ]; then
	cp "$1/all.json" last-green.json.new
	mv last-green.json.new last-green.json
fi
exit "$code"
