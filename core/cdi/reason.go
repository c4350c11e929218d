package cdi

import "gpurig/core/refuse"

// Reasons of names and of finding devices by them.
const (
	ReasonBadName         refuse.Reason = "bad-name"
	ReasonNotFound        refuse.Reason = "not-found"
	ReasonAllMatchesNone  refuse.Reason = "all-matches-nothing"
	ReasonAllAndOne       refuse.Reason = "all-and-one"
	ReasonMIGAll          refuse.Reason = "mig-all"
	ReasonFullGPUOnMIG    refuse.Reason = "full-gpu-on-mig"
	ReasonDeviceConflict  refuse.Reason = "device-conflict"
	ReasonNoDeviceAsked   refuse.Reason = "no-device-asked"
	ReasonTooManyDevices  refuse.Reason = "too-many-devices"
	ReasonNoIntegratedGPU refuse.Reason = "no-integrated-gpu"
)

// Reasons of reading one Spec.
const (
	ReasonSpecEmpty           refuse.Reason = "spec-empty"
	ReasonSpecTooLarge        refuse.Reason = "spec-too-large"
	ReasonSpecEncoding        refuse.Reason = "spec-encoding"
	ReasonSpecSyntax          refuse.Reason = "spec-syntax"
	ReasonSpecYAMLFeature     refuse.Reason = "spec-yaml-feature"
	ReasonSpecDocuments       refuse.Reason = "spec-documents"
	ReasonSpecNesting         refuse.Reason = "spec-nesting"
	ReasonSpecDuplicateKey    refuse.Reason = "spec-duplicate-key"
	ReasonSpecUnknownField    refuse.Reason = "spec-unknown-field"
	ReasonSpecMissingField    refuse.Reason = "spec-missing-field"
	ReasonSpecNull            refuse.Reason = "spec-null"
	ReasonSpecType            refuse.Reason = "spec-type"
	ReasonSpecVersion         refuse.Reason = "spec-version"
	ReasonSpecName            refuse.Reason = "spec-name"
	ReasonSpecDuplicateDevice refuse.Reason = "spec-duplicate-device"
	ReasonSpecNoDevices       refuse.Reason = "spec-no-devices"
	ReasonSpecNoEdits         refuse.Reason = "spec-no-edits"
	ReasonSpecNumber          refuse.Reason = "spec-number"
	ReasonSpecNodeType        refuse.Reason = "spec-node-type"
	ReasonSpecPermissions     refuse.Reason = "spec-permissions"
	ReasonSpecMode            refuse.Reason = "spec-mode"
	ReasonSpecPath            refuse.Reason = "spec-path"
	ReasonSpecEnv             refuse.Reason = "spec-env"
	ReasonSpecHook            refuse.Reason = "spec-hook"
	ReasonSpecAnnotation      refuse.Reason = "spec-annotation"
	ReasonSpecNetDevice       refuse.Reason = "spec-net-device"
	ReasonSpecRDT             refuse.Reason = "spec-rdt"
	ReasonSpecReaderBug       refuse.Reason = "spec-reader-bug"
)

// Reasons of reading Spec directories.
const (
	ReasonSpecNotRegular refuse.Reason = "spec-not-regular"
	ReasonSpecUnreadable refuse.Reason = "spec-unreadable"
	ReasonSpecChanging   refuse.Reason = "spec-changing"
	ReasonSpecUntrusted  refuse.Reason = "spec-untrusted"
	ReasonSpecWrongDir   refuse.Reason = "spec-wrong-directory"
	ReasonSpecExtension  refuse.Reason = "spec-extension"
	ReasonSpecOverridden refuse.Reason = "spec-overridden"
)

// Reasons returns every reason of this package with its meaning, in the order
// of the constants.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: ReasonBadName, Meaning: "The text is not a qualified device name, vendor/class=device."},
		{Reason: ReasonNotFound, Meaning: "No CDI Spec and no GPU of the host has that name."},
		{Reason: ReasonAllMatchesNone, Meaning: "All devices of a kind are requested, and there are none."},
		{Reason: ReasonAllAndOne, Meaning: "All devices of a kind are requested together with a single one of them."},
		{Reason: ReasonMIGAll, Meaning: "All MIG devices are requested; they have to be named one by one."},
		{Reason: ReasonFullGPUOnMIG, Meaning: "A full GPU is named where a MIG device is required."},
		{Reason: ReasonDeviceConflict, Meaning: "Two Specs of equal priority define the same device."},
		{Reason: ReasonNoDeviceAsked, Meaning: "No device is requested."},
		{Reason: ReasonTooManyDevices, Meaning: "More devices are requested than any host has."},
		{Reason: ReasonNoIntegratedGPU, Meaning: "An integrated GPU is requested where there is none."},

		{Reason: ReasonSpecEmpty, Meaning: "The file holds no Spec."},
		{Reason: ReasonSpecTooLarge, Meaning: "The Spec is larger than 1 MiB."},
		{Reason: ReasonSpecEncoding, Meaning: "The Spec has bytes that are not text, or invisible characters."},
		{Reason: ReasonSpecSyntax, Meaning: "The Spec is neither YAML nor JSON."},
		{Reason: ReasonSpecYAMLFeature, Meaning: "The Spec uses an anchor, an alias, a merge key, a tag or a key that is not plain text."},
		{Reason: ReasonSpecDocuments, Meaning: "The file holds more than one document."},
		{Reason: ReasonSpecNesting, Meaning: "The Spec is nested deeper than any Spec can be."},
		{Reason: ReasonSpecDuplicateKey, Meaning: "A key is written twice, or twice in different case."},
		{Reason: ReasonSpecUnknownField, Meaning: "CDI has no such field."},
		{Reason: ReasonSpecMissingField, Meaning: "A field that CDI requires is missing or empty."},
		{Reason: ReasonSpecNull, Meaning: "A value is null."},
		{Reason: ReasonSpecType, Meaning: "A value is not of the type that CDI wants."},
		{Reason: ReasonSpecVersion, Meaning: "The version is unknown, or too old for the fields that the Spec uses."},
		{Reason: ReasonSpecName, Meaning: "A vendor, class or device name has characters or a length that CDI does not allow."},
		{Reason: ReasonSpecDuplicateDevice, Meaning: "The Spec defines a device twice."},
		{Reason: ReasonSpecNoDevices, Meaning: "The Spec defines no device."},
		{Reason: ReasonSpecNoEdits, Meaning: "A device has no container edits."},
		{Reason: ReasonSpecNumber, Meaning: "A number is out of range, or only half of a device number is given."},
		{Reason: ReasonSpecNodeType, Meaning: "A device node is neither a character nor a block device."},
		{Reason: ReasonSpecPermissions, Meaning: "The permissions of a device node are not a set of r, w and m, nor the word none."},
		{Reason: ReasonSpecMode, Meaning: "A file mode is above 0777."},
		{Reason: ReasonSpecPath, Meaning: "The path of a device node or hook is not absolute and clean, or is a pattern."},
		{Reason: ReasonSpecEnv, Meaning: "An environment variable is not written as NAME=VALUE."},
		{Reason: ReasonSpecHook, Meaning: "A hook has a name that CDI does not know, or a negative timeout."},
		{Reason: ReasonSpecAnnotation, Meaning: "An annotation's key is not allowed."},
		{Reason: ReasonSpecNetDevice, Meaning: "A network device is named twice."},
		{Reason: ReasonSpecRDT, Meaning: "The class of service of intelRdt is not a file name."},
		{Reason: ReasonSpecReaderBug, Meaning: "The reader itself failed on the file; this is a bug to report."},

		{Reason: ReasonSpecNotRegular, Meaning: "The file is not a regular file, or a link that does not lead to one."},
		{Reason: ReasonSpecUnreadable, Meaning: "The file or directory cannot be read."},
		{Reason: ReasonSpecChanging, Meaning: "The file changed while it was read, several times."},
		{Reason: ReasonSpecUntrusted, Meaning: "Users other than root could have written to the file."},
		{Reason: ReasonSpecWrongDir, Meaning: "The vendor's Specs are locked to another directory."},
		{Reason: ReasonSpecExtension, Meaning: "The file's name ends like a Spec's, but not in .yaml or .json."},
		{Reason: ReasonSpecOverridden, Meaning: "A Spec of higher priority defines the same device; for information."},
	}
}
