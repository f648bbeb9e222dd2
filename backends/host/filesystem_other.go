//go:build !linux

package host

// Shared tells nothing here.
func Shared(string) (name string, err error) { return "", nil }

// Mounted tells nothing here.
func Mounted(string) bool { return false }
