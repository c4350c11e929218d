package scenarios

import (
	"embed"
	_ "embed" // for Schema
)

// Files are the scenarios that come with the program, by area.
//
//go:embed ids dgpu faults hardware mig tegra multi-device images layouts legacy restart refusals smoke vm
var Files embed.FS

// Schema is the JSON Schema of a scenario file, for editors.
//
//go:embed schema.json
var Schema []byte
