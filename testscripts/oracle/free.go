//go:build linux

package oracle

import (
	"errors"
	"io/fs"
	"os"
)

// Free reports whether nobody has a lock on the file: neither a holder nor a process that
// it left. It takes none itself.
func Free(name string) (bool, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	l, err := first(f, 0, end)
	return l == nil, err
}
