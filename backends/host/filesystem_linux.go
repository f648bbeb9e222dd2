package host

import (
	"io/fs"
	"maps"

	"golang.org/x/sys/unix"
)

// sharedFileSystems are those (f_type of statfs(2)) that several kernels can have
// mounted at once. On them a lock of one kernel doesn't keep another out, or is lost
// while its holder is frozen.
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

// Shared names the shared file system that a folder is on; empty: none that is known.
func Shared(dir string) (name string, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return sharedFileSystems[uint32(st.Type)], nil
}

// Pretend has Shared count one more kind (f_type of statfs(2)) until undo. It is for tests, and
// not beside any call of Shared.
func Pretend(kind uint32, name string) (undo func()) {
	was := sharedFileSystems
	sharedFileSystems = maps.Clone(was)
	sharedFileSystems[kind] = name
	return func() { sharedFileSystems = was }
}

// Mounted reports whether something is mounted at the very path, as far as the
// kernel tells (since 5.8).
func Mounted(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
