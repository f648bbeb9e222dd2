//go:build cgo && linux

package sqlite

import (
	"errors"
	"io/fs"

	"flockd/backends"
	"flockd/backends/host"
)

// checkFileSystem refuses a folder that other kernels may have mounted as well. There
// SQLite's locks and its log's shared memory don't hold between hosts, and the other
// host's holders look as if they were gone with another boot.
func checkFileSystem(dir string) error {
	name, err := host.Shared(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return backends.Refuse("mkdir -m 700 "+dir, "the folder %s doesn't exist", dir)
	case err != nil:
		return backends.Refuse("", "%w", err)
	case name != "":
		return backends.Refuse(elsewhere,
			"%s is on a network or shared file system (%s), where SQLite can't keep a lock", dir, name)
	}
	return nil
}
