package vfio

import (
	"crypto/sha1" // #nosec G505 -- what RFC 9562 says for version 5; nothing is kept secret by it
	"encoding/hex"
	"fmt"
	"strings"
)

// namespace is the UUID in which those of mediated devices are names.
const namespace = "5f0cf6c6-4d2c-5b1e-9a57-0f6b1c5f3d10"

// uuidOf returns the version-5 UUID (RFC 9562, 5.5) of a device of an instance: the
// same for the same names, on any host.
func uuidOf(instance, device string) string {
	space, _ := hex.DecodeString(strings.ReplaceAll(namespace, "-", ""))
	sum := sha1.Sum(fmt.Appendf(space, "%d:%s%s", len(instance), instance, device)) // #nosec G401
	sum[6] = sum[6]&0x0f | 0x50
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// isUUID reports whether s is a UUID as the kernel prints it.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range []byte(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (c == '-') || !dash && !strings.ContainsRune("0123456789abcdef", rune(c)) {
			return false
		}
	}
	return true
}
