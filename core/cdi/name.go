package cdi

import (
	"encoding"
	"strconv"
	"strings"

	"gpurig/core/refuse"
)

// Limits of the parts of a name, in bytes. CDI itself sets none; these are those
// of a domain name and of one of its labels.
const (
	MaxVendor = 253
	MaxClass  = 63
	MaxDevice = 63
)

// A Name is a qualified device name. Its text is "vendor/class=device", for
// instance "nvidia.com/gpu=0". Case matters. The zero Name names nothing.
type Name struct{ Vendor, Class, Device string }

var (
	_ encoding.TextMarshaler   = Name{}
	_ encoding.TextUnmarshaler = (*Name)(nil)
)

// Kind returns "vendor/class".
func (n Name) Kind() string { return n.Vendor + "/" + n.Class }

// String returns "vendor/class=device".
func (n Name) String() string { return n.Kind() + "=" + n.Device }

// MarshalText writes what String returns.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads what ParseName reads.
func (n *Name) UnmarshalText(t []byte) error {
	v, err := ParseName(string(t))
	if err == nil {
		*n = v
	}
	return err
}

// IsName reports whether s is meant as a qualified device name, well written or
// not: anything with a slash or an equals sign is.
func IsName(s string) bool { return strings.ContainsAny(s, "/=") }

// ParseName reads a qualified device name. The error is a *refuse.Error with the
// reason BadName and a hint that says what to write.
func ParseName(s string) (Name, error) {
	bad := func(why, hint string) (Name, error) {
		e := refuse.New(ReasonBadName, "", "CDI device name %s: %s", quote(s), why)
		return Name{}, e.WithHint("%s", hint)
	}
	const form = "Write vendor/class=device, for instance nvidia.com/gpu=0."
	if s == "" {
		return bad("it is empty", form)
	}
	kind, dev, ok := strings.Cut(s, "=")
	if !ok {
		return bad("the device is missing", missingDevice(s))
	}
	vendor, class, ok := strings.Cut(kind, "/")
	if !ok {
		return bad("the class is missing", form)
	}
	if strings.HasPrefix(dev, "MIG-GPU-") {
		return bad("the MIG names of drivers before 470 are no CDI names",
			"Write nvidia.com/mig=MIG-<uuid> as nvidia-smi -L prints it, or the options mig.gi and mig.ci.")
	}
	if why := checkKind(vendor, class); why != "" {
		return bad(why, form)
	}
	if why := checkPart("device", dev, MaxDevice, "_-.:", false); why != "" {
		return bad(why, form)
	}
	return Name{Vendor: vendor, Class: class, Device: dev}, nil
}

func missingDevice(s string) string {
	if vendor, class, ok := strings.Cut(s, "/"); ok && checkKind(vendor, class) == "" {
		return "Write " + s + "=0 for one device or " + s + "=all for all of them."
	}
	return "Write vendor/class=device, for instance nvidia.com/gpu=0."
}

// checkKind returns what is wrong with a vendor and a class, or "".
func checkKind(vendor, class string) string {
	if why := checkPart("vendor", vendor, MaxVendor, "_-.", true); why != "" {
		return why
	}
	return checkPart("class", class, MaxClass, "_-.", true)
}

// checkPart returns what is wrong with one part of a name, or "". The part is
// letters and digits, with the marks in between; some begin with a letter.
func checkPart(what, s string, most int, marks string, letter bool) string {
	switch {
	case s == "":
		return "the " + what + " is empty"
	case len(s) > most:
		return "the " + what + " has " + strconv.Itoa(len(s)) + " bytes, at most " + strconv.Itoa(most) + " are allowed"
	}
	for i, r := range s {
		if !isLetter(r) && !isDigit(r) && !strings.ContainsRune(marks, r) {
			return "the " + what + " has the character " + strconv.QuoteRuneToASCII(r) + " at byte " + strconv.Itoa(i+1) +
				"; allowed are letters, digits and " + marks
		}
	}
	first, last := rune(s[0]), rune(s[len(s)-1])
	switch {
	case letter && !isLetter(first):
		return "the " + what + " has to begin with a letter"
	case !isLetter(first) && !isDigit(first):
		return "the " + what + " has to begin with a letter or digit"
	case !isLetter(last) && !isDigit(last):
		return "the " + what + " has to end with a letter or digit"
	}
	return ""
}

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }
func isDigit(r rune) bool  { return '0' <= r && r <= '9' }

// quote quotes a stranger's text for a message: in ASCII, so that no letter can
// pass for another, and cut to what a line can hold.
func quote(s string) string {
	const most = 80
	if len(s) <= most {
		return strconv.QuoteToASCII(s)
	}
	return strconv.QuoteToASCII(s[:most]) + "… (" + strconv.Itoa(len(s)) + " bytes)"
}
