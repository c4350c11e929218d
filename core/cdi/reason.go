package cdi

import "gpurig/core/refuse"

// Reasons of names and of finding devices by them.
const (
	BadName         refuse.Reason = "bad-name"
	NotFound        refuse.Reason = "not-found"
	AllMatchesNone  refuse.Reason = "all-matches-nothing"
	AllAndOne       refuse.Reason = "all-and-one"
	MIGAll          refuse.Reason = "mig-all"
	FullGPUOnMIG    refuse.Reason = "full-gpu-on-mig"
	DeviceConflict  refuse.Reason = "device-conflict"
	NoDeviceAsked   refuse.Reason = "no-device-asked"
	TooManyDevices  refuse.Reason = "too-many-devices"
	NoIntegratedGPU refuse.Reason = "no-integrated-gpu"
)

// Reasons of reading one Spec.
const (
	SpecEmpty           refuse.Reason = "spec-empty"
	SpecTooLarge        refuse.Reason = "spec-too-large"
	SpecEncoding        refuse.Reason = "spec-encoding"
	SpecSyntax          refuse.Reason = "spec-syntax"
	SpecYAMLFeature     refuse.Reason = "spec-yaml-feature"
	SpecDocuments       refuse.Reason = "spec-documents"
	SpecNesting         refuse.Reason = "spec-nesting"
	SpecDuplicateKey    refuse.Reason = "spec-duplicate-key"
	SpecUnknownField    refuse.Reason = "spec-unknown-field"
	SpecMissingField    refuse.Reason = "spec-missing-field"
	SpecNull            refuse.Reason = "spec-null"
	SpecType            refuse.Reason = "spec-type"
	SpecVersion         refuse.Reason = "spec-version"
	SpecName            refuse.Reason = "spec-name"
	SpecDuplicateDevice refuse.Reason = "spec-duplicate-device"
	SpecNoDevices       refuse.Reason = "spec-no-devices"
	SpecNoEdits         refuse.Reason = "spec-no-edits"
	SpecNumber          refuse.Reason = "spec-number"
	SpecNodeType        refuse.Reason = "spec-node-type"
	SpecPermissions     refuse.Reason = "spec-permissions"
	SpecMode            refuse.Reason = "spec-mode"
	SpecPath            refuse.Reason = "spec-path"
	SpecEnv             refuse.Reason = "spec-env"
	SpecHook            refuse.Reason = "spec-hook"
	SpecAnnotation      refuse.Reason = "spec-annotation"
	SpecNetDevice       refuse.Reason = "spec-net-device"
	SpecRDT             refuse.Reason = "spec-rdt"
	SpecReaderBug       refuse.Reason = "spec-reader-bug"
)

// Reasons of reading Spec directories.
const (
	SpecNotRegular refuse.Reason = "spec-not-regular"
	SpecUnreadable refuse.Reason = "spec-unreadable"
	SpecChanging   refuse.Reason = "spec-changing"
	SpecUntrusted  refuse.Reason = "spec-untrusted"
	SpecWrongDir   refuse.Reason = "spec-wrong-directory"
	SpecExtension  refuse.Reason = "spec-extension"
	SpecOverridden refuse.Reason = "spec-overridden"
)

// Reasons returns every reason of this package with its meaning, in the order
// of the constants.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: BadName, Meaning: "The text is no qualified device name, vendor/class=device."},
		{Reason: NotFound, Meaning: "No CDI Spec and no GPU of the host has that name."},
		{Reason: AllMatchesNone, Meaning: "All devices of a kind are asked for, and there are none."},
		{Reason: AllAndOne, Meaning: "All devices of a kind are asked for together with a single one of them."},
		{Reason: MIGAll, Meaning: "All MIG devices are asked for; they have to be named one by one."},
		{Reason: FullGPUOnMIG, Meaning: "A full GPU is named where a MIG device is wanted."},
		{Reason: DeviceConflict, Meaning: "Two Specs of equal priority define the same device."},
		{Reason: NoDeviceAsked, Meaning: "No device is asked for."},
		{Reason: TooManyDevices, Meaning: "More devices are asked for than any host has."},
		{Reason: NoIntegratedGPU, Meaning: "An integrated GPU is asked for where there is none."},

		{Reason: SpecEmpty, Meaning: "The file holds no Spec."},
		{Reason: SpecTooLarge, Meaning: "The Spec is larger than 1 MiB."},
		{Reason: SpecEncoding, Meaning: "The Spec has bytes that are no text, or that hide what is written."},
		{Reason: SpecSyntax, Meaning: "The Spec is neither YAML nor JSON."},
		{Reason: SpecYAMLFeature, Meaning: "The Spec uses an anchor, an alias, a merge key, a tag or a key that is no plain text."},
		{Reason: SpecDocuments, Meaning: "The file holds more than one document."},
		{Reason: SpecNesting, Meaning: "The Spec is nested deeper than any Spec can be."},
		{Reason: SpecDuplicateKey, Meaning: "A key is written twice, or twice in different case."},
		{Reason: SpecUnknownField, Meaning: "CDI has no such field."},
		{Reason: SpecMissingField, Meaning: "A field that CDI requires is missing or empty."},
		{Reason: SpecNull, Meaning: "A value is null."},
		{Reason: SpecType, Meaning: "A value is not of the type that CDI wants."},
		{Reason: SpecVersion, Meaning: "The version is unknown, or too old for the fields that the Spec uses."},
		{Reason: SpecName, Meaning: "A vendor, class or device name has characters or a length that CDI does not allow."},
		{Reason: SpecDuplicateDevice, Meaning: "The Spec defines a device twice."},
		{Reason: SpecNoDevices, Meaning: "The Spec defines no device."},
		{Reason: SpecNoEdits, Meaning: "A device has no container edits."},
		{Reason: SpecNumber, Meaning: "A number is out of range, or a device number is half given."},
		{Reason: SpecNodeType, Meaning: "A device node is neither a character nor a block device."},
		{Reason: SpecPermissions, Meaning: "The permissions of a device node are not a set of r, w and m, nor the word none."},
		{Reason: SpecMode, Meaning: "A file mode is above 0777."},
		{Reason: SpecPath, Meaning: "The path of a device node or hook is not absolute and clean, or is a pattern."},
		{Reason: SpecEnv, Meaning: "An environment variable is not written as NAME=VALUE."},
		{Reason: SpecHook, Meaning: "A hook has a name that CDI does not know, or a negative timeout."},
		{Reason: SpecAnnotation, Meaning: "An annotation's key is not allowed."},
		{Reason: SpecNetDevice, Meaning: "A network device is named twice."},
		{Reason: SpecRDT, Meaning: "The class of service of intelRdt is no file name."},
		{Reason: SpecReaderBug, Meaning: "The reader itself failed on the file; this is a bug to report."},

		{Reason: SpecNotRegular, Meaning: "The file is no regular file, or a link that leads to none."},
		{Reason: SpecUnreadable, Meaning: "The file or directory cannot be read."},
		{Reason: SpecChanging, Meaning: "The file changed while it was read, several times."},
		{Reason: SpecUntrusted, Meaning: "Somebody other than root could have written the file."},
		{Reason: SpecWrongDir, Meaning: "The vendor's Specs are locked to another directory."},
		{Reason: SpecExtension, Meaning: "The file's name ends like a Spec's, but not in .yaml or .json."},
		{Reason: SpecOverridden, Meaning: "A Spec of higher priority defines the same device; for information."},
	}
}
