package cmd

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// inheritedDescriptors are the descriptors from 3 on that we were started with. Nothing
// that we start inherits them from now on, unless they are handed to it. Where the system
// doesn't list them there are none, and whatever we start inherits them.
//
// It must come before anything is opened that isn't closed on exec.
func inheritedDescriptors() (list []int) {
	const first = 3
	for _, name := range openDescriptors() {
		fd, err := strconv.Atoi(name)
		if err != nil || fd < first {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue // it is Go's own, or was the listing's
		}
		unix.CloseOnExec(fd)
		list = append(list, fd)
	}
	return list
}

func openDescriptors() []string {
	folder, err := os.Open(descriptorFolder)
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	return names
}

// leaveDescriptors gives up our copies of the command's stdin and stdout and of what
// else it has inherited, so that its neighbours in a pipeline see its end, and not
// ours, as the end.
func leaveDescriptors(inherited []int) {
	for _, fd := range inherited {
		unix.Close(fd)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	for fd := range 2 {
		redirect(int(null.Fd()), fd)
	}
}
