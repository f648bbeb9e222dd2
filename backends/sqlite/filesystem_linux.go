//go:build cgo && linux

package sqlite

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"flockd/backends"
)

// sharedFileSystems are those (f_type of statfs(2)) that several kernels can have
// mounted at once. On them SQLite's locks and its log's shared memory don't
// hold between hosts, and the other host's holders look as if they were gone with
// another boot.
var sharedFileSystems = map[uint32]string{
	0x6969:     "NFS",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB",
	0x517b:     "SMB",
	0x65735546: "FUSE or virtiofs",
	0x01021997: "9p",
	0x00c36400: "Ceph",
	0x0bd00bd0: "Lustre",
	0x5346414f: "AFS",
	0x6b414653: "AFS",
	0x73757245: "Coda",
	0x7461636f: "OCFS2",
	0x01161970: "GFS2",
	0x47504653: "GPFS",
	0x19830326: "BeeGFS",
	0xaad7aaea: "PanFS",
	0x786f4256: "VirtualBox shared folder",
	0xbacbacbc: "VMware shared folder",
}

func checkFileSystem(dir string) error {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return backends.Refuse("mkdir -m 700 "+dir, "the folder %s doesn't exist", dir)
	}
	if err != nil {
		return backends.Refuse("", "%w", &fs.PathError{Op: "statfs", Path: dir, Err: err})
	}
	if name, ok := sharedFileSystems[uint32(st.Type)]; ok {
		return backends.Refuse(elsewhere,
			"%s is on a network or shared file system (%s), where SQLite can't keep a lock", dir, name)
	}
	return nil
}
